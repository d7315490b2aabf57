"""The class that the CUDA backends share, written once on cuda.core and the driver.

Raw pointers, primary contexts, streams, events, copies, graphs, launches. Each library keeps its own arrays and memory
pool, and names its current stream.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from cuda import core
from cuda.bindings import driver, nvrtc

from xferlib import _native
from xferlib._core.arrays import Array
from xferlib._core.backend import Backend, DirectCopies, FastPath
from xferlib._core.device import (
    Device,
    DeviceIdentity,
    DeviceProperties,
    PinnedBlock,
    RawStream,
    StagingCalls,
    make_device,
    opened,
)
from xferlib._native import (
    NOT_FIT,
    ArrayAddress,
    Calls,
    CurrentStream,
    GivenOutputs,
    LaunchField,
    LaunchStreams,
    MemoryPath,
)
from xferlib._runtime import process
from xferlib._runtime.threads import deferred
from xferlib.backends.cuda import contexts
from xferlib.backends.cuda import driver as driver_module
from xferlib.backends.cuda.compiler import Compiled, compile_source, link_pieces
from xferlib.backends.cuda.contexts import HERE, Current, Inside, check, failure, is_forked, refuse_fork
from xferlib.backends.cuda.driver import CudaEvent
from xferlib.backends.cuda.memory import CudaPinned, Guard
from xferlib.errors import (
    ArgumentError,
    BackendUnavailableError,
    ContextError,
    DeviceMemoryError,
    KernelCompileError,
    PinnedMemoryError,
    TransferError,
    quote,
)

_LEGACY = (0, 1)
_MOST_SEEN = 64
_IPC_NBYTES = 64
_NON_BLOCKING = int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)


class Made(NamedTuple):
    """A stream made here: what its successive `RawStream`s share."""

    handle: int
    native: Any
    core: core.Stream


def _core_stream(handle: int) -> core.Stream:
    if handle in (0, 1):
        return core.LEGACY_DEFAULT_STREAM
    if handle == 2:
        return core.PER_THREAD_DEFAULT_STREAM
    return core.Stream.from_handle(handle)


# The capture is relaxed: calls of this thread and of others that have nothing to do with it go on as usual. The
# driver's other modes refuse calls that finalizers make, which Python runs in any thread at any moment, and a refused
# call invalidates the capture.
#
# New arrays lie in memory of the graph's own, because a library's pool would give the memory of an array that has died
# to the next one, while each launch still writes to it.


class CudaGraph:
    """An executable graph; destroyed when the object dies.

    Args:
        handle: Of the ``CUgraphExec``.
        inside: Makes a driver call in the context of a stream's device.
        functions: The functions that it calls.
        mark: Records an event on a stream.
        owned: What must live as long.
    """

    __slots__ = ("_functions", "_handle", "_inside", "_mark", "_owned", "_pid")

    def __init__(
        self,
        handle: int,
        inside: Callable[..., int],
        functions: contexts.Kept,
        mark: Callable[[RawStream], Any],
        owned: Any,
    ) -> None:
        self._handle = handle
        self._inside = inside
        self._functions = functions
        self._mark = mark
        self._owned = owned
        self._pid = os.getpid()

    def __call__(self, stream: RawStream) -> None:
        refuse_fork("launching a graph")
        result = self._inside(stream.device, driver_module.graph_launch, self._handle, stream.handle)
        if result:
            raise failure(result, f"launching a graph on {stream.device}")
        contexts.sweep()
        if self._functions:
            self._functions.note_launch(self._mark(stream))

    def __del__(
        self,
        _destroy: Any = driver_module.graph_exec_destroy,
        _getpid: Any = os.getpid,
        _is_finalizing: Any = sys.is_finalizing,
        _keep: Any = process.keep,
    ) -> None:
        pid = getattr(self, "_pid", 0)
        if pid == _getpid():
            _destroy(self._handle)
            if not _is_finalizing():
                contexts.sweep()
        elif pid:  # a forked child must not touch the driver, as a pool does that dies
            _keep(self._owned)


# Kernels that are loaded, and their launches.

_NO_CONTEXT = (int(driver.CUresult.CUDA_ERROR_INVALID_CONTEXT), int(driver.CUresult.CUDA_ERROR_NOT_INITIALIZED))


class _LaunchAttribute(ctypes.Structure):
    """``CUlaunchAttribute`` of the driver API, for values that are one int."""

    _fields_: ClassVar = [
        ("id", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    ]


class _LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig`` of the driver API."""

    _fields_: ClassVar = [
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    ]

    def __repr__(self) -> str:
        grid, block = (self.grid_x, self.grid_y, self.grid_z), (self.block_x, self.block_y, self.block_z)
        return f"grid {grid}, block {block} and {self.shared} bytes of shared memory"


_COOPERATIVE = int(driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)


class Library:
    """Machine code loaded by the driver; unloaded when the last kernel of it dies."""

    __slots__ = ("handle",)

    def __init__(self, cubin: bytes) -> None:
        result, self.handle = driver.cuLibraryLoadData(cubin, [], [], 0, [], [], 0)
        check(result, "loading a compiled kernel")

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        if hasattr(self, "handle") and not _is_finalizing():  # the driver's functions may be gone by then
            driver.cuLibraryUnload(self.handle)


class LoadedKernel:
    """A kernel of a loaded library; keeps the library, and so the code, loaded."""

    __slots__ = ("_library", "function", "handle", "name")

    def __init__(self, library: Library, name: str, handle: Any) -> None:
        self._library = library
        self.name = name
        self.handle = int(handle)
        self.function = driver.CUfunction(self.handle)


