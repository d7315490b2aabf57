"""Copies in a capture: those that a graph can hold, and the refusal of the others before they spoil it.

A graph repeats copies between fixed addresses. So the host's end must be pinned memory that holds the bytes as they
are on the device, and nothing may wait for the copy. On a CPU any two arrays will do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib._core.raw import opened
from xferlib._memory import in_flight
from xferlib._transfer import staged
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.plan import Path, Plan
from xferlib.errors import LayoutError, StreamError

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream


def stream_of(call: str, backend: Backend, device: Device, stream: RawStream | None) -> RawStream | None:
    """The stream of a copy that is captured; None for one that is not.

    Raises:
        StreamError: The copy's stream and the current one are not of the same capture.
    """
    if not opened:
        return None
    current = backend.stream_current(device)
    order = stream if stream is not None else current
    if order.capture is not current.capture:
        raise StreamError(
            f"{call}: {order!r} and the current stream {current!r} are not of one capture, so that neither may wait "
            "for the other; give a stream that has waited for the captured one, or leave stream= out"
        )
    return order if order.capture is not None else None


def upload(end: HostEnd, out: Any, into: ArrayInfo, stream: RawStream) -> Path:
    """Record a copy from pinned memory.

    Raises:
        StreamError: The memory is pageable, or would have to be converted or spread.
    """
    if not end.nbytes:
        return Path.EMPTY
    _check("to_device", end, into)
    staged.upload_pinned(end, into, stream, Plan(Path.PINNED, end.pinned))
    in_flight.in_flight.hold(end.backend, in_flight.record(end.backend, stream), end.array, out)
    return Path.PINNED


def download(src: Any, info: ArrayInfo, backend: Backend, stream: RawStream, out: Any) -> HostArray:
    """Record a copy to pinned memory.

    Raises:
        LayoutError: There is no ``out``.
        StreamError: It is pageable, or the array would have to be converted or put in order.
    """
    if out is None:
        raise LayoutError(
            "to_host_async: a copy in a capture needs out=, which each launch of the graph fills; make it with "
            "pinned_empty()"
        )
    found: HostArray = out
    end = HostEnd(found, info.dtype, backend)
    if end.nbytes:
        _check("to_host_async", end, info)
        staged.download_pinned(info, end, stream, Plan(Path.PINNED, end.pinned))
        in_flight.in_flight.hold(backend, in_flight.record(backend, stream), src, found)
    return found


def _check(call: str, end: HostEnd, there: ArrayInfo) -> None:
    if not end.is_plain or not there.is_c_contiguous:
        raise StreamError(
            f"{call}: a copy in a capture moves bytes as they are, and the arrays differ (dtype {end.array.dtype} and "
            f"strides {end.array.strides} on the host, {there.dtype} and {there.strides} on the device); convert "
            "before the capture, or on the device"
        )
    if end.pinned is None:
        raise StreamError(
            f"{call}: {end.nbytes} bytes of pageable memory in a capture, which a graph cannot copy; use an array made "
            "with pinned_empty() or pinned_array(x)"
        )
