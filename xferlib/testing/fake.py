"""A backend whose device memory is host memory, with streams that run late, to test shared code without a GPU.

Register `FakeBackend` under the entry-point group ``xferlib.backends``. The work of a stream runs when the program
waits for it, and then in an adversarial order drawn from a seed. So the shared staging code really runs, and its
ordering is checked, on a machine without a GPU. An error that would corrupt data on a GPU is noted in
``FakeBackend.machine.violations``: a copy from memory that is neither pinned nor the device's, memory freed under a
pending copy, a misaligned kernel access.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import random
import re
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
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
    RecordedWork,
    StagingCalls,
    c_strides,
    make_device,
    staging_failure,
)
from xferlib.errors import DeviceMemoryError, ForkError, PinnedMemoryError, TransferError

# The machine of the fake accelerator: queues that run late, memory, and the checks that a GPU lacks.

WORDS = {
    "unsigned char": "u1", "unsigned short": "u2", "unsigned int": "u4", "unsigned long long": "u8",
    "signed char": "i1", "short": "i2", "int": "i4", "long long": "i8", "half16": "f2", "float": "f4", "double": "f8",
    "ulonglong2": "V16",
}  # fmt: skip
"""dtypes by C's names of them, in the kernels of `xferlib._transfer.on_device`."""

POISON = 0xA5
"""The byte that fills fresh and freed memory."""


class FakePoint:
    """A position in a queue; an event is the last point recorded with it."""

    def __init__(self, queue: FakeQueue | None = None) -> None:
        self.queue = queue
        self.is_done = queue is None
        self.time_s = 0.0
        self.recorded: RecordedWork | None = None
        """The captured work in which it was recorded."""


class FakeEvent:
    """Made by the backend; recording it again moves its point."""

    numbers = itertools.count(1)

    def __init__(self, device: Device) -> None:
        self.point = FakePoint()
        self.device = device
        self.handle = next(self.numbers)


class FakeWork:
    """A copy or kernel, and the address ranges that it touches."""

    def __init__(self, run: Callable[[], Any], ranges: tuple[tuple[int, int], ...]) -> None:
        self.run = run
        self.ranges = ranges


