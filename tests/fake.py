"""A backend over the simulated machine as a stranger would write one, whose transfers are staged by C.

Its devices, ``fake:sim:0`` and ``fake:sim:1``, have streams that run late: the work of a stream runs when the program
waits for it, and then in an adversarial order drawn from a seed. Unlike on backend ``sim``, nothing follows the
library's threads, so what they do counts as the program's; helper threads of C really run. What the detector finds,
and what else a GPU would not forgive, is in ``FakeBackend.machine.violations``.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import numpy as np

from xferlib.backends.base import (
    ArrayInfo,
    Backend,
    Capabilities,
    Device,
    DeviceProperties,
    FastPath,
    RawStream,
    StagingCalls,
    c_strides,
    make_device,
    staging_failure,
)
from xferlib.errors import DeviceMemoryError, PinnedMemoryError
from xferlib.sim import backend as sim_backend
from xferlib.sim import memory
from xferlib.sim.detector import Mode
from xferlib.sim.machine import Machine
from xferlib.sim.model import LEGACY, PER_THREAD, Operation, SimStream, StreamHandle, StreamKind
from xferlib.sim.schedules import Lazy, RandomPriorities, Ready, Settings
from xferlib.sim.timing import Lane
from xferlib.testing.tools import load_backend, replace_attribute

_FEW_POLLS = 4


class Late(RandomPriorities):
    """Nothing before the host waits, then only what it waits for, or any streams in random order, as the seed says."""

    def plan(self, target: Operation) -> list[Operation]:
        return target.list_needed() if self._random.random() < 0.5 else []

    def linger(self, ready: Ready) -> Operation | None:
        return None


class FakeMachine(Machine):
    """The simulated machine, with what tests change about it and look for in it.

    Attributes:
        limits: The most bytes of each kind of memory, ``{"pinned": 1 << 20}``; a kind that is missing has no limit.
        failing: An error that every copy and kernel raises instead of being enqueued.
        progresses_on_query: Whether an event or a stream is done after a few queries; False keeps all work pending
            until something waits.
        violations: Descriptions of what would corrupt data on a GPU; a test asserts that there are none.
    """

    def __init__(self) -> None:
        super().__init__(Settings(mode=Mode.LOG), Late(0))
        self.limits: dict[str, int] = {}
        self.failing: Exception | None = None
        self.progresses_on_query = True
        self.registered: set[int] = set()
        self.engine.most_pending = 1 << 60
        self._violations: list[str] = []

    @property
    def progresses_on_query(self) -> bool:
        return self.most_polls == _FEW_POLLS

    @progresses_on_query.setter
    def progresses_on_query(self, progresses: bool) -> None:
        self.most_polls = _FEW_POLLS if progresses else 1 << 60

    @property
    def violations(self) -> list[str]:
        return [*self._violations, *map(str, self.detector.races)]

    @violations.setter
    def violations(self, violations: list[str]) -> None:
        self._violations = violations
        self.detector.races.clear()

    def held(self, kind: str) -> int:
        """The bytes of ``"device"`` or ``"pinned"`` memory that are allocated."""
        with self.lock:
            self.raise_faults()
            if kind == "device":
                return sum(self.memory.used.values())
            return sum(each.nbytes for each in self.memory.on_host() if each.pointer not in self.registered)

    def refuse_more(self, nbytes: int, kind: str) -> None:
        """Raise the error of memory that is over its limit."""
        if kind in self.limits and self.held(kind) + nbytes > self.limits[kind]:
            wrong = DeviceMemoryError if kind == "device" else PinnedMemoryError
            raise wrong(f"{nbytes} bytes do not fit in the fake's {self.limits[kind]}; free arrays")

    def refuse_pending(self, pointer: int, nbytes: int, what: str) -> None:
        """Note a violation if work in flight uses host memory."""
        before = len(self.detector.races)
        self.host_access(_bytes(pointer, nbytes), is_write=True)
        if len(self.detector.races) > before:
            self._violations.append(f"{what} under a pending copy")

    def enqueue(self, stream: SimStream, *args: Any, **options: Any) -> Operation | None:
        if self.failing is not None:
            raise self.failing
        return super().enqueue(stream, *args, **options)

    def real(self, pointer: int) -> int:
        """The address in the process at which a device's memory lies; that of host memory unchanged."""
        block = self.memory.find(pointer)
        if block is None:
            return pointer
        return int(block.data.ctypes.data) + pointer - block.pointer

    def finish(self) -> None:
        """Carry out everything, and free what has been collected."""
        self.waits.quiesce()


