"""NumPy's functions that the Array API does not have: of missing values, order, counts, edges, sums of products.

Each is written once, over the functions of a namespace, which is its first parameter; so PyCUDA's arrays, the
simulator's and tensors share them. They have NumPy's names, dtypes and axes. Three things follow from values that stay
on the device. Functions whose result is Python's, or has a shape that the values decide, wait for the device:
``allclose``, ``array_equal``, ``argwhere``, ``flatnonzero``, ``bincount``, ``digitize`` of edges there, and
``histogram`` without edges or a range. A slice without a number is position -1 to ``nanargmax`` and ``nanargmin``,
which NumPy refuses. Sums differ from NumPy's in the last bits where the namespace's do.
"""

from __future__ import annotations

import functools
import inspect
import math
import string
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from xferlib._api import transfers
from xferlib._core import dtypes, registry
from xferlib._core.arrays import Array, ArrayInfo, axes_of, axis_of
from xferlib._runtime.checks import choice
from xferlib.errors import (
    ArgumentError,
    LayoutError,
    LayoutTypeError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
    quote,
)

Namespace: TypeAlias = Any
Axis: TypeAlias = int | tuple[int, ...] | None
Function: TypeAlias = Callable[..., Any]
HostArray: TypeAlias = np.ndarray[Any, Any]

_INDEX = np.dtype("int64")
_FLOAT = np.dtype("float64")


# --- arguments


def _info(name: str, x: Any) -> ArrayInfo:
    """The description of an array.

    Raises:
        UnsupportedArrayError: It is none.
    """
    owner = registry.owner_of(x)
    if owner is None or isinstance(x, np.generic):
        raise UnsupportedArrayError(
            f"{name}: {type(x).__name__} is not an array of the namespace; make one: xferlib.to_device(x)"
        )
    return owner.view(x)


def _is_array(x: Any) -> bool:
    return registry.owner_of(x) is not None and not isinstance(x, np.generic)


def _info_of_some(name: str, *operands: Any) -> ArrayInfo:
    """The description of the first array among arrays and numbers."""
    arrays = [each for each in operands if _is_array(each)]
    return _info(name, arrays[0] if arrays else operands[0])


