"""Host memory under a copy in flight: NumPy touches it without asking, so its contents must tell.

The target of a copy to the host holds a pattern until the copy is carried out: who reads it too early
gets NaN. The source of a copy to a device is summed when the copy is enqueued and again when it is
carried out: who changed it in between is found.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from xferlib.sim.memory import POISON, Block, poison
from xferlib.sim.operations import Action, Operation, Site, Span, user_site
from xferlib.sim.reports import Access, Hazard, Race

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._layout import HostArray
    from xferlib.sim.machine import Machine

_PATTERN = np.array([POISON], np.uint16).view(np.uint8)


def watch(machine: Machine, operation: Operation) -> None:
    """Let a copy from or to host memory check its bytes when it is carried out."""
    sources = [span for span in operation.reads if span.block.device is None]
    targets = [span for span in operation.writes if span.block.device is None]
    if not (sources or targets) or machine.engine.schedule.is_eager:
        return
    sums = [(span, _sum(span)) for span in sources if not _is_pending(span, is_writer=True)]
    poisoned = [span for span in targets if not _is_pending(span, is_writer=False)]
    for span in poisoned:
        poison(span.block.data[span.start : span.stop])
    blocks = {id(span.block): span.block for span in (*sources, *targets)}
    for block in blocks.values():
        block.pending[operation] = None
    assert operation.run is not None
    operation.run = _checked(machine, operation, operation.run, sums, poisoned, list(blocks.values()))


def _checked(
    machine: Machine,
    operation: Operation,
    run: Callable[[], None],
    sums: list[tuple[Span, int]],
    poisoned: list[Span],
    blocks: list[Block],
) -> Callable[[], None]:
    def checked() -> None:
        for block in blocks:
            block.pending.pop(operation, None)
        changed = [span for span, before in sums if _sum(span) != before] if machine.detector.is_on else []
        written = [span for span in poisoned if not _is_poison(span)] if machine.detector.is_on else []
        run()
        for span in changed:
            machine.detector.report(_changed(Hazard.SOURCE_CHANGED, operation, span))
        for span in written:
            machine.detector.report(_changed(Hazard.TARGET_CHANGED, operation, span))

    return checked


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


def _is_pending(span: Span, *, is_writer: bool) -> bool:
    """Whether an operation in flight touches (``is_writer``: writes) some of the bytes."""
    for operation in span.block.pending:
        spans = operation.writes if is_writer else (*operation.reads, *operation.writes)
        for block, start, stop in spans:
            if block is span.block and start < span.stop and span.start < stop:
                return True
    return False


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
        span = (Span(block, low - block.pointer, min(high - block.pointer, block.nbytes)),)
        machine.detector.check(action, host.clock, () if is_write else span, span if is_write else ())
