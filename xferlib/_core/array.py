"""Descriptions of arrays, the same for every library: device, address, shape, dtype, strides."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import math
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core.layout import refuse_truncated
from xferlib.errors import (
    LayoutError,
    OutOfMemoryError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
    XferError,
    did_you_mean,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream

Array = Any
"""An array of some backend: ``numpy.ndarray``, ``cupy.ndarray``, ``torch.Tensor``, ``GPUArray``."""

DTYPES: tuple[str, ...] = (
    "bool",
    "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip
"""The dtypes that every backend holds, by NumPy name."""

SUPPORTED = frozenset(np.dtype(name) for name in DTYPES)
"""The same, as dtypes of the native byte order."""


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
        self.backend.consumed(self.array, stream.known_to(self.backend))


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


def viewed(info: ArrayInfo, dtype: np.dtype[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
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
    native: np.dtype[Any] = resolved if resolved.isnative else resolved.newbyteorder("=")  # StringDType has no order
    if native in SUPPORTED:
        return native
    if what == "dtype" or what.endswith(": dtype"):  # an argument, and no array's
        raise UnsupportedDTypeError(
            f"{what}: {str(resolved)!r} is a dtype which no device holds; give one of {', '.join(DTYPES)}"
        )
    raise UnsupportedDTypeError(
        f"{what} has dtype {str(resolved)!r}, which no device holds; convert it first: "
        f"{remedy or _conversion(resolved, 'x')} "
        f"(supported: {', '.join(DTYPES)})"
    )


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
    if dtype.isbuiltin == 2:  # another package's, such as ml_dtypes' bfloat16: the kind, V, does not tell
        return f"{x}.astype({'float32' if dtype.itemsize < 4 else 'float64'!r})"
    if dtype.kind == "V" and not dtype.itemsize:
        return "it has no bytes; give an array of numbers"
    return _CONVERSIONS.get(dtype.kind, "{x}.astype('float64')").format(x=x)


def _fields(dtype: np.dtype[Any], path: str = "") -> list[tuple[str, np.dtype[Any]]]:
    """The keys and dtypes of the numbers of a record, those that devices hold before the others."""
    base = dtype.base
    if not base.names:
        return [(path, base.newbyteorder("=") if base.kind != "T" else base)]
    found = [each for name in base.names for each in _fields(base[name], f"{path}[{name!r}]")]
    return sorted(found, key=lambda each: each[1] not in SUPPORTED)


def _resolve(dtype: Any, what: str) -> np.dtype[Any]:
    """A dtype from a NumPy spelling or from ``torch.float32`` and its kin."""
    resolved: np.dtype[Any]
    with contextlib.suppress(Exception):  # NumPy asks a stranger's object, which may raise anything
        resolved = np.dtype(dtype)
        return resolved
    if type(dtype).__module__.partition(".")[0] == "torch" and (name := str(dtype)).startswith("torch."):
        if (plain := name.removeprefix("torch.")) in DTYPES:
            return np.dtype(plain)
        raise UnsupportedDTypeError(
            f"{what}: NumPy and the other backends have no dtype {name}; give one of {', '.join(DTYPES)}"
        )
    near = did_you_mean(dtype, DTYPES) if isinstance(dtype, str) else ""
    if type(dtype) is int:  # zeros(3, 4)
        near = ", and the extents of a shape stand in one tuple"
    raise UnsupportedDTypeError(
        f"{what}: {shown(dtype)} is not a dtype{near}; give a NumPy dtype or its name (supported: {', '.join(DTYPES)})"
    )


_LOOKED_AT = 1000
"""Elements whose types are named where NumPy makes objects of a sequence."""


def _instead_of(x: object) -> str:
    """The remedy for what is no array."""
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
        UnsupportedArrayError: ``x`` is no array, sequence or scalar.
        UnsupportedDTypeError: Its dtype is held by no device.
        LayoutError: It is a memory map of a file that has been truncated.
    """
    if isinstance(x, np.ndarray):
        array = x
        refuse_masked(x, what)
        refuse_truncated(x, what)
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
    if array.dtype not in SUPPORTED:
        name = "x" if isinstance(x, (np.ndarray, np.generic)) else "numpy.asarray(x)"
        objects = _objects(array.flat, name + ".astype({})") if array.dtype == object else None
        check_dtype(array.dtype, what=what, remedy=objects or _conversion(array.dtype, name))
    return array


def matching(read: Callable[[Array], Hashable], arrays: Sequence[Array]) -> Callable[..., bool]:
    """A function that compares as many arrays with these: True if ``read`` returns the same of each."""
    expected = [*map(read, arrays)]

    def matches(*given: Array) -> bool:
        return [*map(read, given)] == expected

    return matches


# --- the Array API's names: of what operators call, and of the results of functions of sets

BINARY_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
UNARY_OPERATORS = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
"""Functions by the names of Python's operators, without their underscores."""


class UniqueAll(NamedTuple):
    """The result of ``unique_all``."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The result of ``unique_counts``."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The result of ``unique_inverse``."""

    values: Array
    inverse_indices: Array
