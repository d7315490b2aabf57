"""Convert each of the 2^32 float32 numbers to every small float, and compare with ml_dtypes' bits and torch's numbers.

On the way to a backend, and on its device; float8 saturates as well, which is compared with ml_dtypes' conversion of
numbers that NumPy has clipped.

Run it as ``python tools/small_float_sweep.py [first] [last] [backend ...]``, in parts of 2^24 numbers; minutes on one
core, for NumPy. It prints a line for each dtype, and ends with 1 if a number differs. torch is compared below overflow,
where its versions differ, and its NaN has other bits; on a GPU so does any NaN.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

import xferlib as xl
from xferlib._core.arrays import check_dtype
from xferlib._core.dtypes import SMALL_FLOATS, float_limits

_PART = 1 << 24


class Counts(NamedTuple):
    """The numbers that become other ones than by ml_dtypes, by torch, and if NumPy has clipped them before."""

    by_ml_dtypes: int = 0
    by_torch: int = 0
    saturated: int = 0


def count_differences(name: str, bits: np.ndarray[tuple[int], np.dtype[np.uint32]], backends: Sequence[str]) -> Counts:
    """Convert numbers, by the bits of float32."""
    dtype, x = check_dtype(name), bits.view(np.float32)
    unsigned = f"u{dtype.itemsize}"
    most, is_nan = np.float32(float_limits(dtype).max), np.isnan(x)
    with np.errstate(all="ignore"):
        of_ml_dtypes, clipped = (each.astype(dtype).view(unsigned) for each in (x, np.clip(x, -most, most)))
    integer = torch.int16 if dtype.itemsize == 2 else torch.uint8
    of_torch = torch.from_numpy(x).to(getattr(torch, name)).view(integer).numpy().view(unsigned)
    counts = np.zeros(3, np.int64)
    for backend in backends:
        given = xl.to_device(x, backend=backend)
        is_gpu = xl.device_of(given).kind == "cuda"
        for found in (xl.to_device(x, dtype=dtype, backend=backend), xl.astype(given, dtype)):
            there = np.asarray(xl.to_host(found))
            is_equal_nan = is_nan & np.isnan(there) & is_gpu
            counts[0] += ((there.view(unsigned) != of_ml_dtypes) & ~is_equal_nan).sum()
            counts[1] += ((there.view(unsigned) != of_torch) & (np.abs(x) <= most)).sum()
        if dtype.itemsize == 1:
            there = np.asarray(xl.to_host(xl.astype(given, dtype, saturate=True)))
            counts[2] += ((there.view(unsigned) != clipped) & ~(is_nan & np.isnan(there) & is_gpu)).sum()
    return Counts(*counts.tolist())


def main(first: int = 0, last: int = 256, *, backends: Sequence[str]) -> int:
    """Compare parts ``first`` up to ``last`` of 256."""
    torch.set_num_threads(1)
    found = dict.fromkeys(SMALL_FLOATS, Counts())
    for part in range(first, last):
        bits = np.arange(_PART, dtype=np.uint32) + np.uint32(part * _PART)
        for name, before in found.items():
            found[name] = Counts(*map(sum, zip(before, count_differences(name, bits, backends), strict=True)))
    for name, counts in found.items():
        print(
            f"{name}: of {(last - first) * _PART} numbers {counts.by_ml_dtypes} differ from ml_dtypes', "
            f"{counts.by_torch} from torch's; saturated {counts.saturated} from clipped ones"
        )
    return int(any(map(any, found.values())))


if __name__ == "__main__":
    sys.exit(main(*(int(each) for each in sys.argv[1:3]), backends=sys.argv[3:] or ("numpy",)))
