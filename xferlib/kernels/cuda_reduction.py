"""CUDA C for reductions, in the order that `xferlib.kernels.ir` fixes.

The usual kernel lets each thread stride through the elements, then adds the threads' sums, with atomics between
blocks. Its result depends on the grid, so on the device, and with atomics on the run. Here every result has the bits
of one tree, which the NumPy engine follows too: leaves of consecutive elements, lanes within a leaf, halves of lanes,
pairs of leaves. The kernels differ only in which thread computes which node of the tree:

- ``xf_rows``: a warp reduces a leaf, for elements that are adjacent in memory. One thread per lane would read with a
  stride, so the block loads its leaves together, in memory order, and exchanges lanes through shared memory;
- ``xf_columns``: 16 threads share a leaf, for results that are adjacent in memory;
- ``xf_few``: up to 32 threads share a result of up to 512 elements, in one launch;
- ``xf_tree``: combines the accumulators that the first two leave. It takes launches of its own, because blocks have
  no cheaper barrier in common.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core.arrays import ArrayInfo
from xferlib.kernels import cuda_source
from xferlib.kernels.cuda_engine import CudaPlan, ParameterBlock, kernel_for
from xferlib.kernels.cuda_source import PARTS, c_type, fetch, prelude, storage_type, store, to_memory, to_register
from xferlib.kernels.ir import INT64, LANES, LEAF_SIZE, CallLayout, DType, ReductionSpec, collapse, word_of

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
    """Of ``rows`` the elements in one access, of ``columns`` the results of a thread, of ``few`` a result's threads."""
    warps: int
    """Of ``rows`` the leaves of a block."""
    same: tuple[bool, ...]
    """For each input array: whether all elements of a result share one value."""
    words: tuple[int, ...]
    """For each input array and then each output: the bytes of the widest access to an element."""


EARLY = """\
#if __CUDA_ARCH__ >= 900
#define XF_LET_FOLLOW asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define XF_AWAIT asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define XF_LET_FOLLOW
#define XF_AWAIT
#endif
"""
"""Lets the next kernel on the stream be set up early, and waits there until this one is complete."""

SHUFFLE = """\
template <typename T> __device__ __forceinline__ T xf_shuffle(T v, int step) {
  if (sizeof(T) < 4) return (T)__shfl_down_sync(0xffffffffu, (int)v, step);
  return (T)__shfl_down_sync(0xffffffffu, v, step);
}
"""


def _offset(kind: str, rank: int) -> str:
    """The device function for the byte offset of a result (``kept``) or of an element within it (``reduced``)."""
    lines = []
    for axis in range(rank - 1, 0, -1):
        extent = f"g.{kind}_extent[{axis}]"
        lines.append(
            f"{{ const long long rest = at / {extent}; offset += (at - rest * {extent}) * g.{kind}_stride[k][{axis}]; "
            "at = rest; }"
        )
    inner = " ".join(lines)
    return (
        f"__device__ __forceinline__ long long xf_{kind}_offset(const xf_geometry& g, int k, long long at) {{ "
        f"long long offset = 0; {inner} return offset + at * g.{kind}_stride[k][0]; }}\n"
    )


FEW = LANES
"""The most elements of a result that has one row of lanes."""
GROUPS = 16
LEAVES_PER_BLOCK = 8
PARTS_PER_THREAD = 8
TREE_THREADS = 1024
"""Threads in a block of ``xf_tree``: 8192 accumulators, those of 2^28 elements, take one launch."""


