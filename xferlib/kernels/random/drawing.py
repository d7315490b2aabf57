"""Fills an array with random numbers: one element of a kernel call computes one block, and writes all its numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xferlib._core.array import Array
from xferlib.kernels.elementwise import ElementwiseKernel
from xferlib.kernels.frontends.definitions import ArgumentKind, Specialization
from xferlib.kernels.ir.nodes import UINT32, Builder, Param, Store
from xferlib.kernels.random import philox
from xferlib.kernels.random.distributions import Distribution

_WORD = 1 << 32
_COUNTER = ("counter0", "counter1", "counter2", "counter3", "key0", "key1")


class DrawDefinition:
    """The kernel of a distribution; its outputs are the first number of each block, the second, and so on."""

    def __init__(self, distribution: Distribution) -> None:
        self.name = distribution.name
        self._distribution = distribution
        self._inputs = (*((name, UINT32) for name in _COUNTER), *distribution.parameters)
        outputs = [f"out{number}" for number in range(distribution.per_block)]
        self.names = (*(name for name, _ in self._inputs), *outputs)
        self.first_output: int | None = len(self._inputs)

    def specialize(
        self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int], arguments: Sequence[Any] = ()
    ) -> Specialization:
        count = len(self._inputs)
        dtypes = [dtype for _, dtype in self._inputs] + [self._distribution.dtype] * self._distribution.per_block
        b = Builder(
            Param(name=name, dtype=dtype, is_scalar=number < count)
            for number, (name, dtype) in enumerate(zip(self.names, dtypes, strict=True))
        )
        given = [b.load(number) for number in range(count)]
        first = b.op("add", given[0], b.cast(b.index(), UINT32))
        words = philox.words(b, (first, *given[1:4]), tuple(given[4:6]))
        values = self._distribution.values(b, words, given[6:])
        program = b.program(Store(param=count + number, value=each) for number, each in enumerate(values))
        return Specialization(program=program, outputs=tuple(range(count, len(self.names))))


@functools.cache
def _kernel(make: Callable[..., Distribution], *args: Any) -> tuple[ElementwiseKernel, int]:
    distribution: Distribution = make(*args)
    return ElementwiseKernel(DrawDefinition(distribution)), distribution.per_block


class Draw:
    """A distribution with its numbers; kernels are made once for each distribution.

    Args:
        make: A function of `xferlib.kernels.random.distributions` or `normal`.
        args: Its arguments, the dtype first.
        numbers: The parameters of the call.
    """

    def __init__(self, make: Callable[..., Distribution], *args: Any, numbers: tuple[float, ...] = ()) -> None:
        self._kernel, self._per_block = _kernel(make, *args)
        self._numbers = numbers

    def blocks(self, count: int) -> int:
        """The blocks that ``count`` numbers take; what is left of the last one is dropped."""
        return -(-count // self._per_block)

    def room(self, count: int) -> int:
        """The elements of an array that `fill` needs for ``count`` numbers."""
        return self.blocks(count) * self._per_block

    def fill(self, out: Array, counter: int, key: int) -> None:
        """Fill a one-dimensional array with whole blocks, the first one that of ``counter``, a number of 128 bits."""
        size = out.shape[0]
        filled = 0
        while filled < size:  # one call only, but where the lowest word of the counter overflows
            low = counter % _WORD
            most = min(size - filled, (_WORD - low) * self._per_block)
            part = out[filled : filled + most] if most < size else out
            words = [counter >> shift & _WORD - 1 for shift in (0, 32, 64, 96)]
            outputs = [part[number :: self._per_block] for number in range(self._per_block)]
            self._kernel(*words, key % _WORD, key >> 32, *self._numbers, *outputs)
            filled += most
            counter += most // self._per_block
