"""A struct with members of many kinds as an argument (CuPy: examples/custom_struct/complex_struct.py).

Its layout is read from the source, so that no kernel has to be asked for sizes and offsets.
"""

import numpy as np

import xferlib as xl

SOURCE = """
struct Mixed { int4 a; char b; double c[2]; short1 d; unsigned long long e[3]; };
extern "C" __global__ void total(const Mixed s, double *out) {
    out[threadIdx.x] = threadIdx.x * (s.a.x + s.a.y + s.a.z + s.a.w + s.b + s.c[0] + s.c[1] + s.d.x
                                      + s.e[0] + s.e[1] + s.e[2]);
}"""


def main(count: int = 8) -> None:
    out = xl.empty(count, "float64")
    total = xl.raw_module(SOURCE).get_function("total")
    total(1, count, ({"a": (0, 1, 2, 3), "b": 4, "c": (5, 6), "d": (7,), "e": (8, 9, 10)}, out))
    np.testing.assert_array_equal(xl.to_host(out), 55.0 * np.arange(count))
    print(f"struct of {total.parameters[0].nbytes} bytes: the sum of its members is 55")


if __name__ == "__main__":
    main()
