"""Whole trees of arrays: nested dicts, lists, tuples, named tuples, dataclasses, registered classes.

A thousand small copies cost a thousand launches. Small leaves travel together: packed into one
pinned slab, sent with one DMA, and cut into views of one device slab; large leaves go their own way.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _api, _array, _convert, _gather, _move, _pinned, _registry
from xferlib._array import Array, ArrayInfo

if TYPE_CHECKING:
    from xferlib._layout import HostArray
    from xferlib.backends.base import Backend, RawStream

NAMESPACE = "xferlib"
"""Namespace of `optree` in which xferlib looks for custom nodes, besides the global one."""

_SMALL_NBYTES = 256 << 10
_ALIGNMENT = 256
_VECTOR_NBYTES = 16


def register(
    cls: type, flatten: Callable[[Any], tuple[Any, Any]], unflatten: Callable[[Any, Any], Any]
) -> None:
    """Make a class a node of trees.

    Args:
        cls: The class.
        flatten: ``flatten(node) -> (children, metadata)``.
        unflatten: ``unflatten(metadata, children) -> node``.
    """
    import optree

    optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE)  # type: ignore[arg-type]


def to_device(
    tree: Any, *, backend: str | None = None, device: Any = None, dtype: Any = None, stream: Any = None
) -> Any:
    """Copy every array of a tree to a device; other leaves stay as they are.

    Args:
        tree: Arrays in nested dicts, lists, tuples, named tuples, dataclasses and registered nodes.
        backend, device, dtype, stream: As for `xferlib.to_device`. Small leaves of one call share a
            device allocation, which lives as long as any of them.

    Returns:
        A tree of the same structure with device arrays.

    Raises:
        As `xferlib.to_device`, before anything is copied.
    """
    leaves, rebuild = _flatten(tree)
    target, place, order = _api.target_of(backend, device, stream, None)
    results = list(leaves)
    packed: list[int] = []
    for number, leaf in enumerate(leaves):
        if type(leaf) is np.ndarray or _registry.backend_of(leaf) is not None:
            wanted = _check_leaf(leaf, dtype)
            if type(leaf) is np.ndarray and 0 < leaf.size * wanted.itemsize <= _SMALL_NBYTES and place.kind != "cpu":
                packed.append(number)
            else:
                results[number] = None
    if len(packed) > 1:
        target.attach(place)
        carrier = order if order is not None else target.stream_current(place)
        arrays = _send_packed([leaves[number] for number in packed], dtype, target, carrier)
        for number, array in zip(packed, arrays, strict=True):
            results[number] = array
    elif packed:
        results[packed[0]] = None
    for number, leaf in enumerate(leaves):
        if results[number] is None and leaf is not None:
            results[number] = _api.to_device(leaf, backend=backend, device=place, dtype=dtype, stream=stream)
    return rebuild(results)


def to_host(tree: Any, *, stream: Any = None) -> Any:
    """Copy every array of a tree to host memory; other leaves stay as they are; complete on return.

    Args:
        tree: As for `to_device`.
        stream: The stream after whose pending work the copies run; the current one if omitted.
            Small leaves of one call share a host allocation, which lives as long as any of them.

    Returns:
        A tree of the same structure with NumPy arrays.
    """
    leaves, rebuild = _flatten(tree)
    results = list(leaves)
    groups: dict[tuple[Backend, Any], list[tuple[int, Array, ArrayInfo]]] = {}
    for number, leaf in enumerate(leaves):
        owner = _registry.backend_of(leaf)
        if owner is None:
            continue
        info = owner.view(leaf)
        if info.device.kind == "cuda" and 0 < info.nbytes <= _SMALL_NBYTES and info.is_writable and info.is_c_contiguous:
            groups.setdefault((owner.at(info.device), info.device), []).append((number, leaf, info))
        else:
            results[number] = _api.to_host(leaf, stream=stream)
    for (owner, place), members in groups.items():
        order = _api.raw_stream(stream, place) if stream is not None else owner.stream_current(place)
        arrays = _receive_packed([info for _, _, info in members], owner, order)
        for (number, _, _), array in zip(members, arrays, strict=True):
            results[number] = array
    return rebuild(results)


def _flatten(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves in order, and what puts new ones in their places."""
    import optree

    while True:
        leaves, spec = optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)
        fresh = {type(leaf) for leaf in leaves if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)}
        if not fresh:
            return leaves, lambda new: optree.tree_unflatten(spec, new)
        for cls in fresh:
            _register_dataclass(cls)


