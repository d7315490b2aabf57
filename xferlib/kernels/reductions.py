"""Ready-made reductions, from ``sum`` and ``argmax`` to ``var`` and ``norm``.

Each takes ``(x, axis=None, keepdims=False, out=None)``. Integers and bool are summed in 64 bits, float16 in
float32; ``mean``, ``var`` and ``norm`` of integers are float64. NaN propagates. ``argmin`` and ``argmax`` give the
first of several, in C order along the reduced axes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib._core.dtypes import kind_of, small_float
from xferlib._runtime.checks import whole
from xferlib.errors import KernelTypeError, quote
from xferlib.kernels import autograd, complex_formulas, formulas
from xferlib.kernels.definitions import ArgumentKind
from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
from xferlib.kernels.functions import numpy_common
from xferlib.kernels.ir import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    UINT64,
    Builder,
    DType,
    Node,
    Param,
    ReductionSpec,
    build_reduction,
    is_complex,
    is_float,
    part_dtype,
    result_of_float32,
)
from xferlib.kernels.reduction import Axis, ReductionKernel

__all__ = [
    "all", "any", "argmax", "argmin", "dot", "max", "mean", "min", "norm", "prod", "subset_dot", "subset_max",
    "subset_min", "subset_sum", "sum", "var",
]  # fmt: skip

Nodes = list[Node]
Maker = Callable[[tuple[DType, ...]], ReductionSpec]


class BuiltIn:
    """A reduction written in nodes."""

    def __init__(self, name: str, names: tuple[str, ...], make: Maker, kinds: str) -> None:
        self.name = name
        self.names = names
        self._make = make
        self._kinds = kinds

    def specialize(self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int]) -> ReductionSpec:
        dtypes = tuple(each for each in kinds if isinstance(each, np.dtype))
        if scalars or len(dtypes) != len(self.names):
            raise KernelTypeError(f"{self.name}() takes {len(self.names)} array(s); pass numbers as arrays")
        if kind_of(dtypes[0]) not in self._kinds:
            raise KernelTypeError(f"{self.name}() is not defined for {dtypes[0]}; convert it first")
        return self._make(dtypes)


def _sum_dtype(dtype: DType) -> DType:
    if dtype.kind in "bi":
        return INT64
    if dtype.kind == "u":
        return UINT64
    return FLOAT32 if dtype == FLOAT16 else _wide(dtype)


def _wide(dtype: DType) -> DType:
    """The dtype of an accumulator: of a small float float32, which holds each of them."""
    return dtype if small_float(dtype) is None else FLOAT32


def _narrow(dtype: DType) -> DType:
    """The dtype of a result: of float8 float32, as of all that is computed with it."""
    return dtype if small_float(dtype) is None else result_of_float32(dtype)


def _parts(b: Builder, value: Node) -> Nodes:
    """The accumulators of a value: a real one, or the two parts of a complex one."""
    return [b.real(value), b.imag(value)] if is_complex(value.dtype) else [value]


def _whole(b: Builder, parts: Nodes) -> Node:
    return parts[0] if len(parts) == 1 else b.complex(parts[0], parts[1])


def _each(op: str) -> Callable[[Builder, Nodes, Nodes], Nodes]:
    return lambda b, x, y: [b.op(op, one, two) for one, two in zip(x, y, strict=True)]


def _times(b: Builder, x: Nodes, y: Nodes) -> Nodes:
    """The product of two accumulators."""
    if len(x) == 1:
        return [b.op("mul", x[0], y[0])]
    return _parts(b, complex_formulas.complex_multiply(b, _whole(b, x), _whole(b, y)))


_add = _each("add")


def _accumulate(
    dtypes: tuple[DType, ...],
    wide: DType,
    mapping: Callable[[Builder, Nodes], Nodes],
    finishing: Callable[..., Node],
    *,
    names: tuple[str, ...] = ("x",),
    combining: Callable[[Builder, Nodes, Nodes], Nodes] = _add,
    start: int = 0,
    shortcut: Any = None,
    firsts: tuple[int, ...] = (),
) -> ReductionSpec:
    """The accumulation, from ``start``, of what is mapped from inputs that are converted to ``wide`` before."""
    inputs = [Param(name=name, dtype=dtype) for name, dtype in zip(names, dtypes, strict=True)]
    return build_reduction(
        inputs,
        lambda b, x: mapping(b, [b.cast(each, wide) for each in x]),
        combining,
        lambda b, a, n, m: [finishing(b, a, n, m)],
        identity=start,
        shortcut=shortcut,
        firsts=firsts,
    )


def _make_total(op: str) -> Maker:
    def make(dtypes: tuple[DType, ...]) -> ReductionSpec:
        dtype = dtypes[0]
        wide = _sum_dtype(dtype)
        result = _narrow(dtype) if is_float(dtype) else wide
        numpys = np.sum if op == "add" else np.prod
        return _accumulate(
            dtypes,
            wide,
            lambda b, x: _parts(b, x[0]),
            lambda b, a, n, m: b.cast(_whole(b, a), result),
            combining=_add if op == "add" else _times,
            start=int(op == "mul"),
            shortcut=None if dtype.kind in "fc" else lambda x: numpys(x, axis=-1, dtype=wide),
        )

    return make


def _make_dot(dtypes: tuple[DType, ...]) -> ReductionSpec:
    result = numpy_common(dtypes)
    wide = _sum_dtype(result)
    return _accumulate(
        dtypes,
        wide,
        lambda b, x: _times(b, _parts(b, x[0]), _parts(b, x[1])),
        lambda b, a, n, m: b.cast(_whole(b, a), _narrow(result) if is_float(result) else wide),
        names=("x", "y"),
    )


def _float_dtypes(dtype: DType) -> tuple[DType, DType]:
    """The dtype in which a mean is computed, and that of a real result."""
    result = _narrow(dtype) if is_float(dtype) or is_complex(dtype) else FLOAT64
    wide = _sum_dtype(result)
    return wide, part_dtype(wide) if is_complex(wide) else result


def _make_mean(dtypes: tuple[DType, ...]) -> ReductionSpec:
    wide, real = _float_dtypes(dtypes[0])
    result = wide if is_complex(wide) else real

    def finish(b: Builder, a: Nodes, n: Node, m: Node) -> Node:
        count = b.cast(b.op("idiv", n, m), a[0].dtype)
        return b.cast(_whole(b, [b.op("div", part, count) for part in a]), result)

    return _accumulate(dtypes, wide, lambda b, x: _parts(b, x[0]), finish)


def _square_size(b: Builder, value: Node) -> Nodes:
    parts = [b.op("mul", part, part) for part in _parts(b, value)]
    return parts if len(parts) == 1 else [b.op("add", parts[0], parts[1])]


def _make_norm(dtypes: tuple[DType, ...]) -> ReductionSpec:
    wide, result = _float_dtypes(dtypes[0])
    finish = lambda b, a, n, m: b.cast(b.op("sqrt", a[0]), result)
    return _accumulate(dtypes, wide, lambda b, x: _square_size(b, x[0]), finish)


def _divide_squares(b: Builder, squares: Node, n: Node, m: Node, ddof: int, result: DType) -> Node:
    """The sum of squares over the number of elements less ``ddof``."""
    count = b.op("max", b.op("sub", b.op("idiv", n, m), b.const(ddof, INT64)), b.const(0, INT64))
    return b.cast(b.op("div", squares, b.cast(count, squares.dtype)), result)


def _deviation(b: Builder, x: Nodes) -> Nodes:
    pairs = zip(_parts(b, x[0]), _parts(b, x[1]), strict=True)
    return [b.op("sub", one, two) for one, two in pairs]


def _make_spread(ddof: int) -> Maker:
    """The variance in one pass, from the elements and the first of each result.

    Two sets of elements have, with ``d`` the difference of their means and ``n`` their numbers, the sum of squares
    ``s1 + s2 + d^2 n1 n2 / (n1 + n2)``: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing
    sample variances", 1979. The first element is subtracted before, so that a large mean costs no digits.
    """

    def make(dtypes: tuple[DType, ...]) -> ReductionSpec:
        wide, result = _float_dtypes(dtypes[0])

        def start(b: Builder, x: Nodes) -> Nodes:
            """The number of elements, their sum of squares, and their mean."""
            mean = _deviation(b, x)
            return [b.const(1, mean[0].dtype), b.const(0, mean[0].dtype), *mean]

        def join(b: Builder, x: Nodes, y: Nodes) -> Nodes:
            count = b.op("add", x[0], y[0])
            share = b.op("div", y[0], count)
            apart = [b.op("sub", two, one) for one, two in zip(x[2:], y[2:], strict=True)]
            means = [b.op("add", one, b.op("mul", each, share)) for one, each in zip(x[2:], apart, strict=True)]
            (size,) = _square_size(b, _whole(b, apart))
            between = b.op("mul", size, b.op("mul", x[0], share))
            return [count, b.op("add", b.op("add", x[1], y[1]), between), *means]

        def finish(b: Builder, a: Nodes, n: Node, m: Node) -> Node:
            squares = a[1]
            for each in a[2:]:  # of an infinite mean NaN, where the squares may be infinite
                squares = b.op("add", squares, b.op("sub", each, each))
            return _divide_squares(b, squares, n, m, ddof, result)

        return _accumulate(dtypes * 2, wide, start, finish, names=("x", "first"), combining=join, firsts=(0,))

    return make


def _make_slope(ddof: int) -> Maker:
    """The variance from the elements and their mean, which is the form with a derivative."""

    def make(dtypes: tuple[DType, ...]) -> ReductionSpec:
        wide, result = _float_dtypes(dtypes[0])
        square = lambda b, x: _square_size(b, _whole(b, _deviation(b, x)))
        finish = lambda b, a, n, m: _divide_squares(b, a[0], n, m, ddof, result)
        return _accumulate(dtypes, wide, square, finish, names=("x", "mean"))

    return make


def _make_choice(combine: Callable[[DType], str], numpys: str, *, identity: bool | None = None) -> Maker:
    """The least, the greatest, or whether all or any are true: NumPy's reduction is the same in any order."""

    def make(dtypes: tuple[DType, ...]) -> ReductionSpec:
        dtype, is_logical = dtypes[0], identity is not None
        return build_reduction(
            [Param(name="x", dtype=dtype)],
            lambda b, x: [b.truth(x[0]) if is_logical else b.cast(x[0], _wide(dtype))],
            _each(combine(dtype)),
            lambda b, a, n, m: [a[0] if is_logical else b.cast(a[0], _narrow(dtype))],
            identity=(identity,) if is_logical else None,
            # Of floats NumPy takes either zero.
            shortcut=None if is_float(dtype) and not is_logical else lambda x: getattr(np, numpys)(x, axis=-1),
        )

    return make


