"""One batch of a pipeline: copied, transformed, handed out; what failed can be tried again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _api, _plan, _registry, _staging, _transfer, _tree
from xferlib._arriving import Arriving
from xferlib._leaves import flatten
from xferlib._stream import Stream
from xferlib.errors import OutOfMemoryError, XferError

if TYPE_CHECKING:
    from xferlib._array import Array
    from xferlib._device import Device
    from xferlib._layout import HostArray
    from xferlib.backends.base import Backend, RawEvent, RawStream


_DIRECT_MOST = _staging.MEDIUM_NBYTES
"""To order two streams, memory between them and threads takes longer than to copy so much with one thread."""
_DIRECT_MOST_PINNED = 1 << 20
"""The device needs 20 us for so much."""


class Lane:
    """Where batches go: a device, and what is done to them there.

    Args:
        backend: Serves ``place``.
        place: The device.
        transform: What each batch is passed through on the device.
        has_own_streams: Whether nobody has said which stream carries the copies.
    """

    __slots__ = ("_is_host", "_may_be_direct", "backend", "place", "transform")

    def __init__(
        self, backend: Backend, place: Device, transform: Callable[[Any], Any] | None, *, has_own_streams: bool
    ) -> None:
        self.backend = backend
        self.place = place
        self.transform = transform
        self._may_be_direct = has_own_streams and transform is None
        self._is_host = not backend.capabilities.streams

    def direct_nbytes(self, host: Any) -> int | None:
        """Bytes of a batch so small that copying it takes less than ordering two streams by events; None of others.

        Where there are no streams a copy is complete when it returns: the time for it is when it is wanted.
        """
        if self._is_host or not self._may_be_direct:
            return 0 if self._may_be_direct else None
        leaves = [host] if type(host) is np.ndarray else flatten(host)[0]
        nbytes = _nbytes(leaves)
        if nbytes is None or nbytes > _DIRECT_MOST:
            return None
        return nbytes if nbytes <= _DIRECT_MOST_PINNED or not self._has_pinned(leaves) else None

    def _has_pinned(self, leaves: list[HostArray]) -> bool:
        """Whether the device reads some of a batch by itself."""
        return any(leaf.flags.c_contiguous and _plan.pinned_spans(leaf, self.backend) for leaf in leaves)

    def kept(self, host: Any) -> Any:
        """A copy on the host of a batch that is to be copied when it is handed out; None of any other.

        For a source that may fill the same memory again: less work than sending it and waiting for that.
        """
        if self._is_host or not self._may_be_direct:
            return None
        leaves, rebuild = ([host], itemgetter(0)) if type(host) is np.ndarray else flatten(host)
        nbytes = _nbytes(leaves)
        is_small = nbytes is not None and nbytes <= _staging.SMALL_NBYTES
        return rebuild([leaf.copy() for leaf in leaves]) if is_small else None

    @property
    def transforms_ahead(self) -> bool:
        """Whether the library's operations follow the stream of the copies, so that they need not wait."""
        abilities = self.backend.capabilities
        return self.transform is not None and (abilities.native_current_stream or not abilities.streams)


def _nbytes(leaves: list[Any]) -> int | None:
    """Of NumPy arrays together; None where one is something else."""
    if any(type(leaf) is not np.ndarray for leaf in leaves):
        return None
    nbytes: int = sum(leaf.nbytes for leaf in leaves)
    return nbytes


