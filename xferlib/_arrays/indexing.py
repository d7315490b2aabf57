"""Indexing, gathering and scattering: views where NumPy has views, kernels otherwise; running sums, which they use."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._api import transfers
from xferlib._arrays import primitives
from xferlib._arrays.primitives import (
    READ_ONLY,
    KernelPlan,
    Primitives,
    Shape,
    binary_kernel,
    where_kernel,
    with_array,
)
from xferlib._core.arrays import Array, check_conversion, number
from xferlib._core.device import Device
from xferlib.errors import ArgumentError, KernelTypeError, LayoutError, UnsupportedArrayError
from xferlib.kernels import ElementwiseKernel, cuda_arrays, elementwise
from xferlib.kernels.arguments import is_scalar
from xferlib.kernels.scan import scan_rows

# Running sums and products, in the order of `xferlib.kernels.scan`. On a GPU one kernel does it: see `cuda_arrays`.

HostArray = np.ndarray[Any, Any]


def _multiply_complex(a: HostArray, b: HostArray) -> HostArray:
    """The products as all engines compute them: NumPy's, by instructions that some processors have, round otherwise."""
    found = np.empty_like(a)
    found.real = a.real * b.real - a.imag * b.imag
    found.imag = a.real * b.imag + a.imag * b.real
    return found


@functools.cache
def _on_host(symbol: str, dtype: np.dtype[Any]) -> Callable[[int, HostArray, HostArray], None]:
    """A function of the extent, the rows and the result that computes in host memory."""
    compiled = _native.bind_scan("add" if symbol == "+" else "mul", dtype)
    combine: Callable[[Any, Any], Any] = np.add if symbol == "+" else np.multiply
    if symbol == "*" and dtype.kind == "c":
        combine = _multiply_complex

    def run(extent: int, x: HostArray, y: HostArray) -> None:
        if dtype.kind in "biu":  # which come out the same in any order
            combine.accumulate(x, axis=-1, dtype=dtype, out=y)  # type: ignore[attr-defined]
        elif compiled is None:
            with np.errstate(all="ignore"):
                y[...] = scan_rows(combine, x.reshape(-1, extent)).reshape(y.shape)
        elif not compiled(x.reshape(-1), y.reshape(-1), extent):  # unaligned
            row = x.flatten()
            compiled(row, row, extent)
            y[...] = row.reshape(y.shape)

    return run


