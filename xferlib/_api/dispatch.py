"""From arrays to what serves them: their namespace, their backend, and one backend for all."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api import transfers
from xferlib._core import defaults, devices, mixing, registry
from xferlib._core.array import Array
from xferlib._native import driver_calls
from xferlib._runtime import torch_compile

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device


def get_array_module(*arrays: Any) -> ModuleType:
    """Return the Array-API namespace of the arrays' backend; NumPy's for Python scalars alone, and for nothing.

    Args:
        *arrays: Arrays of one backend, on any of its devices. Python scalars and None decide nothing, and NumPy's
            scalars nothing beside an array.

    Raises:
        MixedBackendsError: Arrays of two backends; `common` moves them to one.
        UnsupportedArrayError: Something else, such as a list, or an array that no backend knows.
        UnsupportedError: The backend has no namespace; the message names what works.
    """
    decides = None
    for array in arrays:
        cls = type(array)
        if cls is decides or cls in mixing.SCALARS:
            continue
        if decides is not None and registry.by_type.get(cls) is not registry.by_type.get(decides):
            break
        decides = cls
    else:
        if decides in registry.namespaces:
            return registry.namespaces[decides]
    return _looked_up(*arrays)


def _looked_up(*arrays: Any) -> ModuleType:
    """`get_array_module` of types that the tables do not have yet, which it adds, and its errors."""
    backend = mixing.common_backend(arrays, call="get_array_module")
    if backend is None:
        return np
    namespace = backend.namespace()
    backend.hand_out(None)
    for array in arrays if not backend.asks_each_thread else ():
        if registry.backend_of(array) is backend:
            registry.namespaces[type(array)] = namespace
    return namespace


_get_array_module = get_array_module
if not TYPE_CHECKING:  # the compiled one has no annotations
    get_array_module = driver_calls.bind_namespaces(
        registry.by_type, registry.namespaces, _looked_up, in_python=_get_array_module
    )
    if get_array_module is not _get_array_module:
        torch_compile.show_python(get_array_module, _get_array_module)


def get_backend(*arrays: Any) -> Backend:
    """Return the backend of the arrays; without arrays the current default. Scalars as for `get_array_module`.

    Raises:
        MixedBackendsError: Arrays of two backends; `common` moves them to one.
        UnsupportedArrayError: Something else, such as a list, or an array that no backend knows.
        BackendUnavailableError: The default asked for by name cannot run here.
    """
    return mixing.common_backend(arrays, call="get_backend") or defaults.default_backend()


def common(*arrays: Any, follow: Array | None = None) -> tuple[Any, ...]:
    """Move arrays to one backend and device, where they can be computed with together.

    Nothing else in xferlib moves an array unasked: arrays of two backends or devices are an error. This is the way
    to ask. An array that is moved is copied as by `to_device`, and keeps its dtype:

        x, weights = xl.common(x, np.hanning(1024))      # both where x is, on its device

    Args:
        *arrays: Arrays of any backends. Python scalars and None are returned as they are.
        follow: The array to whose backend and device the others move. If omitted: the first array on an accelerator,
            so that nothing leaves one for the host; else the first array, NumPy's scalars last.

    Returns:
        As many objects in the same order. Those that need not move are the same objects, not copies.

    Raises:
        UnsupportedArrayError: Something is neither an array of a backend nor a scalar; nothing has been moved.
        UnsupportedDTypeError: The target does not hold a dtype.
        DeviceMemoryError: The target has too little memory.
    """
    if follow is not None and registry.backend_of(follow) is None:
        raise mixing.unsupported("common", "follow", follow)
    backends = [mixing.checked_backend(each, index, call="common") for index, each in enumerate(arrays)]
    places = [None if owner is None else owner.device_of(each) for each, owner in zip(arrays, backends, strict=True)]
    target = devices.device_of(follow) if follow is not None else _leading(arrays, places)
    return tuple(
        each if place is None or place is target else transfers.to_device(each, device=target)
        for each, place in zip(arrays, places, strict=True)
    )


def _leading(arrays: tuple[Any, ...], places: list[Device | None]) -> Device | None:
    """The device of the array that the others follow: one on an accelerator if there is one, NumPy's scalars last."""
    ranked = [
        (place.kind != "cpu", not isinstance(array, np.generic), -index)
        for index, (array, place) in enumerate(zip(arrays, places, strict=True))
        if place is not None
    ]
    return places[-max(ranked)[2]] if ranked else None
