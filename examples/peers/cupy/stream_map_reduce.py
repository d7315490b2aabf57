"""A product on each of ten streams, and their sum on an eleventh (CuPy: examples/stream/map_reduce.py)."""

import time

import numpy as np

import xferlib as xl


def main(size: int = 1 << 16, count: int = 10) -> None:
    generators = xl.random.default_rng(1).spawn(count)
    reduce_stream, products = xl.Stream(), []
    start = time.perf_counter()
    for rng in generators:
        with xl.Stream() as stream:
            products.append(rng.normal(size=(1, size)) @ rng.normal(size=(size, 1)))
        reduce_stream.wait(stream)  # on the device: the program goes on
    with reduce_stream:
        total = xl.to_host(sum(products[1:], products[0]))
    print(f"{1000 * (time.perf_counter() - start):.1f} ms; the sum is {total.item():.3f}")
    np.testing.assert_allclose(total, sum(xl.tree.to_host(products)))


if __name__ == "__main__":
    main()
