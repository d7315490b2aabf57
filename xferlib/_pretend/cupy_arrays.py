"""CuPy's class of arrays."""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._pretend import policy
from xferlib._pretend.arrays import METHODS, PretendedArray, add_methods, check_dtype
from xferlib._pretend.functions import to_numpy, to_pretended
from xferlib._pretend.memory import CupyMemoryPointer
from xferlib._pretend.streams import NumberedDevice, own_stream


def make_order(order: Any) -> str:
    """The order of a new array, by CuPy's names."""
    chosen = {"CONTIGUOUS": "C", "FORTRAN": "F", "": "C", "NONE": "C", "K": "C", "A": "C"}
    return chosen.get(str(order).upper(), str(order).upper())


def make_shape(shape: Any) -> Any:
    """The shape of a new array: a number, or a tuple."""
    found = to_numpy(shape)
    return tuple(map(operator.index, found)) if np.ndim(found) else operator.index(found)


class ndarray(PretendedArray):  # noqa: N801 - CuPy's name; as CuPy's it has no hash
    """An array on the device with the members of CuPy's."""

    __slots__ = ()
    library = "cupy"
    __hash__ = None

    def __new__(cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C") -> Any:
        if strides is not None:
            policy.refuse("cupy.ndarray(strides=)")
        kind = check_dtype(dtype)
        native = (
            xl.empty(make_shape(shape), kind, order=make_order(order))
            if memptr is None
            else memptr.over(make_shape(shape), kind)
        )
        made = cls.over(native)
        if cls is not ndarray and hasattr(made, "__array_finalize__"):
            made.__array_finalize__(None)
        return made

    def __init__(self, *args: Any, **options: Any) -> None: ...

    flat = property(lambda self: self.ravel())
    base = property(lambda self: None)
    device = property(lambda self: NumberedDevice(xl.device_of(self._native).index))

    @property
    def data(self) -> CupyMemoryPointer:
        info = self._info
        return CupyMemoryPointer(info.pointer, self._native, info.nbytes)

    def get(self, stream: Any = None, order: Any = "C", out: Any = None, blocking: bool = True) -> Any:
        return self._copy_to_host(out, order, stream, blocking=blocking)

    def set(self, arr: Any, stream: Any = None) -> None:
        if not isinstance(arr, np.ndarray):
            raise TypeError(f"set: {type(arr).__name__} is not an array of NumPy's")
        if arr.shape != self.shape or arr.dtype != self.dtype:
            raise ValueError(f"set: {arr.shape} {arr.dtype} is not {self.shape} {self.dtype}")
        xl.to_device(arr, out=self._native, stream=own_stream(stream))
        if stream is None:
            xl.current_stream().synchronize()

    def fill(self, value: Any) -> None:
        found = to_numpy(value)
        if np.ndim(found):
            raise ValueError(f"fill: an array of shape {np.shape(found)} is given, and one number is needed")
        with np.errstate(all="ignore"):
            xl.to_device(np.full(self.shape, np.asarray(found).astype(self.dtype)), out=self._native)

    def dump(self, file: Any) -> None:
        self.get().dump(file)

    def dumps(self) -> bytes:
        return self.get().dumps()  # type: ignore[no-any-return]

    def scatter_add(self, slices: Any, value: Any) -> None:
        """``self[slices] += value``, where an index that comes twice counts twice."""
        host = self.get()
        np.add.at(host, to_numpy(slices), to_numpy(value))
        self[...] = to_pretended(host, ndarray)

    def put(self, indices: Any, values: Any, mode: Any = "wrap") -> None:
        host = self.get()
        np.put(host, to_numpy(indices), to_numpy(values), mode)
        self[...] = to_pretended(host, ndarray)

    def sort(self, axis: int = -1, **_: Any) -> None:
        self[...] = self.function("sort")(self, axis=axis)

    def __dlpack__(self, **options: Any) -> Any:
        return self._native.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._native.__dlpack_device__()

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        own = getattr(sys.modules[f"{policy.prefix}cupy"], function.__name__, None)
        return NotImplemented if own is None else own(*args, **options)


ndarray.root = ndarray
add_methods(METHODS, ndarray)
