"""Updates of arrays' elements in the order of the call's elements: see `xferlib.kernels.ir.updates`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib.kernels.engines.numpy.indexing import check_range, check_stored
from xferlib.kernels.ir.updates import Update

A = np.ndarray[Any, Any]

_UFUNCS = {
    "add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def update_step(
    name: str, what: Update, slots: Sequence[int], out: int, *, is_checked: bool
) -> Callable[[list[A]], None]:
    """Make ``f(env)``, which updates elements of an array argument over the slots of ``env``.

    Args:
        name: The argument's, for messages.
        what: The update.
        slots: Those of index, value, mask, and of what is compared.
        out: The slot that gets the values before.
        is_checked: Whether two stores of different values to one element at a time are refused.
    """

    def run(env: list[A]) -> None:
        raw, found = env[what.param], env[out]
        index, value, mask, *rest = [np.broadcast_to(env[slot], found.shape) for slot in slots]
        taken = index[mask]
        check_range(taken, raw, name)
        at = taken if raw.ndim == 1 else np.unravel_index(taken, raw.shape)
        before = _applied(what, raw, at, value[mask], rest[0][mask] if rest else None)
        if is_checked and what.kind == "store":
            check_stored(taken, value[mask], raw, name)
        found[...] = 0
        if before is not None:
            found[mask] = before

    return run


def _applied(what: Update, raw: A, at: Any, value: A, compared: A | None) -> A | None:
    """Update elements one after the other; returns their values before, where those are wanted."""
    if what.kind == "store":
        raw[at] = value
        return None
    if not what.is_used and what.kind in _UFUNCS:
        _UFUNCS[what.kind].at(raw, at, value)
        return None
    before = np.empty_like(value)
    places = at if isinstance(at, np.ndarray) else list(zip(*at, strict=True))
    for number, place in enumerate(places):
        old = before[number] = raw[place]
        if what.kind in _UFUNCS:
            raw[place] = _UFUNCS[what.kind](old, value[number])
        elif what.kind == "exch" or (compared is not None and old == compared[number]):
            raw[place] = value[number]
    return before
