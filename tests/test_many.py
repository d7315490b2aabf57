"""The large arrays of a tree, staged together: every layout and dtype, groups, failures, and what is left to others."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tools import strided_cases
from xferlib.errors import DeviceMemoryError, LayoutError, PinnedMemoryError, SlowPathError
from xferlib.testing import (
    THRESHOLDS,
    assert_same_bits,
    configured,
    fresh_staging,
    in_flight_count,
    lent_chunks,
    native,
    pending_count,
    staging_stats,
)
from xferlib.testing.strategies import bits_of

HERE = "fake:sim:0"
pytestmark = [
    pytest.mark.skipif(not native().is_on, reason=native().why_no_staging or "native=off"),
    pytest.mark.usefixtures("fake"),
]


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """No transfer is pending, and no chunk is lent."""
    yield
    assert pending_count() == 0
    assert lent_chunks() == 0


def arrays(seed: int, count: int = 9) -> list[Any]:
    """Arrays of random layouts and dtypes, most of them larger than what is packed."""
    chance = np.random.default_rng(seed)
    found = []
    for number in range(count):
        dtype = np.dtype(chance.choice(["float32", "float64", "uint8", "complex128", "int16", "float16"]))
        shape = tuple(int(extent) for extent in chance.integers(30, 90, 3))
        nbytes = 2 * int(np.prod(shape)) * dtype.itemsize
        whole = bits_of(nbytes, dtype, seed=seed * 100 + number).reshape(*shape[:2], 2 * shape[2])
        found.append(
            [
                np.ascontiguousarray(whole[..., : shape[2]]),
                whole[:, :, ::2],
                whole[:, 3:-2, 5:],
                whole.astype(dtype.newbyteorder()),
                whole[::-1, :, ::-1],
            ][int(chance.integers(5))]
        )
    return found


@pytest.mark.parametrize("seed", range(6))
def test_leaves_of_every_layout_arrive(seed: int) -> None:
    leaves = arrays(seed)
    tree = {"a": leaves[:3], "b": (leaves[3], "text", leaves[4:]), "c": np.arange(5), "again": leaves[0]}
    there = xl.tree.to_device(tree, device=HERE)
    back = xl.tree.to_host(there)
    assert there["again"] is there["a"][0]
    for found, expected in zip(
        [*back["a"], back["b"][0], *back["b"][2], back["c"]], [*leaves, np.arange(5)], strict=True
    ):
        assert_same_bits(found, np.array(expected, expected.dtype.newbyteorder("="), order="C"))


def test_leaves_are_converted_on_the_way() -> None:
    leaves = [np.linspace(-9, 9, 100_003)[::step] for step in (1, -1, 2)] * 3
    there = xl.tree.to_device(leaves, device=HERE, dtype="float16")
    for found, expected in zip(xl.tree.to_host(there), leaves, strict=True):
        assert not strided_cases.differ(found, expected.astype("float16"))


def test_many_large_arrays_are_few_transfers() -> None:
    leaves = [bits_of(300_000 + 8 * number, np.uint8, seed=number) for number in range(40)]
    with xl.trace() as up:
        there = xl.tree.to_device(leaves, device=HERE)
    with xl.trace() as down:
        back = xl.tree.to_host(there)
    for t, kind in ((up, "h2d"), (down, "d2h")):
        groups = [each.nbytes for each in t.operations if each.kind == kind and each.file == __file__]
        assert 1 <= len(groups) <= 3  # each recorded as one copy
        assert sum(groups) == sum(each.nbytes for each in leaves)
    for found, expected in zip(back, leaves, strict=True):
        assert_same_bits(found, expected)


def test_pinned_and_small_leaves_go_their_own_ways(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = [xl.pinned_array(bits_of(400_000, np.uint8, seed=number), backend="fake") for number in range(3)]
    small = [bits_of(100, np.float32, seed=number) for number in range(7)]
    large = [bits_of(700_000, np.uint8, seed=10 + number) for number in range(3)]
    tree = [*pinned, *small, *large, np.zeros((0, 3)), np.float32(3).reshape(())]
    sent: dict[int, int] = {}

    def noting(own: Callable[..., Any]) -> Callable[..., Any]:
        def noted(dst: int, src: int, nbytes: int, **options: Any) -> Any:
            sent[src] = nbytes
            return own(dst, src, nbytes, **options)

        return noted

    with monkeypatch.context() as patched:
        for name in ("copy", "copy_to_device"):
            patched.setattr(fake, name, noting(getattr(fake, name)))
        there = xl.tree.to_device(tree, device=HERE)
    assert [sent.pop(each.ctypes.data) for each in pinned] == [400_000] * 3  # as they lie
    assert not any(each.ctypes.data in sent for each in (*small, *large))  # these are staged
    for found, expected in zip(xl.tree.to_host(there), tree, strict=True):
        assert_same_bits(found, expected)


@pytest.mark.parametrize("backend", ["fake", "sim"])
def test_results_may_be_in_pinned_memory(backend: str) -> None:
    with xl.use_backend(backend):
        tree = {"small": [np.arange(9), np.ones(3)], "large": [bits_of(700_000, np.float64, seed=n) for n in range(4)]}
        there = xl.tree.to_device(tree)
        before = xl.pinned_pool().stats().in_use_nbytes
        back = xl.tree.to_host(there, pinned=True)
        assert xl.pinned_pool().stats().in_use_nbytes >= before + 4 * 700_000
        for found, expected in zip([*back["small"], *back["large"]], [*tree["small"], *tree["large"]], strict=True):
            assert_same_bits(found, expected)
        for found in back["large"]:
            assert xl.explain(found).path == "pinned"
        one = xl.to_host(there["large"][0], pinned=True, dtype="float32")
        assert xl.explain(one).path == "pinned"
        assert one.dtype == np.float32
        with pytest.raises(LayoutError, match="leave one of them out"):
            xl.to_host(there["large"][0], pinned=True, out=np.zeros(87_500))
        del back, one, found
        xl.synchronize()
        assert xl.pinned_pool().stats().in_use_nbytes == before


def test_a_pool_without_room_raises_or_stages(fake: Any) -> None:
    there = xl.tree.to_device([bits_of(700_000, np.uint8, seed=n) for n in range(4)], device=HERE)
    pool = xl.pinned_pool("fake")
    pool.trim()
    before = pool.max_bytes, pool.when_full
    try:
        pool.max_bytes, pool.when_full = 1_500_000, "raise"
        with pytest.raises(PinnedMemoryError, match="XFERLIB_PINNED_LIMIT"):
            xl.tree.to_host(there, pinned=True)
        pool.when_full = "stage"
        for number, found in enumerate(xl.tree.to_host(there, pinned=True)):
            assert_same_bits(found, bits_of(700_000, np.uint8, seed=number))
    finally:
        pool.max_bytes, pool.when_full = before


def test_with_a_stream_the_sources_are_free_on_return_and_the_results_come_in_its_order(fake: Any) -> None:
    stream = xl.Stream(HERE)
    leaves = [bits_of(500_000, np.uint8, seed=number) for number in range(6)]
    fake.machine.progresses_on_query = False
    try:
        changing = [each.copy() for each in leaves]
        there = xl.tree.to_device(changing, device=HERE, stream=stream)
        for each in changing:
            each[:] = 0
    finally:
        fake.machine.progresses_on_query = True
    for found, expected in zip(xl.tree.to_host(there, stream=stream), leaves, strict=True):
        assert_same_bits(found, expected)


def test_a_failure_leaves_no_chunk_and_no_transfer_behind(fake: Any) -> None:
    leaves = [bits_of(3_000_000, np.uint8, seed=number) for number in range(12)]
    xl.tree.to_device(leaves, device=HERE)
    held = staging_stats("fake").nbytes
    fake.machine.failing = OSError("the link is down")
    try:
        with pytest.raises(xl.errors.TransferError, match="the link is down"):
            xl.tree.to_device(leaves, device=HERE)
    finally:
        fake.machine.failing = None
    assert staging_stats("fake").nbytes == held
    for found, expected in zip(xl.tree.to_host(xl.tree.to_device(leaves, device=HERE)), leaves, strict=True):
        assert_same_bits(found, expected)


def test_memory_that_runs_short_in_the_middle_ends_what_was_begun(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = [bits_of(3_000_000, np.uint8, seed=number) for number in range(12)]
    own, count = fake.empty, iter(range(100))

    def short(*args: Any, **options: Any) -> Any:
        if next(count) == 9:
            raise DeviceMemoryError("none left")
        return own(*args, **options)

    xl.Device(HERE).synchronize()
    gc.collect()
    held = in_flight_count()
    with monkeypatch.context() as patched:
        patched.setattr(fake, "empty", short)
        with pytest.raises(DeviceMemoryError, match="none left"):
            xl.tree.to_device(leaves, device=HERE)
    assert next(count) == 10  # no leaf behind it was tried
    assert pending_count() == 0
    assert in_flight_count() <= held + 9
    assert not fake.machine.violations
    for found, expected in zip(xl.tree.to_host(xl.tree.to_device(leaves, device=HERE)), leaves, strict=True):
        assert_same_bits(found, expected)


def test_one_chunk_is_enough() -> None:
    leaves = arrays(3)
    with fresh_staging(chunks=1):
        there = xl.tree.to_device(leaves, device=HERE)
        assert staging_stats("fake").nbytes == THRESHOLDS.chunk_nbytes
        for found, expected in zip(xl.tree.to_host(there), leaves, strict=True):
            assert_same_bits(found, np.array(expected, expected.dtype.newbyteorder("="), order="C"))


@pytest.mark.parametrize("is_list", [True, False])
def test_batches_of_a_loop_are_staged_together(fake: Any, is_list: bool) -> None:
    batches: list[dict[str, Any]] = [{"x": arrays(number, 3), "y": np.arange(5) + number} for number in range(5)]
    source: Any = batches if is_list else iter(batches)
    with xl.prefetch(source, device=HERE) as ahead:
        for number, expected in enumerate(batches):
            with xl.Stream(HERE) if number % 2 else contextlib.nullcontext():
                found = next(ahead)
                for one, two in zip(xl.tree.to_host(found)["x"], expected["x"], strict=True):
                    assert_same_bits(one, np.array(two, two.dtype.newbyteorder("="), order="C"))
                assert_same_bits(xl.to_host(found["y"]), expected["y"])
    assert not fake.machine.violations


def test_a_batch_that_failed_is_sent_again(fake: Any) -> None:
    batches = [[bits_of(900_000, np.uint8, seed=10 * number + leaf) for leaf in range(3)] for number in range(4)]
    ahead = xl.prefetch(batches, device=HERE)
    found = [next(ahead)]
    fake.machine.failing = OSError("the link is down")
    failures = 0
    try:
        while failures < 2:
            try:
                found.append(next(ahead))
            except (xl.errors.TransferError, OSError):
                failures += 1
    finally:
        fake.machine.failing = None
    while len(found) < len(batches):
        try:
            found.append(next(ahead))
        except xl.errors.TransferError:  # of a batch that was begun before
            failures += 1
    assert failures <= 5
    for one, two in zip(found, batches, strict=True):
        for left, right in zip(xl.tree.to_host(one), two, strict=True):
            assert_same_bits(left, right)


def test_the_memory_of_a_tree_is_free_as_soon_as_it_is_dropped(fake: Any) -> None:
    leaves = [bits_of(900_000, np.uint8, seed=number) for number in range(6)]
    fake.machine.progresses_on_query = False
    try:
        there = xl.tree.to_device(leaves, device=HERE)
        arrays = [weakref.ref(each) for each in there]
        del there  # its copies are still pending
        assert [each() for each in arrays] == [None] * 6
    finally:
        fake.machine.progresses_on_query = True
    xl.Device(HERE).synchronize()
    assert not fake.machine.violations


def test_strict_mode_refuses_them() -> None:
    leaves = [np.zeros(1 << 18, np.float32) for _ in range(4)]
    with configured(strict="pageable"), pytest.raises(SlowPathError, match="pinned_empty"):
        xl.tree.to_device(leaves, device=HERE)


def test_without_the_compiled_part_each_leaf_goes_alone() -> None:
    leaves = arrays(4)
    for setting, counts in (("on", range(1, 4)), ("off", range(9, 1000))):
        with configured(native=setting), xl.trace() as t:
            there = xl.tree.to_device(leaves, device=HERE)
            back = xl.tree.to_host(there)
        for kind in ("h2d", "d2h"):
            assert sum(each.kind == kind and each.file == __file__ for each in t.operations) in counts
        for found, expected in zip(back, leaves, strict=True):
            assert_same_bits(found, np.array(expected, expected.dtype.newbyteorder("="), order="C"))
