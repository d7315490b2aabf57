"""The CuPy backend."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from types import ModuleType
from typing import Any

import cupy
import numpy as np
from cupy.cuda import runtime

from xferlib import _native
from xferlib._core.arrays import Array, ArrayInfo, c_strides, make_matcher
from xferlib._core.backend import PlainArrays, Run
from xferlib._core.device import Capabilities, Device, RawStream
from xferlib._core.dtypes import is_numpys
from xferlib._native import ArrayAddress, Calls, CurrentStream, MemoryPath, bind_alike
from xferlib.backends.cuda.backend import CudaBackend
from xferlib.backends.cuda.memory import find_guards
from xferlib.errors import BackendUnavailableError

_LAYOUT = ("__class__", "dtype", "shape", "strides")
# Private, but 0.05 us less than the strides: the layout of arrays that are contiguous.
_CONTIGUOUS = ("dtype", "shape", "_c_contiguous")
_STRIDED = ("dtype", "shape", "strides")


_current_stream = cupy.cuda.get_current_stream
_alloc, _UnownedMemory, _MemoryPointer = cupy.cuda.alloc, cupy.cuda.UnownedMemory, cupy.cuda.MemoryPointer


def _bare(shape: tuple[int, ...], kind: str, pointer: Any = None) -> Array:
    """``cupy.ndarray(shape, kind, pointer)`` without its Python-level ``__new__``, which takes as long again."""
    array = _new(cupy.ndarray)
    array._init(shape, kind, pointer)
    return array


def _maker() -> Callable[..., Array]:
    """`_bare`, if this CuPy lets arrays be made that way, else CuPy's own constructor."""
    pointer = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(256, 24, None, 0), 4)
    expected = cupy.ndarray((2, 1), "f", pointer)
    names = ("__class__", "shape", "strides", "dtype", "nbytes", "_c_contiguous", "_f_contiguous", "base")
    try:
        found = _bare((2, 1), "f", pointer)
        is_same = found.data.ptr == 260 and all(getattr(found, name) == getattr(expected, name) for name in names)
    except Exception:  # it is private, and may change
        is_same = False
    return _bare if is_same else cupy.ndarray


_new: Any = getattr(cupy.ndarray.__base__, "__new__", None)
_make: Callable[..., Array] = _maker()
"""An array from shape, dtype character and pointer; without a pointer, from CuPy's pool."""


def make(shape: tuple[int, ...], dtype: np.dtype[Any], pointer: Any = None) -> Array:
    """An array from shape, dtype and pointer; without a pointer, from CuPy's pool.

    CuPy makes no arrays of dtypes with which it does not compute, but views of them, which move.
    """
    kind = _find_kind(dtype)
    return _make(shape, _BITS[dtype.itemsize], pointer).view(dtype) if kind is None else _make(shape, kind, pointer)


@functools.cache
def _find_kind(dtype: np.dtype[Any]) -> Any:
    """The dtype as `_make` takes it: its character, or itself if it is not one of NumPy's; None where it takes none."""
    if is_numpys(dtype):
        return dtype.char
    try:
        return dtype if _make((0,), dtype).dtype == dtype else None
    except Exception:  # as each version of CuPy says it
        return None


@functools.cache
def _takes_strides() -> bool:
    """Whether this CuPy makes arrays whose axes have another order in memory, rather than views of them."""
    try:
        return bool(cupy.ndarray((0, 2), "f", None, (4, 4)).strides == (4, 4))  # empty: it may run during a capture
    except Exception:  # as each version of CuPy says it
        return False


def _lay_out(
    shape: tuple[int, ...], itemsize: int, order: tuple[int, ...] | None
) -> tuple[tuple[int, ...], tuple[int, ...] | None, Calls]:
    """The extents and strides of a new array whose axes have an ``order`` in memory, and what is called with it."""
    if order is None:
        return shape, None, ()
    extents, axes = tuple(shape[axis] for axis in order), tuple(map(order.index, range(len(order))))
    if not _takes_strides():
        return extents, None, ((cupy.ndarray.transpose, (axes,)),)
    strides = c_strides(extents, itemsize)
    return shape, tuple(strides[axis] for axis in axes), ()