def let_mpi_read(patch: Any) -> None:
    """Let MPI use the fake's memory by itself, as one that is aware of CUDA does a device's: at its real address.

    Args:
        patch: Sets attributes as pytest's ``monkeypatch.setattr`` does.
    """
    from xferlib.distributed import drivers

    view = drivers._view_memory
    backend: Any = load_backend("fake")
    machine = backend.machine
    patch(drivers.MpiDriver, "carries", lambda driver, backend: backend.name == "fake")
    patch(drivers, "_view_memory", lambda pointer, *form: view(machine.real(pointer), *form))


class FakeEvent:
    """Made by the backend; recording it again moves it."""

    numbers = itertools.count(1)

    def __init__(self, device: Device) -> None:
        self.device = device
        self.handle = next(self.numbers)
        self.recorded: Any = None
        """The simulator's event."""
        self.is_timed = False
        self.times_s: list[float] = []
        """When it was complete, if it is timed: by the host's clock, and not by the virtual one."""


class FakeArray:
    """An array on the fake device; indexing and transposing give views."""

    def __init__(self, allocation: Any, info: ArrayInfo) -> None:
        self.allocation = allocation
        self.info = info
        self.pointer = info.pointer
        self.shape = info.shape
        self.strides = info.strides
        self.dtype = info.dtype
        self.device = info.device

    def _view(self, choose: Callable[[Any], Any]) -> FakeArray:
        described = {"data": (self.pointer, False), "shape": self.shape, "strides": self.strides, "version": 3}
        addresses = np.asarray(SimpleNamespace(__array_interface__={**described, "typestr": self.dtype.str}))
        view = choose(addresses)  # of addresses alone, at which the process has no memory
        info = self.info._replace(pointer=view.ctypes.data, shape=view.shape, strides=view.strides)
        return type(self)(self.allocation, info)

    def __getitem__(self, key: Any) -> FakeArray:
        return self._view(lambda addresses: addresses[key])

    def transpose(self, *axes: int) -> FakeArray:
        return self._view(lambda addresses: addresses.transpose(*axes))


class _Staging:
    """The functions that staging in C calls for a device, in Python."""

    def __init__(self, backend: FakeBackend, device: Device) -> None:
        self.failure: BaseException | None = None

        def guarded(call: Any) -> Any:
            def run(*args: Any) -> int:
                try:
                    call(*args)
                except BaseException as error:
                    self.failure = error
                    return 999
                return 0

            return run

        def stream(handle: int | None) -> RawStream:
            return backend.stream_wrap(handle or 0, device)

        word, pointer = ctypes.c_uint64, ctypes.c_void_p
        self._functions = (
            ctypes.CFUNCTYPE(ctypes.c_int, word, word, ctypes.c_size_t, pointer)(
                guarded(lambda dst, src, nbytes, handle: backend.copy(dst, src, nbytes, stream=stream(handle)))
            ),
            ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(
                guarded(lambda e, s: backend.event_record(stream(s), timing=False, event=backend.events[e]))
            ),
            ctypes.CFUNCTYPE(ctypes.c_int, pointer)(guarded(lambda e: backend.event_synchronize(backend.events[e]))),
            ctypes.CFUNCTYPE(ctypes.c_int, pointer)(lambda e: int(not backend.event_done(backend.events[e]))),
            ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, ctypes.c_uint)(
                guarded(lambda s, e, flags: backend.event_wait(stream(s), backend.events[e]))
            ),
        )
        copy, record, wait, query, order = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in self._functions)
        self.calls = StagingCalls(copy, record, wait, query, order, failure=self._raise)

    def _raise(self, code: int, stream: RawStream) -> BaseException:
        failure, self.failure = self.failure, None
        return failure if failure is not None else staging_failure(code, stream)


