"""Blocking downloads of one array in few steps; what `one_step` is for uploads.

Up to 1 MiB the driver copies, into whatever memory the result lies in; to the pinned pool it copies any size. A small
array that is to lie otherwise, or to be converted, is fetched into the thread's slab and put in its places, in one call
of C. From some size on a conversion that saves bytes on the link, or work on the host, is a kernel on the device.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native
from xferlib._core import registry
from xferlib._core.array import repeats
from xferlib._core.layout import address
from xferlib._core.thresholds import CAST_ON_DEVICE_FROM, DRIVER_MOST_DOWN, GATHERED_MOST
from xferlib._memory import host, pinned, pinned_ranges, slab
from xferlib._transfer import compiled_copies, compiled_staging, host_copy, plan, staged
from xferlib._transfer.one_step import arriving, converted, memory_of

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream


def to_host(d: Any, out: Any, dtype: Any = None, *, is_pinned: bool = False) -> HostArray | None:
    """Copy ``d`` to the host, complete on return. None, a no-op, in every case that is not this module's.

    Args:
        d: Of any kind.
        out: Filled, if given.
        dtype: As for `xferlib.to_host`.
        is_pinned: The result is a new array of the pinned pool.
    """
    owner = registry.backend_of(d)
    if owner is None or not plan.may_skip():
        return None
    if (fast := owner.fast) is None:
        if dtype is not None or is_pinned:
            return None
        memory = memory_of(d, owner) if not owner.capabilities.streams else None
        return host_copy.copied(memory, out) if memory is not None else None
    found = fast.whole(d)
    if found is None:
        return None
    pointer, shape, given = found
    wanted = given if dtype is None else arriving(given, dtype)
    nbytes = math.prod(shape) * given.itemsize
    if wanted is None or not nbytes:
        return None
    if out is not None:
        if type(out) is not np.ndarray or out.shape != shape or out.dtype != wanted or not out.flags.writeable:
            return None
        if 0 in out.strides and repeats(shape, out.strides):
            return None
    if wanted != given and _is_cast_first(d, nbytes // given.itemsize, given, wanted, owner, is_pinned=is_pinned):
        made = converted(d, shape, wanted, owner)
        return to_host(made, out, is_pinned=is_pinned) if made is not None else None
    if wanted != given or (out is not None and not out.flags.carray):
        if nbytes > GATHERED_MOST or not _native.is_on():
            return None
        return _fetch_and_scatter(d, pointer, given, owner, _result(out, shape, wanted, owner, is_pinned=is_pinned))
    dst = _result(out, shape, wanted, owner, is_pinned=is_pinned)
    if dst is None:
        return None
    target = address(dst)
    if out is not None and nbytes > DRIVER_MOST_DOWN and pinned_ranges.find(target, nbytes, owner) is not None:
        return None
    info = owner.view(d)
    backend = owner.at(info.device)
    backend.attach(info.device)
    stream = backend.stream_current(info.device)
    if is_pinned:
        return _fetch_pinned(dst, target, info, backend, stream)
    if nbytes > DRIVER_MOST_DOWN:
        if compiled_staging.stage(dst, given, target, pointer, backend, stream, is_upward=False):
            return dst
        if not plan.is_drivers_size(nbytes, is_upward=False):
            return None
    if not fast.takes_pageable(stream, idle=False):
        return None
    return dst if fast.copy_to_host(target, pointer, nbytes, stream=stream) else None


def _is_cast_first(
    d: Any, size: int, given: np.dtype[Any], wanted: np.dtype[Any], owner: Backend, *, is_pinned: bool
) -> bool:
    """Whether a download is converted on the device: fewer bytes travel, or nothing is left to do on the host."""
    device = owner.device_of(d)
    if plan.casts_on_device(wanted, given, size, device):
        return True
    return is_pinned and device.kind == "cuda" and size * wanted.itemsize >= CAST_ON_DEVICE_FROM


def _result(
    out: HostArray | None, shape: tuple[int, ...], dtype: np.dtype[Any], owner: Backend, *, is_pinned: bool
) -> HostArray | None:
    """The caller's array, or a new one; None where the pinned pool is full, and set up to give ordinary memory."""
    if out is not None:
        return out
    if not is_pinned:
        return host.host_cache.empty(shape, dtype)
    made = pinned.pools.of(owner).empty(shape, dtype)
    return made if made.base is not None else None  # the owner of ordinary memory is the array itself


def _fetch_pinned(dst: HostArray, target: int, info: ArrayInfo, backend: Backend, stream: RawStream) -> HostArray:
    try:
        backend.copy(target, info.pointer, info.nbytes, stream=stream)
    finally:
        staged.await_copy(backend, stream)  # the memory must outlive what has been enqueued
    return dst


def _fetch_and_scatter(
    d: Any, pointer: int, given: np.dtype[Any], owner: Backend, dst: HostArray | None
) -> HostArray | None:
    """Copy a small array to the thread's slab as it is, and from there to its places on the host, converted."""
    if dst is None or owner.fast is None:
        return None
    layout = compiled_copies.form(dst.shape, dst.strides, dst.dtype, given)
    if layout is None:
        return None
    nbytes, memory = dst.size * given.itemsize, slab.scratch_of(owner)
    return dst if owner.fast.fetch_scattered(dst, layout.address, d, pointer, nbytes, memory) else None
