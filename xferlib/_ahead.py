"""Medium arrays, sent ahead into memory of the stream that will use them.

The copy runs on a stream beside it, so the consumer's work on the array before goes on meanwhile. Since the
memory comes from the consumer's own stream, nobody has to be told when it is free again: what that takes with
streams of their own (an event after the consumer's work, a guard on every array) costs more than the copy.
Ordinary memory is staged by other threads while the consumer works, and sent when it asks for the next array.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _api, _array, _copying, _inflight, _native, _pinned, _plan, _recording
from xferlib._layout import address
from xferlib._native.filling import Filling
from xferlib._plan import Path
from xferlib.errors import PinnedMemoryError

if TYPE_CHECKING:
    from xferlib._array import Array
    from xferlib._device import Device
    from xferlib._layout import HostArray
    from xferlib._pinned import Lease
    from xferlib._plan import Plan
    from xferlib.backends.base import Backend, RawEvent, RawStream


class _Buffer:
    """Pinned memory for one array after the other, which goes back to the pool when the last copy has left it."""

    __slots__ = ("_copied", "_lease", "_memory", "nbytes", "pointer")

    def __init__(self, memory: HostArray, lease: Lease) -> None:
        self._memory = memory
        self._lease = lease
        self._copied: RawEvent | None = None
        self.pointer = address(memory)
        self.nbytes = memory.nbytes

    def note(self, copied: RawEvent) -> None:
        """The last copy is over at this event."""
        self._copied = copied
        self._lease.events[:] = [copied]

    def settle(self, backend: Backend) -> None:
        """Wait until no copy uses it."""
        if self._copied is not None:
            backend.event_synchronize(self._copied)


class _Staged(NamedTuple):
    """Bytes that are about to lie in pinned memory."""

    filling: Filling
    buffer: _Buffer


class Conveyor:
    """Copies of one consumer's arrays, one after the other.

    Args:
        backend: Serves ``place``.
        place: The target device.
        carrier: The stream for the copies.
        count: How many arrays may be under way.
    """

    __slots__ = ("_carrier", "_count", "_free", "_idle", "_made", "_place", "backend")

    def __init__(self, backend: Backend, place: Device, carrier: RawStream, count: int) -> None:
        self.backend = backend
        self._place = place
        self._carrier = carrier
        self._free: RawEvent | None = None
        """After the consumer's work that may still use an array's memory; recorded anew for each."""
        self._count = count
        self._made = 0
        self._idle: deque[_Buffer] = deque()
        """Buffers, in the order of their last copies."""

    def send(self, host: HostArray) -> Ahead:
        """Begin to copy an array into memory of the calling thread's current stream.

        Raises:
            As `xferlib.to_device`: nothing has been begun.
        """
        backend = self.backend
        recorder = _recording.active
        begun = recorder.begin(backend) if recorder is not None else None
        host = _array.as_host_array(host)
        dtype = _api.wanted_dtype(None, host.dtype)
        found = _plan.plan(host, dtype, backend, may_permute=False)
        _plan.refuse_slow(found, host, "prefetch")
        backend.attach(self._place)
        owner = backend.stream_current(self._place)
        array = backend.empty(host.shape, dtype, device=self._place, stream=owner)
        try:
            ahead = self._begun(host, dtype, array, owner, found, is_recorded=recorder is not None)
        except BaseException:  # Ctrl-C too, which may have struck behind a copy: the array's memory is let go of
            _inflight.abandon(backend, self._carrier)
            raise
        if recorder is not None:
            recorder.called(begun, backend, host.nbytes)
        return ahead

    def _begun(
        self, host: HostArray, dtype: np.dtype[Any], array: Array, owner: RawStream, found: Plan, *, is_recorded: bool
    ) -> Ahead:
        """An array that is being staged, or whose copy is enqueued."""
        backend, nbytes = self.backend, host.nbytes
        source = None
        if not is_recorded:
            if _plan.is_medium(found, host, dtype) and _native.is_on() and (buffer := self._buffer(nbytes)):
                return Ahead(self, array, owner, _Staged(Filling(buffer.pointer, address(host), nbytes, host), buffer))
            source = _copying.readable(host, dtype, backend, self._carrier, found)
        ahead = Ahead(self, array, owner, None)
        ahead.copied = (
            self._upload(host, array, owner, found) if source is None else self._copy(array, source, nbytes, owner)
        )
        if found.path is Path.PINNED:
            _inflight.hold_pinned(host, found.lease, backend, ahead.copied)
        return ahead

    def _buffer(self, nbytes: int) -> _Buffer | None:
        """Memory that no copy uses any more; None where pinned memory is short."""
        if self._idle and self._made >= self._count:
            buffer = self._idle.popleft()
            buffer.settle(self.backend)
            if buffer.nbytes >= nbytes:
                return buffer
            self._made -= 1
        pool = _pinned.pool_of(self.backend)
        try:
            memory = pool.empty((nbytes,), np.dtype(np.uint8))
        except PinnedMemoryError:
            return None
        lease = pool.find(address(memory))
        if lease is None:
            return None
        self._made += 1
        return _Buffer(memory, lease)

    def give_back(self, buffer: _Buffer) -> None:
        """It may be filled again when its last copy is over."""
        self._idle.append(buffer)

    def dispatch(self, staged: _Staged, array: Array, owner: RawStream) -> RawEvent:
        """Enqueue the copy of what has been staged; the event after it."""
        filling, buffer = staged
        try:
            copied = self._copy(array, buffer.pointer, filling.nbytes, owner)
            buffer.note(copied)
        except BaseException:  # Ctrl-C too: it may have struck behind the copy
            _inflight.abandon(self.backend, self._carrier)
            raise
        return copied

    def _copy(self, array: Array, source: int, nbytes: int, owner: RawStream) -> RawEvent:
        """Enqueue one copy from pinned memory, behind what ``owner`` has been given so far; the event after it."""
        target = self.backend.operands((array,))[0]
        self._free, copied = self.backend.copy_behind(
            target, source, nbytes, behind=owner, stream=self._carrier, event=self._free
        )
        return copied

    def _upload(self, host: HostArray, array: Array, owner: RawStream, found: Plan) -> RawEvent:
        """The same in any other way."""
        backend, carrier = self.backend, self._carrier
        self._free = backend.event_record(owner, timing=False, event=self._free)
        backend.event_wait(carrier, self._free)
        _copying.upload(host, backend.view(array), backend, carrier, found)
        return backend.event_record(carrier, timing=False)


class Ahead:
    """One array on its way: see `xferlib._arriving.Arriving`, whose methods these are.

    Attributes:
        copied: The event after its copy; None while it is being staged.
    """

    __slots__ = ("_array", "_conveyor", "_owner", "_staged", "copied")

    has_failed = False

    def __init__(self, conveyor: Conveyor, array: Array, owner: RawStream, staged: _Staged | None) -> None:
        self._conveyor = conveyor
        self._array = array
        self._owner = owner
        self._staged = staged
        self.copied: RawEvent | None = None

    def push(self) -> None:
        """Send what has been staged."""
        staged = self._staged
        if staged is None:
            return
        staged.filling.end()
        self.copied = self._conveyor.dispatch(staged, self._array, self._owner)
        self._give_back(staged)

    def _give_back(self, staged: _Staged) -> None:
        self._staged = None
        self._conveyor.give_back(staged.buffer)

    def is_settled(self, wait_s: float) -> bool:
        """Nobody need wait long."""
        return True

    def release(self) -> None:
        """Wait until the source may be changed."""
        if self._staged is not None:
            self._staged.filling.end()
        elif self.copied is not None:
            self._conveyor.backend.event_synchronize(self.copied)

    await_end = release

    def precede(self, stream: RawStream) -> None:
        """Let ``stream`` wait for the copy."""
        self.push()
        self._conveyor.backend.event_wait(stream, self.copied)

    def result(self) -> Array:
        """The array, ordered on the calling thread's current stream."""
        self.push()
        backend, owner = self._conveyor.backend, self._owner
        current = backend.stream_current(owner.device)
        backend.event_wait(current, self.copied)
        if current.handle != owner.handle:  # whose memory it is, and which would hand it out again
            self._array = backend.guarded(self._array, owner)
            backend.consumed(self._array, current)
        return self._array

    def cancel(self) -> None:
        """Nobody wants it: what has been enqueued keeps its memory until it is done."""
        staged = self._staged
        if staged is not None:
            staged.filling.end()
            self._give_back(staged)
        elif self.copied is not None:
            _inflight.in_flight.hold(self._conveyor.backend, self.copied, self._array)
