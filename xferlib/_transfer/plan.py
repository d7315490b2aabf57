"""How an array crosses the link: compiled once from its form and the abilities of the device, kept, and looked up.

The obvious way is to choose anew at each call, and to ask the driver whether an address is pinned. `compile_plan` is
pure, and its plans are kept: shapes, strides and dtypes of a loop are few. It asks in the order of what an answer
costs: size, then layout, and only then whether the memory is pinned (see `xferlib._memory.pinned`), a fact of each
array. A plan that depends on it says so (`Plan.asks_pinned`), and is that of pageable memory. Arrays that are
dense but not in C order are sent as they lie, and reordered on the device, if two steps may fill the destination.

Guaranteed: a forced path that the array cannot take becomes `STAGED`.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import math
import sys
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import Enum, IntFlag
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core import device, dtypes, observe
from xferlib._core.arrays import dense_order, merge_axes
from xferlib._core.thresholds import (
    CAST_FROM,
    CAST_TO_QUARTER_FROM,
    CHUNK_NBYTES,
    DRIVER_MOST,
    FIRST_BLOCK_NBYTES,
    HELPER_NBYTES,
    LARGE_NBYTES,
    LARGEST_BLOCK_PARTS,
    LONG_FROM,
    LOOPED_FROM,
    MEDIUM_NBYTES,
    PIECE_LEAST,
    PIECE_MOST,
    REORDERED_FROM,
    SMALL_NBYTES,
    SPIN_NS,
)
from xferlib._runtime import process, threads
from xferlib.errors import SlowPathError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._memory.pinned import PinnedRanges
    from xferlib._transfer.describe import HostEnd


# How C takes a host array, and how it cuts a transfer.


class HostForm(NamedTuple):
    """The form of host arrays, for C."""

    layout: _native.StridedLayout
    address: int
    """Of ``layout``."""
    unit: int
    """Bytes on the device: pieces of a multiple of this use lines of the cache wholly; see `xf_unit`."""


@functools.lru_cache(maxsize=128)  # loops move arrays of few forms
def describe_form(
    shape: tuple[int, ...], strides: tuple[int, ...], given: np.dtype[Any], dtype: np.dtype[Any]
) -> HostForm | None:
    """Describe arrays of at least one element for `strided.c`; None where they have too many axes.

    Args:
        shape, strides: Of the host arrays.
        given: Their dtype, in either byte order.
        dtype: Of the device side, in native byte order.
    """
    axes = merge_axes(zip(shape, strides, strict=True)) or [(1, given.itemsize)]
    if len(axes) > _native.MOST_AXES:
        return None
    layout = _native.StridedLayout(axes=len(axes), host_size=given.itemsize, device_size=dtype.itemsize)
    for number, (extent, stride) in enumerate(axes):
        layout.extents[number] = extent
        layout.strides[number] = stride
    layout.host_type = dtypes.number_of(given.newbyteorder("="))
    layout.device_type = dtypes.number_of(dtype)
    layout.is_swapped = not given.isnative
    return HostForm(layout, ctypes.addressof(layout), _native.load_library().xf_unit(layout))


class Cutting(NamedTuple):
    """Into what a transfer is cut."""

    blocks: int
    """Copies on the link."""
    first: int
    """Bytes of the first block."""
    largest: int
    """Bytes of the largest."""
    threads: int
    """The most that work on it."""
    is_past_caches: bool = False
    """Whether chunks are filled or emptied past the processor's caches, where nothing goes in the other direction."""


def limits(budget: threads.Crew, most: int) -> dict[str, int]:
    """The sizes and numbers by which transfers are cut, whose threads take up to ``most`` bytes at a time."""
    return {
        "first_block": min(FIRST_BLOCK_NBYTES, most), "largest_block": min(CHUNK_NBYTES, 8 * most),
        "block_parts": LARGEST_BLOCK_PARTS, "least_piece": min(PIECE_LEAST, most), "most_piece": most,
        "helper_nbytes": min(HELPER_NBYTES, most), "spin_ns": SPIN_NS if budget.fillers else 0,
        "cached_from": 8 * LONG_FROM, "shared_cached_from": LONG_FROM,
        "patient_from": LONG_FROM if budget.fillers else 0,
        "each_way": budget.each_way, "clearing": budget.clearing, "both_ways": budget.both_ways,
    }  # fmt: skip


