"""Random cases: what is copied, in what layout, from and to what memory. A case is known by its seed and number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from xferlib._cli.bench.result import size_text
from xferlib._cli.bench.sweep.networks import NETWORKS, Shape

HostArray = np.ndarray[Any, Any]
DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int64", "bool", "int16", "complex64")
WIDENED = {"uint8": "float32", "float16": "float32", "float32": "float64", "int16": "float32"}
NARROWED = {"float64": "float32", "float32": "float16", "int64": "float32", "int32": "float32"}
LAYOUTS = ("contiguous", "contiguous", "transposed", "permuted", "every second row", "cropped", "reversed", "swapped")
_LEAST, _MOST = 4 << 10, 256 << 20
_PERIOD = 65_537


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCase:
    """One array, copied in one direction."""

    name: str
    library: str
    """The backend of the device arrays that xferlib makes."""
    is_upload: bool
    is_new: bool
    """To a new array, rather than into one that is there."""
    is_pinned: bool
    layout: str
    """Of the array on the host; of a download to a new array, nothing."""
    shape: Shape
    given: str
    """The dtype of the source."""
    wanted: str
    """The dtype that arrives."""
    variant: int
    """Chooses among the layouts of that name, and the data."""

    @property
    def nbytes(self) -> int:
        """Bytes of the narrower side."""
        return math.prod(self.shape) * min(np.dtype(self.given).itemsize, np.dtype(self.wanted).itemsize)

    def __str__(self) -> str:
        memory = "pinned " if self.is_pinned else ""
        ends = f"up to {'a new' if self.is_new else 'an existing'}" if self.is_upload else "down to " + (
            "a new" if self.is_new else "an existing"
        )  # fmt: skip
        dtypes = self.given if self.given == self.wanted else f"{self.given} as {self.wanted}"
        return f"{size_text(self.nbytes)} {dtypes} {self.shape} {memory}{self.layout}, {ends} {self.library} array"

    def host_array(self, *, of_target: bool = False) -> HostArray:
        """A new array of the case's layout; of a download the target, with the dtype that arrives."""
        dtype = np.dtype(self.wanted if of_target else self.given)
        return laid_out(self.shape, dtype, self.layout, np.random.default_rng(self.variant), is_pinned=self.is_pinned)


def laid_out(
    shape: Shape, dtype: np.dtype[Any], layout: str, chance: np.random.Generator, *, is_pinned: bool = False
) -> HostArray:
    """An array of that layout with random numbers in it; only a contiguous one may be pinned."""
    extents = list(shape)
    order = list(range(len(shape)))
    if layout == "transposed":
        order.reverse()
    elif layout == "permuted":
        order = [int(axis) for axis in chance.permutation(len(shape))]
    elif layout == "every second row":
        extents[0] *= 2
    elif layout == "cropped":
        extents = [extent + max(1, extent // 4) for extent in shape]
    if layout == "swapped":
        dtype = dtype.newbyteorder()
    numbers = _numbers(math.prod(extents), dtype, chance)
    if is_pinned:
        import xferlib as xl

        numbers = xl.pinned_array(numbers)
    whole = numbers.reshape([extents[axis] for axis in order]).transpose(np.argsort(order))
    if layout == "every second row":
        return whole[::2]
    if layout == "cropped":
        return whole[tuple(slice(extent // 8, extent // 8 + extent) for extent in shape)]
    if layout == "reversed":
        return whole[::-1]
    return whole


def _numbers(count: int, dtype: np.dtype[Any], chance: np.random.Generator) -> HostArray:
    """Small numbers, which every dtype holds; their period is prime, so that no two blocks are the same."""
    some = chance.integers(0, 2 if dtype.kind == "b" else 120, min(count, _PERIOD)).astype(dtype.newbyteorder("="))
    return np.resize(some, count).astype(dtype, copy=False)


def transfer_case(seed: int, number: int, libraries: tuple[str, ...], most: int = _MOST) -> TransferCase:
    """Draw a case; sizes are log-uniform from 4 KiB.

    Args:
        seed, number: Of the sweep, and of the case in it: the same case at each call.
        libraries: To choose from.
        most: Bytes of the largest.
    """
    chance = np.random.default_rng([seed, number])
    nbytes = math.exp(chance.uniform(math.log(_LEAST), math.log(most)))
    library = libraries[number % len(libraries)]
    given = str(chance.choice(DTYPES))
    is_upload, is_new = bool(chance.random() < 0.6), bool(chance.random() < 0.5)
    layout = str(chance.choice(LAYOUTS))
    if not is_upload and (is_new or layout == "swapped"):  # a result has no other layout, a target the native order
        layout = "contiguous"
    wanted = given
    if chance.random() < 0.2:
        wanted = (WIDENED if chance.random() < 0.5 else NARROWED).get(given, given)
    is_pinned = layout == "contiguous" and bool(chance.random() < 0.25) and (is_upload or not is_new)
    axes = {"transposed": 2, "permuted": int(chance.integers(3, 6)), "cropped": int(chance.integers(2, 4))}.get(
        layout, int(chance.integers(1, 4))
    )
    if layout == "every second row":
        axes = max(axes, 2)
    return TransferCase(
        name=f"transfer:{seed}:{number}", library=library, is_upload=is_upload, is_new=is_new, is_pinned=is_pinned,
        layout=layout, shape=_shape(nbytes / np.dtype(given).itemsize, axes, chance), given=given, wanted=wanted,
        variant=int(chance.integers(1 << 31)),
    )  # fmt: skip


def _shape(size: float, axes: int, chance: np.random.Generator) -> Shape:
    """Extents whose product is about ``size``, of very different lengths."""
    shares = chance.dirichlet(np.full(axes, 2.0))
    return tuple(max(2, round(size**share)) for share in shares)


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

    def __str__(self) -> str:
        way = "up to" if self.is_upload else "down from"
        arrays = f"{len(self.shapes)} arrays, {size_text(self.nbytes)} of {self.dtype}"
        return f"{self.tree} ({arrays}), {way} {self.library}"

    def host_arrays(self) -> list[HostArray]:
        """New contiguous arrays."""
        dtype = np.dtype(self.dtype)
        return [np.full(shape, number % 100, dtype) for number, shape in enumerate(self.shapes)]


def tree_case(seed: int, number: int, libraries: tuple[str, ...], most: int = 4 << 30) -> TreeCase:
    """Draw a published network, or random leaves; arguments as for `transfer_case`."""
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
        shapes = tuple(_shape(float(size), int(chance.integers(1, 4)), chance) for size in sizes)
    else:
        shapes = tuple(NETWORKS[tree]())
    room = most // np.dtype(dtype).itemsize
    shapes = tuple(shape for shape in shapes if math.prod(shape) <= room // 2) or ((room // 2,),)
    while sum(map(math.prod, shapes)) > room:
        shapes = shapes[: -(-len(shapes) // 2)]
    return TreeCase(
        name=f"tree:{seed}:{number}", library=library, is_upload=is_upload, tree=tree, shapes=shapes, dtype=dtype
    )
