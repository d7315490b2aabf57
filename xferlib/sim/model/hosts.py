"""The host's side of the ordering: which thread is which participant, and what they hand over.

Python's own synchronisation between threads (locks, queues, joins) cannot be seen from here. All of
the user's threads therefore count as one participant: a missing lock between two of them is not
reported, and a present one never causes a false alarm. The threads of xferlib's own are participants
of their own, and hand over explicitly: whether a helper thread has already waited for a copy must
not decide, by luck of timing, whether the user's missing wait is reported.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xferlib.sim.model.clocks import Clock, KeptClock, Participant, Roll, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xferlib._core.layout import HostArray
    from xferlib._core.staging_hooks import Ends, Postponed, ReadAhead
    from xferlib._runtime.callsite import CodeLocation
    from xferlib._runtime.jobs import Job
    from xferlib.sim.model.streams import SimStream


class HostThread(Participant):
    """A participant on the host, with its place on the virtual clock."""

    __slots__ = ("time_s",)

    def __init__(self, key: int, label: str) -> None:
        super().__init__(key, label)
        self.time_s = 0.0


class Stager(HostThread):
    """Who stages one transfer: a thread that is as late as the contract allows.

    Attributes:
        copies: The transfer's copies on the device: a participant of its own, since neither the stream nor
            the staging comes after them before all are enqueued.
        stream: Carries them.
        location, call: The line that requested the transfer, and the function called there.
        finishing: Its job, and what to do when the last copy is enqueued or has arrived. Other threads may see the
            end of the job at once after that.
    """

    __slots__ = ("call", "copies", "finishing", "location", "stream")

    def __init__(self, roll: Roll, stream: SimStream, location: CodeLocation, call: str) -> None:
        super().__init__(roll.enter(), "a thread of xferlib")
        self.copies = TransferCopies(roll.enter(), stream)
        self.stream = stream
        self.location = location
        self.call = call
        self.finishing: tuple[Job, Callable[[], None]] | None = None


class TransferCopies(Participant):
    """The copies of one transfer that threads stage."""

    __slots__ = ("stream",)

    def __init__(self, key: int, stream: SimStream) -> None:
        super().__init__(key, stream.label)
        self.stream = stream


class Handover(KeptClock):
    """What a thread that takes something over comes after."""

    __slots__ = ("time_s",)

    def __init__(self, clock: Clock, time_s: float, roll: Roll) -> None:
        super().__init__(clock, roll)
        self.time_s = time_s


class Hosts:
    """The host threads, by thread."""

    domain = "sim"

    def __init__(self, roll: Roll) -> None:
        self._roll = roll
        self.stage: Callable[[HostThread, int], None] = lambda host, nbytes: None
        """What the machine makes of a staging chunk filled or emptied."""
        self.put_off: Callable[[Job, Ends], Postponed]
        """What the machine makes of a transfer about to be staged by threads."""
        self.ahead: Callable[[list[HostArray]], ReadAhead]
        """What the machine makes of a batch that may be read before it is handed out."""
        self.touch: Callable[..., None]
        """What the machine makes of a host array that a blocking transfer reads or writes."""
        self.main = HostThread(roll.enter(), "the host")
        self._own: dict[int, HostThread] = {}
        self._ended = HostThread(roll.enter(), "host threads that have ended")
        self.over: list[Participant] = []
        """Threads that have ended and are not forgotten yet."""
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[HostThread]:
        yield self.main
        yield self._ended
        yield from tuple(self._own.values())

    def current(self) -> HostThread:
        """The participant that the calling thread is."""
        return self._own.get(threading.get_ident(), self.main) if self._own else self.main

    def began(self) -> None:
        """The calling thread is one of xferlib's own."""
        with self._lock:
            ident = threading.get_ident()
            if ident not in self._own:
                self._own[ident] = HostThread(self._roll.enter(), f"host thread {threading.current_thread().name}")

    def ended(self) -> None:
        """The calling thread is about to end; the next one may have its number, and not be xferlib's."""
        with self._lock:
            over = self._own.pop(threading.get_ident(), None)
            if over is not None:
                self._ended.learn(over.clock)
                self.over.append(over)

    def given(self, before: object) -> Handover:
        """What the calling thread did so far comes before whatever takes the thing over."""
        host = self.current()
        if isinstance(before, Handover):
            return Handover(joined(before.clock, host.clock), max(before.time_s, host.time_s), self._roll)
        return Handover(dict(host.clock), host.time_s, self._roll)

    @contextmanager
    def acting(self, stager: Stager) -> Iterator[None]:
        """The calling thread does a transfer's work in that participant's name."""
        ident = threading.get_ident()
        before = self._own.get(ident)
        self._own[ident] = stager
        try:
            yield
        finally:
            if before is None:
                del self._own[ident]
            else:
                self._own[ident] = before

    def postpone(self, job: Job, ends: Ends) -> Postponed:
        """A transfer is to be given to threads that stage it."""
        return self.put_off(job, ends)

    def read_ahead(self, hosts: list[HostArray]) -> ReadAhead:
        """Arrays of the host may be read from now on, until they are handed out."""
        return self.ahead(hosts)

    def touched(self, host: HostArray, *, is_write: bool) -> None:
        """The calling thread reads or writes a host array, for a blocking transfer."""
        self.touch(host, is_write=is_write, is_declared=False)

    def finishing(self, job: Job) -> None:
        """The calling thread has enqueued the last copy of a job, or the last has arrived."""
        host = self.current()
        if type(host) is Stager and host.finishing is not None and host.finishing[0] is job:
            host.finishing[1]()

    def staged(self, nbytes: int) -> None:
        """The calling thread has copied so much between ordinary and page-locked memory."""
        self.stage(self.current(), nbytes)

    def taken(self, handover: object) -> None:
        """The calling thread comes after what was handed over."""
        if isinstance(handover, Handover):
            host = self.current()
            host.learn(handover.clock)
            host.time_s = max(host.time_s, handover.time_s)
