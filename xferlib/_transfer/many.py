"""Many arrays to a device: one transfer for any number, sizes and layouts.

The obvious way, one transfer after the other, begins and ends each: its threads come, its first block is small, its
last one is waited for. For arrays of a megabyte that takes as long as the copy, for a thousand small ones a thousand
times as long. And a transfer of all of them that begins only when the last one has been described begins late.

So small arrays share one slab on the device: they are one region of the transfer, whose parts threads of C collect
from where they lie, and the results are views of the slab. The large ones, each in memory of its own, follow in groups
that double in size: threads stage one group while Python allocates and describes the next, and cuts the slab into views
last of all. Up to some MiB all are described before one call of C copies them, which begins in less time. Where they
are a few KiB, or C cannot stage, this thread packs the slab's bytes for one copy, and the large ones go alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core import arrays, observe, registry, trees
from xferlib._core.arrays import Array, address, refuse_truncated
from xferlib._core.backend import Run
from xferlib._core.dtypes import SUPPORTED, in_native_order
from xferlib._core.observe import Kind
from xferlib._core.thresholds import (
    FEW_LARGE_LEAVES,
    FEW_LEAVES,
    LARGE_NBYTES,
    LOOPED_FROM,
    MEDIUM_NBYTES,
    PINNED_QUERY_FROM,
    TOGETHER_FROM,
)
from xferlib._memory import buffers, lifetimes, pinned
from xferlib._memory.buffers import slab_of
from xferlib._runtime import process
from xferlib._transfer import copies, on_device, plan, replay
from xferlib._transfer import staging as staging_module
from xferlib._transfer.describe import CopySource, HostEnd, Upload
from xferlib._transfer.handle import Transfer
from xferlib._transfer.plan import TransferPath
from xferlib._transfer.staging import PlainCopy
from xferlib.errors import DeviceMemoryError

if TYPE_CHECKING:
    from xferlib._core.arrays import HostArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, DeviceSpec, RawKernel, RawStream
    from xferlib._transfer.staging import OpenTransfer, Regions


# Small arrays of a tree, as one: which they are, their places in a slab, and how its bytes are collected.

ALIGNMENT = 64
"""Bytes at a multiple of which an array of as many begins: vector loads want 16, a line of a cache holds 64."""
BYTE = np.dtype(np.uint8)


def is_few(leaves: int, large: int) -> bool:
    """Whether that many arrays, of which some are large, are better copied one after the other."""
    return leaves < FEW_LEAVES and large <= FEW_LARGE_LEAVES


def are_few(leaves: Sequence[Any], most: int, backend: Backend | None = None) -> bool:
    """Whether arrays are copied one after the other in less time than it takes to describe all of them.

    Args:
        leaves: Of a tree.
        most: Bytes; all but `FEW_LARGE_LEAVES` of the arrays are that small.
        backend: The arrays are NumPy's, and go there; without one, each is of a device.
    """
    if not is_few(len(leaves), 0) or not plan.may_skip():
        return False
    large = 0
    for leaf in leaves:
        if (owner := registry.owner_of(leaf)) is None:
            continue
        if backend is not None and type(leaf) is not np.ndarray:
            return False
        carrier = owner if backend is None else backend
        if carrier.fast is None:
            return False
        large += owner.view(leaf).nbytes > most
    return is_few(len(leaves), large)


class LeafKind(NamedTuple):
    """Arrays of one shape and dtype."""

    shape: tuple[int, ...]
    given: np.dtype[Any]
    wanted: np.dtype[Any]
    members: list[int]

    @property
    def nbytes(self) -> int:
        """Of each, as it arrives."""
        return math.prod(self.shape) * self.wanted.itemsize


def _round_up(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _place_of(kind: LeafKind) -> tuple[int, str]:
    """The largest power of two, up to `ALIGNMENT`, that divides the bytes of one; those of a dtype together."""
    return min(kind.nbytes & -kind.nbytes, ALIGNMENT), kind.wanted.str


def all_of(leaves: Sequence[Any], dtype: Any) -> list[int]:
    """The numbers of the arrays among leaves.

    Raises:
        UnsupportedDTypeError: As `chosen`.
    """
    found: list[int] = []
    for number, leaf in enumerate(leaves):
        if type(leaf) is np.ndarray or registry.owner_of(leaf) is not None:
            if dtype is not None or leaf.dtype not in SUPPORTED:
                _get_result_dtype(leaf.dtype, dtype)
            found.append(number)
    return found


def sort_leaves(leaves: Sequence[Any], dtype: Any, most: int = TOGETHER_FROM) -> tuple[list[LeafKind], list[int]]:
    """Sort arrays: the small ones, which share a slab, by kind, and the numbers of the others; skip other leaves.

    Args:
        leaves: Of a tree.
        dtype: That arrives; each leaf's own if None.
        most: Bytes of the largest small one.

    Raises:
        UnsupportedDTypeError: A leaf cannot be held by a device, or not be converted to ``dtype``.
    """
    kinds: dict[tuple[tuple[int, ...], np.dtype[Any]], list[int]] = {}
    alone: list[int] = []
    shape, given, add = None, None, alone.append
    for number, leaf in enumerate(leaves):
        if type(leaf) is np.ndarray:
            if leaf.dtype is not given or leaf.shape != shape:  # as a rule they are those of the one before
                shape, given = leaf.shape, leaf.dtype
                add = kinds.setdefault((shape, given), []).append
            add(number)
        elif registry.owner_of(leaf) is not None:
            _get_result_dtype(leaf.dtype, dtype)
            alone.append(number)
    packed: list[LeafKind] = []
    for (extents, arrives), members in kinds.items():
        wanted = arrives if dtype is None and arrives in SUPPORTED else _get_result_dtype(arrives, dtype)
        # An empty array has no bytes to copy, and its place in a slab would be that of the next one.
        if 0 < math.prod(extents) * wanted.itemsize <= most:
            packed.append(LeafKind(extents, arrives, wanted, members))
        else:
            alone += members
    if sum(len(kind.members) for kind in packed) < 2:  # nothing to travel with
        alone += [number for kind in packed for number in kind.members]
        packed = []
    return packed, sorted(alone)


def _get_result_dtype(given: Any, dtype: Any) -> np.dtype[Any]:
    """The dtype that a leaf arrives in."""
    known = arrays.check_dtype(given)
    if dtype is None:
        return known
    wanted = arrays.check_dtype(dtype, what="dtype")
    arrays.check_conversion(known, wanted)
    return wanted


class SlabLayout:
    """Places of arrays in a slab.

    The obvious way begins each at a multiple of `ALIGNMENT`. But torch cuts a row without gaps into views in half the
    time, and with them that takes half of an upload of some hundred leaves. So those come first whose sizes are
    multiples of the larger powers of two: without gaps each begins at a multiple of the largest that divides its size.

    Args:
        kinds: Of the arrays, which follow one another kind by kind.
        has_gaps: Each begins at a multiple of `ALIGNMENT` all the same.
    """

    __slots__ = ("is_plain", "members", "most", "nbytes", "places", "runs")

    def __init__(self, kinds: Sequence[LeafKind], *, has_gaps: bool = False) -> None:
        self.runs: list[Run] = []
        self.members: list[int] = []
        """Their numbers among the leaves."""
        self.places: list[int] = []
        """Where each begins, in bytes."""
        self.nbytes = 0
        self.most = 0
        """Bytes of the largest."""
        self.is_plain = all(kind.given == kind.wanted for kind in kinds)
        """The bytes stay as they are, of what is in C order."""
        end = 0
        for kind in kinds if has_gaps else sorted(kinds, key=_place_of, reverse=True):
            nbytes = kind.nbytes
            step = _round_up(nbytes) if has_gaps else nbytes
            self.most = max(self.most, nbytes)
            self.runs.append(Run(end, step, len(kind.members), kind.shape, kind.wanted))
            self.members += kind.members
            self.places += range(end, end + step * len(kind.members), step)
            end += step * len(kind.members)
        self.nbytes = _round_up(end)  # so that all of it is a whole number of elements of each dtype

    def forms(self) -> Iterator[tuple[int, tuple[int, ...], np.dtype[Any]]]:
        """Place, shape and dtype of each array."""
        for place, step, count, shape, dtype in self.runs:
            for number in range(count):
                yield place + number * step, shape, dtype


class PackedLeaves:
    """Small arrays on their way, and the memory on the device that they share.

    Args:
        leaves, layout: The arrays, and their places.
        backend, stream: They carry the copy.
        parts: The arrays as C takes them, where that is known.
    """

    def __init__(
        self, leaves: Sequence[Any], layout: SlabLayout, backend: Backend, stream: RawStream, parts: Any = None
    ) -> None:
        self._located = parts
        self._sources = [leaves[number] for number in layout.members]
        if observe.listener is not None:
            for each in self._sources:
                observe.note_host_access(each, backend.pinned_domain, is_write=False)
        self._layout = layout
        self._backend = backend
        self._stream = stream
        self.memory = backend.empty((layout.nbytes,), BYTE, device=stream.device, stream=stream)

    def cut(self, results: list[Any]) -> None:
        """Put views of the slab into ``results``."""
        arrays = self._backend.subarrays(self.memory, self._layout.runs)
        for number, view in zip(self._layout.members, arrays, strict=True):
            results[number] = view

    def region(self) -> Regions:
        """Describe the arrays, for threads of C that collect them."""
        parts, keep = self._parts()
        pointer = self._backend.view(self.memory).pointer
        return staging_module.of_parts(parts, self._layout.nbytes, pointer, (keep, self.memory))

    def _parts(self) -> tuple[Any, Any]:
        """The arrays as C takes them, and what must outlive the copy."""
        sources, layout = self._sources, self._layout
        if self._located is not None:
            return self._located, sources
        parts = (_native.Part * len(sources))()
        calls = _native.find_calls() if layout.is_plain else None
        if calls is not None and not calls.locate(sources, layout.places, ctypes.addressof(parts)):
            return parts, sources
        kept: list[Any] = []
        for part, source, (place, shape, wanted) in zip(parts, sources, layout.forms(), strict=True):
            if not part.host:
                part.place = place
                kept.append(_describe(part, source, shape, wanted))
        return parts, (sources, kept)

    def send(self) -> None:
        """Pack the arrays in this thread, and enqueue one copy; the arrays have been read on return."""
        backend, stream, nbytes = self._backend, self._stream, self._layout.nbytes
        info = backend.view(self.memory)
        # A slab's segments are small and come round soon; what is larger comes from the pool, which keeps it to the
        # end of its copy.
        if nbytes > MEDIUM_NBYTES:
            memory = pinned.pools.of(backend)._lend(info.shape, info.dtype)
            self._pack(memory, memory.ctypes.data)
            copies.send(Upload(HostEnd(memory, BYTE, backend), self.memory, info, stream))
        else:
            memory, pointer = slab_of(backend, nbytes, stream).take(nbytes, stream)
            self._pack(memory, pointer)
            observe.copy(Kind.H2D, info.pointer, pointer, nbytes, backend, stream)

    def _pack(self, memory: HostArray, pointer: int) -> None:
        if _native.is_on():
            parts, _kept = self._parts()
            _native.load_library().xf_collect(parts, len(self._sources), self._layout.nbytes, pointer)
            return
        for source, (place, shape, wanted) in zip(self._sources, self._layout.forms(), strict=True):
            refuse_truncated(source, "an array of the tree")
            arrays.copy_into(np.ndarray(shape, wanted, memory, place), source)


# Trees of one form, as a loop sends and fetches them: what their arrays are is kept, so that C looks through the next
# one (`trees.c`). Only those of plain bytes in C order; on the way to a device only those whose arrays are all small:
# of others copies take the time.

_FORMS_KEPT = 16
"""For each device, and each way."""
_KEPT_MOST = 32 * LARGE_NBYTES
"""Bytes of a tree whose form is kept: all of them lie in one allocation on the device, or pass through one."""


class SentForm(NamedTuple):
    """The form of trees that go to a device; C reads the first four fields."""

    form: Any
    """Of `replay.calls_in_c`."""
    nbytes: int
    """That the arrays take in a row."""
    cut: Callable[[Array], list[Array]]
    """Cuts memory of the device."""
    is_apart: bool
    """Each array has memory of its own there."""
    layout: SlabLayout


class FetchedForm(NamedTuple):
    """The form of trees that come from a device; C reads the first nine fields."""

    form: Any
    row_nbytes: int
    """That the small arrays take in a row; they share memory on the host."""
    kernel: int
    """The handle of the one that puts arrays in a row."""
    threads: int
    """Of each of its blocks."""
    starts: bytes
    """Of the row's tiles, for that kernel."""
    joined: int
    """Arrays in the row, the first ones; each other one has memory of its own, unless that is pinned."""
    nbytes: int
    """That all arrays take in a row."""
    is_written: bool
    """The kernel writes the row to the result by itself where that is pinned."""
    all_starts: bytes
    """As ``starts``, of all arrays in a row."""
    code: Any
    """Keeps the kernel loaded."""
    layout: SlabLayout