class FakeBackend(Backend, FastPath):
    """Two devices, ``fake:sim:0`` and ``fake:sim:1``, of one machine."""

    name = "fake"
    array_class: type = FakeArray
    array_types = (f"{__name__}.FakeArray",)
    pinned_domain = "fake"
    capabilities = Capabilities(
        streams=True, priorities=True, foreign_streams=True, native_current_stream=True, pinned_memory=True,
        peer_copy=True, kernels=True, strided=True, graphs=True,
        why={"namespace": "the fake device computes nothing"},
    )  # fmt: skip

    def __init__(self, machine: FakeMachine | None = None) -> None:
        self.fast = self
        self.machine = machine if machine is not None else FakeMachine()
        self.events: weakref.WeakValueDictionary[int, FakeEvent] = weakref.WeakValueDictionary()
        self._devices = tuple(make_device(self.name, "sim", each.index) for each in self.machine.devices)
        self._local = threading.local()
        self._staging = {device: _Staging(self, device) for device in self._devices}
        self._handles: weakref.WeakValueDictionary[int, StreamHandle] = weakref.WeakValueDictionary()
        self._default = {
            device: StreamHandle(LEGACY, self.machine.streams[there].legacy, None, device)
            for device, there in zip(self._devices, self.machine.devices, strict=True)
        }

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def device_properties(self, device: Device) -> DeviceProperties:
        return DeviceProperties(name="fake", total_nbytes=1 << 30)

    def device_current(self) -> Device:
        return getattr(self._local, "device", self._devices[0])

    def device_use(self, device: Device) -> None:
        self._local.device = device

    def device_synchronize(self, device: Device) -> None:
        self.machine.waits.synchronize_device(self._there(device))

    def _there(self, device: Device) -> Device:
        """The device as the machine knows it."""
        return self.machine.devices[device.index]

    def attach(self, device: Device) -> None:
        with self.machine.lock:
            self.machine.enter()

    # --- arrays

    def empty(self, shape: tuple[int, ...], dtype: Any, *, device: Device, stream: RawStream) -> Any:
        assert stream.device is device  # a library takes no stream of another one's
        nbytes = math.prod(shape) * dtype.itemsize
        self.machine.refuse_more(nbytes, "device")
        allocation = self.machine.allocate(nbytes, _stream(stream))
        info = ArrayInfo(allocation.block.pointer, shape, c_strides(shape, dtype.itemsize), dtype, device, True)
        array = self.array_class(allocation, info)
        self.note_use(array, self.stream_current(device))
        return array

    def view(self, array: FakeArray) -> ArrayInfo:
        return array.info

    def subarray(self, slab: FakeArray, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
        info = ArrayInfo(
            slab.pointer + offset, shape, c_strides(shape, dtype.itemsize), dtype, slab.device, is_writable=True
        )
        return self.array_class(slab.allocation, info)

    def note_use(self, array: FakeArray, stream: RawStream) -> None:
        assert stream.device.backend == self.name  # a library takes no stream of another one's
        array.allocation.users[_stream(stream).key] = _stream(stream)

    # --- memory and copies

    def pinned_alloc(self, nbytes: int) -> Any:
        self.machine.refuse_more(nbytes, "pinned")
        return sim_backend.SimPinned(self.machine, memory.pages(nbytes))

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        with self.machine.lock:
            for block in self.machine.memory.on_host():
                if block.pointer < pointer + nbytes and pointer < block.pointer + block.nbytes:
                    raise PinnedMemoryError(f"{nbytes} bytes at {pointer:#x} are pinned already")
            self.machine.registered.add(pointer)
            self.machine.track_host(_bytes(pointer, nbytes))

    def pinned_unregister(self, pointer: int) -> None:
        with self.machine.lock:
            self.machine.registered.remove(pointer)
            self.machine.lifetimes.release_host(pointer)
            self.machine.raise_faults()

    def is_pinned(self, pointer: int) -> bool:
        with self.machine.lock:
            self.machine.raise_faults()
            block = self.machine.memory.find(pointer)
            return block is not None and block.device is None

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        sim_backend.copy(self.machine, dst, src, nbytes, _stream(stream))

    def takes_pageable(self, stream: RawStream, *, idle: bool) -> bool:
        return stream in self._default.values() and (not idle or self.stream_done(stream))

    def copy_to_device(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        values = np.frombuffer(ctypes.string_at(src, nbytes), np.uint8)  # the read is on time, the write may be late
        self._copy_pageable(dst, nbytes, stream, lambda target: np.copyto(target, values), is_write=True)
        return True

    def copy_to_host(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        target = _bytes(dst, nbytes)
        self._copy_pageable(src, nbytes, stream, lambda values: np.copyto(target, values), is_write=False)
        self.stream_synchronize(stream)
        return True

    def _copy_pageable(
        self, pointer: int, nbytes: int, stream: RawStream, copy: Callable[[Any], None], *, is_write: bool
    ) -> None:
        machine, on = self.machine, _stream(stream)
        with machine.lock:
            here = machine.span(pointer, nbytes, "copy", on)
            data = here.block.data[here.start : here.stop]
            spans = {"writes" if is_write else "reads": (here,)}
            machine.enqueue(on, "copy", lambda: copy(data), lane=Lane.H2D if is_write else Lane.D2H, **spans)

    def whole(self, array: FakeArray) -> tuple[int, tuple[int, ...], np.dtype[Any]] | None:
        return (array.pointer, array.shape, array.dtype) if array.info.is_c_contiguous else None

    def staging_calls(self, device: Device) -> StagingCalls:
        return self._staging[device].calls

    # --- streams and events

    def stream_create(self, device: Device, *, non_blocking: bool, priority: int) -> RawStream:
        kind = StreamKind.NON_BLOCKING if non_blocking else StreamKind.BLOCKING
        made = self.machine.stream(self._there(device), kind, priority)
        handle = self._handles[made.key] = StreamHandle(made.key, made, self.machine.lifetimes.ended, device)
        return handle

    def stream_wrap(self, handle: int, device: Device, *, native: Any = None) -> RawStream:
        if handle == LEGACY:
            return self._default[device]
        if handle == PER_THREAD:
            return StreamHandle(PER_THREAD, self.machine.per_thread(self._there(device)), None, device)
        made = self._handles[handle]  # of another library of the machine, where that made the stream
        device = self._devices[made.device.index]
        return made if made.device is device else StreamHandle(handle, made.stream, None, device)

    def stream_current(self, device: Device) -> RawStream:
        current: dict[Device, RawStream] = self._local.__dict__.get("streams", {})
        return current.get(device, self._default[device])

    def stream_use(self, stream: RawStream) -> None:
        self._local.__dict__.setdefault("streams", {})[stream.device] = stream

    def stream_synchronize(self, stream: RawStream) -> None:
        self.machine.waits.synchronize_stream(_stream(stream))

    def stream_done(self, stream: RawStream) -> bool:
        return self.machine.waits.is_stream_done(_stream(stream))

    def stream_options(self, stream: RawStream) -> tuple[int, bool]:
        made = _stream(stream)
        return made.priority, made.kind is StreamKind.NON_BLOCKING

    def stream_call(self, stream: RawStream, function: Any) -> None:
        self.machine.call(_stream(stream), function)

    def capture_begin(self, stream: RawStream) -> None:
        sim_backend.begin_capture(self.machine, _stream(stream))

    def capture_end(self, stream: RawStream) -> Any:
        return sim_backend.end_capture(self.machine, _stream(stream))

    def event_record(self, stream: RawStream, *, timing: bool, event: Any = None) -> FakeEvent:
        with self.machine.lock:
            found: FakeEvent = event if event is not None else FakeEvent(stream.device)
            self.events[found.handle] = found
            if found.device.index != stream.device.index:  # another library's of the same machine is the same
                self.machine.violations = [
                    *self.machine.violations, f"an event of {found.device} was recorded on {stream.device}",
                ]  # fmt: skip
            found.is_timed |= timing
            if found.is_timed:  # C records it again without saying so
                found.times_s = times_s = []  # of this record, which a later one of the event may precede in time
                note = lambda: times_s.append(time.perf_counter())
                Machine.enqueue(self.machine, _stream(stream), "record", note, lane=Lane.NONE)
            found.recorded = self.machine.record(_stream(stream), timing=timing)
            return found

    def event_wait(self, stream: RawStream, event: Any) -> None:
        self.machine.wait(_stream(stream), event.recorded)

    def event_done(self, event: Any) -> bool:
        return self.machine.waits.is_done(event.recorded)

    def event_synchronize(self, event: Any) -> None:
        self.machine.waits.synchronize(event.recorded)

    def event_elapsed_ms(self, start: Any, end: Any) -> float:
        return (end.times_s[-1] - start.times_s[-1]) * 1e3

    # --- kernels: the two that put an array in another order, recognised by name

    def compile(self, source: str, *, device: Device, options: Any = (), names: Any = ()) -> Any:
        return SimpleNamespace(cubin=source.encode(), names={})

    def load(self, cubin: bytes, *, name: str, device: Device) -> Any:
        return SimpleNamespace(kernel=sim_backend.load(cubin, name))

    def launch(
        self, kernel: Any, grid: Any, block: Any, params: int, *, stream: RawStream, shared_nbytes: int = 0
    ) -> None:
        sim_backend.launch(self.machine, kernel.kernel, params, _stream(stream))


def _bytes(pointer: int, nbytes: int) -> np.ndarray[Any, Any]:
    """Host memory at an address."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(pointer))


def _stream(stream: RawStream) -> SimStream:
    assert isinstance(stream, StreamHandle)
    return stream.stream


def hold_back(machine: FakeMachine) -> AbstractContextManager[None]:
    """Let nothing run but what is waited for, for a block."""
    return replace_attribute(machine.engine, "schedule", Lazy())
