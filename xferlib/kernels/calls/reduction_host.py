"""One call of a reduction on host memory: NumPy arrays, torch CPU tensors, or through a backend's own engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xferlib._core import observe
from xferlib._core.array import ArrayInfo
from xferlib.kernels.calls.backend_engine import engine_of
from xferlib.kernels.calls.reduction_calls import ReductionCall
from xferlib.kernels.engines.numpy.block_function import BlockFunction
from xferlib.kernels.engines.numpy.reduction import NumpyReduction

A = np.ndarray[Any, Any]


class HostReductionCall:
    """A call on host memory, checked once, for arrays of the same dtypes, shapes and strides.

    Args:
        call: The call.
        infos: Its arrays, by argument.
        functions: What calls of all shapes share.
    """

    def __init__(
        self, call: ReductionCall, infos: dict[int, ArrayInfo], functions: dict[str, BlockFunction] | None = None
    ) -> None:
        self._call = call
        self._owner = call.backend.at(call.device)
        self._engine = engine_of(self._owner)
        self._infos = infos
        self._order = (*call.kept, *call.axes)
        self._shape = (math.prod(call.kept_shape), math.prod(call.shape[axis] for axis in call.axes))
        self._is_in_order = self._order == tuple(range(len(self._order)))
        self._whole = frozenset(n for n, info in infos.items() if info.shape == call.shape and info.dtype.isnative)
        self._plan = NumpyReduction(call.spec, *self._shape, functions)

    def run(self, args: Sequence[Any]) -> Any:
        """Reduce to new arrays."""
        return self._run(args, self._call.new_outputs())

    def run_into(self, args: Sequence[Any], out: Any) -> Any:
        """Reduce to given arrays, which are checked."""
        call, owner = self._call, self._owner
        results = call.outputs(out)
        call.check_aliasing([owner.view(args[number]) for number in self._infos], [*map(owner.view, results)])
        call.note_writes(results)
        return self._run(args, results)

    def _run(self, args: Sequence[Any], results: list[Any]) -> Any:
        call = self._call
        if self._engine is not None:
            self._engine.reduce(call.name, self._compute, args, results)
        elif (recorder := observe.active) is None:
            self._compute(args, results)
        else:
            nbytes = sum(info.nbytes for info in self._infos.values())
            run = lambda: self._compute(args, results)
            recorder.on_host(observe.Kind.KERNEL, call.name, nbytes, self._owner, call.device, run)
        return call.returned(results)

    def _compute(self, args: Sequence[Any], results: Sequence[Any]) -> None:
        host_view, rows = self._owner.host_view, self._shape[0]
        scalars = iter(self._call.scalars(args))
        operands = [
            self._operand(number, host_view(each)) if number in self._infos else np.array(next(scalars))
            for number, each in enumerate(args)
        ]
        targets = [host_view(each) for each in results]
        if all(each.flags.c_contiguous for each in targets):
            self._plan.run(operands, [each.reshape(rows) for each in targets])
            return
        buffers = [np.empty(rows, each.dtype) for each in targets]
        self._plan.run(operands, buffers)
        for target, buffer in zip(targets, buffers, strict=True):
            target[...] = buffer.reshape(target.shape)

    def _operand(self, number: int, array: A) -> A:
        """The array of an input in shape (rows, count)."""
        if number not in self._whole:
            native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
            array = np.broadcast_to(native, self._call.shape)
        return (array if self._is_in_order else array.transpose(self._order)).reshape(self._shape)