def _make_arg(op: str) -> Maker:
    def make(dtypes: tuple[DType, ...]) -> ReductionSpec:
        dtype = dtypes[0]

        def first(b: Builder, x: Nodes, y: Nodes) -> Nodes:
            """The better value and its index; of equal values, and of NaNs, the left, whose index is lower."""
            better = b.op("lt" if op == "min" else "gt", y[0], x[0])
            if is_float(dtype):
                x_nan, y_nan = formulas.isnan(b, x[0]), formulas.isnan(b, y[0])
                better = b.op("and", b.op("or", better, y_nan), b.op("not", x_nan))
            return [b.select(better, two, one) for one, two in zip(x, y, strict=True)]

        return build_reduction(
            [Param(name="x", dtype=dtype)],
            lambda b, x: [b.cast(x[0], _wide(dtype)), b.index()],
            first,
            lambda b, a, n, m: [a[1]],
            identity=None,
            shortcut=lambda x: getattr(np, f"arg{op}")(x, axis=-1),
            chooses=op,
        )

    return make


def _kernel(
    name: str, make: Maker, kinds: str, names: tuple[str, ...] = ("x",), evaluate: Callable[..., Any] | None = None
) -> ReductionKernel:
    kernel = ReductionKernel(BuiltIn(name, names, make, kinds), evaluate)
    kernel.__module__ = __name__  # where pickle finds it
    return kernel