class Batch:
    """One item of the source, kept until it has been handed out: what failed can be tried again."""

    __slots__ = (
        "_arriving",
        "_direct_nbytes",
        "_error",
        "_event",
        "_host",
        "_lane",
        "_made",
        "_sent_on",
        "_stream",
        "_value",
        "handover",
    )

    def __init__(self, host: Any, lane: Lane, stream: RawStream, *, direct_nbytes: int | None = None) -> None:
        self._direct_nbytes = direct_nbytes
        self._host = host
        self._lane = lane
        self._stream = stream
        self._arriving: Arriving | None = None
        self._error: BaseException | None = None
        self._value: Any = None
        self._made: list[Array] | None = None
        """Arrays that the transform made; None before it ran."""
        self._event: RawEvent | None = None
        self._sent_on: RawStream | None = None
        """The stream that carried a small batch, with others, before its turn came."""
        self.handover: object = None

    @property
    def is_direct(self) -> bool:
        """Whether it is copied on the consumer's stream, when it is handed out."""
        return self._direct_nbytes is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it is to be copied on the consumer's stream, and may travel with others."""
        nbytes = self._direct_nbytes
        return nbytes is not None and nbytes <= _staging.SMALL_NBYTES and self._sent_on is None

    def try_begin(self, before: Batch | None) -> bool:
        """Start copying, behind the copies of ``before``; an error is kept until the batch's turn comes."""
        if self.is_direct:
            return True
        try:
            if before is not None and before._arriving is not None:
                before._arriving.precede(self._stream)
            self._begin()
        except BaseException as error:
            self._error = error
            return False
        return True

    def try_prepare(self) -> bool:
        """Begin, wait until the source may be changed, and transform."""
        try:
            self._begin()
            self._transform_ahead()
            assert self._arriving is not None
            self._arriving.release()
        except BaseException as error:
            self._error = error
            return False
        return True

    def _begin(self) -> None:
        if self._arriving is None:
            self._arriving = Arriving(self._host, self._lane.backend, self._lane.place, self._stream)

    def _transform_ahead(self) -> None:
        lane = self._lane
        if self._made is not None or lane.transform is None or not lane.transforms_ahead:
            return
        assert self._arriving is not None
        with Stream._of(self._stream, lane.backend):
            value = lane.transform(self._arriving.result())
        leaves, rebuild = flatten(value)
        made = []
        for number, leaf in enumerate(leaves):
            owner = _registry.backend_of(leaf)
            if owner is not None and owner.view(leaf).device is lane.place:
                leaves[number] = lane.backend.guarded(leaf, self._stream)
                made.append(leaves[number])
        self._value = rebuild(leaves)
        self._event = _transfer.record(lane.backend, self._stream)
        self._made = made

    def push(self) -> None:
        """Let threads begin what they found no room for."""
        if self._arriving is not None:
            self._arriving.push()

    def is_settled(self, wait_s: float) -> bool:
        """Whether nobody need wait until its copies are enqueued; waits so long at most."""
        return self._error is not None or self._arriving is None or self._arriving.is_settled(wait_s)

    def hand_over(self) -> Any:
        """The batch, ordered on the calling thread's current stream; may be called again after an error."""
        if self._direct_nbytes is not None:
            return self._sent_directly(is_small=self._direct_nbytes <= _staging.SMALL_NBYTES)
        error, self._error = self._error, None
        if error is not None:
            self._restart()
            if not isinstance(error, (OutOfMemoryError, KeyboardInterrupt)):  # those may have passed meanwhile
                raise error
        try:
            self._begin()
            return self._ordered()
        except BaseException:  # Ctrl-C too: it may have struck in the middle of a copy
            # Only then is there something to repeat; and only then does the source still have it: see `try_prepare`.
            if self._arriving is not None and self._arriving.has_failed:
                self._restart()
            raise

    def _sent_directly(self, *, is_small: bool) -> Any:
        lane = self._lane
        if self._sent_on is not None and self._sent_on.handle == lane.backend.stream_current(lane.place).handle:
            return self._value
        if type(self._host) is np.ndarray and is_small:
            return _api.send(self._host, lane.backend, lane.place)
        # On a stream that is named the host does not wait for what is pinned.
        if type(self._host) is np.ndarray:
            return _api.send(self._host, lane.backend, lane.place, lane.backend.stream_current(lane.place))
        order = None if is_small else Stream._of(lane.backend.stream_current(lane.place), lane.backend)
        return _tree.to_device(self._host, device=lane.place, stream=order)

    def _ordered(self) -> Any:
        lane = self._lane
        assert self._arriving is not None
        if lane.transform is None:
            return self._arriving.result()
        if not lane.transforms_ahead:
            return lane.transform(self._arriving.result())
        self._transform_ahead()
        assert self._made is not None
        current = lane.backend.stream_current(lane.place)
        if current.handle != self._stream.handle:
            lane.backend.event_wait(current, self._event)
            for array in self._made:
                lane.backend.consumed(array, current)
        return self._value

    def _restart(self) -> None:
        self.cancel()
        self._arriving = self._made = self._value = None

    def cancel(self) -> None:
        """Nobody wants it."""
        if self._arriving is not None:
            self._arriving.cancel()

    def release(self) -> None:
        """Wait until the source may be changed."""
        if self._arriving is not None:
            self._arriving.release()

    def await_end(self) -> None:
        """After `cancel`: wait until no copy reads the source; how a copy ended is nobody's concern any more."""
        if self._arriving is not None:
            self._arriving.await_end()


def send_together(batches: Sequence[Batch]) -> None:
    """Copy small batches at once, on the calling thread's current stream, for as long as that is current.

    Where it fails nothing has happened: each is then copied alone, when its turn comes, or says why it cannot be.
    """
    lane = batches[0]._lane
    stream = lane.backend.stream_current(lane.place)
    try:
        values = _tree.to_device([each._host for each in batches], device=lane.place)
    except XferError:
        return
    for each, value in zip(batches, values, strict=True):
        each._value, each._sent_on = value, stream
