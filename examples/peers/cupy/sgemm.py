"""The product of two matrices by a kernel in CUDA C with tiles in shared memory (CuPy: examples/gemm).

Each block computes a tile of 64 x 64, each of its 256 threads 4 x 4 elements of it in registers.

python sgemm.py [m] [n] [k]
"""

import sys
from typing import Any

import numpy as np

import xferlib as xl

SOURCE = """
extern "C" __global__ void sgemm(int m, int n, int k, const float *a, const float *b, float *c) {
    __shared__ float rows[DEPTH][TILE + 1], columns[DEPTH][TILE + 1];
    const int x = threadIdx.x, y = threadIdx.y, t = y * SIDE + x;
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    float sum[EACH][EACH] = {};
    for (int start = 0; start < k; start += DEPTH) {
        for (int e = t; e < DEPTH * TILE; e += SIDE * SIDE) {
            const int r = top + e / DEPTH, q = start + e % DEPTH;
            rows[e % DEPTH][e / DEPTH] = r < m && q < k ? a[r * k + q] : 0;
            const int p = start + e / TILE, s = left + e % TILE;
            columns[e / TILE][e % TILE] = p < k && s < n ? b[p * n + s] : 0;
        }
        __syncthreads();
        for (int d = 0; d < DEPTH; ++d)
            for (int i = 0; i < EACH; ++i)
                for (int j = 0; j < EACH; ++j) sum[i][j] += rows[d][y + i * SIDE] * columns[d][x + j * SIDE];
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i)
        for (int j = 0; j < EACH; ++j) {
            const int r = top + y + i * SIDE, s = left + x + j * SIDE;
            if (r < m && s < n) c[r * n + s] = sum[i][j];
        }
}
"""
SIDE, EACH = 16, 4
OPTIONS = (f"-DSIDE={SIDE}", f"-DEACH={EACH}", f"-DTILE={SIDE * EACH}", "-DDEPTH=16")


kernel = xl.raw_module(SOURCE, options=OPTIONS).get_function("sgemm")


def sgemm(a: Any, b: Any) -> Any:
    (m, k), n = a.shape, b.shape[1]
    c = xl.empty((m, n), "float32")
    kernel((-(-n // (SIDE * EACH)), -(-m // (SIDE * EACH))), (SIDE, SIDE), (m, n, k, a, b, c))
    return c


def main(m: int = 300, n: int = 200, k: int = 500) -> None:
    rng = xl.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (m, k), "float32"), rng.uniform(-1, 1, (k, n), "float32")
    for name, product in (("own kernel", sgemm), ("library", lambda a, b: a @ b)):
        product(a, b)  # compiles
        start = xl.current_stream().record()
        c = xl.to_host(product(a, b))
        print(f"{name}: {xl.current_stream().record().elapsed_ms(start):.3f} ms")
        np.testing.assert_allclose(c, xl.to_host(a).astype(float) @ xl.to_host(b), atol=1e-3)
    print(f"{m} x {k} times {k} x {n}: the two agree to 0.001")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
