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

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native
from xferlib._core import observe, staging_hooks
from xferlib._core.array import SUPPORTED, as_host_array
from xferlib._core.layout import address, address_in_order
from xferlib._core.observe import Kind
from xferlib._core.ordering.copy_streams import copy_behind
from xferlib._memory import in_flight, pinned
from xferlib._pipeline.staged_array import PinnedBuffer, StagedArray
from xferlib._runtime.handoff import Handed
from xferlib._transfer import ends, plan
from xferlib._transfer import staged as _staged
from xferlib._transfer.compiled_copies import Filling, fill, gather
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.plan import Path
from xferlib.errors import PinnedMemoryError

if TYPE_CHECKING:
    from xferlib._core.array import Array
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawEvent, RawStream
    from xferlib._transfer.plan import Plan


class Conveyor:
    """Copies of one consumer's arrays, one after the other.

    Args:
        backend: Serves ``device``.
        device: The target device.
        carrier: The stream for the copies.
        count: The most batches that may be in flight.
    """

    __slots__ = ("_carrier", "_count", "_depth", "_device", "_free", "_idle", "_made", "_pool", "backend", "spare")

    def __init__(self, backend: Backend, device: Device, carrier: RawStream, count: int) -> None:
        self.backend = backend
        self._device = device
        self._carrier = carrier
        self._free: RawEvent | None = None
        """Recorded after the consumer's work that may still use an array's memory; recorded anew for each."""
        self._depth = self._count = count
        self._made = 0
        self._idle: deque[PinnedBuffer] = deque()
        """Buffers, in the order of their last copies."""
        self._pool = pinned.pools.of(backend)
        self.spare: deque[RawEvent] = deque(maxlen=count + 1)
        """Events of copies whose waits are enqueued, to be recorded again. One that is still referred to elsewhere then
        stands for a later copy on the same stream, which is on the safe side."""

    def share(self, arrays: int) -> None:
        """Let each batch have a pinned buffer for this number of arrays."""
        self._count = max(self._count, arrays * self._depth)

    @observe.user_call(lambda self, host: (self.backend, host.nbytes))
    def send(self, host: HostArray) -> Ahead:
        """Start copying an array into memory of the calling thread's current stream.

        Raises:
            As `xferlib.to_device`: nothing has been begun.
        """
        backend, pointer = self.backend, address_in_order(host) if host.dtype in SUPPORTED else 0
        lease = self._pool.find(pointer) if pointer and self._pool.starts and plan.may_skip() else None
        if lease is None:
            host = as_host_array(host)
            end = HostEnd(host, ends.wanted_dtype(None, host.dtype), backend)
            found = plan.of(end, self._device, is_upload=True, is_blocking=False, may_permute=False, may_cast=False)
            plan.refuse_slow(found, host.nbytes, "prefetch")
        backend.attach(self._device)
        if staging_hooks.listener is not None:
            staging_hooks.touched(host, backend.pinned_domain, is_write=False)
        if lease is None and found.path is Path.STAGED and found.is_plain and plan.forced() is None and _native.is_on():
            if (staging := self._staging(end)) is not None:
                return staging
        ahead = Ahead(self)
        try:
            if lease is None:
                self._begin(ahead, end, found)
            else:  # memory of the pool needs no plan
                lease.hold(self._enqueue(ahead, host.shape, host.dtype, pointer, host.nbytes, is_pinned=True))
        except BaseException:  # Ctrl-C too, which may have struck behind a copy: the array's memory will be freed
            in_flight.abandon(backend, self._carrier)
            raise
        return ahead

    def _staging(self, end: HostEnd) -> Ahead | None:
        """Let threads stage plain bytes; None where pinned memory is short."""
        buffer = self._buffer(end.nbytes)
        if buffer is None:
            return None
        filling = Filling(buffer.pointer, end.pointer, end.nbytes, end.array)
        return Ahead(self, StagedArray(buffer, filling, end.array.shape, end.dtype))

    def _begin(self, ahead: Ahead, end: HostEnd, found: Plan) -> None:
        """Enqueue the copy of an array that is in pinned memory, or is staged by this thread."""
        host, pinned = end.array, end.pinned if found.path is Path.PINNED else None
        if pinned is not None and len(pinned.spans) == 1:
            copied = self._enqueue(ahead, host.shape, end.dtype, end.pointer, end.nbytes, is_pinned=True)
        else:
            copied = self._upload(ahead, end, found)
        if pinned is not None:
            in_flight.hold_pinned(host, pinned.lease, self.backend, copied)

    def stage(self, host: HostArray) -> Ahead | None:
        """Copy an array of any layout into pinned memory, from which the consumer's thread sends it.

        The source may be changed on return. None, and nothing done, where pinned memory is short.

        Raises:
            UnsupportedDTypeError: No device holds it.
        """
        host = as_host_array(host)
        end = HostEnd(host, ends.wanted_dtype(None, host.dtype), self.backend)
        self.backend.attach(self._device)
        staging_hooks.touched(host, self.backend.pinned_domain, is_write=False)
        buffer = self._buffer(end.nbytes)
        if buffer is None:
            return None
        if end.is_plain and _native.is_on():
            fill(buffer.pointer, end.pointer, end.nbytes)
        else:
            gather(host, end.dtype, buffer.memory, buffer.pointer)
        return Ahead(self, StagedArray(buffer, None, host.shape, end.dtype))

    def await_buffer(self) -> None:
        """Wait until `stage` need not wait for the device."""
        if self._idle and self._made >= self._count:
            self._idle[0].settle(self.backend)

    def dispatch(self, ahead: Ahead, staged: StagedArray) -> None:
        """Enqueue the copy of a staged array into memory of the calling thread's current stream."""
        try:
            copied = self._enqueue(ahead, staged.shape, staged.dtype, staged.buffer.pointer, staged.nbytes)
            staged.buffer.note(copied)
        except BaseException:  # Ctrl-C too: it may have struck behind the copy
            in_flight.abandon(self.backend, self._carrier)
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

    def _allocate(self, ahead: Ahead, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, RawStream]:
        """Allocate on the calling thread's current stream, unless an earlier attempt has."""
        owner, array = ahead.owner, ahead.array
        if owner is None or array is None:
            owner = ahead.owner = self.backend.stream_current(self._device)
            array = ahead.array = self.backend.empty(shape, dtype, device=self._device, stream=owner)
        return array, owner

    def _enqueue(
        self, ahead: Ahead, shape: tuple[int, ...], dtype: np.dtype[Any], source: int, nbytes: int,
        is_pinned: bool = False,
    ) -> RawEvent:  # fmt: skip
        """Allocate, and enqueue one copy from pinned memory behind the work enqueued on the owner; return its event.

        A buffer must not wait for the event of a later copy: memory that the caller has pinned (``is_pinned``) may.
        """
        array, owner = self._allocate(ahead, shape, dtype)
        backend, carrier = self.backend, self._carrier
        target = backend.operands((array,))[0]
        reused = self.spare.popleft() if is_pinned and self.spare else None
        if observe.active is not None:
            self._follow(owner)
            observe.copy(Kind.H2D, target, source, nbytes, backend, carrier)
            copied = backend.event_record(carrier, timing=False)
        else:
            self._free, copied = copy_behind(
                backend, target, source, nbytes, behind=owner, stream=carrier, event=self._free, copied=reused
            )
        ahead.copied = copied
        return copied

    def _follow(self, owner: RawStream) -> None:
        """Let later copies wait for the work enqueued so far on the stream that owns the memory."""
        self._free = self.backend.event_record(owner, timing=False, event=self._free)
        self.backend.event_wait(self._carrier, self._free)

    def _upload(self, ahead: Ahead, end: HostEnd, found: Plan) -> RawEvent:
        """Allocate, and upload in several copies; return the event after the last."""
        array, owner = self._allocate(ahead, end.array.shape, end.dtype)
        backend, carrier = self.backend, self._carrier
        self._follow(owner)
        _staged.upload(end, backend.view(array), carrier, found)
        ahead.copied = copied = backend.event_record(carrier, timing=False)
        return copied


