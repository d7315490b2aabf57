"""The Array API's inspection functions of the namespaces that xferlib makes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xferlib._core import devices, registry
from xferlib._core.array import DTYPES
from xferlib._core.device import Device
from xferlib.errors import UnsupportedDTypeError, shown

_DTYPES = {name: np.dtype(name) for name in DTYPES if name != "float16"}  # which the standard does not have


class NamespaceInfo:
    """The answers of ``__array_namespace_info__()``.

    Args:
        backend: The name of the arrays' backend.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend

    def capabilities(self) -> dict[str, bool | int]:
        """The standard's optional features that are supported."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The current device."""
        return devices.current_device(registry.get(self._backend))

    def devices(self) -> tuple[Device, ...]:
        """All devices of the backend."""
        return tuple(registry.get(self._backend).devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of arrays made without one."""
        names = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
        return {kind: np.dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes, of a kind or several."""
        return {name: dtype for name, dtype in _DTYPES.items() if kind is None or np.isdtype(dtype, kind)}


def _dtype(of: Any) -> Any:
    """The dtype of an array; a dtype and a number are as they are."""
    if isinstance(of, (list, tuple, dict)):  # of which NumPy makes dtypes of records, however deep they are
        raise UnsupportedDTypeError(f"{shown(of)} is neither a dtype nor an array; give one of {', '.join(DTYPES)}")
    owner = registry.backend_of(of) if not isinstance(of, np.generic) else None
    return of if owner is None else owner.view(of).dtype


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype, or an array's, becomes another without loss."""
    return bool(np.can_cast(_dtype(from_), _dtype(to)))


class FloatLimits(NamedTuple):
    """The result of `finfo`: Python numbers, as the Array API demands."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


def finfo(type: Any, /) -> FloatLimits:  # noqa: A002 - the Array API's name
    """Limits of a floating dtype, or of an array's."""
    found = np.finfo(_dtype(type))
    eps, greatest, least, normal = map(float, (found.eps, found.max, found.min, found.smallest_normal))
    return FloatLimits(found.bits, eps, greatest, least, normal, found.dtype)


def iinfo(type: Any, /) -> Any:  # noqa: A002 - the Array API's name
    """Limits of an integer dtype, or of an array's."""
    return np.iinfo(_dtype(type))


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype that an operation on these would have."""
    return np.result_type(*map(_dtype, arrays_and_dtypes))
