"""Simulated times are the same in every run of a program, however its threads are scheduled."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib import sim
from xferlib.testing import fresh_staging

SIZES = (1 << 9, 1 << 18)
"""Of float64: 4 KiB, 2 MiB."""


@pytest.fixture(autouse=True)
def disturbed() -> Iterator[None]:
    """Another thread takes the GIL whenever it can, so that nothing runs at its usual pace."""
    over, before = threading.Event(), sys.getswitchinterval()

    def disturb() -> None:
        while not over.wait(1e-5):
            sum(range(2000))

    thread = threading.Thread(target=disturb)
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        with xl.use_backend("sim"):
            yield
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(before)


def asynchronous(batches: list[Any], weights: Any) -> None:
    stream = xl.Stream()
    transfers = []
    for batch in batches:
        transfers.append(xl.to_device_async(batch, stream=stream))
        weights * 2.0
    for transfer in transfers:
        transfer.result()


def blocking(batches: list[Any], weights: Any) -> None:
    stream = xl.Stream()
    for batch in batches:
        kept = xl.to_device(batch, stream=stream)
        weights * 2.0
        stream.synchronize()
        del kept


def downloads(batches: list[Any], weights: Any) -> None:
    transfers = [xl.to_host_async(weights) for _ in batches[:3]]
    for _ in transfers:
        weights * 2.0
    for transfer in transfers:
        transfer.result()


def prefetched(batches: list[Any], weights: Any) -> None:
    for _ in xl.prefetch(batches):
        weights * 2.0


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("is_pinned", [False, True], ids=["ordinary", "pinned"])
@pytest.mark.parametrize("program", [asynchronous, blocking, downloads, prefetched])
def test_the_times_of_a_program_do_not_depend_on_the_threads(
    program: Callable[[list[Any], Any], None], is_pinned: bool, nbytes: int
) -> None:
    batches = [np.full(nbytes, float(number)) for number in range(4)]
    batches = [*map(xl.pinned_array, batches)] if is_pinned else batches
    weights = xl.ones(1 << 18)
    found = []
    with fresh_staging():  # a thread's buffer that others have half filled is full at another copy
        for _ in range(5):
            xl.synchronize()
            with sim.timeline("h200") as timeline:
                program(batches, weights)
                xl.synchronize()
            begun_s = timeline.start_s  # as the clock goes on, differences are rounded otherwise
            found.append(
                [(e.lane, e.name, round(e.start_s - begun_s, 12), round(e.end_s - begun_s, 12)) for e in timeline]
            )
    assert len(found[0]) > 3
    assert found[2] == found[3] == found[4]  # the first two allocate what the others use again
