"""NumPy's functions and names on arrays of a device and in their namespace: they raise, naming the function to use.

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
    "array": "asarray", "bitwise_not": "bitwise_invert", "bool_": "bool", "concatenate": "concat",
    "conjugate": "conj", "cumprod": "cumulative_prod", "cumsum": "cumulative_sum", "dot": "matmul", "fabs": "abs",
    "flatten": "reshape", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "norm": "vector_norm", "power": "pow", "ravel": "reshape",
    "right_shift": "bitwise_right_shift", "rint": "round", "swapaxes": "moveaxis", "transpose": "permute_dims",
    "true_divide": "divide", "unique": "unique_values",
}  # fmt: skip
"""The names that differ. `fmod`, whose remainder has another sign, has no equal here, nor have partial functions."""

_TO_HOST = ("asnumpy", "cpu", "get", "numpy", "to_host")
"""Methods of other libraries' arrays that copy to the host."""

_COMPARING = frozenset(COMPARISONS.values())
_OPERATORS = frozenset(BINARY_OPERATORS.values()) | _COMPARING


def interfaces(namespace: ModuleType, error: type[Exception]) -> dict[str, Callable[..., Any]]:
    """``__array_ufunc__`` and ``__array_function__`` of an array type.

    Args:
        namespace: The functions that messages name.
        error: What is raised.
    """

    def instead_of(function: Any) -> str:
        name, to_host = _known(namespace, function.__name__), "xferlib.to_host(x) first"
        return f"use {to_host}" if name is None else f"use get_array_module(x).{name}, or {to_host}"

    def array_getattr(self: Array, name: str) -> NoReturn:
        known, remedy = None if name.startswith("_") else _known(namespace, name), ""
        if known is not None:
            remedy = f"; use get_array_module(x).{known}"
        elif name in _TO_HOST:
            remedy = "; xferlib.to_host(x) copies it to the host"
        elif not name.startswith("_") and hasattr(np.ndarray, name):
            remedy = f"; use xferlib.to_host(x).{name}"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{remedy}", name=name, obj=self)

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

    return {"__array_ufunc__": array_ufunc, "__array_function__": array_function, "__getattr__": array_getattr}


def explain_missing(namespace: ModuleType, part: ModuleType) -> None:
    """Let ``part``, a namespace or an extension of it, say which name it has instead of one of NumPy's."""

    def module_getattr(name: str) -> NoReturn:
        known, remedy = None if name.startswith("_") else _known(namespace, name), ""
        if known is not None:
            remedy = f"; use get_array_module(x).{known}"
        elif not name.startswith("_") and callable(getattr(np, name, None)):
            remedy = f"; use numpy.{name} with xferlib.to_host(x)"
        raise AttributeError(f"module {part.__name__!r} has no attribute {name!r}{remedy}", name=name, obj=part)

    vars(part)["__getattr__"] = module_getattr


def _known(namespace: ModuleType, name: str) -> str | None:
    """The name of the namespace, or of an extension, for a function that NumPy has by that name."""
    name = _RENAMED.get(name, name)
    for part, prefix in ((namespace, ""), *((vars(namespace).get(each), f"{each}.") for each in ("linalg", "fft"))):
        if part is not None and name in part.__all__:
            return prefix + name
    return None


def _is_scalar(operand: Any, name: str) -> bool:
    """Whether the left operand is a NumPy scalar, which NumPy converts to a 0-d array for a comparison."""
    if name in _COMPARING and type(operand) is np.ndarray:
        return operand.ndim == 0
    return isinstance(operand, np.generic)
