"""The library's state at a moment, for tests that nothing is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from xferlib import _native
from xferlib._core import observe, pending, registry, thresholds
from xferlib._core.backend import Backend
from xferlib._memory import pinned, staging_ring
from xferlib._memory.in_flight import in_flight
from xferlib._native import driver_calls
from xferlib._runtime import torch_compile
from xferlib._transfer import plan

PATHS = tuple(path.value for path in plan.Path)
"""The values of `Transfer.stats.path`, which `forced` takes too."""


class Thresholds(NamedTuple):
    """The sizes at which transfers take another path, and limits of what they share."""

    small_nbytes: int = thresholds.SMALL_NBYTES
    """Up to here one thread stages an array through a buffer of its own."""
    medium_nbytes: int = thresholds.MEDIUM_NBYTES
    """Up to here one thread is as fast as several."""
    chunk_nbytes: int = thresholds.CHUNK_NBYTES
    """A chunk of the staging buffers that transfers share."""
    driver_nbytes: int = thresholds.DRIVER_MOST_UP
    """Up to here the driver's own copy of pageable memory to a device is as fast as staging."""
    driver_at_all_nbytes: int = thresholds.DRIVER_MOST_OF_ALL
    """The same where Python stages."""
    ring_chunks: int = thresholds.RING_CHUNKS
    """Chunks of a ring of staging buffers."""
    transfer_chunks: int = thresholds.LENT_CHUNKS
    """Chunks that one transfer may have at once."""


THRESHOLDS = Thresholds()


def backend_named(name: str) -> Backend:
    """The backend of that name, loaded at the first call.

    Raises:
        BackendNotFoundError: Nothing is registered under ``name``.
        BackendUnavailableError: It cannot run here.
    """
    return registry.get(name)


class StagingStats(NamedTuple):
    """The staging buffers that the transfers of a backend's devices share."""

    nbytes: int
    """Pinned memory."""
    lent_up: int
    """Chunks in use by transfers to a device."""
    lent_down: int
    """Chunks in use by transfers to the host."""


def staging_stats(backend: str) -> StagingStats:
    """The contents of a backend's staging buffers."""
    domain = registry.get(backend).pinned_domain
    rings = [ring for key, ring in tuple(staging_ring.rings.made.items()) if key[0] == domain]
    return StagingStats(
        sum(ring.nbytes for ring in rings),
        sum(ring.lent(is_upward=True) for ring in rings),
        sum(ring.lent(is_upward=False) for ring in rings),
    )


def held_nbytes() -> tuple[int, ...]:
    """Bytes that the program holds of each pinned pool, in the order in which the pools were made."""
    return tuple(pool.stats().in_use_nbytes for pool in pinned.pools.all())


def lent_chunks(timeout_s: float = 10.0) -> int:
    """The number of chunks that transfers hold; waits up to ``timeout_s`` until there are none."""
    until_s, pause = time.monotonic() + timeout_s, threading.Event()
    while (count := _lent()) and time.monotonic() < until_s:
        pause.wait(1e-3)
    return count


def _lent() -> int:
    return sum(ring.lent(is_upward=each) for ring in staging_ring.rings.all() for each in (True, False))


def pending_count() -> int:
    """Transfers that are not settled: some of their copies are not enqueued yet."""
    return sum(map(len, tuple(pending._pending.values())))


def settle_all() -> None:
    """Wait until every transfer begun so far is settled."""
    pending.settle_all()


def in_flight_count() -> int:
    """The number of copies whose objects are kept, because they are not known to be complete."""
    return len(in_flight._held)


def is_recording() -> bool:
    """Whether a trace is open."""
    return observe.active is not None


class Native(NamedTuple):
    """The parts in C."""

    is_on: bool
    """Whether staging is compiled, and the setting ``native`` allows it."""
    why_no_staging: str
    """Why Python stages; empty where staging is compiled."""
    why_no_calls: str
    """Why the driver is called through ctypes; empty where calls are compiled."""


def native() -> Native:
    """The parts in C that are compiled and in use."""
    return Native(_native.is_on(), _native.why_absent(), driver_calls.why_absent())


def in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function that one of xferlib's, compiled from C, stands for: to step through it, or to compare.

    Args:
        function: Such as ``xl.get_array_module``. Any other function is returned as it is.
    """
    return torch_compile._in_python.get(function, function)
