"""The classes of arrays of CuPy and PyCUDA over an array of xferlib's: what they have in common, and CuPy's."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

import xferlib as xl
from xferlib._core.dtypes import COMPARISONS
from xferlib._pretend import functions, policy
from xferlib._pretend.functions import bare, by_numpy, to_numpy, to_pretended
from xferlib._pretend.memory import CupyMemoryPointer, Flags
from xferlib._pretend.streams import NumberedDevice, own_stream, to_host_async
from xferlib.errors import XferError


def check_dtype(dtype: Any) -> Any:
    """A dtype, if devices hold it."""
    kind = np.dtype(dtype)
    if kind.kind not in "biufc" or kind.itemsize > 16:
        policy.refuse("dtypes that devices do not hold", ValueError, kind)
    return kind


def order_of(array: Any, order: Any) -> str:
    """``"C"`` or ``"F"`` for NumPy's ways to say it; ``"K"`` for an array of neither that is to stay so."""
    chosen = "K" if order is None else str(order).upper()
    if chosen not in ("C", "F", "A", "K"):
        raise ValueError(f"order {order!r}")
    flags = array.flags
    if chosen in "CF":
        return chosen
    if flags.f_contiguous and not flags.c_contiguous:
        return "F"
    return "K" if chosen == "K" and not flags.c_contiguous else "C"


def axes_of(array: Any) -> tuple[int, ...]:
    """The axes, from that of the largest step to that of the smallest: the order of the elements in memory."""
    return tuple(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))


def arrange(x: Any, order: Any, make: Callable[[Any, str], Any]) -> Any:
    """The array that ``make`` gives for an array and ``"C"`` or ``"F"``, in an order that NumPy names."""
    wanted = order_of(x, order)
    if wanted != "K":
        return make(x, wanted)
    axes = axes_of(x)
    return make(x.transpose(*axes), "C").transpose(*np.argsort(axes).tolist())


def _call(name: str) -> Callable[..., Any]:
    """A method that calls the function of that name."""

    def method(self: PretendedArray, *args: Any, **options: Any) -> Any:
        return self.function(name)(self, *args, **options)

    method.__name__ = method.__qualname__ = name
    return method


