"""Reductions on CUDA devices: which kernel, which geometry, and the launches that follow one another."""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._array import ArrayInfo
from xferlib.kernels.cuda_engine import ParameterBlock, kernel_for
from xferlib.kernels.layout import Layout, collapse
from xferlib.kernels.reduction_pieces import ReductionShape
from xferlib.kernels.reduction_source import (
    FEW,
    GROUPS,
    LEAVES_PER_BLOCK,
    PARTS_PER_THREAD,
    reduction_source,
)
from xferlib.kernels.reduction_spec import LANES, LEAF, ReductionSpec

if TYPE_CHECKING:
    from xferlib._device import Device
    from xferlib.backends.base import RawStream

_PER_BLOCK = 256
_SHARED_NBYTES = 40 << 10


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
        kept: Layout,
        reduced: Layout,
        infos: Sequence[ArrayInfo],
    ) -> None:
        self._backend = backend
        self._device = device
        self._spec = spec
        arrays = len(infos) - spec.outputs
        self._kept = _not_empty(_by_inputs(kept, arrays))
        self._reduced = _not_empty(collapse(reduced, keep_order=True))
        self._rows, self._count = kept.size, reduced.size
        self._lock = threading.Lock()
        if self._rows == 0 or self._count == 0:
            return
        shape = self._shape(infos[:arrays])
        self.source = reduction_source(spec, shape)
        self._first = kernel_for(backend, device, self.source, f"xf_{shape.kernel}")
        self._tree = None
        if shape.kernel != "few":
            self._tree = kernel_for(backend, device, self.source, "xf_tree")
        leaves = -(-self._count // LEAF)
        self._parts, block = leaves, _PER_BLOCK
        if shape.kernel == "few":
            self._parts, grid = 1, -(-self._rows * shape.width // _PER_BLOCK)
        elif shape.kernel == "rows":
            self._parts = -(-leaves // shape.warps)
            grid = self._rows * self._parts
        else:
            grid, block = -(-self._rows // (32 * shape.width)) * leaves, 32 * GROUPS
        self._grid, self._block = (grid, 1, 1), (block, 1, 1)
        sizes = [param.dtype.itemsize for param in spec.map_program.params[: spec.inputs] if param.is_scalar]
        pointers = len(infos) + len(spec.accumulators)
        self._leaves = leaves
        self._parameters = ParameterBlock(pointers, sizes, self._geometry(self._parts))

    # --- planning
    def _shape(self, infos: Sequence[ArrayInfo]) -> ReductionShape:
        same = tuple(all(stride == 0 for stride in self._reduced.strides[k]) for k in range(len(infos)))
        kernel = self._choose(infos, same)
        leaves = -(-self._count // LEAF)
        return ReductionShape(
            kernel=kernel,
            kept_rank=len(self._kept.shape),
            reduced_rank=len(self._reduced.shape),
            width=getattr(self, f"_{kernel}_width")(infos, same),
            warps=min(self._most_leaves(), 1 << (leaves - 1).bit_length()),
            same=same,
        )

    def _most_leaves(self) -> int:
        """Leaves of one block: their lanes must fit the shared memory that every device has."""
        held = sum(-(-dtype.itemsize // 8) * 8 if dtype.itemsize > 4 else 4 for dtype in self._spec.accumulators)
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
        """Results of one thread: one access of 16 bytes, as long as their accumulators fit the registers."""
        held = sum(dtype.itemsize for dtype in self._spec.accumulators)
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
    def run(self, pointers: Sequence[int], scalars: Sequence[np.generic], stream: RawStream) -> list[Any]:
        """Launch on ``stream``; inputs then outputs.

        Returns:
            The temporary arrays, which must live until the launches are enqueued.
        """
        if self._rows == 0:
            return []
        partial = self._temporaries(self._parts, stream) if self._parts > 1 else []
        kept = [self._backend.view(each).pointer for each in partial] or [0] * len(self._spec.accumulators)
        with self._lock:
            self._parameters.patch([*pointers, *kept])
            for number, value in enumerate(scalars):
                self._parameters.patch_scalar(number, value.tobytes())
            self._backend.launch(self._first, self._grid, self._block, self._parameters.address, stream=stream)
        outputs = list(pointers[len(pointers) - self._spec.outputs :])
        return partial + self._combine(kept, outputs, stream)

    def _combine(self, source: list[int], outputs: list[int], stream: RawStream) -> list[Any]:
        """Launch the tree until one accumulator is left of each row."""
        alive: list[Any] = []
        parts = self._parts
        while parts > 1:
            per_row = min(_PER_BLOCK, 1 << (-(-parts // PARTS_PER_THREAD) - 1).bit_length())
            left = -(-parts // (per_row * PARTS_PER_THREAD))
            target = self._temporaries(left, stream) if left > 1 else []
            pointers = [self._backend.view(each).pointer for each in target] or [0] * len(source)
            geometry = self._geometry(left)
            arguments = [*source, *outputs, *pointers]
            block = ParameterBlock(len(arguments), [], geometry, struct.pack("q", parts), struct.pack("i", per_row))
            block.patch(arguments)
            jobs = self._rows * left
            grid = (-(-jobs // (_PER_BLOCK // per_row)), 1, 1)
            self._backend.launch(self._tree, grid, (_PER_BLOCK, 1, 1), block.address, stream=stream)
            alive += target
            source, parts = pointers, left
        return alive

    def _temporaries(self, parts: int, stream: RawStream) -> list[Any]:
        return [
            self._backend.empty((self._rows * parts,), dtype, device=self._device, stream=stream)
            for dtype in self._spec.accumulators
        ]


def _by_inputs(kept: Layout, arrays: int) -> Layout:
    """The result's axes collapsed, ordered by the strides of the inputs so that reads coalesce."""
    order = [*range(arrays, len(kept.strides)), *reversed(range(arrays))]
    moved = collapse(Layout(kept.shape, tuple(kept.strides[k] for k in order)), keep_order=False)
    back: list[tuple[int, ...]] = [()] * len(order)
    for place, k in enumerate(order):
        back[k] = moved.strides[place]
    return Layout(moved.shape, tuple(back))


def _not_empty(layout: Layout) -> Layout:
    return layout if layout.shape else Layout((1,), tuple((0,) for _ in layout.strides))
