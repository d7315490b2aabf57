"""cuBLAS, cuSOLVER and cuFFT by the bindings of nvmath-python: handles, workspaces, and errors.

A stream is a property of a handle, so a call takes a handle that no other call has. One is destroyed only if a call
was interrupted; at the end of the process the others go with it.
"""

from __future__ import annotations

import collections
import importlib
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._runtime.version import install_command
from xferlib.backends.device_math import DeviceMath
from xferlib.errors import DeviceMemoryError, KernelError, UnsupportedError, XferError

if TYPE_CHECKING:
    from xferlib._core.array import Array, ArrayInfo
    from xferlib._core.raw import RawStream

DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "complex64": 4, "complex128": 5}
"""``cudaDataType`` of each dtype."""
_LIBRARIES = {"cublas": "cuBLAS", "cusolverDn": "cuSOLVER", "cufft": "cuFFT"}
_TOO_LITTLE = ("ALLOC_FAILED", "NO_WORKSPACE")
"""In the names of the libraries' results."""


def load_bindings(load: Callable[[str], Any] = importlib.import_module) -> dict[str, Any] | None:
    """The binding of each library; None if nvmath-python is not installed."""
    try:
        return {name: load(f"nvmath.bindings.{name}") for name in _LIBRARIES}
    except ImportError:
        return None


class Handle:
    """A handle of a library, and the handle of the stream that it works on."""

    def __init__(self, number: int, destroy: Callable[[int], Any]) -> None:
        self.number = number
        self.stream = -1
        self._destroy = destroy
        self._pid = os.getpid()

    def __del__(self) -> None:
        if hasattr(self, "_pid") and self._pid == os.getpid() and not sys.is_finalizing():
            try:
                self._destroy(self.number)
            except Exception:  # the context is going away, and the handle with it
                return


def failure(library: str, name: str, error: Exception) -> Exception:
    """The error of a library as xferlib's; ``name`` says what was asked of it."""
    told = f"{name}: {library} failed with {str(error) or type(error).__name__}"
    if any(each in str(error) for each in _TOO_LITTLE):
        return DeviceMemoryError(f"{told}; free device arrays, or compute with fewer at a time")
    if isinstance(error, RuntimeError):  # nvmath found no library, or no such function in it
        return UnsupportedError(f"{told}; install the library: {install_command('pycuda-math')}")
    return KernelError(f"{told}; `xferlib info` shows the driver and the devices")


class translated:  # noqa: N801 - read as a statement
    """Raise the errors of a library as xferlib's; ``name`` says what was asked of it."""

    def __init__(self, library: str, name: str) -> None:
        self._library = library
        self._name = name

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, XferError):
            raise failure(self._library, self._name, error) from error


class Libraries(DeviceMath):
    """The handles and workspaces for the calls of all the libraries.

    Args:
        backend: Allocates workspaces, and makes devices current.
        bindings: Those of `load_bindings`.
    """

    def __init__(self, backend: Any, bindings: dict[str, Any]) -> None:
        self._backend = backend
        self._bindings = bindings
        self._idle: dict[tuple[str, int], collections.deque[Handle]] = {}

    def _call(self, library: str, name: str, stream: RawStream, function: Callable[..., Any], *arguments: Any) -> Any:
        """``function`` of a handle that works on ``stream``, and of ``arguments``."""
        device = stream.device
        idle = self._idle.get((library, device.index))
        if idle is None:
            idle = self._idle.setdefault((library, device.index), collections.deque())
        try:
            with self._backend.inside(device):
                try:
                    handle = idle.pop()
                except IndexError:
                    handle = self._made(library)
                try:
                    if handle.stream != stream.handle:
                        self._bindings[library].set_stream(handle.number, stream.handle)
                        handle.stream = stream.handle
                    return function(handle.number, *arguments)
                finally:
                    idle.append(handle)
        except XferError:
            raise
        except Exception as error:
            raise failure(_LIBRARIES[library], name, error) from error

    def _made(self, library: str) -> Handle:
        binding = self._bindings[library]
        handle = Handle(binding.create(), binding.destroy)
        self._prepare(library, handle.number)
        return handle

    def _prepare(self, library: str, handle: int) -> None:
        if library == "cublas":
            # Otherwise sums of float16 that are divided among blocks are themselves rounded to float16.
            cublas = self._bindings[library]
            cublas.set_math_mode(handle, cublas.Math.DISALLOW_REDUCED_PRECISION_REDUCTION)

    def _workspace(self, nbytes: int, stream: RawStream) -> tuple[Array, int]:
        """Memory for a call on ``stream``, which may be dropped once that is enqueued, and its address."""
        if not nbytes:
            return None, 0
        array = self._backend.empty((nbytes,), np.dtype("uint8"), device=stream.device, stream=stream)
        info: ArrayInfo = self._backend.view(array)
        return array, info.pointer