_sent: dict[Device, list[SentForm]] = {}
_fetched: dict[Device, list[FetchedForm]] = {}
"""By device, the latest first."""


def _may_keep() -> bool:
    """Whether the form of a tree may decide: no plan's way is to be taken, and no simulator looks."""
    return observe.listener is None and replay.calls_in_c() is not None and plan.may_skip()


def send_tree(tree: Any, backend: str | None, device: DeviceSpec) -> Any:
    """Upload a tree of a form that is known by one call of C; None, and nothing done, for any other."""
    if not _sent or observe.listener is not None:
        return None
    return replay.calls_in_c().send_tree(tree, registry.by_type, trees.LEAVES, device, backend, _sent)


def fetch_tree(tree: Any, *, is_pinned: bool) -> Any:
    """Download likewise; complete on return."""
    if not _fetched or observe.listener is not None:
        return None
    return replay.calls_in_c().fetch_tree(tree, registry.by_type, trees.LEAVES, is_pinned, _fetched)


def send_pinned(leaves: list[Any], results: list[Any], numbers: list[int], device: Device) -> list[int]:
    """Upload those of some leaves that are in the pinned pool, on the current stream, and wait once for all.

    Returns:
        The numbers of the others.
    """
    calls = replay.calls_in_c()
    if len(numbers) < 2 or not _may_keep():
        return numbers
    sent = calls.send_pinned([leaves[number] for number in numbers], device)
    if sent is None:
        return numbers
    for number, array in zip(numbers, sent, strict=True):
        if array is not None:
            results[number] = array
    return [number for number, array in zip(numbers, sent, strict=True) if array is None]


