"""The two ends of a transfer, each described once, with every argument checked, before anything happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core import arrays, registry
from xferlib._core.arrays import Array, ArrayInfo, HostArray, address, overlaps_itself, refuse_truncated
from xferlib._core.dtypes import SUPPORTED, in_native_order, refuse_saturation
from xferlib._core.streams import Stream
from xferlib._memory import pinned as pinned_module
from xferlib.errors import LayoutError, LayoutTypeError, MixedDevicesError, StreamError, UnsupportedArrayError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawStream
    from xferlib._memory.pinned import PinnedRanges


class CopySource(NamedTuple):
    """The array that is copied."""

    given: Any
    """The object that the caller passed."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    backend: Backend
    """The part that serves its device; NumPy's for a sequence or a scalar."""
    device: Device | None
    """None for a sequence or a scalar."""
    host: HostArray | None
    """The elements in host memory; None on any other device."""
    info: ArrayInfo | None
    """Location and layout on that device; None in host memory."""


class CopyTarget(NamedTuple):
    """The device that it is copied to, and the array there, if the caller gave one."""

    backend: Backend
    """The part that serves the device."""
    device: Device
    stream: RawStream | None = None
    """The stream that the caller named."""
    out: Array | None = None
    into: ArrayInfo | None = None
    """Location and layout of ``out``."""


def source_of(x: Any, *, what: str = "x", dtype: Any = None) -> CopySource:
    """Describe an array of any backend, a sequence or a scalar.

    Args:
        x: The array.
        what: Its name for messages.
        dtype: The one that is to arrive, if it was given: the integers of a sequence become exactly that.

    Raises:
        UnsupportedArrayError, UnsupportedDTypeError: No device can hold it.
        OverflowError: A Python integer does not fit into ``dtype``.
    """
    owner = registry.owner_of(x)
    if owner is None or owner.name == "numpy":
        host = arrays.as_host_array(x, what=what, check_tuple=_refuse_results)
        if owner is None and dtype is not None:
            host = arrays.exactly(x, host, choose_dtype(dtype, host.dtype))
        numpy = owner if owner is not None else registry.get("numpy")
        # Only an array that was one already has a device: `fits` would otherwise let a list stand for its own copy.
        device = numpy.devices()[0] if host is x else None
        return CopySource(x, host.shape, host.dtype, numpy, device, host, None)
    info = owner.view(x)
    if info.dtype not in SUPPORTED:
        arrays.check_dtype(info.dtype, what=what)
    # A tensor on the CPU is host memory: it takes the ways of NumPy's arrays, over a view of the same bytes.
    if info.device.kind == "cpu":
        return CopySource(x, info.shape, info.dtype, owner.at(info.device), info.device, owner.host_view(x), None)
    return CopySource(x, info.shape, info.dtype, owner.at(info.device), info.device, None, info)


def reverse_axes(source: CopySource) -> CopySource:
    """The same elements with their axes reversed; a sequence or a scalar stays what was given."""
    given, host, info = source.given, source.host, source.info
    if info is not None:
        info = info._replace(shape=info.shape[::-1], strides=info.strides[::-1])
    return source._replace(
        given=given if source.device is None else source.backend.reversed_axes(given),
        shape=source.shape[::-1],
        host=None if host is None else host.T,
        info=info,
    )


def _refuse_results(x: tuple[Any, ...], what: str) -> None:
    """Refuse the results of a function that has several: NumPy would stack them, of whatever dtypes they are."""
    is_named = type(x) is not tuple
    for number, each in enumerate(x):
        if isinstance(each, np.generic) or (owner := registry.owner_of(each)) is None:
            continue
        if not is_named and isinstance(each, np.ndarray) and not each.ndim:
            continue
        names = getattr(x, "_fields", None) or getattr(x, "__match_args__", None)
        one = f"x.{names[number]}" if names else f"x[{number}]"
        raise UnsupportedArrayError(
            f"{what} is a {type(x).__name__} of {len(x)} results of which {one} is an array of {owner.name}, and no "
            f"array itself; pass one of them, such as {one}, or all to xferlib.tree.to_device or tree.to_host; a list "
            "of arrays of the same shape is stacked"
        )


