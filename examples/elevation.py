"""A height map in a file larger than the device's memory, stretched to grey values, part by part.

XFERLIB_BACKEND=sim XFERLIB_SIM_MEMORY=16MiB python examples/elevation.py
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl

SIDE, ROWS = 4096, 256  # 32 MiB of int16, in parts of 2 MiB

grey = xl.elementwise("int16 height, float32 low, float32 high", "uint8 y", "y = (height - low) * 255 / (high - low)")


def write_map(path: Path) -> Any:
    """Metres above the sea: ridges on a slope from -100 m up to 2900 m."""
    heights = np.memmap(path, "int16", "w+", shape=(SIDE, SIDE))
    across = 500 * np.sin(np.arange(SIDE) / 200)
    for start in range(0, SIDE, ROWS):
        along = np.arange(start, start + ROWS)
        heights[start : start + ROWS] = 400 + (along * 0.49)[:, None] + across * np.cos(along / 300)[:, None]
    return heights


def extremes(part: Any) -> Any:
    """The lowest and the highest point."""
    xp = xl.get_array_module(part)
    return xp.stack([xp.min(part), xp.max(part)])


def wider(one: Any, two: Any) -> Any:
    return np.array([min(one[0], two[0]), max(one[1], two[1])])


def main() -> None:
    memory = xl.get_device().total_memory
    with tempfile.TemporaryDirectory() as folder:
        heights = write_map(Path(folder) / "heights.bin")
        image = np.memmap(Path(folder) / "grey.bin", "uint8", "w+", shape=heights.shape)
        try:
            xl.to_device(heights)
            print(f"{heights.nbytes >> 20} MiB fit a device of {memory >> 20} MiB at once")
        except xl.errors.DeviceMemoryError:
            print(f"{heights.nbytes >> 20} MiB do not fit a device of {memory >> 20} MiB at once")
        low, high = map(int, xl.stream_map(extremes, heights, chunk_rows=ROWS, reduce=wider))
        xl.stream_map(lambda part: grey(part, low, high), heights, chunk_rows=ROWS, out=image)
        print(f"{low} m to {high} m became {image.min()} to {image.max()}, the middle {image[SIDE // 2].mean():.2f}")
        del heights, image


if __name__ == "__main__":
    main()
