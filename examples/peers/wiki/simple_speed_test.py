"""The sine of the sine, again and again, in three ways (PyCUDA's wiki: simple_speed_test).

python simple_speed_test.py [turns]
"""

import sys
import time

import numpy as np

import xferlib as xl

looping = xl.elementwise("float *a, int turns", "for (int k = 0; k < turns; k++) a[i] = sin(a[i])")
once = xl.elementwise("float *a", "a[i] = sin(a[i])")


def main(turns: int = 100, count: int = 64 * 128) -> None:
    for name in ("kernel with a loop", "loop of kernels", "functions", "NumPy"):
        a = xl.to_device(np.ones(count, "float32"), backend="numpy" if name == "NumPy" else None)
        xp = xl.get_array_module(a)
        start = time.perf_counter()
        if name == "kernel with a loop":
            looping(a, turns)
        else:
            for _ in range(turns):
                a = xp.sin(a) if name in ("functions", "NumPy") else (once(a), a)[1]
        xl.synchronize()
        print(f"{name}: {time.perf_counter() - start:.3f} s, {xl.to_host(a)[:3]}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
