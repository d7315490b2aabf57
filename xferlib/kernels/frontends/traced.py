"""The front end for Python functions: run the function once on traced values, which record the program.

Python's control flow cannot be recorded, so asking a traced value for its truth is an error that shows the user's
line.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xferlib.errors import KernelError, KernelSyntaxError, KernelTypeError
from xferlib.kernels.frontends.promotion import (
    COMPARISONS,
    Value,
    asked,
    builder_of,
    node_of,
    node_of_call,
    operand_kind,
)
from xferlib.kernels.ir import types
from xferlib.kernels.ir.nodes import BOOL, is_complex, is_integer
from xferlib.kernels.source_lines import at_user_line, user_call

OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip

_ARRAY_NAMES = {"fabs": "abs", "pow": "power"}
_FLOAT_FUNCTIONS = frozenset(name for name in dir(math) if hasattr(np, name)) | _ARRAY_NAMES.keys()
"""Functions of Python's ``math`` that NumPy has for arrays, by the name in ``math``."""

_namespace: ModuleType


def use_namespace(module: ModuleType) -> None:
    """Set the namespace of traced values. That module makes such values, so this one cannot import it."""
    global _namespace
    _namespace = module


class Traced(Value):
    """A value inside a traced kernel."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000.0

    def __repr__(self) -> str:
        return f"<a {self.dtype} in a kernel>"

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            remedy = ""
            if not name.startswith("_") and hasattr(np.ndarray, name):
                remedy = ": it is one element, seen by itself; call that on the array, or see xferlib.reduction"
            raise AttributeError(f"a value in a kernel has no {name!r}{remedy}", name=name, obj=self)

    @property
    def real(self) -> Traced:
        return apply("real", (self,))

    @property
    def imag(self) -> Traced:
        return apply("imag", (self,))

    def conj(self) -> Traced:
        return apply("conj", (self,))

    def astype(self, dtype: Any) -> Traced:
        return astype(self, dtype)

    def clip(self, min: Any = None, max: Any = None) -> Traced:  # noqa: A002 - the Array API's names
        return clip(self, min, max)

    def __neg__(self) -> Traced:
        return apply("negative", (self,))

    def __pos__(self) -> Traced:
        return apply("positive", (self,))

    def __abs__(self) -> Traced:
        return apply("absolute", (self,))

    def __divmod__(self, other: Any) -> tuple[Traced, Traced]:
        return _namespace.UFUNCS["divmod"](self, other)  # type: ignore[no-any-return]

    def __rdivmod__(self, other: Any) -> tuple[Traced, Traced]:
        return _namespace.UFUNCS["divmod"](other, self)  # type: ignore[no-any-return]

    def __invert__(self) -> Traced:
        return apply("invert", (self,))

    def __round__(self, digits: int | None = None) -> Traced:
        if digits:
            _refuse(self, f"round(x, {digits})", "scale, round and scale back")
        return rounded(self)

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 - raises
        _refuse(self, "a test of an element (if, while, and, or, not)", "use where(condition, a, b), & , | and ~")

    def __float__(self) -> NoReturn:
        function = user_call(_FLOAT_FUNCTIONS)
        if function is None:
            _refuse(
                self, "float(), or a function of Python's math", "use astype('float64'), or NumPy's function: np.sin(x)"
            )
        name = _ARRAY_NAMES.get(function, function)
        _refuse(self, f"{function}() of Python's math", f"use np.{name}(x) instead of math.{function}(x)")

    def __int__(self) -> NoReturn:
        _refuse(self, "int()", "use astype('int64')")

    def __complex__(self) -> NoReturn:
        _refuse(self, "complex()", "use astype('complex128')")

    def __index__(self) -> NoReturn:  # noqa: PLE0305 - raises
        _refuse(self, "range() or an index", "use arithmetic on the values")

    def __iter__(self) -> NoReturn:
        _refuse(self, "iteration or unpacking", "a kernel sees one element at a time")

    def __len__(self) -> NoReturn:  # noqa: PLE0303 - raises
        _refuse(self, "len()", "a kernel sees one element at a time")

    def __getitem__(self, key: object) -> NoReturn:
        _refuse(self, "indexing", "a kernel sees one element at a time; a C snippet has raw parameters")

    def __matmul__(self, other: object) -> NoReturn:
        _refuse(self, "x @ y", "a kernel sees one element at a time; multiply arrays with xp.matmul")

    __rmatmul__ = __matmul__

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(self, "conversion to an array", "call only element-wise functions")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return _namespace

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Traced:
        if method != "__call__" or options:
            _refuse(self, f"numpy.{ufunc.__name__}.{method} with {sorted(options)}", "call the plain ufunc")
        # A NumPy scalar on the left of a comparison comes as an array without dimensions.
        plain = (each[()] if isinstance(each, np.ndarray) and each.ndim == 0 else each for each in inputs)
        if (composite := _namespace.UFUNCS.get(ufunc.__name__)) is not None:
            return composite(*plain, ufunc=ufunc)  # type: ignore[no-any-return]
        return apply(ufunc.__name__, tuple(plain))

    def __array_function__(self, function: Callable[..., Any], kinds: Any, args: Any, options: Any) -> Traced:
        supported: list[tuple[Any, Callable[..., Traced]]] = [
            (np.where, where), (np.clip, _numpys_clip), (np.real, _real), (np.imag, _imag), (np.round, rounded),
            (np.around, rounded),
        ]  # fmt: skip
        found = next((ours for theirs, ours in supported if theirs is function), _namespace.FUNCTIONS.get(function))
        if found is None:
            _refuse(self, f"numpy.{function.__name__}", "call only element-wise functions")
        return found(*args, **options)

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, args: Any = (), options: Any = None) -> NoReturn:
        value = next(each for each in args if isinstance(each, cls))
        _refuse(value, f"torch's {function.__name__}", "call NumPy's function: the kernel runs on tensors too")


def _real(x: Traced) -> Traced:
    return apply("real", (x,))


def _imag(x: Traced) -> Traced:
    return apply("imag", (x,))


def rounded(x: Traced, decimals: int = 0) -> Traced:
    """The nearest integer, in the dtype of ``x``."""
    if decimals:
        _refuse(x, f"round(x, {decimals})", "scale, round and scale back")
    return apply("positive" if is_integer(x.dtype) else "rint", (x,))


def _install_operators() -> None:
    def binary(name: str) -> Callable[[Traced, Any], Traced]:
        return lambda self, other: apply(name, (self, other))

    def reflected(name: str) -> Callable[[Traced, Any], Traced]:
        return lambda self, other: apply(name, (other, self))

    for operation, name in OPERATORS.items():
        setattr(Traced, f"__{operation}__", binary(name))
        setattr(Traced, f"__r{operation}__", reflected(name))
    for operation, name in COMPARISONS.items():
        setattr(Traced, f"__{operation}__", binary(name))


_install_operators()


def _refuse(value: Traced, what: str, remedy: str) -> NoReturn:
    raise at_user_line(
        KernelSyntaxError(
            f"{what}: a kernel is recorded once, without data, and so a {value.dtype} has no value yet; {remedy}"
        )
    )


def apply(name: str, args: tuple[Any, ...]) -> Traced:
    """Function ``name`` of traced values and scalars, promoted as NumPy does."""
    b = builder_of(args, name)
    return Traced(b, node_of_call(b, name, args))


def where(condition: Any, yes: Any, no: Any) -> Traced:
    """``yes`` where ``condition`` is true, else ``no``; the common dtype of the two."""
    args = (condition, yes, no)
    b = builder_of(args, "where")
    try:
        dtype = types.numpy_common((operand_kind(yes, "where"), operand_kind(no, "where")))
        kind = operand_kind(condition, "where")
    except TypeError as error:
        raise at_user_line(KernelTypeError(f"where: {error}")) from None
    test = node_of(b, condition, BOOL) if isinstance(kind, type) else b.truth(node_of(b, condition, kind))
    return Traced(b, b.select(test, node_of(b, yes, dtype), node_of(b, no, dtype)))


def clip(x: Any, min: Any = None, max: Any = None) -> Traced:  # noqa: A002 - the Array API's names
    """``x`` from ``min`` to ``max``, in the dtype of NumPy's ufunc of all three.

    A bound of None does nothing, nor does a Python int at or beyond that end of the integer dtype of ``x``.
    """
    if not isinstance(x, Value):
        x = np.asarray(x)[()]  # in NumPy a number that is clipped has a dtype of its own; a bound has none
    dtype = x.dtype
    if is_integer(dtype):
        least, most = (int(each) for each in (np.iinfo(dtype).min, np.iinfo(dtype).max))
        min = None if _is_int(min) and asked(min, functools.partial(operator.ge, least)) else min  # noqa: A001
        max = None if _is_int(max) and asked(max, functools.partial(operator.le, most)) else max  # noqa: A001
    bounds = [each for each in (min, max) if each is not None]
    b = builder_of((x, *bounds), "clip")
    try:
        common = types.numpy_common((dtype, *(operand_kind(each, "clip") for each in bounds)))
        if bounds and is_complex(common):
            raise KernelTypeError(f"clip of {common} is not defined: complex numbers have no order; clip real and imag")
        node, *limits = (node_of(b, each, common) for each in (x, *bounds))
    except KernelError as error:
        raise at_user_line(error) from None
    for name, limit in zip(
        [name for name, each in (("max", min), ("min", max)) if each is not None], limits, strict=True
    ):
        node = b.op({"max": "or", "min": "and"}[name] if common == BOOL else name, node, limit)
    return Traced(b, node)


def _is_int(value: Any) -> bool:
    return (value.kind if isinstance(value, Value) else type(value)) is int


def _numpys_clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, **options: Any  # noqa: A002
) -> Traced:  # fmt: skip
    """`numpy.clip`: the bounds have two names each."""
    if out is not None or options:
        raise at_user_line(
            KernelTypeError(
                "clip of an element takes no out= and no options of a ufunc; leave them out: the result is new"
            )
        )
    if (a_min is not None and min is not None) or (a_max is not None and max is not None):
        raise at_user_line(KernelTypeError("clip got a bound twice, as a_min and min or a_max and max; leave out one"))
    return clip(a, min if a_min is None else a_min, max if a_max is None else a_max)


def astype(x: Any, dtype: Any) -> Traced:
    """``x`` converted: floats to integers saturate, NaN gives 0."""
    from xferlib._core.array import check_dtype

    b = builder_of((x,), "astype")
    return Traced(b, b.cast(x.node, check_dtype(dtype, what="astype")))
