"""The host's side of the ordering: which thread is which participant, and what they hand over.

Python's own synchronisation between threads (locks, queues, joins) cannot be seen from here. All of
the user's threads therefore count as one participant: a missing lock between two of them is not
reported, and a present one never causes a false alarm. The threads of xferlib's own are participants
of their own, and hand over explicitly: whether a helper thread has already waited for a copy must
not decide, by luck of timing, whether the user's missing wait is reported.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from xferlib.sim.clocks import Clock, KeptClock, Participant, Roll, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class HostThread(Participant):
    """A participant on the host, with its place on the virtual clock."""

    __slots__ = ("time_s",)

    def __init__(self, key: int, label: str) -> None:
        super().__init__(key, label)
        self.time_s = 0.0


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
        self.put_off: Callable[..., Any] = lambda begin, host, is_source: begin()
        """What the machine makes of a transfer about to be staged by threads."""
        self.main = HostThread(roll.enter(), "the host")
        self._own: dict[int, HostThread] = {}
        self._ended = HostThread(roll.enter(), "host threads that have ended")
        self.over: list[HostThread] = []
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

    def postpone(self, begin: Callable[[], None], host: Any, *, is_source: bool) -> Any:
        """A transfer is to be given to threads that stage it."""
        return self.put_off(begin, host, is_source=is_source)

    def staged(self, nbytes: int) -> None:
        """The calling thread has copied so much between ordinary and page-locked memory."""
        self.stage(self.current(), nbytes)

    def taken(self, handover: object) -> None:
        """The calling thread comes after what was handed over."""
        if isinstance(handover, Handover):
            host = self.current()
            host.learn(handover.clock)
            host.time_s = max(host.time_s, handover.time_s)
