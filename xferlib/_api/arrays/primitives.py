"""The primitives of the functions of a namespace: new arrays, views, and checks of arguments.

NumPy says what a view is: a *shadow* is a NumPy array of the same shape and strides at an address that nothing may
read. Slicing or transposing it gives the shape, strides and offset of the view, or NumPy's own error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api import transfers
from xferlib._core import array as _array
from xferlib._core import devices, mixing, observe, registry
from xferlib._core.array import Array, ArrayInfo
from xferlib.errors import ArgumentError, UnsupportedArrayError
from xferlib.kernels import casting

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream
    from xferlib.backends.device_math import DeviceSorting, FunctionLibrary, MatrixProducts

Shadow = np.ndarray[Any, Any]
Shape = tuple[int, ...]

_BASE = 1 << 40
"""The address of shadows. A read of one would end the process, so a key must never select a single element."""
_MOST_SHADOWS = 1024
READ_ONLY = "elements of the array share their memory (broadcast_to), or it is read-only; copy it"
SCALARS = (bool, int, float, complex)


@functools.lru_cache(_MOST_SHADOWS)
def _shadow(shape: Shape, strides: Shape, letter: str) -> Shadow:
    """A shadow; ``letter`` is NumPy's for the dtype, and tells long from long long, which are equal."""
    dtype = np.dtype(letter)
    if 0 in shape:
        return np.empty(shape, dtype)
    described = {"data": (_BASE, False), "shape": shape, "strides": strides, "typestr": dtype.str, "version": 3}
    return np.asarray(SimpleNamespace(__array_interface__=described)).view(dtype)


def is_scalar(value: Any) -> bool:
    """Whether a value is a number of Python, or of NumPy and a dtype that devices have: not an array (NEP 50)."""
    return type(value) in SCALARS or (isinstance(value, np.generic) and value.dtype in _array.SUPPORTED)


def enqueued(
    owner: Backend,
    stream: RawStream,
    name: str,
    arrays: Sequence[Array],
    infos: Sequence[ArrayInfo] | None,
    work: Callable[..., None],
    *args: Any,
) -> None:
    """Let ``work(*args, stream=stream)`` enqueue an operation on arrays, for a recording too.

    Args:
        owner: The part of the backend that has the stream's device.
        stream: The stream.
        name: The operation's name.
        arrays: All that it reads and writes; their memory outlasts it.
        infos: Their descriptions, if they are known.
        work: The function.
        args: Its arguments.
    """
    if (recorder := observe.active) is None:
        work(*args, stream=stream)
    else:
        described = [owner.view(each) for each in arrays] if infos is None else infos
        nbytes = sum(info.nbytes for info in described)
        repeated = functools.partial(work, *args, stream=stream)
        recorder.enqueue(observe.Kind.KERNEL, name, nbytes, owner, stream, repeated)
    if stream.handle or owner.has_made_streams:
        for each in arrays:  # one that was allocated on another stream must outlast the work on this one
            owner.consumed(each, stream)


