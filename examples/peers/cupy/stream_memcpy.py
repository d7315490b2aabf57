"""Copies from and to pinned memory on two streams, both ways at a time (CuPy: examples/stream/cupy_memcpy.py)."""

import numpy as np

import xferlib as xl


def main(size: int = 1 << 20) -> None:
    x = np.arange(size, dtype="float32")
    y = xl.to_device(x)
    pinned, back = xl.pinned_array(x), xl.pinned_empty(size, "float32")

    start = xl.current_stream().record()
    xl.to_device(x)
    xl.to_host(y)
    print(f"one after the other: {xl.current_stream().record().elapsed_ms(start):.2f} ms")

    up, down = xl.Stream(), xl.Stream()
    down.wait(xl.current_stream())
    start = up.record()
    sent = xl.to_device(pinned, stream=up)
    fetched = xl.to_host_async(y, out=back, stream=down)
    up.wait(fetched)
    print(f"both at a time: {up.record().elapsed_ms(start):.2f} ms")
    np.testing.assert_array_equal(xl.to_host(sent, stream=up), fetched.result())


if __name__ == "__main__":
    main()
