"""The simulator's memory does not grow with what a program has done."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib import sim
from xferlib.sim import memory

ROOT = Path(__file__).resolve().parents[2]
STEPS = 200


def _step(streams: list[xl.Stream], source: np.ndarray, state: object) -> object:
    """Allocations, copies, kernels, views, events, a stream that ends; nothing of it is kept."""
    copies, work = streams
    batch = xl.to_device(source, stream=copies)
    work.wait(copies)
    with work:
        state += batch
        part = state[2:8] * 2.0
        part -= 1.0
    copies.wait(work)
    with xl.Stream() as short:
        short.wait(work)
        other = xl.ones(4) + 1.0
    short.synchronize()
    del other
    work.synchronize()
    return state


def count_objects(schedule: str) -> list[int]:
    """The objects that the collector follows after 200, 400 and 800 steps.

    Each collection finds some objects that die later, as many after 200 steps as after 400.
    """
    memory._FREED_REMEMBERED = 256
    counts = []
    with xl.use_backend("sim"), sim.check("raise", schedule=schedule):
        streams = [xl.Stream(), xl.Stream()]
        with streams[1]:
            state: object = xl.zeros(16)
        streams[1].synchronize()
        source = xl.pinned_zeros(16)
        for steps in (STEPS, STEPS, 2 * STEPS):
            for _ in range(steps):
                state = _step(streams, source, state)
            gc.collect()
            counts.append(len(gc.get_objects()))
    return counts


def test_nothing_accumulates_over_many_operations() -> None:
    """In a process of its own: of what other tests have left at work, more is kept before it is cut."""
    program = "from tests.sim.test_cost import *; print(*count_objects('lazy'), *count_objects('lifo'))"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    _, before, after, _, later, last = map(int, found.stdout.split())
    assert max(after - before, last - later) < STEPS, found.stdout  # less than one object in two steps


def test_operations_without_a_wait_do_not_pile_up() -> None:
    from xferlib.sim import machine as current
    from xferlib.sim import schedules as engine

    with xl.use_backend("sim"), sim.check("raise"):
        x = xl.zeros(16)
        for _ in range(4 * engine.MOST_PENDING):
            x += 1.0
            assert current.machine().engine.pending <= engine.MOST_PENDING
        assert (xl.to_host(x) == 4 * engine.MOST_PENDING).all()


def test_threads_and_streams_that_ended_are_forgotten() -> None:
    """Each prefetcher over an iterator has a thread and three streams of its own."""
    from xferlib.sim import machine as current

    with xl.use_backend("sim"), sim.check("raise"):
        known = []
        for number in range(45):
            for batch in xl.prefetch(iter([np.full(64, float(value)) for value in range(3)])):
                batch += 1.0
            xl.synchronize()
            if number in (14, 44):
                gc.collect()
                known.append(len(current.machine().hosts.main.clock))
    assert known[1] - known[0] < 60, known  # and there were 120 of them in between


@pytest.mark.parametrize(("size", "steps"), [(4, 200), (1 << 18, 50)])  # the larger memory is recycled
def test_dropped_transfers_do_not_pile_up(size: int, steps: int) -> None:
    from xferlib.sim import machine as current

    with xl.use_backend("sim"), sim.check("raise"):
        x = xl.zeros(size)
        counts = []
        for _ in range(2):
            for _ in range(steps):
                xl.to_host_async(x + 1.0)
            machine = current.machine()
            counts.append(len(machine.staging.sides()) + len(machine.hosts.over))
        assert counts[1] < counts[0] + steps // 2, counts


@pytest.mark.parametrize("keep", [np.asarray, np.ravel, np.transpose, memoryview, lambda each: each[1:].view("uint8")])
def test_memory_of_a_dropped_transfer_stays_watched_while_the_program_refers_to_it(
    keep: Callable[[np.ndarray], Any],
) -> None:
    with xl.use_backend("sim"), sim.check("raise"):
        x, target = xl.zeros(4), np.zeros(4)
        kept = keep(target)
        xl.to_host_async(x, out=target)
        del target
        for _ in range(64):  # so many that the first one is no longer late
            xl.to_host_async(x + 1.0)
        with pytest.raises(sim.RaceError):
            sim.writes(np.asarray(kept))
        xl.synchronize()
