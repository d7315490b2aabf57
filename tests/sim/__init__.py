"""Tests of the simulator: by default, its studies at a tenth of their size; ``XFERLIB_TEST_LONG=1`` for all of them."""

from __future__ import annotations

import os

IS_LONG = bool(os.environ.get("XFERLIB_TEST_LONG"))


def sized(count: int) -> int:
    """A tenth of ``count``, or all of it in a long run."""
    return count if IS_LONG else max(1, count // 10)


def spread(count: int, most: int, salt: str) -> range:
    """About ``most`` numbers below ``count``, a fifth of them in a short run; others for another salt."""
    step = max(1, count // (most if IS_LONG else most // 5))
    return range(sum(salt.encode()) % step, count, step)
