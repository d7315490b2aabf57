"""The operators and methods of arrays; most call the function of the Array API that they correspond to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xferlib._core.array import BINARY_OPERATORS, COMPARISONS, UNARY_OPERATORS
from xferlib.sim.arrays import elementwise, indexing, namespace, numpy_functions, shaping, whole_array
from xferlib.sim.arrays.array import SimArray


def _swapped(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: function(other, self)


def _reduction(name: str) -> Callable[..., SimArray]:
    function = getattr(namespace, name)

    def method(self: SimArray, axis: Any = None, **options: Any) -> SimArray:
        result: SimArray = function(self, axis=axis, **options)
        return result

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``{name}`` of the namespace, over ``axis``; options as there."
    return method


def _astype(self: SimArray, dtype: Any, *, copy: bool = True) -> SimArray:
    """The elements as another dtype."""
    return shaping.astype(self, dtype, copy=copy)


def _reshape(self: SimArray, *shape: Any) -> SimArray:
    """The elements in another shape, given as one tuple or as numbers: a view where strides allow."""
    return shaping.reshape(self, shape[0] if len(shape) == 1 else shape)


def _ravel(self: SimArray) -> SimArray:
    """The elements along one axis: a view where strides allow."""
    return shaping.reshape(self, -1)


def _copy(self: SimArray) -> SimArray:
    """A copy of the elements, in C order."""
    return shaping.reshape(self, self.shape, copy=True)


def _dot(self: SimArray, other: SimArray) -> SimArray:
    """The dot product over the last axis of this array and the last but one, or the only one, of the other."""
    return whole_array.tensordot(self, other, axes=((-1,), (max(-2, -other.ndim),)))


_SPECIAL: dict[str, Callable[..., Any]] = {
    "getitem": indexing.get, "setitem": indexing.put, "array_ufunc": numpy_functions.array_ufunc,
    "array_function": numpy_functions.array_function,
}  # fmt: skip


def install() -> None:
    """Set the namespace, operators and methods of `SimArray`; those modules import it, so it cannot import them."""
    SimArray._namespace = namespace
    for operator, name in {**UNARY_OPERATORS, **BINARY_OPERATORS, **COMPARISONS, "matmul": "matmul"}.items():
        function = getattr(namespace, name)
        setattr(SimArray, f"__{operator}__", function)
        if operator not in UNARY_OPERATORS and operator not in COMPARISONS:
            setattr(SimArray, f"__r{operator}__", _swapped(function))
    for operator, name in BINARY_OPERATORS.items():
        setattr(SimArray, f"__i{operator}__", elementwise.in_place(name))
    for name in (*elementwise.REDUCTIONS, *elementwise.ACCUMULATIONS, *elementwise.DEVIATIONS):
        if name != "count_nonzero":
            setattr(SimArray, name, _reduction(name))
    for method in (_astype, _reshape, _ravel, _copy, _dot):
        setattr(SimArray, method.__name__.lstrip("_"), method)
    for name, function in _SPECIAL.items():
        setattr(SimArray, f"__{name}__", function)
