"""The host's side of the ordering: which thread is which participant, and what they hand over.

Python's own synchronisation between threads (locks, queues, joins) cannot be seen from here. All of
the user's threads therefore count as one participant: a missing lock between two of them is not
reported, and a present one never causes a false alarm. The threads of xferlib's own are participants
of their own, and hand over explicitly: whether a helper thread has already waited for a copy must
not decide, by luck of timing, whether the user's missing wait is reported.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xferlib.sim.clocks import Clock, Participant, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class HostThread(Participant):
    """A participant on the host, with its place on the virtual clock."""

    __slots__ = ("time_s",)

    def __init__(self, key: int, label: str) -> None:
        super().__init__(key, label)
        self.time_s = 0.0


@dataclass(frozen=True, slots=True)
class Handover:
    """What a thread that takes something over comes after."""

    clock: Clock
    time_s: float


class Hosts:
    """The host threads, by thread."""

    domain = "sim"

    def __init__(self, keys: itertools.count[int]) -> None:
        self._keys = keys
        self.stage: Callable[[HostThread, int], None] = lambda host, nbytes: None
        """What the machine makes of a staging chunk filled or emptied."""
        self.put_off: Callable[..., Any] = lambda begin, host, is_source: begin()
        """What the machine makes of a transfer about to be staged by threads."""
        self.main = HostThread(next(keys), "the host")
        self._own: dict[int, HostThread] = {}
        self._ended = HostThread(next(keys), "host threads that have ended")
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
                self._own[ident] = HostThread(next(self._keys), f"host thread {threading.current_thread().name}")

    def ended(self) -> None:
        """The calling thread is about to end; the next one may have its number, and not be xferlib's."""
        with self._lock:
            over = self._own.pop(threading.get_ident(), None)
            if over is not None:
                self._ended.learn(over.clock)

    def given(self, before: object) -> Handover:
        """What the calling thread did so far comes before whatever takes the thing over."""
        host = self.current()
        if isinstance(before, Handover):
            return Handover(joined(before.clock, host.clock), max(before.time_s, host.time_s))
        return Handover(dict(host.clock), host.time_s)

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
