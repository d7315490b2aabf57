"""CuPy's class of arrays over the arrays of `sim`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

import xferlib as xl
from xferlib._pretend import functions
from xferlib._pretend.devices import CupyMemoryPointer, NumberedDevice, own_stream
from xferlib._pretend.functions import bare, by_numpy, to_numpy, to_pretended
from xferlib.errors import XferError


def call(name: str) -> Callable[..., Any]:
    """The pretended function of that name, found at its first call."""

    def run(*args: Any, **options: Any) -> Any:
        found = _functions.get(name)
        if found is None:
            found = _functions[name] = functions.find(name)
        assert found is not None, name
        return found(*args, **options)

    run.__name__ = run.__qualname__ = name
    return run


_functions: dict[str, Any] = {}


class ndarray:  # noqa: N801 - CuPy's name; as CuPy's it has no hash
    """An array in simulated memory with the members of CuPy's."""

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]
    _native: Any

    def __new__(
        cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ) -> ndarray:
        made = object.__new__(cls)
        if memptr is not None:
            made._native = memptr.over(shape, np.dtype(dtype))
        else:
            if strides is not None:
                raise NotImplementedError("cupy.ndarray(strides=) without memptr is not pretended")
            made._native = xl.empty(shape, np.dtype(dtype), backend="sim", order=(order or "C").upper())
        return made

    # --- what it is

    @property
    def _info(self) -> Any:
        return xl.get_backend(self._native).view(self._native)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._native.shape)

    @shape.setter
    def shape(self, shape: Any) -> None:
        self._native = self.reshape(shape)._native

    dtype = property(lambda self: self._native.dtype)
    ndim = property(lambda self: self._native.ndim)
    size = property(lambda self: int(self._native.size))
    nbytes = property(lambda self: int(self._native.nbytes))
    itemsize = property(lambda self: self.dtype.itemsize)
    strides = property(lambda self: tuple(self._info.strides))
    T = property(lambda self: self.transpose())
    real = property(call("real"))
    imag = property(call("imag"))
    flat = property(lambda self: self.ravel())
    base = property(lambda self: None)

    @property
    def flags(self) -> Any:
        info = self._info
        return np.lib.stride_tricks.as_strided(np.empty(0, info.dtype), info.shape, info.strides).flags

    @property
    def data(self) -> CupyMemoryPointer:
        info = self._info
        return CupyMemoryPointer(info.pointer, self._native, info.nbytes)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        info = self._info
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (info.pointer, False), "version": 3,
            "strides": None if self.flags.c_contiguous else self.strides, "stream": 1,
        }  # fmt: skip

    @property
    def device(self) -> NumberedDevice:
        return NumberedDevice(xl.device_of(self._native).index)

    # --- to the host and back

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        own = own_stream(stream)
        if out is None:
            return xl.to_host(self._native, stream=own) if own is not None else np.asarray(
                xl.to_host(self._native), order="F" if order == "F" else "C"
            )  # fmt: skip
        if blocking:
            return xl.to_host(self._native, out=out, stream=own)
        xl.to_host_async(self._native, out=out, stream=own)
        return out

    def set(self, arr: Any, stream: Any = None) -> None:
        if not isinstance(arr, np.ndarray):
            raise TypeError(f"set: {type(arr).__name__} is not an array of NumPy's")
        if arr.shape != self.shape or arr.dtype != self.dtype:
            raise ValueError(f"set: {arr.shape} {arr.dtype} is not {self.shape} {self.dtype}")
        xl.to_device(arr, out=self._native, stream=own_stream(stream))
        if stream is None:
            xl.current_stream().synchronize()

    def item(self, *index: Any) -> Any:
        return self.get().item(*index)

    def tolist(self) -> Any:
        return self.get().tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return bytes(self.get().tobytes(order))

    def dump(self, file: Any) -> None:
        self.get().dump(file)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError("CuPy's arrays are not copied to the host by themselves: call x.get() or cupy.asnumpy(x)")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__":
            return call(ufunc.__name__)(*inputs, **options)
        if any(isinstance(each, np.ndarray) for each in inputs):
            return NotImplemented
        return by_numpy(getattr(ufunc, method))(*inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        import cupy

        own = getattr(cupy, function.__name__, None)
        return NotImplemented if own is None else own(*args, **options)

    # --- new arrays

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> ndarray:
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return wrap(xl.get_array_module(self._native).astype(self._native, np.dtype(dtype)))

    def copy(self, order: str = "C") -> ndarray:
        return wrap(xl.to_device(self._native, order="F" if order == "F" else "C"))

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> ndarray:
        return self.copy()

    def __reduce__(self) -> Any:
        return to_pretended, (self.get(),)

    def view(self, dtype: Any = None, type: Any = None) -> ndarray:
        return wrap(self._native[...] if dtype is None else self._native.view(np.dtype(dtype)))

    def fill(self, value: Any) -> None:
        self[...] = value

    def reshape(self, *shape: Any, order: str = "C") -> ndarray:
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        wanted = tuple(map(operator.index, np.atleast_1d(wanted).tolist() if wanted != () else ()))
        if order == "F":
            return self.transpose().reshape(wanted[::-1]).transpose()
        return wrap(xl.get_array_module(self._native).reshape(self._native, wanted))

    def ravel(self, order: str = "C") -> ndarray:
        return self.reshape(-1, order=order)

    def flatten(self, order: str = "C") -> ndarray:
        return self.ravel(order).copy()

    def transpose(self, *axes: Any) -> ndarray:
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        order = tuple(reversed(range(self.ndim))) if not order or order[0] is None else tuple(order)
        order = tuple(each % self.ndim for each in order)
        return wrap(xl.get_array_module(self._native).permute_dims(self._native, order))

    def swapaxes(self, axis1: int, axis2: int) -> ndarray:
        order = list(range(self.ndim))
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return self.transpose(order)

    def squeeze(self, axis: Any = None) -> ndarray:
        axes = (axis,) if isinstance(axis, int) else axis
        kept = [
            n for i, n in enumerate(self.shape) if (n != 1 if axes is None else i not in {a % self.ndim for a in axes})
        ]
        return self.reshape(tuple(kept))

    def scatter_add(self, slices: Any, value: Any) -> None:
        """``self[slices] += value``, where an index that comes twice counts twice."""
        host = self.get()
        np.add.at(host, to_numpy(slices), to_numpy(value))
        self[...] = to_pretended(host)

    # --- indexing

    def __getitem__(self, key: Any) -> ndarray:
        try:
            return wrap(self._native[_key(key)])
        except (TypeError, XferError):
            return to_pretended(self.get()[to_numpy(key)])  # type: ignore[no-any-return]

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray):
            is_whole = key is Ellipsis or (isinstance(key, slice) and key == slice(None))
            if not is_whole and value.ndim:
                raise TypeError("an array of NumPy's is assigned: move it to the device with cupy.asarray(x)")
            value = to_pretended(np.broadcast_to(value.astype(self.dtype), self.shape)) if is_whole else value.item()
        try:
            self._native[_key(key)] = bare(value)
        except (TypeError, XferError):
            host = self.get()
            host[to_numpy(key)] = to_numpy(value)
            xl.to_device(host, out=self._native)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[ndarray]:
        return (self[each] for each in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    # --- numbers and text

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __complex__(self) -> complex:
        return complex(self.get())

    def __index__(self) -> int:
        return operator.index(self.get().item())

    def __repr__(self) -> str:
        return repr(self.get())

    def __str__(self) -> str:
        return str(self.get())

    def __format__(self, form: str) -> str:
        return format(self.get()[()] if not self.ndim else self.get(), form)


def _key(key: Any) -> Any:
    parts = key if isinstance(key, tuple) else (key,)
    found = tuple(
        xl.to_device(np.asarray(each), backend="sim") if isinstance(each, (np.ndarray, list)) else bare(each)
        for each in parts
    )
    return found if isinstance(key, tuple) else found[0]


def wrap(native: Any) -> ndarray:
    """The pretended array over one of `sim`'s, or over each in a tuple."""
    if isinstance(native, (tuple, list)):
        return tuple(map(wrap, native))  # type: ignore[return-value]
    if not xl.is_array(native):
        return native  # type: ignore[no-any-return]
    made = object.__new__(ndarray)
    made._native = native
    return made


functions.wrap = wrap


_METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "conj", "conjugate", "cumprod",
    "cumsum", "diagonal", "dot", "max", "mean", "min", "nonzero", "partition", "prod", "ptp", "repeat", "round",
    "searchsorted", "std", "sum", "take", "trace", "var",
)  # fmt: skip
_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift", "matmul": "matmul", "divmod": "divmod",
}  # fmt: skip
_COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "abs": "absolute", "invert": "invert", "pos": "positive"}


def _add_methods() -> None:
    def forward(name: str) -> Any:
        return call(name)  # a function, and so a method

    def reflected(name: str) -> Any:
        function = call(name)
        return lambda self, other: function(other, self)

    def in_place(name: str) -> Any:
        function = call(name)
        return lambda self, other: functions.write(self, function(self, other))

    def sort(self: ndarray, axis: int = -1, **_: Any) -> None:
        self[...] = call("sort")(self, axis=axis)

    for name in _METHODS:
        setattr(ndarray, name, forward(name))
    ndarray.sort = sort  # type: ignore[attr-defined]
    for short, name in {**_BINARY, **_COMPARISONS, **_UNARY}.items():
        setattr(ndarray, f"__{short}__", forward(name))
    for short, name in _BINARY.items():
        setattr(ndarray, f"__r{short}__", reflected(name))
        setattr(ndarray, f"__i{short}__", in_place(name))


_add_methods()
