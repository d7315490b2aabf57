"""Whole trees of arrays: nested dicts, lists, tuples, dataclasses, other mappings and records, registered classes.

A thousand copies cost a thousand beginnings, and waits. So the leaves of one call that C can stage are one transfer: on
the device the small ones are views of one slab, and each large one has memory of its own. The others follow alone.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xferlib._api import files, transfers
from xferlib._core import blocks, registry
from xferlib._core.arrays import check_dtype
from xferlib._core.streams import refuse_current
from xferlib._core.thresholds import DRIVER_MOST, TOGETHER_FROM
from xferlib._core.trees import flatten, register, say_where
from xferlib._runtime import checks
from xferlib._runtime.checks import refuse_no_copy, refuse_no_flag
from xferlib._transfer import copies, describe, many, plan, staging
from xferlib._transfer.many import ManyDownload
from xferlib.errors import ArrayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, DeviceSpec, RawStream

__all__ = ["load", "register", "save", "to_device", "to_host"]


if not TYPE_CHECKING:  # or any name would pass a type checker

    def __getattr__(name: str) -> NoReturn:
        checks.refuse(sys.modules[__name__], name, checks.TREE_NAMES)


def to_device(
    tree: Any, *, backend: str | None = None, device: DeviceSpec = None, dtype: Any = None, stream: Any = None,
    copy: bool | None = True, saturate: bool = False,
) -> Any:  # fmt: skip
    """Copy every array of a tree to a device; other leaves stay as they are.

    Args:
        tree: Arrays in nested dicts, lists, tuples, named tuples, dataclasses and registered nodes; in subclasses of
            these, other mappings and sequences, objects of attrs and pydantic, and namespaces. NumPy's scalars are
            arrays without axes, and Python's numbers other leaves.
        backend, device, dtype, stream: As for `xferlib.to_device`. Leaves of up to 2 MiB of one call may
            share a device allocation, which lives as long as any of them.
        copy: True: copy every array. None: an array that is on the device with the dtype stays itself. False: all
            arrays do, or nothing is copied.
        saturate: As for `xferlib.to_device`, of every array; each has memory of its own.

    Returns:
        A tree of the same structure with device arrays. An array object that stands in several places is sent once,
        and one device array stands in all of them; views of the same memory that are objects of their own are not one.
        An object is made again with all its attributes, without a call of its class; ``batch_sizes`` of a torch
        PackedSequence stays on the host. An object of another class stays itself: if it holds arrays, an `XferWarning`
        tells so once for the class.

    Raises:
        As `xferlib.to_device`, before anything is copied.
    """
    if dtype is None and stream is None and copy is True and saturate is False:
        sent = many.send_tree(tree, backend, device)
        if sent is not None:
            return sent
    dtype = None if dtype is None else check_dtype(dtype, what="dtype")
    refuse_no_flag(saturate, "tree.to_device: saturate")
    check = functools.partial(describe.check_leaf, dtype=dtype, is_saturated=saturate)
    try:
        if saturate:
            place = describe.target_of(backend, device, stream, None).device
            send = functools.partial(
                transfers.to_device, device=place, dtype=dtype, stream=stream, copy=copy, saturate=True
            )
            return _move_each(*flatten(tree), check, send)
        return _to_device(tree, backend, device, dtype, stream, copy=copy)
    except ArrayError as error:
        say_where(error, tree, check, "tree")
        raise


def _move_each(
    leaves: list[Any],
    rebuild: Callable[[list[Any]], Any],
    check: Callable[[Any], object],
    move: Callable[[Any], Any],
) -> Any:
    """Move each array by itself, when all have been checked: conversions take longer than the calls."""
    for leaf in leaves:
        check(leaf)
    return rebuild([leaf if registry.owner_of(leaf) is None else move(leaf) for leaf in leaves])


def _to_device(
    tree: Any, backend: str | None, device: DeviceSpec, dtype: Any, stream: Any, *, copy: bool | None
) -> Any:
    leaves, rebuild = flatten(tree)
    if copy is not True:
        refuse_no_copy(copy, "tree.to_device")
        wanted_at = describe.target_of(backend, device, stream, None)
        moving = [n for n, leaf in enumerate(leaves) if not describe.stays(leaf, wanted_at, dtype, copy=copy)]
        sent = _to_device([leaves[n] for n in moving], backend, device, dtype, stream, copy=True)
        return rebuild(_with(leaves, moving, sent))
    if len(leaves) == 1 and type(leaves[0]) is np.ndarray:  # nothing to travel with
        sent = transfers.to_device(leaves[0], backend=backend, device=device, dtype=dtype, stream=stream)
        return rebuild([sent])
    target, place, order, *_ = describe.target_of(backend, device, stream, None)
    refuse_current("tree.to_device", target, place)
    if target.name == "numpy" and dtype is None and stream is None and plan.may_skip():
        results, others = staging.copy_small_leaves(leaves)
        alone = [number for number in others if registry.owner_of(leaves[number]) is not None]
    elif dtype is None and (sent := many.send_again(leaves, target, place, order)) is not None:
        return rebuild(sent)
    else:
        results, alone = _upload_leaves(leaves, dtype, target, place, order)
    if dtype is None and order is None:
        alone = many.send_pinned(leaves, results, alone, place)
    for number in alone:
        results[number] = transfers.to_device(leaves[number], device=place, dtype=dtype, stream=stream)
    return rebuild(results)


def _upload_leaves(
    leaves: list[Any], dtype: Any, target: Backend, place: Device, order: RawStream | None
) -> tuple[list[Any], list[int]]:
    """Copy leaves to a device together; returns the results, and the numbers of those that are to go alone."""
    results = list(leaves)
    if place.kind == "cpu":
        return results, many.all_of(leaves, dtype)
    packed, alone = many.sort_leaves(leaves, dtype)
    if dtype is None and many.keep_upload(leaves, packed, alone, target, place):
        sent = many.send_again(leaves, target, place, order)
        if sent is not None:
            return sent, []
    if order is None and many.are_few(leaves, DRIVER_MOST, target):
        return results, many.all_of(leaves, dtype)
    if not packed and len(alone) < 2:
        return results, alone
    target.attach(place)
    current = order if order is not None else target.stream_current(place)
    if not packed and not many.can_stage(target, current):
        return results, alone
    return results, many.to_device(leaves, results, packed, alone, dtype, target, current)


def _fetch_small(leaves: list[Any], stream: Any, *, pinned: bool) -> list[Any] | None:
    """Copy small arrays of one device to the host together; None, a no-op, where one is of another kind or large."""
    for leaf in leaves:
        if (owner := registry.owner_of(leaf)) is not None:
            break
    else:
        return None
    place = owner.device_of(leaf)
    if place.kind != "cuda":
        return None
    backend = owner.at(place)
    refuse_current("tree.to_host", backend, place)
    backend.attach(place)
    order = describe.raw_stream(stream, place) if stream is not None else backend.stream_current(place)
    found = many.find_download(leaves, place) or many.keep_download(leaves, backend, place)
    return None if found is None else many.fetch_again(*found, leaves, backend, order, is_pinned=pinned)


def _with(leaves: list[Any], numbers: list[int], new: list[Any]) -> list[Any]:
    """The leaves, with ``new`` ones at these numbers."""
    results = list(leaves)
    for number, array in zip(numbers, new, strict=True):
        results[number] = array
    return results


def to_host(
    tree: Any, *, dtype: Any = None, stream: Any = None, pinned: bool = False, copy: bool | None = True,
    saturate: bool = False,
) -> Any:  # fmt: skip
    """Copy every array of a tree to host memory; other leaves stay as they are; complete on return.

    Args:
        tree: As for `to_device`.
        dtype, saturate: As for `xferlib.to_host`, of every array; each has memory of its own.
        stream: The stream after whose pending work the copies run; the current one if omitted.
            Leaves of up to 2 MiB of one call share host allocations, each of which lives as long as any of its leaves.
        pinned: Return arrays in page-locked memory of the pool: for a tree that is sent back, or kept for a while and
            its memory used again. Leaves of any size share its blocks, which may be as large as the tree.
        copy: True: copy every array. None: a NumPy array stays itself. False: all arrays do, or nothing is copied.

    Returns:
        A tree of the same structure with NumPy arrays; what stands in several places is copied once, as above.

    Raises:
        As `xferlib.to_host`; for a dtype before anything is copied.
    """
    if dtype is stream is None and copy is True and type(pinned) is bool and saturate is False:
        found = many.fetch_tree(tree, is_pinned=pinned)
        if found is not None:
            return found
    refuse_no_flag(pinned, "tree.to_host: pinned")
    refuse_no_flag(saturate, "tree.to_host: saturate")
    dtype = None if dtype is None else check_dtype(dtype, what="dtype")
    check = functools.partial(describe.check_leaf, dtype=dtype, is_saturated=saturate)
    try:
        if dtype is not None or saturate:
            fetch = functools.partial(
                transfers.to_host, dtype=dtype, stream=stream, pinned=pinned, copy=copy, saturate=saturate
            )
            return _move_each(*flatten(tree, moving="device"), check, fetch)
        return _to_host(tree, stream, pinned=pinned, copy=copy)
    except ArrayError as error:
        say_where(error, tree, check, "tree")
        raise


def _to_host(tree: Any, stream: Any, *, pinned: bool, copy: bool | None) -> Any:
    blocks.follow()
    leaves, rebuild = flatten(tree, moving="device")
    if copy is not True:
        refuse_no_copy(copy, "tree.to_host")
        moving = [
            n
            for n, leaf in enumerate(leaves)
            if registry.owner_of(leaf) is not None and (pinned or not copies.is_host_array(leaf, None))
        ]
        if copy is False and moving:
            raise copies.to_host_needs_a_copy(leaves[moving[0]], pinned=pinned)
        got = _to_host([leaves[n] for n in moving], stream, pinned=pinned, copy=True)
        return rebuild(_with(leaves, moving, got))
    if len(leaves) == 1 and registry.owner_of(leaves[0]) is not None:
        return rebuild([transfers.to_host(leaves[0], stream=stream, pinned=pinned)])
    if (results := _fetch_small(leaves, stream, pinned=pinned)) is not None:
        return rebuild(results)
    if stream is None and many.are_few(leaves, TOGETHER_FROM):
        return rebuild(
            [leaf if registry.owner_of(leaf) is None else transfers.to_host(leaf, pinned=pinned) for leaf in leaves]
        )
    results, numbers = list(leaves), list(range(len(leaves)))
    if stream is None and not pinned and plan.may_skip():
        results, numbers = staging.copy_small_leaves(leaves)
    alone: list[int] = []
    downloads: dict[Device, ManyDownload] = {}
    try:
        for number in numbers:
            leaf = leaves[number]
            if (owner := registry.owner_of(leaf)) is None:
                continue
            place = owner.device_of(leaf)
            if (found := downloads.get(place)) is None:
                if place.kind == "cpu":
                    alone.append(number)
                    continue
                found = downloads[place] = _begin_download(results, owner.at(place), place, stream, is_pinned=pinned)
            found.add(number, leaf)
        for each in downloads.values():
            each.finish_adding()
            alone += each.alone
        for number in alone:
            results[number] = transfers.to_host(leaves[number], stream=stream, pinned=pinned)
        for each in downloads.values():
            each.finish()
    except BaseException:
        for each in downloads.values():
            each.abort()
        raise
    return rebuild(results)


def _begin_download(
    results: list[Any], backend: Backend, device: Device, stream: Any, *, is_pinned: bool
) -> ManyDownload:
    """The download of the leaves that are on one device."""
    refuse_current("tree.to_host", backend, device)
    backend.attach(device)
    order = describe.raw_stream(stream, device) if stream is not None else backend.stream_current(device)
    return ManyDownload(results, backend, order, is_pinned=is_pinned)


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Write the arrays of a tree, and its structure, to a file; complete, or as it was, when this returns or raises.

    Args:
        path: A name that ends in ``.npz``, NumPy's format, or in ``.safetensors``, which needs the extra of that name.
            Arrays are named by the keys and numbers that lead to them: ``layers/0/weight``.
        tree: Arrays of any backend in nested dicts, lists and tuples, beside numbers, texts and None. Named tuples,
            dataclasses and registered nodes are read again with ``like=``.

    Raises:
        ArgumentError: No path, another ending, or a dict with a key that is neither a text nor a whole number; keys
            of more than 65,000 bytes in all; more than 200 containers within each other.
        UnsupportedArrayError: A leaf is of another kind.
        UnsupportedDTypeError: The format has no such dtype: complex128 in safetensors, bfloat16 in ``.npz``.
        BackendUnavailableError: safetensors is not installed.
        OSError: The file cannot be written.
    """
    files.save(path, tree, to_host)


def load(
    path: str | os.PathLike[str],
    *,
    like: Any = None,
    backend: str | None = None,
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    saturate: bool = False,
) -> Any:
    """Read the arrays of a file to a device, from the file's memory, in the tree that was saved.

    Args:
        path: A file of `save`, or any other of these formats: it gives a dict of arrays by their names.
        like: A tree with the file's names, whose classes and other leaves the result has.
        backend, device, dtype, stream, saturate: As for `xferlib.to_device`.

    Returns:
        A tree with device arrays.

    Raises:
        ArgumentError: The file is damaged, as the checksums of ``.npz`` or claims that it does not keep tell, or holds
            classes or names that the tree of ``like=`` has not.
        UnsupportedDTypeError: It holds dtypes of ml_dtypes, which is not installed, or that the backend has not.
        FileNotFoundError: There is no such file.
    """
    send = functools.partial(to_device, backend=backend, device=device, dtype=dtype, stream=stream, saturate=saturate)
    describe.target_of(backend, device, stream, None)  # before the file is read
    return files.load(files.path_of(path, "load(path)"), like, send)
