"""The float64 functions that are the same on every engine, by the names of their calls."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from xferlib.kernels.float64_arithmetic import OwnFunction
from xferlib.kernels.float64_exponentials import EXPONENTIALS
from xferlib.kernels.float64_special import SPECIAL
from xferlib.kernels.float64_trigonometry import TRIGONOMETRY
from xferlib.kernels.formulas import OWN, Real
from xferlib.kernels.ir import BOOL, FLOAT64, Builder, Node, Param, Program, Store

DEFINITIONS: dict[str, OwnFunction] = {**EXPONENTIALS, **TRIGONOMETRY, **SPECIAL}
BINARY = frozenset({"power", "arctan2", "hypot"})


@dataclass(frozen=True, slots=True)
class Float64Function:
    """The programs of a definition."""

    name: str
    common: Program
    """From the operands the value, and whether it holds."""
    rare: Program
    """The value of the others."""
    operands: int


@functools.cache
def float64_function(name: str) -> Float64Function:
    """The programs of a function."""
    operands = 1 + (name in BINARY)
    params = [Param(name=f"x{number}", dtype=FLOAT64) for number in range(operands)]
    definition = DEFINITIONS[name]
    b = Builder([*params, Param(name="value", dtype=FLOAT64), Param(name="holds", dtype=BOOL)])
    value, holds = definition.common(*(Real(b, b.load(number)) for number in range(operands)))
    common = b.program([Store(param=operands, value=value.node), Store(param=operands + 1, value=holds)])
    b = Builder([*params, Param(name="value", dtype=FLOAT64)])
    found = definition.rare(*(Real(b, b.load(number)) for number in range(operands)))
    return Float64Function(name, common, b.program([Store(param=operands, value=found.node)]), operands)


def is_own(node: Node, math: str) -> bool:
    """Whether a node is the call of such a function; one that a platform has may be the platform's."""
    is_exact = math == "exact" or node.attr in OWN
    return node.op == "call" and node.dtype == FLOAT64 and is_exact and node.attr in DEFINITIONS
