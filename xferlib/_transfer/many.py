"""The large arrays of a tree, each in memory of its own, in few staged transfers: the link does not idle between them.

The obvious way, one transfer after the other, begins and ends each: its threads come, its first block is small, its
last one is waited for. For arrays of a megabyte that takes as long as the copy. One transfer of all of them would begin
only when the last array has been described. So arrays are taken in groups of some 16 MiB: threads of C stage one group
while Python allocates and describes the next.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native
from xferlib._core import observe
from xferlib._core.array import SUPPORTED, Array, ArrayInfo
from xferlib._core.observe import Kind
from xferlib._core.thresholds import GROUP_NBYTES
from xferlib._memory import host, pinned
from xferlib._transfer import compiled_copies, plan, staged
from xferlib._transfer.handle import Transfer
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.partition import Scattered
from xferlib._transfer.plan import Path

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream


def can_stage(backend: Backend, device: Device) -> bool:
    """Whether threads of C stage for a device, and no path is forced."""
    if plan.forced() is not None or not _native.is_on() or backend.fast is None:
        return False
    return backend.fast.staging_calls(device) is not None


def staged_end(leaf: Any, dtype: np.dtype[Any] | None, backend: Backend, *, may_permute: bool = True) -> HostEnd | None:
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
    return end if end.is_plain or _form(end) is not None else None


def _form(end: HostEnd) -> compiled_copies.HostForm | None:
    return compiled_copies.form(end.array.shape, end.array.strides, end.array.dtype, end.dtype)


@observe.user_call(lambda ends, backend, device, stream: (backend, sum(end.nbytes for end in ends)))
def to_device(ends: Sequence[HostEnd], backend: Backend, device: Device, stream: RawStream) -> list[Array]:
    """Upload arrays to new ones; the sources have been read on return.

    Raises:
        SlowPathError: Strict mode refuses it; nothing has been copied.
        DeviceMemoryError, TransferError: As `xferlib.to_device`.
    """
    transfers: list[Transfer] = []
    try:
        results = _begin(ends, backend, device, stream, transfers.append, "to_device")
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
    for group in _groups([end.nbytes for end in ends]):
        chosen = [ends[number] for number in group]
        arrays = [backend.empty(end.array.shape, end.dtype, device=device, stream=stream) for end in chosen]
        memory = _scattered(chosen, backend.operands(arrays))
        first = backend.view(arrays[0])
        _start(memory, first, backend, stream, begun, keep=tuple(arrays), is_upload=True)
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
        for group in _groups([info.nbytes for info in infos]):
            chosen = [infos[number] for number in group]
            arrays = [host.host_cache.empty(info.shape, info.dtype) for info in chosen]
            memory = _scattered(
                [HostEnd(array, array.dtype, backend) for array in arrays], [info.pointer for info in chosen]
            )
            kept = (*arrays, *(keep[number] for number in group))
            _start(memory, chosen[0], backend, stream, transfers.append, keep=kept, is_upload=False)
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


def _scattered(ends: Sequence[HostEnd], pointers: Sequence[int]) -> Scattered:
    """Describe arrays on the host, and the addresses on the device of as many bytes."""
    parts = (_native.Part * len(ends))()
    place = 0
    forms = []
    for part, end in zip(parts, ends, strict=True):
        part.host, part.place, part.nbytes = end.pointer, place, end.nbytes
        if not end.is_plain:
            form = _form(end)
            assert form is not None
            forms.append(form)
            part.layout = ctypes.pointer(form.layout)
        place += end.nbytes
    regions = tuple((pointer, end.nbytes) for pointer, end in zip(pointers, ends, strict=True))
    return Scattered(parts, place, (ends, forms), regions)


def _start(
    memory: Scattered,
    first: ArrayInfo,
    backend: Backend,
    stream: RawStream,
    begun: Callable[[Transfer], None],
    *,
    keep: tuple[Any, ...],
    is_upload: bool,
) -> None:
    """Start a transfer that C threads make, until a thread settles it; ``keep`` lives until then.

    New arrays need not outlive their copies: they are of the stream that carries these, and are freed in its order. To
    hold them until the copies are complete would keep the memory of a tree that has been dropped.
    """
    transfer = Transfer(None, backend, stream, nbytes=memory.nbytes, path=Path.STAGED.value, is_upload=is_upload)
    begun(transfer)  # first: Ctrl-C might come between the start and the list of what must be ended
    job = staged.scattered_job(memory, first.pointer, backend, stream, transfer, is_upward=is_upload)
    assert job is not None, "asked by can_stage"
    transfer.start(job, first, keep=(), while_staged=(memory, *keep), is_awaited=True)


def _settle(transfers: list[Transfer]) -> None:
    for transfer in transfers:
        transfer.settle()
        transfer.check()


def _abort(transfers: list[Transfer]) -> None:
    for transfer in transfers:
        transfer.abort()