sum = _kernel("sum", _make_total("add"), "biufc")  # noqa: A001 - the names are NumPy's
prod = _kernel("prod", _make_total("mul"), "biufc")
min = _kernel("min", _make_choice(lambda dtype: "and" if dtype == BOOL else "min", "min"), "biuf")  # noqa: A001
max = _kernel("max", _make_choice(lambda dtype: "or" if dtype == BOOL else "max", "max"), "biuf")  # noqa: A001
any = _kernel("any", _make_choice(lambda _: "or", "any", identity=False), "biufc")  # noqa: A001
all = _kernel("all", _make_choice(lambda _: "and", "all", identity=True), "biufc")  # noqa: A001
argmin = _kernel("argmin", _make_arg("min"), "biuf")
argmax = _kernel("argmax", _make_arg("max"), "biuf")
mean = _kernel("mean", _make_mean, "biufc")
norm = _kernel("norm", _make_norm, "biufc")
dot = _kernel("dot", _make_dot, "biufc", ("x", "y"))

autograd.sum_by(sum)

_spreads: dict[int, ReductionKernel] = {}
"""By ``ddof``."""


def var(x: Any, axis: Axis = None, *, ddof: int = 0, keepdims: bool = False, out: Any = None) -> Any:
    """The mean of the squared deviations from the mean, in one pass.

    Args:
        x: An array.
        axis: The axis or axes; all if None.
        ddof: Subtracted from the number of elements in the divisor, which is 0 where that leaves less.
        keepdims: Keep the reduced axes with extent 1.
        out: The result; a new array if omitted.
    """
    if type(ddof) is not int or not -(1 << 31) <= ddof < 1 << 31:
        number = whole(ddof, least=-(1 << 31))
        if number is None or number >= 1 << 31:
            raise KernelTypeError(f"var(): ddof={quote(ddof)} is not an int of 32 bits; give one")
        ddof = number
    found = _spreads.get(ddof)
    if found is None:
        found = _spreads.setdefault(ddof, _make_var(ddof))
    if out is None:  # which C knows
        return found(x, axis=axis, keepdims=keepdims)
    return found(x, axis=axis, keepdims=keepdims, out=out)


