"""The seam between xferlib's shared code and an array library.

Why backends are shaped so:

- Shared code decides, a backend executes. Arguments arrive checked, layouts normalised, streams and devices chosen, so
  that a method is a few lines and no rule is written twice.
- Pointers are integers, sizes are bytes, arrays are the library's own. Nothing wraps them, and no library has to know
  another's types.
- There are three protocols, abstract where a device cannot do without: `Arrays`, `Streams` and `Copies`. A copy has
  one spelling, `Copies.copy`, between pinned memory and a device; shared code stages everything else.
- What makes it faster is optional and apart: `FastCopies` and `DeviceKernels` are objects that a backend may hand out,
  and `LibraryHooks` have defaults. A backend without them gives the same results. Nor does one without
  `backends.device_math`, but for ``linalg`` and ``fft``, which no kernel of xferlib's replaces.
- A CPU has no streams to speak of, so `HostBackend` answers all of it but how to make an array and see its memory.
- A missing ability is a flag in `Capabilities` with its reason, never an attribute that is not there.

`xferlib.backends` tells how to add one.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from xferlib._core.backend_options import DeviceKernels, FastCopies, LibraryHooks
from xferlib._core.device import DeviceIdentity
from xferlib.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    import numpy as np

    from xferlib._core.array import Array, ArrayInfo
    from xferlib._core.capabilities import Capabilities
    from xferlib._core.device import Device, DeviceProperties
    from xferlib._core.raw import OperationListener, PinnedBlock, RawEvent, RawStream


class _Named:
    name: str
    """Registry name = import name = file name = extra."""
    capabilities: Capabilities

    def _unsupported(self, ability: str) -> UnsupportedError:
        return UnsupportedError(f"backend {self.name!r}: {self.capabilities.reason(ability)}")


class Arrays(_Named, LibraryHooks, ABC):
    """The library, its devices and its arrays."""

    array_types: tuple[str, ...]
    """Dotted names of the array types, matched along the MRO without importing the library."""

    def __repr__(self) -> str:
        try:
            found = ", ".join(map(str, self.devices()))
        except Exception:  # of a backend that is being made, or whose library fails
            found = "devices that cannot be listed"
        return f"<Backend {getattr(self, 'name', '?')!r} on {found}>"

    def namespace(self) -> ModuleType:
        """The library's Array-API namespace."""
        raise self._unsupported("namespace")

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """Every device, the default one first."""

    @abstractmethod
    def device_properties(self, device: Device) -> DeviceProperties: ...

    def device_identity(self, device: Device) -> DeviceIdentity:
        """Its own name and where it is plugged in; empty where neither is known."""
        return DeviceIdentity()

    def device_memory(self, device: Device) -> tuple[int, int]:
        """Free and total memory in bytes; the default knows the total alone."""
        return 0, self.device_properties(device).total_nbytes

    def device_attribute(self, device: Device, name: str) -> int:
        """The attribute ``name`` of CUDA's driver, in lower case and without its prefix.

        Raises:
            ArgumentError: There is none of that name.
        """
        raise self._unsupported("device_attributes")

    @abstractmethod
    def device_current(self) -> Device:
        """The library's current device, for this thread."""

    @abstractmethod
    def device_use(self, device: Device) -> None:
        """Make ``device`` the library's current one, for this thread."""

    def device_at(self, pointer: int) -> Device:
        """The device that holds memory at an address which the library need not know; the current one for 0."""
        return self.device_current()

    def attach(self, device: Device) -> None:
        """Make ``device`` usable from this thread; refuse a context that is not the primary one."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> Array:
        """An uninitialised C-contiguous array from the library's own pool, valid in ``stream``'s order."""

    @abstractmethod
    def view(self, array: Array) -> ArrayInfo: ...

    def host_view(self, array: Array) -> np.ndarray[Any, Any]:
        """A writable NumPy array over the memory of an array on a CPU device."""
        raise self._unsupported("host_view")

    @abstractmethod
    def subarray(self, slab: Array, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A C-contiguous array inside ``slab``, ``offset`` bytes in; ``slab`` is one-dimensional uint8."""

    def strided_view(
        self, array: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Array:
        """An array over the memory of ``array``, ``offset`` bytes from its first element."""
        raise self._unsupported("namespace")

    def over(self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, owner: Any) -> Array:
        """A C-contiguous array over memory that the library did not allocate, which ``owner`` keeps alive."""
        raise self._unsupported("foreign_memory")


class Streams(_Named, ABC):
    """Streams of devices, and events on them. Methods that enqueue return at once."""

    @abstractmethod
    def stream_create(self, device: Device, *, non_blocking: bool, priority: int) -> RawStream: ...

    def stream_wrap(self, handle: int, device: Device, *, native: Any = None) -> RawStream:
        """Adopt a stream by its handle; ``native`` is the object that keeps it alive."""
        raise self._unsupported("foreign_streams")

    @abstractmethod
    def stream_current(self, device: Device) -> RawStream: ...

    def stream_handle(self, device: Device) -> int:
        """The handle of `stream_current`: read at every kernel call."""
        return self.stream_current(device).handle

    @abstractmethod
    def stream_use(self, stream: RawStream) -> None:
        """Make ``stream`` the library's current one on its device, for this thread."""

    @abstractmethod
    def stream_synchronize(self, stream: RawStream) -> None: ...

    def stream_done(self, stream: RawStream) -> bool:
        """Whether all work enqueued on ``stream`` is complete."""
        return self.event_done(self.event_record(stream, timing=False))

    def stream_is_recorded(self, stream: RawStream) -> bool:
        """Whether a graph records the work of ``stream``, ours or another library's."""
        return stream.capture is not None

    def stream_options(self, stream: RawStream) -> tuple[int, bool]:
        """Its priority, and whether it runs beside the legacy default stream."""
        return 0, False

    def stream_call(self, stream: RawStream, function: Callable[[], None]) -> None:
        """Enqueue ``function``, which raises nothing, on the host; the default waits for the stream and calls it."""
        self.stream_synchronize(stream)
        function()

    def capture_begin(self, stream: RawStream) -> None:
        """From now on record what is enqueued on ``stream``, which is none of the default ones, without doing it."""
        raise self._unsupported("graphs")

    def capture_end(self, stream: RawStream) -> Callable[[RawStream], None] | None:
        """End the recording, even if this raises; return the function that enqueues the work, None for no work."""
        raise self._unsupported("graphs")

    def follows_launches(self, stream: RawStream) -> bool:
        """Whether a launch on ``stream`` follows that of the same graph on any other without an event.

        The stream then exists as long as the process, so that an event after the launch can be recorded at any time.
        """
        return False

    @abstractmethod
    def device_synchronize(self, device: Device) -> None: ...

    @abstractmethod
    def event_record(self, stream: RawStream, *, timing: bool, event: RawEvent | None = None) -> RawEvent:
        """Record a new event, or ``event`` again: the caller knows that nothing waits for its previous record."""

    def event_make(self, device: Device, *, timing: bool, blocking: bool, interprocess: bool) -> RawEvent | None:
        """An event for `event_record` to record; None where one is like another."""
        if interprocess:
            raise self._unsupported("interprocess_events")
        return None

    def event_ipc_handle(self, event: RawEvent) -> bytes:
        """The name of an event made with ``interprocess=True``, for `event_open` in another process."""
        raise self._unsupported("interprocess_events")

    def event_open(self, device: Device, handle: bytes) -> RawEvent:
        """An event of another process."""
        raise self._unsupported("interprocess_events")

    @abstractmethod
    def event_wait(self, stream: RawStream, event: RawEvent) -> None: ...

    def event_unrecorded(self, stream: RawStream) -> None:
        """Note that ``stream`` was told to wait for an event never recorded: a no-op, as in CUDA."""

    @abstractmethod
    def event_done(self, event: RawEvent) -> bool: ...

    @abstractmethod
    def event_synchronize(self, event: RawEvent) -> None: ...

    @abstractmethod
    def event_elapsed_ms(self, start: RawEvent, end: RawEvent) -> float: ...

    # --- recording

    def report_to(self, listener: OperationListener | None) -> bool:
        """Tell ``listener`` what the devices do from now on; None ends that.

        Returns:
            False if the backend does not know by itself, as usual: events on its streams tell.
        """
        return False

    def host_s(self) -> float:
        """The time on the host's clock, in seconds; of a simulated machine on its own clock."""
        return time.perf_counter()


class Copies(_Named, ABC):
    """Page-locked memory, and copies between it and devices."""

    pinned_domain: str
    """Backends of one domain share pinned memory, pointers, streams and events."""

    @abstractmethod
    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        """Enqueue a copy between pinned host memory and device memory, in any combination."""

    def reaches(self, device: Device, other: Device) -> bool:
        """Whether a copy on ``device`` reads memory of ``other``, of this domain, directly; else it is staged."""
        return True

    @abstractmethod
    def pinned_alloc(self, nbytes: int) -> PinnedBlock: ...

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        """Page-lock memory where it lies."""
        raise self._unsupported("pinned_memory")

    def pinned_unregister(self, pointer: int) -> None:
        """Undo `pinned_register`."""
        raise self._unsupported("pinned_memory")

    def is_pinned(self, pointer: int) -> bool:
        """Whether host memory is page-locked, by xferlib or by any other code."""
        return False


class Backend(Arrays, Streams, Copies):
    """An array library with its devices: every method takes devices of this backend only."""

    fast: FastCopies | None = None
    """Copies in fewer steps; a backend that has them is usually its own: ``self.fast = self``."""
    kernels: DeviceKernels | None = None
    """Compiles and launches CUDA source; usually the backend itself, as above."""
    products: Any = None
    """A `backends.device_math.MatrixProducts`, for namespaces that xferlib makes; without it kernels multiply."""
    function_library: Any = None
    """A `backends.device_math.FunctionLibrary`, for ``linalg`` and ``fft``; `Capabilities.why` may say why not."""
    sorting: Any = None
    """A `backends.device_math.DeviceSorting`, likewise; without it kernels sort."""

    def at(self, device: Device) -> Backend:
        """The part of the backend that serves ``device``: a library on CPU and GPU has two."""
        return self