_ATTRIBUTES = {
    "registers": "NUM_REGS", "max_threads": "MAX_THREADS_PER_BLOCK", "shared_nbytes": "SHARED_SIZE_BYTES",
    "constant_nbytes": "CONST_SIZE_BYTES", "local_nbytes": "LOCAL_SIZE_BYTES",
    "max_dynamic_shared_nbytes": "MAX_DYNAMIC_SHARED_SIZE_BYTES", "ptx_version": "PTX_VERSION",
    "binary_version": "BINARY_VERSION",
}  # fmt: skip
"""The driver's names of a kernel's attributes, by ours."""


class CudaBackend(Backend, FastPath):
    """A library on CUDA devices. Subclasses allocate arrays, read pointers, name the current stream."""

    pinned_domain = "cuda"
    address: ArrayAddress | None = None
    """How an array of the library tells its address; None: `operands` alone does."""
    pointer_of: Callable[[Array], int] | None = None
    """The address of an array; None: C does not make the library's arrays by itself."""
    maker_for_c: Callable[..., Array] | None = None
    """As `DirectCopies.maker`."""
    _watches_default_stream = True
    """Whether `note_use` is cheap enough for every kernel on the default stream."""
    memory: ClassVar[MemoryPath | None] = None
    """How arrays tell whose memory they have; `note_use` notes no use of other memory, nor on its own stream."""

    def __init__(self, count: int) -> None:
        if count == 0:
            raise BackendUnavailableError(f"{self.name} sees no CUDA device")
        self.fast = self
        self._devices = tuple(make_device(self.name, "cuda", index) for index in range(count))
        self._contexts: dict[int, int] = {}
        self._primaries: set[int] = set()
        self._attached = threading.local()
        self._idle_events: tuple[list[int], ...] = tuple([] for _ in range(count))
        """Handles of each device's, for the next ones."""
        self._owned: dict[tuple[int, int], weakref.ref[RawStream]] = {}
        """The last object of each stream that was made here, or captured."""
        self._seen: dict[tuple[int, int], RawStream] = {}
        self._unused: dict[tuple[int, bool, int], list[Made]] = {}
        self._lasting = {(index, handle) for index in range(count) for handle in (0, 1)}
        """Streams that are never destroyed, by device and handle: the default ones, and those made here."""
        self._captures: dict[tuple[int, int], tuple[contextlib.ExitStack, contexts.Kept, Any]] = {}
        """By device and stream: what ends with the capture, the functions, and the memory that the graph must own."""
        self._staging: dict[int, StagingCalls] = {}
        self._owners = tuple(map(self._bind_owner, self._devices))
        """Of each device: what makes the owner of an allocation on a stream, and what `is_behind` returns."""
        self._reached: dict[tuple[int, int], bool] = {}
        self._beside: dict[int, int] = {}

    def _bind_owner(self, device: Device) -> tuple[Callable[[Any, RawStream], Any], Callable[[RawStream], bool]]:
        is_inside = None if len(self._devices) == 1 else self.is_inside
        found = driver_module.bind_owner(
            self._idle_events[device.index], opened, functools.partial(Guard, self, None), self.stream_handle, device,
            is_inside,
        )  # fmt: skip
        return found or (functools.partial(Guard, self), functools.partial(self._is_behind, device))

    def _is_behind(self, device: Device, stream: RawStream) -> bool:
        is_default = not stream.handle and stream.capture is None
        return is_default and not self.stream_handle(device) and self.is_inside(device)

    # --- what a library's backend has to say

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Array:
        """A new array in the order of the library's current stream."""
        raise NotImplementedError

    def _use(self, stream: RawStream) -> None:
        """Make a stream the library's current one."""
        raise NotImplementedError

    def _switch(self, stream: RawStream) -> Callable[[], Any]:
        """A function that does what `_use` does; in C, where that is possible."""
        return functools.partial(self._use, stream)

    def stream_handle(self, device: Device) -> int:
        """The handle of the library's current stream in this thread; read at every kernel call."""
        raise NotImplementedError

    def _current_native(self, device: Device) -> Any:
        """The library's own object for its current stream, kept so that the stream outlives our use."""
        return None

    @contextlib.contextmanager
    def _own_memory(self, stream: RawStream) -> Iterator[Any]:
        """Let new arrays of this thread and of this stream lie in memory that only the result owns."""
        yield None

    # --- devices and their primary contexts, which every CUDA library of the process shares

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def device_properties(self, device: Device) -> DeviceProperties:
        found = core.Device(device.index)
        result, nbytes = driver.cuDeviceTotalMem(device.index)
        check(result, f"reading the memory size of {device}")
        return DeviceProperties(
            name=found.name,
            total_nbytes=int(nbytes),
            compute_capability=tuple(found.compute_capability),
            multiprocessor_count=found.properties.multiprocessor_count,
        )

    def device_identity(self, device: Device) -> DeviceIdentity:
        found = core.Device(device.index)
        return DeviceIdentity(uuid=f"GPU-{found.uuid.removeprefix('GPU-')}", pci_bus_id=found.pci_bus_id)

    def device_at(self, pointer: int) -> Device:
        if len(self._devices) == 1:
            return self._devices[0]
        if not pointer:
            return self.device_current()
        result, index = driver.cuPointerGetAttribute(
            driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer
        )
        check(result, f"finding the device of the memory at {pointer:#x}")
        return self._devices[int(index)]

    def device_memory(self, device: Device) -> tuple[int, int]:
        self.attach(device)
        with self.inside(device):
            result, free, total = driver.cuMemGetInfo()
        check(result, f"asking for the free memory of {device}")
        return int(free), int(total)

    def device_attribute(self, device: Device, name: str) -> int:
        known = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name.upper()}", None)
        if known is None:
            raise ArgumentError(
                f"{device} has no attribute {quote(name)}; CUDA's driver API names them, under CUdevice_attribute"
            )
        result, value = driver.cuDeviceGetAttribute(known, device.index)
        check(result, f"asking for the attribute {name!r} of {device}")
        return int(value)

    def device_synchronize(self, device: Device) -> None:
        self.attach(device)
        if len(self._devices) == 1:
            result = driver_module.context_synchronize()
        else:
            with Current(self, device):
                result = driver_module.context_synchronize()
        if result:
            raise failure(result, f"synchronising {device}")

    def attach(self, device: Device) -> None:
        if is_forked():
            raise failure(0, f"using {device}")
        handle = driver_module.context_current()
        if handle in self._primaries:
            return
        if not handle:
            self.device_use(device)
            self.core_device(device)
            self._context(device.index)
        elif not self._is_primary(handle):
            raise ContextError(
                f"the CUDA context current in this thread ({handle:#x}) is not the primary context of any device, "
                "so its memory and streams cannot be shared; pop it, and use pycuda.autoprimaryctx "
                "instead of pycuda.autoinit"
            )

    def core_device(self, device: Device) -> core.Device:
        """cuda.core's object for the current device, which it wants initialised in each thread."""
        found = core.Device(device.index)
        ready: set[int] = self._attached.__dict__.setdefault("ready", set())
        if device.index not in ready:
            found.set_current()
            ready.add(device.index)
        return found

    def _is_primary(self, handle: int) -> bool:
        for device in self._devices:
            _, _, is_active = driver.cuDevicePrimaryCtxGetState(device.index)
            if is_active:  # retaining an inactive one would create it, at hundreds of megabytes
                self._context(device.index)
        return handle in self._primaries

    def _context(self, index: int) -> int:
        """The device's primary context, retained once."""
        handle = self._contexts.get(index)
        if handle is None:
            result, context = driver.cuDevicePrimaryCtxRetain(index)
            check(result, f"retaining the primary context of device {index}")
            handle = self._contexts[index] = int(context)
            self._primaries.add(handle)
        return handle

    def is_inside(self, device: Device) -> bool:
        """Whether the device's context is current in this thread, asked in a tenth of the time of setting it."""
        return driver_module.context_current() == self._contexts.get(device.index)

    def inside(self, device: Device) -> Inside:
        if len(self._devices) == 1 or self.is_inside(device):
            return HERE
        return Inside(self._context(device.index))

    def _inside(self, device: Device, call: Any, *arguments: Any) -> int:
        """The result of a call that depends on the current context: on its default stream, or on its memory."""
        if len(self._devices) == 1 or self.is_inside(device):
            result: int = call(*arguments)
            if result and result in _NO_CONTEXT:  # a thread that has not used CUDA yet
                self.attach(device)
                result = call(*arguments)
            return result
        with self.inside(device):
            return call(*arguments)  # type: ignore[no-any-return]

    # --- arrays

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> Array:
        """Allocated by the library on ``stream``; guarded on any but the default stream."""
        try:
            if len(self._devices) == 1 or self._is_current(device):
                return self._empty_in_order(shape, dtype, device, stream)
            return self._empty_elsewhere(shape, dtype, device, stream)
        except Exception as error:
            raise self._allocation_error(error, shape, dtype, device) from error

    def _is_current(self, device: Device) -> bool:
        """Whether the library allocates there unless it is told another device."""
        return self.is_inside(device)

    def _empty_in_order(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream) -> Array:
        if stream.handle != (handle := self.stream_handle(device)):
            current = self._find_stream(handle, device)
            make = functools.partial(self._allocate_guarded, shape, dtype, device, stream)
            return self._keep_for(self._make_on(stream, current, make), current)
        if stream.handle:
            return self._allocate_guarded(shape, dtype, device, stream)
        return self._empty(shape, dtype, device)

    def _empty_elsewhere(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream
    ) -> Array:
        """Allocate likewise while another device is current."""
        with Current(self, device):
            return self._empty_in_order(shape, dtype, device, stream)

    def empty_between(self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: RawStream) -> Array:
        # Without a guard: no other stream ever uses the memory.
        device = stream.device
        if stream.handle == self.stream_handle(device):
            return self._empty(shape, dtype, device)
        make = functools.partial(self._empty, shape, dtype, device)
        return self._make_on(stream, self.stream_current(device), make)

    def zeros_for(self, nbytes: int, stream: RawStream, zeros_nbytes: int | None = None) -> Array:
        """Bytes for work in the order of the stream, in which the first ones, or all, are set to 0."""
        array = self.empty((nbytes,), np.dtype(np.uint8), device=stream.device, stream=stream)
        (pointer,) = self.operands([array])
        result = self._inside(stream.device, driver_module.set_bytes, pointer, 0, zeros_nbytes or nbytes, stream.handle)
        check(result, f"clearing memory of {stream.device}")
        return array

    def _empty_on(
        self, device: Device, shape: tuple[int, ...], dtype: np.dtype[Any], stream: RawStream | None
    ) -> Array:
        """As `DirectCopies.empty_on`."""
        if stream is None:
            return self._allocate_guarded(shape, dtype, device, self.stream_current(device))
        return self._empty_in_order(shape, dtype, device, stream)

    def _allocate_guarded(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream
    ) -> Array:
        """A new array of the memory of ``stream``, which is current; other streams may use it."""
        return self.guard(self._empty(shape, dtype, device), stream)

    def _make_on(self, stream: RawStream, current: RawStream, make: Callable[[], Array]) -> Array:
        """Return the result of ``make``, called while another stream is the current one."""
        calls = _native.find_calls()
        if calls is not None:  # at a quarter of the time
            return calls.call_between(self._switch(stream), make, self._switch(current))
        with deferred:  # or Ctrl-C might leave the other stream current
            self._use(stream)
            try:
                return make()
            finally:
                self._use(current)

    def _keep_for(self, array: Array, current: RawStream) -> Array:
        """A new array of another stream's memory, which the library's own work on the current one may use as well."""
        self.note_use(array, current)
        return array

    def _allocation_error(
        self, error: Exception, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device
    ) -> Exception:
        is_memory = isinstance(error, MemoryError) or "memory" in str(error).lower()
        if not is_memory or isinstance(error, DeviceMemoryError):
            return error
        nbytes = math.prod(shape) * dtype.itemsize
        result, free, total = driver.cuMemGetInfo()
        known = (
            f"{int(free)} of {int(total)} bytes are free"
            if int(result) == driver_module.SUCCESS
            else "free memory unknown"
        )
        return DeviceMemoryError(
            f"{nbytes} bytes for an array of shape {shape} and dtype {dtype} do not fit on {device} ({known}); "
            "free arrays, or move the data in parts"
        )

    # --- streams and events

    def stream_create(self, device: Device, *, non_blocking: bool, priority: int) -> RawStream:
        """Create or recycle a stream, which is never destroyed.

        A library's allocator may record events on every stream that an array was used on, long after
        the stream's last handle is gone: destroying one then crashes the process.
        """
        key = (device.index, non_blocking, priority)
        made = self._idle_stream(key)
        if made is None:
            with Current(self, device):
                made = self._make_stream(device, non_blocking=non_blocking, priority=priority)
            process.keep(made)
            self.has_made_streams = self._watches_default_stream
        stream = RawStream(made.handle, device, native=made.native, core=made.core)
        weakref.finalize(stream, self._unused.setdefault(key, []).append, made).atexit = False
        place = (device.index, made.handle)
        self._seen.pop(place, None)
        self._owned[place] = weakref.ref(stream)
        self._lasting.add(place)
        return stream

    def _idle_stream(self, key: tuple[int, bool, int]) -> Made | None:
        unused = self._unused.get(key, [])
        for made in tuple(unused):
            if driver_module.stream_query(made.handle) == driver_module.SUCCESS:
                with contextlib.suppress(ValueError):  # another thread has taken it meanwhile
                    unused.remove(made)
                    return made
        return None

    def _make_stream(self, device: Device, *, non_blocking: bool, priority: int) -> Made:
        options = core.StreamOptions(nonblocking=non_blocking, priority=priority)
        stream = self.core_device(device).create_stream(options=options)
        return Made(int(stream.handle), None, stream)

    def stream_wrap(self, handle: int, device: Device, *, native: Any = None) -> RawStream:
        owned = self._owned.get((device.index, handle))
        found = owned() if owned is not None else None
        return found if found is not None else RawStream(handle, device, native=native, core=_core_stream(handle))

    def stream_current(self, device: Device) -> RawStream:
        return self._find_stream(self.stream_handle(device), device)

    def _find_stream(self, handle: int, device: Device) -> RawStream:
        """The object of a stream that is or was current, by its handle."""
        key = (device.index, handle)
        found = self._seen.get(key)
        if found is None and (owned := self._owned.get(key)) is not None:
            found = owned()
        return found if found is not None else self._see(key, device)

    def default_stream(self, device: Device) -> RawStream:
        """CUDA's default stream of a device, which need not be the library's current one."""
        key = (device.index, 0)
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = RawStream(0, device, core=_core_stream(0))
        return found

    def is_lasting(self, stream: RawStream) -> bool:
        """Whether the stream is never destroyed."""
        return (stream.device.index, stream.handle) in self._lasting

    def is_behind(self, device: Device) -> Callable[[RawStream], bool]:
        """A function of a stream: whether what then dies is used by no work that the stream does not follow.

        Uses on the current and the default stream are not noted. The stream waits for these where that costs little.
        """
        return self._owners[device.index][1]

    def _see(self, key: tuple[int, int], device: Device) -> RawStream:
        """Wrap the native current stream, which costs 5 us, and keep the wrap while it is recent."""
        if len(self._seen) >= _MOST_SEEN:
            for oldest in list(self._seen)[:1]:  # other threads see streams at the same time
                self._seen.pop(oldest, None)
        handle = key[1]
        stream = RawStream(handle, device, native=self._current_native(device), core=_core_stream(handle))
        self._seen[key] = stream
        return stream

    def stream_use(self, stream: RawStream) -> None:
        self._use(stream)
        # A library fails at its next operation if its current stream has been destroyed.
        self._attached.__dict__.setdefault("current", {})[stream.device.index] = stream

    def stream_synchronize(self, stream: RawStream) -> None:
        refuse_fork("synchronising a stream")
        result = self._inside(stream.device, driver_module.stream_synchronize, stream.handle)
        if result:
            raise failure(result, f"synchronising a stream of {stream.device}")

    def stream_done(self, stream: RawStream) -> bool:
        refuse_fork("asking a stream")
        result = self._inside(stream.device, driver_module.stream_query, stream.handle)
        if result not in (driver_module.SUCCESS, driver_module.NOT_READY):
            raise failure(result, f"asking a stream of {stream.device}")
        return bool(result == driver_module.SUCCESS)

    def stream_is_recorded(self, stream: RawStream) -> bool:
        try:
            status, address = self._attached.status
        except AttributeError:  # each thread has one, which saves most of the call's time
            status = ctypes.c_int()
            address = ctypes.addressof(status)
            self._attached.status = status, address
        result = self._inside(stream.device, driver_module.stream_is_recorded, stream.handle, address)
        return bool(result == driver_module.SUCCESS and status.value)

    def stream_options(self, stream: RawStream) -> tuple[int, bool]:
        refuse_fork("asking a stream")
        with self.inside(stream.device):
            result, priority = driver.cuStreamGetPriority(stream.handle)
            check(result, f"asking a stream of {stream.device} for its priority")
            result, flags = driver.cuStreamGetFlags(stream.handle)
        check(result, f"asking a stream of {stream.device} for its flags")
        return int(priority), bool(int(flags) & _NON_BLOCKING)

    def stream_call(self, stream: RawStream, function: Callable[[], None]) -> None:
        refuse_fork("enqueuing a host function")
        enqueue = contexts.enqueue if stream.capture is None else contexts.enqueue_captured
        result = self._inside(stream.device, enqueue, stream.handle, function)
        if result:
            raise failure(result, f"enqueuing a host function on {stream.device}")

    def event_make(self, device: Device, *, timing: bool, blocking: bool, interprocess: bool) -> CudaEvent:
        self.attach(device)
        flags = (driver_module.BLOCKING_SYNC if blocking else 0) | (driver_module.INTERPROCESS if interprocess else 0)
        return CudaEvent(self._create_event(device, timing=timing, flags=flags), timing=timing)

    def event_ipc_handle(self, event: Any) -> bytes:
        result, handle = driver.cuIpcGetEventHandle(event.handle)
        check(result, "naming an event for other processes")
        return ctypes.string_at(handle.getPtr(), _IPC_NBYTES)

    def event_open(self, device: Device, handle: bytes) -> CudaEvent:
        self.attach(device)
        name = driver.CUipcEventHandle()
        if not isinstance(handle, bytes) or len(handle) != _IPC_NBYTES:
            raise ArgumentError(f"{quote(handle)} names no event; give the bytes that ipc_handle() returned")
        ctypes.memmove(name.getPtr(), handle, _IPC_NBYTES)
        with self.inside(device):
            result, event = driver.cuIpcOpenEventHandle(name)
        check(result, f"opening an event of another process on {device}")
        return CudaEvent(int(event))

    def _event(self, device: Device, *, timing: bool = False) -> CudaEvent:
        if timing:
            return CudaEvent(self._create_event(device, timing=True), timing=True)
        idle = self._idle_events[device.index]
        try:
            handle = idle.pop()
        except IndexError:
            handle = self._create_event(device)
        return CudaEvent(handle, idle=idle)

    def _create_event(self, device: Device, *, timing: bool = False, flags: int = 0) -> int:
        self.attach(device)
        with self.inside(device):
            result, handle = driver_module.create_event(timing=timing, flags=flags)
        if result:
            name = driver_module.error_name(result)
            raise TransferError(f"making an event failed with {name}; `xferlib info` shows the devices")
        return handle

    def event_record(self, stream: RawStream, *, timing: bool, event: Any = None) -> CudaEvent:
        refuse_fork("recording an event")
        if event is None:
            event = self._event(stream.device, timing=timing)
        result = self._inside(stream.device, driver_module.event_record, event.handle, stream.handle)
        if result:
            raise failure(result, f"recording an event on {stream.device}")
        return event  # type: ignore[no-any-return]

    def event_wait(self, stream: RawStream, event: Any) -> None:
        refuse_fork("waiting for an event")
        result = self._inside(stream.device, driver_module.stream_wait_event, stream.handle, event.handle, 0)
        if result:
            raise failure(result, f"making a stream of {stream.device} wait")

    def event_done(self, event: Any) -> bool:
        refuse_fork("asking an event")
        result = driver_module.event_query(event.handle)
        if result not in (driver_module.SUCCESS, driver_module.NOT_READY):
            raise failure(result, "the work before an event")
        return bool(result == driver_module.SUCCESS)

    def event_synchronize(self, event: Any) -> None:
        if not self.event_done(event):
            result = driver_module.event_synchronize(event.handle)
            if result:
                raise failure(result, "the work before an event")

    def event_elapsed_ms(self, start: Any, end: Any) -> float:
        result, milliseconds = driver_module.event_elapsed_ms(start, end)
        check(result, "timing two events")
        return milliseconds

    # --- copies

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        refuse_fork("copying")
        result = self._inside(stream.device, driver_module.copy, dst, src, nbytes, stream.handle)
        if result == driver_module.INVALID_VALUE and len(self._devices) > 1:
            result = self._copy_between(dst, src, nbytes, stream)
        if result:
            raise failure(result, f"copying {nbytes} bytes on {stream.device}")

    def _copy_between(self, dst: int, src: int, nbytes: int, stream: RawStream) -> int:
        """Copy between two devices that cannot read each other's pool of memory without permission."""
        places = [driver_module.device_of_memory(each) for each in (dst, src)]
        if None in places:
            return driver_module.INVALID_VALUE
        to, come = (driver.CUcontext(self._context(index)) for index in places if index is not None)
        (result,) = driver.cuMemcpyPeerAsync(dst, to, src, come, nbytes, stream.handle)
        return int(result)

    def reaches(self, device: Device, other: Device) -> bool:
        key = (device.index, other.index)
        found = self._reached.get(key)
        if found is None:
            found = self._reached[key] = self._open(*key)
        return found

    def _open(self, index: int, other: int) -> bool:
        """Let a device read another's memory, of which the driver has to be told once; False where it cannot."""
        result, can = driver.cuDeviceCanAccessPeer(index, other)
        check(result, f"asking whether device {index} reaches device {other}")
        if not int(can):
            return False
        with Inside(self._context(index)):
            (result,) = driver.cuCtxEnablePeerAccess(driver.CUcontext(self._context(other)), 0)
        if int(result) not in (driver_module.SUCCESS, driver_module.PEER_ACCESS_ALREADY_ENABLED):
            return False  # such as more peers than the hardware has room for
        result, pool = driver.cuDeviceGetMemPool(other)  # whose memory takes permissions of its own
        if int(result) == driver_module.SUCCESS:
            access = driver.CUmemAccessDesc()
            access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            access.location.id = index
            access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            driver.cuMemPoolSetAccess(pool, [access], 1)  # if it is refused, `_copy_between` does without
        return True

    def copy_behind(
        self, dst: int, src: int, nbytes: int, *, behind: RawStream, stream: RawStream, event: Any = None,
        copied: Any = None, is_mutual: bool = False,
    ) -> CudaEvent | None:  # fmt: skip
        enqueue = driver_module.copy_behind
        if enqueue is None:
            return None
        refuse_fork("copying")
        event = event or self._event(behind.device)  # one of its own is recycled on return
        copied = copied or self._event(stream.device)
        first = second = 0
        if len(self._devices) > 1:
            first, second = self._context(behind.device.index), self._context(stream.device.index)
        handles = behind.handle, event.handle, stream.handle, copied.handle
        result = self._inside(stream.device, enqueue, dst, src, nbytes, *handles, first, second, is_mutual)
        if result == driver_module.INVALID_VALUE and first != second:  # memory that takes `_copy_between`
            return None
        if result:
            raise failure(result, f"copying {nbytes} bytes behind another stream's work on {stream.device}")
        return copied  # type: ignore[no-any-return]

    def copy_each(self, dsts: list[int], srcs: list[int], sizes: list[int], *, stream: RawStream) -> bool:
        enqueue = driver_module.copy_each
        if enqueue is None:
            return False
        refuse_fork("copying")
        result = self._inside(stream.device, enqueue, dsts, srcs, sizes, stream.handle)
        if result:
            raise failure(result, f"copying {len(sizes)} arrays of {sum(sizes)} bytes on {stream.device}")
        return True

    def staging_calls(self, device: Device) -> StagingCalls:
        found = self._staging.get(device.index)
        if found is None:
            found = self._staging[device.index] = StagingCalls(
                **driver_module.STAGING,
                context=self._context(device.index),
                inside=functools.partial(self.inside, device),
                failure=lambda code, stream: failure(code, f"a copy on {stream.device}"),
            )
        return found

    def takes_pageable(self, stream: RawStream, *, idle: bool) -> bool:
        # The synchronous copies run on the current device's legacy default stream and are ordered on that one alone.
        handle = stream.handle
        if handle not in _LEGACY or (len(self._devices) > 1 and self.device_current() is not stream.device):
            return False
        return not idle or driver_module.stream_query(handle) == driver_module.SUCCESS

    def copy_to_device(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        result = self._inside(stream.device, driver_module.copy_to_device, dst, src, nbytes)
        return result == driver_module.SUCCESS or self._is_partly_registered(
            result, f"copying {nbytes} bytes to {stream.device}"
        )

    def copy_to_host(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        result = self._inside(stream.device, driver_module.copy_to_host, dst, src, nbytes)
        return result == driver_module.SUCCESS or self._is_partly_registered(
            result, f"copying {nbytes} bytes from {stream.device}"
        )

    def _is_partly_registered(self, result: int, doing: str) -> bool:
        """False: the driver takes no range of which another registration pins a part."""
        if result != driver_module.INVALID_VALUE:
            raise failure(result, doing)
        return False

    def direct(self, device: Device) -> DirectCopies | None:
        if is_forked() or self.pointer_of is None:
            return None
        is_alone = len(self._devices) == 1
        return DirectCopies(
            **driver_module.DIRECT,
            context=self._context(device.index),
            empty=functools.partial(self._empty, device=device),
            pointer=self.pointer_of,
            stream=functools.partial(self.stream_handle, device),
            is_current=None if is_alone else lambda: self.device_current() is device,
            empty_between=self.empty_between,
            maker=self.maker_for_c,
            maker_on=self.maker_for_c,
            empty_on=functools.partial(self._empty_on, device),
            memory=self.memory,
            beside=self._stream_beside(device) if driver_module.DIRECT["batch"] else 0,
        )

    def _stream_beside(self, device: Device) -> int:
        """The handle of a stream in order with the legacy default one; it is never destroyed."""
        found = self._beside.get(device.index)
        if found is None:
            with Current(self, device):
                made = self.core_device(device).create_stream(options=core.StreamOptions(nonblocking=False))
            process.keep(made)
            found = self._beside[device.index] = int(made.handle)
        return found

    def whole(self, array: Array) -> tuple[int, tuple[int, ...], np.dtype[Any]] | None:
        # In half the time that a view takes: the libraries' arrays name these things as NumPy does.
        if not array.flags.c_contiguous:
            return None
        return self.operands((array,))[0], array.shape, array.dtype

    # --- graphs

    def capture_begin(self, stream: RawStream) -> None:
        refuse_fork("capturing a stream")
        key = (stream.device.index, stream.handle)
        self._seen.pop(key, None)
        self._owned[key] = weakref.ref(stream)  # the one that `stream_current` finds, and whose capture it tells
        functions: list[int] = []
        with contextlib.ExitStack() as ends:
            memory = ends.enter_context(self._own_memory(stream))
            ends.enter_context(contexts.keep_functions_in(functions))
            result = self._inside(
                stream.device, driver_module.capture_begin, stream.handle, driver_module.CAPTURE_RELAXED
            )
            if result:
                raise failure(result, f"capturing a stream of {stream.device}")
            self._captures[key] = (ends.pop_all(), contexts.Kept(functions), memory)

    def follows_launches(self, stream: RawStream) -> bool:
        return self.is_lasting(stream)  # cuGraphLaunch orders the launches of a graph

    def capture_end(self, stream: RawStream) -> CudaGraph | None:
        ends, functions, memory = self._captures.pop((stream.device.index, stream.handle))
        graph, made, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        try:
            result = self._inside(stream.device, driver_module.capture_end, stream.handle, ctypes.addressof(graph))
        finally:
            ends.close()
        try:
            if not result:
                result = driver_module.graph_nodes(graph.value or 0, 0, ctypes.addressof(count))
            if not result and not count.value:
                return None
            if not result:
                result = self._inside(
                    stream.device, driver_module.graph_instantiate, ctypes.addressof(made), graph.value or 0, 0
                )
        finally:
            if graph.value:
                driver_module.graph_destroy(graph.value)
        if result:
            raise failure(result, f"capturing a stream of {stream.device}")
        return CudaGraph(
            made.value or 0, self._inside, functions, functools.partial(self.event_record, timing=False), memory
        )

    # --- kernels

    def compile(
        self, source: str, *, device: Device, options: tuple[str, ...] = (), names: tuple[str, ...] = ()
    ) -> Compiled:
        """Machine code of ``source`` for ``device``.

        Args:
            source: CUDA C++.
            device: The device whose architecture to compile for.
            options: NVRTC options, without the architecture.
            names: C++ names, such as template instances, whose mangled names are wanted.

        Raises:
            KernelCompileError: NVRTC refused the source; the message is its log.
        """
        major, minor = self.compute_capability(device)
        return compile_source(source, arch=f"sm_{major}{minor}", options=options, names=names)

    def link(self, pieces: Sequence[tuple[str, str, bytes]], *, device: Device) -> bytes:
        """Machine code of several pieces of device code: the name, the kind and the content of each.

        Raises:
            KernelCompileError: nvJitLink is not installed, or refused them.
        """
        major, minor = self.compute_capability(device)
        return link_pieces(pieces, arch=f"sm_{major}{minor}")

    def compute_capability(self, device: Device) -> tuple[int, int]:
        major, minor = (self.device_attribute(device, f"compute_capability_{part}") for part in ("major", "minor"))
        return major, minor

    def compiler_version(self) -> str:
        """The version of NVRTC, on which the machine code depends."""
        _, major, minor = nvrtc.nvrtcVersion()
        return f"{major}.{minor}"

    def load(self, cubin: bytes, *, name: str, device: Device) -> LoadedKernel:
        """Kernel ``name`` of machine code, ready to launch on ``device``."""
        return self.kernel_of(self.load_library(cubin, device=device), name)

    def load_library(self, cubin: bytes, *, device: Device) -> Library:
        """Machine code whose kernels share its device variables."""
        self.attach(device)
        return Library(cubin)

    def kernel_of(self, library: Library, name: str) -> LoadedKernel:
        """Kernel ``name`` of a loaded library."""
        result, handle = driver.cuLibraryGetKernel(library.handle, name.encode())
        if result == driver.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION:  # which the driver finds out only here
            raise KernelCompileError(
                f"the driver is older than the compiler of the PTX of kernel {name!r}; update the driver, or compile "
                "with an older CUDA toolkit"
            )
        if result != driver.CUresult.CUDA_SUCCESS:
            raise KernelCompileError(
                f'no kernel {name!r} in the compiled source; declare it extern "C" __global__, or name its template '
                "instance in names="
            )
        return LoadedKernel(library, name, handle)

    def allow_shared(self, kernel: LoadedKernel, nbytes: int, device: Device) -> None:
        """Let ``kernel`` be launched with that much dynamic shared memory, beyond 48 KiB where the device can."""
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        (result,) = driver.cuKernelSetAttribute(attribute, nbytes, driver.CUkernel(kernel.handle), device.index)
        check(result, f"reserving {nbytes} bytes of shared memory for kernel {kernel.name!r} on {device}")

    def global_of(self, library: Library, name: str, device: Device) -> tuple[int, int]:
        """Address and size in bytes of a variable of a loaded library on ``device``."""
        self.attach(device)
        with Current(self, device):  # each device has its own
            result, pointer, nbytes = driver.cuLibraryGetGlobal(library.handle, name.encode())
        if result == driver.CUresult.CUDA_ERROR_NOT_FOUND:
            raise ArgumentError(
                f"no variable {name!r} in the compiled source; declare it __device__ or __constant__, outside of "
                "functions, or name it in names=('&space::name',)"
            )
        check(result, f"finding variable {name!r} on {device}")
        return int(pointer), int(nbytes)

    def kernel_attributes(self, kernel: LoadedKernel, device: Device) -> dict[str, int]:
        """The resources of a kernel on ``device``, by the names of `xferlib.KernelAttributes`."""
        found = {}
        for name, theirs in _ATTRIBUTES.items():
            attribute = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{theirs}")
            result, value = driver.cuKernelGetAttribute(attribute, driver.CUkernel(kernel.handle), device.index)
            check(result, f"asking for {name} of kernel {kernel.name!r} on {device}")
            found[name] = int(value)
        return found

    def occupancy(self, kernel: LoadedKernel, threads: int, shared_nbytes: int, device: Device) -> int:
        """Blocks of that many threads and bytes of shared memory that run at a time on a multiprocessor."""
        if shared_nbytes > 48 << 10:
            self.allow_shared(kernel, shared_nbytes, device)
        with Current(self, device):
            result, blocks = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel.function, threads, shared_nbytes)
        check(result, f"asking for the occupancy of kernel {kernel.name!r} on {device}")
        return int(blocks)

    def launch(
        self,
        kernel: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: int,
        *,
        stream: RawStream,
        shared_nbytes: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Enqueue ``kernel``. ``params`` is the address of the array of pointers to the arguments."""
        launch = self.prepare_launch(
            kernel, grid, block, params, device=stream.device, shared_nbytes=shared_nbytes, cooperative=cooperative
        )
        launch(stream.handle)

    def prepare_launch(
        self,
        kernel: LoadedKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: int,
        *,
        device: Device,
        shared_nbytes: int = 0,
        cooperative: bool = False,
    ) -> Callable[[int], None]:
        """A function that enqueues this launch on a stream of ``device``, given by its handle.

        The arguments are what ``params`` then points to. One thread may call it at a time.

        Args:
            cooperative: All blocks run at a time, or the launch fails.
        """
        launch_kernel = driver_module.launch_kernel
        config = self._config(grid, block, shared_nbytes, cooperative=cooperative)
        arguments = (ctypes.addressof(config), kernel.handle, params, 0)
        last = 0

        def launch(handle: int) -> None:
            nonlocal last
            if handle != last:
                config.stream = last = handle
            result = launch_kernel(*arguments)  # four of them; cuLaunchKernel has eleven
            if result in _NO_CONTEXT:  # a thread that has not used CUDA yet
                self.attach(device)
                result = launch_kernel(*arguments)
            if result:
                check(result, f"launching kernel {kernel.name!r} with {config} on {device}")

        if len(self._devices) == 1:
            return launch

        def launch_there(handle: int) -> None:
            if self.is_inside(device):
                launch(handle)
                return
            with Current(self, device):
                launch(handle)

        return launch_there

    def repeat_launch(
        self,
        kernel: LoadedKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arrays: Sequence[Any],
        fields: tuple[LaunchField, ...],
        *,
        device: Device,
        shared_nbytes: int = 0,
        cooperative: bool = False,
    ) -> tuple[Callable[[Any, int], int], Callable[[int, Any, int], bool]] | None:
        """Bind the launch in C, where the library's arrays tell their address: see `Backend.repeat_launch`."""
        if self.address is None:
            return None
        config = self._config(grid, block, shared_nbytes, cooperative=cooperative)
        at = _LaunchConfig.stream.offset
        note = self.note_write if self.follows_writes else None
        run = driver_module.bind_launch(
            kernel.handle, bytes(config), at, self.matcher(arrays), self.address, note, fields
        )
        if run is None:
            return None

        def otherwise(result: int, args: Any, handle: int, _kept: Any = (config, kernel)) -> bool:
            if result in _NO_CONTEXT:  # a thread that has not used CUDA yet
                self.attach(device)
                result = launch(args, handle)
            if result == NOT_FIT:
                return False
            if result:
                check(result, f"launching kernel {kernel.name!r} with {config} on {device}")
            return True

        def launch_there(args: Any, handle: int) -> int:
            if self.is_inside(device):
                return run(args, handle)
            with Current(self, device):
                return run(args, handle)

        launch = run if len(self._devices) == 1 else launch_there
        return launch, otherwise

    def repeat_call(
        self,
        launches: Sequence[tuple[LoadedKernel, int, int, tuple[int, ...]]],
        arrays: Sequence[Any],
        fields: tuple[LaunchField, ...],
        arguments: bytes,
        outputs: Sequence[tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...] | None, int, int]],
        *,
        device: Device,
        spare: int = 0,
        shared_nbytes: int = 0,
        given: GivenOutputs | None = None,
        only: RawStream | None = None,
        others: Callable[..., Any] | None = None,
    ) -> Callable[[tuple[Any, ...], Any], Any] | None:
        """A whole call in one step, bound in C: see `xferlib._native.bind_new_launch`."""
        if self.address is None:
            return None
        makers = tuple([
            (self._calls_for_new(shape, dtype, order, device), self._calls_on(shape, dtype, order, device), at, also)
            for shape, dtype, order, at, also in outputs
        ])  # fmt: skip
        is_current = None if len(self._devices) == 1 else self._is_ready
        steps = tuple([
            (
                kernel.handle,
                bytes(self._config((blocks, 1, 1), (threads, 1, 1), shared_nbytes, cooperative=False)),
                offsets,
            )
            for kernel, blocks, threads, offsets in launches
        ])  # fmt: skip
        streams = LaunchStreams(
            self.memory, self.note_use, self._stream_for_c(device), self.stream_current, opened,
            driver_module.DIRECT["is_captured"],
        )  # fmt: skip
        return driver_module.bind_new_launch(
            steps, _LaunchConfig.stream.offset, self.matcher(arrays), self.address,
            self.note_write if self.follows_writes else None, fields, arguments, makers, spare, given,
            None if only is None else only.handle, others, self, streams, device, is_current
        )  # fmt: skip

    def _calls_for_new(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None, device: Device
    ) -> Calls:
        """The calls that make an array on the default stream of the current device, which is its current one."""
        if order is None:
            return ((self._empty, (shape, dtype, device)),)
        first = self._calls_for_new(tuple(shape[axis] for axis in order), dtype, None, device)
        return (*first, (self.permuted_axes, (tuple(map(order.index, range(len(order)))),)))

    def _stream_for_c(self, device: Device) -> CurrentStream:
        """How C asks for the handle of the current stream."""
        return CurrentStream(self.stream_handle, device)

    def _calls_on(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None, device: Device
    ) -> Calls | None:
        """The calls that make an array on another stream, which the first one is given; None: as on the default one."""
        if order is None:
            return ((self._allocate_on, (shape, dtype, device)),)
        first = self._calls_on(tuple(shape[axis] for axis in order), dtype, None, device)
        return first and (*first, (self.permuted_axes, (tuple(map(order.index, range(len(order)))),)))

    def _allocate_on(self, stream: RawStream, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Array:
        return self._allocate_guarded(shape, dtype, device, stream)

    def _is_ready(self, device: Device) -> bool:
        """Whether the library allocates on the device, and the driver launches there."""
        return self._is_current(device) and self.is_inside(device)

    @staticmethod
    def _config(
        grid: tuple[int, int, int], block: tuple[int, int, int], shared_nbytes: int, *, cooperative: bool
    ) -> _LaunchConfig:
        config = _LaunchConfig(*grid, *block, shared_nbytes)
        if cooperative:
            config.attributes = ctypes.pointer(_LaunchAttribute(_COOPERATIVE, value=1))
            config.attribute_count = 1
        return config

    # --- page-locked memory

    def pinned_alloc(self, nbytes: int) -> PinnedBlock:
        self.attach(self.device_current())
        return CudaPinned(nbytes)

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        (result,) = driver.cuMemHostRegister(pointer, nbytes, driver.CU_MEMHOSTREGISTER_PORTABLE)
        if int(result) != driver_module.SUCCESS:
            raise PinnedMemoryError(
                f"page-locking {nbytes} bytes in place failed with {driver_module.error_name(int(result))}; "
                "pinned_array(x) makes a pinned copy instead"
            )

    def pinned_unregister(self, pointer: int) -> None:
        (result,) = driver.cuMemHostUnregister(pointer)
        check(result, "releasing page-locked memory")

    def is_pinned(self, pointer: int) -> bool:
        return driver_module.is_host_memory(pointer)
