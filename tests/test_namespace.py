"""One program, one result: the functions of every namespace have NumPy's dtypes, shapes and values, or refuse.

What may differ in the last bits, and what is refused, is in `tools/namespace_table.json`.
"""

from __future__ import annotations

import functools
import itertools
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import xferlib as xl
from tests import processes
from tests.comparing import (
    CODES,
    DTYPES,
    FORMS,
    OF_ONE,
    OF_TWO,
    RULES,
    SCALARS,
    TABLE,
    difference,
    fetch,
    label,
    numpys,
    ours,
    outcome,
    promoted,
    quiet,
    report,
)
from tests.sizes import IS_LONG
from tools import namespace_table
from xferlib.errors import XferError

pytestmark = pytest.mark.parametrize("backend", ["torch", "sim"], indirect=True)


@pytest.fixture
def xp(backend: str) -> Any:
    return xl.get_array_module(xl.zeros(1))


@pytest.fixture
def entries(backend: str) -> Any:
    """The table's part for the backend on its current device; None before the first measurement."""
    kind = xl.get_device(None).kind
    return TABLE.get(backend if backend == "sim" else f"{backend}, {kind.upper()}")


SOME_FORMS = 3 if IS_LONG else 6


def _pairs() -> Iterator[tuple[Any, Any]]:
    formed = {(form, dtype): FORMS[form](dtype) for form, dtype in itertools.product(FORMS, DTYPES)}
    forms = [each for each in itertools.product(FORMS, FORMS) if "scalar" not in each or "array" in each]
    for number, (one, two) in enumerate(itertools.product(DTYPES, DTYPES)):
        for place, (first, second) in enumerate(forms):
            # NumPy promotes all three forms alike: each two dtypes come as arrays, and in one of some other forms.
            if not place or (number + place) % SOME_FORMS == 0:
                yield formed[first, one], formed[second, two]
    for one, form, scalar in itertools.product(DTYPES, ("array", "0-d"), SCALARS):
        yield formed[form, one], scalar
        yield scalar, formed[form, one]


PAIRS = [(one, two, promoted(one, two)) for one, two in _pairs()]
ARRAYS = {id(x): x for one, two, _ in PAIRS for x in (one, two) if isinstance(x, np.ndarray)}


@functools.cache
def _expected(name: str) -> list[Any]:
    """NumPy's results for all pairs, for every backend."""
    with quiet():
        return [outcome(getattr(np, name), one, two) for one, two, _ in PAIRS]


_TURNS = random.Random(0).choices((0, 1), k=len(PAIRS))
"""Without a pattern: neighbours are the two sides of an operation, of which each function is to meet both."""


def _is_chosen(number: int, name: str, backend: str) -> bool:
    """Whether a pair is computed: two arrays always, other forms in turn by every second function and backend."""
    are_arrays = all(isinstance(each, np.ndarray) and each.ndim for each in PAIRS[number][:2])
    return IS_LONG or are_arrays or (_TURNS[number] + list(OF_TWO).index(name) + (backend == "sim")) % 2 == 0


@pytest.mark.parametrize("name", OF_TWO)
def test_two_operands_give_numpys_dtype_shape_and_values(xp: Any, entries: Any, backend: str, name: str) -> None:
    arrays = {key: xl.to_device(x) for key, x in ARRAYS.items()}
    function = getattr(xp, name)
    chosen = [number for number in range(len(PAIRS)) if _is_chosen(number, name, backend)]
    with quiet():
        found = fetch([outcome(function, *(arrays.get(id(each), each) for each in PAIRS[n][:2])) for n in chosen])
        wrong: list[tuple[str, str | None]] = []
        for number, result in zip(chosen, found, strict=True):
            one, two, refuses = PAIRS[number]
            reason = difference(entries, name, result, _expected(name)[number], refuses=refuses)
            if reason is not None:
                wrong.append((f"{name}({label(one)}, {label(two)})", reason))
    report(wrong)


