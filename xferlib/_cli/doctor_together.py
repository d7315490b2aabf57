"""Several CUDA libraries in one process: whether they share their contexts. Runs in a process of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

import xferlib as xl


def answer(*names: str) -> dict[str, Any]:
    """Use each backend, then each again, on the first device; ``wrong`` says where one failed beside the others."""
    x = np.arange(1000, dtype=np.float32)
    wrong = []
    for name in (*names, *names):
        try:
            if xl.to_host(xl.to_device(x, backend=name)).tobytes() != x.tobytes():
                wrong.append(f"{name}: an array comes back changed")
        except Exception as error:
            wrong.append(f"{name}: {error}")
    return {"wrong": wrong}
