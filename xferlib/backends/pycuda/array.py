"""The PyCUDA arrays that xferlib makes: GPUArrays whose operators, indexing and methods are the Array API's.

`xferlib._core.namespaces` sets these when the backend is loaded; here is what PyCUDA itself needs, and what it does
on its default stream while the arrays' work is on another one.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import numpy as np
import pycuda.driver
from pycuda.gpuarray import GPUArray, splay

from xferlib._core.array import c_strides, viewed

Shape = tuple[int, ...]

_MOST_LAYOUTS = 1024


class PycudaArray(GPUArray):  # type: ignore[misc]
    """A GPUArray with the Array API's operators and methods, which run on xferlib's current stream.

    Every function of PyCUDA takes it. Those run on PyCUDA's default stream, and many take contiguous arrays only.
    """

    _find_stream: ClassVar[Any]
    """A function that gives the backend, and the current stream of an array's device; set by the backend."""

    # PyCUDA computes these for each array, at some us; most arrays die before they are read.
    size = functools.cached_property(lambda self: math.prod(self.shape))
    mem_size = functools.cached_property(lambda self: self.size)
    itemsize = functools.cached_property(lambda self: self.dtype.itemsize)
    nbytes = functools.cached_property(lambda self: self.size * self.dtype.itemsize)
    allocator = staticmethod(pycuda.driver.mem_alloc)
    _grid = functools.cached_property(lambda self: splay(self.mem_size)[0])
    _block = functools.cached_property(lambda self: splay(self.mem_size)[1])

    def _wait(self) -> None:
        """Wait for the work on xferlib's current stream, which PyCUDA's default stream may not follow."""
        owner, stream = self._find_stream(self)
        owner.stream_synchronize(stream)

    def get(self, ary: Any = None, pagelocked: bool = False, async_: bool = False, stream: Any = None) -> Any:
        """A NumPy array of the elements; without ``stream``, after the work on xferlib's current stream."""
        source = self if self.flags.forc else self.copy()
        if stream is None:
            source._wait()
        return GPUArray.get(source, ary, pagelocked, async_, stream)

    def set(self, ary: Any, async_: bool = False, stream: Any = None) -> None:
        """Copy a NumPy array here; without ``stream``, after the work on xferlib's current stream."""
        if stream is None:
            self._wait()
        super().set(ary, async_, stream)

    def fill(self, value: Any, stream: Any = None) -> PycudaArray:
        """Set every element, on xferlib's current stream or a stream of PyCUDA's."""
        if stream is not None:
            super().fill(value, stream)
        else:
            self[...] = np.asarray(value, self.dtype)[()]
        return self

    def view(self, dtype: Any = None) -> PycudaArray:
        """The same memory as another dtype; the last axis grows or shrinks where the sizes differ.

        Raises:
            LayoutError: The last axis has gaps, or its bytes are no multiple of the new size.
        """
        kind = self.dtype if dtype is None else np.dtype(dtype)
        shape, strides = viewed(self._find_stream(self)[0].view(self), kind)
        return strided_view(self, 0, shape, strides, kind)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        described: dict[str, Any] = super().__cuda_array_interface__
        handle = self._find_stream(self)[1].handle
        return {**described, "stream": handle or 1}  # 1 stands for the default stream, which is 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.get(),)


def over(shape: Shape, strides: Shape, dtype: np.dtype[Any], gpudata: Any, base: Any = None) -> PycudaArray:
    """An array over memory: what ``GPUArray`` does in 4 us.

    Args:
        shape, strides, dtype: The layout.
        gpudata: An address or an allocation; None where there are no elements.
        base: The array that keeps the memory alive, if ``gpudata`` does not; the device, where there are no elements.
    """
    self = PycudaArray.__new__(PycudaArray)
    self.shape, self.strides, self.dtype, self.base, self.gpudata = shape, strides, dtype, base, gpudata
    return self


@functools.lru_cache(_MOST_LAYOUTS)
def packed(shape: Shape, itemsize: int) -> tuple[Shape, int]:
    """The strides and the bytes of an array in C order."""
    return c_strides(shape, itemsize), math.prod(shape) * itemsize


def strided_view(array: GPUArray, offset: int, shape: Shape, strides: Shape, dtype: np.dtype[Any]) -> PycudaArray:
    """An array over the memory of another one: see `Arrays.strided_view`."""
    memory = None if array.gpudata is None else int(array.gpudata) + offset
    return over(shape, strides, dtype, memory, array)


def owner_of(array: GPUArray) -> GPUArray:
    """The array that a view, which has an address only, keeps alive."""
    while isinstance(array.base, GPUArray):
        array = array.base
    return array


def _restored(host: np.ndarray[Any, Any]) -> PycudaArray:
    """Restore a pickled array, in the current context."""
    found = PycudaArray(host.shape, host.dtype)
    if found.size:
        found.set(np.ascontiguousarray(host))
    return found