@pytest.mark.parametrize("name", OF_ONE)
def test_one_operand_gives_numpys_dtype_shape_and_values(xp: Any, entries: Any, name: str) -> None:
    cases = [(dtype, FORMS[form](dtype)) for dtype, form in itertools.product(DTYPES, ("array", "0-d"))]
    found = fetch([ours(getattr(xp, name), x) for _, x in cases])
    wrong = []
    for (dtype, x), result in zip(cases, found, strict=True):
        reason = difference(entries, name, result, numpys(getattr(np, name), x), refuses=dtype)
        wrong.append((f"{name}({label(x)})", reason))
    report(wrong)


@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "var", "std", "cumulative_sum", "unique_counts", "unique_inverse"]
)
def test_functions_of_an_array_give_numpys_dtype_shape_and_values(xp: Any, entries: Any, name: str) -> None:
    """Those of which tests/arrays/test_exact.py draws no arguments, and the dtypes that sums are asked for."""
    wrong = []
    options: list[dict[str, Any]] = [{"axis": 0}] if name == "cumulative_sum" else [{}]
    if name in ("sum", "prod", "cumulative_sum"):
        options += [{"axis": 1, "dtype": each} for each in ("float64", "int8", np.uint16)]
    for dtype, given_ in itertools.product(DTYPES, options):
        x = np.array([[3, 1, 2], [2, 5, 0]]).astype(dtype)
        if x.dtype.kind == "c" and ("dtype" in given_ or name.startswith("unique")):
            continue  # NumPy drops the imaginary part and warns; torch has no order for a set
        found, expected = ours(getattr(xp, name), x, **given_), numpys(getattr(np, name), x, **given_)
        for one, two in itertools.zip_longest(
            *[(*each,) if isinstance(each, tuple) else (each,) for each in (found, expected)]
        ):
            wrong.append((f"{name}({dtype}, {given_})", difference(entries, name, one, two, refuses=dtype)))
    report(wrong)


CREATED: dict[str, Callable[..., Any]] = {
    "zeros": lambda xp, **o: xp.zeros((2, 3), **o),
    "ones": lambda xp, **o: xp.ones(3, **o),
    "full of bool": lambda xp, **o: xp.full(3, True, **o),
    "full of int": lambda xp, **o: xp.full(3, 2, **o),
    "full of float": lambda xp, **o: xp.full((3,), 2.0, **o),
    "full of complex": lambda xp, **o: xp.full(3, 1 if o else 2j, **o),
    "full of a NumPy scalar": lambda xp, **o: xp.full(3, np.float32(2), **o),
    "arange": lambda xp, **o: xp.arange(2, **o),
    "arange of floats": lambda xp, **o: xp.arange(0, 1, 1 if o else 0.25, **o),
    "arange backwards": lambda xp, **o: xp.arange(3, 0, -2, **o),
    "arange of nothing": lambda xp, **o: xp.arange(3, 1, **o),
    "linspace": lambda xp, **o: xp.linspace(0, 3, 4, **o),
    "linspace without end": lambda xp, **o: xp.linspace(0, 3, 3, endpoint=False, **o),
    "linspace of floats": lambda xp, **o: xp.linspace(0.0, 2.5, 3, **o),
    "eye": lambda xp, **o: xp.eye(3, **o),
    "eye of two extents": lambda xp, **o: xp.eye(2, 4, k=1, **o),
    "asarray of ints": lambda xp, **o: xp.asarray([1, 2], **o),
    "asarray of floats": lambda xp, **o: xp.asarray([[1.0, 2], [3, 0]], **o),
    "asarray of bool": lambda xp, **o: xp.asarray(True, **o),
    "asarray of complex": lambda xp, **o: xp.asarray([1] if o else 2j, **o),
    "asarray of a swapped view": lambda xp, **o: xp.asarray(np.arange(4, dtype=">i2")[::-2], **o),
    "asarray of a NumPy scalar": lambda xp, **o: xp.asarray(np.float16(2), **o),
}
SPELLINGS: tuple[Callable[[str], Any], ...] = (
    str, np.dtype, lambda name: np.dtype(name).type, lambda name: np.dtype(name).char,
)  # fmt: skip


