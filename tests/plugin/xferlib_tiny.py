"""A third party's backend in thirty lines: arrays that are a name for a NumPy array."""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib.backends.base import WHY_HOST, ArrayInfo, Capabilities, Device, HostBackend, RawStream
from xferlib.errors import BackendUnavailableError


class TinyArray:
    """Owns a NumPy array and does nothing else."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getitem__(self, key: Any) -> TinyArray:
        return type(self)(self.data[key])

    def transpose(self, *axes: int) -> TinyArray:
        return type(self)(self.data.transpose(*axes))


class TinyBackend(HostBackend):
    """The model for a library on the CPU."""

    name = "tiny"
    array_class: type = TinyArray
    array_types = ("xferlib_tiny.TinyArray",)
    capabilities = Capabilities(strided=True, why={**WHY_HOST, "namespace": "TinyArray cannot compute"})

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> Any:
        return self.array_class(np.empty(shape, dtype))

    def view(self, array: TinyArray) -> ArrayInfo:
        a = array.data
        return ArrayInfo(a.ctypes.data, a.shape, a.strides, a.dtype, self.device, a.flags.writeable)

    def host_view(self, array: TinyArray) -> np.ndarray[Any, Any]:
        view: np.ndarray[Any, Any] = array.data
        return view


def BrokenBackend() -> TinyBackend:
    """A backend whose library is there but cannot run."""
    raise BackendUnavailableError("the broken device is not plugged in")
