"""The number of threads that stage: from the setting ``threads`` and the cores that this process may use."""

from __future__ import annotations

import functools
import os
import time
from typing import NamedTuple

from xferlib._runtime import config


class Crew(NamedTuple):
    """The number of threads that stage, for each purpose."""

    each_way: int
    """Threads that fill or drain the staging buffers of one transfer, and of one direction."""
    both_ways: int
    """Helpers in both directions: few enough that the program's own threads find a core when they wake."""
    clearing: int
    """Threads that drain into memory that was never touched: the kernel clears a page in the thread that touches it."""
    fillers: int
    """Helper threads that spin briefly for the next fill before they sleep; 0: there are none."""


_MOST_EACH_WAY = 10
_FILLERS_FROM_CORES = 8


def crew() -> Crew:
    """Return the numbers of threads for a transfer that begins now."""
    return _crew(config.get().threads, usable_cores())


@functools.lru_cache(maxsize=8)
def _crew(wanted: int | None, cores: int) -> Crew:
    each_way = wanted or min(_MOST_EACH_WAY, cores)
    both_ways = min(2 * each_way, max(each_way, cores - 2))
    fillers = min(each_way - 1, cores // 2) if cores >= _FILLERS_FROM_CORES else 0
    return Crew(each_way, both_ways, wanted or cores, fillers)


def staging_threads_in_all() -> int:
    """Return the most threads that the pool has: enough for one transfer in each direction."""
    return 2 * crew().each_way


_CORES_S = 1.0
_cores: tuple[int, float] = (0, 0.0)


def usable_cores() -> int:
    """Count the cores that this process may use; cached for a second, since counting takes as long as a copy call."""
    global _cores
    found, until_s = _cores
    now_s = time.monotonic()
    if now_s >= until_s:
        found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
        _cores = (found, now_s + _CORES_S)
    return found
