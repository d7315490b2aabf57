"""Reductions on a CPU by compiled C, in the order that `xferlib.kernels.ir` fixes.

Adding one element after the other leaves a processor waiting for each sum. The tree of neighbours in pairs has the
vectors that it wants: a block of `BLOCK` elements is mapped, and halved level by level, each level by one loop over
neighbours. Where the order shows in no bit, blocks are combined element by element, and halved once. Where results are
adjacent in memory, and not their elements, the loops go over results instead, for groups of eight elements. Whole
blocks are the digits of a binary counter, so that an element count needs no memory of its own.

One text serves every shape and layout of a reduction: extents and strides are arguments.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib import _native
from xferlib._runtime import process, threads
from xferlib.kernels import host_compiler, native_engine, native_source
from xferlib.kernels.cuda_source import Writer, c_type, storage_type, to_memory, to_register
from xferlib.kernels.formulas import expand
from xferlib.kernels.ir import (
    CallLayout,
    Program,
    ReductionSpec,
    bodies,
    collapse,
    is_complex,
    is_order_free,
    part_dtype,
)
from xferlib.kernels.numpy_engine import helper_count, most_threads

A = np.ndarray[Any, Any]

ENTRY = "xf_fold"
BLOCK = 1024
"""Elements that are mapped and halved together."""
TILE = 128
"""Results, adjacent in memory, that are computed together."""
GROUP = 8
"""Elements of each of them that are mapped together."""
_HEAD = 6
"""Numbers of the geometry before the extents: elements, rows, kept and reduced axes, elements of a part, parts."""
RUN = 64
"""Neighbouring elements that are mapped from where they are."""
_PER_BYTE_NS, _PER_NODE_NS, _PER_RESULT_NS = 0.05, 0.1, 20.0
_WITH_LOCK_NS = 20_000
_FEW = 4
"""Elements of a result that are too few for a loop of their own."""
_SHORT = 1 << 13
"""Elements that are reduced before NumPy's own function is found."""
_LEAST_PART = 1 << 14
"""Elements that are worth a part of their own."""


def _find_uncovered(programs: Sequence[Program]) -> str:
    """Why a reduction has no C text, which computes elements that are loaded by position; empty if it has one."""
    for node in [node for program in programs for each in bodies(program) for node in each.nodes]:
        if node.op in ("loop", "update", "gather", "length", "fact"):
            return f"its text has the operation {node.op}"
    return ""


