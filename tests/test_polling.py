"""A loop that only polls ends: the transfer that it asks about goes on by itself, at every size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import numpy as np
import pytest

import xferlib as xl

pytestmark = pytest.mark.usefixtures("backend")

SIZES = [1, (1 << 16) + 1, 1 << 20]


def under_every_schedule() -> Iterator[None]:
    """Of the simulator; the others have one of their own."""
    names = ("lazy", "lifo", "random", "eager") if xl.get_backend().name == "sim" else (None,)
    for name in names:
        with nullcontext() if name is None else xl.sim.check("raise", schedule=name):
            yield


def until(is_done: Callable[[], bool]) -> None:
    while not is_done():
        pass


@pytest.mark.parametrize("n", SIZES)
def test_polling_a_stream_or_an_event_behind_a_transfer_ends(n: int) -> None:
    source = np.arange(n, dtype=np.float32)
    for _ in under_every_schedule():
        stream = xl.Stream()
        down = xl.to_host_async(xl.to_device(source, stream=stream), stream=stream)
        until(lambda stream=stream: stream.is_done)
        np.testing.assert_array_equal(down.result(), source)
        up = xl.to_device_async(source, stream=stream)
        behind = stream.record()
        until(lambda behind=behind: behind.is_done)
        assert up.done()
        np.testing.assert_array_equal(xl.to_host(up.result()), source)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("is_pinned", [False, True])
def test_polling_a_transfer_ends(n: int, is_pinned: bool) -> None:
    make = xl.pinned_empty if is_pinned else np.empty
    for _ in under_every_schedule():
        source, out = make(n, np.float32), make(n, np.float32)
        source[:] = 1.0
        up = xl.to_device_async(source)
        until(lambda up=up: up.source_released)
        source[:] = 2.0
        until(up.done)
        until(xl.to_host_async(up.result(), out=out).done)
        assert (out == 1.0).all()


@pytest.mark.parametrize("n", [1 << 10, 1 << 21])
def test_polling_the_stream_of_a_prefetcher_ends_though_no_thread_waits_for_it(n: int) -> None:
    for _ in under_every_schedule():
        stream = xl.Stream()
        batches = xl.prefetch([np.full(n, number, np.float32) for number in range(4)], stream=stream)
        first = next(batches)
        until(lambda stream=stream: stream.is_done)
        assert float(xl.to_host(first)[0]) == 0.0
        assert [float(xl.to_host(batch)[-1]) for batch in batches] == [1.0, 2.0, 3.0]
