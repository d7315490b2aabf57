"""PyTorch's DataLoader as the source of batches, on whatever backend computes.

The loader shuffles and collates in host memory; `prefetch` copies the next batches while this one is computed on. It
needs no ``pin_memory=True``, and the program calls ``.to(device)`` nowhere. Each class of digits is represented by its
mean, and an image belongs to the class whose mean is nearest.
"""

from importlib.resources import files
from typing import Any

import numpy as np

import xferlib as xl

TRAIN, CLASSES = 1500, 10


def load() -> tuple[Any, Any]:
    """1,797 handwritten digits, float32 rows of 64 pixels, and their labels."""
    with (files("xferlib") / "_cli" / "demo" / "digits.npz").open("rb") as file, np.load(file) as data:
        return data["images"].reshape(-1, 64).astype("float32"), data["labels"].astype("int64")


def class_means(loader: Any) -> Any:
    """The mean image of each class, shape (CLASSES, 64)."""
    sums: Any = 0.0
    counts: Any = 0.0
    for images, labels in xl.prefetch(loader):
        xp = xl.get_array_module(images)
        member = xp.astype(labels[:, None] == xp.arange(CLASSES), xp.float32)  # (batch, CLASSES), 1 or 0
        sums = sums + member.T @ images
        counts = counts + xp.sum(member, axis=0)
    return sums / counts[:, None]


def nearest(means: Any, images: Any) -> Any:
    xp = xl.get_array_module(means)
    return xp.argmin(xp.sum(means * means, axis=1) - 2 * (images @ means.T), axis=1)


def main() -> None:
    try:
        import torch
        from torch.utils.data import DataLoader, TensorDataset
    except ImportError:
        raise SystemExit("needs PyTorch: `xferlib doctor` says how to install it") from None
    images, labels = load()
    data = TensorDataset(torch.from_numpy(images[:TRAIN]), torch.from_numpy(labels[:TRAIN]))
    loader = DataLoader(data, batch_size=128, shuffle=True, generator=torch.Generator().manual_seed(0))
    means = class_means(loader)
    found = xl.to_host(nearest(means, xl.to_device(images[TRAIN:])))
    right = int((found == labels[TRAIN:]).sum())
    print(f"{len(loader)} batches of a DataLoader; the nearest mean is right for {right} of {len(found)} digits")


if __name__ == "__main__":
    main()
