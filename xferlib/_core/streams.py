"""Streams and events, in the field's words; the native library follows ``with stream:``."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np

from xferlib._core import blocks, observe, registry
from xferlib._core.device import (
    Capture,
    Device,
    DeviceSpec,
    call_without_raising,
    event_text,
    handle_of,
    make_capture_error,
    opened,
    stream_text,
)
from xferlib._core.dtypes import BINARY_OPERATORS
from xferlib._core.observe import Kind
from xferlib._runtime import checks
from xferlib._runtime.checks import refuse_no_flag
from xferlib._runtime.process import reset_in_child
from xferlib._runtime.threads import deferred, wait_in_task
from xferlib.errors import (
    ArgumentError,
    CaptureError,
    ContextError,
    StreamError,
    StreamTypeError,
    UnsupportedArrayError,
    UnsupportedError,
    quote,
)

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import RawEvent, RawStream


# Objects that belong to a process: a copy is the object itself, and another process makes its own.


class ProcessBound:
    """The base of objects that stand for something of this process's driver."""

    __slots__ = ()
    _elsewhere = ""
    """The remedy of the message: it says how another process gets such an object."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise StreamTypeError(
            f"{type(self).__name__} objects belong to their process and cannot be pickled; {self._elsewhere}"
        )


# Open captures of streams, whose work is recorded for a graph instead of being done: see `Graph`.
#
# A stream that is captured has its `Capture` as ``RawStream.capture``. Code that waits for a stream, or asks it, calls
# `refuse` first: on a GPU such a call would spoil the capture. Code that keeps objects until an event keeps them in the
# capture instead, as long as the graph exists.


class RecordedWork:
    """The operations of some streams in the order in which they were given, for backends that repeat them one by one.

    Args:
        origin: The stream that is captured.
    """

    __slots__ = ("_steps", "kept", "origin")

    def __init__(self, origin: Any) -> None:
        self.origin = origin
        self.kept: list[Any] = []
        """Arrays that the operations use."""
        self._steps: list[tuple[Any, Callable[[Any, dict[int, Any]], None]]] = []

    def add(self, stream: Any, step: Callable[[Any, dict[int, Any]], None]) -> None:
        """Note an operation: called with the stream that takes the place of its own, and the events recorded so far."""
        self._steps.append((stream, step))

    @property
    def is_empty(self) -> bool:
        return not self._steps

    @property
    def others(self) -> list[Any]:
        """The streams besides the first one."""
        return [each for each in dict.fromkeys(stream for stream, _ in self._steps) if each is not self.origin]

    def repeat(self, streams: Mapping[Any, Any]) -> None:
        """Give all operations to other streams; ``streams`` has one in the place of each."""
        events: dict[int, Any] = {}
        for stream, step in self._steps:
            step(streams[stream], events)


def make_unjoined_error(doing: str) -> CaptureError:
    """The error for a capture that leaves work of a stream which has waited for the captured one."""
    return CaptureError(
        f"{doing}: another stream has waited for the captured one, and its work was not waited for; call "
        "stream.wait(other) before the block ends"
    )


def refuse(call: str, stream: RawStream) -> None:
    """Refuse a call on a stream that is captured.

    Raises:
        CaptureError: It is.
    """
    if stream.capture is not None:
        raise make_capture_error(call, stream.device)


def refuse_current(call: str, backend: Backend, device: Device) -> None:
    """Refuse a call that works on streams of its own, where the calling thread captures its current one.

    Raises:
        CaptureError: It does.
    """
    if opened:
        refuse(call, backend.stream_current(device))


# xferlib's own streams for asynchronous copies: one a device and direction, so that both copy engines can run.

streams: dict[tuple[Device, str], RawStream] = {}


_lock = threading.RLock()  # reentrant: a finalizer may run inside


def copy_stream(backend: Backend, device: Device, direction: str) -> RawStream:
    """xferlib's own stream for asynchronous copies in one direction, so that both engines can run."""
    key = (device, direction)
    stream = streams.get(key)
    if stream is None:
        with _lock:
            stream = streams.get(key)
            if stream is None:
                stream = backend.stream_create(device, non_blocking=True, priority=0)
                streams[key] = stream
    return stream


