"""NumPy's functions of pretended arrays: on the device, or by NumPy between two copies."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

import xferlib as xl
from xferlib._core.dtypes import OF_ONE, OF_TWO, OVER_AXES
from xferlib._core.namespaces import RENAMED
from xferlib._pretend import policy
from xferlib.errors import (
    ArgumentError,
    LayoutError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
    UnsupportedError,
)

_SAME = {
    *OF_ONE, *OF_TWO, *OVER_AXES, "broadcast_to", "concat", "expand_dims", "flip", "matmul", "moveaxis", "roll",
    "stack", "take_along_axis", "tril", "triu",
} - {"argsort", "cumulative_prod", "cumulative_sum", "diff", "round", "sort"}  # fmt: skip
"""Functions of the device's namespace that do what NumPy's of that name does, with the same keywords."""
_STANDARD = {name: name for name in _SAME} | {"mod": "remainder"} | {
    name: standard for name, standard in RENAMED.items() if standard in _SAME and hasattr(np, name) and name != "fabs"
}  # fmt: skip
"""These by NumPy's names, but for `fabs`, which makes floats of integers."""

CHOSEN: dict[str, Callable[..., Any]] = {}
"""Functions that take the place of the namespace's of that name."""

_ELSEWHERE = (TypeError, ArgumentError, LayoutError, UnsupportedError, UnsupportedArrayError, UnsupportedDTypeError)
"""Errors of a call that NumPy may know how to do, or says in its own words."""


class ArrayClass(Protocol):
    """A library's class of arrays."""

    library: str

    def over(self, native: Any) -> Any:
        """The array over one of xferlib's."""


def bare(value: Any) -> Any:
    """The device's arrays in place of the pretended ones, in lists too.

    Raises:
        TypeError: An array of NumPy's: no pretended library copies one by itself.
    """
    native = getattr(value, "_native", None)
    if native is not None:
        return native
    if isinstance(value, (list, tuple)):
        return type(value)(map(bare, value)) if type(value) in (list, tuple) else value
    if isinstance(value, np.ndarray):
        raise TypeError("an array of NumPy's meets one of the device's: copy it to the device first")
    return adopt(value)


def adopt(value: Any) -> Any:
    """An array over another library's on the device, by CUDA's interface for arrays; all else as it is."""
    if isinstance(value, (bool, int, float, complex, str, np.generic)) or not hasattr(
        value, "__cuda_array_interface__"
    ):
        return value
    if not np.dtype(value.__cuda_array_interface__["typestr"]).isnative:
        policy.refuse("an array of the other byte order", ValueError)
    return xl.asarray(value)


def to_numpy(value: Any) -> Any:
    """The same on the host."""
    native = getattr(value, "_native", None)
    if native is not None:
        return xl.to_host(native)
    if isinstance(value, HostObject):
        return value._host
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(map(to_numpy, value))
    if isinstance(value, dict):
        return {name: to_numpy(each) for name, each in value.items()}
    return value


def to_pretended(value: Any, cls: ArrayClass) -> Any:
    """NumPy's result on the device: arrays and their numbers; all else as it is."""
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind not in "biufc":
            return value
        return cls.over(xl.to_device(np.asarray(value)))
    if type(value).__module__.startswith("scipy.sparse."):
        return HostObject(value, cls)
    convert = functools.partial(to_pretended, cls=cls)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(convert, value))
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(map(convert, value))
    return value


def by_numpy(function: Callable[..., Any], cls: ArrayClass) -> Callable[..., Any]:
    """A function of the host's for pretended arrays."""
    if not policy.is_numpy_allowed:
        return lambda *args, **options: policy.refuse(f"{cls.library}.{getattr(function, '__name__', 'call')}")

    def call(*args: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        with np.errstate(all="ignore"):
            found = to_pretended(function(*map(to_numpy, args), **to_numpy(options)), cls)
        return found if out is None else write(out, found)

    call.__name__ = call.__qualname__ = getattr(function, "__name__", "call")
    call.__doc__ = f"NumPy's or SciPy's `{call.__name__}`, between two copies."
    return call


class HostClass(type):
    """The class of objects of the host's class ``own``, which are `HostObject`s."""

    own: Any
    arrays: ArrayClass

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return by_numpy(cls.own, cls.arrays)(*args, **options)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, HostObject) and isinstance(value._host, cls.own)

    @classmethod
    def over(cls, own: type, arrays: ArrayClass) -> HostClass:
        """The class for one of the host's."""
        return cls(own.__name__, (), {"own": own, "arrays": arrays})


