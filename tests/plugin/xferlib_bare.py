"""A library without functions: arrays that are memory, shape and strides, to which xferlib gives a namespace."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from xferlib.backends.base import WHY_HOST, ArrayInfo, Capabilities, Device, HostBackend, RawStream, make_namespace


class BareArray:
    """Owns a NumPy array, or a view of one, and does nothing else."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.shape = data.shape
        self.dtype = data.dtype


class BareBackend(HostBackend):
    """The model for a library on the CPU to which xferlib gives its functions."""

    name = "bare"
    array_class: type = BareArray
    array_types = ("xferlib_bare.BareArray",)
    capabilities = Capabilities(strided=True, namespace=True, why=WHY_HOST)

    def __init__(self) -> None:
        super().__init__()
        self._namespace = make_namespace(self, self.array_class)

    def namespace(self) -> ModuleType:
        return self._namespace

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> BareArray:
        found: BareArray = self.array_class(np.empty(shape, dtype))
        return found

    def view(self, array: BareArray) -> ArrayInfo:
        a = array.data
        return ArrayInfo(a.ctypes.data, a.shape, a.strides, a.dtype, self.device, a.flags.writeable)

    def host_view(self, array: BareArray) -> np.ndarray[Any, Any]:
        view: np.ndarray[Any, Any] = array.data
        return view

    def strided_view(
        self, array: BareArray, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
    ) -> BareArray:
        owner = array.data
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        start = array.data.ctypes.data + offset - owner.ctypes.data if 0 not in shape else 0
        found = np.ndarray(shape, dtype, owner, start, strides)
        shares = 0 not in shape and any(n > 1 and not step for n, step in zip(shape, strides, strict=True))
        found.flags.writeable = array.data.flags.writeable and not shares
        view: BareArray = self.array_class(found)
        return view
