"""The seam between xferlib's shared code and an array library.

- Shared code decides, a backend executes. Arguments arrive checked, layouts normalised, streams and devices chosen, so
  that a method is a few lines and no rule is written twice.
- Pointers are integers, sizes are bytes, arrays are the library's own. Nothing wraps them, and no library has to know
  another's types.
- `Backend` is the seam: its first page are the methods that a device cannot do without, the others have defaults.
  `HostBackend` answers all but three of the first page for a CPU, which has no streams to speak of.
- A missing ability that programs call is a flag in `Capabilities` with its reason, never an attribute that is not
  there. A fact that a library does not tell, such as `Backend.device_identity`, has a neutral default and no flag.
- What only makes transfers faster is one optional interface, `FastPath`. A backend without it gives the same results,
  and so does one without `FunctionLibrary`, but for ``linalg`` and ``fft``, which no kernel of xferlib's replaces.

`xferlib.backends` tells how to add one.
"""

from __future__ import annotations

import functools
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from xferlib._core.arrays import make_matcher
from xferlib._core.device import DeviceIdentity
from xferlib.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from xferlib._core.arrays import Array, ArrayInfo
    from xferlib._core.device import (
        Capabilities,
        Device,
        DeviceProperties,
        OperationListener,
        PinnedBlock,
        RawEvent,
        RawKernel,
        RawStream,
        StagingCalls,
    )


