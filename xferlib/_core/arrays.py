"""Arrays of every library: layout, description, host arrays, conversion on the host.

In this order: how arrays lie in memory; `ArrayInfo`, the description of one; dtypes by any spelling; NumPy arrays
of what a program gives; copies that convert on the host.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import itertools
import math
import mmap
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ctypes import addressof, c_char
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from xferlib._core import dtypes
from xferlib._core.dtypes import DTYPES, SUPPORTED
from xferlib.errors import (
    LayoutError,
    LayoutIndexError,
    LayoutTypeError,
    OutOfMemoryError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
    XferError,
    did_you_mean,
    quote,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from xferlib._core.device import Device, RawStream


# How arrays lie in memory: shapes, axes, addresses, bounds, axes that merge, chunks of contiguous destination.

HostArray = np.ndarray[Any, Any]
Between: Any = type(as_strided(np.empty(1), (1,)).base)
"""The type of what NumPy puts between an array and windows of it."""


def find_memory_map(array: Any) -> Any:
    """The memory map whose memory an array is: a ``numpy.memmap``, an ``mmap.mmap`` behind it, or None.

    ``np.asarray`` of a map, and a view of that, are plain arrays with the map among their bases.
    """
    while array is not None:
        if isinstance(array, np.ndarray):
            if isinstance(array, np.memmap) and getattr(array, "_mmap", None) is not None:
                return array
            array = array.base  # also of a result of arithmetic with a map, which is not a map
        elif isinstance(array, memoryview):
            array = array.obj
        elif type(array) is Between:
            array = array.base
        else:
            return array if isinstance(array, mmap.mmap) else None
    return None


def refuse_truncated(array: Any, what: str) -> None:
    """Refuse a memory map whose file has become shorter: to touch pages that it lacks ends the process with SIGBUS.

    Of one that is whole this is one system call; of other arrays nothing.

    Raises:
        LayoutError: The file ends before the array does.
    """
    if type(array) is np.ndarray and array.base is None:
        return
    found = find_memory_map(array)
    if found is None or not array.size:
        return
    is_numpys = found.__class__ is not mmap.mmap
    memory: Any = found._mmap if is_numpys else found
    offset: int = (found.offset or 0) if is_numpys else 0  # others do not tell: a longer file is none that was cut
    begin = offset - offset % mmap.ALLOCATIONGRANULARITY
    try:
        nbytes = memory.size()
    except (OSError, ValueError):  # anonymous memory; closed
        return
    if nbytes >= begin + len(memory):
        return
    from pathlib import Path  # takes milliseconds, which `import xferlib` need not

    file = found.filename if is_numpys else None
    if not nbytes and not (file and Path(file).is_file()) and is_numpys:  # a device, whose length says nothing
        return
    # Views have the offset of the whole map.
    end = np.lib.array_utils.byte_bounds(array)[1] - np.frombuffer(memory, np.uint8).ctypes.data
    if 0 < end <= len(memory) and nbytes < begin + end:
        raise LayoutError(
            f"{what} is a memory map of {begin + end} bytes of {file or 'a file'}, which has been truncated to "
            f"{nbytes}; map the file again, or write it anew"
        )


@functools.cache
def _addresser() -> Callable[[Any], int] | None:
    """The compiled look-up of addresses, imported lazily, on the first array."""
    from xferlib import _native

    calls = _native.find_calls()
    found: Callable[[Any], int] | None = calls and calls.address
    return found


def address_in_order(array: HostArray) -> int:
    """`address` of an array in C order that is not empty; 0 of any other."""
    find = _addresser()
    if find is not None:
        return find(array)
    return address(array) if array.flags.c_contiguous and array.nbytes else 0


def address(array: HostArray) -> int:
    """``array.ctypes.data`` at a fraction of its cost, where the array is in C order."""
    find = _addresser()
    if find is not None and (found := find(array)):
        return found
    if array.flags.carray and array.nbytes and array.dtype.isbuiltin == 1:  # others have no buffer
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    return int(array.ctypes.data)


_MOST_DIMENSIONS = 64
_MOST_ELEMENTS = (1 << 63) // 16 - 1
"""NumPy's limits, at 16 bytes an element."""


