"""The published error bounds: the largest distance of a result from the exact one, in units in the last place.

A float64 function is the platform's: CUDA's on a GPU, NumPy's on a CPU, where the code path depends on the
instruction set, the NumPy version and the layout of the operands. No library states a bound for all of these, so a
table copied from one documentation would be wrong elsewhere. Each bound here covers every platform: it is at least
what NVIDIA documents (CUDA C++ Programming Guide, Mathematical Functions), and what was measured on each code path
of NumPy. Measurement finds a lower limit of the worst error only, so every bound leaves a margin to the figures in
``tools/kernel_ulps.json``, which ``tools/kernel_ulp.py`` makes. The bounds of complex functions follow from the
formulas, and were measured alike.
"""

from __future__ import annotations

import math

FLOAT64: dict[str, float] = {
    "exp": 1, "exp2": 1, "expm1": 1.5, "log": 1, "log2": 1.5, "log10": 2, "log1p": 2, "sin": 2, "cos": 2, "tan": 2.5,
    "arcsin": 2, "arccos": 2, "arctan": 2, "sinh": 2.5, "cosh": 2.5, "tanh": 3, "arcsinh": 3, "arccosh": 3,
    "arctanh": 2.5, "cbrt": 0.67, "rsqrt": 0.86,
}  # fmt: skip
"""Bounds of functions of one float64, in ulp."""

FLOAT64_PAIRS: dict[str, float] = {"power": 2, "arctan2": 2, "hypot": 2, "logaddexp": math.inf}
"""Bounds of functions of two; ``logaddexp`` has none, because its sum may cancel."""

COMPLEX: dict[str, tuple[float, float]] = {
    "divide": (1, 4), "reciprocal": (1, 4), "sqrt": (1, 3), "sign": (1, 4), "exp": (2.5, 4), "expm1": (3, 6),
    **dict.fromkeys(("log", "log1p", "log2", "log10"), (1.5, 6)),
    **dict.fromkeys(("sin", "cos", "sinh", "cosh"), (2.5, 6)),
    "tan": (3, 10), "tanh": (3, 10),
    **dict.fromkeys(("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"), (1.5, 8)),
}  # fmt: skip
"""Bounds for complex64 and complex128: distances in the plane, in ulp of the exact absolute value."""
