"""Random element-wise kernels: the expression, its inputs, and where the result goes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xferlib._cli.bench.libraries import HostArray
from xferlib._cli.bench.result import size_text
from xferlib._cli.bench.sweep.arrays import Cut, Shape, cut, drawn_operand, drawn_view, scaled
from xferlib._cli.bench.sweep.kernel import expressions
from xferlib._cli.bench.sweep.kernel.expressions import Expression

DTYPES = (
    "float32", "float32", "float32", "float64", "float16", "int32", "int64", "uint8", "int16", "bool", "complex64",
)  # fmt: skip
NARROWER = {"float32": ("float16", "uint8", "int16"), "float64": ("float32", "int32"), "int32": ("uint8", "int16")}
"""Those that NumPy and PyTorch promote alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One array, which broadcasts to the shape of the result."""

    shape: Shape
    dtype: str
    layout: str
    variant: int
    """Chooses among the layouts of that name, and the data."""

    def cut(self) -> Cut:
        return cut(self.shape, self.layout, np.random.default_rng(self.variant))

    def memory(self) -> HostArray:
        """Flat memory of which the array is a cut; floats are from 0 to 2."""
        chance = np.random.default_rng(self.variant)
        return scaled(math.prod(self.cut().extents), np.dtype(self.dtype), chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCase:
    """An expression of one to three arrays."""

    name: str
    library: str
    """The backend of the arrays that xferlib takes."""
    expression: Expression
    inputs: tuple[Input, ...]
    is_new: bool
    """To a new array, rather than into one that is there."""
    out: Input
    """The result; new ones are contiguous."""

    @property
    def names(self) -> tuple[str, ...]:
        return expressions.NAMES[: len(self.inputs)]

    @property
    def nbytes(self) -> int:
        """Bytes read and written."""
        return sum(math.prod(each.shape) * np.dtype(each.dtype).itemsize for each in (*self.inputs, self.out))

    @property
    def group(self) -> str:
        return "new result" if self.is_new else "out="

    def __str__(self) -> str:
        inputs = "; ".join(
            f"{name} {each.dtype} {each.shape} {each.layout}"
            for name, each in zip(self.names, self.inputs, strict=True)
        )
        target = "a new array" if self.is_new else f"a {self.out.layout} array"
        formula = expressions.text(self.expression).replace("m.", "")
        return f"{formula}, {size_text(self.nbytes)}, {inputs}, into {target}, {self.library}"


def drawn(seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> KernelCase:
    """Draw a kernel; sizes are log-uniform from 1 Ki elements to 64 Mi.

    Args:
        seed, number: Of the sweep, and of the case in it: the same case at each call.
        libraries: To choose from.
        most: Bytes of the largest array, if that is less.
    """
    chance = np.random.default_rng([seed, number, 2])
    library = libraries[number % len(libraries)]
    dtype = str(chance.choice(DTYPES))
    shape = drawn_operand(dtype, most, chance)
    inputs = [_input(chance, shape, dtype, library)]
    names, narrow = expressions.NAMES[: int(chance.integers(1, 4))], []
    for name in names[1:]:
        other = dtype
        if dtype in NARROWER and chance.random() < 0.2:
            other = str(chance.choice(NARROWER[dtype]))
            narrow.append(name)
        inputs.append(_input(chance, _broadcast(chance, shape) if chance.random() < 0.3 else shape, other, library))
    kind = np.dtype(dtype).kind.replace("u", "i")
    is_new = bool(chance.random() < 0.5)
    out = _input(chance, shape, dtype, library)
    if is_new:
        out = Input(shape=shape, dtype=dtype, layout="contiguous", variant=0)
    return KernelCase(
        name=f"kernel:{seed}:{number}", library=library, inputs=tuple(inputs), is_new=is_new, out=out,
        expression=expressions.drawn(chance, names, kind, tuple(narrow)),
    )  # fmt: skip


def _input(chance: np.random.Generator, shape: Shape, dtype: str, library: str) -> Input:
    layout = drawn_view(shape, library, chance)
    return Input(shape=shape, dtype=dtype, layout=layout, variant=int(chance.integers(1 << 31)))


def _broadcast(chance: np.random.Generator, shape: Shape) -> Shape:
    """A shape that broadcasts to it: without its first axes, or with extents of 1."""
    if len(shape) > 1 and chance.random() < 0.5:
        return shape[int(chance.integers(1, len(shape))) :]
    kept = chance.random(len(shape)) < 0.5
    kept[int(chance.integers(len(shape)))] = False
    return tuple(extent if keep else 1 for extent, keep in zip(shape, kept, strict=True))