reset_in_child(streams.clear)


def copy_behind(
    backend: Backend,
    dst: int,
    src: int,
    nbytes: int,
    *,
    behind: RawStream,
    stream: RawStream,
    event: RawEvent | None,
    copied: RawEvent | None = None,
) -> tuple[RawEvent, RawEvent]:
    """Enqueue one copy on ``stream`` after the work enqueued so far on ``behind``, a stream of the same device.

    Returns:
        ``event`` or a new one, recorded on ``behind``; and ``copied`` or a new one, recorded after the copy.
    """
    if backend.fast is not None and event is not None:
        done = backend.fast.copy_behind(dst, src, nbytes, behind=behind, stream=stream, event=event, copied=copied)
        if done is not None:
            return event, done
    event = backend.event_record(behind, timing=False, event=event)
    backend.event_wait(stream, event)
    backend.copy(dst, src, nbytes, stream=stream)
    return event, backend.event_record(stream, timing=False, event=copied)


# Events: points in the work of streams.


class Event(ProcessBound):
    """A point in a stream's work. ``await event`` waits for it as `synchronize`, while the event loop runs other tasks.

    Args:
        timing: Whether `elapsed_ms` can be asked; recording is a little cheaper without.
        blocking: A thread that waits sleeps, where the driver would poll.
        interprocess: Other processes may wait for it: see `ipc_handle`. It belongs to one device, and has no timing.

    Raises:
        ArgumentError: ``interprocess`` and ``timing`` together, or what is not a flag.
    """

    __slots__ = ("_backend", "_capture", "_device", "_raw", "blocking", "interprocess", "timing")
    _elsewhere = "send ipc_handle() of an Event(interprocess=True), and open it there: Event.from_ipc_handle(handle)"

    def __init__(self, *, timing: bool | None = None, blocking: bool = False, interprocess: bool = False) -> None:
        timing = interprocess is False if timing is None else timing
        for name, flag in (("timing", timing), ("blocking", blocking), ("interprocess", interprocess)):
            refuse_no_flag(flag, f"Event: {name}")
        if timing and interprocess:
            raise ArgumentError("Event: interprocess events have no timing; leave timing=True out")
        self.timing = timing
        self.blocking = blocking
        self.interprocess = interprocess
        self._backend: Backend | None = None
        self._raw: RawEvent | None = None
        self._device: Device | None = None
        self._capture: Capture | None = None
        """The capture in which it was recorded last."""

    @classmethod
    def from_ipc_handle(cls, handle: bytes, device: DeviceSpec = None) -> Event:
        """The event of another process, by its `ipc_handle`; ``device`` is where it was recorded.

        Raises:
            UnsupportedError: The device's events cannot be shared.
        """
        target = registry.get_device(device)
        event = cls(interprocess=True)
        backend = registry.part_of(target)
        event._raw = backend.event_open(target, handle)
        event._backend, event._device = backend, target
        return event

    def ipc_handle(self) -> bytes:
        """The bytes by which another process opens this event; it must have been recorded once.

        Raises:
            StreamError: It was not made with ``interprocess=True``, or has not been recorded.
        """
        if not self.interprocess or self._backend is None:
            raise StreamError("ipc_handle needs a recorded event made with interprocess=True; record it first")
        return self._backend.event_ipc_handle(self._raw)

    def _record(self, backend: Backend, raw: RawStream) -> None:
        """Record this event on a stream."""
        made = None
        if self.blocking or self.interprocess:
            if self._device is raw.device:
                made = self._raw
            elif self.interprocess and self._device is not None:
                raise StreamError(f"an interprocess event of {self._device} is not for {raw.device}; make another")
            else:
                made = backend.event_make(
                    raw.device, timing=self.timing, blocking=self.blocking, interprocess=self.interprocess
                )
        self._raw = backend.event_record(raw, timing=self.timing, event=made)
        self._backend, self._device = backend, raw.device
        self._capture = raw.capture

    def _refuse_captured(self, call: str) -> None:
        if self._capture is not None:
            assert self._device is not None
            raise make_capture_error(call, self._device)

    @property
    def is_done(self) -> bool:
        """Whether the recorded work has finished; True before the first record, as in CUDA."""
        self._refuse_captured("Event.is_done")
        return self._backend is None or self._backend.event_done(self._raw)

    def synchronize(self) -> None:
        """Block until the recorded work has finished."""
        self._refuse_captured("Event.synchronize")
        if self._backend is not None:
            self._await(self._backend)

    def __await__(self) -> Generator[Any, None, None]:
        return wait_in_task(self.synchronize)

    @observe.user_call(lambda self, backend: (backend, 0))
    def _await(self, backend: Backend) -> None:
        backend.event_synchronize(self._raw)

    def elapsed_ms(self, start: Event) -> float:
        """Milliseconds on the device from ``start`` to this event; blocks until both are complete.

        Raises:
            StreamTypeError: ``start`` is not an event.
            StreamError: One of the two has not been recorded, or was made with ``timing=False``; or they were recorded
                on two devices, whose clocks differ.
        """
        check_event(start, "elapsed_ms: start")
        for event in (start, self):
            event._refuse_captured("Event.elapsed_ms")
            if event._backend is None or not event.timing:
                raise StreamError(
                    "elapsed_ms needs two recorded events made with timing=True; "
                    f"{'the start' if event is start else 'this one'} is not: Event(timing=True), then stream.record()"
                )
        assert self._backend is not None
        clocks = {(each._backend.pinned_domain, each._device.index) for each in (start, self)}  # type: ignore[union-attr]
        if len(clocks) > 1:
            raise StreamError(
                f"elapsed_ms: the start was recorded on {start._device} and this event on {self._device}, whose clocks "
                "differ; record both on one device"
            )
        start.synchronize()  # it may lie on another stream, and come later
        self.synchronize()
        return self._backend.event_elapsed_ms(start._raw, self._raw)

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            checks.refuse(self, name, checks.EVENT_NAMES)

    def __repr__(self) -> str:
        return event_text(self._device, timing=self.timing, blocking=self.blocking, interprocess=self.interprocess)


