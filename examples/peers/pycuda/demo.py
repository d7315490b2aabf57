"""An array doubled in four ways (PyCUDA: examples/demo.py, the program of its tutorial)."""

import numpy as np

import xferlib as xl

SOURCE = """
extern "C" __global__ void twice(float *a) { a[threadIdx.x + threadIdx.y * 4] *= 2; }"""


def main() -> None:
    a = np.random.default_rng(0).normal(size=(4, 4)).astype("float32")
    twice = xl.raw_module(SOURCE).get_function("twice")
    x = xl.to_device(a)
    twice(1, (4, 4), (x,))
    in_place = xl.elementwise("float *a", "a[i] *= 2")
    y = xl.to_device(a)
    in_place(y)
    traced = xl.elementwise(lambda a: 2 * a)
    for doubled in (x, y, traced(xl.to_device(a)), 2 * xl.to_device(a)):
        np.testing.assert_array_equal(xl.to_host(doubled), 2 * a)
    print(f"original:\n{a}\ndoubled:\n{xl.to_host(x)}")


if __name__ == "__main__":
    main()
