"""`trace`: records the copies, staging steps and kernels of a block, as numbers, as a file, as a picture."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from xferlib._api.trace import notes
from xferlib._api.trace.recorder import EventRecorder, closed, opened
from xferlib._api.trace.timeline import Numbers, Recorded, TraceOperation
from xferlib._core import blocks, observe, pending, raw, registry
from xferlib._core.observe import Kind
from xferlib._core.ordering import copy_streams
from xferlib._core.stream import Stream, current_stream
from xferlib._runtime import checks, peer_names
from xferlib._runtime.callsite import site_of
from xferlib._runtime.checks import whole
from xferlib.errors import ArgumentError, CaptureError, ForkError, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._api.trace.notes import Record, RecordBuffer
    from xferlib._core.device import DeviceSpec

PICTURES = (".png", ".svg", ".pdf")
_KINDS = (Kind.RANGE, Kind.KERNEL, Kind.H2D, Kind.D2H, Kind.D2D, Kind.PEER)


class trace:  # noqa: N801 - reads as a verb: `with xl.trace("run.json") as t:`
    """Record every copy, staging step and kernel that xferlib enqueues in a block, in all threads.

    An event is recorded on the stream before and after each operation; nothing waits. The device's times are read
    when the block has ended, or when the program reads them. At its end the block waits until the transfers begun
    in it have been staged, and, if it is to write a file, until they are complete.

    Work of other libraries between the calls, such as CuPy's or PyTorch's own kernels, is not seen: put `range`
    around it. On ``sim`` every operation is seen, in the simulator's virtual time. On a CPU the times are the host's.

    Blocks nest, and several may be open at once: each gets everything. A forked child records nothing.

    Args:
        path: A file to write when the block ends, also after an exception: ``.json`` for `write`, or
            ``.png``, ``.svg`` or ``.pdf`` for `plot`.
        keep: The number of latest operations to keep, some 500 bytes each; `dropped` counts the others.

    Raises:
        ArgumentError: The path has another ending or no directory; ``keep`` is not a positive int.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, keep: int = 100_000) -> None:
        self._path = None if path is None else checked_path(path, (".json", *PICTURES))
        number = whole(keep, least=1)
        if number is None:
            raise ArgumentError(
                f"trace(keep={shown(keep)}): keep must be an int from 1: the number of operations to remember"
            )
        self._keep = number
        self._pid = os.getpid()
        self._recorder: EventRecorder | None = None
        self._recording: RecordBuffer | None = None
        self._is_open = False
        self._found: tuple[TraceOperation, ...] | None = None

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            peer_names.refuse(self, name, peer_names.TRACE_NAMES)

    def __enter__(self) -> Self:
        if self._recording is not None:
            raise ArgumentError("this trace has been used already; make another one with xferlib.trace()")
        if raw.opened:
            raise CaptureError(
                "trace: a stream is being captured, and events of the trace would become part of the graph; open the "
                "trace after the capture, and launch the graph in it"
            )
        self._pid = os.getpid()
        self._recording = notes.RecordBuffer(self._keep)
        self._recorder = opened(self._recording)
        self._is_open = True
        for backend in registry.loaded():
            self._recorder.met(backend)
            device = backend.device_current()
            if device.kind == "cuda":
                self._recorder.prepare(backend.at(device), device)
        self._recording.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            return
        if self._recorder is None or self._recording is None or not self._is_open:
            raise blocks.not_entered(self)
        try:
            if error is None:
                pending.settle_all()
        finally:
            closed(self._recorder, self._recording)
            self._is_open = False
        if self._path is not None:
            try:
                self.plot(self._path) if self._path.suffix in PICTURES else self.write(self._path)
            except Exception as failure:
                if error is None:
                    raise
                error.add_note(f"the trace could not be written to {self._path}: {failure}")

    # --- the program's own work

    @staticmethod
    def range(
        name: str, *, kind: str = "range", nbytes: int = 0, stream: Any = None, device: DeviceSpec = None
    ) -> range_:
        """Show the program's own work on a stream: ``with xl.trace.range("forward"):``.

        Events are recorded on the stream at both ends, so that the range lasts from when its first operation could
        begin until its last has ended. It counts as computing. Without an open trace it does nothing.

        Args:
            name: The range's name.
            kind: ``"range"`` or ``"kernel"`` for computing, or ``"h2d"``, ``"d2h"``, ``"d2d"``, ``"peer"`` for
                copies made by other libraries.
            nbytes: The bytes that such a copy moves.
            stream: The stream of the work, anything that `Stream.from_any` takes; the current stream if omitted.
            device: The device whose current stream is meant, if not the current device.

        Raises:
            ArgumentError: Another ``kind``.
        """
        if kind not in _KINDS:
            raise ArgumentError(f"trace.range(kind={shown(kind)}): the kinds are {', '.join(_KINDS)}")
        return range_(name, kind, nbytes, stream, device)

    # --- what was recorded

    @property
    def operations(self) -> tuple[TraceOperation, ...]:
        """Everything recorded, in the order in which the program asked for it.

        Blocks until the operations enqueued so far have happened.

        Raises:
            ForkError: Read in a child of the process that recorded.
        """
        if self._found is not None:
            return self._found
        if self._recording is None or self._recorder is None:
            return ()
        if os.getpid() != self._pid:
            raise ForkError(
                f"the trace was recorded in process {self._pid} and is read in its child {os.getpid()}; "
                "read it in the process that recorded it"
            )
        self._recorder.resolve()
        own = {
            (device.index, stream.handle): f"xferlib {direction}"
            for (device, direction), stream in copy_streams.streams.copy().items()
        }
        found = tuple([_operation(record, self._recording, own) for record in list(self._recording.records)])
        if not self._is_open:
            self._found = found
            self._recording.records.clear()
        return found

    @property
    def dropped(self) -> int:
        """Operations that were forgotten because more than ``keep`` came after them."""
        return max(0, self._recording.seen - self._keep) if self.operations and self._recording is not None else 0

    @property
    def clock_error_s(self) -> float:
        """By how many seconds device times may be off against host times, as measured at both ends of the block.

        Each device's clock is compared with the host's when the block begins and when it ends; the error is half of
        the time that one look took, and the drift between the two looks is taken to be even. 0 without a device.
        """
        return 0.0 if self._recorder is None else self._recorder.uncertainty_s

    @property
    def overlap(self) -> float:
        """The share, 0 to 1, of the shorter of copying and computing that ran beside the other.

        Copying: when at least one copy between host and device or between devices ran; computing: when at least one
        kernel or range ran, on any device. 0 if either is missing.
        """
        return self._numbers.overlap()

    @property
    def gb_per_s(self) -> dict[str, float]:
        """For ``h2d``, ``d2h``, ``d2d``, ``peer`` and ``staging``: 1e9 bytes a second, while at least one ran.

        The bytes of all operations of the kind, divided by the time in which at least one of them ran, so that
        pauses do not count. 0 where there was none.
        """
        return self._numbers.gb_per_s()

    @property
    def idle(self) -> float:
        """The share, 0 to 1, of the time from the first device operation to the end of the last in which none ran.

        With several devices the mean of theirs over the same time.
        """
        return self._numbers.idle()

    @property
    def seconds(self) -> dict[str, float]:
        """For each kind that occurred: the time in which at least one operation of it ran."""
        return self._numbers.seconds()

    @property
    def nbytes(self) -> dict[str, int]:
        """For each kind that occurred: the bytes of all its operations."""
        return self._numbers.nbytes()

    @property
    def _numbers(self) -> Numbers:
        return Numbers(self.operations)

    @property
    def _recorded(self) -> Recorded:
        if self._recording is None and self._found is None:
            raise ArgumentError(
                "this trace was never opened and has recorded nothing; write with xferlib.trace() as t:"
            )
        return Recorded(self.operations, self.dropped, self.clock_error_s)

    def summary(self) -> str:
        """The numbers as a table: a line for each kind of operation, and one for the whole."""
        from xferlib._api.trace.summary import summary

        return summary(self._recorded)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file for https://ui.perfetto.dev or chrome://tracing: a row for each thread, stream and kind.

        Args:
            path: Where; times in it are in microseconds from the beginning of the block.
        """
        from xferlib._api.trace.perfetto import write

        write(self._recorded, Path(path))

    def plot(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "",
        start_s: float | None = None,
        end_s: float | None = None,
        dark: bool = False,
    ) -> None:
        """Draw rows for the host's calls, for staging, then for the copies and kernels of each device and stream.

        Args:
            path: ``.png``, ``.svg`` or ``.pdf``; needs matplotlib, which xferlib's extra ``trace`` brings.
            title: Above the picture.
            start_s, end_s: What part of the block to show; from the first operation to the last if omitted.
            dark: Whether the picture is for a dark page.
        """
        from xferlib._api.trace.picture import plot

        file = checked_path(path, PICTURES)
        plot(self._recorded, file, title=title, start_s=start_s, end_s=end_s, dark=dark)

    def _repr_html_(self) -> str | None:
        """The timeline, for notebooks; None before the block has ended, and where it cannot be drawn."""
        if self._recording is None or self._is_open:
            return None
        try:
            from xferlib._api.trace.inline_picture import html

            return html(self._recorded)
        except Exception:  # a cell shows the object in words instead
            return None

    def __repr__(self) -> str:
        if self._found is not None:
            return f"<xferlib.trace: {len(self._found)} operation{'s' * (len(self._found) != 1)}>"
        state = "not begun" if self._recording is None else "open" if self._is_open else "ended, not read yet"
        return f"<xferlib.trace: {state}>"


class range_:  # noqa: N801 - what `trace.range` makes
    """A block of the program's own work; see `trace.range`."""

    __slots__ = ("_arguments", "_ended")

    def __init__(self, name: str, kind: str, nbytes: int, stream: Any, device: DeviceSpec) -> None:
        self._arguments = (name, kind, nbytes, stream, device)
        self._ended: Callable[[], None] | None = None

    def __enter__(self) -> None:
        recorder = observe.active
        if not isinstance(recorder, EventRecorder):
            return
        name, kind, nbytes, stream, device = self._arguments
        target = current_stream(device) if stream is None else Stream.from_any(stream, device)
        target._backend.attach(target.device)
        self._ended = recorder.range(target._backend, target._raw, kind, name, nbytes)

    def __exit__(self, *exc_info: object) -> None:
        if self._ended is not None:
            self._ended()


