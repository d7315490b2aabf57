"""What the namespace calls what NumPy calls otherwise, for advice that names only what there is."""

from __future__ import annotations

from functools import cache
from typing import Any

_RENAMED = {
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "around": "round",
    "bitwise_not": "bitwise_invert", "concatenate": "concat", "conjugate": "conj", "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum", "fabs": "abs", "flatten": "reshape", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "power": "pow", "ravel": "reshape", "right_shift": "bitwise_right_shift",
    "rint": "round", "transpose": "permute_dims", "true_divide": "divide", "unique": "unique_values",
}  # fmt: skip
"""Not `fmod`, whose remainder has another sign, nor functions that only part of one here does."""


COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
_OPERATORS = {
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "pow", "bitwise_and", "bitwise_or",
    "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", *COMPARISONS,
}  # fmt: skip


def operator_of(ufunc: Any) -> str | None:
    """The namespace's name of a ufunc that stands for a binary operator; None: it stands for none."""
    name = _RENAMED.get(ufunc.__name__, ufunc.__name__)
    return name if name in _OPERATORS else None


@cache
def _functions() -> frozenset[str]:
    from xferlib.sim import namespace  # which is built of the arrays that ask here

    names = namespace.__all__
    return frozenset(name for name in names if callable(getattr(namespace, name)))


def named(name: str) -> str | None:
    """What the namespace calls a function of NumPy's; None: it has none like it."""
    name = _RENAMED.get(name, name)
    return name if name in _functions() else None


def instead_of(function: Any) -> str:
    """What to use instead of a function of NumPy's, for arrays of a simulated device."""
    equivalent = named(function.__name__)
    to_host = "xferlib.to_host(x) first"
    return f"use get_array_module(x).{equivalent}, or {to_host}" if equivalent is not None else f"use {to_host}"