_BITS = {1: "B", 2: "H"}

# `flags` makes an object, which takes as long as the rest of a description; the attribute is private, and may go.
_is_in_order = attrgetter("_c_contiguous" if hasattr(cupy.ndarray, "_c_contiguous") else "flags.c_contiguous")


class CupyBackend(CudaBackend):
    """CuPy arrays, from CuPy's memory pool."""

    name = "cupy"
    array_types = ("cupy.ndarray",)
    capabilities = Capabilities(
        streams=True, priorities=True, foreign_streams=True, native_current_stream=True, pinned_memory=True,
        peer_copy=True, kernels=True, namespace=True, strided=True, graphs=True,
    )  # fmt: skip

    def __init__(self) -> None:
        try:
            count = runtime.getDeviceCount()
        except runtime.CUDARuntimeError as error:
            raise BackendUnavailableError(f"CuPy sees no CUDA device ({error})") from error
        super().__init__(count)
        if count > 1:
            self.signature = attrgetter(*_LAYOUT, "data.device_id")

    _guards = find_guards()
    signature = staticmethod(attrgetter(*_LAYOUT))  # type: ignore[assignment]

    def matcher(self, arrays: Sequence[Array]) -> Callable[..., bool]:
        if len(self._devices) > 1:
            return super().matcher(arrays)
        names = _CONTIGUOUS if all(getattr(each, "_c_contiguous", False) for each in arrays) else _STRIDED
        return bind_alike(names, arrays) or make_matcher(attrgetter("__class__", *names), arrays)

    address = ArrayAddress(("data", "ptr"))
    memory = MemoryPath(("data", "mem"), _UnownedMemory, ("_owner", "handle"))  # the only kind that a `Guard` owns
    plain_arrays = PlainArrays(cupy.ndarray)
    pointer_of = staticmethod(attrgetter("data.ptr"))

    def whole(self, array: Array) -> tuple[int, tuple[int, ...], np.dtype[Any]] | None:
        return (array.data.ptr, array.shape, array.dtype) if _is_in_order(array) else None

    def operands(self, arrays: Sequence[Array]) -> list[int]:
        return [each.data.ptr for each in arrays]

    def namespace(self) -> ModuleType:
        from xferlib.backends.cupy import namespace  # imports array-api-compat

        return namespace

    def device_current(self) -> Device:
        return self._devices[int(runtime.getDevice())]

    def device_use(self, device: Device) -> None:
        runtime.setDevice(device.index)

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Array:
        return make(shape, dtype)

    def _calls_for_new(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None, device: Device
    ) -> Calls:
        if _make is not _bare or (kind := _find_kind(dtype)) is None:
            return super()._calls_for_new(shape, dtype, order, device)
        extents, strides, then = _lay_out(shape, dtype.itemsize, order)
        return (_new, (cupy.ndarray,)), (cupy.ndarray._init, (extents, kind, None, strides)), *then

    def _stream_for_c(self, device: Device) -> CurrentStream:
        return CurrentStream(_current_stream, device.index, ("ptr",))

    def _calls_on(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None, device: Device
    ) -> Calls | None:
        if _make is not _bare or (kind := _find_kind(dtype)) is None:
            return super()._calls_on(shape, dtype, order, device)
        nbytes, index, own = math.prod(shape) * dtype.itemsize, device.index, self._owners[device.index][0]
        extents, strides, then = _lay_out(shape, dtype.itemsize, order)

        def make_on(stream: RawStream) -> Array:
            held = _alloc(nbytes)
            memory = _UnownedMemory(held.ptr, nbytes, own(held, stream), index)
            array = _new(cupy.ndarray)
            array._init(extents, kind, _MemoryPointer(memory, 0), strides)
            return array

        return (make_on, ()), *then

    def _empty_on(
        self, device: Device, shape: tuple[int, ...], dtype: np.dtype[Any], stream: RawStream | None
    ) -> Array:
        # As shared code does it: here with the fewest calls.
        index, current = device.index, _current_stream(device.index)
        nbytes = math.prod(shape) * dtype.itemsize
        if stream is None:
            stream = self._find_stream(current.ptr, device)
        if stream.handle == current.ptr:
            return self._allocate_guarded(shape, dtype, device, stream) if stream.handle else make(shape, dtype)
        if (calls := _native.find_calls()) is None:
            return self._empty_in_order(shape, dtype, device, stream)
        held = calls.call_between(self._switch(stream), functools.partial(_alloc, nbytes), current.use)
        memory = _UnownedMemory(held.ptr, nbytes, self._owners[index][0](held, stream), index)
        return make(shape, dtype, _MemoryPointer(memory, 0))

    def _allocate_guarded(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream
    ) -> Array:
        # As `guard`, with one array instead of two, each of which takes a microsecond.
        nbytes = math.prod(shape) * dtype.itemsize
        held = _alloc(nbytes)
        memory = _UnownedMemory(held.ptr, nbytes, self._owners[device.index][0](held, stream), device.index)
        return make(shape, dtype, _MemoryPointer(memory, 0))

    def _keep_for(self, array: Array, current: RawStream) -> Array:
        return array  # its guard lets the memory wait for the stream that is current when it dies

    def guard(self, array: Array, stream: RawStream) -> Array:
        held = array.data.mem
        if isinstance(getattr(held, "_owner", None), self._guards):
            return array
        index = stream.device.index
        memory = cupy.cuda.UnownedMemory(held.ptr, held.size, self._owners[index][0](array, stream), index)
        pointer = cupy.cuda.MemoryPointer(memory, array.data.ptr - held.ptr)
        return cupy.ndarray(array.shape, array.dtype, pointer, array.strides)

    def device_of(self, array: Array) -> Device:
        return self._devices[int(array.data.device_id)]

    def view(self, array: Array) -> ArrayInfo:
        data = array.data
        return ArrayInfo(data.ptr, array.shape, array.strides, array.dtype, self._devices[data.device_id], True)

    def over(self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, owner: Any) -> Array:
        nbytes = math.prod(shape) * dtype.itemsize
        memory = cupy.cuda.UnownedMemory(pointer, nbytes, owner, device.index)
        return make(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))

    def strided_view(
        self, array: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Array:
        return cupy.ndarray(shape, dtype, array.data + offset, strides)

    def subarray(self, slab: Array, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return make(shape, dtype, slab.data + offset)

    def subarrays(self, slab: Array, runs: Iterable[Run]) -> list[Array]:
        # Each from its address: at a quarter of the time that CuPy takes to index an array.
        memory, start = slab.data.mem, slab.data.ptr - slab.data.mem.ptr
        pointer, made = cupy.cuda.MemoryPointer, []
        for place, step, count, shape, dtype in runs:
            first = start + place
            made += [make(shape, dtype, pointer(memory, at)) for at in range(first, first + count * step, step)]
        return made

    @contextlib.contextmanager
    def _own_memory(self, stream: RawStream) -> Iterator[Any]:
        pool = cupy.cuda.MemoryPool()
        with cupy.cuda.using_allocator(pool.malloc):
            yield pool

    def note_use(self, array: Array, stream: RawStream) -> None:
        if stream.capture is not None:
            stream.capture.keep(array)
            return
        owner = getattr(array.data.mem, "_owner", None)
        if isinstance(owner, self._guards):
            owner.used_on(stream)

    def stream_handle(self, device: Device) -> int:
        handle: int = _current_stream(device.index).ptr
        return handle

    def _current_native(self, device: Device) -> Any:
        return cupy.cuda.get_current_stream(device.index)

    def _use(self, stream: RawStream) -> None:
        self._switch(stream)()

    def _switch(self, stream: RawStream) -> Callable[[], Any]:
        if stream.switch is None:
            if stream.native is None:
                stream.native = cupy.cuda.Stream.from_external(stream.core) if stream.handle else cupy.cuda.Stream.null
            stream.switch = stream.native.use
        return stream.switch
