"""The choice of the path on which an array crosses the link. Pure: nothing is allocated or copied here.

The obvious way is to ask the driver whether an address is pinned, and to stage everything else. It fails three times.
The question is a driver call, too much for small arrays. The driver does not know the pool, which must learn what
event a block has to wait for. And it answers for one address, while an array may reach beyond the pinned pages, or
across several registrations, each of which is a copy of its own.

So `plan` asks in the order of what an answer costs: size, the pinned pool by address, the `pin` blocks, and only from
256 KiB on the driver, at both ends of the array. Arrays that are dense but not in C order are sent as they lie, from
1 MiB on, and reordered on the device, if the destination is ours to fill in two steps. The rest is staged.

Guaranteed: the plan names memory that is pinned at the time, with the lease or the spans that the copies need; a
forced path that the array cannot take becomes `STAGED`. The caller keeps that memory pinned until the copies end.

There is no lock here. The pool and the registrations take their own, one after the other, for one look each.
"""

from __future__ import annotations

from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core.layout import HostArray, address, dense_order
from xferlib._core.thresholds import (
    DRIVER_MOST_DOWN,
    DRIVER_MOST_OF_ALL,
    DRIVER_MOST_UP,
    MEDIUM_NBYTES,
    PERMUTED_FROM,
    PINNED_QUERY_FROM,
    SMALL_NBYTES,
)
from xferlib._memory import pinned, registration
from xferlib._memory.pinned import Lease
from xferlib._runtime import config
from xferlib.errors import SlowPathError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend


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


class Plan(NamedTuple):
    """A path, and what it needs."""

    path: Path
    spans: tuple[tuple[int, int], ...] = ()
    """Pinned address ranges, each one copy."""
    order: tuple[int, ...] = ()
    """The array's axes in the order of memory."""
    lease: Lease | None = None
    """The block of the pinned pool that holds the array."""


_EMPTY = Plan(Path.EMPTY)
_SMALL = Plan(Path.SMALL)
STAGED = Plan(Path.STAGED)

_forced: ContextVar[Path | None] = ContextVar("xferlib_forced_path", default=None)
"""Tests force a path with this; a path that an array cannot take falls back to staging."""
forced = _forced.get


def plan(
    array: HostArray, dtype: np.dtype[Any], backend: Backend, *, may_permute: bool, is_blocking: bool = True
) -> Plan:
    """The path for a host array.

    Args:
        array: The host side of the transfer, of any layout.
        dtype: Of the device side.
        backend: Of the device side.
        may_permute: Whether the device side is ours to fill in two steps.
        is_blocking: The host waits for the transfer, so it does not matter when the copy is made.
    """
    nbytes = array.size * dtype.itemsize
    if not nbytes:
        return _EMPTY
    wanted = forced()
    # Small arrays take the slab even if they are pinned, unless each must take as long as the contract allows.
    is_small = nbytes <= SMALL_NBYTES and (wanted is None or wanted is Path.SMALL)
    if is_small and (wanted is Path.SMALL or backend.capabilities.small_at_once):
        return _SMALL
    if array.dtype == dtype and wanted not in (Path.STAGED, Path.SMALL):
        found = _direct(array, backend, may_permute, wanted)
        if found is not None:
            return found
    return _SMALL if is_small and is_blocking else STAGED


def _direct(array: HostArray, backend: Backend, may_permute: bool, wanted: Path | None) -> Plan | None:
    if array.flags.c_contiguous:
        pointer = address(array)
        # The pool first: only a lease tells which block a copy has to hold.
        lease = pinned.pools.of(backend).find(pointer)
        if lease is not None:
            return Plan(Path.PINNED, ((pointer, array.nbytes),), lease=lease)
        spans = _registered_spans(pointer, array.nbytes, backend)
        return Plan(Path.PINNED, spans) if spans else None
    if may_permute and backend.capabilities.kernels and (array.nbytes >= PERMUTED_FROM or wanted is Path.PERMUTED):
        order = dense_order(array)
        if order is not None:
            return Plan(Path.PERMUTED, order=order)
    return None


def is_drivers_size(nbytes: int, *, is_upward: bool) -> bool:
    """Whether the driver's own copy of ordinary memory is as fast as staging it, in this process."""
    most = DRIVER_MOST_UP if is_upward else DRIVER_MOST_DOWN
    return nbytes <= most or (nbytes <= DRIVER_MOST_OF_ALL and not _native.is_on())


def is_direct(pointer: int, nbytes: int, backend: Backend) -> bool:
    """Whether one synchronous copy by the driver is as fast as any other upload, for memory at that address."""
    if is_drivers_size(nbytes, is_upward=True):
        return True
    return nbytes <= DRIVER_MOST_OF_ALL and pinned.pools.of(backend).find(pointer) is not None


def is_plain(found: Plan, array: HostArray, dtype: np.dtype[Any]) -> bool:
    """Whether the array is staged by copying its bytes, which are contiguous."""
    return found.path is Path.STAGED and array.flags.c_contiguous and array.dtype == dtype and forced() is None


def is_medium(found: Plan, array: HostArray, dtype: np.dtype[Any]) -> bool:
    """True if the array is small enough (<= 2 MiB) to be staged into a slab and sent with a single DMA."""
    return array.nbytes <= MEDIUM_NBYTES and is_plain(found, array, dtype)


def suits_driver(found: Plan, array: HostArray, dtype: np.dtype[Any], *, is_upward: bool) -> bool:
    """Whether the driver's own staging, one thread and synchronous, is as fast for this array as ours."""
    return (
        (found.path is Path.STAGED or found.path is Path.SMALL)
        and is_drivers_size(array.nbytes, is_upward=is_upward)
        and array.flags.c_contiguous
        and array.dtype == dtype
        and forced() is None
    )


def pinned_spans(array: HostArray, backend: Backend) -> tuple[tuple[int, int], ...]:
    """The address ranges of a C-contiguous array if all of it is page-locked, else nothing."""
    pointer, nbytes = address(array), array.nbytes
    if pinned.pools.of(backend).find(pointer) is not None:
        return ((pointer, nbytes),)
    return _registered_spans(pointer, nbytes, backend)


def _registered_spans(pointer: int, nbytes: int, backend: Backend) -> tuple[tuple[int, int], ...]:
    """`pinned_spans` for memory that is not of the pool."""
    spans = registration.registrations.of(backend).spans(pointer, nbytes)
    if spans is not None:
        return tuple(spans)  # one copy each: the driver takes no range across two registrations
    # Both ends: memory that another library pinned may end within the array.
    if nbytes >= PINNED_QUERY_FROM and backend.is_pinned(pointer) and backend.is_pinned(pointer + nbytes - 1):
        return ((pointer, nbytes),)
    return ()


def refuse_slow(found: Plan, array: HostArray, call: str) -> None:
    """Enforce ``XFERLIB_STRICT=pageable``.

    Raises:
        SlowPathError: The transfer would be staged.
    """
    if (found.path is Path.STAGED or found.path is Path.PERMUTED) and "pageable" in config.get().strict:
        raise SlowPathError(
            f"{call}: {array.nbytes} bytes of pageable memory would be staged, and XFERLIB_STRICT=pageable refuses "
            "that; make the array with pinned_empty() or pinned_array(x)"
        )
