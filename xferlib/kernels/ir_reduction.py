"""A reduction whose dtypes are known: three programs, and the order in which every engine runs them.

A reduction maps every element to an accumulator, one or several numbers; combines two accumulators into
one; and turns the last one into the outputs. Each of the three is a program. Floating-point addition is not
associative, so equal bits on every backend need one order. The sequential order would be the obvious one, but
neither a GPU nor a vector unit can follow it fast. This one suits both:

- the N elements of one result are cut into leaves of `LEAF` consecutive ones;
- in a leaf, lane l of `LANES` combines elements l, l + LANES, l + 2 LANES ... in that order;
- the lanes are halved: lane l takes in lane l + s for s = LANES/2 ... 2, 1, where both exist;
- the results of the leaves are combined in neighbouring pairs, level by level; an odd one stays for the next level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xferlib.kernels.ir import INT64, Builder, DType, Node, Param, Program, Store

LANES = 512
LEAF = 8 * LANES


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """The program of an element-wise kernel beside a reduction; its inputs come first, then its outputs."""

    program: Program
    inputs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmap(Elementwise):
    """The program of the kernel that turns accumulators into outputs by arguments of the call.

    Its inputs are the accumulators, those arguments, and the int64 scalars in_size and out_size.
    """

    arguments: tuple[int, ...]
    """The inputs of the reduction that it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionSpec:
    """A reduction for one set of dtypes.

    ``map_program`` has the inputs and then the accumulators it writes; in it, ``index`` is the element's
    number among those reduced together. ``combine`` has accumulators a, accumulators b, and the results.
    ``post`` has the accumulators, the int64 scalars in_size and out_size, and the outputs.
    """

    map_program: Program
    combine: Program
    post: Program
    inputs: int
    outputs: int
    identity: tuple[Any, ...] | None
    """The accumulator of no elements; None where an empty reduction is an error."""
    shortcut: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None
    """NumPy's own reduction along the last axis, where the result does not depend on the order."""

    premap: Elementwise | None = None
    """The kernel that runs first and writes the one input, for a map that reads arrays at computed indices."""

    postmap: Postmap | None = None
    """The kernel that runs last; the outputs of ``post`` are the accumulators then."""

    @property
    def arguments(self) -> int:
        """The number of arguments of a call."""
        return self.inputs if self.premap is None else self.premap.inputs

    @property
    def accumulators(self) -> tuple[DType, ...]:
        return tuple(param.dtype for param in self.map_program.params[self.inputs :])

    @property
    def output_dtypes(self) -> tuple[DType, ...]:
        return tuple(param.dtype for param in self.post.params[len(self.accumulators) + 2 :])


def build(
    inputs: Sequence[Param],
    mapping: Any,
    combining: Any,
    finishing: Any,
    *,
    identity: tuple[Any, ...] | None,
    shortcut: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None,
    math: str = "exact",
) -> ReductionSpec:
    """Build a specification from functions on nodes.

    Args:
        inputs: The parameters.
        mapping: ``(builder, input nodes) -> accumulator nodes``.
        combining: ``(builder, accumulators a, accumulators b) -> accumulators``.
        finishing: ``(builder, accumulators, in_size, out_size) -> output nodes``.
        identity: The accumulator of no elements, or None.
        shortcut: NumPy's own reduction along the last axis, where the result does not depend on the order.
        math: ``"exact"`` or ``"fast"``.
    """
    b = Builder(inputs, math=math)
    mapped = mapping(b, [b.load(number) for number in range(len(inputs))])
    map_program = storing(b, "acc", mapped)
    dtypes = [node.dtype for node in mapped]
    c = Builder([Param(name=f"{side}{k}", dtype=d) for side in "ab" for k, d in enumerate(dtypes)], math=math)
    count = len(dtypes)
    combined = combining(c, [c.load(k) for k in range(count)], [c.load(count + k) for k in range(count)])
    sizes = [Param(name=name, dtype=INT64, is_scalar=True) for name in ("in_size", "out_size")]
    p = Builder([*(Param(name=f"a{k}", dtype=d) for k, d in enumerate(dtypes)), *sizes], math=math)
    finished = finishing(p, [p.load(k) for k in range(count)], p.load(count), p.load(count + 1))
    return ReductionSpec(
        map_program=map_program,
        combine=storing(c, "c", [c.cast(node, dtype) for node, dtype in zip(combined, dtypes, strict=True)]),
        post=storing(p, "out", finished),
        inputs=len(inputs),
        outputs=len(finished),
        identity=identity,
        shortcut=shortcut,
    )


def storing(b: Builder, prefix: str, nodes: Sequence[Node]) -> Program:
    """Make the program whose outputs, named ``prefix0``, ``prefix1`` and so on, are these nodes."""
    first = len(b.params)
    b.params += [Param(name=f"{prefix}{number}", dtype=node.dtype) for number, node in enumerate(nodes)]
    return b.program([Store(param=first + number, value=node) for number, node in enumerate(nodes)])