class _ReductionWriter:
    """Writes the text of a reduction."""

    def __init__(self, spec: ReductionSpec) -> None:
        self.spec = spec
        self.map, self.combine, self.post = (expand(each) for each in (spec.map_program, spec.combine, spec.post))
        params = self.map.params[: spec.inputs]
        self.arrays = [number for number, param in enumerate(params) if not param.is_scalar]
        self.scalars = [number for number, param in enumerate(params) if param.is_scalar]
        self.accumulators = range(len(spec.accumulators))
        self.is_free = is_order_free(spec.combine)

    def _dtype(self, number: int) -> Any:
        return self.map.params[number].dtype

    def _evaluate(self, program: Program, loads: dict[int, str], others: dict[str, str]) -> tuple[str, list[str]]:
        """The statements of a program and the names of its results."""
        names: dict[int, str] = {}
        leaf = lambda node: loads[node.attr] if node.op == "load" else others[node.op]
        nothing = lambda *_: ""
        writer = Writer(leaf, nothing, nothing, program.math, native_source.CAREFUL)
        lines = writer.statements(program.nodes, names, "v")
        return " ".join(line.strip() for line in lines), [names[id(store.value)] for store in program.stores]

    def _combine(self, left: str, right: str, to: str) -> str:
        """Combine the accumulators ``left`` and ``right``, names with a place for the number, into those at ``to``."""
        count = len(self.accumulators)
        loads = {k: f"x{k}" for k in self.accumulators} | {count + k: f"y{k}" for k in self.accumulators}
        body, results = self._evaluate(self.combine, loads, {})
        types = [c_type(dtype) for dtype in self.spec.accumulators]
        taken = " ".join(
            f"const {types[k]} x{k} = {left.format(k)}, y{k} = {right.format(k)};" for k in self.accumulators
        )
        given = " ".join(f"{to.format(k)} = {results[k]};" for k in self.accumulators)
        return f"{{ {taken} {body} {given} }}"

    def _each(self, text: str) -> str:
        return " ".join(text.format(k=k, T=c_type(dtype)) for k, dtype in enumerate(self.spec.accumulators))

    def _move(self, to: str, source: str) -> str:
        return " ".join(f"{to.format(k)} = {source.format(k)};" for k in self.accumulators)

    def _buffers(self, size: int | str) -> str:
        """Memory for the elements of each input, and for the parts of complex ones."""
        lines = []
        for number in self.arrays:
            dtype = self._dtype(number)
            lines.append(f"{storage_type(dtype)} b{number}[{size}];")
            if is_complex(dtype):
                part = c_type(part_dtype(dtype))
                lines.append(f"{part} re{number}[{size}], im{number}[{size}];")
        return " ".join(lines)

    def _map(self, place: str, pointer: str, index: str, to: str) -> str:
        """Map one element, whose number is ``index``.

        It is at ``place`` of the parts of a complex input, and of any other at ``pointer``, if given, of ``e``, else at
        ``place`` of ``f``.
        """
        loads, taken = {}, []
        for number in self.arrays:
            dtype = self._dtype(number)
            kind = storage_type(dtype)
            value = f"e{number}{pointer}" if pointer else f"f{number}{place}"
            if is_complex(dtype):
                value = f"{{re{number}{place}, im{number}{place}}}"
            taken.append(f"const {kind} m{number} = {value};")
            loads[number] = to_register(f"m{number}", dtype)
        for number in self.scalars:
            loads[number] = to_register(f"s{number}", self._dtype(number))
        body, results = self._evaluate(self.map, loads, {"index": f"(long long)({index})", "size": "count"})
        given = " ".join(f"{to.format(k)} = {result};" for k, result in enumerate(results))
        return f"{{ {' '.join(taken)} {body} {given} }}"

    def _take_apart(self, count: str) -> str:
        return "".join(
            f"XF_INDEPENDENT\n for (long long j = 0; j < {count}; ++j) "
            f"{{ re{number}[j] = e{number}[j].x; im{number}[j] = e{number}[j].y; }}\n"
            for number in self.arrays
            if is_complex(self._dtype(number))
        )

    def _scalars(self) -> str:
        lines = []
        for number in self.scalars:
            kind = storage_type(self._dtype(number))
            lines.append(f"const {kind} s{number} = *(const {kind} *)p[{number}];")
        return " ".join(lines)

    def _finish(self, source: str) -> str:
        """Write accumulators to the results of ``row``, or to memory for those of parts."""
        kept = " ".join(
            f"(({storage_type(dtype)} *)to[{k}])[row * parts + part] = {to_memory(source.format(k), dtype)};"
            for k, dtype in enumerate(self.spec.accumulators)
        )
        return f"if (parts > 1) {{ {kept} }} else {{ {self._results(source)} }}"

    def _results(self, source: str) -> str:
        count = len(self.accumulators)
        loads = {k: source.format(k) for k in self.accumulators} | {count: "rows * count", count + 1: "rows"}
        body, results = self._evaluate(self.post, loads, {})
        out = " ".join(
            f"(({storage_type(dtype)} *)p[{len(self.map.params) - count + k}])[row] = {to_memory(result, dtype)};"
            for k, (dtype, result) in enumerate(zip(self.spec.output_dtypes, results, strict=True))
        )
        return f"{body} {out}"

    def text(self) -> str:
        """The whole text: `ENTRY`, for results whose elements, or which themselves, are adjacent; and ``xf_join``."""
        programs = (self.map, self.combine, self.post)
        parts = dict.fromkeys(part for program in programs for part in native_source.list_parts(program))
        calls = sorted({name for program in programs for name in native_source.list_functions(program)})
        return "".join(
            [
                native_source.section("prelude"), *parts, native_source.function_text(calls), _WALK,
                self._rows(), self._columns(), self._join(), _ENTRY_TEXT,
            ]
        )  # fmt: skip

    def _geometry(self) -> str:
        return (
            "const long long count = g[0], rows = g[1], kept = g[2], reduced = g[3], parts = g[5];\n"
            f"  const long long *const kept_extent = g + {_HEAD}, *const extent = kept_extent + kept;\n"
            f"  const long long *const strides = extent + reduced; {self._scalars()}"
        )

    def _places(self) -> str:
        """The addresses of the row's elements, and the strides between them."""
        lines = []
        for place, number in enumerate(self.arrays):
            lines.append(
                f"const long long *const k{number} = strides + {place} * (kept + reduced), "
                f"*const r{number} = k{number} + kept; "
                f"const char *const base{number} = p[{number}] + xf_offset(row, kept, kept_extent, k{number});"
            )
        return " ".join(lines)

    def _rows(self) -> str:
        loads = []
        for number in self.arrays:
            kind = storage_type(self._dtype(number))
            size = self._dtype(number).itemsize
            loads.append(
                f"const {kind} *e{number} = b{number};\n"
                f"      if (is_run && r{number}[reduced - 1] == {size}) {{\n"
                f"        const char *const q = base{number} + xf_offset(start + done, reduced, extent, r{number});\n"
                f"        if ((unsigned long long)q % _Alignof({kind}) == 0) e{number} = (const {kind} *)q;\n      }}\n"
                f"      if (e{number} == b{number}) "
                f"xf_gather((char *)b{number}, base{number}, {size}, start + done, m, reduced, extent, r{number});"
            )
        fold = self._combine("a{0}[2 * i]", "a{0}[2 * i + 1]", "a{0}[i]")
        if self.is_free:
            halved = self._combine("a{0}[i]", "a{0}[half + (n & 1) + i]", "a{0}[i]")
            collapse = f"""\
    for (long long n = end - begin < {BLOCK} ? end - begin : {BLOCK}; n > 1;) {{
      const long long half = n / 2;
      XF_INDEPENDENT
      for (long long i = 0; i < half; ++i) {halved}
      n = half + (n & 1);
    }}"""
            after = ""
            element = self._each("{T} x{k}_;") + self._map("[j]", "[j]", "start + done + j", "x{0}_")
            added = self._combine("a{0}[done + j]", "x{0}_", "a{0}[done + j]")
            first = self._map("[j]", "[j]", "start + done + j", "a{0}[done + j]")
            body = f"""\
      if (turn) {{
        XF_INDEPENDENT
        for (long long j = 0; j < m; ++j) {{ {element} {added} }}
      }} else {{
        XF_INDEPENDENT
        for (long long j = 0; j < m; ++j) {first}
      }}"""
        else:
            joined = self._combine("c{0}[level]", "a{0}[0]", "a{0}[0]")
            body = f"""\
      XF_INDEPENDENT
      for (long long j = 0; j < m; ++j) {self._map("[j]", "[j]", "start + done + j", "a{0}[done + j]")}"""
            after = f"""\
    while (n > 1) {{
      const long long half = n / 2;
      XF_INDEPENDENT
      for (long long i = 0; i < half; ++i) {fold}
      if (n & 1) {{ {self._move("a{0}[half]", "a{0}[n - 1]")} }}
      n = half + (n & 1);
    }}
    int level = 0;
    for (; turn >> level & 1; ++level) {joined}
    {self._move("c{0}[level]", "a{0}[0]")}"""
            collapse = f"""\
    int is_empty = 1;
    for (int level = 0; turn >> level; ++level)
      if (turn >> level & 1) {{
        if (is_empty) {{ {self._move("a{0}[0]", "c{0}[level]")} }} else {joined}
        is_empty = 0;
      }}"""
        return f"""\
static void xf_rows(long long row, long long last_row, long long part, const long long *g, char *const *p,
                    char *const *to) {{
  {self._geometry()}
  const long long begin = part * g[4], end = parts == 1 || begin + g[4] > count ? count : begin + g[4];
  {self._buffers(BLOCK)}
  {self._each("{T} a{k}[" + str(BLOCK) + "], c{k}[48];")}
  for (; row < last_row; ++row) {{
    {self._places()}
    long long turn = 0;
    for (long long start = begin; start < end; start += {BLOCK}, ++turn) {{
    long long n = end - start < {BLOCK} ? end - start : {BLOCK};
    for (long long done = 0; done < n;) {{  /* from runs that are long enough without a copy */
      const long long inner = extent[reduced - 1], left = inner - (start + done) % inner;
      const int is_run = reduced == 1 || inner >= {RUN};
      const long long m = reduced == 1 || !is_run || left > n - done ? n - done : left;
      {chr(10).join(loads)}
      {self._take_apart("m")}
{body}
      done += m;
    }}
{after}
    }}
{collapse}
    {self._finish("a{0}[0]")}
  }}
}}
"""

    def _columns(self) -> str:
        """The function for results that are adjacent: tiles of them, a group of elements at a time."""
        loads, places, names = [], [], []
        for number in self.arrays:
            kind, size = storage_type(self._dtype(number)), self._dtype(number).itemsize
            places.append(
                f"const int is_unit{number} = k{number}[kept - 1] == {size} && "
                f"(unsigned long long)base{number} % _Alignof({kind}) == 0 && "
                f"xf_are_multiples(r{number}, reduced, _Alignof({kind}));\n    const {kind} *f{number}[{GROUP}];"
            )
            take = ""
            if is_complex(self._dtype(number)):
                take = (
                    f"XF_INDEPENDENT\n for (long long t = 0; t < m; ++t) {{ re{number}[j][t] = f{number}[j][t].x; "
                    f"im{number}[j][t] = f{number}[j][t].y; }}"
                )
            loads.append(
                f"for (long long j = 0; j < n; ++j) {{ "
                f"const char *const q = base{number} + xf_offset(start + j, reduced, extent, r{number}); "
                f"f{number}[j] = is_unit{number} ? (const {kind} *)q : b{number}[j]; "
                f"if (!is_unit{number}) xf_gather((char *)b{number}[j], q, {size}, 0, m, 1, &m, k{number} + kept - 1); "
                f"{take} }}"
            )
            names += [f"const {kind} *const e{number}_{j} = f{number}[{j}];" for j in range(GROUP)]
        each = "XF_INDEPENDENT\n for (long long t = 0; t < m; ++t)"
        fold = self._combine("a{0}[2 * i][t]", "a{0}[2 * i + 1][t]", "a{0}[i][t]")
        joined = self._combine("c{0}[level][t]", "a{0}[0][t]", "a{0}[0][t]")
        mapped = [
            self._each("{T} a{k}_" + str(j) + ";") + self._map(f"[{j}][t]", f"_{j}[t]", f"start + {j}", f"a{{0}}_{j}")
            for j in range(GROUP)
        ]
        step, pairs = 1, []
        while step < GROUP:
            pairs += [
                self._combine(f"a{{0}}_{j}", f"a{{0}}_{j + step}", f"a{{0}}_{j}") for j in range(0, GROUP, 2 * step)
            ]
            step *= 2
        return f"""\
static void xf_columns(long long row, long long last_row, long long part, const long long *g, char *const *p,
                       char *const *to) {{
  {self._geometry()}
  const long long begin = part * g[4], end = parts == 1 || begin + g[4] > count ? count : begin + g[4];
  {self._buffers(f"{GROUP}][{TILE}")}
  {self._each("{T} a{k}[" + str(GROUP) + "][" + str(TILE) + "], c{k}[48][" + str(TILE) + "];")}
  while (row < last_row) {{
    const long long inner = kept_extent[kept - 1], left = inner - row % inner;
    long long m = last_row - row < {TILE} ? last_row - row : {TILE};
    if (m > left) m = left;
    {self._places()}
    {" ".join(places)}
    long long turn = 0;
    for (long long start = begin; start < end; start += {GROUP}, ++turn) {{
      long long n = end - start < {GROUP} ? end - start : {GROUP};
      {" ".join(loads)}
      if (n == {GROUP}) {{
        {" ".join(names)}
        {each} {{
          {" ".join(mapped)}
          {" ".join(pairs)}
          {self._move("a{0}[0][t]", "a{0}_0")}
        }}
      }} else {{
        for (long long j = 0; j < n; ++j) {{
          {each} {self._map("[j][t]", "", "start + j", "a{0}[j][t]")}
        }}
        while (n > 1) {{
          const long long half = n / 2;
          for (long long i = 0; i < half; ++i) {{
            {each} {fold}
          }}
          if (n & 1) {{ {each} {{ {self._move("a{0}[half][t]", "a{0}[n - 1][t]")} }} }}
          n = half + (n & 1);
        }}
      }}
      int level = 0;
      for (; turn >> level & 1; ++level) {{ {each} {joined} }}
      {each} {{ {self._move("c{0}[level][t]", "a{0}[0][t]")} }}
    }}
    int is_empty = 1;
    for (int level = 0; turn >> level; ++level)
      if (turn >> level & 1) {{
        if (is_empty) {{ {each} {{ {self._move("a{0}[0][t]", "c{0}[level][t]")} }} }}
        else {{ {each} {joined} }}
        is_empty = 0;
      }}
    for (long long t = 0; t < m; ++t, ++row) {{ {self._finish("a{0}[0][t]")} }}
  }}
}}
"""

    def _join(self) -> str:
        loads = " ".join(
            f"{c_type(dtype)} *const a{k} = ({c_type(dtype)} *)(room + {k} * parts * 16); "
            f"for (long long j = 0; j < parts; ++j) a{k}[j] = "
            f"{to_register(f'((const {storage_type(dtype)} *)to[{k}])[row * parts + j]', dtype)};"
            for k, dtype in enumerate(self.spec.accumulators)
        )
        return f"""\
XF_EXPORT void xf_join(const long long *g, char *const *p, char *const *to, char *room) {{
  {self._geometry()}
  for (long long row = 0; row < rows; ++row) {{
    {loads}
    for (long long n = parts; n > 1;) {{
      const long long half = n / 2;
      for (long long i = 0; i < half; ++i) {self._combine("a{0}[2 * i]", "a{0}[2 * i + 1]", "a{0}[i]")}
      if (n & 1) {{ {self._move("a{0}[half]", "a{0}[n - 1]")} }}
      n = half + (n & 1);
    }}
    {self._results("a{0}[0]")}
  }}
}}
"""


