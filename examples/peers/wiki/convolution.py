"""A separable convolution, rows and then columns (PyCUDA's wiki: convolution).

python convolution.py [width] [height] [radius]
"""

import sys
from typing import Any

import numpy as np

import xferlib as xl

convolve = xl.elementwise(
    "raw float32 image, raw float32 weights, int32 width, int32 height, int32 radius, bool along_rows",
    "float32 out",
    """
    const int x = i % width, y = i / width;
    float sum = 0;
    for (int k = -radius; k <= radius; ++k) {
        const int at = (along_rows ? x : y) + k, step = along_rows ? 1 : width;
        if (at >= 0 && at < (along_rows ? width : height)) sum += image[i + k * step] * weights[radius - k];
    }
    out = sum;
    """,
)


def gaussian(radius: int) -> Any:
    weights = np.exp(-((np.arange(-radius, radius + 1) / (radius / 2)) ** 2))
    return (weights / weights.sum()).astype("float32")


def main(width: int = 120, height: int = 90, radius: int = 8) -> None:
    image, weights = np.random.default_rng(0).random((height, width)).astype("float32"), gaussian(radius)
    d, w = xl.tree.to_device((image, weights))
    start = xl.current_stream().record()
    rows = convolve(d, w, width, height, radius, True, xl.empty_like(d))
    found = convolve(rows, w, width, height, radius, False, xl.empty_like(d))
    print(f"{xl.current_stream().record().elapsed_ms(start):.3f} ms")
    expected = image.astype(float)
    for axis in (1, 0):
        expected = np.apply_along_axis(np.convolve, axis, expected, weights, "same")
    np.testing.assert_allclose(xl.to_host(found), expected, atol=1e-5)
    print(f"{width} x {height}, radius {radius}: off by {np.abs(xl.to_host(found) - expected).max():.1e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
