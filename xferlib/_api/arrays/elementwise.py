"""Element-wise functions: each is one kernel, traced from NumPy's function of that name, with NumPy's dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib._api.arrays.primitives import READ_ONLY, Primitives, Shape, is_scalar
from xferlib._core.array import Array
from xferlib._core.convert import number
from xferlib.errors import KernelTypeError, LayoutError, UnsupportedDTypeError
from xferlib.kernels import ElementwiseKernel, elementwise

Function = Callable[..., Array]


@functools.cache
def unary_kernel(name: str) -> ElementwiseKernel:
    """The kernel of the function of that name, of one argument."""
    function = getattr(np, name)
    return elementwise(lambda x: function(x), name=name)  # noqa: PLW0108 - a ufunc names no parameters


@functools.cache
def binary_kernel(name: str) -> ElementwiseKernel:
    """The kernel of the function of that name, of two arguments."""
    function = getattr(np, name)
    return elementwise(lambda x1, x2: function(x1, x2), name=name)  # noqa: PLW0108 - as above


@functools.cache
def _cast_kernel(name: str, dtype: np.dtype[Any]) -> ElementwiseKernel:
    """A binary kernel whose result is converted."""
    function = getattr(np, name)
    return elementwise(lambda x1, x2: function(x1, x2).astype(dtype), name=name)


def documented(name: str, function: Function) -> Function:
    """``function`` with the name and the docstring of an element-wise function."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name}`` of the Array API, element by element, on the current stream."
    return function


def unary(lib: Primitives, name: str) -> Function:
    """The function of that name, of one array."""
    kernel, own = unary_kernel(name), lib.array_type

    def operate(x: Any, /) -> Array:
        try:
            return kernel(x if type(x) is own else lib.array(name, x))
        except KernelTypeError as error:
            raise _refusal(lib, name, error, x) from None

    return documented(name, operate)


def binary(lib: Primitives, name: str) -> Function:
    """The function of that name, of two arrays or an array and a number, of Python or of NumPy."""
    kernel, own, is_logical = binary_kernel(name), lib.array_type, name.startswith("logical_")

    def operate(x1: Any, x2: Any, /) -> Array:
        if is_logical and int in (type(x1), type(x2)):
            np.int64(x1 if type(x1) is int else x2)  # NumPy has no greater integers there, though only the truth counts
        try:
            if type(x1) is own or type(x2) is own:
                return kernel(x1, x2)
            return kernel(*with_array(lib, name, (x1, x2)))
        except KernelTypeError as error:
            raise _refusal(lib, name, error, x1, x2) from None

    return documented(name, operate)


_ORDERING = ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "clip")


def refuse_complex(lib: Primitives, name: str, *operands: Any) -> None:
    """Refuse complex operands of a function of the order of numbers.

    Raises:
        KernelTypeError: There is one.
    """
    for each in operands:
        dtype = lib.info(each).dtype if lib.is_array(each) else np.asarray(each).dtype
        if dtype.kind == "c":
            raise KernelTypeError(
                f"{name}: complex numbers have no order ({dtype}); give xp.real(x), xp.imag(x) or xp.abs(x)"
            ) from None


def _refusal(lib: Primitives, name: str, error: KernelTypeError, *operands: Any) -> KernelTypeError:
    """The error of a kernel without the line of this file that was traced, and with the namespace's name."""
    if any(each is None for each in operands):
        lib.array(name, None)  # a kernel takes it for an operand that is left out
    if name in _ORDERING:
        refuse_complex(lib, name, *operands)
    said = str(error).partition("\n")[0]
    own = getattr(np, name).__name__
    said = said.removeprefix(f"{name}: ")  # as NumPy calls power, too
    return type(error)(name + said.removeprefix(own) if said.startswith(own) else f"{name}: {said}")


def with_array(lib: Primitives, name: str, operands: tuple[Any, ...]) -> list[Any]:
    """Operands of a function, with one of them converted if they are all numbers; others are refused."""
    found = [each if is_scalar(each) else lib.array(name, each) for each in operands]
    if all(map(is_scalar, found)):
        first = next((place for place, each in enumerate(found) if isinstance(each, np.generic)), 0)
        found[first] = lib.array(name, found[first])
    return found


# --- in place


