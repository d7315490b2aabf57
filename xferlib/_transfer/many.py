"""The large arrays of a tree, each in memory of its own, in one staged transfer: the link does not idle between them.

The obvious way, one transfer after the other, begins and ends each: its threads come, its first block is small, its
last one is waited for. For arrays of a megabyte that takes as long as the copy. And a transfer of all of them that
begins only when the last one has been described begins late. So arrays are added in groups of some MiB to a transfer
that is on its way: threads of C stage one group while Python allocates and describes the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from xferlib._core import observe
from xferlib._core.array import SUPPORTED, Array, ArrayInfo
from xferlib._core.observe import Kind
from xferlib._core.thresholds import GROUP_NBYTES, TOGETHER_FROM
from xferlib._memory import host, pinned
from xferlib._runtime import config
from xferlib._transfer import compiled_staging, plan, regions, staged
from xferlib._transfer.handle import Transfer
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.plan import Path

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream
    from xferlib._transfer.compiled_staging import OpenTransfer


_Member = TypeVar("_Member")


def can_stage(backend: Backend, device: Device) -> bool:
    """Whether threads of C stage for a device, and no path is forced."""
    return plan.forced() is None and compiled_staging.calls_of(backend, device) is not None


def is_worth(leaves: Sequence[Any], numbers: Sequence[int], backend: Backend, device: Device) -> bool:
    """Whether `to_device` takes less time than one transfer after the other.

    Args:
        leaves, numbers: The leaves, and the numbers of those to copy.
        backend, device: The target.
    """
    if len(numbers) < 2 or not can_stage(backend, device):
        return False
    arrays = (leaves[number] for number in numbers)
    return sum(array.nbytes for array in arrays if type(array) is np.ndarray) >= TOGETHER_FROM


def _staged_ends(
    leaves: Sequence[Any], numbers: Sequence[int], dtype: np.dtype[Any] | None, backend: Backend, *, may_permute: bool
) -> Iterator[tuple[int, HostEnd]]:
    """The leaves that C threads stage, by number, as they are asked for; the others go another way."""
    for number in numbers:
        if (end := _staged_end(leaves[number], dtype, backend, may_permute=may_permute)) is not None:
            yield number, end


def _staged_end(leaf: Any, dtype: np.dtype[Any] | None, backend: Backend, *, may_permute: bool) -> HostEnd | None:
    """The host's end of an upload of a leaf that C threads stage; None where it goes another way."""
    if type(leaf) is not np.ndarray:
        return None
    native = leaf.dtype if leaf.dtype.isnative else leaf.dtype.newbyteorder("=")
    wanted = native if dtype is None else dtype
    if native not in SUPPORTED or native.itemsize < wanted.itemsize:  # the device widens
        return None
    end = HostEnd(leaf, wanted, backend)
    if plan.plan(end, may_permute=may_permute).path is not Path.STAGED:
        return None
    return end if regions.can_describe(end) else None


