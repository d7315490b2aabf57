"""A linear combination by a kernel with a function of its own (PyCUDA: examples/demo_elementwise.py)."""

import numpy as np

import xferlib as xl

combine = xl.elementwise(
    "float a, const float *x, float b, const float *y, float *z",
    "z[i] = my_f(a * x[i], b * y[i])",
    preamble="__device__ float my_f(float x, float y) { return sin(x * y); }",
)


def main() -> None:
    rng = xl.random.default_rng(0)
    x, y = rng.random(50, "float32"), rng.random(50, "float32")
    z = xl.empty_like(x)
    combine(5, x, 6, y, z)
    error = xl.to_host(z) - np.sin(5 * xl.to_host(x) * 6 * xl.to_host(y))
    print(f"off by {np.linalg.norm(error):.1e}")


if __name__ == "__main__":
    main()
