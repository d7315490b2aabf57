"""Graphs of CUDA's driver.

The capture is relaxed: calls of this thread and of others that have nothing to do with it go on as usual. The driver's
other modes refuse calls that finalizers make, which Python runs in any thread at any moment, and a refused call
invalidates the capture.

New arrays lie in memory of the graph's own, because a library's pool would give the memory of an array that has died
to the next one, while each launch still writes to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from xferlib._core.raw import RawStream
from xferlib._runtime import leak
from xferlib.backends.cuda import driver as calls
from xferlib.backends.cuda import host_functions
from xferlib.backends.cuda.errors import failure, refuse_fork
from xferlib.backends.cuda.streams import CudaStreams


class CudaGraph:
    """An executable graph; destroyed when the object dies.

    Args:
        handle: Of the ``CUgraphExec``.
        inside: Makes a driver call in the context of a stream's device.
        functions: The functions that it calls.
        mark: Records an event on a stream.
        owned: What must live as long.
    """

    __slots__ = ("_functions", "_handle", "_inside", "_mark", "_owned", "_pid")

    def __init__(
        self,
        handle: int,
        inside: Callable[..., int],
        functions: host_functions.Kept,
        mark: Callable[[RawStream], Any],
        owned: Any,
    ) -> None:
        self._handle = handle
        self._inside = inside
        self._functions = functions
        self._mark = mark
        self._owned = owned
        self._pid = os.getpid()

    def __call__(self, stream: RawStream) -> None:
        refuse_fork("launching a graph")
        result = self._inside(stream.device, calls.graph_launch, self._handle, stream.handle)
        if result:
            raise failure(result, f"launching a graph on {stream.device}")
        host_functions.sweep()
        if self._functions:
            self._functions.launched(self._mark(stream))

    def __del__(
        self,
        _destroy: Any = calls.graph_exec_destroy,
        _getpid: Any = os.getpid,
        _is_finalizing: Any = sys.is_finalizing,
        _keep: Any = leak.keep,
    ) -> None:
        pid = getattr(self, "_pid", 0)
        if pid == _getpid():
            _destroy(self._handle)
            if not _is_finalizing():
                host_functions.sweep()
        elif pid:  # a forked child must not touch the driver, as a pool does that dies
            _keep(self._owned)


class CudaGraphs(CudaStreams):
    """Captures of streams."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._captures: dict[tuple[int, int], tuple[contextlib.ExitStack, host_functions.Kept, Any]] = {}
        """By device and stream: what ends with the capture, the functions, and the memory that the graph must own."""

    @contextlib.contextmanager
    def _own_memory(self, stream: RawStream) -> Iterator[Any]:
        """Let new arrays of this thread and of this stream lie in memory that only the result owns."""
        yield None

    def capture_begin(self, stream: RawStream) -> None:
        refuse_fork("capturing a stream")
        key = (stream.device.index, stream.handle)
        self._seen.pop(key, None)
        self._owned[key] = stream  # the one that `stream_current` finds, and whose capture it tells
        functions: list[int] = []
        with contextlib.ExitStack() as ends:
            memory = ends.enter_context(self._own_memory(stream))
            ends.enter_context(host_functions.kept_in(functions))
            result = self._inside(stream.device, calls.capture_begin, stream.handle, calls.CAPTURE_RELAXED)
            if result:
                raise failure(result, f"capturing a stream of {stream.device}")
            self._captures[key] = (ends.pop_all(), host_functions.Kept(functions), memory)

    def follows_launches(self, stream: RawStream) -> bool:
        return (stream.device.index, stream.handle) in self._lasting  # cuGraphLaunch orders the launches of a graph

    def _mark_launch(self, stream: RawStream) -> Any:
        return self.event_record(stream, timing=False)

    def capture_end(self, stream: RawStream) -> CudaGraph | None:
        ends, functions, memory = self._captures.pop((stream.device.index, stream.handle))
        graph, made, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        try:
            result = self._inside(stream.device, calls.capture_end, stream.handle, ctypes.addressof(graph))
        finally:
            ends.close()
        try:
            if not result:
                result = calls.graph_nodes(graph.value or 0, 0, ctypes.addressof(count))
            if not result and not count.value:
                return None
            if not result:
                result = self._inside(
                    stream.device, calls.graph_instantiate, ctypes.addressof(made), graph.value or 0, 0
                )
        finally:
            if graph.value:
                calls.graph_destroy(graph.value)
        if result:
            raise failure(result, f"capturing a stream of {stream.device}")
        return CudaGraph(made.value or 0, self._inside, functions, self._mark_launch, memory)
