"""Functions of torch's namespace that are not of elements: creation, axes, indices, order; checked as NumPy's are.

Torch's own functions take what NumPy refuses, such as an axis of a tensor without axes, and refuse what NumPy takes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat.torch as compat
import numpy as np
import torch
from torch import Tensor

from xferlib._core import arrays, registry
from xferlib._core.arrays import as_host_array, axes_of, axis_of, integer_of, shape_of
from xferlib._core.device import Device
from xferlib._core.namespaces import UniqueAll, UniqueCounts, UniqueInverse, axis_to_join, check_matrix
from xferlib._runtime import process
from xferlib._runtime.checks import choice, flag
from xferlib.backends.torch import dtypes
from xferlib.backends.torch.dtypes import FROM_TORCH, RANGES, SIGNED, torch_dtype
from xferlib.backends.torch.tensors import TO_TORCH, over_numpy
from xferlib.errors import (
    ArgumentError,
    DeviceNotFoundError,
    LayoutError,
    LayoutTypeError,
    UnsupportedDTypeError,
    quote,
)

# Tensors from numbers: with NumPy's dtypes, on the device that a call names.

FLOAT = torch.float64
_DLPACK_CPU = 1


def by_default(dtype: torch.dtype = FLOAT) -> torch.dtype:
    """The dtype of new floats and complex numbers where none is given: NumPy's, or torch's own if so configured."""
    if process.get().torch_float == "float64" or dtype not in (FLOAT, torch.complex128):
        return dtype
    default = torch.get_default_dtype()
    return default if dtype is FLOAT else default.to_complex()


def _nowhere() -> torch.device | None:
    return None


current_place: Callable[[], torch.device | None] = _nowhere
"""The device of tensors that are made without one, None for torch's default; `TorchCuda` sets it."""


def _current_gpu(_pointer: int) -> torch.device:
    return torch.device("cuda")


place_at: Callable[[int], torch.device] = _current_gpu
"""The device of memory of a GPU, by its address; `TorchCuda` sets it."""


def place_of(device: Any) -> torch.device | None:
    """Torch's device of one of its names or objects, of xferlib's, or of xferlib's names; None: the current one.

    Raises:
        DeviceNotFoundError: Torch has no such device.
    """
    if device is None:
        return current_place()
    if isinstance(device, Device):
        device = "cpu" if device.kind == "cpu" else f"{device.kind}:{device.index}"
    if isinstance(device, str):
        device = device.removeprefix("torch:")
    try:
        return torch.device(device)
    except (RuntimeError, TypeError):
        pass
    raise DeviceNotFoundError(f"device={quote(device)} is not a device of torch here; give 'cpu', 'cuda:0' or x.device")


def tensor_of(name: str, x: Any) -> Tensor:
    """An argument of function ``name`` as a tensor; numbers become tensors on the current device.

    Raises:
        MixedBackendsError, UnsupportedArrayError: It is neither.
    """
    if isinstance(x, Tensor):
        return x
    dtypes.kind_of(name, x)
    return asarray(x)


def _make_fill(name: str) -> Callable[..., Tensor]:
    compute = getattr(torch, name)

    def operate(shape: Any, dtype: Any = None, *, device: Any = None, **options: Any) -> Tensor:
        wanted = by_default() if dtype is None else torch_dtype(dtype)
        place = place_of(device)
        try:
            return compute(shape, dtype=wanted, device=place, **options)
        except (RuntimeError, TypeError):
            return compute(shape_of(shape), dtype=wanted, device=place, **options)  # which refuses what is not a shape

    return operate


def _like(name: str) -> Callable[..., Tensor]:
    compute = getattr(torch, name)

    def operate(x: Tensor, /, dtype: Any = None, *, device: Any = None, **options: Any) -> Tensor:
        place = x.device if device is None else place_of(device)
        return compute(x, dtype=torch_dtype(dtype), device=place, **options)

    return operate


FILLED: dict[str, Callable[..., Tensor]] = {
    **{name: _make_fill(name) for name in ("empty", "zeros", "ones")},
    **{name: _like(name) for name in ("empty_like", "zeros_like", "ones_like")},
}


