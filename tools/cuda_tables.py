"""Compute the tables of the CUDA functions in ``xferlib/kernels/cuda_functions.cu``, and write them into it.

    python -m tools.cuda_tables            # rewrites the tables (needs mpmath)
    python -m tools.cuda_tables --check    # exit status 1 where the file differs

A pair of floats holds a value to some 48 bits; the integers of the careful steps have 64.
"""

from __future__ import annotations

import functools
import struct
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tools import kernel_polynomials
from tools.kernel_polynomials import Fit, mp, run

FILE = Path(__file__).parent.parent / "xferlib" / "kernels" / "cuda_functions.cu"
_LN2 = mp.log(2)
_SMALL = mp.mpf(10) ** -12


def single(value: Any, bits: int = 24) -> Any:
    """The nearest number of ``bits`` bits."""
    if not value:
        return mp.mpf(0)
    scale = mp.mpf(2) ** (bits - 1 - mp.floor(mp.log(abs(value), 2)))
    return mp.nint(value * scale) / scale


def pair(value: Any) -> tuple[Any, Any]:
    """A value as the sum of two floats."""
    high = single(value)
    return high, single(value - high)


def literal(value: Any) -> str:
    """A float as a C literal that is short."""
    number = float(value)
    assert np.float32(number) == number
    mantissa, _, exponent = number.hex().partition("p")
    return f"{mantissa.rstrip('0').removesuffix('.')}p{int(exponent)}f" if number else "0.0f"


def define(**values: Any) -> str:
    return "".join(f"#define XF_{name} {literal(value)}\n" for name, value in values.items())


def table(comment: str, name: str, kind: str, rows: Iterable[Sequence[Any]]) -> str:
    """A table of vectors of floats."""
    items = ["{" + ", ".join(map(literal, row)) + "}" for row in rows]
    text = textwrap.fill(", ".join(items) + "};", 118, initial_indent="  ", subsequent_indent="  ")
    return f"// {comment}\nXF_TABLE {kind} {name}[{len(items)}] = {{\n{text}\n"


def integers(comment: str, name: str, values: Iterable[Any]) -> str:
    """A table of numbers below 2, in units of 2^-63."""
    items = [f"0x{int(mp.nint(each * mp.mpf(2) ** 63)):x}ull" for each in values]
    text = textwrap.fill(", ".join(items) + "};", 118, initial_indent="  ", subsequent_indent="  ")
    return f"// {comment}, in units of 2^-63\nXF_TABLE xf_u64 {name}[{len(items)}] = {{\n{text}\n"


def whole(value: Any, exponent: int) -> str:
    """The integer of 64 bits that times ``2 ** exponent`` is nearly ``value``."""
    number = int(mp.floor(value / mp.mpf(2) ** exponent))
    assert 1 << 63 <= number < 1 << 64
    return f"0x{number:x}ull"


def integer_ln2() -> str:
    rest = mp.ldexp(_LN2, 64) - mp.floor(mp.ldexp(_LN2, 64))
    return (
        "// ln 2 in units of 2^-64, and of what is left 2^32 times as much; 1 / ln 2 and 1 / ln 10.\n"
        f"#define XF_LN2 {whole(_LN2, -64)}\n#define XF_LN2_REST {int(mp.ldexp(rest, 32))}ll\n"
        f"#define XF_LOG2E {whole(1 / _LN2, -63)}\n#define XF_LOG10E {whole(1 / mp.log(10), -65)}\n"
    )


def exp() -> str:
    step = pair(_LN2 / 128)
    ln2 = pair(_LN2)
    rows = [pair(mp.power(2, mp.mpf(k) / 128)) for k in range(128)]
    return define(
        **{"128_OVER_LN2": single(128 / _LN2), "LN2_128": step[0], "LN2_128_REST": step[1]},
        LN2_HIGH=ln2[0], LN2_LOW=ln2[1],
    ) + table("2^(k / 128)", "xf_exp_table", "float2", rows)  # fmt: skip


def taylor(
    comment: str, name: str, function: Callable[[Any], Any], slope: Callable[[Any], Any], at: Iterable[Any]
) -> str:
    """A function and its slope at some places."""
    rows = [(*pair(function(each)), *pair(slope(each))) for each in at]
    return table(f"{comment}, and the slope", f"xf_{name}_table", "float4", rows)


