"""Reductions over axes, by the ready-made kernels, and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib._api.arrays import elementwise, views
from xferlib._core.array import Array, check_dtype
from xferlib.errors import ArgumentError
from xferlib.kernels import reductions as kernels

_add, _multiply, _sqrt = (elementwise.made(name) for name in ("add", "multiply", "sqrt"))
_not_equal = elementwise.made("not_equal")


def _over(name: str) -> Callable[..., Array]:
    kernel = getattr(kernels, name)

    def operate(x: Array, /, *, axis: views.Axes = None, keepdims: bool = False) -> Array:
        return kernel(x, axis=axis, keepdims=keepdims)

    operate.__name__ = operate.__qualname__ = name
    operate.__doc__ = f"``{name}`` of the Array API, over ``axis``, on the current stream."
    return operate


all, any, argmax, argmin, max, mean, min = map(_over, ("all", "any", "argmax", "argmin", "max", "mean", "min"))  # noqa: A001


def _accumulated(name: str) -> Callable[..., Array]:
    kernel = getattr(kernels, name)

    def operate(x: Array, /, *, axis: views.Axes = None, dtype: Any = None, keepdims: bool = False) -> Array:
        if dtype is None:
            return kernel(x, axis=axis, keepdims=keepdims)
        wanted = check_dtype(dtype, what="dtype")
        return views.astype(
            kernel(views.astype(x, wanted, copy=False), axis=axis, keepdims=keepdims), wanted, copy=False
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


# --- running sums: each pass adds the element 1, 2, 4, ... places before (Hillis and Steele, 1986)


def _running(name: str, combine: Callable[..., Array], start: int) -> Callable[..., Array]:
    def operate(x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Array:
        info = views.info_of(x, name)
        if axis is None and len(info.shape) > 1:
            raise ArgumentError(f"{name}: an array of {len(info.shape)} axes needs axis=; give one")
        along = 0 if axis is None else axis
        wanted = check_dtype(dtype, what="dtype") if dtype is not None else _wide(info.dtype)
        sums = scanned(views.copied(x, wanted), along, combine)
        if not include_initial:
            return sums
        shape = list(info.shape)
        shape[along] += 1
        out = views.new(x, tuple(shape), wanted)
        last = views.viewed(out, lambda a: np.moveaxis(a, along, -1))
        views.fill(views.viewed(last, lambda a: a[..., :1]), start)
        views.assign(views.viewed(last, lambda a: a[..., 1:]), views.viewed(sums, lambda a: np.moveaxis(a, along, -1)))
        return out

    operate.__name__ = operate.__qualname__ = name
    operate.__doc__ = f"``{name}`` of the Array API: integers exact, floats in the order of a tree."
    return operate


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype({"b": "int64", "i": "int64", "u": "uint64"}.get(dtype.kind, dtype))


def scanned(x: Array, axis: int, combine: Callable[..., Array]) -> Array:
    """The running combinations of an array's elements along an axis; the array is used up."""
    extent, step = views.info_of(x).shape[axis], 1
    while step < extent:
        later = views.viewed(x, lambda a: np.moveaxis(a, axis, -1)[..., step:])  # noqa: B023 - called at once
        earlier = views.viewed(x, lambda a: np.moveaxis(a, axis, -1)[..., :-step])  # noqa: B023
        views.assign(later, combine(earlier, later))
        step *= 2
    return x


cumulative_sum = _running("cumulative_sum", _add, 0)
cumulative_prod = _running("cumulative_prod", _multiply, 1)
