"""Arrays of the current backend from values: with NumPy's defaults, and NumPy's bits, on every backend.

NumPy computes the values on the host, once, and they are uploaded. The libraries' own functions differ from NumPy's
in their default dtypes, and in the last bits of steps that are not integers. Where values are whole numbers the bits
would agree, but one way for all is shorter, and works where a library has no namespace. A program that makes large
ranges often computes them on the device: with `xferlib.elementwise`, or with the namespace's own function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api import joining, transfers
from xferlib._core import convert, devices, mixing, registry
from xferlib._core.array import Array, check_dtype
from xferlib._core.device import DeviceSpec
from xferlib._runtime import checks
from xferlib._transfer import ends
from xferlib.errors import ArgumentError, OutOfMemoryError, shown

if TYPE_CHECKING:
    from xferlib._core.layout import HostArray


def asarray(x: Any, dtype: Any = None, *, backend: str | None = None, device: DeviceSpec = None) -> Array:
    """Anything array-like as an array of the current backend; ``x`` itself where it is one already.

    An array on an accelerator stays there unless ``backend`` or ``device`` says otherwise. Everything else goes to the
    current device.

        xl.asarray([1, 2, 3])                  # int64, as NumPy has it, on every backend

    Args:
        x: An array of any backend, a sequence or a scalar; shape S. Or, on a CUDA device, an object with
            ``__cuda_array_interface__``, such as Numba's arrays.
        dtype: Converted to; floats saturate to integers. That of ``x``, or NumPy's for sequences, if omitted.
        backend: Registry name of the target; the default backend if omitted.
        device: Target device; the backend's current one if omitted.

    Returns:
        ``x`` itself where it is on the device with that dtype, or an array over the memory of another library's
        object; else a copy of shape S in C order.

    Raises:
        As `to_device`.
    """
    if registry.backend_of(x) is None and checks.has(x, "__cuda_array_interface__"):
        place = devices.resolve(device, backend=None if backend is None else registry.get(backend))
        if place.kind == "cuda":
            x = registry.get(place.backend).namespace().asarray(x)
    if backend is None and device is None and (owner := registry.backend_of(x)) is not None:
        place = owner.device_of(x)
        device = place if place.kind != "cpu" else None
    made = transfers.to_device(x, backend=backend, device=device, dtype=dtype, copy=None)
    if registry.backend_of(x) is None and (owner := registry.backend_of(made)) is not None:
        owner.hand_out(owner.view(made).dtype)
    return made


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    *,
    backend: str | None = None,
    device: DeviceSpec = None,
) -> Array:
    """Numbers from ``start`` up to and without ``stop``; those up to ``start``, from 0, if there is no ``stop``.

        xl.arange(3)                           # int64 on every backend
        xl.arange(0, 1, 0.25, "float32")

    Args:
        start, stop, step: Numbers, as for `numpy.arange`.
        dtype: That of the numbers, as NumPy has it, if omitted.
        backend, device: As for `asarray`.

    Raises:
        ArgumentError: ``step`` is 0, or an argument is no real number.
        Others: As for `to_device`.
    """
    first, last = (0, start) if stop is None else (start, stop)
    _check_numbers("arange", _REAL, start=first, stop=last, step=step)
    values = _computed("arange", np.arange, first, last, step, dtype=_checked(dtype))
    return _sent(values, backend, device)


def linspace(
    start: complex,
    stop: complex,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    backend: str | None = None,
    device: DeviceSpec = None,
) -> Array:
    """``num`` numbers at equal distances from ``start`` to ``stop``.

        xl.linspace(0, 1, 5)                   # float64 on every backend

    Args:
        start, stop: Numbers, real or complex.
        num: How many, 0 or more.
        endpoint: Whether ``stop`` is the last of them.
        dtype: float64, or complex128 for complex limits, if omitted.
        backend, device: As for `asarray`.

    Raises:
        ArgumentError: ``num`` is negative or no integer, or a limit is no number.
        UnsupportedDTypeError: ``dtype`` would drop the imaginary part.
        Others: As for `to_device`.
    """
    _check_numbers("linspace", (*_REAL, complex, np.complexfloating), start=start, stop=stop)
    wanted = _checked(dtype)
    if wanted is not None:
        convert.check_conversion(np.result_type(start, stop, 0.0), wanted)
    values = _computed("linspace", np.linspace, start, stop, num, endpoint=endpoint, dtype=wanted)
    return _sent(values, backend, device)


def eye(
    rows: int,
    columns: int | None = None,
    k: int = 0,
    dtype: Any = "float64",
    *,
    backend: str | None = None,
    device: DeviceSpec = None,
) -> Array:
    """A matrix with ones on one diagonal and zeros elsewhere.

    Args:
        rows, columns: The shape; square if ``columns`` is omitted.
        k: The diagonal: 0 the main one, above it if positive, below if negative.
        dtype: A supported dtype.
        backend, device: As for `asarray`.

    Raises:
        ArgumentError: An extent or ``k`` is no integer, or an extent is negative.
        Others: As for `to_device`.
    """
    return _sent(_computed("eye", np.eye, rows, columns, k, dtype=_checked(dtype)), backend, device)


def concat(arrays: Sequence[Array], axis: int | None = 0, *, dtype: Any = None) -> Array:
    """Join arrays of one backend and device along an axis that they have.

        xl.concat([x, y[:10]])                 # of the dtype that NumPy promotes to, on every backend

    xferlib copies and converts each array into its part of the result, so that the bits are NumPy's everywhere. Where
    the library follows derivatives through one of them, as torch may, the library's own function joins them.

    Args:
        arrays: One or more arrays, of equal shapes but for ``axis``.
        axis: The axis; negative ones count from the last. None: each array is flattened first, in C order.
        dtype: That of the result; the one that NumPy promotes to if omitted.

    Returns:
        A new array in C order, on the arrays' device.

    Raises:
        MixedBackendsError, MixedDevicesError: Arrays of two backends or devices; `common` moves them to one.
        ArgumentError: No array, or no such axis.
        LayoutError: The shapes do not fit.
        UnsupportedArrayError, UnsupportedDTypeError: Something is no array of any backend, or has a foreign dtype.
        DeviceMemoryError: The device has too little memory.
    """
    given = _listed(arrays)
    backend = mixing.common_backend(given, call="concat")
    if backend is None or any(registry.backend_of(each) is not backend for each in given):  # NumPy's scalars mix
        raise ArgumentError("concat takes one or more arrays, no scalars and no None; use xferlib.asarray(x)")
    mixing.check_device(given, backend, call="concat")
    sources = [ends.source_of(each, what=f"arrays[{index}]") for index, each in enumerate(given)]
    wanted = ends.wanted_dtype(dtype, np.result_type(*(each.dtype for each in sources)))
    plan = joining.plan([each.shape for each in sources], axis, wanted)
    if any(backend.detached(each) is not each for each in given):
        xp: Any = backend.namespace()
        joined: Array = xp.concat([xp.astype(each, getattr(xp, wanted.name)) for each in given], axis=axis)
        return joined
    return joining.join(sources, plan, wanted)


def _listed(arrays: Any) -> tuple[Any, ...]:
    if not isinstance(arrays, (list, tuple)):
        raise ArgumentError(f"concat takes a list of arrays, not {type(arrays).__name__}; write concat([x, y])")
    return tuple(arrays)


def _checked(dtype: Any) -> np.dtype[Any] | None:
    return None if dtype is None else check_dtype(dtype, what="dtype")


_REAL = (int, float, np.integer, np.floating)


def _check_numbers(call: str, kinds: tuple[type, ...], **numbers: Any) -> None:
    """Refuse what is not a number: an array, which may be on a device, among others."""
    for name, number in numbers.items():
        if not isinstance(number, kinds):
            real = "" if complex in kinds else "real "
            raise ArgumentError(
                f"{call}: {name}={shown(number)} is no {real}number; give one, such as "
                "float(xferlib.to_host(x)) of an array"
            )


def _computed(call: str, function: Any, *args: Any, **options: Any) -> HostArray:
    try:
        values: HostArray = function(*args, **options)
    except MemoryError as error:
        raise OutOfMemoryError(
            f"{call}({', '.join(map(shown, args))}): the host has too little memory ({error}); make a shorter array"
        ) from error
    except Exception as error:  # NumPy asks strangers' objects for a number, which may raise anything
        raise ArgumentError(
            f"{call}({', '.join(map(shown, args))}) is not possible: {error}; change an argument"
        ) from error
    return values


def _sent(values: HostArray, backend: str | None, device: DeviceSpec) -> Array:
    made = transfers.to_device(values, backend=backend, device=device, copy=None)
    owner = registry.backend_of(made)
    assert owner is not None
    owner.hand_out(values.dtype)
    return made
