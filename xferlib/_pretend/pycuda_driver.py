"""PyCUDA's `driver` and `compiler` over xferlib: contexts, memory, copies, and modules of CUDA source."""

from __future__ import annotations

import re
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

import xferlib as xl
from xferlib._pretend import policy, streams
from xferlib._pretend.arrays import PretendedArray
from xferlib._pretend.memory import OwnedPointer, allocate_block, allocate_in_order
from xferlib._pretend.streams import own_stream, to_host_async
from xferlib.errors import DeviceNotFoundError, KernelTypeError

# --- devices and contexts

_VERSION = (13, 0, 0)
"""Of CUDA."""

_ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": 1024, "MAX_BLOCK_DIM_X": 1024, "MAX_BLOCK_DIM_Y": 1024, "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1, "MAX_GRID_DIM_Y": 65535, "MAX_GRID_DIM_Z": 65535, "TOTAL_CONSTANT_MEMORY": 65536,
    "WARP_SIZE": 32, "MAX_SHARED_MEMORY_PER_BLOCK": 49152, "SHARED_MEMORY_PER_BLOCK": 49152,
    "MAX_REGISTERS_PER_BLOCK": 65536, "REGISTERS_PER_BLOCK": 65536, "MULTIPROCESSOR_COUNT": 132,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048, "CONCURRENT_KERNELS": 1, "GPU_OVERLAP": 1, "ASYNC_ENGINE_COUNT": 2,
    "CAN_MAP_HOST_MEMORY": 1, "UNIFIED_ADDRESSING": 1, "INTEGRATED": 0, "COMPUTE_MODE": 0,
    "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "PCI_BUS_ID": 0,
}  # fmt: skip
_FUNCTION_ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": "max_threads", "SHARED_SIZE_BYTES": "shared_nbytes", "CONST_SIZE_BYTES": "constant_nbytes",
    "LOCAL_SIZE_BYTES": "local_nbytes", "NUM_REGS": "registers", "PTX_VERSION": "ptx_version",
    "BINARY_VERSION": "binary_version",
}  # fmt: skip


class _Constants(policy.Pretended):
    """A class of PyCUDA's with constants, which stand for themselves."""

    def __init__(self, *names: str, **numbers: int) -> None:
        vars(self).update({**{name: name for name in names}, **numbers})


class PycudaDevice(policy.Pretended):
    """A device by PyCUDA's number."""

    def __init__(self, number: int) -> None:
        try:
            self.own = streams.find_device(int(number))
        except DeviceNotFoundError as error:
            raise xl.errors.DeviceNotFoundError(f"cuDeviceGet failed: invalid device ordinal {number}") from error

    @staticmethod
    def count() -> int:
        return len(streams.list_devices())

    def name(self) -> str:
        return str(self.own)

    def pci_bus_id(self) -> str:
        return streams.NumberedDevice(self.own.index).pci_bus_id  # type: ignore[no-any-return]

    def compute_capability(self) -> tuple[int, int]:
        return 9, 0

    def total_memory(self) -> int:
        return self.own.total_memory

    def get_attribute(self, attr: Any) -> int:
        return _ATTRIBUTES[attr]

    def get_attributes(self) -> dict[Any, int]:
        return dict(_ATTRIBUTES)

    def can_access_peer(self, peer: PycudaDevice) -> bool:
        return self.own != peer.own

    def make_context(self, flags: Any = 0) -> PycudaContext:
        made = PycudaContext(self)
        made.push()
        return made

    def retain_primary_context(self) -> PycudaContext:
        return PycudaContext(self)

    def __getattr__(self, name: str) -> Any:
        if name.upper() in _ATTRIBUTES:
            return _ATTRIBUTES[name.upper()]
        return super().__getattr__(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PycudaDevice) and self.own is other.own

    def __hash__(self) -> int:
        return hash(self.own)


class _Stack(threading.local):
    """The contexts of a thread, the current one last."""

    def __init__(self) -> None:
        self.contexts: list[PycudaContext] = []


_stack = _Stack()