def send_again(leaves: list[Any], backend: Backend, device: Device, order: RawStream | None) -> list[Any] | None:
    """Upload leaves of a form that is known; they have been read on return. None, and nothing done, for others."""
    calls = replay.calls_in_c()
    for form, nbytes, _, _, layout in _sent.get(device, ()) if _may_keep() else ():
        parts = (_native.Part * len(layout.members))()
        if calls.match_form(form, leaves, ctypes.addressof(parts)):
            backend.attach(device)
            stream = order if order is not None else backend.stream_current(device)
            slab = PackedLeaves(leaves, layout, backend, stream, parts)
            if nbytes <= TOGETHER_FROM or not can_stage(backend, stream):
                slab.send()
            else:
                _in_one_call(slab.region(), backend, stream)
            results = list(leaves)
            slab.cut(results)
            return results
    return None


def keep_upload(
    leaves: list[Any], packed: Sequence[LeafKind], alone: Sequence[int], backend: Backend, device: Device
) -> bool:
    """Keep the form of leaves that `sort_leaves` has sorted, if `send_again` can send such; whether it can."""
    if not _may_keep():
        return False
    if alone:
        packed, alone = sort_leaves(leaves, None, MEDIUM_NBYTES)
    layout = SlabLayout(packed)
    if alone or not packed or not layout.is_plain or layout.nbytes > _KEPT_MOST:
        return False
    form = replay.calls_in_c().keep_form(leaves, layout.members, layout.places)
    if form is None:
        return False
    is_apart = backend.cuts_late and len(layout.members) <= FEW_LARGE_LEAVES and layout.nbytes <= LOOPED_FROM
    kept = SentForm(form, layout.nbytes, backend.cutter(layout.runs), is_apart, layout)
    _sent[device] = [kept, *_sent.get(device, ())][:_FORMS_KEPT]
    return True


def _describe(part: Any, source: HostArray, shape: tuple[int, ...], wanted: np.dtype[Any]) -> Any:
    """Say where an array lies, and how; returns what must outlive the part."""
    refuse_truncated(source, "an array of the tree")
    form = plan.describe_form(shape, source.strides, source.dtype, wanted)
    # The part keeps an address alone: nothing in C holds the array or its form, so the caller does, to the copy's end.
    if form is None:  # it has too many axes
        plain = np.empty(shape, wanted)
        arrays.copy_into(plain, source)
        part.host, part.nbytes = plain.ctypes.data, plain.nbytes
        return plain
    part.host, part.nbytes = source.ctypes.data, source.size * wanted.itemsize
    part.layout = ctypes.pointer(form.layout)
    return form


def can_stage(backend: Backend, stream: RawStream) -> bool:
    """Whether threads of C stage what goes on a stream, and no path is forced."""
    return plan.forced() is None and staging_module.calls_of(backend, stream) is not None


