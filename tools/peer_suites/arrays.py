"""The arrays of the peers: one of xferlib's, with the methods that their tests call on arrays.

What computes is xferlib's kernels, reductions, scans, transfers and namespaces; conversions that a test needs around
them go by way of the host.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import xferlib as xl
from tools.peer_suites.missing import skip


def bare(value: Any) -> Any:
    """The array of xferlib within a peer's, in any nesting of lists and tuples."""
    if isinstance(value, PeerArray):
        return value.native
    if isinstance(value, (list, tuple)):
        return type(value)(map(bare, value))
    return value


def dressed(value: Any) -> Any:
    """A peer's array over one of xferlib."""
    if isinstance(value, (list, tuple)):
        return tuple(map(dressed, value))
    if value is None or isinstance(value, (PeerArray, bool, int, float, complex)):
        return value
    return PeerArray(value)


def uploaded(values: Any, dtype: Any = None) -> PeerArray:
    """A new array of these values."""
    host = bare(values)
    host = xl.to_host(host) if isinstance(values, PeerArray) else np.asarray(host)
    if host.dtype.kind not in "biufc" or host.dtype.itemsize > 16:
        skip(f"arrays of {host.dtype}")
    return PeerArray(xl.to_device(np.asarray(host, dtype)))


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


class PeerArray:
    """An array as CuPy and PyCUDA have it."""

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, native: Any, *args: Any, **options: Any) -> None:
        if args or options:
            skip("arrays made by their class")
        self.native = native

    @property
    def _info(self) -> Any:
        return xl.get_backend(self.native).view(self.native)

    shape = property(lambda self: tuple(self._info.shape))
    strides = property(lambda self: tuple(self._info.strides))
    dtype = property(lambda self: self._info.dtype)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: self._info.size)
    nbytes = property(lambda self: self._info.nbytes)
    itemsize = property(lambda self: self.dtype.itemsize)
    T = property(lambda self: self.transpose())
    real = property(namespaced("real"))
    imag = property(namespaced("imag"))

    def get(self, ary: Any = None, stream: Any = None, **_: Any) -> Any:
        out = ary if isinstance(ary, np.ndarray) else None
        return xl.to_host(self.native, out=out, stream=getattr(stream, "own", None))

    def set(self, host: Any, stream: Any = None) -> None:
        xl.to_device(np.asarray(host, self.dtype), out=self.native)

    def item(self) -> Any:
        return self.get().item()

    def astype(self, dtype: Any) -> PeerArray:
        return uploaded(self.get().astype(dtype))

    def copy(self, *_: Any) -> PeerArray:
        return PeerArray(xl.to_device(self.native))

    def fill(self, value: Any) -> PeerArray:
        self.set(np.full(self.shape, value))
        return self

    def transpose(self, *axes: Any, **named: Any) -> PeerArray:
        axes = (tuple(named["axes"]),) if named.get("axes") is not None else axes
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple) else axes or tuple(reversed(range(self.ndim)))
        return namespaced("permute_dims")(self, tuple(order))  # type: ignore[no-any-return]

    def reshape(self, *shape: Any, **_: Any) -> PeerArray:
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return namespaced("reshape")(self, wanted)  # type: ignore[no-any-return]

    def ravel(self) -> PeerArray:
        return self.reshape(-1)

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

    def __getitem__(self, key: Any) -> PeerArray:
        index = bare(key)
        if type(self.native) is np.ndarray and not (isinstance(index, tuple) and Ellipsis in index):
            index = (*index, ...) if isinstance(index, tuple) else (index, ...)  # else one element would be no array
        return PeerArray(self.native[index])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.native[bare(key)] = bare(value)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.get(), dtype)

    def __bool__(self) -> bool:
        return bool(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __index__(self) -> int:
        return operator.index(self.get().item())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        skip(f"ndarray.{name}")


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
