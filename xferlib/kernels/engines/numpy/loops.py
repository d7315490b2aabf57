"""Loops whose turns depend on the element: each turn computes those elements that are still in the loop.

Computing all elements until the last one stops, and masking the others, takes as many turns over whole blocks; here
the arrays shrink when elements leave. All temporaries are a run's own: the body must not use the memory of the block
around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib._runtime import config
from xferlib.errors import KernelError
from xferlib.kernels.ir.loops import LoopBody

A = np.ndarray[Any, Any]
Turn = Callable[[Sequence[A]], None]
"""Computes a body's parameters from its first ones."""


def loop_step(
    body: LoopBody, turn: Turn, operands: Sequence[int], arrays: Sequence[int], results: Sequence[int]
) -> Callable[[list[A]], None]:
    """Make ``f(env)``, which runs a loop over the slots of ``env``.

    Args:
        body: One turn.
        turn: Runs it.
        operands: The slots of the node's operands.
        arrays: Those of the arrays that the body reads.
        results: Those of the variables' last values.
    """

    def run(env: list[A]) -> None:
        shape = env[results[0]].shape
        start, *given = [np.broadcast_to(env[slot], shape).reshape(-1) for slot in operands]
        _run(body, turn, start, given, [env[slot] for slot in arrays], [env[slot] for slot in results])

    return run


def _run(body: LoopBody, turn: Turn, start: A, given: list[A], arrays: list[A], results: list[A]) -> None:
    most = config.get().loop_turns
    flat = [each.copy() for each in given[: body.carried]]
    active = np.flatnonzero(start)
    values = [each[active] for each in given]
    turns = 0
    while active.size:
        turns += 1
        if turns > most:
            raise KernelError(
                f"a loop of the kernel has made {most} turns and {active.size} element(s) are still in it; end it, or "
                "raise the limit with XFERLIB_LOOP_TURNS or xferlib.configure(loop_turns=...)"
            )
        out = [np.empty(active.size, each.dtype) for each in flat]
        again = np.empty(active.size, np.bool_)
        turn([*values, *arrays, *out, again])
        values[: body.carried] = out
        if not again.all():
            left = ~again
            for whole, part in zip(flat, out, strict=True):
                whole[active[left]] = part[left]
            active = active[again]
            values = [each[again] for each in values]
    for result, whole in zip(results, flat, strict=True):
        result[...] = whole.reshape(result.shape)
