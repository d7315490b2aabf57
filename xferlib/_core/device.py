"""Devices as values: ``cupy:cuda:0``. Their methods ask `directory`, which `_core.registry` fills in."""

from __future__ import annotations

import functools
import operator
import re
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeAlias, cast

from xferlib._core import blocks
from xferlib._runtime import checks, process
from xferlib._runtime.process import reset_in_child
from xferlib.errors import ArgumentError, CaptureError, DeviceNotFoundError, TransferError, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._runtime.checks import CodeLocation


# The abilities of a backend, as data.


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The abilities of a backend. A missing ability is a skip with a reason, never a ``hasattr``.

    ``why`` maps the name of a missing ability to the sentence that an error or a skipped test shows. It may
    name more than these flags: what an optional method of `Backend` needs, such as ``device_attributes``.
    """

    streams: bool = False
    """Streams run concurrently with the host; without it every operation is complete on return."""
    priorities: bool = False
    """Streams have priorities."""
    foreign_streams: bool = False
    """A stream made elsewhere can become the library's current stream."""
    native_current_stream: bool = False
    """The library's own operations follow ``with stream:``."""
    pinned_memory: bool = False
    """Host memory can be page-locked."""
    peer_copy: bool = False
    """Copies between two devices of the backend."""
    kernels: bool = False
    """CUDA source can be compiled and launched."""
    namespace: bool = False
    """The library has an Array-API namespace."""
    strided: bool = False
    """The library's own operations take views of any stride."""
    graphs: bool = False
    """The work of a stream can be captured, and enqueued again as one."""
    in_place: bool = True
    """Arrays can be written after they were made; False: ``out=`` and kernels that write an argument are refused."""
    fork: bool = True
    """A process that has used the library may fork; False: the library itself warns of it."""
    small_at_once: bool = True
    """A small transfer may be complete when an asynchronous call returns; False: each takes as long as the contract
    allows, at every size."""
    why: dict[str, str] = field(default_factory=dict)

    def reason(self, ability: str) -> str:
        """Why ``ability`` is missing, in one sentence."""
        return self.why.get(ability, f"the backend has no {ability.replace('_', ' ')}")


_interned: dict[tuple[str, str, int], Device] = {}
_SPEC = re.compile(r"(?:(?P<backend>[A-Za-z_]\w*):)?(?P<kind>[A-Za-z]\w*)(?::(?P<index>\d{1,4}))?", re.ASCII)
_INDEX = re.compile(r"\d{1,4}", re.ASCII)
_KINDS = frozenset({"cpu", "cuda", "sim"})


class DeviceParts(NamedTuple):
    """The parts of a device's text, None for those that it leaves out; a kind without a number is that of 0."""

    backend: str | None
    kind: str | None
    number: int | None


