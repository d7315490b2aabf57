"""The Mandelbrot set by a kernel with a loop, and by functions (PyCUDA's wiki: mandelbrot, without its window).

python mandelbrot.py [width] [turns]
"""

import sys
from typing import Any

import numpy as np

import xferlib as xl

escape = xl.elementwise(
    "complex64 q, int32 turns",
    "int32 turn",
    """
    complex<float> z = 0;
    turn = 0;
    for (int n = 0; n < turns; n++) {
        z = z * z + q;
        if (abs(z) > 2.0f) { turn = n; break; }
    }
    """,
)


def by_functions(q: Any, turns: int) -> Any:
    xp = xl.get_array_module(q)
    z, turn = xp.zeros_like(q), xp.zeros(q.shape, dtype=xp.int32)
    for n in range(turns):
        z = z * z + q
        done = xp.abs(z) > 2
        q, z = xp.where(done, 0, q), xp.where(done, 0, z)
        turn = xp.where(done, n, turn)
    return turn


def main(width: int = 200, turns: int = 50) -> None:
    x, y = np.linspace(-2.13, 0.77, width, dtype="float32"), np.linspace(1.3, -1.3, width, dtype="float32")
    q = xl.to_device(x + 1j * y[:, None])
    found = [xl.to_host(function(q, turns)) for function in (escape, by_functions)]
    for row in found[0][:: width // 20, :: width // 40]:
        print("".join(" .:-=+*#%@"[min(each, 9)] for each in row))
    print(f"{(found[0] == 0).mean():.1%} within; {np.count_nonzero(found[0] != found[1])} points differ")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
