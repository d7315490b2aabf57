"""Arrays of one call: the backend that they share, and the errors where they share none, or no device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib.errors import (
    MixedBackendsError,
    MixedDevicesError,
    UnsupportedArrayError,
)

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.backend import Backend

from xferlib._core.registry import SCALARS, backend_of


def common_backend(arrays: tuple[Any, ...], *, call: str) -> Backend | None:
    """The one backend of all arrays among ``arrays``; None if there is none. Python scalars mix.

    Raises:
        MixedBackendsError: Arrays of two backends.
    """
    found: Backend | None = None
    first = 0
    for index, array in enumerate(arrays):
        backend = backend_of(array)
        if backend is None:
            if not isinstance(array, SCALARS):
                raise UnsupportedArrayError(
                    f"{call}: argument {index} is {type(array).__name__}, not an array of any backend; "
                    "pass it through xferlib.to_device() first"
                )
        elif found is None:
            found, first = backend, index
        elif backend is not found:
            raise mixed_backends(call, (f"argument {first}", found), (f"argument {index}", backend))
    return found


def mixed_backends(call: str, one: tuple[str, Backend], two: tuple[str, Backend]) -> MixedBackendsError:
    """The error for arrays of two backends, naming both and the call that mends it."""
    (what_one, first), (what_two, second) = one, two
    return MixedBackendsError(
        f"{call}: {what_one} is a {first.name} array and {what_two} a {second.name} array; "
        f"move one of them first: xferlib.to_device(x, backend={first.name!r}) or xferlib.to_host(x)"
    )


def mixed_devices(call: str, one: tuple[str, ArrayInfo], two: tuple[str, ArrayInfo]) -> MixedDevicesError:
    """The error for arrays of two devices, naming both and the call that mends it."""
    (what_one, first), (what_two, second) = one, two
    return MixedDevicesError(
        f"{call}: {what_one} is on {first.device} and {what_two} on {second.device}; "
        f"move one of them first: xferlib.to_device(x, device={str(first.device)!r})"
    )
