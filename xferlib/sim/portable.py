"""Portable mode: arrays of the simulator refuse what is not the same on all backends, and say what is.

NumPy's methods are missing on some arrays and mean something else on others: ``x.std()`` divides by n - 1 on torch,
``x.size`` is a method there, and ``x * numpy.float64(2)`` has another dtype. While the mode is on, members of the class
of the arrays are exchanged, so that it costs nothing while it is off. xferlib and NumPy may use all: the file of
the caller tells.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xferlib._core.arrays import check_dtype
from xferlib._core.dtypes import BINARY_OPERATORS, COMPARISONS
from xferlib._core.namespaces import RENAMED
from xferlib._runtime.checks import is_package
from xferlib.errors import UnsupportedDTypeError
from xferlib.sim.arrays import SimArray
from xferlib.sim.detector import SimError

if TYPE_CHECKING:
    from types import FrameType


class NotPortableError(SimError):
    """A use of an array that is not the same on all backends.

    No `TypeError`, nor an `AttributeError` but of a member: NumPy ignores both when it looks for a dtype.
    """

    __module__ = "xferlib.sim"  # tracebacks show the name that a program can use


class _MemberNotPortableError(NotPortableError, TypeError, AttributeError):
    """One of a member or an operator: ``hasattr`` is False."""

    __module__ = "xferlib.sim"


_MemberNotPortableError.__name__ = _MemberNotPortableError.__qualname__ = NotPortableError.__name__


_INSTEAD = {
    **{
        name: f"xp.{name}(x, axis=axis)"
        for name in ("all", "any", "argmax", "argmin", "argsort", "max", "mean", "min", "prod", "sum")
    },
    "astype": "xp.astype(x, dtype)",
    "clip": "xp.clip(x, min, max)",
    "conj": "xp.conj(x)",
    "conjugate": "xp.conj(x)",
    "copy": "xp.asarray(x, copy=True)",
    "cumprod": "xp.cumulative_prod(x, axis=axis)",
    "cumsum": "xp.cumulative_sum(x, axis=axis)",
    "dot": "x @ y",
    "fill": "x[...] = value",
    "flatten": "xp.reshape(x, (-1,))",
    "imag": "xp.imag(x)",
    "nonzero": "xp.nonzero(x)",
    "ravel": "xp.reshape(x, (-1,))",
    "real": "xp.real(x)",
    "repeat": "xp.repeat(x, repeats, axis=axis)",
    "reshape": "xp.reshape(x, shape)",
    "round": "xp.round(x)",
    "size": "math.prod(x.shape)",
    "squeeze": "xp.squeeze(x, axis=axis)",
    "std": "xp.std(x, axis=axis, correction=0)",
    "strides": "no array's layout: what is computed must not depend on it",
    "swapaxes": "xp.permute_dims(x, axes)",
    "take": "xp.take(x, indices, axis=axis)",
    "to_device": "xferlib.copy_to(x, device)",
    "transpose": "xp.permute_dims(x, axes)",
    "var": "xp.var(x, axis=axis, correction=0)",
    "view": "xp.astype(x, dtype), which converts; to reinterpret bytes, view the NumPy array before to_device",
}
"""Members of arrays that are not the same everywhere, and the code that is."""


def _refuse(what: str, instead: str, why: str = "") -> NoReturn:
    raise _MemberNotPortableError(_describe(what, instead, why))


def _describe(what: str, instead: str, why: str = "") -> str:
    reason = f": {why}" if why else ""
    return f"{what} is not the same on all backends{reason}; write {instead} (XFERLIB_SIM_STRICT=0 allows it)"


def _is_of_program(frame: FrameType) -> bool:
    return not is_package(frame.f_code.co_filename)


def _skip_numpy(frame: FrameType) -> FrameType:
    """The frame that calls NumPy, where ``frame`` is of a function of NumPy's."""
    while frame.f_code.co_filename.startswith(_NUMPY) and frame.f_back is not None:
        frame = frame.f_back
    return frame


_NUMPY = os.path.dirname(np.__file__) + os.sep  # noqa: PTH120


# dtypes


