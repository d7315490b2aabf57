"""Runs programs on CUDA devices: choose the kind of access, generate, compile once, launch.

A plan fixes all but pointers and scalar values; a call writes those into a parameter block and launches.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.arrays import ArrayInfo
from xferlib.errors import KernelCompileError, KernelTypeError
from xferlib.kernels import code_cache, cuda_functions, cuda_source
from xferlib.kernels.c_text import own_functions
from xferlib.kernels.cuda_launch import (
    MOST_SHARED_NBYTES,
    MOST_THREADS,
    USUAL_SHARED_NBYTES,
    Direct,
    NewOutput,
    ParameterBlock,
    repeat_call,
)
from xferlib.kernels.cuda_source import (
    ENTRY,
    LOOKUP_NBYTES,
    LOOKUP_THREADS,
    LOOKUP_WIDTH,
    OPTIONS,
    RESULTS,
    SHIFTED,
    CallKind,
    OperandAccess,
    SharedTile,
    elementwise_source,
    lookup_source,
    maps_numbers_of_16_bits,
    step_nbytes,
)
from xferlib.kernels.ir import (
    FLOAT32,
    FLOAT64,
    CallLayout,
    DType,
    Program,
    bodies,
    collapse,
    facts,
    layout_of_call,
    word_of,
)
from xferlib.kernels.plans import Plans

if TYPE_CHECKING:
    from xferlib._core.device import Device

THREADS = 256
_MOST_SINGLE = 4
"""Neighbours that a thread moves one by one: with more the lanes of a warp lie too far apart to share lines."""
_LEAST_LED, _LEAST_LED_OF_BYTES = 4, 12
"""Vectors of a row from which on it is worth that the first and the last are not whole; of elements of a byte, of which
each that is stored alone is a transaction: on an H200 rows of 62 took 2.3 times as long as without whole vectors.
"""
_RUNS = (8, 16, 32, 64, 128, 512)
"""The elements that operands want to be contiguous in a box in shared memory."""
_LEAST_TILE, _BEST_TILE, _WHOLE, _WHOLE_ROW = 512, 4096, 24, 64
"""The least elements of a box, and the best number; the longest axis of which it always has the whole, and the longest
last axis: rows of which follow one another.
"""
_LEAST_BOXES = 264
"""That keep a large GPU busy: on an H200 40 boxes of 18,000 elements took 15 us, 369 of 2,000 5.5, 1,500 of 500 7.4."""
_MOST_RESIDENT = 2048
"""Threads that a multiprocessor runs at once."""
SECTOR_NBYTES, _LONG_NBYTES = 32, 256
"""The bytes that memory moves at a time, and the length of runs above which longer ones are no faster."""
TURNS, RESIDENT = 8, 4
"""The vectors of a thread of a large call with own functions, one after the other, and the blocks that a multiprocessor
runs at once: with many registers a compiler computes several elements together."""
PARTS, RESIDENT_OF_ONE = 2, 8
"""Of a call with one such function, which waits for memory, the accesses of a thread at once, and these blocks."""
_LONG = 1 << 20
"""The elements from which enough threads are left for all of a GPU."""
LEAST_LOOKED_UP = 1 << 24
"""The elements from which a table of the results of one function pays, which each multiprocessor reads as a whole: on
an H200 in 4 us, of 16 for these. Of two functions half as many.
"""
_INT_MAX = 2**31 - 1

_lock = threading.Lock()
_kernels: dict[tuple[str, str, str], Any] = {}
_making = threading.Lock()
"""Of tables alone: the thread that makes one waits for the device, and others go on loading kernels."""
_tables: dict[tuple[str, Device], Any] = {}
"""By source, the kernels whose table is made on a device. One that is loaded anew has a table of its own."""
_sources: Plans[str] = Plans(1024)


class CudaPlan:
    """A program prepared for one layout on one device.

    Args:
        backend: The CUDA part of a backend.
        device: Where to run.
        program: What to run.
        shape: The common shape of the element-wise operands.
        infos: The arrays, by parameter.
        is_aliased: Whether an output shares memory with an input.
        threads: Of a block.
    """

    def __init__(
        self,
        backend: Any,
        device: Device,
        program: Program,
        shape: tuple[int, ...],
        infos: dict[int, ArrayInfo],
        *,
        is_aliased: bool,
        threads: int = THREADS,
    ) -> None:
        elements, raw = program.elements, program.raw
        self.array_order = (*elements, *raw)
        self._block: ParameterBlock | None = None
        self._scalars: list[np.generic] = []
        """Those that the block holds."""
        self._places = {number: place for place, number in enumerate((*elements, *raw, *program.scalars))}
        self.launch: Callable[[int], None] = _launch_nothing
        """Launch on the stream of this handle, with the arguments that `bind` set last."""
        if math.prod(shape) == 0:
            return
        layout = layout_of_call(program, shape, infos).with_axes()
        raw_layouts = [_raw_layout(infos[number]) for number in raw]
        raw_words = tuple(
            word_of(infos[number].pointer, each.strides[0], infos[number].dtype.itemsize)
            for number, each in zip(raw, raw_layouts, strict=True)
        )
        _check_atomic(program, dict(zip(raw, raw_words, strict=True)))
        kind = _kind(layout, program, raw_layouts, raw_words, infos, is_aliased=is_aliased, threads=threads)
        if _is_looked_up(backend, device, program, kind, layout):
            self.source = lookup_source(program)
            kernel = _kernel_with_table(backend, device, self.source)
            self._block = ParameterBlock(2, [], struct.pack("q", layout.size))
            blocks = backend.device_properties(device).multiprocessor_count
            self._prepare(backend, device, (kernel, blocks, LOOKUP_THREADS), self._block, LOOKUP_NBYTES)
            return
        if _is_long(program, kind, layout):
            kind = _long_kind(program, kind)
        self.source = _source_for(program, kind)
        kernel = kernel_for(backend, device, self.source, ENTRY)
        known = [each.value(shape, infos) for each in facts(program)]
        geometry, blocks = _geometry(layout, kind, raw_layouts, known)
        sizes = [program.params[number].dtype.itemsize for number in program.scalars]
        self._block = ParameterBlock(len(self.array_order), sizes, geometry)
        self._prepare(backend, device, (kernel, blocks, threads), self._block)

    def _prepare(
        self, backend: Any, device: Device, launch: tuple[Any, int, int], block: ParameterBlock, shared_nbytes: int = 0
    ) -> None:
        kernel, blocks, threads = launch
        self._repeat = functools.partial(repeat_call, backend, device, launch, block, shared_nbytes=shared_nbytes)
        self.launch = backend.prepare_launch(
            kernel, (blocks, 1, 1), (threads, 1, 1), block.address, device=device, shared_nbytes=shared_nbytes
        )

    def repeat(
        self, given: Sequence[tuple[Any, DType, int | None]], new: Mapping[int, NewOutput], **options: Any
    ) -> Direct | None:
        """As `repeat_call`, for all parameters that are ``given`` and the ``new`` outputs behind them."""
        if self._block is None:
            return None
        places = [self._places.get(number) for number in (*range(len(given)), *new)]
        return self._repeat(given, list(new.values()), places, **options)

    def bind(self, pointers: Sequence[int], scalars: Sequence[np.generic] = ()) -> None:
        """Set the arguments of the next launches: arrays in the order `array_order`, numbers in that of the parameters.

        The driver copies them during a launch: the caller holds a lock from here until it is over.
        """
        if self._block is not None:
            self._block.patch(pointers)
            if any(map(operator.is_not, scalars, self._scalars)) or len(scalars) != len(self._scalars):
                self.set_scalars(scalars)

    def set_scalars(self, scalars: Sequence[np.generic]) -> None:
        """Set the numbers alone, as `bind` does."""
        if self._block is not None:
            self._scalars = []  # until all are written: Ctrl-C may come between
            for number, value in enumerate(scalars):
                self._block.patch_scalar(number, value.tobytes())
            self._scalars = list(scalars)


def _launch_nothing(handle: int) -> None:
    """Do nothing: the launch over no elements."""


def _source_for(program: Program, kind: CallKind) -> str:
    """The source for a kind of call, which calls of many shapes share: to write it takes longer than to plan a call."""
    key = program.text, kind
    found = _sources.get(key)
    if found is None:
        found = elementwise_source(program, kind)
        _sources.keep(key, found)
    return found


def kernel_for(backend: Any, device: Device, source: str, entry: str) -> Any:
    """The kernel ``entry`` of a source, loaded from memory or disk, or compiled."""
    major, minor = backend.compute_capability(device)
    key = (source, f"sm_{major}{minor}", entry)
    found = _kernels.get(key)
    if found is None:
        with _lock:
            found = _kernels.get(key)
            if found is None:
                found = _kernels[key] = _load(backend, device, *key)
    return found


def _kernel_with_table(backend: Any, device: Device, source: str) -> Any:
    """The kernel of `lookup_source`, whose table is made on the device before any stream can launch it."""
    kernel = kernel_for(backend, device, source, ENTRY)
    with _making:
        if _tables.get((source, device)) is not kernel:
            backend.allow_shared(kernel, LOOKUP_NBYTES, device)
            block = ParameterBlock(2, [], struct.pack("q", 0))
            grid, threads = (RESULTS // LOOKUP_THREADS, 1, 1), (LOOKUP_THREADS, 1, 1)
            stream = backend.stream_create(device, non_blocking=True, priority=0)
            backend.prepare_launch(kernel, grid, threads, block.address, device=device)(stream.handle)
            backend.stream_synchronize(stream)
            _tables[source, device] = kernel
    return kernel


def _load(backend: Any, device: Device, source: str, arch: str, entry: str) -> Any:
    name = code_cache.key(source, arch, " ".join(OPTIONS), backend.compiler_version())
    cubin = code_cache.read(name)
    if cubin is not None:
        try:
            return backend.load(cubin, name=entry, device=device)
        except (KernelCompileError, RuntimeError):  # the cache was filled under a newer driver
            pass
    cubin = backend.compile(source, device=device, options=OPTIONS).cubin
    code_cache.write(name, cubin)
    return backend.load(cubin, name=entry, device=device)


# --- layout


def _check_atomic(program: Program, words: dict[int, int]) -> None:
    """Refuse atomic operations on elements that are not aligned."""
    if not cuda_source.update_kinds([program]) - {"store"}:
        return
    for number, word in words.items():
        param = program.params[number]
        if number in program.writes and word < param.dtype.itemsize:
            raise KernelTypeError(
                f"argument {param.name!r} is not aligned to its elements of {param.dtype.itemsize} bytes, which atomic "
                "operations need; pass a copy"
            )


def _raw_layout(info: ArrayInfo) -> CallLayout:
    layout = collapse(CallLayout(info.shape, (info.strides,)), keep_order=True)
    if not layout.shape:
        return CallLayout((1,), ((info.dtype.itemsize,),))
    return CallLayout(layout.shape, layout.strides)


def _kind(
    layout: CallLayout,
    program: Program,
    raw_layouts: Sequence[CallLayout],
    raw_words: tuple[int, ...],
    infos: dict[int, ArrayInfo],
    *,
    is_aliased: bool,
    threads: int,
) -> CallKind:
    elements = program.elements
    tile = _find_tile(layout, program, infos)
    rows = layout if tile is None else _merge_rows(layout, tile.crossed)
    width, leader = _width(rows, elements, infos), _leader(rows, program, infos, tile)
    if leader is not None:
        led = _leaders_width(rows, elements, infos)
        if tile is None:
            width = led
        else:
            led = _box_width(rows, elements, infos, led)
            box = _find_led_tile(layout, program, infos, tile, led)
            tile, width, leader = (tile, width, None) if box is None else (box, led, leader)
    while tile is not None and leader is None and tile.row % width:
        width //= 2
    accesses = []
    for number, strides, every in zip(elements, rows.strides, layout.strides, strict=True):
        is_restrict = not is_aliased
        info = infos[number]
        word = word_of(info.pointer, every, info.dtype.itemsize)
        behind = None if leader is None else (infos[elements[leader]], rows.strides[leader])
        is_read = number not in program.writes
        access, step = _access(info, strides, width, rows.shape, behind, is_read=is_read), 0
        if access == "strided" and is_read and word == info.dtype.itemsize and rows.shape[-1] >= width:
            step = _find_step(strides[-1], width, word)
        accesses.append(OperandAccess("stepped" if step else access, is_restrict, word, step))
    return CallKind(
        rank=len(layout.shape),
        width=width,
        is_wide=_is_wide(layout),
        accesses=tuple(accesses),
        tile=tile,
        raw_ranks=tuple(len(each.shape) for each in raw_layouts),
        raw_words=raw_words,
        threads=threads,
        leader=leader,
    )


def _find_led_tile(
    layout: CallLayout, program: Program, infos: dict[int, ArrayInfo], tile: SharedTile, width: int
) -> SharedTile | None:
    """The box whose vectors begin at the aligned memory of one operand, from the box without; None where there is none.

    Its rows are whole vectors, and what is before a box has cells of its own: the edge is no axis within a run, along
    which elements follow one another without them.
    """
    if width == 1:
        return None
    box = _find_tile(layout, program, infos, (tile.crossed, width))
    if box is None or box.row % width or box.sides[box.edge] == 1 or any(box.edge in run[:-1] for run in box.runs):
        return None
    return box


def _merge_rows(layout: CallLayout, crossed: int) -> CallLayout:
    """The layout whose last axes are one, as they are for operands that do not pass through a box."""
    start = len(layout.shape) - crossed
    shape = *layout.shape[:start], math.prod(layout.shape[start:])
    return CallLayout(shape, tuple((*strides[:start], strides[-1]) for strides in layout.strides))


def _leader(layout: CallLayout, program: Program, infos: dict[int, ArrayInfo], tile: SharedTile | None) -> int | None:
    """The place of the operand where whose memory is aligned vectors begin: an output, or else an input.

    Rows at odd addresses would otherwise be read and written element by element. None where they are at others, or too
    short for it.
    """
    elements = program.elements
    width = _leaders_width(layout, elements, infos)
    least = width * max(_LEAST_LED, _LEAST_LED_OF_BYTES // _widest(layout, elements, infos))
    if width == 1 or layout.shape[-1] < (least if tile is None else _LEAST_LED * width):
        return None
    if tile is not None and any(tile.widths[elements.index(number)] for number in program.writes if number in elements):
        return None
    if _is_aligned(layout, elements, infos, width):
        return None
    found = [
        place
        for place, (number, strides) in enumerate(zip(elements, layout.strides, strict=True))
        if strides[-1] == (size := infos[number].dtype.itemsize)
        and word_of(infos[number].pointer, strides, size) == size
        and not (tile is not None and tile.widths[place])
    ]
    return min(found, key=lambda place: elements[place] not in program.writes, default=None)


def _leaders_width(layout: CallLayout, elements: Sequence[int], infos: dict[int, ArrayInfo]) -> int:
    """Elements of a thread where vectors begin at aligned memory."""
    return max(1, 16 // _widest(layout, elements, infos))


def _box_width(layout: CallLayout, elements: Sequence[int], infos: dict[int, ArrayInfo], width: int) -> int:
    """The elements of a vector of a box: fewer in short rows, whose first and last vector is stored by elements."""
    is_short = layout.shape[-1] * _widest(layout, elements, infos) < _LONG_NBYTES
    return max(1, width // 2) if is_short else width


def _widest(layout: CallLayout, elements: Sequence[int], infos: dict[int, ArrayInfo]) -> int:
    """The bytes of an element of the widest operand that is contiguous along the rows; 16 where none is."""
    sizes = [infos[number].dtype.itemsize for number in elements]
    return max((size for size, strides in zip(sizes, layout.strides, strict=True) if strides[-1] == size), default=16)


def _is_long(program: Program, kind: CallKind, layout: CallLayout) -> bool:
    """Whether threads compute several vectors: see `TURNS`."""
    is_plain = kind.rank == 1 and kind.tile is None and kind.leader is None and not kind.raw_ranks
    is_plain = is_plain and all(each.kind in ("vector", "same") for each in kind.accesses)
    is_long = layout.size >= _LONG and 1 < kind.width <= 4
    return is_plain and is_long and any(cuda_source.is_in_steps(node, program.math) for node in program.nodes)


def _long_kind(program: Program, kind: CallKind) -> CallKind:
    """The kind of such a call."""
    program = cuda_source.CUDA.expand(program)
    steps = [node for node in program.nodes if cuda_source.is_in_steps(node, program.math)]
    twice = replace(kind, width=PARTS * kind.width, parts=PARTS)
    if any(node.dtype == FLOAT64 for node in steps):
        return replace(kind, turns=TURNS) if len(steps) > 1 or _reads_wide_rows(program) else twice
    if len(steps) > 1:
        return replace(kind, turns=TURNS, resident=RESIDENT)
    resident = cuda_functions.IN_TURNS.get(str(steps[0].attr)) if steps[0].dtype == FLOAT32 else None
    if resident is not None:
        return replace(twice, turns=TURNS // PARTS, resident=resident)
    return replace(twice, resident=RESIDENT_OF_ONE)


def _reads_wide_rows(program: Program) -> bool:
    """Whether a float64 function looks up more than 16 bytes of a row, for which it waits longer than for operands."""
    nodes = (node for function in own_functions([program]) for node in function.common.nodes)
    return any(len(node.attr.table.columns) > 2 for node in nodes if node.op == "lookup")


def _is_looked_up(backend: Any, device: Device, program: Program, kind: CallKind, layout: CallLayout) -> bool:
    """Whether a table of all results is faster than to compute them: it has what is slower than memory at once.

    Not while the stream is captured, where nothing can be launched but for the graph.
    """
    calls = sum(node.op == "call" for each in bodies(program) for node in each.nodes)
    if calls * layout.size < LEAST_LOOKED_UP or program.math != "exact" or not maps_numbers_of_16_bits(program):
        return False
    is_plain = kind.rank == 1 and kind.width == LOOKUP_WIDTH and all(each.kind == "vector" for each in kind.accesses)
    if not is_plain or kind.threads != THREADS:  # a caller's number of threads is kept
        return False
    has_room = backend.device_attribute(device, "max_shared_memory_per_block_optin") >= LOOKUP_NBYTES
    return has_room and not backend.stream_is_recorded(backend.stream_current(device))


def _width(layout: CallLayout, elements: Sequence[int], infos: dict[int, ArrayInfo]) -> int:
    """Elements of a thread: 16 bytes of the widest operand that is contiguous along the rows."""
    inner = layout.shape[-1]
    width = max(1, 16 // _widest(layout, elements, infos))
    while width > inner or (width > _MOST_SINGLE and not _is_aligned(layout, elements, infos, width)):
        width //= 2
    return width


def _is_aligned(layout: CallLayout, elements: Sequence[int], infos: dict[int, ArrayInfo], width: int) -> bool:
    """Whether every operand that is contiguous along the rows has accesses of ``width`` elements."""
    for number, strides in zip(elements, layout.strides, strict=True):
        nbytes = min(16, width * infos[number].dtype.itemsize)
        if (
            strides[-1] == infos[number].dtype.itemsize
            and math.gcd(infos[number].pointer, nbytes, *strides[:-1]) < nbytes
        ):
            return False
    return True


def _find_tile(
    layout: CallLayout, program: Program, infos: dict[int, ArrayInfo], led: tuple[int, int] | None = None
) -> SharedTile | None:
    """The box for operands that have gaps of over three elements along the last axis, and none along another.

    Each operand wants runs of its memory within the box, whose other sides are those that others want. ``led`` is its
    number of crossed axes and the width of vectors, where these begin at aligned memory.
    """
    rank, last, elements, written = len(layout.shape), len(layout.shape) - 1, program.elements, program.writes
    sizes = [infos[number].dtype.itemsize for number in elements]
    runs = [_contiguous_axes(layout.shape, strides, size) for strides, size in zip(layout.strides, sizes, strict=True)]
    passes = [
        bool(run) and run[0] != last and abs(strides[last]) > (4 * size if size > 1 else 1)
        for run, strides, size in zip(runs, layout.strides, sizes, strict=True)
    ]
    if not any(passes):
        return None
    held = sum(size for size, is_passed in zip(sizes, passes, strict=True) if is_passed)
    edge, before, width = rank, 0, 1
    shape = list(layout.shape)
    """Positions along the axes of which boxes take vectors."""
    if led is not None:
        crossed, width = led
        edge, whole = rank - crossed, math.prod(layout.shape[rank - crossed + 1 :])
        least = min(size for size, is_passed in zip(sizes, passes, strict=True) if is_passed)
        before = -(-max(width - 1, 16 // least) // whole)  # the starts of runs are aligned, too
        shape[edge] += -(-(width - 1) // whole)

    def sides_for(wanted: Sequence[int]) -> tuple[int, ...]:
        """The least box in which the run of each operand has the wanted number of elements.

        One that is the same along an axis wants none, unless it passes through the box: caches have its elements.
        """
        sides = [1] * rank
        for run, least, strides, is_passed in zip(runs, wanted, layout.strides, passes, strict=True):
            found = 1 if is_passed or all(strides) else least
            for axis in run:
                if found >= least:
                    break
                # Of the unit any access along the axis is a part; else each shape had its kernel.
                unit, want = 16 if axis == last else 8, -(-least // found)
                if axis == edge:
                    unit, want = width, max(width, want - before)
                is_row = axis == last != edge and shape[axis] <= _WHOLE_ROW
                side = shape[axis] if is_row else _side(shape[axis], want, unit)
                sides[axis] = max(sides[axis], -(-side // unit) * unit if axis == edge else side)
                found *= sides[axis]
        return tuple(sides)

    def shared_nbytes(sides: tuple[int, ...]) -> int:
        cells = [side + (before if axis == edge else 0) for axis, side in enumerate(sides)]
        return held * (cells[last] + 4) * math.prod(cells[:last])

    def cost(sides: tuple[int, ...]) -> tuple[float, float]:
        """The bytes moved for an element, in sectors as far as runs fill them, and more if boxes are too few for a GPU,
        or too large for many at once; and how far it is from the best size. Elements that are the same move once.
        """
        boxes = math.prod(-(-extent // side) for extent, side in zip(shape, sides, strict=True))
        padded = boxes * math.prod(sides) * max(1, _LEAST_BOXES / boxes)
        moved = 0.0
        for run, strides, size in zip(runs, layout.strides, sizes, strict=True):
            length = 1
            for axis in run:
                length *= min(sides[axis], layout.shape[axis])
                if sides[axis] < layout.shape[axis]:
                    break
            nbytes = min(length * size, _LONG_NBYTES)
            shared = math.prod(side for side, stride in zip(sides, strides, strict=True) if not stride)
            halo = 1 + before / sides[edge] if edge in range(rank) and run and run[0] != last else 1
            moved += size * halo * ((nbytes + SECTOR_NBYTES - size) / nbytes if run else 1) / shared
        resident = min(_MOST_RESIDENT // THREADS, MOST_SHARED_NBYTES // shared_nbytes(sides))
        moved *= (padded / layout.size * _MOST_RESIDENT / THREADS / resident) ** 0.5
        return round(moved, 1), abs(math.log2(math.prod(sides) / _BEST_TILE))

    choices = {
        sides
        for direct, passed in itertools.product(_RUNS, _RUNS)
        if math.prod(sides := sides_for([passed if each else direct for each in passes])) >= _LEAST_TILE
        and shared_nbytes(sides) <= USUAL_SHARED_NBYTES
    }
    if not choices:
        return None
    sides = min(choices, key=cost)
    axes = [axis for axis in range(rank) if sides[axis] > 1]
    held_runs, others, widths, shifts = [], [], [], []
    for number, strides, run, is_passed, size in zip(elements, layout.strides, runs, passes, sizes, strict=True):
        if not is_passed:
            run = []
        whole = next((n for n, axis in enumerate(run[:-1]) if sides[axis] < layout.shape[axis]), len(run) - 1)
        whole = next((n for n, axis in enumerate(run[:whole]) if sides[axis] > layout.shape[axis]), whole)
        run = run[: whole + 1]
        rest = [axis for axis in axes if strides[axis] and axis not in run] if is_passed else []
        held_runs.append(tuple(run))
        others.append(tuple(sorted(rest, key=lambda axis: (abs(strides[axis]), -axis))))
        apart = [stride for axis, stride in enumerate(strides) if axis not in run]
        apart += [sides[axis] * strides[axis] for axis in run[-1:] if sides[axis] < layout.shape[axis]]
        apart += [before * strides[axis] for axis in (edge,) if axis < rank]
        aligned = math.gcd(infos[number].pointer, 16, *apart)
        most = 1 << (math.prod(sides[axis] for axis in run).bit_length() - 1) if is_passed else 0
        least = 16 // size
        shifts.append(number not in written and size <= aligned < 4 and least <= most)
        widths.append(min(least if shifts[-1] else aligned // size or 1, most))
    direct = [strides for strides, is_passed in zip(layout.strides, passes, strict=True) if not is_passed]
    crossed = 1 if led is None else led[0]
    while led is None and crossed < rank and sides[-crossed] == layout.shape[-crossed] and sides[-crossed - 1] > 1:
        if any(each[-crossed - 1] != each[-crossed] * layout.shape[-crossed] for each in direct):
            break
        crossed += 1
    return SharedTile(sides, tuple(held_runs), tuple(others), tuple(widths), crossed, tuple(shifts), before)


def _side(extent: int, least: int, unit: int) -> int:
    """A side of about ``least`` elements, a multiple of ``unit``, with few beyond the extent; all of a short axis."""
    if extent <= _WHOLE:
        return extent
    parts = max(1, round(extent / least))
    side = -(-extent // parts) if parts < 8 else least
    if side == extent and extent % 8 == 0:
        return extent  # as a whole, rows follow one another
    return -(-side // unit) * unit


def _contiguous_axes(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> list[int]:
    """The axes along which an operand's memory has no gap, the one of its neighbours first."""
    found: list[int] = []
    step = itemsize
    while True:
        axes = [axis for axis, stride in enumerate(strides) if stride == step and shape[axis] > 1 and axis not in found]
        if not axes:
            return found
        found.append(axes[-1])
        step *= shape[axes[-1]]


