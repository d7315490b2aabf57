"""Device to host: put in order on the device what is not, choose the path, then let its executor copy.

Arguments arrive checked: devices exist, dtypes are supported, ``out`` fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import observe, staging_hooks
from xferlib._core.array import Array, ArrayInfo
from xferlib._memory import host, in_flight
from xferlib._transfer import plan, staged
from xferlib._transfer.handle import Transfer
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.on_device import in_c_order, narrowed, resolved
from xferlib._transfer.plan import Conversion, Path

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
    src, info = resolved(src, info, backend)
    order = stream if stream is not None else backend.stream_current(info.device)
    dst = out if out is not None else host.host_cache.empty(info.shape, dtype)
    end = HostEnd(dst, info.dtype, backend)
    found = plan.of(end, info.device, is_upload=False)
    if found.conversion is Conversion.ON_DEVICE:
        src, info = narrowed(src, info, backend, dtype, order)
        end = HostEnd(dst, info.dtype, backend)
        found = plan.of(end, info.device, is_upload=False, may_cast=False)
    if out is not None:
        plan.refuse_slow(found, end.array.nbytes, "to_host")
    if found.path is Path.PERMUTED:
        end, info = _permuted(end, info, found)
        found = plan.of(end, info.device, is_upload=False)
    flat, temporary = in_c_order(src, info, backend, order)
    _EXECUTORS[found.path](flat, end, order, found)
    del temporary
    if out is not None:
        staging_hooks.touched(out, backend.pinned_domain, is_write=True)
    return dst


def _permuted(end: HostEnd, info: ArrayInfo, found: Plan) -> tuple[HostEnd, ArrayInfo]:
    """The same elements in the order of the host's memory: the device puts them in that order, which is dense."""
    shape, strides = (tuple(each[axis] for axis in found.order) for each in (info.shape, info.strides))
    ordered = HostEnd(end.array.transpose(found.order), end.dtype, end.backend)
    return ordered, info._replace(shape=shape, strides=strides)


# --- one executor a path


def _nothing(src: ArrayInfo, end: HostEnd, stream: RawStream, found: Plan) -> None:
    pass


def _pinned(src: ArrayInfo, end: HostEnd, stream: RawStream, _found: Plan) -> None:
    staged.download_pinned(src, end, stream)
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
    src, info = resolved(src, info, backend)
    order = stream
    if order is None:
        from xferlib._core.ordering.copy_streams import copy_stream  # here, for programs that only wait

        order = copy_stream(backend, info.device, "down")
        backend.event_wait(order, backend.event_record(backend.stream_current(info.device), timing=False))
    dst = out if out is not None else host.host_cache.empty(info.shape, dtype)
    end = HostEnd(dst, info.dtype, backend)
    found = plan.of(end, info.device, is_upload=False, is_blocking=False, may_cast=False)
    if out is not None:
        plan.refuse_slow(found, end.array.nbytes, "to_host_async")
    if found.path is Path.PERMUTED:
        end, info = _permuted(end, info, found)
        found = plan.of(end, info.device, is_upload=False, is_blocking=False, may_cast=False)
    flat, temporary = in_c_order(src, info, backend, order)
    transfer = Transfer(dst, backend, order, nbytes=info.nbytes, path=found.path.value, is_upload=False)
    if found.path is Path.SMALL or found.path is Path.STAGED:
        job = staged.download_job(flat, end, order, transfer.finish)
        transfer.start(job, flat, keep=(src, temporary), is_awaited=is_awaited)
    else:
        try:
            if found.path is Path.PINNED:
                staged.download_pinned(flat, end, order)
            transfer.finish(src, temporary)
        except BaseException:
            in_flight.abandon(backend, order)
            raise
    return transfer
