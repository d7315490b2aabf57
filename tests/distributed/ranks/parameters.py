"""Trees over ranks, and the bits of reproducible reductions, run in every rank of a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.needed import place_of
from xferlib.distributed import Communicator, broadcast_params, mean_grads, pairwise_sum
from xferlib.errors import ArgumentError, MismatchError, UnsupportedDTypeError
from xferlib.testing import assert_same_bits


def model(rank: int, backend: str = "numpy") -> dict[str, Any]:
    """Parameters of several dtypes and sizes, one of which stands in two positions, and a leaf that is no array."""
    shapes = {"w": (40, 30), "b": (30,), "scale": (), "none": (0, 4)}
    rng = np.random.default_rng(rank)
    layers = [{name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()} for _ in range(2)]
    tree = {"layers": layers, "step": rng.normal(size=3), "tied": layers[0]["w"], "phase": rng.normal(size=5) + 1j}
    return {"name": "demo", "arrays": xl.tree.to_device(tree, backend=backend)}


@pytest.fixture
def backend(comm: Communicator, request: pytest.FixtureRequest) -> Iterator[str]:
    with place_of(comm.local_rank, request.param):
        yield request.param


def same(tree: Any, expected: Any) -> None:
    found, wanted = xl.tree.to_host(tree["arrays"]), xl.tree.to_host(expected["arrays"])
    for key in ("step", "tied", "phase"):
        assert_same_bits(found[key], wanted[key])
    for layer, other in zip(found["layers"], wanted["layers"], strict=True):
        for key in other:
            assert_same_bits(layer[key], other[key])
    assert tree["name"] == "demo"


@pytest.mark.parametrize("backend", ["numpy", "torch", "sim"], indirect=True)
def test_parameters_of_one_rank_reach_all(comm: Communicator, backend: str) -> None:
    given_tree = model(comm.rank, backend)
    found = broadcast_params(comm, given_tree, comm.size - 1)
    same(found, model(comm.size - 1))
    same(given_tree, model(comm.rank))
    arrays = found["arrays"]
    assert arrays["tied"] is arrays["layers"][0]["w"]
    assert type(arrays["step"]) is type(given_tree["arrays"]["step"])


@pytest.mark.parametrize("bucket_bytes", [1, 2000, 25 << 20])
@pytest.mark.parametrize("backend", ["numpy", "torch", "sim"], indirect=True)
def test_mean_of_gradients(comm: Communicator, backend: str, bucket_bytes: int) -> None:
    total = pairwise_sum(*(model(rank)["arrays"] for rank in range(comm.size)))
    leaves: dict[str, Any] = {"name": "demo", "arrays": total}
    found = mean_grads(comm, model(comm.rank, backend), bucket_bytes=bucket_bytes, reproducible=True)
    for layer in (*leaves["arrays"]["layers"], leaves["arrays"]):
        for key, value in layer.items():
            if isinstance(value, np.ndarray):
                layer[key] = np.asarray(value / comm.size).astype(value.dtype)
    if comm.size & (comm.size - 1) == 0:  # else NumPy divides complex numbers in another way
        same(found, leaves)
    np.testing.assert_array_equal(xl.to_host(found["arrays"]["step"]), leaves["arrays"]["step"])
    begun = mean_grads(comm, model(comm.rank, backend), bucket_bytes=bucket_bytes, reproducible=True, async_op=True)
    same(begun.wait(), found)
    assert begun.wait() is begun.wait()


def test_trees_that_differ_are_named_before_anything_is_sent(comm: Communicator) -> None:
    if comm.size == 1:
        pytest.skip("one rank agrees with itself")
    part = comm.split(0)
    assert part is not None
    with pytest.raises(MismatchError, match=r"mean_grads, 2 arrays: \(2,\) float64; \(4,\) float64") as caught:
        mean_grads(part, [np.ones(2), np.ones(4)] if comm.rank else [np.ones(4), np.ones(2)])
    assert "rank 0: mean_grads, 2 arrays: (4,) float64; (2,) float64" in str(caught.value)
    comm.barrier()


def test_trees_that_have_no_mean_are_refused(comm: Communicator) -> None:
    with pytest.raises(UnsupportedDTypeError, match="'mean' of int64"):
        mean_grads(comm, np.arange(3))
    with pytest.raises(
        UnsupportedDTypeError, match=r"^tree\['n'\]\[1\] \(ndarray\): .* of int64.* leave the array out"
    ):
        mean_grads(comm, {"n": [np.ones(3), np.arange(3)]})
    with pytest.raises(ArgumentError, match="bucket_bytes=0"):
        mean_grads(comm, {}, bucket_bytes=0)
    with pytest.raises(ArgumentError, match="root=-1"):
        broadcast_params(comm, {}, -1)
    assert mean_grads(comm, {}) == {}
    assert mean_grads(comm, [None]) == [None]


@pytest.mark.parametrize("call", [broadcast_params, mean_grads])
def test_what_holds_no_arrays_is_not_passed_back_as_if_it_were_done(comm: Communicator, call: Any) -> None:
    for wrong in ((np.ones(2) for _ in range(2)), object(), {"lr": 0.1}):
        with pytest.raises(ArgumentError, match=f"{call.__name__}: there is no array in tree, but "):
            call(comm, wrong)
    with pytest.raises(ArgumentError, match="comm is dict, no communicator"):
        call({"w": np.ones(2)}, comm)
    comm.barrier()


# --- the bits of reproducible reductions

PLAIN: dict[str, Any] = {
    "sum": lambda x, y: x + y,
    "prod": lambda x, y: x * y,
    "min": np.minimum,
    "max": np.maximum,
}


def pairwise(rows: list[Any], op: str) -> Any:
    """The order as the documentation has it, by recursion from the other end."""
    if len(rows) == 1:
        return rows[0]
    half = 1 << ((len(rows) - 1).bit_length() - 1)
    return PLAIN[op](pairwise(rows[:half], op), pairwise(rows[half:], op))


@given(data=st.data())
@settings(max_examples=40, phases=[Phase.generate])  # ranks that fail shrink in different ways
def test_reproducible_reductions_have_the_documented_order(comm: Communicator, data: st.DataObject) -> None:
    """For any number of ranks, sizes around the parts that ranks reduce, and values whose sums depend on the order."""
    dtype = data.draw(st.sampled_from(["float16", "float32", "float64", "complex64", "int8", "uint32"]))
    op = data.draw(st.sampled_from(["sum"] if dtype == "complex64" else ["sum", "prod", "min", "max"]))
    count = data.draw(st.sampled_from([1, 3, 1000, 8191, 8193, 30_011, 65_536]))
    members = data.draw(st.integers(1, comm.size))
    seed = data.draw(st.integers(0, 1 << 30))
    rows = [of_any_size(np.random.default_rng([seed, rank]), count, dtype) for rank in range(members)]
    part = parts(comm, members)
    if part is None:
        return
    with np.errstate(all="ignore"):
        expected = pairwise(rows, op)
    assert_same_bits(part.all_reduce(rows[part.rank], op, reproducible=True), expected)
    on_device = xl.to_device(rows[part.rank], backend="sim")
    assert_same_bits(xl.to_host(part.all_reduce(on_device, op, reproducible=True)), expected)


def of_any_size(rng: np.random.Generator, count: int, dtype: str) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, count, dtype=kind)
    scales = 2.0 ** rng.integers(-8, 8, count)
    return (rng.normal(size=count) * scales).astype(kind) * (1 + 1j if kind.kind == "c" else 1)


_parts: dict[int, Communicator | None] = {}


def parts(comm: Communicator, members: int) -> Communicator | None:
    """The communicator of the first ranks, made once."""
    if members not in _parts:
        _parts[members] = comm.split(0 if comm.rank < members else None)
    return _parts[members]