def tanh() -> str:
    places = [mp.mpf(0)] + [mp.ldexp(64 + k + mp.mpf(1) / 2, e - 6) for e in range(-7, 4) for k in range(64)]
    places = [each for each in places if each < mp.mpf(9.2)]
    return taylor("tanh", "tanh_pairs", mp.tanh, lambda x: mp.sech(x) ** 2, places)


def erf() -> str:
    places = [mp.mpf(0)] + [mp.ldexp(64 + k + mp.mpf(1) / 2, e - 6) for e in range(-7, 2) for k in range(64)]
    return taylor("erf", "erf", mp.erf, _erf_slope, [*places, mp.mpf(4.03125)])


def _erf_slope(x: Any) -> Any:
    return 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)


LOG_FIRST = 0x3F348000


def _centre(low: Any, high: Any) -> Any:
    """A reciprocal so short that its product with every float of the interval, less 1, is a float."""
    for bits in (9, 8):
        c = single(2 / (low + high), bits)
        unit = mp.mpf(2) ** (-24 if high <= 1 else -23) * mp.mpf(2) ** (1 - bits if c >= 1 else -bits)
        if max(high * c - 1, 1 - low * c) <= 2**24 * unit:
            return c
    raise ValueError(f"no reciprocal for {low} to {high}")


def log() -> str:
    """A short centre's reciprocal for each of 256 intervals, 1 next to 1; and the logarithm of the centre."""
    rows = []
    for k in range(256):
        low, high = (np.uint32(LOG_FIRST + (k + each << 15)).view(np.float32) for each in (0, 1))
        c = mp.mpf(1) if low <= 1 <= high else _centre(mp.mpf(float(low)), mp.mpf(float(high)))
        rows.append((c, *pair(-mp.log(c)), mp.mpf(0)))
    short = single(_LN2, 16)
    log2e, log10e = pair(1 / _LN2), pair(1 / mp.log(10))
    return define(
        LN2_SHORT=short, LN2_SHORT_REST=single(_LN2 - short), LOG2E_HIGH=log2e[0], LOG2E_LOW=log2e[1],
        LOG10E_HIGH=log10e[0], LOG10E_LOW=log10e[1],
    ) + table("1 / m, m in the middle of an interval, and log m", "xf_log_pairs_table", "float4", rows)  # fmt: skip


def angle() -> str:
    words = [int(mp.floor(mp.ldexp(2 / mp.pi, 32 * k))) & 0xFFFFFFFF for k in range(10)]
    text = ", ".join(f"0x{each:x}u" for each in words)
    return f"// The bits of 2 / pi, after 32 zeros\nXF_TABLE unsigned int xf_two_over_pi[{len(words)}] = {{{text}}};\n"


def turn() -> str:
    step = mp.pi / 256
    first = single(step)
    second = single(step - first)
    rows = [(*pair(_clean(mp.sin(step * k))), *pair(_clean(mp.cos(step * k)))) for k in range(512)]
    return define(
        **{"256_OVER_PI": single(256 / mp.pi), "PI_256_1": first, "PI_256_2": second},
        PI_256_3=single(step - first - second),
    ) + table("The sine and cosine of k pi / 256", "xf_turn_table", "float4", rows)  # fmt: skip


def _clean(value: Any) -> Any:
    return value if abs(value) > mp.mpf(10) ** -30 else mp.mpf(0)


def arctan() -> str:
    """Of multiples of 1/128 up to 1, and of their reciprocals."""
    near = [mp.mpf(k) / 128 for k in range(129)]
    rows = [(*pair(mp.atan(c)), *pair(1 / (1 + c * c))) for c in near]
    rows += [(*pair(mp.pi / 2 - mp.atan(c)), *pair(-1 / (1 + c * c))) for c in near]
    return table("arctan of c and of 1 / c for multiples of 1/128, and the slopes", "xf_arctan_table", "float4", rows)


def half_pi_pair() -> str:
    half_pi = pair(mp.pi / 2)
    return define(HALF_PI_HIGH=half_pi[0], HALF_PI_LOW=half_pi[1])


def arcsine() -> str:
    places = [mp.mpf(k) / 128 for k in range(92)]
    return taylor("arcsin of multiples of 1/128", "arcsine", mp.asin, lambda c: 1 / mp.sqrt(1 - c * c), places)


