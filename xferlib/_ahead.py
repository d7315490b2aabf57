"""Medium arrays, sent ahead into memory of the stream that will use them.

The copy runs on a stream beside it, so the consumer's work on the array before goes on meanwhile. Since the
memory comes from the consumer's own stream, nobody has to be told when it is free again: what that takes with
streams of their own (an event after the consumer's work, a guard on every array) costs more than the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xferlib import _api, _array, _plan, _recording, _transfer
from xferlib._plan import Path

if TYPE_CHECKING:
    from xferlib._array import Array
    from xferlib._device import Device
    from xferlib._layout import HostArray
    from xferlib.backends.base import Backend, RawEvent, RawStream


class Conveyor:
    """Copies of one consumer's arrays, one after the other.

    Args:
        backend: Serves ``place``.
        place: The target device.
        carrier: The stream for the copies.
    """

    __slots__ = ("_backend", "_carrier", "_free", "_place")

    def __init__(self, backend: Backend, place: Device, carrier: RawStream) -> None:
        self._backend = backend
        self._place = place
        self._carrier = carrier
        self._free: RawEvent | None = None
        """After the consumer's work that may still use the memory; recorded anew for each array."""

    def send(self, host: HostArray) -> Ahead:
        """Begin to copy, into memory of the calling thread's current stream; the source has been read unless pinned.

        Raises:
            As `xferlib.to_device`: nothing has been begun.
        """
        backend, carrier = self._backend, self._carrier
        recorder = _recording.active
        begun = recorder.begin(backend) if recorder is not None else None
        host = _array.as_host_array(host)
        dtype = _api.wanted_dtype(None, host.dtype)
        found = _plan.plan(host, dtype, backend, may_permute=False)
        _plan.refuse_slow(found, host, "prefetch")
        backend.attach(self._place)
        owner = backend.stream_current(self._place)
        array = backend.empty(host.shape, dtype, device=self._place, stream=owner)
        readable = _transfer.readable(host, dtype, backend, carrier, found) if recorder is None else None
        try:
            if readable is not None:
                target = backend.operands((array,))[0]
                self._free, copied = backend.copy_behind(
                    target, readable, host.nbytes, behind=owner, stream=carrier, event=self._free
                )
            else:
                self._free = backend.event_record(owner, timing=False, event=self._free)
                backend.event_wait(carrier, self._free)
                _transfer.upload(host, backend.view(array), backend, carrier, found)
                copied = _transfer.record(backend, carrier)
        except BaseException:
            _transfer.abandon(backend, carrier)
            raise
        if found.path is Path.PINNED:
            _transfer.hold_pinned(host, backend, copied)
        if recorder is not None:
            recorder.called(begun, backend, host.nbytes)
        return Ahead(array, backend, owner, copied)


class Ahead:
    """One array on its way: see `xferlib._arriving.Arriving`, whose methods these are."""

    __slots__ = ("_array", "_backend", "_copied", "_owner")

    has_failed = False

    def __init__(self, array: Array, backend: Backend, owner: RawStream, copied: RawEvent) -> None:
        self._array = array
        self._backend = backend
        self._owner = owner
        self._copied = copied

    def push(self) -> None:
        """Every copy is enqueued."""

    def is_settled(self, wait_s: float) -> bool:
        """Every copy is enqueued."""
        return True

    def release(self) -> None:
        """Wait until the source may be changed."""
        self._backend.event_synchronize(self._copied)

    await_end = release

    def precede(self, stream: RawStream) -> None:
        """Let ``stream`` wait for the copy."""
        self._backend.event_wait(stream, self._copied)

    def result(self) -> Array:
        """The array, ordered on the calling thread's current stream."""
        backend, owner = self._backend, self._owner
        current = backend.stream_current(owner.device)
        backend.event_wait(current, self._copied)
        if current.handle != owner.handle:  # whose memory it is, and which would hand it out again
            self._array = backend.guarded(self._array, owner)
            backend.consumed(self._array, current)
        return self._array

    def cancel(self) -> None:
        """Nobody wants it: its memory is kept until the copy has been made."""
        _transfer.in_flight.hold(self._backend, self._copied, self._array)
