"""The backend ``sim``: the simulated machine behind the same seam as CuPy, torch and PyCUDA."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import staging_hooks
from xferlib._core.array import Array, ArrayInfo, c_strides
from xferlib._core.backend import Backend
from xferlib._core.backend_options import DeviceKernels
from xferlib._core.capabilities import Capabilities
from xferlib._core.device import Device, DeviceIdentity, DeviceProperties
from xferlib._core.layout import overlaps_itself
from xferlib._core.namespaces import make_namespace
from xferlib._core.ordering.capture import unjoined
from xferlib._core.raw import OperationListener, RawEvent, RawKernel, RawStream
from xferlib._memory import host
from xferlib._runtime import happens_before
from xferlib.errors import StreamError
from xferlib.sim import copying
from xferlib.sim.arrays import launching, operations, selecting
from xferlib.sim.arrays.array import ImplicitCopyError, SimArray
from xferlib.sim.machine import attributes, current
from xferlib.sim.machine.injection import Point
from xferlib.sim.machine.machine import Machine
from xferlib.sim.machine.settings import Settings
from xferlib.sim.model import memory
from xferlib.sim.model.captured_work import CapturedWork
from xferlib.sim.model.streams import LEGACY, LEGACY_ALIAS, PER_THREAD, SimEvent, SimStream, StreamHandle, StreamKind

if TYPE_CHECKING:
    from xferlib.kernels.calls.backend_engine import BackendEngine


class SimPinned:
    """Page-locked host memory of the simulated machine."""

    __slots__ = ("__weakref__", "_backend", "nbytes", "pointer")

    def __init__(self, backend: SimBackend, data: np.ndarray[Any, Any]) -> None:
        self._backend = backend
        self.pointer = data.ctypes.data  # before it is tracked, so that whatever strikes then, its end is told
        self.nbytes = data.nbytes
        backend.machine.track_host(data)

    def __del__(self) -> None:
        try:
            self._backend.machine.lifetimes.release_host(self.pointer)
        except Exception:  # the interpreter is shutting down
            return


class _Thread(threading.local):
    """A thread's current device and streams."""

    def __init__(self) -> None:
        self.device: Device | None = None
        self.streams: dict[Device, StreamHandle] = {}