@pytest.mark.parametrize("name", CREATED)
def test_new_arrays_have_numpys_dtype_and_that_asked_for_by_any_name(xp: Any, entries: Any, name: str) -> None:
    make = CREATED[name]
    wrong = [("no dtype", difference(entries, name, ours(make, xp), make(np)))]
    for dtype in DTYPES:
        expected = make(np, dtype=dtype)
        spelled = (*(spell(dtype) for spell in SPELLINGS), getattr(xp, dtype))
        found = fetch([ours(make, xp, dtype=each) for each in spelled])
        wrong += [(repr(each), difference(entries, name, x, expected)) for each, x in zip(spelled, found, strict=True)]
    report(wrong)


OF_TWO_ARRAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "where": lambda xp, a, b: xp.where(xp.asarray([True, False, True]), a, b),
    "concat": lambda xp, a, b: xp.concat([a, b]),
    "concat, flat": lambda xp, a, b: xp.concat([a, b], axis=None),
    "stack": lambda xp, a, b: xp.stack([a, b]),
    "clip": lambda xp, a, b: xp.clip(a, b, None),
    "clip, both": lambda xp, a, b: xp.clip(a, 1, b),
    "matmul": lambda xp, a, b: xp.matmul(a, b),
    "vecdot": lambda xp, a, b: xp.vecdot(a, b),
    "tensordot": lambda xp, a, b: xp.tensordot(a, b, axes=1),
    "searchsorted": lambda xp, a, b: xp.searchsorted(a, b),
}


@pytest.mark.parametrize("name", OF_TWO_ARRAYS)
def test_arrays_are_joined_as_numpy_promotes_them(backend: str, xp: Any, entries: Any, name: str) -> None:
    call, wrong = OF_TWO_ARRAYS[name], []
    pairs = [(FORMS["array"](one), FORMS["array"](two)) for one, two in itertools.product(DTYPES, DTYPES)]
    if name in ("where", "clip"):
        numbers = (*SCALARS, np.float32(2), np.int64(2))
        pairs += [(FORMS["array"](dtype), number) for dtype, number in itertools.product(DTYPES, numbers)]
    for (one, two), found in zip(pairs, fetch([ours(call, xp, one, two) for one, two in pairs]), strict=True):
        expected = numpys(call, np, one, two)
        if name.partition(",")[0] in ("clip", "searchsorted") and "complex" in promoted(one, two):
            assert isinstance(found, XferError) or backend != "torch"
            continue
        reason = difference(entries, name, found, expected, refuses=promoted(one, two))
        wrong.append((f"{name}({label(one)}, {label(two)})", reason))
    report(wrong)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=st.one_of(st.integers(1, 1000), st.floats(0.125, 1e4, width=32)))
def test_a_quotient_by_a_number_is_numpys(xp: Any, number: float) -> None:
    """Torch multiplies by the reciprocal on CUDA: 51 / 255 is 0.20000002 there in float32."""
    for dtype in ("float32", "float64"):
        x = np.arange(256, dtype=dtype)
        assert xl.to_host(xp.divide(xl.to_device(x), number)).tobytes() == (x / number).tobytes()
        assert xl.to_host(xp.divide(xl.to_device(x[51]), number)).tobytes() == (x[51] / number).tobytes()


@pytest.mark.parametrize("name", RULES)
def test_the_table_holds_for_other_numbers(backend: str, xp: Any, entries: Any, name: str) -> None:
    if entries is None:
        pytest.skip("not in the table")
    device = str(xl.get_device(None)).partition(":")[2]
    for dtype in DTYPES:
        measured = namespace_table.entry(xp, name, dtype, device, seed=3, count=500)
        listed = entries.get(name, {}).get(dtype)
        is_bound = isinstance(measured, int) and isinstance(listed, int) and measured <= listed + 1
        assert is_bound or measured is None or measured == listed, (name, dtype, measured, listed)


def test_the_dtype_of_a_result_can_be_asked_for(xp: Any) -> None:
    for one, two in itertools.product(DTYPES, DTYPES):
        expected = getattr(xp, np.result_type(np.dtype(one), np.dtype(two)).name)
        a, b = xl.to_device(FORMS["array"](one)), xl.to_device(FORMS["0-d"](two))
        assert xp.result_type(a, b) == xp.result_type(getattr(xp, one), b) == expected
        for scalar in SCALARS:
            promoted = np.result_type(np.dtype(one), np.dtype(two), scalar)
            assert xp.result_type(a, scalar, b) == getattr(xp, promoted.name)
        assert xp.can_cast(a, getattr(xp, two)) == np.can_cast(one, two)


