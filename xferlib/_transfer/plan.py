"""The choice of the path on which an array crosses the link. Pure: nothing is looked up, allocated or copied here.

The obvious way is to ask the driver whether an address is pinned, and to stage everything else. `plan` asks in the
order of what an answer costs: size, then layout, and only then whether the memory is pinned (see
`xferlib._memory.pinned_ranges`), which `HostEnd` finds out when it is asked. Arrays that are dense but not in C order
are sent as they lie, from 1 MiB on, and reordered on the device, if the destination is ours to fill in two steps. The
rest is staged.

Guaranteed: the plan names memory that is pinned at the time, with the lease or the spans that the copies need; a
forced path that the array cannot take becomes `STAGED`. The caller keeps that memory pinned until the copies end.
"""

from __future__ import annotations

from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core import observe, raw
from xferlib._core.layout import dense_order
from xferlib._core.thresholds import (
    C_PIECE_MOST,
    CAST_ON_DEVICE_FROM,
    DRIVER_MOST_DOWN,
    DRIVER_MOST_OF_ALL,
    DRIVER_MOST_UP,
    HOST_HELPER_NBYTES,
    PERMUTED_FROM,
    SMALL_NBYTES,
)
from xferlib._runtime import circumstances, config, thread_budget
from xferlib.errors import SlowPathError

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.device import Device
    from xferlib._memory.pinned_ranges import PinnedRanges
    from xferlib._transfer.host_end import HostEnd


class Path(str, Enum):
    """How the bytes travel between host and device."""

    EMPTY = "empty"
    """Nothing to copy."""
    SMALL = "small"
    """One thread, through a pinned slab."""
    PINNED = "pinned"
    """Straight between page-locked memory and the device."""
    STAGED = "staged"
    """Through a ring of pinned chunks that several threads fill or drain, gathering and converting."""
    PERMUTED = "permuted"
    """Sent in the order of memory, then put in C order on the device."""


class DeviceStep(Enum):
    """The work that an upload leaves to the device, once the bytes have arrived."""

    NONE = "nothing"
    SPREAD = "copy them to their places in an array with gaps"
    CAST = "convert them to a wider dtype"


class Plan(NamedTuple):
    """A path, and what it needs."""

    path: Path
    pinned: PinnedRanges | None = None
    """Of `Path.PINNED`."""
    order: tuple[int, ...] = ()
    """Of `Path.PERMUTED`: the array's axes in the order of memory."""
    may_shorten: bool = False
    """Pageable memory that is staged: a shorter way will do, where one is as fast."""


_EMPTY = Plan(Path.EMPTY)
_SMALL = Plan(Path.SMALL, may_shorten=True)
_FORCED_SMALL = Plan(Path.SMALL)
STAGED = Plan(Path.STAGED, may_shorten=True)
_FORCED_STAGED = Plan(Path.STAGED)

_forced: ContextVar[Path | None] = ContextVar("xferlib_forced_path", default=None)
"""Tests force a path with this; a path that an array cannot take falls back to staging."""
forced = _forced.get


_ordinary = 0
"""The number of circumstances in which no trace and no capture is open, and strict mode is off."""


def may_skip() -> bool:
    """Whether a call may take a shorter way than a plan's.

    Not where a trace or a capture is open, a path is forced, or strict mode is on.
    """
    global _ordinary
    if forced() is not None:
        return False
    now = circumstances.number[0]  # before the look: a change meanwhile voids what it finds
    if now != _ordinary:
        if observe.active is not None or raw.opened or config.get().strict:
            return False
        _ordinary = now
    return True