_WALK = """\
/* The offset of element `at`, in C order. */
static inline long long xf_offset(long long at, long long rank, const long long *extent, const long long *stride) {
  long long offset = 0;
  for (long long a = rank - 1; a > 0; --a) { offset += at % extent[a] * stride[a]; at /= extent[a]; }
  return offset + at * stride[0];
}
static inline int xf_are_multiples(const long long *stride, long long rank, long long size) {
  for (long long a = 0; a < rank; ++a) if (stride[a] % size) return 0;
  return 1;
}
#define XF_MOVE(T) do { \\
    typedef T word XF_ANY; \\
    if (step == sizeof(T)) for (long long i = 0; i < m; ++i) ((word *)to)[i] = ((const word *)from)[i]; \\
    else for (long long i = 0; i < m; ++i) ((word *)to)[i] = *(const word *)(from + i * step); \\
  } while (0)
typedef struct { long long x, y; } xf_words;
/* Copy n elements from element `at` on, side by side. */
static void xf_gather(char *to, const char *base, long long size, long long at, long long n, long long rank,
                      const long long *extent, const long long *stride) {
  const long long inner = extent[rank - 1], step = stride[rank - 1];
  while (n > 0) {
    const long long left = inner - at % inner, m = rank == 1 || left > n ? n : left;
    const char *from = base + xf_offset(at, rank, extent, stride);
    switch (size) {
    case 1: XF_MOVE(unsigned char); break;
    case 2: XF_MOVE(unsigned short); break;
    case 4: XF_MOVE(unsigned int); break;
    case 8: XF_MOVE(unsigned long long); break;
    default: XF_MOVE(xf_words);
    }
    to += m * size; at += m; n -= m;
  }
}
"""

