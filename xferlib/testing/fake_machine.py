"""The machine of the fake accelerator: queues that run late, memory, and the checks that a GPU lacks."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib.backends.base import Device, RawStream, RecordedWork
from xferlib.errors import DeviceMemoryError, ForkError, PinnedMemoryError, TransferError

WORDS = {
    "unsigned char": "u1", "unsigned short": "u2", "unsigned int": "u4", "unsigned long long": "u8",
    "signed char": "i1", "short": "i2", "int": "i4", "long long": "i8", "half16": "f2", "float": "f4", "double": "f8",
    "ulonglong2": "V16",
}  # fmt: skip
"""dtypes by C's names of them, in the kernels of `xferlib._transfer.relayout`."""

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
