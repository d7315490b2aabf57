"""Sequences, results of several arrays and masked arrays: what NumPy makes an array of is not always what was meant."""

from __future__ import annotations

import functools
import os
from collections import UserList, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import UnsupportedArrayError
from xferlib.testing import load_backend

VERBS: dict[str, Callable[..., Any]] = {
    "to_device": xl.to_device,
    "to_device, in Fortran order": lambda x, **options: xl.to_device(x, order="F", **options),
    "to_device, if need be": lambda x, **options: xl.to_device(x, copy=None, **options),
    "to_device_async": lambda x, **options: xl.to_device_async(x, **options).result(),
    "copy_to": lambda x, **options: xl.copy_to(x, xl.get_device(), **options),
    "asarray": xl.asarray,
    "to_host": xl.to_host,
    "to_host, pinned": lambda x, **options: xl.to_host(x, pinned=True, **options),
    "to_host_async": lambda x, **options: xl.to_host_async(x, **options).result(),
    "pinned_array": xl.pinned_array,
}
"""Every way to give a sequence, or an array of NumPy's."""


def _results(backend: str) -> dict[str, Any]:
    """The results of functions that have several."""
    x: Any = xl.to_device(np.array([[4.0, 1.0], [2.0, 3.0]]))
    found: dict[str, Any] = {}
    if backend != "fake":  # which computes nothing
        found["a kernel"] = xl.elementwise(lambda x: (x, x + 1))(x)
    if backend == "torch":
        import torch

        found |= {"max": x.max(dim=0), "of a vector": x[0].max(dim=0), "sort": x.sort(), "topk": torch.topk(x, 1)}
        found |= {"svd": torch.linalg.svd(x), "slogdet": torch.linalg.slogdet(x), "qr": torch.linalg.qr(x)}
    if backend == "numpy":
        found |= {"eigh": np.linalg.eigh(x), "frexp": np.frexp(x), "counts": np.unique_counts(x)}
    return found


def test_several_results_are_not_taken_for_one_array(backend: str) -> None:
    for kind, results in _results(backend).items():
        for name, verb in VERBS.items():
            # PyCUDA's arrays refuse NumPy's conversion by themselves, before a tuple of them is looked at.
            remedy = r"to_host" if backend == "pycuda" else r"tree\.to_host"
            with pytest.raises(UnsupportedArrayError, match=remedy):
                verb(results)
                pytest.fail(f"{name} took the results of {kind}")
        fetched = xl.tree.to_host(results)
        assert [each.dtype for each in fetched] == [xl.to_host(each).dtype for each in results]


def test_sequences_of_rows_are_stacked(backend: str) -> None:
    assert xl.to_host(xl.to_device([np.ones(2), np.zeros(2)])).tolist() == [[1, 1], [0, 0]]
    assert xl.to_host(xl.to_device(((1, 2), (3, 4)))).tolist() == [[1, 2], [3, 4]]


same = xl.elementwise("T x", "T y", "y = x", name="same")
total = xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + b", identity="0")
copy = xl.raw_module('extern "C" __global__ void copy(const double *x, double *y) { *y = *x; }').get_function(
    "copy", cpu=lambda x, y: np.copyto(y, x)
)
PLAIN = np.ones(3)
WITH_MASK: dict[str, Callable[[Any], Any]] = {
    "tree.to_device": lambda x: xl.tree.to_device({"a": [x] * 20}),
    "tree.to_host": lambda x: xl.tree.to_host({"a": [x] * 20}),
    "tree.to_host, if need be": lambda x: xl.tree.to_host([x], copy=None),
    "to_host, out=": lambda x: xl.to_host(xl.to_device(PLAIN), out=x),
    "to_host_async, out=": lambda x: xl.to_host_async(xl.to_device(PLAIN), out=x).result(),
    "to_device, out=": lambda x: xl.to_device(PLAIN, out=x),
    "a kernel": same,
    "a repeated kernel": lambda x: (same(PLAIN), same(PLAIN), same(x)),
    "a kernel, out=": lambda x: same(PLAIN, out=x),
    "a function": xl.elementwise(lambda x: x + 1),
    "a reduction": total,
    "a repeated reduction": lambda x: (total(PLAIN), total(x)),
    "a reduction, out=": lambda x: total(np.ones((2, 3)), axis=0, out=x),
    "a scan": xl.scan("a + b"),
    "CUDA source": lambda x: copy(1, 1, (x, np.ones(3))),
    "prefetch": lambda x: next(iter(xl.prefetch([x]))),
    "stream_map": lambda x: xl.stream_map(lambda rows: rows, x, chunk_rows=1),
    "stream_map, out=": lambda x: xl.stream_map(lambda rows: rows, PLAIN, chunk_rows=1, out=x),
    "permutation": lambda x: xl.random.Generator(1).permutation(x),
    "concat": lambda x: xl.concat([x, x]),
    "save": lambda x: xl.save(f"{os.devnull}/a.npz", {"a": x}),
    "full": lambda x: xl.full(3, x[1]),
}


def test_no_call_drops_a_mask(backend: str) -> None:
    masked = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False])
    for name, call in {**VERBS, **WITH_MASK}.items():
        with pytest.raises(UnsupportedArrayError, match=r"masked.*\.filled\("):
            call(masked)
            pytest.fail(name)
    for name, verb in VERBS.items():
        for parts in ([masked, masked], [1.0, np.ma.masked], [[[2.0, masked[1]]]], ([1.0], (np.ma.masked,))):
            with pytest.raises(UnsupportedArrayError, match=r"masked.*\.filled\("):
                verb(parts)
                pytest.fail(name)


