"""Torch's namespace: views, and elements at other indices; axes, shapes and indices are checked as NumPy does.

Torch's own functions take what NumPy refuses, such as an axis of a tensor without axes, and refuse what NumPy takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_compat.torch as compat
import torch
from torch import Tensor

from xferlib._core.layout import axes_of, axis_of, integer_of, shape_of
from xferlib.backends.torch import namespace_creation as creation
from xferlib.backends.torch import namespace_dtypes as dtypes
from xferlib.errors import ArgumentError, LayoutError, LayoutTypeError, UnsupportedDTypeError, shown

Axes = int | tuple[int, ...]

_back, _moved = creation.back, creation.moved


# --- views


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Views of one common shape."""
    arrays = tuple([creation.tensor_of("broadcast_arrays", each) for each in arrays])
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
    x = creation.tensor_of("broadcast_to", x)
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
    x = creation.tensor_of("expand_dims", x)
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
    x = creation.tensor_of("squeeze", x)
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
    x = creation.tensor_of("moveaxis", x)
    one, two = (axes_of("moveaxis", each, x.dim()) for each in (source, destination))
    if len(one) != len(two):
        raise LayoutError(f"moveaxis: {len(one)} axes and {len(two)} positions; give one for each")
    return torch.moveaxis(x, one, two)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """A view with the axes in another order.

    Raises:
        LayoutError: ``axes`` does not name each axis once.
    """
    x = creation.tensor_of("permute_dims", x)
    order = axes_of("permute_dims", tuple(axes), x.dim())
    if len(order) != x.dim():
        raise LayoutError(f"permute_dims: axes={axes} for an array of {x.dim()} axes; name each once")
    return torch.permute(x, order)


