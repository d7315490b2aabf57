"""Compute the constants of the C functions in ``xferlib/kernels/native_functions.c``, and write them into it.

    python -m tools.kernel_polynomials            # rewrites the constants (needs mpmath)
    python -m tools.kernel_polynomials --check    # exit status 1 where the file differs

A polynomial interpolates its function at the Chebyshev nodes of the interval, in 60 digits: within a factor of two of
the best one of its degree. The relative errors, measured at 2,000 points, stand beside the coefficients.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mpmath

FILE = Path(__file__).parent.parent / "xferlib" / "kernels" / "native_functions.c"
BEGIN, END = "// constants: ", "// end of constants\n"
TOOLS = ("kernel_polynomials", "cuda_tables", "float64_constants")
"""The modules that compute constants."""
FOLDER = Path(__file__).parent
RECORD = FOLDER / "constants.json"
"""The fingerprint of each file of constants, from when its tool wrote it."""

mp = mpmath.mp.clone()
mp.dps = 60
_LN2 = mp.log(2)


class Fit(NamedTuple):
    """``function(u)`` on an interval, by a polynomial in ``u``."""

    function: Callable[[Any], Any]
    low: Any
    high: Any
    degree: int
    meaning: str


def _of_square(function: Callable[[Any], Any], high: Any, degree: int, name: str, *, is_odd: bool = True) -> Fit:
    """An odd function divided by its argument, or an even one, in powers of the square."""

    def of_square(u: Any) -> Any:
        root = mp.sqrt(u) if u > 0 else mp.mpf(10) ** -20
        return function(root) / root if is_odd else function(root)

    return Fit(of_square, 0, mp.mpf(high) ** 2, degree, f"{name}{' / x' if is_odd else ''}, u = x * x")


_HALF_PI = mp.pi / 2
FITS: dict[str, Fit] = {
    "exp2": Fit(lambda u: mp.expm1(u * _LN2) / u, -0.5, 0.5, 8, "(2^u - 1) / u"),
    "log": _of_square(lambda s: 2 * mp.atanh(s), 0.1716, 5, "log((1 + x) / (1 - x))"),
    "log_long": _of_square(lambda s: 2 * mp.atanh(s) / _LN2, 0.1716, 7, "log2((1 + x) / (1 - x))"),
    "half_turn": _of_square(mp.sin, 1.5708, 6, "sin(x)"),
    "sin": _of_square(mp.sin, 0.7854, 5, "sin(x)"),
    "cos": _of_square(mp.cos, 0.7854, 5, "cos(x)", is_odd=False),
    "sinh2": _of_square(lambda x: mp.sinh(x * _LN2), 0.5, 4, "sinh(x ln 2)"),
    "cosh2": _of_square(lambda x: mp.cosh(x * _LN2), 0.5, 4, "cosh(x ln 2)", is_odd=False),
    "asin": _of_square(mp.asin, 0.5, 9, "asin(x)"),
    "atan": _of_square(mp.atan, 0.41422, 8, "atan(x)"),
    "asinh": _of_square(mp.asinh, 1 / 64, 2, "asinh(x)"),
}


def _beyond_first(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``(f(x) - x) / x^2``, of a function whose series begins with x."""
    return lambda x: (function(x) - x) / (x * x)


def _beyond_first_of_square(function: Callable[[Any], Any], high: Any, degree: int, name: str) -> Fit:
    """``(f(x) - x) / x^3`` of an odd function, in powers of the square."""

    def of_square(u: Any) -> Any:
        root = mp.sqrt(max(u, mp.mpf(10) ** -12))
        return (function(root) - root) / root**3

    return Fit(of_square, 0, mp.mpf(high) ** 2, degree, f"({name} - x) / x^3, u = x * x")


def _erf_over(u: Any) -> Any:
    root = mp.sqrt(max(u, mp.mpf(10) ** -12))
    return mp.erf(root) / root