_ENTRY_TEXT = """\
XF_EXPORT void xf_fold(long long row, long long last_row, long long part, long long along, const long long *g,
                         char *const *p, char *const *to) {
  if (along) xf_rows(row, last_row, part, g, p, to); else xf_columns(row, last_row, part, g, p, to);
}
"""


class NativeReduction(native_engine.NativeKernel):
    """The compiled functions of a reduction, or how far they are."""

    def __init__(self, spec: ReductionSpec) -> None:
        super().__init__(spec.map_program, spec.combine, spec.post)
        self.spec = spec
        self.why_not = self.why_not or _find_uncovered(self._programs)

    def takes(self, size: int) -> bool:
        """Whether to run it for this number of elements: NumPy ends its search for an extremum early, where it may."""
        is_sum = self.spec.combine.stores[0].value.op in ("add", "mul")
        return size > 0 and (self.spec.shortcut is None or is_sum or size <= _SHORT)

    def is_ready(self) -> bool:
        """Whether to run it at this call; a call on the NumPy engine is counted."""
        mode = process.get().cpu
        if mode == "numpy" or self.why_not:
            return False
        if self.function is None and mode == "native":
            self.compile()
        if self.function is None:
            self.count()
        return self.function is not None

    def _build(self, target: host_compiler.Target) -> int | None:
        text = _ReductionWriter(self.spec).text()
        library = host_compiler.load_c(text, flags=native_source.OPTIONS, target=target)
        pointer, number = ctypes.c_void_p, ctypes.c_longlong
        self.reduce, self.join = library[ENTRY], library["xf_join"]
        self.reduce.restype = self.join.restype = None
        self.reduce.argtypes = (number, number, number, number, pointer, pointer, pointer)
        self.join.argtypes = (pointer, pointer, pointer, pointer)
        return ctypes.cast(self.reduce, pointer).value


