"""Work on arrays on their devices: copy from one to another, put in C order, convert."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from xferlib._core import device, observe, registry
from xferlib._core.arrays import Array, ArrayInfo, bounds, is_c_contiguous, merge_axes
from xferlib._core.device import Device
from xferlib._core.dtypes import SUPPORTED, kind_of, small_float
from xferlib._core.observe import Kind
from xferlib._core.thresholds import MEDIUM_NBYTES
from xferlib._memory import buffers, lifetimes
from xferlib._runtime.threads import deferred
from xferlib._transfer.describe import CopySource, CopyTarget, raw_stream
from xferlib.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.device import RawEvent, RawKernel, RawStream


# Copies between two layouts on one device: a CUDA kernel that moves elements of any size.
#
# One axis order may be the reverse of the other: then 32 x 32 tiles pass through shared memory, so that both the reads
# and the writes of a warp are contiguous. Where one of the two axes is short, as the colours of an image, each thread
# copies all of it.

MOST_BLOCKS = 1 << 20
_TILE = 32
_TILE_ROWS = 8
_BLOCK = 256
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "ulonglong2"}
_NUMBERS = {
    "b1": "unsigned char", "i1": "signed char", "i2": "short", "i4": "int", "i8": "long long", "u1": "unsigned char",
    "u2": "unsigned short", "u4": "unsigned int", "u8": "unsigned long long", "f2": "half16", "f4": "float",
    "f8": "double",
}  # fmt: skip

_NARROW_MOST = 8
"""Elements of an axis that one thread copies by itself: a tile of so few would be nearly empty."""
_SMALL_INDICES = 1 << 31
"""Fewer elements are counted by 32 bits: a division of 64 takes five times as long, and each thread has several."""

_SOURCE = """
typedef long long i64;
typedef {index} number;
{conversion}
extern "C" __global__ void copy_elements(char* dst, const char* src, i64 count{parameters}) {{
    for (number i = blockIdx.x * (number)blockDim.x + threadIdx.x; i < count; i += (number)gridDim.x * blockDim.x) {{
        number rest = i, at;
        i64 to = 0, from = 0;
        {offsets}
        *({written}*)(dst + to) = converted(*(const {read}*)(src + from));
    }}
}}

extern "C" __global__ void copy_rows(char* dst, const char* src, i64 count, i64 row, i64 row_dst,
                                     i64 row_src{parameters}) {{
    for (number i = blockIdx.x * (number)blockDim.x + threadIdx.x; i < count; i += (number)gridDim.x * blockDim.x) {{
        number rest = i, at;
        i64 to = 0, from = 0;
        {offsets}
        for (int k = 0; k < row; k++, to += row_dst, from += row_src)
            *({written}*)(dst + to) = converted(*(const {read}*)(src + from));
    }}
}}

extern "C" __global__ void copy_tiles(char* dst, const char* src, i64 tiles, i64 rows, i64 cols,
                                      i64 row_dst, i64 row_src, i64 col_dst, i64 col_src{parameters}) {{
    __shared__ {read} tile[{tile}][{tile} + 1];
    number across = (number)((cols + {tile} - 1) / {tile}), down = (number)((rows + {tile} - 1) / {tile});
    for (number t = blockIdx.x; t < tiles; t += gridDim.x) {{
        number rest = t / across, at;
        i64 col0 = (i64)(t - rest * across) * {tile}, row0 = (i64)(rest % down) * {tile}, to = 0, from = 0;
        rest /= down;
        {offsets}
        for (int k = threadIdx.y; k < {tile}; k += {tile_rows}) {{
            i64 row = row0 + threadIdx.x, col = col0 + k;
            if (row < rows && col < cols)
                tile[k][threadIdx.x] = *(const {read}*)(src + from + row * row_src + col * col_src);
        }}
        __syncthreads();
        for (int k = threadIdx.y; k < {tile}; k += {tile_rows}) {{
            i64 row = row0 + k, col = col0 + threadIdx.x;
            if (row < rows && col < cols)
                *({written}*)(dst + to + row * row_dst + col * col_dst) = converted(tile[threadIdx.x][k]);
        }}
        __syncthreads();
    }}
}}
"""
_OFFSET = "at = rest % (number)n{0}; rest /= (number)n{0}; to += (i64)at * d{0}; from += (i64)at * s{0};"


_HALF = """
typedef unsigned short half16;
__device__ __forceinline__ float of_half(half16 h) {
    float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f;
}
__device__ __forceinline__ half16 to_half(float f) {
    half16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}
