"""Streams and events of the simulated devices, with CUDA's rules for the default streams."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any

from xferlib._core.raw import RawStream
from xferlib._runtime.callsite import CodeLocation, Site, site_of
from xferlib.sim.model.clocks import KeptClock, Participant, ParticipantKeys
from xferlib.sim.model.operations import Operation
from xferlib.sim.model.pool import Pool

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib.sim.model.captured_work import CapturedWork

LEGACY, LEGACY_ALIAS, PER_THREAD = 0, 1, 2
"""The handles that CUDA gives the default streams."""


class StreamKind(Enum):
    """The relation of a stream to the legacy default stream of its device."""

    LEGACY = "legacy default"
    PER_THREAD = "per-thread default"
    BLOCKING = "blocking"
    NON_BLOCKING = "non-blocking"


class SimStream(Participant):
    """A queue of operations on one device.

    Attributes:
        tail: The last operation enqueued.
        time_s: When its last operation ends on the virtual clock.
        pool: Memory freed in its order.
        awaited: Of the legacy stream, by stream: events that its next operation waits for. Blocking streams are not
            ordered around a wait, as measured on an H200.
        last_wait: Of the legacy stream: its last wait.
        polled: The event that the host polls, until it is complete.
        recorded: Notes its operations instead of the machine doing them, while it is captured.
        idle_copies: Participants of the copies of staged transfers that are complete, which the stream comes after.
        waited: By the key of another stream, this stream's last wait for it. A report uses it to hint that the
            event was recorded too early for the access.
    """

    __slots__ = (
        "awaited", "device", "idle_copies", "is_own", "kind", "last_wait", "polled", "pool", "priority", "recorded",
        "site", "tail", "time_s", "waited",
    )  # fmt: skip

    def __init__(
        self, key: int, device: Device, kind: StreamKind, site: Site, priority: int = 0, *, is_own: bool = False
    ) -> None:
        made = f", made {'for' if is_own else 'at'} {site.file}:{site.line}" if kind.value.endswith("blocking") else ""
        super().__init__(key, f"{kind.value} stream {key} of {device}{made}")
        self.is_own = is_own
        """Whether xferlib made it for transfers: the program has no name for it."""
        self.device = device
        self.kind = kind
        self.site = site
        self.priority = priority
        self.tail: Operation | None = None
        self.time_s = 0.0
        self.waited: dict[int, Waited] = {}
        self.pool = Pool()
        self.awaited: dict[int, SimEvent] = {}
        self.last_wait: Operation | None = None
        self.polled: SimEvent | None = None
        self.recorded: CapturedWork | None = None
        self.idle_copies: list[Any] = []

    @property
    def handle(self) -> int:
        """Its handle, as in CUDA."""
        # Every device has default streams, under the same handles: `key` alone tells them apart.
        return {StreamKind.LEGACY: LEGACY, StreamKind.PER_THREAD: PER_THREAD}.get(self.kind, self.key)


class Waited:
    """One stream's wait for an event of another; ``event`` is None if it was never recorded."""

    __slots__ = ("event", "location")

    def __init__(self, event: SimEvent | None, location: CodeLocation) -> None:
        self.event = event
        self.location = location

    @property
    def site(self) -> Site:
        return site_of(self.location)


class SimEvent(KeptClock):
    """A recorded event: the work before it as a clock, and the operation that completes it.

    A clock that has reached ``tick`` of ``participant`` is ordered behind it.
    """

    __slots__ = ("operation", "participant", "polls", "stream", "tick", "time_s", "timing")

    def __init__(self, stream: SimStream, operation: Operation, participants: ParticipantKeys, *, timing: bool) -> None:
        super().__init__(dict(stream.clock), participants)
        self.stream = stream
        self.operation = operation
        self.participant: Participant = stream
        self.tick = operation.tick
        self.time_s = stream.time_s
        self.timing = timing
        self.polls = 0

    @property
    def site(self) -> Site:
        return self.operation.site

    def narrow(self, copies: Participant) -> None:
        """Cover the copies of a transfer and what came before it alone: it was begun late, behind later work."""
        self._clock = dict(copies.clock)
        self.participant, self.tick = copies, copies.clock[copies.key]


def later(event: SimEvent, other: SimEvent | None) -> SimEvent:
    """The later of two events of one participant, which implies the other."""
    # The ticks of one participant grow by one with each action, so the later event has all that the other had.
    return event if other is None or other.tick < event.tick else other


class StreamHandle(RawStream):
    """The handle of a stream for shared code; tells the machine when the last reference is gone."""

    __slots__ = ("_ended", "stream")

    def __init__(self, handle: int, stream: SimStream, ended: deque[SimStream] | None) -> None:
        super().__init__(handle, stream.device, native=None)
        self.stream = stream
        self._ended = ended

    def __del__(self) -> None:
        ended: Any = getattr(self, "_ended", None)
        if ended is not None:
            # Not more: the collector may call this in any thread, inside any call of the machine, whose lock it would
            # wait for. Appending to a deque takes none; the machine's next call looks.
            ended.append(self.stream)


class DeviceStreams:
    """The streams of one device, by their relation to its legacy stream."""

    __slots__ = ("blocking", "every", "legacy")

    def __init__(self, legacy: SimStream) -> None:
        self.legacy = legacy
        self.blocking: list[SimStream] = []
        self.every: list[SimStream] = [legacy]

    def add(self, stream: SimStream) -> None:
        self.every.append(stream)
        if stream.kind is not StreamKind.NON_BLOCKING:
            self.blocking.append(stream)

    def remove(self, stream: SimStream) -> None:
        for streams in (self.every, self.blocking):
            if stream in streams:
                streams.remove(stream)

    def before(self, stream: SimStream) -> list[SimStream]:
        """The streams whose work so far comes before the next operation of ``stream`` by CUDA's rules.

        The legacy stream waits for every blocking stream, and they for it; non-blocking ones are exempt.
        """
        # Only one step back: what a blocking stream waits for came before the legacy stream's last operation, and is
        # known by its clock.
        if stream.kind is StreamKind.LEGACY:
            return self.blocking
        return [] if stream.kind is StreamKind.NON_BLOCKING else [self.legacy]