class ReductionWriter:
    """Writes the source for one reduction and one kind of call."""

    def __init__(self, spec: ReductionSpec, shape: ReductionKind) -> None:
        self.spec = spec
        self.shape = shape
        params = spec.map_program.params[: spec.inputs]
        self.arrays = [number for number, param in enumerate(params) if not param.is_scalar]
        self.scalars = [number for number, param in enumerate(params) if param.is_scalar]
        self.dtypes = spec.accumulators

    def _needs_parts(self) -> bool:
        """Whether the elements of an array are not aligned."""
        sizes = [self._dtype(number).itemsize for number in self.arrays]
        sizes += [dtype.itemsize for dtype in self.spec.output_dtypes]
        return any(word < size for word, size in zip(self.shape.words, sizes, strict=True))

    # --- device functions
    def _accumulator(self) -> str:
        fields = " ".join(f"{c_type(dtype)} v{number};" for number, dtype in enumerate(self.dtypes))
        names = [
            f"v{number}{part}"
            for number, dtype in enumerate(self.dtypes)
            for part in ((".x", ".y") if dtype.kind == "c" else ("",))
        ]
        moves = " ".join(f"r.{name} = xf_shuffle(a.{name}, step);" for name in names)
        return (
            f"struct xf_acc {{ {fields} }};\n"
            f"__device__ __forceinline__ xf_acc xf_down(xf_acc a, int step) {{ xf_acc r; {moves} return r; }}\n"
        )

    def _combine(self) -> str:
        count = len(self.dtypes)
        loads = {side * count + number: f"{'ab'[side]}.v{number}" for side in (0, 1) for number in range(count)}
        lines, results = cuda_source.body(self.spec.combine, loads)
        inner = "\n  ".join(lines)
        return (
            f"__device__ __forceinline__ xf_acc xf_combine(xf_acc a, xf_acc b) {{\n  {inner}\n"
            f"  return xf_acc{{{', '.join(results)}}};\n}}\n"
        )

    def _geometry(self) -> str:
        operands = len(self.arrays) + self.spec.outputs
        kept, reduced = self.shape.kept_rank, self.shape.reduced_rank
        return (
            "struct xf_geometry { long long rows, count, leaves, parts; "
            f"long long kept_extent[{kept}], reduced_extent[{reduced}]; "
            f"long long kept_stride[{operands}][{kept}], reduced_stride[{operands}][{reduced}]; }};\n"
            + _offset("kept", kept)
            + _offset("reduced", reduced)
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
            f"  {inner}\n  return xf_acc{{{', '.join(results)}}};\n}}\n"
        )

    def _post(self) -> str:
        """Turn the accumulator of result ``row`` into the outputs and store them."""
        spec, count = self.spec, len(self.dtypes)
        loads = {number: f"a.v{number}" for number in range(count)}
        loads |= {count: "g.rows * g.count", count + 1: "g.rows"}
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
    def _parameters(self, *, reads_inputs: bool = True) -> str:
        result = []
        if reads_inputs:
            result += [f"const char* __restrict__ p{number}" for number in self.arrays]
        result += [f"char* o{number}" for number in range(self.spec.outputs)]
        result += [f"char* to{number}" for number in range(len(self.dtypes))]
        if reads_inputs:
            result += [f"{storage_type(self._dtype(number))} s{number}" for number in self.scalars]
        return ", ".join([*result, "const __grid_constant__ xf_geometry g"])

    def _arguments(self, values: dict[int, str]) -> str:
        arrays = [values[number] for number in self.arrays]
        scalars = [to_register(f"s{number}", self._dtype(number)) for number in self.scalars]
        return ", ".join([*arrays, *scalars])

    def _row_pointers(self) -> str:
        return "\n  ".join(
            f"const char* q{number} = p{number} + xf_kept_offset(g, {k}, row);" for k, number in enumerate(self.arrays)
        )

    def _map_element(self, element: str) -> str:
        """The accumulator of one element, which is loaded singly."""
        values = {}
        for k, number in enumerate(self.arrays):
            dtype = self._dtype(number)
            place = f"q{number}" if self.shape.same[k] else f"(q{number} + xf_reduced_offset(g, {k}, {element}))"
            values[number] = to_register(fetch(place, dtype, self.shape.words[k]), dtype)
        return f"xf_map({self._arguments(values)}, {element}, g.count)"

    def _keep(self, at: str, value: str) -> str:
        stores = [
            f"(({storage_type(dtype)}*)to{number})[{at}] = {to_memory(f'{value}.v{number}', dtype)};"
            for number, dtype in enumerate(self.dtypes)
        ]
        return " ".join(stores)

    def _finish_call(self, value: str) -> str:
        outputs = ", ".join(f"o{number}" for number in range(self.spec.outputs))
        return f"xf_finish({value}, row, {outputs}, g);"

    def _column_loads(self) -> str:
        """The values of element ``k`` in ``width`` neighbouring results."""
        lines = []
        for k, number in enumerate(self.arrays):
            memory, width = storage_type(self._dtype(number)), self.shape.width
            place = f"q{number}" if self.shape.same[k] else f"(q{number} + xf_reduced_offset(g, {k}, k))"
            lines.append(self._vector_load(number, memory, width, place))
        return " ".join(lines)

    def _vector_load(self, number: int, memory: str, width: int, place: str) -> str:
        if width == 1:
            value = fetch(place, self._dtype(number), self.shape.words[self.arrays.index(number)])
            return f"{memory} l{number}[1] = {{{value}}};"
        nbytes = width * self._dtype(number).itemsize
        word = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2"}.get(nbytes, "uint4")
        pieces = range(max(1, nbytes // 16))
        moves = [f"(({word}*)l{number})[{piece}] = ((const {word}*){place})[{piece}];" for piece in pieces]
        return " ".join([f"__align__(16) {memory} l{number}[{width}];", *moves])

    def _vector_loads(self) -> str:
        """The values of ``width`` neighbouring elements from ``k``."""
        lines = []
        for k, number in enumerate(self.arrays):
            memory, width = storage_type(self._dtype(number)), self.shape.width
            if self.shape.same[k]:
                loads = ", ".join([fetch(f"q{number}", self._dtype(number), self.shape.words[k])] * width)
                lines.append(f"{memory} l{number}[{width}] = {{{loads}}};")
            elif width == 1:
                lines.append(self._vector_load(number, memory, 1, f"(q{number} + xf_reduced_offset(g, {k}, k))"))
            else:
                place = f"(q{number} + k * {self._dtype(number).itemsize})"
                lines.append(self._vector_load(number, memory, width, place))
        return " ".join(lines)

    def _vector_arguments(self) -> str:
        return self._arguments({number: to_register(f"l{number}[v]", self._dtype(number)) for number in self.arrays})

    def _halve(self, *, checks: bool) -> str:
        """Halve the lanes of a warp's leaf: first between slots, then between threads."""
        lines = []
        step = LANES // 2
        while step:
            has = f"j * 32 + thread * 1 + v + {step} < n"
            if step >= 32:
                loop = f"for (int j = 0; j < {step // 32}; ++j) for (int v = 0; v < 1; ++v)"
                other = f"r[j + {step // 32}][v]"
            else:
                loop, other = "for (int j = 0, v = 0; v < 1; ++v)", f"xf_down(r[0][v], {step})"
            combined = "r[j][v] = xf_combine(r[j][v], other); "
            guarded = f"if ({has}) {combined}" if checks else combined
            lines.append(f"#pragma unroll\n      {loop} {{ const xf_acc other = {other}; {guarded}}}")
            step //= 2
        return "\n      ".join(lines)

    def text(self) -> str:
        """The whole source: the kernel ``xf_{shape.kernel}``, and ``xf_tree``."""
        spec = self.spec
        parts = [
            prelude([spec.map_program, spec.combine, spec.post]),
            PARTS if self._needs_parts() else "",
            EARLY,
            SHUFFLE,
            self._accumulator(),
            self._combine(),
            self._geometry(),
            self._map(),
            self._post(),
            getattr(self, f"_{self.shape.kernel}")(),
        ]
        if self.shape.kernel != "few":
            parts.append(self._tree())
        return "".join(parts)

    # --- kernels
    def _few(self) -> str:
        threads, slots = self.shape.width, 16
        halves, step = [], LANES // 2
        while step:
            if step >= threads and step // threads < slots:
                loop = f"#pragma unroll\n  for (int j = 0; j < {step // threads}; ++j)"
                take = f"r[j] = xf_combine(r[j], r[j + {step // threads}]);"
                halves.append(f"{loop} if ({threads} * j + thread + {step} < count) {take}")
            elif step < threads:
                take = "if (other_is) r[0] = xf_combine(r[0], other);"
                test = f"const bool other_is = thread + {step} < count;"
                halves.append(f"{{ const xf_acc other = xf_down(r[0], {step}); {test} {take} }}")
            step //= 2
        inner = "\n  ".join(halves)
        return f"""\
extern "C" __global__ void __launch_bounds__(256) xf_few({self._parameters()}) {{
  const long long at = (long long)blockIdx.x * 256 + threadIdx.x, row = at / {threads};
  const int thread = threadIdx.x % {threads}, count = row < g.rows ? (int)g.count : 0;
  xf_acc r[{slots}];
  if (row < g.rows) {{
    {self._row_pointers()}
    #pragma unroll
    for (int j = 0; j < {slots}; ++j)
      if ({threads} * j + thread < count) r[j] = {self._map_element(f"(long long)({threads} * j + thread)")};
  }}
  {inner}
  if (thread == 0 && row < g.rows) {{ {self._finish_call("r[0]")} }}
}}
"""

    def _columns(self) -> str:
        width, groups = self.shape.width, GROUPS
        slots = LANES // groups
        levels = slots.bit_length() - 1
        return f"""\
extern "C" __global__ void __launch_bounds__({32 * groups}) xf_columns({self._parameters()}) {{
  __shared__ xf_acc shared[{groups}][{32 * width}];
  XF_LET_FOLLOW;
  const int place = (threadIdx.x & 31) * {width}, group = threadIdx.x >> 5;
  const long long blocks = (g.rows + {32 * width - 1}) / {32 * width}, leaf = blockIdx.x / blocks;
  const long long first = (blockIdx.x - leaf * blocks) * {32 * width} + place, start = leaf * {LEAF_SIZE};
  const int n = (int)(g.count - start < {LEAF_SIZE} ? g.count - start : {LEAF_SIZE});
  const bool is_inside = first < g.rows;
  if (is_inside && group < n) {{
    const long long row = first;
    {self._row_pointers()}
    xf_acc stack[{levels}][{width}], r[{width}];
    bool held[{levels}];
    for (int turn = 0; turn < {slots}; ++turn) {{
      const int lane = {groups} * (int)(__brev(turn) >> {32 - levels}) + group;
      bool is_held = lane < n;
      if (n == {LEAF_SIZE}) {{
        #pragma unroll
        for (int line = 0; line < {LEAF_SIZE // LANES}; ++line) {{
          const long long k = start + line * {LANES} + lane;
          {self._column_loads()}
          #pragma unroll
          for (int v = 0; v < {width}; ++v) {{
            const xf_acc m = xf_map({self._vector_arguments()}, k, g.count);
            r[v] = line ? xf_combine(r[v], m) : m;
          }}
        }}
      }} else {{
        for (int at = lane; at < n; at += {LANES}) {{
          const long long k = start + at;
          {self._column_loads()}
          #pragma unroll
          for (int v = 0; v < {width}; ++v) {{
            const xf_acc m = xf_map({self._vector_arguments()}, k, g.count);
            r[v] = at != lane ? xf_combine(r[v], m) : m;
          }}
        }}
      }}
      bool is_open = true;
      #pragma unroll
      for (int level = 0; level < {levels}; ++level) {{
        const bool is_second = turn >> level & 1;
        if (is_open && is_second) {{
          #pragma unroll
          for (int v = 0; v < {width}; ++v) r[v] = is_held ? xf_combine(stack[level][v], r[v]) : stack[level][v];
          is_held = held[level];
        }} else if (is_open) {{
          #pragma unroll
          for (int v = 0; v < {width}; ++v) stack[level][v] = r[v];
          held[level] = is_held;
          is_open = false;
        }}
      }}
    }}
    #pragma unroll
    for (int v = 0; v < {width}; ++v) shared[group][place + v] = r[v];
  }}
  for (int step = {groups // 2}; step; step /= 2) {{
    __syncthreads();
    if (is_inside && group < step && group + step < n)
      #pragma unroll
      for (int v = 0; v < {width}; ++v)
        shared[group][place + v] = xf_combine(shared[group][place + v], shared[group + step][place + v]);
  }}
  if (group == 0 && is_inside) {{
    #pragma unroll
    for (int v = 0; v < {width}; ++v) {{
      const long long row = first + v;
      if (g.parts == 1) {{ {self._finish_call("shared[0][place + v]")} }}
      else {{ {self._keep("row * g.parts + leaf", "shared[0][place + v]")} }}
    }}
  }}
}}
"""

    def _rows(self) -> str:
        """The kernel whose block loads its leaves together, in memory order; then each warp halves the lanes of one.

        A leaf takes ``team`` threads, ``width`` lanes each; shared memory exchanges the lanes.
        """
        width, warps = self.shape.width, self.shape.warps
        team, lines = LANES // width, LEAF_SIZE // LANES
        slots = LANES // 32
        return f"""\
extern "C" __global__ void __launch_bounds__(256, 2) xf_rows({self._parameters()}) {{
  __shared__ xf_acc lanes[{warps}][{LANES}];
  __shared__ xf_acc shared[{LEAVES_PER_BLOCK}];
  XF_LET_FOLLOW;
  const long long row = blockIdx.x / g.parts, part = blockIdx.x - row * g.parts;
  {self._row_pointers()}
  const int thread = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int member = threadIdx.x / {team}; member < {warps}; member += {max(1, 256 // team)}) {{
    const long long start = (part * {warps} + member) * {LEAF_SIZE};
    const int n = (int)(g.count - start < {LEAF_SIZE} ? g.count - start : {LEAF_SIZE});
    for (int base = (threadIdx.x % {team}) * {width}; base < {LANES}; base += {min(LANES, 256 * width)}) {{
      xf_acc r[{width}];
      if (n == {LEAF_SIZE}) {{
        #pragma unroll
        for (int line = 0; line < {lines}; ++line) {{
          const long long k = start + line * {LANES} + base;
          {self._vector_loads()}
          #pragma unroll
          for (int v = 0; v < {width}; ++v) {{
            const xf_acc m = xf_map({self._vector_arguments()}, k + v, g.count);
            r[v] = line ? xf_combine(r[v], m) : m;
          }}
        }}
      }} else {{
        #pragma unroll
        for (int v = 0; v < {width}; ++v)
          for (int at = base + v; at < n; at += {LANES}) {{
            const xf_acc m = {self._map_element("(start + at)")};
            r[v] = at >= {LANES} ? xf_combine(r[v], m) : m;
          }}
      }}
      #pragma unroll
      for (int v = 0; v < {width}; ++v) lanes[member][base + v] = r[v];
    }}
  }}
  __syncthreads();
  const long long start = (part * {warps} + warp) * {LEAF_SIZE};
  if (warp < {warps} && start < g.count) {{
    const int n = (int)(g.count - start < {LANES} ? g.count - start : {LANES});
    xf_acc r[{slots}][1];
    #pragma unroll
    for (int j = 0; j < {slots}; ++j) r[j][0] = lanes[warp][32 * j + thread];
    if (n == {LANES}) {{
      {self._halve(checks=False)}
    }} else {{
      {self._halve(checks=True)}
    }}
    if (thread == 0) shared[warp] = r[0][0];
  }}
  __syncthreads();
  if (warp == 0) {{
    const long long left = g.leaves - part * {warps};
    xf_acc total = shared[thread < {warps} ? thread : 0];
    #pragma unroll
    for (int step = 1; step < {warps}; step *= 2) {{
      const xf_acc other = xf_down(total, step);
      if (thread % (2 * step) == 0 && thread + step < {warps} && thread + step < left)
        total = xf_combine(total, other);
    }}
    if (thread) return;
    if (g.parts == 1) {{ {self._finish_call("total")} }}
    else {{ {self._keep("row * g.parts + part", "total")} }}
  }}
}}
"""

    def _tree(self) -> str:
        """The kernel whose ``per_row`` threads combine ``from_parts`` accumulators of each row into ``g.parts``."""
        places = [f"((const {storage_type(dtype)}*)from{number})[at]" for number, dtype in enumerate(self.dtypes)]
        loads = ", ".join(to_register(place, dtype) for place, dtype in zip(places, self.dtypes, strict=True))
        sources = ", ".join(f"const char* from{number}" for number in range(len(self.dtypes)))
        return f"""\
extern "C" __global__ void __launch_bounds__({TREE_THREADS}) xf_tree({sources}, {self._parameters(reads_inputs=False)},
    long long from_parts, int per_row) {{
  __shared__ xf_acc shared[32];
  const long long first = (long long)blockIdx.x * (blockDim.x / per_row);
  int thread = threadIdx.x % per_row;
  long long job = first + threadIdx.x / per_row, row = job / g.parts, part = job - row * g.parts;
  long long left = row < g.rows ? from_parts - (part * per_row + thread) * {PARTS_PER_THREAD} : 0;
  xf_acc r[{PARTS_PER_THREAD}];
  XF_AWAIT;
  const long long start = row * from_parts + from_parts - left;
  #pragma unroll
  for (int j = 0; j < {PARTS_PER_THREAD}; ++j)
    if (j < left) {{ const long long at = start + j; r[j] = xf_acc{{{loads}}}; }}
  #pragma unroll
  for (int step = 1; step < {PARTS_PER_THREAD}; step *= 2)
    #pragma unroll
    for (int j = 0; j + step < {PARTS_PER_THREAD}; j += 2 * step)
      if (j + step < left) r[j] = xf_combine(r[j], r[j + step]);
  #pragma unroll
  for (int step = 1; step < 32; step *= 2) {{
    const xf_acc other = xf_down(r[0], step);
    if (step < per_row && thread % (2 * step) == 0 && left > (long long)step * {PARTS_PER_THREAD})
      r[0] = xf_combine(r[0], other);
  }}
  if (per_row > 32) {{  // the first warp goes on, a thread for each warp
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = r[0];
    __syncthreads();
    if (threadIdx.x >= 32) return;
    const int warps = blockDim.x / 32;
    r[0] = shared[threadIdx.x % warps];
    thread = 32 * threadIdx.x % per_row;
    job = first + 32 * threadIdx.x / per_row, row = job / g.parts, part = job - row * g.parts;
    left = threadIdx.x < warps && row < g.rows ? from_parts - (part * per_row + thread) * {PARTS_PER_THREAD} : 0;
    #pragma unroll
    for (int step = 32; step < {TREE_THREADS}; step *= 2) {{
      const xf_acc other = xf_down(r[0], step / 32);
      if (step < per_row && thread % (2 * step) == 0 && left > (long long)step * {PARTS_PER_THREAD})
        r[0] = xf_combine(r[0], other);
    }}
  }}
  if (thread == 0 && left > 0) {{
    if (g.parts == 1) {{ {self._finish_call("r[0]")} }}
    else {{ {self._keep("row * g.parts + part", "r[0]")} }}
  }}
}}
"""


# Reductions on CUDA devices: chooses the kernel and its geometry, and runs the launches.

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
        self._kept = _by_inputs(kept, arrays).with_axes()
        self._reduced = collapse(reduced, keep_order=True).with_axes()
        self._rows, self._count = kept.size, reduced.size
        self._lock = threading.Lock()
        self._stages: list[_Stage] = []
        self._fill: CudaPlan | None = None
        if self._rows == 0:
            return
        if self._count == 0:
            self._fill = self._plan_fill(kept, infos[arrays:])
            return
        shape = self._shape(infos[:arrays], self._words(infos))
        self.source = ReductionWriter(spec, shape).text()
        first = kernel_for(backend, device, self.source, f"xf_{shape.kernel}")
        leaves = -(-self._count // LEAF_SIZE)
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

    def _plan_fill(self, kept: CallLayout, outputs: Sequence[ArrayInfo]) -> CudaPlan:
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

    def _shape(self, infos: Sequence[ArrayInfo], words: tuple[int, ...]) -> ReductionKind:
        same = tuple(all(stride == 0 for stride in self._reduced.strides[k]) for k in range(len(infos)))
        kernel = self._choose(infos, same)
        leaves = -(-self._count // LEAF_SIZE)
        warps = min(self._most_leaves(), 1 << (leaves - 1).bit_length())
        return ReductionKind(
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
