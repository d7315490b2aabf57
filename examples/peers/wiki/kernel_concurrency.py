"""A kernel on two streams at a time (PyCUDA's wiki: kernel_concurrency).

python kernel_concurrency.py [rounds]
"""

import sys

import numpy as np

import xferlib as xl

work = xl.elementwise(
    "float *d, int rounds",
    """
    float x = d[i];
    for (int m = 0; m < rounds; m++) {
        for (int k = 0; k < 100; k++) x = x * 2;
        for (int k = 0; k < 100; k++) x = x / 2;
    }
    d[i] = x * 2;
    """,
)


def main(rounds: int = 100) -> None:
    data = np.random.default_rng(0).normal(size=(2, 400)).astype("float32")
    arrays, streams = [*map(xl.to_device, data)], [xl.Stream(), xl.Stream()]
    start = xl.current_stream().record()
    for stream in streams:
        stream.wait(start)
    for _ in range(10):
        for stream, array in zip(streams, arrays, strict=True):
            with stream:
                work(array, rounds)
    for number, (stream, array) in enumerate(zip(streams, arrays, strict=True)):
        print(f"data set {number}: complete after {stream.record().elapsed_ms(start):.3f} ms")
        np.testing.assert_array_equal(xl.to_host(array, stream=stream), data[number] * 2**10)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