class PretendedArray(policy.Pretended):
    """An array on the device with the members that CuPy's and PyCUDA's have both."""

    __slots__ = ("_native",)
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]
    _native: Any
    library: ClassVar[str] = ""
    root: ClassVar[type[PretendedArray]]
    """The library's own class, which subclasses of the program have as a base: results are of it."""
    _functions: ClassVar[dict[tuple[type, str], Any]] = {}

    @classmethod
    def over(cls, native: Any) -> Any:
        """The array over one of xferlib's, or over each in a tuple; all else as it is."""
        if isinstance(native, (tuple, list)):
            return tuple(map(cls.over, native))
        if native is None or isinstance(native, (bool, int, float, complex, str, PretendedArray)):
            return native
        made = object.__new__(cls)
        made._native = np.asarray(native) if isinstance(native, np.generic) else native
        return made

    def _derive(self, native: Any) -> Self:
        """A view, or a copy, of the same class."""
        made = type(self).over(native)
        if type(self) is not self.root and hasattr(made, "__array_finalize__"):
            made.__array_finalize__(self)
        return made  # type: ignore[no-any-return]

    @classmethod
    def function(cls, name: str) -> Any:
        """The library's function of that name, found at its first use."""
        found = PretendedArray._functions.get((cls.root, name))
        if found is None:
            found = functions.find(name, cls.root)
            if found is None:
                policy.refuse(f"{cls.library}.{name}")
            PretendedArray._functions[cls.root, name] = found
        return found

    # --- what it is

    @property
    def _info(self) -> Any:
        return xl.get_backend(self._native).view(self._native)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._info.shape)

    @shape.setter
    def shape(self, shape: Any) -> None:
        if not self.flags.c_contiguous:
            raise AttributeError(f"an array of shape {self.shape} that is not in C order takes no other shape in place")
        self._native = self.reshape(shape)._native

    dtype = property(lambda self: self._info.dtype)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(self._info.size))
    nbytes = property(lambda self: int(self._info.nbytes))
    itemsize = property(lambda self: self.dtype.itemsize)
    strides = property(lambda self: tuple(self._info.strides))
    flags = property(lambda self: Flags(self._info))
    T = property(lambda self: self.transpose())
    real = property(_call("real"))
    imag = property(_call("imag"))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        info = self._info
        return getattr(self._native, "__cuda_array_interface__", None) or {
            "shape": self.shape, "typestr": self.dtype.str, "data": (info.pointer, False), "version": 3,
            "strides": None if self.flags.c_contiguous else self.strides, "stream": 1,
        }  # fmt: skip

    # --- to the host and back

    def _copy_to_host(self, out: Any = None, order: Any = "C", stream: Any = None, *, blocking: bool = True) -> Any:
        own = own_stream(stream)
        if out is None:
            wanted = order_of(self, order)
            out = np.empty(self.shape, self.dtype, "F") if wanted == "F" else None
            if out is None:
                return xl.to_host(self._native, stream=own)
        if blocking:
            return xl.to_host(self._native, out=out, stream=own)
        to_host_async(self._native, out, stream)
        return out

    def get(self) -> Any:
        """The values on the host."""
        return self._copy_to_host()

    def item(self, *index: Any) -> Any:
        return self._copy_to_host().item(*index)

    def tolist(self) -> Any:
        return self._copy_to_host().tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return bytes(self._copy_to_host().tobytes(order))

    def __bytes__(self) -> bytes:
        return self.tobytes()

    # --- new arrays

    def _arrange(self, order: Any, make: Callable[[Any, str], Any]) -> Self:
        return arrange(self, order, lambda x, letter: self._derive(make(x, letter)))  # type: ignore[no-any-return]

    def astype(self, dtype: Any, order: Any = "K", casting: Any = None, subok: Any = None, copy: bool = True) -> Self:
        kind, wanted = check_dtype(dtype), order_of(self, order)
        fits = self.flags.f_contiguous if wanted == "F" else self.flags.c_contiguous
        is_same = kind.char == self.dtype.char  # CuPy tells long from long long
        if not copy and is_same and (fits or str(order).upper() == "K"):
            return self
        return self.copy(order) if is_same else self._arrange(order, lambda x, letter: _convert(x, kind, letter))

    default_order: ClassVar[str] = "C"
    """Of `copy`, in which the libraries differ."""

    def copy(self, order: Any = None) -> Self:
        order = self.default_order if order is None else order
        here = xl.get_device()  # to which the copy goes
        device = None if xl.device_of(self._native) == here else here
        return self._arrange(order, lambda x, letter: xl.to_device(x._native, device=device, order=letter))

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Self:
        with xl.device_of(self._native):
            return self.copy()

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self._copy_to_host())

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        cls = type if type is not None else dtype
        if isinstance(cls, builtin_type) and issubclass(cls, PretendedArray):
            made = cls.over(self._native[...])
            if hasattr(made, "__array_finalize__"):
                made.__array_finalize__(self)
            return made
        if dtype is not None and np.dtype(dtype) != self.dtype:
            return self._derive(self._native.view(check_dtype(dtype)))
        return self._derive(self._native[...])

    def reshape(self, *shape: Any, order: str = "C") -> Self:
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        wanted = tuple(map(operator.index, wanted))
        if order_of(self, order) == "F":
            turned: Any = self.transpose().reshape(wanted[::-1]).transpose()
            return turned.astype(self.dtype, order="F", copy=False)  # type: ignore[no-any-return]
        return self._derive(xl.get_array_module(self._native).reshape(self._native, wanted))

    def ravel(self, order: str = "C") -> Self:
        wanted = order_of(self, order)
        if wanted == "K":
            flat = self.transpose(*axes_of(self)).reshape(-1)
        else:
            flat = self.reshape(-1) if wanted == "C" else self.transpose().reshape(-1)
        return flat if flat.flags.c_contiguous else flat.copy("C")

    def flatten(self, order: str = "C") -> Self:
        return self.ravel(order).copy()

    def transpose(self, *axes: Any, **options: Any) -> Self:
        order = (
            axes[0] if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)) else axes or options.get("axes")
        )
        order = tuple(order) if order else tuple(reversed(range(self.ndim)))
        return self._derive(xl.get_array_module(self._native).permute_dims(self._native, order))

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        order = list(range(self.ndim))
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return self.transpose(*order) if order else self

    def squeeze(self, axis: Any = None) -> Self:
        axes = (axis,) if isinstance(axis, int) else axis
        kept = [
            n for i, n in enumerate(self.shape) if (n != 1 if axes is None else i not in {a % self.ndim for a in axes})
        ]
        return self.reshape(tuple(kept))

    def take(self, indices: Any, axis: int | None = None, out: Any = None, mode: Any = None) -> Any:
        """Elements by their place, in any shape; a place outside wraps around."""
        source = self.reshape(-1) if axis is None else self
        place = 0 if axis is None else axis
        source = source.reshape(1) if not source.ndim else source
        if not -source.ndim <= place < source.ndim:
            raise np.exceptions.AxisError(place, source.ndim)
        place %= source.ndim
        count = source.shape[place]
        wanted = np.asarray(to_numpy(indices))
        if wanted.size and not count:
            raise IndexError("no elements")
        flat = xl.to_device((wanted.reshape(-1) % max(count, 1)).astype(np.int64))
        taken = self.root.over(xl.get_array_module(source._native).take(source._native, flat, axis=place))
        kept = self.shape if self.ndim and axis is not None else (count,)
        shaped = taken.reshape(kept[:place] + wanted.shape + kept[place + 1 :])
        if out is None:
            return shaped
        xl.to_device(shaped._native, out=out._native)
        return out

    # --- indexing

    def _key(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        found = tuple(
            xl.to_device(np.asarray(each)) if isinstance(each, (np.ndarray, list)) else bare(each) for each in parts
        )
        if isinstance(self._native, np.ndarray) and not any(each is Ellipsis for each in found):
            return (*found, ...)  # else one element would be no array
        return found if isinstance(key, tuple) else found[0]

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._derive(self._native[self._key(key)])
        except (TypeError, XferError):
            if not policy.is_numpy_allowed:
                raise
            return to_pretended(self._copy_to_host()[to_numpy(key)], self.root)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value = self._upload_for(key, value)
        try:
            self._native[self._key(key)] = bare(value)
        except (TypeError, XferError):
            if not policy.is_numpy_allowed:
                raise
            host = self._copy_to_host()
            host[to_numpy(key)] = to_numpy(value)
            xl.to_device(host, out=self._native)

    def _upload_for(self, key: Any, value: Any) -> Any:
        """The array or number to assign for an array of NumPy's: one copy, of the whole array, is made."""
        is_whole = isinstance(key, slice) and key == slice(None)
        if is_whole and value.shape == self.shape and value.dtype == self.dtype:
            return self.root.over(xl.to_device(value))
        if value.ndim or is_whole:
            raise ValueError(
                f"an array of NumPy's is assigned, of shape {value.shape} and dtype {value.dtype}: only x[:] takes "
                f"one, of shape {self.shape} and dtype {self.dtype}; copy it to the device first"
            )
        return value.item()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[each] for each in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    # --- NumPy's protocols

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError(f"arrays of {self.library} are not copied to the host by themselves: call x.get()")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__":
            return self.function(ufunc.__name__)(*inputs, **options)
        if any(isinstance(each, np.ndarray) for each in inputs):
            return NotImplemented
        return by_numpy(getattr(ufunc, method), self.root)(*inputs, **options)

    # --- numbers and text

    def __bool__(self) -> bool:
        return bool(self._copy_to_host())

    def __int__(self) -> int:
        return int(self._copy_to_host())

    def __float__(self) -> float:
        return float(self._copy_to_host())

    def __complex__(self) -> complex:
        return complex(self._copy_to_host())

    def __index__(self) -> int:
        return operator.index(self._copy_to_host().item())

    def __repr__(self) -> str:
        return repr(self._copy_to_host())

    def __str__(self) -> str:
        return str(self._copy_to_host())

    def __format__(self, form: str) -> str:
        return format(self._copy_to_host()[()] if not self.ndim else self._copy_to_host(), form)


builtin_type = type


def _rebuild(cls: type[PretendedArray], host: Any) -> Any:
    return cls.over(xl.to_device(host))


def _convert(x: PretendedArray, kind: Any, letter: str) -> Any:
    """The native array of another dtype, in C or Fortran order."""
    with np.errstate(all="ignore"):
        if x.dtype.kind == "c":
            return xl.to_device(x._copy_to_host().astype(kind), order=letter)
        found = xl.get_array_module(x._native).astype(x._native, kind)
    flags = Flags(xl.get_backend(found).view(found))
    fits = flags.f_contiguous if letter == "F" else flags.c_contiguous
    return found if fits else xl.to_device(found, order=letter)


METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "conj", "conjugate", "cumprod",
    "cumsum", "diagonal", "dot", "max", "mean", "min", "nonzero", "partition", "prod", "ptp", "repeat", "round",
    "searchsorted", "std", "sum", "trace", "var",
)  # fmt: skip
_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift", "matmul": "matmul", "divmod": "divmod",
}  # fmt: skip
_UNARY = {"neg": "negative", "abs": "absolute", "invert": "invert", "pos": "positive"}


