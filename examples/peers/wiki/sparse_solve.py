"""Sparse equations by conjugate gradients with a preconditioner (PyCUDA's wiki: sparse_solve; a Poisson problem).

python sparse_solve.py [side of the grid]
"""

import sys
from typing import Any

import numpy as np

import xferlib as xl

multiply = xl.elementwise(
    "raw T values, raw int32 columns, raw int32 starts, raw T x",
    "T y",
    "T sum = 0; for (int k = starts[i]; k < starts[i + 1]; ++k) sum += values[k] * x[columns[k]]; y = sum",
)


def poisson(side: int) -> tuple[Any, Any, Any]:
    """The equations of a square grid, in compressed rows: values, columns, and where each row begins."""
    cell = np.arange(side * side)
    around = [
        (cell, np.full(cell.shape, True), 4.0),
        (cell - 1, cell % side > 0, -1.0),
        (cell - side, cell >= side, -1.0),
    ]
    around += [(cell + 1, cell % side < side - 1, -1.0), (cell + side, cell < side * (side - 1), -1.0)]
    rows = np.stack([is_there for _, is_there, _ in around], axis=1)
    columns = np.stack([column for column, _, _ in around], axis=1)[rows]
    values = np.broadcast_to([value for _, _, value in around], rows.shape)[rows]
    return values, columns.astype("int32"), np.concatenate(([0], np.cumsum(rows.sum(axis=1)))).astype("int32")


def dot(x: Any, y: Any) -> float:
    return float(xl.to_host(xl.kernels.reductions.dot(x, y)))


def main(side: int = 32) -> None:
    matrix = xl.tree.to_device(poisson(side))
    b = xl.random.default_rng(0).random(side * side)
    x, r, z = 0 * b, b, b / 4  # every element of the diagonal is 4
    p, rz, steps = z, dot(r, z), 0
    while dot(r, r) > 1e-14:
        ap = multiply(*matrix, p, xl.empty_like(p))
        step = rz / dot(p, ap)
        x, r = x + step * p, r - step * ap
        z, before = r / 4, rz
        rz, steps = dot(r, z), steps + 1
        p = z + rz / before * p
    residual = xl.to_host(multiply(*matrix, x, xl.empty_like(x)) - b)
    print(f"{side * side} unknowns, {steps} steps, residual {np.linalg.norm(residual):.1e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
