"""Memory of the simulated devices, and host memory that they can reach.

An address is a plain integer: block number * 2^36 + offset, so that finding the block is a shift and a
dictionary look-up, no address is ever used twice, and a stale one still identifies its block.
"""

from __future__ import annotations

import itertools
import mmap
from bisect import bisect_right, insort
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._runtime.callsite import CodeLocation
from xferlib.errors import DeviceMemoryError, PinnedMemoryError
from xferlib.sim.model.blocks import Block, where
from xferlib.sim.model.operations import Action

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xferlib._core.device import Device
    from xferlib.sim.model.streams import SimStream

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
        block = Block(data, pointer, device=device, stream=stream, location=location)
        self._blocks[pointer >> SLOT] = block
        self.used[device.index] = self.used.get(device.index, 0) + nbytes
        return block

    def free(self, block: Block, action: Action) -> None:
        assert block.device is not None
        number = block.pointer >> SLOT
        del self._blocks[number]
        self._freed[number] = Freed(block.nbytes, block.device, block.location, action)
        while len(self._freed) > _FREED_REMEMBERED:
            self._freed.popitem(last=False)
        self.used[block.device.index] -= block.nbytes

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

    def freed(self, pointer: int) -> Freed | None:
        """The record of the freed block that contained an address."""
        return self._freed.get(pointer >> SLOT)

    # --- the host

    def on_host(self) -> Iterable[Block]:
        """The blocks of tracked host memory."""
        return self._host.values()

    def track(self, data: np.ndarray[Any, Any], location: CodeLocation) -> Block:
        """Track accesses to host memory that a device may reach."""
        block = Block(data, data.ctypes.data, device=None, stream=None, location=location)
        insort(self._host_starts, block.pointer)
        self._host[block.pointer] = block
        return block

    def untrack(self, pointer: int) -> Block:
        del self._host_starts[bisect_right(self._host_starts, pointer) - 1]
        return self._host.pop(pointer)


def pages(nbytes: int) -> np.ndarray[Any, Any]:
    """Host memory in pages of its own, so that a page guard on it guards no other data."""
    try:
        return np.frombuffer(mmap.mmap(-1, max(nbytes, 1)), np.uint8, nbytes)
    except OSError as error:
        raise PinnedMemoryError(
            f"{nbytes} bytes of pinned memory cannot be allocated ({error}); free arrays, or work on parts"
        ) from error
