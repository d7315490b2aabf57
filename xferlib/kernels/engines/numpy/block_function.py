"""A program as a function of blocks, with which reductions map, combine and finish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xferlib.kernels.engines.numpy.recipe import Recipe, execute
from xferlib.kernels.ir.nodes import INT64, Program

A = np.ndarray[Any, Any]


class BlockFunction:
    """A program for arrays of any shape, all alike in one call; ``is_aliased``: a result may be an operand."""

    def __init__(self, program: Program, size: int, *, is_aliased: bool = False) -> None:
        whole = np.broadcast_to(np.empty((), np.uint8), (max(size, 1),))
        operands = [np.empty(()) if param.is_scalar else whole for param in program.params]
        self.recipe = Recipe(program, operands, whole.size, is_aliased=is_aliased, keeps_strides=True)
        self._last = max(number for number, param in enumerate(program.params) if not param.is_scalar)
        steps = self.recipe.all_steps
        is_plain = len(steps) == 1 and max(steps[0][1:]) < len(program.params)
        self._only = steps[0] if is_plain else None
        loads = [store.value for store in program.stores if store.value.op == "load"]
        self.is_copy = len(loads) == len(program.stores) and not any(
            program.params[each.attr].is_scalar for each in loads
        )
        """Whether the results are the operands, unchanged."""

    @property
    def ufunc(self) -> np.ufunc | None:
        """The NumPy ufunc of two operands that equals the function; None if there is none."""
        if self._only is None or self._only[1:3] != (0, 1) or not isinstance(self._only[0], np.ufunc):
            return None
        return self._only[0]

    def __call__(self, operands: Sequence[A], first: int = 0) -> None:
        """Run; all arrays that are not scalars have one shape. ``first`` is the number of the first element."""
        if self._only is not None:
            execute([self._only], operands)
        else:
            execute(self.recipe.all_steps, self._environment(operands, None, first))

    def _environment(self, operands: Sequence[A], raws: list[A] | None, first: int = 0) -> list[A]:
        recipe = self.recipe
        env = recipe.environment(None)
        env[: len(operands)] = operands
        recipe.bind_scratch(env, operands[self._last].shape, raws)
        if recipe.uses_index:
            env[recipe.first_slot] = np.array(first, INT64)
        return env

    def environment(self, operands: Sequence[A], raws: list[A]) -> list[A]:
        """The slots of `recipe` for these operands, with temporaries in ``raws``, a list that grows on demand."""
        return self._environment(operands, raws)

    def calls(self, operands: Sequence[A], raws: list[A]) -> list[tuple[Any, ...]]:
        """The work on these operands as a list of calls, each a function and its arguments."""
        env = self.environment(operands, raws)
        return [
            (function, *(env[slot] for slot in (*slots, out) if slot >= 0))
            for function, *slots, out in self.recipe.all_steps
        ]
