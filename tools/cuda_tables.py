"""Compute the tables of the CUDA functions in ``xferlib/kernels/cuda_functions.cu``, and write them into it.

    python -m tools.cuda_tables            # rewrites the tables (needs mpmath)
    python -m tools.cuda_tables --check    # exit status 1 where the file differs

A pair of floats holds a value to some 48 bits; the integers of the careful steps have 64.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tools.kernel_polynomials import mp, run

FILE = Path(__file__).parent.parent / "xferlib" / "kernels" / "cuda_functions.cu"
_LN2 = mp.log(2)


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


def integers(comment: str, name: str, values: Sequence[Any]) -> str:
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
    return taylor("tanh", "tanh", mp.tanh, lambda x: mp.sech(x) ** 2, [each for each in places if each < mp.mpf(9.2)])


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
    ) + table("1 / m, m in the middle of an interval, and log m", "xf_log_table", "float4", rows)  # fmt: skip


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


def tables() -> dict[str, str]:
    """The text of each place for constants in the file, by its name."""
    return {
        "factorials": integers("1 / n!", "xf_inverse_factorial", [1 / mp.factorial(n) for n in range(28)]),
        "odds": integers("1 / (2 n + 1)", "xf_inverse_odd", [1 / mp.mpf(2 * n + 1) for n in range(28)]),
        "ln2": integer_ln2(),
        "sixteenths": integers("2^(k / 16)", "xf_sixteenth", [mp.power(2, mp.mpf(k) / 16) for k in range(16)]),
        "exp": exp(),
        "tanh": tanh(),
        "log": log(),
        "angle": angle(),
        "turn": turn(),
        "arctan": arctan(),
        "half_pi_pair": half_pi_pair(),
        "arcsine": arcsine(),
        "half_pi": f"#define XF_HALF_PI {whole(mp.pi / 2, -63)}  // in units of 2^-63\n",
    }


if __name__ == "__main__":
    sys.exit(run(__doc__, FILE, tables))