class NativeReductionPlan:
    """A compiled reduction prepared for one layout.

    Args:
        kernel: Compiled.
        kept: Extents of the result, and the byte strides of each input array along them.
        reduced: The same of the reduced axes.
    """

    def __init__(self, kernel: NativeReduction, kept: CallLayout, reduced: CallLayout) -> None:
        self.kernel = kernel
        spec = kernel.spec
        self._rows, self._count = kept.size, reduced.size
        keeps = collapse(kept, keep_order=True).with_axes()  # the results are written in C order
        along = collapse(reduced, keep_order=True).with_axes()
        first = next((k for k, own in enumerate(along.strides) if any(own)), 0)
        is_nearer = abs(along.strides[first][-1]) <= abs(keeps.strides[first][-1]) and self._count > _FEW
        self._along = int(is_nearer or keeps.shape[-1] < 8)
        strides = [stride for pair in zip(keeps.strides, along.strides, strict=True) for own in pair for stride in own]
        numbers = [self._count, self._rows, len(keeps.shape), len(along.shape), 0, 1]
        self._geometry = [*numbers, *keeps.shape, *along.shape, *strides]
        self._pointers = ctypes.c_void_p * (spec.inputs + spec.outputs)
        nodes = [*spec.map_program.nodes, *spec.combine.nodes]
        moved = sum(param.dtype.itemsize for param in spec.map_program.params[: spec.inputs] if not param.is_scalar)
        per_element = _PER_BYTE_NS * moved + _PER_NODE_NS * len(nodes)
        self._work_ns = self._rows * (self._count * per_element + _PER_RESULT_NS)
        self._divided: tuple[int, Any, int, int, int] = (0, None, 0, 0, 0)

    def _divide(self, most: int) -> tuple[Any, int, int, int]:
        """The geometry, the rows of a piece, the parts of a row, and how many threads to wake, of at most ``most``."""
        if self._divided[0] != most:
            blocks = max(self._rows, -(-self._rows * self._count // _LEAST_PART))
            helpers = helper_count(self._work_ns, blocks, most)
            pieces = 4 * (helpers + 1) if helpers else 1
            rows, parts, length = -(-self._rows // pieces), 1, 0
            if helpers and self._rows < pieces and self._count > 2 * _LEAST_PART:
                rows = 1
                wanted = -(-self._count * self._rows // pieces)
                length = max(_LEAST_PART, 1 << max(0, wanted - 1).bit_length())
                parts = -(-self._count // length)
            if not self._along:
                rows = -(-rows // TILE) * TILE if self._rows > TILE else self._rows
            numbers = [*self._geometry]
            numbers[4:6] = [length, parts]
            self._divided = most, (ctypes.c_longlong * len(numbers))(*numbers), rows, parts, helpers
        return self._divided[1:]

    def bind(
        self, arrays: Sequence[tuple[Any, bytes]], result_shape: tuple[int, ...]
    ) -> Callable[[tuple[Any, ...]], Any] | None:
        """A function that runs calls on NumPy arrays of these dtypes and layouts; None where Python has to."""
        spec = self.kernel.spec
        geometry, _, parts, helpers = self._divide(most_threads())
        if parts > 1 or helpers or len(arrays) < spec.inputs:
            return None
        address = ctypes.cast(self.kernel.reduce, ctypes.c_void_p).value
        settings = ctypes.addressof(native_engine._settings)
        extents = struct.pack(f"{len(result_shape)}n", *result_shape)
        keeps_lock = int(self._work_ns < _WITH_LOCK_NS)
        return _native.bind_fold(
            address, settings, bytes(geometry), self._rows, self._along, keeps_lock, tuple(arrays),
            tuple(spec.output_dtypes), extents, np.ndarray, np._core.multiarray._ARRAY_API, self.kernel,  # type: ignore[attr-defined]
        )  # fmt: skip

    def run(self, operands: Sequence[int], outputs: Sequence[A]) -> None:
        """Reduce the arrays and scalars at these addresses to contiguous arrays of as many elements as results."""
        if self._rows == 0:
            return
        geometry, step, parts, helpers = self._divide(most_threads())
        pointers = self._pointers(*operands, *[each.__array_interface__["data"][0] for each in outputs])
        reduce, rows, along = self.kernel.reduce, self._rows, self._along
        if parts == 1 and not helpers:
            reduce(0, rows, 0, along, geometry, pointers, None)
            return
        partial = [np.empty(rows * parts, dtype) for dtype in self.kernel.spec.accumulators] if parts > 1 else []
        into = (ctypes.c_void_p * max(1, len(partial)))(*[each.ctypes.data for each in partial])
        pieces = [(row, min(row + step, rows), part) for row in range(0, rows, step) for part in range(parts)]

        def work(take: Callable[[], int]) -> None:
            while (number := take()) >= 0:
                row, last, part = pieces[number]
                reduce(row, last, part, along, geometry, pointers, into)

        threads.workers.run(threads.Computation(len(pieces), work, helpers=helpers))
        if parts > 1:
            self.kernel.join(geometry, pointers, into, np.empty(parts * 16 * len(partial), np.uint8).ctypes.data)
