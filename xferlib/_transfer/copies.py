"""From two ends to the function of their direction: host, device, another device, another family's device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import defaults
from xferlib._core.array import Array, check_dtype
from xferlib._core.observe import Kind
from xferlib._core.ordering import capture
from xferlib._core.raw import PER_THREAD
from xferlib._memory import host as _host
from xferlib._memory import pinned
from xferlib._transfer import download, ends, host_copy, on_device, staged, upload
from xferlib._transfer.ends import CopySource, CopyTarget
from xferlib._transfer.handle import Transfer
from xferlib.errors import LayoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream


def copy(source: CopySource, target: CopyTarget, dtype: Any = None, *, copy: bool | None = True) -> Array:
    """`to_device` between two ends; ``dtype`` and ``copy`` as there."""
    wanted = ends.arriving_dtype(source, dtype)
    if copy is not True:
        if ends.fits(source, target, wanted):
            return source.given
        if copy is False:
            raise ends.copy_needed(source, target, wanted)
    ends.claim_out(target, source.shape, wanted)
    staged.captured_stream("to_device", target.backend, target.device, target.stream)
    return _EXECUTORS[source.host is not None, target.device.kind == "cpu"](source, target, wanted)


def is_host_array(d: Any, dtype: Any) -> bool:
    """Whether `to_host` may return ``d`` itself: a NumPy array, of that dtype if one is given."""
    return type(d) is np.ndarray and (dtype is None or check_dtype(dtype, what="dtype") == d.dtype)


def to_host_needs_a_copy(d: Any, dtype: Any = None, out: Any = None, *, pinned: bool = False) -> LayoutError:
    """The error of ``to_host(copy=False)``."""
    wanted = "" if dtype is None else f" of dtype {check_dtype(dtype, what='dtype')}"
    if out is not None or pinned:
        why = "out is given" if out is not None else "pinned=True takes memory of the pool"
    else:
        why = f"{type(d).__name__} is no NumPy array{wanted}"
    return LayoutError(f"to_host: copy=False, but {why}; allow a copy: copy=None")


def begin(source: CopySource, target: CopyTarget, dtype: Any = None, *, is_awaited: bool = False) -> Transfer:
    """`to_device_async` between two ends; ``is_awaited`` as in `xferlib._transfer.handle.Transfer.start`."""
    order = staged.captured_stream("to_device_async", target.backend, target.device, target.stream)
    if order is not None:
        done = copy(source, target, dtype)
        return _complete(done, target.backend, target.backend.view(done).nbytes, is_upload=True)
    if target.stream is not None and target.stream.handle == PER_THREAD:  # threads cannot enqueue on it
        done = copy(source, target, dtype)
        target.backend.stream_synchronize(target.stream)
        return _complete(done, target.backend, target.backend.view(done).nbytes, is_upload=True)
    if source.host is not None and target.device.kind != "cpu":
        wanted = ends.arriving_dtype(source, dtype)
        ends.claim_out(target, source.shape, wanted)
        target.backend.attach(target.device)
        return upload.host_to_device_async(source.host, target, wanted, is_awaited=is_awaited)
    done = copy(source, target, dtype)
    if source.host is not None:
        return _complete(done, target.backend, source.host.nbytes, is_upload=True)
    order = target.stream if target.stream is not None else target.backend.stream_current(target.device)
    nbytes = target.backend.view(done).nbytes
    transfer = Transfer(done, target.backend, order, nbytes=nbytes, path="device", is_upload=True)
    transfer.finish()
    return transfer


# --- to the host


def to_host(d: Any, dtype: Any, stream: Any, out: HostArray | None) -> HostArray:
    """`xferlib.to_host`, the long way."""
    source, wanted, order = _host_arguments(d, dtype, stream, out, "to_host")
    if source.host is not None:
        return _to_host_from_cpu(source, wanted, out, "to_host")
    return _download(source, wanted, order, out)


def to_pinned(d: Any, dtype: Any, stream: Any, out: HostArray | None) -> HostArray:
    """`xferlib.to_host` to a new array in pinned memory."""
    if out is not None:
        raise LayoutError("pinned=True asks for a new array, but out is given; leave one of them out")
    source, wanted, order = _host_arguments(d, dtype, stream, None, "to_host")
    owner = source.backend if source.host is None else defaults.default_backend()
    filled = pinned.pools.of(owner)._lend(source.shape, wanted)
    if source.host is not None:
        return _to_host_from_cpu(source, wanted, filled, "to_host")
    return _download(source, wanted, order, filled)


def begin_to_host(
    d: Any, *, dtype: Any = None, stream: Any = None, out: HostArray | None = None, is_awaited: bool = False
) -> Transfer:
    """`to_host_async`; ``is_awaited`` as in `xferlib._transfer.handle.Transfer.start`."""
    source, wanted, order = _host_arguments(d, dtype, stream, out, "to_host_async")
    if source.host is not None:
        done = _to_host_from_cpu(source, wanted, out, "")
        return _complete(done, source.backend, done.nbytes, is_upload=False)
    assert source.info is not None
    source.backend.attach(source.info.device)
    recorded = staged.captured_stream("to_host_async", source.backend, source.info.device, order)
    if recorded is not None:
        done = staged.captured_download(d, source.info, source.backend, recorded, out)
        return _complete(done, source.backend, done.nbytes, is_upload=False)
    if order is not None and order.handle == PER_THREAD:  # threads cannot enqueue on it
        done = _download(source, wanted, order, out)
        return _complete(done, source.backend, done.nbytes, is_upload=False)
    return download.device_to_host_async(
        d, source.info, source.backend, wanted, stream=order, out=out, is_awaited=is_awaited
    )


def _host_arguments(
    d: Any, dtype: Any, stream: Any, out: HostArray | None, call: str
) -> tuple[CopySource, np.dtype[Any], RawStream | None]:
    """The source of a download, the dtype that arrives and the stream."""
    source = ends.source_of(d, what="d", dtype=dtype)
    wanted = ends.arriving_dtype(source, dtype)
    if out is not None:
        ends.check_host_out(out, source.shape, wanted, call)
    device = source.device if source.device is not None else source.backend.devices()[0]
    return source, wanted, ends.raw_stream(stream, device) if stream is not None else None


def _to_host_from_cpu(source: CopySource, wanted: np.dtype[Any], out: HostArray | None, blocking: str) -> HostArray:
    """``blocking``: the call that promises complete data, if it does."""
    assert source.host is not None
    if blocking and source.device is not None:
        capture.refuse_current(blocking, source.backend, source.device)
    filled = out if out is not None else _host.host_cache.empty(source.shape, wanted)
    memory = source.host if out is None else _apart(source.host, out)
    device = source.device if source.device is not None else source.backend.devices()[0]
    host_copy.copy_on_cpu(Kind.D2H, filled, memory, source.backend, device)
    return filled


def _apart(host: HostArray, filled: HostArray) -> HostArray:
    """The elements of ``host`` in memory that filling the caller's array does not change."""
    return host.copy() if np.may_share_memory(filled, host) else host


