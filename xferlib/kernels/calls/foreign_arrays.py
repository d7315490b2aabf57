"""Arrays of libraries that are no backend, as arguments of a raw kernel: by CUDA's array interface, or DLPack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import registry
from xferlib._core.array import check_dtype, is_c_contiguous
from xferlib._core.ordering import capture
from xferlib._runtime.checks import has
from xferlib.errors import KernelTypeError, LayoutError, XferError
from xferlib.kernels.calls.arguments import is_scalar

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream
    from xferlib.kernels.frontends.raw.signature import RawParameter


class _Interface:
    """The checked description of an array by CUDA's array interface."""

    __slots__ = ("dtype", "pointer", "shape", "stream")

    def __init__(self, kernel: str, parameter: RawParameter, value: Any) -> None:
        interface = value.__cuda_array_interface__
        self.shape = tuple(interface["shape"])
        self.dtype = check_dtype(np.dtype(interface["typestr"]), what=parameter.name)
        strides = interface.get("strides")
        pointer, is_read_only = interface["data"]
        if strides is not None and not is_c_contiguous(self.shape, tuple(strides), self.dtype.itemsize):
            raise LayoutError(
                f"{kernel}(): argument {parameter.name!r} has byte strides {tuple(strides)}, and a pointer knows no "
                "strides; pass a copy in C order"
            )
        if is_read_only and not parameter.is_const:
            raise LayoutError(f"{kernel}(): argument {parameter.name!r} is read-only; pass a writable array")
        self.pointer = int(pointer)
        stream = interface.get("stream")
        self.stream = None if stream is None else int(stream)


class Adopted:
    """The arguments of a launch, foreign arrays as arrays of one backend.

    Args:
        kernel: Its name, for messages.
        parameters: Its parameters.
        args: As given.
        backend: The part of the backend that launches, where no argument decides it.
        device: Where it launches, likewise. Memory that CUDA's array interface describes is where the driver says.
    """

    def __init__(
        self, kernel: str, parameters: Sequence[RawParameter], args: Sequence[Any], backend: Backend, device: Device
    ) -> None:
        self.args = list(args)
        self._streams: list[int] = []
        without_memory: list[tuple[int, Any]] = []
        for number, (parameter, value) in enumerate(zip(parameters, args, strict=True)):
            if not (parameter.is_pointer and is_foreign(value)):
                continue
            if device.kind == "cuda" and hasattr(value, "__cuda_array_interface__"):
                found = _Interface(kernel, parameter, value)
                if found.stream is not None:
                    self._streams.append(found.stream)
                if 0 in found.shape:
                    without_memory.append((number, found))
                    continue
                device = backend.device_at(found.pointer)
                backend.attach(device)
                self.args[number] = backend.over(found.pointer, found.shape, found.dtype, device=device, owner=value)
            elif hasattr(value, "__dlpack__"):
                namespace: Any = backend.namespace()
                try:
                    self.args[number] = namespace.from_dlpack(value)
                except (XferError, BufferError, MemoryError):
                    raise
                except Exception as error:  # a stranger's object may raise anything
                    raise KernelTypeError(
                        f"{kernel}(): argument {parameter.name!r} is {type(value).__name__}, whose DLPack gives no "
                        f"array ({type(error).__name__}: {error}); pass an array of a backend"
                    ) from error
            else:
                raise KernelTypeError(
                    f"{kernel}(): argument {parameter.name!r} is memory of a GPU, and the kernel runs on {device}; "
                    "choose a backend with CUDA: xferlib.use_backend(...)"
                )
        for number, found in without_memory:  # which fit any device: that of the others
            stream = backend.stream_current(device)
            self.args[number] = backend.empty(found.shape, found.dtype, device=device, stream=stream)

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
    return has(value, "__cuda_array_interface__") or has(value, "__dlpack__")
