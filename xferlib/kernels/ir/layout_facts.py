"""Facts of a call's shape and of its arrays' layouts, which a kernel may read: leaves whose values a plan knows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from xferlib.kernels.ir.nodes import Program

MOST_AXES = 64
"""Axes that an index computed by the kernel can name."""


@dataclass(frozen=True, slots=True)
class LayoutFact:
    """The attribute of a node ``fact``.

    ``array`` is the parameter, None for the call itself. ``what`` is ``"rank"``, or for one axis ``"extent"``,
    ``"stride"`` in bytes, or ``"inner"``, the number of elements behind it. An axis that does not exist has zeros.
    """

    array: int | None
    what: str
    axis: int

    def found(self, shape: tuple[int, ...], arrays: Any) -> int:
        """The number, in a call of this shape whose arrays, by their parameters, have ``shape`` and ``strides``."""
        if self.array is None:
            return self._of(shape, ())
        return self._of(arrays[self.array].shape, arrays[self.array].strides)

    def _of(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
        if self.what == "rank":
            return len(shape)
        if not 0 <= self.axis < len(shape):
            return 0
        if self.what == "inner":
            return math.prod(shape[self.axis + 1 :])
        return (shape if self.what == "extent" else strides)[self.axis]


def facts(program: Program) -> list[LayoutFact]:
    """The facts that a program reads, in the order of its nodes."""
    return [node.attr for node in program.nodes if node.op == "fact"]
