"""Matrices of 4 x 4 as elements and as an argument of templates (CuPy: examples/custom_struct/packed_matrix.py)."""

import numpy as np

import xferlib as xl

SOURCE = """
template<typename T> struct Matrix { T value[4][4]; };
template<typename T> __global__ void fma(const Matrix<T> *a, const Matrix<T> *b, const Matrix<T> c, Matrix<T> *out) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            T sum = c.value[i][j];
            for (int k = 0; k < 4; k++) sum += a[threadIdx.x].value[i][k] * b[threadIdx.x].value[k][j];
            out[threadIdx.x].value[i][j] = sum;
        }
}"""


def main(count: int = 8) -> None:
    kinds = {"float": "float32", "double": "float64"}
    module = xl.raw_module(SOURCE, names=[f"fma<{name}>" for name in kinds])
    for name, dtype in kinds.items():
        rng = xl.random.default_rng(0)
        a, b = rng.random((count, 4, 4), dtype), rng.random((count, 4, 4), dtype)
        c, out = xl.to_host(rng.random((4, 4), dtype)), xl.empty_like(a)
        module.get_function(f"fma<{name}>")(1, count, (a, b, {"value": c}, out))
        np.testing.assert_allclose(xl.to_host(out), xl.to_host(a) @ xl.to_host(b) + c, rtol=1e-6)
        print(f"{count} matrices of {name}: as expected")


if __name__ == "__main__":
    main()