class PycudaContext(policy.Pretended):
    """A context: here only which device is current, on a stack for each thread."""

    def __init__(self, device: PycudaDevice) -> None:
        self._device = device

    def push(self) -> None:
        _stack.contexts.append(self)
        self._device.own.use()

    @staticmethod
    def pop() -> None:
        if not _stack.contexts:
            raise xl.errors.XferError("cuCtxPopCurrent failed: no context is current")
        _stack.contexts.pop()
        if _stack.contexts:
            _stack.contexts[-1]._device.own.use()

    def detach(self) -> None:
        if self in _stack.contexts:
            _stack.contexts.remove(self)
            if _stack.contexts:
                _stack.contexts[-1]._device.own.use()

    @staticmethod
    def get_current() -> PycudaContext | None:
        return _stack.contexts[-1] if _stack.contexts else None

    @staticmethod
    def get_device() -> PycudaDevice:
        return PycudaDevice(xl.get_device().index)

    @staticmethod
    def synchronize() -> None:
        xl.synchronize()

    @staticmethod
    def set_cache_config(config: Any) -> None: ...

    def get_api_version(self) -> int:
        return _VERSION[0] * 1000

    def enable_peer_access(self, peer: PycudaContext, flags: Any = 0) -> None: ...

    def disable_peer_access(self, peer: PycudaContext, flags: Any = 0) -> None: ...


class PycudaStream(streams.StreamBase):
    """PyCUDA's stream: in order with the default one unless ``flags`` say otherwise."""

    def __init__(self, flags: int = 0, priority: int = 0) -> None:
        self.own = xl.Stream(non_blocking=bool(flags & 1), priority=priority)

    def is_done(self) -> bool:
        return self.own.is_done

    def wait_for_event(self, evt: PycudaEvent) -> None:
        self.own.wait(evt.own)


class PycudaEvent(streams.EventBase):
    """PyCUDA's event."""

    def __init__(self, flags: int = 0) -> None:
        self.own = xl.Event(blocking=bool(flags & 1), timing=not flags & 6, interprocess=bool(flags & 4))

    def record(self, stream: PycudaStream | None = None) -> PycudaEvent:
        (xl.current_stream() if stream is None else stream.own).record(self.own)
        return self

    def query(self) -> bool:
        return self.own.is_done

    def time_since(self, event: PycudaEvent) -> float:
        return streams.measure_ms(event, self)

    def time_till(self, event: PycudaEvent) -> float:
        return streams.measure_ms(self, event)


# --- memory


class PointerHolderBase:
    """The base of a program's own allocations."""

    @property
    def ptr(self) -> int:
        return int(self.get_pointer())  # type: ignore[attr-defined]

    def __int__(self) -> int:
        return self.ptr

    __index__ = __int__

    def over(self, shape: Any, dtype: Any) -> Any:
        """A native array over the memory."""
        return xl.array_over(self.ptr, shape, dtype, owner=self)


def allocate(nbytes: int) -> OwnedPointer:
    """PyCUDA's `mem_alloc`."""
    return OwnedPointer(*allocate_block(nbytes))


