"""CUDA C for reductions, in the order that `xferlib.kernels.ir` fixes.

The usual kernel lets each thread stride through the elements, then adds the threads' sums, with atomics between
blocks. Its result depends on the grid, so on the device, and with atomics on the run. Here every result has the bits
of one tree, which the NumPy engine follows too: neighbours in pairs, level by level. Every aligned block of 2^k
elements is a node of it, so that a 16-byte access, a thread, a warp, a block may each own any such block, and how a
shape is cut changes no bit. The kernels differ only in which thread computes which node:

- ``xf_rows``: lanes of a warp, up to 32, share a section of a result's elements, for elements that are adjacent in
  memory, or lie in few runs of it, whose lines the cache holds until the next access. They load tiles of it together,
  in the result's order, and exchange nodes by shuffles, which halves their number: eight accesses of each lane take
  seven shuffles, not 40. Where no order changes the bits (a minimum, a sum of integers), lanes combine what they load,
  and exchange once. To begin takes a warp longer than a tile, so it goes on with further tiles, or with further short
  results, before other warps share them;
- ``xf_columns``: a thread walks down the elements of one or several results that are adjacent in memory, and keeps its
  nodes as the digits of a binary counter. Where no order changes the bits, the threads of a block that share a result
  take its elements in turn, so that they read one stretch of memory together;
- ``xf_groups``: a thread combines groups of 16 elements, where those that are adjacent in memory are a row apart in the
  result's order. The threads of a warp take adjacent columns and read whole lines, and each finds its own elements in
  shared memory, from where its groups begin; where columns or rows are short, the block's. They leave the groups'
  nodes in memory in order, for ``xf_rows``: a second launch.

Results of one element each are an element-wise kernel.

A result with more elements than a block takes has several parts. Each block leaves its part's accumulators in scratch
memory, and the one that finds all others done combines them: a second launch would cost more than a short reduction.
Elements beyond the last one are the neutral element, where one is known: so the code for the end of a row is the same.
"""

from __future__ import annotations

import itertools
import math
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.arrays import ArrayInfo
from xferlib.kernels import cuda_source
from xferlib.kernels.c_text import c_type, constant, storage_type, to_memory, to_register
from xferlib.kernels.cuda_engine import SECTOR_NBYTES, CudaPlan, kernel_for
from xferlib.kernels.cuda_launch import (
    Direct,
    NewOutput,
    ParameterBlock,
    counters_nbytes,
    find_scratch,
    repeat_call,
    shares_scratch,
)
from xferlib.kernels.cuda_source import PARTS, fetch, prelude, store, vector_moves, write_unaligned_load
from xferlib.kernels.ir import (
    BOOL,
    Builder,
    CallLayout,
    DType,
    Param,
    Program,
    ReductionSpec,
    collapse,
    is_float,
    is_order_free,
    program_of_few,
    store_all,
    word_of,
)

if TYPE_CHECKING:
    from xferlib._core.device import Device, RawStream


# Fragments of source that reduction kernels share: device functions, loads, and the halving of lanes.


@dataclass(frozen=True, slots=True)
class ReductionKind:
    """The kind of a call: which of the kernels, the ranks after collapsing, and the widths."""

    kernel: str
    kept_rank: int
    reduced_rank: int
    width: int
    """Of ``rows`` the elements in one access, of ``columns`` the results of a thread."""
    threads: int
    """Of ``rows`` the lanes of a section, of ``columns`` the threads in a block that share a result: a power of two. Of
    ``groups`` those of a block, or where it has whole columns, the neighbours whose groups are one node."""
    loads: int
    """The accesses of a thread that are in flight together: a power of two. Of ``groups`` the elements in one, where
    what a block takes is adjacent."""
    steps: int
    """Of ``rows`` the tiles of a section, or where one tile is a whole result, the results of a section in turn; of
    ``columns`` the elements of a thread: a power of two."""
    are_whole: bool
    """Of ``rows``: whether one tile is a whole result."""
    sections: int
    """Of ``rows`` the sections of a block that belong to one result: a power of two. Of ``groups`` the rows of memory
    that it takes, or 1. Of ``columns`` the rows of memory that it takes as one."""
    order: tuple[int, ...]
    """Of ``groups`` the reduced axes without the last, that of the least stride first."""
    is_cut: bool
    """Whether a result has several parts, which the block that is done last combines."""
    is_short: bool
    """Whether 32 bits count the results, and the elements of each."""
    same: tuple[bool, ...]
    """For each input array: whether all elements of a result share one value."""
    shifts: bool
    """Whether the rows of ``rows``, or of memory within one, start at any address, and accesses are made of two aligned
    ones."""
    words: tuple[int, ...]
    """For each input array and then each output: the bytes of the widest access to an element."""
    step: int = 1
    """Of ``rows`` the elements of memory from one to the next, if an access has several that are apart."""


L2 = """\
template <typename T> __device__ __forceinline__ T xf_fetch_part(const T* from) {
  T value;
  if (sizeof(T) == 1) { const unsigned char w = __ldcg((const unsigned char*)from); memcpy(&value, &w, sizeof(T)); }
  if (sizeof(T) == 2) { const unsigned short w = __ldcg((const unsigned short*)from); memcpy(&value, &w, sizeof(T)); }
  if (sizeof(T) == 4) { const unsigned int w = __ldcg((const unsigned int*)from); memcpy(&value, &w, sizeof(T)); }
  if (sizeof(T) == 8) { const uint2 w = __ldcg((const uint2*)from); memcpy(&value, &w, sizeof(T)); }
  if (sizeof(T) == 16) { const uint4 w = __ldcg((const uint4*)from); memcpy(&value, &w, sizeof(T)); }
  return value;
}
"""
"""Reads what another block has written: the first-level cache may hold the line from before."""

SHUFFLE = """\
template <typename T> __device__ __forceinline__ T xf_shuffle(T v, int step) {
  if (sizeof(T) < 4) return (T)__shfl_xor_sync(0xffffffffu, (int)v, step);
  return (T)__shfl_xor_sync(0xffffffffu, v, step);
}
"""


DIVIDE = """\
__device__ __forceinline__ unsigned int xf_divide_index(unsigned int at, xf_divisor by) {
  return (__umulhi(at, by.factor) + at) >> by.shift;
}
"""
"""The quotient of a number below 2^31 without a division, which takes longer than to read an element: Granlund and
Montgomery, "Division by invariant integers using multiplication" (1994).
"""


def divisor(extent: int) -> tuple[int, int]:
    """The factor and the shift by which `DIVIDE` divides by ``extent``."""
    shift = (extent - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - extent)) // extent + 1, shift


def _offset(kind: str, rank: int, *, is_short: bool) -> str:
    """The device function for the byte offset of a result (``kept``) or of an element within it (``reduced``)."""
    index = "unsigned int" if is_short else "long long"
    steps = []
    for axis in range(rank - 1, 0, -1):
        extent = f"({index})g.{kind}_extent[{axis}]"
        rest = f"xf_divide_index(at, g.{kind}_divisor[{axis}])" if is_short else f"at / {extent}"
        steps.append(
            f"{{ const {index} rest = {rest}; "
            f"offset += (long long)(at - rest * {extent}) * g.{kind}_stride[k][{axis}]; at = rest; }}"
        )
    return (
        f"__device__ __forceinline__ long long xf_{kind}_offset(const xf_geometry& g, int k, {index} at) {{ "
        f"long long offset = 0; {' '.join(steps)} return offset + (long long)at * g.{kind}_stride[k][0]; }}\n"
    )


BLOCK = 256
"""Threads in a block."""
RESIDENT = 8
"""Blocks of a light reduction of rows that a multiprocessor runs at once: float16 rows of 8191 elements, which start at
any address, took 46 us on an H200 with the registers that the compiler likes, and 37 so; the variance 46 and 52.
"""
GROUP = 16
"""Elements that a thread of ``xf_groups`` combines."""
TILE_NBYTES = 32 << 10
"""Of the tile in shared memory from which it takes them."""


FILL = 8
"""Accesses of a thread that fills shared memory, which are made together."""


def _fill(count: str, find: str, board: str, load: str, store: str) -> str:
    """The loops in which the threads of a block bring ``count`` pieces to shared memory: piece ``i`` by ``h[j]``.

    A loop that stored each piece before it asked for the next would have one access of a thread in flight.
    """
    each = f'_Pragma("unroll") for (int j = 0; j < {FILL}; ++j) {{ const int i = from + j * {BLOCK};'
    return f"""\
for (int from = threadIdx.x; from < {count}; from += {FILL * BLOCK}) {{
    {board}
    {each} if (i < {count}) {{ {find} {{ {load} }} }} }}
    {each} if (i < {count}) {{ {find} {{ {store} }} }} }}
  }}"""


