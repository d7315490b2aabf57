"""A small reduction on NumPy arrays, every step of which is bound in advance to memory of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xferlib.kernels.engines.numpy import reduction_tree
from xferlib.kernels.engines.numpy.block_function import BlockFunction
from xferlib.kernels.engines.numpy.order_free import Fold
from xferlib.kernels.engines.numpy.recipe import execute

A = np.ndarray[Any, Any]


class SmallReduction:
    """A reduction of one shape; runs one call at a time.

    Args:
        shape: Results, and the elements of each.
        mapping: From inputs to accumulators.
        combine: Two accumulators to one, in place.
        post: From accumulators and ``sizes`` to the outputs.
        sizes: The numbers of all elements and of results.
        free: Folds the accumulators in one call; None where their order matters.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        mapping: BlockFunction,
        combine: BlockFunction,
        post: BlockFunction,
        sizes: Sequence[A],
        free: Fold | None,
    ) -> None:
        self._mapping = mapping
        self._free = free
        nothing = mapping.recipe.nothing
        program = mapping.recipe.program
        raws: list[A] = []
        count = len(program.stores)  # each takes one accumulator
        self._inputs = len(program.params) - count
        self._unbound = [nothing] * self._inputs
        # Many short rows reduce faster with their lanes adjacent.
        order: Any = "F" if shape[0] > shape[1] and mapping.is_copy else "C"
        self._whole = [np.empty(shape, param.dtype, order) for param in program.params[self._inputs :]]
        self._map_slots = mapping.environment([*self._unbound, *self._whole], raws)
        pairs = reduction_tree.whole(self._whole) if free is None else ()
        self._calls = [call for mine, other in pairs for call in combine.calls([*mine, *other, *mine], raws)]
        outputs = [np.empty(shape[0], param.dtype) for param in post.recipe.program.params[count + len(sizes) :]]
        self._outputs = slice(count + len(sizes), count + len(sizes) + len(outputs))
        self._no_outputs = [nothing] * len(outputs)
        self._post_slots = post.environment([*(each[:, 0] for each in self._whole), *sizes, *outputs], raws)
        execute(post.recipe.uniform, self._post_slots)
        self._post_steps = post.recipe.steps

    def run(self, operands: Sequence[A], outputs: Sequence[A]) -> None:
        """Reduce ``operands``, of the shape or zero-dimensional, to ``outputs``; NumPy must be quiet."""
        slots = self._post_slots
        if self._free is None:
            self._map(operands)
            for function, *arguments in self._calls:
                function(*arguments)
        elif self._mapping.is_copy:
            slots[0] = self._free(operands[self._mapping.recipe.program.stores[0].value.attr])
        else:
            self._map(operands)
            slots[0] = self._free(self._whole[0])
        slots[self._outputs] = outputs
        execute(self._post_steps, slots)
        slots[self._outputs] = self._no_outputs

    def _map(self, operands: Sequence[A]) -> None:
        slots = self._map_slots
        slots[: self._inputs] = operands
        execute(self._mapping.recipe.all_steps, slots)
        slots[: self._inputs] = self._unbound  # or the plan would keep the caller's arrays alive
