"""CUDA C for reductions, in the order that `reduction_spec` fixes.

Four kernels follow one tree. ``xf_rows``: a warp reduces a leaf, for elements that lie next to each other.
``xf_columns``: 16 threads share a leaf, for results that lie next to each other. ``xf_few``: up to 32 threads
share up to 512 elements. ``xf_tree``: combines what the first two leave.
"""

from __future__ import annotations

from dataclasses import dataclass

from xferlib.kernels import cuda_emit
from xferlib.kernels.cuda_ops import c_type, loaded, storage_type, stored
from xferlib.kernels.cuda_prelude import prelude
from xferlib.kernels.ir import DType
from xferlib.kernels.reduction_spec import LANES, LEAF, ReductionSpec

FEW = LANES
"""Results of at most so many elements have a single line of lanes."""
GROUPS = 16
LINES_UNROLLED = 2
LEAVES_PER_BLOCK = 8
PARTS_PER_THREAD = 8


@dataclass(frozen=True, slots=True)
class ReductionShape:
    """The kind of a call: ``kernel`` of the four, ranks after collapsing, elements in one access."""

    kernel: str
    kept_rank: int
    reduced_rank: int
    width: int
    """``rows``: elements in one access; ``columns``: results of one thread; ``few``: threads for one result."""
    warps: int
    """``rows``: warps for one result, as far as it has leaves."""
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
        width, warps = self.shape.width, self.shape.warps
        slots, lines = LANES // (32 * width), LEAF // LANES
        return f"""\
extern "C" __global__ void __launch_bounds__(256) xf_rows({self._parameters()}) {{
  __shared__ xf_acc shared[{LEAVES_PER_BLOCK}];
  const int thread = threadIdx.x & 31, warp = threadIdx.x >> 5, member = warp % {warps};
  const long long job = (long long)blockIdx.x * {LEAVES_PER_BLOCK // warps} + warp / {warps};
  const long long row = job / g.parts, part = job - row * g.parts;
  const long long leaf = part * {warps} + member, start = leaf * {LEAF};
  xf_acc total;
  if (row < g.rows && leaf < g.leaves) {{
    {self._row_pointers()}
    const int n = (int)(g.count - start < {LEAF} ? g.count - start : {LEAF});
    xf_acc r[{slots}][{width}];
    if (n == {LEAF}) {{
      #pragma unroll {LINES_UNROLLED}
      for (int line = 0; line < {lines}; ++line) {{ {self._line()} }}
      {self._halve(slots, width, checks=False)}
    }} else {{
      const int whole = n / {LANES};
      for (int line = 0; line < whole; ++line) {{ {self._line()} }}
      #pragma unroll
      for (int j = 0; j < {slots}; ++j)
        #pragma unroll
        for (int v = 0; v < {width}; ++v) {{
          const int lane = j * {32 * width} + thread * {width} + v, at = whole * {LANES} + lane;
          if (at < n) {{
            const xf_acc m = {self._mapped("(start + at)")};
            r[j][v] = whole ? xf_combine(r[j][v], m) : m;
          }}
        }}
      {self._halve(slots, width, checks=True)}
    }}
    total = r[0][0];
  }}
  {self._gather_warps(warps)}
}}
"""

    def _line(self) -> str:
        """A line of lanes: loads, and the first line starts the accumulators."""
        width = self.shape.width
        slots = LANES // (32 * width)
        return f"""
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
      """

    def _gather_warps(self, warps: int) -> str:
        """Combine the leaves of the warps of one result, in pairs; keep or finish what comes out."""
        settle = f"""if (g.parts == 1) {{ {self._finish_call("total")} }}
    else {{ {self._keep("row * g.parts + part", "total")} }}"""
        if warps == 1:
            return f"if (thread == 0 && row < g.rows) {{\n    {settle}\n  }}"
        return f"""if (thread == 0) shared[warp] = total;
  __syncthreads();
  if (thread == 0 && member == 0 && row < g.rows) {{
    const long long left = g.leaves - part * {warps};
    for (int step = 1; step < {warps}; step *= 2)
      for (int at = 0; at + step < {warps} && at + step < left; at += 2 * step)
        shared[warp + at] = xf_combine(shared[warp + at], shared[warp + at + step]);
    total = shared[warp];
    {settle}
  }}"""

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
            return f"{memory} l{number}[1] = {{*(const {memory}*){place}}};"
        nbytes = width * self._dtype(number).itemsize
        word = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2"}.get(nbytes, "uint4")
        moves = [
            f"(({word}*)l{number})[{piece}] = ((const {word}*){place})[{piece}];" for piece in range(max(1, nbytes // 16))
        ]
        return " ".join([f"__align__(16) {memory} l{number}[{width}];", *moves])

    def _vector_loads(self) -> str:
        """The values of ``width`` neighbouring elements from ``k``."""
        lines = []
        for k, number in enumerate(self.arrays):
            memory, width = storage_type(self._dtype(number)), self.shape.width
            if self.shape.same[k]:
                loads = ", ".join([f"*(const {memory}*)q{number}"] * width)
                lines.append(f"{memory} l{number}[{width}] = {{{loads}}};")
            elif width == 1:
                lines.append(self._vector_load(number, memory, 1, f"(q{number} + xf_reduced_offset(g, {k}, k))"))
            else:
                place = f"(q{number} + k * {self._dtype(number).itemsize})"
                lines.append(self._vector_load(number, memory, width, place))
        return " ".join(lines)

    def _vector_arguments(self) -> str:
        return self._arguments({number: loaded(f"l{number}[v]", self._dtype(number)) for number in self.arrays})

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
        places = [f"((const {storage_type(dtype)}*)from{number})[at]" for number, dtype in enumerate(self.dtypes)]
        loads = ", ".join(loaded(place, dtype) for place, dtype in zip(places, self.dtypes, strict=True))
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