def shape_of(shape: Any, *, what: str = "shape") -> tuple[int, ...]:
    """A shape, given as an integer or a sequence of integers.

    Raises:
        LayoutTypeError: It is neither.
        LayoutError: An extent is negative, or there are more axes or elements than any array has.
    """
    try:
        is_one = not hasattr(shape, "__iter__") or getattr(shape, "ndim", 1) == 0
        extents = (int(shape.__index__()),) if is_one else tuple(int(n.__index__()) for n in shape)
    except Exception:  # a foreign object may raise anything; it is not a shape
        raise LayoutTypeError(f"{what}={quote(shape)} is not a shape; give an int or a sequence of ints") from None
    if any(extent < 0 for extent in extents):
        raise LayoutError(f"{what}={quote(extents)} has a negative extent; extents are 0 or more")
    if len(extents) > _MOST_DIMENSIONS or math.prod([extent for extent in extents if extent]) > _MOST_ELEMENTS:
        raise LayoutError(
            f"{what}={quote(extents)} is too large; an array has at most {_MOST_DIMENSIONS} dimensions, and no more "
            "bytes than can be addressed"
        )
    return extents


def integer_of(number: Any, *, what: str) -> int:
    """An integer, given as one of any kind; an array is none, because it may be on a device.

    Raises:
        LayoutTypeError: It is none.
    """
    try:
        if not hasattr(number, "__dlpack__"):
            return operator.index(number)
        raise TypeError
    except Exception:  # a foreign object may raise anything; it is not an integer
        raise LayoutTypeError(f"{what}={quote(number)} is not an integer; give one") from None


def axis_of(name: str, axis: Any, ndim: int) -> int:
    """An axis of an array, counted from the first.

    Raises:
        LayoutTypeError: It is not an integer.
        LayoutIndexError: There is no such axis.
    """
    if isinstance(axis, (int, np.integer)) and -ndim <= axis < ndim:
        return int(axis) % ndim
    remedy = f"give one from {-ndim} to {ndim - 1}" if ndim else "reshape the array first"
    kind = LayoutIndexError if isinstance(axis, (int, np.integer)) else LayoutTypeError
    raise kind(f"{name}: axis={quote(axis)} is not an axis of an array of {ndim}; {remedy}")


def axes_of(name: str, axes: Any, ndim: int) -> tuple[int, ...]:
    """Axes of an array, counted from the first: one, a tuple, or None for all.

    Raises:
        LayoutTypeError: They are not integers.
        LayoutError: There is no such axis, or it is named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    found = tuple([axis_of(name, each, ndim) for each in (axes if isinstance(axes, tuple) else (axes,))])
    if len(set(found)) < len(found):
        raise LayoutError(f"{name}: axis={axes} names an axis twice; name each once")
    return found


def merge_dimensions(array: HostArray) -> HostArray:
    """The same elements in the same C order with the fewest dimensions, never copied."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    axes = merge_axes(zip(array.shape, array.strides, strict=True))
    return array if len(axes) == array.ndim else array.reshape([extent for extent, _ in axes] or (1,))


def merge_axes(axes: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The same elements in the same order with the fewest axes: no extent of 1, no neighbours that advance together.

    Args:
        axes: Outermost first; of each its extent, then its byte stride in every operand.
    """
    merged: list[tuple[int, ...]] = []
    last: tuple[int, ...] = ()
    for axis in axes:
        extent = axis[0]
        if extent == 1:
            continue
        for outer, inner in zip(last[1:], axis[1:], strict=False):  # the first has none before it
            if outer != inner * extent:
                break
        else:
            if last:
                last = merged[-1] = (last[0] * extent, *axis[1:])
                continue
        merged.append(axis)
        last = axis
    return merged


def bounds(pointer: int, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """The first byte, and the one after the last, that an array can touch."""
    low = high = pointer
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return pointer, pointer
        if stride < 0:
            low += stride * (extent - 1)
        else:
            high += stride * (extent - 1)
    return low, high + itemsize


@dataclass(frozen=True, slots=True)
class Chunks:
    """A C-order partition of an array along one axis, leading axes taken one index at a time.

    Chunk ``i`` covers ``rows`` rows (fewer at the end of the axis) of the axis ``axis``.
    """

    array: HostArray
    """As `merge_dimensions` gives it."""
    axis: int
    rows: int
    blocks: int
    """Chunks along ``axis`` for each index of the leading axes."""
    count: int
    inner: int
    """Destination bytes of one row."""

    def __getitem__(self, index: int) -> tuple[int, HostArray]:
        """Chunk ``index``: its destination offset in bytes, and its elements."""
        lead, block = divmod(index, self.blocks)
        start = block * self.rows
        stop = min(start + self.rows, self.array.shape[self.axis])
        offset = (lead * self.array.shape[self.axis] + start) * self.inner
        leading = []
        for extent in reversed(self.array.shape[: self.axis]):
            lead, position = divmod(lead, extent)
            leading.append(position)
        return offset, self.array[(*reversed(leading), slice(start, stop))]


def cut_in_chunks(array: HostArray, itemsize: int, chunk_nbytes: int) -> Chunks:
    """Cut an array into chunks of at most ``chunk_nbytes`` at the destination.

    Args:
        array: At least one element.
        itemsize: Bytes of an element at the destination, at most ``chunk_nbytes``.
    """
    flat = merge_dimensions(array)
    axis, inner = 0, itemsize * math.prod(flat.shape[1:])
    while inner > chunk_nbytes:
        axis += 1
        inner //= flat.shape[axis]
    extent = flat.shape[axis]
    blocks = -(-extent // max(chunk_nbytes // inner, 1))
    rows = -(-extent // blocks)
    blocks = -(-extent // rows)
    return Chunks(flat, axis, rows, blocks, blocks * math.prod(flat.shape[:axis]), inner)


@functools.lru_cache(maxsize=256)
def dense_order(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """The axis order in which a dense array is C-contiguous in memory; None if it has gaps.

    ``array.transpose(order)`` is then C-contiguous: a transposed or Fortran array is one.
    """
    order = tuple(sorted(range(len(shape)), key=lambda axis: (-strides[axis], -shape[axis])))
    dense = itemsize
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != dense and 0 not in shape:
            return None
        dense *= shape[axis]
    return order


_SHARED_MEMORY_WORK = 100_000
"""Steps of NumPy's exact search, of some nanoseconds each; it may need exponentially many."""


def share_memory(one: HostArray, two: HostArray) -> bool:
    """Whether some byte belongs to both; columns beside each other share none. True where that is too hard to say."""
    if not np.may_share_memory(one, two):
        return False
    try:
        return np.shares_memory(one, two, max_work=_SHARED_MEMORY_WORK)  # type: ignore[arg-type]  # any int
    except np.exceptions.TooHardError:
        return True


# --- the same of arrays on any device, by their addresses

_START = 1 << 12
"""An address like any other."""


class _Memory:
    """Memory at an address, which NumPy takes for an array, keeps and does not read by itself."""

    def __init__(
        self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], typestr: str, owner: Any = None,
        *, is_writable: bool = True,
    ) -> None:  # fmt: skip
        self._owner = owner
        self.__array_interface__ = {
            "version": 3, "data": (pointer, not is_writable), "shape": shape, "strides": strides, "typestr": typestr,
        }  # fmt: skip


