"""The class that the CUDA backends share, written once on cuda.core and the driver.

Raw pointers, primary contexts, streams, events, copies, pinned memory. Each library keeps its own
arrays and memory pool, and names its current stream.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import driver

from xferlib._core.array import Array
from xferlib._core.device import Device
from xferlib._core.raw import PinnedBlock, RawStream
from xferlib._runtime.interrupts import deferred
from xferlib.backends.cuda import driver as calls
from xferlib.backends.cuda.compiler import CudaKernels
from xferlib.backends.cuda.contexts import Current
from xferlib.backends.cuda.copies import CudaCopies
from xferlib.backends.cuda.errors import check
from xferlib.backends.cuda.graphs import CudaGraphs
from xferlib.backends.cuda.memory import CudaPinned
from xferlib.errors import DeviceMemoryError, PinnedMemoryError


class CudaBackend(CudaGraphs, CudaCopies, CudaKernels):
    """A library on CUDA devices. Subclasses allocate arrays, read pointers, name the current stream."""

    pinned_domain = "cuda"

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.kernels = self

    # --- arrays

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> Array:
        """Allocated by the library on ``stream``; guarded on any but the default stream."""
        try:
            if len(self._devices) == 1 or self._is_current(device):
                return self._empty_in_order(shape, dtype, device, stream)
            return self._empty_elsewhere(shape, dtype, device, stream)
        except Exception as error:
            raise self._allocation_error(error, shape, dtype, device) from error

    def _is_current(self, device: Device) -> bool:
        """Whether the library allocates there unless it is told another device."""
        return self.is_inside(device)

    def _empty_in_order(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream) -> Array:
        if stream.handle != self.stream_handle(device):
            current = self.stream_current(device)
            make = functools.partial(self._empty_guarded, shape, dtype, device, stream)
            return self._kept_for(self._made_on(stream, current, make), current)
        if stream.handle:
            return self._empty_guarded(shape, dtype, device, stream)
        return self._empty(shape, dtype, device)

    def _empty_elsewhere(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream
    ) -> Array:
        """As `_empty_in_order`, while another device is current."""
        with Current(self, device):
            return self._empty_in_order(shape, dtype, device, stream)

    def empty_between(self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: RawStream) -> Array:
        # Without a guard: no other stream ever uses the memory.
        device = stream.device
        if stream.handle == self.stream_handle(device):
            return self._empty(shape, dtype, device)
        make = functools.partial(self._empty, shape, dtype, device)
        return self._made_on(stream, self.stream_current(device), make)

    def _empty_guarded(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream) -> Array:
        """A new array of the memory of ``stream``, which is current; other streams may use it."""
        return self.guarded(self._empty(shape, dtype, device), stream)

    def _made_on(self, stream: RawStream, current: RawStream, make: Callable[[], Array]) -> Array:
        """Return the result of ``make``, called while another stream is the current one."""
        with deferred:  # or Ctrl-C might leave the other stream current
            self._use(stream)
            try:
                return make()
            finally:
                self._use(current)

    def _kept_for(self, array: Array, current: RawStream) -> Array:
        """A new array of another stream's memory, which the library's own work on the current one may use as well."""
        self.consumed(array, current)
        return array

    def _allocation_error(
        self, error: Exception, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device
    ) -> Exception:
        is_memory = isinstance(error, MemoryError) or "memory" in str(error).lower()
        if not is_memory or isinstance(error, DeviceMemoryError):
            return error
        nbytes = math.prod(shape) * dtype.itemsize
        result, free, total = driver.cuMemGetInfo()
        known = f"{int(free)} of {int(total)} bytes are free" if int(result) == calls.SUCCESS else "free memory unknown"
        return DeviceMemoryError(
            f"{nbytes} bytes for an array of shape {shape} and dtype {dtype} do not fit on {device} ({known}); "
            "free arrays, or move the data in parts"
        )

    # --- page-locked memory

    def pinned_alloc(self, nbytes: int) -> PinnedBlock:
        self.attach(self.device_current())
        return CudaPinned(nbytes)

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        (result,) = driver.cuMemHostRegister(pointer, nbytes, driver.CU_MEMHOSTREGISTER_PORTABLE)
        if int(result) != calls.SUCCESS:
            raise PinnedMemoryError(
                f"page-locking {nbytes} bytes in place failed with {calls.error_name(int(result))}; "
                "pinned_array(x) makes a pinned copy instead"
            )

    def pinned_unregister(self, pointer: int) -> None:
        (result,) = driver.cuMemHostUnregister(pointer)
        check(result, "releasing page-locked memory")

    def is_pinned(self, pointer: int) -> bool:
        return calls.is_host_memory(pointer)