def check_event(event: object, what: str) -> None:
    """Refuse what is not an event.

    Raises:
        StreamTypeError: It is none.
    """
    if not isinstance(event, Event):
        raise StreamTypeError(f"{what} is {type(event).__name__}, not an Event; make one with xferlib.Event()")


# Graphs: the work of a block, recorded once and enqueued any number of times.
#
# Recording belongs to the backends: a GPU's driver captures what is enqueued on its streams; the simulated machines and
# the CPUs note the calls. The rest is common: what may be captured, which streams take part, and what must live as long
# as the graph, and then until its last launch is complete.


class _GraphWork:
    """A complete graph: what enqueues it, what it uses, and its last launch."""

    __slots__ = ("_is_marked", "backend", "done", "kept", "last", "lock", "run")

    def __init__(self, backend: Backend, run: Callable[[RawStream], None], kept: list[Any]) -> None:
        self.backend = backend
        self.run = run
        self.kept = kept
        self.lock = threading.Lock()
        self.done: RawEvent | None = None
        """After the last launch; None where it is recorded when it is asked for."""
        self.last: RawStream | None = None
        self._is_marked = True

    def launch(self, stream: RawStream) -> None:
        with self.lock:
            if stream is not self.last:
                self._move(stream)
            self.run(stream)
            if self._is_marked:  # nothing waits for the event of the launch before
                self.done = self.backend.event_record(stream, timing=False, event=self.done)

    def _move(self, stream: RawStream) -> None:
        """Launch on another stream from now on."""
        if self.done is not None:
            self.backend.event_wait(stream, self.done)  # the launches share their memory
        self.done, self.last = None, stream
        self._is_marked = not self.backend.follows_launches(stream)

    def is_over(self) -> bool:
        """Whether the last launch is done; asked after it, in any thread."""
        if (last := self.last) is None:
            return True
        try:
            if self.done is None:
                if last.capture is not None:  # the event would become part of that graph
                    return False
                self.backend.attach(last.device)
                self.done = self.backend.event_record(last, timing=False)
            return self.backend.event_done(self.done)
        except ContextError:  # of this thread; another one will ask
            return False
        except Exception:  # of a device that is lost nothing will be done
            return True


