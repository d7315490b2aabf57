"""Collectives against NumPy, run in every rank of a job, or in one process alone.

mpiexec -n 2 python -m pytest tests/distributed/ranks/collectives.py
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.needed import place_of
from xferlib import distributed
from xferlib.distributed import Communicator
from xferlib.errors import (
    ArgumentError,
    ClosedError,
    DistributedError,
    LayoutError,
    MixedBackendsError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
)
from xferlib.testing import DTYPES, assert_same_bits, dtypes
from xferlib.testing import arrays as core_arrays

SHAPES: list[tuple[int, ...]] = [(), (0,), (5,), (3, 0, 2), (4, 3), (2, 5000)]
FOLD = {"sum": np.add, "mean": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def of(rank: int, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """The array of a rank: small whole numbers, so that every order of additions gives the same bits."""
    numbers = np.random.default_rng([rank, len(shape)]).integers(0, 4, shape)
    return np.asarray(numbers * 1j + 2 if dtype.startswith("complex") else numbers).astype(dtype)


def reduced(comm: Communicator, op: str, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    total = of(0, shape, dtype)
    for rank in range(1, comm.size):
        total = np.asarray(FOLD[op](total, of(rank, shape, dtype)))
    if op == "mean":  # of complex numbers part by part
        parts = total.real.dtype.type
        mean = np.empty_like(total)
        for part in ("real", "imag") if total.dtype.kind == "c" else ("real",):
            setattr(mean, part, getattr(total, part) / parts(comm.size))
        return mean
    return total


def ops_of(dtype: str) -> list[str]:
    kind = np.dtype(dtype).kind
    return {"b": ["min", "max"], "f": list(FOLD), "c": ["sum", "prod", "mean"]}.get(kind, ["sum", "prod", "min", "max"])


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_reduce_of_every_dtype_operation_and_shape(comm: Communicator, dtype: str) -> None:
    for op in ops_of(dtype):
        for shape in SHAPES:
            x = of(comm.rank, shape, dtype)
            for in_order in (False, True):
                assert_same_bits(comm.all_reduce(x, op, reproducible=in_order), reduced(comm, op, shape, dtype))
            assert_same_bits(x, of(comm.rank, shape, dtype))


def any_small_floats(rank: int, count: int, name: str) -> np.ndarray[Any, Any]:
    """Numbers of all sizes, of which sums are seldom exact, and a few that are infinite or NaN."""
    rng = np.random.default_rng([rank, count])
    x = (rng.standard_normal(count) * 2.0 ** rng.integers(-6, 5, count)).astype(core_arrays.check_dtype(name))
    x[::97] = rng.choice([np.inf, np.nan], len(x[::97])).astype(x.dtype)
    x[x == 0] = 0  # or NumPy would choose between -0 and 0 by their order
    return np.asarray(x)


def rounded_once(rows: list[np.ndarray[Any, Any]], op: str) -> np.ndarray[Any, Any]:
    """The reduction in float32, neighbours first."""
    dtype, count = rows[0].dtype, len(rows)
    found = [row.astype(np.float32) for row in rows]
    with np.errstate(all="ignore"):
        while len(found) > 1:
            found = [FOLD[op](*found[k : k + 2]) if found[k + 1 :] else found[k] for k in range(0, len(found), 2)]
        return np.asarray((found[0] / np.float32(count) if op == "mean" else found[0]).astype(dtype))


def assert_same_numbers(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Any NaN is as good as another; -0 is not 0."""
    assert found.dtype == expected.dtype
    are_nan = [np.isnan(each.astype(np.float32)) for each in (found, expected)]
    np.testing.assert_array_equal(*are_nan)
    word = f"u{found.itemsize}"
    np.testing.assert_array_equal(
        np.where(are_nan[0], 0, found.view(word)), np.where(are_nan[0], 0, expected.view(word))
    )


