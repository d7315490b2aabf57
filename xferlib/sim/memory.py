"""Memory of the simulated devices, and host memory that they can reach.

An address is a plain integer: block number * 2^36 + offset, so that finding the block is a shift and a
dictionary look-up, no address is ever used twice, and a stale one still identifies its block.
"""

from __future__ import annotations

import itertools
import mmap
import operator
import zlib
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from xferlib._core.arrays import refuse_truncated, share_memory
from xferlib._runtime.checks import NOWHERE, CodeLocation, site_of
from xferlib.errors import DeviceMemoryError, PinnedMemoryError
from xferlib.sim import model
from xferlib.sim.model import (
    RETIRED,
    Action,
    Form,
    HasClock,
    History,
    Joined,
    KeptClock,
    LastOwner,
    Region,
    Strided,
    exhaust,
    void,
)

if TYPE_CHECKING:
    from xferlib._core.arrays import ArrayInfo, HostArray
    from xferlib._core.device import Device
    from xferlib.sim.model import SimStream


# A map from byte ranges to states, in as few segments as the states allow.

S = TypeVar("S")


class IntervalMap(Generic[S]):
    """The states of the bytes ``0 .. nbytes``, cut only where two neighbours differ.

    Args:
        nbytes: The length of the line, at least 1.
        initial: The state of every byte.
    """

    __slots__ = ("_starts", "_states", "is_cut", "nbytes")

    def __init__(self, nbytes: int, initial: S) -> None:
        self.nbytes = nbytes
        self.is_cut = False
        """Whether there may be several segments. The owner may set it too, for states that it keeps elsewhere."""
        self._starts = [0]
        self._states: list[S] = [initial]

    def __len__(self) -> int:
        return len(self._starts)

    def within(self, start: int, stop: int) -> list[tuple[int, int, S]]:
        """The segments that have a byte of ``start .. stop``, each as (start, stop, state)."""
        starts = self._starts
        first, last = bisect_right(starts, start) - 1, bisect_left(starts, stop)
        stops = [*starts[first + 1 : last + 1], self.nbytes]
        return list(zip(starts[first:last], stops, self._states[first:last], strict=False))

    def restart(self, state: S) -> None:
        """Give every byte one state."""
        self._replace(0, len(self._states), [(0, state)])
        self.is_cut = False

    def states(self) -> list[S]:
        """The state of each segment."""
        return self._states

    def at(self, position: int) -> S:
        """The state of one byte."""
        return self._states[bisect_right(self._starts, position) - 1]

    def update(self, start: int, stop: int, change: Callable[[S], S]) -> None:
        """Apply ``change`` to the states of ``start .. stop``; equal old states are changed once.

        ``change`` is called in the order of the addresses; neighbours that come out as the same
        object become one segment.
        """
        starts, states = self._starts, self._states
        if not self.is_cut and stop - start == self.nbytes:
            states[0] = change(states[0])
            return
        first = bisect_right(starts, start) - 1
        end = starts[first + 1] if first + 1 < len(starts) else self.nbytes
        if starts[first] == start and end == stop:  # one whole segment: by far the most common
            states[first] = change(states[first])
            return
        self.is_cut = True
        last = bisect_left(starts, stop, first + 1)
        changed: dict[int, S] = {}
        pieces: list[tuple[int, S]] = [(starts[first], states[first])] if starts[first] < start else []
        for begin, state in zip(starts[first:last], states[first:last], strict=True):
            key = id(state)
            if key not in changed:
                changed[key] = change(state)
            pieces.append((max(begin, start), changed[key]))
        if stop < (starts[last] if last < len(starts) else self.nbytes):
            pieces.append((stop, states[last - 1]))
        self._replace(first, last, pieces)

    def _replace(self, first: int, last: int, pieces: list[tuple[int, S]]) -> None:
        """Put others in the place of some segments, and merge neighbours that are the same object."""
        starts: list[int] = []
        states: list[S] = []
        before = self._states[first - 1] if first else None
        for start, state in pieces:
            previous = states[-1] if states else before
            if state is not previous or (first == 0 and not states):
                starts.append(start)
                states.append(state)
        if last < len(self._states) and self._states[last] is (states[-1] if states else before):
            last += 1
        both: tuple[list[Any], list[Any]] = (self._starts, self._states)
        where = slice(first, last)
        # In one call of C: an error between the two would leave lists of different lengths.
        exhaust(map(operator.setitem, both, (where, where), (starts, states)))

    def rewrite(self, change: Callable[[S], S]) -> None:
        """Apply ``change`` to every state, and merge neighbours that it makes the same object."""
        changed: dict[int, S] = {}
        for state in self._states:
            if id(state) not in changed:
                changed[id(state)] = change(state)
        fresh = [changed[id(state)] for state in self._states]
        self._replace(0, len(self._states), list(zip(self._starts, fresh, strict=True)))
        self.is_cut = len(self._states) > 1