class Shipment:
    """The transfer of several arrays in one direction: some are added while others are on their way.

    Args:
        nbytes: Of all arrays.
        backend, stream: They carry the copies.
        begun: Called with the transfer, before it starts; the caller settles or cancels it. It has no result.
    """

    def __init__(
        self, nbytes: int, backend: Backend, stream: RawStream, begun: Callable[[Transfer], None], *, is_upload: bool
    ) -> None:
        self._nbytes = nbytes
        self._backend = backend
        self._stream = stream
        self._begun = begun
        self._is_upload = is_upload
        self._staging = self._begin()

    def _begin(self) -> OpenTransfer:
        backend, stream, is_upload = self._backend, self._stream, self._is_upload
        transfer = Transfer(
            None, backend, stream, nbytes=self._nbytes, path=TransferPath.STAGED.value, is_upload=is_upload
        )
        self._begun(transfer)  # first: Ctrl-C might come between the start and the list of what must be ended
        staging = staging_module.begin(backend, stream, self._nbytes, is_upward=is_upload)
        transfer.start(staging.job(transfer.finish), None, keep=(), is_awaited=True)
        return staging

    def add(self, described: Regions) -> None:
        """Copy arrays between the host and the device; what they keep lives until that is enqueued.

        New arrays need not outlive their copies: they are of the stream that carries these, and are freed in its order.
        To hold them until the copies are complete would keep the memory of a tree that has been dropped.
        """
        while not self._staging.add(described):  # a thread that settled it took it for complete
            self._staging = self._begin()

    def close(self) -> None:
        """Tell that no array will be added."""
        self._staging.close()


def settle(transfers: list[Transfer]) -> None:
    """Wait until every copy is enqueued (upload), or has arrived (download).

    Raises:
        TransferError: A copy failed.
    """
    for transfer in transfers:
        transfer.settle()
        transfer.check()


def abort(transfers: list[Transfer]) -> None:
    """Wait until no thread works on the transfers any more."""
    for transfer in transfers:
        transfer.abort()


# --- uploads


def to_device(
    leaves: Sequence[Any], results: list[Any], kinds: Sequence[LeafKind], alone: Sequence[int],
    dtype: np.dtype[Any] | None, backend: Backend, stream: RawStream,
) -> list[int]:  # fmt: skip
    """Upload leaves to new arrays, in ``results``; they have been read on return.

    Args:
        leaves: Of a tree.
        results: Filled in.
        kinds, alone: As `sort_leaves` has sorted them.
        dtype: That arrives; each leaf's own if None.
        backend, stream: The target's.

    Returns:
        The numbers of those that are better copied alone, which is left to the caller.

    Raises:
        SlowPathError: Strict mode refuses it; nothing has been copied.
        DeviceMemoryError, TransferError: As `xferlib.to_device`.
    """
    transfers: list[Transfer] = []
    try:
        layout = SlabLayout(kinds)
        begun = begin(leaves, results, layout, alone, backend, stream, transfers.append, dtype=dtype, call="to_device")
        settle(transfers)
    except BaseException:
        abort(transfers)
        raise
    return begun.alone


class Begun(NamedTuple):
    """The arrays of transfers that have been begun."""

    owned: list[Array]
    """One for each allocation."""
    alone: list[int]
    """The numbers of leaves that are left to the caller."""
    is_enqueued: bool
    """Copies are enqueued that are of none of the transfers."""


@observe.user_call(
    lambda leaves, results, layout, alone, backend, stream, *_, **__: (
        backend,
        layout.nbytes + sum(leaves[number].nbytes for number in alone if can_stage(backend, stream)),
    )
)
def begin(
    leaves: Sequence[Any], results: list[Any], layout: SlabLayout, alone: Sequence[int], backend: Backend,
    stream: RawStream, begun: Callable[[Transfer], None], *, dtype: np.dtype[Any] | None = None, call: str = "prefetch",
) -> Begun:  # fmt: skip
    """Start uploading leaves to new arrays, in ``results``.

    Args:
        leaves, results, alone, dtype, backend, stream: As for `to_device`.
        layout: Of the small ones.
        begun: Called with each transfer, before it starts; the caller settles or cancels it. It has no result.
        call: The function that the user called.
    """
    can = can_stage(backend, stream)
    arrays = [leaves[number] for number in alone if type(leaves[number]) is np.ndarray]
    nbytes = sum(each.nbytes if dtype is None else each.size * dtype.itemsize for each in arrays)
    is_together = can and nbytes + layout.nbytes >= TOGETHER_FROM
    numbers = alone if is_together else ()
    large = _large(leaves, numbers, dtype, backend, stream.device, may_permute=call == "to_device")
    if observe.active is not None or process.get().strict:  # which ask for all of them before the first is copied
        known = list(large)
        nbytes = sum(each.nbytes for each in known)
        for each in known:
            plan.refuse_slow(plan.STAGED, each.array.nbytes, call)
        large = iter(known)
    slab = PackedLeaves(leaves, layout, backend, stream) if layout.members else None
    owned: list[Array] = [slab.memory] if slab is not None else []
    most = LARGE_NBYTES if call == "to_device" else MEDIUM_NBYTES
    is_open = is_together and (layout.nbytes + nbytes >= most or observe.active is not None)
    if is_open:
        shipment = Shipment(layout.nbytes + nbytes, backend, stream, begun, is_upload=True)
        if slab is not None:
            shipment.add(slab.region())
        for group in _groups(large):
            shipment.add(_describe_uploads(group, results, owned, backend, stream))
        shipment.close()
    elif is_together:
        described = _describe_uploads(list(large), results, owned, backend, stream)
        _in_one_call(
            described if slab is None else staging_module.join_regions(slab.region(), described), backend, stream
        )
    elif slab is not None:
        slab.send()
    if slab is not None:
        slab.cut(results)  # which takes as long as the copying
    left = [number for number in alone if results[number] is leaves[number]]
    return Begun(owned, left, is_enqueued=bool(owned) and not is_open)


def _in_one_call(described: Regions, backend: Backend, stream: RawStream) -> None:
    """Stage arrays in this thread, with helpers; they have been read on return."""
    setup = staging_module.setup_of(backend, stream, is_upward=True)
    assert setup is not None
    if described.number:
        staging_module.copy(described, setup, backend, stream)


