"""The arrays of the peers: one of xferlib's, with the members that their tests use.

What computes is xferlib's kernels, reductions, scans, transfers and namespaces. A peer's tests take the result of a
function of the shim for an array, so that each call puts one around what xferlib gives.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import xferlib as xl
from tools.peer_suites.adapting import SHIM
from tools.peer_suites.memory import Flags, Pointer
from tools.peer_suites.missing import Partial, skip


def bare(value: Any) -> Any:
    """The array of xferlib within a peer's, in any nesting of lists and tuples."""
    if isinstance(value, PeerArray):
        return value.native
    if isinstance(value, Pointer):
        return value.ptr
    if hasattr(value, "__cuda_array_interface__"):
        return adopted(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(bare, value))
    return value


def adopted(value: Any) -> Any:
    """An array over an object of another library, which has CUDA's interface for arrays; others as they are."""
    if isinstance(value, PeerArray) or not hasattr(value, "__cuda_array_interface__"):
        return value
    if xl.get_device().kind != "cuda":
        skip("__cuda_array_interface__ of a CPU")
    if not checked(value.__cuda_array_interface__["typestr"]).isnative:
        skip("byte orders that devices do not hold")
    return xl.asarray(value)


def dressed(value: Any) -> Any:
    """A peer's array over one of xferlib."""
    if isinstance(value, (list, tuple)):
        return tuple(map(dressed, value))
    if value is None or isinstance(value, (PeerArray, bool, int, float, complex)):
        return value
    return wrap(value)


def wrap(native: Any) -> PeerArray:
    """A peer's array over an array of xferlib."""
    made = object.__new__(PeerArray)
    made.native = native
    return made


def host(value: Any) -> Any:
    """The same on the host, for comparisons."""
    if isinstance(value, PeerArray):
        return value.get()
    if isinstance(value, (list, tuple)):
        return np.asarray([host(each) for each in value])
    return np.asarray(value)


def checked(dtype: Any) -> Any:
    """A dtype, if devices hold it."""
    kind = np.dtype(dtype)
    if kind.kind not in "biufc" or kind.itemsize > 16:
        skip("dtypes that devices do not hold")
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


def arranged(array: Any, order: Any, make: Callable[[Any, str], Any]) -> PeerArray:
    """The array that ``make`` gives for an array and ``"C"`` or ``"F"``, in an order of elements that NumPy names."""
    wanted = order_of(array, order)
    if wanted != "K":
        return wrap(make(array, wanted))
    axes = axes_of(array)
    return wrap(make(array.transpose(*axes), "C")).transpose(*np.argsort(axes).tolist())


def uploaded(values: Any, dtype: Any = None, order: Any = "C") -> PeerArray:
    """A new array of these values."""
    if isinstance(values, PeerArray):
        return values.astype(values.dtype if dtype is None else dtype, order=order)
    if isinstance(values, (list, tuple)) and any(isinstance(each, PeerArray) for each in _flat(values)):
        values = host(values)  # gathered on the host
    found = np.asarray(values)
    checked(found.dtype)
    with np.errstate(all="ignore"):
        found = found if dtype is None else found.astype(checked(dtype))
    return arranged(found, order, lambda x, letter: xl.to_device(x, order=letter))


def _flat(values: Any) -> Iterator[Any]:
    for each in values:
        if isinstance(each, (list, tuple)):
            yield from _flat(each)
        else:
            yield each


def calling(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of xferlib as the peer calls it."""
    return lambda *args, **options: dressed(
        function(*map(bare, args), **{name: bare(value) for name, value in options.items()})
    )


def namespaced(name: str) -> Callable[..., Any]:
    """A function of the arrays' namespace."""

    def call(*args: Any, **options: Any) -> Any:
        given = [uploaded(each) if isinstance(each, np.generic) else each for each in args]  # numbers with a dtype
        parts = [part for each in given for part in (each if isinstance(each, (list, tuple)) else (each,))]
        arrays = [part for part in bare(parts) if _is_array(part)]
        return calling(getattr(xl.get_array_module(*arrays), name))(*given, **options)

    return call


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "__array_namespace__") or hasattr(value, "data_ptr")


