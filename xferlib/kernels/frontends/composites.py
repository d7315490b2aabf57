"""Functions of traced values that are made of others: NumPy's with two results, and those of `scipy.special`.

The dtypes are those of NumPy's or SciPy's function, which the caller gives; without one, as for NumPy's ``sqrt``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib.errors import KernelTypeError
from xferlib.kernels.frontends import traced
from xferlib.kernels.frontends.promotion import builder_of, node_of, operand_kind
from xferlib.kernels.frontends.traced import Traced
from xferlib.kernels.ir import types
from xferlib.kernels.ir.formulas import bit_functions, exponents, special_functions
from xferlib.kernels.ir.nodes import BOOL, FLOAT16, FLOAT32, UINT8, DType, Node
from xferlib.kernels.source_lines import at_user_line

Pair = tuple[Traced, Traced]
_value: Any = traced.Traced  # whose operators are made at run time
_apply: Any = traced.apply
_where: Any = traced.where


def _dtypes(name: str, ufunc: np.ufunc, args: tuple[Any, ...]) -> tuple[DType, ...]:
    """The dtypes that ``ufunc`` converts its operands to."""
    kinds = [operand_kind(each, name) for each in args]
    if not any(isinstance(each, np.dtype) for each in kinds):
        kinds = [each if isinstance(each, np.dtype) else types.PYTHON_TYPES[each] for each in kinds]
    try:
        given: Any = (*kinds, *[None] * ufunc.nout)
        found = ufunc.resolve_dtypes(given)[: len(args)]
    except TypeError:
        found = ()
    if not found or found[0].kind == "c":
        names = ", ".join(each.__name__ if isinstance(each, type) else str(each) for each in kinds)
        raise at_user_line(KernelTypeError(f"{name}({names}) is not defined; convert with astype(...)"))
    return tuple(map(np.dtype, found))


def _nodes(name: str, args: tuple[Any, ...], ufunc: np.ufunc) -> list[Node]:
    if len(args) != ufunc.nin:
        raise at_user_line(
            KernelTypeError(f"{name}() takes {ufunc.nin} operand(s), {len(args)} were given; see the reference")
        )
    b = builder_of(args, name)
    return [node_of(b, each, dtype) for each, dtype in zip(args, _dtypes(name, ufunc, args), strict=True)]


# --- two results


def frexp(x: Any, /, *, ufunc: np.ufunc = np.frexp) -> Pair:
    """The fraction from 0.5 up to 1, and the exponent as an int32."""
    b = builder_of((x,), "frexp")
    fraction, exponent = exponents.frexp(b, *_nodes("frexp", (x,), ufunc))
    return _value(b, fraction), _value(b, exponent)


def modf(x: Any, /, *, ufunc: np.ufunc = np.modf) -> Pair:
    """The fraction and the whole part."""
    b = builder_of((x,), "modf")
    rest, whole = exponents.modf(b, *_nodes("modf", (x,), ufunc))
    return _value(b, rest), _value(b, whole)


def divmod_(x: Any, y: Any, /, *, ufunc: np.ufunc | None = None) -> Pair:  # noqa: ARG001 - as of all ufuncs
    """``x // y`` and ``x % y``."""
    return _apply("floor_divide", (x, y)), _apply("remainder", (x, y))


# --- one result


def ldexp(x: Any, exponent: Any, /, *, ufunc: np.ufunc = np.ldexp) -> Any:
    """``x * 2 ** exponent``, rounded once."""
    b = builder_of((x, exponent), "ldexp")
    return _value(b, exponents.ldexp(b, *_nodes("ldexp", (x, exponent), ufunc)))


def heaviside(x: Any, middle: Any, /, *, ufunc: np.ufunc = np.heaviside) -> Any:
    """0 below 0, 1 above it, and ``middle`` at 0; NaN of NaN."""
    b = builder_of((x, middle), "heaviside")
    number, half = _nodes("heaviside", (x, middle), ufunc)
    zero, one = b.const(0, number.dtype), b.const(1, number.dtype)
    found = b.select(b.op("eq", number, zero), half, b.select(b.op("lt", number, zero), zero, one))
    return _value(b, b.select(b.op("eq", number, number), found, b.const(np.nan, number.dtype)))


