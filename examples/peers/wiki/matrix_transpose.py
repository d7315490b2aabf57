"""A matrix transposed through shared memory (PyCUDA's wiki: matrix_transpose), and by the library.

python matrix_transpose.py [largest side]
"""

import sys
from typing import Any

import numpy as np

import xferlib as xl

SOURCE = """
extern "C" __global__ void transpose(float *out, const float *a, int width, int height) {
    __shared__ float tile[SIDE][SIDE + 1];
    int x = blockIdx.x * SIDE + threadIdx.x, y = blockIdx.y * SIDE + threadIdx.y;
    if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = a[y * width + x];
    __syncthreads();
    x = blockIdx.y * SIDE + threadIdx.x, y = blockIdx.x * SIDE + threadIdx.y;
    if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][threadIdx.y];
}"""
SIDE = 16


kernel = xl.raw_module(SOURCE, options=(f"-DSIDE={SIDE}",)).get_function("transpose")


def transpose(a: Any) -> Any:
    height, width = a.shape
    out = xl.empty((width, height), "float32")
    kernel((-(-width // SIDE), -(-height // SIDE)), (SIDE, SIDE), (out, a, width, height))
    return out


def main(largest: int = 1024, repeats: int = 10) -> None:
    side = 128
    while side <= largest:
        a = xl.random.default_rng(side).random((side, side + 16), "float32")
        np.testing.assert_array_equal(xl.to_host(transpose(a)), xl.to_host(a).T)
        start = xl.current_stream().record()
        for _ in range(repeats):
            transpose(a)
        seconds = xl.current_stream().record().elapsed_ms(start) / 1000
        print(f"{side} x {side + 16}: {8 * side * (side + 16) * repeats / seconds / 1e9:.1f} GB/s")
        side *= 2


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
