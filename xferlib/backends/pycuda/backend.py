"""The PyCUDA backend: ``GPUArray`` in the primary context."""

from __future__ import annotations

import atexit
import contextlib
import functools
import math
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import attrgetter
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pycuda.autoprimaryctx
import pycuda.driver
from cuda import core
from pycuda.gpuarray import GPUArray, splay

from xferlib import _native
from xferlib._core.arrays import Array, ArrayInfo, Lent, as_host_array, c_strides, overlaps_itself, view_as_dtype
from xferlib._core.backend import DirectCopies, PlainArrays
from xferlib._core.device import Capabilities, Device, RawStream
from xferlib._core.namespaces import make_namespace
from xferlib._runtime import process
from xferlib._runtime.process import reset_in_child
from xferlib._runtime.version import install_command
from xferlib.backends.cuda import driver
from xferlib.backends.cuda.backend import CudaBackend, Made
from xferlib.backends.cuda.libraries import Blas, load_binding
from xferlib.backends.cuda.memory import DeviceAddress, DriverPool, GraphMemory, RecycledAddress
from xferlib.errors import StreamError, quote

# The PyCUDA arrays that xferlib makes: GPUArrays whose operators, indexing and methods are the Array API's.
#
# `xferlib._core.registry` sets these when the backend is loaded; here is what PyCUDA itself needs, and what it does
# on its default stream while the arrays' work is on another one.

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
        number = as_host_array(value, what="fill: value").astype(self.dtype)[()]
        if stream is None:
            self[...] = number
        elif isinstance(stream, pycuda.driver.Stream):
            super().fill(number, stream)
        else:
            raise StreamError(f"fill: stream={quote(stream)} is not a stream of PyCUDA's; give one, or leave it out")
        return self

    def view(self, dtype: Any = None) -> PycudaArray:
        """The same memory as another dtype; the last axis grows or shrinks where the sizes differ.

        Raises:
            LayoutError: The last axis has gaps, or its bytes are no multiple of the new size.
        """
        kind = self.dtype if dtype is None else np.dtype(dtype)
        shape, strides = view_as_dtype(self._find_stream(self)[0].view(self), kind)
        return strided_view(self, 0, shape, strides, kind)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        described: dict[str, Any] = super().__cuda_array_interface__
        handle = self._find_stream(self)[1].handle
        return {**described, "stream": handle or 1}  # 1 stands for the default stream, which is 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_array, (self.get(),)


_new: Any = object.__new__


def over(shape: Shape, strides: Shape, dtype: np.dtype[Any], gpudata: Any, base: Any = None) -> PycudaArray:
    """An array over memory: what ``GPUArray`` does in 4 us.

    Args:
        shape, strides, dtype: The layout.
        gpudata: An address or an allocation; None where there are no elements.
        base: The array that keeps the memory alive, if ``gpudata`` does not; the device, where there are no elements.
    """
    self: PycudaArray = _new(PycudaArray)
    self.shape, self.strides, self.dtype, self.base, self.gpudata = shape, strides, dtype, base, gpudata
    return self


@functools.lru_cache(_MOST_LAYOUTS)
def pack_strides(shape: Shape, itemsize: int) -> tuple[Shape, int]:
    """The strides and the bytes of an array in C order."""
    return c_strides(shape, itemsize), math.prod(shape) * itemsize


def strided_view(array: GPUArray, offset: int, shape: Shape, strides: Shape, dtype: np.dtype[Any]) -> PycudaArray:
    """An array over the memory of another one: see `Backend.strided_view`."""
    memory = None if array.gpudata is None else int(array.gpudata) + offset
    return over(shape, strides, dtype, memory, array)


def owner_of(array: GPUArray) -> GPUArray:
    """The array that a view, which has an address only, keeps alive."""
    while isinstance(array.base, GPUArray):
        array = array.base
    return array


def _restore_array(host: np.ndarray[Any, Any]) -> PycudaArray:
    """Restore a pickled array, in the current context."""
    found = PycudaArray(host.shape, host.dtype)
    if found.size:
        found.set(np.ascontiguousarray(host))
    return found


# ``linalg`` and ``fft`` of PyCUDA's arrays: CuPy's, over the same memory and on the same stream.


