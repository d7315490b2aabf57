"""Two arrays multiplied by a kernel (PyCUDA: examples/hello_gpu.py)."""

import numpy as np

import xferlib as xl

multiply = xl.elementwise("const float *a, const float *b, float *product", "product[i] = a[i] * b[i]")


def main() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 400)).astype("float32")
    product = xl.empty(400, "float32")
    multiply(*xl.tree.to_device((a, b)), product)
    print(f"largest difference: {abs(xl.to_host(product) - a * b).max()}")


if __name__ == "__main__":
    main()
