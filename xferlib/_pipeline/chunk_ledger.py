"""The chunks that a `stream_map` has read and stored, the order of their results, and the first error."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xferlib import tree
from xferlib._api import transfers
from xferlib._core import registry
from xferlib._core.containers import flatten
from xferlib._core.thresholds import RESULT_BEGUN_FROM
from xferlib._runtime.handoff import Handed
from xferlib._transfer import copies
from xferlib.errors import MixedDevicesError, UnsupportedArrayError

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.stream import Stream
    from xferlib._pipeline.row_sinks import Sink
    from xferlib._pipeline.row_sources import Source


class Results:
    """Reads chunks, stores results, and counts the rows that are done.

    Args:
        source: Where chunks come from.
        sink: Where results go.
        spans: First row and the row after the last of each chunk.
        progress: Called with the rows done and all rows.
    """

    def __init__(
        self,
        source: Source,
        sink: Sink,
        spans: list[tuple[int, int]],
        progress: Callable[[int, int], Any] | None = None,
    ) -> None:
        self.spans = spans
        self._progress = progress
        self._told = -1
        """The rows done that `progress` was called with last."""
        self.error: BaseException | None = None
        self.on_stop: Callable[[], Any] = lambda: None
        self._source = source
        self._sink = sink
        self._done: set[int] = set()
        self._next = 0
        """The first chunk whose result is not stored."""
        self._is_broken = False
        self._changed = threading.Condition()
        self._turn = Handed()
        """Of storing."""

    @property
    def is_stopped(self) -> bool:
        """Whether no further chunk is to be read."""
        return self.error is not None

    @property
    def value(self) -> Any:
        """The value that the call returns."""
        return self._sink.value

    @property
    def rows_done(self) -> int:
        """The number of rows, from the first one on, whose results are stored."""
        number = self._next  # which another thread counts up
        return self.spans[number][0] if number < len(self.spans) else self._source.rows

    @property
    def waits(self) -> bool:
        """Whether reading or storing may wait, for a disk or for the program."""
        return self._source.waits or self._sink.waits

    def read(self, number: int) -> Any:
        """Read a chunk of the source."""
        return self._source.read(*self.spans[number])

    def begin(self, number: int, value: Any, stream: Stream) -> Callable[[], Any]:
        """Start the device-to-host copy of a finished result.

        Returns:
            A function that waits for the copy and returns the host array.
        """
        start, stop = self.spans[number]
        if self._sink.is_reduction:
            for leaf in flatten(value, moving="device")[0]:
                _refuse_elsewhere(leaf, stream)
            return functools.partial(_tree_to_host, value, stream)
        info = _refuse_elsewhere(value, stream)
        if info is None:
            raise UnsupportedArrayError(
                f"stream_map: the function gave {type(value).__name__}, not an array; let it return one, or give reduce"
            )
        out = self._sink.target(start, stop, info.shape, info.dtype)
        if info.device.kind == "cpu" or info.nbytes < RESULT_BEGUN_FROM:
            order = stream if info.device.kind != "cpu" else None  # a CPU is done when its call returns
            return functools.partial(transfers.to_host, value, stream=order, out=out)
        return copies.begin_to_host(value, stream=stream, out=out, is_awaited=True).result

    def store(self, number: int, host: Any) -> None:
        """Store a result that has arrived on the host."""
        start, stop = self.spans[number]
        if self._sink.is_ordered:
            self._await_turn(number)
        if not self._sink.is_ordered or self._next == number:
            self._sink.put(start, stop, host)
            self._source.done(start, stop)
            self._note(number)

    def _await_turn(self, number: int) -> None:
        """Wait until every earlier chunk is stored, or storing has failed."""
        with self._changed:
            while self._next < number and not self._is_broken:
                self._changed.wait()
            self._turn.take_over()

    def _note(self, number: int) -> None:
        with self._changed:
            self._turn.hand_on()
            self._done.add(number)
            while self._next in self._done:
                self._done.remove(self._next)
                self._next += 1
            self._changed.notify_all()

    def report(self) -> None:
        """Tell how many rows are done, in the calling thread, if that has changed."""
        if self._progress is None:
            return
        done = self.rows_done
        if done != self._told:
            self._told = done
            self._progress(done, self._source.rows)

    def stop(self, error: BaseException) -> None:
        """Read no further chunk; results in flight will be stored."""
        with self._changed:
            self.error = self.error or error
        self.on_stop()

    def fail(self, error: BaseException) -> None:
        """`stop`, for a result that cannot be stored: no thread waits for its turn any longer."""
        with self._changed:
            self._is_broken = True
            self._changed.notify_all()
        self.stop(error)

    def end(self) -> None:
        """Every thread that stored results has ended: the calling one comes after them."""
        self._turn.take_over()
        self.on_stop = lambda: None  # what it belongs to holds these results, and would live until a garbage collection

    def explain(self, error: BaseException) -> None:
        """Say in an error how far it has come."""
        found: Any = error
        is_reduction, value = self._sink.is_reduction, self._sink.value
        found.rows_done, found.out, found.reduced = self.rows_done, None, None
        if is_reduction:
            found.reduced = value
        else:
            found.out = value
        rest = "initial=error.reduced" if is_reduction else "out=error.out"
        error.add_note(
            f"stream_map: {self.rows_done} of {self._source.rows} rows are done; to go on, call it again with "
            f"start=error.rows_done, {rest}"
        )


def _refuse_elsewhere(value: Any, stream: Stream) -> ArrayInfo | None:
    """Describe an array; None for any other object. Refuse one on another device, which may still compute it."""
    owner = registry.backend_of(value)
    if owner is None:
        return None
    info = owner.view(value)
    if info.device is not stream.device and info.device.kind != "cpu":
        raise MixedDevicesError(
            f"stream_map: the function gave an array on {info.device} for a chunk on {stream.device}; give back one of "
            "the chunk's device, or of the host"
        )
    return info


def _tree_to_host(value: Any, stream: Stream) -> Any:
    if stream.device.kind == "cpu":  # one stream is like another
        return tree.to_host(value)
    with stream:  # rather than as an argument, for which leaves that are on the host have no use
        return tree.to_host(value)