class SimBackend(Backend, DeviceKernels):
    """Simulated devices: separate memory, real streams, and a detector that watches."""

    name = "sim"
    array_types = ("xferlib.sim.SimArray",)
    pinned_domain = "sim"
    capabilities = Capabilities(
        streams=True, priorities=True, foreign_streams=True, native_current_stream=True, pinned_memory=True,
        peer_copy=True, kernels=True, namespace=True, strided=True, graphs=True, small_at_once=False,
        why={"small_at_once": "a simulated transfer of any size is in flight as long as the contract allows"},
    )  # fmt: skip

    def __init__(self) -> None:
        self.kernels = self
        self.machine = Machine(Settings.configured())
        self._local = _Thread()
        self._handles: weakref.WeakValueDictionary[int, StreamHandle] = weakref.WeakValueDictionary()
        streams = self.machine.streams
        self._legacy = {device: StreamHandle(LEGACY, each.legacy, None) for device, each in streams.items()}
        current.install(self)
        SimArray._namespace = make_namespace(self, SimArray, refusal=ImplicitCopyError, around=operations.operation)

    def _watch(self) -> None:
        """Follow the library's threads from the first stream or memory on: programs ask which backends exist, too."""
        happens_before.listener = staging_hooks.listener = self.machine.hosts

    # --- devices

    def namespace(self) -> ModuleType:
        return SimArray._namespace

    def devices(self) -> tuple[Device, ...]:
        return self.machine.devices

    def device_properties(self, device: Device) -> DeviceProperties:
        settings = self.machine.settings
        return DeviceProperties(
            name=f"simulated accelerator ({settings.profile.name})", total_nbytes=settings.memory_nbytes,
            compute_capability=(9, 0), multiprocessor_count=1,
        )  # fmt: skip

    def device_identity(self, device: Device) -> DeviceIdentity:
        return DeviceIdentity(uuid=f"SIM-{device.index:032x}", pci_bus_id=f"FFFF:{device.index:02X}:00.0")

    def device_memory(self, device: Device) -> tuple[int, int]:
        return self.machine.free_memory(device), self.machine.settings.memory_nbytes

    def device_attribute(self, device: Device, name: str) -> int:
        return attributes.of(device, name)

    def device_current(self) -> Device:
        device = self._local.device
        return device if device is not None else self.machine.devices[0]

    def device_use(self, device: Device) -> None:
        self._local.device = device

    def device_synchronize(self, device: Device) -> None:
        self.machine.waits.synchronize_device(device)

    # --- arrays

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> SimArray:
        self._watch()
        return launching.new(shape, dtype, device, _stream(stream))

    def device_of(self, array: Array) -> Device:
        device: Device = array.info.device
        return device

    def view(self, array: Array) -> ArrayInfo:
        info: ArrayInfo = array.info
        return info

    def host_view(self, array: Array) -> np.ndarray[Any, Any]:
        view: np.ndarray[Any, Any] = array.memory()
        return view

    def compute_on_host(
        self, name: str, function: Callable[..., None], reads: Sequence[Array], writes: Sequence[Array]
    ) -> bool:
        operands = launching.memories((*reads, *writes))
        launching.launch(name, lambda: function(*operands), reads, writes)
        return True

    def gather(self, x: SimArray, indices: Sequence[SimArray], out: SimArray) -> bool:
        selecting.gather(x, indices, out)
        return True

    def scatter(self, x: SimArray, indices: Sequence[SimArray], value: Any) -> bool:
        selecting.scatter(x, indices, value)
        return True

    def subarray(self, slab: Array, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> SimArray:
        info = ArrayInfo(
            slab.info.pointer + offset, shape, c_strides(shape, dtype.itemsize), dtype, slab.info.device, True
        )
        return SimArray(slab.allocation, info)

    def over(
        self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, owner: Any
    ) -> SimArray:
        self._watch()
        info = ArrayInfo(pointer, shape, c_strides(shape, dtype.itemsize), dtype, device, True)
        return SimArray(self.machine.lent(pointer, info.nbytes, device, owner), info)

    def strided_view(
        self, array: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
    ) -> SimArray:
        is_writable = array.info.is_writable and not overlaps_itself(shape, strides, dtype.itemsize)
        info = ArrayInfo(array.info.pointer + offset, shape, strides, dtype, array.info.device, is_writable)
        return SimArray(array.allocation, info)

    def consumed(self, array: Array, stream: RawStream) -> None:
        array.allocation.users[_stream(stream).key] = _stream(stream)

    def kept(self, objects: tuple[Any, ...], event: Any) -> tuple[Any, ...]:
        # Holding an array would postpone its death to the next poll, and with it the report of a missing wait.
        held: list[Any] = []
        for each in objects:
            if isinstance(each, SimArray):
                each.allocation.outlast(event)
            else:
                held.extend(self.kept(each, event) if isinstance(each, tuple) else (each,))
        return tuple(held)

    # --- memory and copies

    def pinned_alloc(self, nbytes: int) -> SimPinned:
        self._watch()
        self.machine.pass_point(Point.PINNED)
        return SimPinned(self, memory.pages(nbytes))

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        self._watch()
        self.machine.pass_point(Point.PINNED)
        self.machine.track_host(host.bytes_over(pointer, nbytes, None))

    def pinned_unregister(self, pointer: int) -> None:
        self.machine.lifetimes.release_host(pointer)
        self.machine.raise_found()

    def is_pinned(self, pointer: int) -> bool:
        with self.machine.lock:
            block = self.machine.memory.find(pointer)
            return block is not None and block.device is None

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        copying.copy(self.machine, dst, src, nbytes, _stream(stream))

    def reaches(self, device: Device, other: Device) -> bool:
        return self.machine.timeline.profile.peer > 0

    # --- streams

    def stream_create(self, device: Device, *, non_blocking: bool, priority: int) -> StreamHandle:
        self._watch()
        kind = StreamKind.NON_BLOCKING if non_blocking else StreamKind.BLOCKING
        stream = self.machine.stream(device, kind, priority)
        made = StreamHandle(stream.key, stream, self.machine.lifetimes.ended)
        self._handles[stream.key] = made
        return made

    def stream_wrap(self, handle: int, device: Device, *, native: Any = None) -> StreamHandle:
        if handle in (LEGACY, LEGACY_ALIAS):
            return self._legacy[device]
        if handle == PER_THREAD:
            return StreamHandle(PER_THREAD, self.machine.per_thread(device), None)
        made = self._handles.get(handle)
        if made is not None and made.device is device:
            return made
        raise StreamError(f"{handle:#x} is no stream of {device}; make one with xferlib.Stream({str(device)!r})")

    def stream_current(self, device: Device) -> StreamHandle:
        stream = self._local.streams.get(device)
        return stream if stream is not None else self._legacy[device]

    def current(self, device: Device) -> SimStream:
        """The calling thread's current stream, as the machine has it."""
        handle = self._local.streams.get(device)
        return (handle if handle is not None else self._legacy[device]).stream

    def stream_use(self, stream: RawStream) -> None:
        assert isinstance(stream, StreamHandle)
        self._local.streams[stream.device] = stream

    def stream_synchronize(self, stream: RawStream) -> None:
        self.machine.waits.synchronize_stream(_stream(stream))

    def stream_done(self, stream: RawStream) -> bool:
        return self.machine.waits.is_stream_done(_stream(stream))

    def stream_options(self, stream: RawStream) -> tuple[int, bool]:
        made = _stream(stream)
        return made.priority, made.kind is StreamKind.NON_BLOCKING

    def capture_begin(self, stream: RawStream) -> None:
        self.machine.pass_point(Point.RECORD)
        _stream(stream).recorded = CapturedWork(_stream(stream))

    def capture_end(self, stream: RawStream) -> Callable[[RawStream], None] | None:
        origin = _stream(stream)
        recorded = origin.recorded
        assert recorded is not None
        for each in (origin, *recorded.others):
            each.recorded = None
        if not recorded.is_joined:
            raise unjoined("Stream.capture")
        own = {each: self.machine.stream(each.device) for each in recorded.others}

        def launch(on: RawStream) -> None:
            with self.machine.lock:
                recorded.repeat({origin: _stream(on), **own})

        return None if recorded.is_empty else launch

    def stream_call(self, stream: RawStream, function: Callable[[], None]) -> None:
        self.machine.call(_stream(stream), function)

    # --- events

    def event_record(self, stream: RawStream, *, timing: bool, event: RawEvent | None = None) -> SimEvent:
        return self.machine.record(_stream(stream), timing=timing)

    def event_wait(self, stream: RawStream, event: Any) -> None:
        self.machine.wait(_stream(stream), event)

    def event_unrecorded(self, stream: RawStream) -> None:
        self.machine.wait_unrecorded(_stream(stream))

    def event_done(self, event: Any) -> bool:
        return self.machine.waits.is_done(event)

    def event_synchronize(self, event: Any) -> None:
        self.machine.waits.synchronize(event)

    def event_elapsed_ms(self, start: Any, end: Any) -> float:
        return float(end.time_s - start.time_s) * 1e3

    # --- kernels

    def compile(self, source: str, *, names: tuple[str, ...] = (), **_: Any) -> copying.UncompiledSource:
        return copying.UncompiledSource(source.encode(), dict(zip(names, names, strict=True)))

    def load(self, cubin: bytes, *, name: str, device: Device) -> RawKernel:
        return copying.load(cubin, name)

    def launch(self, kernel: Any, grid: Any, block: Any, params: int, *, stream: RawStream, **_: Any) -> None:
        copying.launch(self.machine, kernel, params, _stream(stream))

    def engine(self) -> BackendEngine:
        from xferlib.sim.kernel_engine import ENGINE  # lazily, because it imports the kernels

        return ENGINE

    # --- recording

    def report_to(self, listener: OperationListener | None) -> bool:
        self.machine.listener = listener
        return True

    def host_s(self) -> float:
        return self.machine.hosts.current().time_s


def _stream(stream: RawStream) -> SimStream:
    assert isinstance(stream, StreamHandle), "a stream of another backend"
    return stream.stream
