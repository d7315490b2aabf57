"""Transfers that threads stage, begun as late as anybody may count on: when somebody waits for them.

A thread that is late reads a source that has been changed meanwhile, and fills a target that has been
read before. So the source is summed when the transfer is asked for and again when its threads begin;
the target holds the pattern of uninitialised memory until then.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from xferlib._site import Site, user_site
from xferlib.sim.memory import POISON
from xferlib.sim.reports import Access, Hazard, Race

if TYPE_CHECKING:
    from xferlib._layout import HostArray
    from xferlib.sim.machine import Machine

_MOST_POSTPONED = 32
_POLLS = 64


class PostponedStaging:
    """One transfer whose threads have not begun."""

    def __init__(self, machine: Machine, begin: Callable[[], None], host: HostArray, *, is_source: bool) -> None:
        self._machine = machine
        self._begin: Callable[[], None] | None = begin
        self._host: HostArray | None = host
        self._nbytes = host.nbytes
        self._is_source = is_source
        self._site = user_site()
        self._polls = 0
        if not is_source:
            _fill(host)
        self._sum = _sum(host)

    def begin(self) -> None:
        """Let the threads begin, and report what has happened to the host's side before that."""
        begin, host = self._begin, self._host
        if begin is None or host is None:
            return
        self._begin = self._host = None  # the queue of what is put off must not keep the array alive
        is_changed = _sum(host) != self._sum
        begin()
        if is_changed and self._machine.detector.is_on:
            self._machine.detector.report(self._race())

    def drop(self) -> None:
        """Nobody wants the transfer any more: what happens to its source is nobody's fault."""
        self._begin = self._host = None

    def is_due(self) -> bool:
        """A program that polls gets a thread in the end."""
        self._polls += 1
        return self._polls > _POLLS

    def _race(self) -> Race:
        what = "staging of a source" if self._is_source else "staging into a target"
        wait = "Transfer.source_released or Transfer.result()" if self._is_source else "Transfer.result()"
        now = user_site()
        return Race(
            hazard=Hazard.SOURCE_CHANGED if self._is_source else Hazard.TARGET_CHANGED,
            first=Access(what, "a thread of xferlib", self._site),
            second=Access("a write by the host", "the host", Site(now.file, now.line, f"{now.function}, or before it")),
            memory=f"{self._nbytes} bytes of ordinary host memory",
            missing=f"the host did not wait for the transfer of {self._site} before it wrote",
            remedy=f"{wait} before the write; to_device and to_host return when they are done with the host's side",
        )


class Staging:
    """The transfers that are put off."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._postponed: deque[PostponedStaging] = deque()

    def postpone(self, begin: Callable[[], None], host: HostArray, *, is_source: bool) -> PostponedStaging | None:
        """Put a transfer off, unless everything is done at once, or somebody looks at the times it takes."""
        if self._machine.engine.schedule.is_eager or self._machine.listener is not None:
            begin()
            return None
        postponed = PostponedStaging(self._machine, begin, host, is_source=is_source)
        self._postponed.append(postponed)
        if len(self._postponed) > _MOST_POSTPONED:  # whoever dropped its handle will never wait for it
            self._postponed.popleft().begin()
        return postponed


def _sum(host: HostArray) -> int:
    return zlib.crc32(np.ascontiguousarray(host).reshape(-1).view(np.uint8).data)


def _fill(host: HostArray) -> None:
    """The pattern of uninitialised memory, element by element, in any layout."""
    words = np.full(max(host.itemsize // 2, 1), POISON, np.uint16)
    host[...] = words.view(np.uint8)[: host.itemsize].view(host.dtype)[0]
