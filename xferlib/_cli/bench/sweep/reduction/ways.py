"""How each library reduces an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xferlib._cli.bench import libraries
from xferlib._cli.bench.sweep.reduction.cases import Axis, ReductionCase
from xferlib._cli.bench.sweep.trial import Ways, ordinary
from xferlib.kernels import reductions


def own(device: libraries.XferlibDevice, case: ReductionCase, array: Any) -> Ways:
    """The function of `xferlib.kernels.reductions`."""
    reduce, axis = getattr(reductions, case.operation), case.axis
    return ordinary({case.operation: device.awaited(lambda: reduce(array, axis=axis))})


def numpy_like(library: libraries.ArrayLibrary, case: ReductionCase, array: Any) -> Ways:
    """The function of NumPy's name."""
    reduce, axis = getattr(library.module, case.operation), case.axis
    return ordinary({case.operation: library.awaited(lambda: reduce(array, axis=axis))})


def torch(library: libraries.TorchLibrary, case: ReductionCase, tensor: Any) -> Ways:
    """PyTorch's function, or the two of them for a product over two axes."""
    name, reduce = _torch(library.module, case.operation, case.axis)
    return ordinary({name: library.awaited(lambda: reduce(tensor))})


def _torch(module: Any, operation: str, axis: Axis) -> tuple[str, Callable[[Any], Any]]:
    if operation in ("min", "max"):
        if axis is None:
            reduce = getattr(module, operation)
            return operation, reduce
        extremum = getattr(module, f"a{operation}")
        return f"a{operation}", lambda tensor: extremum(tensor, dim=axis)
    reduce = getattr(module, operation)
    if operation == "var":
        return "var(correction=0)", lambda tensor: reduce(tensor, dim=axis, correction=0)
    if axis is None:
        return operation, reduce
    if operation == "prod" and isinstance(axis, tuple):
        first, second = axis
        return "prod, twice", lambda tensor: reduce(reduce(tensor, dim=second), dim=first)
    return operation, lambda tensor: reduce(tensor, dim=axis)
