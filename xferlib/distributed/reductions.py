"""Reductions over ranks: the operations, and the order in which reproducible ones add."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._memory.host import host_cache
from xferlib.errors import ArgumentError, UnsupportedDTypeError, did_you_mean, shown
from xferlib.kernels.elementwise import ElementwiseKernel, elementwise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from xferlib._core.layout import HostArray
    from xferlib.distributed.drivers.driver import Driver, Pending

OPS = ("sum", "prod", "min", "max", "mean")
_AVERAGES = {"avg": "mean", "average": "mean"}
_GATHERED_MOST = 32 << 10
"""Bytes of all ranks' data up to which every rank reduces all of it: one exchange instead of two."""
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + y,
    "prod": lambda x, y: x * y,
    "min": lambda x, y: np.minimum(x, y),  # noqa: PLW0108 - of the kernels: carries NaN, holds -0 for less than +0
    "max": lambda x, y: np.maximum(x, y),  # noqa: PLW0108 - a kernel is traced from a function of Python
    "divide": lambda x, y: x / y,
}


@functools.cache
def kernel(op: str) -> ElementwiseKernel:
    """The kernel of an operation, which gives the same bits on every backend."""
    return elementwise(_FUNCTIONS[op], name=f"xferlib_{op}")


def check_op(op: str, dtype: np.dtype[Any], call: str) -> None:
    """Refuse an unknown operation, and one that the dtype does not have.

    Raises:
        ArgumentError: It is none of `OPS`.
        UnsupportedDTypeError: A sum of bool, a mean of integers, an extremum of complex numbers.
    """
    if not isinstance(op, str) or op not in OPS:
        hint = did_you_mean(_AVERAGES.get(op.lower(), op.lower()), OPS) if isinstance(op, str) else ""
        raise ArgumentError(f"{call}: op={shown(op)} is none of {', '.join(OPS)}{hint}")
    if dtype.kind == "b" and op not in ("min", "max"):
        raise UnsupportedDTypeError(f"{call}: op={op!r} of bool; use 'max' for any, 'min' for all, or convert to int64")
    if dtype.kind in "iu" and op == "mean":
        raise UnsupportedDTypeError(f"{call}: op='mean' of {dtype}; convert to float64, or use 'sum'")
    if dtype.kind == "c" and op in ("min", "max"):
        raise UnsupportedDTypeError(f"{call}: op={op!r} of {dtype}, which has no order; reduce real parts or abs(x)")


def as_numbers(x: HostArray, op: str) -> HostArray:
    """The same memory in a dtype with the same result: parts of complex numbers, and bytes of bool."""
    if x.dtype.kind == "c" and op in ("sum", "mean"):
        return x.view(np.float32 if x.dtype.itemsize == 8 else np.float64)
    return x.view(np.uint8) if x.dtype.kind == "b" else x


def is_one_step(driver: Driver, dtype: np.dtype[Any], op: str, nbytes: int) -> bool:
    """Whether the driver reduces ``nbytes`` of the dtype by itself."""
    known = driver.reduces(as_numbers(np.empty(0, dtype), op).dtype, "sum" if op == "mean" else op)
    return known and nbytes < driver.reduces_below


def pairwise(rows: Sequence[Any] | HostArray, op: str) -> Any:
    """Reduce rows into the first: neighbours first, then neighbours of these results, and so on.

    Rows 0 to 4 give ((0 + 1) + (2 + 3)) + 4.
    """
    combine, step = kernel(op), 1
    while step < len(rows):
        for first in range(0, len(rows) - step, 2 * step):
            combine(rows[first], rows[first + step], out=rows[first])
        step *= 2
    return rows[0]


def divide(x: Any, count: int) -> None:
    """Divide floats by the number of ranks, where they are."""
    if count > 1:
        kernel("divide")(x, float(count), out=x)


def all_reduce(driver: Driver, out: HostArray, x: HostArray, op: str, *, in_order: bool) -> Iterator[Pending]:
    """Reduce ``x`` of all ranks into ``out``, which may be ``x`` itself; both flat and not empty."""
    plain = "sum" if op == "mean" else op
    result = as_numbers(out, op)
    given = result if x is out else as_numbers(x, op)  # the same array for both: drivers know by identity
    if not in_order and is_one_step(driver, x.dtype, op, x.nbytes):
        yield driver.all_reduce(result, given, plain)
    else:
        yield from _in_order(driver, result, given, plain)
    if op == "mean":
        divide(result, driver.size)


def _in_order(driver: Driver, out: HostArray, x: HostArray, op: str) -> Iterator[Pending]:
    """Each rank reduces one part of the elements in the order of `pairwise`, and all gather the parts."""
    size = driver.size
    count = x.size // size
    # Then all of it counts as the rest, below.
    if size == 1 or x.nbytes * size <= _GATHERED_MOST:
        count = 0
    main = count * size
    rest = np.empty(0, x.dtype)
    if main < x.size:
        rest = np.empty((size, x.size - main), x.dtype)
        yield driver.all_gather(rest.reshape(-1), x[main:])
        rest = pairwise(rest, op)
    if count:
        rows = host_cache.empty((size, count), x.dtype)
        yield driver.all_to_all(rows.reshape(-1), x[:main])
        yield driver.all_gather(out[:main], pairwise(rows, op))
    # Last: ``out`` may be ``x``, whose end is read above.
    out[main:] = rest


def reduce_scatter(driver: Driver, out: HostArray, x: HostArray, op: str) -> Iterator[Pending]:
    """Reduce part ``rank`` of all ranks' ``x`` into ``out``, in the order of `pairwise`."""
    result, given = as_numbers(out, op), as_numbers(x, op)
    rows = host_cache.empty((driver.size, math.prod(result.shape)), result.dtype)
    yield driver.all_to_all(rows.reshape(-1), given)
    result[...] = pairwise(rows, "sum" if op == "mean" else op)
    if op == "mean":
        divide(result, driver.size)
