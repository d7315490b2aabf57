"""How much of a test runs: a part, which is another one in each test, or with ``XFERLIB_TEST_LONG=1`` all of it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any, TypeVar

IS_LONG = bool(os.environ.get("XFERLIB_TEST_LONG"))

T = TypeVar("T")


def sized(count: int) -> int:
    """A tenth of ``count``, or all of it in a long run."""
    return count if IS_LONG else max(1, count // 10)


def spread(count: int, most: int, salt: str) -> range:
    """About ``most`` numbers below ``count``, a fifth of them in a short run; others for another salt."""
    step = max(1, count // (most if IS_LONG else most // 5))
    return range(sum(salt.encode()) % step, count, step)


def some(cases: Sequence[T], one_in: int, salt: str = "") -> Sequence[T]:
    """Every n-th of the cases, others for another salt; all of them in a long run."""
    return cases if IS_LONG else cases[sum(salt.encode()) % one_in :: one_in]


def crossed(one_in: int, *factors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Every n-th combination of values, so that each value of each factor has its share; all in a long run."""
    step = 1 if IS_LONG else one_in
    places = itertools.product(*(range(len(each)) for each in factors))
    return [
        tuple(each[place] for each, place in zip(factors, found, strict=True))
        for found in places
        if sum(found) % step == 0
    ]


def alternated(cases: Sequence[T], devices: Sequence[str]) -> list[tuple[T, str]]:
    """Each case with each device or backend, in turn without NumPy's and without torch's CPU; all in a long run."""
    left_out = itertools.cycle(("",) if IS_LONG else ("numpy", "torch"))
    return [
        (case, device)
        for case, name in zip(cases, left_out, strict=False)
        for device in devices
        if device.removesuffix(":cpu") != name
    ]