class PortableDType:
    """A dtype of which a program sees what the dtypes of all libraries have: equality, and ``itemsize``."""

    __slots__ = ("_own",)

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._own = dtype

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's, for which ``numpy.dtype(x.dtype)`` asks: on torch no program gets it."""
        self._refuse_numpy(_skip_numpy(sys._getframe(1)))
        return self._own

    @staticmethod
    def _refuse_numpy(asker: FrameType) -> None:
        if _is_of_program(asker):
            raise NotPortableError(_describe("x.dtype as a dtype of NumPy", f"{_ASK}; NumPy's is xl.to_host(x).dtype"))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (str, type)) and _is_of_program(sys._getframe(1)):
            try:
                name = check_dtype(other).name
            except UnsupportedDTypeError:
                return False
            shown = repr(other) if isinstance(other, str) else f"{other.__module__}.{other.__name__}"
            _refuse(f"x.dtype == {shown}", f"x.dtype == xp.{name}")
        return bool(self._own == (other._own if isinstance(other, PortableDType) else other))

    def __hash__(self) -> int:
        frame = sys._getframe(1)
        if (asker := _skip_numpy(frame)) is not frame:  # a table of NumPy's, as of numpy.finfo
            self._refuse_numpy(asker)
        return hash(self._own)

    def __repr__(self) -> str:
        return f"xp.{self._own}"  # no library's, so that no program can rely on it

    @property
    def itemsize(self) -> int:
        return self._own.itemsize

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse(f"x.dtype.{name}", _ASK)


_ASK = "xp.isdtype(x.dtype, kind), or xp.finfo(x.dtype).bits"


def _isdtype(dtype: Any, kind: Any) -> bool:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    found = tuple(each._own if isinstance(each, PortableDType) else each for each in kinds)
    return np.isdtype(np.dtype(dtype), found)


# members