_ending: list[_GraphWork] = []
"""The work of graphs that are gone, until it is done."""
reset_in_child(_ending.clear)


def _sweep() -> None:
    if opened:  # a library's pool may not give memory back while a stream is captured
        return
    for work in tuple(_ending):
        if work.is_over():
            with contextlib.suppress(ValueError):  # another thread has found it too
                _ending.remove(work)


class Graph(ProcessBound):
    """The work captured in a block of `Stream.capture`, to be enqueued as one."""

    __slots__ = ("__weakref__", "_is_open", "_work", "device")
    _elsewhere = "capture the work there"

    def __init__(self, device: Device | None = None) -> None:
        if device is None:
            raise ArgumentError("Graph() captures nothing; write: with stream.capture() as graph:")
        self.device: Device = device
        self._is_open = True
        self._work: _GraphWork | None = None

    def _complete(self, work: _GraphWork | None) -> None:
        self._is_open = False
        if work is not None:
            self._work = work
            weakref.finalize(self, _ending.append, work).atexit = False

    def launch(self, stream: Any = None) -> None:
        """Enqueue the work, after that of its last launch; return at once.

        It uses the arrays, numbers and pinned memory that it was captured with: change their content between launches.

        Args:
            stream: Where, on the graph's device; the current stream if omitted.

        Raises:
            CaptureError: Its block has not ended, or failed; the stream is being captured.
            StreamError: The stream is of another device.
        """
        work = self._work
        if type(stream) is Stream and stream.device is self.device and work is not None:
            if stream._raw.capture is None:
                self._enqueue(work, stream)
                return
        if work is None:
            why = "its block has not ended" if self._is_open else "its block raised an error"
            raise CaptureError(
                f"Graph.launch: the graph is not complete, because {why}; launch it after a block that ends"
            )
        backend = work.backend
        if stream is None:
            stream = Stream._of(backend.stream_current(self.device), backend)
        target = Stream.from_any(stream, self.device)
        if target.device is not self.device:
            raise StreamError(
                f"Graph.launch: the stream is of {target.device}, and the graph of {self.device}; use one of the latter"
            )
        if target._raw.capture is not None:
            raise CaptureError(
                "Graph.launch: the stream is being captured, and a graph holds no other; launch one after the other"
            )
        self._enqueue(work, target)

    def _enqueue(self, work: _GraphWork, stream: Stream) -> None:
        if _ending:
            _sweep()
        backend, raw = work.backend, stream._raw
        backend.attach(self.device)
        stream._settle()
        if (recorder := observe.active) is None:
            work.launch(raw)
            return
        run = functools.partial(work.launch, raw)
        if backend.capabilities.streams:
            recorder.enqueue(Kind.KERNEL, "graph", 0, backend, raw, run)
        else:
            recorder.on_host(Kind.KERNEL, "graph", 0, backend, self.device, run)

    def __repr__(self) -> str:
        state = "being captured" if self._is_open else "complete" if self._work is not None else "failed"
        return f"<Graph on {self.device}, {state}>"


def _nothing(_: RawStream) -> None:
    """The work of a graph in which none was recorded."""


