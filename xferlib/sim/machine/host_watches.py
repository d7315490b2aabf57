"""Host memory under a copy in flight, which NumPy accesses without a call that the detector could check.

The target of a copy to the host holds a pattern until the copy is carried out: an early read gets NaN, unless another
operation in flight needs the old contents. The checksums of source and target are taken when a copy is enqueued and
again when it is carried out: a change in between, by anything but another operation, is reported.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from xferlib.sim.detect.program_names import stream_names
from xferlib.sim.detect.reports import Access, Hazard, Race, change_between, waits_of_host
from xferlib.sim.model import ranges
from xferlib.sim.model.blocks import Span, Spans, on_host
from xferlib.sim.model.memory import poison
from xferlib.sim.model.operations import Operation

if TYPE_CHECKING:
    from xferlib.sim.detect.detector import Detector
    from xferlib.sim.machine.page_guard import PageGuard
    from xferlib.sim.machine.parts import Parts


class Watch:
    """Watches host memory that an operation in flight uses: only other operations may change it."""

    __slots__ = ("_checksum", "hazard", "is_changed", "is_target", "span")

    def __init__(self, span: Span, hazard: Hazard) -> None:
        self.span = span
        self.hazard = hazard
        self.is_target = hazard is Hazard.TARGET_CHANGED
        self.is_changed = False
        self._checksum = _checksum(span)

    def look(self) -> None:
        """Note whether the program has changed it since the last look."""
        self.is_changed = self.is_changed or _checksum(self.span) != self._checksum

    def accept(self) -> None:
        """Take the present contents as expected: an operation wrote them."""
        self._checksum = _checksum(self.span)


def watch(machine: Parts, operation: Operation, reads: Spans, writes: Spans) -> None:
    """Make a copy from or to host memory check its bytes when it is carried out."""
    sources = on_host(reads)
    targets = on_host(writes)
    if not (sources or targets) or machine.engine.schedule.is_eager:
        return
    for span in targets:
        # Bytes that other operations in flight read or write must keep their contents.
        if machine.functions:  # one of them may want to read them
            continue
        if not _meets(span, span.block.pending_writes) and not _meets(span, span.block.pending_reads):
            poison(span.block.data[span.start : span.stop])
    watches = [Watch(span, Hazard.SOURCE_CHANGED) for span in sources]
    watches += [Watch(span, Hazard.TARGET_CHANGED) for span in targets]
    for span in sources:
        span.block.pending_reads[operation] = (span.start, span.stop)
    for span in targets:
        span.block.pending_writes[operation] = (span.start, span.stop)
    for each in watches:
        each.span.block.watches.append(each)
    guard = machine.guard
    if guard is not None:
        for span in (*sources, *targets):
            guard.protect(operation, span, is_target=span in targets)
    assert operation.run is not None
    run = operation.run

    def checked() -> None:
        if guard is not None:
            guard.lift(operation)
        for span in sources:
            span.block.pending_reads.pop(operation, None)
        for span in targets:
            span.block.pending_writes.pop(operation, None)
        for each in watches:
            each.span.block.watches.remove(each)
            each.look()
        others = [each for span in targets for each in span.block.watches if ranges.meet(each.span, span)]
        for other in others:
            other.look()
        is_on = machine.detector.is_on
        run()
        for other in others:
            other.accept()
        for each in watches:
            if each.is_changed and is_on:
                machine.detector.report(change_between(each.hazard, operation, _where(each.span)))

    operation.run = checked


def _meets(span: Span, pending: dict[Operation, tuple[int, int]]) -> bool:
    """Whether an operation in flight accesses some of the bytes."""
    start, stop = span.start, span.stop
    return any(begin < stop and start < end for begin, end in pending.values())


def _where(span: Span) -> str:
    return f"bytes {span.start} to {span.stop} of {span.block.where}"


def _checksum(span: Span) -> int:
    return zlib.crc32(span.block.data[span.start : span.stop].data)


def report_touches(detector: Detector, guard: PageGuard) -> None:
    """Report the accesses that the page guard has caught since the last call."""
    while guard.touches:
        touch = guard.touches.popleft()
        names = stream_names(touch.operation.location)
        detector.report(
            Race(
                hazard=Hazard.HOST_WRITE if touch.is_write else Hazard.HOST_READ,
                first=Access.of(touch.operation, names),
                second=Access("a write" if touch.is_write else "a read or a write", "the host", touch.site),
                memory=_where(touch.span),
                missing=f"the host does not wait for {touch.operation.participant.label}",
                remedy=waits_of_host(touch.operation, f"before {touch.site.file}:{touch.site.line}", names),
            )
        )