@pytest.mark.parametrize("name", dtypes.SMALL_FLOATS)
def test_small_floats_are_reduced_in_float32_and_rounded_once(comm: Communicator, name: str) -> None:
    pytest.importorskip("ml_dtypes")
    for count in (1, 40, 100_003):
        rows = [any_small_floats(rank, count, name) for rank in range(comm.size)]
        for op in FOLD if count < 100 else ("mean",):
            expected = rounded_once(rows, op)
            for in_order in (False, True):
                assert_same_numbers(comm.all_reduce(rows[comm.rank], op, reproducible=in_order), expected)
        every = np.stack([np.roll(expected, k) for k in range(comm.size)])
        given = np.stack([np.roll(rows[comm.rank], k) for k in range(comm.size)])
        assert_same_numbers(comm.reduce_scatter(given, op), every[comm.rank])
        assert_same_numbers(comm.all_reduce(rows[comm.rank], op, async_op=True).wait(), expected)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("place", ["torch", "cupy", "pycuda", "sim"])
def test_small_floats_of_other_backends(comm: Communicator, place: str, name: str) -> None:
    pytest.importorskip("ml_dtypes")
    with place_of(comm.local_rank, place) as device:
        rows = [any_small_floats(rank, 5000, name) for rank in range(comm.size)]
        x = xl.to_device(rows[comm.rank], device=device)
        assert_same_numbers(xl.to_host(comm.all_reduce(x)), rounded_once(rows, "sum"))
        assert comm.all_reduce(x, "mean", out=x) is x
        assert_same_numbers(xl.to_host(x), rounded_once(rows, "mean"))
        tree = distributed.mean_grads(comm, {"w": xl.to_device(rows[comm.rank], device=device)})
        assert_same_numbers(xl.to_host(tree["w"]), rounded_once(rows, "mean"))
        added = distributed.pairwise_sum(*(xl.to_device(row, device=device) for row in rows))
        assert_same_numbers(xl.to_host(added), rounded_once(rows, "sum"))


@pytest.mark.parametrize("name", [*dtypes.SMALL_FLOATS, *dtypes.STORED])
def test_every_dtype_goes_from_rank_to_rank(comm: Communicator, name: str) -> None:
    pytest.importorskip("ml_dtypes")
    dtype = core_arrays.check_dtype(name)
    rows = [np.arange(rank, rank + 48, dtype=np.uint8).view(dtype) for rank in range(comm.size)]
    assert_same_bits(comm.all_gather(rows[comm.rank]).view(np.uint8), np.stack(rows).view(np.uint8))
    assert_same_bits(comm.broadcast(rows[comm.rank]).view(np.uint8), rows[0].view(np.uint8))
    if comm.size > 1 and comm.rank < 2:
        if comm.rank:
            assert_same_bits(comm.recv(rows[1], 0).view(np.uint8), rows[0].view(np.uint8))
        else:
            comm.send(rows[0], 1)


def test_all_reduce_of_an_array_larger_than_one_message(comm: Communicator) -> None:
    x = of(comm.rank, (1_000_003,), "float32")
    for in_order in (False, True):
        assert_same_bits(comm.all_reduce(x, reproducible=in_order), reduced(comm, "sum", x.shape, "float32"))


