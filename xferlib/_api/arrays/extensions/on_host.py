"""Functions that NumPy computes on arrays in memory that the host can read, as one operation each.

Factorisations and Fourier transforms are no work for element-wise kernels, and a GPU has libraries for them (see
`on_device` and `transforms`). Without these, backends whose kernels run on a GPU refuse them by name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib._api.arrays.primitives import Primitives, Shape
from xferlib._core.array import Array
from xferlib.errors import LayoutError, UnsupportedError

DType = np.dtype[Any]

_MOST_KINDS = 256
"""Functions and dtypes of operands, whose results' dtypes are remembered."""


def computed(
    lib: Primitives,
    name: str,
    function: Callable[..., Any],
    operands: Sequence[Array],
    results: Sequence[tuple[Shape, DType]],
    cores: tuple[int, ...] = (),
) -> list[Array]:
    """Enqueue ``function(*operands)``, which returns one array or several.

    Args:
        lib: The library.
        name: The function's name, as the caller knows it.
        function: Computes with NumPy arrays; where NumPy finds a matrix singular, its results are NaN, as on a GPU.
        operands: The arrays.
        results: The shape and the dtype of each result.
        cores: For each operand how many of its last axes are one matrix, vector or number.

    Raises:
        UnsupportedError: The host cannot read this memory.
    """
    device = lib.infos(name, operands)[0].device
    found = [lib.empty(shape, dtype, device) for shape, dtype in results]
    run = lambda *arrays: _compute(function, cores, arrays[: len(operands)], arrays[len(operands) :])
    if not lib.on_host(name, run, operands, found):
        why = lib.backend.capabilities.why.get("math", f"{lib.backend.name} has no library for it that xferlib calls")
        raise UnsupportedError(
            f"{name}: {why}; or compute it on the host, numpy.{name}(xferlib.to_host(x)), or with an array of CuPy's "
            "or torch's"
        )
    return found


def _compute(function: Callable[..., Any], cores: tuple[int, ...], operands: Any, targets: Any) -> None:
    try:
        with np.errstate(all="ignore"):
            found = function(*operands)
    except np.linalg.LinAlgError:
        _compute_each(function, cores, operands, targets)
        return
    for target, each in zip(targets, found if isinstance(found, tuple) else (found,), strict=True):
        target[...] = each


def _compute_each(function: Callable[..., Any], cores: tuple[int, ...], operands: Any, targets: Any) -> None:
    """Compute for every matrix of a stack by itself: NumPy raises if one of them is singular."""
    split = [each.ndim - core for each, core in zip(operands, cores, strict=True)]
    batch = np.broadcast_shapes(*(each.shape[:at] for each, at in zip(operands, split, strict=True)))
    if not batch:
        for each in targets:
            each.fill(np.nan if each.dtype.kind in "fc" else 0)
        return
    spread = [np.broadcast_to(each, batch + each.shape[at:]) for each, at in zip(operands, split, strict=True)]
    for index in np.ndindex(batch):
        _compute(function, cores, [each[index] for each in spread], [each[(*index, ...)] for each in targets])


@functools.lru_cache(_MOST_KINDS)
def dtypes(function: Callable[..., Any], *given: DType) -> tuple[DType, ...]:
    """The dtypes of a function's results for operands of these dtypes, asked of NumPy with small matrices.

    Raises:
        TypeError: NumPy refuses a dtype.
    """
    found = function(*(np.eye(2, dtype=each) for each in given))
    return tuple(each.dtype for each in (found if isinstance(found, tuple) else (found,)))


def matrices(lib: Primitives, name: str, x: Any, *, is_square: bool = False) -> tuple[Array, Shape]:
    """An operand and its shape.

    Raises:
        LayoutError: It is no stack of matrices, or of matrices that are not square.
    """
    x = lib.array(name, x)
    shape = lib.info(x).shape
    if len(shape) < 2:
        raise LayoutError(f"{name}: an array of shape {shape} is no matrix; reshape it to two axes or more")
    if is_square and shape[-1] != shape[-2]:
        raise LayoutError(f"{name}: matrices of shape {shape[-2:]} are not square")
    return x, shape
