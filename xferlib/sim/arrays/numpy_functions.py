"""NumPy's functions on arrays of a simulated device: they raise, naming the namespace's function to use instead.

Only the operators of NumPy scalars work, for Python calls those first.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn

import numpy as np

from xferlib.sim.arrays import namespace
from xferlib.sim.arrays.array import ImplicitCopyError, SimArray

_RENAMED = {
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "around": "round",
    "bitwise_not": "bitwise_invert", "concatenate": "concat", "conjugate": "conj", "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum", "fabs": "abs", "flatten": "reshape", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "power": "pow", "ravel": "reshape", "right_shift": "bitwise_right_shift",
    "rint": "round", "transpose": "permute_dims", "true_divide": "divide", "unique": "unique_values",
}  # fmt: skip
"""The names that differ. `fmod`, whose remainder has another sign, has no equal here, nor have partial functions."""


COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
_OPERATORS = {
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "pow", "bitwise_and", "bitwise_or",
    "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", *COMPARISONS,
}  # fmt: skip


def operator_of(ufunc: Any) -> str | None:
    """The namespace's name of a ufunc that implements a binary operator; None for other ufuncs."""
    name = _RENAMED.get(ufunc.__name__, ufunc.__name__)
    return name if name in _OPERATORS else None


@cache
def _functions() -> frozenset[str]:
    names = namespace.__all__
    return frozenset(name for name in names if callable(getattr(namespace, name)))


def named(name: str) -> str | None:
    """The namespace's name of a NumPy function; None if it has no equal."""
    name = _RENAMED.get(name, name)
    return name if name in _functions() else None


def instead_of(function: Any) -> str:
    """The advice for a NumPy function called with an array of a simulated device."""
    equivalent = named(function.__name__)
    to_host = "xferlib.to_host(x) first"
    return f"use get_array_module(x).{equivalent}, or {to_host}" if equivalent is not None else f"use {to_host}"


def array_ufunc(self: SimArray, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> SimArray:
    """``__array_ufunc__`` of arrays."""
    name = operator_of(ufunc)
    if name is not None and method == "__call__" and not kwargs and _is_scalar(inputs[0], name):
        # `numpy.float64(2) + x`: the operator of a NumPy scalar calls this method.
        result: SimArray = getattr(namespace, name)(inputs[0][()], inputs[1])
        return result
    remedy = instead_of(ufunc)
    if any(isinstance(each, np.ndarray) for each in inputs):
        remedy = f"move the NumPy array there with xferlib.to_device(x, device={str(self.device)!r}), or {remedy}"
    raise ImplicitCopyError(f"numpy.{ufunc.__name__} was given an array of {self.device}; {remedy}")


def _is_scalar(operand: Any, name: str) -> bool:
    """Whether the left operand is a NumPy scalar, which NumPy converts to a 0-d array for a comparison."""
    if name in COMPARISONS and type(operand) is np.ndarray:
        return operand.ndim == 0
    return isinstance(operand, np.generic)


def array_function(self: SimArray, function: Any, *_: Any) -> NoReturn:
    """``__array_function__`` of arrays."""
    name = f"{function.__module__}.{function.__name__}"
    raise ImplicitCopyError(f"{name} was given an array of {self.device}; {instead_of(function)}")
