"""The namespace of CuPy's arrays: CuPy, whose functions take what the Array API adds to their arguments.

CuPy has nearly all of the standard's functions, but of some without ``device=``, ``copy=``, ``correction=``,
``descending=`` or ``keepdims=``. Those are here, with NumPy's order of arguments, so that programs written for CuPy and
for NumPy run unchanged; functions that CuPy has not are array-api-compat's. Every other name is CuPy's own.
"""

from __future__ import annotations

import functools as _functools
import inspect as _inspect
import sys as _sys
from collections.abc import Callable as _Callable
from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager
from typing import Any as _Any

import array_api_compat.cupy as _compat
import array_api_compat.cupy.linalg as _compat_linalg
import cupy as _cupy
import numpy as _numpy  # noqa: ICN001 - every plain name here is one of the namespace

from xferlib._core import namespaces as _namespaces
from xferlib._core.device import Device as _Device
from xferlib._core.dtypes import ask_isdtype as _ask_isdtype
from xferlib.errors import ArgumentError as _ArgumentError
from xferlib.errors import DeviceNotFoundError as _DeviceNotFoundError
from xferlib.errors import quote as _shown

__array_api_version__ = _compat.__array_api_version__
count_nonzero, vecdot = (
    _namespaces.adopt(getattr(_compat, name), name, __name__) for name in ("count_nonzero", "vecdot")
)
__array_namespace_info__ = _compat.__array_namespace_info__


# --- devices


def _index_of(device: _Any) -> int:
    """The number of a device of CuPy's, of xferlib's, of their names, or the number itself.

    Raises:
        DeviceNotFoundError: CuPy has no such device.
    """
    found: _Any = device
    if isinstance(device, _cupy.cuda.Device):
        found = int(device.id)
    elif isinstance(device, _Device) and device.kind == "cuda":
        found = device.index
    elif isinstance(device, str):
        kind, _, number = device.removeprefix("cupy:").partition(":")
        if kind == "cuda" and (not number or number.isdecimal()):
            found = int(number) if number else _cupy.cuda.runtime.getDevice()
    if type(found) is int and 0 <= found < _cupy.cuda.runtime.getDeviceCount():
        return found
    raise _DeviceNotFoundError(f"device={_shown(device)} is not a device of CuPy here; give 'cuda:0', 0 or x.device")


@_contextmanager
def _inside(device: _Any, like: _Any = None) -> _Iterator[int]:
    """Make a device current for a block: the one that is named, else that of the array ``like``, else the current one.

    Yields:
        Its number.

    Raises:
        DeviceNotFoundError: CuPy has no such device.
    """
    current = _cupy.cuda.runtime.getDevice()
    if device is not None:
        wanted = _index_of(device)
    else:
        wanted = like.data.device_id if isinstance(like, _cupy.ndarray) else current
    if wanted == current:
        yield wanted
        return
    with _cupy.cuda.Device(wanted):
        yield wanted


# --- new arrays


def _on_device(name: str, *, is_like: bool = False) -> _Callable[..., _Any]:
    """CuPy's function with a parameter ``device``: by default the current one, or that of the array if ``is_like``."""
    compute: _Any = getattr(_cupy, name)

    @_functools.wraps(compute)
    def make(*args: _Any, device: _Any = None, **options: _Any) -> _Any:
        given = (*args, *options.values())
        like = next((each for each in given if isinstance(each, _cupy.ndarray)), None) if is_like else None
        with _inside(device, like):
            return compute(*args, **options)

    parameters = dict(_inspect.signature(compute).parameters)
    parameters["device"] = _inspect.Parameter("device", _inspect.Parameter.KEYWORD_ONLY, default=None)
    vars(make)["__signature__"] = _inspect.Signature([*parameters.values()])
    make.__doc__ = f"`cupy.{name}`, on the device that is named{', or that of the array' if is_like else ''}."
    return _namespaces.set_name(make, name, __name__)


