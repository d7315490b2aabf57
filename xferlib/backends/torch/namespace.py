"""The namespace of tensors: the Array API with NumPy's rules for dtypes, over array-api-compat, over torch.

Where torch differs from NumPy 2, the functions here do what NumPy does: the dtypes of results, arrays without axes
beside others, float64 where no dtype is given, dtypes by name, unsigned integers of every width. What they refuse, they
refuse with one sentence. Every other name is array-api-compat's, and so torch's own.

The operators of tensors (``a + b``) are torch's, and follow torch's rules: write ``xp.add(a, b)`` for one result
everywhere.
"""

from __future__ import annotations

import sys as _sys
from typing import Any as _Any

import array_api_compat.torch as _compat
import torch as _torch

from xferlib._core import dtypes as _rules
from xferlib._core import namespaces as _namespaces
from xferlib._runtime import process as _process
from xferlib.backends.torch import dtypes as _dtypes
from xferlib.backends.torch import elementwise as _elementwise
from xferlib.backends.torch import extensions as _extensions
from xferlib.backends.torch import functions as _functions
from xferlib.backends.torch.operators import numpy_operators  # noqa: F401 - one of the namespace

__array_api_version__ = _compat.__array_api_version__
_process.get()  # before a compiled function does, in which torch's tracer refuses the lock of the first reading
pi, e, inf, nan, newaxis = _compat.pi, _compat.e, _compat.inf, _compat.nan, None

_FUNCTIONS = {
    **_functions.FUNCTIONS,
    **{_name: _elementwise.unary(_name) for _name in _rules.OF_ONE},
    **{_name: _elementwise.binary(_name) for _name in _rules.OF_TWO},
    **{_name: _extensions.LINALG[_name] for _name in ("matmul", "tensordot", "vecdot", "matrix_transpose", "outer")},
}
_CHECKED = {"sum", "prod", *_rules.OF_ONE, *_rules.OF_TWO}
"""Functions that are called very often, and look at all that they are given."""


def _public(functions: dict[str, _Any]) -> dict[str, _Any]:
    """The functions as this module shows them: an argument that they cannot use is an error of ours."""
    found = {}
    for name, function in functions.items():
        function.__doc__ = function.__doc__ or f"``{name}`` of the Array API, with NumPy's dtypes and promotion."
        named = _namespaces.set_name(function, name, __name__)
        found[name] = named if name in _CHECKED else _namespaces.translate_errors(named, name)
    return found


_FUNCTIONS |= _namespaces.bind_numpys(_sys.modules[__name__])
globals().update(_public(_FUNCTIONS))
linalg = _namespaces.extension(
    __name__,
    "linalg",
    "The linear algebra of torch's namespace: ``xp.linalg``.",
    _public(_extensions.LINALG),
    _compat.linalg,
    listed=_dtypes.names_of(_compat.linalg),
)
fft = _namespaces.extension(
    __name__,
    "fft",
    "The Fourier transforms of torch's namespace: ``xp.fft``.",
    _public(_extensions.FFT),
    _compat.fft,
    listed=_dtypes.names_of(_compat.fft),
)


class _Info(type(_compat.__array_namespace_info__())):  # type: ignore[misc]
    """The inspection functions, with the defaults of this namespace."""

    def default_dtypes(self, *, device: _Any = None) -> dict[str, _torch.dtype]:
        """The dtypes of tensors made without one: NumPy's."""
        return {
            "real floating": _functions.by_default(), "complex floating": _functions.by_default(_torch.complex128),
            "integral": _torch.int64, "indexing": _torch.int64,
        }  # fmt: skip


def __array_namespace_info__() -> _Any:  # noqa: N807 - the Array API's name
    """The inspection functions of this namespace."""
    return _Info()


_OWN = {"linalg", "fft", "numpy_operators", "pi", "e", "inf", "nan", "newaxis", *_FUNCTIONS}
__all__ = sorted(_OWN | _dtypes.names_of(_compat) | {"__array_api_version__", "__array_namespace_info__"})  # noqa: PLE0605


__getattr__ = _namespaces.make_fallback_getattr(__name__, _compat, _torch)


def __dir__() -> list[str]:
    return __all__


_sys.modules[__name__].__class__ = _namespaces.Namespace
