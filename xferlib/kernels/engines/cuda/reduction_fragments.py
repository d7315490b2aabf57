"""Fragments of source that reduction kernels share: device functions, loads, and the halving of lanes."""

from __future__ import annotations

from dataclasses import dataclass

from xferlib.kernels.engines.cuda import emit
from xferlib.kernels.engines.cuda.ops import c_type, fetched, loaded, put, storage_type, stored
from xferlib.kernels.ir.nodes import DType
from xferlib.kernels.ir.reduction import LANES, ReductionSpec


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


class Fragments:
    """The source that the kernels of one reduction and one kind of call share."""

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
        lines, results = emit.body(self.spec.combine, loads)
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
        lines, results = emit.body(self.spec.map_program, loads, index="k", size="count")
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
        lines, results = emit.body(spec.post, loads)
        outputs = []
        for number, (dtype, result) in enumerate(zip(spec.output_dtypes, results, strict=True)):
            at = f"o{number} + xf_kept_offset(g, {len(self.arrays) + number}, row)"
            outputs.append(put(at, stored(result, dtype), dtype, self.shape.words[len(self.arrays) + number]))
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
        scalars = [loaded(f"s{number}", self._dtype(number)) for number in self.scalars]
        return ", ".join([*arrays, *scalars])

    def _row_pointers(self) -> str:
        return "\n  ".join(
            f"const char* q{number} = p{number} + xf_kept_offset(g, {k}, row);" for k, number in enumerate(self.arrays)
        )

    def _mapped(self, element: str) -> str:
        """The accumulator of one element, which is loaded singly."""
        values = {}
        for k, number in enumerate(self.arrays):
            dtype = self._dtype(number)
            place = f"q{number}" if self.shape.same[k] else f"(q{number} + xf_reduced_offset(g, {k}, {element}))"
            values[number] = loaded(fetched(place, dtype, self.shape.words[k]), dtype)
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
            value = fetched(place, self._dtype(number), self.shape.words[self.arrays.index(number)])
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
                loads = ", ".join([fetched(f"q{number}", self._dtype(number), self.shape.words[k])] * width)
                lines.append(f"{memory} l{number}[{width}] = {{{loads}}};")
            elif width == 1:
                lines.append(self._vector_load(number, memory, 1, f"(q{number} + xf_reduced_offset(g, {k}, k))"))
            else:
                place = f"(q{number} + k * {self._dtype(number).itemsize})"
                lines.append(self._vector_load(number, memory, width, place))
        return " ".join(lines)

    def _vector_arguments(self) -> str:
        return self._arguments({number: loaded(f"l{number}[v]", self._dtype(number)) for number in self.arrays})

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
