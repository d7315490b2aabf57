"""The large arrays of a tree, each in memory of its own, in one staged transfer: the link does not idle between them.

The obvious way, one transfer after the other, begins and ends each: its threads come, its first block is small, its
last one is waited for. For arrays of a megabyte that takes as long as the copy. And a transfer of all of them that
begins only when the last one has been described begins late. So arrays are added in groups of some MiB to a transfer
that is on its way: threads of C stage one group while Python allocates and describes the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import observe
from xferlib._core.array import SUPPORTED, Array, ArrayInfo
from xferlib._core.observe import Kind
from xferlib._core.thresholds import GROUP_NBYTES, TOGETHER_FROM
from xferlib._memory import host, pinned
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


def can_stage(backend: Backend, device: Device) -> bool:
    """Whether threads of C stage for a device, and no path is forced."""
    return plan.forced() is None and compiled_staging.calls_of(backend, device) is not None


def chosen(
    leaves: Sequence[Any], numbers: Sequence[int], dtype: np.dtype[Any] | None, backend: Backend, device: Device, *,
    may_permute: bool = True,
) -> dict[int, HostEnd]:  # fmt: skip
    """The leaves that are uploaded as one transfer, by number, if they are worth one.

    Args:
        leaves, numbers: The leaves, and the numbers of those to choose from.
        dtype: That arrives; each leaf's own if None.
        backend, device: The target.
        may_permute: As for `plan.plan`.
    """
    if len(numbers) < 2 or not can_stage(backend, device):
        return {}
    ends = {number: _staged_end(leaves[number], dtype, backend, may_permute=may_permute) for number in numbers}
    found = {number: end for number, end in ends.items() if end is not None}
    return found if len(found) > 1 and sum(end.nbytes for end in found.values()) >= TOGETHER_FROM else {}


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

    def add(self, ends: Sequence[HostEnd], pointers: Sequence[int], keep: Any, *, is_last: bool) -> None:
        """Copy arrays between the host's ends and addresses on the device; ``keep`` lives until that is enqueued.

        New arrays need not outlive their copies: they are of the stream that carries these, and are freed in its order.
        To hold them until the copies are complete would keep the memory of a tree that has been dropped.
        """
        described = regions.of_many(ends, pointers)
        described = described._replace(keep=(described.keep, keep))
        while not self._staging.add(described, is_last=is_last):  # a thread that settled it took it for complete
            self._staging = self._begin()


@observe.user_call(lambda ends, backend, device, stream, meanwhile: (backend, sum(end.nbytes for end in ends)))
def to_device(
    ends: Sequence[HostEnd], backend: Backend, device: Device, stream: RawStream, meanwhile: Callable[[], Any]
) -> list[Array]:
    """Upload arrays to new ones; the sources have been read on return. ``meanwhile`` runs while they are on their way.

    Raises:
        SlowPathError: Strict mode refuses it; nothing has been copied.
        DeviceMemoryError, TransferError: As `xferlib.to_device`.
    """
    transfers: list[Transfer] = []
    try:
        results = _begin(ends, backend, device, stream, transfers.append, "to_device")
        meanwhile()
        _settle(transfers)
    except BaseException:
        _abort(transfers)
        raise
    return results


@observe.user_call(lambda ends, backend, device, stream, begun: (backend, sum(end.nbytes for end in ends)))
def begin(
    ends: Sequence[HostEnd], backend: Backend, device: Device, stream: RawStream, begun: Callable[[Transfer], None]
) -> list[Array]:
    """Start uploading arrays to new ones.

    Args:
        ends, backend, device, stream: What is copied, and to where.
        begun: Called with each transfer, before it starts; the caller settles or cancels it. It has no result.
    """
    return _begin(ends, backend, device, stream, begun, "prefetch")


def _begin(
    ends: Sequence[HostEnd],
    backend: Backend,
    device: Device,
    stream: RawStream,
    begun: Callable[[Transfer], None],
    call: str,
) -> list[Array]:
    for end in ends:
        plan.refuse_slow(plan.STAGED, end, call)
    results: list[Array] = []
    tree = _Tree(sum(end.nbytes for end in ends), backend, stream, begun, is_upload=True)
    for group in _groups([end.nbytes for end in ends]):
        some = ends[group.start : group.stop]
        arrays = [backend.empty(end.array.shape, end.dtype, device=device, stream=stream) for end in some]
        tree.add(some, backend.operands(arrays), arrays, is_last=group.stop == len(ends))
        results += arrays
    return results


@observe.user_call(lambda infos, backend, stream, keep: (backend, sum(info.nbytes for info in infos)))
def to_host(infos: Sequence[ArrayInfo], backend: Backend, stream: RawStream, keep: Sequence[Array]) -> list[HostArray]:
    """Download arrays in C order, after the work on ``stream``; complete on return.

    Args:
        infos: Of arrays on one device.
        backend, stream: Of that device.
        keep: The arrays, which outlive the copies.
    """
    results: list[HostArray] = []
    transfers: list[Transfer] = []
    try:
        tree = _Tree(sum(info.nbytes for info in infos), backend, stream, transfers.append, is_upload=False)
        for group in _groups([info.nbytes for info in infos]):
            some = infos[group.start : group.stop]
            arrays = [host.host_cache.empty(info.shape, info.dtype) for info in some]
            ends = [HostEnd(array, array.dtype, backend) for array in arrays]
            kept = (arrays, keep[group.start : group.stop])
            tree.add(ends, [info.pointer for info in some], kept, is_last=group.stop == len(infos))
            results += arrays
        _settle(transfers)
    except BaseException:
        _abort(transfers)
        raise
    return results


@observe.user_call(lambda infos, backend, stream: (backend, sum(info.nbytes for info in infos)))
def to_pinned(infos: Sequence[ArrayInfo], backend: Backend, stream: RawStream) -> list[HostArray]:
    """Download arrays in C order into the pinned pool, after the work on ``stream``; complete on return.

    The pool may give ordinary memory, if it is set up to do so when it is full: that is staged.

    Raises:
        PinnedMemoryError: The pool has no room; nothing has been copied.
    """
    pool = pinned.pools.of(backend)
    results = [pool.empty(info.shape, info.dtype) for info in infos]
    try:
        for info, array in zip(infos, results, strict=True):
            end = HostEnd(array, info.dtype, backend)
            if pool.find(end.pointer) is not None:
                observe.copy(Kind.D2H, end.pointer, info.pointer, info.nbytes, backend, stream)
            else:
                staged.download(info, end, stream, plan.STAGED)
    finally:
        staged.await_copy(backend, stream)  # the memory of what has been enqueued must outlive its copies
    return results


def _groups(sizes: list[int]) -> Iterator[range]:
    """Numbers of arrays that are copied together: the first group is small, so that the link starts early."""
    start, nbytes, most = 0, 0, GROUP_NBYTES // 8
    for number, size in enumerate(sizes):
        nbytes += size
        if nbytes >= most:
            yield range(start, number + 1)
            start, nbytes, most = number + 1, 0, GROUP_NBYTES
    if start < len(sizes):
        yield range(start, len(sizes))


def _settle(transfers: list[Transfer]) -> None:
    for transfer in transfers:
        transfer.settle()
        transfer.check()


def _abort(transfers: list[Transfer]) -> None:
    for transfer in transfers:
        transfer.abort()
