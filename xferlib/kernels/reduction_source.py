"""CUDA C for reductions, in the order that `reduction_spec` fixes.

Four kernels follow one tree. ``xf_rows``: a warp reduces a leaf, for elements that lie next to each other.
``xf_columns``: 32 threads share a leaf of each of 32 results, for results that lie next to each other.
``xf_few``: a thread reduces up to 16 elements. ``xf_tree``: combines what the first two leave.
"""

from __future__ import annotations

from dataclasses import dataclass

from xferlib.kernels import cuda_emit
from xferlib.kernels.cuda_ops import c_type, loaded, storage_type, stored
from xferlib.kernels.cuda_prelude import prelude
from xferlib.kernels.ir import DType
from xferlib.kernels.reduction_spec import LANES, LEAF, ReductionSpec

FEW = 16
LEAVES_PER_BLOCK = 8
PARTS_PER_THREAD = 8


@dataclass(frozen=True, slots=True)
class ReductionShape:
    """The kind of a call: ``kernel`` of the four, ranks after collapsing, elements in one access."""

    kernel: str
    kept_rank: int
    reduced_rank: int
    width: int
    same: tuple[bool, ...]
    """For each input array: whether all elements of a result share one value."""


def reduction_source(spec: ReductionSpec, shape: ReductionShape) -> str:
    """The whole source: the kernel ``xf_{shape.kernel}``, and ``xf_tree``."""
    return _Writer(spec, shape).text()


