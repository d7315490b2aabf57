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

from xferlib._runtime.checks import whole
from xferlib.errors import KernelTypeError, shown
from xferlib.kernels import autograd
from xferlib.kernels import complex_formulas as lower_complex
from xferlib.kernels import formulas as lower
from xferlib.kernels.definitions import ArgumentKind
from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
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
        if dtypes[0].kind not in self._kinds:
            raise KernelTypeError(f"{self.name}() is not defined for {dtypes[0]}; convert it first")
        return self._make(dtypes)


def _input(dtype: DType, name: str = "x") -> Param:
    return Param(name=name, dtype=dtype)


def _sum_dtype(dtype: DType) -> DType:
    if dtype.kind in "bi":
        return INT64
    if dtype.kind == "u":
        return UINT64
    return FLOAT32 if dtype == FLOAT16 else dtype


def _parts(b: Builder, value: Node) -> Nodes:
    """The accumulators of a value: a real one, or the two parts of a complex one."""
    return [b.real(value), b.imag(value)] if is_complex(value.dtype) else [value]


def _whole(b: Builder, parts: Nodes) -> Node:
    return parts[0] if len(parts) == 1 else b.complex(parts[0], parts[1])


def _each(op: str) -> Callable[[Builder, Nodes, Nodes], Nodes]:
    return lambda b, x, y: [b.op(op, one, two) for one, two in zip(x, y, strict=True)]


def _make_sum(dtypes: tuple[DType, ...]) -> ReductionSpec:
    dtype = dtypes[0]
    wide = _sum_dtype(dtype)
    result = dtype if is_float(dtype) else wide
    return build_reduction(
        [_input(dtype)],
        lambda b, x: _parts(b, b.cast(x[0], wide)),
        _each("add"),
        lambda b, a, n, m: [b.cast(_whole(b, a), result)],
        identity=(0, 0) if is_complex(dtype) else (0,),
        shortcut=None if dtype.kind in "fc" else lambda x: np.sum(x, axis=-1, dtype=wide),
    )


def _make_dot(dtypes: tuple[DType, ...]) -> ReductionSpec:
    result = np.result_type(*dtypes)
    wide = _sum_dtype(result)

    def product(b: Builder, x: Nodes) -> Nodes:
        one, two = (b.cast(each, wide) for each in x)
        if is_complex(wide):
            return _parts(b, lower_complex.complex_multiply(b, one, two))
        return [b.op("mul", one, two)]

    return build_reduction(
        [_input(dtypes[0]), _input(dtypes[1], "y")],
        product,
        _each("add"),
        lambda b, a, n, m: [b.cast(_whole(b, a), result if is_float(result) else wide)],
        identity=(0, 0) if is_complex(wide) else (0,),
    )


def _make_prod(dtypes: tuple[DType, ...]) -> ReductionSpec:
    dtype = dtypes[0]
    wide = _sum_dtype(dtype)
    result = dtype if is_float(dtype) else wide

    def times(b: Builder, x: Nodes, y: Nodes) -> Nodes:
        if len(x) == 1:
            return [b.op("mul", x[0], y[0])]
        return _parts(b, lower_complex.complex_multiply(b, _whole(b, x), _whole(b, y)))

    return build_reduction(
        [_input(dtype)],
        lambda b, x: _parts(b, b.cast(x[0], wide)),
        times,
        lambda b, a, n, m: [b.cast(_whole(b, a), result)],
        identity=(1, 0) if is_complex(dtype) else (1,),
        shortcut=None if dtype.kind in "fc" else lambda x: np.prod(x, axis=-1, dtype=wide),
    )


