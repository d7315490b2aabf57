"""Arrays of libraries that are no backend, as arguments of a raw kernel: by CUDA's array interface, or DLPack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import registry
from xferlib._core.array import check_dtype, is_c_contiguous
from xferlib._core.ordering import capture
from xferlib.errors import KernelTypeError, LayoutError
from xferlib.kernels.calls.arguments import is_scalar

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream
    from xferlib.kernels.frontends.raw.signature import RawParameter


class Adopted:
    """The arguments of a launch, foreign arrays as arrays of one backend.

    Args:
        kernel: Its name, for messages.
        parameters: Its parameters.
        args: As given.
        backend: The part of the backend that launches, where no argument decides it.
        device: Where it launches, likewise.
    """

    def __init__(
        self, kernel: str, parameters: Sequence[RawParameter], args: Sequence[Any], backend: Backend, device: Device
    ) -> None:
        self.args = list(args)
        self._streams: list[int] = []
        for number, (parameter, value) in enumerate(zip(parameters, args, strict=True)):
            if not (parameter.is_pointer and is_foreign(value)):
                continue
            if device.kind == "cuda" and hasattr(value, "__cuda_array_interface__"):
                self.args[number] = self._described(kernel, parameter, value, backend, device)
            elif hasattr(value, "__dlpack__"):
                namespace: Any = backend.namespace()
                self.args[number] = namespace.from_dlpack(value)
            else:
                raise KernelTypeError(
                    f"{kernel}(): argument {parameter.name!r} is memory of a GPU, and the kernel runs on {device}; "
                    "choose a backend with CUDA: xferlib.use_backend(...)"
                )

    def _described(self, kernel: str, parameter: RawParameter, value: Any, backend: Backend, device: Device) -> Any:
        interface = value.__cuda_array_interface__
        shape, dtype = tuple(interface["shape"]), check_dtype(np.dtype(interface["typestr"]), what=parameter.name)
        strides = interface.get("strides")
        pointer, is_read_only = interface["data"]
        if strides is not None and not is_c_contiguous(shape, tuple(strides), dtype.itemsize):
            raise LayoutError(
                f"{kernel}(): argument {parameter.name!r} has byte strides {tuple(strides)}, and a pointer knows no "
                "strides; pass a copy in C order"
            )
        if is_read_only and not parameter.is_const:
            raise LayoutError(f"{kernel}(): argument {parameter.name!r} is read-only; pass a writable array")
        if interface.get("stream") is not None:
            self._streams.append(int(interface["stream"]))
        if 0 in shape:
            return backend.empty(shape, dtype, device=device, stream=backend.stream_current(device))
        return backend.over(int(pointer), shape, dtype, device=device, owner=value)

    def order(self, backend: Backend, target: RawStream) -> None:
        """Make ``target`` wait for the streams on which the foreign arrays are written."""
        for handle in self._streams:
            if handle != target.handle:
                capture.refuse("an array of another library as an argument", target)
                other = backend.stream_wrap(handle, target.device)
                backend.event_wait(target, backend.event_record(other, timing=False))


def is_foreign(value: Any) -> bool:
    """Whether a value is an array of a library that is no backend."""
    if value is None or is_scalar(value) or registry.backend_of(value) is not None:
        return False
    return hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack__")
