"""Reading and writing arrays at computed indices, block by block, with the checks that a GPU cannot make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib.errors import KernelTypeError

A = np.ndarray[Any, Any]


def gather_step(name: str) -> Callable[..., None]:
    """Make ``f(raw, index, [mask,] out)``, which reads array argument ``name``; 0 where the mask is false."""

    def gather(raw: A, index: A, *rest: A) -> None:
        mask, out = (rest[0], rest[1]) if len(rest) == 2 else (None, rest[0])
        taken = index if mask is None else np.where(mask, index, 0)
        if mask is not None and not np.any(mask):
            out[...] = 0
            return
        check_range(taken, raw, name)
        np.copyto(out, raw[taken])
        if mask is not None:
            np.copyto(out, False, where=~mask)  # an int would not go into an array of bool

    return gather


def scatter_step(name: str, *, is_checked: bool) -> Callable[..., None]:
    """Make ``f(index, value, [mask,] out)``, which writes array argument ``name``.

    Args:
        name: The argument's, for messages.
        is_checked: Whether two elements may have one index, so that the values are compared.
    """

    def scatter(index: A, value: A, *rest: A) -> None:
        mask, out = (rest[0], rest[1]) if len(rest) == 2 else (None, rest[0])
        if mask is None:
            index, value = np.broadcast_arrays(index, value)
        else:
            index, value, mask = np.broadcast_arrays(index, value, mask)
            index, value = index[mask], value[mask]
        check_range(index, out, name)
        if out.ndim == 1:
            out[index] = value
        else:  # a strided array, whose elements have no flat view
            np.put(out, index, value)
        if is_checked:
            check_stored(index, value, out, name)

    return scatter


def check_stored(index: A, value: A, out: A, name: str) -> None:
    """Refuse two different values for one element: a GPU would keep either of them."""
    index = index.ravel()
    kept = (out if out.ndim == 1 else out.ravel())[index]
    differs = kept.view(np.uint8) != value.ravel().view(np.uint8)
    if differs.any():
        bad = index[int(np.flatnonzero(differs)[0]) // out.dtype.itemsize]
        raise KernelTypeError(
            f"argument {name!r}: two elements of the call wrote different values to element {int(bad)}, and on a GPU "
            "either might stay; give each element an index of its own"
        )


def check_range(index: A, raw: A, name: str) -> None:
    """Refuse indices beyond an array."""
    if index.size and (index.min() < 0 or index.max() >= raw.size):
        bad = index.min() if index.min() < 0 else index.max()
        raise KernelTypeError(
            f"argument {name!r} has {raw.size} elements, and the kernel used index {int(bad)}; "
            "bound the index in the kernel, or pass size="
        )
