"""Host memory under a copy in flight: NumPy touches it without asking, so its contents must tell.

The target of a copy to the host holds a pattern until the copy is carried out: who reads it too early
gets NaN. The source of a copy to a device is summed when the copy is enqueued and again when it is
carried out: who changed it in between is found.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from xferlib._site import user_call
from xferlib.sim.memory import POISON, poison
from xferlib.sim.operations import Action, Operation, Span
from xferlib.sim.reports import Access, Hazard, Race, change_between, waits_of_host

if TYPE_CHECKING:
    from xferlib._layout import HostArray
    from xferlib.sim.guard import PageGuard
    from xferlib.sim.machine import Machine

_PATTERN = np.array([POISON], np.uint16).view(np.uint8)


def watch(machine: Machine, operation: Operation) -> None:
    """Let a copy from or to host memory check its bytes when it is carried out."""
    sources = [span for span in operation.reads if span.block.device is None]
    targets = [span for span in operation.writes if span.block.device is None]
    if not (sources or targets) or machine.engine.schedule.is_eager:
        return
    # The contents may change in order too: sums and patterns only where nothing in flight makes them change.
    sums = [(span, _sum(span)) for span in sources if not _meets(span, span.block.pending_writes)]
    poisoned = [
        span
        for span in targets
        if not _meets(span, span.block.pending_writes) and not _meets(span, span.block.pending_reads)
    ]
    for span in poisoned:
        poison(span.block.data[span.start : span.stop])
    for span in sources:
        span.block.pending_reads[operation] = (span.start, span.stop)
    for span in targets:
        span.block.pending_writes[operation] = (span.start, span.stop)
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
        is_on = machine.detector.is_on
        changed = [span for span, before in sums if is_on and _sum(span) != before]
        written = [span for span in poisoned if is_on and not _is_poison(span)]
        run()
        for span in changed:
            machine.detector.report(change_between(Hazard.SOURCE_CHANGED, operation, _where(span)))
        for span in written:
            machine.detector.report(change_between(Hazard.TARGET_CHANGED, operation, _where(span)))

    operation.run = checked


def _meets(span: Span, pending: dict[Operation, tuple[int, int]]) -> bool:
    """Whether an operation in flight touches some of the bytes."""
    start, stop = span.start, span.stop
    return any(begin < stop and start < end for begin, end in pending.values())


def _where(span: Span) -> str:
    return f"bytes {span.start} to {span.stop} of {span.block.where}"


def _sum(span: Span) -> int:
    return zlib.crc32(span.block.data[span.start : span.stop].data)


def _is_poison(span: Span) -> bool:
    data = span.block.data[span.start : span.stop]
    even = data.nbytes & ~1
    is_whole = bool((data[0:even:2] == _PATTERN[0]).all() and (data[1:even:2] == _PATTERN[1]).all())
    return is_whole and bool((data[even:] == _PATTERN[1]).all())


def touch(machine: Machine, data: HostArray, *, is_write: bool, is_declared: bool) -> None:
    """The host reads or writes an array: checked if its memory is page-locked, or a transfer uses it.

    Args:
        is_declared: The program says so; else a blocking transfer does it.
    """
    with machine.lock:
        if is_declared:
            machine.settle()
            machine.engine.linger()
        elif machine.staging.is_clear(data):
            return
        if machine.detector.is_on:
            host = machine.hosts.current()
            action = Action("a write" if is_write else "a read", host, *user_call())
            machine.staging.check(action, host.clock, data, is_write=is_write)


def report_touches(machine: Machine, guard: PageGuard) -> None:
    """What the page guard has caught since the last call."""
    while guard.touches:
        touch = guard.touches.popleft()
        machine.detector.report(
            Race(
                hazard=Hazard.HOST_WRITE if touch.is_write else Hazard.HOST_READ,
                first=Access.of(touch.operation),
                second=Access("a write" if touch.is_write else "a read or a write", "the host", touch.site),
                memory=_where(touch.span),
                missing=f"the host does not wait for {touch.operation.participant.label}",
                remedy=waits_of_host(touch.operation, f"before {touch.site.file}:{touch.site.line}"),
            )
        )
