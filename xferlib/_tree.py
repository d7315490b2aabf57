"""Whole trees of arrays: nested dicts, lists, tuples, named tuples, dataclasses, registered classes.

A thousand small copies cost a thousand launches. Small leaves travel together: packed into one
pinned slab, sent with one DMA, and cut into views of one device slab; large leaves go their own way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
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
_BYTE = np.dtype(np.uint8)


def register(cls: type, flatten: Callable[[Any], tuple[Any, Any]], unflatten: Callable[[Any, Any], Any]) -> None:
    """Make a class a node of trees.

    Args:
        cls: The class.
        flatten: ``flatten(node) -> (children, metadata)``.
        unflatten: ``unflatten(metadata, children) -> node``.
    """
    import optree

    optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE)


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
    target, place, order, _ = _api.target_of(backend, device, stream, None)
    results = list(leaves)
    kinds: dict[tuple[tuple[int, ...], np.dtype[Any]], list[int]] = {}
    alone: list[int] = []
    for number, leaf in enumerate(leaves):
        if type(leaf) is np.ndarray:
            kinds.setdefault((leaf.shape, leaf.dtype), []).append(number)
        elif _registry.backend_of(leaf) is not None:
            _check_leaf(leaf.dtype, dtype)
            alone.append(number)
    packed: list[_Kind] = []
    for (shape, given), members in kinds.items():
        wanted = _check_leaf(given, dtype)
        if place.kind != "cpu" and 0 < math.prod(shape) * wanted.itemsize <= _SMALL_NBYTES:
            packed.append(_Kind(shape, given, wanted, members))
        else:
            alone += members
    if sum(len(kind.members) for kind in packed) > 1:
        target.attach(place)
        _send_packed(leaves, results, packed, target, order if order is not None else target.stream_current(place))
    else:
        alone += [member for kind in packed for member in kind.members]
    for number in alone:
        results[number] = _api.to_device(leaves[number], backend=backend, device=place, dtype=dtype, stream=stream)
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
        if (
            info.device.kind == "cuda"
            and 0 < info.nbytes <= _SMALL_NBYTES
            and info.is_writable
            and info.is_c_contiguous
        ):
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
        fresh = [cls for cls in set(map(type, leaves)) if dataclasses.is_dataclass(cls)]
        if not fresh:
            return leaves, functools.partial(optree.tree_unflatten, spec)
        for cls in fresh:
            _register_dataclass(cls)


def _register_dataclass(cls: type) -> None:
    names = tuple(field.name for field in dataclasses.fields(cls))

    def flatten(node: Any) -> tuple[tuple[Any, ...], None]:
        return tuple(getattr(node, name) for name in names), None

    def unflatten(_: None, children: Any) -> Any:
        node: Any = object.__new__(cls)  # not through __init__: it may check or change what it is given
        for name, child in zip(names, children, strict=True):
            object.__setattr__(node, name, child)
        return node

    with contextlib.suppress(ValueError):  # another thread has registered it meanwhile
        register(cls, flatten, unflatten)


def _check_leaf(dtype_given: Any, dtype: Any) -> np.dtype[Any]:
    """The dtype that a leaf arrives in."""
    given = _array.check_dtype(dtype_given)
    if dtype is None:
        return given
    wanted = _array.check_dtype(dtype, what="dtype")
    _convert.check_conversion(given, wanted)
    return wanted


# --- upward


class _Kind(NamedTuple):
    """Leaves of one shape and dtype."""

    shape: tuple[int, ...]
    given: np.dtype[Any]
    wanted: np.dtype[Any]
    members: list[int]


class _Group(NamedTuple):
    """Leaves that lie one behind the other in the slab."""

    offset: int
    kind: _Kind
    members: list[int]


def _layout_of(kinds: list[_Kind]) -> tuple[list[_Group], int]:
    """Places in a slab, and the slab's size in bytes.

    Every leaf is aligned for 16-byte loads: one whose size is no multiple of that is a group of its own.
    """
    groups: list[_Group] = []
    offset = 0
    for kind in kinds:
        nbytes = math.prod(kind.shape) * kind.wanted.itemsize
        is_aligned = nbytes % _VECTOR_NBYTES == 0
        for part in [kind.members] if is_aligned else [[member] for member in kind.members]:
            groups.append(_Group(offset, kind, part))
            offset += -(-nbytes * len(part) // _ALIGNMENT) * _ALIGNMENT
    return groups, offset


def _send_packed(
    leaves: list[Any], results: list[Any], kinds: list[_Kind], backend: Backend, stream: RawStream
) -> None:
    groups, nbytes = _layout_of(kinds)
    slab = backend.empty((nbytes,), _BYTE, device=stream.device, stream=stream)
    staged = _pinned.pool_of(backend).empty((nbytes,), _BYTE)
    for group in groups:
        _fill(_block(staged, group), group, leaves)
    _move.host_to_device(staged, backend, stream.device, _BYTE, stream, slab, backend.view(slab))
    for group in groups:
        arrays = backend.subarrays(slab, group.offset, len(group.members), group.kind.shape, group.kind.wanted)
        for number, array in zip(group.members, arrays, strict=True):
            results[number] = array


def _fill(block: HostArray, group: _Group, leaves: list[Any]) -> None:
    shape, given, wanted, _ = group.kind
    if shape and given == wanted and len(group.members) > 1:
        np.concatenate([leaves[member] for member in group.members], axis=0, out=block.reshape(-1, *shape[1:]))
        return
    for index, member in enumerate(group.members):
        _convert.copy_into(block[index, ...], leaves[member])


def _block(slab: HostArray, group: _Group) -> HostArray:
    """A group's bytes in a host slab as an array of shape (members, *shape)."""
    return np.ndarray((len(group.members), *group.kind.shape), group.kind.wanted, slab, group.offset)


# --- downward


def _receive_packed(infos: list[ArrayInfo], backend: Backend, stream: RawStream) -> list[HostArray]:
    by_kind: dict[tuple[tuple[int, ...], np.dtype[Any]], list[int]] = {}
    for number, info in enumerate(infos):
        by_kind.setdefault((info.shape, info.dtype), []).append(number)
    groups, nbytes = _layout_of([_Kind(shape, dtype, dtype, members) for (shape, dtype), members in by_kind.items()])
    backend.attach(stream.device)
    slab = backend.empty((nbytes,), _BYTE, device=stream.device, stream=stream)
    pieces = [
        (infos[member].pointer, group.offset + index * infos[member].nbytes, infos[member].nbytes)
        for group in groups
        for index, member in enumerate(group.members)
    ]
    _gather.gather(backend.view(slab), pieces, backend, stream)
    host = _move.device_to_host(slab, backend.view(slab), backend, _BYTE, stream, None)
    results: list[Any] = [None] * len(infos)
    for group in groups:
        block = _block(host, group)
        for index, member in enumerate(group.members):
            results[member] = block[index, ...]
    return results
