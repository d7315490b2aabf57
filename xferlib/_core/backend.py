"""The seam between xferlib's shared code and an array library.

A backend executes primitives and decides nothing: arguments arrive validated, layouts normalised,
streams and devices settled. Pointers are plain integers; sizes are bytes; an array is whatever
the library calls an array. `xferlib.backends` explains how to add one.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.matching import matching
from xferlib.errors import TransferError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from xferlib._core.array import Array, ArrayInfo
    from xferlib._core.capabilities import Capabilities
    from xferlib._core.device import Device, DeviceProperties
    from xferlib._core.raw import OperationListener, PinnedBlock, RawEvent, RawKernel, RawStream, StagingCalls


class Backend(ABC):
    """The primitives that shared code is built from.

    Every method takes devices of this backend only. Methods that enqueue return at once where
    ``capabilities.streams``, else when done. A method without ``@abstractmethod`` is optional: shared
    code calls it only where `capabilities` promises it.
    """

    name: str
    """Registry name = import name = file name = extra."""
    array_types: tuple[str, ...]
    """Dotted names of the array types, matched along the MRO without importing the library."""
    pinned_domain: str
    """Backends of one domain share pinned memory, pointers, streams and events."""
    capabilities: Capabilities
    follows_writes: bool = False
    """Whether the library wants to know of writes past it: see `note_write`."""
    has_made_streams: bool = False
    """Whether an array may belong to another stream than the default one, so that `consumed` has something to say."""
    survives_fork: bool = False
    """Whether a part of the backend works in a forked child; the other part raises ForkError by itself."""

    def at(self, device: Device) -> Backend:
        """The part of the backend that serves ``device``: a library on CPU and GPU has two."""
        return self

    # --- the library and its devices

    @abstractmethod
    def namespace(self) -> ModuleType:
        """The library's Array-API namespace."""

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """Every device, the default one first."""

    @abstractmethod
    def device_properties(self, device: Device) -> DeviceProperties: ...

    @abstractmethod
    def device_current(self) -> Device:
        """The library's current device, for this thread."""

    @abstractmethod
    def device_use(self, device: Device) -> None:
        """Make ``device`` the library's current one, for this thread."""

    @abstractmethod
    def device_synchronize(self, device: Device) -> None: ...

    @abstractmethod
    def attach(self, device: Device) -> None:
        """Make ``device`` usable from this thread; refuse a context that is not the primary one."""

    # --- arrays

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> Array:
        """An uninitialised C-contiguous array from the library's own pool, valid in ``stream``'s order."""

    @abstractmethod
    def view(self, array: Array) -> ArrayInfo: ...

    def host_view(self, array: Array) -> np.ndarray[Any, Any]:
        """A NumPy array over the memory of an array on a CPU device."""
        raise self._unsupported("host_view")

    def resolved(self, array: Array) -> Array:
        """``array`` with anything that its library does lazily done; usually ``array`` itself."""
        return array

    def detached(self, array: Array) -> Array:
        """``array`` as mere memory: without the history that its library keeps for derivatives."""
        return array

    def note_write(self, array: Array, what: str) -> None:
        """``array`` is about to be written past its library.

        Args:
            array: The array.
            what: Its name for an error, such as ``"kernel(): output 'y'"``.

        Raises:
            LayoutError: The library's own operations would refuse to write it.
        """

    @abstractmethod
    def subarray(self, slab: Array, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A C-contiguous array inside ``slab``, ``offset`` bytes in; ``slab`` is one-dimensional uint8."""

    def subarrays(
        self, slab: Array, offset: int, count: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> list[Array]:
        """``count`` arrays of one shape and dtype, one behind the other in ``slab``."""
        nbytes = math.prod(shape) * dtype.itemsize
        return [self.subarray(slab, offset + index * nbytes, shape, dtype) for index in range(count)]

    def consumed(self, array: Array, stream: RawStream) -> None:
        """``array``, allocated on another stream, is used on ``stream``: its memory must outlive that use."""

    def guarded(self, array: Array, stream: RawStream) -> Array:
        """``array``, made by the library on ``stream``, whose memory then outlives all uses told by `consumed`."""
        return array

    def kept(self, objects: tuple[Any, ...], event: RawEvent) -> tuple[Any, ...]:
        """Return those of ``objects`` that shared code must hold until ``event`` completes; usually all.

        A backend whose memory outlives its arrays in stream order by itself returns fewer.
        """
        return objects

    # --- memory and copies

    def pinned_alloc(self, nbytes: int) -> PinnedBlock:
        raise self._unsupported("pinned_memory")

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        raise self._unsupported("pinned_memory")

    def pinned_unregister(self, pointer: int) -> None:
        raise self._unsupported("pinned_memory")

    def is_pinned(self, pointer: int) -> bool:
        """Whether host memory is page-locked, by xferlib or by any other code."""
        return False

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        """Enqueue a copy between pinned host memory and device memory, in any combination."""
        raise self._unsupported("streams")

    def staging_calls(self, device: Device) -> StagingCalls | None:
        """C functions for staging plain bytes; None where only Python can do it."""
        return None

    def inside(self, device: Device) -> AbstractContextManager[None]:
        """A context manager in which driver calls of this thread may use streams and memory of ``device``."""
        return nullcontext()

    def staging_error(self, code: int, stream: RawStream) -> Exception:
        """The error for a result of `staging_calls` that is not 0."""
        return TransferError(f"a copy on {stream.device} failed with code {code}; `xferlib info` shows the devices")

    def takes_pageable(self, stream: RawStream, *, idle: bool) -> bool:
        """Whether `copy_to_device` and `copy_to_host` are ordered on ``stream``; with ``idle``, at once."""
        return False

    def copy_to_device(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        """Copy ordinary host memory by the driver's own staging; ``src`` has been read on return.

        Returns:
            False if the driver does not take this memory; nothing has been copied.
        """
        raise self._unsupported("pinned_memory")

    def twin(self, array: Array, host: np.ndarray[Any, Any]) -> int:
        """The address of ``array``, on a device, if the bytes of ``host`` fill it without change; else 0.

        Shape and dtype are the same, and ``array`` is in C order if ``host`` is, which the caller finds out.
        """
        info = self.view(array)
        is_twin = info.dtype == host.dtype and info.shape == host.shape and info.strides == host.strides
        return info.pointer if is_twin and info.is_writable and info.device.kind != "cpu" else 0

    def send_whole(self, src: np.ndarray[Any, Any], dst: Array, pointer: int, most: int) -> bool:
        """Do a whole blocking upload of at most ``most`` bytes in one step; ``src`` has been read on return.

        Args:
            src: On the host.
            dst: As many bytes in C order, on a device.
            pointer: Of ``dst``.
            most: The limit in bytes.

        Returns:
            False, and nothing done, where that cannot be: ``src`` is not in C order, the stream is busy or another than
            the driver's default, the device is not the current one, or the backend has no such step.
        """
        return False

    def fetch_whole(self, dst: np.ndarray[Any, Any], src: Array, pointer: int, most: int) -> bool:
        """Do a whole blocking download in one step; as `send_whole`, but the stream may be busy."""
        return False

    def copy_to_host(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        """Copy to ordinary host memory by the driver's own staging; complete on return.

        Returns:
            False if the driver does not take this memory; nothing has been copied.
        """
        raise self._unsupported("pinned_memory")

    def copy_recorded(
        self, dst: int, src: int, nbytes: int, *, stream: RawStream, event: RawEvent | None = None
    ) -> RawEvent:
        """`copy`, then `event_record` without timing: one step of staging, as cheap as can be."""
        self.copy(dst, src, nbytes, stream=stream)
        return self.event_record(stream, timing=False, event=event)

    def copy_behind(
        self,
        dst: int,
        src: int,
        nbytes: int,
        *,
        behind: RawStream,
        stream: RawStream,
        event: RawEvent | None = None,
        copied: RawEvent | None = None,
    ) -> tuple[RawEvent, RawEvent]:
        """`copy_recorded` on ``stream``, after the work enqueued so far on ``behind``, a stream of the same device.

        Returns:
            ``event`` or a new one, recorded on that other stream; and ``copied`` or a new one, after the copy.
        """  # fmt: skip
        event = self.event_record(behind, timing=False, event=event)
        self.event_wait(stream, event)
        return event, self.copy_recorded(dst, src, nbytes, stream=stream, event=copied)

    # --- streams and events

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

    @abstractmethod
    def stream_done(self, stream: RawStream) -> bool: ...

    @abstractmethod
    def event_record(self, stream: RawStream, *, timing: bool, event: RawEvent | None = None) -> RawEvent:
        """Record a new event, or ``event`` again: the caller knows that nothing waits for its previous record."""

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

    # --- kernels

    def signature(self, array: Array) -> Hashable:
        """All of an array that a prepared kernel call depends on, its type too, but not its address.

        It is read at every call: a backend whose `view` takes long has a shorter way.
        """
        return (type(array), *self.view(array)[1:])

    def matcher(self, arrays: Sequence[Array]) -> Callable[..., bool]:
        """A function that compares as many arrays with these, one by one: True if the signatures are equal."""
        return matching(self.signature, arrays)

    def operands(self, arrays: Sequence[Array]) -> list[Any]:
        """The arguments of a prepared kernel call for these arrays: addresses on a GPU, NumPy arrays on the CPU."""
        return [self.view(array).pointer for array in arrays]

    def compile(
        self, source: str, *, device: Device, options: tuple[str, ...] = (), names: tuple[str, ...] = ()
    ) -> Any:
        """Machine code (``cubin``) of CUDA C++ for ``device``, with the mangled ``names`` asked for."""
        raise self._unsupported("kernels")

    def load(self, cubin: bytes, *, name: str, device: Device) -> RawKernel:
        """Load the kernel ``name`` from machine code."""
        raise self._unsupported("kernels")

    def launch(
        self,
        kernel: RawKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: int,
        *,
        stream: RawStream,
        shared_nbytes: int = 0,
    ) -> None:
        """Enqueue a kernel; ``params`` is the address of an array of pointers to its arguments."""
        raise self._unsupported("kernels")

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

    def _unsupported(self, ability: str) -> UnsupportedError:
        return UnsupportedError(f"backend {self.name!r}: {self.capabilities.reason(ability)}")