# A block of memory: the accesses to each of its bytes, and which bytes have a value.
#
# Contiguous accesses are kept in `Block.shadow`, a map of ranges; others in `Block.history`, because each column of a
# matrix would cut the map at every row. A byte has no value until something is written there, which the shadow shows by
# its last write. A non-contiguous write is not in the shadow, so `Block.written` flags its bytes.

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
        self.written: model.Flags | None = None
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

    def void(self, span: Span) -> model.Flags | None:
        """The bytes of a span without a value, as flags; None if each byte has one."""
        start, stop, written = span.start, span.stop, self.written
        segments = [
            (max(begin, start) - start, min(end, stop) - start)
            for begin, end, (write, _) in self.shadow.within(start, stop)
            if write is not None and write.is_void
        ]
        if not segments or (written is not None and model.bytes_of(span, written).all()):
            return None
        found = np.zeros(stop - start, np.bool_)
        for begin, end in segments:
            found[begin:end] = True
        if written is not None:
            found &= ~written[start:stop]
        found = model.bytes_of(span, found, start)
        return found if found.any() else None

    def note_written(self, span: Span) -> None:
        """Note a non-contiguous write of values."""
        if self.written is None:
            self.written = np.zeros(self.nbytes, np.bool_)
        model.mark(span, self.written, True)

    def note_void(self, span: Span, write: Action, found: model.Flags | None = None) -> None:
        """Note a copy of bytes without a value to this span: of all of it or, with ``found``, of those bytes."""
        self.has_void = True
        if span.form is not None:
            if self.written is not None:
                model.mark(span, self.written, False)
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


def last_users(block: Block, before: Sequence[HasClock]) -> tuple[Action, ...]:
    """The last access of each participant that the streams and events ``before`` the free are ordered behind.

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


SLOT = 36
_FIRST = 1 << 12  # above every address that a 64-bit process can have
_FREED_REMEMBERED = 4096
POISON = 0xFFFB
"""Uninitialised memory, 16 bits at a time: a quiet NaN in every floating type, -5 in int16."""


class Freed(NamedTuple):
    """The record of a freed block."""

    nbytes: int
    device: Device
    location: CodeLocation
    action: Action

    @property
    def where(self) -> str:
        return where(self.nbytes, self.device, self.location)


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


def bounds_of(host: HostArray) -> Bounds:
    """The addresses of an array's first byte and of its end; of an array without elements they are equal."""
    return np.lib.array_utils.byte_bounds(host) if host.size else (0, 0)


def checksum(host: HostArray) -> int:
    """A number that the contents of an array decide.

    Raises:
        LayoutError: It is a memory map of a file that has been truncated.
    """
    if host.dtype == np.uint8 and host.ndim == 1 and host.flags.c_contiguous:
        return zlib.crc32(host.data)
    refuse_truncated(host, "the batch")
    return zlib.crc32(np.ascontiguousarray(host).reshape(-1).view(np.uint8).data)


