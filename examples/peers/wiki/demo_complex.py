"""The product of complex arrays by a kernel (PyCUDA's wiki: demo_complex)."""

import numpy as np

import xferlib as xl

multiply = xl.elementwise("complex<float> *x, complex<float> *y, complex<float> *z", "z[i] = x[i] * y[i]")


def main() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 400, 2)).astype("float32").view("complex64")[..., 0]
    c = xl.empty(400, "complex64")
    multiply(*xl.tree.to_device((a, b)), c)
    print(f"off by {np.linalg.norm(xl.to_host(c) - a * b):.1e}")


if __name__ == "__main__":
    main()
