"""Runs programs on NumPy arrays, block by block: the reference, and the engine of every CPU backend.

A block is small enough for its temporaries to stay in cache; blocks go to threads, which run in
parallel because NumPy releases the GIL. A small call is one block of the operands' own shape.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from typing import Any

import numpy as np

from xferlib import _config
from xferlib.kernels.ir import INT64, Program
from xferlib.kernels.layout import Layout, broadcast_strides, collapse
from xferlib.kernels.numpy_steps import Recipe, execute

A = np.ndarray[Any, Any]

SMALL = 16384
"""Calls of at most so many elements run as one block, in memory that the plan keeps."""
_MOST, _LEAST = 65536, 16384
_CACHE_NBYTES = 1 << 21


class NumpyPlan:
    """A program prepared for operands of one shape each.

    Args:
        program: What to run.
        shape: The common shape of its element-wise operands.
        operands: One array per parameter, for shapes and strides; scalars are zero-dimensional.
        is_aliased: Whether an output shares memory with an input, so that nothing may be written
            before all of the block has been read.
    """

    def __init__(self, program: Program, shape: tuple[int, ...], operands: Sequence[A], *, is_aliased: bool) -> None:
        self._program = program
        self._shape = shape
        self._size = math.prod(shape)
        self._is_small = self._size <= SMALL
        self._elementwise = [
            number for number, param in enumerate(program.params) if not (param.is_raw or param.is_scalar)
        ]
        self._raw = [number for number, param in enumerate(program.params) if param.is_raw]
        self._recipe = Recipe(program, operands, self._size, is_aliased=is_aliased, keeps_strides=self._is_small)
        self._idle: list[tuple[list[A], Context]] = []
        self._nothing = [self._recipe.nothing] * len(operands)
        self._layout = None if self._is_small else self._collapsed(operands)

    def _collapsed(self, operands: Sequence[A]) -> Layout:
        strides = tuple(
            broadcast_strides(self._shape, operands[number].shape, operands[number].strides)
            for number in self._elementwise
        )
        return collapse(Layout(self._shape, strides), keep_order=self._recipe.uses_index)

    def run(self, operands: Sequence[A]) -> None:
        """Execute for arrays of the planned shapes, strides and dtypes."""
        if self._size == 0:
            return
        if not self._is_small:
            self._run_blocks(operands)
            return
        recipe = self._recipe
        env, quiet = self._idle.pop() if self._idle else (recipe.environment(self._shape), quiet_context())
        count = len(operands)
        env[:count] = operands  # the first slots are the parameters
        if self._raw:
            self._bind_raw(env, operands)
        quiet.run(execute, recipe.all_steps, env)
        env[:count] = self._nothing  # or the plan would keep the caller's arrays alive
        self._idle.append((env, quiet))

    def _bind_raw(self, env: list[A], operands: Sequence[A]) -> None:
        for number in self._raw:
            operand = operands[number]
            is_written = number in self._program.writes
            env[number] = operand if is_written and not operand.flags.c_contiguous else operand.reshape(-1)
        self._recipe.bind_lengths(env, operands)

    # --- large calls
    def _run_blocks(self, operands: Sequence[A]) -> None:
        from xferlib._workers import Computation, workers

        assert self._layout is not None
        layout = self._layout
        views = [
            np.lib.stride_tricks.as_strided(operands[number], layout.shape, strides)
            for number, strides in zip(self._elementwise, layout.strides, strict=True)
        ]
        blocks = list(_blocks(layout.shape, self._block_size()))
        base = self._recipe.environment(None)
        with np.errstate(all="ignore"):
            base[: len(operands)] = operands
            if self._raw:
                self._bind_raw(base, operands)
            execute(self._recipe.uniform, base)

        def work(take: Callable[[], int]) -> None:
            env = list(base)
            placed: tuple[int, ...] | None = None
            with np.errstate(all="ignore"):
                while (number := take()) >= 0:
                    placed = self._run_block(env, views, *blocks[number], placed)

        workers.run(Computation(len(blocks), work, helpers=min(len(blocks), most_threads()) - 1))

    def _block_size(self) -> int:
        fitting = _CACHE_NBYTES // max(1, self._recipe.nbytes_per_element)
        size = max(_LEAST, min(_MOST, 1 << max(0, fitting.bit_length() - 1)))
        return size * max(1, most_threads() // 4)  # many threads hand the GIL over too often with small blocks

    def _run_block(
        self, env: list[A], views: list[A], first: int, region: tuple[Any, ...], placed: tuple[int, ...] | None
    ) -> tuple[int, ...]:
        """Run one block in ``env``, whose buffers have shape ``placed``; their shape afterwards."""
        recipe = self._recipe
        shape: tuple[int, ...] = (self._size,)
        for number, view in zip(self._elementwise, views, strict=True):
            part = env[number] = view[region]
            shape = part.shape
        if shape != placed:
            recipe.bind_scratch(env, shape)
        if recipe.uses_index:
            env[recipe.first_slot] = np.array(first, INT64)
        execute(recipe.steps, env)
        return shape


def quiet_context() -> Context:
    """A context in which NumPy does not warn: entering it costs a tenth of ``np.errstate``."""
    context = Context()
    context.run(np.seterr, all="ignore")
    return context


def most_threads() -> int:
    """How many threads may compute at a time."""
    return _config.get().threads or _config.usable_cores()


def _blocks(shape: tuple[int, ...], size: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Pieces of at most ``size`` elements in C order: the number of the first element, and the index."""
    axis, inner = len(shape), 1
    while axis and inner * shape[axis - 1] <= size:
        axis -= 1
        inner *= shape[axis]
    if axis == 0:
        yield 0, ()
        return
    axis -= 1
    step = max(1, size // inner)
    row = shape[axis] * inner
    for number, outer in enumerate(itertools.product(*map(range, shape[:axis]))):
        for start in range(0, shape[axis], step):
            yield number * row + start * inner, (*outer, slice(start, start + step))