def fill_uninitialised(host: HostArray) -> None:
    """Fill an array of any layout with the pattern of uninitialised memory."""
    words = np.full(max(host.itemsize // 2, 1), POISON, np.uint16)
    host[...] = words.view(np.uint8)[: host.itemsize].view(host.dtype)[0]


Bounds = tuple[int, int]
"""The addresses of the first byte and of the end of memory."""


class Watch:
    """Watches host memory that a copy in flight uses: only other operations may change it."""

    __slots__ = ("_bounds", "_checksum", "host", "is_changed", "is_target")

    def __init__(self, host: HostArray, bounds: Bounds | None = None, *, is_target: bool) -> None:
        self.host = host
        self.is_target = is_target
        self.is_changed = False
        self._bounds = bounds if bounds is not None else bounds_of(host)
        self._checksum = checksum(host)

    def meets(self, host: HostArray, bounds: Bounds) -> bool:
        """Whether an array, whose bytes lie in ``bounds``, has an element in the memory."""
        begin, end = self._bounds
        return begin < bounds[1] and bounds[0] < end and share_memory(self.host, host)

    def look(self) -> None:
        """Note whether the program has changed it since the last look."""
        self.is_changed = self.is_changed or checksum(self.host) != self._checksum

    def accept(self) -> None:
        """Take the present contents as expected: an operation wrote them."""
        self._checksum = checksum(self.host)


class Watches:
    """The watches of all copies in flight."""

    def __init__(self) -> None:
        self._all: dict[Watch, None] = {}

    def targets(self) -> list[Watch]:
        return [each for each in self._all if each.is_target]

    def over(self, host: HostArray, bounds: Bounds | None = None) -> list[Watch]:
        """The watches of memory that an array shares; ``bounds`` is what `bounds_of` says of it."""
        if not self._all:
            return []
        found = bounds if bounds is not None else bounds_of(host)
        return [each for each in self._all if each.meets(host, found)]

    def add(self, *watches: Watch) -> None:
        self._all.update(dict.fromkeys(watches))

    def remove(self, *watches: Watch) -> None:
        for each in watches:
            self._all.pop(each, None)


def look(watches: Iterable[Watch]) -> None:
    """Before an operation writes to watched memory."""
    for each in watches:
        each.look()


def accept(watches: Iterable[Watch]) -> None:
    """After an operation has written to watched memory."""
    for each in watches:
        each.accept()


class AddressSpace:
    """Every block by address, the freed ones for a while, and how much each device holds."""

    def __init__(self) -> None:
        self._numbers = itertools.count(_FIRST)
        self._blocks: dict[int, Block] = {}
        self._freed: OrderedDict[int, Freed] = OrderedDict()
        self._host_starts: list[int] = []
        self._host: dict[int, Block] = {}
        self.used: dict[int, int] = {}

    # --- devices

    def allocate(self, nbytes: int, device: Device, stream: SimStream, location: CodeLocation) -> Block:
        try:
            words = np.empty((nbytes + 1) // 2, np.uint16)
        except MemoryError as error:
            raise DeviceMemoryError(
                f"{nbytes} bytes for {device} cannot be allocated: the host, which simulates it, is short of memory; "
                "free arrays, or work on parts"
            ) from error
        words.fill(POISON)
        data = words.view(np.uint8)[:nbytes]
        pointer = next(self._numbers) << SLOT
        return Block(data, pointer, device=device, stream=stream, location=location)

    def enter(self, block: Block) -> None:
        """Let the block be found, once something owns it that will free it."""
        assert block.device is not None
        index = block.device.index
        try:
            self._blocks[block.pointer >> SLOT] = block
            self.used[index] = self.used.get(index, 0) + block.nbytes
        except BaseException:
            self._count()
            raise

    def free(self, block: Block, action: Action | None = None) -> None:
        """Forget a block; ``action`` is remembered for uses of its address."""
        assert block.device is not None
        number = block.pointer >> SLOT
        if number not in self._blocks:  # an error has come before `enter`, or after the end of this
            return
        try:
            if action is not None:
                self._freed[number] = Freed(block.nbytes, block.device, block.location, action)
                while len(self._freed) > _FREED_REMEMBERED:
                    self._freed.popitem(last=False)
            del self._blocks[number]
            self.used[block.device.index] -= block.nbytes
        except BaseException:
            self._blocks.pop(number, None)
            self._count()
            raise

    def _count(self) -> None:
        self.used.clear()
        for block in self._blocks.values():
            assert block.device is not None
            self.used[block.device.index] = self.used.get(block.device.index, 0) + block.nbytes

    def find(self, pointer: int) -> Block | None:
        """The block that contains an address, on a device or in tracked host memory."""
        block = self._blocks.get(pointer >> SLOT)
        if block is not None:
            return block if pointer - block.pointer <= block.nbytes else None
        index = bisect_right(self._host_starts, pointer) - 1
        if index < 0:
            return None
        block = self._host[self._host_starts[index]]
        return block if pointer < block.pointer + block.nbytes else None

    def find_freed(self, pointer: int) -> Freed | None:
        """The record of the freed block that contained an address."""
        return self._freed.get(pointer >> SLOT)

    # --- the host

    def on_host(self) -> Iterable[Block]:
        """The blocks of tracked host memory."""
        return self._host.values()

    def track(self, data: np.ndarray[Any, Any], location: CodeLocation) -> Block:
        """Track accesses to host memory that a device may reach."""
        block = Block(data, data.ctypes.data, device=None, stream=None, location=location)
        self._host[block.pointer] = block
        self._host_starts = sorted(self._host)  # in one assignment: a list that differs from the table finds nothing
        return block

    def untrack(self, pointer: int) -> Block | None:
        """Forget host memory; None if it was never tracked, as an error came first."""
        self._host_starts = sorted(each for each in self._host if each != pointer)
        return self._host.pop(pointer, None)


def pages(nbytes: int) -> np.ndarray[Any, Any]:
    """Host memory in pages of its own, so that a page guard on it guards no other data."""
    try:
        return np.frombuffer(mmap.mmap(-1, max(nbytes, 1)), np.uint8, nbytes)
    except OSError as error:
        raise PinnedMemoryError(
            f"{nbytes} bytes of pinned memory cannot be allocated ({error}); free arrays, or work on parts"
        ) from error
