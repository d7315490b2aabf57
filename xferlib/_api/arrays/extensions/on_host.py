"""Functions that another array library computes: NumPy where the host can read the memory, else a device's own.

Factorisations and Fourier transforms are no work for element-wise kernels. A backend whose kernels run on a GPU and
that has no `FunctionLibrary` refuses them by name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api.arrays.primitives import Primitives, Shape
from xferlib._core.array import Array, ArrayInfo
from xferlib._core.ordering import capture
from xferlib.errors import LayoutError, UnsupportedError

if TYPE_CHECKING:
    from xferlib._core.raw import RawStream

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
    """Enqueue ``function(library, *operands)``, which returns one array or several.

    Args:
        lib: The library.
        name: The function's name, as the caller knows it.
        function: Computes with NumPy, or another module that has its functions, and with that module's arrays; where
            it finds a matrix singular, the results are NaN.
        operands: The arrays.
        results: The shape and the dtype of each result.
        cores: For each operand how many of its last axes are one matrix, vector or number.

    Raises:
        UnsupportedError: The host cannot read this memory, and the device has no library.
        CaptureError: The current stream is captured, and a device's library computes.
    """
    device = lib.infos(name, operands)[0].device
    found = [lib.empty(shape, dtype, device) for shape, dtype in results]

    def run(namespace: Any, *arrays: Any) -> None:
        _compute(namespace, function, cores, arrays[: len(operands)], arrays[len(operands) :])

    if lib.on_host(name, functools.partial(run, np), operands, found):
        return found
    library = lib.function_library(device)
    if library is None:
        owner = lib.backend
        why = owner.capabilities.why.get("function_library", f"{owner.name} has no library for it that xferlib calls")
        raise UnsupportedError(
            f"{name}: {why}; or compute it on the host, numpy.{name}(xferlib.to_host(x)), or with an array of CuPy's "
            "or torch's"
        )

    def enqueue(*infos: ArrayInfo, stream: RawStream) -> None:
        capture.refuse(name, stream)  # the library waits for codes of errors, and recycles its memory after the call
        with library.inside(stream):
            run(library.namespace, *map(library.view, infos))

    lib.enqueue(
        name, [*(each if lib.info(each).is_c_contiguous else lib.copy(each) for each in operands), *found], enqueue
    )
    return found


def _compute(namespace: Any, function: Callable[..., Any], cores: tuple[int, ...], operands: Any, targets: Any) -> None:
    try:
        with np.errstate(all="ignore"):
            found = function(namespace, *operands)
    except np.linalg.LinAlgError:
        _compute_each(namespace, function, cores, operands, targets)
        return
    for target, each in zip(targets, found if isinstance(found, tuple) else (found,), strict=True):
        target[...] = each


def _compute_each(
    namespace: Any, function: Callable[..., Any], cores: tuple[int, ...], operands: Any, targets: Any
) -> None:
    """Compute for every matrix of a stack by itself: libraries raise if one of them is singular."""
    split = [each.ndim - core for each, core in zip(operands, cores, strict=True)]
    batch = np.broadcast_shapes(*(each.shape[:at] for each, at in zip(operands, split, strict=True)))
    if not batch:
        for each in targets:
            each.fill(np.nan if each.dtype.kind in "fc" else 0)
        return
    spread = [namespace.broadcast_to(each, batch + each.shape[at:]) for each, at in zip(operands, split, strict=True)]
    for index in np.ndindex(batch):
        _compute(
            namespace, function, cores, [each[index] for each in spread], [each[(*index, ...)] for each in targets]
        )


@functools.lru_cache(_MOST_KINDS)
def dtypes(function: Callable[..., Any], *given: DType) -> tuple[DType, ...]:
    """The dtypes of the results of a function of NumPy's for operands of these dtypes, asked with small matrices.

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
