"""Reductions on CUDA devices: chooses the kernel and its geometry, and runs the launches."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core.array import ArrayInfo
from xferlib.kernels.engines.cuda.engine import CudaPlan, ParameterBlock, kernel_for
from xferlib.kernels.engines.cuda.reduction_fragments import ReductionShape
from xferlib.kernels.engines.cuda.reduction_source import (
    FEW,
    GROUPS,
    LEAVES_PER_BLOCK,
    PARTS_PER_THREAD,
    TREE_THREADS,
    reduction_source,
)
from xferlib.kernels.ir.layout import CallLayout, collapse, word_of
from xferlib.kernels.ir.nodes import INT64
from xferlib.kernels.ir.reduction import LANES, LEAF, ReductionSpec

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream

_PER_BLOCK = 256
_SHARED_NBYTES = 40 << 10


class _Stage(NamedTuple):
    """One launch: its arguments, and the number of accumulators that it leaves for each row."""

    parameters: ParameterBlock
    launch: Callable[[int], None]
    parts: int


class CudaReduction:
    """A reduction prepared for one layout on one device.

    Args:
        backend: The CUDA part of a backend.
        device: Where to run.
        spec: What to run.
        kept: Extents of the result and, for each array, its byte strides along them: outputs last.
        reduced: The same of the reduced axes; outputs have strides of 0.
        infos: The arrays in that order, for dtypes and alignment.
    """

    def __init__(
        self,
        backend: Any,
        device: Device,
        spec: ReductionSpec,
        kept: CallLayout,
        reduced: CallLayout,
        infos: Sequence[ArrayInfo],
    ) -> None:
        self._backend = backend
        self._device = device
        self._spec = spec
        self._accumulators = spec.accumulators
        self._nowhere = [0] * len(self._accumulators)
        arrays = len(infos) - spec.outputs
        self._kept = _not_empty(_by_inputs(kept, arrays))
        self._reduced = _not_empty(collapse(reduced, keep_order=True))
        self._rows, self._count = kept.size, reduced.size
        self._lock = threading.Lock()
        self._stages: list[_Stage] = []
        self._fill: CudaPlan | None = None
        if self._rows == 0:
            return
        if self._count == 0:
            self._fill = self._filling(kept, infos[arrays:])
            return
        shape = self._shape(infos[:arrays], self._words(infos))
        self.source = reduction_source(spec, shape)
        first = kernel_for(backend, device, self.source, f"xf_{shape.kernel}")
        leaves = -(-self._count // LEAF)
        self._leaves = leaves
        parts, block = leaves, _PER_BLOCK
        if shape.kernel == "few":
            parts, grid = 1, -(-self._rows * shape.width // _PER_BLOCK)
        elif shape.kernel == "rows":
            parts = -(-leaves // shape.warps)
            grid = self._rows * parts
        else:
            grid, block = -(-self._rows // (32 * shape.width)) * leaves, 32 * GROUPS
        sizes = [param.dtype.itemsize for param in spec.map_program.params[: spec.inputs] if param.is_scalar]
        pointers = len(infos) + len(self._accumulators)
        parameters = ParameterBlock(pointers, sizes, self._geometry(parts))
        self._stages.append(self._stage(first, grid, block, parameters, parts))
        if parts > 1:
            tree = kernel_for(backend, device, self.source, "xf_tree")
            while parts > 1:
                self._stages.append(self._tree_stage(tree, parts))
                parts = self._stages[-1].parts

    def _stage(
        self, kernel: Any, grid: int, block: int, parameters: ParameterBlock, parts: int, *, awaits: bool = False
    ) -> _Stage:
        launch = self._backend.prepare_launch(
            kernel, (grid, 1, 1), (block, 1, 1), parameters.address, device=self._device, awaits=awaits
        )
        return _Stage(parameters, launch, parts)

    def _tree_stage(self, kernel: Any, parts: int) -> _Stage:
        """The launch that combines ``parts`` accumulators of each row as far as one block can."""
        per_row = min(TREE_THREADS, 1 << (-(-parts // PARTS_PER_THREAD) - 1).bit_length())
        block = max(_PER_BLOCK, per_row)
        left = -(-parts // (per_row * PARTS_PER_THREAD))
        pointers = 2 * len(self._accumulators) + self._spec.outputs
        tails = (self._geometry(left), struct.pack("q", parts), struct.pack("i", per_row))
        grid = -(-self._rows * left // (block // per_row))
        return self._stage(kernel, grid, block, ParameterBlock(pointers, [], *tails), left, awaits=True)

    def _filling(self, kept: CallLayout, outputs: Sequence[ArrayInfo]) -> CudaPlan:
        """The plan for the results of no elements: the final program, run on the identity."""
        post, count = self._spec.post, len(self._accumulators)
        params = [replace(param, is_scalar=number < count + 2) for number, param in enumerate(post.params)]
        pairs = zip(outputs, kept.strides[-len(outputs) :], strict=True)
        seen = [info._replace(shape=kept.shape, strides=strides) for info, strides in pairs]
        program = replace(post, params=tuple(params))
        infos = dict(enumerate(seen, count + 2))
        return CudaPlan(self._backend, self._device, program, kept.shape, infos, is_aliased=False)

    # --- planning
    def _words(self, infos: Sequence[ArrayInfo]) -> tuple[int, ...]:
        return tuple(
            word_of(info.pointer, (*self._kept.strides[k], *self._reduced.strides[k]), info.dtype.itemsize)
            for k, info in enumerate(infos)
        )

    def _shape(self, infos: Sequence[ArrayInfo], words: tuple[int, ...]) -> ReductionShape:
        same = tuple(all(stride == 0 for stride in self._reduced.strides[k]) for k in range(len(infos)))
        kernel = self._choose(infos, same)
        leaves = -(-self._count // LEAF)
        warps = min(self._most_leaves(), 1 << (leaves - 1).bit_length())
        return ReductionShape(
            kernel=kernel,
            kept_rank=len(self._kept.shape),
            reduced_rank=len(self._reduced.shape),
            width=getattr(self, f"_{kernel}_width")(infos, same),
            warps=warps,
            same=same,
            words=words,
        )

    def _most_leaves(self) -> int:
        """The most leaves of a block: their lanes must fit the shared memory that every device has."""
        held = sum(-(-dtype.itemsize // 8) * 8 if dtype.itemsize > 4 else 4 for dtype in self._accumulators)
        most = LEAVES_PER_BLOCK
        while most > 1 and most * LANES * held > _SHARED_NBYTES:
            most //= 2
        return most

    def _choose(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> str:
        varying = [k for k in range(len(infos)) if not same[k]]
        is_along = not varying or (
            abs(self._reduced.strides[varying[0]][-1]) <= abs(self._kept.strides[varying[0]][-1]) or self._rows == 1
        )
        if self._count <= 16 or (is_along and self._count <= FEW):
            return "few"
        return "rows" if is_along else "columns"

    def _few_width(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> int:
        """Threads for one result, 16 elements each."""
        return 1 << (-(-self._count // 16) - 1).bit_length()

    def _rows_width(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> int:
        """Elements in one 16-byte access, where every array allows it."""
        width = 16
        for k, info in enumerate(infos):
            if same[k]:
                continue
            itemsize = info.dtype.itemsize
            is_unit = len(self._reduced.shape) == 1 and self._reduced.strides[k][0] == itemsize
            if not is_unit or info.pointer % 16 or any(stride % 16 for stride in self._kept.strides[k]):
                return 1
            width = min(width, max(1, 16 // itemsize))
        return width

    def _columns_width(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> int:
        """Results of one thread: those of one 16-byte access, if their accumulators fit the registers."""
        held = sum(dtype.itemsize for dtype in self._accumulators)
        width = max(1, 32 // held)
        for k, info in enumerate(infos):
            kept, reduced = self._kept.strides[k], self._reduced.strides[k]
            others = (*kept[:-1], *reduced)
            if same[k] or kept[-1] != info.dtype.itemsize or info.pointer % 16 or any(each % 16 for each in others):
                return 1
            width = min(width, max(1, 16 // info.dtype.itemsize))
        while self._kept.shape[-1] % width:
            width //= 2
        return width

    def _geometry(self, parts: int) -> bytes:
        values = [self._rows, self._count, self._leaves, parts, *self._kept.shape, *self._reduced.shape]
        for strides in self._kept.strides:
            values += strides
        for strides in self._reduced.strides:
            values += strides
        return struct.pack(f"{len(values)}q", *values)

    # --- running
    def run(self, pointers: Sequence[int], scalars: Sequence[np.generic], stream: RawStream) -> None:
        """Launch on ``stream``; the addresses are those of the inputs, then of the outputs."""
        if self._fill is not None:
            self._run_filling(self._fill, pointers, stream)
            return
        inputs = len(pointers) - self._spec.outputs
        given, outputs = pointers[:inputs], pointers[inputs:]
        alive: list[Any] = []  # freed memory is reused in stream order
        with self._lock:  # the driver copies the arguments during a launch
            for stage in self._stages:
                arrays = self._temporaries(stage.parts, stream) if stage.parts > 1 else ()
                into = self._backend.operands(arrays) if arrays else self._nowhere
                stage.parameters.patch([*given, *outputs, *into])
                if scalars and stage is self._stages[0]:
                    for number, value in enumerate(scalars):
                        stage.parameters.patch_scalar(number, value.tobytes())
                stage.launch(stream.handle)
                given = into
                alive += arrays

    def _run_filling(self, fill: CudaPlan, pointers: Sequence[int], stream: RawStream) -> None:
        assert self._spec.identity is not None
        dtypes = (*self._spec.accumulators, INT64, INT64)
        values = [dtype.type(value) for dtype, value in zip(dtypes, (*self._spec.identity, 0, self._rows), strict=True)]
        with self._lock:
            fill.bind(pointers[len(pointers) - self._spec.outputs :], values)
            fill.launch(stream.handle)

    def _temporaries(self, parts: int, stream: RawStream) -> list[Any]:
        """Memory for ``parts`` accumulators of each row."""
        return [
            self._backend.empty((self._rows * parts,), dtype, device=self._device, stream=stream)
            for dtype in self._accumulators
        ]


def _by_inputs(kept: CallLayout, arrays: int) -> CallLayout:
    """The result's axes collapsed, ordered by the strides of the inputs so that reads coalesce."""
    order = [*range(arrays, len(kept.strides)), *reversed(range(arrays))]
    moved = collapse(CallLayout(kept.shape, tuple(kept.strides[k] for k in order)), keep_order=False)
    back: list[tuple[int, ...]] = [()] * len(order)
    for position, k in enumerate(order):
        back[k] = moved.strides[position]
    return CallLayout(moved.shape, tuple(back))


def _not_empty(layout: CallLayout) -> CallLayout:
    return layout if layout.shape else CallLayout((1,), tuple((0,) for _ in layout.strides))
