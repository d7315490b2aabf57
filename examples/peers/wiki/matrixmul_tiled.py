"""The product of two matrices, tile by tile (PyCUDA's wiki: matrixmul_tiled, demo_meta_matrixmul_cheetah).

python matrixmul_tiled.py [side] [tile]
"""

import sys

import numpy as np

import xferlib as xl

SOURCE = """
extern "C" __global__ void multiply(const float *a, const float *b, float *c, int side) {
    __shared__ float rows[TILE][TILE], columns[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    float sum = 0;
    for (int start = 0; start < side; start += TILE) {
        rows[y][x] = a[row * side + start + x];
        columns[y][x] = b[(start + y) * side + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += rows[y][k] * columns[k][x];
        __syncthreads();
    }
    c[row * side + column] = sum;
}"""


def main(side: int = 64, tile: int = 16) -> None:
    a, b = np.random.default_rng(0).normal(size=(2, side, side)).astype("float32")
    module = xl.raw_module(SOURCE, options=(f"-DTILE={tile}",))
    multiply = module.get_function("multiply")
    c = xl.empty((side, side), "float32")
    start = xl.current_stream().record()
    multiply((side // tile, side // tile), (tile, tile), (*xl.tree.to_device((a, b)), c, side))
    print(f"{xl.current_stream().record().elapsed_ms(start):.3f} ms")
    np.testing.assert_allclose(xl.to_host(c), a.astype(float) @ b, atol=1e-3)
    print(f"l2 norm of the difference from NumPy: {np.linalg.norm(xl.to_host(c) - a @ b):.1e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