def _make_extremum(op: str) -> Maker:
    def make(dtypes: tuple[DType, ...]) -> ReductionSpec:
        dtype = dtypes[0]
        chosen = {"min": "and", "max": "or"}[op] if dtype == BOOL else op
        return build_reduction(
            [_input(dtype)],
            lambda b, x: [x[0]],
            _each(chosen),
            lambda b, a, n, m: [a[0]],
            identity=None,
            shortcut=None if is_float(dtype) else lambda x: getattr(np, op)(x, axis=-1),  # NumPy takes either zero
        )

    return make


def _make_logical(op: str) -> Maker:
    def make(dtypes: tuple[DType, ...]) -> ReductionSpec:
        return build_reduction(
            [_input(dtypes[0])],
            lambda b, x: [b.truth(x[0])],
            _each(op),
            lambda b, a, n, m: [a[0]],
            identity=(op == "and",),
            shortcut=lambda x: (np.all if op == "and" else np.any)(x, axis=-1),
        )

    return make


def _make_arg(op: str) -> Maker:
    def make(dtypes: tuple[DType, ...]) -> ReductionSpec:
        dtype = dtypes[0]

        def first(b: Builder, x: Nodes, y: Nodes) -> Nodes:
            """The better value and its index; of equal values, and of NaNs, the one with the lower index."""
            better = b.op("lt" if op == "min" else "gt", x[0], y[0])
            same = b.op("eq", x[0], y[0])
            if is_float(dtype):
                x_nan, y_nan = lower.isnan(b, x[0]), lower.isnan(b, y[0])
                better = b.op("or", better, b.op("and", x_nan, b.op("not", y_nan)))
                same = b.op("or", same, b.op("and", x_nan, y_nan))
            takes_x = b.op("or", better, b.op("and", same, b.op("lt", x[1], y[1])))
            return [b.select(takes_x, one, two) for one, two in zip(x, y, strict=True)]

        return build_reduction(
            [_input(dtype)],
            lambda b, x: [x[0], b.index()],
            first,
            lambda b, a, n, m: [a[1]],
            identity=None,
            shortcut=lambda x: getattr(np, f"arg{op}")(x, axis=-1),
        )

    return make


def _float_dtype(dtype: DType) -> DType:
    return dtype if is_float(dtype) or is_complex(dtype) else FLOAT64


def _count(b: Builder, in_size: Node, out_size: Node, dtype: DType) -> Node:
    return b.cast(b.op("idiv", in_size, out_size), dtype)


def _make_mean(dtypes: tuple[DType, ...]) -> ReductionSpec:
    result = _float_dtype(dtypes[0])
    wide = _sum_dtype(result)

    def finish(b: Builder, a: Nodes, n: Node, m: Node) -> Nodes:
        count = _count(b, n, m, a[0].dtype)
        return [b.cast(_whole(b, [b.op("div", part, count) for part in a]), result)]

    return build_reduction(
        [_input(dtypes[0])],
        lambda b, x: _parts(b, b.cast(x[0], wide)),
        _each("add"),
        finish,
        identity=(0, 0) if is_complex(result) else (0,),
    )


def _squared_size(b: Builder, value: Node) -> Node:
    parts = [b.op("mul", part, part) for part in _parts(b, value)]
    return parts[0] if len(parts) == 1 else b.op("add", parts[0], parts[1])


def _make_norm(dtypes: tuple[DType, ...]) -> ReductionSpec:
    wide = _sum_dtype(_float_dtype(dtypes[0]))
    result = part_dtype(wide) if is_complex(wide) else _float_dtype(dtypes[0])
    return build_reduction(
        [_input(dtypes[0])],
        lambda b, x: [_squared_size(b, b.cast(x[0], wide))],
        _each("add"),
        lambda b, a, n, m: [b.cast(b.op("sqrt", a[0]), result)],
        identity=(0,),
    )


