"""The namespace of one library: the Array API's functions on its arrays, and those that make arrays of it."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import numpy as np

from xferlib._api import constructors, creation, transfers
from xferlib._api.arrays import elementwise, indexing, inspection, manipulation, products, reductions, searching, views
from xferlib._core import promotion, registry
from xferlib._core.array import DTYPES, Array

_PARTS: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (elementwise, ("where", "clip")),
    (indexing, ("nonzero", "take", "take_along_axis")),
    (inspection, ("can_cast", "finfo", "iinfo", "result_type")),
    (manipulation, ("concat", "diff", "meshgrid", "repeat", "roll", "stack", "tile", "tril", "triu")),
    (products, ("matmul", "outer", "tensordot", "vecdot")),
    (reductions, (
        "all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "max", "mean", "min",
        "prod", "std", "sum", "var",
    )),
    (searching, (
        "argsort", "isin", "searchsorted", "sort", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    )),
    (views, (
        "astype", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "expand_dims", "flip", "matrix_transpose",
        "moveaxis", "permute_dims", "reshape", "squeeze", "unstack",
    )),
)  # fmt: skip


def _makers(backend: str) -> dict[str, Any]:
    """The functions that make arrays of one library."""

    def here(device: Any) -> dict[str, Any]:
        return {"backend": backend, "device": device}

    def asarray(x: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Array:
        """An array of this library from anything array-like; a copy only where needed, or asked for."""
        owner = registry.backend_of(x)
        place = device if device is not None or owner is None or owner.name != backend else owner.device_of(x)
        return transfers.to_device(x, **here(place), dtype=dtype, copy=copy if owner is not None else True)

    def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
        """An uninitialised array."""
        return creation.empty(shape, "float64" if dtype is None else dtype, **here(device))

    def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
        """An array filled with one value."""
        return creation.full(shape, fill_value, dtype, **here(device))

    def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
        """An array of zeros."""
        return creation.full(shape, 0, "float64" if dtype is None else dtype, **here(device))

    def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
        """An array of ones."""
        return creation.full(shape, 1, "float64" if dtype is None else dtype, **here(device))

    def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Array:
        """Evenly spaced values, as NumPy computes them."""
        return constructors.arange(start, stop, step, dtype, **here(device))

    def linspace(
        start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
    ) -> Array:
        """``num`` evenly spaced values, as NumPy computes them."""
        values = np.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
        return transfers.to_device(values, **here(device))

    def eye(rows: int, columns: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Array:
        """A matrix with ones on a diagonal."""
        return transfers.to_device(np.eye(rows, columns, k, dtype=float if dtype is None else dtype), **here(device))

    def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
        """An array of another library as one of this library; a copy unless it is one already."""
        return asarray(x, device=device, copy=copy)

    def like(make: Any) -> Any:
        def operate(x: Array, /, *values: Any, dtype: Any = None, device: Any = None) -> Array:
            info = views.info_of(x)
            place = info.device if device is None else device
            return make(info.shape, *values, dtype=info.dtype if dtype is None else dtype, device=place)

        operate.__name__ = operate.__qualname__ = f"{make.__name__}_like"
        operate.__doc__ = f"As ``{make.__name__}``, with the shape, dtype and device of an array."
        return operate

    made = [asarray, empty, full, zeros, ones, arange, linspace, eye, from_dlpack]
    return {each.__name__: each for each in (*made, *map(like, (empty, full, zeros, ones)))}


def of(backend: str) -> ModuleType:
    """The namespace for the arrays of a backend.

    Beside the standard's functions, for operators: ``get_item``, ``set_item``, and ``in_place(name)``.
    """
    found: dict[str, Any] = {name: getattr(part, name) for part, names in _PARTS for name in names}
    found |= {name: elementwise.made(name) for name in (*promotion.OF_ONE, *promotion.OF_TWO)}
    found |= _makers(backend)
    found |= {name: np.dtype(name) for name in DTYPES}
    found |= {"pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan, "newaxis": None, "isdtype": np.isdtype}
    module = ModuleType(f"xferlib.arrays.{backend}", f"The Array API on arrays of {backend}, over xferlib's kernels.")
    vars(module).update(found)
    module.__all__ = sorted(found)  # type: ignore[attr-defined]
    module.get_item, module.set_item = indexing.get, indexing.put  # type: ignore[attr-defined]
    module.in_place = functools.cache(elementwise.in_place)  # type: ignore[attr-defined]
    module.__array_api_version__ = "2024.12"  # type: ignore[attr-defined]
    module.__array_namespace_info__ = lambda: inspection.NamespaceInfo(backend)  # type: ignore[attr-defined]
    return module
