"""Memory of the simulated devices, and host memory that they can reach.

An address is a plain integer: block number * 2^36 + offset, so that finding the block is a shift and a
dictionary look-up, no address is ever used twice, and a stale one still identifies its block.
"""

from __future__ import annotations

import itertools
import mmap
import operator
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core.arrays import refuse_truncated, share_memory
from xferlib._runtime.checks import CodeLocation, site_of
from xferlib.errors import DeviceMemoryError, PinnedMemoryError
from xferlib.sim import model
from xferlib.sim.model import (
    Action,
    Clock,
    HasClock,
    History,
    HostThread,
    Joined,
    KeptClock,
    LastOwner,
    Region,
    Strided,
)

if TYPE_CHECKING:
    from xferlib._core.arrays import ArrayInfo, HostArray
    from xferlib._core.device import Device
    from xferlib.sim.model import SimStream


# A block of memory: the accesses to it, and which of its bytes have a value.


Bounds = tuple[int, int]
"""The addresses of the first byte and of the end of memory."""


class Span(Region["Block"]):
    """Bytes of one block of the simulated machine's memory."""

    __slots__ = ()

    @property
    def bounds(self) -> Bounds:
        return self.block.pointer + self.start, self.block.pointer + self.stop

    def __str__(self) -> str:
        of = "bytes" if self.form is None else "some of bytes"
        return f"{of} {self.start} to {self.stop} of {self.block.where}"


Spans = tuple[Span, ...]
WholeAccesses = tuple[Action | None, Action]
"""The last write of a block and the last access, both of all bytes and by one participant; None: it was only read."""


def on_host(spans: Spans) -> Spans:
    """The spans in host memory."""
    return tuple([span for span in spans if span.block.device is None])