@functools.lru_cache(maxsize=64)
def parse(text: str, source: str) -> DeviceParts:
    """Read ``"torch:cuda:1"``, ``"cuda:1"``, ``"1"``, ``"torch:1"`` or ``"torch"``, a backend's own default device.

    Args:
        text: A device, which need not exist.
        source: What to call it in the message.

    Raises:
        DeviceNotFoundError: It cannot be read.
    """
    if _INDEX.fullmatch(text):
        return DeviceParts(None, None, int(text))
    match = _SPEC.fullmatch(text)
    if match is None:
        raise DeviceNotFoundError(
            f"{source}={quote(text)} cannot be read; write 'cpu', 'cuda:0' or "
            "'backend:cuda:0', for instance 'torch:cuda:0'"
        )
    if match["backend"] is None and match["kind"] not in _KINDS:
        return DeviceParts(match["kind"], None, int(match["index"]) if match["index"] else None)
    return DeviceParts(match["backend"], match["kind"], int(match["index"] or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProperties:
    """Properties of a device; 0 for those that a CPU does not have."""

    name: str
    total_nbytes: int
    compute_capability: tuple[int, int] = (0, 0)
    multiprocessor_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceIdentity:
    """The names by which a machine knows a device; empty for a CPU."""

    uuid: str = ""
    pci_bus_id: str = ""


class TorchDevice(Protocol):
    """An object like ``torch.device``, which is not imported."""

    @property
    def type(self) -> str: ...

    @property
    def index(self) -> Any: ...


class CupyDevice(Protocol):
    """An object like ``cupy.cuda.Device``, which is not imported."""

    @property
    def id(self) -> int: ...


class DeviceFacts(Protocol):
    """The methods of a `Backend` that tell what its devices are."""

    def device_properties(self, device: Device) -> DeviceProperties: ...

    def device_identity(self, device: Device) -> DeviceIdentity: ...

    def device_memory(self, device: Device) -> tuple[int, int]: ...

    def device_attribute(self, device: Device, name: str) -> int: ...


class Directory(Protocol):
    """`_core.registry`, as devices see it."""

    def resolve(self, spec: DeviceSpec) -> Device: ...

    def part_of(self, device: Device) -> DeviceFacts: ...

    def synchronize_device(self, device: Device) -> None: ...

    def use_device(self, device: Device) -> None: ...

    def enter_device(self, device: Device) -> None: ...


DeviceName: TypeAlias = "str | int | Device | TorchDevice | CupyDevice"
DeviceSpec: TypeAlias = "DeviceName | None"
"""Specifications that `Device` and every ``device=`` take; None is the current device."""

directory: Directory = cast("Any", None)
"""`xferlib._core.registry` sets it when it is imported, before there is any device."""


class Device(blocks.Enterable):
    """A device of a backend: ``cupy:cuda:0``, ``torch:cpu``, ``numpy:cpu``.

    Equal devices are the same object. As a context manager it makes an accelerator, and its
    backend, current for this thread and asyncio task: in xferlib, in the native library, and in each other library
    of the process that xferlib has met on the same accelerators. A CPU device does nothing there,
    so that the same code runs on both.

    Args:
        spec: ``"cupy:cuda:0"``; ``"cuda:1"``, ``"cpu"`` or an ``int`` for the current backend;
            None for the current device; or the device object of PyTorch or CuPy. NumPy integers are
            refused: ``a[0]`` is not a device. Every ``device=`` takes the same, which annotations call DeviceSpec.

    Raises:
        DeviceNotFoundError: ``spec`` cannot be read, or the device does not exist.
        BlockError: A block is left twice, by another task, or before one within it.
    """

    __slots__ = ("backend", "index", "kind")

    backend: str
    kind: str
    index: int

    def __new__(cls, spec: DeviceSpec = None) -> Device:
        return directory.resolve(spec)

    @classmethod
    def _of(cls, backend: str, kind: str, index: int) -> Device:
        key = (backend, kind, index)
        device = _interned.get(key)
        if device is None:
            device = object.__new__(cls)
            object.__setattr__(device, "backend", backend)
            object.__setattr__(device, "kind", kind)
            object.__setattr__(device, "index", index)
            device = _interned.setdefault(key, device)
        return device

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Device is a value: {name!r} cannot be set; make another with xferlib.Device(...)")

    def __reduce__(self) -> tuple[Any, tuple[str, str, int]]:
        return (Device._of, (self.backend, self.kind, self.index))

    def __copy__(self) -> Device:
        return self

    def __deepcopy__(self, memo: Any) -> Device:
        return self

    def __str__(self) -> str:
        return f"{self.backend}:{self.kind}" if self.kind == "cpu" else f"{self.backend}:{self.kind}:{self.index}"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            checks.refuse(self, name, checks.DEVICE_NAMES)

    @property
    def properties(self) -> DeviceProperties:
        """Name, memory in bytes, compute capability."""
        return directory.part_of(self).device_properties(self)

    @property
    def total_memory(self) -> int:
        """Memory of the device in bytes; of a CPU that of the machine, 0 where the system does not say."""
        return directory.part_of(self).device_memory(self)[1]

    @property
    def free_memory(self) -> int:
        """Bytes that no process has allocated now; what a library's pool keeps for reuse is not free."""
        return directory.part_of(self).device_memory(self)[0]

    @property
    def uuid(self) -> str:
        """The device's own name, the same in every process: ``"GPU-..."`` as nvidia-smi has it; empty for a CPU."""
        return directory.part_of(self).device_identity(self).uuid

    @property
    def pci_bus_id(self) -> str:
        """Where the device is plugged in, such as ``"0000:3B:00.0"``; empty for a CPU."""
        return directory.part_of(self).device_identity(self).pci_bus_id

    def attribute(self, name: str) -> int:
        """A number that CUDA's driver knows of the device: ``attribute("max_threads_per_block")``.

        Args:
            name: A ``CU_DEVICE_ATTRIBUTE_...`` of the driver API, in any case, with or without that prefix.

        Raises:
            ArgumentError: There is no such attribute.
            UnsupportedError: The device is a CPU.
        """
        if not isinstance(name, str):
            raise ArgumentError(
                f"{self}: attribute {quote(name)} is not a name; give one such as 'max_threads_per_block'"
            )
        return directory.part_of(self).device_attribute(self, attribute_name(name))

    def synchronize(self) -> None:
        """Block until all work on the device is done."""
        directory.synchronize_device(self)

    def use(self) -> Device:
        """Make this device, and its backend, current for this thread from now on."""
        directory.use_device(self)
        return self

    def __enter__(self) -> Device:
        directory.enter_device(self)
        return self


def attribute_name(name: str) -> str:
    """The name of a device's attribute as backends have it: in lower case, without the driver's prefix."""
    return name.lower().removeprefix("cu_device_attribute_")


def make_device(backend: str, kind: str, index: int = 0) -> Device:
    """The device object, for backends: not checked against what exists."""
    return Device._of(backend, kind, index)


# The native objects of a backend as shared code sees them: streams, events, pinned memory, kernels, C functions.


class RawStream:
    """A stream as a backend sees it: the handle, and the objects that own it.

    ``native`` is the array library's stream object, ``core`` the ``cuda.core.Stream``; both are
    None on a CPU. The raw stream keeps them, and so the CUDA stream, alive. ``capture`` is the open capture that it
    belongs to. ``scratch`` is memory that kernels in the order of the stream share: its bytes, address and array.
    ``switch`` makes it the library's current stream, where that is one call of C.
    """

    __slots__ = ("__weakref__", "capture", "core", "device", "handle", "native", "scratch", "switch")

    def __init__(self, handle: int, device: Device, *, native: Any = None, core: Any = None) -> None:
        self.handle = handle
        self.device = device
        self.native = native
        self.core = core
        self.capture: Capture | None = None
        self.scratch: tuple[int, int, Any] | None = None
        self.switch: Callable[[], Any] | None = None

    def __repr__(self) -> str:
        return f"<RawStream {self.handle:#x} on {self.device}>"

    def convert_for(self, backend: Any) -> RawStream:
        """The stream as ``backend`` has it: only that can be given to its library's functions."""
        if self.device.backend == backend.name:
            return self
        device = make_device(backend.name, self.device.kind, self.device.index)
        found: RawStream = backend.stream_wrap(self.handle, device)
        return found


class Capture:
    """The work of one stream, and of those that waited for it, between the two ends of a block.

    Args:
        origin: The stream.
    """

    __slots__ = ("is_open", "kept", "postponed", "streams")

    def __init__(self, origin: RawStream) -> None:
        self.streams: list[RawStream] = []
        self.kept: list[Any] = []
        """Kept as long as the graph exists: its work uses it."""
        self.postponed: list[Any] = []
        """Kept until the capture ends: it cannot be destroyed before."""
        self.is_open = True
        self.join(origin)
        opened.append(self)
        process.bump_epoch()

    @property
    def origin(self) -> RawStream:
        return self.streams[0]

    def join(self, stream: RawStream) -> None:
        """Another stream waits for work of this capture, and so belongs to it."""
        stream.capture = self
        self.streams.append(stream)

    def keep(self, *objects: Any) -> None:
        self.kept += objects

    def close(self) -> None:
        self.is_open = False
        opened.remove(self)
        for stream in self.streams:
            stream.capture = None
        self.postponed.clear()
        process.bump_epoch()


opened: list[Capture] = []
"""The captures that are open now, in any thread."""
reset_in_child(opened.clear)


def refuse_device(call: str, device: Device) -> None:
    """Refuse a wait for a whole device on which a stream is captured, in whichever thread: the driver has no such wait.

    Raises:
        CaptureError: There is one.
    """
    if any(each.origin.device is device for each in opened):
        raise make_capture_error(call, device)


def make_capture_error(call: str, device: Device) -> CaptureError:
    """The error of a call that a capture does not allow."""
    return CaptureError(
        f"{call}: a stream of {device} is being captured, so that its work is not done before graph.launch(); "
        "call it before the capture, or after the launch"
    )


def make_pageable_capture_error(device: Device) -> CaptureError:
    """The error of a copy of pageable memory on a stream that a graph records, as another library may let it."""
    return CaptureError(
        f"a graph records a stream of {device}, and cannot copy pageable memory; copy before the recording, or between "
        "arrays made with pinned_empty() in xferlib.Stream.capture()"
    )


PER_THREAD = 2
"""The handle by which CUDA names the calling thread's own default stream.

Another thread that uses it means another stream. So no other thread may enqueue what a thread has asked for on it.
"""
_DEFAULTS = {0: "default stream", 1: "legacy default stream", PER_THREAD: "per-thread default stream"}
"""By the handles that CUDA gives them."""


def stream_text(handle: int, device: Device) -> str:
    """A stream in words."""
    if device.kind == "cpu":
        return f"<Stream on {device}, where all work is in order>"
    if handle in _DEFAULTS:
        return f"<Stream: the {_DEFAULTS[handle]} of {device}>"
    return f"<Stream {handle if device.kind == 'sim' else hex(handle)} on {device}>"  # reports of `sim` count them


def event_text(device: Device | None, **options: bool) -> str:
    """An event in words, by the device that it was recorded on and by how it was made; asks no device."""
    parts = ["not recorded" if device is None else f"recorded on {device}"]
    parts += ["without timing"] if not options.pop("timing") else []
    return f"<Event {', '.join([*parts, *(name for name, is_on in options.items() if is_on)])}>"


class RawEvent(Protocol):
    """A point in a stream's work. Opaque to shared code."""


class PinnedBlock(Protocol):
    """Page-locked host memory; released when the object dies."""

    pointer: int
    nbytes: int


class RawKernel(Protocol):
    """A compiled kernel, loaded on one device. Opaque to shared code."""


def handle_of(native: Any) -> int | None:
    """The ``cudaStream_t`` of a stream object; PyCUDA's has ``handle`` instead of ``__cuda_stream__``."""
    try:
        protocol = getattr(native, "__cuda_stream__", None)
        found = native if type(native) is int else getattr(native, "handle", None)
        if protocol is not None:
            version, found = protocol() if callable(protocol) else protocol
            if operator.index(version):  # a later version of the protocol, which may mean anything
                return None
        if isinstance(found, (bool, float, complex, str, bytes)):
            return None
        handle = int(found)  # type: ignore[arg-type]  # a handle of cuda.bindings has `__int__` alone
    except Exception:  # a foreign object may raise anything; it is no stream
        return None
    return handle if 0 <= handle < 1 << 64 else None


def call_without_raising(function: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Call a host function in the order of a stream, where nothing could be raised."""
    try:
        function(*args)
    except Exception:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def staging_failure(code: int, stream: RawStream) -> Exception:
    """The error for a result of `StagingCalls` that is not 0, where the backend knows no more than the number."""
    return TransferError(f"a copy on {stream.device} failed with code {code}; `xferlib info` shows the devices")


@dataclass(frozen=True, slots=True)
class StagingCalls:
    """Addresses of C functions that return 0 for success, for staging without the GIL."""

    copy: int
    """``int copy(uint64_t dst, uint64_t src, size_t nbytes, void *stream)``: enqueue, from or to pinned memory."""
    record: int
    """``int record(void *event, void *stream)``; events and streams are passed by their ``handle``."""
    wait: int
    """``int wait(void *event)``: block until the event completes."""
    query: int = 0
    """``int query(void *event)``: 0 where the event is complete; 0: it is always waited for."""
    order: int = 0
    """``int order(void *stream, void *event, unsigned flags)``: make a stream wait for an event; 0: the host waits."""
    enter: int = 0
    """``int enter(void *context)``: each thread calls it before the others; 0 where none is needed."""
    context: int = 0
    """The argument of `enter`."""
    inside: Callable[[], AbstractContextManager[None]] = nullcontext
    """A context manager in which a Python thread may make these calls for the device."""
    failure: Callable[[int, RawStream], BaseException] = staging_failure
    """The error for a result that is not 0."""


class OperationListener(Protocol):
    """Receives the operations of a backend's devices, from a backend that knows them without events."""

    def __call__(
        self,
        kind: str,
        name: str,
        nbytes: int,
        device: str,
        stream: int | str,
        start_s: float,
        end_s: float,
        location: CodeLocation,
    ) -> None:
        """One operation.

        Args:
            kind: A value of `xferlib._core.observe.Kind`.
            name: What it is.
            nbytes: Bytes moved; for a kernel those of its arrays.
            device: Where, such as ``"sim:0"``.
            stream: The stream's handle; for a staging step the name of the thread.
            start_s, end_s: On the clock of `Backend.host_s`.
            location: The line of the program that requested it.
        """
