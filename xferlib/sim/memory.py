"""Memory of the simulated devices, and host memory that they can reach.

An address is a plain integer: block number * 2^36 + offset, so that finding the block is a shift and a
dictionary look-up, no address is ever used twice, and a stale one always names the block it meant.
"""

from __future__ import annotations

import itertools
import mmap
from bisect import bisect_right, insort
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._site import NOWHERE, Place, site_of
from xferlib.sim import ranges
from xferlib.sim.clocks import RETIRED, Participant
from xferlib.sim.history import History
from xferlib.sim.intervals import IntervalMap
from xferlib.sim.operations import Action, Operation, Span, void
from xferlib.sim.pool import Former

if TYPE_CHECKING:
    from xferlib._device import Device
    from xferlib.sim.hostdata import Watch
    from xferlib.sim.streams import SimStream

SLOT = 36
_FIRST = 1 << 12  # above every address that a 64-bit process can have
_FREED_REMEMBERED = 4096
_PRUNE_FROM = 128
POISON = 0xFFFB
"""Uninitialised memory, 16 bits at a time: a quiet NaN in every floating type, -5 in int16."""


Shadow = tuple[Action | None, tuple[Action, ...]]
"""Who last wrote some bytes, and who has read them since without being ordered among themselves."""
UNTOUCHED: Shadow = (None, ())
FRESH: Shadow = (Action("allocation", RETIRED, NOWHERE), ())
"""Of device memory that nothing has written yet."""
assert FRESH[0] is not None
FRESH[0].is_void = True


class Block:
    """One allocation: its bytes, who touched which of them, and where it was made."""

    __slots__ = (
        "data", "device", "former", "has_void", "history", "left", "nbytes", "pending_reads", "pending_writes", "place",
        "pointer", "prune_at", "shadow", "stream", "watches", "written",
    )  # fmt: skip

    def __init__(
        self, data: np.ndarray[Any, Any], pointer: int, *, device: Device | None, stream: SimStream | None, place: Place
    ) -> None:
        self.data = data
        self.nbytes = data.nbytes
        self.pointer = pointer
        self.device = device
        """None: host memory."""
        self.stream = stream
        """The stream in whose order it was allocated, and is freed."""
        self.place = place
        self.prune_at = _PRUNE_FROM
        """Segments of the shadow at which it is pruned next."""
        self.pending_reads: dict[Operation, tuple[int, int]] = {}
        """Of host memory: operations in flight that read it, and where."""
        self.pending_writes: dict[Operation, tuple[int, int]] = {}
        self.watches: list[Watch] = []
        """What those operations use of it."""
        self.left: list[Participant] = []
        """Transfers to the host that have ended: each has kept the block until then."""
        self.has_void = device is not None
        """Whether some of it may have no value yet."""
        self.shadow: IntervalMap[Shadow] = IntervalMap(max(self.nbytes, 1), UNTOUCHED if device is None else FRESH)
        """Who touched which bytes, of accesses to all bytes of a range."""
        self.written: ranges.Flags | None = None
        """Bytes written since as a part of separate runs: such writes are not in the shadow; None: there were none."""
        self.history: History | None = None
        """Of the other accesses, if there were any."""
        self.former: Former | None = None
        """The array that had the memory before, if something may still have been at work on it."""

    def hand_over(self, former: Former) -> None:
        """The memory is another array's no more; what may still use it comes before the next write."""
        self.former = former
        self.shadow.restart((self.shadow.at(0)[0], former.users))

    @property
    def where(self) -> str:
        return _where(self.nbytes, self.device, self.place)

    @property
    def is_long(self) -> bool:
        """Whether what is known of accesses is to be pruned."""
        return len(self.shadow) >= self.prune_at or (self.history is not None and self.history.is_long)

    def void(self, span: Span) -> ranges.Flags | None:
        """Of each byte of a span, whether it holds no value; None: each holds one."""
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

    def note_initialised(self) -> None:
        """Every byte has a value, and none is in use."""
        self.shadow.rewrite(lambda _: UNTOUCHED)
        self.has_void = False

    def note_written(self, span: Span) -> None:
        """Separate runs of bytes were given a value."""
        if self.written is None:
            self.written = np.zeros(self.nbytes, np.bool_)
        ranges.mark(span, self.written, True)

    def note_void(self, span: Span, write: Action, found: ranges.Flags | None = None) -> None:
        """Bytes were written by a copy of bytes without a value: of all or, with ``found``, of those."""
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

    def whole(self) -> Span:
        return Span(self, 0, max(self.nbytes, 1))