def _register_dataclass(cls: type) -> None:
    names = tuple(field.name for field in dataclasses.fields(cls))

    def flatten(node: Any) -> tuple[tuple[Any, ...], None]:
        return tuple(getattr(node, name) for name in names), None

    def unflatten(_: None, children: Any) -> Any:
        node = object.__new__(cls)  # not through __init__: it may check or change what it is given
        for name, child in zip(names, children, strict=True):
            object.__setattr__(node, name, child)
        return node

    with contextlib.suppress(ValueError):  # another thread has registered it meanwhile
        register(cls, flatten, unflatten)


def _check_leaf(leaf: Any, dtype: Any) -> np.dtype[Any]:
    given = _array.check_dtype(leaf.dtype)
    if dtype is None:
        return given
    wanted = _array.check_dtype(dtype, what="dtype")
    _convert.check_conversion(given, wanted)
    return wanted


# --- upward


class _Group(NamedTuple):
    """Leaves of one shape and dtype, one behind the other in the slab."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    members: list[int]


def _layout_of(kinds: list[tuple[tuple[int, ...], np.dtype[Any]]]) -> tuple[list[_Group], int]:
    """Places in a slab for leaves of these shapes and dtypes, and the slab's size in bytes.

    Every leaf is aligned for 16-byte loads: one whose size is no multiple of that is a group of its own.
    """
    by_kind: dict[Any, list[int]] = {}
    for number, (shape, dtype) in enumerate(kinds):
        by_kind.setdefault((shape, dtype), []).append(number)
    groups: list[_Group] = []
    offset = 0
    for (shape, dtype), members in by_kind.items():
        nbytes = dtype.itemsize
        for extent in shape:
            nbytes *= extent
        for part in [members] if nbytes % _VECTOR_NBYTES == 0 else [[member] for member in members]:
            groups.append(_Group(offset, shape, dtype, part))
            offset += -(-nbytes * len(part) // _ALIGNMENT) * _ALIGNMENT
    return groups, offset


def _send_packed(leaves: list[HostArray], dtype: Any, backend: Backend, stream: RawStream) -> list[Array]:
    wanted = None if dtype is None else _array.check_dtype(dtype)
    kinds = [(leaf.shape, wanted or _native(leaf.dtype)) for leaf in leaves]
    groups, nbytes = _layout_of(kinds)
    slab = backend.empty((nbytes,), np.dtype(np.uint8), device=stream.device, stream=stream)
    staged = _pinned.pool_of(backend).empty((nbytes,), np.dtype(np.uint8))
    for group in groups:
        _fill(staged, group, leaves)
    _move.host_to_device(staged, backend, stream.device, staged.dtype, stream, slab, backend.view(slab))
    results: list[Array] = [None] * len(leaves)
    for group in groups:
        count = len(group.members)
        for number, array in zip(
            group.members, backend.subarrays(slab, group.offset, count, group.shape, group.dtype), strict=True
        ):
            results[number] = array
    return results


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def _fill(staged: HostArray, group: _Group, leaves: list[HostArray]) -> None:
    block = _block(staged, group)
    arrays = [leaves[member] for member in group.members]
    is_plain = group.shape != () and all([array.dtype == group.dtype for array in arrays])
    if is_plain and len(arrays) > 1:
        np.concatenate(arrays, axis=0, out=block.reshape(-1, *group.shape[1:]))
    else:
        for row, array in zip(block, arrays, strict=True) if group.shape else ():
            _convert.copy_into(row, array)
        for index, array in enumerate(arrays if not group.shape else ()):
            _convert.copy_into(block[index : index + 1].reshape(()), array)


def _block(slab: HostArray, group: _Group) -> HostArray:
    """A group's bytes in a host slab as an array of shape (members, *shape)."""
    count = len(group.members)
    return np.ndarray((count, *group.shape), group.dtype, slab, group.offset)


# --- downward


def _receive_packed(infos: list[ArrayInfo], backend: Backend, stream: RawStream) -> list[HostArray]:
    groups, nbytes = _layout_of([(info.shape, info.dtype) for info in infos])
    backend.attach(stream.device)
    slab = backend.empty((nbytes,), np.dtype(np.uint8), device=stream.device, stream=stream)
    pieces = [
        (infos[member].pointer, group.offset + index * infos[member].nbytes, infos[member].nbytes)
        for group in groups
        for index, member in enumerate(group.members)
    ]
    _gather.gather(backend.view(slab), pieces, backend, stream)
    host = _move.device_to_host(slab, backend.view(slab), backend, np.dtype(np.uint8), stream, None)
    results: list[Any] = [None] * len(infos)
    for group in groups:
        block = _block(host, group)
        for index, member in enumerate(group.members):
            results[member] = block[index, ...]
    return results


__all__ = ["NAMESPACE", "register", "to_device", "to_host"]

