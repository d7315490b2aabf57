"""A backend whose device memory is host memory, with streams that run late, to test shared code without a GPU.

Register `FakeBackend` under the entry-point group ``xferlib.backends``. The work of a stream runs when the program
waits for it, and then in an adversarial order drawn from a seed. So the shared staging code really runs, and its
ordering is checked, on a machine without a GPU. An error that would corrupt data on a GPU is noted in
``FakeBackend.machine.violations``: a copy from memory that is neither pinned nor the device's, memory freed under a
pending copy, a misaligned kernel access.
"""

from __future__ import annotations

import ctypes
import re
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np

from xferlib.backends.base import (
    ArrayInfo,
    Backend,
    Capabilities,
    Device,
    DeviceKernels,
    DeviceProperties,
    FastCopies,
    RawStream,
    RecordedWork,
    StagingCalls,
    c_strides,
    make_device,
    staging_failure,
)
from xferlib.errors import PinnedMemoryError
from xferlib.testing.fake_machine import WORDS, FakeBlock, FakeEvent, FakeMachine, FakePoint, FakeQueue, fill_converted


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


class FakeBackend(Backend, FastCopies, DeviceKernels):
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
        self.fast = self.kernels = self
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
