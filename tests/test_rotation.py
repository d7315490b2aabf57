"""`prefetch` with several devices: batches in turn, in order, from any source, errors and ends in their place.

And of a device that lags behind its loop: how many batches are in its memory.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from tests.fake import hold_back
from xferlib.errors import ArgumentError, ClosedError, ForkError
from xferlib.testing import assert_same_bits, load_backend, native

SIM = ["sim:sim:0", "sim:sim:1"]
SIZES = {"small": (3, 5), "medium": (300, 200), "large": (3000, 300)}


@pytest.fixture(params=["sim", "fake", "cupy", "torch", "pycuda"])
def devices(request: pytest.FixtureRequest, plugins: Path) -> list[str]:
    """Two accelerators of a backend."""
    found = [each for each in xl.available_backends()[request.param].devices if not each.endswith("cpu")]
    if len(found) < 2:
        pytest.skip(f"{request.param} has no two devices here")
    return found[:2]


def items(count: int, shape: tuple[int, ...] = (3, 5)) -> list[np.ndarray[Any, Any]]:
    return [np.full(shape, number, np.float32) for number in range(count)]


SOURCES: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": lambda found: (item for item in found),
    "refilled": lambda found: refilled(found),
}


def refilled(found: list[Any]) -> Iterator[Any]:
    """The same memory again and again."""
    memory = np.empty_like(found[0])
    for item in found:
        memory[...] = item
        yield memory


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("size", SIZES)
def test_batches_come_in_order_and_go_to_the_devices_in_turn(devices: list[str], kind: str, size: str) -> None:
    batches = items(7, SIZES[size])
    count = 0
    for number, batch in enumerate(xl.prefetch(SOURCES[kind](batches), devices=devices)):
        assert str(xl.device_of(batch)) == devices[number % 2]
        assert_same_bits(xl.to_host(batch), batches[number])
        count += 1
    assert count == 7


@given(count=st.integers(0, 12), depth=st.integers(1, 3), is_list=st.booleans(), among=st.integers(1, 2))
def test_any_number_of_batches_comes_in_order(count: int, depth: int, is_list: bool, among: int) -> None:
    source: Any = items(count) if is_list else iter(items(count))
    found = [xl.to_host(batch)[0, 0] for batch in xl.prefetch(source, depth=depth, devices=SIM[:among])]
    assert found == list(range(count))


def test_a_batch_for_each_device_at_a_time() -> None:
    batches = iter(xl.prefetch(items(6), devices=SIM))
    pairs = [tuple(xl.to_host(each)[0, 0] for each in pair) for pair in zip(batches, batches, strict=True)]
    assert pairs == [(0, 1), (2, 3), (4, 5)]


def test_consumers_on_both_devices_are_ordered_whatever_the_schedule() -> None:
    large = items(9, SIZES["large"])
    for source in (large, refilled(large), (item for item in large)):
        with xl.sim.check(schedule="lifo"):
            sums: list[Any] = [0, 0]
            for number, batch in enumerate(xl.prefetch(source, devices=SIM)):
                with xl.get_device(batch):
                    batch += 1
                    sums[number % 2] = batch + sums[number % 2]
            assert [xl.to_host(each)[0, 0] for each in sums] == [25, 20]


def test_pinned_memory_may_be_filled_again_by_the_thread_of_the_other_device() -> None:
    def source() -> Iterator[Any]:
        memory = xl.pinned_empty(SIZES["large"], "float32", backend="sim")
        for number in range(6):
            xl.sim.writes(memory)
            memory[...] = number
            yield memory

    with xl.sim.check():
        assert [xl.to_host(batch)[0, 0] for batch in xl.prefetch(source(), devices=SIM)] == list(range(6))


def test_a_transform_runs_on_the_batchs_device() -> None:
    seen = []

    def moved(batch: Any) -> Any:
        seen.append(str(xl.get_device()))
        return batch + 1

    with xl.use_backend("sim"):
        found = [xl.to_host(batch)[0, 0] for batch in xl.prefetch(iter(items(6)), devices=SIM, transform=moved)]
    assert found == [1, 2, 3, 4, 5, 6]
    assert sorted(seen) == sorted(SIM * 3)


@pytest.mark.parametrize("after", [0, 1, 4])
def test_an_error_of_the_source_comes_after_every_batch_before_it_and_again(after: int) -> None:
    def failing() -> Iterator[Any]:
        yield from items(after)
        raise ZeroDivisionError

    batches = xl.prefetch(failing(), devices=SIM)
    assert [xl.to_host(next(batches))[0, 0] for _ in range(after)] == list(range(after))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            next(batches)


@pytest.mark.parametrize("is_list", [True, False])
def test_a_batch_that_cannot_be_copied_is_an_error_in_its_turn_and_nothing_is_out_of_step(is_list: bool) -> None:
    good = items(6)
    source: list[Any] = [*good[:3], np.array(["text"]), *good[3:]]
    batches = xl.prefetch(source if is_list else iter(source), devices=SIM)
    found = [xl.to_host(next(batches))[0, 0] for _ in range(3)]
    for _ in range(2):
        with pytest.raises(xl.errors.UnsupportedDTypeError):
            next(batches)
    assert found == [0, 1, 2]
    batches.close()


def test_a_closed_rotation_reads_no_more_and_ends_its_threads() -> None:
    before, read = threading.active_count(), []

    def endless() -> Iterator[Any]:
        for number in range(1_000_000):
            read.append(number)
            yield np.full(3, number)

    with xl.prefetch(endless(), depth=2, devices=SIM) as batches:
        assert xl.to_host(next(batches))[0] == 0
    count = len(read)
    assert threading.active_count() <= before
    assert count <= 2 * 3 + 2
    with pytest.raises(ClosedError):
        next(batches)
    assert len(read) == count


def test_a_dropped_rotation_ends_its_threads() -> None:
    before = set(threading.enumerate())
    batches = xl.prefetch((np.full(3, number) for number in range(1_000_000)), devices=SIM)
    next(batches)
    threads = set(threading.enumerate()) - before
    assert len(threads) == 2
    del batches
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system forks no processes")
def test_a_rotation_is_refused_in_a_forked_child_though_a_thread_of_the_parent_holds_its_locks() -> None:
    reads, goes_on = threading.Event(), threading.Event()

    def source() -> Iterator[Any]:
        yield np.zeros(3)
        reads.set()
        goes_on.wait()

    batches = xl.prefetch(source(), devices=SIM)
    next(batches)
    consumer = threading.Thread(target=lambda: next(batches, None))  # waits, with the turn
    consumer.start()
    reads.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python, of a fork where there are threads
        child = os.fork()
    if child == 0:
        try:
            next(batches)
        except ForkError:
            batches.close()
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    goes_on.set()
    consumer.join()


def test_each_loop_over_a_list_begins_anew() -> None:
    batches = xl.prefetch(items(5), devices=SIM)
    assert [[xl.to_host(batch)[0, 0] for batch in batches] for _ in range(3)] == [[0, 1, 2, 3, 4]] * 3
    assert len(batches) == 5


def test_devices_that_cannot_be_are_refused() -> None:
    with pytest.raises(ArgumentError, match="device and devices are both given"):
        xl.prefetch(items(2), device=SIM[0], devices=SIM)
    with pytest.raises(ArgumentError, match=r"prefetch: devices=\['sim:sim:0', 'sim:sim:0'\]; name at least one"):
        xl.prefetch(items(2), devices=[SIM[0], SIM[0]])
    with pytest.raises(ArgumentError, match="prefetch: stream is of one device, but devices are"):
        xl.prefetch(items(2), devices=SIM, stream=xl.Stream(SIM[0]))


@pytest.mark.usefixtures("pair", "compiled_parts")
@pytest.mark.parametrize("kind", ["list", "generator"])
def test_a_loop_that_the_device_lags_behind_has_few_batches_in_its_memory(kind: str) -> None:
    """Without the event that each slot waits for, all 24 would be there at once.

    Where Python stages, the double frees memory too late to tell.
    """
    if not native().is_on:
        pytest.skip("the C is not compiled")
    left: Any = load_backend("left")
    data = items(24, (100, 1000))
    with xl.use_backend("left"), hold_back(left.machine):
        out, most = xl.empty(data[0].shape, data[0].dtype), 0
        with xl.prefetch(SOURCES[kind](data), transform=lambda batch: batch) as ahead:
            for batch in ahead:
                xl.to_device(batch, out=out)  # the loop's work, which nothing waits for
                most = max(most, left.machine.held("device"))
    assert most <= 9 * data[0].nbytes  # those of three slots, the loop's two, `out`, and some that are soon freed
