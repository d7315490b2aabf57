"""One program, one result: the functions of every namespace have NumPy's dtypes, shapes and values, or refuse.

What may differ in the last bits, and what is refused, is in `tools/namespace_table.json`.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tools import namespace_table
from xferlib._core import promotion
from xferlib._core.array import DTYPES
from xferlib.errors import XferError

TABLE = namespace_table.table()
SCALARS: tuple[Any, ...] = (True, 2, 2.0, 2j)
FORMS: dict[str, Callable[[str], Any]] = {
    "array": lambda dtype: np.array([1, 2, 3]).astype(dtype),
    "0-d": lambda dtype: np.array(2).astype(dtype),
    "scalar": lambda dtype: np.dtype(dtype).type(2),
}
NUMPYS_ERROR = 4
"""Units of the last place by which NumPy itself may be wrong."""
IN_ANOTHER_ORDER = 16
UNMEASURED = 16


@pytest.fixture(params=["torch", "sim", "cupy"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    status = xl.available_backends()[name]
    if not status.is_available:
        pytest.skip(f"{name}: {status.reason}")
    with xl.use_backend(name):
        yield name


@pytest.fixture
def xp(backend: str) -> Any:
    return xl.get_array_module(xl.zeros(1))


@pytest.fixture
def entries(backend: str) -> Any:
    """The table's part for the backend on its current device; None before the first measurement."""
    kind = xl.get_device(None).kind
    return TABLE.get(backend if backend == "sim" else f"{backend}, {kind.upper()}")