class _Target:
    """The dtypes of a function that writes its result to its first operand."""

    __slots__ = ("_function", "_known", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._function = getattr(np, name)
        self._known: dict[tuple[Any, Any], np.dtype[Any]] = {}

    def dtype(self, lib: Primitives, target: np.dtype[Any], other: Any) -> np.dtype[Any]:
        """The dtype that the function's result has before it is written.

        Raises:
            UnsupportedDTypeError: There is no such result, or it does not fit into the target.
        """
        kind = type(other) if is_scalar(other) else lib.info(lib.array(self.name, other)).dtype
        found = self._known.get((target, kind))
        if found is None:
            operand = other if is_scalar(other) else np.empty(0, kind)
            try:
                found = self._function(np.empty(0, target), operand).dtype
            except OverflowError:  # a number that the target does not hold
                raise
            except TypeError:
                what = kind.__name__ if isinstance(kind, type) else kind
                raise UnsupportedDTypeError(
                    f"{self.name} of {target} and {what} does not exist, in NumPy as here; convert one with astype"
                ) from None
            check_holds(self.name, found, target)
            self._known[target, kind] = found
        return found


def check_holds(name: str, found: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Refuse to write a result into a dtype of a lower kind.

    Raises:
        UnsupportedDTypeError: NumPy does not, either.
    """
    if not np.can_cast(found, target, "same_kind"):
        raise UnsupportedDTypeError(f"{name} in place: {found} does not fit into {target}; write x = {name}(x, y)")


def in_place(lib: Primitives, name: str) -> Function:
    """``target = name(target, other)`` in place."""
    kernel, target = binary_kernel(name), _Target(name)

    def operate(x: Any, other: Any, /) -> Array:
        info = lib.info(x)
        found = target.dtype(lib, info.dtype, other)
        chosen = kernel if found == info.dtype else _cast_kernel(name, info.dtype)
        try:
            chosen(x, other, out=x)
        except (KernelTypeError, LayoutError):
            if not info.is_writable:
                raise LayoutError(f"{name} in place: {READ_ONLY}") from None
            if is_scalar(other):
                raise
            _check_fits(name, info.shape, lib.info(other).shape)
            chosen(x, lib.copy(other), out=x)  # it may overlap the target in part
        return x

    return documented(name, operate)


def _check_fits(name: str, target: Shape, other: Shape) -> None:
    try:
        shape = np.broadcast_shapes(target, other)
    except ValueError:
        return  # the kernel says so
    if shape != target:
        raise LayoutError(
            f"{name} in place: the result of shape {shape} does not fit into shape {target}; write x = {name}(x, y)"
        )


# --- choosing


@elementwise(name="where")
def where_kernel(condition: Any, x1: Any, x2: Any) -> Any:
    return np.where(condition, x1, x2)


@elementwise(name="clip")
def _clip(x: Any, low: Any, high: Any) -> Any:
    return np.clip(x, low, high)


def _limiting(dtype: np.dtype[Any], least: Any, most: Any) -> tuple[Any, Any]:
    """Limits for `clip`: None where a Python integer is at or beyond the end of an integer dtype."""
    if dtype.kind not in "iu":
        return least, most
    limits = np.iinfo(dtype)
    return (
        None if type(least) is int and least <= limits.min else least,
        None if type(most) is int and most >= limits.max else most,
    )


def clip(
    lib: Primitives, x: Array, /, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None  # noqa: A002
) -> Array:  # fmt: skip
    """Values limited to ``min .. max``, which NumPy also calls ``a_min`` and ``a_max``; None: no limit.

    A Python integer beyond the dtype's own limit is none.
    """
    min, max = min if a_min is None else a_min, max if a_max is None else a_max  # noqa: A001 - the standard's names
    if type(min) is int or type(max) is int:
        x = lib.array("clip", x)
        min, max = _limiting(lib.info(x).dtype, min, max)  # noqa: A001 - as above
    limits = [each for each in (min, max) if each is not None]
    if not limits:
        return lib.copy(lib.array("clip", x))
    x, *limits = with_array(lib, "clip", (x, *limits))
    common = np.result_type(*(each if is_scalar(each) else lib.info(each).dtype for each in (x, *limits)))
    limits = [number(each, common) if is_scalar(each) else each for each in limits]
    try:
        if len(limits) == 2:
            return _clip(x, *limits)
        return binary_kernel("maximum" if max is None else "minimum")(x, *limits)
    except KernelTypeError as error:
        raise _refusal(lib, "clip", error, x, *limits) from None
