"""Medium arrays, sent ahead on a side stream into memory of the stream that will use them.

The obvious way is memory of the copying stream: the consumer's stream waits for the copy, and the memory is free for
the next copy when the consumer's work on it is complete. That takes an event after the consumer's work and a guard on
every array, and for arrays of this size these cost more than the copy. The other obvious way, a copy on the consumer's
stream, runs after the work on the array before instead of beside it.

So the array is allocated on the consumer's stream, whose order alone makes its reuse safe, and the copy runs on one
side stream (`_carrier`) behind an event (`_free`) recorded on the consumer's stream after the allocation: the memory
may still be read by work that was enqueued before. The consumer's stream waits for the copy when the array is handed
out. Pageable memory is staged by other threads while the consumer works, and the copy is enqueued in the consumer's
thread when it asks for the next array, since only there the current stream is the consumer's.

Guaranteed:

- If the array is handed out on another stream than it was allocated for, it is guarded as in the obvious way.
- After an error, Ctrl-C included, no copy is in flight that no event marks: `in_flight.abandon` waits for the stream.
- An event in `spare` is recorded anew only after its waits were enqueued; a wait for the earlier record stays one.
- A pinned buffer is filled again only when its last copy is complete (`PinnedBuffer.settle`).

Nothing here is locked. The consumer's thread does everything under `Feed._turn`, but for `stage` and `await_buffer`,
which only the thread of a `ThreadedFeed` calls (there the consumer stages nothing), and `cancel`, which follows the
close of the feed. `_idle` is used by both threads: its `append` and `popleft` are atomic. `_made` and `_last` are each
changed by one thread of a feed.
"""

from __future__ import annotations

import math
import mmap
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from xferlib import _native, tree
from xferlib._api import transfers
from xferlib._core import observe, registry
from xferlib._core.arrays import address, address_in_order, as_host_array, check_dtype, refuse_truncated
from xferlib._core.dtypes import SUPPORTED
from xferlib._core.observe import Kind
from xferlib._core.streams import Stream, copy_behind
from xferlib._core.thresholds import (
    DIRECT_MOST,
    DRIVER_MOST,
    HELPER_NBYTES,
    LARGE_NBYTES,
    MEDIUM_NBYTES,
    PINNED_QUERY_FROM,
    SMALL_NBYTES,
)
from xferlib._core.trees import flatten, say_where
from xferlib._memory import lifetimes, pinned
from xferlib._runtime import threads
from xferlib._runtime.checks import guard_end
from xferlib._runtime.threads import Handed
from xferlib._transfer import copies, describe, many, plan, staging
from xferlib._transfer.describe import CopyTarget, HostEnd, Upload
from xferlib._transfer.handle import Transfer
from xferlib._transfer.plan import TransferPath
from xferlib._transfer.staging import Filling, fill, gather
from xferlib.errors import ArrayError, OutOfMemoryError, PinnedMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xferlib._core.arrays import Array, HostArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawEvent, RawStream, StagingCalls
    from xferlib._memory.lifetimes import Lease
    from xferlib._transfer.plan import Plan


WHOLE_MOST = 4 * LARGE_NBYTES
"""Bytes of an array that threads copy into pinned memory before any of it is sent: one of a generator in its turn."""


# Arrays of a loop in pinned memory: the buffer that holds one, and when it may be used again.


class PinnedBuffer:
    """Pinned memory for one array after the other, recycled by the pool when the last copy from it is complete."""

    __slots__ = ("_copied", "_lease", "memory", "nbytes", "pointer")

    def __init__(self, memory: HostArray, lease: Lease) -> None:
        self.memory = memory
        self._lease = lease
        self._copied: RawEvent | None = None
        self.pointer = address(memory)
        self.nbytes = memory.nbytes

    def note(self, copied: RawEvent) -> None:
        """Note the event of the last copy from this buffer."""
        self._copied = copied
        self._lease.events[:] = [copied]

    def settle(self, backend: Backend) -> None:
        """Wait until no copy uses the buffer."""
        if self._copied is not None:
            backend.event_synchronize(self._copied)


class StagedArray(NamedTuple):
    """An array whose bytes are in pinned memory, or are being staged there."""

    buffer: PinnedBuffer
    filling: Filling | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def end(self) -> None:
        """Wait until the source is not read any more."""
        if self.filling is not None:
            self.filling.end()


MOST_BUFFERS = 4
"""Buffers of one loop, in `replay.h` too."""

Buffers: TypeAlias = "tuple[Any, int, tuple[tuple[int, int], ...], tuple[int, ...], int, int, int, int, int, int]"
"""Pinned memory for `reader.c`: what is to be kept; the bytes of a buffer; the address of each, and its event's handle;
the functions that copy, record, wait for an event and query it, fill, begin to and end that; the last arguments of
those; and the bytes from which on threads take part, up to which they go past the caches, and from which on the driver
is asked what it knows of an array."""
_KEPT = 4
"""Parts that stay the same for the next loop."""


class SideStream:
    """Events, and a stream, by which C sends pinned arrays beside the consumer's work: see `reader.c`.

    Args:
        stream: Carries the copies.
        events: One for each array that may be ahead.
        freed: Recorded after the consumer's work that may still use an array's memory.
    """

    __slots__ = ("events", "freed", "stream")

    def __init__(self, stream: RawStream, events: list[Any], freed: Any) -> None:
        self.stream = stream
        self.events = events
        self.freed = freed


def hold_source(source: HostArray, backend: Backend, event: RawEvent) -> None:
    """Keep a pinned array, or its block out of the pool, until an event."""
    ranges = pinned.find(address(source), source.nbytes, backend, asks=False)
    lifetimes.hold_pinned(source, ranges.lease if ranges is not None else None, backend, event)


