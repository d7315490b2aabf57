"""Runs programs on NumPy arrays, block by block: the reference, and the engine of every CPU backend.

A block is small enough for its temporaries to stay in cache. Blocks go to threads, which run in parallel
because NumPy releases the GIL, where the work is worth waking them. A small call is one block of the
operands' own shape.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from typing import Any

import numpy as np

from xferlib._runtime import config, thread_budget
from xferlib.kernels.engines.numpy import costs
from xferlib.kernels.engines.numpy.recipe import Recipe, execute
from xferlib.kernels.ir.layout import CallLayout, broadcast_strides, collapse
from xferlib.kernels.ir.nodes import INT64, Program

A = np.ndarray[Any, Any]

SMALL = 16384
"""The most elements of a call that runs as one block, in memory that the plan keeps."""
Block = tuple[int, tuple[Any, ...]]
"""The number of its first element, and its index."""
_MOST, _LEAST = 65536, 16384
_CACHE_NBYTES = 1 << 21


class NumpyPlan:
    """A program prepared for operands of one shape each.

    Args:
        program: What to run.
        shape: The common shape of its element-wise operands.
        operands: One array per parameter, for shapes and strides; scalars are zero-dimensional.
        is_aliased: Whether an output shares memory with an input, so that a block must be read completely
            before it is written.
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
        self._recipe = Recipe(
            program, operands, self._size, is_aliased=is_aliased, keeps_strides=self._is_small, shape=shape
        )
        self._idle: list[tuple[list[A], Context]] = []
        self._nothing = [self._recipe.nothing] * len(operands)
        self._work_ns = self._size * costs.ns_per_element(program.nodes)
        self._layout = None if self._is_small else self._collapsed(operands)
        self._flat = self._contiguous(operands)
        self._divided: tuple[int, list[Block], int] = (0, [], 0)

    def _collapsed(self, operands: Sequence[A]) -> CallLayout:
        strides = tuple(
            broadcast_strides(self._shape, operands[number].shape, operands[number].strides)
            for number in self._elementwise
        )
        return collapse(
            CallLayout(self._shape, strides), keep_order=self._recipe.uses_index or bool(self._program.effects)
        )

    def _contiguous(self, operands: Sequence[A]) -> frozenset[int]:
        """The operands that are contiguous, if the collapsed layout is flat: a view of those is cheap."""
        if self._layout is None or len(self._layout.shape) != 1:
            return frozenset()
        return frozenset(
            number
            for number in self._elementwise
            if operands[number].shape == self._shape and operands[number].flags.c_contiguous
        )

    def run(self, operands: Sequence[A]) -> None:
        """Execute for arrays of the planned shapes, strides and dtypes."""
        if self._size == 0:
            return
        try:
            env, quiet = self._idle.pop()
        except IndexError:  # the first call, or one beside others
            env, quiet = self._recipe.environment(self._shape if self._is_small else None), quiet_context()
        count = len(operands)
        env[:count] = operands  # the first slots are the parameters
        if self._raw:
            self._bind_raw(env, operands)
        if self._is_small:
            quiet.run(execute, self._recipe.all_steps, env)
        else:
            quiet.run(self._run_blocks, env)
        env[:count] = self._nothing  # or the plan would keep the caller's arrays alive
        self._idle.append((env, quiet))

    def _bind_raw(self, env: list[A], operands: Sequence[A]) -> None:
        for number in self._raw:
            operand = operands[number]
            is_written = number in self._program.writes
            env[number] = operand if is_written and not operand.flags.c_contiguous else operand.reshape(-1)
        self._recipe.bind_lengths(env, operands)

    # --- large calls
    def _run_blocks(self, env: list[A]) -> None:
        """Cut the operands in ``env`` into blocks and run them, here or in threads too; NumPy must be quiet."""
        assert self._layout is not None
        views = [
            self._view(number, env[number], strides)
            for number, strides in zip(self._elementwise, self._layout.strides, strict=True)
        ]
        blocks, helpers = self._division(most_threads())
        execute(self._recipe.uniform, env)
        if helpers:
            self._run_in_threads(env, views, blocks, helpers)
            return
        bound: tuple[int, ...] | None = None
        for block in blocks:
            bound = self._run_block(env, views, *block, bound)

    def _run_in_threads(self, base: list[A], views: list[A], blocks: list[Block], helpers: int) -> None:
        from xferlib._runtime.jobs import Computation
        from xferlib._runtime.threads import workers

        def work(take: Callable[[], int]) -> None:
            env = list(base)
            bound: tuple[int, ...] | None = None
            with np.errstate(all="ignore"):
                while (number := take()) >= 0:
                    bound = self._run_block(env, views, *blocks[number], bound)

        workers.run(Computation(len(blocks), work, helpers=helpers))

    def _view(self, number: int, operand: A, strides: tuple[int, ...]) -> A:
        assert self._layout is not None
        if number in self._flat:
            return operand.reshape(-1)
        return np.lib.stride_tricks.as_strided(operand, self._layout.shape, strides)

    def _division(self, threads: int) -> tuple[list[Block], int]:
        """The blocks, and how many threads to wake, where there may be ``threads``."""
        if self._divided[0] != threads:
            assert self._layout is not None
            most = 1 if self._program.effects else threads  # updates have an order, which blocks must not change
            size = self._block_size(most)
            helpers = costs.helpers(self._work_ns, -(-self._size // size), most)
            self._divided = threads, list(_blocks(self._layout.shape, size)), helpers
        return self._divided[1:]

    def _block_size(self, threads: int) -> int:
        fitting = _CACHE_NBYTES // max(1, self._recipe.nbytes_per_element)
        size = max(_LEAST, min(_MOST, 1 << max(0, fitting.bit_length() - 1)))
        return size * max(1, threads // 4)  # with small blocks, many threads pass the GIL on too often

    def _run_block(
        self, env: list[A], views: list[A], first: int, region: tuple[Any, ...], bound: tuple[int, ...] | None
    ) -> tuple[int, ...]:
        """Run one block in ``env``, whose buffers have shape ``bound``; returns their shape afterwards."""
        recipe = self._recipe
        shape: tuple[int, ...] = (self._size,)
        for number, view in zip(self._elementwise, views, strict=True):
            part = env[number] = view[region]
            shape = part.shape
        if shape != bound:
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
    """The number of threads that may compute at a time."""
    return config.get().threads or thread_budget.usable_cores()


def _blocks(shape: tuple[int, ...], size: int) -> Iterator[Block]:
    """The blocks of at most ``size`` elements, in C order."""
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