def array_at(
    pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], owner: Any = None,
    *, is_writable: bool = True,
) -> HostArray:  # fmt: skip
    """NumPy's array over memory at an address, which ``owner`` keeps alive; nothing is read."""
    memory = _Memory(pointer, shape, strides, dtypes.typestr_of(dtype), owner, is_writable=is_writable)
    return np.asarray(memory).view(dtype)


def share_bytes(
    one: tuple[int, tuple[int, ...], tuple[int, ...], int], two: tuple[int, tuple[int, ...], tuple[int, ...], int]
) -> bool:
    """Whether two arrays, each (pointer, shape, strides, itemsize), have a byte in common; True if too hard to say.

    Empty arrays share nothing.
    """
    return share_memory(_as_array(*one), _as_array(*two))


def _as_array(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> HostArray:
    return np.asarray(_Memory(pointer, shape, strides, f"|V{itemsize}"))


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether two elements of an array have a byte in common, as after broadcasting; True if too hard to say."""
    if is_c_contiguous(shape, strides, itemsize):
        return False  # empty ones too, whose strides are often 0
    steps = sorted((abs(stride), extent) for extent, stride in zip(shape, strides, strict=True) if extent > 1)
    reach = itemsize
    for stride, extent in steps:
        if stride < reach:
            break
        reach = stride * (extent - 1) + reach
    else:
        return False
    if not steps[0][0]:
        return True
    # Of two elements let the index be another along this axis and the same along those before it: the first of them is
    # among the elements at 0, the second among those from 1 on.
    for axis, (stride, extent) in enumerate(steps):
        shape, strides = (tuple(each[kind] for each in steps[axis + 1 :]) for kind in (1, 0))
        first = _START, shape, strides, itemsize
        if share_bytes(first, (_START + stride, (extent - 1, *shape), (stride, *strides), itemsize)):
            return True
    return False


Array = Any
"""An array of some backend: ``numpy.ndarray``, ``cupy.ndarray``, ``torch.Tensor``, ``GPUArray``."""


class ArrayInfo(NamedTuple):
    """Location and layout of an array.

    ``strides`` are in bytes; ``pointer`` is the address of element ``(0, ..., 0)``.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    device: Device
    is_writable: bool

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_c_contiguous(self) -> bool:
        return is_c_contiguous(self.shape, self.strides, self.dtype.itemsize)


class Lent:
    """An array whose memory another library uses: kept alive, and told of the streams that work on it.

    Args:
        array: The array.
        backend: The part of its backend that serves its device.
    """

    __slots__ = ("array", "backend")

    def __init__(self, array: Array, backend: Any) -> None:
        self.array = array
        self.backend = backend

    def used_on(self, stream: RawStream) -> None:
        """Note that the memory must outlive the work enqueued so far on ``stream``, of the other library."""
        if stream.capture is not None:
            stream.capture.keep(self.array)
            return
        self.backend.note_use(self.array, stream.convert_for(self.backend))


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Byte strides of a C-contiguous array; zeros if it has no elements, as NumPy gives them."""
    if 0 in shape:
        return (0,) * len(shape)
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def view_as_dtype(info: ArrayInfo, dtype: np.dtype[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of the same memory as another dtype; the last axis grows or shrinks, as in NumPy.

    Raises:
        LayoutError: Items of another size do not fit into the last axis, or that has gaps.
    """
    old, new = info.dtype.itemsize, dtype.itemsize
    if old == new:
        return info.shape, info.strides
    if not info.shape:
        raise LayoutError(f"an array without axes cannot be viewed as {dtype}, whose items are not of {old} bytes")
    nbytes = info.shape[-1] * old
    if info.strides[-1] != old and info.shape[-1] != 1 and info.size:
        raise LayoutError(
            f"an array whose last axis steps by {info.strides[-1]} bytes cannot be viewed as {dtype}; copy it first"
        )
    if nbytes % new:
        raise LayoutError(f"a last axis of {nbytes} bytes cannot be viewed as {dtype}, of {new} bytes; pad it first")
    return (*info.shape[:-1], nbytes // new), (*info.strides[:-1], new)


UNWRITABLE = (
    "is read-only, or stands for other numbers than its memory holds, as torch's x.conj() does; pass an array that may "
    "be written: x.copy(), or torch's x.resolve_conj().resolve_neg(), and read the result there"
)
"""Of an output; a message says its name first."""


def is_c_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether the elements lie in C order without gaps; strides of extents 0 and 1 do not count."""
    if len(shape) == 1:
        return strides[0] == itemsize or shape[0] <= 1
    if 0 in shape:
        return True
    step = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1:
            if stride != step:
                return False
            step *= extent
    return True


def check_dtype(dtype: Any, *, what: str = "array", remedy: str | None = None) -> np.dtype[Any]:
    """The native-byte-order NumPy dtype, or an error that names the supported ones.

    Args:
        dtype: A dtype, or what NumPy or torch call one.
        what: What has it; ``dtype`` is the argument of that name.
        remedy: How to convert what has it; that of an array ``x`` if omitted.

    Raises:
        UnsupportedDTypeError: No device holds ``dtype``.
    """
    resolved = dtype if isinstance(dtype, np.dtype) else _resolve(dtype, what)
    if resolved in SUPPORTED:
        return resolved
    native = dtypes.in_native_order(resolved)
    if native in SUPPORTED or dtypes.is_foreign(native):
        return native
    if what == "dtype" or what.endswith(": dtype"):  # an argument, and no array's
        near = did_you_mean(str(resolved), [name for name in dtypes.NAMES if name.startswith(f"{resolved}_")])  # packed
        raise UnsupportedDTypeError(
            f"{what}: {str(resolved)!r} is a dtype which no device holds{near}; give one of {', '.join(dtypes.NAMES)}"
        )
    raise UnsupportedDTypeError(
        f"{what} has dtype {str(resolved)!r}, which no device holds; convert it first: "
        f"{remedy or _conversion(resolved, 'x')} "
        f"(supported: {', '.join(dtypes.NAMES)})"
    )


def check_number(dtype: Any, *, what: str = "array") -> np.dtype[Any]:
    """As `check_dtype`, of what is computed with.

    Raises:
        UnsupportedDTypeError: No device holds ``dtype``, or it only moves.
    """
    found = check_dtype(dtype, what=what)
    dtypes.refuse_arithmetic(found, what)
    return found


_CONVERSIONS = {
    **dict.fromkeys("Mm", "{x}.astype('int64') counts its units, and NaT is the least int64"),
    **dict.fromkeys(
        "UST",
        "{x}.astype('float64') where the texts are numbers, numpy.unique({x}, return_inverse=True)[1] to number others",
    ),
    "V": "numpy.frombuffer({x}.tobytes(), 'uint8') has its bytes",
    "c": "{x}.astype('complex128')",
}
"""By the kind of dtype, what takes its numbers along."""


def _conversion(dtype: np.dtype[Any], x: str) -> str:
    """How to convert an array, by the expression that it is."""
    if dtype.names:
        field, kind = next(iter(_fields(dtype)))
        if kind not in SUPPORTED:
            return f"one field, such as {_conversion(kind, x + field)}"
        every = all(each in SUPPORTED for _, each in _fields(dtype))
        together = f", or all by structured_to_unstructured({x}) of numpy.lib.recfunctions" if every else ""
        return f"one field, {x}{field}{together}"
    if dtype.isbuiltin == 2:  # another package's, such as ml_dtypes' int4: the kind, V, does not tell
        if f"{dtype.name}_x2" in dtypes.STORED:
            return (
                f"{x}.astype({'float32' if dtype.name.startswith('float') else 'int8'!r}); two in a byte move as "
                f"'{dtype.name}_x2': (b[..., 1::2] << 4 | b[..., ::2] & 15).view([('{dtype.name}_x2', 'u1')]) where b "
                f"is {x}.view('uint8')"
            )
        return f"{x}.astype({'float32' if dtype.itemsize < 4 else 'float64'!r})"
    if dtype.kind == "V" and not dtype.itemsize:
        return "it has no bytes; give an array of numbers"
    return _CONVERSIONS.get(dtype.kind, "{x}.astype('float64')").format(x=x)


def _fields(dtype: np.dtype[Any], path: str = "") -> list[tuple[str, np.dtype[Any]]]:
    """The keys and dtypes of the numbers of a record, those that devices hold before the others."""
    base = dtype.base
    if not base.names:
        return [(path, dtypes.in_native_order(base))]
    found = [each for name in base.names for each in _fields(base[name], f"{path}[{name!r}]")]
    return sorted(found, key=lambda each: each[1] not in SUPPORTED)


def _resolve(dtype: Any, what: str) -> np.dtype[Any]:
    """A dtype from a NumPy spelling or from ``torch.float32`` and the like."""
    resolved: np.dtype[Any]
    with contextlib.suppress(Exception):  # NumPy asks a stranger's object, which may raise anything
        resolved = np.dtype(dtype)
        return resolved
    is_torchs = type(dtype).__module__.partition(".")[0] == "torch" and str(dtype).startswith("torch.")
    name = str(dtype).removeprefix("torch.") if is_torchs else dtype
    if is_torchs and name in DTYPES:
        return np.dtype(name)
    if isinstance(name, str) and (found := dtypes.find(name, what=what)) is not None:
        return found
    if is_torchs:
        raise UnsupportedDTypeError(
            f"{what}: NumPy and the other backends have no dtype {dtype}; give one of {', '.join(dtypes.NAMES)}"
        )
    near = did_you_mean(dtype, dtypes.NAMES) if isinstance(dtype, str) else ""
    if type(dtype) is int:  # zeros(3, 4)
        near = ", and the extents of a shape stand in one tuple"
    raise UnsupportedDTypeError(
        f"{what}: {quote(dtype)} is not a dtype{near}; give a NumPy dtype or its name "
        f"(supported: {', '.join(dtypes.NAMES)})"
    )


_LOOKED_AT = 1000
"""Elements whose types are named where NumPy makes objects of a sequence."""


def _instead_of(x: object) -> str:
    """The remedy for what is not an array."""
    if isinstance(x, (str, os.PathLike)):
        return "read the file first: xferlib.load(path), or numpy.load(path)"
    if isinstance(x, bytes):
        return "numpy.frombuffer(x, 'uint8') has its bytes"
    if isinstance(x, (list, tuple)) and x and _is_foreign_array(x[0]):
        return (
            "xferlib.get_array_module(x[0]).stack(x) puts the arrays together; xferlib.tree.to_device and tree.to_host "
            "move each"
        )
    if isinstance(x, (list, tuple)) and any(isinstance(each, (list, tuple, np.ndarray)) for each in x):
        return (
            "pass an array or parts of one length; xferlib.tree.to_device([numpy.asarray(part) for part in x]) moves "
            "parts that differ"
        )
    if isinstance(x, (dict, list, tuple)):
        return "pass an array or numbers; xferlib.tree.to_device and tree.to_host move the arrays of a list or dict"
    if isinstance(x, (Iterator, set, frozenset)):
        return "make a list of its numbers first, or an array by numpy.fromiter"
    if isinstance(x, dt.timedelta):
        return "give x.total_seconds()"
    if isinstance(x, dt.date):
        return _objects([x], "numpy.array(x, {})")
    if isinstance(x, int):
        return "an int of more than 64 bits has no dtype; give float(x)"
    if hasattr(type(x), "__cuda_array_interface__"):
        return "xferlib.asarray(x) takes memory of a CUDA device where the backend is one for CUDA"
    if hasattr(type(x), "__dlpack__"):
        return "pass numpy.from_dlpack(x), or what from_dlpack of its device's namespace makes of it"
    return "pass a NumPy array, a sequence of numbers, or an array of a backend (xferlib.available_backends())"


_TIMES = (dt.date, np.datetime64)
_SPANS = (dt.timedelta, np.timedelta64)
_NUMBERS = frozenset({"__float__", "__index__", "__complex__"})


def _objects(objects: Iterable[object], converted: str) -> str:
    """The remedy for Python objects, by their types; ``converted`` has a hole for a dtype."""
    given = [each for each in itertools.islice(objects, _LOOKED_AT) if each is not None]
    for kinds, dtype in ((_TIMES, "datetime64[us]"), (_SPANS, "timedelta64[us]")):
        if given and all(isinstance(each, kinds) for each in given):
            return f"{converted.format(repr(dtype))}.astype('int64') counts microseconds"
    if any(isinstance(each, (list, tuple, np.ndarray)) for each in given):
        return "xferlib.tree.to_device([numpy.asarray(part) for part in x]) moves its parts"
    dtype = "complex128" if any(isinstance(each, complex) for each in given) else "float64"
    others = {type(each) for each in given if not isinstance(each, str)}
    if none := sorted(
        kind.__name__ for kind in others if not any(_NUMBERS & vars(base).keys() for base in kind.__mro__)
    ):
        return f"take the numbers out of {', '.join(none)} first, then {converted.format(repr(dtype))}"
    return converted.format(repr(dtype))


def _is_foreign_array(x: object) -> bool:
    """Whether it is an array, and none of NumPy's; its shape is not asked for, which an array may not have."""
    return hasattr(type(x), "shape") and not isinstance(x, (np.ndarray, np.generic))


def _not_numbers(x: object, array: np.ndarray[Any, Any]) -> str:
    """Why what NumPy makes an array of objects of is refused, and the remedy."""
    if not array.ndim:
        return f"which is not an array of numbers; {_instead_of(x)}"
    kinds = sorted({type(each).__name__ for each in itertools.islice(array.flat, _LOOKED_AT)})
    without = ", without the texts" if "str" in kinds else ""
    return (
        f"whose {', '.join(kinds)} have no dtype together that a device holds; make numbers of them: "
        f"{_objects(array.flat, 'numpy.array(x, {})')}{without}"
    )


def refuse_masked(x: np.ndarray[Any, Any], what: str) -> None:
    """Refuse an array with a mask, which no device holds and no kernel asks for.

    Raises:
        UnsupportedArrayError: It is one of ``numpy.ma``.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise UnsupportedArrayError(
            f"{what} is a masked array, whose mask a device cannot hold; pass x.filled(value) or x.data"
        )


_PLAIN_NUMBERS = {bool, int, float, complex}


_NO_SEQUENCES = (np.ndarray, np.generic, str, bytes, bytearray, memoryview, range, Mapping)
_ARRAY_PROTOCOLS = ("__array__", "__array_interface__", "__array_struct__")


def is_sequence(cls: type) -> bool:
    """Whether NumPy makes an array of an object of this class item by item: lists, tuples, and what acts like them."""
    if issubclass(cls, (list, tuple)):
        return True
    return (
        hasattr(cls, "__getitem__")
        and hasattr(cls, "__len__")
        and not issubclass(cls, _NO_SEQUENCES)
        and not any(hasattr(cls, name) for name in _ARRAY_PROTOCOLS)
    )


def _check_parts(x: Any, what: str, check_tuple: Callable[[tuple[Any, ...], str], None] | None) -> None:
    """Refuse a sequence with masked arrays or numbers in it: NumPy would make an array of what is below the masks."""
    seen: set[int] = set()
    rest = [x]
    while rest:
        part = rest.pop()
        len(part)  # an object without a length is no sequence for NumPy, and its items may never end
        kinds = {*map(type, part)}
        if kinds <= _PLAIN_NUMBERS:  # as a rule
            continue
        seen.add(id(part))
        for kind in kinds:
            if issubclass(kind, np.ma.MaskedArray):
                refuse_masked(next(each for each in part if isinstance(each, kind)), f"a part of {what}")
            elif issubclass(kind, np.ndarray):
                for each in part:
                    if isinstance(each, kind):
                        refuse_truncated(each, f"a part of {what}")
            elif is_sequence(kind):
                rest += [each for each in part if type(each) is kind and id(each) not in seen]
            elif hasattr(kind, "__array__") and not issubclass(kind, np.generic):
                for each in part:
                    if type(each) is kind:
                        refuse_masked(np.asanyarray(each), f"an array of a part of {what}")
        if check_tuple is not None and isinstance(part, tuple):
            check_tuple(part, what if part is x else f"a part of {what}")


def as_host_array(
    x: Any, *, what: str = "x", check_tuple: Callable[[tuple[Any, ...], str], None] | None = None
) -> np.ndarray[Any, Any]:
    """``x`` as a NumPy array of a supported dtype, without a copy where it already is one.

    Byte-swapped arrays pass: they are swapped while staging. Sequences and scalars are converted
    as NumPy does.

    Args:
        x: The array.
        what: Its name for messages.
        check_tuple: Called with each tuple that ``x`` is or holds, and its name; may raise `UnsupportedArrayError`.

    Raises:
        UnsupportedArrayError: ``x`` is not an array, sequence or scalar.
        UnsupportedDTypeError: Its dtype is held by no device.
        LayoutError: It is a memory map of a file that has been truncated.
    """
    if isinstance(x, np.ndarray):
        array = x
        if type(x) is not np.ndarray:
            refuse_masked(x, what)
    elif x is None or isinstance(x, (str, bytes, dict, set)):
        raise UnsupportedArrayError(f"{what} is {type(x).__name__}, not an array; {_instead_of(x)}")
    else:
        try:
            if is_sequence(type(x)):
                _check_parts(x, what, check_tuple)
            made = np.asanyarray(x)  # asarray would hide a mask
            refuse_masked(made, f"an array of {what}")
            array = np.asarray(made)
        except (UnsupportedArrayError, LayoutError):  # such as of a transfer, which says what to write instead
            raise
        except MemoryError as error:
            raise OutOfMemoryError(f"{what}: no host memory for an array of it ({error}); give it in parts") from error
        except Exception as error:  # a stranger's object may raise anything
            if isinstance(error, XferError) and not isinstance(x, (list, tuple)):  # such as of a simulated array
                raise
            raise UnsupportedArrayError(
                f"{what} is {type(x).__name__}, which does not convert to an array ({error}); {_instead_of(x)}"
            ) from error
        if array.dtype == object:
            raise UnsupportedArrayError(f"{what} is {type(x).__name__}, {_not_numbers(x, array)}")
    if array.base is not None or type(array) is not np.ndarray:
        refuse_truncated(array, what)
    if array.dtype not in SUPPORTED:
        name = "x" if isinstance(x, (np.ndarray, np.generic)) else "numpy.asarray(x)"
        objects = _objects(array.flat, name + ".astype({})") if array.dtype == object else None
        check_dtype(array.dtype, what=what, remedy=objects or _conversion(array.dtype, name))
    return array


def make_matcher(read: Callable[[Array], Hashable], arrays: Sequence[Array]) -> Callable[..., bool]:
    """A function that compares as many arrays with these: True if ``read`` returns the same of each."""
    expected = [*map(read, arrays)]

    def matches(*given: Array) -> bool:
        return [*map(read, given)] == expected

    return matches


# Copying and converting on the host, with the same bits on every machine.
#
# ``astype`` of a float that an integer cannot hold gives whatever the processor does; here it
# saturates, and NaN becomes 0, as on every backend (see the table of guarantees).

_BLOCK = 1 << 16


def check_conversion(source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Refuse a conversion that would drop a part of every value, or of what only moves.

    Raises:
        UnsupportedDTypeError: Complex to real, or one of the dtypes is stored numbers.
    """
    if source != target:
        dtypes.refuse_arithmetic(source, "the array")
        dtypes.refuse_arithmetic(target, "dtype")
    if source.kind == "c" and target.kind not in "cb":
        raise UnsupportedDTypeError(
            f"dtype={target.name!r} would drop the imaginary part of {source.name}; pass x.real or abs(x)"
        )


def exactly(obj: Any, host: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The array that NumPy has made of ``obj``; for integers and an integer dtype, one of that dtype.

    Among floats, or beside larger ones, integers are floats in NumPy's array. Here each is converted by itself.

    Raises:
        OverflowError: An integer does not fit into the dtype.
        UnsupportedDTypeError: Complex numbers would lose their imaginary part.
    """
    if host is obj or isinstance(obj, np.generic):
        return host
    check_conversion(host.dtype, dtype)
    if host.dtype.kind not in "iuf" or dtype.kind not in "iu":
        return host
    try:
        if host.dtype.kind in "iu":
            return np.asarray(obj, dtype)
        if not is_sequence(type(obj)):
            return host
        items = np.array(obj, object)
        whole = {number: each for number, each in enumerate(map(_integer, items.flat)) if each is not None}
        if items.shape != host.shape or not whole:
            return host
        found = np.empty(host.shape, dtype)
        copy_into(found, host)
        found.flat[[*whole]] = np.array([*whole.values()], dtype)
    except OverflowError as error:
        raise OverflowError(f"{error}; give a wider dtype") from None
    return found


def _integer(item: Any) -> int | None:
    """An integer, or an array of one without axes, as Python's; None of anything else."""
    try:
        return operator.index(item)
    except Exception:  # of a stranger's object
        return None


def number(value: Any, dtype: np.dtype[Any]) -> np.generic:
    """A number as one of a dtype: as NumPy assigns it to an element.

    Raises:
        OverflowError: An integer that the dtype does not hold, but for NumPy's own and an unsigned dtype, which NumPy
            cuts; or an infinity for an integer.
        ValueError: A NaN for an integer.
        UnsupportedDTypeError: A complex number would lose its imaginary part.
    """
    if isinstance(value, (complex, np.complexfloating)):
        check_conversion(np.result_type(value), dtype)
    if (isinstance(value, np.floating) and dtype.kind in "iu") or (isinstance(value, np.integer) and dtype.kind == "i"):
        value = value.item()  # astype's result depends on the processor, or loses bits
    if dtypes.small_float(dtype) is not None:
        made: Any = np.empty((), dtype)
        copy_into(made, np.asarray(value))
        return made[()]  # type: ignore[no-any-return]
    found: Any = value.astype(dtype) if isinstance(value, np.generic) else np.array(value, dtype)[()]
    return found  # type: ignore[no-any-return]


def copy_into(dst: np.ndarray[Any, Any], src: np.ndarray[Any, Any]) -> None:
    """Fill ``dst`` with ``src``, converted to its dtype; releases the GIL while copying.

    Shapes are equal. Equal dtypes keep every bit, in either byte order.
    """
    if src.dtype == dst.dtype:
        np.copyto(dst, src)
    elif dtypes.small_float(src.dtype) is not None or dtypes.small_float(dst.dtype) is not None:
        _by_way_of_float32(dst, src)
    elif src.dtype.kind == "f" and dst.dtype.kind in "iu":
        _saturate(dst, src)
    else:
        with np.errstate(all="ignore"):
            np.copyto(dst, src, casting="unsafe")


def _by_way_of_float32(dst: np.ndarray[Any, Any], src: np.ndarray[Any, Any]) -> None:
    """Convert from or to a small float; float32 holds each of its values."""
    with np.errstate(all="ignore"):
        wide = src.astype(np.float32) if dtypes.small_float(src.dtype) is not None else _round_to_odd(src)
        if dtypes.small_float(dst.dtype) is not None:
            dst[...] = wide.astype(dst.dtype)
            return
    copy_into(dst, wide)


def _round_to_odd(src: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Real numbers as float32, from which rounding once more gives what rounding once does.

    One that is not exact has the last bit 1: it lies between the two floats that are next to the number.
    """
    if src.dtype.kind in "iu" and src.dtype.itemsize == 8:
        # Of more than 53 bits, as many of the lowest become one: that there was a 1 among them.
        is_wide = (src > (1 << 53)) | (src < -(1 << 53) if src.dtype.kind == "i" else False)
        low, last = src.dtype.type(0x7FF), src.dtype.type(0x800)
        src = np.where(is_wide, (src & ~low) | np.where((src & low) != 0, last, src.dtype.type(0)), src)
    if src.dtype.kind in "iu" and src.dtype.itemsize >= 4:
        src = src.astype(np.float64)
    near = np.array(src, np.float32)
    if src.dtype != np.float64:
        return near
    back, bits = near.astype(np.float64), near.view(np.int32)
    is_inexact = (back != src) & (src == src)
    bits -= (is_inexact & (np.abs(back) > np.abs(src))).astype(np.int32)
    bits |= is_inexact.astype(np.int32)
    return near


def _saturate(dst: np.ndarray[Any, Any], src: np.ndarray[Any, Any]) -> None:
    """Float to integer in blocks: truncated, clamped to the dtype's range, NaN as 0."""
    limits = np.iinfo(dst.dtype)
    wide = np.float32 if src.dtype.itemsize < 4 else src.dtype.newbyteorder("=")
    # The largest float not above the integer's maximum: 2^63 itself would wrap.
    low, high = _float_limits(limits, np.dtype(wide))
    with np.nditer(
        [src, dst],
        flags=["external_loop", "buffered", "zerosize_ok", "delay_bufalloc"],
        op_flags=[["readonly"], ["writeonly"]],
        op_dtypes=[wide, dst.dtype.newbyteorder("=")],
        casting="unsafe",
        buffersize=_BLOCK,
    ) as blocks:
        blocks.reset()
        for values, target in blocks:
            above = values > high
            inside = np.clip(np.nan_to_num(values, nan=0.0, posinf=None, neginf=None), low, high)
            with np.errstate(all="ignore"):
                np.copyto(target, inside, casting="unsafe")
            target[above] = limits.max


def _float_limits(limits: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The integer range as floats of ``dtype``, neither end outside it."""
    low, high = dtype.type(limits.min), dtype.type(limits.max)
    return low, (np.nextafter(high, dtype.type(0)) if int(high) > limits.max else high)
