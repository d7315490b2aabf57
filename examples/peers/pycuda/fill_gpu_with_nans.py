"""As much of a device's memory as it gives, filled with NaNs (PyCUDA: examples/fill_gpu_with_nans.py).

python fill_gpu_with_nans.py [most MiB]
"""

import sys

import numpy as np

import xferlib as xl


def main(most_mib: int = 1 << 20) -> None:
    wanted = min(xl.get_device().free_memory, most_mib << 20) // 4
    while True:
        try:
            array = xl.full(wanted, np.nan, "float32")
            break
        except MemoryError:
            wanted -= wanted // 16
    assert np.isnan(xl.to_host(array[-1:])).all()
    print(f"filled {4 * wanted >> 20} MiB with NaNs")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