def float_power(x: Any, y: Any, /, *, ufunc: np.ufunc = np.float_power) -> Any:
    """``x ** y`` in float64."""
    b = builder_of((x, y), "float_power")
    base, exponent = _nodes("float_power", (x, y), ufunc)
    return _apply("power", (_value(b, base), _value(b, exponent)))


def logaddexp2(x: Any, y: Any, /, *, ufunc: np.ufunc = np.logaddexp2) -> Any:
    """``log2(2 ** x + 2 ** y)``."""
    b = builder_of((x, y), "logaddexp2")
    left, right = (_value(b, each) for each in _nodes("logaddexp2", (x, y), ufunc))
    decay = _apply("exp2", (-abs(left - right),))
    found = _apply("maximum", (left, right)) + _apply("log1p", (decay,)) * float(1 / np.log(2.0))
    return _where(_apply("equal", (left, right)), left + 1, found)


def _scaled(name: str, numerator: float, denominator: float) -> Callable[..., Traced]:
    numpys: np.ufunc = getattr(np, name)

    def scaled(x: Any, /, *, ufunc: np.ufunc = numpys) -> Any:
        b = builder_of((x,), name)
        (node,) = _nodes(name, (x,), ufunc)
        wide = node if node.dtype != FLOAT16 else b.cast(node, FLOAT32)
        factor = wide.dtype.type(numerator) / wide.dtype.type(denominator)  # as C divides the constants
        return _value(b, b.cast(b.op("mul", wide, b.const(factor, wide.dtype)), node.dtype))

    return scaled


def spacing(x: Any, /, *, ufunc: np.ufunc = np.spacing) -> Any:
    """The distance to the next number away from 0."""
    b = builder_of((x,), "spacing")
    (node,) = _nodes("spacing", (x,), ufunc)
    number = _value(b, node)
    limit = _where(_apply("less", (number, 0)), -np.inf, np.inf).astype(node.dtype)
    return _apply("nextafter", (number, limit)) - number


def bitwise_count(x: Any, /, *, ufunc: np.ufunc | None = None) -> Any:
    """The ones among the bits of ``abs(x)``, as uint8."""
    b = builder_of((x,), "bitwise_count")
    (node,) = _nodes("bitwise_count", (x,), ufunc or np.bitwise_count)
    if node.dtype == BOOL:
        return _value(b, b.cast(node, UINT8))
    size = node if node.dtype.kind == "u" else b.op("abs", node)  # the least int keeps its one bit
    unsigned = b.cast(size, np.dtype(f"u{node.dtype.itemsize}"))
    long = bit_functions.FUNCTIONS["__popcll"](b, unsigned)
    return _value(b, b.cast(long, UINT8))


def _special(name: str, formula: str) -> Callable[..., Traced]:
    def special(x: Any, /, *, ufunc: np.ufunc = np.sqrt) -> Any:
        b = builder_of((x,), name)
        return _value(b, special_functions.lowered(b, formula, *_nodes(name, (x,), ufunc)))

    return special


def expit(x: Any, /, *, ufunc: np.ufunc = np.sqrt) -> Any:
    """``1 / (1 + exp(-x))``."""
    b = builder_of((x,), "expit")
    number = _value(b, *_nodes("expit", (x,), ufunc))
    return 1 / (_apply("exp", (-number,)) + 1)


def logit(x: Any, /, *, ufunc: np.ufunc = np.sqrt) -> Any:
    """``log(x / (1 - x))``."""
    b = builder_of((x,), "logit")
    number = _value(b, *_nodes("logit", (x,), ufunc))
    return _apply("log", (number / (1 - number),))


