"""Reductions on NumPy arrays, in the order that `reduction_spec` fixes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib import _config
from xferlib.kernels.ir import INT64, Program
from xferlib.kernels.numpy_steps import Recipe, execute
from xferlib.kernels.reduction_spec import LANES, LEAF, ReductionSpec

A = np.ndarray[Any, Any]

_BLOCK = 64 * LEAF
"""Elements that are reduced at a time."""
_MAPPED = 8 * LEAF
"""The same where they are computed first, in temporaries that should stay in cache."""


class BlockFunction:
    """A program on arrays of one shape, given anew at each call; ``is_aliased``: results may be operands."""

    def __init__(self, program: Program, size: int, *, is_aliased: bool = False) -> None:
        whole = np.broadcast_to(np.empty((), np.uint8), (max(size, 1),))
        operands = [np.empty(()) if param.is_scalar else whole for param in program.params]
        self.recipe = Recipe(program, operands, whole.size, is_aliased=is_aliased, keeps_strides=True)
        self._arrays = [number for number, param in enumerate(program.params) if not param.is_scalar]
        steps = self.recipe.all_steps
        is_plain = len(steps) == 1 and max(steps[0][1:]) < len(program.params)
        self._only = steps[0] if is_plain else None

    @property
    def ufunc(self) -> np.ufunc | None:
        """What it is on two operands, if that is a function of NumPy's; None for anything else."""
        if self._only is None or self._only[1:3] != (0, 1) or not isinstance(self._only[0], np.ufunc):
            return None
        return self._only[0]

    @property
    def is_copy(self) -> bool:
        """Whether the results are the operands as they are."""
        program = self.recipe.program
        return all(
            store.value.op == "load" and not program.params[store.value.attr].is_scalar for store in program.stores
        )

    def __call__(self, operands: Sequence[A], first: int = 0) -> None:
        """Run; all arrays that are not scalars have one shape."""
        if self._only is not None:
            execute([self._only], operands)
            return
        recipe = self.recipe
        env = recipe.environment(None)
        for number, operand in enumerate(operands):
            env[number] = operand
        recipe.bind_scratch(env, operands[self._arrays[-1]].shape)
        if recipe.uses_index:
            env[recipe.first_slot] = np.array(first, INT64)
        execute(recipe.all_steps, env)