class Ahead(Handed):
    """One array in flight, used as a `xferlib._pipeline.batch.Batch` is.

    Attributes:
        array: The device array; None while the source is being staged.
        owner: The stream that owns the memory.
        copied: The event after the copy, once that is enqueued.
    """

    __slots__ = ("_conveyor", "_staged", "array", "copied", "is_sent", "owner")

    has_slot = is_stalled = False
    is_sent_by_consumer = True

    def __init__(self, conveyor: Conveyor, staged: StagedArray | None = None) -> None:
        self._conveyor = conveyor
        self._staged = staged
        self.is_sent = staged is None
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
            self._conveyor.dispatch(self, staged)
            self._give_back(staged)

    def _give_back(self, staged: StagedArray) -> None:
        self._staged, self.is_sent = None, True
        self._conveyor.give_back(staged.buffer)

    def is_settled(self, wait_s: float) -> bool:
        """Return True: `hand_over` never waits for long."""
        return True

    def await_end(self) -> None:
        """Wait until no copy reads the source."""
        if self._staged is not None:
            self._staged.end()
        elif self.copied is not None:
            self._conveyor.backend.event_synchronize(self.copied)

    def precede(self, stream: RawStream) -> None:
        """Let ``stream`` wait for the copy, if that is enqueued."""
        if self.copied is not None:
            self._conveyor.backend.event_wait(stream, self.copied)

    def hand_over(self) -> Array:
        """Return the array, ordered on the calling thread's current stream; may be called again after an error."""
        if not self.is_sent:
            self._send()
        backend, owner = self._conveyor.backend, self.owner
        assert owner is not None
        current = backend.stream_current(owner.device)
        backend.event_wait(current, self.copied)
        if current.handle != owner.handle:  # the owner's order alone would let the memory be allocated again
            self.array = backend.guarded(self.array, owner)
            backend.consumed(self.array, current)
        self._conveyor.spare.append(self.copied)  # its waits are enqueued: it may be recorded for another copy
        return self.array

    def cancel(self) -> None:
        """Drop the array: an enqueued copy keeps its memory until it is complete."""
        staged = self._staged
        if staged is not None:
            staged.end()
            self._give_back(staged)
        elif self.copied is not None:
            in_flight.in_flight.hold(self._conveyor.backend, self.copied, self.array)
