"""A linear combination whose factors lie on the device too (PyCUDA's wiki: gpu_scalar_mult)."""

import numpy as np

import xferlib as xl

combine = xl.elementwise("T a, T x, T b, T y", "T z", "z = a * x + b * y")


def main(most: int = 20, repeats: int = 20) -> None:
    a, b = xl.full((), 5, "float32"), xl.full((), 7, "float32")
    for exponent in range(10, most + 1):
        x, y = (rng.random(1 << exponent, "float32") for rng in xl.random.default_rng(0).spawn(2))
        z = xl.empty_like(x)
        start = xl.current_stream().record()
        for _ in range(repeats):
            combine(a, x, b, y, z)
        print(f"2**{exponent} elements: {xl.current_stream().record().elapsed_ms(start) / repeats:.4f} ms")
    np.testing.assert_array_equal(xl.to_host(z), 5 * xl.to_host(x) + 7 * xl.to_host(y))


if __name__ == "__main__":
    main()