class CaptureBlock:
    """The ``with`` block of `Stream.capture`."""

    __slots__ = ("_backend", "_capture", "_graph", "_raw", "_stream")

    def __init__(self, stream: Stream, backend: Backend, raw: RawStream) -> None:
        self._stream = stream
        self._backend = backend
        self._raw = raw
        self._capture: Capture | None = None

    def __repr__(self) -> str:
        return f"<capture of {self._stream!r}>"

    def __enter__(self) -> Graph:
        self._check()
        _sweep()
        self._stream._settle()
        self._backend.attach(self._raw.device)
        self._graph = Graph(self._raw.device)
        is_entered = False
        try:
            with deferred:  # or Ctrl-C might leave the stream captured
                self._backend.capture_begin(self._raw)
                self._capture = Capture(self._raw)
                try:
                    self._stream.__enter__()
                    is_entered = True
                except BaseException:
                    self._end()
                    raise
        except BaseException as error:
            if is_entered:  # Ctrl-C, put off until here
                self.__exit__(type(error), error, None)
            raise
        return self._graph

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        work, is_empty = None, False
        capture = self._capture
        if capture is None or not capture.is_open:
            raise blocks.make_entry_error(self)
        with deferred:
            try:
                self._stream.__exit__(kind, error, trace)
            finally:
                try:
                    run = self._end()
                    if error is None:
                        is_empty = run is None
                        work = _GraphWork(self._backend, run or _nothing, capture.kept)
                except Exception:
                    if error is None:  # else that one tells more
                        raise
                finally:
                    self._graph._complete(work)
        if is_empty:
            self._warn()

    def _warn(self) -> None:
        """Tell that no work was recorded, which most often was given to another stream, or to a CPU by its library."""
        if self._backend.capabilities.streams:
            why = "enqueue it on the current stream; a library that takes a stream gets stream.handle or stream.native"
        else:
            why = f"a CPU records what xferlib does, and not what {self._backend.name} does by itself"
        checks.warn(f"Stream.capture: the block has recorded no work, so that graph.launch() does nothing; {why}")

    def _end(self) -> Callable[[RawStream], None] | None:
        try:
            return self._backend.capture_end(self._raw)
        finally:
            assert self._capture is not None
            self._capture.close()

    def _check(self) -> None:
        backend, raw = self._backend, self._raw
        if not backend.capabilities.graphs:
            raise backend._make_unsupported_error("graphs")
        current = backend.stream_current(raw.device)
        if raw.capture is not None or current.capture is not None:
            which = "this stream" if raw.capture is not None else "the current stream"
            raise CaptureError(f"Stream.capture: {which} is being captured already; end that block first")
        if observe.is_traced():
            raise CaptureError(
                "Stream.capture: a trace is open, whose events would become part of the graph; capture before it, and "
                "launch in it"
            )
        if backend.capabilities.streams and not backend.stream_options(raw)[1]:
            raise CaptureError(
                f"Stream.capture: {self._stream!r} is ordered with the default stream, which cannot be captured; use "
                f"xferlib.Stream({str(raw.device)!r})"
            )


# Transfers as streams see them, those not enqueued yet by their stream; and their use as arrays, which is refused.

