"""The shared part of backends on a CPU: streams that are always done, and ordinary memory for pinned."""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import observe
from xferlib._core.arrays import Array
from xferlib._core.backend import Backend
from xferlib._core.device import Device, DeviceProperties, PinnedBlock, RawStream, make_device
from xferlib._runtime.process import reset_in_child
from xferlib.errors import CaptureError, DeviceMemoryError

if TYPE_CHECKING:
    from xferlib._core.observe import Kind


# Captures on a CPU: the operations that the capturing thread gives to a device are noted, and repeated by a launch.
#
# The notes come from the hooks of a recording, which pass every kernel and every copy of xferlib's.


class HostCaptures(observe.Recorder):
    """The captures that are open on CPU devices: a recorder that notes their operations and does all others."""

    is_capture = True

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._open: dict[tuple[int, Device], tuple[RawStream, list[Callable[[], None]]]] = {}
        self._lock = threading.Lock()

    def open(self, stream: RawStream) -> None:
        """Note from now on what this thread gives to the stream's device."""
        with self._lock:
            if not self._open:
                observe.activate(self)
            self._open[threading.get_ident(), stream.device] = (stream, [])

    def close(self, device: Device) -> Callable[[RawStream], None] | None:
        """End that; return the function that does it all, None where it is nothing."""
        with self._lock:
            _, steps = self._open.pop((threading.get_ident(), device))
            if not self._open:
                observe.activate(None)

        def run(_: RawStream) -> None:
            for step in steps:
                step()

        return run if steps else None

    def stream(self, device: Device) -> RawStream | None:
        """The stream that this thread captures."""
        found = self._open.get((threading.get_ident(), device)) if self._open else None
        return None if found is None else found[0]

    def note(self, device: Device, step: Callable[[], None]) -> None:
        """Note one more operation of this thread's capture."""
        self._open[threading.get_ident(), device][1].append(step)

    def on_host(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, device: Device, run: Callable[[], None]
    ) -> None:
        found = self._open.get((threading.get_ident(), device))
        if found is None:
            run()
        else:
            found[1].append(run)


captures = HostCaptures()
reset_in_child(captures._reset)


_DONE = "a CPU works in host memory: every operation is complete when it returns"

WHY_HOST = {
    "streams": _DONE,
    "priorities": _DONE,
    "foreign_streams": _DONE,
    "native_current_stream": _DONE,
    "pinned_memory": "host memory is the device's own memory; there is nothing to pin",
    "peer_copy": "there is one CPU device",
    "interprocess_events": _DONE,
    "device_attributes": "CUDA's driver knows nothing of a CPU",
    "kernels": "machine code needs a GPU; raw_module runs CUDA source on the CPU",
}


class HostEvent:
    """A moment on the host's clock."""

    __slots__ = ("time_s",)

    def __init__(self) -> None:
        self.time_s = time.perf_counter()


class HostBlock:
    """Ordinary host memory where a GPU backend would give pinned memory."""

    def __init__(self, nbytes: int) -> None:
        self._memory = np.empty(nbytes + 64, dtype=np.uint8)
        self.pointer = -(-self._memory.ctypes.data // 64) * 64
        self.nbytes = nbytes


def no_memory(shape: tuple[int, ...], dtype: np.dtype[Any], device: object) -> DeviceMemoryError:
    """The error where the library has no memory for an array."""
    nbytes = math.prod(shape) * dtype.itemsize
    return DeviceMemoryError(
        f"{nbytes} bytes for an array of shape {shape} and dtype {dtype} cannot be allocated on {device}; free arrays, "
        "or work on parts"
    )


class HostBackend(Backend):
    """Streams, events and pinned memory of a CPU: everything is done when the call returns."""

    pinned_domain = "host"

    def __init__(self) -> None:
        self.device = make_device(self.name, "cpu")
        """The only one."""
        self._stream = RawStream(0, self.device)

    def devices(self) -> tuple[Device, ...]:
        return (self.device,)

    def device_current(self) -> Device:
        return self.device

    def _do_nothing(self, *args: Any, **options: Any) -> None:
        """There is one device, its memory needs no pinning, and nothing is ever pending on it."""

    device_use = device_synchronize = pinned_register = pinned_unregister = _do_nothing
    stream_use = stream_synchronize = event_wait = event_synchronize = _do_nothing

    def _agree(self, *args: Any, **options: Any) -> bool:
        return True

    is_pinned = stream_done = event_done = _agree

    @abstractmethod
    def host_view(self, array: Array) -> np.ndarray[Any, Any]:
        """A writable NumPy array over the memory of ``array``."""

    def compute_on_host(
        self, name: str, function: Callable[..., None], reads: Sequence[Array], writes: Sequence[Array]
    ) -> bool:
        operands = [*map(self.host_view, reads), *map(self.host_view, writes)]
        if (recorder := observe.active) is None:
            function(*operands)
        else:
            nbytes = sum(each.nbytes for each in operands)
            recorder.on_host(observe.Kind.KERNEL, name, nbytes, self, self.device, lambda: function(*operands))
        return True

    def subarray(self, slab: Array, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Shared code packs arrays for the sake of a link alone."""
        raise self._make_unsupported_error("streams")

    def device_properties(self, device: Device) -> DeviceProperties:
        return DeviceProperties(name="CPU", total_nbytes=host_memory_nbytes())

    def device_memory(self, device: Device) -> tuple[int, int]:
        return host_memory_nbytes("SC_AVPHYS_PAGES"), host_memory_nbytes()

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        raise self._make_unsupported_error("streams")

    def pinned_alloc(self, nbytes: int) -> PinnedBlock:
        return HostBlock(nbytes)

    def stream_create(self, device: Device, *, non_blocking: bool, priority: int) -> RawStream:
        return RawStream(0, device)

    def stream_current(self, device: Device) -> RawStream:
        return captures.stream(device) or self._stream

    def stream_call(self, stream: RawStream, function: Callable[[], None]) -> None:
        if stream.capture is None:
            function()
        else:
            captures.note(stream.device, function)

    def capture_begin(self, stream: RawStream) -> None:
        if stream is self._stream:
            raise CaptureError(
                f"Stream.capture: {stream!r} is the default stream, which cannot be captured; use "
                f"xferlib.Stream({str(self.device)!r})"
            )
        captures.open(stream)

    def capture_end(self, stream: RawStream) -> Callable[[RawStream], None] | None:
        return captures.close(stream.device)

    def event_record(self, stream: RawStream, *, timing: bool, event: Any = None) -> HostEvent:
        return HostEvent()

    def event_elapsed_ms(self, start: Any, end: Any) -> float:
        return float(end.time_s - start.time_s) * 1e3


def over(pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: Any) -> np.ndarray[Any, Any]:
    """A NumPy array over host memory, which ``owner`` keeps alive."""
    memory: Any = (ctypes.c_char * (math.prod(shape) * dtype.itemsize)).from_address(pointer)
    memory.owner = owner
    return np.ndarray(shape, dtype, memory)


def host_memory_nbytes(pages: str = "SC_PHYS_PAGES") -> int:
    """Physical memory of this machine in bytes, all or what is free; 0 where the platform does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages)
    except (ValueError, OSError, AttributeError):
        return 0
