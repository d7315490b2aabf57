"""Kernels on simulated devices: the CPU computes them, as operations of a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib.kernels.calls.backend_engine import BackendEngine
from xferlib.kernels.calls.prepared import HostCall
from xferlib.sim.arrays import launching, operations
from xferlib.sim.arrays.array import SimArray
from xferlib.sim.machine import current
from xferlib.sim.model.blocks import Block
from xferlib.sim.model.streams import SimStream


class Borrowed:
    """A reference to a block without ownership, for operations in flight: the array can die meanwhile."""

    __slots__ = ("block",)

    def __init__(self, block: Block) -> None:
        self.block = block


def borrowed(array: Any) -> Any:
    """An array over the same memory that does not keep it allocated; any other value unchanged."""
    if not isinstance(array, SimArray):
        return array
    return SimArray(Borrowed(array.allocation.block), array.info)  # type: ignore[arg-type]  # it frees no block


class SimCall(HostCall):
    """A call on a simulated device, checked when it is made and computed when the schedule chooses it."""

    def run_again(self, given: Sequence[Any], values: list[Any]) -> Any:
        """Enqueue for arrays of the same dtypes, shapes and strides as before."""
        results: list[Any] = [*given, *[None] * (len(self._names) - len(given))]
        for number in self._omitted:
            results[number] = launching.new(self.shape, self.program.params[number].dtype, self.device)
        operands = launching.memories(results)
        for number in self._scalars:
            operands[number] = np.array(self._scalar(number, given[number]))
        is_aliased = self._is_in_place
        for written, other in self._pairs:
            if np.may_share_memory(operands[written], operands[other]):
                is_aliased |= self._check_aliasing({n: given[n].info for n in self._arrays})
                break
        plan = self._plan(is_aliased, operands)
        reads = [results[n] for n in sorted(self.program.reads) if isinstance(results[n], SimArray)]
        writes = [results[n] for n in sorted(self.program.writes) if isinstance(results[n], SimArray)]
        launching.launch(self.name, lambda: plan.run(operands), reads, writes)
        _declare((*reads, *writes), current.stream(self.device))
        return self._returned(results)


def reduce(
    name: str, run: Callable[[list[Any], list[Any]], None], args: Sequence[Any], results: Sequence[SimArray]
) -> None:
    """Enqueue a reduction; ``run`` computes it on arrays that own no memory."""
    sources, targets = [borrowed(each) for each in args], [borrowed(each) for each in results]
    reads = [each for each in args if isinstance(each, SimArray)]
    launching.launch(name, lambda: run(sources, targets), reads, list(results))
    arrays = (*reads, *results)
    _declare(arrays, current.stream(arrays[0].device))


def _declare(arrays: Sequence[SimArray], stream: SimStream) -> None:
    """Declare the use of arrays on a stream, so that they outlast it, as xferlib does for its kernels on CUDA."""
    if operations.is_inside():
        return
    for array in arrays:
        if array.allocation.block.stream is not stream:
            array.allocation.users[stream.key] = stream


def stand_in(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    values: Sequence[Any],
    written: Sequence[SimArray],
    stream: Any,
) -> None:
    """Enqueue the NumPy function of a raw kernel; an array without ``const`` counts as read and written."""
    arrays = [each for each in args if isinstance(each, SimArray)]
    operands = [*values]
    for number, each in enumerate(args):
        if isinstance(each, SimArray):
            operands[number] = memory = each.memory().view()
            memory.flags.writeable = any(each is other for other in written)  # as the compiler would enforce
    if arrays:
        launching.launch(name, lambda: function(*operands), arrays, written, stream.stream, uses_values=False)
        _declare(arrays, stream.stream)
    else:
        function(*operands)


ENGINE = BackendEngine(SimCall, reduce, stand_in)
"""The kernel engine of simulated devices."""
