"""CUDA source on simulated devices: which bytes a launch touches is what its run has touched.

What a kernel reads and writes depends on its numbers, its indices and the data, so nothing but a run can say. It
is therefore computed when it is launched, behind all that CUDA's rules put before it, and the detector gets the bytes:
those of its arguments, of the module's variables, and what pointers in structs and tables lead to. To
wait for its turn would mean to check every later access again once the bytes are known, and to report a race at the
line of a wait.

A kernel has the addresses of the simulated devices, so that a pointer may lie in memory or in a struct, an index that
leaves an array meets no other one, and a stale address is known.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib.errors import KernelFaultError
from xferlib.sim import arrays, machine, model
from xferlib.sim.arrays import SimArray
from xferlib.sim.detector import RaceError
from xferlib.sim.machine import Explored
from xferlib.sim.memory import Block, Freed, Span
from xferlib.sim.model import NamedBytes

if TYPE_CHECKING:
    from xferlib._core.device import RawStream
    from xferlib.kernels.cuda_cpu.module import EmulatedKernel, KernelMemory, TouchedBytes
    from xferlib.sim.model import SimStream


def emulate(
    name: str, kernel: EmulatedKernel, args: Sequence[Any], written: Sequence[SimArray], stream: RawStream
) -> None:
    """Enqueue a raw kernel; ``written``: its arguments without ``const``, as which it counts without a detector."""
    on: SimStream = stream.stream  # type: ignore[attr-defined]  # a StreamHandle
    given = {number: args[number] for number in kernel}
    operands = {number: _memory(each, written) for number, each in given.items()}
    variables = () if kernel.memory is None else (kernel.memory,)
    launch = _Launch(name, kernel, given, operands, on)
    arrays.launch(
        name, launch.run, [*given.values(), *variables], [*written, *variables], on, uses_values=False,
        explore=launch.explore,
    )  # fmt: skip


def _memory(array: SimArray, written: Sequence[SimArray]) -> np.ndarray[Any, Any]:
    memory = array.memory().view()
    memory.flags.writeable = array.info.is_writable or any(array is other for other in written)
    return memory


class _Launch:
    """One launch, perhaps repeated by a graph.

    It holds the blocks and not the arrays, which may die meanwhile.
    """

    def __init__(
        self,
        name: str,
        kernel: EmulatedKernel,
        given: dict[int, SimArray],
        operands: dict[int, np.ndarray[Any, Any]],
        stream: SimStream,
    ) -> None:
        self._name = name
        self._kernel = kernel
        self._blocks = {number: each.allocation.block for number, each in given.items()}
        self._offsets = {number: each.info.pointer - each.allocation.block.pointer for number, each in given.items()}
        self._operands = operands
        self._stream = stream
        self._simulated = machine.machine()

    def run(self) -> None:
        """Compute in its turn, where the detector is off."""
        touched: list[TouchedBytes] = []
        try:
            self._kernel.follow([*self._describe()], touched, self._find)
        finally:
            for each in touched:
                block, start = _find_place(each.operand)
                for span in _list_spans(block, start, each, each.written):
                    block.note_values(span)

    def explore(self) -> Explored:
        """Compute now."""
        touched: list[TouchedBytes] = []
        self._freed: Freed | None = None
        error: Exception | None = None
        try:
            self._kernel.follow([*self._describe()], touched, self._find)
        except KernelFaultError as fault:
            error = fault
            if self._freed is not None:
                error = self._report_freed(self._freed, fault)
        reads: dict[Span, None] = {}
        writes: dict[Span, None] = {}
        names = []
        for each in touched:
            operand = each.operand
            block, start = _find_place(operand)
            reads.update(dict.fromkeys(_list_spans(block, start, each, each.read)))
            writes.update(dict.fromkeys(_list_spans(block, start, each, each.written)))
            end, item = start + operand.memory.nbytes, max(operand.memory.itemsize, 1)
            name = operand.words if operand.kind else ""
            names.append(NamedBytes(block.data, start, end, name, item, tuple(each.lines)))
        return Explored(tuple(reads), tuple(writes), tuple(names), error)

    def _describe(self) -> list[KernelMemory]:
        found = []
        for number in self._kernel:
            block, memory = self._blocks[number], self._operands[number]
            start = self._offsets[number]
            values = block.pack_value_flags(start, start + memory.nbytes)
            found.append(self._kernel.describe(number, memory, block, values))
        return [*found, *self._list_pointed()]

    def _list_pointed(self) -> list[KernelMemory]:
        """The blocks of arguments into which a number or a struct points too: all of each may be used."""
        own = {block.pointer: block for block in self._blocks.values()}
        pointed: dict[int, KernelMemory] = {}
        for number, value in enumerate(self._kernel.values):
            if number in self._blocks:
                continue
            for (address,) in struct.iter_unpack("=Q", value[: len(value) // 8 * 8]):
                block = self._simulated.memory.find(address) if address else None
                if block is not None and block.pointer in own:
                    pointed[block.pointer] = _describe_block(block)
        return [*pointed.values()]

    def _find(self, address: int) -> KernelMemory | None:
        """The memory that a kernel reaches by a pointer which is no argument; beside an argument it has left that."""
        memory = self._simulated.memory
        block = memory.find(address)
        if block is None:
            self._freed = memory.find_freed(address)
            return None
        return None if any(block is each for each in self._blocks.values()) else _describe_block(block)

    def _report_freed(self, freed: Freed, fault: KernelFaultError) -> Exception:
        try:
            self._simulated.report_freed(freed, self._name, self._stream)
        except RaceError as error:
            error.__cause__ = fault
            return error
        return fault


def _describe_block(block: Block) -> KernelMemory:
    from xferlib.kernels.cuda_cpu.module import KernelMemory

    values = block.pack_value_flags(0, block.nbytes)
    return KernelMemory(block.where, block.data, address=block.pointer, kind="", values=values, owner=block)


def _find_place(operand: KernelMemory) -> tuple[Block, int]:
    """The block of an operand, and the offset there."""
    owner = operand.owner
    if isinstance(owner, Block):
        assert operand.address is not None
        return owner, operand.address - owner.pointer
    block: Block = owner.allocation.block  # of the variables of a module, whose addresses are the host's
    return block, operand.memory.ctypes.data - block.data.ctypes.data


def _list_spans(block: Block, start: int, touched: TouchedBytes, found: np.ndarray[Any, Any]) -> Iterator[Span]:
    """The bytes of a block that ``found`` holds, of an operand that begins at ``start``."""
    first, end = touched.find_extent(found)
    if first == end:
        return
    flags = touched.find_flags(found, first, end)
    if flags is None:
        yield Span(block, start + first, start + end)
    else:
        yield from (Span(*each) for each in model.regions_of(block, start + first, flags))