def _groups(members: Iterable[_Large]) -> Iterator[list[_Large]]:
    """Arrays that are described together: the first group is small, so that the link starts early."""
    group: list[_Large] = []
    nbytes, most = 0, MEDIUM_NBYTES
    for member in members:
        group.append(member)
        nbytes += member.nbytes
        if nbytes >= most:
            yield group
            group, nbytes, most = [], 0, 2 * most
    if group:
        yield group


class _Large(NamedTuple):
    """An array with memory of its own on the device."""

    number: int
    array: HostArray
    dtype: np.dtype[Any]
    """That arrives."""
    nbytes: int
    """On the device."""
    pointer: int
    """The address of bytes that stay as they are; 0: `end` says how they lie."""
    end: HostEnd | None = None


def _describe_uploads(
    group: list[_Large], results: list[Any], owned: list[Array], backend: Backend, stream: RawStream
) -> Regions:
    """Describe arrays for C, and the new ones on the device, which are ``results``."""
    device = stream.device
    made = [backend.empty(each.array.shape, each.dtype, device=device, stream=stream) for each in group]
    owned += made
    for (number, *_), array in zip(group, made, strict=True):
        results[number] = array
    located = list(zip(group, backend.operands(made), strict=True))
    found = staging_module.of_plain(
        [PlainCopy(each.pointer, pointer, each.nbytes) for each, pointer in located if each.end is None]
    )
    if others := [(each.end, pointer) for each, pointer in located if each.end is not None]:
        found = staging_module.join_regions(
            found, staging_module.of_many([end for end, _ in others], [pointer for _, pointer in others])
        )
    return found._replace(keep=(found.keep, made, group))


def _large(
    leaves: Sequence[Any], numbers: Sequence[int], dtype: np.dtype[Any] | None, backend: Backend, device: Device, *,
    may_permute: bool,
) -> Iterator[_Large]:  # fmt: skip
    """The leaves that C threads stage, as they are asked for; the others go another way.

    The driver is asked whether memory is pinned until it has said no once: to ask it for each of a hundred arrays takes
    as long as to copy some of them, and memory of another library that is missed so is copied all the same.
    """
    calls = _native.find_calls()
    asks = True
    for number in numbers:
        leaf = leaves[number]
        if type(leaf) is not np.ndarray:
            continue
        given, nbytes = leaf.dtype, leaf.nbytes
        if calls is not None and (dtype is None or dtype == given) and given in SUPPORTED and nbytes:
            pointer = calls.address(leaf)
            if pointer:
                ranges = pinned.find(pointer, nbytes, backend, asks=asks)
                asks = asks and (ranges is not None or nbytes < PINNED_QUERY_FROM)
                if ranges is None:
                    yield _Large(number, leaf, given, nbytes, pointer)
                continue
        end = _describe_staged_leaf(leaf, dtype, backend, device, may_permute=may_permute)
        if end is not None:
            yield _Large(number, leaf, end.dtype, end.nbytes, 0, end)


def _describe_staged_leaf(
    leaf: HostArray, dtype: np.dtype[Any] | None, backend: Backend, device: Device, *, may_permute: bool
) -> HostEnd | None:
    """The host's end of an upload of a leaf that C threads stage; None where it goes another way."""
    native = in_native_order(leaf.dtype)
    wanted = native if dtype is None else dtype
    if native not in SUPPORTED or native.itemsize < wanted.itemsize:  # the device widens
        return None
    refuse_truncated(leaf, "the array")
    end = HostEnd(leaf, wanted, backend)
    found = plan.of(end, device, is_upload=True, is_blocking=False, may_permute=may_permute, may_cast=False)
    return end if found.path is TransferPath.STAGED and found.is_c else None


# Many arrays of one device to the host, of any number and sizes.
#
# The obvious way, one copy after the other, each into memory of its own, waits for each; and to describe all of them
# before the first is copied leaves the link idle for as long as a third of the copying takes.
#
# So arrays are added one by one, and copied in groups that double in size: the link carries one group while Python
# describes the next. Those of a group that go into pinned memory share one lease, and are enqueued by one call of C.
# Those that go into ordinary memory are one staged transfer; the larger ones have memory of their own, the others of a
# group share some. Small arrays come last, and all together: on a GPU a kernel puts them one behind the other, into
# pinned memory if that is where they end, else into a slab on the device, which is a part of the transfer.
#
# Guaranteed: on return of `finish` and `abort` no copy is in flight.

_ALL = 1 << 62
_INTEGER = np.dtype(np.int64)
_THREADS = 256
"""Of a block, which fills one tile."""
_TILE_NBYTES = 16 << 10
_GATHER = """
typedef long long i64;
struct Piece { const char* from; i64 offset; i64 nbytes; void* unused; };

template <class Word> __device__ i64 copy_words(char* to, const char* from, i64 nbytes, i64 done, int first, int step) {
    i64 words = nbytes / sizeof(Word);
    for (i64 i = done / sizeof(Word) + first; i < words; i += step) ((Word*)to)[i] = ((const Word*)from)[i];
    return words * sizeof(Word);
}

// The pieces of a tile are the first and the last of `starts`, and those between. Where they are many, few threads copy
// each: to read where a piece lies takes a microsecond, in which others are read.
extern "C" __global__ void gather_tiles(char* dst, const Piece* pieces, const i64* starts, i64 from_tile) {
    i64 tile = from_tile + blockIdx.x, begin = tile * TILE, end = begin + TILE;
    i64 first = starts[tile], last = starts[tile + 1];
    int lanes = blockDim.x;
    while (lanes > 1 && lanes * (last - first + 1) > blockDim.x) lanes /= 2;
    for (i64 i = first + threadIdx.x / lanes; i <= last; i += blockDim.x / lanes) {
        Piece piece = pieces[i];
        i64 low = max(piece.offset, begin), nbytes = min(piece.offset + piece.nbytes, end) - low, done = 0;
        const char* from = piece.from + (low - piece.offset);
        char* to = dst + low;
        int own = threadIdx.x % lanes;
        i64 places = (i64)from | (i64)to;
        if (nbytes <= 0) continue;
        if (!(places & 15)) done = copy_words<uint4>(to, from, nbytes, 0, own, lanes);
        if (!(places & 3)) done = copy_words<unsigned>(to, from, nbytes, done, own, lanes);
        copy_words<char>(to, from, nbytes, done, own, lanes);
    }
}
""".replace("TILE", str(_TILE_NBYTES))