class SideStreamUploader:
    """Copies of one consumer's arrays, one after the other.

    Args:
        backend: Serves ``device``.
        device: The target device.
        streams: Gives streams; the first is for the copies.
        count: The most batches that may be in flight.
    """

    __slots__ = (
        "_count", "_depth", "_device", "_form", "_free", "_idle", "_latest", "_made", "_resumed", "_room", "_room_free",
        "_streams", "backend", "spare",
    )  # fmt: skip

    def __init__(self, backend: Backend, device: Device, streams: Callable[[], list[RawStream]], count: int) -> None:
        self.backend = backend
        self._device = device
        self._streams = streams
        self._resumed: SideStream | None = None
        """The stream and the events by which C sent arrays that it left to Python."""
        self._free: RawEvent | None = None
        """Recorded after the consumer's work that may still use an array's memory; recorded anew for each."""
        self._latest: PendingUpload | None = None
        """The last one that was staged and sent, until it is handed out."""
        self._form: tuple[tuple[int, ...], np.dtype[Any]] = (), np.dtype(np.uint8)
        """The shape and dtype of that one, and of `_room`."""
        self._room: tuple[Array, RawStream] | None = None
        """Memory for the next array, and the stream that owns it."""
        self._room_free: RawEvent | None = None
        """Recorded after the consumer's work that may still use the memory of `_room`."""
        self._depth = self._count = count
        self._made = 0
        self._idle: deque[PinnedBuffer] = deque()
        """Buffers, in the order of their last copies."""
        self.spare: deque[RawEvent] = deque(maxlen=count + 1)
        """Events of copies whose waits are enqueued, to be recorded again. One that is still referred to elsewhere then
        stands for a later copy on the same stream, which is on the safe side."""

    @property
    def _pool(self) -> pinned.PinnedPool:
        return pinned.pools.of(self.backend)

    @property
    def _carrier(self) -> RawStream:
        return self._resumed.stream if self._resumed is not None else self._streams()[0]

    def share(self, arrays: int) -> None:
        """Let each batch have a pinned buffer for this number of arrays."""
        self._count = max(self._count, arrays * self._depth)

    def provide(self, nbytes: int) -> Buffers | None:
        """Buffers of ``nbytes`` or more, through which C sends arrays on the calling thread's current stream.

        None where pinned memory is short, or C does not stage for this device.
        """
        stream = self.backend.stream_current(self._device)
        calls = staging.calls_of(self.backend, stream)
        if calls is None or not calls.query or plan.forced() is not None:
            return None
        kept = self._pool.kept.pop((self._device, self._depth), None)
        if kept is None or kept[1] < nbytes:
            kept = self._make_buffers(nbytes, stream, calls)
        if kept is None:
            return None
        return (*kept, *staging.fill_crew(), HELPER_NBYTES, staging.PAST_MOST, PINNED_QUERY_FROM)

    def keep(self, buffers: Buffers) -> None:
        """Keep buffers for the next loop: to make them, and their events, takes 60 to 160 us (H200)."""
        self._pool.kept[self._device, self._depth] = buffers[:_KEPT]

    def provide_beside(self) -> tuple[SideStream, int, int, tuple[int, ...], tuple[int, ...]] | None:
        """Provide C with what sends pinned arrays beside the consumer's work, its handles, and the driver's functions.

        None where C does not enqueue copies for this device.
        """
        backend = self.backend
        current = backend.stream_current(self._device)
        calls = staging.calls_of(backend, current)
        if calls is None or not calls.order or plan.forced() is not None:
            return None
        kept = self._pool.kept.pop((self._device, self._depth, "beside"), None)
        if kept is None:
            events: list[Any] = [backend.event_record(current, timing=False) for _ in range(self._depth)]
            stream = backend.stream_create(self._device, non_blocking=True, priority=0)
            kept = SideStream(stream, events[1:], events[0])
        functions = calls.record, calls.wait, calls.order
        return kept, kept.stream.handle, kept.freed.handle, tuple(event.handle for event in kept.events), functions

    def keep_beside(self, kept: SideStream) -> None:
        """Keep for the next loop what `provide_beside` gave."""
        self._pool.kept[self._device, self._depth, "beside"] = kept

    def resume(
        self, beside: SideStream, owner: RawStream, source: HostArray, array: Array, number: int
    ) -> PendingUpload:
        """A pinned array that C has sent ahead into memory of ``owner``'s, with the number of its event."""
        if self._resumed is not beside:  # an event is recorded again on the stream of its last copy alone
            self._resumed = beside
            self.spare.clear()
        pending = PendingUpload(self)
        pending.array, pending.owner, pending.copied = array, owner, beside.events[number]
        hold_source(source, self.backend, pending.copied)
        return pending

    def _make_buffers(self, nbytes: int, stream: RawStream, calls: StagingCalls) -> Any:
        """New ones; None where pinned memory is short."""
        backend, count = self.backend, min(self._depth, MOST_BUFFERS)
        size = max(1 << (nbytes - 1).bit_length(), mmap.PAGESIZE)  # few steps for arrays that grow
        try:
            memory = self._pool._lend((count * size,), np.dtype(np.uint8))
            lease = self._pool.find(address(memory))
        except PinnedMemoryError:
            return None
        if lease is None:
            return None
        events: list[Any] = [backend.event_record(stream, timing=False) for _ in range(count)]
        lease.events[:] = events  # which C records anew: the pool lends the memory again behind their last records
        parts = tuple((address(memory) + number * size, event.handle) for number, event in enumerate(events))
        fills = _native.addresses_of("xf_fill", "xf_fill_begin", "xf_fill_end")
        functions = calls.copy, calls.record, calls.wait, calls.query, *fills
        return (memory, events), size, parts, functions

    @observe.user_call(lambda self, host: (self.backend, host.nbytes))
    def send(self, host: HostArray) -> PendingUpload:
        """Start copying an array into memory of the calling thread's current stream.

        Raises:
            As `xferlib.to_device`: nothing has been begun.
        """
        backend, pointer = self.backend, address_in_order(host) if host.dtype in SUPPORTED else 0
        lease = self._pool.find(pointer) if pointer and self._pool.starts and plan.may_skip() else None
        if lease is None:
            host = as_host_array(host)
            end = HostEnd(host, describe.choose_dtype(None, host.dtype), backend)
            found = plan.of(end, self._device, is_upload=True, is_blocking=False, may_permute=False, may_cast=False)
            plan.refuse_slow(found, host.nbytes, "prefetch")
        backend.attach(self._device)
        if observe.listener is not None:
            observe.note_host_access(host, backend.pinned_domain, is_write=False)
        if (
            lease is None
            and found.path is TransferPath.STAGED
            and found.is_plain
            and plan.forced() is None
            and _native.is_on()
        ):
            if (staging := self._begin_staging(end)) is not None:
                return staging
        ahead = PendingUpload(self)
        try:
            if lease is None:
                self._begin(ahead, end, found)
            else:  # memory of the pool needs no plan
                lease.hold(self._enqueue(ahead, host.shape, host.dtype, pointer, host.nbytes, is_pinned=True))
        except BaseException:  # Ctrl-C too, which may have struck behind a copy: the array's memory will be freed
            lifetimes.abandon(backend, self._carrier)
            raise
        return ahead

    def _begin_staging(self, end: HostEnd) -> PendingUpload | None:
        """Let threads stage plain bytes; None where pinned memory is short."""
        buffer = self._buffer(end.nbytes)
        if buffer is None:
            return None
        filling = Filling(buffer.pointer, end.pointer, end.nbytes, end.array)
        return PendingUpload(self, StagedArray(buffer, filling, end.array.shape, end.dtype))

    def _begin(self, ahead: PendingUpload, end: HostEnd, found: Plan) -> None:
        """Enqueue the copy of an array that is in pinned memory, or is staged by this thread."""
        host, pinned = end.array, end.pinned if found.path is TransferPath.PINNED else None
        if pinned is not None and len(pinned.spans) == 1:
            copied = self._enqueue(ahead, host.shape, end.dtype, end.pointer, end.nbytes, is_pinned=True)
        else:
            copied = self._upload(ahead, end, found)
        if pinned is not None:
            lifetimes.hold_pinned(host, pinned.lease, self.backend, copied)

    def stage(self, host: HostArray) -> PendingUpload | None:
        """Copy an array of any layout into pinned memory, from which the consumer's thread sends it.

        The source may be changed on return. None, and nothing done, where pinned memory is short.

        Raises:
            UnsupportedDTypeError: No device holds it.
        """
        host = as_host_array(host)
        end = HostEnd(host, describe.choose_dtype(None, host.dtype), self.backend)
        self.backend.attach(self._device)
        observe.note_host_access(host, self.backend.pinned_domain, is_write=False)
        buffer = self._buffer(end.nbytes)
        if buffer is None:
            return None
        if end.is_plain and _native.is_on():
            fill(buffer.pointer, end.pointer, end.nbytes)
        else:
            gather(host, end.dtype, buffer.memory, buffer.pointer)
        return PendingUpload(self, StagedArray(buffer, None, host.shape, end.dtype))

    def await_buffer(self) -> None:
        """Wait until `stage` need not wait for the device."""
        if self._idle and self._made >= self._count:
            self._idle[0].settle(self.backend)

    def dispatch(self, ahead: PendingUpload, staged: StagedArray) -> None:
        """Enqueue the copy of a staged array into memory of the calling thread's current stream."""
        try:
            copied = self._enqueue(ahead, staged.shape, staged.dtype, staged.buffer.pointer, staged.nbytes)
            staged.buffer.note(copied)
            self._latest, self._form = ahead, (staged.shape, staged.dtype)
        except BaseException:  # Ctrl-C too: it may have struck behind the copy
            lifetimes.abandon(self.backend, self._carrier)
            raise

    def _buffer(self, nbytes: int) -> PinnedBuffer | None:
        """Return pinned memory that no copy uses; None where pinned memory is short."""
        if self._idle and self._made >= self._count:
            buffer = self._idle.popleft()
            buffer.settle(self.backend)
            if buffer.nbytes >= nbytes:
                return buffer
            self._made -= 1
        try:
            memory = self._pool._lend((nbytes,), np.dtype(np.uint8))
        except PinnedMemoryError:
            return None
        lease = self._pool.find(address(memory))
        if lease is None:
            return None
        self._made += 1
        return PinnedBuffer(memory, lease)

    def give_back(self, buffer: PinnedBuffer) -> None:
        """Recycle a buffer: it is filled again when its last copy is complete."""
        self._idle.append(buffer)

    def _allocate(
        self, ahead: PendingUpload, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> tuple[Array, RawStream, bool]:
        """Allocate on the calling thread's current stream, unless an earlier attempt has.

        Returns:
            The array, its stream, and whether `_room_free` is all that its memory has to wait for.
        """
        owner, array = ahead.owner, ahead.array
        if owner is not None and array is not None:
            return array, owner, False
        owner = ahead.owner = self.backend.stream_current(self._device)
        room, self._room = self._room, None
        is_free = room is not None and self._form == (shape, dtype) and room[1].handle == owner.handle
        if room is None or not is_free:
            del room  # before another one is allocated
            array = self.backend.empty(shape, dtype, device=self._device, stream=owner)
        else:
            array = room[0]
        ahead.array = array
        return array, owner, is_free

    def _enqueue(
        self, ahead: PendingUpload, shape: tuple[int, ...], dtype: np.dtype[Any], source: int, nbytes: int,
        is_pinned: bool = False,
    ) -> RawEvent:  # fmt: skip
        """Allocate, and enqueue one copy from pinned memory behind the work enqueued on the owner; return its event.

        A buffer must not wait for the event of a later copy: memory that the caller has pinned (``is_pinned``) may.
        """
        array, owner, is_free = self._allocate(ahead, shape, dtype)
        backend, carrier = self.backend, self._carrier
        target = backend.operands((array,))[0]
        reused = self.spare.popleft() if is_pinned and self.spare else None
        if is_free or observe.active is not None:
            if is_free:
                backend.event_wait(carrier, self._room_free)
            else:
                self._follow(owner)
            observe.copy(Kind.H2D, target, source, nbytes, backend, carrier)
            copied = backend.event_record(carrier, timing=False)
        else:
            self._free, copied = copy_behind(
                backend, target, source, nbytes, behind=owner, stream=carrier, event=self._free, copied=reused
            )
        ahead.copied = copied
        return copied

    def make_room(self, before: PendingUpload) -> None:
        """Allocate for an array like the one that is handed out, unless another one is on its way already.

        Where the consumer comes for each array as soon as it is staged, its work on the one before is enqueued by then,
        and memory that is allocated behind that work cannot be written beside it: 16 MiB took 645 us to copy and to
        compute on, one after the other, and the longer of the two 320 (H200).
        """
        if self._latest is not before:
            return
        self._latest, owner, backend = None, before.owner, self.backend
        if self._count > self._depth or owner is None:
            return
        shape, dtype = self._form
        try:
            made = backend.empty(shape, dtype, device=self._device, stream=owner)
            self._room_free = backend.event_record(owner, timing=False, event=self._room_free)
        except Exception:  # the next one meets it again, and raises it
            return
        self._room = made, owner

    def drop_room(self) -> None:
        """Free what `make_room` has allocated."""
        self._room = self._latest = None

    def _follow(self, owner: RawStream) -> None:
        """Let later copies wait for the work enqueued so far on the stream that owns the memory."""
        self._free = self.backend.event_record(owner, timing=False, event=self._free)
        self.backend.event_wait(self._carrier, self._free)

    def _upload(self, ahead: PendingUpload, end: HostEnd, found: Plan) -> RawEvent:
        """Allocate, and upload in several copies; return the event after the last."""
        array, owner, _ = self._allocate(ahead, end.array.shape, end.dtype)
        backend, carrier = self.backend, self._carrier
        self._follow(owner)
        staging.upload(Upload(end, array, backend.view(array), carrier), found)
        ahead.copied = copied = backend.event_record(carrier, timing=False)
        return copied


class _OnSideStream(Handed):
    """The common part of batches on a side stream, used as a `xferlib._pipeline.batches.Batch` is."""

    __slots__ = ()
    has_slot = is_stalled = False
    is_sent_by_consumer = True

    def is_settled(self, wait_s: float) -> bool:
        """Return True: `hand_over` never waits for long."""
        return True


class PendingUpload(_OnSideStream):
    """One array in flight.

    Attributes:
        array: The device array; None while the source is being staged.
        owner: The stream that owns the memory.
        copied: The event after the copy, once that is enqueued.
    """

    __slots__ = ("_staged", "_uploader", "array", "copied", "is_queued", "owner")

    def __init__(self, uploader: SideStreamUploader, staged: StagedArray | None = None) -> None:
        self._uploader = uploader
        self._staged = staged
        self.is_queued = staged is None
        self.array: Array | None = None
        self.owner: RawStream | None = None
        self.copied: RawEvent | None = None

    def push(self) -> None:
        """Enqueue the copy of a staged array, in the thread that will use it; an error is left to `hand_over`."""
        try:  # at half the cost of contextlib's way
            self._send()
        except Exception:  # noqa: S110  `hand_over` meets the same error, and raises it
            pass

    def _send(self) -> None:
        staged = self._staged
        if staged is not None:
            staged.end()
            self._uploader.dispatch(self, staged)
            self._give_back(staged)

    def _give_back(self, staged: StagedArray) -> None:
        self._staged, self.is_queued = None, True
        self._uploader.give_back(staged.buffer)

    def await_end(self) -> None:
        """Wait until no copy reads the source."""
        if self._staged is not None:
            self._staged.end()
        elif self.copied is not None:
            self._uploader.backend.event_synchronize(self.copied)

    def precede(self, stream: RawStream) -> None:
        """Let ``stream`` wait for the copy, if that is enqueued."""
        if self.copied is not None:
            self._uploader.backend.event_wait(stream, self.copied)

    def hand_over(self) -> Array:
        """Return the array, ordered on the calling thread's current stream; may be called again after an error."""
        if not self.is_queued:
            self._send()
        backend, owner = self._uploader.backend, self.owner
        assert owner is not None
        current = backend.stream_current(owner.device)
        backend.event_wait(current, self.copied)
        if current.handle != owner.handle:  # the owner's order alone would let the memory be allocated again
            self.array = backend.guard(self.array, owner)
            backend.note_use(self.array, current)
            self._uploader.drop_room()
        else:
            self._uploader.make_room(self)
        self._uploader.spare.append(self.copied)  # its waits are enqueued: it may be recorded for another copy
        return self.array

    def cancel(self) -> None:
        """Drop the array: an enqueued copy keeps its memory until it is complete."""
        staged = self._staged
        if staged is not None:
            staged.end()
            self._give_back(staged)
        elif self.copied is not None:
            lifetimes.in_flight.hold(self._uploader.backend, self.copied, self.array)


# A batch of few arrays, such as images and their labels, each on its way to the device by itself.
#
# The obvious way is one transfer of all, which threads make while the consumer works. To begin one takes Python longer
# than to copy some MiB: on an H100's host a batch of 4 MiB and its labels took 340 us so, and takes 150.
#
# Guaranteed: as for a single array, see `SideStreamUploader`. An array that is small and not pinned is copied on the
# consumer's stream when the large ones are sent: later batches must not take the last memory of the device before it.


class PendingTreeUpload(_OnSideStream):
    """The arrays of a tree in flight.

    Args:
        leaves: Of a tree.
        rebuild: Makes the tree of new leaves.
        begin: Begins to copy a leaf; or returns an array that is copied when the batch is handed out, or a leaf that
            stays as it is.
        device: The target.

    Raises:
        UnsupportedDTypeError: No device holds an array; nothing has been begun.
        XferError: As ``begin``: no copy that was begun is left behind.
    """

    __slots__ = ("_device", "_parts", "_rebuild", "_sent", "_small", "_stream")

    def __init__(
        self, leaves: list[Any], rebuild: Callable[[list[Any]], Any], begin: Callable[[Any], Any], device: Device
    ) -> None:
        self._device = device
        self._rebuild = rebuild
        self._parts: list[Any] = []
        self._small: list[int] = []
        """The numbers, among the parts, of the arrays that are small."""
        self._sent: dict[int, Array] = {}
        """These on the device, for `_stream`."""
        self._stream: RawStream | None = None
        for leaf in leaves:
            if isinstance(leaf, np.ndarray):
                check_dtype(leaf.dtype)
        try:
            for leaf in leaves:
                self._parts.append(begin(leaf))
        except BaseException:
            self.cancel()
            raise
        self._small = [number for number, part in enumerate(self._parts) if isinstance(part, np.ndarray)]

    def _ahead(self) -> Iterator[PendingUpload]:
        return (part for part in self._parts if isinstance(part, PendingUpload))

    @property
    def is_queued(self) -> bool:
        return all(part.is_queued for part in self._ahead()) and len(self._sent) == len(self._small)

    def push(self) -> None:
        """Enqueue the copies of what is staged, in the thread that will use it; an error is left to `hand_over`."""
        for part in self._ahead():
            part.push()
        try:  # as in `PendingUpload.push`
            self._send_small()
        except Exception:  # noqa: S110
            pass

    def _send_small(self) -> None:
        """Copy what is small on the current stream; a stream of earlier copies may be another one."""
        current = registry.part_of(self._device).stream_current(self._device)
        if self._stream is None or current.handle != self._stream.handle:
            self._sent, self._stream = {}, current
        for number in self._small:
            if number not in self._sent:
                self._sent[number] = transfers.to_device(self._parts[number], device=self._device)

    def await_end(self) -> None:
        """Wait until no copy reads the sources."""
        for part in self._ahead():
            part.await_end()

    def precede(self, stream: RawStream) -> None:
        """Let ``stream`` wait for the copies that are enqueued."""
        for part in self._ahead():
            part.precede(stream)

    def hand_over(self) -> Any:
        """Return the tree, ordered on the calling thread's current stream; may be called again after an error."""
        self._send_small()
        sent = self._sent
        return self._rebuild(
            [
                part.hand_over() if isinstance(part, PendingUpload) else sent.get(number, part)
                for number, part in enumerate(self._parts)
            ]
        )

    def cancel(self) -> None:
        """Drop the arrays: an enqueued copy keeps its memory until it is complete."""
        for part in self._ahead():
            part.cancel()


# How the batches of a loop travel.
#
# The obvious way is one: every batch on a stream of its own, staged by threads. For small batches its fixed costs
# exceed the copy's: two events and two waits to order the streams, a guard on each array so that its memory is not
# freed under the consumer's work, and a wake-up of threads. So the size and the kind of a batch choose its route:
#
# - DIRECT, arrays of up to `DIRECT_MOST` bytes, trees of up to medium size, and every batch of a device without
#   streams: on the consumer's stream, as `xferlib.to_device` copies them.
# - AHEAD, up to three arrays of medium size, or pinned ones of any size: on a side stream, into memory of the
#   consumer's stream (see `SideStreamUploader`).
# - OWN, everything else: on the slot's stream, in memory of that stream.
#
# With a transform, or a stream that the caller names, every batch takes OWN. The thread of a `ThreadedFeed`, whose
# current stream is not the consumer's, only stages: `copy_on_host` and `stage` make the batches that it leaves to the
# consumer.
#
# Guaranteed: the choice changes neither values nor their order. It reads no data, only an array's type, size, layout
# and address.


class Route(Enum):
    """The route of one batch."""

    DIRECT = "on the consumer's stream, when it is handed out"
    AHEAD = "on a stream beside the consumer's, whose memory it is"
    OWN = "on its slot's stream, filled by threads where it is ordinary memory"


class Router:
    """The target of batches, a device, and the transform that runs there.

    Args:
        backend: Serves ``device``.
        device: The device.
        transform: Applied to each batch on the device.
        uploader: Copies medium arrays; None if the caller has named the stream for all of them.
    """

    __slots__ = ("backend", "device", "is_host", "may_choose", "transform", "uploader")

    def __init__(
        self,
        backend: Backend,
        device: Device,
        transform: Callable[[Any], Any] | None,
        uploader: SideStreamUploader | None = None,
    ) -> None:
        self.backend = backend
        self.device = device
        self.transform = None if transform is None else guard_end("prefetch: transform", transform)
        self.uploader = uploader
        self.may_choose = uploader is not None and transform is None
        self.is_host = not backend.capabilities.streams

    def route(self, host: Any) -> Route:
        """Choose the route of a batch that is read in the consumer's thread.

        Without streams a copy is complete when it returns, so it is made when the batch is handed out.
        """
        if not self.may_choose:
            return Route.OWN
        if self.is_host:
            return Route.DIRECT
        if type(host) is np.ndarray:
            if host.nbytes <= DIRECT_MOST and not self.is_pinned(host):
                return Route.DIRECT
            return Route.AHEAD if host.nbytes <= MEDIUM_NBYTES or self._is_one_copy(host) else Route.OWN
        leaves = flatten(host)[0]
        nbytes = _nbytes(leaves)
        if nbytes is None:
            return Route.OWN
        if nbytes <= MEDIUM_NBYTES:
            return Route.DIRECT
        large = [leaf for leaf in leaves if leaf.nbytes > DIRECT_MOST]
        is_few = many.is_few(len(leaves), len(large))
        return Route.AHEAD if is_few and all(map(self._is_one_copy, large)) else Route.OWN

    def is_pinned(self, leaf: Any) -> bool:
        """Whether the device reads an array where it lies: the caller of a blocking copy would wait for that."""
        return type(leaf) is np.ndarray and pinned.find(address(leaf), leaf.nbytes, self.backend) is not None

    def _is_one_copy(self, host: HostArray) -> bool:
        """Whether an array that is more than medium is sent by one copy, which nothing but its source delays."""
        return self._is_staged_whole(host) or (_is_plain(host) and self.is_pinned(host))

    def _is_staged_whole(self, host: HostArray) -> bool:
        """Whether an array that is more than medium is copied into pinned memory before any of it is sent."""
        return host.nbytes <= WHOLE_MOST and _is_plain(host) and _native.is_on() and threads.crew().fillers > 0

    def _is_staged(self, array: HostArray) -> bool:
        """Whether the thread that reads copies an array of any size into pinned memory before any of it is sent."""
        return array.nbytes <= MEDIUM_NBYTES or self._is_staged_whole(array)

    def begin_ahead(self, host: Any) -> PendingUpload | PendingTreeUpload:
        """Begin a batch whose route is `Route.AHEAD`.

        Raises:
            As `SideStreamUploader.send`.
        """
        uploader = self.uploader
        assert uploader is not None
        if type(host) is np.ndarray:
            return uploader.send(host)
        leaves, rebuild = flatten(host)
        uploader.share(len(leaves))
        begin = lambda leaf: uploader.send(leaf) if leaf.nbytes > DIRECT_MOST or self.is_pinned(leaf) else leaf
        return PendingTreeUpload(leaves, rebuild, begin, self.device)

    def may_wait(self, host: Any) -> bool:
        """Whether a batch may be begun before the consumer's work that its copy waits for: each block has a chunk.

        Threads that stage more would wait for the device, and so would other transfers that need these threads.
        """
        return type(host) is np.ndarray and host.nbytes <= 3 * LARGE_NBYTES and host.flags.c_contiguous

    def send(self, host: Any) -> Any:
        """Upload a batch on the calling thread's current stream, which the host does not wait for.

        Raises:
            As `xferlib.tree.to_device`, before anything is copied.
        """
        if type(host) is np.ndarray:
            return transfers.to_device(host, device=self.device)
        # To wait until pinned memory has been read is to wait for the consumer's work; with a stream nothing waits.
        is_awaited = not self.is_host and any(map(self.is_pinned, flatten(host)[0]))
        order = Stream._of(self.backend.stream_current(self.device), self.backend) if is_awaited else None
        return tree.to_device(host, device=self.device, stream=order)

    def sends_at_once(self, host: Any) -> bool:
        """Whether `send_read` copies an item: it is not large, and no device reads it by itself."""
        if type(host) is np.ndarray:
            return host.nbytes <= staging.PAST_MOST
        try:
            leaves = flatten(host)[0]
        except Exception:  # an item that is no tree says so in its turn
            return True
        arrays = [leaf for leaf in leaves if registry.owner_of(leaf) is not None]
        return sum(map(_array_nbytes, arrays)) <= MEDIUM_NBYTES and not any(map(self.is_pinned, arrays))

    def send_read(self, host: Any) -> Any:
        """Copy a batch on the calling thread's current stream; it has been read on return.

        Raises:
            As `send`.
        """
        if type(host) is np.ndarray and self.is_pinned(host):  # a copy of it would wait for the consumer's work
            host = self._copy_array(host)
        return send(host, self)

    def copy_on_host(self, host: Any) -> Any:
        """Copy a small batch on the host, to be uploaded when it is handed out; None for any other.

        For a source that may fill the same memory again: cheaper than an upload and a wait for it.
        """
        if self.is_host or not self.may_choose:
            return None
        leaves, rebuild = ([host], itemgetter(0)) if type(host) is np.ndarray else flatten(host)
        nbytes = _nbytes(leaves)
        if nbytes is None or nbytes > SMALL_NBYTES:
            return None
        return rebuild([self._copy_array(leaf) for leaf in leaves])

    def stage(self, host: Any) -> PendingUpload | PendingTreeUpload | None:
        """Stage a medium batch in this thread, for the consumer to send: few arrays of any library, on the host.

        For a source that may fill the same memory again. None, and nothing done, for any other batch, and where pinned
        memory is short.

        Raises:
            UnsupportedDTypeError: No device holds it.
        """
        uploader = self.uploader
        if uploader is None or self.is_host or not self.may_choose or plan.forced() is not None:
            return None
        if registry.owner_of(host) is not None:
            array = _host_array(host)
            return uploader.stage(array) if array is not None and self._is_staged(array) else None
        leaves, rebuild = flatten(host)
        arrays = [leaf if registry.owner_of(leaf) is None else _host_array(leaf) for leaf in leaves]
        found = [each for each in arrays if isinstance(each, np.ndarray)]
        large = [each for each in found if each.nbytes > SMALL_NBYTES]
        is_all = len(found) == sum(registry.owner_of(leaf) is not None for leaf in leaves)
        is_few = many.is_few(len(leaves), len(large))
        if not is_all or not large or not is_few or not all(map(self._is_staged, large)):
            return None
        uploader.share(len(large))
        return PendingTreeUpload(arrays, rebuild, self._copy_or_stage, self.device)

    def _copy_or_stage(self, leaf: Any) -> Any:
        """Copy an array of a tree on the host; another leaf stays as it is."""
        if not isinstance(leaf, np.ndarray):
            return leaf
        if leaf.nbytes <= SMALL_NBYTES:
            return self._copy_array(leaf)
        assert self.uploader is not None
        staged = self.uploader.stage(leaf)
        if staged is None:
            raise PinnedMemoryError(f"no pinned memory for {leaf.nbytes} bytes")  # the batch goes another way
        return staged

    def _copy_array(self, array: HostArray) -> HostArray:
        refuse_truncated(array, "a batch")
        observe.note_host_access(array, self.backend.pinned_domain, is_write=False)
        return array.copy()

    @property
    def transforms_ahead(self) -> bool:
        """Whether the transform may run on the stream of the copies: the library follows the current stream."""
        abilities = self.backend.capabilities
        return self.transform is not None and (abilities.native_current_stream or not abilities.streams)


def _is_plain(host: HostArray) -> bool:
    """Whether an array's bytes are sent as they lie."""
    return host.flags.c_contiguous and host.dtype.isnative


def _nbytes(leaves: list[Any]) -> int | None:
    """Sum the bytes of NumPy arrays; None where a leaf is something else."""
    if any(type(leaf) is not np.ndarray for leaf in leaves):
        return None
    nbytes: int = sum(leaf.nbytes for leaf in leaves)
    return nbytes


def _host_array(array: Any) -> HostArray | None:
    """The NumPy array of an array's memory; None where that is a device's."""
    if type(array) is np.ndarray:
        refuse_truncated(array, "a batch")
        host: HostArray = array
        return host
    owner = registry.owner_of(array)
    assert owner is not None
    if owner.view(array).device.kind != "cpu":
        return None
    refuse_truncated(array, "a batch")
    return owner.host_view(array)


# One batch of a pipeline: it is copied, transformed and handed out, and may be retried after a failure.
#
# The obvious way is to copy a batch when it is read and to raise what goes wrong there. But it is read ahead, in
# another thread or in the turn of an earlier batch, and an error raised there would lose the batches before it; and an
# iterator that has given up a batch because of a full device cannot give it again. So a batch keeps its item on the
# host until it has been handed out, and keeps its error until its turn comes.
#
# Guaranteed:
#
# - `try_begin`, `try_prepare` and `push` raise nothing but KeyboardInterrupt; any other error is kept, or met again by
#   `hand_over`.
# - `hand_over` may be called again after any error. A kept error is raised once, unless memory was short: then the copy
#   is retried at once. A copy that can no longer succeed is cancelled and begun anew.
# - What `hand_over` returns is ordered on the stream that is current in the calling thread.
#
# A batch has no lock of its own. The reading thread begins it and hands it on; from then on the consumer uses it under
# `Feed._turn`. Beside the consumer come only `precede`, by which the reading thread puts the next batch's copies behind
# it, and `cancel` and `await_end`, when the feed is closed.

if TYPE_CHECKING:
    AnyBatch: TypeAlias = "Batch | PendingUpload | PendingTreeUpload"
    """A batch as a feed uses it: one of a few copies may be these alone."""


class Batch(Handed):
    """An item of the source on its way to the device: it may fail, and be retried, until it has been handed out.

    All its copies are in flight at once.

    Args:
        host: Arrays in nested containers; other leaves stay as they are.
        router: The target, and the transform.
        stream: Carries the copies, and owns the device arrays.
        route: How it travels.

    Attributes:
        is_sent_by_consumer: The reading thread stages it, and the consumer's thread enqueues its copy.
        is_stalled: Starting it failed when there was room for it.
    """

    __slots__ = (
        "_computed", "_copied", "_error", "_host", "_is_begun", "_is_read", "_made", "_owned", "_rebuild", "_results",
        "_route", "_router", "_stream", "_transfers", "_value", "is_stalled",
    )  # fmt: skip

    is_sent_by_consumer = False

    def __init__(self, host: Any, router: Router, stream: RawStream, route: Route = Route.OWN) -> None:
        self._route = route
        self._host = host
        self._router = router
        self._stream = stream
        self._error: Exception | None = None
        self.is_stalled = False
        self._reset()

    def _reset(self) -> None:
        self._is_begun = False
        self._results: list[Any] = []
        self._rebuild: Callable[[list[Any]], Any] | None = None
        self._transfers: list[tuple[Transfer, int | None]] = []
        """The transfers of leaves that other threads stage, with the numbers of the leaves; None of several leaves."""
        self._owned: list[Array] = []
        """Arrays that no transfer hands out, one for each allocation."""
        self._copied: RawEvent | None = None
        """Recorded after the copies that are of no transfer."""
        self._is_read = False
        """The sources may be changed."""
        self._made: list[Array] | None = None
        """Arrays that the transform made; None before it ran."""
        self._computed: RawEvent | None = None
        """Recorded after the transform."""
        self._value: Any = None

    @property
    def has_slot(self) -> bool:
        """Whether its device memory belongs to its slot's stream, and not to the consumer's."""
        return self._route is Route.OWN

    @property
    def is_queued(self) -> bool:
        """Whether nothing is left to `push`: every copy is enqueued, and no thread has part in one."""
        return not self._transfers

    def try_begin(self, before: AnyBatch | None, *, is_awaited: bool = False) -> bool:
        """Start copying, behind the copies of ``before``; an error is kept until the batch's turn comes.

        Args:
            before: The batch before; None if it has been handed out.
            is_awaited: The calling thread waits anyhow until the source may be changed.
        """
        if self._route is Route.DIRECT:
            return True
        try:
            if self._route is Route.OWN and before is not None:
                before.precede(self._stream)
            self._begin(is_awaited=is_awaited)
        except Exception as error:
            self._error, self.is_stalled = error, True
        return not self.is_stalled

    def try_prepare(self) -> None:
        """Start copying, transform, and wait until the source may be changed; an error is kept."""
        try:
            self._begin()
            self._transform_ahead()
            self.release()
        except Exception as error:
            self._error, self.is_stalled = error, True

    # --- the copies

    def _begin(self, *, is_awaited: bool = False) -> None:
        """Start the copies, unless that has been done.

        Args:
            is_awaited: The calling thread has nothing else to do until the arrays have been read: it copies few ones
                itself, as `xferlib.to_device` does, each in one call of C. To begin a transfer that other threads make
                takes longer than to copy some MiB.

        Raises:
            As `xferlib.to_device`: nothing that was begun is left behind.
        """
        if self._is_begun:
            return
        host, backend, device = self._host, self._router.backend, self._router.device
        leaves, self._rebuild = ([host], None) if type(host) is np.ndarray else flatten(host)
        self._results = list(leaves)
        backend.attach(device)
        try:
            is_host = device.kind == "cpu"
            packed, alone = ([], many.all_of(leaves, None)) if is_host else many.sort_leaves(leaves, None)
            is_single = len(leaves) == 1 and _is_on_host(leaves[0])
            if is_awaited and (is_single or many.are_few(leaves, DRIVER_MOST, backend)):
                self._copy(leaves)
            else:
                self._begin_transfers(leaves, many.SlabLayout(packed), alone)
        except BaseException:
            self._restart()
            raise
        self._is_begun = True

    def _copy(self, leaves: list[Any]) -> None:
        """Copy few arrays on the host in this thread; they have been read on return."""
        router = self._router
        with Stream._of(self._stream, router.backend):
            for number, leaf in enumerate(leaves):
                if registry.owner_of(leaf) is not None:
                    self._results[number] = transfers.to_device(leaf, device=router.device)
                    self._owned.append(self._results[number])
        self._is_read = True
        self._copied = lifetimes.record(router.backend, self._stream)

    def _begin_transfers(self, leaves: list[Any], small: many.SlabLayout, alone: list[int]) -> None:
        backend, device = self._router.backend, self._router.device
        order = Stream._of(self._stream, backend)
        note = lambda transfer: self._transfers.append((transfer, None))
        can_stage = many.can_stage(backend, self._stream)
        if small.members or (alone and can_stage):
            found = many.begin(leaves, self._results, small, alone, backend, self._stream, note)
        else:
            found = many.Begun([], alone, is_enqueued=False)
        self._owned += found.owned
        is_enqueued = found.is_enqueued
        for number in found.alone:
            leaf = leaves[number]
            if not can_stage and _array_nbytes(leaf) >= LARGE_NBYTES:
                target = CopyTarget(backend, device, self._stream)
                self._transfers.append((copies.begin(describe.source_of(leaf), target, is_awaited=True), number))
            else:
                self._results[number] = transfers.to_device(leaf, device=device, stream=order)
                self._owned.append(self._results[number])
                is_enqueued = True
        if is_enqueued:
            self._copied = lifetimes.record(backend, self._stream)

    def push(self) -> None:
        """Start the transfers that there was no room for before."""
        if self._error is None:
            for transfer, _ in self._transfers:
                transfer.try_start()

    def is_settled(self, wait_s: float) -> bool:
        """Return True once all copies are enqueued; help, and block for at most ``wait_s``."""
        until_s = time.monotonic() + wait_s
        return self._error is not None or all(
            transfer.is_settled(max(until_s - time.monotonic(), 0.0)) for transfer, _ in self._transfers
        )

    def precede(self, stream: RawStream) -> None:
        """Let ``stream`` wait for the copies that are enqueued: one at a time fills the link as well."""
        for transfer, _ in self._transfers:
            transfer.precede(stream)
        if (copied := self._copied) is not None:  # another thread may begin anew meanwhile
            self._router.backend.event_wait(stream, copied)

    def cancel(self) -> None:
        """Drop the batch: start no more copies for it."""
        for transfer, _ in self._transfers:
            transfer.cancel()

    def release(self) -> None:
        """Wait until the sources may be changed: every copy is complete.

        Raises:
            TransferError: A copy failed; the sources are unchanged.
        """
        self.await_end()
        for transfer, _ in self._transfers:
            transfer.check()

    def await_end(self) -> None:
        """Wait until no copy reads the sources, whether it succeeded or not."""
        for transfer, _ in self._transfers:
            transfer.release()
        if (copied := self._copied) is not None and not self._is_read:
            self._router.backend.event_synchronize(copied)  # a small source may be pinned

    def _restart(self) -> None:
        self.cancel()
        self._reset()

    # --- the result

    def hand_over(self) -> Any:
        """Return the batch, ordered on the calling thread's current stream; may be called again after an error."""
        if self._route is Route.DIRECT:
            return send(self._host, self._router)
        try:
            return self._hand_over_batch()
        except ArrayError as error:
            say_where(error, self._host, describe.check_leaf, "batch")
            raise

    def _hand_over_batch(self) -> Any:
        if self._error is not None:
            error, self._error = self._error, None
            self._restart()
            if not isinstance(error, OutOfMemoryError):  # whose cause may be gone by now
                try:
                    raise error
                finally:
                    del error  # its traceback keeps this frame: together they would keep those of the consumer
        try:
            self._begin()
            return self._order_on_stream()
        except BaseException:  # Ctrl-C ends a copy that this thread helped with
            # Only then is there something to repeat; and only then does the source still have it: see `try_prepare`.
            if any(transfer.has_failed for transfer, _ in self._transfers):
                self._restart()
            raise

    def _order_on_stream(self) -> Any:
        router = self._router
        if router.transform is None:
            return self._order_copies()
        if not router.transforms_ahead:
            with router.device:
                return router.transform(self._order_copies())
        self._transform_ahead()
        assert self._made is not None
        self._follow(self._computed, self._made)
        return self._value

    def _order_copies(self) -> Any:
        """Return the tree on the device, ordered on the calling thread's current stream.

        Raises:
            TransferError: A copy failed.
        """
        results = list(self._results)
        for transfer, number in self._transfers:
            value = transfer.result()
            if number is not None:
                results[number] = value
        if self._owned:
            self._follow(self._copied, self._owned)
        return results[0] if self._rebuild is None else self._rebuild(results)

    def _follow(self, event: RawEvent | None, arrays: list[Array]) -> None:
        """Let the calling thread's current stream wait for an event of the batch's, and use its memory."""
        backend = self._router.backend
        current = backend.stream_current(self._router.device)
        if current.handle != self._stream.handle:
            if event is not None:
                backend.event_wait(current, event)
            for array in arrays:
                backend.note_use(array, current)

    def _transform_ahead(self) -> None:
        router = self._router
        if self._made is not None or router.transform is None or not router.transforms_ahead:
            return
        with Stream._of(self._stream, router.backend):
            value = router.transform(self._order_copies())
        leaves, rebuild = flatten(value, moving="")
        made = []
        for number, leaf in enumerate(leaves):
            owner = registry.owner_of(leaf)
            if owner is not None and owner.view(leaf).device is router.device:
                leaves[number] = router.backend.guard(leaf, self._stream)
                made.append(leaves[number])
        self._value = rebuild(leaves)
        self._computed = lifetimes.record(router.backend, self._stream)
        self._made = made


def _is_on_host(leaf: Any) -> bool:
    """Whether a leaf is an array whose copy need not wait for work on any stream."""
    owner = registry.owner_of(leaf)
    return owner is not None and owner.view(leaf).device.kind == "cpu"


def _array_nbytes(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return array.nbytes
    owner = registry.owner_of(array)
    assert owner is not None
    return owner.view(array).nbytes


def send(host: Any, router: Router) -> Any:
    """Copy a batch on the calling thread's current stream.

    Raises:
        As `xferlib.tree.to_device`, and tells which array of the batch it was.
    """
    try:
        return router.send(host)
    except ArrayError as error:
        say_where(error, host, describe.check_leaf, "batch")
        raise
