"""C's functions that take a float apart or put it together, exact remainders, lengths of vectors, conversions.

Those with results of two kinds take a pointer for the second one, as in C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xferlib.kernels.ir.formulas import exponents, lower, special_functions
from xferlib.kernels.ir.functions import TABLE
from xferlib.kernels.ir.nodes import INT32, INT64, Builder, Node

_rlength = exponents.inverse(exponents.length)


def _quotient(b: Builder, x: Node, y: Node) -> Node:
    return exponents.remquo(b, x, y)[0]


def _nearest(b: Builder, x: Node) -> Node:
    return b.cast(b.op("rint", x), INT64)


def _rounded(b: Builder, x: Node) -> Node:
    return b.cast(lower.round_half_away(b, x), INT64)


def _saturated(b: Builder, x: Node) -> Node:
    """CUDA's ``saturate``: the number between 0 and 1; 0 of NaN."""
    zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
    return lower.fmin(b, lower.fmax(b, x, zero), one)


FUNCTIONS: dict[str, tuple[int, Callable[..., Node]]] = {
    "fdim": (2, exponents.fdim), "remainder": (2, _quotient), "logb": (1, exponents.logb),
    "ilogb": (1, exponents.ilogb), "lrint": (1, _nearest), "llrint": (1, _nearest), "lround": (1, _rounded),
    "llround": (1, _rounded), "rhypot": (2, _rlength), "norm3d": (3, exponents.length),
    "norm4d": (4, exponents.length), "rnorm3d": (3, _rlength), "rnorm4d": (4, _rlength),
    "__saturate": (1, _saturated),
}  # fmt: skip
"""Functions of floats: how many, and the formula. A final ``f`` makes their operands float."""

SCALINGS = frozenset({"ldexp", "scalbn", "scalbln"})
"""Functions of a float and an integer exponent."""

Parts = tuple[Node, Node]


class Split(NamedTuple):
    """A function whose second result goes behind a pointer."""

    operands: int
    """Of the floats that it takes."""
    make: Callable[..., Parts]
    second: np.dtype[np.int32] | None
    """The dtype behind the pointer; None: that of the first result."""


def _turns(b: Builder, x: Node) -> Parts:
    return TABLE["sin"].lowering(b, x), TABLE["cos"].lowering(b, x)


def _half_turns(b: Builder, x: Node) -> Parts:
    return special_functions.lowered(b, "sinpi", x), special_functions.lowered(b, "cospi", x)


SPLITS = {
    "frexp": Split(1, exponents.frexp, INT32),
    "modf": Split(1, exponents.modf, None),
    "remquo": Split(2, exponents.remquo, INT32),
}
"""The functions whose result is one of the parts, the other one going behind the last argument."""

PAIRS = {"sincos": _turns, "sincospi": _half_turns}
"""The functions that give both parts behind pointers."""

NAMES = frozenset({*FUNCTIONS, *SCALINGS, *SPLITS, *PAIRS})

ASSIGNING = frozenset(f"{name}{suffix}" for name in (*SPLITS, *PAIRS) for suffix in ("", "f"))
"""The functions that write behind pointers."""
