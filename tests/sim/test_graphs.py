"""The detector sees each launch of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.sim import RaceError

step = xl.elementwise("float *x, float *y", "y[i] = 2 * y[i] + x[i]", name="step")


@pytest.fixture(autouse=True)
def backend() -> Iterator[None]:
    with xl.use_backend("sim"):
        yield


def _arrays(count: int) -> list[Any]:
    made = [xl.to_device(np.ones(8, "float32")) for _ in range(count)]
    xl.synchronize()
    return made


def test_a_missing_wait_before_a_launch_is_reported_at_that_launch() -> None:
    stream, other = xl.Stream(), xl.Stream()
    x, y = _arrays(2)
    with stream.capture() as graph:
        step(x, y)
    graph.launch(stream)
    with other, pytest.raises(RaceError, match="missing"):
        step(y, x)
    stream.synchronize()
    other.synchronize()
    with other:
        step(y, x)
    with pytest.raises(RaceError, match="step"):
        graph.launch(stream)
    other.synchronize()


def test_a_missing_wait_within_a_graph_is_reported() -> None:
    stream, other = xl.Stream(), xl.Stream()
    x, y, z = _arrays(3)
    with stream.capture() as graph:
        other.wait(stream)
        with other:
            step(x, z)
        step(z, y)  # of what the other stream writes
        stream.wait(other)
    with pytest.raises(RaceError, match="step"):
        graph.launch(stream)
    xl.synchronize()


def test_a_waiting_host_may_read_what_a_launch_has_written() -> None:
    stream = xl.Stream()
    (x,) = _arrays(1)
    back = xl.pinned_empty(8, "float32")
    with stream.capture() as graph:
        step(x, x)
        xl.to_host_async(x, out=back)
    graph.launch(stream)
    stream.synchronize()
    assert back.tolist() == [3] * 8


def test_pinned_memory_written_while_a_launch_reads_it_is_reported() -> None:
    stream = xl.Stream()
    (x,) = _arrays(1)
    source = xl.pinned_array(np.ones(8, "float32"))
    with stream.capture() as graph:
        xl.to_device(source, out=x)
    graph.launch(stream)
    with pytest.raises(RaceError):
        xl.sim.writes(source)
    stream.synchronize()
