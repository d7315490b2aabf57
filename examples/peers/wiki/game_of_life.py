"""Conway's Game of Life on a torus (PyCUDA's wiki: game_of_life, without its picture).

python game_of_life.py [side] [turns]
"""

import sys
from typing import Any

import numpy as np

import xferlib as xl

step = xl.elementwise(
    "raw int32 c, int32 side",
    "int32 alive",
    """
    const int x = i % side, y = i / side, l = (x + side - 1) % side, r = (x + 1) % side;
    const int up = (y + side - 1) % side * side, down = (y + 1) % side * side, here = y * side;
    const int count = c[up + l] + c[up + x] + c[up + r] + c[here + l] + c[here + r]
        + c[down + l] + c[down + x] + c[down + r];
    alive = count == 3 || (count == 2 && c[i]);
    """,
)


def on_host(cells: Any) -> Any:
    count = sum(np.roll(cells, (y, x), (0, 1)) for y in (-1, 0, 1) for x in (-1, 0, 1)) - cells
    return ((count == 3) | ((count == 2) & (cells == 1))).astype("int32")


def main(side: int = 200, turns: int = 20) -> None:
    expected = np.random.default_rng(0).integers(0, 2, (side, side), "int32")
    now, then = xl.to_device(expected), xl.empty((side, side), "int32")
    for _ in range(turns):
        step(now, side, then)
        now, then, expected = then, now, on_host(expected)
    np.testing.assert_array_equal(xl.to_host(now), expected)
    print(f"{expected.sum()} live cells after {turns} turns")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
