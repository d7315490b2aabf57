"""The arrays of a staged transfer, as C takes them: each contiguous on the device, of any layout on the host."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xferlib import _native
from xferlib._memory import host
from xferlib._transfer import compiled_copies
from xferlib._transfer.compiled_copies import LINE

if TYPE_CHECKING:
    import numpy as np

    from xferlib._core.layout import HostArray
    from xferlib._transfer.compiled_copies import HostForm
    from xferlib._transfer.host_end import HostEnd


class Regions(NamedTuple):
    """Arrays of one transfer."""

    table: Any
    """An array of `xferlib._native.ArrayRegion`, or one."""
    number: int
    nbytes: int
    """On the device."""
    keep: Any
    """The arrays, and descriptions that ``table`` points to."""


def of_one(end: HostEnd, pointer: int) -> Regions | None:
    """Describe one array and its address on the device; None where that has too many axes."""
    region = _native.ArrayRegion()
    form = describe(region, end.array, end.dtype, end.pointer, pointer)
    return None if form is None else Regions(region, 1, end.nbytes, (end.array, form))


def of_many(ends: Sequence[HostEnd], pointers: Sequence[int]) -> Regions:
    """Describe arrays whose plans C can stage, and their addresses on the device."""
    table = (_native.ArrayRegion * len(ends))()
    forms = [
        describe(region, end.array, end.dtype, end.pointer, pointer)
        for region, end, pointer in zip(table, ends, pointers, strict=True)
    ]
    return Regions(table, len(ends), sum(end.nbytes for end in ends), ([end.array for end in ends], forms))


class PlainCopy(NamedTuple):
    """A copy of bytes as they are."""

    host: int
    """The address there."""
    device: int
    nbytes: int
    is_fresh: bool = False
    """The host's pages were never touched, and filling them faults them in."""


def of_plain(copies: Sequence[PlainCopy]) -> Regions:
    """Describe copies of bytes as they are; the caller keeps their memory."""
    table = (_native.ArrayRegion * len(copies))()
    for region, (found, device, nbytes, is_fresh) in zip(table, copies, strict=True):
        region.host, region.device, region.nbytes = found, device, nbytes
        region.unit, region.is_fresh = _unit(is_fresh=is_fresh), is_fresh
    return Regions(table, len(copies), sum(each.nbytes for each in copies), None)


def joined(*some: Regions) -> Regions:
    """Regions of one transfer, as one table."""
    table = (_native.ArrayRegion * sum(each.number for each in some))()
    start = ctypes.addressof(table)
    for each in some:
        size = each.number * ctypes.sizeof(_native.ArrayRegion)
        ctypes.memmove(start, ctypes.byref(each.table), size)
        start += size
    return Regions(table, len(table), sum(each.nbytes for each in some), some)


def of_parts(parts: Any, nbytes: int, pointer: int, keep: Any) -> Regions:
    """Describe arrays that are copied as one.

    Args:
        parts: An array of `xferlib._native.Part`, in the order of their places.
        nbytes: To the end of the last.
        pointer: Where the first place is on the device.
        keep: Must outlive the transfer.
    """
    region = _native.ArrayRegion(device=pointer, nbytes=nbytes, unit=LINE, part=parts, parts=len(parts))
    return Regions(region, 1, nbytes, (parts, keep))


def describe(
    region: Any, array: HostArray, dtype: np.dtype[Any], address: int, pointer: int, *, is_read: bool = False
) -> HostForm | bool | None:
    """Fill in a region; returns the form that it points to, True if to none, None if it cannot be described.

    Args:
        region: An `xferlib._native.ArrayRegion`.
        array: On the host, its first element at ``address``.
        dtype: Of the elements on the device, the first at ``pointer``.
        is_read: It is known to be a source, whose pages exist.
    """
    region.device, region.host, region.nbytes = pointer, address, array.size * dtype.itemsize
    if array.dtype == dtype and array.flags.c_contiguous:
        region.is_fresh = is_fresh = not is_read and host.is_fresh(array)
        region.unit = host.HUGE if is_fresh else LINE
        return True
    form = compiled_copies.form(array.shape, array.strides, array.dtype, dtype)
    if form is None:
        return None
    region.unit = 0  # the layout's
    region.layout = ctypes.pointer(form.layout)
    return form


def _unit(*, is_fresh: bool) -> int:
    """Where pieces of plain bytes may begin: two threads that fault in one huge page both clear it."""
    return host.HUGE if is_fresh else LINE
