"""A block of memory: the accesses to each of its bytes, and which bytes have a value.

Contiguous accesses are kept in `Block.shadow`, a map of ranges; others in `Block.history`, because each column of a
matrix would cut the map at every row. A byte has no value until something is written there, which the shadow shows by
its last write. A non-contiguous write is not in the shadow, so `Block.written` flags its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._runtime.callsite import NOWHERE, CodeLocation, site_of
from xferlib.sim.model import ranges
from xferlib.sim.model.clocks import RETIRED, Joined, KeptClock, Participant
from xferlib.sim.model.history import History
from xferlib.sim.model.intervals import IntervalMap
from xferlib.sim.model.operations import Action, void
from xferlib.sim.model.pool import LastOwner
from xferlib.sim.model.ranges import Form, Region, Strided

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.device import Device
    from xferlib.sim.model.streams import SimStream

_PRUNE_FROM = 128


class Span(Region["Block"]):
    """Bytes of one block of the simulated machine's memory."""

    __slots__ = ()

    def __str__(self) -> str:
        of = "bytes" if self.form is None else "some of bytes"
        return f"{of} {self.start} to {self.stop} of {self.block.where}"


Spans = tuple[Span, ...]


def on_host(spans: Spans) -> Spans:
    """The spans in host memory."""
    return tuple([span for span in spans if span.block.device is None])


Shadow = tuple[Action | None, tuple[Action, ...]]
"""The last write of some bytes, and the reads since then that are not ordered among each other."""
UNTOUCHED: Shadow = (None, ())
FRESH: Shadow = (Action("allocation", RETIRED, NOWHERE), ())
"""The shadow of device memory that is not written yet."""
assert FRESH[0] is not None
FRESH[0].is_void = True


class Block:
    """One allocation: its bytes, the accesses to them, and the line that made it."""

    __slots__ = (
        "data", "device", "has_void", "history", "last_owner", "left", "location", "nbytes", "pointer",
        "prune_at", "shadow", "stream", "written",
    )  # fmt: skip

    def __init__(
        self,
        data: np.ndarray[Any, Any],
        pointer: int,
        *,
        device: Device | None,
        stream: SimStream | None,
        location: CodeLocation,
    ) -> None:
        self.data = data
        self.nbytes = data.nbytes
        self.pointer = pointer
        self.device = device
        """The device; None for host memory."""
        self.stream = stream
        """The stream in whose order it was allocated, and is freed."""
        self.location = location
        self.prune_at = _PRUNE_FROM
        """The number of segments of the shadow at which it is pruned next."""
        self.left: dict[int, KeptClock] = {}
        """Of transfers to the host that kept the block until they ended: what was over with them."""
        self.has_void = device is not None
        """Whether some byte may have no value yet."""
        self.shadow: IntervalMap[Shadow] = IntervalMap(max(self.nbytes, 1), UNTOUCHED if device is None else FRESH)
        """The accesses to contiguous ranges."""
        self.written: ranges.Flags | None = None
        """The bytes given a value by non-contiguous writes, which are not in the shadow; None if there were none."""
        self.history: History | None = None
        """The non-contiguous accesses, if there were any."""
        self.last_owner: LastOwner | None = None
        """The last owner of the memory, if its work may still run."""

    def hand_over(self, last_owner: LastOwner) -> None:
        """Take over recycled memory, whose last owner's work must happen before the next write."""
        self.last_owner = last_owner
        self.shadow.restart((self.shadow.at(0)[0], last_owner.users))

    @property
    def where(self) -> str:
        return where(self.nbytes, self.device, self.location)

    @property
    def is_long(self) -> bool:
        """Whether the records of accesses should be pruned."""
        return len(self.shadow) >= self.prune_at or (self.history is not None and self.history.is_long)

    def void(self, span: Span) -> ranges.Flags | None:
        """The bytes of a span without a value, as flags; None if each byte has one."""
        start, stop, written = span.start, span.stop, self.written
        segments = [
            (max(begin, start) - start, min(end, stop) - start)
            for begin, end, (write, _) in self.shadow.within(start, stop)
            if write is not None and write.is_void
        ]
        if not segments or (written is not None and ranges.bytes_of(span, written).all()):
            return None
        found = np.zeros(stop - start, np.bool_)
        for begin, end in segments:
            found[begin:end] = True
        if written is not None:
            found &= ~written[start:stop]
        found = ranges.bytes_of(span, found, start)
        return found if found.any() else None

    def note_written(self, span: Span) -> None:
        """Note a non-contiguous write of values."""
        if self.written is None:
            self.written = np.zeros(self.nbytes, np.bool_)
        ranges.mark(span, self.written, True)

    def note_void(self, span: Span, write: Action, found: ranges.Flags | None = None) -> None:
        """Note a copy of bytes without a value to this span: of all of it or, with ``found``, of those bytes."""
        self.has_void = True
        if span.form is not None:
            if self.written is not None:
                ranges.mark(span, self.written, False)
            return
        copied = (void(write), ())
        self.shadow.update(span.start, span.stop, lambda _: copied)
        if self.written is not None or found is not None:
            if self.written is None:
                self.written = np.zeros(self.nbytes, np.bool_)
            self.written[span.start : span.stop] = False if found is None else ~found

    def accesses(self) -> Iterator[tuple[Action, int, int, Form, bool]]:
        """The last accesses, the bytes of each, and whether it wrote them."""
        for start, stop, (write, reads) in self.shadow.within(0, self.shadow.nbytes):
            if write is not None:
                yield write, start, stop, None, True
            for read in reads:
                yield read, start, stop, None, False
        if self.history is not None:
            yield from self.history.every()

    def whole(self) -> Span:
        return Span(self, 0, max(self.nbytes, 1))


