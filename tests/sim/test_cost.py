"""The simulator's memory does not grow with what a program has done."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.processes import printed
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
    found = printed("-c", program, cwd=ROOT)
    _, before, after, _, later, last = map(int, found.split())
    assert max(after - before, last - later) < STEPS, found  # less than one object in two steps


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


def _drop_rows(x: Any) -> None:
    rows = np.empty((2, *x.shape))
    xl.to_host_async(x, out=rows[0])
    xl.to_host_async(x, out=rows[1])


@pytest.mark.parametrize(
    ("size", "steps", "drop"),
    [(4, 200, lambda x: xl.to_host_async(x + 1.0)), (1 << 18, 100, xl.to_host_async), (4, 100, _drop_rows)],
)  # the larger memory is recycled
def test_dropped_transfers_do_not_pile_up(size: int, steps: int, drop: Callable[[Any], object]) -> None:
    from xferlib.sim import machine as current

    with xl.use_backend("sim"), sim.check("raise"):
        x = xl.zeros(size)
        counts = []
        for _ in range(2):
            for _ in range(steps):
                drop(x)
            machine = current.machine()
            counts.append(len(machine.staging.sides()) + len(machine.hosts.over))
        assert counts[1] < counts[0] + steps // 2, counts


def _is_watched_when_dropped(
    keep: Callable[[np.ndarray], Any], make: Callable[[], np.ndarray] = lambda: np.zeros(4)
) -> bool:
    """Whether a write to what is kept of a download's target is a fault, long after the download was dropped."""
    with xl.use_backend("sim"), sim.check("raise"):
        x, target = xl.zeros(4), make()
        kept = keep(target)
        xl.to_host_async(x, out=target)
        del target
        for _ in range(200):  # enough of them that the simulator has begun to forget what it can
            xl.to_host_async(x + 1.0)
        try:
            sim.writes(np.asarray(kept))
        except sim.RaceError:
            return True
        finally:
            xl.synchronize()
    return False


@pytest.mark.parametrize("keep", [np.asarray, np.ravel, np.transpose, memoryview, lambda each: each[1:].view("uint8")])
def test_memory_of_a_dropped_transfer_stays_watched_while_the_program_refers_to_it(
    keep: Callable[[np.ndarray], Any],
) -> None:
    assert _is_watched_when_dropped(keep)


def test_memory_of_a_dropped_transfer_stays_watched_where_the_array_does_not_own_it() -> None:
    """Extension modules make such arrays over their own memory, which the array does not refer to."""
    numpy: Any = np  # whose parts have no types
    address, number = ctypes.c_void_p, ctypes.c_int
    get = ctypes.PYFUNCTYPE(address, ctypes.py_object, address)(("PyCapsule_GetPointer", ctypes.pythonapi))
    table = ctypes.cast(get(numpy._core.multiarray._ARRAY_API, None), ctypes.POINTER(address))
    kinds: list[Any] = [ctypes.py_object, number, address, number, address, address, number, number, address]
    make = ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(table[93])  # PyArray_New
    memory, extent = np.zeros(4), ctypes.c_ssize_t(4)
    arguments = ctypes.addressof(extent), memory.dtype.num, None, memory.ctypes.data, memory.itemsize, 0x501, None
    assert _is_watched_when_dropped(lambda _: memory, lambda: make(np.ndarray, 1, *arguments))


def test_memory_of_a_dropped_transfer_stays_watched_where_a_debugger_saw_the_import() -> None:
    """It refers to local variables."""
    script = """
import sys
sys.setprofile(lambda frame, *_: frame.f_locals if frame.f_code.co_filename.endswith('machine.py') else None)
import xferlib.sim.machine
sys.setprofile(None)
from tests.sim.test_cost import _is_watched_when_dropped
print(_is_watched_when_dropped(lambda each: each))
"""
    assert printed("-c", script) == "True\n"
