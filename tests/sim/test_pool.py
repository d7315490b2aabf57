"""Recycled memory: the last owner's work that may still use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib import sim
from xferlib.sim.detector import Hazard
from xferlib.sim.model import Action, LastOwner, Participant, Pool

N = 1 << 12
plus_one = xl.elementwise("T x", "T y", "y = x + 1", name="plus_one")
total = xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + b", post_map_expr="y = a", identity="0")
raw = xl.raw_module("__global__ void touch(double* x) {}").get_function(
    "touch", signature="double *x", cpu=lambda x: None
)


@pytest.fixture
def checked() -> Iterator[sim.check]:
    with xl.use_backend("sim"), sim.check("log") as checked:
        yield checked


def hazards(checked: sim.check) -> list[Hazard]:
    return [race.hazard for race in checked.races]


# --- an array of one stream, used on another, and dropped while that is at work

OURS: dict[str, Callable[[Any, xl.Stream], Any]] = {
    "element-wise kernel": lambda x, stream: plus_one(x),
    "element-wise kernel into it": lambda x, stream: plus_one(2.0, x),
    "reduction": lambda x, stream: total(x),
    "raw kernel": lambda x, stream: raw((1,), (1,), (x,)),
    "to_host": lambda x, stream: xl.to_host(x, stream=stream),
    "to_host_async": lambda x, stream: xl.to_host_async(x, stream=stream),
    "to_host_async into pinned memory": lambda x, stream: xl.to_host_async(x, out=xl.pinned_empty(N), stream=stream),
    "to_device from it": lambda x, stream: xl.to_device(x, stream=stream),
    "to_device from its columns": lambda x, stream: xl.to_device(x.reshape(64, 64)[:, ::2], stream=stream),
    "to_device into it": lambda x, stream: xl.to_device(np.zeros(N), out=x, stream=stream),
    "to_device into it from pinned memory": lambda x, stream: xl.to_device(xl.pinned_zeros(N), out=x, stream=stream),
    "to another device": lambda x, stream: xl.to_device(x, device="sim:1"),
    "tree": lambda x, stream: xl.tree.to_host({"x": x}),
}
FOREIGN: dict[str, Callable[[Any, xl.Stream], Any]] = {
    "operator": lambda x, stream: x + 1.0,
    "operator in place": lambda x, stream: x.__iadd__(1.0),
    "function": lambda x, stream: xl.get_array_module(x).sqrt(x),
    "method": lambda x, stream: x.sum(),
    "assignment": lambda x, stream: x.__setitem__(slice(None, None, 2), 1.0),
    "index array": lambda x, stream: x[xl.to_device(np.array([1, 5]))],
}


def used_elsewhere_and_dropped(use: Callable[[Any, xl.Stream], Any]) -> None:
    owner, user = xl.Stream(), xl.Stream()
    with owner:
        x = xl.zeros(N)
    user.wait(owner)
    with user:
        kept = use(x, user)
    del x, kept
    with owner:
        xl.ones(N)
    xl.synchronize()


@pytest.mark.parametrize("use", OURS.values(), ids=OURS)
def test_an_operation_of_xferlib_keeps_the_memory_of_its_arrays(checked: sim.check, use: Callable[..., Any]) -> None:
    """Dropping any handle at any time is safe."""
    used_elsewhere_and_dropped(use)
    assert hazards(checked) == []


@pytest.mark.parametrize("use", FOREIGN.values(), ids=FOREIGN)
def test_an_operation_of_an_array_library_keeps_no_memory(checked: sim.check, use: Callable[..., Any]) -> None:
    """In torch it takes `record_stream`, in CuPy an array kept until the other stream is done."""
    used_elsewhere_and_dropped(use)
    assert hazards(checked) == [Hazard.USE_AFTER_FREE]


# --- memory that its stream still uses, recycled in that stream's order, and used on another


def freed_under_work(stream: xl.Stream, n: int = N) -> None:
    with stream:
        old = xl.zeros(n)
        old += 1.0
    del old


def used_first(stream: xl.Stream, array: Any) -> None:
    xl.to_device(np.ones(array.shape), out=array, stream=stream)


def fresh(stream: xl.Stream, n: int = N) -> Any:
    with stream:
        return xl.empty(n)


def test_memory_handed_out_again_is_used_elsewhere_behind_what_used_it_before(checked: sim.check) -> None:
    owner, user = xl.Stream(), xl.Stream()
    freed_under_work(owner)
    array = fresh(owner)
    used_first(user, array)
    (race,) = checked.races
    assert race.hazard is Hazard.MEMORY_REUSED
    assert "which an array freed at" in race.memory
    assert "freed_under_work" in race.memory
    assert race.first.what == "add"
    assert "stream.wait(a) before" in race.remedy  # it is the name there; the other stream has none


@pytest.mark.parametrize(
    "order",
    [
        lambda owner, user: user.wait(owner),
        lambda owner, user: owner.synchronize(),
        lambda owner, user: xl.synchronize(),
        lambda owner, user: owner.record().synchronize(),
    ],
    ids=["stream", "host", "device", "event"],
)
@pytest.mark.parametrize("is_before", [True, False], ids=["before it is handed out", "after"])
def test_an_order_makes_it_safe(checked: sim.check, order: Callable[..., Any], is_before: bool) -> None:
    owner, user = xl.Stream(), xl.Stream()
    freed_under_work(owner)
    if is_before:
        order(owner, user)
    array = fresh(owner)
    if not is_before:
        order(owner, user)
    used_first(user, array)
    assert hazards(checked) == []


def test_the_stream_of_the_memory_needs_no_wait(checked: sim.check) -> None:
    owner, user = xl.Stream(), xl.Stream()
    for _ in range(3):
        freed_under_work(owner)
        array = fresh(owner)
        used_first(owner, array)
        user.wait(owner)
        used_first(user, array)
        owner.wait(user)
    assert hazards(checked) == []


def test_memory_that_no_array_had_before_is_used_at_once(checked: sim.check) -> None:
    owner, user, other = xl.Stream(), xl.Stream(), xl.Stream()
    freed_under_work(other)  # whose memory goes to arrays of its own order
    kept = fresh(owner), fresh(owner, 2 * N)
    for array in kept:
        used_first(user, array)
    assert hazards(checked) == []


def test_a_piece_of_what_was_freed_is_handed_out_and_a_larger_one_is_new(checked: sim.check) -> None:
    owner, user = xl.Stream(), xl.Stream()
    freed_under_work(owner, 3 * N)
    kept = [fresh(owner, 4 * N), fresh(owner, N), fresh(owner, N), fresh(owner, N), fresh(owner, N)]
    found = []
    for array in kept:
        used_first(user, array)
        found.append(len(checked.races))
        checked.detector._occurrences.clear()  # the same fault at the same line
    assert found == [0, 1, 2, 3, 3]


def test_memory_that_dies_again_before_it_is_used_is_still_in_use(checked: sim.check) -> None:
    owner, user = xl.Stream(), xl.Stream()
    freed_under_work(owner)
    fresh(owner)
    array = fresh(owner)
    used_first(user, array)
    assert hazards(checked) == [Hazard.MEMORY_REUSED]


def test_another_stream_that_the_owner_waited_for_counts_too(checked: sim.check) -> None:
    owner, reader, user = xl.Stream(), xl.Stream(), xl.Stream()
    with owner:
        old = xl.zeros(N)
    reader.wait(owner)
    with reader:
        xl.get_array_module(old).sum(old)
    owner.wait(reader)
    del old
    array = fresh(owner)
    user.wait(owner)
    used_first(user, array)
    assert hazards(checked) == []


def test_work_that_only_a_wait_of_the_legacy_stream_names_counts_too(checked: sim.check) -> None:
    reader, user = xl.Stream(), xl.Stream()
    old = xl.zeros(N)
    reader.wait(xl.current_stream())
    with reader:
        xl.get_array_module(old).sum(old)
    xl.synchronize()
    with reader:
        old += 1.0
    xl.current_stream().wait(reader)
    del old
    array = xl.empty(N)
    used_first(user, array)
    assert hazards(checked) == [Hazard.MEMORY_REUSED]


def test_columns_of_what_was_freed_count_too(checked: sim.check) -> None:
    owner, user = xl.Stream(), xl.Stream()
    with owner:
        old = xl.empty((64, 64))
        old[:, 3] = 1.0
    del old
    array = fresh(owner)
    used_first(user, array)
    assert hazards(checked) == [Hazard.MEMORY_REUSED]


def test_the_record_of_freed_memory_is_bounded() -> None:
    from xferlib.sim import machine as current
    from xferlib.sim import model as pool

    with xl.use_backend("sim"), sim.check("raise"):
        stream = xl.Stream()
        with stream:
            x = xl.zeros(16)
            for _ in range(2 * pool._MOST_KEPT):
                x = x + 1.0
            kept = [x * float(number) for number in range(2 * pool._MOST_KEPT)]
            del kept
        own = current.machine().streams[stream.device].every[-1].pool
        assert len(own) <= 2 * pool._MOST_KEPT
        stream.synchronize()


def test_the_smallest_that_is_large_enough_is_handed_out_and_of_equals_the_last_freed() -> None:
    pool, stream, nowhere = Pool(), Participant(1, "stream"), (hazards.__code__, 0)

    def freed(name: str, nbytes: int) -> LastOwner:
        owner = LastOwner((Action(name, stream, nowhere),), nowhere)
        pool.recycle(nbytes, owner, {})
        return owner

    large, first, last, small = freed("large", 4096), freed("first", 1024), freed("last", 1024), freed("small", 512)
    assert [pool.take(1000, {}) for _ in range(3)] == [last, first, large]
    assert (len(pool), pool.take(3072, {})) == (2, large)  # the rest of it
    assert (pool.take(512, {}), len(pool), pool.take(1, {})) == (small, 0, None)