def add_methods(names: tuple[str, ...], cls: type[PretendedArray]) -> None:
    """Methods of a class that are functions of the library."""
    for name in names:
        setattr(cls, name, _call(name))


def _leaves(other: Any = 0) -> bool:
    """Whether an operand does the operation by itself, as NumPy's protocol says."""
    return getattr(other, "__array_ufunc__", 0) is None


def _add_operators() -> None:
    # By NumPy's function, which calls `__array_ufunc__` of a subclass; as in CuPy, not between two arrays.
    def forward(name: str) -> Any:
        function = getattr(np, name)

        def method(self: PretendedArray, *other: Any) -> Any:
            if all(isinstance(each, PretendedArray) for each in other):
                return self.function(name)(self, *other)
            return NotImplemented if _leaves(*other) else function(self, *other)

        return method

    def reflected(name: str) -> Any:
        function = getattr(np, name)
        return lambda self, other: function(other, self)

    def in_place(name: str) -> Any:
        function = getattr(np, name)
        return lambda self, other: functions.write(self, function(self, other))

    for short, name in {**_BINARY, **COMPARISONS, **_UNARY}.items():
        setattr(PretendedArray, f"__{short}__", forward(name))
    for short, name in _BINARY.items():
        setattr(PretendedArray, f"__r{short}__", reflected(name))
        setattr(PretendedArray, f"__i{short}__", in_place(name))


