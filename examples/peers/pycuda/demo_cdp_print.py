"""A kernel that launches kernels, up to a depth, each of which tells who it is (PyCUDA's demo_cdpSimplePrint)."""

import sys

import numpy as np

import xferlib as xl

SOURCE = r"""
extern "C" __global__ void tell(int *launched, int most, int depth, int thread, int parent) {
    __shared__ int block;
    if (threadIdx.x == 0) {
        block = atomicAdd(launched, 1);
        printf("depth %d: block %d, of thread %d of block %d\n", depth, block, thread, parent);
    }
    __syncthreads();
    if (depth + 1 < most) tell<<<gridDim.x, blockDim.x>>>(launched, most, depth + 1, threadIdx.x, block);
}"""


def tell(launched: np.ndarray, most: int, depth: int, thread: int, parent: int) -> None:
    for _ in range(2):
        block, launched[0] = int(launched[0]), launched[0] + 1
        print(f"depth {depth}: block {block}, of thread {thread} of block {parent}")
        for each in range(2 if depth + 1 < most else 0):
            tell(launched, most, depth + 1, each, block)


def main(most: int = 2) -> None:
    launched = xl.zeros(1, "int32")
    xl.raw_module(SOURCE, options=["-dc"]).get_function("tell", cpu=tell)(2, 2, (launched, most, 0, 0, -1))
    count = int(xl.to_host(launched)[0])
    print(f"{count} blocks were launched, {count - 2} of them by blocks")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