__device__ __forceinline__ half16 to_half(double d) {
    half16 h; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(d)); return h;
}
"""
_SMALL = """
// As in xferlib/_native/staging/elements.h: both ways between float and the bits of a small float, and a float from
// which rounding once more gives what rounding once does.
__device__ __forceinline__ float widen(unsigned int code, int nbytes, unsigned int fraction, unsigned int bias,
                                       unsigned int most, unsigned int beyond, unsigned int nan) {
    unsigned int sign = code >> (8 * nbytes - 1) << 31, size = code & ((1u << (8 * nbytes - 1)) - 1);
    unsigned int drop = 23 - fraction;
    unsigned int bits = (size << drop) + ((127 - bias) << 23);
    if (bias != 127) {
        float unit = __uint_as_float((128 - bias - fraction) << 23);
        bits = size < 1u << fraction ? __float_as_uint((float)size * unit) : bits;
        bits = size <= most ? bits : size == beyond && beyond != nan ? 0x7f800000u : 0x7fc00000u;
        bits = nan == 0x80 && code == nan ? 0x7fc00000u : bits;
    }
    return __uint_as_float(bits | sign);
}
__device__ __forceinline__ unsigned int narrow(float value, int nbytes, unsigned int fraction, unsigned int bias,
                                               unsigned int most, unsigned int beyond, unsigned int nan) {
    unsigned int bits = __float_as_uint(value), sign = bits >> 31 << (8 * nbytes - 1), drop = 23 - fraction;
    bits &= 0x7fffffffu;
    unsigned int code = (bits - ((127 - bias) << 23) + (1u << (drop - 1)) - 1 + (bits >> drop & 1)) >> drop;
    if (bias != 127) {
        unsigned int large = (151 - bias - fraction) << 23;
        unsigned int subnormal = __float_as_uint(__uint_as_float(bits) + __uint_as_float(large)) - large;
        code = bits < (128 - bias) << 23 ? subnormal : code;
    }
    code = bits > 0x7f800000u ? nan : code > most ? beyond : code;
    return nan == 0x80 && code == 0 ? 0 : sign | code;
}
__device__ __forceinline__ float odd(float value) { return value; }
__device__ __forceinline__ float odd(double value) {
    float near = (float)value;
    double back = near;
    int is_inexact = back != value && value == value, bits = __float_as_int(near);
    return __int_as_float((bits - (is_inexact & (fabs(back) > fabs(value)))) | is_inexact);
}
__device__ __forceinline__ float odd(int value) { return odd((double)value); }
__device__ __forceinline__ float odd(unsigned int value) { return odd((double)value); }
__device__ __forceinline__ float odd(long long value) {
    long long rounded = (value & ~0x7ffll) | (long long)((value & 0x7ff) != 0) << 11;
    return odd((double)((unsigned long long)value + (1ull << 53) > 1ull << 54 ? rounded : value));
}
__device__ __forceinline__ float odd(unsigned long long value) {
    unsigned long long rounded = (value & ~0x7ffull) | (unsigned long long)((value & 0x7ff) != 0) << 11;
    return odd((double)(value > 1ull << 53 ? rounded : value));
}
"""
_CONVERTED = "__device__ __forceinline__ {written} converted({read} x) {{ return {value}; }}\n"


class ElementConversion(NamedTuple):
    """How a kernel converts an element."""

    read: str
    """C's type of what is read."""
    written: str
    value: str
    """The expression, in C, of the element that is written, where ``x`` has been read."""


def conversion(given: np.dtype[Any], wanted: np.dtype[Any]) -> ElementConversion | None:
    """The conversion that `xferlib.kernels` makes too; None between complex numbers.

    Floats saturate to integers, and NaN becomes 0. Integers become halves by way of a float.
    """
    forms = [small_float(each) for each in (given, wanted)]
    read, written = (
        _NUMBERS.get(each.str[1:]) if form is None else _WORDS[each.itemsize]
        for each, form in zip((given, wanted), forms, strict=True)
    )
    if read is None or written is None:
        return None
    numbers = [form and ", ".join(map(str, form[:6])) for form in forms]
    value = "of_half(x)" if read == "half16" else "(x != 0)" if given.kind == "b" else "x"
    if numbers[0] is not None:
        value = f"widen(x, {numbers[0]})"
    if numbers[1] is not None:
        return ElementConversion(read, written, f"({written})narrow(odd({value}), {numbers[1]})")
    if wanted.kind == "b":
        return ElementConversion(read, written, f"{value} != 0")
    if written == "half16":
        return ElementConversion(read, written, "to_half(x)" if read == "double" else f"to_half((float){value})")
    if kind_of(given) == "f" and wanted.kind in "iu":
        return ElementConversion(read, written, _saturate(value, written, wanted, "" if read == "double" else "f"))
    return ElementConversion(read, written, f"({written}){value}")


