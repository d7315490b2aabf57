"""The order in which elements lie: arrays in Fortran order are those in C order with their axes reversed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib._core import registry
from xferlib._core.array import Array, is_c_contiguous
from xferlib._transfer.ends import source_of
from xferlib.errors import ArgumentError, LayoutError, shown

if TYPE_CHECKING:
    from collections.abc import Callable


IN_C = "C"
"""The default, told from any other object by its identity."""


def is_fortran(order: Any, call: str) -> bool:
    """Whether ``order`` is ``"F"``.

    Raises:
        ArgumentError: It is neither that nor ``"C"``.
    """
    if not isinstance(order, str) or order not in ("C", "F"):
        raise ArgumentError(f"{call}: order={shown(order)} is neither 'C' nor 'F'; give one of them")
    return order == "F"


def reversed_axes(array: Array) -> Array:
    """A view of an array with its axes reversed."""
    backend = registry.backend_of(array)
    assert backend is not None
    return backend.at(backend.device_of(array)).reversed_axes(array)


def send(x: Any, dtype: Any, send_in_c_order: Callable[..., Array], *, copy: bool | None) -> Array:
    """Send an array so that it arrives in Fortran order.

    Args:
        x, dtype: As for `xferlib.to_device`.
        send_in_c_order: Sends an array, with ``copy=``.
        copy: As for `xferlib.to_device`.

    Raises:
        LayoutError: ``copy=False`` and ``x`` is in another order.
    """
    backend = registry.backend_of(x)
    given: Array = x if backend is not None else source_of(x, dtype=dtype).host
    info = registry.get("numpy").view(given) if backend is None else backend.view(given)
    is_fit = is_c_contiguous(info.shape[::-1], info.strides[::-1], info.dtype.itemsize)
    if copy is False and not is_fit:
        raise LayoutError("copy=False, but the array is not in Fortran order; pass copy=None or copy=True")
    turned = given.T if backend is None else reversed_axes(given)
    sent = send_in_c_order(turned, copy=copy if is_fit else True)
    return x if sent is turned else reversed_axes(sent)
