"""Products that a device's library computes again: layouts are checked once, and calls prepared.

A product of small matrices takes a device some microseconds, and checking its operands in Python many times that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._api.arrays import shaping
from xferlib._api.arrays.extensions import layouts
from xferlib._api.arrays.primitives import Primitives, Shape, enqueued
from xferlib._core.array import Array, ArrayInfo, c_strides
from xferlib.backends.device_math import Multiply

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device

_MOST_PLANS = 512
_MOST_CALLS = 16
"""Of one plan; the stacks that are multiplied by more are rare, and may be thousands."""


class Operands(NamedTuple):
    """The matrices of a product, and the shape of its result."""

    left: Array
    right: Array
    shape: Shape


class ProductPlan(NamedTuple):
    """A product of two arrays of known layouts, of one dtype and device."""

    backend: Backend
    device: Device
    dtype: np.dtype[Any]
    shape: Shape
    calls: Sequence[Multiply]

    def run(self, left: Array, right: Array) -> Array:
        """Enqueue the product of other arrays of these layouts on the current stream."""
        backend, device, dtype, shape, _ = self
        backend.attach(device)
        stream = backend.stream_current(device)
        out = backend.empty(shape, dtype, device=device, stream=stream)
        arrays = (left, right, out)
        enqueued(backend, stream, "matmul", arrays, None, self._enqueue, arrays)
        return out

    def _enqueue(self, arrays: Sequence[Array], stream: Any) -> None:
        left, right, out = self.backend.operands(arrays)
        for call in self.calls:
            call(left, right, out, stream=stream)


def find(
    lib: Primitives, x1: Any, x2: Any, how: Hashable, operands: Callable[[Primitives, Array, Array], Operands | None]
) -> ProductPlan | None:
    """The plan for two arguments of a function; None where there is none: errors and conversions are not planned.

    Args:
        lib: The library.
        x1, x2: The arguments.
        how: All that the product depends on besides them.
        operands: Gives the matrices, which are views of the arguments.
    """
    if type(x1) is not lib.array_type or type(x2) is not lib.array_type:
        return None
    signature = lib.backend.signature
    key = (signature(x1), signature(x2), how)
    plans = lib.plans
    if key not in plans:
        if len(plans) >= _MOST_PLANS:
            plans.clear()
        plans[key] = _made(lib, x1, x2, operands)
    found: ProductPlan | None = plans.get(key)
    return found


def _made(
    lib: Primitives, x1: Array, x2: Array, operands: Callable[[Primitives, Array, Array], Operands | None]
) -> ProductPlan | None:
    given = lib.info(x1), lib.info(x2)
    dtype, device = given[0].dtype, given[0].device
    if dtype != given[1].dtype or device is not given[1].device or not (given[0].size and given[1].size):
        return None
    if not layouts.has_library(lib, given[0]):
        return None
    found = operands(lib, x1, x2)
    if found is None:
        return None
    left, right = infos = lib.info(found.left), lib.info(found.right)
    if any(view.pointer != each.pointer or not layouts.is_plain(view) for view, each in zip(infos, given, strict=True)):
        return None  # it is copied before it is multiplied
    batch = shaping.common_shape("matmul", left.shape[:-2], right.shape[:-2])
    shape = (*batch, left.shape[-2], right.shape[-1])
    out = ArrayInfo(0, shape, c_strides(shape, dtype.itemsize), dtype, device, True)
    calls = layouts.prepared(lib, left, right, out)
    if len(calls) > _MOST_CALLS:
        return None
    owner = lib.backend.at(device)
    return ProductPlan(owner, device, dtype, found.shape, calls)
