"""Random reductions: of an array of any layout, over all axes, one or two."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xferlib._cli.bench.libraries import HostArray
from xferlib._cli.bench.result import size_text
from xferlib._cli.bench.sweep.arrays import Cut, Shape, cut, drawn_operand, drawn_view, scaled

Axis = int | tuple[int, int] | None
FLOATS = ("float32", "float64", "float16")
DTYPES: dict[str, tuple[str, ...]] = {
    "sum": (*FLOATS, "int32", "int64", "uint8", "bool", "complex64"),
    "prod": ("float32", "float64", "int32"),
    "min": (*FLOATS, "int32", "int64", "uint8"),
    "max": (*FLOATS, "int32", "int64", "uint8"),
    "mean": FLOATS,
    "var": FLOATS,
    "argmax": (*FLOATS, "int32", "int64", "uint8"),
    "any": ("bool", "float32", "uint8"),
    "all": ("bool", "float32", "uint8"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionCase:
    """One reduction to a new array."""

    name: str
    library: str
    """The backend of the array that xferlib takes."""
    operation: str
    shape: Shape
    dtype: str
    layout: str
    axis: Axis
    variant: int
    """Chooses among the layouts of that name, and the data."""

    @property
    def nbytes(self) -> int:
        """Bytes read."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def group(self) -> str:
        if self.axis is None:
            return "over all axes"
        return "over one axis" if isinstance(self.axis, int) else "over two axes"

    def __str__(self) -> str:
        size = size_text(self.nbytes)
        return f"{self.operation} of {size} {self.dtype} {self.shape} {self.layout}, axis {self.axis}, {self.library}"

    def cut(self) -> Cut:
        return cut(self.shape, self.layout, np.random.default_rng(self.variant))

    def memory(self) -> HostArray:
        """Flat memory of which the array is a cut.

        Floats are from 0 to 2. Products are of ones and a few twos, so that they are finite; `any` and `all` find no
        element that would let them end early.
        """
        chance = np.random.default_rng(self.variant)
        dtype, count = np.dtype(self.dtype), math.prod(self.cut().extents)
        if self.operation in ("any", "all", "prod"):
            found = np.full(count, self.operation != "any", dtype)
            if self.operation == "prod":
                found[chance.integers(0, count, 20)] = 2
            return found
        return scaled(count, dtype, chance)


def drawn(seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> ReductionCase:
    """Draw a reduction; sizes are log-uniform from 1 Ki elements to 64 Mi.

    Args:
        seed, number: Of the sweep, and of the case in it: the same case at each call.
        libraries: To choose from.
        most: Bytes of the largest, if that is less.
    """
    chance = np.random.default_rng([seed, number, 3])
    library = libraries[number % len(libraries)]
    operation = str(chance.choice(list(DTYPES)))
    dtype = str(chance.choice(DTYPES[operation]))
    shape = drawn_operand(dtype, most, chance)
    layout = drawn_view(shape, library, chance)
    return ReductionCase(
        name=f"reduction:{seed}:{number}", library=library, operation=operation, shape=shape, dtype=dtype,
        layout=layout, axis=_axis(chance, len(shape), operation), variant=int(chance.integers(1 << 31)),
    )  # fmt: skip


def _axis(chance: np.random.Generator, axes: int, operation: str) -> Axis:
    count = int(chance.choice(3, p=(0.25, 0.5, 0.25)))
    if count == 0:
        return None
    chosen = sorted(int(axis) for axis in chance.permutation(axes)[:count])
    if len(chosen) == 1 or operation == "argmax":
        return chosen[0]
    return chosen[0], chosen[1]
