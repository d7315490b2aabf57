"""Random copies of many arrays: the parameters of published networks, and trees of random leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xferlib._cli.bench.libraries import HostArray
from xferlib._cli.bench.result import size_text
from xferlib._cli.bench.sweep.arrays import Shape, drawn_shape
from xferlib._cli.bench.sweep.transfer.array_cases import GROUPS
from xferlib._cli.bench.sweep.transfer.networks import NETWORKS

_MOST = 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCase:
    """Many arrays, copied in one direction."""

    name: str
    library: str
    is_upload: bool
    tree: str
    """The network, or what was drawn."""
    shapes: tuple[Shape, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        return sum(map(math.prod, self.shapes)) * np.dtype(self.dtype).itemsize

    @property
    def group(self) -> str:
        return GROUPS[self.is_upload]

    def __str__(self) -> str:
        way = "up to" if self.is_upload else "down from"
        arrays = f"{len(self.shapes)} arrays, {size_text(self.nbytes)} of {self.dtype}"
        return f"{self.tree} ({arrays}), {way} {self.library}"

    def host_arrays(self) -> list[HostArray]:
        """New contiguous arrays."""
        dtype = np.dtype(self.dtype)
        return [np.full(shape, number % 100, dtype) for number, shape in enumerate(self.shapes)]


def drawn(seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> TreeCase:
    """Draw a published network, or random leaves.

    Args:
        seed, number, libraries: As for one array.
        most: Bytes of the largest; 4 GiB if omitted.
    """
    chance = np.random.default_rng([seed, number, 1])
    library, is_upload = libraries[number % len(libraries)], bool(chance.random() < 0.5)
    names = [*NETWORKS, "random"]
    tree = names[int(chance.choice(len(names), p=[0.15, 0.15, 0.1, 0.1, 0.5]))]
    dtype = str(chance.choice(["float32", "float32", "float16", "float64"]))
    if tree.startswith("decoder"):
        dtype = "float16"
    if tree == "random":
        leaves = int(math.exp(chance.uniform(0, math.log(600))))
        middle = chance.uniform(math.log(64), math.log(1 << 20))
        sizes = np.exp(chance.normal(middle, 2.0, leaves)).clip(1, 1 << 24)
        shapes = tuple(drawn_shape(float(size), int(chance.integers(1, 4)), chance) for size in sizes)
    else:
        shapes = tuple(NETWORKS[tree]())
    room = (most or _MOST) // np.dtype(dtype).itemsize
    shapes = tuple(shape for shape in shapes if math.prod(shape) <= room // 2) or ((room // 2,),)
    while sum(map(math.prod, shapes)) > room:
        shapes = shapes[: -(-len(shapes) // 2)]
    return TreeCase(
        name=f"tree:{seed}:{number}", library=library, is_upload=is_upload, tree=tree, shapes=shapes, dtype=dtype
    )
