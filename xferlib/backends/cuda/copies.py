"""Copies to, from and between CUDA devices."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from cuda.bindings import driver

from xferlib._core.array import Array
from xferlib._core.backend_options import FastCopies
from xferlib._core.device import Device
from xferlib._core.raw import RawStream, StagingCalls
from xferlib.backends.cuda import driver as calls
from xferlib.backends.cuda.driver import CudaEvent
from xferlib.backends.cuda.errors import failure, is_forked, refuse_fork
from xferlib.backends.cuda.streams import CudaStreams

_LEGACY = (0, 1)


class CudaCopies(CudaStreams, FastCopies):
    """Copies by the driver's own functions."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.fast = self
        self._staging: dict[int, StagingCalls] = {}

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        refuse_fork("copying")
        result = self._inside(stream.device, calls.copy, dst, src, nbytes, stream.handle)
        if result == calls.INVALID_VALUE and len(self._devices) > 1:
            result = self._copy_between(dst, src, nbytes, stream)
        if result:
            raise failure(result, f"copying {nbytes} bytes on {stream.device}")

    def _copy_between(self, dst: int, src: int, nbytes: int, stream: RawStream) -> int:
        """Copy between two devices that cannot read each other's pool of memory without permission."""
        places = [calls.device_of_memory(each) for each in (dst, src)]
        if None in places:
            return calls.INVALID_VALUE
        to, come = (driver.CUcontext(self._context(index)) for index in places if index is not None)
        (result,) = driver.cuMemcpyPeerAsync(dst, to, src, come, nbytes, stream.handle)
        return int(result)

    def copy_behind(
        self, dst: int, src: int, nbytes: int, *, behind: RawStream, stream: RawStream, event: Any, copied: Any = None
    ) -> CudaEvent | None:  # fmt: skip
        enqueue = calls.copy_behind
        if enqueue is None or len(self._devices) > 1:
            return None
        refuse_fork("copying")
        if copied is None:
            copied = self._event(stream.device, timing=False)
        result = enqueue(dst, src, nbytes, behind.handle, event.handle, stream.handle, copied.handle)
        if result:
            raise failure(result, f"copying {nbytes} bytes behind another stream's work on {stream.device}")
        return copied  # type: ignore[no-any-return]

    def staging_calls(self, device: Device) -> StagingCalls:
        found = self._staging.get(device.index)
        if found is None:
            found = self._staging[device.index] = StagingCalls(
                **calls.STAGING,
                context=self._context(device.index),
                inside=functools.partial(self.inside, device),
                failure=lambda code, stream: failure(code, f"a copy on {stream.device}"),
            )
        return found

    def takes_pageable(self, stream: RawStream, *, idle: bool) -> bool:
        # The synchronous copies run on the current device's legacy default stream and are ordered on that one alone.
        handle = stream.handle
        if handle not in _LEGACY or (len(self._devices) > 1 and self.device_current() is not stream.device):
            return False
        return not idle or calls.stream_query(handle) == calls.SUCCESS

    def copy_to_device(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        result = calls.copy_to_device(dst, src, nbytes)
        return result == calls.SUCCESS or self._refused(result, f"copying {nbytes} bytes to {stream.device}")

    def copy_to_host(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        result = calls.copy_to_host(dst, src, nbytes)
        return result == calls.SUCCESS or self._refused(result, f"copying {nbytes} bytes from {stream.device}")

    def _refused(self, result: int, doing: str) -> bool:
        """False: the driver takes no range of which another registration pins a part."""
        if result != calls.INVALID_VALUE:
            raise failure(result, doing)
        return False

    def twin(self, array: Array, host: np.ndarray[Any, Any]) -> int:
        # In half the time that a view takes: the libraries' arrays name these things as NumPy does.
        if array.dtype == host.dtype and array.shape == host.shape and array.strides == host.strides:
            pointer: int = self.operands((array,))[0]
            return pointer
        return 0

    def send_whole(self, src: np.ndarray[Any, Any], dst: Array, pointer: int, most: int) -> bool:
        return self._copies_whole(calls.send_whole, src, dst, pointer, most)

    def fetch_whole(self, dst: np.ndarray[Any, Any], src: Array, pointer: int, most: int) -> bool:
        return self._copies_whole(calls.fetch_whole, dst, src, pointer, most)

    def _copies_whole(self, copy: Any, host: np.ndarray[Any, Any], array: Array, pointer: int, most: int) -> bool:
        device = self._devices[0] if len(self._devices) == 1 else self.view(array).device
        context = self._contexts.get(device.index)  # none until the device is attached; the copy is refused in another
        if copy is None or context is None or is_forked():
            return False
        if self.stream_handle(device) not in _LEGACY:
            return False
        result: int = copy(host, pointer, context, most)
        if result == calls.SUCCESS:
            return True
        return result != calls.NOT_ASKED and self._refused(result, f"copying {host.nbytes} bytes on {device}")