WHOLE = tuple(name for name in OF_TWO if OF_TWO[name][CODES.index("L")] in "?L")


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unsigned_integers_of_all_sizes_are_computed_with(xp: Any, name: str, dtype: str) -> None:
    random, top = np.random.default_rng(7), int(np.iinfo(dtype).max)
    edges = np.array([0, 1, 2, 3, top // 2, top // 2 + 1, top // 2 + 2, top - 1, top], dtype)
    one, two = (each.ravel() for each in np.meshgrid(edges, edges))
    one = np.concatenate([one, random.integers(0, top, 500, dtype, endpoint=True)])
    two = np.concatenate(
        [two, random.integers(0, top, 500, dtype, endpoint=True) >> random.integers(0, 12, 500, dtype)]
    )
    if "shift" in name or name == "pow":
        two %= 70
    if "shift" in name:
        two %= np.iinfo(dtype).bits  # more is each library's own, for the small dtypes
    expected = numpys(getattr(np, name), one, two)
    np.testing.assert_array_equal(xl.to_host(ours(getattr(xp, name), one, two)), expected)


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_integers_are_compared_exactly(xp: Any, name: str) -> None:
    signed = np.array([-1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1], np.int64)
    bits = np.array([2**64 - 1, 0, 1, 2**53 + 1, 2**53, 2**63], np.uint64)
    for one, two in ((signed, bits), (bits, signed)):
        found = ours(getattr(xp, name), one[:, None], two)
        np.testing.assert_array_equal(xl.to_host(found), getattr(np, name)(one[:, None], two))
    small = np.array([0, 5, 255], np.uint8)
    for number in (-1, 300, 5, 2**70):
        for args in ((small, number), (number, small)):
            np.testing.assert_array_equal(xl.to_host(ours(getattr(xp, name), *args)), getattr(np, name)(*args))
    for number in (300, -1):
        with pytest.raises(OverflowError):
            xp.add(xl.zeros(3, "uint8"), number)


def test_sums_of_small_unsigned_integers_do_not_wrap(xp: Any) -> None:
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        top = np.full(3, np.iinfo(dtype).max, dtype)
        np.testing.assert_array_equal(xl.to_host(ours(xp.sum, top)), np.sum(top))
        np.testing.assert_array_equal(xl.to_host(ours(xp.max, top)), np.max(top))
        np.testing.assert_array_equal(xl.to_host(ours(xp.mean, top)), np.mean(top))


def test_arrays_are_made_on_the_device_asked_for(xp: Any) -> None:
    x = xl.zeros(2)
    makers: list[Any] = [
        lambda device: xp.zeros(2, device=device), lambda device: xp.full(2, 1, device=device),
        lambda device: xp.arange(2, device=device), lambda device: xp.linspace(0, 1, 2, device=device),
        lambda device: xp.eye(2, device=device), lambda device: xp.asarray([1], device=device),
        lambda device: xp.ones_like(x, device=device), lambda device: xp.astype(x, xp.float32, device=device),
    ]  # fmt: skip
    for make in makers:
        assert xl.device_of(make(xl.device_of(x))) == xl.device_of(make(str(xl.device_of(x)))) == xl.device_of(x)
        assert xl.device_of(make(x.device)) == xl.device_of(x)


def test_another_process_finds_the_namespace_and_its_functions_by_name(xp: Any, backend: str) -> None:
    parts = (xp.linalg.matmul, xp.fft.fftn, xp.sum, xp.linalg, xp)  # what is deepest is the first there
    program = f"import pickle; print(*(pickle.loads(each).__name__ for each in {[*map(pickle.dumps, parts)]}))"
    after = processes.TORCH if backend == "torch" else processes.NUMPY
    assert processes.printed("-c", program, after=after).split() == [part.__name__ for part in parts]
