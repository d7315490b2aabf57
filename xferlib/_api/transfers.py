"""The verbs: check the arguments, choose the backend, delegate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib import _native
from xferlib._core import blocks, registry
from xferlib._core.arrays import Array, check_dtype
from xferlib._core.device import DeviceSpec
from xferlib._runtime import torch_compile
from xferlib._runtime.checks import refuse_keyword, refuse_no_copy, refuse_no_flag, refuse_positional
from xferlib._transfer import copies, describe, on_device, replay
from xferlib._transfer.handle import Transfer
from xferlib.errors import ArgumentError, quote

if TYPE_CHECKING:
    from typing import Never

    from xferlib._core.arrays import HostArray


# The order in which elements lie: arrays in Fortran order are those in C order with their axes reversed.

IN_C = "C"
"""The default, told from any other object by its identity."""


def is_fortran(order: Any, call: str) -> bool:
    """Whether ``order`` is ``"F"``.

    Raises:
        ArgumentError: It is neither that nor ``"C"``.
    """
    if not isinstance(order, str) or order not in ("C", "F"):
        raise ArgumentError(f"{call}: order={quote(order)} is neither 'C' nor 'F'; give one of them")
    return order == "F"


_native.tell_if_absent()


def to_device(
    x: Any,
    *misplaced: Never,
    backend: str | None = None,
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: Array | None = None,
    copy: bool | None = True,
    order: str = IN_C,
    saturate: bool = False,
    **unknown: Never,
) -> Array:
    """Copy an array to a device; the result never aliases ``x`` unless ``copy`` allows it.

    Any strides, order, alignment and byte order are taken; the result is contiguous. Without
    ``stream`` the source may be changed when the call returns (one on a device: on its current stream),
    and the result is ordered on the current stream. With ``stream`` a source that is pinned or on a
    device must stay unchanged until the copy is complete on the stream; any other has been read on return.

    Args:
        x: A host array (NumPy, torch on the CPU, a sequence, a scalar) or a device array; shape S.
        backend: Registry name of the target; the default backend if omitted.
        device: Target device; the backend's current one if omitted.
        dtype: Converted to while staging; floats saturate to integers. The dtype of ``x`` if omitted. Every
            ``dtype=`` takes NumPy's spellings, such as ``"float32"`` and ``np.float32``, and ``torch.float32``.
        stream: The stream that carries the copy; the current one if omitted.
        out: Device array of shape S to fill, of any strides.
        copy: True: always copy. None: return ``x`` itself where it already fits. False: only that.
        order: Of a new array: ``"C"``, or ``"F"``, whose first index changes fastest.
        saturate: With ``dtype`` one of float8, as `astype` has it; converted where ``x`` is, before the copy.

    Returns:
        ``out``, or a new array of shape S on the device.

    Raises:
        UnsupportedArrayError, UnsupportedDTypeError: ``x`` cannot be held by a device.
        OverflowError: A Python integer in ``x`` does not fit into ``dtype``.
        LayoutError: ``out`` differs in shape or dtype or is read-only; or ``copy=False`` cannot be met; or ``x`` or
            ``out`` is a memory map of a file that has been truncated.
        BackendNotFoundError, BackendUnavailableError, DeviceNotFoundError: The requested backend or device does
            not exist or is unavailable.
        MixedBackendsError, MixedDevicesError: ``out`` and ``device`` or ``backend`` disagree.
        StreamError: ``stream`` is of another device.
        ArgumentError: ``order`` is neither, or ``"F"`` beside ``out``, whose order stands.
        DeviceMemoryError, PinnedMemoryError: Nothing has been copied.
    """
    blocks.follow()
    if misplaced:
        refuse_positional("to_device", misplaced)
    if unknown:
        refuse_keyword("to_device", unknown)
    if copy is not True:
        refuse_no_copy(copy, "to_device")
    is_reversed = order is not IN_C and is_fortran(order, "to_device")
    if is_reversed and out is not None:
        raise ArgumentError("to_device: order='F' asks for a new array, but out is given; leave one of them out")
    if saturate is not False:
        refuse_no_flag(saturate, "to_device: saturate")
    source = describe.source_of(x, dtype=dtype)
    target = describe.target_of(backend, device, stream, out)
    return copies.transfer_between(source, target, dtype, copy=copy, is_reversed=is_reversed, saturate=saturate)


def copy_to(
    x: Any, device: Any, *, dtype: Any = None, stream: Any = None, copy: bool | None = True, saturate: bool = False,
    **unknown: Never,
) -> Array:  # fmt: skip
    """Copy an array to another device, of its own backend or of another one.

    The bytes go straight from device to device where the hardware lets one reach the other, else through pinned
    memory, one piece on either link at once. No thread waits for the copy: the target's stream waits for the work
    enqueued so far on the current stream of the source's device, and, without ``stream``, that stream for the copy,
    so that the source may be changed there. The result is contiguous, and ordered on the target's stream.

    Args:
        x: An array of any backend, shape S, of any strides; one on the host as well.
        device: A specification, or an array whose device is meant. It is of the backend of ``x`` where it names
            none: ``1`` and ``"cuda:1"`` of a tensor are ``"torch:cuda:1"``. None: that backend's current device.
        dtype: Converted to on the source's device; floats saturate to integers. The dtype of ``x`` if omitted.
        stream: A stream of the target that carries the copy, instead of the current one; ``x`` must then stay
            unchanged until the copy is complete there.
        copy: True: always copy. None: return ``x`` itself where it is on the device. False: only that.
        saturate: With ``dtype`` one of float8, as `astype` has it; converted where ``x`` is, before the copy.

    Returns:
        A new array of shape S on the device. ``to_device(x, out=y)`` fills one that exists.

    Raises:
        As `to_device`.
    """
    if unknown:
        refuse_keyword("copy_to", unknown)
    if copy is not True:
        refuse_no_copy(copy, "copy_to")
    elif dtype is None and saturate is False and (done := on_device.copy_to(x, device, stream)) is not None:
        return done
    if saturate is not False:
        refuse_no_flag(saturate, "copy_to: saturate")
    target = describe.target_of(None, registry.for_array(device, x), stream, None)
    source = describe.source_of(x, dtype=dtype)
    return copies.transfer_between(source, target, dtype, copy=copy, saturate=saturate)


def to_device_async(
    x: Any,
    *misplaced: Never,
    backend: str | None = None,
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: Array | None = None,
    saturate: bool = False,
    **unknown: Never,
) -> Transfer:
    """Start copying an array to a device and return at once, whatever memory it lies in.

    The source must stay unchanged until `Transfer.source_released`. The destination is ordered
    after ``Transfer.wait(stream)`` or ``Transfer.result()``, not before.

    Args:
        x, backend, device, dtype, out: As for `to_device`.
        stream: The stream that carries the copy; a stream of xferlib's own if omitted, so that the
            copy runs beside the current stream's work.
        saturate: As for `to_device`: a source on the host is converted before this returns.

    Returns:
        A `Transfer` whose result is the device array.

    Raises:
        As `to_device`, before anything is copied; later failures come from ``Transfer.result()``.
    """
    blocks.follow()
    if misplaced:
        refuse_positional("to_device_async", misplaced)
    if unknown:
        refuse_keyword("to_device_async", unknown)
    if saturate is not False:
        refuse_no_flag(saturate, "to_device_async: saturate")
    source = describe.source_of(x, dtype=dtype)
    target = describe.target_of(backend, device, stream, out)
    return copies.begin(source, target, dtype, saturate=saturate)


def to_host(
    d: Any, *, dtype: Any = None, stream: Any = None, out: HostArray | None = None, pinned: bool = False,
    copy: bool | None = True, saturate: bool = False, **unknown: Never,
) -> HostArray:  # fmt: skip
    """Copy an array to host memory; complete on return, and an alias of ``d`` only where ``copy`` allows it.

    Args:
        d: An array of any backend, shape S. Host arrays are copied too.
        dtype: Converted to on the way; floats saturate to integers. The dtype of ``d`` if omitted.
        stream: The stream after whose pending work the copy runs; the current one if omitted.
        out: Host array of shape S to fill, of any strides; a new one if omitted.
        pinned: Return the new array in page-locked memory of the pool, which the device fills by itself: for a
            result that is sent back, or kept for a while and its memory used again.
        copy: True: always copy. None: return ``d`` itself where it is a NumPy array of the dtype. False: only that.
        saturate: With ``dtype`` one of float8, as `astype` has it; converted where ``d`` is, before the copy.

    Returns:
        ``out``, or a new array of shape S in C order, or ``d``.

    Raises:
        UnsupportedArrayError: ``d`` is no array.
        LayoutError: ``out`` differs in shape or dtype, or is read-only; or ``pinned`` is given with it; or
            ``copy=False`` cannot be met.
        PinnedMemoryError: The pool has no room, or the system refuses more page-locked memory.
        StreamError: ``stream`` is of another device.
    """
    blocks.follow()
    if unknown:
        refuse_keyword("to_host", unknown)
    if copy is not True:
        refuse_no_copy(copy, "to_host")
    if saturate is not False:
        refuse_no_flag(saturate, "to_host: saturate")
    if saturate:
        d, copy = copies.saturate_download(d, dtype, stream, copy=copy)
    if copy is not True:
        refuse_no_flag(pinned, "to_host: pinned")
        if out is None and not pinned and copies.is_host_array(d, dtype):
            kept: HostArray = d
            return kept
        if copy is False:
            raise copies.to_host_needs_a_copy(d, dtype, out, pinned=pinned)
    if pinned is not False:
        refuse_no_flag(pinned, "to_host: pinned")
    return copies.to_host(d, dtype, stream, out, is_pinned=pinned)


def astype(x: Any, dtype: Any, *, saturate: bool = False, **unknown: Never) -> Array:
    """Convert an array on its own device, with the bits that ``dtype=`` of a transfer gives.

    Args:
        x: An array of any backend, shape S, of any strides; or a sequence or a scalar, which becomes a NumPy array.
        dtype: Of the result; floats saturate to integers, and NaN becomes 0.
        saturate: Of a float8: what is too large for it, infinity too, becomes its largest number, as CUDA's types and
            the saturating mode of OCP's formats have it, and NaN stays NaN. Otherwise it becomes infinity, or NaN in a
            format without, as ml_dtypes has it.

    Returns:
        A new array of shape S, of the backend of ``x`` and on its device, ordered on the current stream.

    Raises:
        UnsupportedArrayError: ``x`` is no array.
        UnsupportedDTypeError: There is no such dtype, it would drop the imaginary part, or it has no ``saturate``.
    """
    if unknown:
        refuse_keyword("astype", unknown)
    refuse_no_flag(saturate, "astype: saturate")
    return copies.convert(describe.source_of(x), check_dtype(dtype, what="dtype"), saturate=saturate)


_to_device, _to_host = to_device, to_host
if not TYPE_CHECKING:  # those in C have no annotations
    to_device, to_host = replay.bind(to_device, to_host)
    if to_device is not _to_device:
        torch_compile.show_python(to_device, _to_device)
        torch_compile.show_python(to_host, _to_host)


def to_host_async(
    d: Any, *, dtype: Any = None, stream: Any = None, out: HostArray | None = None, saturate: bool = False,
    **unknown: Never,
) -> Transfer[HostArray]:  # fmt: skip
    """Start copying an array to host memory and return at once.

    The data is handed out by ``Transfer.result()`` only, when it is complete. Until then ``d`` must
    not be written, nor ``out`` read.

    Args:
        d, dtype, out, saturate: As for `to_host`.
        stream: The stream that carries the copy; a stream of xferlib's own, behind the current
            stream's pending work, if omitted.

    Returns:
        A `Transfer` whose result is the host array.
    """
    blocks.follow()
    if unknown:
        refuse_keyword("to_host_async", unknown)
    if saturate is not False:
        refuse_no_flag(saturate, "to_host_async: saturate")
    if saturate:
        d, _ = copies.saturate_download(d, dtype, stream)
    return copies.begin_to_host(d, dtype=dtype, stream=stream, out=out)