empty, zeros, ones, full, linspace = map(_on_device, ("empty", "zeros", "ones", "full", "linspace"))
empty_like, zeros_like, ones_like, full_like = (
    _on_device(_name, is_like=True) for _name in ("empty_like", "zeros_like", "ones_like", "full_like")
)


def asarray(
    a: _Any, dtype: _Any = None, order: _Any = None, *, device: _Any = None, copy: bool | None = None, **options: _Any
) -> _Any:
    """`cupy.asarray`; on the device that is named, and never or always a copy if ``copy`` says so.

    Raises:
        ValueError: ``copy`` is False, and the array cannot be had without a copy.
    """
    with _inside(device):
        if copy:
            return _cupy.array(a, dtype=dtype, order=order or "K", copy=True, **options)
        made = _cupy.asarray(a, dtype=dtype, order=order, **options)
    if copy is False and (not isinstance(a, _cupy.ndarray) or made.data.ptr != a.data.ptr):
        raise ValueError("asarray: copy=False, and this array cannot be had without a copy; leave copy out")
    return made


def arange(start: _Any, stop: _Any = None, step: _Any = 1, dtype: _Any = None, *, device: _Any = None) -> _Any:
    """`cupy.arange`, on the device that is named; NumPy makes a range of integers that CuPy would make otherwise.

    CuPy converts the step, which may be negative or broken, where NumPy converts the second number.
    """
    with _inside(device):
        if dtype is not None and (wanted := _numpy.dtype(dtype)).kind in "biu":
            numbers = (0, start, step) if stop is None else (start, stop, step)
            is_plain = wanted.kind != "b" and all(isinstance(each, int) for each in numbers)
            if not is_plain or not all(_numpy.can_cast(_numpy.min_scalar_type(each), wanted) for each in numbers):
                made: _Any = _numpy.arange
                return _cupy.asarray(made(*numbers, dtype=wanted))
        return _cupy.arange(start, stop, step, dtype)


def eye(
    n_rows: int, n_cols: int | None = None, k: int = 0, dtype: _Any = float, order: str = "C", *, device: _Any = None
) -> _Any:
    """`cupy.eye`, on the device that is named."""
    with _inside(device):
        return _cupy.eye(n_rows, n_cols, k, float if dtype is None else dtype, order)


def from_dlpack(x: _Any, /, *, device: _Any = None, copy: bool | None = None) -> _Any:
    """`cupy.from_dlpack`, on the device that is named; a copy if ``copy`` is True.

    Raises:
        ValueError: ``copy`` is False, and the array is on another device.
    """
    made = _cupy.from_dlpack(x)
    with _inside(device, like=made) as index:
        if index == made.data.device_id:
            return made.copy() if copy else made
        if copy is False:
            raise ValueError("from_dlpack: copy=False, and the array is on another device; leave copy out")
        return made.copy()


def astype(x: _Any, dtype: _Any, /, *, copy: bool = True, device: _Any = None) -> _Any:
    """The array in another dtype, on the device that is named; itself if nothing changes and ``copy`` is False."""
    with _inside(device, like=x) as index:
        return x.astype(dtype, copy=copy or index != x.data.device_id)


# --- dtypes, of which those of ml_dtypes are none for CuPy


def isdtype(dtype: _Any, kind: _Any) -> bool:
    """Whether a dtype is another one, or of a kind of the Array API, or of one of several in a tuple."""
    return _ask_isdtype(dtype, kind, _compat.isdtype)


def finfo(type: _Any, /) -> _Any:  # noqa: A002 - the Array API's name
    """Limits of a floating dtype, or of an array's."""
    return _namespaces.ask_finfo(type, _cupy.finfo)


# --- functions of arrays


def reshape(x: _Any, shape: _Any, order: str = "C", *, copy: bool | None = None) -> _Any:
    """`cupy.reshape`; never or always a copy if ``copy`` says so.

    Raises:
        ValueError: ``copy`` is False, and the elements do not lie as the shape needs them.
    """
    made = _cupy.reshape(x, shape, order)
    shares = not made.size or _cupy.may_share_memory(made, x)
    if copy is False and not shares:
        raise ValueError(f"reshape: copy=False, and a view of {x.shape} cannot be {shape}; leave copy out")
    return made.copy() if copy and shares else made


