"""What the simulator keeps does not grow with what a program has done."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import xferlib as xl
from xferlib import sim
from xferlib.sim import memory

STEPS = 200


def _step(streams: list[xl.Stream], source: np.ndarray, state: object) -> object:
    """Allocations, copies, kernels, views, events, a stream that ends; nothing of it is kept."""
    copies, work = streams
    batch = xl.to_device(source, stream=copies)
    work.wait(copies)
    with work:
        state += batch  # type: ignore[operator]
        part = state[2:8] * 2.0  # type: ignore[index]
        part -= 1.0
    copies.wait(work)
    with xl.Stream() as short:
        short.wait(work)
        other = xl.ones(4) + 1.0
    short.synchronize()
    del other
    work.synchronize()
    return state


@pytest.mark.parametrize("schedule", ["lazy", "lifo"])
def test_nothing_accumulates_over_many_operations(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that the collector follows, after some thousands of operations and after twice as many."""
    monkeypatch.setattr(memory, "_FREED_REMEMBERED", 256)
    counts = []
    with xl.use_backend("sim"), sim.check("raise", schedule=schedule):
        streams = [xl.Stream(), xl.Stream()]
        with streams[1]:
            state = xl.zeros(16)
        streams[1].synchronize()
        source = xl.pinned_zeros(16)
        for _ in range(4):
            for _ in range(STEPS):
                state = _step(streams, source, state)
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert max(counts[2:]) - counts[1] < STEPS, counts  # less than one object a step


def test_operations_without_a_wait_do_not_pile_up() -> None:
    from xferlib.sim import current, engine

    with xl.use_backend("sim"), sim.check("raise"):
        x = xl.zeros(16)
        for _ in range(4 * engine.MOST_PENDING):
            x += 1.0
            assert current.machine().engine.pending <= engine.MOST_PENDING
        assert (xl.to_host(x) == 4 * engine.MOST_PENDING).all()
