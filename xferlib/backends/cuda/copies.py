"""Copies to, from and between CUDA devices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import driver

from xferlib._core.array import Array
from xferlib._core.backend_options import DirectCopies, FastCopies
from xferlib._core.device import Device
from xferlib._core.raw import RawStream, StagingCalls
from xferlib.backends.cuda import driver as calls
from xferlib.backends.cuda.contexts import Inside
from xferlib.backends.cuda.driver import CudaEvent
from xferlib.backends.cuda.errors import check, failure, is_forked, refuse_fork
from xferlib.backends.cuda.streams import CudaStreams

_LEGACY = (0, 1)


class CudaCopies(CudaStreams, FastCopies):
    """Copies by the driver's own functions."""

    pointer_of: Callable[[Array], int] | None = None
    """The address of an array; None: C does not make the library's arrays by itself."""

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Array:
        raise NotImplementedError

    def empty_between(self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: RawStream) -> Array:
        """As `DirectCopies.empty_between`."""
        raise NotImplementedError

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.fast = self
        self._staging: dict[int, StagingCalls] = {}
        self._reached: dict[tuple[int, int], bool] = {}

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

    def reaches(self, device: Device, other: Device) -> bool:
        key = (device.index, other.index)
        found = self._reached.get(key)
        if found is None:
            found = self._reached[key] = self._open(*key)
        return found

    def _open(self, index: int, other: int) -> bool:
        """Let a device read another's memory, of which the driver has to be told once; False where it cannot."""
        result, can = driver.cuDeviceCanAccessPeer(index, other)
        check(result, f"asking whether device {index} reaches device {other}")
        if not int(can):
            return False
        with Inside(self._context(index)):
            (result,) = driver.cuCtxEnablePeerAccess(driver.CUcontext(self._context(other)), 0)
        if int(result) not in (calls.SUCCESS, calls.PEER_ACCESS_ALREADY_ENABLED):
            return False  # such as more peers than the hardware has room for
        result, pool = driver.cuDeviceGetMemPool(other)  # whose memory takes permissions of its own
        if int(result) == calls.SUCCESS:
            access = driver.CUmemAccessDesc()
            access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            access.location.id = index
            access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            driver.cuMemPoolSetAccess(pool, [access], 1)  # if it is refused, `_copy_between` does without
        return True

    def copy_behind(
        self, dst: int, src: int, nbytes: int, *, behind: RawStream, stream: RawStream, event: Any = None,
        copied: Any = None, is_mutual: bool = False,
    ) -> CudaEvent | None:  # fmt: skip
        enqueue = calls.copy_behind
        if enqueue is None:
            return None
        refuse_fork("copying")
        borrowed = self._borrow_event(behind.device) if event is None else 0
        copied = copied or self._event(stream.device, timing=False)
        first = second = 0
        if len(self._devices) > 1:
            first, second = self._context(behind.device.index), self._context(stream.device.index)
        result = enqueue(
            dst, src, nbytes, behind.handle, borrowed or event.handle, stream.handle, copied.handle, first, second,
            is_mutual,
        )  # fmt: skip
        if borrowed:
            self._idle_events[behind.device.index].append(borrowed)
        if result == calls.INVALID_VALUE and first != second:  # memory that takes `_copy_between`
            return None
        if result:
            raise failure(result, f"copying {nbytes} bytes behind another stream's work on {stream.device}")
        return copied  # type: ignore[no-any-return]

    def copy_each(self, dsts: list[int], srcs: list[int], sizes: list[int], *, stream: RawStream) -> bool:
        enqueue = calls.copy_each
        if enqueue is None:
            return False
        refuse_fork("copying")
        result = self._inside(stream.device, enqueue, dsts, srcs, sizes, stream.handle)
        if result:
            raise failure(result, f"copying {len(sizes)} arrays of {sum(sizes)} bytes on {stream.device}")
        return True

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

    def direct(self, device: Device) -> DirectCopies | None:
        if is_forked() or self.pointer_of is None:
            return None
        is_alone = len(self._devices) == 1
        return DirectCopies(
            **calls.DIRECT,
            context=self._context(device.index),
            empty=functools.partial(self._empty, device=device),
            pointer=self.pointer_of,
            stream=functools.partial(self.stream_handle, device),
            is_current=None if is_alone else lambda: self.device_current() is device,
            empty_between=self.empty_between,
        )

    def whole(self, array: Array) -> tuple[int, tuple[int, ...], np.dtype[Any]] | None:
        # In half the time that a view takes: the libraries' arrays name these things as NumPy does.
        if not array.flags.c_contiguous:
            return None
        return self.operands((array,))[0], array.shape, array.dtype

    def send_gathered(
        self, src: np.ndarray[Any, Any], layout: int, dst: Array, pointer: int, nbytes: int, memory: int
    ) -> bool:
        context = self._context_at_once(dst)
        if context is None or calls.send_gathered is None:
            return False
        return self._is_done(calls.send_gathered(src, layout, src.size, pointer, nbytes, context, memory), src)

    def fetch_scattered(
        self, dst: np.ndarray[Any, Any], layout: int, src: Array, pointer: int, nbytes: int, memory: int
    ) -> bool:
        context = self._context_at_once(src)
        if context is None or calls.fetch_scattered is None:
            return False
        return self._is_done(calls.fetch_scattered(dst, layout, dst.size, pointer, nbytes, context, memory), dst)

    def _context_at_once(self, array: Array) -> int | None:
        """The context for a synchronous copy; None where that is not ordered on the current stream of the device.

        The device must have been attached, or there is no context; the copy is refused where another is current.
        """
        device = self._devices[0] if len(self._devices) == 1 else self.view(array).device
        if is_forked() or self.stream_handle(device) not in _LEGACY:
            return None
        return self._contexts.get(device.index)

    def _is_done(self, result: int, host: np.ndarray[Any, Any]) -> bool:
        if result == calls.SUCCESS:
            return True
        return result != calls.NOT_ASKED and self._refused(result, f"copying an array of {host.nbytes} bytes")
