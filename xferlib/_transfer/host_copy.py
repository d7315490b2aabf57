"""Copies between host arrays: what a transfer to or from a CPU device is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import observe
from xferlib._core.array import SUPPORTED
from xferlib._core.convert import copy_into
from xferlib._core.layout import HostArray, mapped, overlaps_itself
from xferlib._core.observe import Kind
from xferlib._core.thresholds import HOST_HELPER_NBYTES
from xferlib._memory import host, mmap_advice
from xferlib._native import driver_calls
from xferlib._transfer import compiled_copies, plan

if TYPE_CHECKING:
    from xferlib._core.array import Array
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device


def copy_on_cpu(kind: Kind, dst: HostArray, src: HostArray, backend: Backend, device: Device) -> None:
    """Fill one host array from another that shares no memory with it: all that a copy to or from a CPU device is."""
    if (recorder := observe.active) is None:
        copy_on_host(dst, src)
    else:
        recorder.on_host(kind, "copy", dst.nbytes, backend, device, lambda: copy_on_host(dst, src))


def is_fitting(dst: HostArray, src: HostArray, wanted: np.dtype[Any]) -> bool:
    """Whether ``dst`` may be filled from ``src``: its shape and the dtype that arrives fit, and no memory is shared."""
    if dst.dtype != wanted or dst.shape != src.shape or wanted not in SUPPORTED or not dst.flags.writeable:
        return False
    return not (np.may_share_memory(dst, src) or overlaps_itself(dst.shape, dst.strides, dst.dtype.itemsize))


def new(backend: Backend, device: Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array on a CPU device, whose pages are recycled or huge where it is large."""
    if backend.name == "numpy":  # which has no pool of its own
        return host.host_cache.empty(shape, dtype)
    made = backend.empty(shape, dtype, device=device, stream=backend.stream_current(device))
    mmap_advice.prefer_huge(backend.host_view(made))
    return made


def copied(src: HostArray, out: HostArray | None) -> HostArray | None:
    """A copy of an array, in ``out`` if given; None, a no-op, where more than that is to be done."""
    if out is None:
        if src.dtype not in SUPPORTED:
            return None
        if src.nbytes < HOST_HELPER_NBYTES:
            return src.copy()
        out = host.host_cache.empty(src.shape, src.dtype)
    elif type(out) is not np.ndarray or not is_fitting(out, src, src.dtype):
        return None
    copy_on_host(out, src)
    return out


def copied_each(leaves: list[Any]) -> tuple[list[Any], list[int]]:
    """Copy the small host arrays among some objects.

    Returns:
        The objects, with the copies in place of those arrays, and the numbers of the other objects.
    """
    copy_all = driver_calls.copier()
    others = 1
    if copy_all is not None:
        made, others = copy_all(leaves, HOST_HELPER_NBYTES - 1)
    else:
        made = [leaf.copy() if _is_small(leaf) else leaf for leaf in leaves]
    if not others:
        return made, []
    return made, [number for number, (one, leaf) in enumerate(zip(made, leaves, strict=True)) if one is leaf]


def _is_small(leaf: Any) -> bool:
    if type(leaf) is not np.ndarray or mapped(leaf) is not None:
        return False
    return leaf.nbytes < HOST_HELPER_NBYTES and leaf.dtype in SUPPORTED


def copy_on_host(dst: HostArray, src: HostArray) -> None:
    """Fill one host array from another, by several threads where it is large and they are compiled."""
    if not compiled_copies.copy_between(dst, src, plan.helpers()):
        copy_into(dst, src)