def _enqueue_gather(
    dst: int, pieces: int, starts: int, tiles: int, nbytes: int, backend: Backend, stream: RawStream
) -> None:
    """Enqueue a kernel that puts arrays on the device in a row.

    Args:
        dst: Address of the row, on the device or in pinned memory.
        pieces, starts: Addresses of as many `xferlib._native.Part` as there are arrays, in the order of their places,
            and of what `_find_starts` gives for these, in memory that the device reads.
        tiles, nbytes: Of the row.
        backend, stream: They carry it.
    """
    code, size, args = _gather_kernel(backend, stream.device), (_THREADS, 1, 1), (dst, pieces, starts, 0)
    on_device.launch(code, tiles, size, args, backend, stream, name="gather_tiles", nbytes=2 * nbytes)


def _gather_kernel(backend: Backend, device: Device) -> RawKernel:
    return on_device.kernel("gather_tiles", _GATHER, (0, 0), backend, device)


def _find_starts(places: Sequence[int], sizes: Sequence[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The number of the first array of each tile of a row, and behind them that of the last array of all."""
    ends = np.add(places, sizes)
    tiles = -(-int(ends[-1]) // _TILE_NBYTES)
    return np.append(np.searchsorted(ends, np.arange(tiles) * _TILE_NBYTES, "right"), len(places) - 1).astype(_INTEGER)


class _Leaf(NamedTuple):
    """An array on the device, in C order, and its number in the tree."""

    number: int
    array: Array
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int


class ManyDownload:
    """Arrays of one device on their way to the host.

    Args:
        results: Filled in by number.
        backend: Of the device, which is attached.
        stream: After whose work the copies run.
        is_pinned: The results are in pinned memory.
    """

    def __init__(self, results: list[Any], backend: Backend, stream: RawStream, *, is_pinned: bool) -> None:
        device = stream.device
        self._results = results
        self._backend = backend
        self._stream = stream
        self._is_pinned = is_pinned
        self._can_stage = can_stage(backend, stream)
        self._gathers = device.kind == "cuda"
        self._small: list[_Leaf] = []
        self._group: list[_Leaf] = []
        self._nbytes = 0
        """Of the group."""
        self._most = self._first = MEDIUM_NBYTES if observe.active is None else _ALL
        """A recording is told of all bytes when the first are copied."""
        self._transfers: list[Transfer] = []
        self._shipment: Shipment | None = None
        self._kept: list[Any] = []
        """Memory that copies read, besides the arrays."""
        self._has_copies = False
        """Copies into pinned memory may be in flight."""
        self.alone: list[int] = []
        """The numbers of arrays that are left to the caller."""
        self._carried = 0
        """Bytes of the others."""
        self._recorder = observe.active
        self._since = self._recorder.begin(backend) if self._recorder is not None else None

    def add(self, number: int, array: Array) -> None:
        """Copy an array to the host; if that cannot be done here, its number is in `alone` when this ends."""
        fast = self._backend.fast
        found = fast.whole(array) if fast is not None else _whole(array, self._backend)
        nbytes = math.prod(found[1]) * found[2].itemsize if found is not None else 0
        if found is None or not nbytes:
            self.alone.append(number)
            return
        leaf = _Leaf(number, array, *found, nbytes)
        self._carried += nbytes
        if self._gathers and nbytes <= TOGETHER_FROM:
            self._small.append(leaf)
        elif self._is_pinned or self._can_stage:
            self._group.append(leaf)
            self._nbytes += nbytes
            if self._nbytes >= self._most:
                self._send_group()
        else:
            self.alone.append(number)
            self._carried -= nbytes

    def finish_adding(self) -> None:
        """No array will be added: `alone` is complete, and all others are on their way, or there."""
        if len(self._small) + len(self._group) < 2 and self._most == self._first:
            self.alone += [leaf.number for leaf in (*self._small, *self._group)]
            self._carried = 0
        elif self._is_pinned:
            if self._group:
                self._send_group()
            self._send_small_pinned()
        else:
            self._send_rest()
        if self._shipment is not None:
            self._shipment.close()

    def finish(self) -> None:
        """Wait until every copy is complete.

        Raises:
            TransferError: A copy failed.
        """
        settle(self._transfers)
        if self._has_copies:
            staging_module.await_copy(self._backend, self._stream)
        if self._carried and self._recorder is not None and self._recorder is observe.active:
            self._recorder.note_call(self._since, self._backend, self._carried)

    def abort(self) -> None:
        """Wait until nothing uses the results' memory any more: they are of no use."""
        abort(self._transfers)
        if self._has_copies:
            lifetimes.abandon(self._backend, self._stream)

    def _send_group(self) -> None:
        group, self._group = self._group, []
        self._nbytes, self._most = 0, 2 * self._most
        if self._is_pinned:
            self._copy_to_pinned(group)
        else:
            self._stage(group)

    # --- into ordinary memory

    def _stage(self, group: list[_Leaf]) -> None:
        if self._shipment is None:
            begun = self._transfers.append
            self._shipment = Shipment(self._most, self._backend, self._stream, begun, is_upload=False)
        self._shipment.add(self._describe_leaves(group))

    def _describe_leaves(self, group: list[_Leaf]) -> Regions:
        """Describe copies of a group into new arrays, the results, for C."""
        copies = []
        few = [leaf for leaf in group if leaf.nbytes < buffers.RECYCLED_FROM]
        if few:
            places, nbytes = _places(few)
            memory = buffers.host_cache.empty((nbytes,), BYTE)
            self._cut(memory, few, places)
            start, is_fresh = address(memory), buffers.is_fresh(memory)
            copies = [
                PlainCopy(start + place, leaf.pointer, leaf.nbytes, is_fresh)
                for leaf, place in zip(few, places, strict=True)
            ]
        for leaf in group:
            if leaf.nbytes >= buffers.RECYCLED_FROM:
                made = self._results[leaf.number] = buffers.host_cache.empty(leaf.shape, leaf.dtype)
                copies.append(PlainCopy(address(made), leaf.pointer, leaf.nbytes, buffers.is_fresh(made)))
        return staging_module.of_plain(copies)._replace(keep=(group, [self._results[leaf.number] for leaf in group]))

    def _send_rest(self) -> None:
        """Copy the last arrays, and all small ones."""
        group, small, backend, stream = self._group, self._small, self._backend, self._stream
        places, nbytes = _places(small)
        if small and not group and self._shipment is None and nbytes <= MEDIUM_NBYTES:
            self._cut(self._fetch_small(places, nbytes), small, places)
            return
        if small:
            memory = backend.empty((nbytes,), BYTE, device=stream.device, stream=stream)
            info = backend.view(memory)
            self._gather(info.pointer, places, nbytes)
            if not self._can_stage:
                slab = CopySource(memory, info.shape, BYTE, backend, info.device, None, info)
                self._cut(copies.device_to_host(slab, BYTE, stream=stream), small, places)
                return
            group.append(_Leaf(len(self._results), memory, info.pointer, (nbytes,), BYTE, nbytes))
            self._results.append(None)
        described = self._describe_leaves(group)
        if small:
            self._cut(self._results.pop(), small, places)
        if self._shipment is None and observe.active is not None:
            self._shipment = Shipment(described.nbytes, backend, stream, self._transfers.append, is_upload=False)
        if self._shipment is not None:
            self._shipment.add(described)
        elif group:
            setup = staging_module.setup_of(backend, stream, is_upward=False)
            assert setup is not None
            staging_module.copy(described, setup, backend, stream)

    def _cut(self, memory: HostArray, leaves: Sequence[_Leaf], places: list[int]) -> None:
        """Let views of memory be the results."""
        for leaf, place in zip(leaves, places, strict=True):
            self._results[leaf.number] = np.ndarray(leaf.shape, leaf.dtype, memory, place)

    def _fetch_small(self, places: list[int], nbytes: int) -> HostArray:
        """Copy the small arrays into the thread's slab, and all of it from there."""
        backend, stream = self._backend, self._stream
        own = buffers.slab_of(backend, nbytes, stream)
        memory, start = own.take(nbytes, stream)
        try:
            self._copy_small(start, places, nbytes)
            backend.stream_synchronize(stream)
            self._has_copies = False  # all that was enqueued is complete
        except BaseException:  # the slab's bytes may be taken again, so even an interrupted copy must be waited for
            lifetimes.abandon(backend, stream)
            raise
        found = memory.copy()
        own.mark_empty()
        return found

    # --- into pinned memory

    def _copy_to_pinned(self, group: list[_Leaf]) -> None:
        """Enqueue copies into one block of the pool, or stage, where that is full and gives ordinary memory."""
        backend, stream = self._backend, self._stream
        places, nbytes = _places(group)
        memory = pinned.pools.of(backend)._lend((nbytes,), BYTE)
        self._cut(memory, group, places)
        start = address(memory)
        if memory.base is None:
            for leaf in group:
                end = HostEnd(self._results[leaf.number], leaf.dtype, backend)
                staging_module.download(backend.view(leaf.array), end, stream, plan.STAGED)
            return
        self._has_copies = True
        self._copy_each(start, group, places)

    def _send_small_pinned(self) -> None:
        if not self._small:
            return
        places, nbytes = _places(self._small)
        memory = pinned.pools.of(self._backend)._lend((nbytes,), BYTE)
        if memory.base is None:
            self._send_rest()
            return
        self._cut(memory, self._small, places)
        self._has_copies = True
        self._copy_small(address(memory), places, nbytes)

    def _copy_small(self, start: int, places: list[int], nbytes: int) -> None:
        """Enqueue copies of the small arrays into pinned memory at an address."""
        if len(places) <= FEW_LEAVES or observe.active is not None:  # which knows no kernel that copies
            self._copy_each(start, self._small, places)
        else:
            self._gather(start, places, nbytes)

    def _copy_each(self, start: int, leaves: Sequence[_Leaf], places: list[int]) -> None:
        """Enqueue one copy for each array into pinned memory at an address."""
        backend, stream = self._backend, self._stream
        sources, sizes = [leaf.pointer for leaf in leaves], [leaf.nbytes for leaf in leaves]
        targets = [start + place for place in places]
        fast = backend.fast if observe.active is None else None
        if fast is None or not fast.copy_each(targets, sources, sizes, stream=stream):
            for target, source, size in zip(targets, sources, sizes, strict=True):
                observe.copy(Kind.D2H, target, source, size, backend, stream)

    # --- on the device

    def _gather(self, pointer: int, places: list[int], nbytes: int) -> None:
        """Enqueue a kernel that writes the small arrays to their places in memory of the device, or pinned memory."""
        backend, stream = self._backend, self._stream
        rows = [(leaf.pointer, place, leaf.nbytes, 0) for leaf, place in zip(self._small, places, strict=True)]
        starts = _find_starts(places, [leaf.nbytes for leaf in self._small])
        table = pinned.pools.of(backend)._lend((4 * len(rows) + len(starts),), _INTEGER)
        table[:] = np.concatenate((np.ravel(rows), starts))
        self._kept.append(table)
        self._has_copies = True
        if table.base is None:  # the pool is full
            there = backend.empty(table.shape, table.dtype, device=stream.device, stream=stream)
            info = backend.view(there)
            copies.send(Upload(HostEnd(table, table.dtype, backend), there, info, stream))
            self._kept.append(there)
            start = info.pointer
        else:
            start = address(table)
        behind = start + len(rows) * _PIECE_NBYTES
        _enqueue_gather(pointer, start, behind, len(starts) - 1, nbytes, backend, stream)


# Small arrays of a device in a tree whose form is known.

_PIECE_NBYTES = ctypes.sizeof(_native.Part)


def find_download(leaves: list[Any], device: Device) -> tuple[FetchedForm, Any] | None:
    """The form that leaves have, kept from now on, and where their arrays lie; None where C is not to fetch them."""
    if not _may_keep():
        return None
    calls = replay.calls_in_c()
    for kept in _fetched.get(device, ()):
        parts = (_native.Part * len(kept.layout.members))()
        if calls.match_form(kept.form, leaves, ctypes.addressof(parts)):
            return kept, parts
    return None


def fetch_again(
    kept: FetchedForm, parts: Any, leaves: list[Any], backend: Backend, stream: RawStream, *, is_pinned: bool
) -> list[Any] | None:
    """Download leaves that have a form that is known; complete on return. None, and nothing done, for others.

    Args:
        kept, parts: As `find_download` has found them.
        leaves: All small ones, or they are left to the caller.
        backend, stream: They carry the copies.
        is_pinned: The results are in pinned memory.
    """
    if kept.joined < len(kept.layout.members):
        return None
    through = 0 if is_pinned or kept.row_nbytes > TOGETHER_FROM else kept.row_nbytes
    pieces = ctypes.sizeof(parts)
    room = _round_up(pieces + len(kept.starts))
    if room + through > MEDIUM_NBYTES:
        return None
    own = slab_of(backend, room + through, stream)
    memory, start = own.take(room + through, stream)
    memory[:pieces] = np.frombuffer(parts, BYTE)
    memory[pieces : pieces + len(kept.starts)] = np.frombuffer(kept.starts, BYTE)
    with contextlib.suppress(DeviceMemoryError):  # each by itself needs no other memory there
        return _fetch(kept, leaves, memory[room:], start, backend, stream, is_pinned=is_pinned)
    return None


def _fetch(
    kept: FetchedForm, leaves: list[Any], through: HostArray, pieces: int, backend: Backend, stream: RawStream,
    *, is_pinned: bool,
) -> list[Any] | None:  # fmt: skip
    """Download leaves whose pieces are at an address; by way of pinned memory if there is any, else of the device's."""
    nbytes, there = kept.row_nbytes, None
    table = pieces, pieces + len(kept.layout.members) * _PIECE_NBYTES, len(kept.starts) // _INTEGER.itemsize - 1
    if is_pinned:
        memory = pinned.pools.of(backend)._lend((nbytes,), BYTE)
        if memory.base is None:  # the pool is full
            return None
    try:
        if is_pinned and kept.is_written:
            _enqueue_gather(address(memory), *table, nbytes, backend, stream)
        elif through.size:
            _enqueue_gather(address(through), *table, nbytes, backend, stream)
        else:
            there = backend.empty((nbytes,), BYTE, device=stream.device, stream=stream)
            info = backend.view(there)
            _enqueue_gather(info.pointer, *table, nbytes, backend, stream)
            slab = CopySource(there, info.shape, BYTE, backend, info.device, None, info)
            memory = copies.device_to_host(slab, BYTE, stream=stream, out=memory if is_pinned else None)
        if there is None:
            backend.stream_synchronize(stream)
    except BaseException:  # the bytes may be taken again, so even an interrupted kernel must be waited for
        lifetimes.abandon(backend, stream)
        raise
    if through.size:
        memory = through.copy()
    found: list[Any] = replay.calls_in_c().cut_form(kept.form, leaves, memory)
    return found


def keep_download(leaves: list[Any], backend: Backend, device: Device) -> tuple[FetchedForm, Any] | None:
    """Keep the form of leaves, as `find_download` finds it, if C can fetch such."""
    fast = backend.fast
    if device.kind != "cuda" or fast is None or not _may_keep():
        return None
    kinds: dict[tuple[tuple[int, ...], np.dtype[Any]], list[int]] = {}
    for number, leaf in enumerate(leaves):
        if (owner := registry.owner_of(leaf)) is None:
            continue
        found = fast.whole(leaf) if owner.at(device) is backend else None
        if found is None or not math.prod(found[1]):
            return None
        kinds.setdefault(found[1:], []).append(number)
    found_kinds = [LeafKind(shape, dtype, dtype, members) for (shape, dtype), members in kinds.items()]
    found_kinds.sort(key=lambda kind: kind.nbytes > MEDIUM_NBYTES)  # the small ones come first
    layout = SlabLayout(found_kinds, has_gaps=True)  # of which a kernel copies 16 bytes at a time
    if len(layout.members) < 2 or layout.nbytes > _KEPT_MOST:
        return None
    form = replay.calls_in_c().keep_form(leaves, layout.members, layout.places)
    if form is None:
        return None
    sizes = [kind.nbytes for kind in found_kinds for _ in kind.members]
    joined = sum(nbytes <= MEDIUM_NBYTES for nbytes in sizes)
    row = layout.places[joined] if joined < len(sizes) else layout.nbytes
    code: Any = _gather_kernel(backend, device)
    starts = _find_starts(layout.places[:joined], sizes[:joined]).tobytes() if joined else b""
    all_starts = _find_starts(layout.places, sizes).tobytes()
    kept = FetchedForm(
        form, row, code.handle, _THREADS, starts, joined, layout.nbytes, row <= LARGE_NBYTES, all_starts, code, layout
    )  # fmt: skip
    _fetched[device] = [kept, *_fetched.get(device, ())][:_FORMS_KEPT]
    return find_download(leaves, device)


def _places(leaves: Sequence[_Leaf]) -> tuple[list[int], int]:
    """Where arrays begin that follow one another in memory, and how many bytes they take."""
    places, nbytes = [], 0
    for leaf in leaves:
        places.append(nbytes)
        nbytes += _round_up(leaf.nbytes)
    return places, nbytes


def _whole(array: Array, backend: Backend) -> tuple[int, tuple[int, ...], np.dtype[Any]] | None:
    """As `FastPath.whole`, for a backend without these."""
    info = backend.view(array)
    is_whole = info.is_writable and info.is_c_contiguous and not backend.is_lazy(array)
    return (info.pointer, info.shape, info.dtype) if is_whole else None
