"""Random copies of one array: in what layout, from and to what memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xferlib._cli.bench.libraries import HostArray
from xferlib._cli.bench.result import size_text
from xferlib._cli.bench.sweep.arrays import LAYOUTS, Shape, drawn_shape, drawn_size, laid_out

DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int64", "bool", "int16", "complex64")
WIDENED = {"uint8": "float32", "float16": "float32", "float32": "float64", "int16": "float32"}
NARROWED = {"float64": "float32", "float32": "float16", "int64": "float32", "int32": "float32"}
GROUPS = {True: "to the device", False: "to the host"}
_LEAST, _MOST = 4 << 10, 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCase:
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
    has_stream: bool
    """On a GPU the arrays and the copy are of a stream of the program's own; else of the default one."""

    @property
    def nbytes(self) -> int:
        """Bytes of the narrower side."""
        return math.prod(self.shape) * min(np.dtype(self.given).itemsize, np.dtype(self.wanted).itemsize)

    @property
    def group(self) -> str:
        return GROUPS[self.is_upload]

    def __str__(self) -> str:
        memory = "pinned " if self.is_pinned else ""
        ends = f"up to {'a new' if self.is_new else 'an existing'}" if self.is_upload else "down to " + (
            "a new" if self.is_new else "an existing"
        )  # fmt: skip
        dtypes = self.given if self.given == self.wanted else f"{self.given} as {self.wanted}"
        stream = ", stream of its own" if self.has_stream else ""
        what = f"{size_text(self.nbytes)} {dtypes} {self.shape} {memory}{self.layout}"
        return f"{what}, {ends} {self.library} array{stream}"

    def host_array(self, *, of_target: bool = False) -> HostArray:
        """A new array of the case's layout; of a download the target, with the dtype that arrives."""
        dtype = np.dtype(self.wanted if of_target else self.given)
        return laid_out(self.shape, dtype, self.layout, np.random.default_rng(self.variant), is_pinned=self.is_pinned)


def drawn(seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> ArrayCase:
    """Draw a case; sizes are log-uniform from 4 KiB.

    Args:
        seed, number: Of the sweep, and of the case in it: the same case at each call.
        libraries: To choose from.
        most: Bytes of the largest; 256 MiB if omitted.
    """
    chance = np.random.default_rng([seed, number])
    nbytes = drawn_size(_LEAST, most or _MOST, chance)
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
    return ArrayCase(
        name=f"transfer:{seed}:{number}", library=library, is_upload=is_upload, is_new=is_new, is_pinned=is_pinned,
        layout=layout, shape=drawn_shape(nbytes / np.dtype(given).itemsize, axes, chance), given=given, wanted=wanted,
        variant=int(chance.integers(1 << 31)), has_stream=bool(chance.random() < 0.2),
    )  # fmt: skip