def _saturate(value: str, written: str, wanted: np.dtype[Any], suffix: str) -> str:
    bits = 8 * wanted.itemsize - (wanted.kind == "i")
    beyond, most = 2.0**bits, (1 << bits) - 1
    low, least = (-beyond, f"({written})(-{most}ll - 1)") if wanted.kind == "i" else (0.0, f"({written})0")
    return (
        f"{value} != {value} ? ({written})0 : {value} >= {beyond!r}{suffix} ? ({written}){most}ull"
        f" : {value} < {low!r}{suffix} ? {least} : ({written}){value}"
    )


def source(read: str, written: str, value: str, axes: int, is_large: int) -> str:
    """CUDA source for that many axes outside the tile, or the row of a thread.

    Args:
        read, written, value: As in `ElementConversion`.
        axes: As above.
        is_large: There are more elements than 32 bits count.
    """
    return _SOURCE.format(
        index="unsigned long long" if is_large else "unsigned int",
        read=read,
        written=written,
        conversion=(_HALF if "half16" in (read, written) else "")
        + (_SMALL if "narrow(" in value or "widen(" in value else "")
        + _CONVERTED.format(read=read, written=written, value=value),
        tile=_TILE,
        tile_rows=_TILE_ROWS,
        parameters="".join(f", i64 n{axis}, i64 d{axis}, i64 s{axis}" for axis in range(axes)),
        offsets="\n        ".join(_OFFSET.format(axis) for axis in reversed(range(axes))),
    )


class _Axis(NamedTuple):
    extent: int
    dst: int
    src: int


def collapse_axes(shape: tuple[int, ...], dst: tuple[int, ...], src: tuple[int, ...]) -> list[_Axis]:
    """The fewest axes that both strides allow, in C order of ``shape``."""
    return [_Axis(*axis) for axis in merge_axes(zip(shape, dst, src, strict=True))]


