"""A loop that only polls ends: the transfer that it asks about goes on by itself, at every size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl

pytestmark = pytest.mark.usefixtures("backend")

SIZES = [1, 1 << 10, (1 << 16) + 1, 1 << 20]
SCHEDULES = ["lazy", "lifo", "random", "eager"]


@pytest.fixture(params=SCHEDULES)
def schedule(request: pytest.FixtureRequest) -> Any:
    """Of the simulator; the others have one of their own."""
    if xl.get_backend().name != "sim":
        if request.param != SCHEDULES[0]:
            pytest.skip("only the simulator has schedules to choose from")
        yield
        return
    from xferlib import sim

    with sim.check("raise", schedule=request.param):
        yield


def until(is_done: Callable[[], bool]) -> None:
    while not is_done():
        pass


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("n", SIZES)
def test_polling_a_stream_ends_when_its_transfers_have(n: int) -> None:
    stream, source = xl.Stream(), np.arange(n, dtype=np.float32)
    device = xl.to_device(source, stream=stream)
    down = xl.to_host_async(device, stream=stream)
    until(lambda: stream.is_done)
    np.testing.assert_array_equal(down.result(), source)
    up = xl.to_device_async(source, stream=stream)
    until(lambda: stream.is_done)
    np.testing.assert_array_equal(xl.to_host(up.result()), source)


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("make", [np.empty, xl.pinned_empty])
def test_polling_a_transfer_ends(n: int, make: Callable[..., Any]) -> None:
    source = make(n, np.float32)
    source[:] = 1.0
    up = xl.to_device_async(source)
    until(lambda: up.source_released)
    source[:] = 2.0
    until(up.done)
    out = make(n, np.float32)
    down = xl.to_host_async(up.result(), out=out)
    until(down.done)
    assert (out == 1.0).all()


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("n", SIZES)
def test_polling_an_event_behind_a_transfer_ends(n: int) -> None:
    stream = xl.Stream()
    up = xl.to_device_async(np.ones(n, np.float32), stream=stream)
    until_then = stream.record()
    until(lambda: until_then.is_done)
    assert up.done()


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("n", [1 << 10, 1 << 21])
def test_polling_the_stream_of_a_prefetcher_ends_though_no_thread_waits_for_it(n: int) -> None:
    stream = xl.Stream()
    batches = xl.prefetch([np.full(n, number, np.float32) for number in range(4)], stream=stream)
    first = next(batches)
    until(lambda: stream.is_done)
    assert float(xl.to_host(first)[0]) == 0.0
    assert [float(xl.to_host(batch)[-1]) for batch in batches] == [1.0, 2.0, 3.0]
