"""Convert each of the 2^32 float32 numbers to every small float, and compare with ml_dtypes' bits and torch's numbers.

float8 saturates as well, which is compared with ml_dtypes' conversion of numbers that NumPy has clipped.

Run it as ``python tools/small_float_sweep.py [first] [last]``, in parts of 2^24 numbers; minutes on one core. It prints
a line for each dtype, and ends with 1 if a number differs. torch is compared below overflow, where its versions differ,
and its NaN has other bits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

import xferlib as xl
from xferlib._core.arrays import check_dtype, float_limits
from xferlib._core.dtypes import SMALL_FLOATS

_PART = 1 << 24


def count_differences(name: str, bits: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> tuple[int, int, int]:
    """The numbers, by the bits of float32, that become other ones than by ml_dtypes, by torch, and if clipped."""
    dtype, x = check_dtype(name), bits.view(np.float32)
    unsigned = f"u{dtype.itemsize}"
    found = np.asarray(xl.to_device(x, dtype=dtype, backend="numpy")).view(unsigned)
    with np.errstate(all="ignore"):
        by_ml_dtypes = int((found != x.astype(dtype).view(unsigned)).sum())
    integer = torch.int16 if dtype.itemsize == 2 else torch.uint8
    by_torch = torch.from_numpy(x).to(getattr(torch, name)).view(integer).numpy().view(unsigned)
    most = np.float32(float_limits(dtype).max)
    of_torch = int(((found != by_torch) & (np.abs(x) <= most)).sum())
    if dtype.itemsize > 1:
        return by_ml_dtypes, of_torch, 0
    saturated = xl.astype(x, dtype, saturate=True).view(unsigned)
    with np.errstate(all="ignore"):
        clipped = np.clip(x, -most, most).astype(dtype).view(unsigned)
    return (
        by_ml_dtypes,
        of_torch,
        int(((saturated != clipped) & ~np.isnan(x)).sum() + (saturated != found)[np.isnan(x)].sum()),
    )


def main(first: int = 0, last: int = 256) -> int:
    """Compare parts ``first`` up to ``last`` of 256."""
    torch.set_num_threads(1)
    found = dict.fromkeys(SMALL_FLOATS, (0, 0, 0))
    for part in range(first, last):
        bits = np.arange(_PART, dtype=np.uint32) + np.uint32(part * _PART)
        for name, (one, two, three) in found.items():
            more = count_differences(name, bits)
            found[name] = one + more[0], two + more[1], three + more[2]
    for name, (one, two, three) in found.items():
        print(
            f"{name}: of {(last - first) * _PART} numbers {one} differ from ml_dtypes', {two} from torch's; saturated "
            f"{three} from clipped ones"
        )
    return int(any(map(any, found.values())))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