class PeerArray(Partial):
    """An array as CuPy and PyCUDA have it."""

    peer_name = "ndarray"

    __slots__ = ("native",)
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]
    made: Any = staticmethod(lambda *_, **__: skip("arrays made by their class"))
    """The peer's constructor: gives the array of xferlib."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        if cls is not PeerArray:
            skip("subclasses of arrays")
        return object.__new__(cls)

    def __init__(self, *args: Any, **options: Any) -> None:
        self.native = type(self).made(*args, **options)

    @property
    def _info(self) -> Any:
        return xl.get_backend(self.native).view(self.native)

    shape = property(lambda self: tuple(self._info.shape), lambda self, value: skip("ndarray.shape set in place"))
    strides = property(lambda self: tuple(self._info.strides))
    dtype = property(lambda self: self._info.dtype)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: self._info.size)
    nbytes = property(lambda self: self._info.nbytes)
    itemsize = property(lambda self: self.dtype.itemsize)
    flags = property(lambda self: Flags(self._info))
    T = property(lambda self: self.transpose())
    real = property(namespaced("real"))
    imag = property(namespaced("imag"))

    @property
    def data(self) -> Pointer:
        info = self._info
        return Pointer(info.pointer, self.native, info.nbytes)

    ptr = gpudata = property(lambda self: self.data)

    def get(self, *args: Any, stream: Any = None, out: Any = None, order: str = "C", **_: Any) -> Any:
        for each in args:  # CuPy's stream, or PyCUDA's target
            stream, out = (stream, each) if isinstance(each, np.ndarray) else (each, out)
        if out is not None:
            return xl.to_host(self.native, out=out, stream=getattr(stream, "own", None))
        if order_of(self, order) == "F":
            return xl.to_host(self.native, out=np.empty(self.shape, self.dtype, "F"))
        return xl.to_host(self.native, stream=getattr(stream, "own", None))

    def set(self, host: Any, stream: Any = None) -> None:
        xl.to_device(np.asarray(host, self.dtype), out=self.native, stream=getattr(stream, "own", None))

    def item(self, *index: Any) -> Any:
        return self.get().item(*index)

    def tobytes(self, order: str = "C") -> bytes:
        return bytes(self.get().tobytes(order))

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def __format__(self, form: str) -> str:
        return format(self.get()[()], form)

    def tolist(self) -> Any:
        return self.get().tolist()

    def astype(self, dtype: Any, order: Any = "K", copy: bool = True, **_: Any) -> PeerArray:
        kind, wanted = checked(dtype), order_of(self, order)
        fits = self.flags.f_contiguous if wanted == "F" else self.flags.c_contiguous
        is_same = kind.char == self.dtype.char  # CuPy tells long from long long
        if not copy and is_same and (fits or str(order).upper() == "K"):
            return self
        if is_same:
            return self.copy(order)

        def converted(x: PeerArray, letter: str) -> Any:
            with np.errstate(all="ignore"):
                return xl.to_device(x.get().astype(kind), order=letter)

        return arranged(self, order, converted)

    owner = "cupy"
    """The backend whose arrays are the peer's own."""
    default_order = "C"
    """Of `copy`, in which the peers differ."""

    def copy(self, order: Any = None) -> PeerArray:
        order = self.default_order if order is None else order
        return arranged(self, order, lambda x, letter: xl.to_device(x.native, order=letter))

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> PeerArray:
        return self.copy()

    def fill(self, value: Any) -> PeerArray:
        found = host(dressed(adopted(value)))
        if found.ndim:
            raise ValueError("no scalar")
        with np.errstate(all="ignore"):
            xl.to_device(np.full(self.shape, found.astype(self.dtype), self.dtype), out=self.native)
        return self

    def view(self, dtype: Any = None, *args: Any, **options: Any) -> PeerArray:
        if args or options or (isinstance(dtype, type) and issubclass(dtype, (np.ndarray, PeerArray))):
            skip("subclasses of arrays")
        if dtype is not None and hasattr(self.native, "data_ptr"):
            skip("Tensor.view, which is torch's own")
        return wrap(self.native[...] if dtype is None else self.native.view(native_dtype(self.native, dtype)))

    def take(self, indices: Any, axis: int | None = None, out: Any = None, **_: Any) -> PeerArray:
        found = np.asarray(indices) if not isinstance(indices, PeerArray) else indices
        source = self.reshape(-1) if axis is None else self
        place = 0 if axis is None else axis
        source = source.reshape(1) if not source.ndim else source
        if not -source.ndim <= place < source.ndim:
            raise np.exceptions.AxisError(place, source.ndim)
        place %= source.ndim
        count = source.shape[place]
        if found.size and not count:
            raise IndexError("no elements")
        flat = host(found).reshape(-1) % max(count, 1)
        flat = uploaded(flat.astype(np.int64))
        result = namespaced("take")(source, flat, axis=place)
        kept = self.shape if self.ndim and axis is not None else (count,)
        shaped: PeerArray = result.reshape(kept[:place] + found.shape + kept[place + 1 :])
        if out is None:
            return shaped
        xl.to_device(shaped.native, out=out.native)
        return out  # type: ignore[no-any-return]

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> PeerArray:
        skip("ndarray.diagonal")

    def transpose(self, *axes: Any, **named: Any) -> PeerArray:
        axes = (tuple(named["axes"]),) if named.get("axes") is not None else axes
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple) else axes or tuple(reversed(range(self.ndim)))
        return namespaced("permute_dims")(self, tuple(order))  # type: ignore[no-any-return]

    def swapaxes(self, first: int, second: int) -> PeerArray:
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.transpose(*order)

    def reshape(self, *shape: Any, order: str = "C", **_: Any) -> PeerArray:
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if order_of(self, order) == "F":
            turned: PeerArray = self.transpose().reshape(*reversed(wanted)).transpose()
            return turned.astype(self.dtype, order="F", copy=False)
        return namespaced("reshape")(self, wanted)  # type: ignore[no-any-return]

    def ravel(self, order: str = "C") -> PeerArray:
        wanted = order_of(self, order)
        if wanted == "K":
            return self.transpose(*axes_of(self)).reshape(-1)
        return self.reshape(-1) if wanted == "C" else self.transpose().reshape(-1)

    def flatten(self, order: str = "C") -> PeerArray:
        return self.ravel(order).copy()

    def squeeze(self) -> PeerArray:
        return self.reshape(*(each for each in self.shape if each != 1))

    def sum(self, axis: Any = None, **options: Any) -> Any:
        return calling(xl.kernels.reductions.sum)(self, axis=axis, **options)

    def min(self, axis: Any = None) -> Any:
        return calling(xl.kernels.reductions.min)(self, axis=axis)

    def max(self, axis: Any = None) -> Any:
        return calling(xl.kernels.reductions.max)(self, axis=axis)

    def all(self, axis: Any = None) -> Any:
        return calling(xl.kernels.reductions.all)(self, axis=axis)

    def any(self, axis: Any = None) -> Any:
        return calling(xl.kernels.reductions.any)(self, axis=axis)

    def __dlpack__(self, **options: Any) -> Any:
        backend = xl.get_backend(self.native)
        if backend.name == "sim":
            skip("simulated memory in another library")
        if options and backend.name in ("cupy", "torch") and backend.name != self.owner:
            skip("what other libraries' arrays do by __dlpack__")
        if not backend.capabilities.streams and (options.get("stream") is not None or options.get("dl_device")):
            skip("streams and device memory of CUDA on a CPU")
        return self.native.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        if xl.get_backend(self.native).name == "sim":
            skip("simulated memory in another library")
        return self.native.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        if not hasattr(self.native, "__cuda_array_interface__"):
            skip("__cuda_array_interface__ of a CPU")
        if xl.get_backend(self.native).name != self.owner:
            skip("what other libraries' arrays say of themselves by __cuda_array_interface__")
        if getattr(sys.modules.get(f"{SHIM}.cupy._util"), "CUDA_ARRAY_INTERFACE_EXPORT_VERSION", 3) != 3:
            skip("an older version of __cuda_array_interface__")
        return self.native.__cuda_array_interface__

    def __getitem__(self, key: Any) -> PeerArray:
        index = bare(key)
        parts = index if isinstance(index, tuple) else (index,)
        if hasattr(self.native, "data_ptr") and any(isinstance(each, slice) and (each.step or 1) < 0 for each in parts):
            skip("negative steps, which tensors have not")
        if type(self.native) is np.ndarray and not (isinstance(index, tuple) and Ellipsis in index):
            index = (*index, ...) if isinstance(index, tuple) else (index, ...)  # else one element would be no array
        return wrap(self.native[index])

    def __setitem__(self, key: Any, value: Any) -> None:
        parts = key if isinstance(key, tuple) else (key,)
        if hasattr(self.native, "data_ptr") and any(isinstance(each, slice) and (each.step or 1) < 0 for each in parts):
            skip("negative steps, which tensors have not")
        if isinstance(value, np.ndarray):  # a copy to the device
            xl.to_device(value, out=bare(self[key]))
        else:
            self.native[bare(key)] = bare(value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("no axes")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[PeerArray]:
        return (self[each] for each in range(len(self)))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("no implicit copy to the host")

    def __bool__(self) -> bool:
        return bool(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __complex__(self) -> complex:
        return complex(self.get())

    def __index__(self) -> int:
        return operator.index(self.get().item())


def native_dtype(native: Any, dtype: Any) -> Any:
    """A dtype as the library of an array names it."""
    kind = checked(dtype)
    return getattr(xl.get_array_module(native), kind.name) if hasattr(native, "data_ptr") else kind


_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
    "matmul": "matmul",
}  # fmt: skip


def _install() -> None:
    def forward(name: str) -> Any:
        return namespaced(name)  # a function, and so a method

    def reflected(name: str) -> Any:
        return lambda self, other: namespaced(name)(other, self)

    for short, name in _BINARY.items():
        setattr(PeerArray, f"__{short}__", forward(name))
        if short not in ("lt", "le", "gt", "ge", "eq", "ne"):
            setattr(PeerArray, f"__r{short}__", reflected(name))
            setattr(PeerArray, f"__i{short}__", _in_place(name))
    for short, name in {"neg": "negative", "abs": "abs", "invert": "bitwise_invert", "pos": "positive"}.items():
        setattr(PeerArray, f"__{short}__", forward(name))


def _in_place(name: str) -> Any:
    def run(self: PeerArray, other: Any) -> PeerArray:
        result = namespaced(name)(self, other)
        xl.to_device(result.native, out=self.native, dtype=self.dtype)
        return self

    return run


_install()
