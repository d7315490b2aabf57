"""Graphs: the work of a block, recorded once and enqueued any number of times.

Recording belongs to the backends: a GPU's driver captures what is enqueued on its streams; the simulated machines and
the CPUs note the calls. The rest is common: what may be captured, which streams take part, and what must live as long
as the graph, and then until its last launch is complete.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any

from xferlib._core import blocks, observe
from xferlib._core.observe import Kind
from xferlib._core.ordering.bound import ProcessBound
from xferlib._core.raw import Capture, opened
from xferlib._runtime.fork import reset_in_child
from xferlib._runtime.interrupts import deferred
from xferlib.errors import ArgumentError, CaptureError, ContextError, StreamError, XferWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawEvent, RawStream


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

    __slots__ = ("__weakref__", "_is_open", "_streams", "_work", "device")
    _elsewhere = "capture the work there"

    def __init__(self, device: Device | None = None, streams: Any = None) -> None:
        if device is None:
            raise ArgumentError("Graph() captures nothing; write: with stream.capture() as graph:")
        self.device: Device = device
        self._streams = streams
        """The class of streams, which imports this module."""
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
        if type(stream) is self._streams and stream.device is self.device and work is not None:
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
            stream = self._streams._of(backend.stream_current(self.device), backend)
        target = self._streams.from_any(stream, self.device)
        if target.device is not self.device:
            raise StreamError(
                f"Graph.launch: the stream is of {target.device}, and the graph of {self.device}; use one of the latter"
            )
        if target._raw.capture is not None:
            raise CaptureError(
                "Graph.launch: the stream is being captured, and a graph holds no other; launch one after the other"
            )
        self._enqueue(work, target)

    def _enqueue(self, work: _GraphWork, stream: Any) -> None:
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

    def __init__(self, stream: Any, backend: Backend, raw: RawStream) -> None:
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
        self._graph = Graph(self._raw.device, type(self._stream))
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
            raise blocks.not_entered(self)
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
        import warnings

        from xferlib._runtime.callsite import user_site

        if self._backend.capabilities.streams:
            why = "enqueue it on the current stream; a library that takes a stream gets stream.handle or stream.native"
        else:
            why = f"a CPU records what xferlib does, and not what {self._backend.name} does by itself"
        site = user_site()
        text = f"Stream.capture: the block has recorded no work, so that graph.launch() does nothing; {why}"
        warnings.warn_explicit(text, XferWarning, site.file, site.line)

    def _end(self) -> Callable[[RawStream], None] | None:
        try:
            return self._backend.capture_end(self._raw)
        finally:
            assert self._capture is not None
            self._capture.close()

    def _check(self) -> None:
        backend, raw = self._backend, self._raw
        if not backend.capabilities.graphs:
            raise backend._unsupported("graphs")
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
