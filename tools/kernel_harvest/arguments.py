"""Random arguments for a kernel, among them NaN, infinities, zeros of both signs and the extremes of integers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.kernel_harvest.trying import Taken
from xferlib.kernels.definitions import CParam

A = np.ndarray[Any, Any]

INCREASING, DISTINCT = -1, -2
_SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.5)


@dataclass(frozen=True, slots=True)
class Mood:
    """How wild the values are."""

    name: str
    most: int
    """The largest integer, 0 for any with the extremes, or `INCREASING` or `DISTINCT`."""
    has_specials: bool
    scalars: bool
    """Whether inputs of a declared dtype are numbers, not arrays."""
    least: int = 0
    """The least of the integers."""


MOODS = (
    Mood("any values", 0, has_specials=True, scalars=False),
    Mood("any values, numbers", 0, has_specials=True, scalars=True),
    Mood("small integers", 7, has_specials=True, scalars=True),
    Mood("positive numbers", 3, has_specials=False, scalars=True, least=1),
    Mood("indices", 1, has_specials=False, scalars=True),
    Mood("indices in arrays", 2, has_specials=False, scalars=False),
    Mood("increasing", INCREASING, has_specials=False, scalars=True),
    Mood("permutations", DISTINCT, has_specials=False, scalars=True),
)
SHAPE = (7, 9)
_RAW = {1: (4096,), 2: (64, 64), 3: (16, 16, 16)}


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call's arguments in the order of its parameters; numbers are NumPy scalars."""

    values: tuple[Any, ...]
    size: int
    """The number of elements."""
    needs_size: bool


def draw(taken: Taken, mood: Mood, rank: int, seed: int) -> Arguments:
    """Arguments for a call; ``rank`` is that of arrays that the kernel indexes."""
    rng = np.random.default_rng(seed)
    params = (*taken.inputs, *taken.outputs)
    values = []
    has_elements = False
    for number, param in enumerate(params):
        is_number = number in taken.scalars or (mood.scalars and number < len(taken.inputs) and _may_be_number(param))
        is_free = param.is_raw
        shape = () if is_number else _RAW[rank] if is_free else (63,) if param.is_pointer else SHAPE
        has_elements |= not is_number and not is_free
        value = _values(taken.dtype(param), shape, mood, rng)
        values.append(value[()] if is_number else value)
    return Arguments(tuple(values), int(np.prod(SHAPE)), not has_elements)


def _may_be_number(param: CParam) -> bool:
    return param.dtype is not None and not (param.is_raw or param.is_pointer)


def _values(dtype: np.dtype[Any], shape: tuple[int, ...], mood: Mood, rng: np.random.Generator) -> A:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "c":
        part = np.dtype("float32" if dtype.itemsize == 8 else "float64")
        found = np.empty(shape, dtype)
        found.real, found.imag = _values(part, shape, mood, rng), _values(part, shape, mood, rng)
        return found
    count = int(np.prod(shape))
    if dtype.kind == "f":
        flat = rng.standard_normal(count) * (4 if mood.most else 10.0 ** rng.integers(-3, 4, count))
        if mood.has_specials and count > 1:
            at = rng.choice(count, count // 5, replace=False)
            flat[at] = rng.choice(_SPECIAL, len(at))
        flat = abs(flat) if mood.least else flat
        return flat.astype(dtype).reshape(shape)
    if mood.most == DISTINCT:
        return (rng.permutation(count) + (count < 100) if count > 1 else np.array(5)).astype(dtype).reshape(shape)
    if mood.most == INCREASING:
        return (np.cumsum(rng.integers(0, 3, count)) % 100).astype(dtype).reshape(shape)
    if mood.most:
        return rng.integers(mood.least, mood.most, count, endpoint=True).astype(dtype).reshape(shape)
    about = np.iinfo(dtype)
    flat = rng.integers(about.min, about.max, count, endpoint=True, dtype=dtype)
    small = rng.integers(0, 3, count) > 0
    flat[small] = rng.integers(0, 100, count).astype(dtype)[small]
    if count > 8:
        flat[:6] = [about.min, about.max, 0, 1, 2, 3]
        rng.shuffle(flat)
    return flat.reshape(shape)


def ranks(taken: Taken) -> tuple[int, ...]:
    """The ranks to try for arrays that the kernel indexes."""
    text = " ".join(taken.found.texts.values())
    return (2, 3) if re.search(r"\.(shape|strides)\s*\(|\w\s*\[\s*\{|\w+\s*\[\s*\]\s*=", text) else (1,)
