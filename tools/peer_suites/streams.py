"""Streams, events and devices by the peers' names."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import xferlib as xl
from tools.peer_suites.missing import Missing, Partial, skip


class Stream(Partial):
    """CuPy's and PyCUDA's stream over xferlib's."""

    null: Stream
    native: Any = None
    ptds: Any = Missing("default streams of each thread on a CPU")

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int = 0, **_: Any
    ) -> None:
        handle = 2 if ptds else 0 if null else None
        if ptds and _is_on_cpu():
            skip("default streams of each thread on a CPU")
        if handle is not None and xl.get_backend().capabilities.streams:
            self.own = xl.Stream.from_any(handle)
        elif handle is not None:
            self.own = xl.current_stream()
        else:
            self.own = xl.Stream(non_blocking=non_blocking, priority=priority)

    @classmethod
    def over(cls, own: xl.Stream) -> Stream:
        made = cls.__new__(cls)
        made.own = own
        return made

    ptr = property(lambda self: self.own.handle)
    handle = property(lambda self: self.own.handle)
    done = property(lambda self: self.own.is_done)
    priority = property(lambda self: self._option("priority"))
    is_non_blocking = property(lambda self: self._option("is_non_blocking"))

    def _option(self, name: str) -> Any:
        if _is_on_cpu():
            skip("options of streams on a CPU")
        return getattr(self.own, name)

    @classmethod
    def from_external(cls, native: Any) -> Stream:
        if _is_on_cpu():
            skip("streams of CUDA on a CPU")
        if not hasattr(native, "__cuda_stream__"):
            raise TypeError("no stream")
        made = cls.over(xl.Stream.from_any(native))
        made.native = native
        return made

    def __cuda_stream__(self) -> tuple[int, int]:
        if _is_on_cpu():
            skip("streams of CUDA on a CPU")
        return self.own.__cuda_stream__()

    def is_done(self) -> bool:
        return self.own.is_done

    def use(self) -> Stream:
        self.own.use()
        _used.objects = [*getattr(_used, "objects", [])[-8:], self]
        return self

    def synchronize(self) -> None:
        self.own.synchronize()

    def record(self, event: Any = None) -> Event:
        event = Event() if event is None else event
        self.own.record(event.own)
        return event  # type: ignore[no-any-return]

    def wait_event(self, event: Event) -> None:
        self.own.wait(event.own)

    wait_for_event = wait_event

    def begin_capture(self, mode: Any = None) -> None:
        if not xl.get_backend().capabilities.streams:
            skip("captures of a library's own operations on a CPU")
        self._graph = begin_capture(self.own)

    def end_capture(self) -> Any:
        end_capture()
        return PeerGraph(self._graph)

    def is_capturing(self) -> bool:
        return self.own._raw.capture is not None

    def launch_host_func(self, function: Any, argument: Any) -> None:
        self.own.call(function, argument)

    def add_callback(self, function: Any, argument: Any) -> None:
        self.own.call(function, self, 0, argument)

    def __enter__(self) -> Stream:
        own = self.own  # which of the default stream is another object each time
        own.__enter__()
        self.__dict__.setdefault("entered", []).append(own)
        _used.objects = [*getattr(_used, "objects", [])[-8:], self]
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: PYI036
        self.__dict__["entered"].pop().__exit__(*error)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.own == other.own

    def __hash__(self) -> int:
        return hash(self.own)


_open: list[Any] = []
"""The blocks of the captures that have begun."""


def begin_capture(stream: xl.Stream) -> xl.Graph:
    """Enter the block of a capture, which the peers have as two calls."""
    block = stream.capture()
    graph = block.__enter__()
    _open.append(block)
    return graph


def end_capture() -> None:
    """Leave the block of the last capture."""
    if not _open:
        raise xl.errors.StreamError("no capture has begun")
    _open.pop().__exit__(None, None, None)


def end_captures() -> None:
    """End what a test that failed has left open."""
    while _open:
        with contextlib.suppress(xl.errors.XferError):
            end_capture()


class NullStream(Stream):
    """The default stream of whichever device is current, which CuPy has as one object."""

    @property
    def own(self) -> xl.Stream:
        return _default_of(xl.get_device()) or xl.current_stream()

    @own.setter
    def own(self, _: xl.Stream) -> None: ...


class PeerGraph(Partial):
    """CuPy's graph over xferlib's."""

    peer_name = "Graph"

    def __init__(self, own: xl.Graph) -> None:
        self._own = own

    def launch(self, stream: Any = None) -> None:
        self._own.launch(getattr(stream, "own", None))

    def upload(self, stream: Any = None) -> None:
        """Nothing: the first launch does it."""


class Event(Partial):
    """CuPy's and PyCUDA's event over xferlib's."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False, *_: Any) -> None:
        self.own = xl.Event(blocking=block, timing=not disable_timing and not interprocess, interprocess=interprocess)

    done = property(lambda self: self.own.is_done)

    def query(self) -> bool:
        return self.own.is_done

    def record(self, stream: Any = None) -> Event:
        (xl.current_stream() if stream is None else stream.own).record(self.own)
        return self

    def synchronize(self) -> None:
        self.own.synchronize()

    def time_till(self, end: Event) -> float:
        return end.own.elapsed_ms(self.own)

    def time_since(self, start: Event) -> float:
        return self.own.elapsed_ms(start.own)


class Device(Partial):
    """CuPy's device over xferlib's."""

    def __init__(self, index: Any = None) -> None:
        index = index.id if isinstance(index, Device) else index
        self.own = xl.get_device() if index is None else _numbered(int(index))

    @classmethod
    def over(cls, own: xl.Device) -> Device:
        made = cls.__new__(cls)
        made.own = own
        return made

    id = property(lambda self: self.own.index)

    def __int__(self) -> int:
        return self.own.index

    def synchronize(self) -> None:
        self.own.synchronize()

    @staticmethod
    def from_pci_bus_id(text: str) -> Device:
        for each in xl.get_backend().devices():
            if each.kind != "cuda":
                skip("PCI on a CPU")
            if each.pci_bus_id == text:
                return Device.over(each)
        raise xl.errors.DeviceNotFoundError(text)

    @property
    def pci_bus_id(self) -> Any:
        if self.own.kind != "cuda":
            skip("PCI on a CPU")
        return self.own.pci_bus_id

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return skip("an order of devices")

    __le__ = __gt__ = __ge__ = __lt__

    def use(self) -> Device:
        self.own.use()
        return self

    def __enter__(self) -> Device:
        self.own.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: PYI036
        self.own.__exit__(*error)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.own is other.own

    def __hash__(self) -> int:
        return hash(self.own)


def _numbered(index: int) -> xl.Device:
    here = xl.get_device()
    found = [each for each in xl.get_backend().devices() if each.kind == here.kind and each.index == index]
    if not found:
        skip("a second device")
    return found[0]


_used = threading.local()
"""The streams that each thread has made current, for their identity."""


def _is_on_cpu() -> bool:
    return not xl.get_backend().capabilities.streams


def current_stream(device: Any = None) -> Stream:
    place = xl.get_device() if device is None else Device(device).own
    own = xl.current_stream(place)
    known = [Stream.null, *getattr(_used, "objects", [])]
    found = next((each for each in reversed(known) if each.own == own), None)
    if found is None and own == _default_of(place):
        return Stream.null
    return found or Stream.over(own)


def _default_of(place: xl.Device) -> xl.Stream | None:
    """The default stream of a device, which CuPy has as one object for all of them."""
    return xl.Stream.from_any(0, device=place) if xl.get_backend().capabilities.streams else None