def target_of(backend: str | None, device: Any, stream: Any, out: Array | None) -> CopyTarget:
    """Find the target of an upload; all given arguments must agree."""
    into: ArrayInfo | None = None
    chosen = registry.get(backend) if backend is not None else None
    if out is not None:
        owner = registry.owner_of(out)
        if owner is None or isinstance(out, np.generic):  # NumPy's scalars cannot be written
            raise UnsupportedArrayError(
                f"out is {type(out).__name__}, not an array of any backend; make it with xferlib.empty()"
            )
        if chosen is not None and chosen is not owner:
            raise registry.make_mixed_backends_error("to_device", ("backend=", chosen), ("out", owner))
        into = owner.view(out)
        place = into.device
        if device is not None and registry.resolve(device, backend=owner) is not place:
            raise MixedDevicesError(
                f"to_device: device={registry.text(device)!r}, but out is on {place}; "
                "leave device out, or move out first"
            )
    elif device is None and stream is not None and _is_stream_of(stream, chosen):
        place = stream.device
    else:
        place = registry.resolve(device, backend=chosen)
    order = raw_stream(stream, place) if stream is not None else None
    return CopyTarget(registry.part_of(place), place, order, out, into)


def _is_stream_of(stream: Any, chosen: Backend | None) -> bool:
    return isinstance(stream, Stream) and (chosen is None or stream.device.backend == chosen.name)


def raw_stream(stream: Any, device: Device) -> RawStream:
    """The stream, of any library, for work on ``device``.

    Raises:
        StreamError: It is of another device.
    """
    if not isinstance(stream, Stream):
        stream = Stream.from_any(stream, device)
    # Equal numbers are not enough: the stream of another library on the same GPU would lack what its backend keeps.
    if stream.device is not device:
        raise StreamError(
            f"the stream is of {stream.device}, but the array of {device}; "
            f"use a stream made with xferlib.Stream({str(device)!r})"
        )
    raw: RawStream = stream._raw
    return raw


def get_result_dtype(source: CopySource, dtype: Any) -> np.dtype[Any]:
    """The dtype in which a source arrives, in native byte order: the one asked for, or its own.

    Raises:
        UnsupportedDTypeError: There is no such dtype, or it would drop a part of every value.
    """
    if dtype is None and source.dtype.isnative:
        return source.dtype
    wanted = choose_dtype(dtype, source.dtype)
    arrays.check_conversion(source.dtype, wanted)
    return wanted


def check_leaf(x: Any, dtype: Any = None, *, is_saturated: bool = False) -> None:
    """Refuse an array of a tree that could not go to a device as ``dtype``.

    Raises:
        ArrayError: What `source_of`, `get_result_dtype` and, where it is to be saturated, `refuse_saturation` raise.
    """
    if registry.owner_of(x) is not None:
        wanted = get_result_dtype(source_of(x), dtype)
        if is_saturated:
            refuse_saturation(wanted)


