"""CuPy's streams, events, devices and memory over the simulated ones."""

from __future__ import annotations

import contextlib
import ctypes
import types
from typing import Any

import numpy as np

import xferlib as xl
from xferlib.errors import DeviceNotFoundError


def own_stream(stream: Any) -> xl.Stream | None:
    """The stream of xferlib's within one of CuPy's; None for the current one."""
    return None if stream is None else stream.own


class CupyStream:
    """A stream. ``with stream:`` and `use` make it current."""

    null: CupyStream
    ptds: CupyStream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        self._own = None if null or ptds else xl.Stream("sim", non_blocking=non_blocking, priority=priority or 0)
        self._entered: list[xl.Stream] = []

    @property
    def own(self) -> xl.Stream:
        """Xferlib's; the default stream is that of the current device."""
        return self._own if self._own is not None else default_stream()

    ptr = property(lambda self: self.own.handle if self._own is not None else 0)
    done = property(lambda self: self.own.is_done)
    priority = property(lambda self: self.own.priority)
    is_non_blocking = property(lambda self: self.own.is_non_blocking)
    device_id = property(lambda self: xl.get_device("sim").index)

    def use(self) -> CupyStream:
        self.own.use()
        _current[:] = [self]
        return self

    def __enter__(self) -> CupyStream:
        own = self.own
        own.__enter__()
        self._entered.append(own)
        _current.append(self)
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: PYI036
        _current.pop()
        self._entered.pop().__exit__(*(error or (None, None, None)))

    def synchronize(self) -> None:
        self.own.synchronize()

    def record(self, event: CupyEvent | None = None) -> CupyEvent:
        event = CupyEvent() if event is None else event
        self.own.record(event.own)
        return event

    def wait_event(self, event: CupyEvent) -> None:
        self.own.wait(event.own)

    def launch_host_func(self, callback: Any, arg: Any) -> None:
        self.own.call(callback, arg)

    def add_callback(self, callback: Any, arg: Any) -> None:
        self.own.call(callback, self, 0, arg)

    def begin_capture(self, mode: Any = None) -> None:
        block = self.own.capture()
        _captures.append((block, block.__enter__()))

    def end_capture(self) -> Any:
        block, graph = _captures.pop()
        block.__exit__(None, None, None)
        return types.SimpleNamespace(
            launch=lambda stream=None: graph.launch(own_stream(stream)), upload=lambda *_: None
        )

    def is_capturing(self) -> bool:
        return bool(_captures)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CupyStream) and self.own == other.own

    def __hash__(self) -> int:
        return hash(self.own)


_current: list[CupyStream] = []
_captures: list[tuple[Any, xl.Graph]] = []


def default_stream() -> xl.Stream:
    """The stream on which a program works that has made none."""
    with contextlib.ExitStack() as here:
        here.enter_context(xl.get_device("sim"))
        return _defaults.setdefault(xl.get_device("sim"), xl.current_stream())


_defaults: dict[xl.Device, xl.Stream] = {}


def current_stream(device_id: int | None = None) -> CupyStream:
    """CuPy's `get_current_stream`."""
    return _current[-1] if _current else CupyStream.null


class CupyEvent:
    """A point in a stream's work."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.own = xl.Event(blocking=block, timing=not disable_timing and not interprocess, interprocess=interprocess)

    done = property(lambda self: self.own.is_done)

    def record(self, stream: CupyStream | None = None) -> None:
        (xl.current_stream() if stream is None else stream.own).record(self.own)

    def synchronize(self) -> None:
        self.own.synchronize()


def measure_ms(start_event: CupyEvent, end_event: CupyEvent) -> float:
    """CuPy's `get_elapsed_time`: milliseconds."""
    return end_event.own.elapsed_ms(start_event.own)


class NumberedDevice:
    """A simulated device by CuPy's number."""

    def __init__(self, device: Any = None) -> None:
        index = xl.get_device().index if device is None else int(device)
        try:
            self.own = xl.get_device(f"sim:{index}")
        except DeviceNotFoundError as error:
            raise runtime_error(f"invalid device ordinal {index}") from error

    id = property(lambda self: self.own.index)
    compute_capability = property(lambda self: "90")
    mem_info = property(lambda self: (self.own.free_memory, self.own.total_memory))
    pci_bus_id = property(lambda self: f"0000:0{self.id}:00.0")
    attributes = property(lambda self: {"MultiProcessorCount": 132, "WarpSize": 32, "MaxThreadsPerBlock": 1024})

    def __int__(self) -> int:
        return self.own.index

    def use(self) -> NumberedDevice:
        self.own.use()
        return self

    def synchronize(self) -> None:
        self.own.synchronize()

    def __enter__(self) -> NumberedDevice:
        self.own.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: PYI036
        self.own.__exit__(*(error or (None, None, None)))  # some programs call it with nothing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberedDevice) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA NumberedDevice {self.id}>"