def clip(
    x: _Any, min: _Any = None, max: _Any = None, out: _Any = None, *, a_min: _Any = None, a_max: _Any = None  # noqa: A002
) -> _Any:  # fmt: skip
    """The elements, not below ``min`` and not above ``max``; NaN where one of them is."""
    return _compat.clip(x, min if a_min is None else a_min, max if a_max is None else a_max, out=out)


def _refuse_fields(name: str, order: _Any) -> None:
    if order is not None:
        raise _ArgumentError(f"{name}: order= is for records, which CuPy does not sort; sort a field")


def sort(
    x: _Any, axis: int | None = -1, kind: _Any = None, order: _Any = None, *,  # noqa: ARG001
    stable: bool | None = None, descending: bool = False,  # noqa: ARG001
) -> _Any:  # fmt: skip
    """`cupy.sort`, whose order is stable; from the largest down if ``descending``."""
    _refuse_fields("sort", order)
    if not descending:
        return _cupy.sort(x, axis)
    return _cupy.take_along_axis(x, argsort(x, axis, descending=True), axis)


def argsort(
    x: _Any, axis: int | None = -1, kind: _Any = None, order: _Any = None, *,  # noqa: ARG001
    stable: bool | None = None, descending: bool = False,  # noqa: ARG001
) -> _Any:  # fmt: skip
    """`cupy.argsort`, whose order is stable; from the largest down if ``descending``."""
    _refuse_fields("argsort", order)
    if not descending:
        return _cupy.argsort(x, axis)
    if axis is None:
        return argsort(x.ravel(), -1, descending=True)
    if not x.ndim:
        return _cupy.zeros((), "l")
    last = x.shape[axis] - 1  # equal ones keep their order if both the array and the result are turned round
    return last - _cupy.flip(_cupy.argsort(_cupy.flip(x, axis), axis), axis)


def _deviation(name: str) -> _Callable[..., _Any]:
    compute: _Any = getattr(_cupy, name)

    def computed(
        x: _Any, axis: _Any = None, dtype: _Any = None, out: _Any = None, ddof: float = 0, keepdims: bool = False, *,
        correction: float | None = None,
    ) -> _Any:  # fmt: skip
        return compute(x, axis, dtype, out, ddof if correction is None else correction, keepdims)

    computed.__doc__ = f"`cupy.{name}`; ``correction`` is another name of ``ddof``."
    return _namespaces.set_name(computed, name, __name__)


std, var = _deviation("std"), _deviation("var")


def searchsorted(x1: _Any, x2: _Any, side: str = "left", sorter: _Any = None) -> _Any:
    """`cupy.searchsorted`, of a number too."""
    return _cupy.searchsorted(x1, _cupy.asarray(x2), side, sorter)


def isin(x1: _Any, x2: _Any, assume_unique: bool = False, invert: bool = False) -> _Any:
    """`cupy.isin`, of numbers too."""
    return _cupy.isin(_cupy.asarray(x1), _cupy.asarray(x2), assume_unique, invert)


def take_along_axis(x: _Any, indices: _Any, axis: int | None = -1) -> _Any:
    """`cupy.take_along_axis`, along the last axis where none is named."""
    return _cupy.take_along_axis(x, indices, axis)


def unstack(x: _Any, /, *, axis: int = 0) -> tuple[_Any, ...]:
    """The parts of an array along an axis, as views.

    Raises:
        ValueError: It has no axes.
    """
    if not x.ndim:
        raise ValueError("unstack: an array without axes has no parts; give one with an axis")
    return tuple(_cupy.moveaxis(x, axis, 0))


# --- linear algebra and Fourier transforms


def _with_names(name: str, result: _Any) -> _Callable[..., _Any]:
    """CuPy's function, whose results have names."""
    compute = getattr(_cupy.linalg, name)

    @_functools.wraps(compute)
    def computed(*args: _Any, **options: _Any) -> _Any:
        found = compute(*args, **options)
        return result(*found) if isinstance(found, tuple) else found

    computed.__doc__ = f"`cupy.linalg.{name}`, whose results have names."
    return _namespaces.set_name(computed, name, __name__)


