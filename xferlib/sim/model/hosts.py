"""The host's side of the ordering: threads as participants, and the happens-before edges between them.

Python's synchronisation between threads (locks, queues, joins) cannot be seen from here. All of the user's threads
therefore count as one participant: a missing lock between two of them is not reported, and a present one never causes
a false alarm. Each thread of xferlib is a participant of its own and publishes what it did: whether a helper thread
happens to have waited for a copy must not decide whether the user's missing wait is reported.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

from xferlib.sim.model.clocks import Clock, KeptClock, Participant, ParticipantKeys, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xferlib._core.layout import HostArray
    from xferlib._core.staging_hooks import Ends, Postponed, ReadAhead
    from xferlib._runtime.callsite import CodeLocation
    from xferlib._runtime.jobs import Job
    from xferlib.sim.model.streams import SimStream


class HostThread(Participant):
    """A participant on the host, with its time on the virtual clock."""

    __slots__ = ("time_s",)

    def __init__(self, key: int, label: str) -> None:
        super().__init__(key, label)
        self.time_s = 0.0


class Stager(HostThread):
    """The thread that stages one transfer, as late as the contract allows.

    Attributes:
        copies: The transfer's copies on the device, a participant of their own: until all are enqueued, neither the
            stream nor the staging is ordered behind them. Afterwards the stream is, and so are those of its next
            transfer, which goes on with the participant: or clocks would have an entry for each transfer there was.
        stream: Carries them.
        location, call: The line that requested the transfer, and the function called there.
        outcome: All that is known of the transfer's end by waiting for it, once it is complete.
    """

    __slots__ = ("call", "copies", "location", "outcome", "stream")

    def __init__(self, participants: ParticipantKeys, stream: SimStream, location: CodeLocation, call: str) -> None:
        super().__init__(participants.enter(), "a thread of xferlib")
        idle = stream.idle_copies
        while idle and idle[-1].is_retired:  # an error struck it just as it was over
            idle.pop()
        self.copies = idle.pop() if idle else TransferCopies(participants.enter(), stream)
        self.stream = stream
        self.location = location
        self.call = call
        self.outcome: Handover | None = None


class TransferCopies(Participant):
    """The copies of one transfer that threads stage."""

    __slots__ = ("stream",)

    def __init__(self, key: int, stream: SimStream) -> None:
        super().__init__(key, stream.label)
        self.stream = stream


class Handover(KeptClock):
    """The clock that a publishing thread passes to the thread that takes the thing."""

    __slots__ = ("time_s",)

    def __init__(self, clock: Clock, time_s: float, participants: ParticipantKeys) -> None:
        super().__init__(clock, participants)
        self.time_s = time_s


class Hosts:
    """The host threads, by thread; the machine sets what it does itself of `StagingListener`."""

    domain = "sim"

    def __init__(self, participants: ParticipantKeys) -> None:
        self._participants = participants
        self.staged: Callable[[int], None] = lambda nbytes: None
        """Advances the virtual clock: the calling thread has copied bytes between ordinary and page-locked memory."""
        self.postpone: Callable[[Job, Ends], Postponed]
        """Makes a transfer late that is about to be given to threads that stage it."""
        self.read_ahead: Callable[[list[HostArray]], ReadAhead]
        """Checks a batch for changes until `prefetch` yields it."""
        self.touched: Callable[..., None]
        """Checks an access of the calling thread to a host array, for a blocking transfer."""
        self.main = HostThread(participants.enter(), "the host")
        self._own: dict[int, HostThread] = {}
        self._ended = HostThread(participants.enter(), "host threads that have ended")
        self.over: list[Participant] = []
        """Threads that have ended and still have a key."""
        self.completions: dict[int, Callable[[], None]] = {}
        """By the ``id`` of a job that is being staged: called when the last copy is enqueued or has arrived, just
        before other threads can see the end of the job, by the thread that leaves last; another may have begun."""
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[HostThread]:
        yield self.main
        yield self._ended
        yield from tuple(self._own.values())

    def current(self) -> HostThread:
        """The calling thread's participant."""
        # A thread that never registered is one of the user's, and these count as one.
        return self._own.get(threading.get_ident(), self.main) if self._own else self.main

    def began(self) -> None:
        """Register the calling thread as one of xferlib's."""
        with self._lock:
            ident = threading.get_ident()
            if ident not in self._own:
                self._own[ident] = HostThread(
                    self._participants.enter(), f"host thread {threading.current_thread().name}"
                )

    def ended(self) -> None:
        """Unregister the calling thread, before it ends: a thread of the program may get its number."""
        with self._lock:
            over = self._own.pop(threading.get_ident(), None)
            if over is not None:
                # Its clock is not lost with it: the program may join the thread, which cannot be seen from here, and
                # then rely on what the thread did.
                self._ended.learn(over.clock)
                self.over.append(over)

    def given(self, before: object) -> Handover:
        """Publish: everything the calling thread did so far happens before the taker's next action.

        A thread that staged as late as may be has waited for more than the transfer; only an end of it is told.
        """
        host = self.current()
        # Its own clock knows of waits that a staging thread of a real machine may never make: the taker of the transfer
        # does not know of them.
        if isinstance(host, Stager) and host.outcome is not None:
            host.outcome.time_s = host.time_s
            return host.outcome
        if isinstance(before, Handover):
            return Handover(joined(before.clock, host.clock), max(before.time_s, host.time_s), self._participants)
        return Handover(dict(host.clock), host.time_s, self._participants)

    def act(self, stager: Stager, step: Callable[[], None]) -> None:
        """Do a step in the calling thread as the participant ``stager``."""
        ident = threading.get_ident()
        before = self._own.get(ident)
        # Nested, where a thread that waits for its transfer helps with another: the outer participant comes back.
        restore = functools.partial(self._own.pop, ident, None) if before is None else functools.partial(
            self._own.__setitem__, ident, before
        )  # fmt: skip
        try:
            self._own[ident] = stager
            step()
            restore()
        except BaseException:  # and no `finally`, whose first line an error may strike too
            restore()
            raise

    def finishing(self, job: Job) -> None:
        """Note that the calling thread has enqueued the last copy of a job, or that it has arrived."""
        complete = self.completions.pop(id(job), None)
        if complete is not None:
            complete()

    def taken(self, handover: object) -> None:
        """Order the calling thread behind the publisher of a thing."""
        if isinstance(handover, Handover):
            host = self.current()
            host.learn(handover.clock)
            host.time_s = max(host.time_s, handover.time_s)
