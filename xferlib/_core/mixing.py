"""Arrays of one call: the backend that they share, and the errors where they share none, or no device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.pending import RESULT_REMEDY, PendingTransfer
from xferlib.errors import MixedBackendsError, MixedDevicesError, UnsupportedArrayError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device

from xferlib._core.registry import backend_of

SCALARS = (bool, int, float, complex, type(None))


def common_backend(arrays: tuple[Any, ...], *, call: str) -> Backend | None:
    """The one backend of all arrays among ``arrays``; None if there is none. Python scalars and None mix.

    NumPy's scalars mix with arrays of every backend, and are NumPy's where there is no array.

    Raises:
        MixedBackendsError: Arrays of two backends.
        UnsupportedArrayError: As `checked_backend`.
    """
    found: Backend | None = None
    of_scalars: Backend | None = None
    first = 0
    for index, array in enumerate(arrays):
        backend = checked_backend(array, index, call=call)
        if backend is None:
            continue
        if isinstance(array, np.generic):
            of_scalars = backend
            continue
        if found is None:
            found, first = backend, index
        elif backend is not found:
            raise mixed_backends(call, (f"argument {first}", found), (f"argument {index}", backend))
    return of_scalars if found is None else found


def checked_backend(array: Any, index: int, *, call: str) -> Backend | None:
    """The backend of an argument; None for Python scalars and None.

    Raises:
        UnsupportedArrayError: It is neither an array of a backend nor a scalar.
    """
    backend = backend_of(array)
    if backend is None and not isinstance(array, SCALARS):
        raise unsupported(call, f"argument {index}", array)
    return backend


def unsupported(call: str, what: str, array: Any) -> UnsupportedArrayError:
    """The error for an object that is an array of no backend."""
    name, remedy = type(array).__name__, "pass it through xferlib.to_device() first"
    if isinstance(array, PendingTransfer):
        remedy = RESULT_REMEDY
    if isinstance(array, str):
        remedy = "give an array; a backend is chosen by name with xferlib.use_backend(name)"
    if hasattr(type(array), "__array_namespace__"):
        name = f"{type(array).__module__}.{name}"
        remedy += ", or compute with the functions of x.__array_namespace__()"
    return UnsupportedArrayError(f"{call}: {what} is {name}, not an array of any backend; {remedy}")


def mixed_backends(call: str, one: tuple[str, Backend], two: tuple[str, Backend]) -> MixedBackendsError:
    """The error for arrays of two backends, naming both and the call that mends it."""
    (what_one, first), (what_two, second) = one, two
    return MixedBackendsError(
        f"{call}: {what_one} is a {first.name} array and {what_two} a {second.name} array; "
        f"move one of them first: xferlib.to_device(x, backend={first.name!r}) or xferlib.to_host(x); "
        "xferlib.common(x, y) moves what is elsewhere"
    )


def check_device(arrays: tuple[Any, ...], backend: Backend, *, call: str) -> None:
    """Refuse arrays of two devices of one backend.

    Raises:
        MixedDevicesError: There are two.
    """
    first = backend.device_of(arrays[0])
    for index, array in enumerate(arrays):
        if (device := backend.device_of(array)) is not first:
            raise mixed_devices(call, ("argument 0", first), (f"argument {index}", device))


def mixed_devices(call: str, one: tuple[str, Device], two: tuple[str, Device]) -> MixedDevicesError:
    """The error for arrays of two devices, naming both and the call that mends it."""
    (what_one, first), (what_two, second) = one, two
    return MixedDevicesError(
        f"{call}: {what_one} is on {first} and {what_two} on {second}; "
        f"move one of them first: xferlib.to_device(x, device={str(first)!r})"
    )
