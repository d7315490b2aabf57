"""Running sums and products along an axis, by the Array API's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib._api.arrays import indexing, joining, scans, shaping
from xferlib._api.arrays.primitives import Primitives, checked_dtype
from xferlib._core.array import Array
from xferlib._core.layout import axis_of
from xferlib.errors import ArgumentError

_INITIAL = {"+": 0, "*": 1}


def _result_dtype(name: str, dtype: np.dtype[Any], given: Any) -> np.dtype[Any]:
    """NumPy's: sums of narrow integers are wide."""
    found: np.dtype[Any] = getattr(np, name)(np.empty(1, dtype), dtype=checked_dtype(given)).dtype
    return found


def _cumulative(
    lib: Primitives, name: str, symbol: str, x: Array, axis: int | None, dtype: Any, *, include_initial: bool
) -> Array:
    x = lib.array(name, x)
    info = lib.info(x)
    if axis is None and len(info.shape) > 1:
        raise ArgumentError(f"{name}: an array of {len(info.shape)} axes needs axis=; give one")
    if not info.shape:
        x = shaping.reshape(lib, x, (1,))
    along = axis_of(name, 0 if axis is None else axis, max(len(info.shape), 1))
    result = _result_dtype(name, info.dtype, dtype)
    wide = np.dtype("float32") if result == np.float16 else result
    moved = shaping.moveaxis(lib, x, along, -1)
    rows = scans.scan(lib, lib.copy(moved, wide), symbol)
    if include_initial:
        head = (*lib.info(rows).shape[:-1], 1)
        first = indexing.filled(lib, head, _INITIAL[symbol], wide, info.device)
        rows = joining.concat(lib, [first, rows], axis=-1)
    found = shaping.moveaxis(lib, rows, -1, along)
    return found if wide == result else lib.copy(found, result)


def cumulative_sum(
    lib: Primitives, x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Sums of the elements so far."""
    return _cumulative(lib, "cumulative_sum", "+", x, axis, dtype, include_initial=include_initial)


def cumulative_prod(
    lib: Primitives, x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Products of the elements so far."""
    return _cumulative(lib, "cumulative_prod", "*", x, axis, dtype, include_initial=include_initial)
