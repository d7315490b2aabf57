"""Reductions over axes, by xferlib's own: the same bits on every device."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib._api.arrays import elementwise
from xferlib._api.arrays.primitives import Primitives, checked_dtype
from xferlib._core import convert
from xferlib._core.array import Array
from xferlib.errors import KernelTypeError, LayoutTypeError
from xferlib.kernels import ReductionKernel, reductions
from xferlib.kernels import reduction as make_reduction


@functools.cache
def _count() -> ReductionKernel:
    return make_reduction(
        "T x",
        "int64 y",
        map_expr="x != 0",
        reduce_expr="a + b",
        post_map_expr="y = a",
        identity="0",
        name="count_nonzero",
    )


Function = Callable[..., Array]

_ORDERING = ("argmax", "argmin", "max", "min")


def _named(name: str, function: Function) -> Function:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name}`` of the Array API, over ``axis``, on the current stream."
    return function


def reduction(lib: Primitives, name: str) -> Function:
    """The function of that name, over some axes."""
    ready = None if name == "count_nonzero" else getattr(reductions, name)
    own, is_position = lib.array_type, name.startswith("arg")

    def operate(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
        if is_position and isinstance(axis, tuple):
            raise LayoutTypeError(f"{name}: axis={axis} is no axis; give one integer, or None for all elements")
        try:
            kernel = _count() if ready is None else ready
            return kernel(x if type(x) is own else lib.array(name, x), axis=axis, keepdims=keepdims)
        except KernelTypeError:
            if name in _ORDERING:
                elementwise.refuse_complex(lib, name, x)
            raise

    return _named(name, operate)


def accumulation(lib: Primitives, name: str) -> Function:
    """The function of that name, over some axes, in a dtype that can be given."""
    kernel, own = getattr(reductions, name), lib.array_type

    def operate(x: Any, /, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
        x = x if type(x) is own else lib.array(name, x)
        wanted = checked_dtype(dtype)
        if wanted is None:
            return kernel(x, axis=axis, keepdims=keepdims)
        found = lib.info(x).dtype
        convert.check_conversion(found, wanted)
        result = kernel(x if found == wanted else lib.copy(x, wanted), axis=axis, keepdims=keepdims)
        return result if lib.info(result).dtype == wanted else lib.copy(result, wanted)

    return _named(name, operate)


def deviation(lib: Primitives, name: str) -> Function:
    """The function of that name, over some axes, with a correction of the degrees of freedom."""

    def operate(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
        x = lib.array(name, x)
        found = _variance(lib, x, axis, correction, keepdims=keepdims)
        return elementwise.unary_kernel("sqrt")(found) if name == "std" else found

    return _named(name, operate)


def _variance(lib: Primitives, x: Array, axis: Any, correction: float, *, keepdims: bool) -> Array:
    if correction == int(correction):
        return reductions.var(x, axis=axis, ddof=int(correction), keepdims=keepdims)
    # The sum of squares is that of a correction of 0, times the number of elements.
    found = reductions.var(x, axis=axis, keepdims=keepdims)
    size, left = lib.info(x).size, math.prod(lib.info(found).shape)
    count = size // left if left else 0
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.float64(count) / max(count - correction, 0.0)
    return elementwise.binary_kernel("multiply")(found, float(factor))
