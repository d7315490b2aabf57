"""One kernel on the arrays of every library that is there (PyCUDA: examples/cai_cupy_arrays.py and cai_numba.py)."""

import numpy as np

import xferlib as xl

SOURCE = """
extern "C" __global__ void twice(float *a) { a[threadIdx.x + threadIdx.y * 4] *= 2; }"""


def main() -> None:
    original = np.random.default_rng(0).normal(size=(4, 4)).astype("float32")
    twice = xl.raw_module(SOURCE).get_function("twice")
    for name in [name for name, status in xl.available_backends().items() if status.is_available]:
        a = xl.to_device(original, backend=name)
        twice(1, (4, 4), (a,))
        np.testing.assert_array_equal(xl.to_host(a), 2 * original)
        print(f"doubled: {type(a).__module__}.{type(a).__name__}")


if __name__ == "__main__":
    main()