def _guard_members(saved: dict[str, Any]) -> dict[str, Any]:
    """The members that look at their callers, by name."""
    other = saved["__getattr__"]

    def getattr_(self: SimArray, name: str) -> Any:
        if name == "T":  # where the property has refused
            _refuse(f"x.T of {self.ndim} axes", "x.mT, or xp.permute_dims(x, axes)")
        if name in _INSTEAD:
            if _is_of_program(sys._getframe(1)):
                _refuse(f"x.{name}", _INSTEAD[name])
            return saved[name].__get__(self, SimArray)
        return other(self, name)

    def dtype(self: SimArray) -> Any:
        found = saved["dtype"].__get__(self, SimArray)
        return PortableDType(found) if _is_of_program(sys._getframe(1)) else found

    def transposed(self: SimArray) -> Any:
        if self.ndim != 2 and _is_of_program(sys._getframe(1)):
            raise AttributeError("T")
        return saved["T"].__get__(self, SimArray)

    def copy(_: SimArray) -> NoReturn:
        _refuse("copy.copy(x)", "xp.asarray(x, copy=True)")

    def ufunc(self: SimArray, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name, kinds = ufunc.__name__, {type(each) for each in inputs}
        if any(issubclass(each, np.generic) for each in kinds) or np.ndarray in kinds:
            _refuse_scalars(inputs, name)
            return saved["__array_ufunc__"](self, ufunc, method, *inputs, **options)
        _refuse(f"numpy.{name}(x)", f"xp.{RENAMED.get(name, name)}(x)")

    found: dict[str, Any] = {
        "__getattr__": getattr_, "__copy__": copy, "__array_ufunc__": ufunc, "T": property(transposed),
        "dtype": property(dtype),
    }  # fmt: skip
    symbols = {**BINARY_OPERATORS, **COMPARISONS, "matmul": "matmul", "divmod": "divmod"}
    for operator, counterpart in symbols.items():
        for special in (f"__{operator}__", f"__r{operator}__", f"__i{operator}__"):
            if special in saved:
                found[special] = _guard_operator(special, saved[special], counterpart)
    for special in ("__getitem__", "__setitem__"):
        found[special] = _guard_index(saved[special])
    return found


def _refuse_scalars(inputs: tuple[Any, ...], name: str) -> None:
    """Refuse a scalar of NumPy, which arrives as an array without axes where it is compared."""
    for each in inputs:
        if isinstance(each, np.generic):
            _refuse_scalar(name, each)
        elif type(each) is np.ndarray and not each.ndim:
            _refuse_scalar(name, each[()])


def _refuse_scalar(name: str, value: Any) -> NoReturn:
    what = f"{name.strip('_')} of an array and a numpy.{type(value).__name__}"
    _refuse(what, f"{type(value.item()).__name__}(value)", "the scalar's dtype counts on some alone")


def _guard_operator(special: str, function: Callable[..., Any], counterpart: str) -> Callable[..., Any]:
    """The operator, which checks its operands; ``counterpart`` is the namespace's function of the same meaning."""
    is_comparison = counterpart in COMPARISONS.values()

    def call(self: SimArray, other: Any) -> Any:
        if _is_of_program(sys._getframe(1)):
            if isinstance(other, np.generic):
                _refuse_scalar(special, other)
            if special in ("__divmod__", "__rdivmod__"):
                _refuse("divmod(x, y)", "x // y, x % y")
            if self.info.dtype in _UNSIGNED and counterpart not in _OF_UNSIGNED:
                _refuse(f"{special.strip('_')} of {self.info.dtype}", f"xp.{counterpart}(x, y)", "torch has none")
            if not is_comparison:
                _check_kinds(special.strip("_"), self, other)
        return function(self, other)

    return _name_after(function, call)


def _name_after(function: Callable[..., Any], made: Any) -> Callable[..., Any]:
    """``made``, which reports name as they name the function: by its code."""
    name = function.__name__
    made.__code__ = made.__code__.replace(co_name=name, co_qualname=name)
    made.__name__ = name
    return made  # type: ignore[no-any-return]


_DEFAULT = "torch gives its default float"
_UNSIGNED = frozenset(map(np.dtype, ("uint16", "uint32", "uint64")))
_OF_UNSIGNED = frozenset({"multiply", "divide", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "not_equal"})
"""The operators that torch has for these dtypes; its other ones raise."""


def _check_kinds(name: str, x: SimArray, other: Any) -> None:
    """Refuse operands of kinds that libraries promote differently: integers with floats, and quotients of integers."""
    own = x.info.dtype
    if isinstance(other, SimArray):
        second = other.info.dtype
        mixed = {own.kind, second.kind} & {*"biu"} and np.result_type(own, second).kind in "fc"
        says, instead = f"{own} and {second}", "xp.astype of one of them"
        _check_axes(name, x, other)
    else:
        second = np.dtype(type(other)) if type(other) in (bool, int, float, complex) else own
        mixed = own.kind in "biu" and second.kind in "fc"
        says, instead = f"{own} and a Python {second.name.rstrip('0123456789')}", "xp.astype(x, dtype) first"
    if mixed:
        _refuse(f"{name} of {says}", instead, _DEFAULT)
    if own.kind in "biu" and second.kind in "biu" and "truediv" in name:
        _refuse(f"{name} of integers", "xp.astype(x, dtype) / y, or x // y", _DEFAULT)
    if own.kind in "biu" and "matmul" in name:
        _refuse(f"{name} of {own}", "xp.matmul(x, y)", "torch has none on a GPU")


def _check_axes(name: str, x: SimArray, other: SimArray) -> None:
    """Refuse an array without axes whose dtype would widen that of the other one, which torch does not do."""
    small, large = sorted((x, other), key=lambda each: each.ndim)
    own, second = large.info.dtype, small.info.dtype
    is_alone = small.ndim == 0 < large.ndim and not name.startswith("i")  # in place the target's dtype stays
    if is_alone and own.kind in "biufc" and _kind(own) == _kind(second) and np.result_type(own, second) != own:
        _refuse(
            f"{name} of {own} and an array without axes of {second}", "xp.astype of one of them", f"torch keeps {own}"
        )


def _kind(dtype: np.dtype[Any]) -> str:
    return "i" if dtype.kind == "u" else dtype.kind


def _guard_index(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: SimArray, key: Any, *value: Any) -> Any:
        if _is_of_program(sys._getframe(1)):
            for each in key if type(key) is tuple else (key,):
                if type(each) is slice and isinstance(each.step, int) and each.step < 0:
                    _refuse("a slice with a negative step", "xp.flip(x, axis=axis)[...] of it")
            if value and isinstance(value[0], np.generic):
                _refuse_scalar("assignment", value[0])
        return function(self, key, *value)

    return _name_after(function, call)


# the mode

_lock = threading.Lock()
_exchanged: dict[str, Any] = {}
"""The members of the class that the mode has exchanged or removed; empty where it is off."""
_original_isdtype: Any = None


def is_on() -> bool:
    """Whether what is not portable is refused."""
    return bool(_exchanged)


def switch(on: bool) -> None:
    """Refuse what is not portable from now on, or no longer."""
    global _original_isdtype
    with _lock:
        if on == is_on():
            return
        namespace: Any = SimArray._namespace
        if on:
            members = dict(vars(SimArray))
            guards = _guard_members(members)
            _exchanged.update({name: members[name] for name in members.keys() & (guards.keys() | _INSTEAD.keys())})
            _original_isdtype, namespace.isdtype = namespace.isdtype, _isdtype
            for name in _exchanged:
                if name in guards:
                    setattr(SimArray, name, guards[name])
                else:
                    delattr(SimArray, name)
        else:
            namespace.isdtype = _original_isdtype
            for name, member in _exchanged.items():
                setattr(SimArray, name, member)
            _exchanged.clear()