class _Tree:
    """The transfer of several arrays: groups of them are added while others are on their way.

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

    def add(self, ends: Sequence[HostEnd], pointers: Sequence[int], keep: Any) -> None:
        """Copy arrays between the host's ends and addresses on the device; ``keep`` lives until that is enqueued.

        New arrays need not outlive their copies: they are of the stream that carries these, and are freed in its order.
        To hold them until the copies are complete would keep the memory of a tree that has been dropped.
        """
        described = regions.of_many(ends, pointers)
        described = described._replace(keep=(described.keep, keep))
        while not self._staging.add(described):  # a thread that settled it took it for complete
            self._staging = self._begin()

    def close(self) -> None:
        """Tell that no array will be added."""
        self._staging.close()


def to_device(
    leaves: Sequence[Any], numbers: Sequence[int], dtype: np.dtype[Any] | None, backend: Backend, device: Device,
    stream: RawStream, meanwhile: Callable[[], Any],
) -> dict[int, Array]:  # fmt: skip
    """Upload leaves to new arrays; the sources have been read on return.

    Args:
        leaves, numbers: The leaves, and the numbers of those to copy.
        dtype: That arrives; each leaf's own if None.
        backend, device, stream: Where they go.
        meanwhile: Runs while they are on their way.

    Returns:
        The arrays by number, but for leaves that are better copied alone.

    Raises:
        SlowPathError: Strict mode refuses it; nothing has been copied.
        DeviceMemoryError, TransferError: As `xferlib.to_device`.
    """
    transfers: list[Transfer] = []
    try:
        results = begin(leaves, numbers, backend, device, stream, transfers.append, dtype=dtype, call="to_device")
        meanwhile()
        _settle(transfers)
    except BaseException:
        _abort(transfers)
        raise
    return results


@observe.user_call(
    lambda leaves, numbers, backend, *_, **__: (backend, sum(leaves[number].nbytes for number in numbers))
)
def begin(
    leaves: Sequence[Any], numbers: Sequence[int], backend: Backend, device: Device, stream: RawStream,
    begun: Callable[[Transfer], None], *, dtype: np.dtype[Any] | None = None, call: str = "prefetch",
) -> dict[int, Array]:  # fmt: skip
    """Start uploading leaves to new arrays.

    Args:
        leaves, numbers, backend, device, stream, dtype: As for `to_device`.
        begun: Called with each transfer, before it starts; the caller settles or cancels it. It has no result.
        call: The function that the user called.

    Returns:
        As `to_device`.
    """
    ends = _staged_ends(leaves, numbers, dtype, backend, may_permute=call == "to_device")
    arrays = [leaf for leaf in map(leaves.__getitem__, numbers) if type(leaf) is np.ndarray]
    nbytes = sum(leaf.nbytes if dtype is None else leaf.size * dtype.itemsize for leaf in arrays)
    if observe.active is not None or config.get().strict:  # which ask for all of them before the first is copied
        known = list(ends)
        nbytes = sum(end.nbytes for _, end in known)
        for _, end in known:
            plan.refuse_slow(plan.STAGED, end, call)
        ends = iter(known)
    results: dict[int, Array] = {}
    tree = _Tree(nbytes, backend, stream, begun, is_upload=True)
    for group in _groups(ends, lambda member: member[1].nbytes):
        some = [end for _, end in group]
        made = [backend.empty(end.array.shape, end.dtype, device=device, stream=stream) for end in some]
        tree.add(some, backend.operands(made), made)
        results.update(zip((number for number, _ in group), made, strict=True))
    tree.close()
    return results


@observe.user_call(lambda infos, backend, stream, keep, meanwhile: (backend, sum(info.nbytes for info in infos)))
def to_host(
    infos: Sequence[ArrayInfo], backend: Backend, stream: RawStream, keep: Sequence[Array],
    meanwhile: Callable[[], Any],
) -> list[HostArray]:  # fmt: skip
    """Download arrays in C order, after the work on ``stream``; complete on return.

    Args:
        infos: Of arrays on one device.
        backend, stream: Of that device.
        keep: The arrays, which outlive the copies.
        meanwhile: Runs while they are on their way.
    """
    results: list[HostArray] = []
    transfers: list[Transfer] = []
    try:
        tree = _Tree(sum(info.nbytes for info in infos), backend, stream, transfers.append, is_upload=False)
        for group in _groups(zip(infos, keep, strict=True), lambda member: member[0].nbytes):
            arrays = [host.host_cache.empty(info.shape, info.dtype) for info, _ in group]
            ends = [HostEnd(array, array.dtype, backend) for array in arrays]
            tree.add(ends, [info.pointer for info, _ in group], (arrays, group))
            results += arrays
        tree.close()
        meanwhile()
        _settle(transfers)
    except BaseException:
        _abort(transfers)
        raise
    return results


@observe.user_call(lambda infos, backend, stream, meanwhile: (backend, sum(info.nbytes for info in infos)))
def to_pinned(
    infos: Sequence[ArrayInfo], backend: Backend, stream: RawStream, meanwhile: Callable[[], Any]
) -> list[HostArray]:
    """Download arrays in C order into the pinned pool, after the work on ``stream``; complete on return.

    The pool may give ordinary memory, if it is set up to do so when it is full: that is staged. ``meanwhile`` runs
    while the copies are on their way.

    Raises:
        PinnedMemoryError: The pool has no room.
    """
    pool = pinned.pools.of(backend)
    results: list[HostArray] = []
    try:
        for info in infos:
            array = pool.empty(info.shape, info.dtype)
            results.append(array)
            end = HostEnd(array, info.dtype, backend)
            if pool.find(end.pointer) is not None:
                observe.copy(Kind.D2H, end.pointer, info.pointer, info.nbytes, backend, stream)
            else:
                staged.download(info, end, stream, plan.STAGED)
        meanwhile()
    finally:
        staged.await_copy(backend, stream)  # the memory of what has been enqueued must outlive its copies
    return results


def _groups(members: Iterable[_Member], nbytes_of: Callable[[_Member], int]) -> Iterator[list[_Member]]:
    """Members that are described together: the first group is small, so that the link starts early."""
    group: list[_Member] = []
    nbytes, most = 0, GROUP_NBYTES
    for member in members:
        group.append(member)
        nbytes += nbytes_of(member)
        if nbytes >= most:
            yield group
            group, nbytes, most = [], 0, 2 * most
    if group:
        yield group


def _settle(transfers: list[Transfer]) -> None:
    for transfer in transfers:
        transfer.settle()
        transfer.check()


def _abort(transfers: list[Transfer]) -> None:
    for transfer in transfers:
        transfer.abort()