def where(nbytes: int, device: Device | None, location: CodeLocation) -> str:
    memory = "pinned host memory" if device is None else f"memory of {device}"
    return f"{nbytes} bytes of {memory} allocated at {site_of(location)}"


def spans(info: ArrayInfo, block: Block) -> Spans:
    """The spans of an array."""
    start = info.pointer - block.pointer
    if info.is_c_contiguous:
        return (Span(block, start, start + info.nbytes),) if info.nbytes else ()
    return strided_spans(block, start, info.shape, info.strides, info.dtype.itemsize)


def strided_spans(block: Block, start: int, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> Spans:
    """The spans of the elements ``start + sum(i * stride)`` of a block."""
    if 0 in shape:
        return ()
    stop = start + itemsize
    axes: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent > 1 and stride:
            if stride < 0:
                stride = -stride
                start -= (extent - 1) * stride
            else:
                stop += (extent - 1) * stride
            axes.append((stride, extent))
    if len(axes) > 1:
        axes.sort()
    run = itemsize
    kept: list[tuple[int, int]] = []
    for stride, extent in axes:
        if not kept and stride <= run:
            run += (extent - 1) * stride
        elif kept and kept[-1][0] * kept[-1][1] == stride:
            kept[-1] = (kept[-1][0], kept[-1][1] * extent)
        else:
            kept.append((stride, extent))
    return (Span(block, start, stop, Strided(run, tuple(kept)) if kept else None),)


def last_users(block: Block, before: Sequence[Participant]) -> tuple[Action, ...]:
    """The last access of each participant that the streams ``before`` the free are ordered behind.

    Other participants' accesses are ordered by the owner's declarations, or by the host's waits.
    """
    states, own = block.shadow.states(), block.stream
    if len(states) == 1 and block.history is None and not states[0][1]:  # written as a whole, by far the most common
        write = states[0][0]
        if write is None:
            return ()
        if write.participant is own:
            return (write,)
    clock = Joined(before)
    latest: dict[int, Action] = {}
    for action in _accesses(block):
        key = action.participant.key
        if key not in latest or latest[key].tick < action.tick:
            latest[key] = action
    return tuple(
        [
            each
            for key, each in latest.items()
            if each.participant is own or (each.tick <= clock.get(key, 0) and not each.participant.is_retired)
        ]
    )


def _accesses(block: Block) -> Iterator[Action]:
    for write, reads in block.shadow.states():
        if write is not None:
            yield write
        yield from reads
    if block.history is not None:
        yield from block.history.latest()