def _folded(ufunc: np.ufunc, leaves: A) -> A:
    """The last axis, `LEAF` elements that lie forwards in memory, as `_leaf` does it, in half the time."""
    rows = leaves.reshape(*leaves.shape[:-1], LEAF // LANES, LANES)
    total: A = ufunc.reduce(rows, axis=-2, dtype=leaves.dtype)
    step = LANES // 2
    while step:
        total = ufunc(total[..., :step], total[..., step : 2 * step])
        step //= 2
    return total[..., 0]


class NumpyReduction:
    """A reduction prepared for ``rows`` results of ``count`` elements each."""

    def __init__(self, spec: ReductionSpec, rows: int, count: int) -> None:
        self._spec = spec
        self._rows = rows
        self._count = count
        self._threads = _config.get().threads or _config.usable_cores()
        self._map = BlockFunction(spec.map_program, count)
        self._combine = BlockFunction(spec.combine, 1, is_aliased=True)
        self._ufunc = self._combine.ufunc if len(spec.accumulators) == 1 else None
        self._post = BlockFunction(spec.post, 1)

    def run(self, operands: Sequence[A], outputs: Sequence[A]) -> None:
        """Reduce.

        Args:
            operands: The inputs seen in shape (rows, count); scalars zero-dimensional.
            outputs: Arrays of shape (rows,).
        """
        from xferlib._workers import Computation, workers

        spec = self._spec
        sizes = [np.array(self._rows * self._count, INT64), np.array(self._rows, INT64)]
        with np.errstate(all="ignore"):
            if self._count == 0:
                assert spec.identity is not None
                pairs = zip(spec.identity, spec.accumulators, strict=True)
                empty = [np.full(self._rows, value, dtype) for value, dtype in pairs]
                self._post([*empty, *sizes, *outputs])
                return
        if spec.shortcut is not None:
            with np.errstate(all="ignore"):
                outputs[0][...] = spec.shortcut(operands[0])
            return
        leaves = -(-self._count // LEAF)
        partial = [np.empty((self._rows, leaves), dtype) for dtype in spec.accumulators]
        pieces = self._pieces()

        def work(take: Callable[[], int]) -> None:
            with np.errstate(all="ignore"):
                while (number := take()) >= 0:
                    self._fold(operands, partial, *pieces[number])

        workers.run(Computation(len(pieces), work, helpers=min(len(pieces), self._threads) - 1))
        with np.errstate(all="ignore"):
            accumulators = self._pairs(partial)
            self._post([*(each[:, 0] for each in accumulators), *sizes, *outputs])

    def _pieces(self) -> list[tuple[slice, slice]]:
        """Blocks of rows and of elements; the latter start at leaves."""
        # Many threads spend their time handing the GIL over, unless each holds it seldom.
        block = (_BLOCK if self._map.is_copy else _MAPPED) * max(1, self._threads // 4)
        step = min(-(-self._count // LEAF) * LEAF, block)
        rows = max(1, block // min(step, self._count))
        return [
            (slice(row, min(row + rows, self._rows)), slice(start, min(start + step, self._count)))
            for row in range(0, self._rows, rows)
            for start in range(0, self._count, step)
        ]

    def _fold(self, operands: Sequence[A], partial: list[A], rows: slice, columns: slice) -> None:
        """Map a block and reduce each of its leaves into ``partial``."""
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        blocks = [each if each.ndim == 0 else each[rows, columns] for each in operands]
        self._reduce_leaves(self._mapped(blocks, shape, columns.start), partial, rows, columns.start // LEAF)

    def _mapped(self, blocks: list[A], shape: tuple[int, int], start: int) -> list[A]:
        """The accumulators of a block of elements; the elements themselves where those are it."""
        if self._map.is_copy:
            return [blocks[store.value.attr] for store in self._spec.map_program.stores]
        mapped = [np.empty(shape, dtype) for dtype in self._spec.accumulators]
        if self._map.recipe.uses_index:  # the number counts along the row alone
            for row in range(shape[0]):
                parts = [each if each.ndim == 0 else each[row] for each in blocks]
                self._map([*parts, *(each[row] for each in mapped)], start)
        else:
            self._map([*blocks, *mapped])
        return mapped

    def _reduce_leaves(self, mapped: list[A], partial: list[A], rows: slice, leaf: int) -> None:
        shape = mapped[0].shape
        whole = shape[1] // LEAF
        if whole:
            leaves = [each[:, : whole * LEAF].reshape(shape[0], whole, LEAF) for each in mapped]
            for target, value in zip(partial, self._leaf(leaves), strict=True):
                target[rows, leaf : leaf + whole] = value
        if shape[1] % LEAF:
            rest = [each[:, None, whole * LEAF :] for each in mapped]
            for target, value in zip(partial, self._leaf(rest), strict=True):
                target[rows, leaf + whole : leaf + whole + 1] = value

    def _leaf(self, values: list[A]) -> list[A]:
        """The last axis, of at most `LEAF` elements, reduced: rows of lanes one after the other, then halves."""
        count = values[0].shape[-1]
        # NumPy folds an outer axis in its order, unless it walks backwards through memory.
        if self._ufunc is not None and count == LEAF and values[0].strides[-1] > 0:
            return [_folded(self._ufunc, values[0])]
        lanes = min(count, LANES)
        total = [each[..., :lanes].copy() for each in values]
        for start in range(LANES, count, LANES):
            width = min(LANES, count - start)
            self._take_in(total, [each[..., start : start + width] for each in values], width)
        step = LANES // 2
        while step:
            width = min(step, max(lanes - step, 0))
            if width:
                self._take_in(total, [each[..., step : step + width] for each in total], width)
                lanes = step
            step //= 2
        return [each[..., 0] for each in total]

    def _take_in(self, total: list[A], other: list[A], width: int) -> None:
        mine = [each[..., :width] for each in total]
        self._combine([*mine, *other, *mine])

    def _pairs(self, partial: list[A]) -> list[A]:
        """Neighbours combined, level by level."""
        while (count := partial[0].shape[1]) > 1:
            even = count - count % 2
            left, right = [each[:, 0:even:2] for each in partial], [each[:, 1:even:2] for each in partial]
            merged = [np.empty((self._rows, (count + 1) // 2), each.dtype) for each in partial]
            self._combine([*left, *right, *(each[:, : even // 2] for each in merged)])
            if count % 2:
                for target, each in zip(merged, partial, strict=True):
                    target[:, -1] = each[:, -1]
            partial = merged
        return partial
