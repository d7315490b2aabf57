"""Device to host: put in order on the device what is not, choose the path, then let its executor copy.

Arguments arrive checked: devices exist, dtypes are supported, ``out`` fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core import observe, staging_hooks
from xferlib._core.array import Array, ArrayInfo
from xferlib._memory import host, in_flight
from xferlib._transfer import plan, staged
from xferlib._transfer.handle import Transfer
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.on_device import cast, in_c_order, resolved
from xferlib._transfer.plan import Conversion, Path
from xferlib.errors import DeviceMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream
    from xferlib._transfer.plan import Plan


@observe.user_call(lambda src, info, backend, dtype, **_: (backend, info.nbytes))
def device_to_host(
    src: Array,
    info: ArrayInfo,
    backend: Backend,
    dtype: np.dtype[Any],
    *,
    stream: RawStream | None = None,
    out: HostArray | None = None,
) -> HostArray:
    """Blocking download: complete on return."""
    src, info = resolved(src, info, backend, stream)
    order = stream if stream is not None else backend.stream_current(info.device)
    dst = out if out is not None else host.host_cache.empty(info.shape, dtype)
    try:
        ready = _prepared(src, info, backend, dst, order, "to_host" if out is not None else "", is_blocking=True)
        _EXECUTORS[ready.found.path](ready.flat, ready.end, order, ready.found)
    except BaseException:  # what may be enqueued reads memory that the caller may free now
        in_flight.abandon(backend, order)
        raise
    del ready
    if out is not None:
        staging_hooks.touched(out, backend.pinned_domain, is_write=True)
    return dst


class _Ready(NamedTuple):
    """A download whose device side is in the order and, if that is planned, in the dtype in which it travels."""

    end: HostEnd
    flat: ArrayInfo
    owner: Array
    """Of the memory that ``flat`` is in."""
    found: Plan


def _prepared(
    src: Array, info: ArrayInfo, backend: Backend, dst: HostArray, order: RawStream, call: str, *, is_blocking: bool
) -> _Ready:
    """Plan a download, and enqueue the device's part of it; ``call`` refuses to stage the caller's ``dst``."""
    end = HostEnd(dst, info.dtype, backend)
    found = plan.of(end, info.device, is_upload=False, is_blocking=is_blocking, may_cast=is_blocking)
    if found.conversion is Conversion.ON_DEVICE:
        src, info = _converted(src, info, backend, dst.dtype, order)
        end = HostEnd(dst, info.dtype, backend)
        found = plan.of(end, info.device, is_upload=False, is_blocking=is_blocking, may_cast=False)
    if call:
        plan.refuse_slow(found, dst.nbytes, call)
    if found.path is Path.PERMUTED:  # the device puts the elements in the order of the host's memory, which is dense
        shape, strides = (tuple(each[axis] for axis in found.order) for each in (info.shape, info.strides))
        lies, flat = (
            HostEnd(dst.transpose(found.order), info.dtype, backend),
            info._replace(shape=shape, strides=strides),
        )
        try:
            ready = in_c_order(src, flat, backend, order)
        except DeviceMemoryError:  # the host puts them in their places
            found = plan.of(
                end, info.device, is_upload=False, is_blocking=is_blocking, may_permute=False, may_cast=False
            )  # fmt: skip
        else:
            found = plan.of(lies, info.device, is_upload=False, is_blocking=is_blocking, may_cast=False)
            return _Ready(lies, *ready, found)
    return _Ready(end, *in_c_order(src, info, backend, order), found)


def _converted(
    src: Array, info: ArrayInfo, backend: Backend, dtype: np.dtype[Any], stream: RawStream
) -> tuple[Array, ArrayInfo]:
    """The array in another dtype, made on the device; itself where that has no room."""
    try:
        converted = backend.empty(info.shape, dtype, device=info.device, stream=stream)
    except DeviceMemoryError:
        return src, info
    cast(src, converted, backend, stream)
    return converted, backend.view(converted)


# --- one executor a path


def _nothing(src: ArrayInfo, end: HostEnd, stream: RawStream, found: Plan) -> None:
    pass


def _pinned(src: ArrayInfo, end: HostEnd, stream: RawStream, _found: Plan) -> None:
    staged.copy_pinned(end, src.pointer, stream, is_upward=False)
    staged.await_copy(end.backend, stream)


_EXECUTORS: dict[Path, Callable[[ArrayInfo, HostEnd, RawStream, Plan], None]] = {
    Path.EMPTY: _nothing,
    Path.SMALL: staged.download,
    Path.PINNED: _pinned,
    Path.STAGED: staged.download,
}


# --- asynchronous


@observe.user_call(lambda src, info, backend, dtype, **_: (backend, info.nbytes))
def device_to_host_async(
    src: Array,
    info: ArrayInfo,
    backend: Backend,
    dtype: np.dtype[Any],
    *,
    stream: RawStream | None = None,
    out: HostArray | None = None,
    is_awaited: bool = False,
) -> Transfer:
    """Start a download; the result is handed out only when it is complete. ``is_awaited``: see `Transfer.start`."""
    src, info = resolved(src, info, backend, stream)
    order = stream
    if order is None:
        from xferlib._core.ordering.copy_streams import copy_stream  # here, for programs that only wait

        order = copy_stream(backend, info.device, "down")
        backend.event_wait(order, backend.event_record(backend.stream_current(info.device), timing=False))
    dst = out if out is not None else host.host_cache.empty(info.shape, dtype)
    try:
        end, flat, owner, found = _prepared(
            src, info, backend, dst, order, "to_host_async" if out is not None else "", is_blocking=False
        )
        transfer = Transfer(dst, backend, order, nbytes=info.nbytes, path=found.path.value, is_upload=False)
        if found.path is Path.SMALL or found.path is Path.STAGED:
            job = staged.job(end, flat.pointer, order, transfer.finish, is_upward=False)
            transfer.start(job, flat, keep=(src, owner), is_awaited=is_awaited)
        else:
            if found.path is Path.PINNED:
                staged.copy_pinned(end, flat.pointer, order, is_upward=False)
            transfer.finish(src, owner)
    except BaseException:  # what may be enqueued reads memory that the caller may free now
        in_flight.abandon(backend, order)
        raise
    return transfer
