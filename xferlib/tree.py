"""Whole trees of arrays: nested dicts, lists, tuples, named tuples, dataclasses, registered classes.

A thousand small copies cost a thousand launches. Small leaves are copied together: packed into one
pinned slab, sent with one DMA, and cut into views of one device slab; each large leaf is copied alone.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api import transfers
from xferlib._api.files import saving
from xferlib._core import registry
from xferlib._core.array import check_dtype
from xferlib._core.containers import flatten, register
from xferlib._core.ordering import capture
from xferlib._core.thresholds import PACKED_DOWN_FROM, PACKED_LEAF_MOST, PACKED_UP_FROM, TOGETHER_FROM
from xferlib._runtime.checks import refuse_no_flag
from xferlib._transfer import copies, ends, many, one_step, packing

if TYPE_CHECKING:
    import os

    from xferlib._core.array import ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, DeviceSpec

__all__ = ["load", "register", "save", "to_device", "to_host"]


def to_device(
    tree: Any, *, backend: str | None = None, device: DeviceSpec = None, dtype: Any = None, stream: Any = None,
    copy: bool | None = True,
) -> Any:  # fmt: skip
    """Copy every array of a tree to a device; other leaves stay as they are.

    Args:
        tree: Arrays in nested dicts, lists, tuples, named tuples, dataclasses and registered nodes.
        backend, device, dtype, stream: As for `xferlib.to_device`. Small leaves of one call share a
            device allocation, which lives as long as any of them.
        copy: True: copy every array. None: an array that is on the device with the dtype stays itself. False: all
            arrays do, or nothing is copied.

    Returns:
        A tree of the same structure with device arrays. An array object that stands in several places is sent once,
        and one device array stands in all of them; views of the same memory that are objects of their own are not one.

    Raises:
        As `xferlib.to_device`, before anything is copied.
    """
    leaves, rebuild = flatten(tree)
    if copy is not True:
        wanted_at = ends.target_of(backend, device, stream, None)
        moving = [n for n, leaf in enumerate(leaves) if not ends.stays(leaf, wanted_at, dtype, copy=copy)]
        sent = to_device([leaves[n] for n in moving], backend=backend, device=device, dtype=dtype, stream=stream)
        return rebuild(_with(leaves, moving, sent))
    if len(leaves) == 1 and type(leaves[0]) is np.ndarray:  # nothing to travel with
        sent = transfers.to_device(leaves[0], backend=backend, device=device, dtype=dtype, stream=stream)
        return rebuild([sent])
    target, place, order, *_ = ends.target_of(backend, device, stream, None)
    capture.refuse_current("tree.to_device", target, place)
    results = list(leaves)
    # A simulated device takes as long as the contract allows: a leaf alone is complete earlier.
    least = PACKED_UP_FROM if target.capabilities.small_at_once else 2
    packed, alone = packing.chosen(leaves, dtype, place, least=least)
    wanted = None if dtype is None else check_dtype(dtype, what="dtype")
    if place.kind == "cpu" and dtype is None and stream is None:
        alone = one_step.to_cpu(leaves, alone, target, results)
    elif packed or len(alone) > 1:
        target.attach(place)
        current = order if order is not None else target.stream_current(place)

        def send_small() -> None:
            if packed:
                packing.send(leaves, results, packed, target, current)

        if many.is_worth(leaves, alone, target, place):
            together = many.to_device(leaves, alone, wanted, target, place, current, send_small)
            for number, array in together.items():
                results[number] = array
            alone = [number for number in alone if number not in together]
        else:
            send_small()
    for number in alone:
        results[number] = transfers.to_device(leaves[number], device=place, dtype=dtype, stream=stream)
    return rebuild(results)


def _with(leaves: list[Any], numbers: list[int], new: list[Any]) -> list[Any]:
    """The leaves, with ``new`` ones at these numbers."""
    results = list(leaves)
    for number, array in zip(numbers, new, strict=True):
        results[number] = array
    return results


def to_host(tree: Any, *, stream: Any = None, pinned: bool = False, copy: bool | None = True) -> Any:
    """Copy every array of a tree to host memory; other leaves stay as they are; complete on return.

    Args:
        tree: As for `to_device`.
        stream: The stream after whose pending work the copies run; the current one if omitted.
            Small leaves of one call share a host allocation, which lives as long as any of them.
        pinned: Return arrays in page-locked memory of the pool: for a tree that is sent back, or kept for a while and
            its memory used again.
        copy: True: copy every array. None: a NumPy array stays itself. False: all arrays do, or nothing is copied.

    Returns:
        A tree of the same structure with NumPy arrays; what stands in several places is copied once, as above.
    """
    refuse_no_flag(pinned, "tree.to_host: pinned")
    leaves, rebuild = flatten(tree)
    if copy is not True:
        foreign = [n for n, leaf in enumerate(leaves) if type(leaf) is not np.ndarray and registry.backend_of(leaf)]
        if copy is False and foreign:
            raise copies.to_host_needs_a_copy(leaves[foreign[0]], None, None)
        got = to_host([leaves[n] for n in foreign], stream=stream, pinned=pinned)
        return rebuild(_with(leaves, foreign, got))
    if len(leaves) == 1 and registry.backend_of(leaves[0]) is not None:
        return rebuild([transfers.to_host(leaves[0], stream=stream, pinned=pinned)])
    results = list(leaves)
    small: dict[tuple[Backend, Any], list[_Leaf]] = {}
    large: dict[tuple[Backend, Any], list[_Leaf]] = {}
    for number, leaf in enumerate(leaves):
        owner = registry.backend_of(leaf)
        if owner is None:
            continue
        if owner.fast is None and not owner.capabilities.streams:  # a CPU's: nothing travels together
            results[number] = transfers.to_host(leaf, stream=stream, pinned=pinned)
            continue
        info = owner.view(leaf)
        nbytes, device = info.nbytes, info.device
        is_plain = nbytes > 0 and info.is_writable and info.is_c_contiguous
        if is_plain and device.kind == "cuda" and nbytes <= PACKED_LEAF_MOST:
            small.setdefault((owner, device), []).append((number, leaf, info))
        elif is_plain and device.kind != "cpu" and owner.resolved(leaf) is leaf:
            large.setdefault((owner, device), []).append((number, leaf, info))
        else:
            results[number] = transfers.to_host(leaf, stream=stream, pinned=pinned)
    for owner, place in dict.fromkeys((*large, *small)):
        capture.refuse_current("tree.to_host", owner.at(place), place)
        key, backend = (owner, place), owner.at(place)
        _fetch(results, large.get(key, []), small.get(key, []), backend, place, stream, is_pinned=pinned)
    return rebuild(results)


_Leaf = tuple[int, Any, "ArrayInfo"]
"""An array on a device: its number, itself, its location and layout."""


def _fetch(
    results: list[Any], large: list[_Leaf], small: list[_Leaf], backend: Backend, device: Device, stream: Any, *,
    is_pinned: bool,
) -> None:  # fmt: skip
    """Copy the leaves that are on one device to the host."""
    backend.attach(device)
    order = ends.raw_stream(stream, device) if stream is not None else backend.stream_current(device)

    def put(members: list[_Leaf], arrays: list[Any]) -> None:
        for (number, _, _), array in zip(members, arrays, strict=True):
            results[number] = array

    def fetch_alone(members: list[_Leaf]) -> None:
        put(members, [transfers.to_host(leaf, stream=stream, pinned=is_pinned) for _, leaf, _ in members])

    def fetch_small() -> None:
        if len(small) >= PACKED_DOWN_FROM:
            put(small, packing.receive([info for _, _, info in small], backend, order, is_pinned=is_pinned))
        else:
            fetch_alone(small)

    infos = [info for _, _, info in large]
    is_worth = len(infos) > 1 and sum(info.nbytes for info in infos) >= TOGETHER_FROM
    if is_worth and not is_pinned and many.can_stage(backend, device):
        put(large, many.to_host(infos, backend, order, [leaf for _, leaf, _ in large], fetch_small))
        return
    if is_worth and is_pinned:
        put(large, many.to_pinned(infos, backend, order, fetch_small))
        return
    fetch_alone(large)
    fetch_small()


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Write the arrays of a tree, and its structure, to a file; complete, or as it was, when this returns or raises.

    Args:
        path: A name that ends in ``.npz``, NumPy's format, or in ``.safetensors``, which needs the extra of that name.
            Arrays are named by the keys and numbers that lead to them: ``layers/0/weight``.
        tree: Arrays of any backend in nested dicts, lists and tuples, beside numbers, texts and None. Named tuples,
            dataclasses and registered nodes are read again with ``like=``.

    Raises:
        ArgumentError: The name has another ending, or a dict a key that is neither a text nor a whole number.
        UnsupportedArrayError: A leaf is of another kind.
        UnsupportedDTypeError: The format has no such dtype: complex128 in safetensors, torch's bfloat16 in ``.npz``.
        BackendUnavailableError: safetensors is not installed.
        OSError: The file cannot be written.
    """
    saving.save(Path(path), tree, to_host)


def load(
    path: str | os.PathLike[str],
    *,
    like: Any = None,
    backend: str | None = None,
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
) -> Any:
    """Read the arrays of a file to a device, from the file's memory, in the tree that was saved.

    Args:
        path: A file of `save`, or any other of these formats: it gives a dict of arrays by their names.
        like: A tree with the file's names, whose classes and other leaves the result has.
        backend, device, dtype, stream: As for `xferlib.to_device`.

    Returns:
        A tree with device arrays.

    Raises:
        ArgumentError: The file is damaged, or holds classes or names that the tree of ``like=`` has not.
        UnsupportedDTypeError: It holds bfloat16, and the backend has none: give ``dtype=``.
        FileNotFoundError: There is no such file.
    """
    send = functools.partial(to_device, backend=backend, device=device, dtype=dtype, stream=stream)
    target, *_ = ends.target_of(backend, device, stream, None)
    return saving.load(Path(path), like, send, target, has_dtype=dtype is not None)
