"""The published bounds: how far a result may be from the exact one, in units in the last place.

Each covers every platform: what NVIDIA documents for CUDA (CUDA C++ Programming Guide, Mathematical Functions), and
what was measured on each code path of NumPy and, for complex numbers, follows from the formulas. The figures
measured are in ``tools/kernel_ulps.json`` (``tools/kernel_ulp.py`` makes them) and leave a margin to the bounds.
"""

from __future__ import annotations

import math

FLOAT64: dict[str, float] = {
    "exp": 1, "exp2": 1, "expm1": 1.5, "log": 1, "log2": 1.5, "log10": 2, "log1p": 2, "sin": 2, "cos": 2, "tan": 2.5,
    "arcsin": 2, "arccos": 2, "arctan": 2, "sinh": 2.5, "cosh": 2.5, "tanh": 3, "arcsinh": 3, "arccosh": 3,
    "arctanh": 2.5, "cbrt": 0.67, "rsqrt": 0.86,
}  # fmt: skip
"""Of functions of one float64."""

FLOAT64_PAIRS: dict[str, float] = {"power": 2, "arctan2": 2, "hypot": 2, "logaddexp": math.inf}
"""Of two; of ``logaddexp`` none holds, for its sum may cancel."""

COMPLEX: dict[str, tuple[float, float]] = {
    "divide": (1, 4), "reciprocal": (1, 4), "sqrt": (1, 3), "sign": (1, 4), "exp": (2.5, 4), "expm1": (3, 6),
    **dict.fromkeys(("log", "log1p", "log2", "log10"), (1.5, 6)),
    **dict.fromkeys(("sin", "cos", "sinh", "cosh"), (2.5, 6)),
    "tan": (3, 10), "tanh": (3, 10),
    **dict.fromkeys(("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"), (1.5, 8)),
}  # fmt: skip
"""Of complex64 and complex128, as distances in the plane, in ulp of the exact absolute value."""
