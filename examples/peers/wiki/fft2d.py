"""The transform of an image that is too large for a device: rows, then columns, in bands (PyCUDA's wiki: 2d_fft).

Bands are spread over all devices, and uploaded and downloaded while others are computed.
"""

from typing import Any

import numpy as np

import xferlib as xl


def transform(rows: Any) -> Any:
    return xl.get_array_module(rows).fft.fft(rows)


def main(side: int = 256, bands: int = 4) -> None:
    image = np.random.default_rng(0).random((side, side)).astype("complex64")
    devices = [device for device in xl.get_backend().devices() if device.kind == xl.get_device().kind]
    result = image
    for _ in range(2):
        done = np.empty_like(result)
        xl.stream_map(transform, np.ascontiguousarray(result), chunk_rows=side // bands, out=done, devices=devices)
        result = done.T
    expected = np.fft.fft2(image)
    error = np.abs(result - expected).max() / np.abs(expected).max()
    assert error < 1e-6, error
    print(f"{side} x {side} in {bands} bands: off by {error:.0e} of the largest")


if __name__ == "__main__":
    main()
