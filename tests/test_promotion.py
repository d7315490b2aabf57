"""The table of promotion against the installed NumPy, without any backend."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

from xferlib.errors import UnsupportedDTypeError
from xferlib.testing import DTYPES, dtypes

ALL = tuple(map(np.dtype, DTYPES))
SCALARS: dict[type, Any] = {bool: True, int: 1, float: 1.0, complex: 1j}


def _numpys(function: Any, *operands: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(function(*operands)).dtype
        except TypeError:
            return None


def _ours(name: str, *operands: Any) -> Any:
    try:
        return dtypes.result(name, *operands)
    except UnsupportedDTypeError:
        return None


def _value(operand: Any, name: str) -> Any:
    if isinstance(operand, type):
        return SCALARS[operand]
    return np.ones((1, 1) if name in dtypes.PRODUCTS else 2, operand)


def test_two_dtypes_promote_as_numpys() -> None:
    for one, two in itertools.product(ALL, ALL):
        assert dtypes.promote(one, two) == np.result_type(one, two)
    for one, kind in itertools.product(ALL, SCALARS):
        assert dtypes.promote(one, kind) == np.result_type(one, SCALARS[kind])
    for kind, other in itertools.product(SCALARS, SCALARS):
        assert dtypes.promote(kind, other) == np.result_type(SCALARS[kind], SCALARS[other])


@pytest.mark.parametrize("name", [*dtypes.OF_TWO, *dtypes.PRODUCTS])
def test_a_function_of_two_has_numpys_dtype_or_refuses_as_numpy_does(name: str) -> None:
    function = getattr(np, name)
    operands = (*ALL, *(() if name in dtypes.PRODUCTS else SCALARS))
    for one, two in itertools.product(operands, operands):
        if isinstance(one, type) and isinstance(two, type):
            continue
        assert _ours(name, one, two) == _numpys(function, _value(one, name), _value(two, name)), (one, two)


@pytest.mark.parametrize("name", [*dtypes.OF_ONE, *dtypes.OVER_AXES])
def test_a_function_of_one_has_numpys_dtype_or_refuses_as_numpy_does(name: str) -> None:
    for each in ALL:
        assert _ours(name, each) == _numpys(getattr(np, name), np.zeros(2, each)), each


def test_a_refusal_says_what_to_do() -> None:
    with pytest.raises(UnsupportedDTypeError, match=r"subtract of bool and bool .* use xp\.logical_xor"):
        dtypes.result("subtract", ALL[0], ALL[0])
    with pytest.raises(UnsupportedDTypeError, match=r"bitwise_and of float32 and int .* xp\.astype"):
        dtypes.result("bitwise_and", np.dtype("float32"), int)
