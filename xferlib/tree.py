"""Whole trees of arrays: nested dicts, lists, tuples, named tuples, dataclasses, registered classes.

A thousand small copies cost a thousand launches. Small leaves are copied together: packed into one
pinned slab, sent with one DMA, and cut into views of one device slab; each large leaf is copied alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib._api import transfers
from xferlib._core import registry
from xferlib._core.array import check_dtype
from xferlib._core.containers import flatten, register
from xferlib._core.thresholds import PACKED_DOWN_FROM, PACKED_LEAF_MOST, PACKED_UP_FROM, TOGETHER_FROM
from xferlib._runtime.checks import refuse_no_flag
from xferlib._transfer import ends, many, packing

if TYPE_CHECKING:
    from xferlib._core.array import Array, ArrayInfo
    from xferlib._core.backend import Backend

__all__ = ["register", "to_device", "to_host"]


def to_device(
    tree: Any, *, backend: str | None = None, device: Any = None, dtype: Any = None, stream: Any = None
) -> Any:
    """Copy every array of a tree to a device; other leaves stay as they are.

    Args:
        tree: Arrays in nested dicts, lists, tuples, named tuples, dataclasses and registered nodes.
        backend, device, dtype, stream: As for `xferlib.to_device`. Small leaves of one call share a
            device allocation, which lives as long as any of them.

    Returns:
        A tree of the same structure with device arrays. An array object that stands in several places is sent once,
        and one device array stands in all of them; views of the same memory that are objects of their own are not one.

    Raises:
        As `xferlib.to_device`, before anything is copied.
    """
    leaves, rebuild = flatten(tree)
    target, place, order, *_ = ends.target_of(backend, device, stream, None)
    results = list(leaves)
    packed, alone = packing.chosen(leaves, dtype, place, least=PACKED_UP_FROM)
    wanted = None if dtype is None else check_dtype(dtype, what="dtype")
    together = many.chosen(leaves, alone, wanted, target, place)
    if packed or together:
        target.attach(place)
        current = order if order is not None else target.stream_current(place)

        def send_small() -> None:
            if packed:
                packing.send(leaves, results, packed, target, current)

        if together:
            arrays = many.to_device(list(together.values()), target, place, current, send_small)
            for number, array in zip(together, arrays, strict=True):
                results[number] = array
        else:
            send_small()
    for number in alone:
        if number not in together:
            results[number] = transfers.to_device(leaves[number], device=place, dtype=dtype, stream=stream)
    return rebuild(results)


def to_host(tree: Any, *, stream: Any = None, pinned: bool = False) -> Any:
    """Copy every array of a tree to host memory; other leaves stay as they are; complete on return.

    Args:
        tree: As for `to_device`.
        stream: The stream after whose pending work the copies run; the current one if omitted.
            Small leaves of one call share a host allocation, which lives as long as any of them.
        pinned: Return arrays in page-locked memory of the pool: for a tree that is sent back, or kept for a while and
            its memory used again.

    Returns:
        A tree of the same structure with NumPy arrays; what stands in several places is copied once, as above.
    """
    refuse_no_flag(pinned, "tree.to_host: pinned")
    leaves, rebuild = flatten(tree)
    results = list(leaves)
    groups: dict[tuple[Backend, Any], list[tuple[int, Array, ArrayInfo]]] = {}
    large: dict[tuple[Backend, Any], list[tuple[int, Array, ArrayInfo]]] = {}
    for number, leaf in enumerate(leaves):
        owner = registry.backend_of(leaf)
        if owner is None:
            continue
        info = owner.view(leaf)
        is_plain = info.nbytes > 0 and info.is_writable and info.is_c_contiguous
        if is_plain and info.device.kind == "cuda" and info.nbytes <= PACKED_LEAF_MOST:
            groups.setdefault((owner.at(info.device), info.device), []).append((number, leaf, info))
        elif is_plain and info.device.kind != "cpu" and owner.resolved(leaf) is leaf:
            large.setdefault((owner.at(info.device), info.device), []).append((number, leaf, info))
        else:
            results[number] = transfers.to_host(leaf, stream=stream, pinned=pinned)
    for (owner, place), members in large.items():
        infos = [info for _, _, info in members]
        is_worth = len(infos) > 1 and sum(info.nbytes for info in infos) >= TOGETHER_FROM
        if not is_worth or not (pinned or many.can_stage(owner, place)):
            for number, leaf, _ in members:
                results[number] = transfers.to_host(leaf, stream=stream, pinned=pinned)
            continue
        owner.attach(place)
        order = ends.raw_stream(stream, place) if stream is not None else owner.stream_current(place)
        if pinned:
            arrays = many.to_pinned(infos, owner, order)
        else:
            arrays = many.to_host(infos, owner, order, [leaf for _, leaf, _ in members])
        for (number, _, _), array in zip(members, arrays, strict=True):
            results[number] = array
    for (owner, place), members in groups.items():
        if len(members) < PACKED_DOWN_FROM:
            for number, leaf, _ in members:
                results[number] = transfers.to_host(leaf, stream=stream, pinned=pinned)
            continue
        order = ends.raw_stream(stream, place) if stream is not None else owner.stream_current(place)
        arrays = packing.receive([info for _, _, info in members], owner, order, is_pinned=pinned)
        for (number, _, _), array in zip(members, arrays, strict=True):
            results[number] = array
    return rebuild(results)