class Freed(NamedTuple):
    """What is remembered of a block that is gone."""

    nbytes: int
    device: Device
    place: Place
    action: Action

    @property
    def where(self) -> str:
        return _where(self.nbytes, self.device, self.place)


def _where(nbytes: int, device: Device | None, place: Place) -> str:
    memory = "pinned host memory" if device is None else f"memory of {device}"
    return f"{nbytes} bytes of {memory} allocated at {site_of(place)}"


def poison(data: np.ndarray[Any, Any]) -> None:
    """Fill bytes with the pattern of uninitialised memory."""
    even = data.nbytes & ~1
    words = data[:even]
    if words.ctypes.data % 2 == 0:
        words.view(np.uint16).fill(POISON)
    else:
        words[0::2] = POISON & 0xFF
        words[1::2] = POISON >> 8
    data[even:] = POISON >> 8


class Memory:
    """Every block by address, the freed ones for a while, and how much each device holds."""

    def __init__(self) -> None:
        self._numbers = itertools.count(_FIRST)
        self._blocks: dict[int, Block] = {}
        self._freed: OrderedDict[int, Freed] = OrderedDict()
        self._host_starts: list[int] = []
        self._host: dict[int, Block] = {}
        self.used: dict[int, int] = {}

    # --- devices

    def allocate(self, nbytes: int, device: Device, stream: SimStream, place: Place) -> Block:
        words = np.empty((nbytes + 1) // 2, np.uint16)
        words.fill(POISON)
        data = words.view(np.uint8)[:nbytes]
        pointer = next(self._numbers) << SLOT
        block = Block(data, pointer, device=device, stream=stream, place=place)
        self._blocks[pointer >> SLOT] = block
        self.used[device.index] = self.used.get(device.index, 0) + nbytes
        return block

    def free(self, block: Block, action: Action) -> None:
        assert block.device is not None
        number = block.pointer >> SLOT
        del self._blocks[number]
        self._freed[number] = Freed(block.nbytes, block.device, block.place, action)
        while len(self._freed) > _FREED_REMEMBERED:
            self._freed.popitem(last=False)
        self.used[block.device.index] -= block.nbytes

    def find(self, pointer: int) -> Block | None:
        """The block that holds an address, on a device or in tracked host memory."""
        block = self._blocks.get(pointer >> SLOT)
        if block is not None:
            return block if pointer - block.pointer <= block.nbytes else None
        index = bisect_right(self._host_starts, pointer) - 1
        if index < 0:
            return None
        block = self._host[self._host_starts[index]]
        return block if pointer < block.pointer + block.nbytes else None

    def freed(self, pointer: int) -> Freed | None:
        """What is known of the freed block that an address was in."""
        return self._freed.get(pointer >> SLOT)

    def blocks(self) -> list[Block]:
        return [*self._blocks.values(), *self._host.values()]

    # --- the host

    def track(self, data: np.ndarray[Any, Any], place: Place) -> Block:
        """Follow accesses to host memory that a device may reach."""
        block = Block(data, data.ctypes.data, device=None, stream=None, place=place)
        insort(self._host_starts, block.pointer)
        self._host[block.pointer] = block
        return block

    def untrack(self, pointer: int) -> Block:
        del self._host_starts[bisect_right(self._host_starts, pointer) - 1]
        return self._host.pop(pointer)


def pages(nbytes: int) -> np.ndarray[Any, Any]:
    """Host memory in pages of its own, so that a page guard on it guards nothing else."""
    return np.frombuffer(mmap.mmap(-1, max(nbytes, 1)), np.uint8, nbytes)
