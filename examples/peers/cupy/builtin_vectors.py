"""CUDA's vector types as array elements and as an argument (CuPy: examples/custom_struct/builtin_vectors.py)."""

import numpy as np

import xferlib as xl

SOURCE = """
__device__ double3 operator+(const double3 &x, const double3 &y) {
    return make_double3(x.x + y.x, x.y + y.y, x.z + y.z);
}
extern "C" __global__ void add(const double3 *x, double3 y, double3 *out) {
    out[threadIdx.x] = x[threadIdx.x] + y;
}"""


def main(count: int = 8) -> None:
    x, y = xl.random.default_rng(0).random((count, 3)), (1.0, 2.0, 3.0)
    out = xl.empty_like(x)
    xl.raw_module(SOURCE).get_function("add")(1, count, (x, y, out))
    np.testing.assert_array_equal(xl.to_host(out), xl.to_host(x) + y)
    print(f"{count} vectors: as expected")


if __name__ == "__main__":
    main()