class CupyFunctions:
    """See `FunctionLibrary`.

    CuPy allocates results and temporaries from its own pool, which gives free memory to later work of the same stream
    only. Shared code copies the results to arrays of PyCUDA's backend, so that none of CuPy's memory outlives a call.

    Raises:
        ImportError: CuPy, or array-api-compat, is not installed.
    """

    def __init__(self) -> None:
        import cupy
        import cupyx

        from xferlib.backends.cupy import namespace

        self.namespace: Any = namespace
        self._cupy: Any = cupy
        self._errors: Any = cupyx.errstate

    @contextlib.contextmanager
    def inside(self, stream: RawStream) -> Iterator[None]:
        cuda = self._cupy.cuda
        with (
            cuda.Device(stream.device.index),
            cuda.Stream.from_external(stream.core) if stream.handle else cuda.Stream.null,
            self._errors(linalg="raise"),
        ):
            yield

    def view(self, info: ArrayInfo) -> Any:
        described = {
            "data": (info.pointer, False), "shape": info.shape, "strides": None, "typestr": info.dtype.str, "version": 3
        }  # fmt: skip
        return self._cupy.asarray(SimpleNamespace(__cuda_array_interface__=described))


_LAYOUT = ("dtype", "shape", "strides")
_layout: Callable[[Any], Hashable] = attrgetter("__class__", *_LAYOUT)


class _Pushed:
    """PyCUDA's context stack in one thread, which must be empty again when the thread ends.

    Args:
        index: The device's.
        context: The one object for the device's context: PyCUDA frees memory only in threads where the very object
            is current with which it was allocated, or in the object's own thread. Elsewhere it warns, and leaks.
    """

    def __init__(self, index: int, context: Any) -> None:
        self.index = index
        _native.guard_thread()  # PyCUDA aborts the process if a thread ends with a context
        context.push()

    def __del__(self) -> None:
        try:
            pycuda.driver.Context.pop()
        except pycuda.driver.Error:  # the interpreter is going away: PyCUDA has cleared the stack
            return


_MOST_CONTEXTS = 64
"""On one thread's stack."""
_DETACH_S = 1.0
"""How long a forked child waits for one of them to be marked."""


def _leave_parent() -> None:
    """In a forked child: empty PyCUDA's context stack, with which it would abort the child at its end.

    The driver, which did not survive the fork, pops no context. A thread that a context does not belong to marks it as
    dead without asking the driver, and PyCUDA drops dead contexts when it looks up the current one. This is done
    here and not at the end, where Python starts no thread any more. It is bounded: a child that is aborted at its end
    is better than one that hangs at its start.
    """
    for _ in range(_MOST_CONTEXTS):
        context = pycuda.driver.Context.get_current()
        if context is None:
            break
        thread = threading.Thread(target=context.detach, daemon=True)
        thread.start()
        thread.join(_DETACH_S)
        if thread.is_alive():
            break
    for name in ("autoprimaryctx", "autoinit"):  # whose handlers would pop what is not there
        finish_up = getattr(sys.modules.get(f"pycuda.{name}"), "_finish_up", None)
        if finish_up is not None:
            atexit.unregister(finish_up)