def _qr(a: _Any, mode: str = "reduced") -> _Any:
    """`cupy.linalg.qr`, whose results have names."""
    found = _cupy.linalg.qr(a, mode)
    return _compat_linalg.QRResult(*found) if mode in ("reduced", "complete") else found


def _cholesky(a: _Any, /, *, upper: bool = False) -> _Any:
    """`cupy.linalg.cholesky`; of the upper triangle if ``upper``."""
    found = _cupy.linalg.cholesky(a)
    return _cupy.conj(_compat_linalg.matrix_transpose(found)) if upper else found


def _matrix_rank(a: _Any, tol: _Any = None, *, rtol: _Any = None) -> _Any:
    """The number of singular values above a tolerance: absolute, or relative to the largest one.

    Args:
        a: Matrices.
        tol: The absolute tolerance.
        rtol: The relative one; without either, the larger extent times the dtype's epsilon.
    """
    if tol is None:
        return _compat_linalg.matrix_rank(a, rtol=rtol)
    return _cupy.count_nonzero(_compat_linalg.svdvals(a) > _cupy.asarray(tol)[..., None], axis=-1)


def _pinv(a: _Any, rcond: _Any = None, *, rtol: _Any = None) -> _Any:
    """`cupy.linalg.pinv`; ``rtol`` is another name of ``rcond``, by default the larger extent times the epsilon."""
    return _compat_linalg.pinv(a, rtol=rcond if rtol is None else rtol)


def _frequencies(name: str) -> _Callable[..., _Any]:
    compute = getattr(_cupy.fft, name)

    def computed(n: int, d: float = 1.0, *, dtype: _Any = None, device: _Any = None) -> _Any:
        with _inside(device):
            found = compute(n, d)
            return found if dtype is None else found.astype(dtype, copy=False)

    computed.__doc__ = f"`cupy.fft.{name}`, on the device that is named; float64 by default."
    return computed


_RESULTS = {
    "eig": _compat_linalg.EighResult, "eigh": _compat_linalg.EighResult, "slogdet": _compat_linalg.SlogdetResult,
    "svd": _compat_linalg.SVDResult,
}  # fmt: skip
_THE_STANDARDS = (
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_transpose", "outer", "svdvals", "tensordot", "trace",
    "vecdot", "vector_norm",
)  # fmt: skip
"""The functions of linear algebra for which array-api-compat stands."""

linalg = _namespaces.extension(
    __name__,
    "linalg",
    "The linear algebra of CuPy's namespace: ``xp.linalg``.",
    {name: getattr(_compat_linalg, name) for name in _THE_STANDARDS}
    | {name: _with_names(name, result) for name, result in _RESULTS.items() if hasattr(_cupy.linalg, name)}
    | {"qr": _qr, "cholesky": _cholesky, "matrix_rank": _matrix_rank, "pinv": _pinv},
    _cupy.linalg,
    listed=[name for name, found in vars(_cupy.linalg).items() if not name.startswith("_") and callable(found)],
)
fft = _namespaces.extension(
    __name__,
    "fft",
    "The Fourier transforms of CuPy's namespace: ``xp.fft``.",
    {name: _frequencies(name) for name in ("fftfreq", "rfftfreq")},
    _cupy.fft,
    listed=[name for name in dir(_cupy.fft) if not name.startswith("_")],
)
_OWN = {name for name in globals() if not name.startswith("_") and name != "annotations"}
__all__ = sorted(  # noqa: PLE0605
    _OWN
    | {name for name in dir(_cupy) if not name.startswith("_")}
    | {"__array_api_version__", "__array_namespace_info__"}
)


__getattr__ = _namespaces.make_fallback_getattr(__name__, _cupy, _compat)


def __dir__() -> list[str]:
    return __all__


_sys.modules[__name__].__class__ = _namespaces.Namespace