class _Writer:
    def __init__(self, spec: ReductionSpec, shape: ReductionShape) -> None:
        self.spec = spec
        self.shape = shape
        params = spec.map_program.params[: spec.inputs]
        self.arrays = [number for number, param in enumerate(params) if not param.is_scalar]
        self.scalars = [number for number, param in enumerate(params) if param.is_scalar]
        self.dtypes = spec.accumulators

    def text(self) -> str:
        spec = self.spec
        parts = [
            prelude([spec.map_program, spec.combine, spec.post]),
            _SHUFFLE,
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
        lines, results = cuda_emit.body(self.spec.combine, loads)
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
        lines, results = cuda_emit.body(self.spec.map_program, loads, index="k", size="count")
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
        lines, results = cuda_emit.body(spec.post, loads)
        outputs = []
        for number, (dtype, result) in enumerate(zip(spec.output_dtypes, results, strict=True)):
            at = f"o{number} + xf_kept_offset(g, {len(self.arrays) + number}, row)"
            outputs.append(f"*({storage_type(dtype)}*)({at}) = {stored(result, dtype)};")
        inner = "\n  ".join([*lines, *outputs])
        pointers = ", ".join(f"char* o{number}" for number in range(spec.outputs))
        return (
            f"__device__ __forceinline__ void xf_finish(xf_acc a, long long row, {pointers}, const xf_geometry& g) {{\n"
            f"  {inner}\n}}\n"
        )

    # --- pieces of kernels
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
        scalars = [loaded(f"s{number}", self._dtype(number)) for number in self.scalars]
        return ", ".join([*arrays, *scalars])

    def _row_pointers(self) -> str:
        return "\n  ".join(
            f"const char* q{number} = p{number} + xf_kept_offset(g, {k}, row);" for k, number in enumerate(self.arrays)
        )

    def _mapped(self, element: str) -> str:
        """The accumulator of one element, read on its own."""
        values = {}
        for k, number in enumerate(self.arrays):
            dtype = self._dtype(number)
            place = f"q{number}" if self.shape.same[k] else f"(q{number} + xf_reduced_offset(g, {k}, {element}))"
            values[number] = loaded(f"*(const {storage_type(dtype)}*){place}", dtype)
        return f"xf_map({self._arguments(values)}, {element}, g.count)"

    def _keep(self, at: str, value: str) -> str:
        stores = [
            f"(({storage_type(dtype)}*)to{number})[{at}] = {stored(f'{value}.v{number}', dtype)};"
            for number, dtype in enumerate(self.dtypes)
        ]
        return " ".join(stores)

    def _finish_call(self, value: str) -> str:
        outputs = ", ".join(f"o{number}" for number in range(self.spec.outputs))
        return f"xf_finish({value}, row, {outputs}, g);"

    # --- kernels
    def _few(self) -> str:
        return f"""\
extern "C" __global__ void __launch_bounds__(256) xf_few({self._parameters()}) {{
  long long row = (long long)blockIdx.x * 256 + threadIdx.x;
  if (row >= g.rows) return;
  {self._row_pointers()}
  xf_acc r[{FEW}];
  #pragma unroll
  for (int l = 0; l < {FEW}; ++l) if (l < g.count) r[l] = {self._mapped("(long long)l")};
  #pragma unroll
  for (int step = {FEW // 2}; step; step /= 2)
    #pragma unroll
    for (int l = 0; l < step; ++l) if (l + step < g.count) r[l] = xf_combine(r[l], r[l + step]);
  {self._finish_call("r[0]")}
}}
"""

    def _columns(self) -> str:
        return f"""\
extern "C" __global__ void __launch_bounds__(1024) xf_columns({self._parameters()}) {{
  __shared__ xf_acc shared[32][33];
  const int column = threadIdx.x & 31, group = threadIdx.x >> 5;
  const long long blocks = (g.rows + 31) / 32, leaf = blockIdx.x / blocks;
  const long long row = (blockIdx.x - leaf * blocks) * 32 + column, start = leaf * {LEAF};
  const int n = (int)(g.count - start < {LEAF} ? g.count - start : {LEAF});
  if (row < g.rows && group < n) {{
    {self._row_pointers()}
    xf_acc r[16];
    if (n == {LEAF}) {{
      #pragma unroll
      for (int j = 0; j < 16; ++j) r[j] = {self._mapped("(start + 32 * j + group)")};
      for (int k = {LANES}; k < {LEAF}; k += {LANES})
        #pragma unroll
        for (int j = 0; j < 16; ++j) r[j] = xf_combine(r[j], {self._mapped("(start + k + 32 * j + group)")});
    }} else {{
      #pragma unroll
      for (int j = 0; j < 16; ++j) {{
        const int lane = 32 * j + group;
        if (lane < n) r[j] = {self._mapped("(start + lane)")};
        for (int k = lane + {LANES}; k < n; k += {LANES}) r[j] = xf_combine(r[j], {self._mapped("(start + k)")});
      }}
    }}
    #pragma unroll
    for (int step = 8; step; step /= 2)
      #pragma unroll
      for (int j = 0; j < step; ++j) if (32 * (j + step) + group < n) r[j] = xf_combine(r[j], r[j + step]);
    shared[group][column] = r[0];
  }}
  for (int step = 16; step; step /= 2) {{
    __syncthreads();
    if (group < step && group + step < n && row < g.rows)
      shared[group][column] = xf_combine(shared[group][column], shared[group + step][column]);
  }}
  if (group == 0 && row < g.rows) {{
    if (g.parts == 1) {{ {self._finish_call("shared[0][column]")} }}
    else {{ {self._keep("row * g.parts + leaf", "shared[0][column]")} }}
  }}
}}
"""

    def _rows(self) -> str:
        width = self.shape.width
        slots = LANES // (32 * width)
        return f"""\
extern "C" __global__ void __launch_bounds__(256) xf_rows({self._parameters()}) {{
  __shared__ xf_acc shared[{LEAVES_PER_BLOCK}];
  const int thread = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const long long row = blockIdx.x / g.parts, part = blockIdx.x - row * g.parts;
  const long long leaf = part * {LEAVES_PER_BLOCK} + warp, start = leaf * {LEAF};
  if (leaf < g.leaves) {{
    {self._row_pointers()}
    const int n = (int)(g.count - start < {LEAF} ? g.count - start : {LEAF});
    xf_acc r[{slots}][{width}];
    if (n == {LEAF}) {{
      #pragma unroll
      for (int line = 0; line < {LEAF // LANES}; ++line)
        #pragma unroll
        for (int j = 0; j < {slots}; ++j) {{
          const long long k = start + line * {LANES} + j * {32 * width} + thread * {width};
          {self._vector_loads()}
          #pragma unroll
          for (int v = 0; v < {width}; ++v) {{
            const xf_acc m = xf_map({self._vector_arguments()}, k + v, g.count);
            r[j][v] = line ? xf_combine(r[j][v], m) : m;
          }}
        }}
      {self._halve(slots, width, checks=False)}
    }} else {{
      #pragma unroll
      for (int j = 0; j < {slots}; ++j)
        #pragma unroll
        for (int v = 0; v < {width}; ++v) {{
          const int lane = j * {32 * width} + thread * {width} + v;
          if (lane < n) r[j][v] = {self._mapped("(start + lane)")};
          for (int k = lane + {LANES}; k < n; k += {LANES}) r[j][v] = xf_combine(r[j][v], {self._mapped("(start + k)")});
        }}
      {self._halve(slots, width, checks=True)}
    }}
    if (thread == 0) shared[warp] = r[0][0];
  }}
  __syncthreads();
  if (threadIdx.x == 0) {{
    const long long left = g.leaves - part * {LEAVES_PER_BLOCK};
    for (int step = 1; step < {LEAVES_PER_BLOCK}; step *= 2)
      for (int at = 0; at + step < {LEAVES_PER_BLOCK} && at + step < left; at += 2 * step)
        shared[at] = xf_combine(shared[at], shared[at + step]);
    if (g.parts == 1) {{ {self._finish_call("shared[0]")} }}
    else {{ {self._keep("row * g.parts + part", "shared[0]")} }}
  }}
}}
"""

    def _vector_loads(self) -> str:
        lines = []
        for k, number in enumerate(self.arrays):
            memory, width = storage_type(self._dtype(number)), self.shape.width
            if self.shape.same[k]:
                lines.append(f"const {memory} l{number} = *(const {memory}*)q{number};")
                continue
            lines.append(f"__align__(16) {memory} l{number}[{width}];")
            if width == 1:
                lines.append(f"l{number}[0] = *(const {memory}*)(q{number} + xf_reduced_offset(g, {k}, k));")
                continue
            nbytes = width * self._dtype(number).itemsize
            word = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2"}.get(nbytes, "uint4")
            address = f"(const {word}*)(q{number} + k * {self._dtype(number).itemsize})"
            for piece in range(max(1, nbytes // 16)):
                lines.append(f"(({word}*)l{number})[{piece}] = ({address})[{piece}];")
        return " ".join(lines)

    def _vector_arguments(self) -> str:
        values = {}
        for k, number in enumerate(self.arrays):
            local = f"l{number}" if self.shape.same[k] else f"l{number}[v]"
            values[number] = loaded(local, self._dtype(number))
        return self._arguments(values)

    def _halve(self, slots: int, width: int, *, checks: bool) -> str:
        """The lanes of a warp's leaf halved: first between slots, then between threads, then inside a vector."""
        lines = []
        step = LANES // 2
        while step:
            has = f"j * {32 * width} + thread * {width} + v + {step} < n"
            if step >= 32 * width:
                half = step // (32 * width)
                loop = f"for (int j = 0; j < {half}; ++j) for (int v = 0; v < {width}; ++v)"
                other = f"r[j + {half}][v]"
            elif step >= width:
                loop, other = f"for (int j = 0, v = 0; v < {width}; ++v)", f"xf_down(r[0][v], {step // width})"
            else:
                loop, other = f"for (int j = 0, v = 0; v < {step}; ++v)", f"r[0][v + {step}]"
            combined = "r[j][v] = xf_combine(r[j][v], other); "
            guarded = f"if ({has}) {combined}" if checks else combined
            lines.append(f"#pragma unroll\n      {loop} {{ const xf_acc other = {other}; {guarded}}}")
            step //= 2
        return "\n      ".join(lines)

    def _tree(self) -> str:
        """``per_row`` threads combine ``from_parts`` accumulators of each row into ``g.parts``."""
        loads = ", ".join(
            loaded(f"((const {storage_type(dtype)}*)from{number})[at]", dtype) for number, dtype in enumerate(self.dtypes)
        )
        sources = ", ".join(f"const char* from{number}" for number in range(len(self.dtypes)))
        return f"""\
extern "C" __global__ void __launch_bounds__(256) xf_tree({sources}, {self._parameters(reads_inputs=False)},
    long long from_parts, int per_row) {{
  __shared__ xf_acc shared[256];
  const int thread = threadIdx.x % per_row;
  const long long job = (long long)blockIdx.x * (256 / per_row) + threadIdx.x / per_row;
  const long long row = job / g.parts, part = job - row * g.parts;
  const long long start = part * per_row * {PARTS_PER_THREAD} + thread * {PARTS_PER_THREAD};
  const long long left = row < g.rows ? from_parts - start : 0;
  if (left > 0) {{
    xf_acc r[{PARTS_PER_THREAD}];
    #pragma unroll
    for (int j = 0; j < {PARTS_PER_THREAD}; ++j)
      if (j < left) {{ const long long at = row * from_parts + start + j; r[j] = xf_acc{{{loads}}}; }}
    #pragma unroll
    for (int step = 1; step < {PARTS_PER_THREAD}; step *= 2)
      #pragma unroll
      for (int j = 0; j + step < {PARTS_PER_THREAD}; j += 2 * step)
        if (j + step < left) r[j] = xf_combine(r[j], r[j + step]);
    shared[threadIdx.x] = r[0];
  }}
  for (int step = 1; step < per_row; step *= 2) {{
    __syncthreads();
    if (thread % (2 * step) == 0 && left > (long long)step * {PARTS_PER_THREAD} && thread + step < per_row)
      shared[threadIdx.x] = xf_combine(shared[threadIdx.x], shared[threadIdx.x + step]);
  }}
  if (thread == 0 && row < g.rows) {{
    if (g.parts == 1) {{ {self._finish_call("shared[threadIdx.x]")} }}
    else {{ {self._keep("row * g.parts + part", "shared[threadIdx.x]")} }}
  }}
}}
"""


_SHUFFLE = """\
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