class Masking:
    """Converts to a masked array, as variables of files do whose numbers are missing in part."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, key: Any) -> Any:
        return self.array[key]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


SEQUENCES: list[Callable[[list[Any]], Any]] = [list, tuple, deque, UserList, lambda items: [deque(items)]]
"""Whatever NumPy takes the items of."""


@pytest.mark.parametrize("make", SEQUENCES)
def test_masks_and_results_are_found_in_every_kind_of_sequence(make: Callable[[list[Any]], Any]) -> None:
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    for name, verb in VERBS.items():
        for parts in ([masked, masked], [1.0, np.ma.masked], [Masking(masked), [1.0, 2.0]]):
            with pytest.raises(UnsupportedArrayError, match=r"masked.*\.filled\("):
                verb(make(parts))
                pytest.fail(name)
        for several in (np.linalg.slogdet(np.ones((2, 2, 2))), np.divmod(np.arange(3), 2)):
            with pytest.raises(UnsupportedArrayError, match="results"):
                verb(make([several, several]))
                pytest.fail(name)
        large = (1 << 53) + 1
        assert xl.to_host(verb(make([large, 1.0]), dtype="int64")).ravel().tolist() == [large, 1], name


def test_a_mask_behind_a_conversion_is_refused(backend: str) -> None:
    masked = Masking(np.ma.masked_array(np.ones((3, 2)), mask=np.eye(3, 2, dtype=bool)))
    calls: list[Callable[[], object]] = [
        *[functools.partial(verb, masked) for verb in VERBS.values()],
        lambda: xl.stream_map(lambda rows: rows, masked, chunk_rows=2),
        lambda: xl.stream_map(lambda rows: rows, masked, chunk_rows=2, reduce=lambda a, b: a + b),
    ]
    for call in calls:
        with pytest.raises(UnsupportedArrayError, match=r"masked.*\.filled\("):
            call()


def test_floats_become_integers_by_one_rule(backend: str) -> None:
    if backend == "fake":
        pytest.skip("it has no namespace")
    given = [float("nan"), float("inf"), -1e30, 3e10, -1.5, 300.0]
    xp: Any = load_backend(backend).namespace()
    for dtype in ("uint8", "int32", "int64", "uint64"):
        expected = xl.to_host(given, dtype=dtype).tolist()
        for x in (given, np.array(given), np.array(given, "f4")[:5], given[0]):
            if backend in ("numpy", "cupy"):  # whose namespaces are the libraries' own
                break
            found = xl.to_host(xp.asarray(x, dtype=getattr(xp, dtype)))
            assert found.tolist() == xl.to_host(x, dtype=dtype).tolist()
        assert xl.to_host(xl.asarray(given, dtype=dtype)).tolist() == expected


def _integers(dtype: str) -> st.SearchStrategy[Any]:
    """Those that a float64 rounds, and others at the ends, as Python's and as NumPy's."""
    limits = np.iinfo(dtype)
    near = {place + step for place in (0, 1 << 53, 1 << 63, int(limits.max), int(limits.min)) for step in range(-2, 3)}
    return st.sampled_from(
        [
            kind(number)
            for number in sorted(near)
            if limits.min <= number <= limits.max
            for kind in (int, np.int64 if number < 1 << 63 else np.uint64, np.array)
        ]
    )


@given(st.data())
def test_the_integers_of_a_sequence_arrive_exactly(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["int64", "uint64", "int32", "uint8"]))
    others = st.floats(0, 9) | st.booleans()
    rows = data.draw(st.lists(st.tuples(_integers(dtype), _integers(dtype) | others), min_size=1, max_size=4))
    expected = [[int(each) for each in row] for row in rows]
    verb = VERBS[data.draw(st.sampled_from([*VERBS]))]
    for backend in ("numpy", "torch", "sim"):
        with xl.use_backend(backend):
            for sequence in (rows, [*map(list, rows)]):
                found = xl.to_host(verb(sequence, dtype=dtype))
                assert found.dtype == dtype
                assert found.tolist() == expected
                xp: Any = load_backend(backend).namespace()
                assert xl.to_host(xp.asarray(sequence, dtype=getattr(xp, dtype))).tolist() == expected
            with pytest.raises((OverflowError, UnsupportedArrayError)):  # the latter of more than 64 bits
                verb([[np.iinfo(dtype).max + 1, 0.5]], dtype=dtype)


def test_large_integers_as_numbers_are_exact(backend: str) -> None:
    if backend == "fake":
        pytest.skip("it computes nothing")
    kernels = xl.elementwise(lambda x, n: x * 0 + n), xl.elementwise("T x, T n", "T y", "y = n", name="number")
    for dtype in ("int64", "uint64"):
        x = xl.ones(2, dtype)
        for number in ((1 << 53) + 1, (1 << 63) - 1, (1 << 64) - 1)[: 2 + (dtype == "uint64")]:
            for found in (xl.full(2, number, dtype), *(kernel(x, number) for kernel in kernels)):
                assert xl.to_host(found).tolist() == [number, number]


class WithoutEnd:
    """Has an item for every number, and no length, as a data set that makes its items."""

    def __len__(self) -> int:
        raise TypeError("its length is unknown")

    def __getitem__(self, number: int) -> int:
        return number


@pytest.mark.parametrize("make", [lambda x: x, lambda x: [x], lambda x: (1.0, [x])])
def test_what_has_no_length_is_refused_and_not_read_to_its_end(make: Callable[[object], Any]) -> None:
    for name, verb in VERBS.items():
        with pytest.raises(UnsupportedArrayError):
            verb(make(WithoutEnd()))
            pytest.fail(name)
