"""Device to host: put in order on the device what is not, then let the executor of the path copy.

Arguments arrive checked: devices exist, dtypes are supported, ``out`` fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import observe, staging_hooks
from xferlib._core.array import Array, ArrayInfo
from xferlib._memory import host, in_flight
from xferlib._transfer import plan
from xferlib._transfer import staged as _staged
from xferlib._transfer.copy_streams import copy_stream
from xferlib._transfer.handle import Transfer
from xferlib._transfer.plan import Path
from xferlib._transfer.preparation import casts_on_device, in_c_order, narrowed, resolved

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream


# --- device to host


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
    recorder = observe.active
    begun = recorder.begin(backend) if recorder is not None else None
    src, info = resolved(src, info, backend)
    order = stream if stream is not None else backend.stream_current(info.device)
    if dtype != info.dtype and casts_on_device(dtype, info.dtype, info):
        src, info = narrowed(src, info, backend, dtype, order)
    dst = out if out is not None else host.host_cache.empty(info.shape, dtype)
    found = plan.plan(dst, info.dtype, backend, may_permute=False)
    if out is not None:
        plan.refuse_slow(found, dst, "to_host")
    flat, temporary = in_c_order(src, info, backend, order)
    _staged.download(flat, dst, backend, order, found)
    del temporary
    if out is not None:
        staging_hooks.touched(out, backend.pinned_domain, is_write=True)
    if recorder is not None:
        recorder.called(begun, backend, info.nbytes)
    return dst


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
    recorder = observe.active
    begun = recorder.begin(backend) if recorder is not None else None
    src, info = resolved(src, info, backend)
    order = stream
    if order is None:
        order = copy_stream(backend, info.device, "down")
        backend.event_wait(order, backend.event_record(backend.stream_current(info.device), timing=False))
    dst = out if out is not None else host.host_cache.empty(info.shape, dtype)
    found = plan.plan(dst, info.dtype, backend, may_permute=False, is_blocking=False)
    if out is not None:
        plan.refuse_slow(found, dst, "to_host_async")
    flat, temporary = in_c_order(src, info, backend, order)
    transfer = Transfer(dst, backend, order, nbytes=info.nbytes, path=found.path.value, is_upload=False)
    if found.path in (Path.SMALL, Path.STAGED):
        job = _staged.download_job(flat, dst, backend, order, transfer)
        transfer.start(job, flat, keep=(src, temporary), is_awaited=is_awaited)
    else:
        try:
            _staged.enqueue_download(flat, dst, backend, order, found)
            transfer.finish(src, temporary)
        except BaseException:
            in_flight.abandon(backend, order)
            raise
    if recorder is not None:
        recorder.called(begun, backend, info.nbytes)
    return transfer