def plan_scan(lib: Primitives, x: Array, dtype: np.dtype[Any], symbol: str) -> KernelPlan | None:
    """One kernel for all of a scan along the last axis; None where there is none for such arrays."""
    info = lib.info(x)
    owner = lib.backend.at(info.device)
    if info.device.kind != "cuda" or not (info.size and info.is_c_contiguous and cuda_arrays.scans(info.dtype, dtype)):
        return None
    extent = info.shape[-1]
    combination = cuda_arrays.combine_by(symbol, dtype)
    kernel = cuda_arrays.prepare_scan(owner, info.device, info.dtype, dtype, combination, info.size // extent, extent)
    return KernelPlan(lib, info, "scan", kernel, [(info.shape, dtype)])


def scan(lib: Primitives, x: Array, dtype: np.dtype[Any], symbol: str) -> Array:
    """The running sums or products along the last axis, computed in ``dtype``, in a new array in C order."""
    plan = lib.find_plan(("scan", dtype, symbol), (x,), functools.partial(plan_scan, lib, dtype=dtype, symbol=symbol))
    if plan is not None:
        return plan.run(x)
    info = lib.info(x)
    if info.dtype != dtype or not info.is_c_contiguous:
        return scan(lib, lib.copy(x, dtype), dtype, symbol)
    if not info.size or info.shape[-1] == 1:
        return lib.copy(x)
    out = lib.empty(info.shape, info.dtype, info.device)
    extent = info.shape[-1]
    if not lib.on_host("scan", functools.partial(_on_host(symbol, info.dtype), extent), [x], [out]):
        lib.refuse_device("cumsum" if symbol == "+" else "cumprod", info.device)
    return out


# Elements at computed positions: gathering, scattering, and the positions of elements that are not zero.

INDEX = np.dtype("int64")


# --- one position for each element


def _flat_index(count: int) -> tuple[str, str]:
    """The parameters and the statements that compute the C-order index ``at`` from ``count`` indices.

    It is -1 where an index is out of range: a CPU then raises, and a GPU reads 0 and writes nothing.
    """
    params = ", ".join([*(f"{'ABCDEFGHJKLMNOPQ'[n]} j{n}, int64 n{n}" for n in range(count)), "int64 r"])
    lines = ["long long at = 0; bool fits = true;"]
    for n in range(count):
        lines += [f"long long k{n} = j{n}; if (k{n} < 0) k{n} += n{n};"]
        lines += [f"fits = fits && k{n} >= 0 && k{n} < n{n}; at = at * n{n} + k{n};"]
    return params, " ".join([*lines, "at = fits ? at * r + i % r : -1;"])


@functools.cache
def _gather_kernel(count: int) -> ElementwiseKernel:
    params, index = _flat_index(count)
    return elementwise(f"raw T x, {params}", "T y", f"{index} y = x[at];", name="gather")


@functools.cache
def _scatter_kernel(count: int) -> ElementwiseKernel:
    params, index = _flat_index(count)
    return elementwise(f"{params}, T v", "raw T y", f"{index} y[at] = v;", name="scatter")


def _arguments(
    lib: Primitives, indices: Sequence[Array], extents: Shape, shape: Shape, rest: int
) -> list[Any]:  # fmt: skip
    """Each index, broadcast to the axes of ``shape`` but the last ``rest`` ones, with the extent of its axis."""
    found: list[Any] = []
    for each, extent in zip(indices, extents, strict=False):
        own = lib.info(each).shape
        spread = primitives.reshape(lib, each, (*own, *(1,) * rest))
        found += [primitives.broadcast_to(lib, spread, shape), extent]
    return [*found, math.prod(shape[len(shape) - rest :])]


def gather(lib: Primitives, x: Array, indices: Sequence[Array]) -> Array:
    """``x[indices]`` for integer arrays, one for each of the first axes of ``x``."""
    info = lib.info(x)
    around = primitives.common_shape("index", *(lib.info(each).shape for each in indices))
    rest = len(info.shape) - len(indices)
    shape = (*around, *info.shape[len(indices) :])
    out = lib.empty(shape, info.dtype, info.device)
    if not lib.backend.at(info.device).gather(x, indices, out) and 0 not in shape:
        found = _arguments(lib, indices, info.shape, shape, rest)
        _gather_kernel(len(indices))(lib.movable(x), *found, lib.movable(out))
    return out


def scatter(lib: Primitives, x: Array, indices: Sequence[Array], value: Any) -> None:
    """``x[indices] = value`` likewise; ``value`` has the dtype of ``x``, and is a number or of the result's shape."""
    info = lib.info(x)
    around = primitives.common_shape("assignment", *(lib.info(each).shape for each in indices))
    rest = len(info.shape) - len(indices)
    shape = (*around, *info.shape[len(indices) :])
    if not lib.backend.at(info.device).scatter(x, indices, value) and 0 not in shape:
        found = _arguments(lib, indices, info.shape, shape, rest)
        _scatter_kernel(len(indices))(*found, lib.movable(value), lib.movable(x))


# --- the positions of elements


@functools.cache
def _place() -> ElementwiseKernel:
    return elementwise("int64 c, bool f", "raw int64 y", "if (f) y[c - 1] = i;", name="place")


@functools.cache
def _unravel() -> ElementwiseKernel:
    return elementwise("int64 p, int64 step, int64 extent", "int64 y", "y = p / step % extent;", name="unravel")


def count_flags(lib: Primitives, flags: Array) -> tuple[Array, int]:
    """For flags along one axis: how many hold up to each one, and in all; waits for the values."""
    counts = scan(lib, flags, INDEX, "+")
    size = lib.info(counts).size
    last = lib.view_as_shadow(counts, lib.shadow(counts)[-1:]) if size else counts
    return counts, int(transfers.to_host(last)[0]) if size else 0


def positions(lib: Primitives, flags: Array) -> Array:
    """The positions of the flags that hold, along their one axis; waits for the values."""
    counts, total = count_flags(lib, flags)
    out = lib.empty((total,), INDEX, lib.info(flags).device)
    if total:
        _place()(counts, flags, out)
    return out


def nonzero(lib: Primitives, x: Array, /) -> tuple[Array, ...]:
    """The indices of the elements that are not zero; waits for the values."""
    x = lib.array("nonzero", x)
    shape = lib.info(x).shape
    if not shape:
        raise LayoutError("nonzero: an array without axes has no indices; reshape it to (1,)")
    flags = primitives.reshape(lib, truth(lib, x), -1)
    found = positions(lib, flags)
    if len(shape) == 1:
        return (found,)
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tuple(_unravel()(found, step, max(extent, 1)) for step, extent in zip(steps, shape, strict=True))


def truth(lib: Primitives, x: Array) -> Array:
    """Whether each element is not zero."""
    return x if lib.info(x).dtype == np.bool_ else binary_kernel("not_equal")(x, 0)


def where(lib: Primitives, condition: Array, x1: Any = None, x2: Any = None, /) -> Any:
    """``x1`` where ``condition`` holds, else ``x2``; the indices where it holds, if it is given alone."""
    if x1 is None and x2 is None:
        return nonzero(lib, condition)
    if x1 is None or x2 is None:
        raise ArgumentError("where: one of the two values is missing; give both, or neither for the indices")
    return where_kernel(*with_array(lib, "where", (condition, x1, x2)))


Key = tuple[Any, ...]


@functools.cache
def _fill_masked() -> ElementwiseKernel:
    return elementwise("bool m, T v", "T y", "y = m ? v : y;", name="fill_masked")


def _is_basic(key: Key) -> bool:
    return all(
        each is None or each is Ellipsis or type(each) is int or isinstance(each, (slice, np.integer)) for each in key
    )


def _view(lib: Primitives, x: Array, key: Key) -> Array:
    """The view of a key without arrays; the ellipsis makes it one even where every axis has an index."""
    if not any(each is Ellipsis for each in key):
        key = (*key, Ellipsis)
    return lib.view_as_shadow(x, lib.shadow(x)[key])


def get(lib: Primitives, x: Array, key: Any) -> Array:
    """A view for integers and slices; a new array for a mask or integer arrays."""
    keys = key if type(key) is tuple else (key,)
    if _is_basic(keys):
        return _view(lib, x, keys)
    if len(keys) == 1 and lib.is_array(keys[0]) and (selected := _select(lib, x, keys[0])) is not None:
        return selected
    found = _selection(lib, x, keys)
    result = gather(lib, found.view, found.indices)
    if not found.position:
        return result
    count = len(primitives.common_shape("index", *(lib.info(each).shape for each in found.indices)))
    return primitives.moveaxis(lib, result, (*range(count),), (*range(found.position, found.position + count),))


def _select(lib: Primitives, x: Array, mask: Array) -> Array | None:
    """``x[mask]`` where the backend computes it by itself."""
    info, own = lib.info(x), lib.info(mask)
    if own.dtype != np.bool_ or not own.shape or own.shape != info.shape[: len(own.shape)]:
        return None
    return lib.backend.at(info.device).select(x, mask)


# --- keys with arrays


class Selection(NamedTuple):
    """A key with arrays: the view whose first axes they index, and where their axes stand in the result."""

    view: Array
    indices: list[Array]
    position: int


def _selection(lib: Primitives, x: Array, keys: Key) -> Selection:
    """Resolve a key that holds a mask or an integer array."""
    info = lib.info(x)
    values = [_value(lib, each) for each in keys]
    used = sum(_axes(lib, each) for each in values)
    if used > len(info.shape):
        raise IndexError(f"too many indices: the array has {len(info.shape)} axes, and the key indexes {used}")
    full = [slice(None)] * (len(info.shape) - used)
    at = next((number for number, each in enumerate(values) if each is Ellipsis), len(values))
    if any(each is Ellipsis for each in values[at + 1 :]):
        raise IndexError("an index can have one ellipsis ('...'); remove the others")
    # An integer beside arrays counts as one, in the rule for the position of their axes.
    advanced = [at_key for at_key, each in enumerate(values) if _is_advanced(lib, each) or _is_integer(each)]
    spans_gap = any(number not in advanced for number in range(advanced[0], advanced[-1] + 1))
    values = [*values[:at], *full, *values[at + 1 :]]
    basic: list[Any] = []
    indices: list[Array] = []
    axes: list[int] = []
    first: int | None = None
    axis = 0  # of the view
    source = 0  # of x
    for value in values:
        if _is_advanced(lib, value):
            first = axis if first is None else first
            for index in _indices(lib, value, info.shape, source):
                indices.append(index)
                axes.append(axis)
                axis += 1
            count = _axes(lib, value)
            basic += [slice(None)] * count if count else [None]
            source += count
        else:
            if _is_integer(value):
                first = axis if first is None else first
            else:
                axis += 1
            basic.append(value)
            source += _axes(lib, value)
    view = _view(lib, x, tuple(basic))
    moved = primitives.moveaxis(lib, view, tuple(axes), (*range(len(axes)),))
    return Selection(moved, indices, 0 if spans_gap else (first or 0))


def _value(lib: Primitives, each: Any) -> Any:
    """One part of a key, with sequences and NumPy arrays as NumPy arrays, and sequences of the library's as one."""
    if isinstance(each, list) and _holds_array(lib, each):
        each = _stack_parts(lib, [_value(lib, part) for part in each])
    if isinstance(each, (list, np.ndarray, np.bool_)) or type(each) is bool:
        host = np.asarray(each)
        if host.size == 0 and isinstance(each, list):
            host = host.astype(np.int64)
        if host.dtype.kind not in "biu":
            raise IndexError(f"an array of {host.dtype} is not an index; use integers or a mask of bool")
        return host
    if lib.is_array(each) and lib.info(each).dtype.kind not in "biu":
        raise IndexError(f"an array of {lib.info(each).dtype} is not an index; use integers or a mask of bool")
    return each


_MOST_AXES = 64
"""Of NumPy's arrays, and so levels of a list that is an index; a list may hold itself."""


def _holds_array(lib: Primitives, each: Any, levels: int = _MOST_AXES) -> bool:
    if not isinstance(each, list):
        return lib.is_array(each)
    if not levels:
        raise IndexError(f"a list of more than {_MOST_AXES} levels is not an index; give an array of integers")
    return any(_holds_array(lib, part, levels - 1) for part in each)


def _stack_parts(lib: Primitives, parts: list[Any]) -> Array:
    """The parts of a list, some of them arrays of the library, as one array on their device."""
    parts = [np.asarray(each) if _is_integer(each) else each for each in parts]
    if not all(_is_advanced(lib, each) for each in parts) or len({_shape(lib, each) for each in parts}) > 1:
        raise IndexError("a list is an index if it holds integers, or arrays of one shape; give one array")
    dtype = np.result_type(*(_dtype(lib, each) for each in parts))
    device = next(lib.info(each).device for each in parts if lib.is_array(each))
    out = lib.empty((len(parts), *_shape(lib, parts[0])), dtype, device)
    for row, each in enumerate(parts):
        assign(lib, _view(lib, out, (row,)), lib.upload(each) if isinstance(each, np.ndarray) else each)
    return out


def _is_integer(value: Any) -> bool:
    return type(value) is int or isinstance(value, np.integer)


def _is_advanced(lib: Primitives, value: Any) -> bool:
    return isinstance(value, np.ndarray) or lib.is_array(value)


def _is_mask(lib: Primitives, value: Any) -> bool:
    return _is_advanced(lib, value) and _dtype(lib, value) == np.bool_


def _dtype(lib: Primitives, value: Any) -> np.dtype[Any]:
    return value.dtype if isinstance(value, np.ndarray) else lib.info(value).dtype


def _shape(lib: Primitives, value: Any) -> tuple[int, ...]:
    return value.shape if isinstance(value, np.ndarray) else lib.info(value).shape


def _axes(lib: Primitives, value: Any) -> int:
    """The number of an array's axes that a part of a key indexes."""
    if value is None or value is Ellipsis:
        return 0
    if _is_mask(lib, value):
        return len(_shape(lib, value))
    if isinstance(value, slice) or _is_integer(value) or _is_advanced(lib, value):
        return 1
    raise IndexError(
        f"{type(value).__name__} is not an index; use integers, slices, '...', None, or arrays of integers or bool"
    )


def _indices(lib: Primitives, value: Any, shape: tuple[int, ...], axis: int) -> list[Array]:
    """The integer arrays that an array in a key stands for."""
    own = _shape(lib, value)
    if not _is_mask(lib, value):
        if isinstance(value, np.ndarray):
            extent = shape[axis]
            if value.size and not -extent <= value.min() <= value.max() < extent:
                raise IndexError(f"an index is out of range for axis {axis} of {extent} elements; it must be below")
            return [lib.upload(value, dtype=INDEX)]
        return [value]
    _check_mask(own, shape[axis:])
    if not own:  # indexes a new axis of one element
        flag = bool(value) if isinstance(value, np.ndarray) else bool(transfers.to_host(value))
        return [lib.upload(np.zeros(int(flag), INDEX))]
    if isinstance(value, np.ndarray):
        return [lib.upload(each.astype(INDEX)) for each in np.nonzero(value)]
    return [*nonzero(lib, value)]


def _check_mask(own: Shape, shape: Shape) -> None:
    """Refuse a mask of another shape than that of the axes that it indexes; an extent of 0 fits any, as in NumPy."""
    if len(own) > len(shape) or any(one not in (0, two) for one, two in zip(own, shape, strict=False)):
        raise IndexError(f"a mask of shape {own} does not fit axes of shape {shape}; reshape it")


# --- assignment


def set_items(lib: Primitives, x: Array, key: Any, value: Any) -> None:
    """Write a number or an array into a part of another array.

    Raises:
        LayoutError: Elements of ``x`` share memory; or the value does not fit.
        UnsupportedDTypeError: Complex values, and ``x`` is real.
    """
    if not lib.info(x).is_writable:
        raise LayoutError(f"assignment: {READ_ONLY}")
    keys = key if type(key) is tuple else (key,)
    if _is_basic(keys):
        assign(lib, _view(lib, x, keys), value)
        return
    if is_scalar(value) and len(keys) == 1 and lib.is_array(keys[0]) and _is_mask(lib, keys[0]):
        _set_where(lib, x, keys[0], value)
        return
    found = _selection(lib, x, keys)
    info = lib.info(x)
    around = primitives.common_shape("assignment", *(lib.info(each).shape for each in found.indices))
    rest = lib.info(found.view).shape[len(found.indices) :]
    if is_scalar(value):
        scatter(lib, found.view, found.indices, number(value, info.dtype))
        return
    value = _array(lib, value, info.dtype)
    position, count = found.position, len(around)
    spread = _spread(lib, value, (*rest[:position], *around, *rest[position:]))
    if lib.info(spread).dtype != info.dtype:
        spread = lib.copy(spread, info.dtype)
    if position:
        spread = primitives.moveaxis(lib, spread, (*range(position, position + count),), (*range(count),))
    try:
        scatter(lib, found.view, found.indices, spread)
    except KernelTypeError:
        scatter(lib, found.view, found.indices, lib.copy(spread))  # it may overlap the target


def _set_where(lib: Primitives, x: Array, mask: Array, value: Any) -> None:
    info, own = lib.info(x), lib.info(mask).shape
    _check_mask(own, info.shape)
    if 0 in own or lib.backend.at(info.device).scatter(x, [mask], number(value, info.dtype)):
        return
    spread = primitives.reshape(lib, mask, (*own, *(1,) * (len(info.shape) - len(own))))
    if math.prod(info.shape):
        mask, found = primitives.broadcast_to(lib, spread, info.shape), number(value, info.dtype)
        _fill_masked()(mask, lib.movable(found), lib.movable(x))


def assign(lib: Primitives, target: Array, value: Any) -> None:
    """``target[...] = value``: converted to the target's dtype, as NumPy does."""
    info = lib.info(target)
    if is_scalar(value):
        found = number(value, info.dtype)
        if math.prod(info.shape):
            lib.fill(target, found)
        return
    value = _array(lib, value, info.dtype)
    if lib.info(value) == info:
        return  # `x[key] += y` ends with this call, the result being in its memory already
    spread = _spread(lib, value, info.shape)
    if not math.prod(info.shape):
        return
    try:
        lib.fill(target, spread)
    except KernelTypeError:
        lib.fill(target, lib.copy(spread))  # it may overlap the target


def fill_new(lib: Primitives, shape: Shape, value: Any, dtype: np.dtype[Any], device: Device) -> Array:
    """A new array of one value."""
    out = lib.empty(shape, dtype, device)
    assign(lib, out, value)
    return out


def _array(lib: Primitives, value: Any, dtype: np.dtype[Any]) -> Array:
    """A value that is assigned to elements of ``dtype``, as an array; complex numbers do not become real ones."""
    if isinstance(value, (list, tuple)):
        raise UnsupportedArrayError(
            f"assignment: {type(value).__name__} is not an array; make one of it: "
            f"xferlib.to_device(x, backend={lib.backend.name!r})"
        )
    found = lib.array("assignment", value)
    check_conversion(lib.info(found).dtype, dtype)
    return found


def _spread(lib: Primitives, value: Array, shape: tuple[int, ...]) -> Array:
    """``value`` broadcast to ``shape``; leading axes of one element may be more, as in NumPy."""
    own = lib.info(value).shape
    while own[:1] == (1,) and len(own) > len(shape):
        own = own[1:]
    try:
        return primitives.broadcast_to(lib, primitives.reshape(lib, value, own), shape)
    except ValueError:
        raise LayoutError(f"assignment: shape {own} does not fit into {shape}; reshape the value") from None
