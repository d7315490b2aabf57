"""NumPy's functions on arrays of a device: they raise, naming the namespace's function to use instead.

Only the operators of NumPy scalars work, for Python calls those first.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from xferlib._core.array import BINARY_OPERATORS, COMPARISONS, Array

_RENAMED = {
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "around": "round",
    "bitwise_not": "bitwise_invert", "concatenate": "concat", "conjugate": "conj", "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum", "fabs": "abs", "flatten": "reshape", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "power": "pow", "ravel": "reshape", "right_shift": "bitwise_right_shift",
    "rint": "round", "transpose": "permute_dims", "true_divide": "divide", "unique": "unique_values",
}  # fmt: skip
"""The names that differ. `fmod`, whose remainder has another sign, has no equal here, nor have partial functions."""

_COMPARING = frozenset(COMPARISONS.values())
_OPERATORS = frozenset(BINARY_OPERATORS.values()) | _COMPARING


def interfaces(namespace: ModuleType, error: type[Exception]) -> dict[str, Callable[..., Any]]:
    """``__array_ufunc__`` and ``__array_function__`` of an array type.

    Args:
        namespace: The functions that messages name.
        error: What is raised.
    """

    def instead_of(function: Any) -> str:
        name = _RENAMED.get(function.__name__, function.__name__)
        to_host = "xferlib.to_host(x) first"
        is_known = callable(getattr(namespace, name, None)) and name in namespace.__all__
        return f"use get_array_module(x).{name}, or {to_host}" if is_known else f"use {to_host}"

    def array_ufunc(self: Array, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Array:
        name = _RENAMED.get(ufunc.__name__, ufunc.__name__)
        if name in _OPERATORS and method == "__call__" and not kwargs and _is_scalar(inputs[0], name):
            # `numpy.float64(2) + x`: the operator of a NumPy scalar calls this method.
            return getattr(namespace, name)(inputs[0][()], inputs[1])
        remedy = instead_of(ufunc)
        if any(isinstance(each, np.ndarray) for each in inputs):
            remedy = f"move the NumPy array there with xferlib.to_device(x, device={str(self.device)!r}), or {remedy}"
        raise error(f"numpy.{ufunc.__name__} was given an array of {self.device}; {remedy}")

    def array_function(self: Array, function: Any, *_: Any) -> NoReturn:
        name = f"{function.__module__}.{function.__name__}"
        raise error(f"{name} was given an array of {self.device}; {instead_of(function)}")

    return {"__array_ufunc__": array_ufunc, "__array_function__": array_function}


def _is_scalar(operand: Any, name: str) -> bool:
    """Whether the left operand is a NumPy scalar, which NumPy converts to a 0-d array for a comparison."""
    if name in _COMPARING and type(operand) is np.ndarray:
        return operand.ndim == 0
    return isinstance(operand, np.generic)
