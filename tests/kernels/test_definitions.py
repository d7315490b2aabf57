"""A C definition that no call could use is refused where it is written; one that some calls can use is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import KernelSyntaxError, KernelTypeError

X = np.arange(1.0, 5.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: xl.elementwise("T x", "T y", "y = sqt(x)"), r"5: unknown function 'sqt' \(did you mean 'sqrt'\?\)"),
        (lambda: xl.elementwise("T speed", "T y", "y = sped"), r"'sped' is not declared \(did you mean 'speed'\?\)"),
        (lambda: xl.elementwise("T x", "T y", "y = z + x"), "'z' is not declared; known here are x, y"),
        (lambda: xl.elementwise("T x", "T y", "yy = x"), "'yy' is not declared"),
        (lambda: xl.elementwise("T x", "T y", "x + 1"), "a statement without effect"),
        (lambda: xl.elementwise("T x", "T y, T z", "y = x"), "output 'z' is never written"),
        (lambda: xl.elementwise("float *x, float *y", "y[i] = sqt(x[i])"), "unknown function 'sqt'"),
        (lambda: xl.elementwise("float *x, float *y", "y[i] = x[j]"), "'j' is not declared"),
        (lambda: xl.elementwise("T x", "T y", "y = x.imga()"), r"no method .imga\(\)"),
        (lambda: xl.elementwise("T x", "T y", "y = f(x)", preamble="float f(float v) { return v * q; }"),
         "preamble, line 1, column .*: 'q' is not declared"),
        (lambda: xl.elementwise("T x", "T y", "y = x * k", loop_prep="T k = 2 * kk;"), "'kk' is not declared"),
        (lambda: xl.reduction("T x", "T y", map_expr="sqt(x)", reduce_expr="a + b", post_map_expr="y = a"),
         "map_expr, line 1, column 1: unknown function 'sqt'"),
        (lambda: xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + c", post_map_expr="y = a"),
         "reduce_expr, line 1, column 5: 'c' is not declared"),
        (lambda: xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + b", post_map_expr="z = a"),
         "'z' is not declared"),
        (lambda: xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + b", post_map_expr="y = a", identity="nul"),
         "'nul' is not declared"),
        (lambda: xl.scan("a + c"), "'c' is not declared"),
    ],
)  # fmt: skip
def test_a_name_that_does_not_exist_is_an_error_of_the_definition(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(KernelSyntaxError, match=said):
        make()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: xl.elementwise("T x", "T y", "y = sqrt(x, x)"), r"sqrt\(\) takes 1 argument\(s\), 2 were given"),
        (lambda: xl.elementwise("float x", "float y", "y = x % 2.5f"), "% is not defined for float32"),
        (lambda: xl.elementwise("double *x", "x[i] = x[i] << 1"), "<< is not defined for float64"),
    ],
)
def test_so_is_an_operation_that_no_argument_allows(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(KernelTypeError, match=said):
        make()


@pytest.mark.parametrize(
    ("definition", "good", "bad"),
    [
        (("T x", "T y", "y = x << 1"), np.arange(3), X),
        (("T x", "T y", "y = x % 2"), np.arange(3), X),
        (("T z", "float64 y", "y = z.real()"), X + 1j, X),
        (("T x", "T y", "y = x.real() > 0 ? x : -x"), X + 1j, X),
        (("T x, U k", "T y", "y = x * (k << 2)"), (X, np.arange(4)), (X, X)),
        (("U k, T x", "T y", "y = x * (k << 2)"), (np.arange(4), X), (X, X)),
        (("raw T x, int32 n", "float64 y", "double s = 0; for (int k = 0; k < n; k++) s += x[k]; y = s"), None, None),
    ],
)
def test_what_some_dtypes_allow_is_left_to_the_calls(definition: tuple[str, ...], good: Any, bad: Any) -> None:
    kernel = xl.elementwise(*definition)
    if good is not None:
        kernel(*(good if isinstance(good, tuple) else (good,)))
        with pytest.raises((KernelTypeError, KernelSyntaxError)):
            kernel(*(bad if isinstance(bad, tuple) else (bad,)))


def test_a_number_may_be_declared_raw() -> None:
    kernel = xl.elementwise("raw T a, raw int32 size", "T y", "y = i < size ? a[i] : T(0)")
    assert kernel(X, 1, size=3).tolist() == [X[0], 0, 0]
    kernel = xl.elementwise("T x, raw T k, raw T l, raw T a", "T y", "y = k < l ? a[i] : x")
    assert kernel(X, 1, 2, -X).tolist() == (-X).tolist()
    total = xl.reduction("T x, raw int32 k", "T y", map_expr="k + x", reduce_expr="a + b", identity="0")
    assert total(X, 2) == (X + 2).sum()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "complex64"])
def test_an_identity_or_cast_to_any_dtype_can_be_defined(dtype: str) -> None:
    kernel = xl.elementwise("T x", f"{dtype} y", "y = x")
    assert kernel(np.ones(3, dtype)).dtype == dtype


@given(st.sampled_from(["x + y", "x * y - x", "x & y", "x << 1", "x % y", "x / y", "~x", "!x", "x == y", "(int)x"]))
def test_every_expression_that_works_for_some_dtype_can_be_defined(expression: str) -> None:
    kernel = xl.elementwise("T x, T y", "T z", f"z = {expression}")
    assert kernel(np.ones(3, "int32"), np.ones(3, "int32")).shape == (3,)