class FakeQueue:
    """The work enqueued on a stream and not yet run, in order."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.options = (0, False)
        """Its priority, and whether it runs beside the default stream."""
        self.recorded: RecordedWork | None = None
        """Notes the work of a captured stream."""
        self.work: deque[Any] = deque()  # FakeWork, ("record", FakePoint), ("wait", FakePoint)


class FakeBlock:
    """Device or pinned memory; when it is collected, the machine's next call frees it."""

    def __init__(self, machine: FakeMachine, memory: Any, nbytes: int, kind: str, stream: RawStream | None) -> None:
        self.machine = machine
        self.memory = memory
        self.pointer = -(-memory.ctypes.data // 512) * 512
        self.nbytes = nbytes
        self.kind = kind
        self.stream = stream
        self.users: dict[int, RawStream] = {}

    def __del__(self) -> None:
        self.machine.dead.append((self.pointer, self.memory, self.nbytes, self.kind, self.stream, self.users))


class FakeMachine:
    """Queues, memory and the schedule of the fake device.

    Attributes:
        violations: Errors of the caller that would corrupt data on a GPU; a test asserts that there are none.
        limits: The most bytes of each kind of memory, ``{"pinned": 1 << 20}``; a kind that is missing has no limit.
        progresses_on_query: Whether a query of an event or a stream runs one step; False keeps all work in its queue.
        failing: An error that every copy and kernel raises instead of being enqueued.
        random: The source of the random schedule.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.pid = os.getpid()
        self.queues: dict[int, FakeQueue] = {}
        self.live: dict[int, tuple[int, str]] = {}
        self.dead: deque[Any] = deque()
        self.free: dict[tuple[int, int], list[Any]] = {}
        self.violations: list[str] = []
        self.kept: list[Any] = []
        self.limits: dict[str, int] = {}
        self.progresses_on_query = True
        self.failing: Exception | None = None
        self.random = random.Random(0)

    def enter(self) -> None:
        """Refuse a forked child, and free the memory that was collected."""
        if os.getpid() != self.pid:
            raise ForkError(f"the fake device was used in process {os.getpid()}, forked from {self.pid}; use spawn")
        with self.lock:
            while self.dead:
                self._free(*self.dead.popleft())

    def held(self, kind: str) -> int:
        return sum(nbytes for nbytes, its_kind in self.live.values() if its_kind == kind)

    # --- memory

    def allocate(self, nbytes: int, kind: str, stream: RawStream | None = None) -> FakeBlock:
        with self.lock:
            self.enter()
            recycled = self.free.get((stream.handle, nbytes)) if stream is not None else None
            if recycled:
                return FakeBlock(self, recycled.pop(), nbytes, kind, stream)
            if kind in self.limits and self.held(kind) + nbytes > self.limits[kind]:
                wrong = DeviceMemoryError if kind == "device" else PinnedMemoryError
                raise wrong(f"{nbytes} bytes do not fit in the fake's {self.limits[kind]}; free arrays")
            pages = np.frombuffer(mmap.mmap(-1, nbytes + 1024), np.uint8)  # shared with nothing that may be pinned
            pages.fill(POISON)
            block = FakeBlock(self, pages, nbytes, kind, stream)
            self.live[block.pointer] = (max(nbytes, 1), kind)
            return block

    def _free(self, pointer: int, memory: Any, nbytes: int, kind: str, stream: Any, users: dict[int, Any]) -> None:
        if kind == "device":  # back to the allocation stream's pool, whose next user may write at once
            for user in users.values():
                if user.handle != stream.handle:
                    self.wait(stream.handle, self.record(user.handle))
            poison = FakeWork(lambda: ctypes.memset(pointer, POISON, nbytes), ((pointer, pointer + nbytes),))
            self.queues[stream.handle].work.append(poison)
            self.free.setdefault((stream.handle, nbytes), []).append(memory)
            return
        self.refuse_pending(pointer, nbytes, "pinned memory was freed")
        self.kept.append(memory)  # a late copy must find memory, not a fault
        ctypes.memset(pointer, POISON, nbytes)
        del self.live[pointer]

    def refuse_pending(self, pointer: int, nbytes: int, what: str) -> None:
        for queue in self.queues.values():
            for item in queue.work:
                if isinstance(item, FakeWork) and any(lo < pointer + nbytes and pointer < hi for lo, hi in item.ranges):
                    self.violations.append(f"{what} under a pending copy")

    def check(self, low: int, high: int) -> None:
        for start, (nbytes, _) in self.live.items():
            if start <= low and high <= start + nbytes:
                return
        raise TransferError(f"[{low:#x}, {high:#x}) is neither pinned nor device memory; stage it")

    # --- queues

    def record(self, handle: int) -> FakePoint:
        point = FakePoint(self.queues[handle])
        self.queues[handle].work.append(("record", point))
        return point

    def wait(self, handle: int, point: FakePoint) -> None:
        self.queues[handle].work.append(("wait", point))

    def enqueue(self, stream: RawStream, run: Callable[[], Any], ranges: tuple[tuple[int, int], ...]) -> None:
        with self.lock:
            self.enter()
            if self.failing is not None:
                raise self.failing
            for low, high in ranges:
                self.check(low, high)
            if (recorded := self.queues[stream.handle].recorded) is not None:
                recorded.add(stream.handle, lambda handle, _: self.queues[handle].work.append(FakeWork(run, ranges)))
                return
            self.queues[stream.handle].work.append(FakeWork(run, ranges))

    def step(self, queue: FakeQueue) -> bool:
        """Run the first item of a queue, if it may run."""
        item = queue.work[0]
        if isinstance(item, FakeWork):
            queue.work.popleft()
            item.run()
            return True
        kind, point = item
        if kind == "wait" and not point.is_done:
            return False
        queue.work.popleft()
        if kind == "record":
            point.time_s = time.perf_counter()
            point.is_done = True
        return True

    def step_any(self) -> bool:
        queues = [queue for queue in self.queues.values() if queue.work]
        self.random.shuffle(queues)
        return any(self.step(queue) for queue in queues)

    def reach(self, point: FakePoint) -> None:
        """Run until a point is complete: in random order, or only the work that it needs, as the seed decides."""
        with self.lock:
            self.enter()
            is_lazy = self.random.random() < 0.5
            while not point.is_done:
                if not (self._toward(point) if is_lazy else self.step_any()):
                    raise AssertionError("the fake device is deadlocked")

    def _toward(self, point: FakePoint) -> bool:
        while point.queue is not None and point.queue.work:
            head = point.queue.work[0]
            if isinstance(head, FakeWork) or head[0] == "record" or head[1].is_done:
                return self.step(point.queue)
            point = head[1]
        return False

    def has_passed(self, point: FakePoint) -> bool:
        with self.lock:
            self.enter()
            if self.progresses_on_query and not point.is_done:
                self.step_any()
            return point.is_done

    def finish(self) -> None:
        with self.lock:
            self.enter()
            while self.step_any():
                pass


def fill_converted(dst: np.ndarray[Any, Any], src: np.ndarray[Any, Any]) -> None:
    """``dst[...] = src``, converted as kernels do: floats saturate to integers, and NaN becomes 0."""
    if src.dtype.kind == "f" and dst.dtype.kind in "iu":
        limits = np.iinfo(dst.dtype)
        values, beyond = src.astype(np.float64), 2.0 ** (limits.bits - (dst.dtype.kind == "i"))
        is_large, is_small = values >= beyond, values < float(limits.min)
        src = np.where(np.isnan(values) | is_large | is_small, 0, values).astype(dst.dtype)
        src[is_large], src[is_small] = limits.max, limits.min
    with np.errstate(over="ignore", invalid="ignore"):
        np.copyto(dst, src, casting="unsafe")


def _raw(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, typestr: str) -> Any:
    described = {"data": (pointer, False), "shape": shape, "strides": strides, "typestr": typestr, "version": 3}
    return np.asarray(SimpleNamespace(__array_interface__=described))


class FakeArray:
    """An array on the fake device; indexing and transposing give views."""

    def __init__(self, block: Any, pointer: int, shape: Any, strides: Any, dtype: Any, device: Device) -> None:
        self.block = block
        self.pointer = pointer
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.dtype = np.dtype(dtype)
        self.device = device

    def _over(self, seen: Any) -> FakeArray:
        return type(self)(self.block, seen.ctypes.data, seen.shape, seen.strides, self.dtype, self.device)

    def _seen(self) -> Any:
        return _raw(self.pointer, self.shape, self.strides, self.dtype.str)

    def __getitem__(self, key: Any) -> FakeArray:
        return self._over(self._seen()[key])

    def transpose(self, *axes: int) -> FakeArray:
        return self._over(self._seen().transpose(*axes))


def _callbacks(backend: FakeBackend) -> tuple[Any, Any, Any]:
    """The functions that staging in C calls, in Python: copy, record and wait."""

    def guarded(call: Any) -> Any:
        def run(*args: Any) -> int:
            try:
                call(*args)
            except BaseException as error:
                backend.staging_failure = error
                return 999
            return 0

        return run

    def stream(handle: int | None) -> RawStream:
        return backend.stream_wrap(handle or 0, backend._devices[0])

    word, pointer = ctypes.c_uint64, ctypes.c_void_p
    return (
        ctypes.CFUNCTYPE(ctypes.c_int, word, word, ctypes.c_size_t, pointer)(
            guarded(lambda dst, src, nbytes, handle: backend.copy(dst, src, nbytes, stream=stream(handle)))
        ),
        ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(
            guarded(lambda e, s: backend.event_record(stream(s), timing=False, event=backend._events[e]))
        ),
        ctypes.CFUNCTYPE(ctypes.c_int, pointer)(guarded(lambda e: backend.event_synchronize(backend._events[e]))),
    )


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

    def __init__(self) -> None:
        self.fast = self
        self.machine = FakeMachine()
        self._devices = tuple(make_device(self.name, "sim", index) for index in range(2))
        self._local = threading.local()
        self._handles = 0
        self._default = {device: self.stream_create(device, non_blocking=False, priority=0) for device in self._devices}
        self._events: weakref.WeakValueDictionary[int, FakeEvent] = weakref.WeakValueDictionary()
        self._callbacks = _callbacks(self)
        self.staging_failure: BaseException | None = None

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def device_properties(self, device: Device) -> DeviceProperties:
        return DeviceProperties(name="fake", total_nbytes=1 << 30)

    def device_current(self) -> Device:
        return getattr(self._local, "device", self._devices[0])

    def device_use(self, device: Device) -> None:
        self._local.device = device

    def device_synchronize(self, device: Device) -> None:
        with self.machine.lock:
            self.machine.enter()
            for handle, queue in self.machine.queues.items():
                if queue.device is device and queue.work:
                    self.machine.reach(self.machine.record(handle))

    def attach(self, device: Device) -> None:
        self.machine.enter()

    # --- arrays

    def empty(self, shape: tuple[int, ...], dtype: Any, *, device: Device, stream: RawStream) -> Any:
        assert stream.device is device  # a library takes no stream of another one's
        block = self.machine.allocate(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, "device", stream)
        array = self.array_class(block, block.pointer, shape, c_strides(shape, dtype.itemsize), dtype, device)
        self.consumed(array, self.stream_current(device))
        return array

    def view(self, array: FakeArray) -> ArrayInfo:
        return ArrayInfo(array.pointer, array.shape, array.strides, array.dtype, array.device, True)

    def subarray(self, slab: FakeArray, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
        return self.array_class(
            slab.block, slab.pointer + offset, shape, c_strides(shape, dtype.itemsize), dtype, slab.device
        )

    def consumed(self, array: FakeArray, stream: RawStream) -> None:
        assert stream.device.backend == self.name  # a library takes no stream of another one's
        array.block.users[stream.handle] = stream

    # --- memory and copies

    def pinned_alloc(self, nbytes: int) -> FakeBlock:
        return self.machine.allocate(nbytes, "pinned")

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        with self.machine.lock:
            for start, (size, _) in self.machine.live.items():
                if start < pointer + nbytes and pointer < start + size:
                    raise PinnedMemoryError(f"{nbytes} bytes at {pointer:#x} are pinned already")
            self.machine.live[pointer] = (nbytes, "registered")

    def pinned_unregister(self, pointer: int) -> None:
        with self.machine.lock:
            nbytes, kind = self.machine.live.pop(pointer)
            assert kind == "registered"
            self.machine.refuse_pending(pointer, nbytes, "memory was unpinned")

    def is_pinned(self, pointer: int) -> bool:
        with self.machine.lock:
            return any(s <= pointer < s + n and k != "device" for s, (n, k) in self.machine.live.items())

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        ranges = ((dst, dst + nbytes), (src, src + nbytes))
        self.machine.enqueue(stream, lambda: ctypes.memmove(dst, src, nbytes), ranges)

    def takes_pageable(self, stream: RawStream, *, idle: bool) -> bool:
        return stream in self._default.values() and (not idle or self.stream_done(stream))

    def copy_to_device(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        read = ctypes.string_at(src, nbytes)  # the read is on time, the write may be late
        self.machine.enqueue(stream, lambda: ctypes.memmove(dst, read, nbytes), ((dst, dst + nbytes),))
        return True

    def copy_to_host(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        self.machine.enqueue(stream, lambda: ctypes.memmove(dst, src, nbytes), ((src, src + nbytes),))
        self.stream_synchronize(stream)
        return True

    def whole(self, array: FakeArray) -> tuple[int, tuple[int, ...], np.dtype[Any]] | None:
        is_whole = self.view(array).is_c_contiguous
        return (array.pointer, array.shape, array.dtype) if is_whole else None

    def staging_calls(self, device: Device) -> StagingCalls:
        copy, record, wait = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in self._callbacks)
        return StagingCalls(copy, record, wait, failure=self._failure)

    def _failure(self, code: int, stream: RawStream) -> BaseException:
        failure, self.staging_failure = self.staging_failure, None
        return failure if failure is not None else staging_failure(code, stream)

    # --- streams and events

    def stream_create(self, device: Device, *, non_blocking: bool, priority: int) -> RawStream:
        with self.machine.lock:
            self.machine.enter()
            handle = 0x1000 * self._handles
            self._handles += 1
            self.machine.queues[handle] = FakeQueue(device)
            self.machine.queues[handle].options = (priority, non_blocking)
        return RawStream(handle, device)

    def stream_wrap(self, handle: int, device: Device, *, native: Any = None) -> RawStream:
        place = self.machine.queues[handle].device  # of another library of the machine, where that made the stream
        return RawStream(handle, self._devices[place.index], native=native)

    def stream_current(self, device: Device) -> RawStream:
        current: dict[Device, RawStream] = self._local.__dict__.get("streams", {})
        return current.get(device, self._default[device])

    def stream_use(self, stream: RawStream) -> None:
        self._local.__dict__.setdefault("streams", {})[stream.device] = stream

    def stream_synchronize(self, stream: RawStream) -> None:
        with self.machine.lock:
            self.machine.enter()
            self.machine.reach(self.machine.record(stream.handle))

    def stream_done(self, stream: RawStream) -> bool:
        with self.machine.lock:
            self.machine.enter()
            queue = self.machine.queues[stream.handle]
            if queue.work and self.machine.progresses_on_query:
                self.machine.step_any()
            return not queue.work

    def stream_options(self, stream: RawStream) -> tuple[int, bool]:
        return self.machine.queues[stream.handle].options

    def stream_call(self, stream: RawStream, function: Any) -> None:
        self.machine.enqueue(stream, function, ())

    def event_record(self, stream: RawStream, *, timing: bool, event: Any = None) -> FakeEvent:
        with self.machine.lock:
            self.machine.enter()
            recorded = event if event is not None else FakeEvent(stream.device)
            self._events[recorded.handle] = recorded
            if recorded.device.index != stream.device.index:  # another library's of the same machine is the same
                self.machine.violations.append(f"an event of {recorded.device} was recorded on {stream.device}")
            work = self.machine.queues[stream.handle].recorded
            if work is None:
                recorded.point = self.machine.record(stream.handle)
            else:
                recorded.point = point = FakePoint()
                point.recorded = work
                work.add(stream.handle, lambda h, points: points.update({id(point): self.machine.record(h)}))
            return recorded

    def capture_begin(self, stream: RawStream) -> None:
        self.machine.queues[stream.handle].recorded = RecordedWork(stream.handle)

    def capture_end(self, stream: RawStream) -> Any:
        queues, made = self.machine.queues, []
        work = queues[stream.handle].recorded
        assert work is not None
        own: dict[int, int] = {}
        for handle in (stream.handle, *work.others):
            queues[handle].recorded = None
            made.append(self.stream_create(queues[handle].device, non_blocking=True, priority=0))
            own[handle] = made[-1].handle
        return None if work.is_empty else lambda on: work.repeat({**own, stream.handle: on.handle})

    def event_wait(self, stream: RawStream, event: Any) -> None:
        with self.machine.lock:
            self.machine.enter()
            point, queue = event.point, self.machine.queues[stream.handle]
            if point.recorded is not None:
                queue.recorded = point.recorded
                wait = lambda handle, points: self.machine.wait(handle, points[id(point)])
                point.recorded.add(stream.handle, wait)
                return
            self.machine.wait(stream.handle, event.point)

    def event_done(self, event: Any) -> bool:
        return self.machine.has_passed(event.point)

    def event_synchronize(self, event: Any) -> None:
        self.machine.reach(event.point)

    def event_elapsed_ms(self, start: Any, end: Any) -> float:
        elapsed_s: float = end.point.time_s - start.point.time_s
        return elapsed_s * 1e3

    # --- kernels: the two that put an array in another order, recognised by name

    def compile(self, source: str, *, device: Device, options: Any = (), names: Any = ()) -> Any:
        return SimpleNamespace(cubin=source.encode(), names={})

    def load(self, cubin: bytes, *, name: str, device: Device) -> Any:
        source = cubin.decode()
        signature = re.search(rf"{name}\(([^)]*)\)", source)
        words = re.search(r"\*\(([a-z0-9 ]+)\*\)\(dst.*\*\(const ([a-z0-9 ]+)\*\)\(src", source)
        assert signature is not None, f"the fake device knows no kernel {name!r}"
        assert words is not None
        written, read = ("?" if " != 0; }" in source else WORDS[words[1]]), WORDS[words[2]]
        return SimpleNamespace(
            name=name, device=device, count=signature[1].count(",") + 1, types=[*map(np.dtype, (written, read))]
        )

    def launch(
        self, kernel: Any, grid: Any, block: Any, params: int, *, stream: RawStream, shared_nbytes: int = 0
    ) -> None:
        pointers = (ctypes.c_void_p * kernel.count).from_address(params)
        values = [ctypes.c_int64.from_address(pointer).value for pointer in pointers]
        tail = {"copy_elements": 3, "copy_rows": 6, "copy_tiles": 9}[kernel.name]
        axes = [tuple(values[at : at + 3]) for at in range(tail, len(values), 3)]
        if kernel.name == "copy_tiles":
            rows, cols, row_dst, row_src, col_dst, col_src = values[3:9]
            axes += [(rows, row_dst, row_src), (cols, col_dst, col_src)]
        elif kernel.name == "copy_rows":
            axes.append(tuple(values[3:6]))
        shape = tuple(axis[0] for axis in axes)
        ends = [
            _raw(values[end], shape, tuple(axis[1 + end] for axis in axes), dtype.str)
            for end, dtype in enumerate(kernel.types)
        ]
        dst, src = ends
        if any(number % each.itemsize for each in ends for number in (each.ctypes.data, *each.strides)):
            self.machine.violations.append(f"misaligned access in {kernel.name}: {values}")
        ranges = tuple(np.lib.array_utils.byte_bounds(each) for each in (dst, src))
        if kernel.device is not stream.device:
            self.machine.violations.append(f"a kernel loaded on {kernel.device} was launched on {stream.device}")
        self.machine.enqueue(stream, lambda: fill_converted(dst, src), ranges)