class HostObject:
    """An object of the host's, such as a generator of random numbers or a sparse matrix.

    Its methods and operators take and give pretended arrays.
    """

    __array_ufunc__ = None  # an array's operators leave it to this one's

    def __init__(self, own: Any, cls: ArrayClass) -> None:
        self._host, self._arrays = own, cls

    def get(self, stream: Any = None) -> Any:
        return self._host

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_host":
            raise AttributeError(name)
        found = getattr(self._host, name)
        return by_numpy(_with_dtype(found), self._arrays) if callable(found) else to_pretended(found, self._arrays)

    def __len__(self) -> int:
        return len(self._host)

    def __repr__(self) -> str:
        return repr(self._host)


def _with_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of random numbers with CuPy's ``dtype=``, which NumPy's has not everywhere."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TypeError:
            if "dtype" not in options:
                raise
            dtype = options.pop("dtype")
            return np.asarray(function(*args, **options)).astype(dtype)

    return call


def _add_operators() -> None:
    def forward(name: str) -> Any:
        function = getattr(operator, name)
        return lambda self, *other: by_numpy(function, self._arrays)(self, *other)

    def reflected(name: str) -> Any:
        function = getattr(operator, name)
        return lambda self, other: by_numpy(function, self._arrays)(other, self)

    for name in ("add", "sub", "mul", "matmul", "truediv", "pow", "neg", "abs", "getitem", "eq", "ne"):
        setattr(HostObject, f"__{name}__", forward(f"__{name}__"))
    for name in ("add", "sub", "mul", "matmul"):
        setattr(HostObject, f"__r{name}__", reflected(f"__{name}__"))


_add_operators()


def write(out: Any, found: Any) -> Any:
    """A result in the array that the caller gave."""
    target = out[0] if isinstance(out, tuple) else out
    if not np.can_cast(found.dtype, target.dtype, "same_kind"):
        raise TypeError(f"out: a {target.dtype} array does not hold a {found.dtype} result")
    target[...] = found
    return target


def _arrays_in(values: Sequence[Any]) -> Iterator[Any]:
    for each in values:
        if isinstance(each, (list, tuple)):
            yield from _arrays_in(each)
        elif getattr(each, "_native", None) is not None:
            yield each._native


def _find_subclass(args: Sequence[Any]) -> Any:
    """The program's own class of arrays among the arguments, of which the result of a ufunc is; None for none."""
    found: list[Any] = [cls for cls in map(type, args) if getattr(cls, "root", cls) is not cls]
    return max(found, key=lambda cls: cls.__array_priority__) if found else None


def find(name: str, cls: ArrayClass) -> Callable[..., Any] | None:
    """The function of that name, which gives arrays of a class; None where NumPy has none, or is not to compute."""
    own = getattr(np, name, None)
    if not callable(own) or isinstance(own, type):
        return None
    elsewhere, standard = by_numpy(own, cls), _STANDARD.get(name)
    if standard is None:
        return elsewhere if policy.is_numpy_allowed else None

    def call(*args: Any, **options: Any) -> Any:
        out, dtype = options.pop("out", None), options.pop("dtype", None)
        try:
            given = {"dtype": np.dtype(dtype)} if dtype is not None and standard in ("sum", "prod") else {}
            if dtype is not None and not given:
                raise TypeError(f"{name}: dtype= is not taken")
            # a number with a dtype takes part in the promotion, on every library
            placed = [cls.over(xl.to_device(np.asarray(x))) if isinstance(x, np.generic) else x for x in args]
            arrays = [*_arrays_in(placed)]
            namespace = xl.get_array_module(*arrays) if arrays else xl.namespace()
            on_device = CHOSEN.get(standard) or getattr(namespace, standard)
            named = {key: bare(each) for key, each in options.items()}
            found = cls.over(on_device(*map(bare, placed), **named, **given))
        except _ELSEWHERE:
            if not policy.is_numpy_allowed or any(isinstance(each, np.ndarray) for each in args):
                raise
            found = elsewhere(*args, **options, **({} if dtype is None else {"dtype": dtype}))
        if out is not None:
            return write(out, found)
        return found.view(subclass) if (subclass := _find_subclass(args)) and isinstance(own, np.ufunc) else found

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"NumPy's `{name}`, on the device."
    return call
