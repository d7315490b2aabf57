"""The public functions of each namespace do what NumPy does, and refuse what it refuses, however they are called."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests import surface
from tests.comparing import quiet, same
from tests.surface import Viewed
from xferlib.errors import XferError

SEEDS = 40 if os.environ.get("XFERLIB_TEST_LONG") else 12
REFUSED = (
    "have no order", "orders no", "does not order", "would drop the imaginary part", "is not a matrix; reshape it",
    "must be integers", "is not an integer", "is not an axis of an array of 0", "is out of range for 0 dimension(s)",
    "take: axis=None", "is neither", "names an axis twice", "has not one element", "cannot convert float NaN",
    "is negative", "does not fit into", "out of range for", "axis=[0]", "axis='0'", "should be positive",
)  # fmt: skip
"""Our refusals of calls that NumPy takes and the standard does not."""

pytestmark = pytest.mark.parametrize("backend", ["torch", "sim", "bare"], indirect=True)


def values(x: Any, make: Callable[[Viewed], Any]) -> Any:
    """Arguments with their arrays where the call computes."""
    if isinstance(x, (list, tuple)):
        return type(x)([values(each, make) for each in x])
    return make(x) if isinstance(x, Viewed) else x


def outcome(xp: Any, name: str, args: Any, options: Any, put: Callable[[Any], Any]) -> Any:
    """The result, on the host, or the error."""
    make = lambda x: x.on(xp, put)
    try:
        with quiet():
            function = operator.attrgetter(name)(xp)
            found = function(*values(args, make), **{key: values(x, make) for key, x in options.items()})
            listed = found if isinstance(found, tuple) else (found,)
            return [np.asarray(x) if xp is np else xl.to_host(x) for x in listed]
    except Exception as error:
        return error


def reads_back() -> bool:
    """Whether a function can look at its arguments without waiting for a device."""
    return xl.device_of(xl.zeros(1)).kind != "cuda"


def difference(found: Any, expected: Any) -> str | None:
    """The difference that a program would notice; None if there is none."""
    if isinstance(found, Exception):
        is_clear = isinstance(found, (XferError, TypeError, ValueError, IndexError, OverflowError))
        if not is_clear:
            return f"raises {type(found).__name__}: {found}"
        is_known = isinstance(expected, Exception) or any(words in str(found) for words in REFUSED)
        return None if is_known else f"refuses: {found}"
    if isinstance(expected, IndexError) and "is out of bounds for axis" in str(expected) and not reads_back():
        return None  # a GPU reads 0 there
    if isinstance(expected, Exception):
        return f"takes what NumPy refuses: {expected}"
    if len(found) != len(expected):
        return f"{len(found)} results instead of {len(expected)}"
    for one, two in zip(found, expected, strict=True):
        if (one.dtype, one.shape) != (two.dtype.newbyteorder("="), two.shape):
            return f"{one.dtype}{one.shape} instead of {two.dtype}{two.shape}"
        limits = np.finfo(two.dtype) if two.dtype.kind in "fc" else None
        is_close = limits is not None and np.allclose(one, two, 8 * limits.eps, 8 * limits.eps, equal_nan=True)
        if not is_close and not same(one, two, signed_zeros=False):
            return f"{one.tolist()} instead of {two.tolist()}"
    return None


@pytest.mark.parametrize("name", surface.CALLS)
def test_drawn_calls_do_what_numpys_do(backend: str, name: str) -> None:
    xp, wrong = xl.get_array_module(xl.zeros(1)), []
    for seed in range(SEEDS):
        args, options = surface.CALLS[name](surface.Drawing(seed))
        expected = outcome(np, name, args, options, lambda x: x)
        found = outcome(xp, name, args, options, xl.to_device)
        if (bad := difference(found, expected)) is not None:
            wrong.append(f"{name}(*{args}, **{options}) {bad}")
    assert not wrong, f"{len(wrong)} of {SEEDS}:\n" + "\n".join(wrong[:9])


X, PLACES = np.arange(6.0).reshape(2, 3), np.array([1, 0])
BY_POSITION: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda xp, x, i: xp.sum(x, 0, "float32"), lambda xp, x, i: xp.prod(x, 0), lambda xp, x, i: xp.mean(x, 1),
    lambda xp, x, i: xp.max(x, 0), lambda xp, x, i: xp.argmin(x, 1), lambda xp, x, i: xp.any(x, 0),
    lambda xp, x, i: xp.count_nonzero(x, 0), lambda xp, x, i: xp.std(x, 0), lambda xp, x, i: xp.var(x, 1),
    lambda xp, x, i: xp.concat([x, x], 1), lambda xp, x, i: xp.stack([x, x], 1), lambda xp, x, i: xp.flip(x, 0),
    lambda xp, x, i: xp.repeat(x, 2, 0), lambda xp, x, i: xp.roll(x, 1, 0), lambda xp, x, i: xp.tril(x, 1),
    lambda xp, x, i: xp.triu(x, 1), lambda xp, x, i: xp.take(x, i, 0), lambda xp, x, i: xp.sort(x, 0),
    lambda xp, x, i: xp.argsort(x, 0), lambda xp, x, i: xp.diff(x, 1, 0), lambda xp, x, i: xp.diff(x, 2),
    lambda xp, x, i: xp.take_along_axis(x, i[:1, None], 0), lambda xp, x, i: xp.searchsorted(i[1:], i, "right"),
    lambda xp, x, i: xp.tensordot(x, x, 2), lambda xp, x, i: xp.eye(2, 3, 1), lambda xp, x, i: xp.zeros((2,), "int8"),
    lambda xp, x, i: xp.full((2,), 1, "int8"), lambda xp, x, i: xp.zeros_like(x, "int8"),
    lambda xp, x, i: xp.asarray([1], "float32"), lambda xp, x, i: xp.fft.fft(x, 4, 0),
    lambda xp, x, i: xp.fft.fftn(x, (4, 4), (0, 1)), lambda xp, x, i: xp.fft.fftfreq(4, 0.5),
    lambda xp, x, i: xp.where(x > 2)[1], lambda xp, x, i: xp.fft.fftshift(x, 0),
    lambda xp, x, i: xp.fft.irfft(x, 4, 0, "ortho"),
)  # fmt: skip
"""Calls with arguments by position, which NumPy allows and the standard does not forbid."""


def test_arguments_may_be_given_by_position_in_numpys_order(backend: str) -> None:
    x, places = xl.to_device(X), xl.to_device(PLACES)
    xp = xl.get_array_module(x)
    wrong = {
        number: bad
        for number, call in enumerate(BY_POSITION)
        if (bad := difference([xl.to_host(call(xp, x, places))], [np.asarray(call(np, X, PLACES))])) is not None
    }
    assert not wrong