def _refuse_complex(name: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind == "c":
        raise UnsupportedDTypeError(f"{name}: complex numbers have no order ({dtype}); give xp.real(x) or xp.abs(x)")


def _to_host(x: Any) -> HostArray:
    """Values that decide what is done next, on the host: of an array on a device this is a wait."""
    return transfers.to_host(x) if _is_array(x) else np.asarray(x)


def _on_device(xp: Namespace, values: Any, like: Any) -> Array:
    """Values of the host beside an array."""
    return xp.asarray(values, device=like.device)


def _cast(xp: Namespace, x: Array, dtype: Any) -> Array:
    wanted = np.dtype(dtype)
    return x if _info("astype", x).dtype == wanted else xp.astype(x, getattr(xp, wanted.name))


def _is_inexact(info: ArrayInfo) -> bool:
    return info.dtype.kind in "fc"


def _flat(xp: Namespace, x: Array) -> Array:
    return xp.reshape(x, (-1,))


def _insert_axes(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """The shape of what was reduced over axes, with these kept."""
    return tuple(1 if n in axes else each for n, each in enumerate(shape))


def _set_name(name: str, function: Function, doc: str) -> Function:
    """``function`` with the name and the docstring of a public one."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


# --- missing values


def _fill_nan(xp: Namespace, a: Array, info: ArrayInfo, value: float) -> Array:
    return xp.where(xp.isnan(a), value, a) if _is_inexact(info) else a


def _count(xp: Namespace, a: Array, axis: Axis, *, keepdims: bool) -> Array:
    """The elements that are numbers."""
    return xp.sum(_cast(xp, xp.logical_not(xp.isnan(a)), _INDEX), axis=axis, keepdims=keepdims)


def _make_total(name: str, value: int, doc: str) -> Function:
    """A sum or product over axes in which NaN counts as ``value``."""

    def total(xp: Namespace, a: Array, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
        filled = _fill_nan(xp, a, _info(name, a), value)
        return getattr(xp, name.removeprefix("nan"))(filled, axis=axis, dtype=dtype, keepdims=keepdims)

    return _set_name(name, total, doc)


def _make_cumulative(name: str, value: int, doc: str) -> Function:
    """Sums or products so far, in which NaN counts as ``value``."""

    def accumulate(xp: Namespace, a: Array, axis: int | None = None, dtype: Any = None) -> Array:
        filled = _fill_nan(xp, a, _info(name, a), value)
        standard = getattr(xp, name.replace("nancum", "cumulative_"))
        return standard(_flat(xp, filled) if axis is None else filled, axis=0 if axis is None else axis, dtype=dtype)

    return _set_name(name, accumulate, doc)


nansum = _make_total("nansum", 0, "The sum over axes; NaN counts as 0.")
nanprod = _make_total("nanprod", 1, "The product over axes; NaN counts as 1.")
nancumsum = _make_cumulative("nancumsum", 0, "The sums so far along an axis, or of all elements; NaN counts as 0.")
nancumprod = _make_cumulative(
    "nancumprod", 1, "The products so far along an axis, or of all elements; NaN counts as 1."
)


def _mean_of_numbers(xp: Namespace, a: Array, axis: Axis, *, keepdims: bool) -> Array:
    total = xp.sum(_fill_nan(xp, a, _info("nanmean", a), 0), axis=axis, keepdims=keepdims)
    return _quotient(xp, total, _count(xp, a, axis, keepdims=keepdims))


def _quotient(xp: Namespace, total: Array, count: Array) -> Array:
    """A sum by a number of elements, in the sum's dtype: divided in float64, which holds the number."""
    dtype = _info("mean", total).dtype
    wide = np.result_type(dtype, _FLOAT)
    return _cast(xp, xp.divide(_cast(xp, total, wide), _cast(xp, count, _FLOAT)), dtype)


def nanmean(xp: Namespace, a: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The mean over axes of what is not NaN; NaN where there is nothing else."""
    if not _is_inexact(_info("nanmean", a)):
        return xp.mean(a, axis=axis, keepdims=keepdims)
    return _mean_of_numbers(xp, a, axis, keepdims=keepdims)


def nanvar(
    xp: Namespace, a: Array, axis: Axis = None, *, ddof: float = 0, correction: float | None = None,
    keepdims: bool = False,
) -> Array:  # fmt: skip
    """The variance over axes of what is not NaN; NaN where no degree of freedom is left.

    ``correction`` is the standard's name of ``ddof``.
    """
    info = _info("nanvar", a)
    freedom = ddof if correction is None else correction
    if not _is_inexact(info):
        return xp.var(a, axis=axis, correction=freedom, keepdims=keepdims)
    off = xp.subtract(a, _mean_of_numbers(xp, a, axis, keepdims=True))
    off = xp.where(xp.isnan(a), 0, off)
    squares = xp.square(off) if info.dtype.kind == "f" else xp.real(xp.multiply(off, xp.conj(off)))
    left = xp.subtract(_cast(xp, _count(xp, a, axis, keepdims=keepdims), _FLOAT), float(freedom))
    found = _quotient(xp, xp.sum(squares, axis=axis, keepdims=keepdims), left)
    return xp.where(xp.less_equal(left, 0), xp.nan, found)


def nanstd(
    xp: Namespace, a: Array, axis: Axis = None, *, ddof: float = 0, correction: float | None = None,
    keepdims: bool = False,
) -> Array:  # fmt: skip
    """The standard deviation over axes of what is not NaN, as `nanvar`."""
    return xp.sqrt(nanvar(xp, a, axis, ddof=ddof, correction=correction, keepdims=keepdims))


def _make_extreme(name: str, nothing: float, doc: str) -> Function:
    """The least or greatest number over axes, or its position; ``nothing`` where there is none."""
    filler = math.inf if name.endswith("min") else -math.inf

    def find(xp: Namespace, a: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
        info, reduce = _info(name, a), getattr(xp, name.removeprefix("nan"))
        if not _is_inexact(info):
            return reduce(a, axis=axis, keepdims=keepdims)
        _refuse_complex(name, info.dtype)
        found = reduce(_fill_nan(xp, a, info, filler), axis=axis, keepdims=keepdims)
        return xp.where(xp.all(xp.isnan(a), axis=axis, keepdims=keepdims), nothing, found)

    return _set_name(name, find, doc)


nanmin = _make_extreme("nanmin", math.nan, "The least number over axes; NaN where there is none.")
nanmax = _make_extreme("nanmax", math.nan, "The greatest number over axes; NaN where there is none.")
nanargmin = _make_extreme(
    "nanargmin", -1, "The position of the least number along an axis, or of all; -1 where there is none."
)
nanargmax = _make_extreme(
    "nanargmax", -1, "The position of the greatest number along an axis, or of all; -1 where there is none."
)


def nan_to_num(
    xp: Namespace, x: Array, copy: bool = True, nan: float = 0.0, posinf: float | None = None,
    neginf: float | None = None,
) -> Array:  # fmt: skip
    """Numbers in place of NaN and of infinities: by default 0 and the dtype's greatest and least.

    ``copy=False`` writes them to ``x``.
    """
    info = _info("nan_to_num", x)
    if not _is_inexact(info):
        return xp.asarray(x, copy=True) if copy else x
    limits = np.finfo(info.dtype)
    most = float(limits.max) if posinf is None else posinf
    least = float(limits.min) if neginf is None else neginf

    def replace(part: Array) -> Array:
        found = xp.where(xp.isnan(part), nan, part)
        found = xp.where(xp.equal(part, xp.inf), most, found)
        return xp.where(xp.equal(part, -xp.inf), least, found)

    if info.dtype.kind == "f":
        found = replace(x)
    else:
        found = xp.empty_like(x)
        for view in (xp.real, xp.imag):
            view(found)[...] = replace(view(x))
    if copy:
        return found
    x[...] = found
    return x


# --- order statistics


def _rows(xp: Namespace, name: str, a: Array, axis: Axis) -> tuple[Array, tuple[int, ...], tuple[int, ...]]:
    """The elements to reduce along the first axis of the result.

    Returns:
        The rows; the shape of what is left; that shape with the axes that were reduced.
    """
    shape = _info(name, a).shape
    axes = axes_of(name, axis, len(shape))
    kept = [n for n in range(len(shape)) if n not in axes]
    left = tuple(shape[n] for n in kept)
    count = 1
    for n in axes:
        count *= shape[n]
    rows = xp.reshape(xp.permute_dims(a, (*axes, *kept)), (count, *left))
    return rows, left, _insert_axes(shape, axes)


def _last(rows: Array) -> Array:
    """The last row: where there is a NaN in a column, it is sorted to there."""
    return rows[-1, ...]


def ptp(xp: Namespace, a: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The greatest element over axes less the least one."""
    return xp.subtract(xp.max(a, axis=axis, keepdims=keepdims), xp.min(a, axis=axis, keepdims=keepdims))


def median(xp: Namespace, a: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The median over axes: the middle element in order, or the mean of the two; NaN where there is one."""
    rows, left, kept = _rows(xp, "median", a, axis)
    info = _info("median", a)
    _refuse_complex("median", info.dtype)
    count = _info("median", rows).shape[0]
    rows = xp.sort(rows, axis=0)
    found = xp.mean(rows[max(count - 1, 0) // 2 : count // 2 + 1, ...], axis=0)
    if count and _is_inexact(info):
        found = xp.where(xp.isnan(_last(rows)), xp.nan, found)
    return xp.reshape(found, kept if keepdims else left)


def nanmedian(xp: Namespace, a: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The median over axes of what is not NaN; NaN where there is nothing else."""
    info = _info("nanmedian", a)
    if not info.size:
        return nanmean(xp, a, axis, keepdims=keepdims)
    if not _is_inexact(info):
        return median(xp, a, axis, keepdims=keepdims)
    rows, left, kept = _rows(xp, "nanmedian", a, axis)
    _refuse_complex("nanmedian", info.dtype)
    count = _count(xp, rows, 0, keepdims=True)
    rows = xp.sort(rows, axis=0)
    middle = [xp.floor_divide(xp.subtract(count, 1), 2), xp.floor_divide(count, 2)]
    pair = xp.concat([_at(xp, rows, xp.maximum(each, 0)) for each in middle], axis=0)
    found = xp.where(xp.equal(count, 0), xp.nan, xp.mean(pair, axis=0, keepdims=True))
    return xp.reshape(found, kept if keepdims else left)


def _at(xp: Namespace, rows: Array, places: Array) -> Array:
    """The elements at a row's positions of every column, as one row."""
    if len(_info("take", rows).shape) == 1:
        return xp.take(rows, _flat(xp, places), axis=0)
    return xp.take_along_axis(rows, places, axis=0)


# Where a quantile lies among n sorted elements: R. J. Hyndman and Y. Fan, Sample Quantiles in Statistical Packages,
# The American Statistician 50 (1996) 361, and NumPy's others. `xp` is NumPy where all columns have as many elements.


def _between(alpha: float, beta: float) -> Function:
    return lambda xp, n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _straight(_: Any, n: Any, q: Any) -> Any:
    return (n - 1) * q


def _middle(xp: Any, n: Any, q: Any) -> Any:
    at = (n - 1) * q
    return (xp.floor(at) + xp.ceil(at)) * 0.5


_FRACTIONS: dict[str, Function] = {
    "averaged_inverted_cdf": lambda xp, n, q: n * q - 1, "interpolated_inverted_cdf": _between(0, 1),
    "hazen": _between(0.5, 0.5), "weibull": _between(0, 0), "linear": _straight,
    "median_unbiased": _between(1 / 3.0, 1 / 3.0), "normal_unbiased": _between(3 / 8.0, 3 / 8.0), "midpoint": _middle,
}  # fmt: skip
"""Methods whose position lies between two elements, of which a mean is made."""


def _step(xp: Any, at: Any, stays: Function) -> Any:
    low = xp.floor(at)
    return xp.where(stays(xp, at - low, low), low, low + 1)


_PLACES: dict[str, Function] = {
    "inverted_cdf": lambda xp, n, q: _step(xp, n * q - 1, lambda xp, part, low: xp.equal(part, 0)),
    "closest_observation": lambda xp, n, q: _step(
        xp, n * q - 1 - 0.5,
        lambda xp, part, low: xp.logical_and(xp.equal(part, 0), xp.equal(xp.remainder(low, 2), 1)),
    ),
    "lower": lambda xp, n, q: xp.floor((n - 1) * q), "higher": lambda xp, n, q: xp.ceil((n - 1) * q),
    "nearest": lambda xp, n, q: xp.round((n - 1) * q),
}  # fmt: skip
"""Methods that choose an element."""

Method: TypeAlias = Literal[
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
]  # fmt: skip


def _share(method: str, xp: Any, at: Any, low: Any) -> Any:
    """The share of the upper one of two elements."""
    part = at - low
    if method == "averaged_inverted_cdf":
        return xp.where(xp.equal(part, 0), 0.5, xp.ones_like(part))
    if method == "midpoint":
        return xp.where(xp.equal(xp.remainder(at, 1), 0), 0.0, xp.full_like(part, 0.5))
    return part


def _make_quantile(name: str, doc: str) -> Function:
    def find(
        xp: Namespace, a: Array, q: Any, axis: Axis = None, *, method: Method = "linear", keepdims: bool = False
    ) -> Array:
        return _quantiles(xp, name, a, q, axis, method, keepdims=keepdims)

    return _set_name(name, find, doc)


quantile = _make_quantile(
    "quantile",
    "Quantiles over axes; those of several ``q`` from 0 to 1 along a new first axis. NaN where there is a NaN.",
)
percentile = _make_quantile("percentile", "Quantiles over axes, as `quantile`, for ``q`` from 0 to 100.")
nanquantile = _make_quantile(
    "nanquantile", "Quantiles over axes of what is not NaN, as `quantile`; NaN where there is nothing else."
)
nanpercentile = _make_quantile(
    "nanpercentile", "Quantiles over axes of what is not NaN, as `percentile`; NaN where there is nothing else."
)


def _quantiles(xp: Namespace, name: str, a: Array, given: Any, axis: Axis, method: str, *, keepdims: bool) -> Array:
    is_weak = type(given) in (int, float)
    q = _to_host(given)
    q = q if dtypes.is_numpys(q.dtype) else q.astype(np.float32)
    q = np.true_divide(q, 100, out=...) if "percent" in name else q
    info = _info(name, a)
    _refuse_complex(name, info.dtype)
    choice(method, (*_PLACES, *_FRACTIONS), f"{name}: method")
    if q.ndim > 1:
        raise LayoutError(f"{name}: q has {q.ndim} axes; give a number or a list of them")
    if q.dtype.kind not in "biuf" or not bool(np.all((q >= 0) & (q <= 1))):
        raise ArgumentError(f"{name}: q is not from 0 to {100 if 'percent' in name else 1}; give numbers in that range")
    if not info.size and name.startswith("nan"):  # as NumPy, also where there are several q
        return nanmean(xp, a, axis, keepdims=keepdims)
    rows, left, kept = _rows(xp, name, a, axis)
    if not _info(name, rows).shape[0]:
        raise LayoutError(f"{name}: there is no element along axis={axis} of shape {info.shape}; give one or more")
    rows = xp.sort(rows, axis=0)
    found = (_each_count if name.startswith("nan") and _is_inexact(info) else _one_count)(
        xp, rows, q.reshape(-1), method, is_weak=is_weak
    )
    return xp.reshape(found, (*q.shape, *(kept if keepdims else left)))


def _is_choice(method: str, q: HostArray) -> bool:
    """Whether quantiles are elements: those between would be NaN beside an infinite one."""
    return method in _PLACES or (method == "linear" and q.dtype.kind in "iu")


def _one_count(xp: Namespace, rows: Array, q: HostArray, method: str, *, is_weak: bool) -> Array:
    """Quantiles of columns that all count: positions are known on the host."""
    info = _info("quantile", rows)
    count = info.shape[0]
    if _is_choice(method, q):
        at = np.asarray((_PLACES.get(method) or _FRACTIONS[method])(np, count, q)).astype(_INDEX)
        found = xp.take(rows, _on_device(xp, np.maximum(at, 0), rows), axis=0)
    else:
        at = _FRACTIONS[method](np, count, q)
        low = np.where(at < 0, 0, np.floor(at))
        inside = (at >= 0) & (at < count - 1)
        low = np.where(at >= count - 1, -1, low)
        share = np.asarray(_share(method, np, at, low), at.dtype)
        places = low.astype(_INDEX), np.where(inside, low + 1, low).astype(_INDEX)
        ends = [xp.take(rows, _on_device(xp, each % count, rows), axis=0) for each in places]
        if is_weak:  # a number of Python's, which takes the dtype of the elements
            found = _interpolate(xp, ends[0], ends[1], float(share[0]), float(1 - share[0]), bool(share[0] >= 0.5))
        else:
            shares = share.reshape((-1, *(1,) * (len(info.shape) - 1)))
            parts = [_on_device(xp, each, rows) for each in (shares, 1 - shares, shares >= 0.5)]
            found = _interpolate(xp, ends[0], ends[1], parts[0], parts[1], parts[2])
    if _is_inexact(info):
        found = xp.where(xp.isnan(_last(rows)), xp.nan, found)
    return found


def _interpolate(xp: Namespace, low: Array, high: Array, share: Any, rest: Any, is_upper: Any) -> Array:
    """Between two elements, ``share`` from the lower one and ``rest`` from the upper: counted from the nearer one."""
    distance = xp.subtract(high, low)
    upper = is_upper if is_upper is False else xp.subtract(high, xp.multiply(distance, rest))
    lower = is_upper if is_upper is True else xp.add(low, xp.multiply(distance, share))
    return upper if is_upper is True else lower if is_upper is False else xp.where(is_upper, upper, lower)


def _each_count(xp: Namespace, rows: Array, q: HostArray, method: str, *, is_weak: bool) -> Array:
    """Quantiles of columns of which each has its own number of elements: positions are computed on the device."""
    info = _info("quantile", rows)
    elements = _count(xp, rows, 0, keepdims=True)
    is_empty = xp.equal(elements, 0)
    kind = np.result_type(q.dtype, np.float32 if q.dtype == np.float32 else _FLOAT)
    last = xp.maximum(xp.subtract(elements, 1), 0)
    found = []
    for each in q:
        at = (_PLACES.get(method) or _FRACTIONS[method])(xp, _cast(xp, elements, kind), float(each))
        low = xp.minimum(_cast(xp, xp.maximum(xp.floor(at), 0.0), _INDEX), last)
        if _is_choice(method, q):
            found.append(_at(xp, rows, low))
            continue
        high = xp.where(xp.less(at, 0), 0, xp.minimum(xp.add(low, 1), last))
        share = _share(method, xp, at, xp.floor(at))
        own = info.dtype if is_weak else kind  # a number of Python's takes the dtype of the elements
        part, rest = _cast(xp, share, own), _cast(xp, xp.subtract(1.0, share), own)
        ends = _at(xp, rows, low), _at(xp, rows, high)
        found.append(_interpolate(xp, ends[0], ends[1], part, rest, xp.greater_equal(share, 0.5)))
    return xp.where(is_empty, xp.nan, xp.concat(found, axis=0))


def average(
    xp: Namespace, a: Array, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """The mean over axes, weighted if there are weights; with ``returned`` also the sums of the weights.

    Weights have the shape of ``a``, or of its axes that are averaged. Where their sum is 0 the result is not finite.
    """
    info = _info("average", a)
    if weights is None:
        found = xp.mean(a, axis=axis, keepdims=keepdims)
        sizes = _info("average", found).shape
        share = float(info.size // max(int(np.prod(sizes)), 1))
        return (found, xp.full_like(found, share)) if returned else found
    own = _info("average", weights)
    dtype = np.result_type(info.dtype, own.dtype, *([_FLOAT] if info.dtype.kind in "biu" else []))
    if own.shape != info.shape:
        if axis is None:
            raise LayoutTypeError(f"average: weights of shape {own.shape} for {info.shape}; give axis=")
        given = axis if isinstance(axis, tuple) else (axis,)
        axes = axes_of("average", given, len(info.shape))
        if own.shape != tuple(info.shape[n] for n in axes):
            raise LayoutError(f"average: weights of shape {own.shape} do not fit axis={axis} of {info.shape}")
        weights = xp.permute_dims(weights, tuple(int(n) for n in np.argsort(axes)))
        weights = xp.reshape(weights, tuple(each if n in axes else 1 for n, each in enumerate(info.shape)))
    weights = xp.broadcast_to(_cast(xp, weights, dtype), info.shape)
    total = xp.sum(weights, axis=axis, keepdims=keepdims)
    found = xp.divide(xp.sum(xp.multiply(_cast(xp, a, dtype), weights), axis=axis, keepdims=keepdims), total)
    return (found, total) if returned else found


# --- comparisons


def isclose(xp: Namespace, a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Array:
    """Whether ``abs(a - b) <= atol + rtol * abs(b)``, or both are equal; with ``equal_nan`` both NaN as well."""
    _info_of_some("isclose", a, b)
    if _is_array(b):
        b = _cast(xp, b, np.result_type(_info("isclose", b).dtype, 1.0))
        bound, is_finite = xp.add(xp.multiply(xp.abs(b), rtol), atol), xp.isfinite(b)
    else:
        b = b if isinstance(b, (complex, np.generic)) else float(b)
        bound, is_finite = abs(b) * rtol + atol, bool(np.isfinite(b))
    near = xp.less_equal(xp.abs(xp.subtract(a, b)), bound)
    found = xp.logical_or(xp.logical_and(near, is_finite), xp.equal(a, b))
    if not equal_nan:
        return found
    return xp.logical_or(found, xp.logical_and(xp.not_equal(a, a), xp.not_equal(b, b)))


def allclose(xp: Namespace, a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as `isclose`; waits for the answer."""
    return bool(_to_host(xp.all(isclose(xp, a, b, rtol, atol, equal_nan))))


def array_equal(xp: Namespace, a1: Array, a2: Array, equal_nan: bool = False) -> bool:
    """Whether two arrays have one shape and equal elements; waits for the answer."""
    if _info("array_equal", a1).shape != _info("array_equal", a2).shape:
        return False
    found = xp.equal(a1, a2)
    if equal_nan:
        found = xp.logical_or(found, xp.logical_and(xp.not_equal(a1, a1), xp.not_equal(a2, a2)))
    return bool(_to_host(xp.all(found)))


# --- positions


def flatnonzero(xp: Namespace, a: Array) -> Array:
    """The positions, in C order, of elements that are not 0; waits for their number."""
    _info("flatnonzero", a)
    return xp.nonzero(_flat(xp, a))[0]


def argwhere(xp: Namespace, a: Array) -> Array:
    """The indices of elements that are not 0, one row each; waits for their number."""
    info = _info("argwhere", a)
    found = xp.nonzero(a if info.shape else xp.reshape(a, (1,)))
    return xp.stack(found, axis=1) if info.shape else xp.reshape(found[0], (-1, 1))[:, :0]


# --- shapes


def _at_least(ndim: int, name: str, doc: str) -> Function:
    def at_least(xp: Namespace, *arys: Array) -> Any:
        found = tuple(_with_axes(xp, name, each, ndim) for each in arys)
        return found[0] if len(found) == 1 else found

    return _set_name(name, at_least, doc)


def _with_axes(xp: Namespace, name: str, x: Array, ndim: int) -> Array:
    shape = _info(name, x).shape
    if len(shape) >= ndim:
        return x
    if ndim == 3:  # a vector lies along the second axis, a matrix along the first two
        return xp.reshape(x, {0: (1, 1, 1), 1: (1, *shape, 1)}.get(len(shape), (*shape, 1)))
    return xp.reshape(x, (*(1,) * (ndim - len(shape)), *shape))


atleast_1d = _at_least(1, "atleast_1d", "Arrays with one axis or more; a number becomes one element.")
atleast_2d = _at_least(2, "atleast_2d", "Arrays with two axes or more; a vector becomes one row.")
atleast_3d = _at_least(3, "atleast_3d", "Arrays with three axes or more; a vector lies along the second one.")


def hstack(xp: Namespace, tup: Sequence[Array]) -> Array:
    """Join arrays along the second axis, vectors along their only one."""
    found = [_with_axes(xp, "hstack", each, 1) for each in tup]
    is_flat = bool(found) and len(_info("hstack", found[0]).shape) == 1
    return xp.concat(found, axis=0 if is_flat else 1)


def vstack(xp: Namespace, tup: Sequence[Array]) -> Array:
    """Join arrays along the first axis, vectors as rows."""
    return xp.concat([_with_axes(xp, "vstack", each, 2) for each in tup], axis=0)


def dstack(xp: Namespace, tup: Sequence[Array]) -> Array:
    """Join arrays along the third axis."""
    return xp.concat([_with_axes(xp, "dstack", each, 3) for each in tup], axis=2)


def column_stack(xp: Namespace, tup: Sequence[Array]) -> Array:
    """Join matrices along the second axis, and vectors as columns."""
    shapes = [_info("column_stack", each).shape for each in tup]
    columns = [each if len(shape) > 1 else xp.reshape(each, (-1, 1)) for each, shape in zip(tup, shapes, strict=True)]
    return xp.concat(columns, axis=1)


def ravel(xp: Namespace, a: Array) -> Array:
    """The elements along one axis, in C order: a view where strides allow."""
    _info("ravel", a)
    return _flat(xp, a)


def swapaxes(xp: Namespace, a: Array, axis1: int, axis2: int) -> Array:
    """A view with two axes exchanged."""
    rank = len(_info("swapaxes", a).shape)
    order = [*range(rank)]
    one, two = axis_of("swapaxes", axis1, rank), axis_of("swapaxes", axis2, rank)
    order[one], order[two] = two, one
    return xp.permute_dims(a, tuple(order))


def transpose(xp: Namespace, a: Array, axes: Sequence[int] | None = None) -> Array:
    """A view with the axes in another order; reversed if none is given."""
    rank = len(_info("transpose", a).shape)
    return xp.permute_dims(a, tuple(reversed(range(rank))) if axes is None else tuple(axes))


def fliplr(xp: Namespace, m: Array) -> Array:
    """The elements in the opposite order along the second axis."""
    return xp.flip(m, axis=1)


def flipud(xp: Namespace, m: Array) -> Array:
    """The elements in the opposite order along the first axis."""
    return xp.flip(m, axis=0)


def rot90(xp: Namespace, m: Array, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """A quarter turn, ``k`` times, from the first of two axes towards the second."""
    one, two = axes_of("rot90", tuple(axes), len(_info("rot90", m).shape))
    turns = k % 4
    if turns == 0:
        return m
    if turns == 2:
        return xp.flip(m, axis=(one, two))
    return swapaxes(xp, xp.flip(m, axis=two), one, two) if turns == 1 else xp.flip(swapaxes(xp, m, one, two), axis=two)


def array_split(_: Namespace, ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Views of the parts along an axis: as many as a number says, nearly equal, or cut before given indices."""
    return _parts("array_split", ary, indices_or_sections, axis)


def split(_: Namespace, ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Views of equal parts along an axis, or of parts cut before given indices."""
    if isinstance(indices_or_sections, (int, np.integer)):
        shape = _info("split", ary).shape
        extent = shape[axis_of("split", axis, len(shape))]
        if indices_or_sections < 1 or extent % indices_or_sections:
            raise LayoutError(
                f"split: {extent} elements are not {indices_or_sections} equal parts; use array_split, or give indices"
            )
    return _parts("split", ary, indices_or_sections, axis)


def _parts(name: str, x: Array, cuts: Any, axis: int) -> list[Array]:
    shape = _info(name, x).shape
    along = axis_of(name, axis, len(shape))
    # NumPy finds the parts, of an array of this extent that has no memory of its own.
    parts = np.array_split(np.arange(shape[along]), cuts if isinstance(cuts, (int, np.integer)) else _to_host(cuts))
    before = (slice(None),) * along
    return [x[(*before, slice(int(each[0]), int(each[-1]) + 1) if len(each) else slice(0, 0), ...)] for each in parts]


def diag(xp: Namespace, v: Array, k: int = 0) -> Array:
    """A diagonal of a matrix, or the matrix with a vector on a diagonal."""
    info = _info("diag", v)
    if len(info.shape) == 2:
        return xp.linalg.diagonal(v, offset=k)
    if len(info.shape) != 1:
        raise LayoutError(f"diag: {len(info.shape)} axes; give a vector or a matrix")
    size = info.shape[0] + abs(k)
    found = xp.zeros((size, size), dtype=v.dtype, device=v.device)
    rows, columns = (max(-k, 0), max(k, 0))
    flat = _flat(xp, found)
    flat[slice(rows * size + columns, (rows + info.shape[0]) * size, size + 1)] = v
    return found


PadMode: TypeAlias = Literal["constant", "edge", "reflect", "symmetric", "wrap", "empty"]


def pad(xp: Namespace, array: Array, pad_width: Any, mode: PadMode = "constant", *, constant_values: Any = 0) -> Array:
    """The array within a margin: ``pad_width`` elements before and behind each axis, as `numpy.pad` reads it.

    The margin is a constant, or repeats elements: the one at the edge, those mirrored at it (``reflect``: without it,
    ``symmetric``: with it), those of the other end (``wrap``).
    """
    info = _info("pad", array)
    choice(mode, ("constant", "edge", "reflect", "symmetric", "wrap", "empty"), "pad: mode")
    widths = _pairs("pad_width", pad_width, len(info.shape), axes_may_be_named=True)
    if widths.dtype.kind not in "iu" or (widths < 0).any():
        raise ArgumentError(f"pad: pad_width={quote(pad_width)} is not integers from 0; give (before, behind)")
    given = _pairs("constant_values", _to_host(constant_values), len(info.shape))
    found = array
    for axis, (before, behind) in enumerate(widths.tolist()):
        if before == behind == 0:
            continue
        extent = info.shape[axis]
        if mode in ("constant", "empty"):
            shape = _info("pad", found).shape
            margins = [
                xp.full(
                    (*shape[:axis], width, *shape[axis + 1 :]), np.asarray(value).astype(info.dtype)[()],
                    dtype=array.dtype, device=array.device,
                )
                for width, value in zip((before, behind), given[axis], strict=True)
            ]  # fmt: skip
            found = xp.concat([margins[0], found, margins[1]], axis=axis)
        else:  # NumPy finds the elements: those of an array of positions
            options: Any = {"mode": mode}
            places = np.pad(np.arange(extent), (before, behind), **options)
            found = xp.take(found, _on_device(xp, places, found), axis=axis)
    return xp.asarray(array, copy=True) if found is array else found


def _pairs(what: str, given: Any, ndim: int, *, axes_may_be_named: bool = False) -> HostArray:
    """Two values for each axis, from one, a pair, or a list of pairs or of one for each axis."""
    if axes_may_be_named and isinstance(given, dict):
        found = np.zeros((ndim, 2), _INDEX)
        for axis, pair in given.items():
            found[axis_of("pad", axis, ndim)] = pair
        return found
    try:
        return np.broadcast_to(np.asarray(given), (ndim, 2))
    except ValueError:
        raise LayoutError(f"pad: {what}={quote(given)} does not give two values for each of {ndim} axes") from None


# --- counts


def histogram(
    xp: Namespace, a: Array, bins: Any = 10, range: tuple[float, float] | None = None,  # noqa: A002 - NumPy's name
    density: bool | None = None, weights: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """How many elements, or what sum of weights, is between edges; and the edges.

    ``bins`` is a number, or the edges in order. Waits for the least and greatest element where it is a number and
    there is no ``range``, and for edges that are an array of a device. The last bin has its upper edge.
    """
    info = _info("histogram", a)
    _refuse_complex("histogram", info.dtype)
    flat = _flat(xp, a)
    if isinstance(bins, str):
        raise ArgumentError(f"histogram: bins={quote(bins)} looks at all data; give a number of bins, or the edges")
    edges = _edges(xp, flat, info, bins, range)
    order = xp.argsort(flat)
    rows = xp.take(flat, order, axis=0)
    limits = _on_device(xp, edges, a)
    before = xp.searchsorted(rows, limits[:-1], side="left")
    behind = xp.searchsorted(rows, limits[-1:], side="right")
    places = xp.concat([before, behind])
    if weights is None:
        counts = xp.subtract(places[1:], places[:-1])
    else:
        own = _info("histogram", weights)
        if own.shape != info.shape:
            raise LayoutError(f"histogram: weights of shape {own.shape} for an array of {info.shape}; give as many")
        bin_of = xp.subtract(xp.searchsorted(places, _on_device(xp, np.arange(info.size), a), side="right"), 1)
        counts = _sums_of_runs(xp, bin_of, xp.take(_flat(xp, weights), order, axis=0), places)
    if not density:
        return counts, limits
    widths = _on_device(xp, np.asarray(np.diff(edges), _FLOAT), a)
    return xp.divide(xp.divide(counts, widths), xp.sum(counts)), limits


def _edges(xp: Namespace, flat: Array, info: ArrayInfo, bins: Any, limits: Any) -> HostArray:
    """The edges of bins, by NumPy's rules."""
    if _is_array(bins) or np.ndim(bins):
        edges = _to_host(bins)
        if edges.ndim != 1 or bool(np.any(edges[:-1] > edges[1:])):
            raise ArgumentError("histogram: the edges are not one row in rising order; sort them")
        return edges
    known = np.zeros(0, info.dtype)
    if limits is None and info.size:
        known = _to_host(xp.stack([xp.min(flat), xp.max(flat)]))
        known = known.astype(np.uint8) if known.dtype.kind == "b" else known
    return np.histogram_bin_edges(known, bins, limits)


def _sums_of_runs(xp: Namespace, keys: Array, values: Array, starts: Array) -> Array:
    """The sums of values over the runs of one key, which begin at ``starts`` and end before the next one.

    In doubling steps each element gets the sum of its run so far: a difference of running sums over all would carry
    the error, and an infinity, of one run into the next ones.
    """
    size = _info("sum", values).shape[0]
    count = _info("sum", starts).shape[0] - 1
    if not size:
        return xp.zeros((count,), dtype=values.dtype, device=values.device)
    step = 1
    while step < size:
        same = xp.equal(keys[step:], keys[:-step])
        added = xp.add(values[step:], values[:-step])
        values = xp.concat([values[:step], xp.where(same, added, values[step:])])
        step *= 2
    ends = xp.take(values, xp.maximum(xp.subtract(starts[1:], 1), 0), axis=0)
    return xp.where(xp.equal(starts[1:], starts[:-1]), 0, ends)


def bincount(xp: Namespace, x: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    """How often each integer from 0 occurs, or the sum of its weights; waits for the greatest one."""
    info = _info("bincount", x)
    if len(info.shape) != 1 or not np.can_cast(info.dtype, _INDEX, "safe"):
        raise LayoutTypeError(f"bincount: {info.dtype} of shape {info.shape}; give one row of integers up to int64")
    if minlength < 0:
        raise ArgumentError(f"bincount: minlength={quote(minlength)} is negative; give 0 or more")
    x = _cast(xp, x, _INDEX)
    least, most = _to_host(xp.stack([xp.min(x), xp.max(x)])).tolist() if info.size else (0, -1)
    if least < 0:
        raise ArgumentError(f"bincount: {least} is negative; give numbers from 0")
    count = max(most + 1, minlength)
    order = xp.argsort(x)
    rows = xp.take(x, order, axis=0)
    places = xp.searchsorted(rows, _on_device(xp, np.arange(count + 1), x), side="left")
    if weights is None or not info.size:  # NumPy's dtype for no numbers: that of the weights does not count
        return xp.subtract(places[1:], places[:-1])
    if _info("bincount", weights).shape != info.shape:
        raise LayoutError(f"bincount: weights of shape {_info('bincount', weights).shape} for {info.shape} numbers")
    return _sums_of_runs(xp, rows, xp.take(_cast(xp, weights, _FLOAT), order, axis=0), places)


def digitize(xp: Namespace, x: Array, bins: Any, right: bool = False) -> Array:
    """The number of the bin of each element, by edges in order; waits for edges that are an array of a device."""
    info, edges = _info("digitize", x), _to_host(bins)
    _refuse_complex("digitize", info.dtype)
    side = "left" if right else "right"
    if edges.ndim == 1 and bool(np.all(edges[:-1] <= edges[1:])):
        return xp.searchsorted(_on_device(xp, edges, x), x, side=side)
    if edges.ndim != 1 or not bool(np.all(edges[:-1] >= edges[1:])):
        raise ArgumentError("digitize: the edges are not one row in rising or falling order; sort them")
    found = xp.searchsorted(_on_device(xp, edges[::-1].copy(), x), x, side=side)
    return xp.subtract(len(edges), found)


def interp(
    ns: Namespace, x: Array, xp: Array, fp: Array, left: Any = None, right: Any = None, period: float | None = None
) -> Array:
    """Values at ``x`` of the lines between points ``xp``, in rising order, and ``fp``; beyond them ``left``, ``right``.

    With a ``period`` ``x`` and ``xp`` are taken modulo it. No ``x`` need no points, as in NumPy 2.5.
    """
    infos = [_info("interp", each) for each in (x, xp, fp)]
    if any(info.dtype.kind == "c" for info in infos[:2]):
        raise UnsupportedDTypeError("interp: complex x has no order; give real numbers")
    count = infos[1].shape[0] if len(infos[1].shape) == 1 else -1
    if infos[1].shape != infos[2].shape or count < min(infos[0].size, 1):
        raise LayoutError(f"interp: xp of shape {infos[1].shape} and fp of {infos[2].shape}; give one row of points")
    at, known = _cast(ns, x, _FLOAT), _cast(ns, xp, _FLOAT)
    values = _cast(ns, fp, np.result_type(infos[2].dtype, _FLOAT))
    if period is not None:
        if not period:
            raise ArgumentError("interp: period=0; give another one, or none")
        period = abs(float(period))
    if not infos[0].size:
        return ns.zeros(infos[0].shape, dtype=values.dtype, device=values.device)
    if period is not None:
        at, known = ns.remainder(at, period), ns.remainder(known, period)
        order = ns.argsort(known)
        known, values = ns.take(known, order, axis=0), ns.take(values, order, axis=0)
        known = ns.concat([ns.subtract(known[-1:], period), known, ns.add(known[:1], period)])
        values = ns.concat([values[-1:], values, values[:1]])
        count, left, right = count + 2, None, None
    place = ns.subtract(ns.searchsorted(known, _flat(ns, at), side="right"), 1)
    low = ns.maximum(ns.minimum(place, count - 2), 0)
    high = ns.minimum(ns.add(low, 1), count - 1)
    place = ns.maximum(place, 0)

    def pick(points: Array, places: Array) -> Array:
        return ns.reshape(ns.take(points, places, axis=0), infos[0].shape)

    one, two, f_one, f_two = pick(known, low), pick(known, high), pick(values, low), pick(values, high)
    slope = ns.divide(ns.subtract(f_two, f_one), ns.subtract(two, one))
    found = ns.add(ns.multiply(slope, ns.subtract(at, one)), f_one)
    again = ns.add(ns.multiply(slope, ns.subtract(at, two)), f_two)
    found = ns.where(ns.isnan(found), again, found)
    found = ns.where(ns.logical_and(ns.isnan(found), ns.equal(f_one, f_two)), f_one, found)
    own, exact = pick(known, place), pick(values, place)
    found = ns.where(ns.logical_or(ns.equal(own, at), ns.greater_equal(at, ns.max(known))), exact, found)
    ends = [values[0] if left is None else left, values[count - 1] if right is None else right]
    found = ns.where(ns.less(at, known[0]), ends[0], found)
    found = ns.where(ns.greater(at, known[count - 1]), ends[1], found)
    return found if count == 1 else ns.where(ns.isnan(at), at, found)


# --- sums of products


def dot(xp: Namespace, a: Any, b: Any) -> Array:
    """The sums of products over the last axis of ``a`` and the last but one, or the only one, of ``b``."""
    ranks = [0 if np.isscalar(each) else len(_info("dot", each).shape) for each in (a, b)]
    if 0 in ranks:
        return xp.multiply(a, b)
    return xp.tensordot(a, b, axes=((ranks[0] - 1,), (max(ranks[1] - 2, 0),)))


def inner(xp: Namespace, a: Any, b: Any) -> Array:
    """The sums of products over the last axes."""
    ranks = [0 if np.isscalar(each) else len(_info("inner", each).shape) for each in (a, b)]
    if 0 in ranks:
        return xp.multiply(a, b)
    return xp.tensordot(a, b, axes=((ranks[0] - 1,), (ranks[1] - 1,)))


def vdot(xp: Namespace, a: Array, b: Array) -> Array:
    """The sum of products of all elements, the first conjugated."""
    one = xp.conj(a) if _info("vdot", a).dtype.kind == "c" else a
    return xp.tensordot(_flat(xp, one), _flat(xp, b), axes=1)


def kron(xp: Namespace, a: Array, b: Array) -> Array:
    """Kronecker's product: ``b`` times each element of ``a``, in its place."""
    one, two = _info("kron", a).shape, _info("kron", b).shape
    rank = max(len(one), len(two))
    one, two = ((*(1,) * (rank - len(each)), *each) for each in (one, two))
    spread = xp.multiply(
        xp.reshape(a, tuple(extent for each in one for extent in (each, 1))),
        xp.reshape(b, tuple(extent for each in two for extent in (1, each))),
    )
    return xp.reshape(spread, tuple(x * y for x, y in zip(one, two, strict=True)))


def trapezoid(xp: Namespace, y: Array, x: Array | None = None, dx: float = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by the trapezoidal rule, at points ``x`` or ``dx`` apart."""
    rank = len(_info("trapezoid", y).shape)
    along = axis_of("trapezoid", axis, rank)
    step: Any = dx
    if x is not None:
        own = len(_info("trapezoid", x).shape)
        step = xp.diff(x, axis=0 if own == 1 else axis)
        if own == 1:
            step = xp.reshape(step, tuple(-1 if n == along else 1 for n in range(rank)))
    head = (slice(None),) * along
    pairs = xp.add(y[(*head, slice(1, None), ...)], y[(*head, slice(None, -1), ...)])
    return xp.sum(xp.divide(xp.multiply(step, pairs), 2.0), axis=along)


def einsum(xp: Namespace, subscripts: str, *operands: Array, optimize: Any = False) -> Array:  # noqa: ARG001 - NumPy's
    """Sums of products by Einstein's convention, such as ``"ij,jk->ik"``.

    Operands are multiplied from the left, two at a time, as stacks of matrices; ``optimize`` is taken and has no
    effect: give the operands in the best order.
    """
    if not isinstance(subscripts, str):
        raise LayoutTypeError("einsum: the first argument is not a text of subscripts; write them as 'ij,jk->ik'")
    infos = [_info("einsum", each) for each in operands]
    inputs, output = _read_subscripts(subscripts, [info.shape for info in infos])
    extents: dict[str, int] = {}
    for names, info in zip(inputs, infos, strict=True):
        for name, extent in zip(names, info.shape, strict=True):
            if extents.setdefault(name, extent) != extent:
                if 1 not in (extents[name], extent):
                    raise LayoutError(
                        f"einsum: axis {name!r} of {quote(subscripts)} has {extents[name]} and {extent} elements"
                    )
                extents[name] = max(extents[name], extent)
    dtype = np.result_type(*(info.dtype for info in infos))
    is_bool = dtype.kind == "b"  # of which a sum says whether there is one
    parts = [_cast(xp, each, _INDEX if is_bool else dtype) for each in operands]
    terms = [_reduce_term(xp, part, names, extents) for part, names in zip(parts, inputs, strict=True)]
    part, names = terms[0]
    for number, (other, other_names) in enumerate(terms[1:], start=1):
        later = {name for _, each in terms[number + 1 :] for name in each} | set(output)
        part, names = _contract(xp, part, names, other, other_names, later)
    spare = tuple(n for n, name in enumerate(names) if name not in output)
    if spare:
        part = xp.sum(part, axis=spare, dtype=part.dtype)
        names = "".join(name for name in names if name in output)
    part = xp.permute_dims(part, tuple(names.index(name) for name in output)) if len(output) > 1 else part
    return xp.not_equal(part, 0) if is_bool else part


def _read_subscripts(text: str, shapes: list[tuple[int, ...]]) -> tuple[list[str], str]:
    """The names of the axes of each operand, and of the result; those behind ``...`` get free letters."""
    wrong = f"einsum: {quote(text)} of {len(shapes)} arrays"
    left, arrow, right = text.replace(" ", "").partition("->")
    given = left.split(",")
    letters = set(text) & set(string.ascii_letters)
    if set(left) - letters - set(",.") or set(right) - letters - {"."} or len(given) != len(shapes):
        raise ArgumentError(f"{wrong}: write letters for axes, a comma between arrays, and '->' before the result")
    free = [each for each in string.ascii_letters if each not in letters]
    broadcast, found = "", []
    for names, shape in zip(given, shapes, strict=True):
        before, dots, behind = names.partition("...")
        rest = len(shape) - len(before) - len(behind)
        if "." in before + behind or rest < 0 or (rest and not dots):
            raise LayoutError(f"{wrong}: {names!r} does not name the axes of shape {shape}")
        middle = "".join(free[:rest][::-1])  # the last of them is the same letter everywhere
        broadcast = max(broadcast, middle, key=len)
        found.append(before + middle + behind)
    named = "".join(found)
    if not arrow:
        single = sorted(each for each in set(named) if named.count(each) == 1 and each not in broadcast)
        return found, broadcast + "".join(single)
    output = right.replace("...", broadcast, 1)
    if "." in output or len(set(output)) < len(output) or set(output) - set(named):
        raise ArgumentError(f"{wrong}: the result names an axis twice, or one that no array has")
    return found, output


def _reduce_term(xp: Namespace, x: Array, names: str, extents: dict[str, int]) -> tuple[Array, str]:
    """An operand with one axis for each name: the diagonal of those that are named twice."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            rest = [n for n in range(len(names)) if n not in (first, second)]
            x = xp.linalg.diagonal(xp.permute_dims(x, (*rest, first, second)))
            names = "".join(names[n] for n in rest) + name
    shape = tuple(extents[name] for name in names)
    return xp.broadcast_to(x, shape), names


def _contract(
    xp: Namespace, x: Array, one: str, y: Array, two: str, later: set[str]
) -> tuple[Array, str]:  # fmt: skip
    """The product of two terms, summed over the axes that are not needed later: one product of stacks of matrices."""
    x, one = _drop_axes(xp, x, one, {name for name in one if name not in two and name not in later})
    y, two = _drop_axes(xp, y, two, {name for name in two if name not in one and name not in later})
    stack = [name for name in one if name in two and name in later]
    inner_names = [name for name in one if name in two and name not in later]
    rows = [name for name in one if name not in two]
    columns = [name for name in two if name not in one]
    size = dict(zip(one, _info("einsum", x).shape, strict=True)) | dict(zip(two, _info("einsum", y).shape, strict=True))

    def product(names: Sequence[str]) -> int:
        return math.prod(size[name] for name in names)

    left = xp.permute_dims(x, tuple(one.index(name) for name in (*stack, *rows, *inner_names))) if one else x
    right = xp.permute_dims(y, tuple(two.index(name) for name in (*stack, *inner_names, *columns))) if two else y
    batch = tuple(size[name] for name in stack)
    names = "".join((*stack, *rows, *columns))
    shape = tuple(size[name] for name in names)
    if not inner_names:
        left = xp.reshape(left, (*batch, product(rows), 1))
        right = xp.reshape(right, (*batch, 1, product(columns)))
        return xp.reshape(xp.multiply(left, right), shape), names
    left = xp.reshape(left, (*batch, product(rows), product(inner_names)))
    right = xp.reshape(right, (*batch, product(inner_names), product(columns)))
    return xp.reshape(xp.matmul(left, right), shape), names


def _drop_axes(xp: Namespace, x: Array, names: str, spare: set[str]) -> tuple[Array, str]:
    if not spare:
        return x, names
    places = tuple(n for n, name in enumerate(names) if name in spare)
    return xp.sum(x, axis=places, dtype=x.dtype), "".join(name for name in names if name not in spare)


FUNCTIONS: tuple[Function, ...] = (
    allclose, argwhere, array_equal, array_split, atleast_1d, atleast_2d, atleast_3d, average, bincount, column_stack,
    diag, digitize, dot, dstack, einsum, flatnonzero, fliplr, flipud, histogram, hstack, inner, interp, isclose, kron,
    median, nan_to_num, nanargmax, nanargmin, nancumprod, nancumsum, nanmax, nanmean, nanmedian, nanmin, nanpercentile,
    nanprod, nanquantile, nanstd, nansum, nanvar, pad, percentile, ptp, quantile, ravel, rot90, split, swapaxes,
    transpose, trapezoid, vdot, vstack,
)  # fmt: skip
"""All of them, by the names of NumPy's."""


def bind(namespace: Namespace) -> dict[str, Function]:
    """The functions of a namespace, which has those of the Array API."""
    return {each.__name__: bind_first(namespace, each) for each in FUNCTIONS}


def bind_first(first: Any, function: Function) -> Function:
    """``function`` without its first parameter, the library or the namespace."""

    @functools.wraps(function)
    def bound(*args: Any, **options: Any) -> Any:
        return function(first, *args, **options)

    parameters = [*inspect.signature(function).parameters.values()][1:]
    vars(bound)["__signature__"] = inspect.Signature(parameters)
    del bound.__wrapped__
    return bound
