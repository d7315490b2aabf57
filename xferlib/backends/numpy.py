"""The NumPy backend."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np

from xferlib._core.arrays import Array, ArrayInfo, address, array_at, refuse_masked
from xferlib._core.backend import PlainArrays
from xferlib._core.device import Capabilities, Device, RawStream
from xferlib.backends.host import WHY_HOST, HostBackend, no_memory, over


class NumpyBackend(HostBackend):
    """NumPy arrays on the CPU: always there, and the reference."""

    name = "numpy"
    array_types = ("numpy.ndarray", "numpy.generic")
    capabilities = Capabilities(namespace=True, strided=True, graphs=True, why=WHY_HOST)

    def namespace(self) -> ModuleType:
        return np

    def empty(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream
    ) -> np.ndarray[Any, Any]:
        try:
            return np.empty(shape, dtype)
        except MemoryError as error:
            raise no_memory(shape, dtype, device) from error

    plain_arrays = PlainArrays(np.ndarray)

    def over(
        self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, owner: Any
    ) -> np.ndarray[Any, Any]:
        return over(pointer, shape, dtype, owner)

    def device_of(self, array: Array) -> Device:
        return self.device

    def view(self, array: Array) -> ArrayInfo:
        a = self.host_view(array)
        return ArrayInfo(address(a), a.shape, a.strides, a.dtype, self.device, a.flags.writeable)

    def host_view(self, array: Array) -> np.ndarray[Any, Any]:
        if type(array) is not np.ndarray and isinstance(array, np.ndarray):
            refuse_masked(array, "the array")
        return np.asarray(array)

    signature = staticmethod(attrgetter("__class__", "dtype", "shape", "strides"))  # type: ignore[assignment]

    def strided_view(
        self, array: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Array:
        pointer = array.__array_interface__["data"][0] + offset
        return array_at(pointer, shape, strides, dtype, array, is_writable=array.flags.writeable)

    def operands(self, arrays: Sequence[Array]) -> list[np.ndarray[Any, Any]]:
        return [each.view(np.ndarray) for each in arrays]  # a memory map is an array like any other here