def choose_dtype(dtype: Any, given: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that arrives, in native byte order: the one asked for, or that of the source."""
    if dtype is None:
        return in_native_order(given)
    return arrays.check_dtype(dtype, what="dtype")


def fits(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> bool:
    """Whether an array may stand for its own copy."""
    return target.out is None and source.device is target.device and dtype == source.dtype


def stays(x: Any, target: CopyTarget, dtype: Any, *, copy: bool | None) -> bool:
    """Whether a leaf of a tree stays itself, where ``copy`` is None or False."""
    if registry.owner_of(x) is None:
        return True
    source = source_of(x)
    wanted = get_result_dtype(source, dtype)
    is_there = fits(source, target, wanted)
    if copy is False and not is_there:
        raise needs_copy(source, target, wanted)
    return is_there


def needs_copy(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> LayoutError:
    """The error of a copy that the caller ruled out."""
    if target.out is not None:
        why = "out is given"
    elif source.device is None:
        why = f"{type(source.given).__name__} is not on {target.device}"
    elif source.device is not target.device:
        why = f"the array is on {source.device}, not {target.device}"
    else:
        why = f"the array has dtype {source.dtype}, not {dtype}"
    return LayoutError(f"copy=False, but {why}; pass copy=None or copy=True")


def claim_out(target: CopyTarget, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check the caller's ``out``, and tell its library that it is about to be written."""
    assert target.into is not None
    _check_fit(target.into, target.into.is_writable, shape, dtype)
    refuse_truncated(target.out, "out")
    target.backend.note_write(target.out, "out")


def check_host_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], call: str) -> None:
    """Check the caller's array for a download."""
    if not isinstance(out, np.ndarray):
        raise UnsupportedArrayError(
            f"{call}: out is {type(out).__name__}, not a numpy.ndarray; make it with numpy.empty() or pinned_empty()"
        )
    arrays.refuse_masked(out, f"{call}: out")
    _check_fit(out, out.flags.writeable, shape, dtype)
    refuse_truncated(out, f"{call}: out")


def _check_fit(out: ArrayInfo | HostArray, is_writable: bool, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if out.shape != shape:
        raise LayoutError(f"out has shape {out.shape}, but the source has shape {shape}; reshape one of them")
    if out.dtype != dtype:
        is_held = out.dtype in SUPPORTED  # in native byte order, as `dtype` converts
        remedy = f"dtype={str(out.dtype)!r} to convert" if is_held else f"an array of dtype {dtype}"
        if is_held and dtype.kind == "c" != out.dtype.kind:
            remedy = f"x.real or abs(x), with dtype={str(out.dtype)!r}"
        raise LayoutTypeError(f"out has dtype {out.dtype}, but {dtype} arrives; pass {remedy}")
    # Threads write the pieces in any order, so which of two values an element keeps would differ from run to run.
    refuse_overlap(out, "out")
    if not is_writable:
        raise LayoutError(f"out {arrays.UNWRITABLE}")


def refuse_overlap(out: ArrayInfo | HostArray, what: str) -> None:
    """Refuse to fill an array whose elements share memory.

    Raises:
        LayoutError: It is a broadcast array, or one of windows.
    """
    if overlaps_itself(out.shape, out.strides, out.dtype.itemsize):
        raise LayoutError(
            f"{what} has shape {out.shape} and strides {out.strides}, so that elements share memory; pass a copy of it"
        )


# A copy between host and device: the facts that a plan is made from, each found once.

_UNKNOWN: Any = object()


class HostEnd:
    """A host array, the source of an upload or the destination of a download, and the device's side of the copy.

    Args:
        array: Of any layout; of a memory map that is whole, as its first check has found.
        dtype: Of the elements on the device.
        backend: Of the device.
    """

    __slots__ = ("_pinned", "array", "backend", "dtype", "nbytes", "pointer")

    def __init__(self, array: HostArray, dtype: np.dtype[Any], backend: Backend) -> None:
        self.array = array
        self.dtype = dtype
        self.backend = backend
        self.nbytes: int = array.size * dtype.itemsize
        """Of the elements on the device."""
        self.pointer = address(array)
        """The address of the first element."""
        self._pinned: PinnedRanges | None = _UNKNOWN

    @property
    def is_plain(self) -> bool:
        """The bytes are contiguous, and the same on both sides."""
        return bool(self.array.dtype == self.dtype and self.array.flags.c_contiguous)

    @property
    def pinned(self) -> PinnedRanges | None:
        """The page-locked memory of an array in C order; None: it is pageable. The first look may ask the driver."""
        if self._pinned is _UNKNOWN:
            self._pinned = pinned_module.find(self.pointer, self.array.nbytes, self.backend)
        return self._pinned


class Upload(NamedTuple):
    """One copy to a device: both ends, and the stream that orders it."""

    end: HostEnd
    out: Array
    """The array on the device."""
    into: ArrayInfo
    """Location and layout of ``out``."""
    stream: RawStream
    is_blocking: bool = False
    """The source has been read on return even if it is pinned."""
