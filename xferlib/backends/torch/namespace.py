"""The namespace of tensors: the Array API with NumPy's rules for dtypes, over array-api-compat, over torch.

Where torch differs from NumPy 2, the functions here do what NumPy does: the dtypes of results, arrays without axes
beside others, float64 where no dtype is given, dtypes by name, unsigned integers of every width. What they refuse, they
refuse with one sentence. Every other name is array-api-compat's, and so torch's own.

The operators of tensors (``a + b``) are torch's, and follow torch's rules: write ``xp.add(a, b)`` for one result
everywhere.
"""

# ruff: noqa: F401 - what is imported here is what the namespace consists of

from __future__ import annotations

import inspect as _inspect
import sys as _sys
from typing import Any as _Any

import array_api_compat.torch as _compat
import torch as _torch

from xferlib._core import arrays as _promotion
from xferlib._core import registry as _namespaces
from xferlib._runtime import process as _config
from xferlib.backends.torch import elementwise as _elementwise
from xferlib.backends.torch import functions as _creation
from xferlib.backends.torch import functions as _dtypes
from xferlib.backends.torch import functions as _reductions
from xferlib.backends.torch import functions as _whole
from xferlib.backends.torch import namespace_fft as fft
from xferlib.backends.torch import namespace_linalg as linalg
from xferlib.backends.torch.elementwise import numpy_operators
from xferlib.backends.torch.functions import (
    arange,
    argsort,
    asarray,
    astype,
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    can_cast,
    clip,
    concat,
    diff,
    expand_dims,
    eye,
    finfo,
    flip,
    from_dlpack,
    full,
    full_like,
    iinfo,
    isdtype,
    isin,
    linspace,
    meshgrid,
    moveaxis,
    nonzero,
    permute_dims,
    repeat,
    reshape,
    result_type,
    roll,
    searchsorted,
    sort,
    squeeze,
    stack,
    take,
    take_along_axis,
    tile,
    tril,
    triu,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    unstack,
    where,
)
from xferlib.backends.torch.namespace_linalg import matrix_transpose, outer

__array_api_version__ = _compat.__array_api_version__
_config.get()  # before a compiled function does, in which torch's tracer refuses the lock of the first reading
pi, e, inf, nan, newaxis = _compat.pi, _compat.e, _compat.inf, _compat.nan, None


def _named(name: str, function: _Any, doc: str) -> None:
    """Make a function one of this module's."""
    globals()[name] = _namespaces.named(function, name, __name__)
    function.__doc__ = doc


for _name in _promotion.OF_ONE:
    _named(_name, _elementwise.unary(_name), f"``{_name}`` of the Array API, element by element, with NumPy's dtypes.")
for _name in _promotion.OF_TWO:
    _named(_name, _elementwise.binary(_name), f"``{_name}`` of the Array API, as NumPy promotes tensors and numbers.")
for _family, _names in _reductions.FAMILIES.items():
    for _name in _names:
        _named(_name, _family(_name), f"``{_name}`` of the Array API, over ``axis``, with NumPy's dtypes.")
for _name in _promotion.PRODUCTS:
    _named(_name, _whole.product(_name), f"``{_name}`` of the Array API, as NumPy promotes.")
for _name, _function in _creation.FILLED.items():
    _named(_name, _function, f"``{_name}`` of the Array API; float64 by default.")


class _Info(type(_compat.__array_namespace_info__())):  # type: ignore[misc]
    """The inspection functions, with the defaults of this namespace."""

    def default_dtypes(self, *, device: _Any = None) -> dict[str, _torch.dtype]:
        """The dtypes of tensors made without one: NumPy's."""
        return {
            "real floating": _creation.by_default(), "complex floating": _creation.by_default(_torch.complex128),
            "integral": _torch.int64, "indexing": _torch.int64,
        }  # fmt: skip


def __array_namespace_info__() -> _Any:  # noqa: N807 - the Array API's name
    """The inspection functions of this namespace."""
    return _Info()


_OWN = {name for name in globals() if not name.startswith("_") and name != "annotations"}
_CHECKED = {"numpy_operators", "sum", "prod", *_promotion.OF_ONE, *_promotion.OF_TWO}
"""Functions that are called very often, and look at all that they are given."""
for _part in (globals(), vars(linalg), vars(fft)):
    for _name, _function in [*_part.items()]:
        if _inspect.isfunction(_function) and not _name.startswith("_") and _name not in _CHECKED:
            _part[_name] = _namespaces.named(_namespaces.guarded(_function, _name), _name, _part["__name__"])
__all__ = sorted(_OWN | _dtypes.names_of(_compat) | {"__array_api_version__", "__array_namespace_info__"})  # noqa: PLE0605


__getattr__ = _namespaces.having_too(__name__, _compat, _torch)


def __dir__() -> list[str]:
    return __all__


_sys.modules[__name__].__class__ = _namespaces.Namespace