def full(shape: int | tuple[int, ...], fill_value: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of one value; of the value's dtype if ``dtype`` is omitted."""
    extents = (
        shape
        if isinstance(shape, tuple) and all(type(each) is int and each >= 0 for each in shape)
        else shape_of(shape)
    )
    wanted = torch_dtype(dtype)
    if isinstance(fill_value, Tensor):
        place = fill_value.device if device is None else place_of(device)
        value = fill_value.to(place, wanted or fill_value.dtype)
        dtypes.shape_together("full", extents, value.shape, is_first=True)
        return value.expand(extents).clone(memory_format=torch.contiguous_format)
    if wanted is None:
        kind = dtypes.kind_of("full", fill_value)
        wanted = by_default(dtypes.promote_types(kind)) if isinstance(kind, type) else dtypes.promote_types(kind)
    if isinstance(fill_value, np.generic):
        fill_value = fill_value.item()
    if isinstance(fill_value, int) and not isinstance(fill_value, bool) and wanted in RANGES:
        dtypes.check_fits(fill_value, wanted)
    place = place_of(device)
    try:
        return torch.full(extents, fill_value, dtype=wanted, device=place)
    except (RuntimeError, TypeError, OverflowError):  # of numbers that torch does not convert, such as 1 << 63
        if wanted not in FROM_TORCH:
            raise
    value = arrays.number(fill_value, FROM_TORCH[wanted])  # or NumPy's error, of what the dtype does not hold
    return dtypes.as_tensor(value, wanted, torch.device(place or "cpu")).expand(extents).clone()


def full_like(x: Tensor, /, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """One value in the shape of another tensor."""
    return full(tuple(x.shape), fill_value, dtype=dtype or x.dtype, device=x.device if device is None else device)


def eye(n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Ones on a diagonal, zeros elsewhere."""
    wanted: torch.dtype = torch_dtype(dtype) or by_default()
    n_rows, n_cols = shape_of((n_rows, n_rows if n_cols is None else n_cols), what="eye: shape")
    found: Tensor = compat.eye(n_rows, n_cols, k=k, dtype=SIGNED.get(wanted, wanted), device=place_of(device))
    return found.view(wanted)


def asarray(obj: Any, /, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor from numbers, nested lists, a NumPy array, a tensor, or another library's array on a device.

    ``copy=None`` shares memory where torch can, which it cannot with NumPy's read-only arrays, negative strides and
    other byte orders.

    Raises:
        ArgumentError: ``copy=False``, and the memory cannot be shared.
    """
    wanted = torch_dtype(dtype)
    if isinstance(obj, Tensor):
        place = obj.device if device is None else place_of(device)
        return torch.asarray(obj, dtype=wanted, device=place, copy=copy)
    if isinstance(obj, (list, tuple)) and any(isinstance(each, Tensor) for each in obj):
        _check_shared(obj, copy, is_shared=False)
        place = next(each.device for each in obj if isinstance(each, Tensor)) if device is None else place_of(device)
        parts = [asarray(each, wanted, device=place) for each in obj]
        common = wanted or dtypes.result_type(*parts)
        return torch.stack([each.to(common) for each in parts])
    if not isinstance(obj, (np.ndarray, np.generic)) and hasattr(obj, "__dlpack__"):
        return torch.asarray(_copy_negative_strides(obj, copy), dtype=wanted, device=place_of(device), copy=copy)
    if hasattr(obj, "__cuda_array_interface__") and torch.cuda.is_available():
        return asarray(_tensor_from_interface(obj), dtype=dtype, device=device, copy=copy)
    host = as_host_array(obj, what="obj")
    if wanted in FROM_TORCH:
        host = arrays.exactly(obj, host, FROM_TORCH[wanted])
        if host.dtype.kind == "f" and FROM_TORCH[wanted].kind in "iu":  # torch gives whatever the processor does
            _check_shared(obj, copy, is_shared=False)
            whole = np.empty(host.shape, FROM_TORCH[wanted])
            arrays.copy_into(whole, host)
            host = whole
    if wanted is None and not isinstance(obj, (np.ndarray, np.generic)):
        wanted = by_default(TO_TORCH[host.dtype.newbyteorder("=")])
    can_share = host.flags.writeable and host.dtype.isnative and all(step >= 0 for step in host.strides)
    _check_shared(obj, copy, is_shared=host is obj and can_share)
    if not can_share:
        host = np.array(host, host.dtype.newbyteorder("="), order="C")
    shared = over_numpy(host)
    return torch.asarray(shared, dtype=wanted, device=place_of(device), copy=copy if host is obj else None)


def _tensor_from_interface(obj: Any) -> Tensor:
    """A tensor over memory that CUDA's array interface describes; the current stream waits for the object's."""
    described = obj.__cuda_array_interface__
    # On another device torch would copy it, before the wait.
    found = torch.as_tensor(obj, device=place_at(int(described["data"][0])))
    handle = described.get("stream")
    if handle is not None:
        is_legacy = int(handle) == 1
        theirs = (
            torch.cuda.default_stream(found.device)
            if is_legacy
            else torch.cuda.ExternalStream(int(handle), device=found.device)
        )
        torch.cuda.current_stream(found.device).wait_stream(theirs)
    return found


def _check_shared(obj: Any, copy: bool | None, *, is_shared: bool) -> None:
    if copy is False and not is_shared:
        raise ArgumentError(f"copy=False: no tensor can share the memory of this {type(obj).__name__}; leave copy out")


def _copy_negative_strides(x: Any, copy: bool | None) -> Any:
    """An array of another library, copied if a stride is negative: torch ends the process at such memory.

    Host memory that no backend knows is given as NumPy's array: some objects hand their capsule out only once.
    """
    owner = registry.owner_of(x)
    array: Any = x if owner is not None else _in_host_memory(x)
    strides = () if array is None else array.strides if owner is None else owner.view(array).strides
    if all(step >= 0 for step in strides):
        return x if array is None else array
    if copy is False:
        raise BufferError("copy=False: torch cannot share memory of negative strides; leave copy out")
    return array.copy()


def _in_host_memory(x: Any) -> np.ndarray[Any, Any] | None:
    """NumPy's array over the memory of an object; None where it is a device's, or of a dtype that NumPy has not."""
    if not hasattr(x, "__dlpack_device__") or x.__dlpack_device__()[0] != _DLPACK_CPU:
        return None
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None  # torch may take it, or says why not


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array; a copy where torch cannot share it.

    Without ``device`` it stays where it is: one of NumPy's is on the CPU, even where the current device is a GPU.

    Raises:
        BufferError: ``copy=False``, and only a copy will do.
    """
    if isinstance(x, np.ndarray):
        try:
            return asarray(x, device="cpu" if device is None else device, copy=copy)
        except ArgumentError as error:
            raise BufferError(str(error)) from None
    found = torch.from_dlpack(_copy_negative_strides(x, copy))
    return asarray(found, device=device, copy=copy) if copy or device is not None else found


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Convert the elements to another dtype."""
    place = x.device if device is None else place_of(device)
    wanted = torch_dtype(np.dtype(None) if dtype is None else dtype)
    if x.is_complex() and wanted in FROM_TORCH:
        arrays.check_conversion(FROM_TORCH[x.dtype], FROM_TORCH[wanted])
    return x.to(place, wanted, copy=copy)


# --- elements that torch moves


def where(condition: Tensor, x1: Any = None, x2: Any = None, /) -> Any:
    """``x1`` where ``condition`` holds, else ``x2``; the indices where it holds, if it is given alone."""
    if x1 is None and x2 is None:
        return compat.nonzero(tensor_of("where", condition).to(torch.bool))
    if isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is x2.dtype and x1.dtype not in SIGNED:
        return dtypes.check_call("where", torch.where, condition.to(torch.bool), x1, x2)
    device = dtypes.device_of("where", condition, x1, x2)
    kinds = [dtypes.kind_of("where", each) for each in (x1, x2)]
    wanted = dtypes.promote_types(*kinds)
    for each, kind in zip((x1, x2), kinds, strict=True):
        if kind is int and wanted in RANGES:
            dtypes.check_fits(each, wanted)
    dtypes.shape_together("where", *[each.shape for each in (condition, x1, x2) if isinstance(each, Tensor)])
    first, second = (dtypes.view_movable(dtypes.as_tensor(each, wanted, device)) for each in (x1, x2))
    return dtypes.back(torch.where(condition.to(torch.bool), first, second), wanted)


# Torch's ranges of numbers with NumPy's bits: by NumPy's formulas, whose last bits torch's own have not.

_INTEGERS = (int, np.integer, torch.SymInt)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Numbers from ``start`` to below ``stop``, ``step`` apart.

    Raises:
        ArgumentError: ``step`` is 0, or the range has no end.
        UnsupportedDTypeError: More than two booleans are asked for.
        OverflowError: One of the first two numbers, which make the others, is out of the dtype's range.
    """
    if step == 0:
        raise ArgumentError("arange: step=0 makes a range without end; give another step")
    wanted: torch.dtype = torch_dtype(dtype) or _choose_range_dtype(
        *((start, step) if stop is None else (start, stop, step))
    )
    first, last = (0, start) if stop is None else (start, stop)
    if all(isinstance(each, _INTEGERS) for each in (first, last, step)):
        first, last, step = (each.item() if isinstance(each, np.generic) else each for each in (first, last, step))
        return _of_integers(first, last, step, wanted, place_of(device))
    is_numpys = any(isinstance(each, np.generic) for each in (first, last, step))
    with np.errstate(all="ignore") if is_numpys else contextlib.nullcontext():
        difference = last - first  # in the numbers' own dtypes, whose rounding decides the length in NumPy, too
        extent, second = float(difference / step), first + step
    if not math.isfinite(extent):
        raise ArgumentError(f"arange: from {quote(first)} to {quote(last)} by {quote(step)} has no end; give numbers")
    if not wanted.is_floating_point and not wanted.is_complex:
        return _by_host(first, last, step, wanted, place_of(device))
    is_underflow = extent == 0 and difference != 0 and math.copysign(1.0, extent) > 0  # the first number alone is left
    return _of_floats(first, second, 1 if is_underflow else max(math.ceil(extent), 0), wanted, place_of(device))


def _of_integers(first: Any, last: Any, step: Any, wanted: torch.dtype, place: Any) -> Tensor:
    real = wanted.to_real() if wanted.is_complex else wanted
    numbers = first, last, step, first + step
    if torch.compiler.is_compiling() or torch.SymInt in map(type, numbers):  # which no number is compared with
        pass
    elif not real.is_floating_point:
        if wanted is torch.bool or not all(dtypes.fits(each, wanted) for each in (first, last, first + step)):
            return _by_host(first, last, step, wanted, place)
    elif max(map(abs, numbers)) * torch.finfo(real).eps > 1:  # else torch's sums are exact, and so NumPy's
        return _of_floats(first, first + step, max(-((first - last) // step), 0), wanted, place)
    able = torch.int64 if wanted in SIGNED else FLOAT if wanted.is_complex else wanted
    found: Tensor = compat.arange(first, last, step, dtype=able, device=place)
    return found if able is wanted else found.to(wanted)


def _by_host(first: Any, last: Any, step: Any, wanted: torch.dtype, place: Any) -> Tensor:
    """A range of integers that NumPy makes: it refuses numbers out of range, and goes on from them as they wrap."""
    numpys: Any = np.arange
    try:
        found = numpys(first, last, step, dtype=FROM_TORCH[wanted])
    except TypeError:
        raise UnsupportedDTypeError(
            "arange: a range of booleans has at most two elements; give another dtype"
        ) from None
    return torch.from_numpy(found).to(place)


def _of_floats(first: Any, second: Any, count: int, wanted: torch.dtype, place: Any) -> Tensor:
    """A range as NumPy fills it: it converts the first two numbers, and goes on with their difference."""
    numbers = torch.arange(count, device=place)
    able = wanted.to_real() if wanted.is_complex else wanted
    wide = torch.float32 if able is torch.float16 else able
    start, after = (_round_to_dtype(float(each), able) for each in (first, second))
    found = numbers.to(wide) * _round_to_dtype(after - start, wide) + start
    found[:1], found[1:2] = start, after  # the sum of zeros has another sign
    return found.to(wanted)


def _round_to_dtype(number: float, dtype: torch.dtype) -> float:
    """A number as a dtype of torch's holds it."""
    return number if dtype is FLOAT else float(torch.tensor(number, dtype=dtype).item())


def _choose_range_dtype(*numbers: Any) -> torch.dtype:
    """The dtype of a range, which NumPy's own rule for its numbers decides."""
    kinds = set(map(type, numbers))
    if kinds <= {int, float, torch.SymInt}:
        return by_default() if float in kinds else torch.int64
    numpys: Any = np.arange
    zeros = [type(each)(0) for each in numbers[:-1]]
    return TO_TORCH[numpys(*zeros, step=type(numbers[-1])(1)).dtype]


def linspace(
    start: Any, stop: Any, /, num: int = 50, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """``num`` numbers at equal distances from ``start`` to ``stop``.

    Raises:
        UnsupportedDTypeError: ``dtype`` would drop the imaginary part.
    """
    (num,) = shape_of(num, what="linspace: num")
    plain = {type(start), type(stop)} <= {int, float}
    own = FLOAT if plain else TO_TORCH[np.linspace(type(start)(0), type(stop)(0), 0).dtype]
    wanted: torch.dtype = torch_dtype(dtype) or (by_default() if plain else own)
    if own.is_complex and wanted in FROM_TORCH:
        arrays.check_conversion(FROM_TORCH[own], FROM_TORCH[wanted])
    kind: Any = float if own is FLOAT else FROM_TORCH[own].type
    first, last = kind(start), kind(stop)
    count, place = num - endpoint, place_of(device)
    delta = last - first
    step = delta / count if count > 0 else delta
    parts = [(first, step, delta, last)]
    if own.is_complex:
        parts = [tuple(each.real for each in parts[0]), tuple(each.imag for each in parts[0])]
    able = own.to_real() if own.is_complex else own
    divides = step == 0 and count > 0  # a difference so small that its part is 0 is multiplied before it is divided
    lines = [_line(num, count if divides else 0, able, place, *map(float, part), endpoint=endpoint) for part in parts]
    found = torch.complex(*lines) if own.is_complex else lines[0]
    return (torch.floor(found) if wanted in RANGES else found).to(wanted)


def _line(
    num: int, divisor: int, dtype: torch.dtype, place: Any, first: float, step: float, delta: float, last: float,
    *, endpoint: bool,
) -> Tensor:  # fmt: skip
    numbers = torch.arange(num, device=place).to(dtype)
    found = numbers / divisor * delta + first if divisor else numbers * step + first
    if endpoint and num > 1:
        found[-1:] = last
    return found


Axes = int | tuple[int, ...]


# --- views


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Views of one common shape."""
    arrays = tuple([tensor_of("broadcast_arrays", each) for each in arrays])
    shape = dtypes.shape_together("broadcast_arrays", *[each.shape for each in arrays])
    return tuple([torch.broadcast_to(each, shape) for each in arrays])


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which arrays of these shapes broadcast.

    Raises:
        LayoutError: There is none.
    """
    return dtypes.shape_together("broadcast_shapes", *[shape_of(each) for each in shapes])


def broadcast_to(x: Tensor, /, shape: Any) -> Tensor:
    """The elements, repeated without a copy.

    Raises:
        LayoutError: The tensor does not broadcast to ``shape``.
    """
    x = tensor_of("broadcast_to", x)
    try:
        if all(each >= 0 for each in shape):
            return torch.broadcast_to(x, shape)
    except (RuntimeError, TypeError):
        pass
    extents = shape_of(shape)
    if len(extents) < x.dim() or any(
        one not in (1, two) for one, two in zip(reversed(x.shape), reversed(extents), strict=False)
    ):
        raise LayoutError(f"broadcast_to: shape {tuple(x.shape)} does not broadcast to {extents}; reshape the array")
    return torch.broadcast_to(x, extents)


def expand_dims(x: Tensor, /, axis: Axes = 0) -> Tensor:
    """A view with axes of one element inserted."""
    x = tensor_of("expand_dims", x)
    count = len(axis) if isinstance(axis, tuple) else 1
    for place in sorted(
        axes_of("expand_dims", (axis,) if count == 1 and not isinstance(axis, tuple) else axis, x.dim() + count)
    ):
        x = torch.unsqueeze(x, place)
    return x


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """A view without axes of one element.

    Raises:
        LayoutError: An axis has another number of elements.
    """
    x = tensor_of("squeeze", x)
    places = axes_of("squeeze", axis, x.dim())
    if axis is None:
        places = tuple([place for place in places if x.shape[place] == 1])
    for place in places:
        if x.shape[place] != 1:
            raise LayoutError(f"squeeze: axis {place} of shape {tuple(x.shape)} has not one element; choose another")
    return torch.squeeze(x, places)


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """A view with axes moved to other positions.

    Raises:
        LayoutError: There are no such axes, or not as many of them as positions.
    """
    x = tensor_of("moveaxis", x)
    one, two = (axes_of("moveaxis", each, x.dim()) for each in (source, destination))
    if len(one) != len(two):
        raise LayoutError(f"moveaxis: {len(one)} axes and {len(two)} positions; give one for each")
    return torch.moveaxis(x, one, two)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """A view with the axes in another order.

    Raises:
        LayoutError: ``axes`` does not name each axis once.
    """
    x = tensor_of("permute_dims", x)
    order = axes_of("permute_dims", tuple(axes), x.dim())
    if len(order) != x.dim():
        raise LayoutError(f"permute_dims: axes={axes} for an array of {x.dim()} axes; name each once")
    return torch.permute(x, order)


def reshape(x: Tensor, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The elements in another shape: a view where strides allow.

    Raises:
        LayoutError: The shape has another number of elements; or ``copy=False``, and there is no such view.
    """
    x = tensor_of("reshape", x)
    extents = (shape,) if not hasattr(shape, "__iter__") else tuple(shape)
    try:
        return compat.reshape(x, extents, copy=copy)
    except (RuntimeError, TypeError, ValueError) as error:
        if not all(hasattr(each, "__index__") for each in extents):
            raise LayoutTypeError(f"reshape: shape={quote(shape)} is not a shape; give a tuple of integers") from None
        said = str(error).partition("\n")[0]
    remedy = "leave copy=False out" if copy is False else "give a shape of as many elements"
    raise LayoutError(f"reshape: {said}; {remedy}")


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Views of the slices along an axis."""
    x = tensor_of("unstack", x)
    return (*torch.unbind(x, axis_of("unstack", axis, x.dim())),)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid, one tensor for each axis."""
    choice(indexing, ("xy", "ij"), "meshgrid: indexing")
    flat = [tensor_of("meshgrid", each).reshape(-1) for each in arrays]
    if not flat:
        return ()
    sizes = [each.shape[0] for each in flat]
    found = [
        each.reshape([-1 if n == place else 1 for n in range(len(flat))]).expand(sizes)
        for place, each in enumerate(flat)
    ]
    return tuple([each.transpose(0, 1) if indexing == "xy" and len(flat) > 1 else each for each in found])


# --- copies


def concat(arrays: Sequence[Tensor], /, axis: int | None = 0) -> Tensor:
    """Join tensors along an axis.

    Raises:
        LayoutError: The shapes differ beside the axis, or there is no such axis.
    """
    given, wanted = _prepare_join("concat", arrays)
    if axis is None:
        return dtypes.back(torch.cat([each.reshape(-1) for each in given]), wanted)
    along = axis_to_join("concat", [tuple(each.shape) for each in given], axis)
    return dtypes.back(torch.cat(given, along), wanted)


def stack(arrays: Sequence[Tensor], /, axis: int = 0) -> Tensor:
    """Join tensors along a new axis.

    Raises:
        LayoutError: The shapes differ, or there is no such axis.
    """
    given, wanted = _prepare_join("stack", arrays)
    along = axis_to_join("stack", [tuple(each.shape) for each in given], axis)
    return dtypes.back(torch.stack(given, along), wanted)


def _prepare_join(name: str, arrays: Sequence[Tensor]) -> tuple[list[Tensor], torch.dtype]:
    if not len(arrays):
        raise ArgumentError(f"{name}: no array is given; give one or more")
    dtypes.device_of(name, *arrays)
    tensors = [tensor_of(name, each) for each in arrays]
    wanted = dtypes.result_type(*tensors) if len(tensors) > 1 else tensors[0].dtype
    return [dtypes.view_movable(each.to(wanted)) for each in tensors], wanted


def flip(x: Tensor, /, axis: Axes | None = None) -> Tensor:
    """The elements in reverse order along axes: a copy, as torch has no view of it."""
    x = tensor_of("flip", x)
    return dtypes.back(torch.flip(dtypes.view_movable(x), axes_of("flip", axis, x.dim())), x.dtype)


def repeat(x: Tensor, /, repeats: int | Tensor, axis: int | None = None) -> Tensor:
    """Repeat each element, as often as a number or a tensor of one for each says.

    Raises:
        ArgumentError: A negative number.
        UnsupportedDTypeError: ``repeats`` are not integers.
        LayoutError: There is no such axis, or not one number for each of its elements.
    """
    x = tensor_of("repeat", x)
    x = x.reshape(-1) if axis is None else x
    along = axis_of("repeat", 0 if axis is None else axis, x.dim())
    if isinstance(repeats, Tensor):
        counts = integers("repeat: repeats", repeats, is_bool_allowed=True)
        if tuple(counts.shape) not in ((), (1,), (x.shape[along],)):
            raise LayoutError(
                f"repeat: repeats has shape {tuple(counts.shape)}, and axis {along} {x.shape[along]} elements; give "
                "one for each"
            )
        counts = counts.expand(x.shape[along])
    else:
        counts = integer_of(repeats, what="repeat: repeats")
        if counts < 0:
            raise ArgumentError(f"repeat: repeats={counts} is negative; give 0 or more")
    return dtypes.back(torch.repeat_interleave(dtypes.view_movable(x), counts, along), x.dtype)


def roll(x: Tensor, /, shift: Axes, axis: Axes | None = None) -> Tensor:
    """Shift the elements cyclically, along each axis by its own shift or all by one."""
    x = tensor_of("roll", x)
    shifts = shift if isinstance(shift, tuple) else (shift,)
    axes = axis if isinstance(axis, tuple) else (0 if axis is None else axis,)
    if len(shifts) != len(axes):
        if 1 not in (len(shifts), len(axes)):
            raise LayoutError(f"roll: {len(shifts)} shifts and {len(axes)} axes; give one for each")
        shifts, axes = shifts * len(axes), axes * len(shifts)
    flat = dtypes.view_movable(x).reshape(-1) if axis is None else dtypes.view_movable(x)
    places = [axis_of("roll", each, flat.dim()) for each in axes]
    if not places:
        return x.clone()
    return dtypes.back(
        torch.roll(flat, [integer_of(each, what="roll: shift") for each in shifts], places).reshape(x.shape), x.dtype
    )


def tile(x: Tensor, repetitions: Any, /) -> Tensor:
    """Repeat the whole tensor along its axes."""
    x = tensor_of("tile", x)
    return dtypes.back(torch.tile(dtypes.view_movable(x), shape_of(repetitions, what="tile: repetitions")), x.dtype)


def tril(x: Tensor, /, k: int = 0) -> Tensor:
    """The elements with zeros above a diagonal."""
    return _triangle("tril", x, k)


def triu(x: Tensor, /, k: int = 0) -> Tensor:
    """The elements with zeros below a diagonal."""
    return _triangle("triu", x, k)


def _triangle(name: str, x: Tensor, k: int) -> Tensor:
    x = tensor_of(name, x)
    check_matrix(name, x.shape)
    return dtypes.back(getattr(torch, name)(dtypes.view_movable(x), integer_of(k, what=f"{name}: k")), x.dtype)


def take(x: Tensor, indices: Tensor | int, /, axis: int | None = None) -> Tensor:
    """The slices at indices along an axis."""
    x = tensor_of("take", x)
    if axis is None and x.dim() != 1:
        raise LayoutError(f"take: axis=None is not an axis of an array of {x.dim()}; give one")
    along = axis_of("take", axis or 0, x.dim())
    if not isinstance(indices, Tensor):
        indices = asarray(indices, device=x.device)
    places = integers("take: indices", indices)
    found = _take_elements(torch.index_select, dtypes.view_movable(x), along, places.reshape(-1))
    return dtypes.back(found.reshape((*x.shape[:along], *places.shape, *x.shape[along + 1 :])), x.dtype)


def take_along_axis(x: Tensor, indices: Tensor, /, axis: int = -1) -> Tensor:
    """The elements at indices, each in its own line along an axis."""
    x = tensor_of("take_along_axis", x)
    along = axis_of("take_along_axis", axis, x.dim())
    places = integers("take_along_axis: indices", indices)
    if places.dim() != x.dim():
        raise LayoutError(f"take_along_axis: indices have {places.dim()} axes, x has {x.dim()}; reshape one")
    common = dtypes.shape_together(
        "take_along_axis", *[(*each.shape[:along], *each.shape[along + 1 :]) for each in (x, places)]
    )
    spread = [
        each.expand((*common[:along], each.shape[along], *common[along:])) for each in (dtypes.view_movable(x), places)
    ]
    # Torch's own take_along_dim takes indices beyond the extent modulo that.
    return dtypes.back(_take_elements(torch.gather, spread[0], along, spread[1]), x.dtype)


def _take_elements(take: Any, x: Tensor, along: int, places: Tensor) -> Tensor:
    """The elements at places, of which negative ones count from the end.

    A place out of range is an error on a CPU. On a GPU, where finding it would wait for the device and torch's own
    check destroys the CUDA context, 0 is read there, as in kernels.

    Raises:
        IndexError: A place is out of range on a CPU, or the axis has no elements.
    """
    extent = x.shape[along]
    places = torch.where(places < 0, places + extent, places)
    if extent == 0 and places.numel() > 0:
        raise IndexError(f"an index is out of range for axis {along} of 0 elements; give no indices")
    if raises_indices(x):
        try:
            return take(x, along, places)
        except RuntimeError as error:  # everything else has been checked
            raise IndexError(f"an index is out of range ({error}); it must be below the extent of its axis") from None
    is_out = (places < 0) | (places >= extent)
    found = take(x, along, places.masked_fill(is_out, 0))
    shape = (-1, *(1,) * (x.dim() - along - 1)) if take is torch.index_select else is_out.shape
    return found.masked_fill_(is_out.reshape(shape), 0)


def raises_indices(x: Tensor) -> bool:
    """Whether torch raises an error for an index out of range; on CUDA it ends all work of the process there."""
    return bool(x.is_cpu)


def integers(what: str, x: Tensor, *, is_bool_allowed: bool = False) -> Tensor:
    """A tensor of integers, as int64."""
    if x.is_floating_point() or x.is_complex() or (x.dtype is torch.bool and not is_bool_allowed):
        raise UnsupportedDTypeError(f"{what} have dtype {x.dtype}, and must be integers; convert them")
    return x.to(torch.int64)


# Functions over axes of torch's namespace: NumPy's dtypes, and unsigned integers of every width.


def _axes(name: str, x: Tensor, axis: Any) -> Any:
    """The axes of a reduction, counted from the first."""
    if axis is None:
        return None
    return axes_of(name, axis, x.dim()) if isinstance(axis, tuple) else axis_of(name, axis, x.dim())


def _refuse_empty(name: str, x: Tensor, axis: Any) -> None:
    """Refuse to look for an element where there is none.

    Raises:
        LayoutError: An axis has no elements.
    """
    axes = range(x.dim()) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if any(not x.shape[each] for each in axes):
        raise LayoutError(
            f"{name}: shape {tuple(x.shape)} has no elements along axis {axis}; call it on arrays that have some"
        )


def _total(name: str) -> Callable[..., Tensor]:
    """A sum or product, of the widest integers where integers are given."""
    compute, results = getattr(compat, name), dtypes.RESULTS[name]

    def operate(x: Tensor, /, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Tensor:
        x = tensor_of(name, x)
        axis = _axes(name, x, axis)
        wanted = _choose_sum_dtype(x, dtype, results)
        if keepdims is not False and keepdims is not True:
            keepdims = flag(keepdims, f"{name}: keepdims")
        if wanted not in SIGNED and x.dtype not in SIGNED:
            return compute(x, axis=axis, dtype=wanted, keepdims=keepdims)
        source, able = _able(x, wanted)
        return _unable(compute(source, axis=axis, dtype=able, keepdims=keepdims), wanted)

    return operate


def _choose_sum_dtype(x: Tensor, dtype: Any, results: dict[torch.dtype, torch.dtype]) -> torch.dtype:
    """The dtype of a sum or product."""
    wanted: torch.dtype = torch_dtype(dtype) or results.get(x.dtype, x.dtype)
    if x.is_complex() and wanted in FROM_TORCH:
        arrays.check_conversion(FROM_TORCH[x.dtype], FROM_TORCH[wanted])
    return wanted


def _able(x: Tensor, wanted: torch.dtype) -> tuple[Tensor, torch.dtype]:
    """A tensor and a dtype in which torch sums, where one of them is unsigned: integers as the bits of 64."""
    if wanted is torch.bool:
        return x.to(torch.bool).to(torch.int64), torch.int64
    if wanted in SIGNED:
        return (x.view(torch.int64) if x.dtype is torch.uint64 else x.to(torch.int64)), torch.int64
    return x.to(wanted), wanted


def _unable(x: Tensor, wanted: torch.dtype) -> Tensor:
    return x.view(wanted) if wanted is torch.uint64 else x.to(wanted)


def _make_cumulative_function(name: str) -> Callable[..., Tensor]:
    """Sums or products so far."""
    compute, results = getattr(compat, name), dtypes.RESULTS[name]

    def operate(
        x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
    ) -> Tensor:  # fmt: skip
        x = tensor_of(name, x)
        x = x if x.dim() else x.reshape(1)
        if axis is not None:
            axis = axis_of(name, axis, x.dim())
        elif x.dim() > 1:
            raise ArgumentError(f"{name}: an array of {x.dim()} axes needs axis=; give one")
        wanted = _choose_sum_dtype(x, dtype, results)
        source, able = _able(x, wanted)
        return _unable(compute(source, axis=axis, dtype=able, include_initial=include_initial), wanted)

    return operate


def _deviation(name: str) -> Callable[..., Tensor]:
    """Variance or standard deviation, in float64 of integers."""
    compute, results = getattr(compat, name), dtypes.RESULTS["mean"]

    def operate(x: Tensor, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        x = tensor_of(name, x)
        axis, x = _axes(name, x, axis), x.to(results.get(x.dtype, x.dtype))
        if axis == ():  # over which torch finds no deviation with any correction
            axis, x, keepdims = -1, x.unsqueeze(-1), False
        found: Tensor
        if name == "std" and not float(correction).is_integer():
            found = torch.sqrt(compat.var(x, axis=axis, correction=correction, keepdims=keepdims))
        else:
            found = compute(x, axis=axis, correction=correction, keepdims=keepdims)
        return found.real if found.is_complex() else found

    return operate


def _mean(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return compat.mean(x.to(dtypes.RESULTS["mean"].get(x.dtype, x.dtype)), axis=axis, keepdims=keepdims)


def _extreme(name: str) -> Callable[..., Tensor]:
    compute = getattr(compat, name)
    return lambda x, axis, keepdims: dtypes.from_ordered(
        compute(dtypes.to_ordered(x), axis=axis, keepdims=keepdims), x.dtype
    )


def _position(name: str) -> Callable[..., Tensor]:
    compute = getattr(torch, name)

    def find(x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
        values = x.to(torch.uint8) if x.dtype is torch.bool else dtypes.to_ordered(x)
        found: Tensor = compute(values) if axis is None else compute(values, dim=axis, keepdim=keepdims)
        return found.reshape((1,) * x.dim()) if keepdims and axis is None else found

    return find


def _truth(name: str) -> Callable[..., Tensor]:
    compute = getattr(compat, name)

    def find(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
        if axis == () and name == "count_nonzero":  # over which torch counts all
            return x.to(torch.bool).to(torch.int64)
        return compute(x.to(torch.bool) if x.dtype in SIGNED else x, axis=axis, keepdims=keepdims)

    return find


_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "mean": _mean, **{name: _truth(name) for name in ("all", "any", "count_nonzero")},
    **{name: _extreme(name) for name in ("max", "min")}, **{name: _position(name) for name in ("argmax", "argmin")},
}  # fmt: skip
"""Functions of a tensor, checked axes and whether to keep these."""


def _reduction(name: str) -> Callable[..., Tensor]:
    """A function over axes without other options; of equal elements it finds the first."""
    compute, is_ordering, is_position = _REDUCTIONS[name], name[-3:] in ("max", "min"), name.startswith("arg")

    def operate(x: Tensor, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        x = tensor_of(name, x)
        if is_ordering:
            dtypes.refuse_complex(name, x.dtype)
        if axis is not None:
            axis = axis_of(name, axis, x.dim()) if is_position else _axes(name, x, axis)
        if is_ordering and not x.numel():
            _refuse_empty(name, x, axis)
        return compute(x, axis, keepdims)

    return operate


def sort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis."""
    x = tensor_of("sort", x)
    dtypes.refuse_complex("sort", x.dtype)
    axis = axis_of("sort", axis, x.dim())
    return dtypes.from_ordered(
        compat.sort(dtypes.to_ordered(x), axis=axis, descending=descending, stable=stable), x.dtype
    )


def argsort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort the elements along an axis; equal elements keep their order."""
    x = tensor_of("argsort", x)
    dtypes.refuse_complex("argsort", x.dtype)
    axis = axis_of("argsort", axis, x.dim())
    return compat.argsort(dtypes.to_ordered(x), axis=axis, descending=descending, stable=stable)


# Functions of whole tensors: limits, differences, searches, sets.


def clip(
    x: Tensor, /, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None  # noqa: A002
) -> Tensor:  # fmt: skip
    """Values limited to ``min .. max``, which NumPy also calls ``a_min`` and ``a_max``; None: no limit.

    A Python integer beyond the dtype's own limit is none.
    """
    min, max = min if a_min is None else a_min, max if a_max is None else a_max  # noqa: A001 - the Array API's names
    if dtypes.is_foreign(x):
        return compat.clip(x, min, max)
    x = tensor_of("clip", x)
    least, most = _limit(x, min, is_least=True), _limit(x, max, is_least=False)
    kinds = [dtypes.kind_of("clip", each) for each in (x, least, most) if each is not None]
    wanted = dtypes.promote_types(*kinds)
    dtypes.refuse_complex("clip", wanted)
    for each in (least, most):
        if type(each) is int and wanted in RANGES:
            dtypes.check_fits(each, wanted)
    if least is None and most is None:
        return x.clone()
    dtypes.shape_together("clip", *(each.shape for each in (x, least, most) if isinstance(each, Tensor)))
    found = dtypes.to_ordered(dtypes.as_tensor(x, wanted, x.device))
    if least is not None:
        found = torch.maximum(found, dtypes.to_ordered(dtypes.as_tensor(least, wanted, x.device)))
    if most is not None:
        found = torch.minimum(found, dtypes.to_ordered(dtypes.as_tensor(most, wanted, x.device)))
    return dtypes.from_ordered(found, wanted)


def _limit(x: Tensor, end: Any, *, is_least: bool) -> Any:
    """A limit, if it limits anything."""
    if x.dtype not in RANGES or type(end) is not int:
        return end
    lowest, highest = RANGES[x.dtype]
    return None if ((end <= lowest) if is_least else (end >= highest)) else end


def diff(
    x: Tensor, /, n: int = 1, axis: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Differences of neighbours, ``n`` times."""
    x = tensor_of("diff", x)
    axis_of("diff", axis, x.dim())
    if n < 0:
        raise ArgumentError(f"diff: n={n} is negative; give 0 or more")
    wanted = dtypes.result_type(*(each for each in (x, prepend, append) if each is not None))
    if n == 0:
        return x
    able = torch.int64 if wanted is torch.uint64 else dtypes.WIDE.get(wanted, wanted)
    parts = [dtypes.bits64(each, wanted).to(able) for each in (prepend, x, append) if each is not None]
    joined = concat(parts, axis=axis) if len(parts) > 1 else parts[0]
    found: Tensor = compat.diff(joined, axis=axis, n=n)
    return found.view(wanted) if wanted is torch.uint64 else found.to(wanted)


def _together(name: str, x1: Any, x2: Any) -> list[Tensor]:
    """Two operands in a dtype in which torch compares what NumPy compares."""
    device = dtypes.device_of(name, x1, x2)
    wanted = dtypes.promote_types(dtypes.kind_of(name, x1), dtypes.kind_of(name, x2))
    dtypes.refuse_complex(name, wanted)
    able = {torch.bool: torch.uint8, torch.float8_e4m3fn: torch.float32, torch.float8_e5m2: torch.float32}.get(
        wanted, wanted
    )
    return [dtypes.to_ordered(dtypes.as_tensor(each, able, device)) for each in (x1, x2)]


def searchsorted(
    x1: Tensor, x2: Any, /, side: str = "left", sorter: Tensor | None = None
) -> Tensor:  # fmt: skip
    """The indices at which the elements of ``x2``, or a number, belong in the sorted ``x1``."""
    if side not in ("left", "right"):  # `choice` would break the graph of torch.compile
        raise ArgumentError(f"searchsorted: side={quote(side)} is neither 'left' nor 'right'; give one of them")
    axes = x1.dim() if isinstance(x1, Tensor) else 0
    if axes != 1:
        raise LayoutError(f"searchsorted: x1 has {axes} axes, and one is needed; reshape it")
    if sorter is not None:
        sorter = integers("searchsorted: sorter", sorter)
    one, two = (_keys(each).contiguous() for each in _together("searchsorted", x1, x2))
    return torch.searchsorted(one, two, side=side, sorter=sorter)


def _keys(x: Tensor) -> Tensor:
    """Integers in the order of NumPy's floats, NaN last, after which torch's own search goes astray."""
    if not x.is_floating_point():
        return x
    x = torch.where(torch.isnan(x), torch.nan, x + 0.0)  # one NaN, and one zero
    bits = x.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.dtype.itemsize])
    return torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element of ``x1`` is among the elements of ``x2``; ``invert``: is not."""
    for one, two in ((x1, x2), (x2, x1)):
        if type(one) is int and isinstance(two, Tensor) and two.dtype in RANGES and not dtypes.fits(one, two.dtype):
            shape = () if one is x1 else two.shape
            return torch.full(shape, invert, dtype=torch.bool, device=two.device)
    return torch.isin(*[each.contiguous() for each in _together("isin", x1, x2)], invert=invert)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero."""
    x = tensor_of("nonzero", x)
    if not x.dim():
        raise LayoutError("nonzero: an array without axes has no indices; reshape it to (1,)")
    found: tuple[Tensor, ...] = compat.nonzero(x.to(torch.bool) if x.dtype in SIGNED else x)
    return found


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct elements in order, where each is first, where each element went, and how often each occurs."""
    x = tensor_of("unique_all", x)
    flat = dtypes.to_ordered(x).reshape(-1)
    order = _complex_order(flat) if flat.is_complex() else torch.argsort(flat, stable=True)
    values = flat[order]
    is_first = torch.ones_like(values, dtype=torch.bool)
    is_first[1:] = values[1:] != values[:-1]  # each NaN is distinct, as the standard has it
    group = torch.cumsum(is_first, 0) - 1
    inverse = torch.empty_like(group)
    inverse[order] = group
    starts = torch.nonzero(is_first).reshape(-1)
    counts = torch.diff(starts, append=starts.new_full((1,), flat.numel()))
    distinct = dtypes.from_ordered(values[starts], x.dtype)
    return UniqueAll(distinct, order[starts], inverse.reshape(x.shape), counts)


def _complex_order(x: Tensor) -> Tensor:
    """The order of complex numbers: by the real part, then by the imaginary one; with NaN in them last, as in NumPy."""
    order = torch.argsort(x.imag, stable=True)
    for key in (x.real, torch.isnan(x.imag) + 2 * torch.isnan(x.real)):
        order = order[torch.argsort(key[order], stable=True)]
    return order


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct elements in order, and how often each occurs."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct elements in order, and where each element went among them."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements in order."""
    return unique_all(x).values


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        each.__name__: each
        for each in (
            arange, argsort, asarray, astype, broadcast_arrays, broadcast_shapes, broadcast_to, clip, concat, diff,
            expand_dims, eye, flip, from_dlpack, full, full_like, isin, linspace, meshgrid, moveaxis, nonzero,
            permute_dims, repeat, reshape, roll, searchsorted, sort, squeeze, stack, take, take_along_axis, tile, tril,
            triu, unique_all, unique_counts, unique_inverse, unique_values, unstack, where, dtypes.can_cast,
            dtypes.finfo, dtypes.iinfo, dtypes.isdtype, dtypes.result_type,
        )
    },
    **FILLED,
    **{name: _total(name) for name in ("sum", "prod")},
    **{name: _make_cumulative_function(name) for name in ("cumulative_sum", "cumulative_prod")},
    **{name: _deviation(name) for name in ("std", "var")},
    **{name: _reduction(name) for name in _REDUCTIONS},
}  # fmt: skip
"""The functions of the namespace, but for those of single elements and products."""