def test_large_arrays_are_reduced_in_parts_where_the_library_takes_longer(
    comm: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(*_: Any) -> None:
        raise AssertionError("by the library")

    driver = comm._group.driver
    monkeypatch.setattr(driver, "reduces_below", 4096)
    monkeypatch.setattr(driver, "all_reduce", unwanted)
    for op in FOLD:
        x = of(comm.rank, (1031,), "float32")
        expected = reduced(comm, op, x.shape, "float32")
        assert_same_bits(comm.all_reduce(x, op), expected)
        begun = [comm.all_reduce(x, op, async_op=True) for _ in range(2)]
        for each in begun:
            assert_same_bits(each.wait(), expected)


def test_all_reduce_takes_any_layout(comm: Communicator) -> None:
    x, expected = of(comm.rank, (8, 6), "float64"), reduced(comm, "sum", (8, 6), "float64")
    assert_same_bits(comm.all_reduce(x[::-2, ::3]), expected[::-2, ::3])
    assert_same_bits(comm.all_reduce(np.asfortranarray(x)), expected)
    assert_same_bits(comm.all_reduce(x.astype(">f8")), expected)
    x.flags.writeable = False
    assert_same_bits(comm.all_reduce(x), expected)
    assert_same_bits(comm.all_gather(x)[comm.rank], x)
    assert_same_bits(comm.all_reduce(x.tolist()), expected)
    assert_same_bits(comm.all_reduce(3), np.asarray(3 * comm.size))


@pytest.mark.parametrize("options", [{}, {"reproducible": True}], ids=["plain", "reproducible"])
@pytest.mark.parametrize("count", [5, 100_001])
def test_out_is_filled_and_may_be_the_argument(comm: Communicator, count: int, options: dict[str, Any]) -> None:
    x, expected = of(comm.rank, (count,), "float32"), reduced(comm, "sum", (count,), "float32")
    out = np.empty_like(x)
    assert comm.all_reduce(x, out=out, **options) is out
    assert_same_bits(out, expected)
    assert comm.all_reduce(x, out=x, **options) is x
    assert_same_bits(x, expected)
    memory = np.zeros(count + 1, np.float32)
    memory[:-1] = of(comm.rank, (count,), "float32")
    comm.all_reduce(memory[:-1], out=memory[1:], **options)  # they overlap
    assert_same_bits(memory[1:], expected)


def test_broadcast_from_each_rank(comm: Communicator) -> None:
    for root in range(comm.size):
        for shape in SHAPES:
            x = of(comm.rank, shape, "int16")
            assert_same_bits(comm.broadcast(x, root), of(root, shape, "int16"))
            assert comm.broadcast(x, root, out=x) is x
            assert_same_bits(x, of(root, shape, "int16"))


@pytest.mark.parametrize("dtype", ["bool", "float16", "complex128"])
def test_all_gather_stacks_by_rank(comm: Communicator, dtype: str) -> None:
    for shape in SHAPES:
        expected = np.stack([of(rank, shape, dtype) for rank in range(comm.size)])
        assert_same_bits(comm.all_gather(of(comm.rank, shape, dtype)), expected)


@pytest.mark.parametrize("count", [131_071, 131_072, 300_001])
def test_all_gather_of_large_arrays(comm: Communicator, count: int) -> None:
    expected = np.stack([of(rank, (count,), "float32") for rank in range(comm.size)])
    for out in (None, np.empty_like(expected)):
        assert_same_bits(comm.all_gather(of(comm.rank, (count,), "float32"), out=out), expected)
    begun = [comm.all_gather(of(comm.rank, (count,), "float32"), async_op=True) for _ in range(2)]
    for each in reversed(begun):
        assert_same_bits(each.wait(), expected)


def test_all_to_all_transposes_ranks_and_parts(comm: Communicator) -> None:
    for shape in SHAPES:
        whole = (comm.size, *shape)
        expected = np.stack([of(rank, whole, "int64")[comm.rank] for rank in range(comm.size)])
        assert_same_bits(comm.all_to_all(of(comm.rank, whole, "int64")), expected)


@pytest.mark.parametrize("op", ["sum", "max", "mean"])
def test_reduce_scatter_gives_each_rank_its_part(comm: Communicator, op: str) -> None:
    for shape in SHAPES:
        whole = (comm.size, *shape)
        found = comm.reduce_scatter(of(comm.rank, whole, "float64"), op)
        assert_same_bits(found, reduced(comm, op, whole, "float64")[comm.rank])


def test_messages_around_the_ring(comm: Communicator) -> None:
    if comm.size == 1:
        pytest.skip("one rank has nobody to send to")
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for shape in [(), (0,), (300, 70)]:
        x, out = of(comm.rank, shape, "float32"), np.empty(shape, np.float32)
        if comm.rank % 2 or comm.rank == comm.size - 1 == 0:
            comm.recv(out, left, tag=7)
            comm.send(x, right, tag=7)
        else:
            comm.send(x, right, tag=7)
            comm.recv(out, left, tag=7)
        assert_same_bits(out, of(left, shape, "float32"))


def test_asynchronous_operations_complete_in_any_order(comm: Communicator) -> None:
    arrays = [of(comm.rank, (1000 + k,), "float64") for k in range(4)]
    begun = [comm.all_reduce(x, reproducible=k == 1, async_op=True) for k, x in enumerate(arrays)]
    order = (2, 0, 3, 1) if comm.rank else (1, 3, 2, 0)
    for k in order:
        assert_same_bits(begun[k].wait(), reduced(comm, "sum", (1000 + k,), "float64"))
        assert begun[k].is_done
    comm.all_reduce(arrays[0], async_op=True)  # dropped: the next call goes on all the same
    assert_same_bits(comm.all_reduce(arrays[1]), reduced(comm, "sum", (1001,), "float64"))


@pytest.mark.parametrize("name", ["torch", "sim", "fake", "cupy", "pycuda"])
def test_arrays_of_other_backends(comm: Communicator, name: str, plugins: object) -> None:
    with place_of(comm.local_rank, name) as place:
        for shape in [(), (0,), (40, 50)]:
            check_backend(comm, place, shape)


def check_backend(comm: Communicator, place: xl.Device, shape: tuple[int, ...]) -> None:
    def given() -> Any:
        return xl.to_device(of(comm.rank, shape, "float32"), device=place)

    x, expected = given(), reduced(comm, "sum", shape, "float32")
    out = xl.empty_like(x)
    found = comm.all_reduce(x)
    assert type(found) is type(x)
    assert xl.device_of(found) is place
    assert_same_bits(xl.to_host(found), expected)
    assert comm.all_reduce(x, out=out, reproducible=True) is out
    assert_same_bits(xl.to_host(out), expected)
    with xl.Stream(place) as stream:
        begun = comm.all_reduce(x, out=x, stream=stream, async_op=True)
        assert begun.wait() is x
    stream.synchronize()
    assert_same_bits(xl.to_host(x), expected)
    every = np.stack([of(rank, shape, "float32") for rank in range(comm.size)])
    assert_same_bits(xl.to_host(comm.all_gather(given())), every)
    whole = xl.to_device(every + np.float32(comm.rank), device=place)
    assert_same_bits(
        xl.to_host(comm.all_to_all(whole)), np.stack([every[comm.rank] + np.float32(k) for k in range(comm.size)])
    )
    assert_same_bits(
        xl.to_host(comm.reduce_scatter(xl.to_device(every, device=place))), every[comm.rank] * np.float32(comm.size)
    )
    for root in range(comm.size):
        sent = given()
        assert_same_bits(xl.to_host(comm.broadcast(sent, root, out=sent)), of(root, shape, "float32"))
    if comm.size > 1 and comm.rank < 2:
        if comm.rank:
            assert_same_bits(xl.to_host(comm.recv(given(), 0)), of(0, shape, "float32"))
        else:
            comm.send(given(), 1)


def test_each_rank_may_use_another_backend(comm: Communicator) -> None:
    x = of(comm.rank, (30,), "float64")
    given = xl.to_device(x, backend="sim") if comm.rank % 2 else x
    assert_same_bits(xl.to_host(comm.all_reduce(given)), reduced(comm, "sum", (30,), "float64"))


def test_split_makes_communicators_of_parts(comm: Communicator) -> None:
    part = comm.split(comm.rank % 2, key=-comm.rank)
    assert part is not None
    members = [rank for rank in reversed(range(comm.size)) if rank % 2 == comm.rank % 2]
    assert (part.size, part.rank) == (len(members), members.index(comm.rank))
    assert_same_bits(part.all_gather(comm.rank), np.asarray(members))
    assert (comm.split(0 if comm.rank else None) is None) == (comm.rank == 0)
    part.close()
    with pytest.raises(ClosedError, match=r"refuses work: closed; make another with init\(\)"):
        part.barrier()


@pytest.mark.parametrize("reproducible", [False, True])
@pytest.mark.parametrize("elements", [3, 100_000])
def test_a_rank_may_wait_before_its_next_call_for_what_another_waits_for_after_it(
    comm: Communicator, elements: int, *, reproducible: bool
) -> None:
    x, expected = of(comm.rank, (elements,), "float32"), reduced(comm, "sum", (elements,), "float32")
    part = comm.split(0)
    assert part is not None

    def message(comm: Communicator) -> None:
        if comm.rank == 0 and comm.size > 1:
            comm.send(x, 1)
        if comm.rank == 1:
            assert_same_bits(comm.recv(np.empty_like(x), 0), of(0, (elements,), "float32"))

    for follow in (comm.barrier, part.barrier, lambda: message(comm), lambda: message(part)):
        begun = comm.all_reduce(x, reproducible=reproducible, async_op=True)
        if comm.rank == 0:
            follow()
        assert_same_bits(begun.wait(), expected)
        if comm.rank:
            follow()
    part.close()


def test_a_communicator_without_checks(comm: Communicator) -> None:
    with distributed.init(driver=comm.driver, check=False) as other:
        other.barrier()
        assert_same_bits(other.all_reduce(of(comm.rank, (9,), "int32")), reduced(comm, "sum", (9,), "int32"))
    other.close()


def test_ranks_are_numbered(comm: Communicator) -> None:
    assert 0 <= comm.rank < comm.size
    assert comm.local_rank == comm.rank  # one host
    assert f"rank {comm.rank} of {comm.size}" in repr(comm)
    comm.barrier()


def test_a_communicator_stays_in_its_process(comm: Communicator) -> None:
    for move in (pickle.dumps, copy.deepcopy):
        with pytest.raises(DistributedError, match=r"is of this process; call init\(\)"):
            move(comm)


def test_a_wrong_argument_is_refused_before_anything_happens(comm: Communicator) -> None:
    x = of(comm.rank, (4, 3), "float64")
    frozen = x.copy()
    frozen.flags.writeable = False
    refused: list[tuple[type[Exception], str, Any]] = [
        (ArgumentError, "'median' is none of sum", lambda: comm.all_reduce(x, "median")),
        (UnsupportedDTypeError, "'mean' of int64", lambda: comm.all_reduce([1, 2], "mean")),
        (UnsupportedDTypeError, "'sum' of bool", lambda: comm.all_reduce([True])),
        (UnsupportedDTypeError, "op='sum', is int4_x2, two", lambda: comm.all_reduce(np.ones(3, [("int4_x2", "u1")]))),
        (UnsupportedDTypeError, "which has no order", lambda: comm.all_reduce([1j], "max")),
        (UnsupportedArrayError, "str", lambda: comm.all_reduce("text")),
        (LayoutError, "out is read-only", lambda: comm.all_reduce(x, out=frozen)),
        (LayoutError, "out is not contiguous", lambda: comm.all_reduce(x, out=np.empty((4, 6))[:, ::2])),
        (LayoutError, r"out has shape \(4,\)", lambda: comm.all_reduce(x, out=np.empty(4))),
        (LayoutError, "dtype float32", lambda: comm.all_reduce(x, out=np.empty((4, 3), np.float32))),
        (MixedBackendsError, "sim", lambda: comm.all_reduce(x, out=xl.empty((4, 3), backend="sim"))),
        (UnsupportedArrayError, "out is list", lambda: comm.all_reduce(x, out=[0])),
        (LayoutError, "first axis", lambda: comm.all_to_all(np.ones((comm.size + 1, 2)))),
        (LayoutError, "first axis", lambda: comm.reduce_scatter(1.0)),
        (ArgumentError, "not a rank of", lambda: comm.broadcast(x, comm.size)),
        (ArgumentError, "this rank itself", lambda: comm.send(x, comm.rank)),
        (ArgumentError, "color='red'", lambda: comm.split("red")),  # type: ignore[arg-type]
        (ArgumentError, "async_op=1", lambda: comm.all_reduce(x, async_op=1)),  # type: ignore[arg-type]
    ]
    for kind, text, call in refused:
        with pytest.raises(kind, match=text):
            call()
    assert_same_bits(comm.all_reduce(x), reduced(comm, "sum", (4, 3), "float64"))