RESULT_REMEDY = "the array is what its result() gives: write transfer.result()"
_ORDERINGS = ("lt", "le", "gt", "ge")
_OTHERS = ("neg", "pos", "abs", "invert", "matmul", "rmatmul", "getitem", "setitem", "iter", "float", "int", "complex")


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Result_co = TypeVar("Result_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    Result_co = TypeVar("Result_co", covariant=True)  # typing has no defaults before Python 3.13


class ArrayUse(ProcessBound):
    """Refuses an array's operators, conversions and attributes; comparing with ``==`` stays by identity."""

    __slots__ = ()
    _elsewhere = "send the array that it gives"
    __array_priority__ = 1000.0
    _is_what: ClassVar[str] = "a Transfer is a copy in progress"
    array_remedy: ClassVar[str] = RESULT_REMEDY
    """The way to its array."""
    _peers: ClassVar[Mapping[str, str]] = checks.TRANSFER_NAMES
    """Names of other libraries' handles, and ours."""

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise self._refusal("conversion to an array")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> NoReturn:
        raise self._refusal(f"numpy.{ufunc.__name__}")

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> NoReturn:
        raise self._refusal(f"numpy.{function.__name__}")

    def _refusal(self, what: str) -> UnsupportedArrayError:
        return UnsupportedArrayError(f"{what}: {self._is_what}, not an array; {self.array_remedy}")

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            if not name.startswith("_") and hasattr(np.ndarray, name):
                what = self._is_what.partition(" is ")[0]
                text = f"{what} is not an array and has no {name!r}; {self.array_remedy}.{name}"
                raise AttributeError(text, name=name, obj=self)
            checks.refuse(self, name, self._peers)


def _install_refusals() -> None:
    def refusing(name: str) -> Any:
        def method(self: ArrayUse, *_: Any) -> NoReturn:
            raise self._refusal(name)

        return method

    for name in (*BINARY_OPERATORS, *(f"r{each}" for each in BINARY_OPERATORS), *_ORDERINGS, *_OTHERS):
        setattr(ArrayUse, f"__{name}__", refusing(f"__{name}__"))


_install_refusals()


class PendingTransfer(ArrayUse, ABC):
    """A transfer, as streams see it."""

    __slots__ = ()

    @abstractmethod
    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until every copy is enqueued, or the transfer has failed."""

    @abstractmethod
    def poll(self) -> None:
        """Begin the transfer if it was put off, and drive it if no thread does."""

    @abstractmethod
    def hold_back(self, stream: RawStream, backend: Backend) -> None:
        """Make later work on ``stream``, of ``backend``, wait for it."""


_pending: dict[tuple[Device, int], list[PendingTransfer]] = {}
_pending_lock = threading.RLock()  # reentrant: a finalizer may run inside


def list_pending(raw: RawStream) -> tuple[PendingTransfer, ...]:
    if not _pending:
        return ()
    with _pending_lock:
        return tuple(_pending.get((raw.device, raw.handle), ()))


def settle_all(device: Device | None = None) -> None:
    """Wait until every transfer begun so far is enqueued, or has failed; those on one device if it is given."""
    for (place, _), transfers in list(_pending.items()):
        if device is None or place == device:
            for transfer in list(transfers):
                transfer.settle()


registry.settle = settle_all


def add_pending(raw: RawStream, transfer: PendingTransfer) -> None:
    key = (raw.device, raw.handle)
    with _pending_lock:
        # One step each, as those of `remove_pending`: Ctrl-C in between would leave a list of no transfers.
        if (waiting := _pending.get(key)) is None:
            _pending[key] = [transfer]
        else:
            waiting.append(transfer)


def remove_pending(raw: RawStream, transfer: PendingTransfer) -> None:
    with _pending_lock:
        key = (raw.device, raw.handle)
        waiting = _pending.get(key)
        if waiting == [transfer]:
            del _pending[key]
        elif waiting is not None and transfer in waiting:
            waiting.remove(transfer)


class Stream(ProcessBound, blocks.Enterable):
    """A queue of work on one device; ``with stream:`` makes it current, in the native library too.

    The block belongs to the asyncio task that enters it: others in the same thread keep theirs while it waits.
    On a CPU every operation is complete when it returns, and a stream is a formality.

    Args:
        device: The device; the current one if omitted.
        non_blocking: Run beside the legacy default stream instead of in order with it.
        priority: Lower numbers run first; the device clamps them.

    Raises:
        DeviceNotFoundError: The device does not exist.
        ArgumentError: ``priority`` is not an int.
        BlockError: A block is left twice, by another task, or before one within it.
    """

    __slots__ = ("__weakref__", "_backend", "_raw", "device")
    _elsewhere = "make one there: xferlib.Stream(device)"

    def __init__(self, device: DeviceSpec = None, *, non_blocking: bool = True, priority: int = 0) -> None:
        self.device: Device = registry.get_device(device)
        self._backend = registry.part_of(self.device)
        self._backend.attach(self.device)
        non_blocking = checks.flag(non_blocking, "Stream: non_blocking")
        number = checks.whole(priority, least=None)
        if number is None:
            raise ArgumentError(
                f"Stream: priority={quote(priority)} is not an int; lower numbers run first; 0 is usual"
            )
        has_priorities = self._backend.capabilities.priorities
        priority = max(-(1 << 31), min(number, (1 << 31) - 1)) if has_priorities else 0
        self._raw = self._backend.stream_create(self.device, non_blocking=non_blocking, priority=priority)

    @classmethod
    def from_any(cls, native: Any, device: DeviceSpec = None) -> Stream:
        """Adopt a stream made elsewhere.

        Args:
            native: Anything with ``__cuda_stream__`` (CuPy, torch, cuda.core, numba), a PyCUDA
                stream, a raw ``cudaStream_t`` address, or a `Stream`.
            device: Where it was made; the current device if omitted.

        Raises:
            StreamTypeError: The object is not a stream, or its ``__cuda_stream__`` gives none.
            StreamError: The device has no streams.
        """
        if isinstance(native, Stream):
            return native
        handle = handle_of(native)
        if handle is None:
            remedy = (
                "let the stream wait for it: stream.wait(event)"
                if isinstance(native, Event)
                else "give an object with __cuda_stream__, a PyCUDA stream, or the address of a cudaStream_t"
            )
            raise StreamTypeError(f"{type(native).__name__} is not a stream: {remedy}")
        target = registry.get_device(device)
        backend = registry.part_of(target)
        if not backend.capabilities.streams:
            raise StreamError(
                f"a native stream cannot be used on {target} ({backend.capabilities.reason('streams')}); leave it out "
                "or give an xferlib.Stream; one of a GPU: Stream.from_any(stream, device='cuda:0')"
            )
        backend.attach(target)
        owner = None if isinstance(native, int) else native
        return cls._of(backend.stream_wrap(handle, target, native=owner), backend)

    @classmethod
    def _of(cls, raw: RawStream, backend: Backend) -> Stream:
        stream = object.__new__(cls)
        stream.device = raw.device
        stream._backend = backend
        stream._raw = raw
        return stream

    @property
    def handle(self) -> int:
        """The address of the ``cudaStream_t``; 0 for the default stream and on a CPU."""
        return self._raw.handle

    @property
    def native(self) -> Any:
        """The array library's own stream object, where it has one."""
        return self._raw.native

    def __cuda_stream__(self) -> tuple[int, int]:
        if not self._backend.capabilities.streams:
            raise UnsupportedError(f"{self.device} has no CUDA stream: {self._backend.capabilities.reason('streams')}")
        return (0, self._raw.handle)

    def record(self, event: Event | None = None) -> Event:
        """Record an event after the work enqueued so far; a new one if omitted."""
        if event is not None:
            check_event(event, "record: event")
        self._settle()
        target = Event() if event is None else event
        target._record(self._backend, self._raw)
        return target

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Call ``function(*args)`` on the host once the work so far is complete; later work waits for its end.

        It runs in a thread of the driver, and on a CPU at once. It must not use a device, nor wait for a thread that
        does, nor change pinned memory that a later copy reads. Its errors go to `threading.excepthook`.

        Raises:
            ArgumentError: ``function`` cannot be called.
        """
        if not callable(function):
            raise ArgumentError(f"Stream.call: {quote(function)} cannot be called; give a function, then its arguments")
        self._settle()
        self._backend.stream_call(self._raw, functools.partial(call_without_raising, function, args))

    def capture(self) -> CaptureBlock:
        """Record the work of a block for a graph, instead of doing it: ``with stream.capture() as graph:``.

        In the block this stream is current. Kernels, copies on the device and copies from and to pinned memory are
        recorded, in other streams too that wait for this one; they must be waited for before the block ends.
        ``graph.launch()`` does the work, any number of times, on the memory that it was recorded with. Whatever
        would wait for a device is refused.

        Raises:
            CaptureError: A default stream or one that is not ``non_blocking``; a stream that is captured already; an
                open trace.
            UnsupportedError: The backend has no graphs.
        """
        return CaptureBlock(self, self._backend, self._raw)

    def wait(self, other: Event | Stream | PendingTransfer | Any) -> None:
        """Make later work on this stream wait for an event, another stream's work, or a transfer.

        The host does not wait, except until the source of a staged transfer has been read, or where
        one of the two is on a CPU and the other is not.

        Raises:
            StreamTypeError: ``other`` is none of these.
            CaptureError: One of the two is being captured, and the other has no part in it.
        """
        if isinstance(other, Event):
            if other._backend is None:
                self._backend.event_unrecorded(self._raw)
            elif other._capture is not None or self._raw.capture is not None:
                self._wait_in_capture(other)
            elif other._backend.pinned_domain == self._backend.pinned_domain:
                self._backend.event_wait(self._raw, other._raw)
            else:
                other.synchronize()  # neither machine knows the other's events
        elif isinstance(other, Stream):
            self.wait(other.record(Event(timing=False)))
        elif isinstance(other, PendingTransfer):
            refuse("Stream.wait(transfer)", self._raw)
            other.hold_back(self._raw, self._backend)
        elif handle_of(other) is None:
            raise StreamTypeError(
                f"Stream.wait: {type(other).__name__} is not a stream, Event or Transfer; give one of them"
            )
        else:
            self.wait(Stream.from_any(other, self.device))

    def _wait_in_capture(self, event: Event) -> None:
        """Order captured work; a stream that waits for it joins the capture."""
        found, own = event._capture, self._raw.capture
        if found is None:
            raise CaptureError(
                "Stream.wait: the event was recorded outside of the capture, which cannot depend on it; let the stream "
                "wait before the block, or the stream of graph.launch()"
            )
        if not found.is_open or (own is not None and own is not found):
            raise CaptureError("Stream.wait: the event belongs to another capture; record it again")
        self._backend.event_wait(self._raw, event._raw)
        if own is None:
            found.join(self._raw)

    @observe.user_call(lambda self: (self._backend, 0))
    def synchronize(self) -> None:
        """Block until everything enqueued has finished."""
        refuse("Stream.synchronize", self._raw)
        self._settle()
        self._backend.stream_synchronize(self._raw)

    @property
    def is_done(self) -> bool:
        """Whether everything enqueued has finished; a loop that only polls this ends."""
        refuse("Stream.is_done", self._raw)
        for transfer in list_pending(self._raw):
            transfer.poll()
        return not list_pending(self._raw) and self._backend.stream_done(self._raw)

    def _settle(self) -> None:
        """Wait until transfers onto this stream whose source is still being read have enqueued their copies."""
        for transfer in list_pending(self._raw):
            transfer.settle()

    def __enter__(self) -> Stream:
        has_streams = self._backend.capabilities.streams  # else there is nothing to make current
        blocks.enter(self, None, (_Choice(self._backend, self._raw),) if has_streams else ())
        return self

    def use(self) -> Stream:
        """Make this stream, and its device, current for this thread from now on: ``with`` without an end.

        In a block it is current until the block ends.
        """
        if self._backend.capabilities.streams:
            change = _Choice(self._backend, self._raw)
            if not blocks.alter(None, (change,)):
                change.make([])
        return self

    @property
    def priority(self) -> int:
        """Lower numbers run first; 0 on a device without priorities."""
        return self._backend.stream_options(self._raw)[0]

    @property
    def is_non_blocking(self) -> bool:
        """Whether it runs beside the legacy default stream; False on a CPU, where all work is in order."""
        return self._backend.stream_options(self._raw)[1]

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            checks.refuse(self, name, checks.STREAM_NAMES)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device is other.device and self._raw.handle == other._raw.handle

    def __hash__(self) -> int:
        return hash((self.device, self._raw.handle))

    def __repr__(self) -> str:
        return stream_text(self._raw.handle, self.device)


class _Choice:
    """Makes a stream, and its device, the library's current ones."""

    def __init__(self, backend: Backend, stream: RawStream) -> None:
        self._backend = backend
        self._stream = stream

    def make(self, undo: list[blocks.Undo]) -> None:
        backend, device = self._backend, self._stream.device
        if (before := registry.current_device(backend)) is not device:
            undo.append(functools.partial(backend.device_use, before))
            backend.device_use(device)
        undo.append(functools.partial(backend.stream_use, backend.stream_current(device)))
        backend.stream_use(self._stream)


def current_stream(device: DeviceSpec = None) -> Stream:
    """The native library's current stream on a device, for this thread and task."""
    target = registry.get_device(device)
    blocks.follow()
    backend = registry.part_of(target)
    return Stream._of(backend.stream_current(target), backend)
