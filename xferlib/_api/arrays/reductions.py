"""Reductions over axes, by the ready-made kernels, and running sums."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib._api.arrays import elementwise, views
from xferlib._core.array import Array, check_dtype
from xferlib.errors import ArgumentError
from xferlib.kernels import reductions as kernels
from xferlib.kernels.elementwise import ElementwiseKernel
from xferlib.kernels.elementwise import elementwise as kernel

_multiply, _sqrt = elementwise.made("multiply"), elementwise.made("sqrt")
_not_equal = elementwise.made("not_equal")


def _over(name: str) -> Callable[..., Array]:
    reduce = getattr(kernels, name)

    def operate(x: Array, /, *, axis: views.Axes = None, keepdims: bool = False) -> Array:
        return reduce(x, axis=axis, keepdims=keepdims)

    operate.__name__ = operate.__qualname__ = name
    operate.__doc__ = f"``{name}`` of the Array API, over ``axis``, on the current stream."
    return operate


all, any, argmax, argmin, max, mean, min = map(_over, ("all", "any", "argmax", "argmin", "max", "mean", "min"))  # noqa: A001


def _accumulated(name: str) -> Callable[..., Array]:
    reduce = getattr(kernels, name)

    def operate(x: Array, /, *, axis: views.Axes = None, dtype: Any = None, keepdims: bool = False) -> Array:
        if dtype is None:
            return reduce(x, axis=axis, keepdims=keepdims)
        wanted = check_dtype(dtype, what="dtype")
        return views.astype(
            reduce(views.astype(x, wanted, copy=False), axis=axis, keepdims=keepdims), wanted, copy=False
        )

    operate.__name__ = operate.__qualname__ = name
    operate.__doc__ = f"``{name}`` of the Array API, over ``axis``, in ``dtype`` if it is given."
    return operate


sum, prod = map(_accumulated, ("sum", "prod"))  # noqa: A001


def var(x: Array, /, *, axis: views.Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The mean of the squared deviations from the mean, of ``n - correction`` elements."""
    if float(correction).is_integer():
        return kernels.var(x, axis=axis, ddof=int(correction), keepdims=keepdims)
    shape, spread = views.info_of(x).shape, kernels.var(x, axis=axis, keepdims=keepdims)
    axes = range(len(shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    count = math.prod(shape[each] for each in axes)
    return _multiply(spread, count / (count - correction))


def std(x: Array, /, *, axis: views.Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The square root of `var`."""
    return _sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def count_nonzero(x: Array, /, *, axis: views.Axes = None, keepdims: bool = False) -> Array:
    """The number of elements that are not zero."""
    return kernels.sum(_not_equal(x, 0), axis=axis, keepdims=keepdims)


# --- running sums: each pass adds the element 1, 2, 4, ... before (Hillis and Steele, 1986)


@functools.cache
def _pass(operator: str) -> ElementwiseKernel:
    text = f"""
    bool is_first = (i % extent) < distance;
    T one = x[is_first ? i : i - distance];
    y = is_first ? x[i] : one {operator} x[i];
    """
    return kernel("raw T x, int64 extent, int64 distance", "T y", text, name="scan_pass")


def _running(name: str, operator: str, start: int) -> Callable[..., Array]:
    kind = name.removeprefix("cumulative_")

    def operate(x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Array:
        info = views.info_of(x, name)
        if not info.shape:
            raise ArgumentError(f"{name}: an array without axes has no running {kind}; reshape it to (1,)")
        if axis is None and len(info.shape) > 1:
            raise ArgumentError(f"{name}: an array of {len(info.shape)} axes needs axis=; give one")
        along = 0 if axis is None else axis
        wanted = check_dtype(dtype, what="dtype") if dtype is not None else _wide(info.dtype)
        line = _scanned(views.copied(views.moveaxis(x, along, -1), wanted), operator)
        if include_initial:
            shape = views.info_of(line).shape
            longer = views.new(x, (*shape[:-1], shape[-1] + 1), wanted)
            views.fill(views.viewed(longer, lambda a: a[..., :1]), start)
            views.assign(views.viewed(longer, lambda a: a[..., 1:]), line)
            line = longer
        return views.contiguous(views.moveaxis(line, -1, along))

    operate.__name__ = operate.__qualname__ = name
    operate.__doc__ = f"``{name}`` of the Array API: integers exact, floats in the order of a tree."
    return operate


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype({"b": "int64", "i": "int64", "u": "uint64"}.get(dtype.kind, dtype))


def _scanned(x: Array, operator: str) -> Array:
    """The running combinations along the last axis of an array in C order."""
    info, distance = views.info_of(x), 1
    while info.size and distance < info.shape[-1]:
        y = views.new(x, info.shape, info.dtype)
        _pass(operator)(x, info.shape[-1], distance, y)
        x, distance = y, 2 * distance
    return x


cumulative_sum = _running("cumulative_sum", "+", 0)
cumulative_prod = _running("cumulative_prod", "*", 1)