def _make_var(ddof: int) -> ReductionKernel:
    """The variance in one pass, which is that from the mean for tensors that torch follows."""
    evaluate = lambda x, _, *, axis, keepdims: var(x, axis, ddof=ddof, keepdims=keepdims)
    slope = _kernel("var", _make_slope(ddof), "biufc", ("x", "mean"), evaluate)
    spread = _kernel("var", _make_spread(ddof), "biufc")
    spread._follow_by(
        lambda args, axis, out, keepdims: slope(
            *args, *(mean(x, axis=axis, keepdims=True) for x in args), axis=axis, keepdims=keepdims, out=out
        )
    )
    return spread


@functools.cache
def _subset() -> ElementwiseKernel:
    """Made at the first use: to parse a snippet takes longer than to import this module."""
    return elementwise("raw T x, S subset", "T y", "y = x[subset]", name="subset")


def _take(x: Any, subset: Any) -> Any:
    return _subset()(x, subset)


def subset_sum(subset: Any, x: Any, *, out: Any = None) -> Any:
    """The sum of the elements of ``x`` at the indices ``subset``, integers that may repeat; see `sum`."""
    return sum(_take(x, subset), out=out)


def subset_min(subset: Any, x: Any, *, out: Any = None) -> Any:
    """The least of the elements of ``x`` at the indices ``subset``; see `min`."""
    return min(_take(x, subset), out=out)


def subset_max(subset: Any, x: Any, *, out: Any = None) -> Any:
    """The greatest of the elements of ``x`` at the indices ``subset``; see `max`."""
    return max(_take(x, subset), out=out)


def subset_dot(subset: Any, x: Any, y: Any, *, out: Any = None) -> Any:
    """The sum of the products of the elements of ``x`` and ``y`` at the indices ``subset``; see `dot`."""
    return dot(_take(x, subset), _take(y, subset), out=out)