def _numpys(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """NumPy's result, or its error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*args, **options)
        except (TypeError, ValueError, OverflowError) as error:
            return error


def _ours(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A namespace's result, with NumPy's arrays sent to the device, or its error."""
    return _numpys(function, *(xl.to_device(x) if isinstance(x, np.ndarray) else x for x in args), **options)


def _wrong(entries: Any, name: str, found: Any, expected: Any, *, refuses: str = "") -> str | None:
    """The difference between a result and NumPy's; None if there is none.

    Args:
        entries: The table of the backend.
        name: The function.
        found, expected: Ours and NumPy's: results or errors.
        refuses: A dtype for which the table may have a refusal.
    """
    if isinstance(found, Exception):
        is_known = isinstance(expected, Exception) or entries is None
        is_known = is_known or isinstance(entries.get(name, {}).get(refuses), str)
        is_clear = isinstance(found, (XferError, OverflowError)) or isinstance(expected, Exception)
        return None if is_known and is_clear and "\n" not in str(found) else f"{type(found).__name__}: {found}"
    if isinstance(expected, Exception):
        return f"{xl.to_host(found).dtype} instead of {expected!r}"
    host, wanted = xl.to_host(found), np.asarray(expected)
    if (host.dtype, host.shape) != (wanted.dtype.newbyteorder("="), wanted.shape):
        return f"{host.dtype}{host.shape} instead of {wanted.dtype}{wanted.shape}"
    entry = UNMEASURED if entries is None else entries.get(name, {}).get(wanted.dtype.name, 0)
    units = IN_ANOTHER_ORDER if entry == "n" else entry + NUMPYS_ERROR if entry else 0
    if wanted.dtype.kind not in "fc":
        is_same = np.array_equal(host, wanted)
    elif units == 0:
        is_same = np.array_equal(host, wanted, equal_nan=True)
    else:
        is_same = np.allclose(host, wanted, units * float(np.finfo(wanted.dtype).eps), 1e-300, equal_nan=True)
    return None if is_same else f"{host} instead of {wanted}"


def _pairs() -> Iterator[tuple[Any, Any]]:
    for one, two in itertools.product(DTYPES, DTYPES):
        for first, second in itertools.product(FORMS, FORMS):
            if "scalar" not in (first, second) or "array" in (first, second):
                yield FORMS[first](one), FORMS[second](two)
    for one, form, scalar in itertools.product(DTYPES, ("array", "0-d"), SCALARS):
        yield FORMS[form](one), scalar
        yield scalar, FORMS[form](one)


def _label(x: Any) -> str:
    return f"{type(x).__name__} {x.dtype}{x.shape}" if isinstance(x, (np.ndarray, np.generic)) else repr(x)


def _report(wrong: list[tuple[str, str | None]]) -> None:
    bad = [f"{what}: {reason}" for what, reason in wrong if reason]
    assert not bad, f"{len(bad)} of {len(wrong)}:\n" + "\n".join(bad[:12])


def _promoted(*operands: Any) -> str:
    return promotion.promote(*(x.dtype if hasattr(x, "dtype") else type(x) for x in operands)).name


@pytest.mark.parametrize("name", promotion.OF_TWO)
def test_two_operands_give_numpys_dtype_shape_and_values(xp: Any, entries: Any, name: str) -> None:
    wrong = []
    for one, two in _pairs():
        found, expected = _ours(getattr(xp, name), one, two), _numpys(getattr(np, name), one, two)
        label = f"{name}({_label(one)}, {_label(two)})"
        wrong.append((label, _wrong(entries, name, found, expected, refuses=_promoted(one, two))))
    _report(wrong)


@pytest.mark.parametrize("name", promotion.OF_ONE)
def test_one_operand_gives_numpys_dtype_shape_and_values(xp: Any, entries: Any, name: str) -> None:
    wrong = []
    for dtype, form in itertools.product(DTYPES, ("array", "0-d")):
        x = FORMS[form](dtype)
        found, expected = _ours(getattr(xp, name), x), _numpys(getattr(np, name), x)
        wrong.append((f"{name}({_label(x)})", _wrong(entries, name, found, expected, refuses=dtype)))
    _report(wrong)


Options = tuple[dict[str, Any], ...]
_SUMS: Options = (
    {},
    {"axis": 0},
    {"axis": (0, 1), "keepdims": True},
    {"axis": ()},
    {"dtype": "float64"},
    {"dtype": np.uint16},
)
_MEANS: Options = ({}, {"axis": -1}, {"keepdims": True}, {"axis": (1, 0)})
_PLACES: Options = ({}, {"axis": 1}, {"keepdims": True}, {"axis": 0, "keepdims": True})
_SO_FAR: Options = ({"axis": 0}, {"axis": 1, "include_initial": True}, {"axis": -1, "dtype": "int8"})
OF_ONE_ARRAY: dict[str, Options] = {
    "sum": _SUMS, "prod": _SUMS, **dict.fromkeys(("mean", "var", "std", "max", "min"), _MEANS),
    "argmax": _PLACES, "argmin": _PLACES, "all": _PLACES, "any": _PLACES, "count_nonzero": _PLACES,
    "cumulative_sum": _SO_FAR, "cumulative_prod": _SO_FAR,
    "sort": ({}, {"axis": 0}), "argsort": ({}, {"axis": 0}), "diff": ({}, {"axis": 0}),
    "flip": ({}, {"axis": 0}), "tril": ({}, {"k": 1}), "triu": ({},), "nonzero": ({},), "unique_counts": ({},),
    "unique_inverse": ({},),
}  # fmt: skip


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", OF_ONE_ARRAY)
def test_functions_of_an_array_give_numpys_dtype_shape_and_values(xp: Any, entries: Any, name: str) -> None:
    wrong = []
    for dtype, options in itertools.product(DTYPES, OF_ONE_ARRAY[name]):
        x = np.array([[3, 1, 2], [2, 5, 0]]).astype(dtype)
        if x.dtype.kind == "c" and ("dtype" in options or name.startswith("unique")):
            continue  # NumPy drops the imaginary part and warns; torch has no order for a set
        found, expected = _ours(getattr(xp, name), x, **options), _numpys(getattr(np, name), x, **options)
        for one, two in itertools.zip_longest(_parts(found), _parts(expected)):
            wrong.append((f"{name}({dtype}, {options})", _wrong(entries, name, one, two, refuses=dtype)))
    _report(wrong)


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
    wrong = [("no dtype", _wrong(entries, name, _ours(make, xp), make(np)))]
    for dtype in DTYPES:
        expected = make(np, dtype=dtype)
        for spelled in (*(spell(dtype) for spell in SPELLINGS), getattr(xp, dtype)):
            wrong.append((repr(spelled), _wrong(entries, name, _ours(make, xp, dtype=spelled), expected)))
    _report(wrong)


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
    for one, two in pairs:
        found, expected = _ours(call, xp, one, two), _numpys(call, np, one, two)
        if name.partition(",")[0] in ("clip", "searchsorted") and "complex" in _promoted(one, two):
            assert isinstance(found, XferError) or backend != "torch"
            continue
        label = f"{name}({_label(one)}, {_label(two)})"
        wrong.append((label, _wrong(entries, name, found, expected, refuses=_promoted(one, two))))
    _report(wrong)


def test_the_dtype_of_a_result_can_be_asked_for(xp: Any) -> None:
    for one, two in itertools.product(DTYPES, DTYPES):
        expected = getattr(xp, np.result_type(np.dtype(one), np.dtype(two)).name)
        a, b = xl.to_device(FORMS["array"](one)), xl.to_device(FORMS["0-d"](two))
        assert xp.result_type(a, b) == xp.result_type(getattr(xp, one), b) == expected
        for scalar in SCALARS:
            promoted = np.result_type(np.dtype(one), np.dtype(two), scalar)
            assert xp.result_type(a, scalar, b) == getattr(xp, promoted.name)
        assert xp.can_cast(a, getattr(xp, two)) == np.can_cast(one, two)


WHOLE = tuple(name for name in promotion.OF_TWO if promotion.OF_TWO[name][promotion.CODES.index("L")] in "?L")


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
    if name in ("floor_divide", "remainder"):
        two[two == 0] = 7  # a division by 0 is each library's own
    if "shift" in name or name == "pow":
        two %= 70
    if "shift" in name:
        two %= np.iinfo(dtype).bits  # more is each library's own, for the small dtypes
    np.testing.assert_array_equal(xl.to_host(_ours(getattr(xp, name), one, two)), getattr(np, name)(one, two))


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_integers_are_compared_exactly(xp: Any, name: str) -> None:
    signed = np.array([-1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1], np.int64)
    bits = np.array([2**64 - 1, 0, 1, 2**53 + 1, 2**53, 2**63], np.uint64)
    for one, two in ((signed, bits), (bits, signed)):
        found = _ours(getattr(xp, name), one[:, None], two)
        np.testing.assert_array_equal(xl.to_host(found), getattr(np, name)(one[:, None], two))
    small = np.array([0, 5, 255], np.uint8)
    for number in (-1, 300, 5, 2**70):
        for args in ((small, number), (number, small)):
            np.testing.assert_array_equal(xl.to_host(_ours(getattr(xp, name), *args)), getattr(np, name)(*args))


@pytest.mark.parametrize("number", [300, -1])
def test_an_integer_that_does_not_fit_is_refused(xp: Any, number: int) -> None:
    with pytest.raises(OverflowError):
        xp.add(xl.zeros(3, "uint8"), number)


def test_sums_of_small_unsigned_integers_do_not_wrap(xp: Any) -> None:
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        top = np.full(3, np.iinfo(dtype).max, dtype)
        np.testing.assert_array_equal(xl.to_host(_ours(xp.sum, top)), np.sum(top))
        np.testing.assert_array_equal(xl.to_host(_ours(xp.max, top)), np.max(top))
        np.testing.assert_array_equal(xl.to_host(_ours(xp.mean, top)), np.mean(top))


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