def reshape(x: Tensor, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The elements in another shape: a view where strides allow.

    Raises:
        LayoutError: The shape has another number of elements; or ``copy=False``, and there is no such view.
    """
    x = creation.tensor_of("reshape", x)
    extents = (shape,) if not hasattr(shape, "__iter__") else tuple(shape)
    try:
        found: Tensor = compat.reshape(x, extents, copy=copy)
        return found
    except (RuntimeError, TypeError, ValueError) as error:
        if not all(hasattr(each, "__index__") for each in extents):
            raise LayoutTypeError(f"reshape: shape={shown(shape)} is no shape; give a tuple of integers") from None
        said = str(error).partition("\n")[0]
    remedy = "leave copy=False out" if copy is False else "give a shape of as many elements"
    raise LayoutError(f"reshape: {said}; {remedy}")


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Views of the slices along an axis."""
    x = creation.tensor_of("unstack", x)
    return (*torch.unbind(x, axis_of("unstack", axis, x.dim())),)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid, one tensor for each axis."""
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing={shown(indexing)} is neither 'xy' nor 'ij'")
    flat = [creation.tensor_of("meshgrid", each).reshape(-1) for each in arrays]
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
    given, wanted = _joined("concat", arrays)
    if axis is None:
        return _back(torch.cat([each.reshape(-1) for each in given]), wanted)
    along = axis_of("concat", axis, given[0].dim())
    shapes = {(each.dim(), *each.shape[:along], *each.shape[along + 1 :]) for each in given}
    if len(shapes) > 1:
        listed = ", ".join([str(tuple(each.shape)) for each in given])
        raise LayoutError(f"concat: shapes {listed} differ beside axis {axis}; reshape or cut one of the arrays")
    return _back(torch.cat(given, along), wanted)


def stack(arrays: Sequence[Tensor], /, axis: int = 0) -> Tensor:
    """Join tensors along a new axis.

    Raises:
        LayoutError: The shapes differ, or there is no such axis.
    """
    given, wanted = _joined("stack", arrays)
    if len({each.shape for each in given}) > 1:
        listed = ", ".join([str(tuple(each.shape)) for each in given])
        raise LayoutError(f"stack: shapes {listed} differ; reshape one of them")
    return _back(torch.stack(given, axis_of("stack", axis, given[0].dim() + 1)), wanted)


def _joined(name: str, arrays: Sequence[Tensor]) -> tuple[list[Tensor], torch.dtype]:
    if not len(arrays):
        raise ArgumentError(f"{name}: no array is given; give one or more")
    dtypes.device_of(name, *arrays)
    tensors = [each if isinstance(each, Tensor) else creation.asarray(each) for each in arrays]
    wanted = dtypes.result_type(*tensors) if len(tensors) > 1 else tensors[0].dtype
    return [_moved(each.to(wanted)) for each in tensors], wanted


def flip(x: Tensor, /, axis: Axes | None = None) -> Tensor:
    """The elements in reverse order along axes: a copy, as torch has no view of it."""
    x = creation.tensor_of("flip", x)
    return _back(torch.flip(_moved(x), axes_of("flip", axis, x.dim())), x.dtype)


def repeat(x: Tensor, repeats: int | Tensor, /, axis: int | None = None) -> Tensor:
    """Repeat each element, as often as a number or a tensor of one for each says.

    Raises:
        ArgumentError: A negative number.
        UnsupportedDTypeError: ``repeats`` are no integers.
        LayoutError: There is no such axis, or not one number for each of its elements.
    """
    x = creation.tensor_of("repeat", x)
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
    return _back(torch.repeat_interleave(_moved(x), counts, along), x.dtype)


def roll(x: Tensor, /, shift: Axes, axis: Axes | None = None) -> Tensor:
    """Shift the elements cyclically, along each axis by its own shift or all by one."""
    x = creation.tensor_of("roll", x)
    shifts = shift if isinstance(shift, tuple) else (shift,)
    axes = axis if isinstance(axis, tuple) else (0 if axis is None else axis,)
    if len(shifts) != len(axes):
        if 1 not in (len(shifts), len(axes)):
            raise LayoutError(f"roll: {len(shifts)} shifts and {len(axes)} axes; give one for each")
        shifts, axes = shifts * len(axes), axes * len(shifts)
    flat = _moved(x).reshape(-1) if axis is None else _moved(x)
    places = [axis_of("roll", each, flat.dim()) for each in axes]
    if not places:
        return x.clone()
    return _back(
        torch.roll(flat, [integer_of(each, what="roll: shift") for each in shifts], places).reshape(x.shape), x.dtype
    )


def tile(x: Tensor, repetitions: Any, /) -> Tensor:
    """Repeat the whole tensor along its axes."""
    x = creation.tensor_of("tile", x)
    return _back(torch.tile(_moved(x), shape_of(repetitions, what="tile: repetitions")), x.dtype)


def tril(x: Tensor, /, k: int = 0) -> Tensor:
    """The elements with zeros above a diagonal."""
    return _triangle("tril", x, k)


def triu(x: Tensor, /, k: int = 0) -> Tensor:
    """The elements with zeros below a diagonal."""
    return _triangle("triu", x, k)


def _triangle(name: str, x: Tensor, k: int) -> Tensor:
    x = creation.tensor_of(name, x)
    if x.dim() < 2:
        raise LayoutError(f"{name}: an array of {x.dim()} axes is no matrix; reshape it")
    return _back(getattr(torch, name)(_moved(x), integer_of(k, what=f"{name}: k")), x.dtype)


def take(x: Tensor, indices: Tensor | int, /, axis: int | None = None) -> Tensor:
    """The slices at indices along an axis."""
    x = creation.tensor_of("take", x)
    if axis is None and x.dim() != 1:
        raise LayoutError(f"take: axis=None is no axis of an array of {x.dim()}; give one")
    along = axis_of("take", axis or 0, x.dim())
    if not isinstance(indices, Tensor):
        indices = creation.asarray(indices, device=x.device)
    places = integers("take: indices", indices)
    found = _taken(torch.index_select, _moved(x), along, places.reshape(-1))
    return _back(found.reshape((*x.shape[:along], *places.shape, *x.shape[along + 1 :])), x.dtype)


def take_along_axis(x: Tensor, indices: Tensor, /, axis: int = -1) -> Tensor:
    """The elements at indices, each in its own line along an axis."""
    x = creation.tensor_of("take_along_axis", x)
    along = axis_of("take_along_axis", axis, x.dim())
    places = integers("take_along_axis: indices", indices)
    if places.dim() != x.dim():
        raise LayoutError(f"take_along_axis: indices have {places.dim()} axes, x has {x.dim()}; reshape one")
    common = dtypes.shape_together(
        "take_along_axis", *[(*each.shape[:along], *each.shape[along + 1 :]) for each in (x, places)]
    )
    spread = [each.expand((*common[:along], each.shape[along], *common[along:])) for each in (_moved(x), places)]
    # Torch's own take_along_dim takes indices beyond the extent modulo that.
    return _back(_taken(torch.gather, spread[0], along, spread[1]), x.dtype)


def _taken(take: Any, x: Tensor, along: int, places: Tensor) -> Tensor:
    """The elements at places, of which negative ones count from the end.

    A place out of range is an error on a CPU. On a GPU, where finding it would wait for the device and torch's own
    check destroys the CUDA context, 0 is read there, as in kernels.

    Raises:
        IndexError: A place is out of range on a CPU, or the axis has no elements.
    """
    extent = x.shape[along]
    places = torch.where(places < 0, places + extent, places)
    found: Tensor
    if extent == 0 and places.numel() > 0:
        raise IndexError(f"an index is out of range for axis {along} of 0 elements; give no indices")
    if raises_indices(x):
        try:
            found = take(x, along, places)
        except RuntimeError as error:  # everything else has been checked
            raise IndexError(f"an index is out of range ({error}); it must be below the extent of its axis") from None
        return found
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