def xlogy(x: Any, y: Any, /, *, ufunc: np.ufunc = np.arctan2) -> Any:
    """``x * log(y)``, and 0 where ``x`` is 0 and ``y`` no NaN."""
    b = builder_of((x, y), "xlogy")
    left, right = (_value(b, each) for each in _nodes("xlogy", (x, y), ufunc))
    is_none = _apply("equal", (left, 0)) & ~_apply("isnan", (right,))
    return _where(is_none, 0, left * _apply("log", (right,)))


_SPECIAL = {
    "erf": "erf", "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv", "erfcinv": "erfcinv", "ndtr": "normcdf",
    "ndtri": "normcdfinv", "gamma": "tgamma", "gammaln": "lgamma", "i0": "cyl_bessel_i0", "exp10": "exp10",
}  # fmt: skip
"""SciPy's names, and CUDA's for the formula."""

UFUNCS: dict[str, Callable[..., Any]] = {
    "frexp": frexp, "modf": modf, "divmod": divmod_, "ldexp": ldexp, "heaviside": heaviside,
    "float_power": float_power, "logaddexp2": logaddexp2, "spacing": spacing, "bitwise_count": bitwise_count,
    "expit": expit, "logit": logit, "xlogy": xlogy,
    **{name: _scaled(name, np.pi, 180) for name in ("deg2rad", "radians")},
    **{name: _scaled(name, 180, np.pi) for name in ("rad2deg", "degrees")},
    **{name: _special(name, formula) for name, formula in _SPECIAL.items()},
}  # fmt: skip
"""By the name of the ufunc; each takes the operands, and the ufunc as ``ufunc=``."""


# --- functions of NumPy that are no ufuncs


def _isposinf(x: Any) -> Any:
    return _apply("isinf", (x,)) & _apply("greater", (x, 0))


def _isneginf(x: Any) -> Any:
    return _apply("isinf", (x,)) & _apply("less", (x, 0))


def _is_real(x: Any) -> Any:
    return _apply("equal", (_apply("imag", (x,)), 0))


def _is_complex(x: Any) -> Any:
    return _apply("not_equal", (_apply("imag", (x,)), 0))


def _angle(z: Any, deg: bool = False) -> Any:
    parts = (_apply("imag", (z,)), _apply("real", (z,))) if z.dtype.kind == "c" else (0, z)
    found = _apply("arctan2", parts)
    return found * (180 / np.pi) if deg else found


def _fix(x: Any) -> Any:
    return _apply("trunc", (x,))


def _sinc(x: Any) -> Any:
    angle = x * np.pi
    is_zero = _apply("equal", (angle, 0))
    divisor = _where(is_zero, 1, angle)
    return _where(is_zero, 1, _apply("sin", (divisor,)) / divisor)


def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    if x.dtype.kind not in "fc":
        return _value(x.builder, x.as_dtype(x.dtype))
    if x.dtype.kind == "c":
        parts = [_nan_to_num(_apply(each, (x,)), copy, nan, posinf, neginf) for each in ("real", "imag")]
        return _value(x.builder, x.builder.complex(*(each.node for each in parts)))
    limits = np.finfo(x.dtype)
    found = _where(_apply("isnan", (x,)), nan, x)
    found = _where(_isposinf(x), limits.max if posinf is None else posinf, found)
    found = _where(_isneginf(x), limits.min if neginf is None else neginf, found)
    if found.dtype.kind == "c":
        raise at_user_line(KernelTypeError(f"nan_to_num({x.dtype}) takes real numbers, and a complex one is given"))
    return found.astype(x.dtype)


def _i0(x: Any) -> Any:
    return UFUNCS["i0"](x if x.dtype.kind in "fc" else x.astype(np.float64))


FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.isposinf: _isposinf, np.isneginf: _isneginf, np.isreal: _is_real, np.iscomplex: _is_complex, np.angle: _angle,
    np.fix: _fix, np.sinc: _sinc, np.nan_to_num: _nan_to_num, np.i0: _i0,
}  # fmt: skip
"""By NumPy's function."""