def _access(
    info: ArrayInfo,
    strides: tuple[int, ...],
    width: int,
    shape: tuple[int, ...],
    leader: tuple[ArrayInfo, tuple[int, ...]] | None,
    *,
    is_read: bool,
) -> str:
    """The kind of `OperandAccess`; ``leader`` and its strides, where vectors begin at aligned memory of that."""
    if strides[-1] == 0:
        return "same"
    itemsize = info.dtype.itemsize
    if strides[-1] != itemsize:
        return "strided"
    nbytes = min(16, width * itemsize)
    from_leader = [info.pointer, *strides[:-1]]
    if leader is not None:
        if leader[0].dtype.itemsize != itemsize:
            return "shifted" if is_read and width * itemsize in SHIFTED else "unit"
        from_leader = [mine - its for mine, its in zip(from_leader, (leader[0].pointer, *leader[1][:-1]), strict=True)]
    is_aligned = all(each % nbytes == 0 for each in from_leader)
    if is_aligned and shape[-1] >= width:
        return "vector"
    return "shifted" if leader is not None and is_read and width * itemsize in SHIFTED else "unit"


def _find_step(stride: int, width: int, size: int) -> int:
    """The elements from one to the next of a vector, if it is read by fewer accesses in larger words; else 0."""
    step = stride // size
    span, nbytes = step_nbytes(width, step, size)
    return step if stride % size == 0 and 2 * -(-span // nbytes) < width else 0


def _is_wide(layout: CallLayout) -> bool:
    reach = max(
        (
            sum(abs(stride) * extent for stride, extent in zip(strides, layout.shape, strict=True))
            for strides in layout.strides
        ),
        default=0,
    )
    return max(reach, layout.size) + 16 * MOST_THREADS > _INT_MAX


def _geometry(
    layout: CallLayout, kind: CallKind, raw_layouts: Sequence[CallLayout], known: Sequence[int]
) -> tuple[bytes, int]:
    """The bytes of ``xf_geometry``, and the number of blocks."""
    *outer, inner = layout.shape
    row_vectors = -(-inner // kind.width) if kind.leader is None else -(-(inner - 1) // kind.width) + 1
    vectors = row_vectors * math.prod(outer)
    tiles = [0] * kind.rank
    blocks = -(-vectors // (kind.threads * kind.turns))
    if kind.tile is not None:
        extents, edge = [*layout.shape], kind.tile.edge
        if kind.leader is not None:
            extents[edge] += -(-(kind.width - 1) // kind.tile.whole)
        tiles = [-(-extent // side) for extent, side in zip(extents, kind.tile.sides, strict=True)]
        blocks = math.prod(tiles)
    values = [layout.size, vectors]
    if kind.rank > 1:
        values += [*layout.shape, row_vectors, *tiles]
    for strides in layout.strides:
        values += strides
    raw_values: list[int] = []
    for raw in raw_layouts:
        raw_values += [raw.size, *raw.shape, *raw.strides[0]]
    raw_values += known
    packed = struct.pack(f"{len(values)}{'q' if kind.is_wide else 'i'}", *values)
    if raw_values:
        packed += b"\0" * (-len(packed) % 8) + struct.pack(f"{len(raw_values)}q", *raw_values)
    return packed, blocks