class Block:
    """One allocation: its bytes, the accesses to them, and the line that made it.

    ``simulator.c`` makes blocks without `__init__`, fills each slot, and notes plain accesses as `note` does: what
    changes here changes there.

    Args:
        memory: Bytes that hold the block's, from number ``at`` on: small blocks share one piece of memory.
        nbytes: The size.
        pointer: The address; None: it gets one of ``space`` when it is needed, and can be found there from then on.
        space: Where it lies, of a device.
        device: The device; None for host memory.
        stream: The stream in whose order it was allocated, and is freed.
        location: The line that made it.
    """

    __slots__ = (
        "_at", "_bytes", "_data", "_pointer", "_space", "accesses", "device", "has_void", "is_counted", "last_owner",
        "left", "location", "nbytes", "stream", "value_flags",
    )  # fmt: skip

    def __init__(
        self, memory: HostArray, at: int, nbytes: int, pointer: int | None, device: Device | None,
        stream: SimStream | None, location: CodeLocation, space: AddressSpace | None = None,
    ) -> None:  # fmt: skip
        self._bytes = memory
        self._at = at
        self._data: HostArray | None = None
        self.nbytes = nbytes
        self._pointer = pointer
        self._space = space
        self.is_counted = False
        """Whether its bytes count as used."""
        self.device = device
        self.stream = stream
        self.location = location
        self.left: dict[int, KeptClock] | None = None
        """Of transfers to the host that kept the block until they ended: what was over with them."""
        self.has_void = device is not None
        """Whether some byte may have no value yet."""
        self.value_flags: model.Flags | None = None
        """The bytes that have a value; None if that is the same for all."""
        self.accesses: WholeAccesses | History | None = None
        """The accesses, in the form that is kept: see `history`."""
        self.last_owner: LastOwner | None = None
        """The last owner of the memory, if its work may still run."""

    @property
    def pointer(self) -> int:
        """The address."""
        found = self._pointer
        if found is None:
            assert self._space is not None
            found = self._pointer = self._space.give_address(self)
        return found

    @property
    def has_pointer(self) -> bool:
        """Whether something may know its address."""
        return self._pointer is not None

    @property
    def data(self) -> HostArray:
        """The bytes."""
        found = self._data
        if found is None:
            found = self._data = self._bytes[self._at : self._at + self.nbytes]
        return found

    @data.setter
    def data(self, data: HostArray) -> None:
        self._bytes, self._at, self._data = data, 0, data

    def hand_over(self, last_owner: LastOwner) -> None:
        """Take over recycled memory, whose last owner's work must happen before the next write."""
        self.last_owner = last_owner
        for each in last_owner.users:
            self.note(self.whole(), each, is_write=False)

    def begin_anew(self, location: CodeLocation) -> None:
        """Forget what host threads did with page-locked memory: reference counts order them before its next array.

        Args:
            location: The line that makes that array.
        """
        self.location = location
        history = self.history
        if history is not None and not history.forget(lambda action: type(action.participant) is HostThread):
            self.accesses = None

    @property
    def where(self) -> str:
        return where(self.nbytes, self.device, self.location)

    # --- the accesses
    #
    # Most blocks are only used as wholes, by one stream: then the last write and the last read are all there is to
    # remember, and no access of that stream can conflict with them. A `History` is made at the first other access.

    @property
    def history(self) -> History | None:
        """The accesses, if there were any."""
        accesses = self.accesses
        if type(accesses) is tuple:
            found, (last_write, last) = History(), accesses
            if last_write is not None:
                found.note(self.whole(), last_write, is_write=True)
            if last is not last_write:
                found.note(self.whole(), last, is_write=False)
            self.accesses = accesses = found  # in one assignment: an error may come in between
        return accesses  # type: ignore[return-value]

    def is_clear(self, action: Action, clock: Clock | Joined) -> bool:
        """Whether an access to any bytes of the block is ordered behind all others."""
        accesses = self.accesses
        if type(accesses) is tuple:
            last = accesses[1]
            participant = last.participant
            known = participant is action.participant or last.tick <= clock.get(participant.key, 0)
            return known or participant.is_retired
        return accesses is None or accesses.is_clear(action, clock)  # type: ignore[union-attr]

    def latest(self) -> list[Action]:
        """The last access of each participant."""
        accesses = self.accesses
        if type(accesses) is tuple:
            return [accesses[1]]
        return [] if accesses is None else accesses.latest()  # type: ignore[union-attr]

    def prune(self, known: Callable[[Action], bool]) -> None:
        """Drop the accesses that everything still to come is ordered behind, once there are many."""
        accesses = self.accesses
        if type(accesses) is History and accesses.is_long and not accesses.forget(known):
            self.accesses = None

    def note(self, span: Span, action: Action, *, is_write: bool) -> None:
        """Remember an access."""
        if span.form is None and span.stop - span.start >= self.nbytes:
            self.note_whole(action, is_write=is_write)
            return
        history = self.history
        if history is None:
            history = self.accesses = History()
        history.note(span, action, is_write=is_write)
        if is_write:
            self.note_values(span)

    def note_values(self, span: Span) -> None:
        """Note that a span has values."""
        if self.has_void:
            self._mark_values(span, True)

    def note_whole(self, action: Action, *, is_write: bool) -> None:
        """Remember an access to all bytes."""
        accesses = self.accesses
        if is_write:  # it stands for all accesses before it
            self.accesses = (action, action)
            self.has_void, self.value_flags = False, None
        elif accesses is None:
            self.accesses = (None, action)
        elif type(accesses) is tuple and accesses[1].participant is action.participant:
            self.accesses = (accesses[0], action)
        else:
            history = self.history
            assert history is not None
            history.note(self.whole(), action, is_write=False)

    def void(self, span: Span) -> model.Flags | None:
        """The bytes of a span without a value, as flags; None if each byte has one."""
        if not self.has_void:
            return None
        found = ~model.bytes_of(span, self._get_value_flags())
        if found.any():
            return found
        if span.form is None and span.stop - span.start >= self.nbytes:
            self.has_void, self.value_flags = False, None  # until a copy of such bytes
        return None

    def note_void(self, span: Span, found: model.Flags | None = None) -> None:
        """Note a copy of bytes without a value to this span: of all of it or, with ``found``, of those bytes."""
        self._mark_values(span, False)
        if found is not None:
            self._get_value_flags()[span.start : span.stop] = ~found

    def _mark_values(self, span: Span, has_value: bool) -> None:
        if span.form is None and span.stop - span.start >= self.nbytes:
            self.has_void, self.value_flags = not has_value, None
        else:
            model.mark(span, self._get_value_flags(), has_value)
            self.has_void = True

    def _get_value_flags(self) -> model.Flags:
        if self.value_flags is None:
            self.value_flags = (np.zeros if self.has_void else np.ones)(self.nbytes, np.bool_)
        return self.value_flags

    def pack_value_flags(self, start: int, stop: int) -> np.ndarray[Any, Any] | None:
        """One bit for each byte of a range that has a value, in words; None if all have."""
        if self.value_flags is not None and self.value_flags.all():
            self.has_void, self.value_flags = False, None
        if not self.has_void:
            return None
        words = np.zeros((stop - start) // 64 + 2, np.uint64)
        if self.value_flags is not None:
            packed = np.packbits(self.value_flags[start:stop], bitorder="little")
            words.view(np.uint8)[: len(packed)] = packed
        return words

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
    below, above, form = find_extent(shape, strides, itemsize)
    return (Span(block, start + below, start + above, form),)


def find_extent(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int, model.Form]:
    """The bytes of the elements ``sum(i * stride)``, as of a span; at least one."""
    start, stop = 0, itemsize
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
    return start, stop, Strided(run, tuple(kept)) if kept else None


def last_users(block: Block, before: Sequence[HasClock]) -> tuple[Action, ...]:
    """The last access of each participant that the streams and events ``before`` the free are ordered behind.

    Other participants' accesses are ordered by the owner's declarations, or by the host's waits.
    """
    clock = Joined(before)
    return tuple(
        [
            each
            for each in block.latest()
            if each.participant is block.stream
            or (each.tick <= clock.get(each.participant.key, 0) and not each.participant.is_retired)
        ]
    )


SLOT = 36
_FIRST = 1 << 12  # above every address that a 64-bit process can have
_FREED_REMEMBERED = 4096
_SMALL_NBYTES = 512
_PIECE_NBYTES = 8192
"""The memory that small blocks share: it is made in one step, and lives as long as one of them."""
_ALIGNED_TO = 64
_SUMMED_NBYTES = 1 << 16
"""From here on the sums of a table's rows and columns stand for the contents, at four times the rate."""
_ROW_NBYTES = 8 * 509  # an odd number of words, by which one change of all of them does not cancel
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


def _make_uninitialised(nbytes: int, device: Device) -> HostArray:
    """New bytes with the pattern of uninitialised memory.

    Raises:
        DeviceMemoryError: The host is short of memory.
    """
    try:
        words = np.empty((nbytes + 1) // 2, np.uint16)
    except MemoryError as error:
        raise DeviceMemoryError(
            f"{nbytes} bytes for {device} cannot be allocated: the host, which simulates it, is short of memory; "
            "free arrays, or work on parts"
        ) from error
    words.fill(POISON)
    return words.view(np.uint8)


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
    if host.dtype != np.uint8 or host.ndim != 1 or not host.flags.c_contiguous:
        refuse_truncated(host, "the batch")
        host = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
    if host.size < _SUMMED_NBYTES:
        return zlib.crc32(host.data)
    # Fetched in this function, which the handler of a fault knows.
    rows = host.size // _ROW_NBYTES
    table = host[: rows * _ROW_NBYTES].view(np.uint64).reshape(rows, -1)
    found = zlib.crc32(host[rows * _ROW_NBYTES :].data)
    return zlib.crc32(np.add.reduce(table, 0).data, zlib.crc32(np.add.reduce(table, 1).data, found))


def fill_uninitialised(host: HostArray) -> None:
    """Fill an array of any layout with the pattern of uninitialised memory."""
    words = np.full(max(host.itemsize // 2, 1), POISON, np.uint16)
    host[...] = words.view(np.uint8)[: host.itemsize].view(host.dtype)[0]


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
        return [each for each in [*self._all] if each.is_target]

    def over(self, host: HostArray, bounds: Bounds | None = None) -> list[Watch]:
        """The watches of memory that an array shares; ``bounds`` is what `bounds_of` says of it."""
        if not self._all:
            return []
        found = bounds if bounds is not None else bounds_of(host)
        return [each for each in [*self._all] if each.meets(host, found)]

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

    __slots__ = (
        "_blocks", "_freed", "_host", "_host_starts", "_numbers", "_piece", "_piece_at", "used",
    )  # fmt: skip

    def __init__(self) -> None:
        self._numbers = itertools.count(_FIRST)
        self._piece: HostArray | None = None
        """The memory that small blocks are using up."""
        self._blocks: dict[int, Block] = {}
        self._freed: deque[tuple[int, int, Device, CodeLocation, SimStream, CodeLocation]] = deque(
            maxlen=_FREED_REMEMBERED
        )
        self._piece_at = 0
        """The bytes of it that are in use."""
        self._host_starts: list[int] = []
        self._host: dict[int, Block] = {}
        self.used: dict[int, int] = {}

    # --- devices

    def allocate(self, nbytes: int, device: Device, stream: SimStream, location: CodeLocation) -> Block:
        """A block of uninitialised memory."""
        nbytes = operator.index(nbytes)  # of a wrong shape, an error before anything has changed
        at = 0
        if nbytes > _SMALL_NBYTES:
            memory = _make_uninitialised(nbytes, device)
        else:
            at = self._piece_at
            if self._piece is None or at + nbytes > _PIECE_NBYTES:
                at = 0
                self._piece = _make_uninitialised(_PIECE_NBYTES, device)
            memory = self._piece
            self._piece_at = at + (nbytes + _ALIGNED_TO - 1) // _ALIGNED_TO * _ALIGNED_TO
        return Block(memory, at, nbytes, None, device, stream, location, self)

    def give_address(self, block: Block) -> int:
        """An address that no block had before, at which the block can be found from now on.

        Most blocks need none: a program computes with their arrays, and they die.
        """
        number = next(self._numbers)
        self._blocks[number] = block
        return number << SLOT

    def enter(self, block: Block) -> None:
        """Count the block's bytes, once something owns it that will free it."""
        index = block.device.index  # type: ignore[union-attr]  # it is on one
        before = self.used.get(index, 0)
        try:
            self.used[index] = before + block.nbytes
            block.is_counted = True
        except BaseException:
            self.used[index], block.is_counted = before, False
            raise

    def free(self, block: Block, location: CodeLocation | None = None) -> None:
        """Forget a block; ``location`` is remembered for uses of its address."""
        if not block.is_counted:  # an error has come before `enter`, or after the end of this
            return
        index = block.device.index  # type: ignore[union-attr]  # it is on one
        left = self.used[index] - block.nbytes
        try:
            if block.has_pointer:
                number = block.pointer >> SLOT
                if location is not None:
                    made: Any = number, block.nbytes, block.device, block.location, block.stream, location
                    self._freed.append(made)
                self._blocks.pop(number, None)
            self.used[index] = left
            block.is_counted = False
        except BaseException:
            if block.has_pointer:
                self._blocks.pop(block.pointer >> SLOT, None)
            self.used[index], block.is_counted = left, False
            raise

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
        """The record of the freed block that contained an address; one beside it belongs to no block."""
        for number, nbytes, device, made, stream, location in self._freed:
            if 0 <= pointer - (number << SLOT) <= nbytes:
                return Freed(nbytes, device, made, Action("free", stream, location, tick=0))
        return None

    # --- the host

    def on_host(self) -> Iterable[Block]:
        """The blocks of tracked host memory."""
        return self._host.values()

    def track(self, data: np.ndarray[Any, Any], location: CodeLocation) -> Block:
        """Track accesses to host memory that a device may reach."""
        block = Block(data, 0, data.nbytes, data.ctypes.data, None, None, location)
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