_add_operators()


# CuPy's class.


def make_order(order: Any) -> str:
    """The order of a new array, by CuPy's names."""
    chosen = {"CONTIGUOUS": "C", "FORTRAN": "F", "": "C", "NONE": "C", "K": "C", "A": "C"}
    return chosen.get(str(order).upper(), str(order).upper())


def make_shape(shape: Any) -> Any:
    """The shape of a new array: a number, or a tuple."""
    found = to_numpy(shape)
    return tuple(map(operator.index, found)) if np.ndim(found) else operator.index(found)


class ndarray(PretendedArray):  # noqa: N801 - CuPy's name; as CuPy's it has no hash
    """An array on the device with the members of CuPy's."""

    __slots__ = ()
    library = "cupy"
    __hash__ = None

    def __new__(cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C") -> Any:
        if strides is not None:
            policy.refuse("cupy.ndarray(strides=)")
        kind = check_dtype(dtype)
        native = (
            xl.empty(make_shape(shape), kind, order=make_order(order))
            if memptr is None
            else memptr.over(make_shape(shape), kind)
        )
        made = cls.over(native)
        if cls is not ndarray and hasattr(made, "__array_finalize__"):
            made.__array_finalize__(None)
        return made

    def __init__(self, *args: Any, **options: Any) -> None: ...

    flat = property(lambda self: self.ravel())
    base = property(lambda self: None)
    device = property(lambda self: NumberedDevice(xl.device_of(self._native).index))

    @property
    def data(self) -> CupyMemoryPointer:
        info = self._info
        return CupyMemoryPointer(info.pointer, self._native, info.nbytes)

    def get(self, stream: Any = None, order: Any = "C", out: Any = None, blocking: bool = True) -> Any:
        return self._copy_to_host(out, order, stream, blocking=blocking)

    def set(self, arr: Any, stream: Any = None) -> None:
        if not isinstance(arr, np.ndarray):
            raise TypeError(f"set: {type(arr).__name__} is not an array of NumPy's")
        if arr.shape != self.shape or arr.dtype != self.dtype:
            raise ValueError(f"set: {arr.shape} {arr.dtype} is not {self.shape} {self.dtype}")
        xl.to_device(arr, out=self._native, stream=own_stream(stream))
        if stream is None:
            xl.current_stream().synchronize()

    def fill(self, value: Any) -> None:
        found = to_numpy(value)
        if np.ndim(found):
            raise ValueError(f"fill: an array of shape {np.shape(found)} is given, and one number is needed")
        with np.errstate(all="ignore"):
            xl.to_device(np.full(self.shape, np.asarray(found).astype(self.dtype)), out=self._native)

    def dump(self, file: Any) -> None:
        self.get().dump(file)

    def dumps(self) -> bytes:
        return self.get().dumps()  # type: ignore[no-any-return]

    def scatter_add(self, slices: Any, value: Any) -> None:
        """``self[slices] += value``, where an index that comes twice counts twice."""
        host = self.get()
        np.add.at(host, to_numpy(slices), to_numpy(value))
        self[...] = to_pretended(host, ndarray)

    def put(self, indices: Any, values: Any, mode: Any = "wrap") -> None:
        host = self.get()
        np.put(host, to_numpy(indices), to_numpy(values), mode)
        self[...] = to_pretended(host, ndarray)

    def sort(self, axis: int = -1, **_: Any) -> None:
        self[...] = self.function("sort")(self, axis=axis)

    def __dlpack__(self, **options: Any) -> Any:
        return self._native.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._native.__dlpack_device__()

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        own = getattr(sys.modules[f"{policy.prefix}cupy"], function.__name__, None)
        return NotImplemented if own is None else own(*args, **options)


ndarray.root = ndarray
add_methods(METHODS, ndarray)
