"""Whether memory is page-locked: by the pool, by `pin`, or by another library."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xferlib._core.thresholds import PINNED_QUERY_FROM
from xferlib._memory import pinned, registration

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._memory.lease import Lease


class PinnedRanges(NamedTuple):
    """Page-locked memory that holds all of an array."""

    spans: tuple[tuple[int, int], ...]
    """Addresses and sizes, each one copy: the driver takes no range across two registrations."""
    lease: Lease | None = None
    """The block of the pinned pool that holds the array."""


def find(pointer: int, nbytes: int, backend: Backend) -> PinnedRanges | None:
    """The page-locked ranges that ``nbytes`` at an address lie in; None unless all of it is page-locked.

    The obvious way, to ask the driver, fails three times. It is a driver call, too much for small arrays. The driver
    does not know the pool, whose blocks must learn what event they have to wait for. And it answers for one address,
    while an array may reach beyond the pinned pages. So the pool is asked first, then the registrations, and the driver
    from 256 KiB on, at both ends.
    """
    pool = pinned.pools.made.get(backend.pinned_domain)
    lease = pool.find(pointer) if pool is not None and pool.starts else None
    if lease is not None:
        return PinnedRanges(((pointer, nbytes),), lease)
    known = registration.registrations.made.get(backend.pinned_domain)
    if known is not None and known.segments and (spans := known.spans(pointer, nbytes)) is not None:
        return PinnedRanges(tuple(spans)) if spans else None
    if nbytes >= PINNED_QUERY_FROM and backend.is_pinned(pointer) and backend.is_pinned(pointer + nbytes - 1):
        return PinnedRanges(((pointer, nbytes),))
    return None


def tester(backend: Backend) -> Callable[[int, int], bool]:
    """A function that tells of one array of a tree after the other, by address and bytes, whether `find` finds it.

    The driver is asked no more when it has said no once: a query for each of a hundred arrays takes as long as to copy
    some of them, and memory of another library that is missed so is copied all the same.
    """
    pool, known = pinned.pools.of(backend), registration.registrations.of(backend)
    asks = True

    def is_pinned(pointer: int, nbytes: int) -> bool:
        nonlocal asks
        if pool.find(pointer) is not None:
            return True
        if (spans := known.spans(pointer, nbytes)) is not None:
            return bool(spans)
        if not asks or nbytes < PINNED_QUERY_FROM:
            return False
        asks = backend.is_pinned(pointer) and backend.is_pinned(pointer + nbytes - 1)
        return asks

    return is_pinned
