"""CuPy's and PyCUDA's streams, events, graphs and devices over xferlib's."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import xferlib as xl
from xferlib._pretend import policy
from xferlib._runtime import checks
from xferlib.errors import DeviceNotFoundError, XferError


def to_host_async(native: Any, out: Any, stream: Any) -> None:
    """A copy in order on a stream, the current one for None: what waits for the stream waits for it."""
    xl.to_host_async(native, out=out, stream=own_stream(stream) or xl.current_stream())


def own_stream(stream: Any) -> xl.Stream | None:
    """The stream of xferlib's within a pretended one; None for the current one."""
    return None if stream is None else stream.own


class StreamBase(policy.Pretended):
    """A stream of a pretended library."""

    own: xl.Stream

    handle = property(lambda self: self.own.handle)

    def synchronize(self) -> None:
        self.own.synchronize()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamBase) and self.own == other.own

    def __hash__(self) -> int:
        return hash(self.own)


class CupyCalls(checks.RemedyCalls):
    """The calls that errors recommend, as CuPy has them."""

    def synchronize(self) -> str:
        return "cupy.cuda.Device().synchronize()"

    def wait(self, stream: str, other: str) -> str:
        return f"{stream}.wait_event({other}.record())"

    def write_current_stream(self, device: str) -> str:
        return f"cupy.cuda.get_current_stream({find_number(device) if device else ''})"

    def write_default_stream(self, handle: int, device: str) -> str:
        return f"cupy.cuda.Stream.{'ptds' if handle == 2 else 'null'}"

    def find_stream(self, value: Any) -> Any:
        return value.own if isinstance(value, StreamBase) else value

    def unite(self, device: str) -> str:
        block = f"with cupy.cuda.Device({find_number(device)}):"
        return f"make both in one `{block}`, or move one: `{block} cupy.asarray(x)`"


class PycudaCalls(CupyCalls):
    """PyCUDA's, which has no object for the default stream and orders its streams with that."""

    def synchronize(self) -> str:
        return "pycuda.driver.Context.synchronize()"

    def await_stream(self, stream: str) -> str:
        return stream if stream == self.synchronize() else super().await_stream(stream)

    def wait(self, stream: str, other: str) -> str:
        if stream == self.synchronize() or other == self.synchronize():
            return self.synchronize()
        return f"{stream}.wait_for_event(pycuda.driver.Event().record({other}))"

    def write_current_stream(self, device: str) -> str:
        return self.synchronize()

    def write_default_stream(self, handle: int, device: str) -> str:
        return self.synchronize()

    def unite(self, device: str) -> str:
        number = find_number(device)
        return f"make both in the context of one device: pycuda.driver.Device({number}).retain_primary_context().push()"


def find_number(device: str) -> int:
    """The number of a device, by its name."""
    return xl.Device(device).index


class CupyStream(StreamBase):
    """CuPy's stream. ``with stream:`` and `use` make it current."""

    null: CupyStream
    ptds: Any

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        self._default = 2 if ptds else 0 if null else None
        self._entered: list[xl.Stream] = []
        if self._default is None:
            self.own = xl.Stream(non_blocking=non_blocking, priority=priority or 0)

    @classmethod
    def over(cls, own: xl.Stream) -> CupyStream:
        """A stream that xferlib made."""
        made = cls.__new__(cls)
        made._default, made._entered, made.own = None, [], own
        return made

    def __getattr__(self, name: str) -> Any:
        default = self.__dict__.get("_default")
        if name == "own" and default is not None:  # that of whichever device is current
            return default_stream(xl.get_device(), default) or xl.current_stream()
        return super().__getattr__(name)

    ptr = property(lambda self: self.own.handle)
    done = property(lambda self: self.own.is_done)
    priority = property(lambda self: self.own.priority)
    is_non_blocking = property(lambda self: self.own.is_non_blocking)
    device_id = property(lambda self: self.own.device.index)

    @classmethod
    def from_external(cls, native: Any) -> CupyStream:
        if not hasattr(native, "__cuda_stream__"):
            raise TypeError("no stream")
        made = cls.over(xl.Stream.from_any(native))
        made.native = native  # type: ignore[attr-defined]  # lives as long as the stream
        return made

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.own.__cuda_stream__()

    def use(self) -> CupyStream:
        self.own.use()
        _note_use(self)
        return self

    def __enter__(self) -> CupyStream:
        own = self.own  # the default stream's is another one behind a change of the device
        own.__enter__()
        self._entered.append(own)
        _note_use(self)
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: PYI036
        self._entered.pop().__exit__(*(error or (None, None, None)))  # some programs call it with nothing

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

    def end_capture(self) -> CupyGraph:
        if not _captures:
            raise xl.errors.StreamError("end_capture: no capture has begun")
        block, graph = _captures.pop()
        block.__exit__(None, None, None)
        return CupyGraph(graph)

    def is_capturing(self) -> bool:
        return self.own._raw.capture is not None