class TransferPath(str, Enum):
    """How the bytes travel between host and device."""

    EMPTY = "empty"
    """Nothing to copy."""
    SMALL = "small"
    """One thread, through a pinned slab, in one copy."""
    PINNED = "pinned"
    """Straight between page-locked memory and the device."""
    STAGED = "staged"
    """Through a ring of pinned chunks that several threads fill or drain, gathering and converting."""
    PERMUTED = "permuted"
    """In the order of the host's memory, which is put in C order on the device."""


class Conversion(str, Enum):
    """Where the dtype changes."""

    NONE = "nowhere"
    ON_HOST = "on the host"
    ON_DEVICE = "on the device"


Memory = Literal["pageable", "pooled", "pinned"]
"""The host's memory: ordinary, a block of the pinned pool, or page-locked otherwise."""


_UNCUT = Cutting(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """How one array travels; each executor gets it, and `xferlib.explain` prints it."""

    path: TransferPath
    nbytes: int = 0
    """That cross the link."""
    conversion: Conversion = Conversion.NONE
    tries_driver: bool = False
    """One synchronous copy by the driver comes first, where the stream allows it: it is as fast."""
    is_plain: bool = False
    """The bytes are contiguous, and the same on both sides."""
    asks_pinned: bool = False
    """The rest is that of pageable memory; pinned memory has another plan."""
    order: tuple[int, ...] = ()
    """Of `TransferPath.PERMUTED`: the array's axes in the order of memory."""
    is_c: bool = False
    """Threads of C, which need no GIL, can stage it: an array may have too many axes."""
    form: HostForm | None = None
    """How C gathers or scatters the array; None where its bytes stay as they are, or C cannot."""
    cut: Cutting = _UNCUT

    is_slow: bool = field(init=False)
    """Pageable memory is staged, which ``XFERLIB_STRICT=pageable`` refuses."""

    def __post_init__(self) -> None:
        is_gathered = self.path is TransferPath.SMALL and self.nbytes > SMALL_NBYTES
        object.__setattr__(self, "is_slow", is_gathered or self.path in (TransferPath.STAGED, TransferPath.PERMUTED))

    def __str__(self) -> str:
        """The plan in plain words."""
        if self.path is TransferPath.EMPTY:
            return "nothing is copied"
        blocks, first, largest, threads, is_past_caches = self.cut
        said = ["one copy" if blocks == 1 else f"{blocks} copies of {first} to {largest} bytes"]
        if self.tries_driver:
            said = ["one copy by the driver where the stream is idle", f"else {said[0]}"]
        said.append("one thread" if threads == 1 else f"up to {threads} threads")
        if self.is_slow and threads > 1:
            said.append(f"{'past' if is_past_caches else 'through'} the processor's caches")
        if self.form is not None:
            said.append("C gathers or scatters it")
        if self.order:
            said.append(f"the device puts axes {self.order} in order")
        return "; ".join([*said, f"converted {self.conversion.value}"])


class Means(NamedTuple):
    """The facts of a plan beside the array's: the abilities of a device, and whether and how C stages for it."""

    is_cuda: bool
    kernels: bool
    small_at_once: bool
    has_driver: bool
    stages: bool
    budget: threads.Crew
    most_piece: int


known: dict[Device, Means] = {}
"""Of the epoch `_number` of the fast path, which is that of a call to which `may_skip` says yes."""
_number = 0


def means_of(backend: Backend, device: Device) -> Means:
    """The facts of plans for a device, found out once."""
    begin_epoch(process.fast_path_epoch[0])
    here = known  # which the next epoch replaces
    found = here.get(device)
    if found is None:
        fast, abilities = backend.fast, backend.capabilities
        found = here[device] = Means(
            is_cuda=device.kind == "cuda", kernels=abilities.kernels, small_at_once=abilities.small_at_once,
            has_driver=fast is not None, budget=threads.crew(), most_piece=chunk_nbytes(),
            stages=fast is not None and _native.is_on() and fast.staging_calls(device) is not None,
        )  # fmt: skip
    return found


def begin_epoch(number: int) -> None:
    """Forget what was found in another epoch of the fast path."""
    global known, _number
    if number != _number:
        known, _number = {}, number


@functools.lru_cache(maxsize=1024)  # loops move arrays of few forms
def compile_plan(
    shape: tuple[int, ...], strides: tuple[int, ...], given: np.dtype[Any], wanted: np.dtype[Any], means: Means,
    is_upload: bool, is_blocking: bool, may_permute: bool, may_cast: bool, memory: Memory, forced: TransferPath | None,
) -> Plan:  # fmt: skip
    """Compile the plan for a copy, without a look at anything but these facts.

    Args:
        shape, strides, given: Of the host's array; its dtype may have another byte order.
        wanted: The dtype on the device.
        means: Of the device.
        is_upload: The host's array is read.
        is_blocking: The host waits for the transfer, so it does not matter when the copy is made.
        may_permute, may_cast: Whether the device may put the elements in order, or convert them, in a second step.
        memory: The host's; pageable as long as nothing has asked.
        forced: A path that a test wants.
    """
    nbytes = (size := math.prod(shape)) * wanted.itemsize
    if not nbytes:
        return Plan(TransferPath.EMPTY)
    keeps = given == wanted
    axes = merge_axes(zip(shape, strides, strict=True))
    is_in_order = not axes or axes == [(size, given.itemsize)]
    is_plain = keeps and is_in_order
    asks_pinned = is_plain
    if not keeps and means.is_cuda and may_cast:
        # Threads convert pinned memory at some 35 GB/s of the source, and the link carries it at 55.
        is_readable = size * given.itemsize >= CAST_FROM and given.isnative and is_in_order
        saves = given.itemsize < wanted.itemsize and size * wanted.itemsize >= _cast_from(given, wanted, is_blocking)
        # One thread would convert element by element what the device puts in order with the conversion; several that
        # write to such an array share its cache lines: 21 MiB of float16 took 17 ms to float32 on an H200's host.
        is_reordered = (
            may_permute and size > REORDERED_FROM and not is_in_order and given.isnative
            and (not is_upload or given.itemsize <= wanted.itemsize or size * given.itemsize >= LARGE_NBYTES)
            and dense_order(shape, strides, given.itemsize) is not None
        )  # fmt: skip
        if saves or is_reordered or (is_readable and memory != "pageable"):
            native = dtypes.in_native_order(given)
            sent = compile_plan(
                shape, strides, given, native, means, is_upload, is_blocking, may_permute, may_cast, memory, forced
            )
            return replace(sent, conversion=Conversion.ON_DEVICE)
        asks_pinned = is_readable and is_upload
    form = describe_form(shape, strides, given, wanted) if means.stages and not is_plain else None
    plan = Plan(
        TransferPath.STAGED, nbytes, Conversion.NONE if keeps else Conversion.ON_HOST, is_plain=is_plain,
        is_c=means.stages and (is_plain or form is not None),
        asks_pinned=asks_pinned, form=form, cut=Cutting(1, nbytes, nbytes, 1),
        tries_driver=(
            is_plain and is_blocking and forced is None and _uses_driver_copy(nbytes, means, memory)
        ),
    )  # fmt: skip
    # Small arrays take the slab even if they are pinned, unless each must take as long as the contract allows.
    is_small = nbytes <= SMALL_NBYTES and (forced is None or forced is TransferPath.SMALL)
    if is_small and (forced is TransferPath.SMALL or means.small_at_once):
        return replace(plan, path=TransferPath.SMALL, asks_pinned=False)
    order = dense_order(shape, strides, given.itemsize) if keeps and not is_plain else None
    most = max(nbytes, size * given.itemsize)
    may_permute = may_permute and means.kernels and order is not None
    is_permuted = may_permute and size > REORDERED_FROM
    is_gathered = most <= DRIVER_MOST and means.has_driver and (is_upload or means.stages)
    if is_gathered and is_blocking and forced is None and not (is_plain or is_permuted):
        return replace(plan, path=TransferPath.SMALL)
    if forced is not TransferPath.STAGED and forced is not TransferPath.SMALL:
        if is_plain and memory != "pageable":
            return replace(plan, path=TransferPath.PINNED, asks_pinned=False)
        if order is not None and (is_permuted or (may_permute and forced is TransferPath.PERMUTED)):
            return replace(
                plan,
                path=TransferPath.PERMUTED,
                order=order,
                form=None,
                cut=_cut(nbytes, _native.CACHE_LINE, means, is_upload),
            )
    if is_small and is_blocking:
        return replace(plan, path=TransferPath.SMALL)
    unit = _native.CACHE_LINE if is_plain else form.unit if form is not None else 1
    unit = unit if unit <= means.most_piece else wanted.itemsize
    return replace(plan, cut=_cut(nbytes, unit, means, is_upload))


_SLOW = ("i8", "u8")  # of which processors without AVX-512 convert large ones to floats, and back, one by one


def _cast_from(given: np.dtype[Any], wanted: np.dtype[Any], is_blocking: bool) -> int:
    """Bytes of the wider side from which on the device converts, to which fewer bytes are sent then."""
    if not is_blocking or given.kind == "c" or wanted.kind == "c":
        return CAST_FROM
    is_slow = given.str[1:] in _SLOW or wanted.str[1:] in _SLOW
    return CAST_TO_QUARTER_FROM if is_slow or 4 * given.itemsize <= wanted.itemsize else CAST_FROM


def _uses_driver_copy(nbytes: int, means: Means, memory: Memory) -> bool:
    """Whether the driver's own copy, one thread and synchronous, is as fast as any other."""
    return means.has_driver and (nbytes <= DRIVER_MOST or not means.stages or memory == "pooled")


def _cut(nbytes: int, unit: int, means: Means, is_upload: bool) -> Cutting:
    """How threads of C cut a transfer of pieces that begin at multiples of ``unit``, as `limits` says.

    Where they cannot stage, one thread takes a part after the other.
    """
    if not means.stages:
        most = min(MEDIUM_NBYTES, means.most_piece, nbytes)
        return Cutting(-(-nbytes // most), most, most, 1)
    setup, found = _native.Setup(is_upward=is_upload, **limits(means.budget, means.most_piece)), (ctypes.c_int64 * 5)()
    _native.load_library().xf_cut(ctypes.byref(setup), nbytes, unit, found)
    blocks, first, largest, workers, is_past_caches = found
    return Cutting(blocks, first, largest, workers, bool(is_past_caches))


def of(
    end: HostEnd, device: Device, *, is_upload: bool, is_blocking: bool = True, may_permute: bool = True,
    may_cast: bool = True,
) -> Plan:  # fmt: skip
    """The plan for the host's end of a copy, by `compile_plan`; asks whether memory is pinned if that decides."""
    array, means, wanted = end.array, known.get(device), forced()
    if means is None or process.fast_path_epoch[0] != _number:
        means = means_of(end.backend, device)
    form = array.shape, array.strides, array.dtype, end.dtype
    facts = *form, means, is_upload, is_blocking, may_permute, may_cast
    found = compile_plan(*facts, "pageable", wanted)
    if found.asks_pinned and (ranges := end.pinned) is not None:
        return compile_plan(*facts, memory_of(ranges), wanted)
    return found


def memory_of(ranges: PinnedRanges) -> Memory:
    """The kind of page-locked memory."""
    return "pinned" if ranges.lease is None else "pooled"


# --- a plan as C runs it


class Replay(IntFlag):
    """How C makes a blocking copy of the arrays of one form; as in `_native/replay/replay.h`."""

    AT_ONCE = 1
    """One call of the driver, in the calling thread; threads stage what it declines, and all without this flag."""
    LOOPED = 2
    """Threads come first where transfers follow one another, since they spin for the next one."""
    THROUGH = 4
    """A download passes through the thread's pinned memory: the driver fills ordinary memory at half the speed."""
    ORDINARY = 8
    """An upload is gathered in ordinary memory: single elements are written slowly to pinned memory."""
    AS_IT_LIES = 16
    """It crosses the link in the order of the host's memory, and a kernel puts it in order."""
    LEFT = 32
    """Python copies it."""


_THROUGH_FROM = SMALL_NBYTES // 2


def replay_flags(found: Plan, nbytes: int, memory: Memory, *, is_upload: bool) -> Replay:
    """How C runs a plan without a kernel; ``nbytes``: on the host."""
    is_pageable = memory == "pageable"
    flags = Replay(0)
    if found.tries_driver or found.path in (TransferPath.SMALL, TransferPath.PINNED):
        flags |= Replay.AT_ONCE
    if max(nbytes, found.nbytes) > LOOPED_FROM:
        flags |= Replay.LOOPED
    if found.is_plain and not is_upload and is_pageable and _THROUGH_FROM < nbytes <= LOOPED_FROM:
        flags |= Replay.THROUGH
    if not found.is_plain and is_upload and found.nbytes <= LOOPED_FROM:
        flags |= Replay.ORDINARY
    return flags


def same_way(nbytes: int) -> tuple[int, int]:
    """The sizes whose plain bytes travel as those of ``nbytes``: more than the first, up to the second."""
    bounds = 0, _THROUGH_FROM, LOOPED_FROM, DRIVER_MOST, sys.maxsize
    at = bisect.bisect_left(bounds, nbytes)
    return bounds[at - 1], bounds[at]


STAGED = Plan(TransferPath.STAGED)
"""For arrays that are known to be staged."""
_forced: ContextVar[TransferPath | None] = ContextVar("xferlib_forced_path", default=None)
"""Tests force a path with this; a path that an array cannot take falls back to staging."""
forced = _forced.get


_ordinary = 0
"""The epoch in which no trace and no capture is open, and strict mode is off."""


def may_skip() -> bool:
    """Whether a call may take a shorter way than a plan's.

    Not where a trace or a capture is open, a path is forced, or strict mode is on.
    """
    global _ordinary
    if forced() is not None:
        return False
    now = process.fast_path_epoch[0]  # before the look: a change meanwhile begins another epoch
    if now != _ordinary:
        if observe.active is not None or device.opened or process.get().strict:
            return False
        begin_epoch(now)
        _ordinary = now
    return True


def refuse_slow(found: Plan, nbytes: int, call: str) -> None:
    """Enforce ``XFERLIB_STRICT=pageable``.

    Raises:
        SlowPathError: The transfer would be staged.
    """
    if found.is_slow and "pageable" in process.get().strict:
        given = " (given to xferlib.configure)" if process.is_by_program("strict") else ""
        raise SlowPathError(
            f"{call}: {nbytes} bytes of pageable memory would be staged, and XFERLIB_STRICT=pageable{given} refuses "
            "that; make the array with pinned_empty() or pinned_array(x)"
        )


# --- how much one thread takes, and how many take part; tests replace both functions


def helpers() -> int:
    """The most threads that help the caller's to copy between host arrays."""
    return threads.crew().each_way - 1


def chunk_nbytes() -> int:
    """Most bytes that a thread fills or empties at a time."""
    return PIECE_MOST
