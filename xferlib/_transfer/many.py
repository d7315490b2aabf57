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

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core import observe
from xferlib._core.array import SUPPORTED, Array
from xferlib._core.thresholds import GROUP_NBYTES, ONE_CALL_MOST, SCATTERED_FROM, TOGETHER_FROM
from xferlib._memory import pinned_ranges
from xferlib._native import driver_calls
from xferlib._runtime import config
from xferlib._transfer import compiled_staging, plan, regions, staged
from xferlib._transfer.handle import Transfer
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.packing import LeafKind, PackedLeaves, SlabLayout
from xferlib._transfer.plan import Path
from xferlib._transfer.regions import PlainCopy

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream
    from xferlib._transfer.open_transfer import OpenTransfer
    from xferlib._transfer.regions import Regions


def can_stage(backend: Backend, stream: RawStream) -> bool:
    """Whether threads of C stage what goes on a stream, and no path is forced."""
    return plan.forced() is None and compiled_staging.calls_of(backend, stream) is not None


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
        transfer = Transfer(None, backend, stream, nbytes=self._nbytes, path=Path.STAGED.value, is_upload=is_upload)
        self._begun(transfer)  # first: Ctrl-C might come between the start and the list of what must be ended
        staging = staged.begin(backend, stream, self._nbytes, is_upward=is_upload)
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
        kinds, alone: As `packing.chosen` has sorted them.
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
    is_together = can and nbytes + layout.nbytes >= SCATTERED_FROM
    numbers = alone if is_together else ()
    large = _large(leaves, numbers, dtype, backend, stream.device, may_permute=call == "to_device")
    if observe.active is not None or config.get().strict:  # which ask for all of them before the first is copied
        known = list(large)
        nbytes = sum(each.nbytes for each in known)
        for each in known:
            plan.refuse_slow(plan.STAGED, each.array.nbytes, call)
        large = iter(known)
    slab = PackedLeaves(leaves, layout, backend, stream) if layout.members else None
    owned: list[Array] = [slab.memory] if slab is not None else []
    most = ONE_CALL_MOST if call == "to_device" else TOGETHER_FROM
    is_open = is_together and (layout.nbytes + nbytes >= most or observe.active is not None)
    if is_open:
        shipment = Shipment(layout.nbytes + nbytes, backend, stream, begun, is_upload=True)
        if slab is not None:
            shipment.add(slab.region())
        for group in _groups(large):
            shipment.add(_described(group, results, owned, backend, stream))
        shipment.close()
    elif is_together:
        described = _described(list(large), results, owned, backend, stream)
        _in_one_call(described if slab is None else regions.joined(slab.region(), described), backend, stream)
    elif slab is not None:
        slab.send()
    if slab is not None:
        slab.cut(results)  # which takes as long as the copying
    left = [number for number in alone if results[number] is leaves[number]]
    return Begun(owned, left, is_enqueued=bool(owned) and not is_open)


def _in_one_call(described: Regions, backend: Backend, stream: RawStream) -> None:
    """Stage arrays in this thread, with helpers; they have been read on return."""
    setup = compiled_staging.setup_of(backend, stream, is_upward=True)
    assert setup is not None
    if described.number:
        compiled_staging.copy(described, setup, backend, stream)


def _groups(members: Iterable[_Large]) -> Iterator[list[_Large]]:
    """Arrays that are described together: the first group is small, so that the link starts early."""
    group: list[_Large] = []
    nbytes, most = 0, GROUP_NBYTES
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


def _described(
    group: list[_Large], results: list[Any], owned: list[Array], backend: Backend, stream: RawStream
) -> Regions:
    """Describe arrays for C, and the new ones on the device, which are ``results``."""
    device = stream.device
    made = [backend.empty(each.array.shape, each.dtype, device=device, stream=stream) for each in group]
    owned += made
    for (number, *_), array in zip(group, made, strict=True):
        results[number] = array
    located = list(zip(group, backend.operands(made), strict=True))
    found = regions.of_plain(
        [PlainCopy(each.pointer, pointer, each.nbytes) for each, pointer in located if each.end is None]
    )
    if others := [(each.end, pointer) for each, pointer in located if each.end is not None]:
        found = regions.joined(found, regions.of_many([end for end, _ in others], [pointer for _, pointer in others]))
    return found._replace(keep=(found.keep, made, group))


def _large(
    leaves: Sequence[Any], numbers: Sequence[int], dtype: np.dtype[Any] | None, backend: Backend, device: Device, *,
    may_permute: bool,
) -> Iterator[_Large]:  # fmt: skip
    """The leaves that C threads stage, as they are asked for; the others go another way."""
    find_address = driver_calls.addresser()
    is_pinned = pinned_ranges.tester(backend)
    for number in numbers:
        leaf = leaves[number]
        if type(leaf) is not np.ndarray:
            continue
        given, nbytes = leaf.dtype, leaf.nbytes
        if find_address is not None and (dtype is None or dtype == given) and given in SUPPORTED and nbytes:
            pointer = find_address(leaf)
            if pointer:
                if not is_pinned(pointer, nbytes):
                    yield _Large(number, leaf, given, nbytes, pointer)
                continue
        end = _staged_end(leaf, dtype, backend, device, may_permute=may_permute)
        if end is not None:
            yield _Large(number, leaf, end.dtype, end.nbytes, 0, end)


def _staged_end(
    leaf: HostArray, dtype: np.dtype[Any] | None, backend: Backend, device: Device, *, may_permute: bool
) -> HostEnd | None:
    """The host's end of an upload of a leaf that C threads stage; None where it goes another way."""
    native = leaf.dtype if leaf.dtype.isnative else leaf.dtype.newbyteorder("=")
    wanted = native if dtype is None else dtype
    if native not in SUPPORTED or native.itemsize < wanted.itemsize:  # the device widens
        return None
    end = HostEnd(leaf, wanted, backend)
    found = plan.of(end, device, is_upload=True, is_blocking=False, may_permute=may_permute, may_cast=False)
    return end if found.path is Path.STAGED and found.is_c else None