_captures: list[tuple[Any, xl.Graph]] = []
"""The blocks of the captures that have begun: CuPy begins and ends one by two calls."""
_used = threading.local()
"""The streams that each thread has made current lately, for their identity."""


def _note_use(stream: CupyStream) -> None:
    _used.streams = [*getattr(_used, "streams", [])[-8:], stream]


def end_captures() -> None:
    """End what a program that failed has left open."""
    while _captures:
        with contextlib.suppress(XferError):
            CupyStream.null.end_capture()


class CupyGraph(policy.Pretended):
    """CuPy's graph over xferlib's."""

    def __init__(self, own: xl.Graph) -> None:
        self._own = own

    def launch(self, stream: Any = None) -> None:
        self._own.launch(own_stream(stream))

    def upload(self, stream: Any = None) -> None:
        """Nothing: the first launch does it."""


def default_stream(place: xl.Device, handle: int = 0) -> xl.Stream | None:
    """CUDA's default stream of a device; None where the device has no streams."""
    return xl.Stream.from_any(handle, device=place) if xl.get_backend().capabilities.streams else None


def current_stream(device_id: Any = None) -> CupyStream:
    """CuPy's `get_current_stream`: the object that was made current, where there is one."""
    place = xl.get_device() if device_id is None else NumberedDevice(device_id).own
    own = xl.current_stream(place)
    known = [CupyStream.null, *getattr(_used, "streams", [])]
    found = next((each for each in reversed(known) if each.own == own), None)
    if found is None and own == default_stream(place):
        return CupyStream.null
    return found or CupyStream.over(own)


class EventBase(policy.Pretended):
    """An event of a pretended library."""

    own: xl.Event

    def synchronize(self) -> None:
        self.own.synchronize()


class CupyEvent(EventBase):
    """CuPy's event: a point in a stream's work."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.own = xl.Event(blocking=block, timing=not disable_timing and not interprocess, interprocess=interprocess)

    done = property(lambda self: self.own.is_done)

    def record(self, stream: CupyStream | None = None) -> None:
        (xl.current_stream() if stream is None else stream.own).record(self.own)


def measure_ms(start_event: EventBase, end_event: EventBase) -> float:
    """CuPy's `get_elapsed_time`: milliseconds."""
    return end_event.own.elapsed_ms(start_event.own)


class CUDARuntimeError(RuntimeError):
    """CuPy's error of a call of CUDA's runtime."""


def list_devices() -> list[xl.Device]:
    """The devices of the default backend: not the CPU, where it has others."""
    here = xl.get_device()
    return [each for each in xl.get_backend().devices() if each.kind == here.kind]


def find_device(index: int) -> xl.Device:
    """The device of that number.

    Raises:
        DeviceNotFoundError: There is none.
    """
    found = [each for each in list_devices() if each.index == index]
    if not found:
        raise DeviceNotFoundError(f"device {index}: there are {len(list_devices())}")
    return found[0]


class NumberedDevice(policy.Pretended):
    """A device by CuPy's number."""

    def __init__(self, device: Any = None) -> None:
        try:
            self.own = xl.get_device() if device is None else find_device(int(device))
        except DeviceNotFoundError as error:
            raise CUDARuntimeError(f"invalid device ordinal {int(device)}") from error

    id = property(lambda self: self.own.index)
    compute_capability = property(lambda self: "90")
    mem_info = property(lambda self: (self.own.free_memory, self.own.total_memory))
    pci_bus_id = property(lambda self: f"0000:{self.id:02X}:00.0")
    attributes = property(lambda self: {"MultiProcessorCount": 132, "WarpSize": 32, "MaxThreadsPerBlock": 1024})

    @staticmethod
    def from_pci_bus_id(pci_bus_id: str) -> NumberedDevice:
        for each in map(NumberedDevice, range(len(list_devices()))):
            if each.pci_bus_id == pci_bus_id:
                return each
        raise CUDARuntimeError(f"invalid argument {pci_bus_id!r}")

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
        return isinstance(other, NumberedDevice) and self.own is other.own

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"


CupyStream.null = CupyStream(null=True)
CupyStream.ptds = CupyStream(ptds=True)
