"""Normalisation by a smallest value and a divisor, and the time it takes (PyCUDA's wiki: arithmetic_example)."""

import numpy as np

import xferlib as xl

normalise = xl.elementwise("float *a, float minval, int denom", "a[i] = (a[i] - minval) / denom")


def main(count: int = 222_341) -> None:
    values = np.random.default_rng(0).normal(size=count).astype("float32")
    x = xl.to_device(values)
    start = xl.current_stream().record()
    normalise(x, 0, 255)
    print(f"{xl.current_stream().record().elapsed_ms(start):.3f} ms")
    np.testing.assert_array_equal(xl.to_host(x), values / np.float32(255))
    print(f"{values[-1]} became {xl.to_host(x)[-1]}")


if __name__ == "__main__":
    main()
