"""An image rotated and resized, with linear interpolation (PyCUDA's wiki: rotate; without textures and image files)."""

from math import ceil, cos, pi, sin
from typing import Any

import numpy as np

import xferlib as xl

kernel = xl.elementwise(
    "raw uint8 image, int32 width, int32 height, int32 new_width, int32 new_height, float32 c, float32 s",
    "uint8 out",
    """
    const float x = i % new_width - new_width / 2.0f, y = i / new_width - new_height / 2.0f;
    const float sx = x * c + y * s + width / 2.0f - 0.5f, sy = y * c - x * s + height / 2.0f - 0.5f;
    if (sx < 0 || sx >= width - 1 || sy < 0 || sy >= height - 1) {
        out = 255;
    } else {
        const int left = (int)sx, top = (int)sy, at = top * width + left;
        const float fx = sx - left, fy = sy - top;
        out = (image[at] * (1 - fx) + image[at + 1] * fx) * (1 - fy)
            + (image[at + width] * (1 - fx) + image[at + width + 1] * fx) * fy;
    }
    """,
)


def rotate(image: Any, resize: float = 1.5, degrees: float = 20.0) -> Any:
    height, width = image.shape
    c, s = cos(degrees * pi / 180), sin(degrees * pi / 180)
    new_width = ceil((width * abs(c) + height * abs(s)) * resize)
    new_height = ceil((width * abs(s) + height * abs(c)) * resize)
    out = xl.empty((new_height, new_width), "uint8")
    return kernel(image, width, height, new_width, new_height, c / resize, s / resize, out)


def main() -> None:
    y, x = np.mgrid[:60, :80]
    image = xl.to_device((2 * x + y).astype("uint8"))
    turned = xl.to_host(rotate(image))
    print(f"{image.shape} became {turned.shape}; {(turned == 255).mean():.1%} of it lie outside")
    assert turned[turned.shape[0] // 2, turned.shape[1] // 2] in (108, 109, 110)  # the middle stays the middle


if __name__ == "__main__":
    main()
