"""Copies by one synchronous driver call, in as few steps as possible: most blocking calls are of this kind.

`_transfer.routes` knows every case. This module knows one, in which a single synchronous copy is
the whole transfer, and leaves the others to it: up to 2 MiB for uploads and 6 for downloads (24 from
the pinned pool, or where nothing stages in C), both ends in C order and of one shape and dtype, on a
stream that the driver's copies are ordered behind. Up to there the driver is as fast as several threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import observe, registry
from xferlib._core.layout import address
from xferlib._core.thresholds import DRIVER_MOST_DOWN, DRIVER_MOST_UP
from xferlib._runtime import config
from xferlib._transfer import plan

if TYPE_CHECKING:
    from xferlib._core.array import Array, ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream


def _is_open() -> bool:
    """Whether the fast path may be used: no trace is open, no path is forced, strict mode is off."""
    return observe.active is None and plan.forced() is None and not config.get().strict


def upload(x: Any, out: Array) -> bool:
    """Fill ``out`` from ``x``, which has been read on return; False, a no-op, in every other case."""
    if type(x) is not np.ndarray:
        return False
    owner = registry.backend_of(out)
    if owner is None or (fast := owner.fast) is None or not (pointer := fast.twin(out, x)) or not _is_open():
        return False
    if owner.follows_writes:
        owner.note_write(out, "out")
    if fast.send_whole(x, out, pointer, DRIVER_MOST_UP):
        return True
    into = owner.view(out)
    backend = owner.at(into.device)
    backend.attach(into.device)
    return send(x, into, backend, backend.stream_current(into.device))


def fill(src: HostArray, out: Array, backend: Backend) -> bool:
    """Fill a new array, in C order and of the shape and dtype of ``src``, in one step; False, a no-op, otherwise."""
    fast = backend.fast
    return fast is not None and _is_open() and fast.send_whole(src, out, backend.operands((out,))[0], DRIVER_MOST_UP)


def send(src: HostArray, into: ArrayInfo, backend: Backend, stream: RawStream) -> bool:
    """Fill a C-contiguous destination of the shape of ``src``; False, a no-op, in every other case."""
    nbytes, fast = src.nbytes, backend.fast
    if not nbytes or fast is None or src.dtype != into.dtype or not src.flags.c_contiguous or not _is_open():
        return False
    pointer = address(src)
    return (
        plan.is_direct(pointer, nbytes, backend)
        and fast.takes_pageable(stream, idle=True)
        and fast.copy_to_device(into.pointer, pointer, nbytes, stream=stream)
    )


def download(d: Any, out: Any) -> HostArray | None:
    """Copy ``d`` to the host, into ``out`` if given; complete on return. None, a no-op, in every other case."""
    owner = registry.backend_of(d)
    if owner is None or (fast := owner.fast) is None or not _is_open():
        return None
    most = DRIVER_MOST_DOWN
    if out is not None:
        if type(out) is not np.ndarray or not (pointer := fast.twin(d, out)):
            return None
        if fast.fetch_whole(out, d, pointer, most):
            return out
    info = owner.view(d)
    nbytes = info.nbytes
    if info.device.kind == "cpu" or not nbytes or not plan.is_drivers_size(nbytes, is_upward=False):
        return None
    if not (info.is_c_contiguous if out is None else out.flags.carray):
        return None
    backend = owner.at(info.device)
    if backend.resolved(d) is not d:
        return None
    dst: HostArray = out if out is not None else np.empty(info.shape, info.dtype)
    if out is None and fast.fetch_whole(dst, d, info.pointer, most):
        return dst
    backend.attach(info.device)
    stream = backend.stream_current(info.device)
    if not fast.takes_pageable(stream, idle=False):
        return None
    return dst if fast.copy_to_host(address(dst), info.pointer, nbytes, stream=stream) else None