class Backend(ABC):
    """An array library with its devices: every method takes devices of this backend only."""

    name: str
    """Registry name = import name = file name = extra."""
    array_types: tuple[str, ...]
    """Dotted names of the array types, matched along the MRO without importing the library."""
    capabilities: Capabilities
    pinned_domain: str
    """Backends of one domain share pinned memory, pointers, streams and events."""
    fast: FastPath | None = None
    """Copies in fewer steps; a backend that has them is usually its own: ``self.fast = self``."""

    # --- required: devices and arrays

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
    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> Array:
        """An uninitialised C-contiguous array from the library's own pool, valid in ``stream``'s order."""

    @abstractmethod
    def view(self, array: Array) -> ArrayInfo: ...

    @abstractmethod
    def subarray(self, slab: Array, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A C-contiguous array inside ``slab``, ``offset`` bytes in; ``slab`` is one-dimensional uint8."""

    # --- required: copies and streams; what enqueues returns at once

    @abstractmethod
    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        """Enqueue a copy between pinned host memory and device memory, in any combination."""

    @abstractmethod
    def pinned_alloc(self, nbytes: int) -> PinnedBlock: ...

    @abstractmethod
    def stream_create(self, device: Device, *, non_blocking: bool, priority: int) -> RawStream: ...

    @abstractmethod
    def stream_current(self, device: Device) -> RawStream: ...

    @abstractmethod
    def stream_use(self, stream: RawStream) -> None:
        """Make ``stream`` the library's current one on its device, for this thread."""

    @abstractmethod
    def stream_synchronize(self, stream: RawStream) -> None: ...

    @abstractmethod
    def event_record(self, stream: RawStream, *, timing: bool, event: RawEvent | None = None) -> RawEvent:
        """Record a new event, or ``event`` again: the caller knows that nothing waits for its previous record."""

    @abstractmethod
    def event_wait(self, stream: RawStream, event: RawEvent) -> None: ...

    @abstractmethod
    def event_done(self, event: RawEvent) -> bool: ...

    @abstractmethod
    def event_synchronize(self, event: RawEvent) -> None: ...

    @abstractmethod
    def event_elapsed_ms(self, start: RawEvent, end: RawEvent) -> float: ...

    # --- All that follows has defaults, which suit a library that computes at once and keeps no history.

    products: Any = None
    """A `MatrixProducts`, for namespaces that xferlib makes; without it kernels multiply."""
    function_library: Any = None
    """A `FunctionLibrary`, for ``linalg`` and ``fft``; `Capabilities.why` may say why not."""

    follows_writes: bool = False
    """Whether the library wants to know of writes past it: see `note_write`."""
    has_made_streams: bool = False
    """Whether an array may belong to another stream than the default one, so that `note_use` has something to say."""
    survives_fork: bool = False
    """Whether a part of the backend works in a forked child; the other part raises ForkError by itself."""
    plain_arrays: PlainArrays | None = None
    """How C reads the library's arrays; None: it reads none of them."""

    def __repr__(self) -> str:
        try:
            found = ", ".join(map(str, self.devices()))
        except Exception:  # of a backend that is being made, or whose library fails
            found = "devices that cannot be listed"
        return f"<Backend {getattr(self, 'name', '?')!r} on {found}>"

    def _make_unsupported_error(self, ability: str) -> UnsupportedError:
        return UnsupportedError(f"backend {self.name!r}: {self.capabilities.reason(ability)}")

    def at(self, device: Device) -> Backend:
        """The part of the backend that serves ``device``: a library on CPU and GPU has two."""
        return self

    # --- devices

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
        raise self._make_unsupported_error("device_attributes")

    def device_at(self, pointer: int) -> Device:
        """The device that holds memory at an address which the library need not know; the current one for 0."""
        return self.device_current()

    def attach(self, device: Device) -> None:
        """Make ``device`` usable from this thread; refuse a context that is not the primary one."""

    # --- arrays

    def namespace(self) -> ModuleType:
        """The library's Array-API namespace."""
        raise self._make_unsupported_error("namespace")

    @property
    def asks_each_thread(self) -> bool:
        """Whether each thread has to ask for the namespace, since that does something to the thread."""
        return False

    def hand_out(self) -> None:
        """Note that the program is given an array, the namespace, or a first device in a thread."""

    operators: tuple[str, ...] = ("numpy",)
    """The rules that operators of its arrays can follow, by the names of ``XFERLIB_TORCH_OPERATORS``."""

    def operators_changed(self) -> None:
        """Note that `registry.get_chosen_operators` has another answer in this thread."""

    def device_of(self, array: Array) -> Device:
        """The device of ``array``, which may be of any kind that `view` takes; what `view` refuses may have one too."""
        return self.view(array).device

    def host_view(self, array: Array) -> np.ndarray[Any, Any]:
        """A writable NumPy array over the memory of an array on a CPU device."""
        raise self._make_unsupported_error("host_view")

    def strided_view(
        self, array: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Array:
        """An array over the memory of ``array``, ``offset`` bytes from its first element."""
        raise self._make_unsupported_error("namespace")

    def permuted_axes(self, array: Array, axes: tuple[int, ...]) -> Array:
        """A view with the axes in another order."""
        return array.transpose(*axes)

    def reversed_axes(self, array: Array) -> Array:
        """A view with the axes reversed."""
        return self.permuted_axes(array, tuple(reversed(range(len(array.shape)))))

    def empty_permuted(
        self, shape: tuple[int, ...], order: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream
    ) -> Array:
        """As `empty`, with the axes in another ``order`` in memory, the outermost first."""
        made = self.empty(tuple(shape[axis] for axis in order), dtype, device=device, stream=stream)
        return self.permuted_axes(made, tuple(map(order.index, range(len(order)))))

    def over(self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, owner: Any) -> Array:
        """A C-contiguous array over memory that the library did not allocate, which ``owner`` keeps alive."""
        raise self._make_unsupported_error("foreign_memory")

    def subarrays(self, slab: Array, runs: Iterable[Run]) -> list[Array]:
        """Arrays in ``slab``, an allocation of its own."""
        return [
            self.subarray(slab, run.place + number * run.step, run.shape, run.dtype)
            for run in runs
            for number in range(run.length)
        ]

    cuts_late = False
    """Whether `cutter`'s function takes longer after a pause than to make some arrays."""

    def cutter(self, runs: Sequence[Run]) -> Callable[[Array], list[Array]]:
        """A function that makes such arrays in one slab after the other."""
        return lambda slab: self.subarrays(slab, runs)

    # --- arrays that a library evaluates lazily, or keeps a history of

    def is_lazy(self, array: Array) -> bool:
        """Whether the memory of ``array`` holds other values than its elements, such as those before a conjugation."""
        return False

    def resolved(self, array: Array) -> Array:
        """``array``, or one with its elements in memory where it `is_lazy`, made on the library's current stream."""
        return array

    def detach(self, array: Array) -> Array:
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

    # --- arrays whose memory the library may reuse while another stream still works on it

    def note_use(self, array: Array, stream: RawStream) -> None:
        """Let the memory of ``array``, allocated on another stream, outlive its use on ``stream``."""

    def guard(self, array: Array, stream: RawStream) -> Array:
        """``array``, made by the library on ``stream``, with memory that outlives all uses told by `note_use`."""
        return array

    def select_retained(self, objects: tuple[Any, ...], event: RawEvent) -> tuple[Any, ...]:
        """Return those of ``objects`` that shared code must hold until ``event`` completes; usually all.

        A backend whose memory outlives its arrays in stream order by itself returns fewer.
        """
        return objects

    # --- arrays whose memory the host can read

    def compute_on_host(
        self, name: str, function: Callable[..., None], reads: Sequence[Array], writes: Sequence[Array]
    ) -> bool:
        """Enqueue ``function`` on the current stream, given NumPy arrays over the memory of ``reads`` and ``writes``.

        Returns:
            Whether that was done: False on devices of their own, where a kernel has to compute.
        """
        return False

    def gather(self, x: Array, indices: Sequence[Array], out: Array) -> bool:
        """Enqueue ``out[...] = x[indices]``, for integer arrays, one for each of the first axes of ``x``.

        Returns:
            Whether that was done: False where a kernel has to.

        Raises:
            IndexError: An index is out of range; kernels on a GPU read 0 instead.
        """
        return self.compute_on_host("index", _gather, (x, *indices), (out,))

    def select(self, x: Array, mask: Array) -> Array | None:
        """Enqueue ``x[mask]``, for a mask of the first axes of ``x``, one at least; waits for the values of the mask.

        Returns:
            A new array; None where kernels have to.
        """
        return None

    def scatter(self, x: Array, indices: Sequence[Array], value: Any) -> bool:
        """Enqueue ``x[indices] = value``, likewise; or of a number alone with one mask of the first axes."""
        if isinstance(value, np.generic):
            return self.compute_on_host("assignment", functools.partial(_scatter, value), indices, (x,))
        return self.compute_on_host("assignment", _scatter, (value, *indices), (x,))

    # --- kernels

    def signature(self, array: Array) -> Hashable:
        """All of an array that a prepared kernel call depends on, its type too, but not its address."""
        return (type(array), *self.view(array)[1:])

    def matcher(self, arrays: Sequence[Array]) -> Callable[..., bool]:
        """A function that compares as many arrays with these, one by one: True if the signatures are equal."""
        return make_matcher(self.signature, arrays)

    def operands(self, arrays: Sequence[Array]) -> list[Any]:
        """The arguments of a prepared kernel call for these arrays: addresses on a GPU, NumPy arrays on the CPU."""
        return [self.view(array).pointer for array in arrays]

    def engine(self) -> KernelEngine | None:
        """The functions that run kernels on devices which are neither a CPU nor CUDA's; None, as usual, for these."""
        return None

    def compile(
        self, source: str, *, device: Device, options: tuple[str, ...] = (), names: tuple[str, ...] = ()
    ) -> Any:
        """Machine code (``cubin``) of CUDA C++ for ``device``, with the mangled ``names`` asked for."""
        raise self._make_unsupported_error("kernels")

    def load(self, cubin: bytes, *, name: str, device: Device) -> RawKernel:
        """Load the kernel ``name`` from machine code."""
        raise self._make_unsupported_error("kernels")

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
        raise self._make_unsupported_error("kernels")

    def repeat_launch(
        self,
        kernel: Any, grid: tuple[int, int, int], block: tuple[int, int, int], arrays: Sequence[Any], fields: Any, *,
        device: Device, shared_nbytes: int = 0, cooperative: bool = False,
    ) -> tuple[Callable[[Any, int], int], Callable[[int, Any, int], bool]] | None:  # fmt: skip
        """Two functions that repeat a checked launch; None, as by default, where Python must do it step by step.

        The first takes the arguments and a stream's handle, and returns 0 where the kernel is enqueued. The second
        takes another result and the same two, and ends the launch; it returns False, with nothing done, where they must
        be checked anew. ``arrays`` are those among the checked ones; later ones must be like them. Each of the
        ``fields`` is a `LaunchField` of `xferlib._native`.
        """
        return None

    def repeat_call(
        self,
        launches: Sequence[tuple[Any, int, int, tuple[int, ...]]], arrays: Sequence[Any], fields: Any, arguments: bytes,
        outputs: Sequence[tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...] | None, int, int]], *, device: Device,
        spare: int = 0, given: Any = None, only: RawStream | None = None, others: Callable[..., Any] | None = None,
    ) -> Callable[..., Any] | None:  # fmt: skip
        """A function that makes the outputs of a checked call and launches it in one step; None, as by default, where
        Python must do it step by step.

        It takes the arguments, and returns the outputs, or `NotImplemented` with none of them in use. The launches are
        one or two in order: each a kernel, the numbers of blocks and of threads in each, and where its arguments are in
        the block ``arguments``. Each output has a shape, a dtype, the order of its axes in memory as for
        `empty_permuted`, or None for C order, and two places for its address in the block, which may be the same; the
        last ``spare`` of them are memory for the launches alone. Arrays that are written are among the arguments where
        there is a `GivenOutputs` of `xferlib._native`. It launches on the current stream, whichever that is,
        or on the stream ``only``; then ``others`` takes the calls on the others.
        """
        return None

    # --- streams

    def stream_wrap(self, handle: int, device: Device, *, native: Any = None) -> RawStream:
        """Adopt a stream by its handle; ``native`` is the object that keeps it alive."""
        raise self._make_unsupported_error("foreign_streams")

    def stream_handle(self, device: Device) -> int:
        """The handle of `stream_current`: read at every kernel call."""
        return self.stream_current(device).handle

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
        raise self._make_unsupported_error("graphs")

    def capture_end(self, stream: RawStream) -> Callable[[RawStream], None] | None:
        """End the recording, even if this raises; return the function that enqueues the work, None for no work."""
        raise self._make_unsupported_error("graphs")

    def follows_launches(self, stream: RawStream) -> bool:
        """Whether a launch on ``stream`` follows that of the same graph on any other without an event.

        The stream then exists as long as the process, so that an event after the launch can be recorded at any time.
        """
        return False

    # --- events

    def event_make(self, device: Device, *, timing: bool, blocking: bool, interprocess: bool) -> RawEvent | None:
        """An event for `event_record` to record; None where one is like another."""
        if interprocess:
            raise self._make_unsupported_error("interprocess_events")
        return None

    def event_ipc_handle(self, event: RawEvent) -> bytes:
        """The name of an event made with ``interprocess=True``, for `event_open` in another process."""
        raise self._make_unsupported_error("interprocess_events")

    def event_open(self, device: Device, handle: bytes) -> RawEvent:
        """An event of another process."""
        raise self._make_unsupported_error("interprocess_events")

    def event_unrecorded(self, stream: RawStream) -> None:
        """Note that ``stream`` was told to wait for an event never recorded: a no-op, as in CUDA."""

    # --- copies and page-locked memory

    def reaches(self, device: Device, other: Device) -> bool:
        """Whether a copy on ``device`` reads memory of ``other``, of this domain, directly; else it is staged."""
        return True

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        """Page-lock memory where it lies."""
        raise self._make_unsupported_error("pinned_memory")

    def pinned_unregister(self, pointer: int) -> None:
        """Undo `pinned_register`."""
        raise self._make_unsupported_error("pinned_memory")

    def is_pinned(self, pointer: int) -> bool:
        """Whether host memory is page-locked, by xferlib or by any other code."""
        return False

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


