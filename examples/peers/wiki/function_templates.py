"""A kernel that calls a template in C++ (PyCUDA's wiki: c++_function_templates)."""

import numpy as np

import xferlib as xl

SOURCE = """
template <class T> __device__ T increment(T x) { return x + 1.0; }
template <class T> __global__ void apply(T *a) { a[threadIdx.x] = increment(a[threadIdx.x]); }"""


def main() -> None:
    values = np.random.default_rng(0).random(5).astype("float32")
    x = xl.to_device(values)
    xl.raw_module(SOURCE, names=("apply<float>",)).get_function("apply<float>")(1, 5, (x,))
    print(f"x: {values}\nincremented: {xl.to_host(x)}")


if __name__ == "__main__":
    main()
