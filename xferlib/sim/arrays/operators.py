"""The operators and methods of arrays; most call the function of the Array API that they correspond to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xferlib._api.arrays import numpy_functions, operators
from xferlib.sim.arrays import elementwise, indexing, namespace, shaping, whole_array
from xferlib.sim.arrays.array import ImplicitCopyError, SimArray


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


def install() -> None:
    """Set the namespace, operators and methods of `SimArray`; those modules import it, so it cannot import them."""
    SimArray._namespace = namespace
    methods: dict[str, Callable[..., Any]] = {
        **operators.operators(namespace, elementwise.in_place),
        **operators.reductions(namespace),
        **numpy_functions.interfaces(namespace, ImplicitCopyError),
        **{method.__name__.lstrip("_"): method for method in (_astype, _reshape, _ravel, _copy, _dot)},
        "__getitem__": indexing.get,
        "__setitem__": indexing.put,
    }
    for name, method in methods.items():
        setattr(SimArray, name, method)
