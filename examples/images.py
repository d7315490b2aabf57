"""A folder of PNGs, normalised: files are read and decoded by a thread while earlier batches are computed on.

The images cross the link as bytes. Needs matplotlib, which writes and reads the files.
"""

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl

COUNT, HEIGHT, WIDTH, BATCH = 24, 96, 128, 4


@xl.elementwise
def normalise(pixels: Any, mean: Any, spread: Any) -> Any:
    return (pixels.astype(np.float32) - mean) / spread


square_sum = xl.reduction("uint8 x", "int64 y", map_expr="x * x", reduce_expr="a + b", identity="0")


def write_images(folder: Path) -> None:
    """Blurred spots on a sky that is darker at the top, with noise, one file each."""
    import matplotlib.image as images

    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    for number in range(COUNT):
        sky = rows[..., None] / HEIGHT * np.array([90, 120, 170]) + rng.normal(0, 6, (HEIGHT, WIDTH, 3))
        spot = np.exp(-((rows - rng.integers(HEIGHT)) ** 2 + (columns - rng.integers(WIDTH)) ** 2) / 200)
        images.imsave(folder / f"{number:03}.png", np.clip(sky + 150 * spot[..., None], 0, 255).astype("uint8"))


def batches(paths: list[Path]) -> Iterator[Any]:
    """Decode a batch of files at a time; each batch is uint8 of (BATCH, HEIGHT, WIDTH, 3)."""
    import matplotlib.image as images

    for start in range(0, len(paths), BATCH):
        decoded = [images.imread(path)[..., :3] for path in paths[start : start + BATCH]]  # floats from 0 to 1
        yield np.rint(np.stack(decoded) * 255).astype("uint8")


def statistics(paths: list[Path]) -> tuple[Any, Any]:
    """The mean and the standard deviation of each colour."""
    total: Any = 0
    squares: Any = 0
    for batch in xl.prefetch(batches(paths)):
        xp = xl.get_array_module(batch)
        total = total + xp.sum(batch, axis=(0, 1, 2), dtype=xp.int64)
        squares = squares + square_sum(batch, axis=(0, 1, 2))
    count = len(paths) * HEIGHT * WIDTH
    mean = xl.to_host(total) / count
    return mean, np.sqrt(xl.to_host(squares) / count - mean**2)


def main() -> None:
    if find_spec("matplotlib") is None:
        raise SystemExit("needs matplotlib: pip install 'xferlib[trace]'")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_images(folder)
        paths = sorted(folder.glob("*.png"))
        mean, spread = (xl.to_device(each, dtype="float32") for each in statistics(paths))
        xl.synchronize()  # `transform` reads them on the stream of the copies
        sums: Any = 0.0
        squares: Any = 0.0
        for batch in xl.prefetch(batches(paths), transform=lambda pixels: normalise(pixels, mean, spread)):
            xp = xl.get_array_module(batch)
            sums = sums + xp.sum(batch, axis=(0, 1, 2), dtype=xp.float64)
            squares = squares + xp.sum(batch * batch, axis=(0, 1, 2), dtype=xp.float64)
        count = len(paths) * HEIGHT * WIDTH
        print(f"mean before {xl.to_host(mean).round(1)}, standard deviation {xl.to_host(spread).round(1)}")
        after, wide = np.abs(xl.to_host(sums) / count).max(), np.sqrt(xl.to_host(squares) / count)
        print(f"{len(paths)} PNGs of {HEIGHT} x {WIDTH}: mean {after:.3f}, standard deviation {wide.round(3).tolist()}")


if __name__ == "__main__":
    main()
