"""Host memory under a copy in flight, which NumPy accesses without a call that the detector could check.

The target of a copy to the host holds a pattern until the copy is carried out: an early read gets NaN, unless something
else in flight needs the old contents. The checksums of source and target are taken when a copy is enqueued, or its
staging put off, and again when it is carried out: a change in between, by anything but another operation, is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xferlib.sim.detect.program_names import stream_names
from xferlib.sim.detect.reports import Access, Hazard, Race, change_between, waits_of_host
from xferlib.sim.model.blocks import Span, Spans, on_host
from xferlib.sim.model.hosts import Stager
from xferlib.sim.model.memory import Watch, accept, look, poison
from xferlib.sim.model.operations import Operation

if TYPE_CHECKING:
    from xferlib._core.layout import HostArray
    from xferlib.sim.detect.detector import Detector
    from xferlib.sim.machine.page_guard import PageGuard
    from xferlib.sim.machine.parts import Parts
    from xferlib.sim.model.memory import Bounds


def watch(machine: Parts, operation: Operation, reads: Spans, writes: Spans) -> None:
    """Make a copy from or to host memory check its bytes when it is carried out."""
    sources = on_host(reads)
    targets = on_host(writes)
    if not (sources or targets) or machine.engine.schedule.is_eager:
        return
    for span in targets:  # something else may need the old contents
        if not machine.functions and not machine.watches.over(*_memory(span)):
            poison(_memory(span)[0])
    operation.around = around = _WatchedCopy(machine, operation, sources, targets)
    around.watch()


class _WatchedCopy:
    """The host memory of a copy in flight."""

    def __init__(self, machine: Parts, operation: Operation, sources: Spans, targets: Spans) -> None:
        self._machine = machine
        self._operation = operation
        self._targets = targets
        self._spans = (*sources, *targets)
        self._watches = [Watch(*_memory(span), is_target=span in targets) for span in self._spans]
        self._others: list[Watch] = []
        self._guard = machine.guard

    def watch(self) -> None:
        self._machine.watches.add(*self._watches)
        if self._guard is not None:
            for span in self._spans:
                self._guard.protect(self._operation, span, is_target=span in self._targets)

    def drop(self) -> None:
        if self._guard is not None:
            self._guard.lift(self._operation)
        self._machine.watches.remove(*self._watches)

    def begin(self) -> None:
        self.drop()
        look(self._watches)
        self._others = [each for span in self._targets for each in self._machine.watches.over(*_memory(span))]
        look(self._others)

    def end(self) -> None:
        accept(self._others)

    def report(self) -> None:
        detector = self._machine.detector
        for each, span in zip(self._watches, self._spans, strict=True):
            if each.is_changed and detector.is_on:
                hazard = Hazard.TARGET_CHANGED if each.is_target else Hazard.SOURCE_CHANGED
                race = change_between(hazard, self._operation, _where(span))
                if isinstance(self._machine.hosts.current(), Stager):  # or it would be that transfer's error
                    detector.postpone(race)
                else:
                    detector.report(race)


def _memory(span: Span) -> tuple[HostArray, Bounds]:
    """The bytes between the ends of a span of host memory, and their addresses."""
    block, start, stop, _ = span
    return block.data[start:stop], (block.pointer + start, block.pointer + stop)


def _where(span: Span) -> str:
    return f"bytes {span.start} to {span.stop} of {span.block.where}"


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
