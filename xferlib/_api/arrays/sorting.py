"""Order: a merge sort whose passes are element-wise kernels, and searches in sorted arrays.

In one pass each element of a run finds, by a binary search in the neighbouring run, how many elements of that one come
before it: this is its position in the merged run. Equal elements keep their order, so the sort is stable. NaN comes
last, as in NumPy. Where there is a vendor's library, it sorts long rows: see `radix`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xferlib._api.arrays import radix, shaping
from xferlib._api.arrays.primitives import Primitives
from xferlib._api.arrays.selecting import INDEX, gather
from xferlib._core.array import Array
from xferlib._core.layout import axis_of
from xferlib._runtime.checks import choice, flag
from xferlib.errors import KernelTypeError, LayoutError
from xferlib.kernels import ElementwiseKernel, elementwise

_STEP = 4
"""Searches are written out in kernels, for numbers of steps that are multiples of this."""


def _before(a: str, b: str, *, kind: str, descending: bool) -> str:
    """The C expression for ``a`` before ``b``, of a dtype of that kind: NaN last, or first in descending order.

    Complex numbers are ordered as NumPy does it: by the number of their NaNs, a real one counting twice, then by their
    real and their imaginary parts.
    """
    if descending:
        a, b = b, a
    if kind == "f":
        return f"({a} < {b} || ({b} != {b} && {a} == {a}))"
    if kind != "c":
        return f"({a} < {b})"
    x, y, u, w = (f"{each}.{part}()" for each in (a, b) for part in ("real", "imag"))
    one, two = f"(2 * ({x} != {x}) + ({y} != {y}))", f"(2 * ({u} != {u}) + ({w} != {w}))"
    return f"({one} < {two} || ({one} == {two} && ({x} < {u} || (!({u} < {x}) && {y} < {w}))))"


def _search(goes: str, steps: int) -> str:
    """The statements that raise ``low`` to the first position, below ``high``, whose element does not go before."""
    middle = "long long at = (low + high) / 2; T other = x[row + at];"
    turn = f"if (low < high) {{ {middle} if ({goes}) {{ low = at + 1; }} else {{ high = at; }} }}"
    return f"for (int t = 0; t < {steps}; ++t) {{ {turn} }}"


def _steps(extent: int) -> int:
    """The steps of a search among ``extent`` elements, rounded up, so that there are few kernels."""
    return max(-(-extent.bit_length() // _STEP), 1) * _STEP


# --- sorting


@functools.cache
def _merge_kernel(steps: int, *, kind: str, descending: bool, is_indexed: bool) -> ElementwiseKernel:
    """One pass: pairs of sorted runs of ``width`` elements, in rows of ``extent``, become runs twice as wide."""
    first = _before("other", "v", kind=kind, descending=descending)
    second = _before("v", "other", kind=kind, descending=descending)
    lines = [
        "long long row = i / extent * extent, column = i % extent, start = column / (2 * width) * (2 * width);",
        "bool is_left = column - start < width;",
        "long long low = is_left ? start + width : start, high = is_left ? start + 2 * width : start + width;",
        "if (low > extent) { low = extent; } if (high > extent) { high = extent; }",
        "long long from = low;",
        _search(f"is_left ? {first} : !{second}", steps),
        "long long to = row + (is_left ? column : column - width) + (low - from);",
        "y[to] = v;",
        "q[to] = p;" if is_indexed else "",
    ]
    inputs, outputs = "raw T x, T v, int64 width, int64 extent", "raw T y"
    if is_indexed:
        inputs, outputs = f"{inputs}, int64 p", f"{outputs}, raw int64 q"
    return elementwise(inputs, outputs, " ".join(lines), name="argsort" if is_indexed else "sort")


def _sort_on_host(x: Any, found: Any, order: Any = None, *, descending: bool) -> None:
    """Sort along the last axis with NumPy, as the kernels do: equal elements keep their order in both directions."""
    given = x[..., ::-1] if descending else x
    if order is None:
        rows = np.sort(given, axis=-1, kind="stable")
        found[...] = rows[..., ::-1] if descending else rows
        return
    places = np.argsort(given, axis=-1, kind="stable")
    order[...] = x.shape[-1] - 1 - places[..., ::-1] if descending else places
    found[...] = np.take_along_axis(x, order, axis=-1)


def _sorted(lib: Primitives, x: Array, *, descending: bool, is_indexed: bool) -> tuple[Array, Array | None]:
    """The elements in order along the last axis, and the positions from which they come."""
    info = lib.info(x)
    targets = [lib.empty(info.shape, dtype, info.device) for dtype in (info.dtype, INDEX)[: 1 + is_indexed]]
    sort_rows = functools.partial(_sort_on_host, descending=descending)
    if not info.size or lib.on_host("sort", sort_rows, [x], targets):
        return targets[0], targets[1] if is_indexed else None
    if radix.suits(lib, info, descending=descending, is_indexed=is_indexed):
        return radix.sort(lib, x, descending=descending, is_indexed=is_indexed)
    extent, width = info.shape[-1], 1
    rows, order = lib.copy(x), radix.numbered(lib, info.shape, info.device) if is_indexed else None
    while width < extent:
        kernel = _merge_kernel(_steps(width), kind=info.dtype.kind, descending=descending, is_indexed=is_indexed)
        found = lib.empty(info.shape, info.dtype, info.device)
        if order is None:
            kernel(rows, rows, width, extent, found)
        else:
            places = lib.empty(info.shape, INDEX, info.device)
            kernel(rows, rows, width, extent, order, found, places)
            order = places
        rows, width = found, 2 * width
    return rows, order


def _last(lib: Primitives, name: str, x: Any, axis: int) -> tuple[Array, int]:
    """The array with ``axis`` moved to the end."""
    x = lib.array(name, x)
    info = lib.info(x)
    along = axis_of(name, axis, len(info.shape))
    return shaping.moveaxis(lib, x, along, -1), along


def sort(
    lib: Primitives,
    x: Array,
    /,
    axis: int = -1,
    *,
    descending: bool = False,
    stable: bool = True,  # it always is
) -> Array:
    """The elements in order along an axis."""
    moved, along = _last(lib, "sort", x, axis)
    flag(stable, "sort: stable")
    found, _ = _sorted(lib, moved, descending=flag(descending, "sort: descending"), is_indexed=False)
    return shaping.moveaxis(lib, found, -1, along)


def argsort(
    lib: Primitives,
    x: Array,
    /,
    axis: int = -1,
    *,
    descending: bool = False,
    stable: bool = True,  # it always is
) -> Array:
    """The indices that sort the elements along an axis; equal elements keep their order."""
    moved, along = _last(lib, "argsort", x, axis)
    flag(stable, "argsort: stable")
    return shaping.moveaxis(lib, ordered(lib, moved, descending=flag(descending, "argsort: descending"))[1], -1, along)


def ordered(lib: Primitives, x: Array, *, descending: bool = False) -> tuple[Array, Array]:
    """The elements in order along the last axis, and the positions from which they come."""
    found, order = _sorted(lib, x, descending=descending, is_indexed=True)
    assert order is not None
    return found, order


# --- searching


@functools.cache
def _search_kernel(steps: int, *, kind: str, is_right: bool) -> ElementwiseKernel:
    goes = _before("other", "v", kind=kind, descending=False)
    if is_right:
        goes = "!" + _before("v", "other", kind=kind, descending=False)
    lines = ["long long row = 0, low = 0, high = extent;", _search(goes, steps), "y = low;"]
    return elementwise("raw T x, T v, int64 extent", "int64 y", " ".join(lines), name="searchsorted")


def searchsorted(
    lib: Primitives, x1: Array, x2: Array, /, side: str = "left", sorter: Array | None = None
) -> Array:  # fmt: skip
    """The indices at which the elements of ``x2`` belong in the sorted ``x1``."""
    choice(side, ("left", "right"), "searchsorted: side")
    given = [lib.array("searchsorted", each) for each in (x1, x2)]
    infos = lib.infos("searchsorted", given)
    if len(infos[0].shape) != 1:
        raise LayoutError(f"searchsorted: x1 has {len(infos[0].shape)} axes, and one is needed; reshape it")
    if sorter is not None:
        order = lib.array("searchsorted", sorter)
        if (found := lib.info(order).dtype).kind not in "iu":
            raise KernelTypeError(f"searchsorted: sorter has dtype {found}, and must be integers; convert it")
        given[0] = gather(lib, given[0], [order])
    common = np.result_type(*(info.dtype for info in infos))
    known, wanted = (
        each if info.dtype == common else lib.copy(each, common) for each, info in zip(given, infos, strict=True)
    )
    out = lib.empty(infos[1].shape, INDEX, infos[1].device)
    if infos[1].size:
        extent = infos[0].shape[0]
        _search_kernel(_steps(extent), kind=common.kind, is_right=side == "right")(known, wanted, extent, out)
    return out
