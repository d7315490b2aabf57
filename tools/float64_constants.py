"""Compute the constants of float64 functions, ``xferlib/kernels/float64_exponentials.txt``.

    python -m tools.float64_constants            # writes the file (needs mpmath)
    python -m tools.float64_constants --check    # exit status 1 where the file differs

A polynomial interpolates its function at the Chebyshev nodes of the interval, in 60 digits: within a factor of two of
the best one of its degree.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tools.kernel_polynomials import Fit, fit, mp, parts

KERNELS = Path(__file__).parent.parent / "xferlib" / "kernels"
LN2 = mp.log(2)
Constants = dict[str, "list[float] | list[int]"]


def polynomial(function: Callable[[Any], Any], low: Any, high: Any, degree: int) -> list[float]:
    """The coefficients from the lowest power on."""
    return fit(Fit(function, low, high, degree, ""))[0]


def tail_of(series: Callable[[int], Any], first: int, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``function``, near 0 by the terms of its series from the power ``first`` on, which do not cancel."""

    def compute(u: Any) -> Any:
        if abs(u) > mp.mpf(10) ** -8:
            return function(u)
        return mp.fsum(series(first + k) * u**k for k in range(9))

    return compute


def bits_of(x: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", x))[0])


def float_of(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


EXP_TAIL = tail_of(lambda k: 1 / mp.factorial(k), 2, lambda u: (mp.expm1(u) - u) / u**2)
LOG_TAIL = tail_of(lambda k: mp.mpf((-1) ** (k + 1)) / k, 2, lambda u: (mp.log1p(u) - u) / u**2)

# --- 2^(j / 128), and exp near 0

STEPS = 128


def powers() -> Constants:
    exact = [mp.mpf(2) ** (mp.mpf(j) / STEPS) for j in range(STEPS)]
    heads = [float(each) for each in exact]
    step = LN2 / STEPS
    high = parts(step, 3, 34)[0]
    half = step / 2 * mp.mpf("1.0001")
    return {
        # Without the bits that the shifted number of the row adds.
        "powers": [(bits_of(each) - (j << 45)) % 2**64 for j, each in enumerate(heads)],
        "powers_rest": [float(e / mp.mpf(h) - 1) for e, h in zip(exact, heads, strict=True)],
        "step": [float(1 / step), high, float(step - mp.mpf(high))],
        "exp": polynomial(EXP_TAIL, -half, half, 3),
    }


# --- logarithms of the inverses of few bits, and log near 1

LOG_STEPS = 128
OFFSET = 0x3FE6000000000000
"""The bits of the least fraction, 0.6875."""


def _inverse_of(low: float, high: float) -> float:
    """The number of nine bits whose products with an interval come nearest to 1."""
    if low < 1 <= high or high == 1.0 or low == 1.0:
        return 1.0
    unit = 2.0**-9 if low >= 1 else 2.0**-8
    middle = round(2 / (low + high) / unit)
    return min(((middle + k) * unit for k in (-1, 0, 1)), key=lambda c: max(abs(c * low - 1), abs(c * high - 1)))


def logarithms() -> Constants:
    inverses = []
    greatest = 0.0
    for j in range(LOG_STEPS):
        low, high = float_of(OFFSET + (j << 45)), float_of(OFFSET + (j + 1 << 45))
        c = _inverse_of(low, high)
        inverses.append(c)
        greatest = max(greatest, abs(c * low - 1), abs(c * high - 1))
    # Multiples of 2^-42: their sums with a multiple of ln 2's first part are exact.
    unit = mp.mpf(2) ** -42
    exact = [-mp.log(c) for c in inverses]
    heads = [float(mp.nint(each / unit) * unit) for each in exact]
    ln2 = float(mp.nint(LN2 / unit) * unit)
    return {
        "inverse": inverses,
        "log_head": heads,
        "log_rest": [float(e - mp.mpf(h)) for e, h in zip(exact, heads, strict=True)],
        "ln2": [ln2, float(LN2 - mp.mpf(ln2))],
        "log": polynomial(LOG_TAIL, -greatest, greatest, 6),
    }


def exponentials() -> Constants:
    return {**powers(), **logarithms()}


FILES: dict[str, Callable[[], Constants]] = {"float64_exponentials": exponentials}


def text_of(constants: Constants) -> str:
    return "".join(f"{name}: {' '.join(map(repr, values))}\n" for name, values in constants.items())


def main(files: dict[str, Callable[[], Constants]] = FILES, arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(None if arguments is None else list(arguments))
    differs = False
    for name, make in files.items():
        path, text = KERNELS / f"{name}.txt", text_of(make())
        differs |= not path.exists() or path.read_text(encoding="ascii") != text
        if not options.check:
            path.write_text(text, encoding="ascii")
    return int(options.check and differs)


if __name__ == "__main__":
    sys.exit(main())
