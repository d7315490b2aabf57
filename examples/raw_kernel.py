"""A kernel in CUDA C over two dimensions: 16 x 16 threads a block, a grid rounded up, bounds checked in the kernel.

Arguments are checked against the C signature before anything is launched. On a CPU the same source runs with NVRTC
(`pip install "xferlib[cuda-on-cpu]"`).
"""

import numpy as np

import xferlib as xl

SOURCE = """
extern "C" __global__ void add(const float *x, const float *y, float *z, int nx, int ny) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < nx && j < ny) z[j * nx + i] = x[j * nx + i] + y[j * nx + i];
}
"""


def main() -> None:
    x = np.arange(10, dtype="float32").reshape(2, 5)
    y = (10 * np.random.RandomState(123).rand(2, 5)).astype("float32")
    ny, nx = x.shape
    dx, dy = xl.to_device(x), xl.to_device(y)
    dz = xl.zeros_like(dx)
    add = xl.raw_module(SOURCE).get_function("add")
    block = (16, 16)
    grid = (-(-nx // block[0]), -(-ny // block[1]))
    add(grid, block, (dx, dy, dz, nx, ny))
    assert (xl.to_host(dz) == x + y).all()
    print(f"sum of {ny} x {nx}: {xl.to_host(dz).sum():.4f}")
    try:
        add(grid, block, (dx, dy, dz, nx, 2.5))
    except xl.errors.KernelTypeError as error:
        print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