FLOAT_FITS: dict[str, Fit] = {
    "half_exp": Fit(_beyond_first(mp.expm1), -0.3466, 0.3467, 4, "(exp(u) - 1 - u) / u^2"),
    "half_log": Fit(_beyond_first(mp.log1p), -0.2929, 0.4143, 7, "(log(1 + u) - u) / u^2"),
    "half_sin": _beyond_first_of_square(mp.sin, 1.5708, 3, "sin(x)"),
    "half_atan": _beyond_first_of_square(mp.atan, 0.41422, 3, "atan(x)"),
    "half_asin": _beyond_first_of_square(mp.asin, 0.5, 5, "asin(x)"),
    # One result lies so near the middle of two float16 that a float32 would be that middle, but for this 4e-8.
    "half_erf": Fit(lambda u: _erf_over(u) - mp.mpf("1.12500004"), 0, 1, 7, "erf(x) / x - 1.125 - 4e-8, u = x * x"),
    "half_erfc": Fit(lambda x: mp.log(mp.erfc(x)) / x, 1, 4, 8, "log(1 - erf(u)) / u"),
}
"""Those whose coefficients are float32."""


def fit(of: Fit) -> tuple[list[float], Any]:
    """The coefficients from the lowest power on, and the greatest relative error."""
    count = of.degree + 1
    low, high = mp.mpf(of.low), mp.mpf(of.high)
    nodes = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    powers = mp.matrix([[node**power for power in range(count)] for node in nodes])
    exact = mp.lu_solve(powers, mp.matrix([of.function(node) for node in nodes]))
    found = [float(each) for each in exact]
    points = [low + (high - low) * k / 1999 for k in range(2000)]
    error = max(abs(mp.fsum(c * u**k for k, c in enumerate(found)) / of.function(u) - 1) for u in points if u)
    return found, error


def horner(coefficients: list[float], variable: str) -> str:
    text = coefficients[-1].hex()
    for each in coefficients[-2::-1]:
        text = f"XF_MA({variable}, {text}, {each.hex()})"
    return text


def polynomial(name: str, of: Fit) -> str:
    """A C function of ``u``: even and odd powers by Horner's rule, two chains that do not wait for each other."""
    coefficients, error = fit(of)
    low, high = mp.nstr(mp.mpf(of.low), 4), mp.nstr(mp.mpf(of.high), 4)
    text = f"return XF_MA(u, {horner(coefficients[1::2], 'v')}, {horner(coefficients[::2], 'v')});"
    lines = [
        f"// {of.meaning}, u from {low} to {high}: within 2^{mp.nstr(mp.log(error, 2), 3)}",
        f"static inline double xf_poly_{name}(double u) {{",
        "  double v = u * u;",
        *textwrap.wrap(text, 112, initial_indent="  ", subsequent_indent="      "),
        "}\n",
    ]
    return "\n".join(lines)


def float_polynomial(name: str, of: Fit) -> str:
    """A C function of ``u`` in float32: one chain, for a loop that computes many of them at a time."""
    coefficients, error = fit(of)
    short = [f"{struct.unpack('f', struct.pack('f', each))[0].hex()}f" for each in coefficients]
    text = short[-1]
    for each in short[-2::-1]:
        text = f"XF_MAF(u, {text}, {each})"
    low, high = mp.nstr(mp.mpf(of.low), 4), mp.nstr(mp.mpf(of.high), 4)
    lines = [
        f"// {of.meaning}, u from {low} to {high}: within 2^{mp.nstr(mp.log(error, 2), 3)} and the rounding",
        f"static inline float xf_poly_{name}(float u) {{",
        *textwrap.wrap(f"return {text};", 112, initial_indent="  ", subsequent_indent="      "),
        "}\n",
    ]
    return "\n".join(lines)


def pair(value: Any) -> tuple[float, float]:
    """A number as the sum of two float64."""
    high = float(value)
    return high, float(value - mp.mpf(high))


def inverse_factorials() -> str:
    rows = [pair(1 / mp.factorial(n)) for n in range(29)]
    items = [f"{{{high.hex()}, {low.hex()}}}" for high, low in rows]
    text = ",\n".join("  " + ", ".join(items[k : k + 2]) for k in range(0, len(items), 2))
    return f"// 1 / n!\nstatic const xf_pair xf_inverse_factorial[{len(rows)}] = {{\n{text}}};\n"


def two_over_pi() -> str:
    """The bits of 2/pi after 32 zeros, in words."""
    words = 10
    with mp.workdps(200):
        whole = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (32 * (words - 1))))
    text = ", ".join(f"0x{whole >> 32 * (words - 1 - k) & 0xFFFFFFFF:08x}u" for k in range(words))
    return f"// The bits of 2 / pi, after 32 zeros.\nstatic const unsigned int xf_two_over_pi[{words}] = {{{text}}};\n"


