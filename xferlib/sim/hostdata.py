"""Host memory under a copy in flight: NumPy touches it without asking, so its contents must tell.

The target of a copy to the host holds a pattern until the copy is carried out: who reads it too early
gets NaN. The source of a copy to a device is summed when the copy is enqueued and again when it is
carried out: who changed it in between is found.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from xferlib._site import Site, user_site
from xferlib.sim import ranges
from xferlib.sim.memory import POISON, poison
from xferlib.sim.operations import Action, Operation, Span
from xferlib.sim.reports import Access, Hazard, Race

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
            machine.detector.report(_changed(Hazard.SOURCE_CHANGED, operation, span))
        for span in written:
            machine.detector.report(_changed(Hazard.TARGET_CHANGED, operation, span))

    operation.run = checked


def _meets(span: Span, pending: dict[Operation, tuple[int, int]]) -> bool:
    """Whether an operation in flight touches some of the bytes."""
    start, stop = span.start, span.stop
    return any(begin < stop and start < end for begin, end in pending.values())


def _changed(hazard: Hazard, operation: Operation, span: Span) -> Race:
    now = user_site()
    return Race(
        hazard=hazard,
        first=Access.of(operation),
        second=Access("a write by the host", "the host", Site(now.file, now.line, f"{now.function}, or before it")),
        memory=f"bytes {span.start} to {span.stop} of {span.block.where}",
        missing=f"the host did not wait for the copy of {operation.site} before it wrote",
        remedy="stream.synchronize(), or event.synchronize() of an event recorded after the copy, before the write; "
        "without stream=, to_device returns when the source may be written",
    )


def _sum(span: Span) -> int:
    return zlib.crc32(span.block.data[span.start : span.stop].data)


def _is_poison(span: Span) -> bool:
    data = span.block.data[span.start : span.stop]
    return bool((data[0::2] == _PATTERN[0]).all() and (data[1::2] == _PATTERN[1]).all()) or data.nbytes % 2 == 1


def touch(machine: Machine, data: HostArray, *, is_write: bool) -> None:
    """The host reads or writes an array: checked if its memory is page-locked."""
    low, high = np.lib.array_utils.byte_bounds(data)
    with machine.lock:
        machine.settle()
        machine.engine.linger()
        block = machine.memory.find(low)
        if block is None or high == low or not machine.detector.is_on:
            return
        host = machine.hosts.current()
        action = Action("a write" if is_write else "a read", host, user_site())
        start = data.__array_interface__["data"][0] - block.pointer
        span = ranges.strided_spans(block, start, data.shape, data.strides, data.itemsize)
        if span[0].stop > block.nbytes:  # a view of more than what is page-locked
            span = (Span(block, low - block.pointer, block.nbytes),)
        machine.detector.check(action, host.clock, () if is_write else span, span if is_write else ())


def report_touches(machine: Machine, guard: PageGuard) -> None:
    """What the page guard has caught since the last call."""
    while guard.touches:
        touch = guard.touches.popleft()
        machine.detector.report(
            Race(
                hazard=Hazard.HOST_WRITE if touch.is_write else Hazard.HOST_READ,
                first=Access.of(touch.operation),
                second=Access("a write" if touch.is_write else "a read or a write", "the host", touch.site),
                memory=f"bytes {touch.span.start} to {touch.span.stop} of {touch.span.block.where}",
                missing=f"the host does not wait for {touch.operation.participant.label}",
                remedy=f"stream.synchronize(), or the transfer's result(), before {touch.site.file}:{touch.site.line}",
            )
        )