class Primitives:
    """A backend whose arrays a namespace computes with.

    Args:
        backend: The backend.
        array_type: The exact type of the arrays that it makes; it may take others.
    """

    def __init__(self, backend: Backend, array_type: type) -> None:
        self.backend = backend
        self.array_type = array_type
        self.plans: dict[Hashable, Any] = {}
        """Calls that can be repeated, by all that they depend on."""

    # --- arguments

    def is_array(self, value: Any) -> bool:
        """Whether a value is an array of this backend."""
        return type(value) is self.array_type or registry.backend_of(value) is self.backend

    def refuse_arrays(self, name: str, **numbers: Any) -> None:
        """Refuse arguments of function ``name`` that the host computes with, and that are on a device.

        Raises:
            ArgumentError: One is an array of this backend.
        """
        for what, number in numbers.items():
            if self.is_array(number):
                raise ArgumentError(
                    f"{name}: {what} is an array of {self.info(number).device}, and the host needs the number; give "
                    f"{what}=float(xferlib.to_host(x)), or int(...) for an integer"
                )

    def array(self, name: str, value: Any) -> Array:
        """An argument of function ``name`` as an array; numbers become arrays on the current device.

        Raises:
            MixedBackendsError: It is an array of another backend.
            UnsupportedArrayError: It is neither an array nor a number.
        """
        if type(value) is self.array_type:
            return value
        if is_scalar(value):
            return self.upload(np.asarray(value))
        owner = registry.backend_of(value)
        if owner is self.backend:
            return self.own(value)
        if owner is not None:
            raise mixing.mixed_backends(name, ("one operand", self.backend), ("another", owner))
        if isinstance(value, np.generic):
            raise UnsupportedArrayError(
                f"{name}: devices have no dtype {value.dtype}; convert the number first, as with numpy.float64(x)"
            )
        raise UnsupportedArrayError(
            f"{name}: {type(value).__name__} is neither an array nor a number; make an array of it: "
            f"xferlib.to_device(x, backend={self.backend.name!r})"
        )

    def own(self, array: Array) -> Array:
        """``array``, of any type that the backend takes, as one of the type that it makes."""
        if type(array) is self.array_type:
            return array
        info = self.backend.view(array)
        return self.backend.strided_view(array, 0, info.shape, info.strides, info.dtype)

    def infos(self, name: str, arrays: Sequence[Array]) -> list[ArrayInfo]:
        """The descriptions of several arrays, all of one device.

        Raises:
            MixedDevicesError: There are two.
        """
        found = [self.info(each) for each in arrays]
        for each in found[1:]:
            if each.device is not found[0].device:
                raise mixing.mixed_devices(name, ("an argument", found[0].device), ("another", each.device))
        return found

    # --- arrays

    def info(self, array: Array) -> ArrayInfo:
        return self.backend.view(array)

    def device(self, given: Any) -> Device:
        """A ``device=`` argument; the current device if it is None."""
        return self.backend.device_current() if given is None else devices.resolve(given, backend=self.backend)

    def empty(self, shape: Shape, dtype: np.dtype[Any], device: Device) -> Array:
        """A new array in C order, uninitialised, in the order of the current stream."""
        owner = self.backend.at(device)
        owner.attach(device)
        return owner.empty(shape, dtype, device=device, stream=owner.stream_current(device))

    def on_host(
        self, name: str, function: Callable[..., None], reads: Sequence[Array], writes: Sequence[Array]
    ) -> bool:
        """Enqueue a function of NumPy arrays over ``reads`` and ``writes``; False where only a kernel computes."""
        owner = self.backend.at(self.backend.view(writes[0]).device)
        return owner.compute_on_host(name, function, reads, writes)

    def products(self, device: Device) -> MatrixProducts | None:
        """The library that multiplies matrices on a device; None where there is none."""
        found: MatrixProducts | None = self.backend.at(device).products
        return found

    def function_library(self, device: Device) -> FunctionLibrary | None:
        """The library that has ``linalg`` and ``fft`` for a device's memory; None where there is none."""
        found: FunctionLibrary | None = self.backend.at(device).function_library
        return found

    def sorting(self, device: Device) -> DeviceSorting | None:
        """The library that sorts on a device; None where there is none."""
        found: DeviceSorting | None = self.backend.at(device).sorting
        return found

    def enqueue(
        self, name: str, arrays: Sequence[Array], run: Callable[..., None], infos: Sequence[ArrayInfo] | None = None
    ) -> None:
        """Let ``run(*descriptions, stream=stream)`` enqueue work on arrays of one device, on its current stream."""
        if infos is None:
            infos = [self.backend.view(each) for each in arrays]
        device = infos[0].device
        owner = self.backend.at(device)
        owner.attach(device)
        stream = owner.stream_current(device)
        enqueued(owner, stream, name, arrays, infos, run, *infos)

    def upload(self, host: Any, device: Any = None, dtype: Any = None) -> Array:
        """A new array with the values of a NumPy array."""
        return transfers.to_device(host, backend=self.backend.name, device=self.device(device), dtype=dtype)

    def shadow(self, array: Array) -> Shadow:
        """A NumPy array of the layout of ``array``, whose elements must not be read."""
        info = self.backend.view(array)
        return _shadow(info.shape, info.strides, info.dtype.char)

    def viewed(self, array: Array, shadow: Shadow) -> Array:
        """The view of ``array`` that NumPy has made of its shadow."""
        offset = shadow.__array_interface__["data"][0] - _BASE if shadow.size else 0
        return self.backend.strided_view(array, offset, shadow.shape, shadow.strides, shadow.dtype)

    def copy(self, array: Array, dtype: np.dtype[Any] | None = None) -> Array:
        """A copy in C order, converted to ``dtype``."""
        info = self.backend.view(array)
        out = self.empty(info.shape, dtype or info.dtype, info.device)
        casting.cast_into(out, array)
        return out


def checked_dtype(dtype: Any) -> np.dtype[Any] | None:
    """A ``dtype=`` argument.

    Raises:
        UnsupportedDTypeError: No device holds it.
    """
    return None if dtype is None else _array.check_dtype(dtype, what="dtype")
