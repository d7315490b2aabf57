"""Blocking downloads of one array in few steps; what `one_step` is for uploads.

Up to 2 MiB the driver copies, into whatever memory the result lies in; to the pinned pool it copies any size. A small
array that is to lie otherwise, or to be converted, is fetched into the thread's slab and put in its places, in one call
of C; for a transposed one a kernel puts the elements in the order of its memory. From some size on a conversion that
saves bytes on the link, or work on the host, is a kernel on the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import registry
from xferlib._core.array import c_strides
from xferlib._core.layout import address, overlaps_itself, refuse_truncated
from xferlib._memory import host, pinned, pinned_ranges, slab
from xferlib._transfer import compiled_staging, host_copy, plan, staged
from xferlib._transfer.one_step import arriving, converted, memory_of
from xferlib._transfer.plan import Conversion, Path

if TYPE_CHECKING:
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
    if out is not None:
        refuse_truncated(out, "to_host: out")
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
    if wanted is None or 0 in shape:
        return None
    if out is not None:
        if type(out) is not np.ndarray or out.shape != shape or out.dtype != wanted or not out.flags.writeable:
            return None
        if not out.flags.c_contiguous and overlaps_itself(shape, out.strides, out.dtype.itemsize):
            return None
    device = owner.view(d).device
    backend = owner.at(device)
    means = plan.known.get(device) or plan.means_of(backend, device)
    strides = out.strides if out is not None else c_strides(shape, wanted.itemsize)
    place: plan.Memory = "pooled" if is_pinned else "pageable"
    way = plan.compiled(shape, strides, wanted, given, means, False, True, True, True, place, None)
    if way.path is Path.PERMUTED:
        return None
    if way.conversion is Conversion.ON_DEVICE:
        made = converted(d, shape, wanted, owner)
        return to_host(made, out, is_pinned=is_pinned) if made is not None else None
    if not way.is_plain and (way.path is not Path.SMALL or way.form is None):
        return None
    dst = _result(out, shape, wanted, owner, is_pinned=is_pinned)
    if dst is None:
        return None
    if way.form is not None:
        scratch = slab.scratch_of(owner)
        return dst if fast.fetch_scattered(dst, way.form.address, d, pointer, way.nbytes, scratch) else None
    target = address(dst)
    backend.attach(device)
    stream = backend.stream_current(device)
    if is_pinned:
        return _fetch_pinned(dst, target, pointer, way.nbytes, backend, stream)
    if way.tries_driver:
        is_taken = fast.takes_pageable(stream, idle=False)
        return dst if is_taken and fast.copy_to_host(target, pointer, way.nbytes, stream=stream) else None
    if out is not None and pinned_ranges.find(target, way.nbytes, owner) is not None:
        return None
    is_staged = compiled_staging.stage(dst, given, target, pointer, backend, stream, is_upward=False)
    return dst if is_staged else None


def _result(
    out: HostArray | None, shape: tuple[int, ...], dtype: np.dtype[Any], owner: Backend, *, is_pinned: bool
) -> HostArray | None:
    """The caller's array, or a new one; None where the pinned pool is full, and set up to give ordinary memory."""
    if out is not None:
        return out
    if not is_pinned:
        return host.host_cache.empty(shape, dtype)
    made = pinned.pools.of(owner)._lend(shape, dtype)
    return made if made.base is not None else None  # the owner of ordinary memory is the array itself


def _fetch_pinned(
    dst: HostArray, target: int, pointer: int, nbytes: int, backend: Backend, stream: RawStream
) -> HostArray:
    try:
        backend.copy(target, pointer, nbytes, stream=stream)
    finally:
        staged.await_copy(backend, stream)  # the memory must outlive what has been enqueued
    return dst
