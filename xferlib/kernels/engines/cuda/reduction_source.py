"""CUDA C for reductions, in the order that `xferlib.kernels.ir.reduction` fixes.

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

from xferlib.kernels.engines.cuda.ops import loaded, storage_type
from xferlib.kernels.engines.cuda.prelude import PARTS, prelude
from xferlib.kernels.engines.cuda.reduction_fragments import EARLY, SHUFFLE, Fragments, ReductionKind
from xferlib.kernels.ir.reduction import LANES, LEAF, ReductionSpec

FEW = LANES
"""The most elements of a result that has one row of lanes."""
GROUPS = 16
LEAVES_PER_BLOCK = 8
PARTS_PER_THREAD = 8
TREE_THREADS = 1024
"""Threads in a block of ``xf_tree``: 8192 accumulators, those of 2^28 elements, take one launch."""


def reduction_source(spec: ReductionSpec, shape: ReductionKind) -> str:
    """The whole source: the kernel ``xf_{shape.kernel}``, and ``xf_tree``."""
    return _ReductionWriter(spec, shape).text()


class _ReductionWriter(Fragments):
    """Writes the kernels."""

    def text(self) -> str:
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
      if ({threads} * j + thread < count) r[j] = {self._mapped(f"(long long)({threads} * j + thread)")};
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
  const long long first = (blockIdx.x - leaf * blocks) * {32 * width} + place, start = leaf * {LEAF};
  const int n = (int)(g.count - start < {LEAF} ? g.count - start : {LEAF});
  const bool is_inside = first < g.rows;
  if (is_inside && group < n) {{
    const long long row = first;
    {self._row_pointers()}
    xf_acc stack[{levels}][{width}], r[{width}];
    bool held[{levels}];
    for (int turn = 0; turn < {slots}; ++turn) {{
      const int lane = {groups} * (int)(__brev(turn) >> {32 - levels}) + group;
      bool is_held = lane < n;
      if (n == {LEAF}) {{
        #pragma unroll
        for (int line = 0; line < {LEAF // LANES}; ++line) {{
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
        team, lines = LANES // width, LEAF // LANES
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
    const long long start = (part * {warps} + member) * {LEAF};
    const int n = (int)(g.count - start < {LEAF} ? g.count - start : {LEAF});
    for (int base = (threadIdx.x % {team}) * {width}; base < {LANES}; base += {min(LANES, 256 * width)}) {{
      xf_acc r[{width}];
      if (n == {LEAF}) {{
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
            const xf_acc m = {self._mapped("(start + at)")};
            r[v] = at >= {LANES} ? xf_combine(r[v], m) : m;
          }}
      }}
      #pragma unroll
      for (int v = 0; v < {width}; ++v) lanes[member][base + v] = r[v];
    }}
  }}
  __syncthreads();
  const long long start = (part * {warps} + warp) * {LEAF};
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
        loads = ", ".join(loaded(place, dtype) for place, dtype in zip(places, self.dtypes, strict=True))
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