# The quick steps of devices with fast float64.


def series(name: str, variable: str, function: Callable[[Any], Any], low: Any, high: Any, degree: int) -> str:
    """A macro for the polynomial in float64 that is near a function, by Horner's rule."""
    coefficients, error = kernel_polynomials.fit(Fit(function, low, high, degree, name))
    text = coefficients[-1].hex()
    for each in coefficients[-2::-1]:
        text = f"__fma_rn({variable}, {text}, {each.hex()})"
    lines = textwrap.wrap(text, 112, initial_indent="  ", subsequent_indent="  ")
    size = mp.nstr(mp.log(error, 2), 3)
    return f"#define XF_{name}({variable}) /* within 2^{size} */ \\\n" + " \\\n".join(lines) + "\n"


def double_define(**values: Any) -> str:
    return "".join(f"#define XF_{name} {float(value).hex()}\n" for name, value in values.items())


def double_table(comment: str, name: str, rows: Iterable[tuple[Any, Any]]) -> str:
    items = ["{" + ", ".join(float(each).hex() for each in row) + "}" for row in rows]
    text = textwrap.fill(", ".join(items) + "};", 118, initial_indent="  ", subsequent_indent="  ")
    return f"// {comment}\nXF_TABLE double2 xf_{name}_table[{len(items)}] = {{\n{text}\n"


def double_column(comment: str, name: str, values: Iterable[Any]) -> str:
    items = [float(each).hex() for each in values]
    text = textwrap.fill(", ".join(items) + "};", 118, initial_indent="  ", subsequent_indent="  ")
    return f"// {comment}\nXF_TABLE double xf_{name}_table[{len(items)}] = {{\n{text}\n"