def _allocate_rows(width: int, height: int, access_size: int) -> tuple[OwnedPointer, int]:
    pitch = -(-width // 512) * 512
    return allocate(pitch * height), pitch


def pointer_of(address: Any) -> Any:
    """An allocation, or an address as one."""
    if isinstance(address, PretendedArray):
        address = address.gpudata
    return address if isinstance(address, (OwnedPointer, PointerHolderBase)) else OwnedPointer(int(address), None)


def flat_bytes(x: Any) -> Any:
    """The bytes of a host array, or of another object with a buffer."""
    if isinstance(x, np.generic):
        x = np.asarray(x)
    host = x if isinstance(x, np.ndarray) else np.frombuffer(x, np.uint8)
    if not (host.flags.c_contiguous or host.flags.f_contiguous):
        raise ValueError("the host array is not contiguous")
    return (host if host.flags.c_contiguous else host.T).reshape(-1).view(np.uint8)


def memcpy_htod_async(dest: Any, src: Any, stream: Any = None) -> None:
    found = flat_bytes(src)
    xl.to_device(found, out=pointer_of(dest).over(found.nbytes, "uint8"), stream=own_stream(stream))


def memcpy_dtoh_async(dest: Any, src: Any, stream: Any = None) -> None:
    found = flat_bytes(dest)
    to_host_async(pointer_of(src).over(found.nbytes, "uint8"), found, stream)


def memcpy_dtod_async(dest: Any, src: Any, size: int, stream: Any = None) -> None:
    copied = pointer_of(src).over(size, "uint8")
    xl.to_device(copied, out=pointer_of(dest).over(size, "uint8"), stream=own_stream(stream))


def memcpy_htod(dest: Any, src: Any) -> None:
    memcpy_htod_async(dest, src)
    xl.current_stream().synchronize()


def memcpy_dtoh(dest: Any, src: Any) -> None:
    found = flat_bytes(dest)
    xl.to_host(pointer_of(src).over(found.nbytes, "uint8"), out=found)


def memcpy_dtod(dest: Any, src: Any, size: int) -> None:
    memcpy_dtod_async(dest, src, size)


def _make_memset(kind: str) -> Callable[..., None]:
    def memset(dest: Any, data: int, count: int, stream: Any = None) -> None:
        value = np.full(count, data, kind)
        xl.to_device(value, out=pointer_of(dest).over(count, kind), stream=own_stream(stream))

    return memset


def to_device(bf_obj: Any) -> OwnedPointer:
    """Memory with the bytes of a host array."""
    made = allocate(flat_bytes(bf_obj).nbytes)
    memcpy_htod(made, bf_obj)
    return made


def from_device(devptr: Any, shape: Any, dtype: Any, order: str = "C") -> Any:
    host = np.empty(shape, dtype, order)  # type: ignore[call-overload]
    memcpy_dtoh(host, devptr)
    return host


def make_aligned(shape: Any, dtype: Any, order: str = "C", alignment: int = 4096) -> Any:
    """PyCUDA's `aligned_empty`."""
    kind = np.dtype(dtype)
    nbytes = int(np.prod(shape)) * kind.itemsize
    raw = np.empty(nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes].view(kind).reshape(shape, order=order)


def _make_pinned(create: Callable[..., Any]) -> Callable[..., Any]:
    def call(shape: Any, dtype: Any, order: str = "C", mem_flags: int = 0) -> Any:
        extents = tuple(np.atleast_1d(shape).tolist()) if shape != () else ()
        return allocate_in_order(create, extents, np.dtype(dtype), order)

    return call


class PooledMemory(policy.Pretended):
    """PyCUDA's `DeviceMemoryPool`: xferlib's own pool allocates."""

    def allocate(self, size: int) -> OwnedPointer:
        return allocate(size)

    def free_held(self) -> None:
        xl.trim()

    stop_holding = free_held
    held_blocks = property(lambda self: 0)


class PooledPinnedMemory(PooledMemory):
    """PyCUDA's `PageLockedMemoryPool`."""

    def allocate(self, shape: Any, dtype: Any, order: str = "C") -> Any:  # type: ignore[override]
        return _make_pinned(xl.pinned_empty)(shape, dtype, order)


# --- kernels


class ArgumentHandler:
    """`In`, `Out` and `InOut`: a host array that is copied around a launch."""

    is_read: ClassVar[bool] = False
    is_written: ClassVar[bool] = False

    def __init__(self, ary: Any) -> None:
        self.array = ary
        self._memory: OwnedPointer | None = None

    def get_device_alloc(self) -> OwnedPointer:
        if self._memory is None:
            self._memory = allocate(flat_bytes(self.array).nbytes)
        return self._memory

    def pre_call(self, stream: Any) -> None:
        if self.is_read:
            memcpy_htod(self.get_device_alloc(), self.array)

    def post_call(self, stream: Any) -> None:
        if self.is_written:
            memcpy_dtoh(self.array, self.get_device_alloc())


class In(ArgumentHandler):
    """A host array that the kernel reads."""

    is_read = True


class Out(ArgumentHandler):
    """A host array that the kernel writes."""

    is_written = True


class InOut(In, Out):
    """A host array that the kernel reads and writes."""


class PycudaFunction(policy.Pretended):
    """A kernel."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __call__(
        self, *args: Any, block: Any = None, grid: Any = (1, 1), stream: Any = None, shared: int = 0,
        texrefs: Sequence[Any] = (), time_kernel: bool = False,
    ) -> Any:  # fmt: skip
        if block is None:
            raise ValueError("must specify block size")
        if texrefs:
            policy.refuse("a kernel with textures")
        for number, each in enumerate(args):
            if type(each) in (bool, int, float, complex):  # NumPy's numbers tell how many bytes they have
                raise TypeError(f"invalid type on parameter #{number} (0-based)")
        handlers = [each for each in args if isinstance(each, ArgumentHandler)]
        for each in handlers:
            each.pre_call(stream)
        seconds = None
        if time_kernel:
            seconds = self.measure(grid, block, *args, shared_size=shared)()
        else:
            self._launch(grid, block, args, stream, shared)
        for each in handlers:
            each.post_call(stream)
        return seconds

    def _launch(self, grid: Any, block: Any, args: Sequence[Any], stream: Any, shared: int) -> None:
        own = self._own
        if len(args) != len(own.parameters):
            raise TypeError(f"{own.name}: {len(args)} arguments are given, and it takes {len(own.parameters)}")
        given = [_match_declaration(own.name, value, each) for value, each in zip(args, own.parameters, strict=True)]
        own(tuple(map(int, grid)), tuple(map(int, block)), given, stream=own_stream(stream), shared_nbytes=int(shared))

    def prepare(self, arg_types: Any, shared: int | None = None, texrefs: Sequence[Any] = ()) -> PycudaFunction:
        if texrefs:
            policy.refuse("a kernel with textures")
        return self

    def call_prepared(self, grid: Any, block: Any, *args: Any, shared_size: int = 0) -> None:
        self._launch(grid, block, args, None, shared_size)

    def call_prepared_on(self, grid: Any, block: Any, stream: Any, *args: Any, shared_size: int = 0) -> None:
        self._launch(grid, block, args, stream, shared_size)

    def measure(self, grid: Any, block: Any, *args: Any, shared_size: int = 0) -> Callable[[], float]:
        start, end = PycudaEvent(), PycudaEvent()
        start.record()
        self._launch(grid, block, args, None, shared_size)
        end.record()

        def find_seconds() -> float:
            end.synchronize()
            return end.time_since(start) * 1e-3

        return find_seconds

    prepared_call, prepared_async_call, prepared_timed_call = call_prepared, call_prepared_on, measure

    def get_attribute(self, attr: Any) -> int:
        return int(getattr(self._own.attributes(), _FUNCTION_ATTRIBUTES[attr]))

    def set_cache_config(self, fc: Any) -> None: ...

    set_shared_config = set_cache_config

    def set_attribute(self, attr: Any, value: int) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.upper() in _FUNCTION_ATTRIBUTES:
            return self.get_attribute(name.upper())
        return super().__getattr__(name)


def _match_declaration(kernel: str, value: Any, parameter: Any) -> Any:
    """An argument as the kernel takes it. PyCUDA passes the bytes and looks at no types."""
    if isinstance(value, ArgumentHandler):
        value = value.get_device_alloc()
    if parameter.is_pointer:
        return _address(value, parameter.dtype)
    if isinstance(value, np.generic) and parameter.dtype is not None and value.dtype.names is None:
        _check_number(kernel, value, parameter)
    return value


def _address(value: Any, dtype: Any) -> Any:
    """An array of the declared dtype where there is one, so that a fault is told by its elements; else an address."""
    if isinstance(value, PretendedArray):
        if value.dtype == dtype and value.flags.c_contiguous and value.size:
            return value._native
        return value.ptr
    if hasattr(value, "__cuda_array_interface__"):
        return int(value.__cuda_array_interface__["data"][0])
    kind = None if dtype is None else np.dtype(dtype)
    if isinstance(value, OwnedPointer) and kind is not None and value.size and not value.size % kind.itemsize:
        return value.over(value.size // kind.itemsize, kind)
    return int(value)


def _check_number(kernel: str, value: np.generic, parameter: Any) -> None:
    """Refuse a number whose bytes are not those of the parameter, where PyCUDA passes them as they are."""
    declared = np.dtype(parameter.dtype)
    kinds = ["i" if kind in "iub" else kind for kind in (declared.kind, value.dtype.kind)]
    if value.dtype.itemsize != declared.itemsize or kinds[0] != kinds[1]:
        raise KernelTypeError(
            f"{kernel}(): argument {parameter.name!r} is a number of dtype {value.dtype}, and the kernel takes "
            f"{declared}: PyCUDA passes its bytes as they are; give numpy.{declared.name}(...)"
        )


_INCLUDES = re.compile(
    r"^([ \t]*)#[ \t]*include[ \t]*[<\"](stdio\.h|cstdio|stdlib\.h|math\.h|cmath|cuda\.h|cuda_runtime\.h)[>\"].*$",
    re.MULTILINE,
)
"""Headers of nvcc, whose functions NVRTC has without them."""
_COMPLEX = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<pycuda-complex\.hpp>.*$", re.MULTILINE)


_TYPES = "typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong; "
"""Names of the C library's headers, which nvcc includes."""
_NAMESPACES = "namespace cuda { namespace std {} } namespace pycuda { using namespace cuda::std; } "


def adapt_source(source: str, *, is_c: bool) -> str:
    """CUDA source for nvcc as NVRTC takes it: kernels with C's names, complex numbers of libcu++; lines stay."""
    if "pycuda-helpers.hpp" in source:
        policy.refuse("the header pycuda-helpers.hpp, of textures")
    head = _TYPES + (_NAMESPACES if _COMPLEX.search(source) else "")
    source = _COMPLEX.sub("#include <cuda/std/complex>", _INCLUDES.sub("", source))
    source = re.sub(r'(?<!extern "C" )__global__', 'extern "C" __global__', source) if is_c else source
    return head + ("\n" if source.lstrip(" \t").startswith("#") else "") + source


class SourceModule(policy.Pretended):
    """`xl.raw_module` by PyCUDA's constructor."""

    def __init__(
        self, source: str, nvcc: str = "nvcc", options: Sequence[str] | None = None, keep: bool = False,
        no_extern_c: bool = False, arch: str | None = None, code: str | None = None, cache_dir: Any = None,
        include_dirs: Sequence[str] = (),
    ) -> None:  # fmt: skip
        kept = ("-D", "-I", "--define", "--include", "-std", "--std")  # the others are nvcc's own
        known = [each for each in options or () if each.startswith(kept)]
        known += [f"-I{each}" for each in include_dirs or ()]
        self._own = xl.raw_module(adapt_source(source, is_c=not no_extern_c), options=tuple(known))

    def get_function(self, name: str) -> PycudaFunction:
        return PycudaFunction(self._own.get_function(name))

    def get_global(self, name: str) -> tuple[OwnedPointer, int]:
        found = self._own.get_global(name, "uint8")
        info = xl.get_backend(found).view(found)
        return OwnedPointer(info.pointer, found, info.nbytes), info.nbytes


# --- vectors and names


def _make_vectors() -> Any:
    """`gpuarray.vec`: dtypes of CUDA's vectors, and what makes one."""
    kinds = {
        "char": np.int8, "uchar": np.uint8, "short": np.int16, "ushort": np.uint16, "int": np.int32, "uint": np.uint32,
        "long": np.int64, "ulong": np.uint64, "longlong": np.int64, "ulonglong": np.uint64, "float": np.float32,
        "double": np.float64,
    }  # fmt: skip
    made = types.SimpleNamespace()
    for name, kind in kinds.items():
        for count in range(1, 3 if name in ("double", "longlong", "ulonglong") else 5):
            vector = np.dtype([(each, kind) for each in "xyzw"[:count]])
            setattr(made, f"{name}{count}", vector)
            setattr(made, f"make_{name}{count}", lambda *parts, dtype=vector: np.array(parts, dtype))
    return made


vec = _make_vectors()


def make_default_context(ctx_maker: Callable[[PycudaDevice], Any] | None = None) -> Any:
    """PyCUDA's function of that name: a context on the first device."""
    return (ctx_maker or PycudaDevice.make_context)(PycudaDevice(0))


def make_driver() -> dict[str, Any]:
    """The names of `pycuda.driver`."""
    pinned, zeroed = _make_pinned(xl.pinned_empty), _make_pinned(xl.pinned_zeros)
    memsets = {f"memset_d{bits}": _make_memset(f"uint{bits}") for bits in (8, 16, 32)}
    return {
        "init": lambda flags=0: None, "get_version": lambda: _VERSION, "get_driver_version": lambda: _VERSION[0] * 1000,
        "Device": PycudaDevice, "Context": PycudaContext, "Stream": PycudaStream, "Event": PycudaEvent,
        "device_attribute": _Constants(*_ATTRIBUTES), "function_attribute": _Constants(*_FUNCTION_ATTRIBUTES),
        "ctx_flags": _Constants(SCHED_AUTO=0, SCHED_SPIN=1, SCHED_YIELD=2, SCHED_BLOCKING_SYNC=4, MAP_HOST=8),
        "event_flags": _Constants(DEFAULT=0, BLOCKING_SYNC=1, DISABLE_TIMING=2, INTERPROCESS=4),
        "stream_flags": _Constants(DEFAULT=0, NON_BLOCKING=1),
        "func_cache": _Constants("PREFER_NONE", "PREFER_SHARED", "PREFER_L1", "PREFER_EQUAL"),
        "shared_config": _Constants("DEFAULT_BANK_SIZE", "FOUR_BYTE_BANK_SIZE", "EIGHT_BYTE_BANK_SIZE"),
        "host_alloc_flags": _Constants(PORTABLE=1, DEVICEMAP=2, WRITECOMBINED=4),
        "compute_mode": _Constants(DEFAULT=0, PROHIBITED=2, EXCLUSIVE_PROCESS=3),
        "Error": xl.errors.XferError, "LogicError": xl.errors.XferError, "LaunchError": xl.errors.KernelFaultError,
        "RuntimeError": xl.errors.XferError, "MemoryError": xl.errors.DeviceMemoryError,
        "CompileError": xl.errors.KernelCompileError,
        "mem_get_info": lambda: (xl.get_device().free_memory, xl.get_device().total_memory), "mem_alloc": allocate,
        "mem_alloc_like": lambda ary: allocate(ary.nbytes), "mem_alloc_pitch": _allocate_rows,
        "DeviceAllocation": OwnedPointer, "PooledDeviceAllocation": OwnedPointer,
        "PointerHolderBase": PointerHolderBase,
        "to_device": to_device, "from_device": from_device,
        "from_device_like": lambda devptr, other_ary: from_device(devptr, other_ary.shape, other_ary.dtype),
        "memcpy_htod": memcpy_htod, "memcpy_htod_async": memcpy_htod_async, "memcpy_dtoh": memcpy_dtoh,
        "memcpy_dtoh_async": memcpy_dtoh_async, "memcpy_dtod": memcpy_dtod, "memcpy_dtod_async": memcpy_dtod_async,
        **memsets, **{f"{name}_async": each for name, each in memsets.items()},
        "pagelocked_empty": pinned, "pagelocked_zeros": zeroed,
        "pagelocked_empty_like": lambda array, mem_flags=0: pinned(array.shape, array.dtype),
        "pagelocked_zeros_like": lambda array, mem_flags=0: zeroed(array.shape, array.dtype),
        "aligned_empty": make_aligned, "aligned_empty_like": lambda array, alignment=4096: make_aligned(
            array.shape, array.dtype, alignment=alignment
        ),
        "ArgumentHandler": ArgumentHandler, "In": In, "Out": Out, "InOut": InOut, "Function": PycudaFunction,
        "start_profiler": lambda: None, "stop_profiler": lambda: None,
    }  # fmt: skip
