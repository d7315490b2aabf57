"""JAX on the CPU as a backend of xferlib, written by docs/how-to/add-a-backend.md alone.

JAX's arrays are immutable, and a function that JAX compiled may keep or reuse their memory at will. So this backend
allocates memory with NumPy, lets xferlib fill it, and hands it to JAX once, by DLPack, before JAX has seen any of it.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xferlib.backends.base import WHY_HOST, ArrayInfo, Capabilities, Device, HostBackend, RawStream, c_strides
from xferlib.errors import UnsupportedArrayError, UnsupportedDTypeError

_ALIGNMENT = 64  # bytes; JAX copies memory that is aligned to less, instead of adopting it


def _address(array: jax.Array) -> int:
    """The address of the array's memory, once it is computed."""
    if array.is_deleted():
        raise UnsupportedArrayError("the array of JAX was deleted or donated, so its memory is gone; pass a live one")
    devices = array.devices()
    if len(devices) != 1 or any(each.platform != "cpu" for each in devices):
        raise UnsupportedArrayError(
            f"the array of JAX is on {sorted(map(str, devices))}, and this backend takes arrays on one CPU device; "
            "move it first: jax.device_put(x, jax.devices('cpu')[0])"
        )
    array.block_until_ready()
    address: int = array.unsafe_buffer_pointer()
    return address


def bits_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype itself; of one that NumPy does not hand over by its protocols, such as bfloat16, integers of its size.

    Raises:
        UnsupportedDTypeError: JAX has no arrays of it.
    """
    if dtype.isbuiltin == 2:  # a dtype of another package
        return np.dtype(f"u{dtype.itemsize}")
    if dtype.kind == "V":
        raise UnsupportedDTypeError(f"JAX has no arrays of {dtype}; move the bytes: x.view(numpy.uint8)")
    return dtype


class _Memory:
    """The memory of a JAX array, for NumPy: writable, and it keeps the array."""

    def __init__(self, array: jax.Array) -> None:
        self.array = array
        self.__array_interface__ = {
            "data": (_address(array), False),
            "shape": array.shape,
            "typestr": bits_of(array.dtype).str,
            "version": 3,
        }


class JaxBackend(HostBackend):
    """JAX's arrays in host memory: `xl.to_device(x, backend="jax")`."""

    name = "jax"
    array_types = ("jaxlib._jax.ArrayImpl",)
    capabilities = Capabilities(
        namespace=True,
        in_place=False,
        fork=False,
        why={
            **WHY_HOST,
            "strided": "arrays of JAX have no views",
            "in_place": "arrays of JAX are immutable",
            "fork": "JAX has threads, and warns when its process forks",
        },
    )

    def namespace(self) -> ModuleType:
        module: ModuleType = jnp
        return module

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> jax.Array:
        bits, nbytes = bits_of(dtype), math.prod(shape) * dtype.itemsize
        memory = np.empty(nbytes + _ALIGNMENT, np.uint8)
        with jax.enable_x64(True):  # or JAX would make float32 of float64
            found = jax.dlpack.from_dlpack(np.ndarray(shape, bits, memory, -memory.ctypes.data % _ALIGNMENT))
            return found if bits == dtype else jax.lax.bitcast_convert_type(found, dtype)  # new memory, of JAX's own

    def view(self, array: jax.Array) -> ArrayInfo:
        strides = c_strides(array.shape, array.dtype.itemsize)
        return ArrayInfo(_address(array), array.shape, strides, array.dtype, self.device, False)

    def host_view(self, array: jax.Array) -> np.ndarray[Any, Any]:
        return np.asarray(_Memory(array)).view(array.dtype)
