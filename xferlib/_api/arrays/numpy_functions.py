"""NumPy's functions and names on arrays of a device and in their namespace: they raise, naming the function to use.

Only the operators of NumPy scalars work, for Python calls those first.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from xferlib._core.array import BINARY_OPERATORS, COMPARISONS, Array
from xferlib._core.namespaces import RENAMED, known_name
from xferlib._runtime.peer_names import ARRAY_NAMES

_COMPARING = frozenset(COMPARISONS.values())
_OPERATORS = frozenset(BINARY_OPERATORS.values()) | _COMPARING


def interfaces(namespace: ModuleType, error: type[Exception]) -> dict[str, Callable[..., Any]]:
    """``__array_ufunc__`` and ``__array_function__`` of an array type.

    Args:
        namespace: The functions that messages name.
        error: What is raised.
    """

    def instead_of(function: Any) -> str:
        name, to_host = known_name(namespace, function.__name__), "xferlib.to_host(x) first"
        return f"use {to_host}" if name is None else f"use get_array_module(x).{name}, or {to_host}"

    def array_getattr(self: Array, name: str) -> NoReturn:
        known, remedy = None if name.startswith("_") else known_name(namespace, name), ""
        if known is not None:
            remedy = f"; use get_array_module(x).{known}"
        elif name in ARRAY_NAMES:
            remedy = f"; {ARRAY_NAMES[name]}"
        elif not name.startswith("_") and hasattr(np.ndarray, name):
            remedy = f"; use xferlib.to_host(x).{name}"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{remedy}", name=name, obj=self)

    def array_ufunc(self: Array, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Array:
        name = RENAMED.get(ufunc.__name__, ufunc.__name__)
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


def _is_scalar(operand: Any, name: str) -> bool:
    """Whether the left operand is a NumPy scalar, which NumPy converts to a 0-d array for a comparison."""
    if name in _COMPARING and type(operand) is np.ndarray:
        return operand.ndim == 0
    return isinstance(operand, np.generic)
