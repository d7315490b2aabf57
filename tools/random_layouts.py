"""Send arrays of random layout to a device and back, by every path, and compare them bit for bit.

    python tools/random_layouts.py [--backend cupy] [--count 10000] [--seed 0]

Shapes of up to four dimensions and about a megabyte; permuted, reversed, repeated and overlapping axes, gaps, offsets,
misalignment, both byte orders, every dtype, read-only sources, arbitrary bits. Exits 1 at the first difference, which
it describes so that it can be repeated.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import xferlib as xl
from xferlib._core.arrays import DTYPES
from xferlib.testing import assert_same_bits, forced

HostArray = np.ndarray[Any, Any]
WAYS = (None, None, "small", "staged", "staged", "permuted")
MOST_ELEMENTS = 60_000


def draw(rng: np.random.Generator, shape: tuple[int, ...] | None = None, dtype: Any = None) -> HostArray:
    """An array of any layout over memory of its own; with a shape and dtype, one that can be written."""
    is_target = shape is not None
    found = np.dtype(DTYPES[rng.integers(len(DTYPES))] if dtype is None else dtype)
    if not is_target and rng.random() < 0.3:
        found = found.newbyteorder()
    extents = shape if shape is not None else _shape(rng)
    strides, step = [0] * len(extents), found.itemsize
    for axis in rng.permutation(len(extents)):
        kind = rng.choice(["dense", "dense", "gap", "reverse"] + ([] if is_target else ["repeat", "overlap"]))
        if kind == "repeat":
            continue
        gap = int(rng.integers(2, 4)) if kind == "gap" else 1
        strides[axis] = (-step if kind == "reverse" else step) * gap
        step *= gap * (max(extents[axis], 1) if kind != "overlap" else 1)
    reach = [(extent - 1) * stride for extent, stride in zip(extents, strides, strict=True) if extent]
    low, high = sum(n for n in reach if n < 0), sum(n for n in reach if n > 0)
    lead = int(rng.integers(0, 4)) * found.itemsize + int(rng.integers(0, found.itemsize + 1))
    memory = rng.integers(0, 2 if found.kind == "b" else 256, lead - low + high + found.itemsize, dtype=np.uint8)
    array: HostArray = np.ndarray(extents, found, memory, lead - low, strides)
    array.flags.writeable = is_target or bool(rng.random() < 0.7)
    return array


def _shape(rng: np.random.Generator) -> tuple[int, ...]:
    ndim = int(rng.integers(0, 5))
    most = MOST_ELEMENTS if rng.random() < 0.2 else 500
    extents: list[int] = []
    for _ in range(ndim):
        room = max(1, most // math.prod(max(extent, 1) for extent in extents))
        extents.append(
            int(rng.integers(0 if rng.random() < 0.03 else 1, min(room, 1 + room // (ndim - len(extents))) + 1))
        )
    return tuple(extents)


def check(rng: np.random.Generator, place: xl.Device) -> str:
    """One array there and back; returns the way that it was to take.

    Raises:
        AssertionError: A bit differs.
    """
    source = draw(rng)
    way = WAYS[rng.integers(len(WAYS))]
    native = source.dtype.newbyteorder("=")
    expected = np.array(source, native, order="C")
    with forced(way, chunk_nbytes=int(rng.integers(16, 1 << 16))):
        there = xl.to_device(source, device=place)
        back = xl.to_host(there)
        target = draw(rng, source.shape, native)
        xl.to_host(there, out=target)
        again = xl.to_host(xl.to_device(expected, out=xl.empty(source.shape, native, device=place)))
        later = xl.to_host_async(xl.to_device_async(source, device=place).result()).result()
    for name, found in (("to_host", back), ("out=", target), ("into out=", again), ("async", later)):
        try:
            assert_same_bits(found, expected)
        except AssertionError as error:
            raise AssertionError(
                f"{name} by {way}: strides {source.strides}, target strides {target.strides}: {error}"
            ) from None
    return way or "own choice"


def main(argv: list[str] | None = None) -> int:
    """Check as many as asked for, and say how many went which way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", help="backend to check (default: the current one)")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    ways: collections.Counter[str] = collections.Counter()
    with xl.use_backend(options.backend) if options.backend else contextlib.nullcontext():
        place = xl.get_device()
    for number in range(options.count):
        try:
            ways[check(np.random.default_rng((options.seed, number)), place)] += 1
        except AssertionError as error:
            print(f"{place}: array {number} of seed {options.seed} differs: {error}", file=sys.stderr)
            return 1
    told = ", ".join(f"{count} {way}" for way, count in sorted(ways.items()))
    print(f"{place}: {options.count} random layouts, there and back four times each, bit for bit: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