class CUDARuntimeError(RuntimeError):
    """CuPy's error of a call of CUDA's runtime."""


def runtime_error(text: str) -> CUDARuntimeError:
    """The error that CuPy raises for what CUDA's runtime refuses."""
    return CUDARuntimeError(text)


# --- memory


class CupyMemoryPointer:
    """An address in simulated memory, and what keeps the memory."""

    def __init__(self, mem: Any, offset: Any, nbytes: int | None = None) -> None:
        if nbytes is None:  # CuPy's constructor: memory, and how far into it
            self.ptr, self._owner, self._size = mem.ptr + int(offset), mem, mem.size - int(offset)
        else:
            self.ptr, self._owner, self._size = int(mem), offset, nbytes

    mem = property(lambda self: types.SimpleNamespace(size=self._size, ptr=self.ptr, device_id=0))
    device_id = property(lambda self: xl.get_device("sim").index)
    device = property(lambda self: NumberedDevice())

    def __int__(self) -> int:
        return int(self.ptr)

    def __add__(self, offset: int) -> CupyMemoryPointer:
        return CupyMemoryPointer(self.ptr + offset, self._owner, self._size - offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> CupyMemoryPointer:
        return self + -offset

    def over(self, shape: Any, dtype: Any) -> Any:
        """An array of `sim` over the memory."""
        return xl.array_over(self.ptr, shape, dtype, owner=self._owner, device="sim")

    def copy_from_async(self, mem: Any, size: int, stream: Any = None) -> None:
        source = mem.over(size, "uint8") if isinstance(mem, CupyMemoryPointer) else _host_bytes(mem, size)
        xl.to_device(source, out=self.over(size, "uint8"), stream=own_stream(stream))

    def copy_from(self, mem: Any, size: int) -> None:
        self.copy_from_async(mem, size)
        xl.current_stream().synchronize()

    copy_from_host = copy_from_device = copy_from
    copy_from_host_async = copy_from_device_async = copy_from_async

    def copy_to_host(self, mem: Any, size: int) -> None:
        xl.to_host(self.over(size, "uint8"), out=_host_bytes(mem, size))

    def copy_to_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        xl.to_host_async(self.over(size, "uint8"), out=_host_bytes(mem, size), stream=own_stream(stream))

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        xl.to_device(np.full(size, value, "uint8"), out=self.over(size, "uint8"), stream=own_stream(stream))

    memset = memset_async


def _host_bytes(address: Any, nbytes: int) -> Any:
    value = int(address.value or 0) if isinstance(address, ctypes.c_void_p) else int(address)
    return np.frombuffer(memoryview((ctypes.c_ubyte * nbytes).from_address(value)), np.uint8)


def allocate(nbytes: int) -> CupyMemoryPointer:
    """CuPy's `alloc`."""
    block = xl.empty(max(int(nbytes), 1), "uint8", backend="sim")
    return CupyMemoryPointer(xl.get_backend(block).view(block).pointer, block, int(nbytes))


class CupyUnownedMemory:
    """Memory that another library allocated."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = 0) -> None:
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


def allocate_pinned(nbytes: int) -> Any:
    """CuPy's `alloc_pinned_memory`: bytes that ``numpy.frombuffer`` takes."""
    return xl.pinned_empty(int(nbytes), "uint8", backend="sim")


class CupyMemoryPool:
    """CuPy's pool of device memory, and that of pinned memory, as far as programs ask them: xferlib's own allocate."""

    def __init__(self, *_: Any) -> None:
        self._limit = 0

    malloc = staticmethod(allocate)

    def used_bytes(self) -> int:
        here = xl.get_device("sim")
        return here.total_memory - here.free_memory

    def total_bytes(self) -> int:
        return self.used_bytes()

    def free_bytes(self) -> int:
        return 0

    def n_free_blocks(self) -> int:
        return 0

    def free_all_blocks(self, stream: Any = None) -> None:
        xl.trim()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self._limit = size or 0

    def get_limit(self) -> int:
        return self._limit


class CupyPinnedMemoryPool(CupyMemoryPool):
    """CuPy's pool of pinned memory."""

    malloc = staticmethod(allocate_pinned)


CupyStream.null = CupyStream(null=True)
CupyStream.ptds = CupyStream(ptds=True)