def parts(value: Any, count: int, bits: int) -> list[float]:
    """Float64 whose sum is ``value``; all but the last have ``bits`` bits."""
    found = []
    for _ in range(count - 1):
        scale = mp.mpf(2) ** (bits - 1 - mp.floor(mp.log(abs(value), 2)))
        found.append(float(mp.floor(value * scale) / scale))
        value -= found[-1]
    return [*found, float(value)]


def define(**values: float) -> str:
    return "".join(f"#define XF_{name} {value.hex()}\n" for name, value in values.items())


def constants() -> dict[str, str]:
    """The text of each place for constants in the C file, by its name."""
    result = {name: polynomial(name, of) for name, of in FITS.items()}
    result |= {name: float_polynomial(name, of) for name, of in FLOAT_FITS.items()}
    pi = parts(+mp.pi, 3, 33)
    half = parts(mp.pi / 2, 3, 33)
    wide = [pair(+mp.pi), pair(mp.pi / 2)]
    ln2 = parts(+_LN2, 3, 40)
    result["pi"] = (
        "// pi and pi / 2: of 33 bits twice, whose product with a small whole number is exact, and the rest; of 53\n"
        "// bits and the rest.\n"
        + define(PI_1=pi[0], PI_2=pi[1], PI_3=pi[2], PI_HIGH=wide[0][0], PI_LOW=wide[0][1])
        + define(HALF_PI_1=half[0], HALF_PI_2=half[1], HALF_PI_3=half[2], HALF_PI_HIGH=wide[1][0])
        + define(HALF_PI_LOW=wide[1][1], QUARTER_PI=float(mp.pi / 4), INVERSE_PI=float(1 / mp.pi))
        + define(TWO_OVER_PI=float(2 / mp.pi))
    )
    result["ln2"] = "// ln 2 of 40 bits twice, and the rest; and what comes of it.\n" + define(
        LN2=float(_LN2), LOG2E=float(1 / _LN2), LN2_1=ln2[0], LN2_2=ln2[1], LN2_3=ln2[2],
        LOG2E_LOW=pair(1 / _LN2)[1], LN2_LOW=pair(_LN2)[1],
        LOG10E=float(1 / mp.log(10)), LOG10E_LOW=pair(1 / mp.log(10))[1],
    )  # fmt: skip
    result["factorials"] = inverse_factorials()
    result["angles"] = two_over_pi()
    return result


def rewritten(text: str, found: dict[str, str], name: str) -> str:
    """The text of a file with its constants replaced by those in ``found``."""
    found = dict(found)
    head, *rest = text.split(BEGIN)
    result = head
    for part in rest:
        place, _, behind = part.partition("\n")
        result += f"{BEGIN}{place}\n{found.pop(place)}{END}{behind.partition(END)[2]}"
    if found:
        raise SystemExit(f"{name} has no place for {', '.join(found)}; add '{BEGIN}NAME' and '{END.strip()}'")
    return result


def _find_sources(file: Path) -> list[str]:
    """The text of the tool that names the file, and of those that it imports."""
    texts = {name: (FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in TOOLS}
    names = [name for name, text in texts.items() if file.stem in text]
    for name in names:
        names += [each for each in TOOLS if f"tools.{each} import" in texts[name] and each not in names]
    return [texts[name] for name in names]


def _find_fingerprint(file: Path) -> str:
    """The SHA-256 of the constants in a file and of the text of its tools, on which alone they depend."""
    text = file.read_text(encoding="utf-8")
    constants = [part.partition(END)[0] for part in text.split(BEGIN)[1:]] or [text]
    return hashlib.sha256("\0".join([*constants, *_find_sources(file)]).encode()).hexdigest()


def is_recorded(file: Path) -> bool:
    """Whether the file and its tools are as they were when its constants were computed."""
    return bool(json.loads(RECORD.read_text(encoding="utf-8")).get(file.name) == _find_fingerprint(file))


def record(*files: Path) -> None:
    """Note that these files hold what the tools compute."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) | {each.name: _find_fingerprint(each) for each in files}
    RECORD.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def run(
    description: str | None, file: Path, make: Callable[[], dict[str, str]], arguments: Sequence[str] | None = None
) -> int:
    """The command of such a tool: write the constants into the file, or with ``--check`` tell whether it has them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    before = file.read_text(encoding="utf-8")
    after = rewritten(before, make(), file.name)
    if options.check:
        return int(before != after)
    file.write_text(after, encoding="utf-8")
    record(file)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    return run(__doc__, FILE, constants, arguments)


if __name__ == "__main__":
    sys.exit(main())