def even(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of the square; its limit is not needed, for no node is 0."""
    return lambda u: function(mp.sqrt(u))


def exp_double() -> str:
    step = _LN2 / 64 * (1 + mp.mpf(2) ** -20)
    square = step * step
    return (
        double_define(**{"32_OVER_LN2": 32 / _LN2, "LN2_32": _LN2 / 32})
        + define(LOG_OF_LEAST_NORMAL=-single(126 * _LN2, 24))
        + series("EXP_SERIES", "r", lambda r: mp.expm1(r) / r, -step, step, 4)
        + series("EXP2_SERIES", "r", lambda r: mp.expm1(r * _LN2) / r, -step / _LN2, step / _LN2, 4)
        + series("EXPM1_SERIES", "r", lambda r: mp.expm1(r) / r, -step, step, 4)
        + series("SINH_SERIES", "u", even(lambda r: mp.sinh(r) / r / 2), 0, square, 2)
        + series("COSH_SERIES", "u", even(lambda r: mp.cosh(r) / 2), 0, square, 2)
        + "// 2^(k / 32), in two words, less k * 2^47\n"
        + powers("uint2 xf_exp_double_table", (1,))
    )


def powers(name: str, signs: Sequence[int]) -> str:
    """A table of the words of 2^(k / 32), or of it and its reciprocal, less what k adds to the exponent's bits."""
    rows = []
    for k in range(32):
        words = []
        for sign in signs:
            bits = int(np.float64(mp.power(2, mp.mpf(sign * k) / 32)).view(np.uint64)) - sign * (k << 47)
            words += [f"0x{bits & 0xFFFFFFFF:x}u", f"0x{bits >> 32:x}u"]
        rows.append(f"{{{', '.join(words)}}}")
    text = textwrap.fill(", ".join(rows) + "};", 118, initial_indent="  ", subsequent_indent="  ")
    return f"XF_TABLE {name}[{len(rows)}] = {{\n{text}\n"


def log_double() -> str:
    """(log(1 + z) - z) / z^2, and the logarithms of short reciprocals, less what the integer of their bits adds."""
    bound = mp.mpf(2) ** -8 * (1 + mp.mpf(2) ** -10)
    places = [mp.mpf(k) / 128 for k in range(128)]
    return (
        "// times -2^-20\n"
        + double_define(LOG_OF_2=-mp.ldexp(_LN2, -20))
        + double_define(LOG2E_OF_DOUBLE=1 / _LN2, LOG10E_OF_DOUBLE=1 / mp.log(10))
        + series("LOG_SERIES", "z", lambda z: (mp.log1p(z) - z) / z**2, -bound, bound, 3)
        + double_column("x ln 2 - log(1 + x)", "log_double", [x * _LN2 - mp.log1p(x) for x in places])
    )


def angle_double() -> str:
    step = mp.pi / 32
    high = mp.mpf(float(step))
    square = (step / 2 * (1 + mp.mpf(2) ** -20)) ** 2
    rows = [(_clean(mp.sin(step * k)), _clean(mp.cos(step * k))) for k in range(32)]
    return (
        double_define(**{"32_OVER_PI": 1 / step, "PI_32": high, "PI_32_LOW": step - high})
        + series("TANGENT_SERIES", "u", even(lambda r: (mp.tan(r) / r - 1) / r**2), 0, square, 2)
        + double_table("The sine and cosine of k pi / 32", "angle_double", rows)
    )


def half_turn_double() -> str:
    high = mp.mpf(float(mp.pi))
    square = (mp.pi / 2 * (1 + mp.mpf(2) ** -20)) ** 2
    return double_define(ONE_OVER_PI=1 / mp.pi, PI_OF_DOUBLE=high, PI_OF_DOUBLE_LOW=mp.pi - high) + series(
        "HALF_TURN_SERIES", "u", even(lambda r: mp.sin(r) / r), 0, square, 6
    )


def arctan_double() -> str:
    places = [mp.mpf(0)]
    places += [mp.ldexp(8 + k + mp.mpf(1) / 2, e - 3) for e in range(-5, 5) for k in range(8)]
    places += [mp.mpf(34)]  # for all from 32 on: the middle of their first interval
    square = mp.mpf(2) ** -10 * (1 + mp.mpf(2) ** -6)
    return series("ARCTAN_SERIES", "u", even(lambda q: (mp.atan(q) / q - 1) / q**2), 0, square, 2) + double_table(
        "arctan of 0 and of the middles of the intervals, and these", "arctan_double", [(mp.atan(c), c) for c in places]
    )


def erf_double() -> str:
    places = [mp.mpf(k) / 16 for k in range(64)]
    return double_table(
        "erf of multiples of 1/16, and the slope", "erf_double", [(mp.erf(c), _erf_slope(c)) for c in places]
    )


def erf_careful() -> str:
    places = [mp.mpf(k) / 16 for k in range(65)]
    return "".join(
        integers(comment, f"xf_erf_{name}", values)
        for comment, name, values in (
            ("twice erf of multiples of 1/16", "value", [2 * mp.erf(c) for c in places]),
            ("the slope there", "slope", map(_erf_slope, places)),
            ("2 / n from 3 on", "inverse", [0, 0, 0, *(mp.mpf(2) / n for n in range(3, 17))]),
        )
    )


def arcsine_double() -> str:
    return series("ARCSINE_SERIES", "u", even(lambda z: mp.asin(z) / z), 0, 0.25, 9)


# The functions of float16.


def half_series(
    name: str, variable: str, function: Callable[[Any], Any], low: Any, high: Any, moved: Sequence[int]
) -> str:
    """A macro for a polynomial of floats, the first coefficient is that of the highest power.

    Each is rounded, and the lower ones are fitted again.

    Args:
        name: Of the macro.
        variable: Its parameter.
        function: What the polynomial is near.
        low: The least argument.
        high: The largest one.
        moved: For each coefficient the units of its last place that are added, so that all operands come out right:
            found by trial.
    """
    rest, text = function, ""
    for degree, units in zip(range(len(moved) - 1, -1, -1), moved, strict=True):
        coefficients, _ = kernel_polynomials.fit(Fit(rest, low, high, degree, name))
        top = np.float32(coefficients[-1])
        rest = functools.partial(_less, rest, mp.mpf(float(top)), degree)
        each = literal(float((top.view(np.int32) + np.int32(units)).view(np.float32)))
        text = f"__fmaf_rn({variable}, {text}, {each})" if text else each
    lines = textwrap.wrap(text, 112, initial_indent="  ", subsequent_indent="  ")
    return f"#define XF_{name}({variable}) \\\n" + " \\\n".join(lines) + "\n"


def _less(function: Callable[[Any], Any], coefficient: Any, degree: int, u: Any) -> Any:
    return function(u) - coefficient * u**degree


def _beyond_first(function: Callable[[Any], Any], power: int) -> Callable[[Any], Any]:
    """``(f(x) - x) / x^power`` of x, or for power 3 of its square; near 0, where it says nothing, of a small number."""

    def of(u: Any) -> Any:
        x = u if abs(u) > _SMALL else _SMALL
        x = mp.sqrt(x) if power == 3 else x
        return (function(x) - x) / x**power

    return of


def _erf_beyond_first(v: Any) -> Any:
    x = mp.sqrt(max(v + mp.mpf(3.75), _SMALL))
    return mp.erf(x) / x - 1


def half_tables() -> dict[str, str]:
    step, root = _LN2 / 2 * (1 + mp.mpf(2) ** -10), mp.sqrt(2)
    turn = (mp.pi / 2 * (1 + mp.mpf(2) ** -8)) ** 2
    return {
        "half_exp": half_series("HALF_EXP", "r", _beyond_first(mp.expm1, 2), -step, step, [0] * 5),
        "half_log": half_series(
            "HALF_LOG", "r", _beyond_first(mp.log1p, 2), 1 / root - 1, (root - 1) * (1 + mp.mpf(2) ** -10), [0] * 8
        ),
        "half_sin": half_series("HALF_SIN", "u", _beyond_first(mp.sin, 3), 0, turn, [0, 0, 7, 0]),
        "half_atan": half_series(
            "HALF_ATAN", "u", _beyond_first(mp.atan, 3), 0, 1, [-62, -2, 128, -75, -71, -6, 25, 21]
        ),
        "half_asin": half_series("HALF_ASIN", "u", _beyond_first(mp.asin, 3), 0, 0.25, [0, 0, -17, -5, 8]),
        "half_erf": half_series(
            "HALF_ERF", "v", _erf_beyond_first, -3.75, 2.75**2 - 3.75, [0, 0, 0, 0, 29, -62, 14, -27, 11, 1, 2, -5]
        ),
    }


def words_of_pi() -> str:
    bits = struct.unpack("<Q", struct.pack("<d", float(mp.pi)))[0]
    return f"// the words of pi\n#define XF_PI_HIGH 0x{bits >> 32:08x}\n#define XF_PI_LOW 0x{bits & 0xFFFFFFFF:08x}\n"


def wide(name: str, x: Any, unit: int) -> str:
    """A number in units of ``2^unit``, as two words."""
    count = int(mp.nint(mp.ldexp(x, -unit)))
    return f"#define XF_{name} 0x{count >> 64:016x}ull, 0x{count & (1 << 64) - 1:016x}ull  // in units of 2^{unit}\n"


def tables() -> dict[str, str]:
    """The text of each place for constants in the file, by its name."""
    return {
        "factorials": integers("1 / n!", "xf_inverse_factorial", [1 / mp.factorial(n) for n in range(28)]),
        "odds": integers("1 / (2 n + 1)", "xf_inverse_odd", [1 / mp.mpf(2 * n + 1) for n in range(28)]),
        "ln2": integer_ln2(),
        "sixteenths": integers("2^(k / 16)", "xf_sixteenth", [mp.power(2, mp.mpf(k) / 16) for k in range(16)]),
        "exp": exp(),
        "tanh": tanh(),
        "erf": erf(),
        "erf_careful": erf_careful(),
        "erf_double": erf_double(),
        "log": log(),
        "angle": angle(),
        "turn": turn(),
        "arctan": arctan(),
        "half_pi_pair": half_pi_pair(),
        "arcsine": arcsine(),
        "exp_double": exp_double(),
        "hyperbolic_double": "// 2^(k / 32) and 2^(-k / 32), as in the table of one\n"
        + powers("uint4 xf_hyperbolic_double_table", (1, -1)),
        "log_double": log_double(),
        "angle_double": angle_double(),
        "half_turn_double": half_turn_double(),
        "arctan_double": arctan_double(),
        "half_pi_double": double_define(HALF_PI_OF_DOUBLE=mp.pi / 2) + words_of_pi(),
        "arcsine_double": arcsine_double(),
        **half_tables(),
        "wide": wide("WIDE_HALF_PI", mp.pi / 2, -127) + wide("WIDE_LN2", mp.ln(2), -120),
        "half_pi": f"#define XF_HALF_PI {whole(mp.pi / 2, -63)}  // in units of 2^-63\n",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    return run(__doc__, FILE, tables, arguments)


if __name__ == "__main__":
    sys.exit(main())