def _complete(result: Any, backend: Any, nbytes: int, *, is_upload: bool) -> Transfer:
    return Transfer(result, backend, None, nbytes=nbytes, path="host", is_upload=is_upload)


# --- one function a direction


def _upload(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    assert source.host is not None
    target.backend.attach(target.device)
    return upload.host_to_device(source.host, target, dtype)


def _download(
    source: CopySource, dtype: np.dtype[Any], stream: RawStream | None = None, out: HostArray | None = None
) -> HostArray:
    assert source.info is not None
    source.backend.attach(source.info.device)
    if (order := staged.captured_stream("to_host", source.backend, source.info.device, stream)) is not None:
        capture.refuse("to_host", order)
    return download.device_to_host(source.given, source.info, source.backend, dtype, stream=stream, out=out)


def _download_to_cpu(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    filled = target.out if target.out is not None else host_copy.new(target.backend, target.device, source.shape, dtype)
    _download(source, dtype, out=target.backend.host_view(filled))
    return filled


def _between_devices(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    if source.backend.pinned_domain != target.backend.pinned_domain:
        # A GPU and a simulated one: neither can reach the other.
        return _upload(source._replace(host=_download(source, dtype)), target, dtype)
    return on_device.device_to_device(source, target, dtype)


def _on_cpu(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    assert source.host is not None
    filled = target.out if target.out is not None else host_copy.new(target.backend, target.device, source.shape, dtype)
    memory = target.backend.host_view(filled)
    host = source.host if target.out is None else _apart(source.host, memory)
    host_copy.copy_on_cpu(Kind.H2D, memory, host, target.backend, target.device)
    return filled


_EXECUTORS: dict[tuple[bool, bool], Callable[[CopySource, CopyTarget, np.dtype[Any]], Array]] = {
    (True, False): _upload,
    (False, True): _download_to_cpu,
    (False, False): _between_devices,
    (True, True): _on_cpu,
}
"""By whether the source and the target are in host memory."""
