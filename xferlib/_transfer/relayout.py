"""Copies between two layouts on one device: a CUDA kernel that moves elements of any size.

One axis order may be the reverse of the other: then 32 x 32 tiles pass through shared memory, so that both the reads
and the writes of a warp are contiguous. Where one of the two axes is short, as the colours of an image, each thread
copies all of it.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from xferlib._core import observe
from xferlib._core.layout import merged_axes
from xferlib._core.observe import Kind

if TYPE_CHECKING:
    import numpy as np

    from xferlib._core.array import ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.backend_options import DeviceKernels
    from xferlib._core.device import Device
    from xferlib._core.raw import RawKernel, RawStream

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
    read, written = (_NUMBERS.get(each.str[1:]) for each in (given, wanted))
    if read is None or written is None:
        return None
    value = "of_half(x)" if read == "half16" else "(x != 0)" if given.kind == "b" else "x"
    if wanted.kind == "b":
        return ElementConversion(read, written, f"{value} != 0")
    if written == "half16":
        return ElementConversion(read, written, "to_half(x)" if read == "double" else f"to_half((float){value})")
    if given.kind == "f" and wanted.kind in "iu":
        return ElementConversion(read, written, _saturated(value, written, wanted, "" if read == "double" else "f"))
    return ElementConversion(read, written, f"({written}){value}")


def _saturated(value: str, written: str, wanted: np.dtype[Any], suffix: str) -> str:
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


def collapsed(shape: tuple[int, ...], dst: tuple[int, ...], src: tuple[int, ...]) -> list[_Axis]:
    """The fewest axes that both strides allow, in C order of ``shape``."""
    return [_Axis(*axis) for axis in merged_axes(zip(shape, dst, src, strict=True))]


def aligned(axes: list[_Axis], dst: int, src: int, itemsize: int) -> tuple[list[_Axis], int]:
    """The axes and the size of an element, aligned to that size: a part of the elements if need be.

    NumPy and torch align complex numbers to their parts only, and other addresses come from memory cut by hand.
    """
    word = math.gcd(dst, src, itemsize, *(stride for axis in axes for stride in axis[1:]))
    return (axes, itemsize) if word == itemsize else ([*axes, _Axis(itemsize // word, word, word)], word)


_kernels: dict[tuple[object, ...], RawKernel] = {}


def _kernels_of(backend: Backend) -> DeviceKernels:
    assert backend.kernels is not None, f"{backend.name} promises kernels in its capabilities"
    return backend.kernels


def kernel(name: str, source: str, key: tuple[object, ...], backend: Backend, device: Device) -> RawKernel:
    """A kernel of xferlib's own, compiled once; ``key`` distinguishes sources of one name."""
    place = (device, name, *key)
    # No lock: two threads may compile the same source, and setdefault lets both launch the one that came first.
    found = _kernels.get(place)
    if found is None:
        kernels = _kernels_of(backend)
        compiled = kernels.compile(source, device=device)
        found = _kernels.setdefault(place, kernels.load(compiled.cubin, name=name, device=device))
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
    kernels = _kernels_of(backend)
    if (recorder := observe.active) is None:
        kernels.launch(code, grid, block, ctypes.addressof(params), stream=stream)
    else:
        run = lambda: kernels.launch(code, grid, block, ctypes.addressof(params), stream=stream)
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
    planned = _planned(dst.shape, dst.strides, src.strides, dst.dtype.itemsize, dst.pointer % 16, src.pointer % 16)
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
def _planned(
    shape: tuple[int, ...], dst: tuple[int, ...], src: tuple[int, ...], itemsize: int, dst_place: int, src_place: int
) -> Launch:
    """The launch that copies arrays of one form; the addresses are given modulo 16, the largest element."""
    axes, word = aligned(collapsed(shape, dst, src), dst_place, src_place, itemsize)
    return _launch(axes, ElementConversion(_WORDS[word], _WORDS[word], "x"))


def converting(
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
        found = _planned(shape, dst, src, given.itemsize, 0, 0)
        return found if found.key[0] == _WORDS[given.itemsize] else None
    converts, axes = conversion(given, wanted), collapsed(shape, dst, src)
    assert axes
    return None if converts is None else _launch(axes, converts)


def _launch(axes: list[_Axis], converts: ElementConversion) -> Launch:
    count = math.prod(axis.extent for axis in axes)
    is_large = int(count >= _SMALL_INDICES)
    crossed = _crossed(axes)
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


def _crossed(axes: list[_Axis]) -> tuple[int, ...]:
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
