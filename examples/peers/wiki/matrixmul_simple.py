"""The product of two matrices, an element at a time (PyCUDA's wiki: matrixmul_simple)."""

import numpy as np

import xferlib as xl

multiply = xl.elementwise(
    "raw T a, raw T b, int32 inner, int32 columns",
    "T c",
    """
    T sum = 0;
    for (int k = 0; k < inner; ++k) sum += a[i / columns * inner + k] * b[k * columns + i % columns];
    c = sum;
    """,
)


def main(side: int = 4) -> None:
    a, b = np.random.default_rng(0).normal(size=(2, side, side)).astype("float32")
    c = xl.empty((side, side), "float32")
    multiply(*xl.tree.to_device((a, b)), side, side, c)
    np.testing.assert_allclose(xl.to_host(c), a @ b, rtol=1e-4, atol=1e-5)
    print(f"off by {np.abs(xl.to_host(c) - a @ b).max():.1e}")


if __name__ == "__main__":
    main()