def plan(end: HostEnd, *, may_permute: bool, is_blocking: bool = True) -> Plan:
    """The path for the host's end of a copy.

    Args:
        end: The source of an upload, or the destination of a download.
        may_permute: Whether the device side is ours to fill in two steps.
        is_blocking: The host waits for the transfer, so it does not matter when the copy is made.
    """
    if not end.nbytes:
        return _EMPTY
    wanted = forced()
    # Small arrays take the slab even if they are pinned, unless each must take as long as the contract allows.
    is_small = end.nbytes <= SMALL_NBYTES and (wanted is None or wanted is Path.SMALL)
    if is_small and (wanted is Path.SMALL or end.backend.capabilities.small_at_once):
        return _SMALL if wanted is None else _FORCED_SMALL
    if wanted is not Path.STAGED and wanted is not Path.SMALL:
        if end.is_plain:
            if end.pinned is not None:
                return Plan(Path.PINNED, end.pinned)
        elif may_permute and (order := _permuted(end, wanted)) is not None:
            return Plan(Path.PERMUTED, order=order)
    if is_small and is_blocking:
        return _SMALL if wanted is None else _FORCED_SMALL
    return STAGED if wanted is None else _FORCED_STAGED


def _permuted(end: HostEnd, wanted: Path | None) -> tuple[int, ...] | None:
    """The axes of a dense array in the order of memory, where the device is to put it in C order."""
    is_large = end.nbytes >= PERMUTED_FROM or wanted is Path.PERMUTED
    if not is_large or not end.keeps_dtype or not end.backend.capabilities.kernels:
        return None
    array = end.array
    return dense_order(array.shape, array.strides, array.itemsize)


def device_step(end: HostEnd, into: ArrayInfo) -> DeviceStep:
    """The work on the device that an upload to an array ends with."""
    if not end.keeps_dtype and is_cast_after(end, into.device):
        return DeviceStep.CAST
    return DeviceStep.NONE if into.is_c_contiguous else DeviceStep.SPREAD


def is_cast_after(end: HostEnd, device: Device) -> bool:
    """Whether an upload is sent as it is and converted on the device: fewer bytes travel, or the host need not work.

    Threads convert pinned memory at some 35 GB/s of the source, and the link carries it at 55.
    """
    if casts_on_device(end.array.dtype, end.dtype, end.array.size, device):
        return True
    return device.kind == "cuda" and end.array.nbytes >= CAST_ON_DEVICE_FROM and end.is_read_by_device


def casts_on_device(narrow: np.dtype[Any], wide: np.dtype[Any], size: int, device: Device) -> bool:
    """Whether converting ``size`` elements on the device sends fewer bytes, and enough fewer to pay for a kernel."""
    is_large = size * wide.itemsize >= CAST_ON_DEVICE_FROM
    return is_large and narrow.itemsize < wide.itemsize and device.kind == "cuda"


def is_drivers_size(nbytes: int, *, is_upward: bool) -> bool:
    """Whether the driver's own copy of ordinary memory is as fast as staging it, in this process."""
    most = DRIVER_MOST_UP if is_upward else DRIVER_MOST_DOWN
    return nbytes <= most or (nbytes <= DRIVER_MOST_OF_ALL and not _native.is_on())


def suits_driver(found: Plan, end: HostEnd, *, is_upward: bool) -> bool:
    """Whether the driver's own staging, one thread and synchronous, is as fast for this array as ours."""
    return found.may_shorten and end.is_plain and is_drivers_size(end.nbytes, is_upward=is_upward)


def refuse_slow(found: Plan, nbytes: int, call: str) -> None:
    """Enforce ``XFERLIB_STRICT=pageable``.

    Raises:
        SlowPathError: The transfer would be staged.
    """
    if (found.path is Path.STAGED or found.path is Path.PERMUTED) and "pageable" in config.get().strict:
        raise SlowPathError(
            f"{call}: {nbytes} bytes of pageable memory would be staged, and XFERLIB_STRICT=pageable refuses "
            "that; make the array with pinned_empty() or pinned_array(x)"
        )


# --- how much one thread takes, and how many take part; tests replace both functions


def helpers(nbytes: int) -> int:
    """How many of Python's threads are worth waking beside the caller's to copy between host arrays."""
    return min(thread_budget.crew().each_way - 1, nbytes // HOST_HELPER_NBYTES)


def chunk_nbytes() -> int:
    """Most bytes that a thread fills or empties at a time."""
    return C_PIECE_MOST
