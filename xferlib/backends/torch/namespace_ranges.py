"""Torch's ranges of numbers with NumPy's bits: by NumPy's formulas, whose last bits torch's own have not."""

from __future__ import annotations

import math
from typing import Any

import array_api_compat.torch as compat
import numpy as np
import torch
from torch import Tensor

from xferlib._core import convert
from xferlib._core.layout import shape_of
from xferlib.backends.torch import namespace_dtypes as dtypes
from xferlib.backends.torch.namespace_creation import FLOAT, by_default, place_of
from xferlib.backends.torch.namespace_dtypes import FROM_TORCH, SIGNED, torch_dtype
from xferlib.backends.torch.tensors import TO_TORCH
from xferlib.errors import ArgumentError, UnsupportedDTypeError, shown

_INTEGERS = (int, np.integer, torch.SymInt)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Numbers from ``start`` to below ``stop``, ``step`` apart.

    Raises:
        ArgumentError: ``step`` is 0, or the range has no end.
        UnsupportedDTypeError: More than two booleans are asked for.
        OverflowError: One of the first two numbers, which make the others, is out of the dtype's range.
    """
    if step == 0:
        raise ArgumentError("arange: step=0 makes a range without end; give another step")
    wanted: torch.dtype = torch_dtype(dtype) or _ranged(*((start, step) if stop is None else (start, stop, step)))
    first, last = (0, start) if stop is None else (start, stop)
    if all(isinstance(each, _INTEGERS) for each in (first, last, step)):
        first, last, step = (each.item() if isinstance(each, np.generic) else each for each in (first, last, step))
        return _of_integers(first, last, step, wanted, place_of(device))
    extent = float((last - first) / step)
    if not math.isfinite(extent):
        raise ArgumentError(f"arange: from {shown(first)} to {shown(last)} by {shown(step)} has no end; give numbers")
    if not wanted.is_floating_point and not wanted.is_complex:
        return _by_host(first, last, step, wanted, place_of(device))
    count = max(math.ceil(extent), 0)
    return _of_floats(first, first + step, count, wanted, place_of(device))


def _of_integers(first: Any, last: Any, step: Any, wanted: torch.dtype, place: Any) -> Tensor:
    real = wanted.to_real() if wanted.is_complex else wanted
    numbers = first, last, step, first + step
    if torch.compiler.is_compiling() or torch.SymInt in map(type, numbers):  # which no number is compared with
        pass
    elif not real.is_floating_point:
        if wanted is torch.bool or not all(dtypes.fits(each, wanted) for each in (first, last, first + step)):
            return _by_host(first, last, step, wanted, place)
    elif max(map(abs, numbers)) * torch.finfo(real).eps > 1:  # else torch's sums are exact, and so NumPy's
        return _of_floats(first, first + step, max(-((first - last) // step), 0), wanted, place)
    able = torch.int64 if wanted in SIGNED else FLOAT if wanted.is_complex else wanted
    found: Tensor = compat.arange(first, last, step, dtype=able, device=place)
    return found if able is wanted else found.to(wanted)


def _by_host(first: Any, last: Any, step: Any, wanted: torch.dtype, place: Any) -> Tensor:
    """A range of integers that NumPy makes: it refuses numbers out of range, and goes on from them as they wrap."""
    numpys: Any = np.arange
    try:
        found = numpys(first, last, step, dtype=FROM_TORCH[wanted])
    except TypeError:
        raise UnsupportedDTypeError(
            "arange: a range of booleans has at most two elements; give another dtype"
        ) from None
    return torch.from_numpy(found).to(place)


def _of_floats(first: Any, second: Any, count: int, wanted: torch.dtype, place: Any) -> Tensor:
    """A range as NumPy fills it: it converts the first two numbers, and goes on with their difference."""
    numbers = torch.arange(count, device=place)
    able = wanted.to_real() if wanted.is_complex else wanted
    wide = torch.float32 if able is torch.float16 else able
    start, after = (_rounded(float(each), able) for each in (first, second))
    found = numbers.to(wide) * _rounded(after - start, wide) + start
    found[:1], found[1:2] = start, after  # the sum of zeros has another sign
    return found.to(wanted)


def _rounded(number: float, dtype: torch.dtype) -> float:
    """A number as a dtype of torch's holds it."""
    return number if dtype is FLOAT else float(torch.tensor(number, dtype=dtype).item())


def _ranged(*numbers: Any) -> torch.dtype:
    """The dtype of a range, which NumPy's own rule for its numbers decides."""
    kinds = set(map(type, numbers))
    if kinds <= {int, float, torch.SymInt}:
        return by_default() if float in kinds else torch.int64
    numpys: Any = np.arange
    zeros = [type(each)(0) for each in numbers[:-1]]
    return TO_TORCH[numpys(*zeros, step=type(numbers[-1])(1)).dtype]


def linspace(
    start: Any, stop: Any, /, num: int = 50, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """``num`` numbers at equal distances from ``start`` to ``stop``.

    Raises:
        UnsupportedDTypeError: ``dtype`` would drop the imaginary part.
    """
    (num,) = shape_of(num, what="linspace: num")
    plain = {type(start), type(stop)} <= {int, float}
    own = FLOAT if plain else TO_TORCH[np.linspace(type(start)(0), type(stop)(0), 0).dtype]
    wanted: torch.dtype = torch_dtype(dtype) or (by_default() if plain else own)
    if own.is_complex and wanted in FROM_TORCH:
        convert.check_conversion(FROM_TORCH[own], FROM_TORCH[wanted])
    kind: Any = float if own is FLOAT else FROM_TORCH[own].type
    first, last = kind(start), kind(stop)
    count, place = num - endpoint, place_of(device)
    delta = last - first
    step = delta / count if count > 0 else delta
    parts = [(first, step, delta, last)]
    if own.is_complex:
        parts = [tuple(each.real for each in parts[0]), tuple(each.imag for each in parts[0])]
    able = own.to_real() if own.is_complex else own
    lines = [_line(num, count, able, place, *[float(each) for each in part], endpoint=endpoint) for part in parts]
    found = torch.complex(*lines) if own.is_complex else lines[0]
    return (torch.floor(found) if wanted in dtypes.RANGES else found).to(wanted)


def _line(
    num: int, count: int, dtype: torch.dtype, place: Any, first: float, step: float, delta: float, last: float,
    *, endpoint: bool,
) -> Tensor:  # fmt: skip
    numbers = torch.arange(num, device=place).to(dtype)
    # A difference so small that its part is 0 is multiplied first.
    found = numbers / count * delta + first if step == 0 and count > 0 else numbers * step + first
    if endpoint and num > 1:
        found[-1:] = last
    return found
