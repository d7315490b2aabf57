"""Copying and converting on the host, with the same bits on every machine.

``astype`` of a float that an integer cannot hold gives whatever the processor does; here it
saturates, and NaN becomes 0, as on every backend (see the table of guarantees).
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xferlib._core.array import is_sequence
from xferlib.errors import UnsupportedDTypeError

_BLOCK = 1 << 16


def check_conversion(source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Refuse a conversion that would drop a part of every value.

    Raises:
        UnsupportedDTypeError: Complex to real.
    """
    if source.kind == "c" and target.kind not in "cb":
        raise UnsupportedDTypeError(
            f"dtype={target.name!r} would drop the imaginary part of {source.name}; pass x.real or abs(x)"
        )


def exactly(obj: Any, host: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The array that NumPy has made of ``obj``; for integers and an integer dtype, one of that dtype.

    Among floats, or beside larger ones, integers are floats in NumPy's array. Here each is converted by itself.

    Raises:
        OverflowError: An integer does not fit into the dtype.
        UnsupportedDTypeError: Complex numbers would lose their imaginary part.
    """
    if host is obj or isinstance(obj, np.generic):
        return host
    check_conversion(host.dtype, dtype)
    if host.dtype.kind not in "iuf" or dtype.kind not in "iu":
        return host
    try:
        if host.dtype.kind in "iu":
            return np.asarray(obj, dtype)
        if not is_sequence(type(obj)):
            return host
        items = np.array(obj, object)
        whole = {number: each for number, each in enumerate(map(_integer, items.flat)) if each is not None}
        if items.shape != host.shape or not whole:
            return host
        found = np.empty(host.shape, dtype)
        copy_into(found, host)
        found.flat[[*whole]] = np.array([*whole.values()], dtype)
    except OverflowError as error:
        raise OverflowError(f"{error}; give a wider dtype") from None
    return found


def _integer(item: Any) -> int | None:
    """An integer, or an array of one without axes, as Python's; None of anything else."""
    try:
        return operator.index(item)
    except Exception:  # of a stranger's object
        return None


def number(value: Any, dtype: np.dtype[Any]) -> np.generic:
    """A number as one of a dtype: as NumPy assigns it to an element.

    Raises:
        OverflowError: A Python integer that the dtype does not hold.
        UnsupportedDTypeError: A complex number would lose its imaginary part.
    """
    if isinstance(value, (complex, np.complexfloating)):
        check_conversion(np.result_type(value), dtype)
    if isinstance(value, np.floating) and dtype.kind in "iu":  # astype would give whatever the processor does
        value = value.item()
    found: Any = value.astype(dtype) if isinstance(value, np.generic) else np.array(value, dtype)[()]
    return found  # type: ignore[no-any-return]


def copy_into(dst: np.ndarray[Any, Any], src: np.ndarray[Any, Any]) -> None:
    """Fill ``dst`` with ``src``, converted to its dtype; releases the GIL while copying.

    Shapes are equal. Equal dtypes keep every bit, in either byte order.
    """
    if src.dtype.kind == "f" and dst.dtype.kind in "iu":
        _saturate(dst, src)
    elif src.dtype == dst.dtype:
        np.copyto(dst, src)
    else:
        with np.errstate(all="ignore"):
            np.copyto(dst, src, casting="unsafe")


def _saturate(dst: np.ndarray[Any, Any], src: np.ndarray[Any, Any]) -> None:
    """Float to integer in blocks: truncated, clamped to the dtype's range, NaN as 0."""
    limits = np.iinfo(dst.dtype)
    wide = np.float32 if src.dtype.itemsize < 4 else src.dtype.newbyteorder("=")
    # The largest float not above the integer's maximum: 2^63 itself would wrap.
    low, high = _float_limits(limits, np.dtype(wide))
    with np.nditer(
        [src, dst],
        flags=["external_loop", "buffered", "zerosize_ok", "delay_bufalloc"],
        op_flags=[["readonly"], ["writeonly"]],
        op_dtypes=[wide, dst.dtype.newbyteorder("=")],
        casting="unsafe",
        buffersize=_BLOCK,
    ) as blocks:
        blocks.reset()
        for values, target in blocks:
            above = values > high
            inside = np.clip(np.nan_to_num(values, nan=0.0, posinf=None, neginf=None), low, high)
            with np.errstate(all="ignore"):
                np.copyto(target, inside, casting="unsafe")
            target[above] = limits.max


def _float_limits(limits: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The integer range as floats of ``dtype``, neither end outside it."""
    low, high = dtype.type(limits.min), dtype.type(limits.max)
    return low, (np.nextafter(high, dtype.type(0)) if int(high) > limits.max else high)