def _make_spread(ddof: int) -> Maker:
    def make(dtypes: tuple[DType, ...]) -> ReductionSpec:
        wide = _sum_dtype(_float_dtype(dtypes[0]))
        result = part_dtype(wide) if is_complex(wide) else _float_dtype(dtypes[0])

        def deviation(b: Builder, x: Nodes) -> Nodes:
            pairs = zip(_parts(b, b.cast(x[0], wide)), _parts(b, b.cast(x[1], wide)), strict=True)
            parts = [b.op("sub", one, two) for one, two in pairs]
            return [_squared_size(b, _whole(b, parts))]

        def finish(b: Builder, a: Nodes, n: Node, m: Node) -> Nodes:
            count = b.op("max", b.op("sub", b.op("idiv", n, m), b.const(ddof, INT64)), b.const(0, INT64))
            return [b.cast(b.op("div", a[0], b.cast(count, a[0].dtype)), result)]

        inputs = [_input(dtypes[0]), _input(dtypes[1], "mean")]
        return build_reduction(inputs, deviation, _each("add"), finish, identity=(0,))

    return make


def _kernel(name: str, make: Maker, kinds: str, names: tuple[str, ...] = ("x",)) -> ReductionKernel:
    kernel = ReductionKernel(BuiltIn(name, names, make, kinds))
    kernel.__module__ = __name__  # where pickle finds it
    return kernel


sum = _kernel("sum", _make_sum, "biufc")  # noqa: A001 - the names are NumPy's
prod = _kernel("prod", _make_prod, "biufc")
min = _kernel("min", _make_extremum("min"), "biuf")  # noqa: A001
max = _kernel("max", _make_extremum("max"), "biuf")  # noqa: A001
any = _kernel("any", _make_logical("or"), "biufc")  # noqa: A001
all = _kernel("all", _make_logical("and"), "biufc")  # noqa: A001
argmin = _kernel("argmin", _make_arg("min"), "biuf")
argmax = _kernel("argmax", _make_arg("max"), "biuf")
mean = _kernel("mean", _make_mean, "biufc")
norm = _kernel("norm", _make_norm, "biufc")
dot = _kernel("dot", _make_dot, "biufc", ("x", "y"))

autograd.sum_by(sum)

_spreads: dict[int, ReductionKernel] = {}


def var(x: Any, axis: Axis = None, *, ddof: int = 0, keepdims: bool = False, out: Any = None) -> Any:
    """The mean of the squared deviations from the mean: two passes.

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
            raise KernelTypeError(f"var(): ddof={shown(ddof)} is no int of 32 bits; give one")
        ddof = number
    spread = _spreads.get(ddof)
    if spread is None:
        spread = _spreads.setdefault(ddof, _kernel("var", _make_spread(ddof), "biufc", ("x", "mean")))
    return spread(x, mean(x, axis=axis, keepdims=True), axis=axis, keepdims=keepdims, out=out)


@functools.cache
def _subset() -> ElementwiseKernel:
    """Made at the first use: to parse a snippet takes longer than to import this module."""
    return elementwise("raw T x, S subset", "T y", "y = x[subset]", name="subset")


def _taken(x: Any, subset: Any) -> Any:
    return _subset()(x, subset)


def subset_sum(subset: Any, x: Any, *, out: Any = None) -> Any:
    """The sum of the elements of ``x`` at the indices ``subset``, integers that may repeat; see `sum`."""
    return sum(_taken(x, subset), out=out)


def subset_min(subset: Any, x: Any, *, out: Any = None) -> Any:
    """The least of the elements of ``x`` at the indices ``subset``; see `min`."""
    return min(_taken(x, subset), out=out)


def subset_max(subset: Any, x: Any, *, out: Any = None) -> Any:
    """The greatest of the elements of ``x`` at the indices ``subset``; see `max`."""
    return max(_taken(x, subset), out=out)


def subset_dot(subset: Any, x: Any, y: Any, *, out: Any = None) -> Any:
    """The sum of the products of the elements of ``x`` and ``y`` at the indices ``subset``; see `dot`."""
    return dot(_taken(x, subset), _taken(y, subset), out=out)