def align_axes(axes: list[_Axis], dst: int, src: int, itemsize: int) -> tuple[list[_Axis], int]:
    """The axes and the size of an element, aligned to that size: a part of the elements if need be.

    NumPy and torch align complex numbers to their parts only, and other addresses come from memory cut by hand.
    """
    word = math.gcd(dst, src, itemsize, *(stride for axis in axes for stride in axis[1:]))
    return (axes, itemsize) if word == itemsize else ([*axes, _Axis(itemsize // word, word, word)], word)


_kernels: dict[tuple[object, ...], RawKernel] = {}


def kernel(name: str, source: str, key: tuple[object, ...], backend: Backend, device: Device) -> RawKernel:
    """A kernel of xferlib's own, compiled once; ``key`` distinguishes sources of one name."""
    place = (device, name, *key)
    # No lock: two threads may compile the same source, and setdefault lets both launch the one that came first.
    found = _kernels.get(place)
    if found is None:
        compiled = backend.compile(source, device=device)
        found = _kernels.setdefault(place, backend.load(compiled.cubin, name=name, device=device))
    return found


def launch(
    code: RawKernel,
    blocks: int,
    block: tuple[int, int, int],
    args: tuple[int, ...],
    backend: Backend,
    stream: RawStream,
    *,
    name: str,
    nbytes: int,
) -> None:
    """Launch with 64-bit arguments, which the driver copies before it returns.

    ``name`` and ``nbytes``, read and written, are for a recorder.
    """
    values = (ctypes.c_int64 * len(args))(*args)
    # `values` and `params` must live until the launch returns, which these names see to; behind it the driver has
    # copied them.
    start = ctypes.addressof(values)
    params = (ctypes.c_void_p * len(args))(*range(start, start + 8 * len(args), 8))
    grid = (min(blocks, MOST_BLOCKS), 1, 1)
    if (recorder := observe.active) is None:
        backend.launch(code, grid, block, ctypes.addressof(params), stream=stream)
    else:
        run = lambda: backend.launch(code, grid, block, ctypes.addressof(params), stream=stream)
        recorder.enqueue(Kind.KERNEL, name, nbytes, backend, stream, run)


def copy(dst: ArrayInfo, src: ArrayInfo, backend: Backend, stream: RawStream, kind: Kind = Kind.D2D) -> None:
    """Enqueue ``dst[...] = src`` for arrays of equal shape and dtype that do not overlap.

    ``kind`` is for a recorder: a contiguous copy on one device or between two.
    """
    if not dst.size:
        return
    if dst.is_c_contiguous and src.is_c_contiguous:
        observe.copy(kind, dst.pointer, src.pointer, dst.nbytes, backend, stream)
        return
    # Modulo 16, so that arrays of one form share a plan wherever they lie: no element is larger, so no more of an
    # address decides which size of element is aligned.
    planned = _plan_copy(dst.shape, dst.strides, src.strides, dst.dtype.itemsize, dst.pointer % 16, src.pointer % 16)
    code = kernel(planned.name, planned.source, planned.key, backend, dst.device)
    args = (dst.pointer, src.pointer, *planned.args)
    launch(code, planned.blocks, planned.block, args, backend, stream, name=planned.name, nbytes=2 * dst.nbytes)


class Launch(NamedTuple):
    """All that the launches for arrays of one form have in common."""

    name: str
    source: str
    key: tuple[str, str, str, int, int]
    blocks: int
    block: tuple[int, int, int]
    args: tuple[int, ...]
    """After the two addresses."""


@functools.lru_cache(maxsize=256)  # loops move arrays of few forms
def _plan_copy(
    shape: tuple[int, ...], dst: tuple[int, ...], src: tuple[int, ...], itemsize: int, dst_place: int, src_place: int
) -> Launch:
    """The launch that copies arrays of one form; the addresses are given modulo 16, the largest element."""
    axes, word = align_axes(collapse_axes(shape, dst, src), dst_place, src_place, itemsize)
    return _launch(axes, ElementConversion(_WORDS[word], _WORDS[word], "x"))


def plan_conversion(
    shape: tuple[int, ...], dst: tuple[int, ...], src: tuple[int, ...], given: np.dtype[Any], wanted: np.dtype[Any]
) -> Launch | None:
    """The launch that copies arrays of one form, aligned to their elements, and may convert them.

    Args:
        shape: Of both.
        dst, src: Their strides.
        given, wanted: The dtypes of ``src`` and of ``dst``.

    Returns:
        None between complex numbers of two sizes.
    """
    if given == wanted:
        found = _plan_copy(shape, dst, src, given.itemsize, 0, 0)
        return found if found.key[0] == _WORDS[given.itemsize] else None
    converts, axes = conversion(given, wanted), collapse_axes(shape, dst, src)
    assert axes
    return None if converts is None else _launch(axes, converts)


def _launch(axes: list[_Axis], converts: ElementConversion) -> Launch:
    count = math.prod(axis.extent for axis in axes)
    is_large = int(count >= _SMALL_INDICES)
    crossed = _find_crossed_axes(axes)
    outer = [axis for index, axis in enumerate(axes) if index not in crossed]
    key = *converts, len(outer), is_large
    code, threads = source(*key), (_BLOCK, 1, 1)
    if not crossed:
        return Launch("copy_elements", code, key, -(-count // _BLOCK), threads, (count, *_flat(axes)))
    if len(crossed) == 1:
        (row,) = (axes[axis] for axis in crossed)
        rows = count // row.extent
        return Launch("copy_rows", code, key, -(-rows // _BLOCK), threads, (rows, *row, *_flat(outer)))
    row, col = (axes[axis] for axis in crossed)
    tiles = -(-row.extent // _TILE) * -(-col.extent // _TILE) * math.prod(axis.extent for axis in outer)
    args = (tiles, row.extent, col.extent, row.dst, row.src, col.dst, col.src, *_flat(outer))
    return Launch("copy_tiles", code, key, tiles, (_TILE, _TILE_ROWS, 1), args)


def _find_crossed_axes(axes: list[_Axis]) -> tuple[int, ...]:
    """The axes that need care where one is contiguous in the source, and another in the destination.

    Returns:
        Both, the source's first; the short one alone; or none.
    """
    # An extent that repeats one element has stride 0 and is no contiguous axis: infinity puts it last.
    row = min(range(len(axes)), key=lambda axis: abs(axes[axis].src) or math.inf)
    col = min(range(len(axes)), key=lambda axis: abs(axes[axis].dst) or math.inf)
    if row == col:
        return ()
    short = min(row, col, key=lambda axis: axes[axis].extent)
    return (short,) if axes[short].extent <= _NARROW_MOST else (row, col)


def _flat(axes: list[_Axis]) -> tuple[int, ...]:
    return tuple(number for axis in axes for number in axis)


T = TypeVar("T")


# --- the usual copies, in few steps


_SPECS = (Device, str, int)


class _Routes:
    """The facts that copies between two accelerators have in common: the source's backend, and the target."""

    __slots__ = ("_number", "_table")

    def __init__(self) -> None:
        self._number = -1
        self._table: dict[tuple[Device, Any], tuple[Backend, CopyTarget] | None] = {}

    def find(self, info: ArrayInfo, x: Array, spec: Any) -> tuple[Backend, CopyTarget] | None:
        """The route of an array to a device by its specification; None where one of them is no accelerator.

        It is kept where the specification names one device for ever: ``"torch"`` means the current one.
        """
        if self._number != registry.forgotten:
            self._table, self._number = {}, registry.forgotten  # in this order: another thread may look in between
        table = self._table
        try:
            return table[info.device, spec]
        except KeyError:
            device = registry.for_array(spec, x)
        giver, taker = (registry.part_of(each) for each in (info.device, device))
        is_route = "cpu" not in (info.device.kind, device.kind) and giver.pinned_domain == taker.pinned_domain
        route = (giver, CopyTarget(taker, device)) if is_route else None
        if type(spec) is not str or str(device).endswith(spec):
            table[info.device, spec] = route
        return route


_routes = _Routes()


def copy_to(x: Any, spec: Any, stream: Any) -> Array | None:
    """`xferlib.copy_to` between accelerators; None, a no-op, in every case that the long way must look at."""
    if observe.active is not None or device.opened or type(spec) not in _SPECS:
        return None
    owner = registry.by_type.get(type(x))
    if owner is None or not owner.capabilities.streams:
        return None
    info = owner.view(x)
    if info.dtype not in SUPPORTED or (route := _routes.find(info, x, spec)) is None:
        return None
    giver, target = route
    if stream is not None:
        target = target._replace(stream=raw_stream(stream, target.device))
    return _carry(x, info, info.dtype, giver, target)


# --- every copy


@observe.user_call(lambda source, target, dtype: (target.backend, math.prod(source.shape) * dtype.itemsize))
def device_to_device(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    """A copy between arrays of one pinned domain, on one device or two.

    It comes after the work enqueued so far on both ends' streams; and, unless the caller has named the stream, before
    the later work on them, which may change the source.

    Raises:
        CaptureError: The streams of the two ends are not of one capture.
    """
    assert source.info is not None
    if device.opened:
        _refuse_two_captures(source.backend, source.info.device, target)
    return _carry(source.given, source.info, dtype, source.backend, target)


def _carry(x: Array, info: ArrayInfo, dtype: np.dtype[Any], giver: Backend, target: CopyTarget) -> Array:
    """`device_to_device` of an array that ``info`` describes."""
    taker, device, stream, out, into = target
    giver.attach(info.device)
    if taker is not giver:
        taker.attach(device)
    src, info = resolve_lazy(x, giver, None) if giver.is_lazy(x) else (x, info)
    order = stream if stream is not None else taker.stream_current(device)
    before = giver.stream_current(info.device)
    is_local = info.device.index == device.index
    near = before  # a device's own streams alone reach its memory
    if is_local and order.handle != before.handle:
        _follow(order, before, taker, giver)
        near = order.convert_for(giver)
    dst = out if into is not None else taker.empty(info.shape, dtype, device=device, stream=order)
    if 0 in info.shape:
        return dst
    if dtype is not info.dtype and dtype != info.dtype:
        converted = giver.empty(info.shape, dtype, device=info.device, stream=near)
        cast(src, converted, giver, near)
        src, info = converted, giver.view(converted)
    is_mutual = stream is None
    try:
        if is_local:
            used = _within(src, info, dst, into, giver, taker, near, order)
            event = None
        else:
            event, used = _across(src, info, dst, into, giver, taker, before, order, is_mutual=is_mutual)
            is_mutual = is_mutual and event is None
        if event is None:
            event = lifetimes.record(taker, order)
        lifetimes.in_flight.hold(taker, event, src, used, dst)
    except BaseException:  # what may be enqueued uses memory that dies with this frame
        lifetimes.abandon(giver, before)
        lifetimes.abandon(taker, order)
        raise
    if is_mutual:
        _follow(before, order, giver, taker, event)
    return dst


def _refuse_two_captures(giver: Backend, here: Device, target: CopyTarget) -> None:
    """Refuse a copy in which a captured stream and another one would wait for each other."""
    order = target.stream if target.stream is not None else target.backend.stream_current(target.device)
    before = giver.stream_current(here)
    is_one = here.index == target.device.index and before.handle == order.handle
    if before.capture is not order.capture and not is_one:
        raise CaptureError(
            f"a copy from {here} to {target.device}: {before!r} and {order!r}, the current streams there, are not of "
            "one capture, so that neither may wait for the other; let the one that is not captured wait for the other "
            "first, or copy outside of the capture"
        )


def _follow(order: RawStream, before: RawStream, taker: Backend, giver: Backend, event: RawEvent | None = None) -> None:
    """Make a stream of ``taker`` wait for the work so far on a stream of ``giver``, behind which ``event`` may be."""
    if before.handle == order.handle and before.device.index == order.device.index:
        return
    if event is None or before.capture is not None:
        event = giver.event_record(before, timing=False)
    taker.event_wait(order, event)


# --- on one device


def _within(
    src: Array, info: ArrayInfo, dst: Array, into: ArrayInfo | None, giver: Backend, taker: Backend, near: RawStream,
    order: RawStream,
) -> Array:  # fmt: skip
    """Enqueue the copy; return what is used besides both ends."""
    temporary = src
    if into is not None and _overlap(info, into):  # no copy may read what it writes
        info, temporary = _copy_contiguous(info, giver, near)
    if into is None and is_c_contiguous(info.shape, info.strides, info.dtype.itemsize):
        observe.copy(Kind.D2D, taker.operands((dst,))[0], info.pointer, info.nbytes, taker, order)
    else:
        into = into if into is not None else taker.view(dst)
        copy(into, info._replace(device=into.device), taker, order)
    return temporary


def _overlap(one: ArrayInfo, two: ArrayInfo) -> bool:
    """Whether the address ranges overlap."""
    (low_one, high_one), (low_two, high_two) = (
        bounds(each.pointer, each.shape, each.strides, each.dtype.itemsize) for each in (one, two)
    )
    return low_one < high_two and low_two < high_one


# --- from one device to another


def _across(
    src: Array, info: ArrayInfo, dst: Array, into: ArrayInfo | None, giver: Backend, taker: Backend, before: RawStream,
    order: RawStream, *, is_mutual: bool,
) -> tuple[RawEvent | None, tuple[Array, Array]]:  # fmt: skip
    """Enqueue the copy of plain bytes, and what puts both ends in order.

    Returns:
        An event after the copy, for which ``before`` then waits if that is wanted (``is_mutual``), or None; and what is
        used besides both ends.
    """
    itemsize = info.dtype.itemsize
    nbytes = math.prod(info.shape) * itemsize
    temporary, arrived = src, dst
    if not is_c_contiguous(info.shape, info.strides, itemsize):
        info, temporary = _copy_contiguous(info, giver, before)
    if into is not None and not is_c_contiguous(into.shape, into.strides, itemsize):
        arrived = taker.empty(info.shape, info.dtype, device=into.device, stream=order)
    pointer = into.pointer if into is not None and arrived is dst else taker.operands((arrived,))[0]
    if not is_mutual:
        giver.note_use(temporary, order.convert_for(giver))
    elif before.handle or giver.has_made_streams:  # which later waits for the copy, and so does who gets the memory
        giver.note_use(temporary, before)
    is_mutual = is_mutual and arrived is dst
    if not taker.reaches(order.device, info.device):
        event = _send_by_host(pointer, info.pointer, nbytes, giver, taker, before, order, is_mutual=is_mutual)
    else:
        event = _at_once(pointer, info.pointer, nbytes, taker, before, order, is_mutual=is_mutual)
        if event is None:
            _follow(order, before, taker, giver)
            observe.copy(Kind.PEER, pointer, info.pointer, nbytes, taker, order)
    if arrived is not dst:
        assert into is not None
        copy(into, taker.view(arrived), taker, order)
        event = None
    return event, (temporary, arrived)


def _at_once(
    dst: int, src: int, nbytes: int, taker: Backend, before: RawStream, order: RawStream, *, is_mutual: bool
) -> RawEvent | None:
    """Copy in the order of both ends in one call of the backend; None, no copy, where that is not possible.

    Returns:
        An event after the copy, for which ``before`` waits if that is wanted.
    """
    if taker.fast is None or observe.active is not None or device.opened:
        return None
    try:
        return taker.fast.copy_behind(dst, src, nbytes, behind=before, stream=order, is_mutual=is_mutual)
    except BaseException:  # the copy may have been enqueued
        lifetimes.abandon(taker, order)
        raise


def _send_by_host(
    dst: int, src: int, nbytes: int, giver: Backend, taker: Backend, before: RawStream, order: RawStream, *,
    is_mutual: bool,
) -> RawEvent | None:  # fmt: skip
    """Copy by way of this thread's slab, so that one piece leaves it while the next one comes; returns as `_at_once`.

    The last pieces are enqueued then, as those of any staged copy.
    """
    own, event = buffers.slab_of(taker, min(nbytes, MEDIUM_NBYTES), order), None
    for start in range(0, nbytes, MEDIUM_NBYTES):
        count = min(nbytes - start, MEDIUM_NBYTES)
        _, pinned = own.take(count, order)
        try:
            observe.copy(Kind.D2H, pinned, src + start, count, giver, before)
            is_last = start + count == nbytes
            event = _at_once(dst + start, pinned, count, taker, before, order, is_mutual=is_mutual and is_last)
            if event is None:
                _follow(order, before, taker, giver)
        except BaseException:  # the slab knows of the copy on ``order`` alone, which has not come
            lifetimes.abandon(giver, before)
            raise
        if event is None:
            observe.copy(Kind.H2D, dst + start, pinned, count, taker, order)
    return event


# --- before or after a copy


def cast_on_current(src: Array, dst: Array) -> None:
    """Enqueue ``dst[...] = src`` with conversion on the current stream."""
    from xferlib.kernels.elementwise import cast_into  # lazily, because it imports the kernels

    cast_into(dst, src)


def cast(src: Array, dst: Array, backend: Backend, stream: RawStream) -> None:
    """Enqueue ``dst[...] = src`` with conversion; both live until it is done."""
    src, dst = backend.detach(src), backend.detach(dst)  # a copy carries values, no history
    on_stream(stream, backend, lambda: cast_on_current(src, dst))
    lifetimes.in_flight.hold(backend, lifetimes.record(backend, stream), src, dst)


def on_stream(stream: RawStream, backend: Backend, enqueue: Callable[[], T]) -> T:
    """Enqueue what a library puts on its current stream on this one."""
    current = backend.stream_current(stream.device)
    if current.handle == stream.handle:
        return enqueue()
    with deferred:  # or Ctrl-C might leave the other stream current
        backend.stream_use(stream)
        try:
            return enqueue()
        finally:
            backend.stream_use(current)


def resolve_lazy(src: Array, backend: Backend, stream: RawStream | None) -> tuple[Array, ArrayInfo]:
    """The elements of a lazy array in memory, made on ``stream``; None is the current one."""
    if stream is None:
        done = backend.resolved(src)
    else:
        done = on_stream(stream, backend, lambda: backend.resolved(src))
        backend.note_use(src, stream)
    return done, backend.view(done)


def in_c_order(src: Array, info: ArrayInfo, backend: Backend, stream: RawStream) -> tuple[ArrayInfo, Array]:
    """The array in C order, copied on the device if it is not; and what owns it."""
    return (info, src) if info.is_c_contiguous else _copy_contiguous(info, backend, stream)


def _copy_contiguous(info: ArrayInfo, backend: Backend, stream: RawStream) -> tuple[ArrayInfo, Array]:
    temporary = backend.empty(info.shape, info.dtype, device=info.device, stream=stream)
    flat = backend.view(temporary)
    copy(flat, info, backend, stream)
    return flat, temporary