def _gather(x: Any, *indices: Any) -> None:
    indices[-1][...] = x[indices[:-1]]


def _scatter(value: Any, *indices: Any) -> None:
    indices[-1][indices[:-1]] = value


class Run(NamedTuple):
    """Arrays of one kind that follow one another in a slab; sizes in bytes."""

    place: int
    """Where the first begins."""
    step: int
    """From one to the next."""
    length: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class FastPath:
    """Copies in fewer steps than `Backend.copy` between pinned memory and a device.

    Each method may decline, as by default: it returns None or False, nothing has been done, and shared code takes the
    general path, with the same result.
    """

    def staging_calls(self, device: Device) -> StagingCalls | None:
        """C functions for staging plain bytes; None where only Python can do it."""
        return None

    def copy_behind(
        self, dst: int, src: int, nbytes: int, *, behind: RawStream, stream: RawStream, event: RawEvent | None = None,
        copied: RawEvent | None = None, is_mutual: bool = False,
    ) -> RawEvent | None:  # fmt: skip
        """`Backend.copy` on ``stream`` after the work enqueued so far on ``behind``.

        Where it declines, or raises, ``stream`` may wait for that work all the same.

        Args:
            dst, src, nbytes: As for `Backend.copy`.
            behind: Its work comes first; a stream of any device, and of any library of the same pinned domain.
            stream: The stream of the copy, of this backend.
            event: Recorded again on ``behind``; a new one if omitted.
            copied: Recorded after the copy; a new one if omitted.
            is_mutual: Later work on ``behind`` waits for the copy.

        Returns:
            ``copied``, or the new one.
        """
        return None

    def copy_each(self, dsts: list[int], srcs: list[int], sizes: list[int], *, stream: RawStream) -> bool:
        """`Backend.copy` of many, in their order: addresses, and sizes in bytes."""
        return False

    def takes_pageable(self, stream: RawStream, *, idle: bool) -> bool:
        """Whether `copy_to_device` and `copy_to_host` are ordered on ``stream``; with ``idle``, at once."""
        return False

    def copy_to_device(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        """Copy ordinary host memory by the driver's own staging; ``src`` has been read on return.

        Returns:
            False if the driver does not take this memory.
        """
        return False

    def copy_to_host(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        """Copy to ordinary host memory by the driver's own staging; complete on return.

        Returns:
            False if the driver does not take this memory.
        """
        return False

    def direct(self, device: Device) -> DirectCopies | None:
        """Whole copies of small arrays by C alone; None where Python makes them, by the methods below."""
        return None

    def whole(self, array: Array) -> tuple[int, tuple[int, ...], np.dtype[Any]] | None:
        """Address, shape and dtype of an array that lies on a device as it is, in C order; None of any other."""
        return None


class PlainArrays(NamedTuple):
    """How C reads pointer, shape and strides of a library's arrays without calling Python."""

    array_type: type
    """Their exact type."""
    exchange: Any = None
    """The capsule of DLPack's C exchange API, which describes an array; None: `FastPath.whole` does."""
    is_negated: Callable[[Array], bool] | None = None
    """Whether an array stands for the negative of its memory."""
    is_conjugate: Callable[[Array], bool] | None = None
    """Whether an array stands for the conjugate of its memory."""
    recording: Callable[[], Any] | None = None
    """The recorder of the library's operations; its result is None where nothing records them."""
    maker: Callable[[tuple[int, ...], tuple[int, ...], Any], Array] | None = None
    """A function of a shape, steps in elements and a dtype that makes an uninitialised array on the CPU; where it is
    None, or raises RuntimeError, `Backend.empty` makes it."""
    dtypes: tuple[Any, ...] = ()
    """The library's own, in the order of `DTYPES` and then of `SMALL_FLOATS` in `xferlib._core.dtypes`."""
    levels: tuple[dict[str, Any], str, str] | None = None
    """A dict and its key, which holds -1 while no array can have a tangent; and an attribute of arrays, False for one
    that requires no gradient."""
    is_frozen: Callable[[Array], bool] | None = None
    """Whether an array may refuse to be written."""
    count_writes: Callable[[tuple[Array, ...]], object] | None = None
    """Count a write to each of several arrays that have no history: the rest of `Backend.note_write`."""
    make_check: Callable[..., Callable[..., bool] | None] | None = None
    """A function of arrays that C may read; makes one that tells whether others, of the same dtypes and ranks, are such
    too, and nothing records what is done with them: all of the questions above but ``levels`` at once. None: C asks."""
    other_types: tuple[type, ...] = ()
    """Others whose arrays `FastPath.whole` describes, too, though the backend makes none."""


class DirectCopies(NamedTuple):
    """How C copies between plain memory and arrays of a device, on the current stream."""

    send: int
    """The address of ``int send(uint64_t dst, uint64_t src, size_t nbytes)``, in the order of the default stream alone;
    ``src`` has been read on return."""
    fetch: int
    """The address of a function like ``send``, to the host; complete on return."""
    enqueue: int
    """The address of ``int enqueue(uint64_t dst, uint64_t src, size_t nbytes, void *stream)``, an upload behind the
    stream's work of memory that is not pinned; ``src`` has been read on return. 0: there is none."""
    current: int
    """The address of ``int current(void **context)``, which tells the thread's context."""
    query: int
    """The address of ``int query(void *stream)``, which returns 0 for an idle stream."""
    attribute: int
    """The address of ``int attribute(void *answer, unsigned name, uint64_t pointer)``, CUDA's; 0: nothing is pinned."""
    context: int
    """The device's context."""
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Array]
    """A new array on the device, which is current, on its default stream."""
    pointer: Callable[[Array], int]
    stream: Callable[[], int]
    """The handle of the device's current stream; not asked where the library's arrays have an exchange API."""
    is_current: Callable[[], bool] | None
    """Whether the device is the thread's; None where that follows from the context."""
    launch: int = 0
    """The address of a function like CUDA's ``cuLaunchKernel``, which takes the ``handle`` of what `Backend.load`
    returns. 0: kernels are launched by `Backend.launch` alone."""
    fetch_later: int = 0
    """The address of a function like ``enqueue``, to the host; complete when the stream has done it. 0: none."""
    wait: int = 0
    """The address of ``int wait(void *stream)``, until the stream has done its work. 0: other streams than the default
    one are left to Python."""
    is_captured: int = 0
    """The address of ``int is_captured(void *stream, int *status)``, which writes 0 where no graph records the stream.
    0: none ever does."""
    batch: int = 0
    """The address of a function like CUDA's ``cuMemcpyBatchAsync``, which takes no default stream. 0: there is none."""
    beside: int = 0
    """The handle of a stream that waits for the default one, as that does for it. 0: there is none."""
    empty_between: Callable[[tuple[int, ...], np.dtype[Any], RawStream], Array] | None = None
    """A new array of a stream's memory, for work on that stream alone that is enqueued before the array dies. None:
    `Backend.empty` makes it."""
    maker: Callable[[tuple[int, ...], tuple[int, ...], Any], Array] | None = None
    """As `empty`, of shape, steps and the library's own dtype, by a function in C. None: the library has none."""
    maker_on: Callable[[tuple[int, ...], tuple[int, ...], Any], Array] | None = None
    """As `maker`, on a current stream that is not the default one, where `empty_on` does no more."""
    empty_on: Callable[[tuple[int, ...], np.dtype[Any], RawStream | None], Array] | None = None
    """A new array on a stream of the device, which is current; with None on its current stream, which is then not the
    default one. None: `Backend.empty` makes it."""
    memory: tuple[tuple[str, ...], type | None, tuple[str, ...]] | None = None
    """How arrays tell to which stream their memory belongs, a `MemoryPath` of `xferlib._native`; None: they do not."""


# The engine of a backend whose arrays are neither on a CPU nor on a CUDA device.


class Reduce(Protocol):
    """Runs a reduction in its order on the device: ``run(args, results)`` computes it on host memory."""

    def __call__(
        self,
        name: str,
        run: Callable[[Sequence[Any], Sequence[Any]], None],
        args: Sequence[Any],
        results: Sequence[Any],
    ) -> None: ...


class StandIn(Protocol):
    """Runs the NumPy function of a raw kernel in its order on the device.

    ``values`` are the arguments as they are passed by value, ``written`` the arrays that are not ``const``.
    """

    def __call__(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        values: Sequence[Any],
        written: Sequence[Any],
        stream: RawStream,
    ) -> None: ...


class Emulate(Protocol):
    """Runs the source of a raw kernel, an `EmulatedKernel`, in its order on the device; ``written`` as of `StandIn`."""

    def __call__(
        self, name: str, kernel: Any, args: Sequence[Any], written: Sequence[Any], stream: RawStream
    ) -> None: ...


class KernelEngine(NamedTuple):
    """The functions with which a backend runs kernels itself."""

    call: type[Any]
    """The class of checked element-wise calls."""
    reduce: Reduce
    stand_in: StandIn
    emulate: Emulate


# Other libraries for the namespace of a device: products of matrices, linear algebra, transforms.
#
# A backend whose arrays xferlib gives a namespace may have each of these. Shared code prepares the operands, so that
# each method is a few calls of a library.


class Matrices(NamedTuple):
    """Matrices in an array, each row by row; distances are in elements."""

    offset: int
    """Of the first one, in bytes from the array's address."""
    leading: int
    """From one row to the next; from one column to the next where ``is_transposed``."""
    step: int
    """From one matrix to the next; 0: there is one for all."""
    is_transposed: bool = False
    """Whether they lie column by column."""


class Product(NamedTuple):
    """``out = left @ right`` for a batch of matrices of ``rows`` and ``inner``, and of ``inner`` and ``columns``."""

    dtype: np.dtype[Any]
    """Of all three, float or complex; float16 is summed in float32."""
    batch: int
    rows: int
    inner: int
    columns: int
    left: Matrices
    right: Matrices
    out: Matrices


class Multiply(Protocol):
    """Multiplies the matrices of arrays, which are given by their addresses."""

    def __call__(self, left: int, right: int, out: int, *, stream: RawStream) -> None: ...


class MatrixProducts(Protocol):
    """A library that multiplies matrices."""

    def multiplier(self, product: Product) -> Multiply:
        """Prepare the multiplication of matrices that lie so in three arrays."""


class FunctionLibrary(Protocol):
    """Another array library, which computes over the memory of a backend's arrays."""

    namespace: Any
    """Its module with ``linalg`` and ``fft``, whose functions are NumPy's."""

    def inside(self, stream: RawStream) -> AbstractContextManager[None]:
        """For a block: its functions enqueue on ``stream``, and raise ``LinAlgError`` for a singular matrix."""

    def view(self, info: ArrayInfo) -> Any:
        """One of its arrays over the memory of an array in C order."""