class ReductionWriter:
    """Writes the source for one reduction and one kind of call."""

    def __init__(self, spec: ReductionSpec, shape: ReductionKind) -> None:
        self.spec = spec
        self.shape = shape
        params = spec.map_program.params[: spec.inputs]
        self.arrays = [number for number, param in enumerate(params) if not param.is_scalar]
        self.scalars = [number for number, param in enumerate(params) if param.is_scalar]
        self.dtypes = spec.accumulators
        self.varying = [(k, number) for k, number in enumerate(self.arrays) if not shape.same[k]]
        self.constant = [(k, number) for k, number in enumerate(self.arrays) if shape.same[k]]
        """Of one value for all elements of a result, which is loaded once."""
        self.counting = _find_counting(spec)
        self.is_free = _is_order_free(spec)
        neutral = _find_neutral(spec)
        self.neutral = "" if neutral is None else f"xf_acc{{{constant(neutral, self.dtypes[0])}}}"
        """The accumulator that changes no other one: it stands for elements beyond the last; empty: there is none."""
        self.places = _find_places(spec) if shape.is_short else frozenset[int]()
        """The accumulators that are places of elements, for which 32 bits do."""

    def _needs_parts(self) -> bool:
        """Whether the elements of an array are not aligned."""
        sizes = [self._dtype(number).itemsize for number in self.arrays]
        sizes += [dtype.itemsize for dtype in self.spec.output_dtypes]
        return any(word < size for word, size in zip(self.shape.words, sizes, strict=True))

    def _is_light(self) -> bool:
        """Whether few registers do: one small accumulator, and one array whose elements it hardly changes."""
        is_small = len(self.dtypes) == 1 and self.dtypes[0].itemsize <= 4
        return is_small and len(self.arrays) == 1 and len(self.spec.map_program.nodes) <= 4

    def _free_bounds(self) -> str:
        """The threads of a block, and how many blocks run at once where no order is kept.

        Told so, compilers make all accesses of a turn first; else two or three of eight.
        """
        return f"{BLOCK}, {RESIDENT // 2}" if self.is_free else f"{BLOCK}"

    # --- device functions
    def _accumulator(self) -> str:
        types = ["int" if number in self.places else c_type(dtype) for number, dtype in enumerate(self.dtypes)]
        fields = " ".join(f"{each} v{number};" for number, each in enumerate(types))
        names = [
            f"v{number}{part}"
            for number, dtype in enumerate(self.dtypes)
            for part in ((".x", ".y") if dtype.kind == "c" else ("",))
        ]
        moves = {name: f"r.{name} = xf_shuffle(a.{name}, step);" for name in names}
        whole = moves | {f"v{number}": f"r.v{number} = a.v{number};" for number in self.counting}
        return f"struct xf_acc {{ {fields} }};\n" + "".join(
            f"__device__ __forceinline__ xf_acc {name}(xf_acc a, int step) {{ xf_acc r; {' '.join(each.values())} "
            "return r; }\n"
            for name, each in (("xf_swap", moves), ("xf_swap_whole", whole))
        )

    def _make(self, values: Sequence[str]) -> str:
        """The accumulators of these values."""
        given = [f"(int){each}" if number in self.places else each for number, each in enumerate(values)]
        return f"xf_acc{{{', '.join(given)}}}"

    def _combine(self) -> str:
        count = len(self.dtypes)
        loads = {side * count + number: f"{'ab'[side]}.v{number}" for side in (0, 1) for number in range(count)}
        lines, results = cuda_source.body(self.spec.combine, loads)
        inner = "\n  ".join(lines)
        return (
            f"__device__ __forceinline__ xf_acc xf_combine(xf_acc a, xf_acc b) {{\n  {inner}\n"
            f"  return {self._make(results)};\n}}\n"
        )

    def _geometry(self) -> str:
        operands = len(self.arrays) + self.spec.outputs
        kept, reduced = self.shape.kept_rank, self.shape.reduced_rank
        is_short = self.shape.is_short
        return (
            "struct xf_divisor { unsigned int factor, shift; };\n"
            "struct xf_geometry { long long rows, count, parts, each; "
            f"long long kept_extent[{kept}], reduced_extent[{reduced}]; "
            f"long long kept_stride[{operands}][{kept}], reduced_stride[{operands}][{reduced}]; "
            f"xf_divisor kept_divisor[{kept}], reduced_divisor[{reduced}]; }};\n"
            + DIVIDE
            + _offset("kept", kept, is_short=is_short)
            + _offset("reduced", reduced, is_short=is_short)
        )

    def _dtype(self, number: int) -> DType:
        return self.spec.map_program.params[number].dtype

    def _map(self) -> str:
        names = [f"{c_type(self._dtype(number))} x{number}" for number in (*self.arrays, *self.scalars)]
        loads = {number: f"x{number}" for number in (*self.arrays, *self.scalars)}
        lines, results = cuda_source.body(self.spec.map_program, loads, index="k", size="count")
        inner = "\n  ".join(lines)
        return (
            f"__device__ __forceinline__ xf_acc xf_map({', '.join([*names, 'long long k', 'long long count'])}) {{\n"
            f"  {inner}\n  return {self._make(results)};\n}}\n"
        )

    def _post(self) -> str:
        """Turn the accumulator of result ``row`` into the outputs and store them."""
        spec, count = self.spec, len(self.dtypes)
        loads = {number: f"a.v{number}" for number in range(count)}
        loads |= {count: "(g.rows * g.each)", count + 1: "g.rows"}  # of which compilers know the quotient
        lines, results = cuda_source.body(spec.post, loads)
        outputs = []
        for number, (dtype, result) in enumerate(zip(spec.output_dtypes, results, strict=True)):
            at = f"o{number} + xf_kept_offset(g, {len(self.arrays) + number}, row)"
            outputs.append(store(at, to_memory(result, dtype), dtype, self.shape.words[len(self.arrays) + number]))
        inner = "\n  ".join([*lines, *outputs])
        pointers = ", ".join(f"char* o{number}" for number in range(spec.outputs))
        return (
            f"__device__ __forceinline__ void xf_finish(xf_acc a, long long row, {pointers}, const xf_geometry& g) {{\n"
            f"  {inner}\n}}\n"
        )

    # --- parts of a kernel's body
    def _parameters(self) -> str:
        return ", ".join([
            *(f"const char* __restrict__ p{number}" for number in self.arrays if number < self.spec.arguments),
            *(f"char* o{number}" for number in range(self.spec.outputs)),
            *(f"char* to{number}" for number in range(len(self.dtypes))),
            "unsigned int* counters",
            *(f"{storage_type(self._dtype(number))} s{number}" for number in self.scalars),
            "const __grid_constant__ xf_geometry g",
        ])  # fmt: skip

    def _arguments(self, values: dict[int, str]) -> str:
        arrays = [values[number] for number in self.arrays]
        scalars = [to_register(f"s{number}", self._dtype(number)) for number in self.scalars]
        return ", ".join([*arrays, *scalars])

    def _row_pointers(self) -> str:
        lines = [
            f"const char* q{number} = p{self.spec.sources[number]} + xf_kept_offset(g, {k}, row);"
            for k, number in enumerate(self.arrays)
        ]
        if self.shape.shifts and self.shape.reduced_rank == 1:
            lines += [f"const int shift{number} = (int)((size_t)q{number} & 15);" for _, number in self.varying]
        for k, number in self.constant:
            memory = storage_type(self._dtype(number))
            if self.shape.kernel == "columns" and self.shape.width > 1:
                lines.append(self._vector_load(number, memory, self.shape.width, f"q{number}"))
            else:
                lines.append(
                    f"const {memory} l{number} = {fetch(f'q{number}', self._dtype(number), self.shape.words[k])};"
                )
        return "\n  ".join(lines)

    def _place(self, k: int, number: int, element: str) -> str:
        """The address of an element of the result in array ``number``, the ``k``-th."""
        if self.shape.kernel == "rows" and self.shape.width > 1 and self.shape.reduced_rank == 1:
            apart = self._dtype(number).itemsize * self.shape.step
            return f"(q{number} + {element} * {apart})"  # a constant, in the instruction itself
        return f"(q{number} + xf_reduced_offset(g, {k}, {element}))"

    def _keep(self, at: str, value: str) -> str:
        stores = [
            f"(({storage_type(dtype)}*)to{number})[{at}] = {to_memory(f'{value}.v{number}', dtype)};"
            for number, dtype in enumerate(self.dtypes)
        ]
        return " ".join(stores)

    def _finish_call(self, value: str) -> str:
        outputs = ", ".join(f"o{number}" for number in range(self.spec.outputs))
        return f"xf_finish({value}, row, {outputs}, g);"

    def _vector_load(self, number: int, memory: str, width: int, place: str, *, checks: bool = False) -> str:
        if width == 1:
            value = fetch(place, self._dtype(number), self.shape.words[self.arrays.index(number)])
            return f"{memory} l{number}[1] = {{{value}}};"
        if self.shape.shifts:
            size = self._dtype(number).itemsize
            wanted = f", 0, (left - at) * {size}" if checks else ""
            shift = f"shift{number}" if self.shape.reduced_rank == 1 else "(int)((size_t)from & 15)"
            aligned = self.shape.words[self.arrays.index(number)]
            load = f"const char* from = {place}; xf_load_shifted_16<{aligned}>(l{number}, from, {shift}{wanted});"
            if self.shape.reduced_rank > 1:  # an access that goes on in the next row is made element by element
                index = "unsigned int" if self.shape.is_short else "long long"
                inner = f"({index})g.reduced_extent[{self.shape.reduced_rank - 1}]"
                k = self.arrays.index(number)
                single = fetch(self._place(k, number, "(k + v)"), self._dtype(number), self.shape.words[k])
                exists = "if (at + v < left) " if checks else ""
                load = (
                    f"if (({index})k % {inner} + {width} <= {inner}) {{ {load} }} else {{ "
                    f'_Pragma("unroll") for (int v = 0; v < {width}; ++v) {exists}l{number}[v] = {single}; }}'
                )
            return f"__align__(16) {memory} l{number}[{width}]; {{ {load} }}"
        held = width * self.shape.step
        nbytes = held * self._dtype(number).itemsize
        word = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2"}.get(nbytes, "uint4")
        pieces = range(max(1, nbytes // 16))
        moves = [f"(({word}*)l{number})[{piece}] = ((const {word}*){place})[{piece}];" for piece in pieces]
        return " ".join([f"__align__(16) {memory} l{number}[{held}];", *moves])

    def _loads(self, *, checks: bool = False) -> str:
        """The values of ``width`` neighbours: of elements from ``k`` for ``rows``, of results for ``columns``."""
        width = self.shape.width
        return " ".join(
            self._vector_load(
                number, storage_type(self._dtype(number)), width, self._place(k, number, "k"), checks=checks
            )
            for k, number in self.varying
        )

    def _vector_arguments(self) -> str:
        element = f"v * {self.shape.step}" if self.shape.step > 1 else "v"
        values = {number: to_register(f"l{number}[{element}]", self._dtype(number)) for number in self.arrays}
        if self.shape.kernel == "rows" or self.shape.width == 1:
            values |= {number: to_register(f"l{number}", self._dtype(number)) for _, number in self.constant}
        return self._arguments(values)

    def text(self) -> str:
        """The whole source, of the kernel ``xf_{shape.kernel}``."""
        spec = self.spec
        parts = [
            prelude([spec.map_program, spec.combine, spec.post]),
            PARTS if self._needs_parts() else "",
            write_unaligned_load(16) if self.shape.shifts else "",
            SHUFFLE,
            L2,
            self._accumulator(),
            self._combine(),
            self._geometry(),
            self._map(),
            self._post(),
            self._walk() if self.shape.is_cut else "",
            getattr(self, f"_{self.shape.kernel}")(),
        ]
        return "".join(parts)

    # --- kernels
    def _rows(self) -> str:
        """The kernel whose tiles take ``threads`` lanes each; ``sections`` of them in a block take turns of one row.

        In a tile, lane l loads the ``width`` elements from (j * threads + l) * width, for each j below ``loads``. The
        sections of a row take neighbouring tiles in each of their ``steps`` turns, so that a block reads one stretch.
        """
        shape = self.shape
        lanes, sections, tile = shape.threads, shape.sections, shape.threads * shape.width * shape.loads
        index = "unsigned int" if shape.is_short else "long long"
        per_block = BLOCK // lanes // sections
        write_tile = self._free_tile if self.is_free else self._tile
        whole, rest = write_tile(checks=False), write_tile(checks=True)
        body = f"if (start + {tile} <= g.count) {{\n{whole}\n      }} else {{\n{rest}\n      }}"
        ends = self._join_free_lanes() if self.is_free else "total = r[0];"
        start = f"""\
const {index} row = wanted < g.rows ? wanted : 0;  // shuffles need all lanes
  {self._row_pointers()}
  xf_acc {f"total = {self.neutral}" if self.is_free else "total"}, r[{shape.loads}];"""
        finish = f"if (lane == 0 && member == 0 && wanted < g.rows) {{ {self._finish_call('total')} }}"
        bounds = f"{BLOCK}, {RESIDENT}" if self._is_light() else self._free_bounds()
        head = f"""\
extern "C" __global__ void __launch_bounds__({bounds}) xf_rows({self._parameters()}) {{
  const int lane = threadIdx.x % {lanes}, member = threadIdx.x / {lanes} % {sections};
"""
        if shape.are_whole:
            return f"""{head}\
  for (int turn = 0; turn < {shape.steps}; ++turn) {{
  const {index} least = (({index})blockIdx.x * {shape.steps} + turn) * {per_block};
  const {index} wanted = least + threadIdx.x / {lanes};
  if (least >= g.rows) break;
  {start}
  const long long start = 0;
  {body}
  {ends}
  {finish}
  }}
}}
"""
        keeps = "" if self.is_free else f"if (lane == 0) shared[group + turn * {sections} + member] = r[0];"
        held = 1 if self.is_free else shape.steps
        return f"""{head}\
  __shared__ xf_acc shared[{BLOCK // 32 * held}];
  const int group = threadIdx.x / {lanes * sections} * {sections * held};
  const {index} at = ({index})blockIdx.x * {per_block} + threadIdx.x / {lanes * sections}, parts = g.parts;
  const {index} wanted = at / parts, part = at - wanted * parts;
  const long long base = (long long)part * {tile * shape.steps * sections};
  {start}
  for (int turn = 0; turn < {shape.steps}; ++turn) {{
    const long long start = base + (turn * {sections} + member) * (long long){tile};
    if (start >= g.count) break;
    {body}
    {keeps}
  }}
  {ends}
{self._join_sections(sections * held) if sections * held > 1 else ""}
{self._join_parts_of_row() if shape.is_cut else ""}
  {finish}
}}
"""

    def _walk(self) -> str:
        """The device function in which a thread combines ``count`` parts, ``step`` apart, eight loads at a time."""
        names = [f"const {storage_type(dtype)}* from{number}" for number, dtype in enumerate(self.dtypes)]
        part = "at + j * step"
        values = [
            to_register(f"xf_fetch_part(from{number} + {part})", dtype) for number, dtype in enumerate(self.dtypes)
        ]
        return f"""\
__device__ xf_acc xf_walk({", ".join(names)}, long long at, long long step, int count) {{
  xf_acc counter[21], r;
  int turns = 0;
  for (int left = count; left > 0; left -= 8, at += 8 * step, ++turns) {{
    xf_acc m[8];
    #pragma unroll
    for (int j = 0; j < 8; ++j) if (j < left) m[j] = {self._make(values)};
    {self._join_in_thread("m", 8, "{step} < left")}
    r = m[0];
    int level = 0;
    for (; turns >> level & 1; ++level) r = xf_combine(counter[level], r);
    counter[level] = r;
  }}
  bool is_empty = true;
  for (int level = 0; turns >> level; ++level)
    if (turns >> level & 1) {{ r = is_empty ? counter[level] : xf_combine(counter[level], r); is_empty = false; }}
  return r;
}}
"""

    def _walk_call(self, at: str, step: str) -> str:
        sources = ", ".join(f"(const {storage_type(dtype)}*)to{number}" for number, dtype in enumerate(self.dtypes))
        return f"xf_walk({sources}, {at}, {step}, count)"

    def _await_others(self, slot: str, threads: int) -> str:
        """Go on in the block that finds all parts there, where ``threads`` share them, ``per`` neighbours each."""
        return f"""\
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    const unsigned int last = (unsigned int)g.parts - 1;
    if (threadIdx.x == 0) is_last = atomicInc(counters + {slot}, last) == last;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    long long per = 1;
    while (per * {threads} < g.parts) per *= 2;"""

    def _join_parts_of_row(self) -> str:
        return f"""\
  {{
    const long long first = row * g.parts;
    if (threadIdx.x == 0) {{ {self._keep("first + part", "total")} }}
{self._await_others("row", BLOCK)}
    const long long mine = threadIdx.x * per, left = g.parts - mine;
    const int count = left < 0 ? 0 : (int)(left < per ? left : per);
    total = {self._walk_call("first + mine", "1")};
    #pragma unroll
    for (int level = 0; level < 5; ++level) {{
      const xf_acc other = xf_swap(total, 1 << level);
      if (!(lane >> level & 1) && mine + (per << level) < g.parts) total = xf_combine(total, other);
    }}
    if (lane == 0) shared[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x) return;
    xf_acc s[{BLOCK // 32}];
    #pragma unroll
    for (int j = 0; j < {BLOCK // 32}; ++j) s[j] = shared[j];
    #pragma unroll
    for (int step = 1; step < {BLOCK // 32}; step *= 2)
      #pragma unroll
      for (int j = 0; j + step < {BLOCK // 32}; j += 2 * step)
        if ((j + step) * 32 * per < g.parts) s[j] = xf_combine(s[j], s[j + step]);
    total = s[0];
  }}"""

    def _join_sections(self, count: int) -> str:
        """Combine the ``count`` nodes of tiles of one row in a block, which lie in shared memory in order."""
        tile = self.shape.threads * self.shape.width * self.shape.loads
        lanes = min(count, 32)
        per = count // lanes
        return f"""\
  {"if (lane == 0) shared[group + member] = total;" if self.is_free else ""}
  {"__syncthreads" if self.shape.sections > 1 else "__syncwarp"}();
  if (member == 0) {{
    xf_acc s[{per}];
    #pragma unroll
    for (int j = 0; j < {per}; ++j) {{
      const int node = lane * {per} + j;
      if (lane < {lanes} && base + node * (long long){tile} < g.count) s[j] = shared[group + node];
    }}
    {self._join_in_thread("s", per, f"base + (lane * {per} + {{step}}) * (long long){tile} < g.count")}
    total = s[0];
    #pragma unroll
    for (int level = 0; level < {lanes.bit_length() - 1}; ++level) {{
      const xf_acc other = xf_swap(total, 1 << level);
      const bool upper = lane >> level & 1;
      if (base + (((long long)lane >> level | 1) << level) * {per * tile} < g.count)
        total = xf_combine(upper ? other : total, upper ? total : other);
      else if (upper) total = other;
    }}
  }}"""

    def _load_tile(self, *, checks: bool) -> str:
        """From element ``start``: this lane's nodes of each access, in ``r``; ``checks`` finds what exists.

        An access may reach beyond the row: its memory's aligned bytes have an element of it.
        """
        lanes, width, count = self.shape.threads, self.shape.width, self.shape.loads
        mapped = f"xf_map({self._vector_arguments()}, k + v, g.count)"
        exists, first, lines = "", "", []
        if checks:
            tile = lanes * width * count
            lines.append(f"        const int left = g.count - start < {tile} ? (int)(g.count - start) : {tile};")
            exists = "" if self.neutral else "at + {step} < left"
            first = "if (at < left)"
        store = f"m[v] = {mapped};"
        if checks and width > 1:
            store = (
                f"m[v] = at + v < left ? {mapped} : {self.neutral};" if self.neutral else f"if (at + v < left) {store}"
            )
        each = f'_Pragma("unroll") for (int j = 0; j < {count}; ++j)'
        place = f"const int at = (j * {lanes} + lane) * {width}; const long long k = start + at;"
        begin = f"r[j] = {self.neutral};" if checks and self.neutral else ""
        loads = found = self._loads(checks=checks)
        if self._is_light():  # whose few registers have no room for them
            lines.append(f"        {each} {{")
        else:
            boards, keep, found = self._hold(count)
            lines.append(f"        {boards} {each} {{ {place} {first} {{ {loads} {keep} }} }} {each} {{")
        lines.append(f"""\
          {place} {begin}
          {first} {{
            {found} xf_acc m[{width}];
            _Pragma("unroll") for (int v = 0; v < {width}; ++v) {store}
            {self._join_in_thread("m", width, exists)}
            r[j] = m[0];
          }}
        }}""")
        return "\n".join(lines)

    def _hold(self, count: int) -> tuple[str, str, str]:
        """Variables for the values of ``count`` accesses; how access ``j`` is kept in them, and found again.

        So all accesses are made before the first value is used, whatever conditions are between.
        """
        memory = {number: storage_type(self._dtype(number)) for _, number in self.varying}
        size = self.shape.width * self.shape.step
        boards = " ".join(f"{name} h{number}[{count}][{size}];" for number, name in memory.items())
        each = f'_Pragma("unroll") for (int v = 0; v < {size}; ++v)'
        keep = " ".join(f"{each} h{number}[j][v] = l{number}[v];" for number in memory)
        found = " ".join(f"const {name}* l{number} = h{number}[j];" for number, name in memory.items())
        return boards, keep, found

    def _free_tile(self, *, checks: bool) -> str:
        """From element ``start``: what this lane has of the tile, combined into ``total`` in any order."""
        joined = self._join_in_thread("r", self.shape.loads, "")
        return f"{self._load_tile(checks=checks)}\n        {joined} total = xf_combine(total, r[0]);"

    def _join_free_lanes(self) -> str:
        """Combine what the lanes of a tile have, in any order."""
        lanes = self.shape.threads
        return f"""\
#pragma unroll
    for (int step = 1; step < {lanes}; step *= 2) total = xf_combine(total, xf_swap(total, step));"""

    def _tile(self, *, checks: bool) -> str:
        """From element ``start``: the node of the tile, in ``r[0]`` of every lane.

        A node is combined with its neighbour on the right where ``checks`` finds that one's first element to exist.
        """
        lanes, width, count = self.shape.threads, self.shape.width, self.shape.loads
        levels = lanes.bit_length() - 1
        lines = [self._load_tile(checks=checks)]
        checks = checks and not self.neutral
        swap = "xf_swap" if checks else "xf_swap_whole"
        lines.append("        int held = 0;")  # which accesses' nodes this lane has: r[i] has that of access held + i
        for level in range(levels):
            count //= 2
            right = f"((held + i) * {lanes} + ((lane >> {level} | 1) << {level})) * {width} < left"
            if count:
                loop = f"for (int i = 0; i < {count}; ++i)"
                give, mine = f"upper ? r[i] : r[i + {count}]", f"upper ? r[i + {count}] : r[i]"
                lines.append(f"        {{ const bool upper = lane >> {level} & 1; if (upper) held += {count};")
            else:
                loop, give, mine = "for (int i = 0; i < 1; ++i)", "r[i]", "r[i]"
                lines.append(f"        {{ const bool upper = lane >> {level} & 1;")
            joined = "xf_combine(upper ? other : mine, upper ? mine : other)"
            chosen = (
                f"if ({right}) r[i] = {joined}; else r[i] = upper ? other : mine;" if checks else f"r[i] = {joined};"
            )
            lines.append(
                f'        _Pragma("unroll") {loop} {{ const xf_acc mine = {mine}, give = {give}, '
                f"other = {swap}(give, {1 << level}); {chosen} }} }}"
            )
        held = max(1, count)  # nodes of neighbouring accesses are left in each lane, further ones in others
        exists = f"(held + {{step}}) * {lanes * width} < left" if checks else ""
        lines.append("        " + self._join_in_thread("r", held, exists))
        spread = (self.shape.loads // held).bit_length() - 1
        for turn, level in enumerate(reversed(range(spread))):
            step = held << turn
            right = f"(held / {2 * step} * {2 * step} + {step}) * {lanes * width} < left"
            joined = "xf_combine(upper ? other : r[0], upper ? r[0] : other)"
            chosen = f"if ({right}) r[0] = {joined}; else if (upper) r[0] = other;" if checks else f"r[0] = {joined};"
            lines.append(
                f"        {{ const xf_acc other = {swap}(r[0], {1 << level}); const bool upper = lane >> {level} & 1; "
                f"{chosen} }}"
            )
        return "\n".join(lines)

    def _join_in_thread(self, name: str, count: int, exists: str) -> str:
        """Combine ``count`` nodes of one thread into the first; ``exists`` asks for the one at ``{step}``."""
        lines = []
        for step in _powers(count):
            for j in range(0, count, 2 * step):
                test = f"if ({exists.format(step=j + step)}) " if exists else ""
                lines.append(f"{test}{name}[{j}] = xf_combine({name}[{j}], {name}[{j + step}]);")
        return " ".join(lines)

    def _columns(self) -> str:
        """The kernel whose threads walk ``steps`` elements of ``width`` results; ``threads`` in a block share them.

        Where ``sections`` is not 1 it takes that many rows of memory for one, and their results for different ones,
        until the end.
        """
        shape = self.shape
        width, groups, loads, rows = shape.width, shape.threads, shape.loads, shape.sections
        across, levels = BLOCK // groups, (shape.steps // loads).bit_length() - 1
        index = "unsigned int" if shape.is_short else "long long"
        apart, stretch = (groups, 1) if self.is_free else (1, shape.steps)  # what a thread, and its neighbours, take
        element = f"(start + (at + j) * {apart})" + (f" * {rows}" if rows > 1 else "")
        each = f'_Pragma("unroll") for (int v = 0; v < {width}; ++v)'
        every = f'_Pragma("unroll") for (int j = 0; j < {loads}; ++j)'
        load = f"const long long k = {element}; {self._loads()}"
        mapped = f"xf_map({self._vector_arguments()}, k, g.count)"
        if self.is_free:
            boards, keep, found = self._hold(loads)
            join = f"{each} r[v] = xf_combine(r[v], {mapped});"
            start = f"{each} r[v] = {self.neutral}; {boards}"
            whole = f"{every} {{ {load} {keep} }} {every} {{ const long long k = {element}; {found} {join} }}"
            rest, collect = f"{every} if (at + j < n) {{ {load} {join} }}", ""
        else:
            load += f" {each} m[j][v] = {mapped};"
            joins = [(j, j + step) for step in _powers(loads) for j in range(0, loads, 2 * step)]
            combine = [f"{each} m[{j}][v] = xf_combine(m[{j}][v], m[{k}][v]);" for j, k in joins]
            checked = [f"if (at + {k} < n) {{ {line} }}" for (_, k), line in zip(joins, combine, strict=True)]
            start = f"xf_acc counter[{levels + 1}][{width}], m[{loads}][{width}];"
            whole = " ".join([f"{every} {{ {load} }}", *combine, self._count_on(levels, self._weights())])
            rest = " ".join([f"{every} if (at + j < n) {{ {load} }}", *checked, self._count_on(levels)])
            collect = self._collect(levels)
        held = across * width // rows
        fold = f"""\
  __syncthreads();
  for (int c = threadIdx.x; c < g.rows; c += {BLOCK}) {{
    #pragma unroll
    for (int line = 1; line < {rows}; ++line) shared[0][c] = xf_combine(shared[0][c], shared[0][line * g.rows + c]);
  }}
"""
        return f"""\
extern "C" __global__ void __launch_bounds__({self._free_bounds()}) xf_columns({self._parameters()}) {{
  __shared__ xf_acc shared[{groups}][{across * width}];
  const long long rows = g.rows{f" * {rows}" if rows > 1 else ""}, count = g.count{f" / {rows}" if rows > 1 else ""};
  const int place = threadIdx.x % {across} * {width}, group = threadIdx.x / {across};
  const {index} blocks = (rows + {across * width - 1}) / {across * width}, part = blockIdx.x / blocks;
  const {index} least = (blockIdx.x - part * blocks) * {held}, first = least{f" * {rows}" if rows > 1 else ""} + place;
  const {index} start = part * {groups * shape.steps} + group * {stretch};
  const long long left = start < count ? count - start : 0;
  const int n = left < {shape.steps * apart} ? (int)(left + {apart - 1}) / {apart} : {shape.steps};
  xf_acc r[{width}];
  if (first < rows && n) {{
    const {index} row = first;
    {self._row_pointers()}
    {start}
    int turn = 0;
    for (int at = 0; at < n; at += {loads}, ++turn) {{
      if (at + {loads} <= n) {{
        {whole}
      }} else {{
        {rest}
      }}
    }}
    {collect}
    {self._rest_of_rows() if rows > 1 else ""}
    {each} shared[group][place + v] = r[v];
  }}
  #pragma unroll
  for (int step = 1; step < {groups}; step *= 2) {{
    __syncthreads();
    if (first < rows && group % (2 * step) == 0 && start + step * {stretch} < count)
      {each} shared[group][place + v] = xf_combine(shared[group][place + v], shared[group + step][place + v]);
  }}
{fold if rows > 1 else ""}\
  __syncthreads();
{self._join_parts_of_columns(held) if shape.is_cut else ""}\
  for (int c = threadIdx.x; c < {held}; c += {BLOCK}) {{
    const long long row = least + c;
    if (row < g.rows) {{ {self._finish_call("shared[0][c]")} }}
  }}
}}
"""

    def _rest_of_rows(self) -> str:
        """Combine the rows of memory behind the last that are taken for one with those of the first ones."""
        width, rows = self.shape.width, self.shape.sections
        values = dict[int, str]()
        for k, number in self.varying:
            place = self._place(k, number, f"count * {rows}")
            at = f"({place} + v * {self._dtype(number).itemsize})"
            values[number] = to_register(fetch(at, self._dtype(number), self.shape.words[k]), self._dtype(number))
        mapped = f"xf_map({self._arguments(values)}, 0, g.count)"
        return f"""\
if (part == 0 && group == 0) {{
      const long long behind = g.count % {rows} * g.rows;
      _Pragma("unroll") for (int v = 0; v < {width}; ++v)
        if (first + v < behind) r[v] = xf_combine(r[v], {mapped});
    }}"""

    def _collect(self, levels: int) -> str:
        """Combine the nodes of the binary counter into ``r``."""
        each = f'_Pragma("unroll") for (int v = 0; v < {self.shape.width}; ++v)'
        return f"""\
bool is_empty = true;
    #pragma unroll
    for (int level = 0; level <= {levels}; ++level)
      if (turn >> level & 1) {{
        {each} r[v] = is_empty ? counter[level][v] : xf_combine(counter[level][v], r[v]);
        is_empty = false;
      }}"""

    def _join_parts_of_columns(self, held: int) -> str:
        """Combine the parts of the ``held`` results of a block: neighbouring threads those of neighbouring results."""
        lanes = min(held, BLOCK)
        groups, walk = BLOCK // lanes, self._walk_call("mine * g.rows + least + c", "g.rows")
        return f"""\
  {{
    for (int c = threadIdx.x; c < {held}; c += {BLOCK})
      if (least + c < g.rows) {{ {self._keep("part * g.rows + least + c", "shared[0][c]")} }}
{self._await_others("blockIdx.x % blocks", groups)}
    xf_acc* const all = shared[0];
    const int own = threadIdx.x % {lanes}, turn = threadIdx.x / {lanes};
    const long long mine = turn * per, left = g.parts - mine;
    const int count = left < 0 ? 0 : (int)(left < per ? left : per);
    for (int c = own; c < {held}; c += {lanes})
      if (least + c < g.rows && count) all[turn * {held} + c] = {walk};
    #pragma unroll
    for (int step = 1; step < {groups}; step *= 2) {{
      __syncthreads();
      if (least + own < g.rows && turn % (2 * step) == 0 && mine + step * per < g.parts)
        all[turn * {held} + own] = xf_combine(all[turn * {held} + own], all[(turn + step) * {held} + own]);
    }}
    __syncthreads();
  }}
"""

    def _weights(self) -> str:
        """The counts of two nodes of a level that lack no element, which are constants."""
        return " ".join(
            f"counter[level][v].v{number} = m[0][v].v{number} = {one} * ({self.shape.loads} << level);"
            for number, one in self.counting.items()
        )

    def _count_on(self, levels: int, weights: str = "") -> str:
        """Add the node ``m[0]`` to the binary counter; ``weights`` sets what is known of nodes of a level."""
        each = f'_Pragma("unroll") for (int v = 0; v < {self.shape.width}; ++v)'
        return f"""{{
          bool is_open = true;
          #pragma unroll
          for (int level = 0; level <= {levels}; ++level) {{
            if (is_open && turn >> level & 1) {{
              {each} {{ {weights} m[0][v] = xf_combine(counter[level][v], m[0][v]); }}
            }} else if (is_open) {{
              {each} counter[level][v] = m[0][v];
              is_open = false;
            }}
          }}
        }}"""

    def _groups(self) -> str:
        """The kernel whose threads combine `GROUP` elements in turn: see `CudaReduction._group_plan`."""
        if self.shape.width > 1:
            return self._groups_of_tile()
        if self.shape.sections > 1:
            return self._groups_of_stretch()
        shape, index = self.shape, "unsigned int" if self.shape.is_short else "long long"
        steps, threads, last = shape.steps, shape.threads, shape.reduced_rank - 1
        extent = [f"({index})g.reduced_extent[{axis}]" for axis in range(last + 1)]
        find = [f"const {index} a{axis} = rest % {extent[axis]}; rest /= {extent[axis]};" for axis in shape.order[:-1]]
        find.append(f"const {index} a{shape.order[-1]} = rest;")
        column = "a0"
        for axis in range(1, last):
            column = f"({column} * {extent[axis]} + a{axis})"

        def stride(k: int, axis: int) -> str:
            return f"g.reduced_stride[{k}][{axis}]"

        starts, wholes, loads, ends = [], [], [], []
        values = {number: to_register(f"l{number}", self._dtype(number)) for _, number in self.constant}
        for k, number in self.varying:
            dtype, terms = self._dtype(number), " + ".join(f"a{axis} * {stride(k, axis)}" for axis in range(last))
            memory = storage_type(dtype)
            starts.append(f"__shared__ {memory} t{number}[{2 * GROUP * threads}];")
            starts.append(f"const char* w{number} = q{number} + {terms}, *next{number} = w{number};")
            starts.append(f"{memory} x{number}[{GROUP}] = {{}};")
            wholes.append(f"const char* at{number} = w{number} + (long long)(from + to) * {stride(k, last)};")
            loads.append(
                f"x{number}[j] = {fetch(f'at{number}', dtype, shape.words[k])}; at{number} += {stride(k, last)};"
            )
            own, other = f"w{number} + at * {stride(k, last)}", f"next{number} + (at - along) * {stride(k, last)}"
            ends.append(f"x{number}[j] = {fetch(f'(at < along ? {own} : {other})', dtype, shape.words[k])};")
            values[number] = to_register(
                f"t{number}[(cell + j * {threads}u) % {2 * GROUP * threads} | threadIdx.x]", dtype
            )
        numbers = [number for _, number in self.varying]
        for axis in reversed(range(last)):
            steps_on = [
                f"next{n} += is_end ? -({stride(k, axis)} * a{axis}) : {stride(k, axis)};" for k, n in self.varying
            ]
            test = f"is_end = a{axis} + 1 == {extent[axis]};"
            starts.append(f"if (is_end) {{ {test} {' '.join(steps_on)} }}")
        mapped = f"m[j] = xf_map({self._arguments(values)}, e + j, g.count);"
        each = f'_Pragma("unroll") for (int j = 0; j < {GROUP}; ++j)'
        end = f"const {index} at = from + to + j; if (at < limit) {{ {' '.join(ends)} }}"
        load = (
            f"if (from + to + {GROUP} <= along) {{ {' '.join(wholes)} {each} {{ {' '.join(loads)} }} }} "
            f"else {{ {each} {{ {end} }} }}"
        )
        kept = " ".join(f"t{n}[turn + j * {threads} + threadIdx.x] = x{n}[j];" for n in numbers)
        return f"""\
extern "C" __global__ void __launch_bounds__({threads}) xf_groups({self._parameters()}) {{
  const {index} along = {extent[last]}, columns = ({index})g.count / along;
  const {index} blocks = (columns + {threads - 1}) / {threads}, chunks = (along + {steps - 1}) / {steps};
  const {index} block = blockIdx.x / blocks, row = block / chunks;
  {index} from = (block - row * chunks) * {steps}, rest = (blockIdx.x - block * blocks) * {threads} + threadIdx.x;
  if (rest >= columns) return;
  {" ".join(find)}
  const {index} first = {column} * along, end = along - from < {steps} ? along : from + {steps};
  const {index} limit = g.count - first < along + {GROUP - 1} ? ({index})g.count - first : along + {GROUP - 1};
  {self._row_pointers()}
  bool is_end = true;
  {" ".join(starts)}
  const int skip = (int)(({GROUP} - (first + from) % {GROUP}) % {GROUP});
  unsigned int turn = 0;
  long long oldest = 0x7fffffffffffffffll;
  xf_acc held[{self._nodes_together()}];
  {{ const int to = 0; {load} }}
  {each} {{ {kept} }}
  {{ const int to = {GROUP}; {load} }}
  for (; from < end; from += {GROUP}) {{
    const unsigned int cell = turn + skip * {threads};
    turn ^= {GROUP * threads};
    {each} {{ {kept} }}
    if (from + {GROUP} < end) {{ const int to = {2 * GROUP}; {load} }}
    if (from + skip < end) {{
      const {index} e = first + from + skip;
      const int left = g.count - e < {GROUP} ? (int)(g.count - e) : {GROUP};
      xf_acc m[{GROUP}];
      if (left == {GROUP}) {{
        {each} {mapped}
        {self._join_in_thread("m", GROUP, "")}
      }} else {{
        {each} if (j < left) {mapped}
        {self._join_in_thread("m", GROUP, "{step} < left")}
      }}
      {self._keep_together(f"row * g.parts + e / {GROUP}", f"from + skip + {GROUP} >= end")}
    }}
  }}
}}
"""

    def _keep_together(self, place: str, is_last: str) -> str:
        """Keep ``m[0]`` at a place, the next one each time: in registers until they fill a sector of memory.

        Nodes of neighbouring threads are far apart. Written alone, parts of sectors leave the cache, and memory has to
        read the others: a sum of 358 MiB took 190 us on an H200.
        """
        count = self._nodes_together()
        each = f'_Pragma("unroll") for (int i = 0; i < {count}; ++i)'
        whole = []
        for number, dtype in enumerate(self.dtypes):
            memory, nbytes = storage_type(dtype), count * dtype.itemsize
            value, to = to_memory(f"held[i].v{number}", dtype), f"(({memory}*)to{number} + least)"
            moves = vector_moves(nbytes, "w", to, is_load=False)
            whole.append(f"{{ __align__(16) {memory} w[{count}]; {each} w[i] = {value}; {moves} }}")
        return f"""\
const long long place = {place};
      const int slot = (int)(place % {count});
      {each} if (i == slot) held[i] = m[0];
      const long long least = place - slot;
      oldest = place < oldest ? place : oldest;
      if (slot == {count - 1} && oldest <= least) {{
        {" ".join(whole)}
      }} else if (slot == {count - 1} || {is_last}) {{
        {each} if (i <= slot && least + i >= oldest) {{ {self._keep("least + i", "held[i]")} }}
      }}"""

    def _nodes_together(self) -> int:
        """The nodes that fill a sector of memory."""
        return max(1, SECTOR_NBYTES // max(dtype.itemsize for dtype in self.dtypes))

    def _groups_of_stretch(self) -> str:
        """The same where few elements are adjacent: a block reads ``sections`` rows of these to shared memory.

        They are those from which groups start, and 15 more; a group that goes on in the next column reads that one's
        first elements where they lie.
        """
        rows, last = self.shape.sections, self.shape.reduced_rank - 1
        across, along = f"(int)g.reduced_extent[{last - 1}]", f"g.reduced_extent[{last}]"
        cells = TILE_NBYTES // sum(self._dtype(number).itemsize for _, number in self.varying) // 32 * 33
        boards = " ".join(f"__shared__ {storage_type(self._dtype(n))} t{n}[{cells}];" for _, n in self.varying)
        fills, width = [], self.shape.loads
        here = {number: to_register(f"l{number}", self._dtype(number)) for _, number in self.constant}
        behind = dict(here)
        for k, number in self.varying:
            dtype, word, stride = self._dtype(number), self.shape.words[k], f"g.reduced_stride[{k}]"
            offset = f" + xf_reduced_offset(g, {k}, plane * across * {along})" if last > 1 else ""
            plane = f"(q{number}{offset})"
            place = f"{plane} + b * {stride}[{last - 1}] + (first + c) * {stride}[{last}]"
            memory, each = storage_type(dtype), f'_Pragma("unroll") for (int v = 0; v < {width}; ++v)'
            cell = f"t{number}[i + i / 32] = "
            if width > 1:
                whole = f"const int at = i * {width};"
                moves = self._vector_load(
                    number, memory, width, f"({plane} + (first * across + at) * {dtype.itemsize})"
                )
                fills.append(
                    _fill(
                        f"found * across / {width}", "", f"{memory} h[{FILL}][{width}];",
                        f"{whole} {moves} {each} h[j][v] = l{number}[v];",
                        f"{whole} {each} t{number}[at + at / 32 + v] = h[j][v];",
                    )
                )  # fmt: skip
                fills.append(
                    f"if (threadIdx.x < found * across % {width}) {{ const int i = found * across / {width} * {width} "
                    f"+ threadIdx.x, c = i / across, b = i - c * across; {cell}{fetch(place, dtype, word)}; }}"
                )
            else:
                find = "const int c = i / across, b = i - c * across;"
                load = f"{find} h[j] = {fetch(place, dtype, word)};"
                fills.append(_fill("found * across", "", f"{memory} h[{FILL}];", load, f"{cell}h[j];"))
            here[number] = to_register(f"t{number}[cell + cell / 32]", dtype)
            behind[number] = to_register(fetch(f"q{number} + xf_reduced_offset(g, {k}, e + j)", dtype, word), dtype)

        def mapped(values: dict[int, str]) -> str:
            return f"xf_map({self._arguments(values)}, e + j, g.count)"

        return f"""\
extern "C" __global__ void __launch_bounds__({BLOCK}) xf_groups({self._parameters()}) {{
  {boards}
  const int across = {across};
  const long long stretches = ({along} + {rows - 1}) / {rows}, planes = g.count / (across * {along});
  const long long block = blockIdx.x / stretches, row = block / planes, plane = block - row * planes;
  const long long first = (blockIdx.x - block * stretches) * {rows};
  const int found = {along} - first < {rows + GROUP - 1} ? (int)({along} - first) : {rows + GROUP - 1};
  {self._row_pointers()}
  {
            '''
  '''.join(fills)
        }
  __syncthreads();
  for (int n = threadIdx.x; n < across * {rows // GROUP}; n += {BLOCK}) {{
    const long long b = n % across, column = plane * across + b;
    const long long e = ((column * {along} + first + {GROUP - 1}) / {GROUP} + n / across) * {GROUP};
    const long long from = e - column * {along};
    if (from >= {along} || from >= first + {rows}) continue;
    const int begin = (int)((from - first) * across + b);
    xf_acc m[{GROUP}];
    if (from + {GROUP} <= {along}) {{
      #pragma unroll
      for (int j = 0; j < {GROUP}; ++j) {{ const int cell = begin + j * across; m[j] = {mapped(here)}; }}
      {self._join_in_thread("m", GROUP, "")}
    }} else {{
      const int left = g.count - e < {GROUP} ? (int)(g.count - e) : {GROUP};
      #pragma unroll
      for (int j = 0; j < {GROUP}; ++j) {{
        const int cell = begin + j * across;
        if (j < left) {{ if (from + j < {along}) m[j] = {mapped(here)}; else m[j] = {mapped(behind)}; }}
      }}
      {self._join_in_thread("m", GROUP, "{step} < left")}
    }}
    {self._keep(f"row * g.parts + e / {GROUP}", "m[0]")}
  }}
}}
"""

    def _groups_of_tile(self) -> str:
        """The same where the columns are short: a block reads ``width`` of them to shared memory, as they lie.

        It reads whole accesses of aligned memory, so each column begins some cells behind its first one. Its groups are
        whole nodes: ``threads`` neighbouring lanes combine theirs.
        """
        shape = self.shape
        width, lanes, across, along = shape.width, shape.threads, "g.reduced_extent[0]", "(int)g.reduced_extent[1]"
        cells = TILE_NBYTES // sum(self._dtype(number).itemsize for _, number in self.varying)
        boards, loads, starts, steps, wraps = [], [], [], [], []
        values = {number: to_register(f"l{number}", self._dtype(number)) for _, number in self.constant}
        for k, number in self.varying:
            dtype, stride = self._dtype(number), f"g.reduced_stride[{k}]"
            memory, size = storage_type(dtype), dtype.itemsize
            each = 16 // size if shape.loads > 1 else 1
            pitch, pieces = width + max(each, 4 // size, 1), width // each + (each > 1)
            boards.append(f"__shared__ __align__(16) {memory} t{number}[{cells}];")
            place, cell = f"q{number} + (first + b) * {stride}[0] + c * {stride}[1]", f"t{number} + c * {pitch} + b"
            find = f"const int c = i / {pieces}, b = i % {pieces} * {each};"
            exists, board = "b < found", f"{memory} h[{FILL}];"
            load, move = f"h[j] = {fetch(place, dtype, shape.words[k])};", f"*({cell}) = h[j];"
            shift = ""
            if each > 1:
                starts.append(f"const unsigned int start{number} = (size_t)(q{number} + first * {size}) & 15;")
                shift = f" + (at{number} & 15) / {size}"
                steps.append(f"at{number} += (unsigned int){stride}[1];")
                wraps.append(f"at{number} = start{number};")
                lead = f"(int)(start{number} + c * (unsigned int){stride}[1] & 15)"
                find, board = f"{find} const int lead = {lead};", f"uint4 h[{FILL}];"
                exists = f"b * {size} < found * {size} + lead"
                load, move = f"h[j] = *(const uint4*)({place} - lead);", f"*(uint4*)({cell}) = h[j];"
            loads.append(_fill(f"along * {pieces}", f"{find} if ({exists})", board, load, move))
            values[number] = to_register(f"t{number}[c * {pitch} + b{shift}]", dtype)
        begins = " ".join(
            f"unsigned int at{n} = start{n} + c * (unsigned int)g.reduced_stride[{k}][1];"
            for k, n in self.varying
            if starts
        )
        joins = "\n".join(
            f"    {{ const xf_acc other = xf_swap(m[0], {level}); "
            f"if (!(lane & {level}) && left > {level * GROUP}) m[0] = xf_combine(m[0], other); }}"
            for level in _powers(lanes)
        )
        return f"""\
extern "C" __global__ void __launch_bounds__({BLOCK}) xf_groups({self._parameters()}) {{
  {" ".join(boards)}
  const long long tiles = ({across} + {width - 1}) / {width}, row = blockIdx.x / tiles;
  const long long first = (blockIdx.x - row * tiles) * {width};
  const int along = {along}, found = {across} - first < {width} ? (int)({across} - first) : {width};
  {self._row_pointers()}
  {" ".join(starts)}
{chr(10).join(loads)}
  __syncthreads();
  const int lane = threadIdx.x % {lanes};
  for (int group = threadIdx.x; (group & ~31) * {GROUP} < found * along; group += {BLOCK}) {{
    const int e = group * {GROUP}, left = found * along - e;
    int b = e / along, c = e - b * along;
    {begins}
    xf_acc m[{GROUP}];
    #pragma unroll
    for (int j = 0; j < {GROUP}; ++j) {{
      if (j < left) m[j] = xf_map({self._arguments(values)}, first * along + e + j, g.count);
      {" ".join(steps)}
      if (++c == along) {{ c = 0; ++b; {" ".join(wraps)} }}
    }}
    {self._join_in_thread("m", GROUP, "{step} < left")}
{joins}
    const long long node = row * g.parts + (first / {GROUP} * along + group) / {lanes};
    if (lane == 0 && left > 0) {{ {self._keep("node", "m[0]")} }}
  }}
}}
"""


# Reductions on CUDA devices: chooses the kernel and its geometry, and runs the launches.

_BYTE = np.dtype(np.uint8)
_FAR = 1 << 62
"""Stands for the stride of an axis along which an array has one element."""
_FULL = 128 * 2048
"""Threads that fill a large GPU: below, a result is cut into parts. It changes no bit, so no device is asked."""
_BLOCKS = 1024
"""Blocks that fill a large GPU."""
_LEAST_WARPS = 4096
"""Warps that keep a large GPU busy with parts of a result; whole results take four times as many."""
_IN_FLIGHT_NBYTES = 6 << 20
"""Bytes that threads have asked for together, in four loads each, which hides the memory's latency on a large GPU."""
_LEAST_STRETCH = 4096
"""Elements of a result, of which few are adjacent, for which a block is worth its start."""
_LONG_STRETCH = 32 * GROUP
"""Of a column that a thread takes in groups, if there are more columns than threads run at once: it reads 15 more."""
_MOST_COLUMN_STEPS = 8
_LEAST_SHIFTED = 4
"""Accesses of a row, of several that belong to one result, for which it is worth that those at its end are singles."""
_NARROW_NBYTES, _PARTS_OF_NARROW = 32, 4096
"""Bytes of neighbouring results below which a thread takes short stretches; and how many parts are not too many."""
_FEW_PARTS = 4
"""Parts of a short result that a block takes alone: others would wait for one another, 1 to 3 us on an H200."""
_SMALL_ACCESS_NBYTES = 2
"""Bytes of an access of which a thread makes sixteen together, not eight: they leave the memory idle."""
_MOST_HELD_NBYTES = 128
"""Bytes of accumulators that a thread holds of one load: more would leave the registers."""


def _powers(end: int) -> list[int]:
    """1, 2, 4 and so on, below ``end``."""
    return [1 << k for k in range((end - 1).bit_length())]


def _power(number: int, most: int) -> int:
    """The least power of two of at least ``number``, at most ``most``, which is one."""
    return min(most, 1 << max(0, number - 1).bit_length())


class CudaReduction:
    """A reduction prepared for one layout on one device.

    Args:
        backend: The CUDA part of a backend.
        device: Where to run.
        spec: What to run.
        kept: Extents of the result and, for each array, its byte strides along them: outputs last.
        reduced: The same of the reduced axes; outputs have strides of 0.
        infos: The arrays in that order, for dtypes and alignment.
        each: The elements of a result, where the arrays hold nodes of several.
    """

    def __init__(
        self,
        backend: Any,
        device: Device,
        spec: ReductionSpec,
        kept: CallLayout,
        reduced: CallLayout,
        infos: Sequence[ArrayInfo],
        each: int | None = None,
    ) -> None:
        self._backend = backend
        self._device = device
        self._spec = spec
        self._accumulators = spec.accumulators
        arrays = len(infos) - spec.outputs
        self._each = each or reduced.size
        self._rest: CudaReduction | None = None
        self._kept = _by_inputs(kept, arrays).with_axes()
        self._reduced = _by_inputs(reduced, arrays, keep_order=not _is_order_free(spec)).with_axes()
        self._rows, self._count = kept.size, reduced.size
        places = _find_places(spec) if self._is_short() else ()
        self._held_nbytes = sum(4 if n in places else each.itemsize for n, each in enumerate(self._accumulators))
        """Of the accumulators of one result in registers."""
        self._lock = threading.Lock()
        self._acquire, self._release = self._lock.acquire, self._lock.release  # half of what ``with`` costs
        self._kept_scratch: list[Any] = []
        """The scratch memory to which calls in one step have the address."""
        self._plan: CudaPlan | None = None
        """Of results of one element each, or of none, which no kernel here computes as fast."""
        self._scratch_nbytes = 0
        self._launch: Callable[[int], None] | None = None
        if self._rows == 0:
            return
        if self._count <= 1 and (program := program_of_few(spec, self._count)) is not None:
            self._plan = self._plan_few(program, kept, infos)
            return
        if self._takes_groups(infos[:arrays]):
            self._kept = kept.with_axes()  # rows in order
            shape = self._shape(infos[:arrays], self._words(infos), "groups")
            self._rest = self._plan_rest(kept, infos[arrays:], self._node(shape))
        else:
            shape = self._shape(infos[:arrays], self._words(infos))
        self.source = ReductionWriter(spec, shape).text()
        if shape.kernel == "rows":
            steps, results = (1, shape.steps) if shape.are_whole else (shape.steps, 1)
            reach = shape.threads * shape.width * shape.loads * steps * shape.sections
            parts = -(-self._count // reach)
            grid = -(-self._rows * parts * shape.sections // (BLOCK // shape.threads * results))
        elif shape.kernel == "groups":
            parts = -(-self._count // self._node(shape))
            *others, along = self._reduced.shape
            columns = math.prod(others)
            blocks = -(-columns // shape.width)
            if shape.width == 1:
                blocks = -(-columns // shape.threads) * -(-along // shape.steps)
            planes = columns // self._reduced.shape[-2]
            grid = self._rows * (planes * -(-along // shape.sections) if shape.sections > 1 else blocks)
        else:
            parts = -(-(self._count // shape.sections) // (shape.threads * shape.steps))
            grid = -(-self._rows * shape.sections // (BLOCK // shape.threads * shape.width)) * parts
        self._nowhere = [0] * (len(self._accumulators) + 1)
        self._counters = 0 if not shape.is_cut else self._rows if shape.kernel == "rows" else grid // parts
        first = counters_nbytes(self._counters) if shape.is_cut else 0
        self._offsets = [first] * len(self._accumulators)
        for number, dtype in enumerate(self._accumulators[:-1]):
            nbytes = -(-self._rows * parts * dtype.itemsize // SECTOR_NBYTES) * SECTOR_NBYTES
            self._offsets[number + 1] = self._offsets[number] + nbytes
        last = self._rows * parts * self._accumulators[-1].itemsize
        self._scratch_nbytes = self._offsets[-1] + last if parts > 1 else 0
        sizes = [param.dtype.itemsize for param in spec.map_program.params[: spec.inputs] if param.is_scalar]
        pointers = len(infos) - len(spec.firsts) + len(self._accumulators) + 1
        self._parameters = ParameterBlock(pointers, sizes, self._geometry(parts))
        kernel = kernel_for(backend, device, self.source, f"xf_{shape.kernel}")
        is_apart = shape.kernel == "groups" and shape.width == shape.sections == 1
        threads = shape.threads if is_apart else BLOCK
        self._launches = kernel, grid, threads
        self._launch = backend.prepare_launch(
            kernel, (grid, 1, 1), (threads, 1, 1), self._parameters.address, device=device
        )

    def _plan_few(self, program: Program, kept: CallLayout, infos: Sequence[ArrayInfo]) -> CudaPlan:
        pairs = zip(infos, kept.strides, strict=True)
        seen = [info._replace(shape=kept.shape, strides=strides) for info, strides in pairs]
        outputs, firsts = self._spec.outputs, len(self._spec.firsts)
        del seen[-outputs - firsts : -outputs]
        numbers = [number for number, param in enumerate(program.params) if not param.is_scalar]
        found = dict(zip(numbers, seen, strict=True))
        plan = CudaPlan(self._backend, self._device, program, kept.shape, found, is_aliased=False)
        self._places = [numbers.index(number) for number in plan.array_order]
        return plan

    # --- planning
    def _takes_groups(self, infos: Sequence[ArrayInfo]) -> bool:
        """Whether another reduced axis than the last has the smallest stride, in a reduction that keeps the order."""
        varying = [k for k in range(len(infos)) if any(self._reduced.strides[k])]
        if _is_order_free(self._spec) or len(self._reduced.shape) < 2 or not varying:
            return False
        order = self._order_of_groups(varying[0])
        if self._planes(varying[0]) < GROUP:
            return False
        is_across, run = True, 1
        for k in varying:
            strides = self._reduced.strides[k]
            least = min(abs(each) for each in (*self._kept.strides[k], *strides) if each)
            is_across &= abs(strides[order[0]]) == least < abs(strides[-1])
        for axis in order:  # the elements of columns that are adjacent
            if abs(self._reduced.strides[varying[0]][axis]) != run * abs(self._reduced.strides[varying[0]][order[0]]):
                break
            run *= self._reduced.shape[axis]
        along = self._reduced.shape[-1]
        if run < 32:
            is_beside = order[0] == len(order) - 1 and run == self._reduced.shape[order[0]]
            is_long = is_beside and along >= _LEAST_STRETCH // run and self._tile_rows(infos, run) >= 2 * GROUP
        else:
            is_long = along >= GROUP
        return is_across and is_long and self._rows * self._count >= _FULL

    def _planes(self, k: int) -> int:
        """The runs of memory in which the neighbours of a result lie: 1 where it is in the memory's order."""
        strides = self._reduced.strides[k]
        least = min(range(len(strides)), key=lambda axis: (abs(strides[axis]) or _FAR, -axis))
        return math.prod(self._reduced.shape[least + 1 :])

    def _tile_rows(self, infos: Sequence[ArrayInfo], count: int) -> int:
        """How often ``count`` elements fit into shared memory."""
        nbytes = sum(info.dtype.itemsize for info, each in zip(infos, self._reduced.strides, strict=False) if any(each))
        return TILE_NBYTES // (nbytes * count)

    def _order_of_groups(self, k: int) -> tuple[int, ...]:
        """The reduced axes without the last, that of the least stride of an array first."""
        strides = self._reduced.strides[k]
        return tuple(sorted(range(len(strides) - 1), key=lambda axis: (not strides[axis], abs(strides[axis]))))

    def _node(self, shape: ReductionKind) -> int:
        """The elements of what ``groups`` leaves for `_rest`."""
        return GROUP * (shape.threads if shape.width > 1 else 1)

    def _plan_rest(self, kept: CallLayout, outputs: Sequence[ArrayInfo], node: int) -> CudaReduction:
        """The reduction of groups' nodes, which lie in scratch memory in the order of rows."""
        parts, count, dtypes = -(-self._count // node), len(self._accumulators), self._accumulators
        b = Builder([Param(name=f"a{k}", dtype=dtype) for k, dtype in enumerate(dtypes)])
        same = store_all(b, "acc", [b.load(k) for k in range(count)])
        spec = replace(self._spec, map_program=same, inputs=count, firsts=())
        rows = [math.prod(kept.shape[axis + 1 :]) * parts for axis in range(len(kept.shape))]
        strides = [tuple(each * dtype.itemsize for each in rows) for dtype in dtypes]
        apart = CallLayout(kept.shape, (*strides, *kept.strides[-len(outputs) :]))
        along = CallLayout((parts,), (*((dtype.itemsize,) for dtype in dtypes), *((0,) for _ in outputs)))
        nodes = [outputs[0]._replace(pointer=0, dtype=dtype) for dtype in dtypes]
        return CudaReduction(self._backend, self._device, spec, apart, along, [*nodes, *outputs], self._each)

    def _group_plan(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> tuple[int, int, int, int, int]:
        """Columns of a tile in shared memory, a multiple of `GROUP`; or 1, and the elements of one for a thread.

        Of fewer columns than a warp has threads, a block takes as many rows as fit, the last number, and accesses to
        them have as many elements as the third number says.
        """
        *outer, across, along = self._reduced.shape
        varying = [(info, k) for k, info in enumerate(infos) if not same[k]]
        sizes = {k: info.dtype.itemsize for info, k in varying}
        rows = self._tile_rows(infos, across) // GROUP * GROUP - GROUP
        if across < 32 and rows > 0 and self._order_of_groups(varying[0][1])[0] == len(outer):
            is_linear = all(self._reduced.strides[k][-2:] == (size, across * size) for k, size in sizes.items())
            apart = (self._kept.strides[k] + self._reduced.strides[k][:-2] for _, k in varying)
            aligned = math.gcd(16, *(info.pointer for info, _ in varying), *itertools.chain(*apart))
            width = aligned // max(sizes.values()) if is_linear else 1
            return 1, 1, max(1, width), 1, rows
        width = 1 << (max(1, self._tile_rows(infos, along) - 16 // min(sizes.values())).bit_length() - 1)
        if width >= 32 and not outer:
            width = min(width, _power(across, 4096))
            is_whole = all(word_of(info.pointer, self._reduced.strides[k], sizes[k]) == sizes[k] for info, k in varying)
            is_adjacent = all(self._reduced.strides[k][0] == size < 16 for k, size in sizes.items())
            return width, min(32, width // GROUP), 16 // min(sizes.values()) if is_whole and is_adjacent else 1, 1, 1
        columns = self._rows * math.prod(outer) * across
        pieces = _FULL // 2 // columns or -(-along // _LONG_STRETCH)  # threads that start together, or many in turn
        threads = 1 << self._tile_rows(infos, 2 * GROUP).bit_length() - 1
        return 1, min(BLOCK, threads), 1, max(GROUP, -(-along // pieces // GROUP) * GROUP), 1

    def _is_short(self) -> bool:
        """Whether 32 bits count the results, the elements of each, and the parts that threads take."""
        return max(self._rows, self._count, self._rows * (self._count // 1024 + 1)) < 1 << 31

    def _words(self, infos: Sequence[ArrayInfo]) -> tuple[int, ...]:
        return tuple(
            word_of(info.pointer, (*self._kept.strides[k], *self._reduced.strides[k]), info.dtype.itemsize)
            for k, info in enumerate(infos)
        )

    def _shape(self, infos: Sequence[ArrayInfo], words: tuple[int, ...], kernel: str = "") -> ReductionKind:
        same = tuple(all(stride == 0 for stride in self._reduced.strides[k]) for k in range(len(infos)))
        kernel = kernel or self._choose(infos, same)
        make = {"rows": self._rows_kind, "columns": self._columns_kind, "groups": self._group_plan}[kernel]
        width, threads, loads, steps, sections = make(infos, same)
        are_whole = kernel == "rows" and threads * width * loads >= self._count
        reach = threads * steps * (width * loads * sections if kernel == "rows" else 1)
        count = self._count // sections if kernel == "columns" else self._count
        shifts = kernel == "rows" and self._row_width(infos, same) is not None
        return ReductionKind(
            kernel=kernel,
            kept_rank=len(self._kept.shape),
            reduced_rank=len(self._reduced.shape),
            width=width,
            threads=threads,
            loads=loads,
            steps=steps,
            sections=sections,
            order=self._order_of_groups(same.index(False)) if kernel == "groups" else (),
            are_whole=are_whole,
            is_cut=kernel != "groups" and not are_whole and reach < count,
            is_short=self._is_short(),
            same=same,
            shifts=shifts,
            words=words,
            step=self._row_step(infos, same) if kernel == "rows" and width > 1 else 1,
        )

    def _choose(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> str:
        varying = next((k for k in range(len(infos)) if not same[k]), None)
        if varying is None or self._rows == 1:
            return "rows"
        # Where neighbours lie in few runs of memory, the accesses of a warp find what others of it have read.
        strides = self._reduced.strides[varying]
        least = min(abs(each) or _FAR for each in strides) if self._planes(varying) < GROUP else abs(strides[-1])
        return "rows" if least <= abs(self._kept.strides[varying][-1]) else "columns"

    def _rows_kind(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> tuple[int, int, int, int, int]:
        count, width = self._count, self._rows_width(infos, same)
        # Few accesses in flight a lane, and then lanes; more where a warp then has the whole result at once.
        most = 8 if width < 4 and count <= 32 * 8 * width else 4
        most = min(most, 1 << (max(1, _MOST_HELD_NBYTES // self._held_nbytes).bit_length() - 1))
        threads = _power(-(-count // (min(4, most) * width)), 32)
        loads = _power(-(-count // (threads * width)), most)
        tiles = -(-count // (threads * width * loads))
        # To begin takes a warp longer than a tile, so it takes several, or several results; but all have to end
        # together, which many do more evenly, as far as no parts are left to join.
        is_cut = tiles > BLOCK // 32 * _MOST_COLUMN_STEPS
        most, least = (4 * _MOST_COLUMN_STEPS, _LEAST_WARPS) if is_cut else (_MOST_COLUMN_STEPS, 4 * _LEAST_WARPS)
        steps = 1
        while steps < most and (tiles == 1 or steps < tiles):
            pieces = self._rows * threads // 32 // (2 * steps) if tiles == 1 else self._rows * -(-tiles // (2 * steps))
            if pieces < least:
                break
            steps *= 2
        if steps == 1 < tiles and (parts := -(-tiles // (BLOCK // 32))) <= _FEW_PARTS:
            steps = _power(parts, _FEW_PARTS)
        return width, threads, loads, steps, 1 if tiles == 1 else _power(-(-tiles // steps), BLOCK // 32)

    def _columns_kind(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> tuple[int, int, int, int, int]:
        width, rows = self._columns_width(infos, same)
        count, held = self._count // rows, width * self._held_nbytes
        results, nbytes = -(-self._rows * rows // width), width * max(info.dtype.itemsize for info in infos)
        loads = 8 if nbytes > _SMALL_ACCESS_NBYTES else 16  # small accesses leave the memory idle
        loads = min(_power(count, loads), 1 << (max(1, 2 * _MOST_HELD_NBYTES // held).bit_length() - 1))
        # Threads side by side that read whole lines, with the fewest beyond the last result; the others of a block walk
        # down stretches of their own.
        most = _power(results, 32)
        choices = [
            across
            for across in (32, 16, 8, 4, 2, 1)
            if across <= most and across * nbytes >= min(most * nbytes, 128 if rows == 1 else most * nbytes)
        ]
        across = min(choices, key=lambda each: -(-results // each) * each)
        threads = _power(-(-count // loads), BLOCK // across)
        while threads > 1 and results * threads // 2 >= _FULL:  # few threads with more elements have less to join
            threads //= 2
        full = max(_BLOCKS * BLOCK // 4, _IN_FLIGHT_NBYTES // (4 * nbytes))
        full = min(_FULL, full * max(1, width // 4))  # small elements take more instructions a byte
        steps = _power(-(-count * results // full), 512)  # elements of a thread, were the GPU full
        steps = max(loads, min(steps, _power(-(-count // threads), 512)))
        if across * nbytes < _NARROW_NBYTES and not _is_order_free(self._spec):  # neighbours read a stretch apart
            steps = max(loads, min(steps, _power(-(-count // (threads * _PARTS_OF_NARROW)), 512)))
        # A thread of the last block joins about as many parts as it has taken elements.
        steps = max(steps, _power(math.ceil(count**0.5 / threads), 512))
        if steps == loads and (parts := -(-count // (threads * steps))) <= _FEW_PARTS:
            steps *= _power(parts, _FEW_PARTS)
        return width, threads, loads, steps, rows

    def _rows_width(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> int:
        """Neighbouring elements of a result in one access of at most 16 bytes: a power of two."""
        width = self._vector_width(infos, self._reduced, self._kept, skipped=same)
        if (shifted := self._row_width(infos, same)) is not None:
            return shifted
        if (step := self._row_step(infos, same)) > 1:
            width = (
                16 // step // max(info.dtype.itemsize for info, is_same in zip(infos, same, strict=True) if not is_same)
            )
        while len(self._reduced.shape) > 1 and self._reduced.shape[-1] % width:
            width //= 2
        return min(width, _power(self._count, 16))

    def _row_width(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> int | None:
        """The elements of 16 bytes, if rows lie at addresses of less alignment, and each without a gap."""
        varying = [(info, k) for k, info in enumerate(infos) if not same[k]]
        sizes = {info.dtype.itemsize for info, _ in varying}
        if len(sizes) != 1 or {self._reduced.strides[k][-1] for _, k in varying} != sizes:
            return None
        if sizes == {8} and _is_order_free(self._spec):
            return None  # pairs of accesses to two elements gain nothing where no order is kept
        width, (*outer, inner) = 16 // sizes.pop(), self._reduced.shape
        addresses = [(info.pointer, *self._kept.strides[k], *self._reduced.strides[k][:-1]) for info, k in varying]
        if all(math.gcd(16, *each) == 16 for each in addresses) and (not outer or inner % width == 0):
            return None
        return width if 1 < width <= (inner // _LEAST_SHIFTED if outer else inner) else None

    def _row_step(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> int:
        """The elements of memory from one of a result to the next, if aligned 16 bytes have several; else 1."""
        varying = [(info, k) for k, info in enumerate(infos) if not same[k]]
        sizes = {info.dtype.itemsize for info, _ in varying}
        strides = {self._reduced.strides[k][-1] for _, k in varying}
        if len(sizes) != 1 or len(strides) != 1 or (stride := strides.pop()) not in (2, 4, 8):
            return 1
        addresses = [(info.pointer, *self._kept.strides[k], *self._reduced.strides[k][:-1]) for info, k in varying]
        is_aligned = all(math.gcd(16, *each) == 16 for each in addresses)
        return max(1, stride // sizes.pop()) if is_aligned else 1

    def _columns_width(self, infos: Sequence[ArrayInfo], same: tuple[bool, ...]) -> tuple[int, int]:
        """Neighbouring results in one access, if their accumulators fit the registers: a power of two.

        And the rows of memory for which it takes one, since accesses go on in the next.
        """
        most, extent = _power(max(1, 32 // self._held_nbytes), 16), self._kept.shape[-1]
        width = min(most, self._vector_width(infos, self._kept, self._reduced))
        while extent % width:
            width //= 2
        wide = min(most, *(16 // info.dtype.itemsize for info in infos[: len(same)]))
        rows = wide // math.gcd(wide, extent)
        is_linear = not any(same) and len(self._kept.shape) == len(self._reduced.shape) == 1
        for k, info in enumerate(infos):
            size = info.dtype.itemsize
            is_linear &= (*self._kept.strides[k], *self._reduced.strides[k]) == (size, size * extent)
            is_linear &= info.pointer % 16 == 0
        is_worth = wide > width and extent * rows <= 32 * wide and self._count >= _LEAST_STRETCH * rows
        if is_linear and is_worth and _is_order_free(self._spec):
            return wide, rows
        return width, 1

    def _vector_width(
        self, infos: Sequence[ArrayInfo], along: CallLayout, across: CallLayout, skipped: Sequence[bool] = ()
    ) -> int:
        """The elements of one access along the last axis of ``along``, by the alignment of every array."""
        width = 16
        for k, info in enumerate(infos):
            if skipped and skipped[k]:
                continue
            *others, last = along.strides[k]
            if last != info.dtype.itemsize:
                return 1
            aligned = math.gcd(info.pointer, 16, *others, *across.strides[k])
            width = min(width, max(1, aligned // info.dtype.itemsize))
        return width

    def _geometry(self, parts: int) -> bytes:
        values = [self._rows, self._count, parts, self._each, *self._kept.shape, *self._reduced.shape]
        for strides in self._kept.strides:
            values += strides
        for strides in self._reduced.strides:
            values += strides
        factors = [
            each for extent in (*self._kept.shape, *self._reduced.shape) for each in divisor(min(extent, 1 << 31))
        ]
        return struct.pack(f"{len(values)}q{len(factors)}I", *values, *factors)

    # --- running
    def run(self, pointers: Sequence[int], scalars: Sequence[np.generic], stream: RawStream) -> None:
        """Launch on ``stream``; the addresses are those of the inputs, then of the outputs."""
        if self._launch is None:  # of one element each, or of none; or no results
            if self._plan is not None:
                self._run_few(self._plan, pointers, scalars, stream)
            return
        if self._scratch_nbytes:
            base, _kept = self._find_scratch(stream)  # to the end: what is freed is reused in stream order
            into = [base + offset for offset in self._offsets]
            into.append(base)
        else:
            into = self._nowhere
        self._acquire()  # the driver copies the arguments during a launch
        try:
            self._parameters.patch([*pointers, *into])
            for place, value in enumerate(scalars):
                self._parameters.patch_scalar(place, value.tobytes())
            self._launch(stream.handle)
        finally:
            self._release()
        if self._rest is not None:
            self._rest.run([*into[:-1], *pointers[-self._spec.outputs :]], (), stream)

    def repeat(
        self,
        given: Sequence[Any],
        pointers: Sequence[int],
        new: Sequence[NewOutput],
        stream: RawStream,
        others: Direct | None = None,
    ) -> Direct | None:
        """A function that does a call like this one, with new outputs, in one step; None where Python must.

        Args:
            given: The arrays of the call.
            pointers: Their addresses, and those of the outputs behind them.
            new: The outputs; of a small float, which the plan has as bits, of its own dtype.
            stream: The current stream.
            others: Such a function for other streams, where there is one.
        """
        dtypes = [param.dtype for param in self._spec.map_program.params]
        arguments = [*zip(given, dtypes, pointers, strict=False)]
        if self._plan is not None:
            return self._plan.repeat(arguments, dict(enumerate(new, len(arguments))))
        if self._launch is None:
            return None
        (last, spare, then), places = (self, [], None), range(len(pointers) + len(self._accumulators))
        if self._rest is not None:
            last, count = self._rest, len(self._accumulators)
            spare = [((self._rows * last._count,), dtype, None) for dtype in self._accumulators]
            then = last._launches, last._parameters, [*range(count, count + len(new)), *range(count)]
        if not shares_scratch(stream, last._scratch_nbytes, last._counters):
            return None
        into = self._nowhere
        if last._scratch_nbytes:
            base, kept = last._find_scratch(stream)
            self._kept_scratch.append(kept)
            into = [*(base + offset for offset in last._offsets), base]
        with last._lock:
            first = pointers if last is self else [*into[:-1], *pointers[-len(new) :]]
            last._parameters.patch([*first, *into])
            return repeat_call(
                self._backend, self._device, self._launches, self._parameters, arguments, [*new, *spare],
                places[: len(pointers) + len(spare)], then, len(spare),
                only=stream if last._scratch_nbytes else None, others=others,
            )  # fmt: skip

    def _find_scratch(self, stream: RawStream) -> tuple[int, Any]:
        """Memory whose counters are 0, and its address."""
        if self._rest is not None:
            found = self._backend.empty((self._scratch_nbytes,), _BYTE, device=self._device, stream=stream)
            return self._backend.operands([found])[0], found
        return find_scratch(self._backend, stream, self._scratch_nbytes, self._counters)

    def _run_few(
        self, plan: CudaPlan, pointers: Sequence[int], scalars: Sequence[np.generic], stream: RawStream
    ) -> None:
        self._acquire()
        try:
            plan.bind([pointers[place] for place in self._places], scalars)
            plan.launch(stream.handle)
        finally:
            self._release()


def _find_neutral(spec: ReductionSpec) -> Any:
    """The value of the one accumulator with which combining changes no bit of another; None if none is known."""
    if len(spec.combine.stores) > 1:
        return None
    node = spec.combine.stores[0].value
    if sorted(each.attr for each in node.args if each.op == "load") != [0, 1]:
        return None
    dtype = node.dtype
    if is_float(dtype):
        return {"add": -0.0, "mul": 1.0, "min": np.inf, "max": -np.inf}.get(node.op)
    if dtype.kind not in "biu":
        return None
    least, most = (0, 1) if dtype == BOOL else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return {"add": 0, "or": 0, "xor": 0, "mul": 1, "and": -1, "min": most, "max": least}.get(node.op)


def _find_counting(spec: ReductionSpec) -> dict[int, str]:
    """The accumulators that are the sum of one constant over the elements, and that constant: they count.

    Nodes that lack no element have equal ones, so that they need no exchange, and what is computed of both is constant:
    the variance takes no division there.
    """
    count, found = len(spec.accumulators), {}
    mapped = {each.param - spec.inputs: each.value for each in spec.map_program.stores}
    joined = {each.param - 2 * count: each.value for each in spec.combine.stores}
    for number, one in mapped.items():
        loads = sorted(each.attr for each in joined[number].args if each.op == "load")
        is_sum = joined[number].op == "add" and loads == [number, count + number]
        if is_sum and one.op == "const" and one.dtype.kind == "f" and one.attr == 1:
            found[number] = constant(one.attr, one.dtype)
    return found


def _find_places(spec: ReductionSpec) -> frozenset[int]:
    """The accumulators that are the places of elements, from which the reduction chooses: of minima and maxima."""
    count = len(spec.accumulators)
    mapped = {each.param - spec.inputs: each.value for each in spec.map_program.stores}
    joined = {each.param - 2 * count: each.value for each in spec.combine.stores}

    def is_chosen(number: int) -> bool:
        node = joined[number]
        loads = sorted(each.attr for each in node.args[1:] if each.op == "load")
        return node.op == "select" and loads == [number, count + number]

    return frozenset(number for number, value in mapped.items() if value.op == "index" and is_chosen(number))


def _is_order_free(spec: ReductionSpec) -> bool:
    """Whether the elements of a result may be taken in any order, with the same bits."""
    return is_order_free(spec.combine) and not any(node.op == "index" for node in spec.map_program.nodes)


def _by_inputs(layout: CallLayout, arrays: int, *, keep_order: bool = False) -> CallLayout:
    """The axes collapsed, and unless they keep their order, in that of the inputs' strides so that reads coalesce."""
    order = [*range(arrays, len(layout.strides)), *reversed(range(arrays))]
    moved = collapse(CallLayout(layout.shape, tuple(layout.strides[k] for k in order)), keep_order=keep_order)
    back: list[tuple[int, ...]] = [()] * len(order)
    for position, k in enumerate(order):
        back[k] = moved.strides[position]
    return CallLayout(moved.shape, tuple(back))