def checked_path(path: str | os.PathLike[str], endings: tuple[str, ...]) -> Path:
    """Check, before the work is done, that a path can be written to."""
    if not isinstance(path, (str, os.PathLike)) or checks.path(path) is None:
        raise ArgumentError(
            f"a trace cannot be written to {shown(path)}: give a path that ends in {', '.join(endings)}"
        )
    found = Path(path)
    if found.suffix not in endings:
        raise ArgumentError(
            f"a trace cannot be written to {str(path)!r}: give a name that ends in {', '.join(endings)}"
        )
    if found.is_dir() or not found.absolute().parent.is_dir():
        raise ArgumentError(
            f"a trace cannot be written to {str(path)!r}: {found.absolute().parent} must be a directory"
        )
    if not os.access(found if found.exists() else found.absolute().parent, os.W_OK):
        raise ArgumentError(f"a trace cannot be written to {str(path)!r}: you have no permission; name another file")
    return found


_STREAMS: dict[int | str, str] = {0: "default", 1: "default", 2: "per-thread"}


def _operation(record: Record, recording: RecordBuffer, own: dict[tuple[int, int], str]) -> TraceOperation:
    origin = recording.origins[record.domain]
    start_s, end_s = record.start_s, record.end_s
    if record.clock is not None:
        start_s, end_s = record.clock.to_host_s(start_s), record.clock.to_host_s(end_s)
    stream, site = record.stream, site_of(record.location)
    if isinstance(stream, int):
        index = int(record.device.partition(":")[2] or 0)
        stream = _STREAMS.get(stream) or own.get((index, stream)) or f"{stream:#x}"
    return TraceOperation(
        kind=str(record.kind), name=record.name, nbytes=record.nbytes, device=record.device, stream=stream,
        thread=record.thread or (stream if record.device == "host" else ""),
        start_s=start_s - origin, end_s=end_s - origin,
        host_start_s=record.host_start_s - origin, host_end_s=record.host_end_s - origin,
        file=site.file, line=site.line, function=site.function, is_timed=record.is_timed,
    )  # fmt: skip