class PycudaBackend(CudaBackend):
    """PyCUDA arrays: `PycudaArray` where xferlib makes them.

    The device is that of ``pycuda.autoprimaryctx`` until another is chosen.
    """

    name = "pycuda"
    array_types = ("pycuda.gpuarray.GPUArray",)
    capabilities = Capabilities(
        streams=True, priorities=True, pinned_memory=True, peer_copy=True, kernels=True, namespace=True, strided=True,
        graphs=True,
        why={
            "foreign_streams": "PyCUDA cannot adopt a stream made elsewhere as its own",
            "native_current_stream": "PyCUDA's own operations always run on the default stream",
            "function_library": f"CuPy, which computes it here, is not installed: {install_command('cupy')}",
        },
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__(pycuda.driver.Device.count())
        self._local = threading.local()
        self._pools: dict[int, DriverPool] = {}
        self._default_index = _ordinal(pycuda.autoprimaryctx.device)
        self._shared = {self._default_index: pycuda.autoprimaryctx.context}
        self._has_ended = False
        atexit.register(self._end)  # before PyCUDA's own handler, which pops the context that it has pushed
        reset_in_child(_leave_parent)

        if len(self._devices) > 1:
            self.signature = self._signature_with_device
        PycudaArray._find_stream = self._stream_of
        self._namespace = make_namespace(self, PycudaArray)

    @functools.cached_property
    def products(self) -> Blas | None:
        """cuBLAS, if its bindings are installed; found at the first use, since importing them takes long."""
        cublas = load_binding()
        return None if cublas is None else Blas(self, cublas)

    @functools.cached_property
    def function_library(self) -> CupyFunctions | None:
        """CuPy, if it is installed; imported at the first use."""
        try:
            return CupyFunctions()
        except ImportError:
            return None

    _has_chosen = False
    """Whether any thread has made a stream its current one."""

    signature = staticmethod(_layout)  # type: ignore[assignment]

    def _signature_with_device(self, array: Array) -> Hashable:
        memory = array.gpudata
        return _layout(array), memory.device if isinstance(memory, DeviceAddress) else self._device_at(array)

    def matcher(self, arrays: Sequence[Array]) -> Callable[..., bool]:
        compiled = _native.bind_alike(_LAYOUT, arrays) if len(self._devices) == 1 else None
        return compiled or super().matcher(arrays)

    address = _native.ArrayAddress(("gpudata",))

    memory = _native.MemoryPath(("gpudata",), None, ("stream", "handle"))
    plain_arrays = PlainArrays(PycudaArray, other_types=(GPUArray,))
    pointer_of = staticmethod(lambda array: int(array.gpudata))

    def direct(self, device: Device) -> DirectCopies | None:
        found = super().direct(device)
        return found and found._replace(
            is_current=lambda: self._is_pushed() and self.device_current() is device,
            empty_between=None,  # PyCUDA has no current stream: `empty` is told which one
        )

    def operands(self, arrays: Sequence[Array]) -> list[int]:
        return [0 if (memory := each.gpudata) is None else int(memory) for each in arrays]

    def namespace(self) -> ModuleType:
        return self._namespace

    def device_current(self) -> Device:
        pushed: _Pushed | None = getattr(self._local, "pushed", None)
        return self._devices[self._default_index if pushed is None else pushed.index]

    def device_use(self, device: Device) -> None:
        is_pushed = self._is_pushed()
        if self._has_ended or (self.device_current() is device and is_pushed):
            return
        self._local.pushed = None  # pops before it pushes: one entry a thread
        if device.index != self._default_index or not self._has_base():
            self._local.pushed = _Pushed(device.index, self._context_object(device.index))

    def _end(self) -> None:
        """Clear the main thread's stack: PyCUDA aborts the process if anything but its own context is left there."""
        process.finish()  # threads that use a context while PyCUDA gives it up would fail
        self._has_ended = True
        self._local.pushed = None
        self._shared.clear()

    def _context_object(self, index: int) -> Any:
        found = self._shared.get(index)
        if found is None:
            found = self._shared.setdefault(index, pycuda.driver.Device(index).retain_primary_context())
        return found

    def attach(self, device: Device) -> None:
        super().attach(device)
        if not self._is_pushed():  # another library has made the context current, of which PyCUDA knows nothing
            current = driver.context_current()
            self._push(self._devices[next(index for index, each in self._contexts.items() if each == current)])

    def _push(self, device: Device) -> None:
        if not self._is_pushed():
            self._local.pushed = _Pushed(device.index, self._context_object(device.index))

    def _is_pushed(self) -> bool:
        """Whether PyCUDA has a context in this thread."""
        return self._has_base() or getattr(self._local, "pushed", None) is not None

    def _has_base(self) -> bool:
        """Whether it has one that is not ours: its module pushes one in the thread that imports it."""
        try:
            return self._local.has_base  # type: ignore[no-any-return]
        except AttributeError:  # asked before the first push in each thread
            found: bool = pycuda.driver.Context.get_current() is not None
            self._local.has_base = found
            return found

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Array:
        return self._empty_in_order(shape, dtype, device, self.default_stream(device))

    def _calls_for_new(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None, device: Device
    ) -> _native.Calls:
        strides, nbytes = pack_strides(shape, dtype.itemsize)
        pool = self._pools.get(device.index) or self._pool(device)
        kind = pool.find_kind(self, nbytes, self.default_stream(device)) if nbytes else None
        if kind is None or order is not None:
            return super()._calls_for_new(shape, dtype, order, device)
        is_pushed, new_address = self._is_pushed, kind.new

        def make() -> Array:
            if not is_pushed():
                self._push(device)
            return over(shape, strides, dtype, new_address())

        return ((make, ()),)

    def _calls_on(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None, device: Device
    ) -> _native.Calls | None:
        strides, nbytes = pack_strides(shape, dtype.itemsize)
        if not nbytes or order is not None:
            return super()._calls_on(shape, dtype, order, device)
        pool, is_pushed = self._pools.get(device.index) or self._pool(device), self._is_pushed
        kinds: dict[int, type[RecycledAddress]] = {}

        def make_on(stream: RawStream) -> Array:
            kind = kinds.get(stream.handle)
            if kind is None:
                if (kind := pool.find_kind(self, nbytes, stream)) is None:
                    return self._empty_in_order(shape, dtype, device, stream)
                kinds[stream.handle] = kind
            if not is_pushed():
                self._push(device)
            return over(shape, strides, dtype, kind.new_on(stream))

        return ((make_on, ()),)

    def _allocate_guarded(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream
    ) -> Array:
        return self._empty_in_order(shape, dtype, device, stream)

    def _empty_in_order(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream) -> Array:
        if not self._is_pushed():
            self._push(device)
        strides, nbytes = pack_strides(shape, dtype.itemsize)
        if not nbytes:
            return over(shape, strides, dtype, None, device)  # no address tells the device
        if stream.capture is None:
            pool = self._pools.get(device.index) or self._pool(device)
            memory = DeviceAddress.from_pool(self, pool, nbytes, stream)
        else:
            graph_memory = GraphMemory(nbytes, device)
            stream.capture.keep(graph_memory)
            memory = DeviceAddress.of(graph_memory, self, stream)
        return over(shape, strides, dtype, memory)

    def _empty_elsewhere(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream
    ) -> Array:
        if not self._is_pushed():
            self._push(self.device_current())
        with self.inside(device):  # the driver alone allocates: PyCUDA's stack of contexts, which is slow, stays
            return self._empty_in_order(shape, dtype, device, stream)

    def _pool(self, device: Device) -> DriverPool:
        """The device's memory pool, which keeps what is given back for later allocations."""
        handle = int(self.core_device(device).memory_resource.handle)
        return self._pools.setdefault(device.index, DriverPool(handle))

    def device_of(self, array: Array) -> Device:
        return self._device_at(array)

    def view(self, array: Array) -> ArrayInfo:
        pointer = 0 if array.gpudata is None else int(array.gpudata)
        is_writable = 0 not in array.strides or not overlaps_itself(array.shape, array.strides, array.dtype.itemsize)
        return ArrayInfo(pointer, array.shape, array.strides, array.dtype, self._device_at(array), is_writable)

    def _device_at(self, array: Array) -> Device:
        if len(self._devices) == 1:
            return self._devices[0]
        owner = owner_of(array)
        if isinstance(owner.gpudata, DeviceAddress):  # of CUDA's pool, of which the driver does not tell the device
            return owner.gpudata.device
        if array.gpudata is None:
            return owner.base if isinstance(owner.base, Device) else self._devices[0]
        return self.device_at(int(array.gpudata))

    def subarray(self, slab: Array, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        memory = None if 0 in shape else int(slab.gpudata) + offset
        return over(shape, c_strides(shape, dtype.itemsize), dtype, memory, slab)

    def over(self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, owner: Any) -> Array:
        strides = c_strides(shape, dtype.itemsize)
        if 0 in shape:
            return over(shape, strides, dtype, None, device)
        return over(shape, strides, dtype, pointer, owner)

    def permuted_axes(self, array: Array, axes: tuple[int, ...]) -> Array:
        shape, strides = (tuple(own[axis] for axis in axes) for own in (array.shape, array.strides))
        return strided_view(array, 0, shape, strides, array.dtype)

    strided_view = staticmethod(strided_view)

    def note_use(self, array: Array, stream: RawStream) -> None:
        if stream.capture is not None:
            stream.capture.keep(array)
            return
        owner = owner_of(array)
        if isinstance(owner.gpudata, DeviceAddress):
            owner.gpudata.used_on(stream)
        elif isinstance(owner.base, Lent):
            owner.base.used_on(stream)

    def _make_stream(self, device: Device, *, non_blocking: bool, priority: int) -> Made:
        if priority:  # PyCUDA's streams have none
            return super()._make_stream(device, non_blocking=non_blocking, priority=priority)
        self._push(device)
        native = pycuda.driver.Stream(int(non_blocking))
        handle = int(native.handle)
        return Made(handle, native, core.Stream.from_handle(handle))

    def stream_current(self, device: Device) -> RawStream:
        if not self._has_chosen or device.index not in self._attached.__dict__.get("current", {}):
            return self.default_stream(device)
        return super().stream_current(device)

    def stream_handle(self, device: Device) -> int:
        if not self._has_chosen:
            return 0
        current: dict[int, RawStream] = self._attached.__dict__.get("current", {})
        stream = current.get(device.index)
        return stream.handle if stream is not None else 0

    def _stream_of(self, array: PycudaArray) -> tuple[PycudaBackend, RawStream]:
        return self, self.stream_current(self._device_at(array))

    def _use(self, stream: RawStream) -> None:
        self._has_chosen = True  # only xferlib's own operations follow it; PyCUDA's cannot


def _ordinal(device: Any) -> int:
    """The index of a PyCUDA device, which knows only its bus id."""
    bus_id = device.pci_bus_id()
    return next(i for i in range(pycuda.driver.Device.count()) if pycuda.driver.Device(i).pci_bus_id() == bus_id)
