"""C for an element-wise program: loops over arrays of any layout, from the nodes that CUDA C++ is written from.

One text serves every call of a program: extents and strides are arguments, or each new shape would wait for the
compiler. A loop over any strides is what a compiler cannot vectorise. So there is one loop, over contiguous memory: an
operand that is not contiguous is gathered into a small buffer first, block by block, and a result scattered from one.

What rounds is written as plain C: the options of the compiler (`OPTIONS`) let nothing be contracted or reordered. No
function of another library is called, and nothing is included.

Errors that the NumPy engine finds between its steps are noted at numbered `Site`\\ s, in the order of those steps; the
engine reads them when the function returns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from xferlib.kernels import native_functions
from xferlib.kernels.cuda_source import (
    FMA_OF_HALF,
    Dialect,
    Writer,
    binary,
    c_type,
    expression,
    storage_type,
    to_memory,
    to_register,
)
from xferlib.kernels.formulas import expand
from xferlib.kernels.indices import is_distinct, linear
from xferlib.kernels.ir import (
    FLOAT16,
    FLOAT64,
    DType,
    Node,
    Program,
    Store,
    bodies,
    facts,
    is_complex,
    is_float,
    part_dtype,
    sort_nodes,
)

OPTIONS = (
    "-std=gnu11", "-O3", "-w", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fno-strict-aliasing",
    "-fwrapv", "-fno-tree-loop-distribute-patterns", "-fvisibility=hidden", "-funroll-loops",
)  # fmt: skip
"""IEEE arithmetic; a loop that copies is not made a call of another library's function."""

ENTRY = "xf_block"
DRIVER_ENTRY = "xf_run"
HEAD = 4
"""Numbers of the geometry before the lengths of raw arrays: rank, size, most turns of a loop, nothing yet."""
MOST_AXES = 64
MOST_OPERANDS = 256
"""That broadcast."""
SHORT_ROW = 128
"""The shortest row that is a piece of its own."""
STORED_BLOCK = 16384
"""Elements whose indexed stores are kept until all of them are computed, as the NumPy engine does."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place where a call may fail."""

    kind: str
    """``index``: beyond an array; ``stored``: two values for one element; ``loop``: too many turns."""
    param: int
    """The parameter of the array."""


@dataclass(frozen=True, slots=True)
class NativeSource:
    """The text of a program: functions that other programs may need too, and its own one, `ENTRY`."""

    parts: tuple[str, ...]
    calls: tuple[str, ...]
    """The functions of `native_functions` that it needs."""
    block: str
    form: tuple[int, ...]
    """What `DRIVER` has to know of it."""
    sites: tuple[Site, ...]
    scratch_nbytes: int
    """The memory that a call needs for each element of a block of `STORED_BLOCK`."""
    is_ordered: bool
    """Whether the elements must be computed one after the other."""

    @property
    def text(self) -> str:
        return "".join((*self.parts, function_text(self.calls), self.block))


def function_text(names: Iterable[str]) -> str:
    """The C text of functions of float32, in their three forms."""
    text = [native_functions.text((name, "float32") for name in sorted(names))]
    for name in sorted(names):
        operands = ("x", "y")[: 1 + (name in native_functions.BINARY)]
        given, taken = ", ".join(operands), ", ".join(f"float {each}" for each in operands)
        text.append(
            f"static inline float xf_careful_{name}_f32({taken}) {{ int flag = 0; float found = xf_{name}_f32({given}, "
            f"&flag); return flag ? xf_{name}_f32_slow({given}) : found; }}\n"
        )
    return "".join(text)


def why_not(program: Program) -> str:
    """Why a program has no C text yet; empty if it has one."""
    if len(program.elements) > MOST_OPERANDS:
        return f"it has more than {MOST_OPERANDS} operands"
    for each in bodies(expand(program)):
        each = expand(each)
        for node in each.nodes:
            if node.op == "call" and not native_functions.has(str(node.attr), node.dtype.name):
                return f"{node.attr} of {node.dtype} is computed by NumPy"
            if node.op == "update" and node.attr.kind == "store" and not is_distinct(node.args[0], list(each.params)):
                return "writes in an order are compared with one another by NumPy"
    return ""


def needs_fma(program: Program) -> bool:
    """Whether it needs the processor's fused multiply-add."""
    programs = [expand(each) for each in bodies(expand(program))]
    return any(node.op == "fma" and node.dtype != FLOAT16 for each in programs for node in each.nodes)


def native_source(program: Program) -> NativeSource:
    """The C text of a program."""
    return _NativeWriter(expand(program)).source()


def _careful_call(node: Node, args: list[str], math: str) -> str:
    if node.op == "fmod" and node.dtype == FLOAT64:
        return f"fmod({', '.join(args)})"
    return _rounded(node, f"xf_careful_{_function(node)}_f32({', '.join(args)})")


def _fast_call(node: Node, args: list[str], math: str) -> str:
    if node.op == "fmod" and node.dtype == FLOAT64:
        return f"xf_fmod_f64({', '.join(args)}, &xf_flag)"
    return _rounded(node, f"xf_{_function(node)}_f32({', '.join(args)}, &xf_flag)")


def _function(node: Node) -> str:
    """The function of `native_functions` that an operation is."""
    return "fmod" if node.op == "fmod" else str(node.attr)


def _rounded(node: Node, text: str) -> str:
    return f"xf_half({text})" if node.dtype == FLOAT16 else text


_DIVISIONS = frozenset({"idiv", "imod", "floordiv", "floormod"})


def _fast_name(name: str, dtype: DType) -> str:
    is_division = name.removeprefix("xf_") in _DIVISIONS and dtype.itemsize == 8
    return f"{name.replace('xf_', 'xf_fast_') if is_division else name}_{dtype.name}"


def _has_fast_form(node: Node) -> bool:
    return node.op in ("call", "fmod", "gather") or (node.op in _DIVISIONS and node.dtype.itemsize == 8)


CAREFUL = Dialect(
    typed=lambda name, dtype: f"{name}_{dtype.name}",
    pair=lambda kind, x, y: f"({kind}){{{x}, {y}}}",
    nothing="{0}",
    call=_careful_call,
    calls=frozenset({"call", "fmod"}),
    begin_loop=lambda name, start: [f"    for (bool {name} = {start}; {name};) {{"],
)
"""Every operation by the function that is right for all operands."""


def _zero(dtype: DType) -> str:
    return f"({c_type(dtype)}){{0, 0}}" if dtype.kind == "c" else f"({c_type(dtype)})0"


class _NativeWriter:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.params = list(program.params)
        self.elements, self.raw, self.scalars = program.elements, program.raw, program.scalars
        self.facts = facts(program)
        self.sites: list[Site] = []
        self.names: dict[int, str] = {}
        self.kept = self._kept_stores()
        self.is_ordered = bool(program.effects) or any(store.index is not None for store in program.stores)
        """Whether iterations may not be computed at a time."""
        self.is_fast = not self.is_ordered and self._has_fast_forms()
        self.is_complex = any(self._dtype(number).kind == "c" for number in self.elements)
        self.pieces = self.is_fast or self.is_complex
        self.careful = replace(CAREFUL, begin_loop=self._begin_loop)
        self.fast = replace(self.careful, typed=_fast_name, call=_fast_call)
        self.in_row = replace(self.fast, call=self._call_in_row, calls=self.fast.calls | _DIVISIONS | {"cast"})
        self.rows: dict[tuple[int, int], tuple[Node, Node]] = {}
        """Dividends that grow by one, and divisors: see `_find_rows`."""

    def source(self) -> NativeSource:
        block = self._block()
        nbytes = sum(9 + self._dtype(self.program.stores[n].param).itemsize for n in self.kept)
        return NativeSource(
            parts=(PRELUDE, *needed_parts(self.program)),
            calls=needed_calls(self.program),
            block=block,
            form=tuple(self._form()),
            sites=tuple(self.sites),
            scratch_nbytes=nbytes,
            is_ordered=any(node.op == "update" for each in bodies(self.program) for node in each.nodes),
        )

    def _kept_stores(self) -> list[int]:
        """The indexed stores that wait until the block is computed: the order of elements or stores could show."""
        stores = self.program.stores
        indexed = [number for number, store in enumerate(stores) if store.index is not None]
        targets = [stores[number].param for number in indexed]
        is_plain = len(set(targets)) == len(targets) and not set(targets) & self.program.reads
        if is_plain and all(is_distinct(self._index(stores[number]), self.params) for number in indexed):
            return []
        return indexed

    def _has_fast_forms(self) -> bool:
        nodes = self.program.nodes
        return any(map(_has_fast_form, nodes)) and not any(node.op == "loop" for node in nodes)

    def _index(self, store: Store) -> Node:
        assert store.index is not None
        return store.index

    def _dtype(self, number: int) -> DType:
        return self.params[number].dtype

    def _site(self, kind: str, param: int) -> str:
        self.sites.append(Site(kind, param))
        return f"xf_report + {3 * (len(self.sites) - 1)}"

    def _begin_loop(self, name: str, start: str) -> list[str]:
        note = f"xf_miss({self._site('loop', -1)}, 0)"
        return [
            f"    long long {name}_turns = 0;",
            f"    for (bool {name} = {start}; {name};) {{",
            f"    if ({name}_turns++ >= xf_most) {{ {note}; break; }}",
        ]

    # --- the function: contiguous operands
    #
    # Where an operation has a fast form, which gives up on some operands, the elements are computed in pieces: by the
    # fast forms first, and anew by the careful ones if one gave up. Results stay in buffers until then, for an output
    # may be an input.
    #
    # Complex operands are taken apart, and put together, by loops of their own: gcc 12 makes multiplications before an
    # addition and a subtraction of neighbouring parts fused ones, whatever its options say.
    def _block(self) -> str:
        careful = self._loop(self.careful)
        if self.is_fast:
            self.rows = self._find_rows()
            test = self._test_affine()
            fast = f"  if (!xf_flag) {{\n{self._loop(self.fast)}  }}\n"
            if self.rows:
                fast = f"  if (xf_row && !xf_flag) {{\n{self._loop(self.in_row)}  }} else{fast}"
            flags = "  int xf_flag = 0;\n  unsigned long long xf_wide = 0;\n"
            careful = f"{flags}{test}{fast}  if (xf_flag || xf_wide) {{\n{careful}  }}\n"
        size = 64 if any(node.op in ("call", "fmod") for node in self.program.nodes) else 512
        rest = f"n - at < {size} ? n - at : {size}" if self.pieces else "n"
        return (
            "XF_EXPORT void xf_block(long long n, long long first, char *const *q, char *const *p, const long long *g, "
            "long long *xf_report, char *scratch) {\n"
            "  const long long xf_size = g[1], xf_most = g[2];\n"
            f"{self._declarations(size)}{self._scratch()}"
            f"  for (long long at = 0, m; at < n; at += m) {{\n  m = {rest};\n{self._begin_rows()}"
            f"{self._take_apart()}{careful}{self._put_together()}  }}\n{self._late_stores()}}}\n"
        )  # fmt: skip

    def _find_rows(self) -> dict[tuple[int, int], tuple[Node, Node]]:
        """Divisions of the element's number, and what is added to it, by what is the same for all: rows and columns.

        Pieces end where a row does: the quotient is then one number, and the remainder grows by one.
        """
        found = {}
        for node in self.program.nodes:
            if node.op in _DIVISIONS and node.dtype.name == "int64":
                dividend, divisor = (linear(each, self.params) for each in node.args)
                if dividend is not None and dividend.factor == 1 and divisor is not None and not divisor.factor:
                    found[id(node.args[0]), id(node.args[1])] = node.args[0], node.args[1]
        return found

    def _begin_rows(self) -> str:
        if not self.rows:
            return ""
        names: dict[int, str] = {}
        nodes = sort_nodes([each for pair in self.rows.values() for each in pair])
        writer = Writer(self._leaf, self._gather, self._update, self.program.math, self.careful)
        lines = ["  int xf_row = 1;", "  const long long last = m - 1;"]
        lines += [f"  long long x{k} = 0, q{k} = 0, r{k} = 0;" for k, _ in enumerate(self.rows)]
        lines += ["  for (int turn = 0; turn < 2; ++turn) {", "    const long long j = turn ? last : 0;"]
        lines += writer.statements(nodes, names, "t")
        for k, pair in enumerate(self.rows.values()):  # a sum in 32 bits may not go on
            x, y = (names[id(each)] for each in pair)
            lines.append(f"    if (turn) xf_row &= {x} == x{k} + last;")
            lines.append(f"    else if ({x} < 0 || {y} < {SHORT_ROW}) xf_row = 0;")
            lines.append(f"    else {{ x{k} = {x}; q{k} = {x} / {y}; r{k} = {x} % {y}; if ({y} - r{k} < m) m = {y} - r{k}; }}")
        lines += ["  }", "  if (!xf_row) m = last + 1;"]
        return "".join(f"{each}\n" for each in lines)

    def _call_in_row(self, node: Node, args: list[str], math: str) -> str:
        """An operation in a piece of a row: a quotient is one number there, and a remainder the column."""
        if node.op == "cast":
            column = self._column(node.args[0])
            if column and node.dtype.kind in "iu" and node.dtype.itemsize == 4:  # whose vectors are twice as long
                return f"({c_type(node.dtype)})((unsigned int){column} + (unsigned int)j)"
            return expression(node, args, math, self.fast)
        if column := self._column(node):
            return f"{column} + j"
        if (id(node.args[0]), id(node.args[-1])) in self.rows:
            return f"q{list(self.rows).index((id(node.args[0]), id(node.args[1])))}"
        return expression(node, args, math, self.fast)

    def _column(self, node: Node) -> str:
        """The first column of a piece, where a node is the column of an element; else nothing."""
        key = (id(node.args[0]), id(node.args[1])) if node.op in ("imod", "floormod") else None
        return f"r{list(self.rows).index(key)}" if key in self.rows else ""

    def _declarations(self, size: int) -> str:
        lines = []
        for number in self.elements:
            dtype = self._dtype(number)
            const = "" if number in self.program.writes else "const "
            memory = storage_type(dtype)
            lines.append(f"{const}{memory} *p{number} = ({const}{memory} *)q[{self.elements.index(number)}]")
            part = c_type(part_dtype(dtype)) if is_complex(dtype) else memory
            if is_complex(dtype) and number in self.program.reads:
                lines += [f"{part} r{number}[{size}]", f"{part} i{number}[{size}]"]
            if self._is_buffered(number):
                lines += [f"{part} {name}{number}[{size}]" for name in ("or", "oi")[: 1 + is_complex(dtype)]]
        for number in self.raw:
            memory = storage_type(self._dtype(number))
            const = "" if number in self.program.writes else "const "
            lines.append(f"const long long n{number} = g[{HEAD + self.raw.index(number)}]")
            lines.append(f"{const}{memory} *p{number} = ({const}{memory} *)p[{number}]")
            if self.is_fast:  # which reads its first element where no index is in range
                lines.append(f"if (!n{number}) p{number} = ({const}{memory} *)xf_zeros")
        for number in self.scalars:
            memory = storage_type(self._dtype(number))
            lines.append(f"const {memory} s{number} = *(const {memory} *)p[{number}]")
        lines += [f"const long long fact{k} = g[{HEAD + len(self.raw) + k}]" for k, _ in enumerate(self.facts)]
        return "".join(f"  {each};\n" for each in lines)

    def _is_buffered(self, number: int) -> bool:
        """Whether an output is written after the loop."""
        return number in self.program.writes and (self.is_fast or is_complex(self._dtype(number)))

    def _take_apart(self) -> str:
        read = [n for n in self.elements if n in self.program.reads and is_complex(self._dtype(n))]
        each = "for (long long j = 0; j < m; ++j) {{ r{0}[j] = p{0}[at + j].x; i{0}[j] = p{0}[at + j].y; }}"
        return "".join(f"  XF_INDEPENDENT\n  {each.format(number)}\n" for number in read)

    def _put_together(self) -> str:
        lines = []
        for number in filter(self._is_buffered, self.elements):
            to = f"p{number}[at + j]"
            each = f"{to} = or{number}[j];"
            if is_complex(self._dtype(number)):
                each = f"{{ {to}.x = or{number}[j]; {to}.y = oi{number}[j]; }}"
            lines.append(f"  XF_INDEPENDENT\n  for (long long j = 0; j < m; ++j) {each}\n")
        return "".join(lines)

    def _loop(self, dialect: Dialect) -> str:
        lines = []
        for number in self.elements:
            if number in self.program.reads:
                memory = storage_type(self._dtype(number))
                value = f"p{number}[at + j]"
                if is_complex(self._dtype(number)):
                    value = f"{{r{number}[j], i{number}[j]}}"
                lines.append(f"    const {memory} l{number} = {value};")
        gather = self._gather if dialect is self.careful else self._gather_fast
        writer = Writer(self._leaf, gather, self._update, self.program.math, dialect)
        lines += writer.statements(self.program.nodes, self.names, "v")
        lines += [f"    {each}" for each in self._stores()]
        ahead = "" if self.is_ordered else "  XF_INDEPENDENT\n"
        counter = "int" if self.pieces else "long long"  # whose vectors are twice as long
        return f"{ahead}  for ({counter} j = 0; j < m; ++j) {{\n" + "".join(f"{each}\n" for each in lines) + "  }\n"

    def _leaf(self, node: Node) -> str:
        if node.op == "load":
            is_scalar = self.params[node.attr].is_scalar
            return to_register(f"{'s' if is_scalar else 'l'}{node.attr}", node.dtype)
        if node.op == "fact":
            return f"fact{self.facts.index(node.attr)}"
        return {"index": "first + at + j", "size": "xf_size"}.get(node.op, f"n{node.attr}")

    def _inside(self, index: str, array: int) -> str:
        return f"XF_INSIDE({index}, n{array}, {self._site('index', array)})"

    def _gather(self, node: Node, array: int, args: list[str]) -> str:
        index, *mask = args
        inside = " && ".join([*mask, self._inside(index, array)])
        return f"{inside} ? {to_register(f'p{array}[{index}]', node.dtype)} : {_zero(node.dtype)}"

    def _gather_fast(self, node: Node, array: int, args: list[str]) -> str:
        """An element; without a branch, so that it may be read by vectors."""
        index, *mask = args
        if not self._is_affine(node):
            inside = f"({' & '.join([*mask, f'((unsigned long long){index} < (unsigned long long)n{array})'])})"
            wrong = f"{mask[0]} > {inside}" if mask else f"!{inside}"
            index = f"(xf_flag |= {wrong}, {inside} ? {index} : 0)"
        value = to_register(f"p{array}[{index}]", node.dtype)
        if not mask:
            return value
        return f"({{ const {c_type(node.dtype)} read = {value}; {mask[0]} ? read : {_zero(node.dtype)}; }})"

    def _is_affine(self, node: Node) -> bool:
        """Whether the indices of neighbouring elements have one distance, so that two of them tell of all between."""
        form = linear(node.args[0], self.params)
        return form is not None and form.factor != 0

    def _test_affine(self) -> str:
        """Statements that raise the flag where a piece has affine indices that are out of range."""
        gathers = [node for node in self.program.nodes if node.op == "gather" and self._is_affine(node)]
        if not gathers:
            return ""
        nodes = sort_nodes([node.args[0] for node in gathers])
        writer = Writer(self._leaf, self._gather, self._update, self.program.math, self.careful)
        lines = writer.statements(nodes, names := {}, "t")
        tests = {
            f"(unsigned long long){names[id(each.args[0])]} >= (unsigned long long)n{each.attr}" for each in gathers
        }
        text = "".join(f"{each}\n" for each in lines)
        return f"  for (long long j = 0; j < m; j += m > 1 ? m - 1 : 1) {{\n{text}    xf_flag |= {' | '.join(sorted(tests))};\n  }}\n"

    def _update(self, node: Node, array: int, args: list[str], name: str) -> str:
        index, value, mask, *rest = args
        what, dtype = node.attr, node.dtype
        at = f"p{array}[{index}]"
        before = f"{name} = {to_register(at, dtype)}; "
        if what.kind in ("store", "exch"):
            done = f"{at} = {to_memory(value, dtype)};"
        elif what.kind == "cas":
            done = f"if ({name} == {rest[0]}) {at} = {to_memory(value, dtype)};"
        else:
            done = f"{at} = {to_memory(binary(what.kind, dtype, name, value, self.careful), dtype)};"
        return f"if ({mask} && {self._inside(index, array)}) {{ {before}{done} }}"

    # --- stores
    def _stores(self) -> list[str]:
        lines = []
        for number, store in enumerate(self.program.stores):
            dtype = self._dtype(store.param)
            value = to_memory(self.names[id(store.value)], dtype)
            if store.index is None:
                name = self.names[id(store.value)]
                if is_complex(dtype):
                    lines.append(f"or{store.param}[j] = {name}.x; oi{store.param}[j] = {name}.y;")
                else:
                    to = f"or{store.param}[j]" if self._is_buffered(store.param) else f"p{store.param}[at + j]"
                    lines.append(f"{to} = {value};")
                continue
            index = self.names[id(store.index)]
            mask = "1" if store.mask is None else self.names[id(store.mask)]
            if number in self.kept:
                lines.append(f"k{number}[j] = {index}; w{number}[j] = {value}; m{number}[j] = {mask};")
                continue
            lines.append(f"if ({mask} && {self._inside(index, store.param)}) p{store.param}[{index}] = {value};")
        return lines

    def _scratch(self) -> str:
        """The arrays of the stores that wait, in the caller's memory: the widest elements first."""
        lines, at = [], 0
        for name, kind, size in sorted(
            [
                part
                for number in self.kept
                for dtype in [self._dtype(self.program.stores[number].param)]
                for part in (
                    (f"k{number}", "long long", 8),
                    (f"w{number}", storage_type(dtype), dtype.itemsize),
                    (f"m{number}", "bool", 1),
                )
            ],
            key=lambda part: -part[2],
        ):
            lines.append(f"  {kind} *{name} = ({kind} *)(scratch + {at * STORED_BLOCK});\n")
            at += size
        return "".join(lines)

    def _late_stores(self) -> str:
        lines = []
        for number in self.kept:
            store = self.program.stores[number]
            to, index = f"p{store.param}", f"k{number}[j]"
            each = f"  for (long long j = 0; j < n; ++j) if (m{number}[j]"
            lines.append(f"{each} && !({self._inside(index, store.param)})) m{number}[j] = 0;")
            lines.append(f"  if (xf_report[{3 * (len(self.sites) - 1)}]) return;")
            lines.append(f"{each}) {to}[{index}] = w{number}[j];")
            if not is_distinct(self._index(store), self.params):
                site = self._site("stored", store.param)
                differs = f"xf_differs((const char *)&{to}[{index}], (const char *)&w{number}[j], sizeof *{to})"
                lines.append(f"{each} && {differs}) {{ xf_miss({site}, {index}); return; }}")
        return "".join(f"{each}\n" for each in lines)

    def _form(self) -> list[int]:
        """What `DRIVER` has to know of the function."""
        operands = [
            (dtype.itemsize, dtype.alignment, int(number in self.program.reads), int(number in self.program.writes), number)
            for number in self.elements
            for dtype in [self._dtype(number)]
        ]  # fmt: skip
        fixed = HEAD + len(self.raw) + len(self.facts)
        most = STORED_BLOCK if self.kept else 1 << 62
        return [len(operands), fixed, len(self.sites), most, *(each for operand in operands for each in operand)]


# The C functions that texts use.

PRELUDE = """\
#define bool _Bool
#define true 1
#define false 0
#define __device__ static
#define __forceinline__ inline
#if defined(__clang__)
#define XF_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define XF_INDEPENDENT _Pragma("GCC ivdep")
#else
#define XF_INDEPENDENT
#endif
#if defined(__GNUC__)
#define XF_RARE __attribute__((noinline, cold))
#define XF_CONSTANT(x) __builtin_constant_p(x)
#define XF_ANY __attribute__((aligned(1), may_alias))
#define XF_EXPORT __attribute__((visibility("default")))
#else
#define XF_RARE
#define XF_CONSTANT(x) 0
#define XF_ANY
#define XF_EXPORT
#endif
typedef struct { float x, y; } xf_c64;
typedef struct { double x, y; } xf_c128;
static inline float __int_as_float(unsigned int bits) { union { unsigned int i; float f; } it; it.i = bits; return it.f; }
static inline float __uint_as_float(unsigned int bits) { return __int_as_float(bits); }
static inline unsigned int __float_as_uint(float x) { union { unsigned int i; float f; } it; it.f = x; return it.i; }
static inline double __longlong_as_double(long long bits) { union { long long i; double f; } it; it.i = bits; return it.f; }
static inline long long __double_as_longlong(double x) { union { long long i; double f; } it; it.f = x; return it.i; }
#define __fadd_rn(x, y) ((x) + (y))
#define __fsub_rn(x, y) ((x) - (y))
#define __fmul_rn(x, y) ((x) * (y))
#define __fdiv_rn(x, y) ((x) / (y))
#define __dadd_rn(x, y) ((x) + (y))
#define __dsub_rn(x, y) ((x) - (y))
#define __dmul_rn(x, y) ((x) * (y))
#define __ddiv_rn(x, y) ((x) / (y))
#define __fmaf_rn(x, y, z) __builtin_fmaf(x, y, z)
#define __fma_rn(x, y, z) __builtin_fma(x, y, z)
#define __fsqrt_rn(x) __builtin_sqrtf(x)
#define __dsqrt_rn(x) __builtin_sqrt(x)
static inline float fabsf(float x) { return __uint_as_float(__float_as_uint(x) & 0x7fffffffu); }
static inline double fabs(double x) { return __longlong_as_double(__double_as_longlong(x) & 0x7fffffffffffffffll); }
#define xf_size_of(x) _Generic((x), double: fabs, default: fabsf)(x)
/* Note a number at a site: how often, the least and the greatest. */
XF_RARE static void xf_miss(long long *site, long long number) {
  if (!site[0]++) site[1] = site[2] = number;
  if (number < site[1]) site[1] = number;
  if (number > site[2]) site[2] = number;
}
#define XF_INSIDE(index, length, site) \\
  ((unsigned long long)(index) < (unsigned long long)(length) || (xf_miss(site, index), 0))
static const long long xf_zeros[2] = {0, 0};
static int xf_differs(const char *x, const char *y, int nbytes) {
  for (int i = 0; i < nbytes; ++i) if (x[i] != y[i]) return 1;
  return 0;
}
"""

_ROUNDING = """\
#if defined(__SSE4_1__) || defined(__aarch64__)
#define floorf __builtin_floorf
#define ceilf __builtin_ceilf
#define truncf __builtin_truncf
#define rintf __builtin_rintf
#define floor __builtin_floor
#define ceil __builtin_ceil
#define trunc __builtin_trunc
#define rint __builtin_rint
#else
/* By the addition of a number whose last bit counts one; the sign of zero is the operand's. */
#define XF_ROUND(T, F, SIGN, WHOLE, BITS, BACK, FABS, U, TOP) \\
  static inline T SIGN(T y, T x) { return BACK((BITS(y) & ~(U)TOP) | (BITS(x) & (U)TOP)); } \\
  static inline T rint##F(T x) { T a = FABS(x), y = (a + WHOLE) - WHOLE; return a < WHOLE ? SIGN(y, x) : x; } \\
  static inline T floor##F(T x) { T y = rint##F(x); return y > x ? SIGN(y - 1, x) : y; } \\
  static inline T ceil##F(T x) { T y = rint##F(x); return y < x ? SIGN(y + 1, x) : y; } \\
  static inline T trunc##F(T x) { T a = FABS(x), y = rint##F(a); return a < WHOLE ? SIGN(y > a ? y - 1 : y, x) : x; }
XF_ROUND(float, f, xf_signf, 0x1p23f, __float_as_uint, __uint_as_float, fabsf, unsigned int, 0x80000000u)
XF_ROUND(double, , xf_sign, 0x1p52, __double_as_longlong, __longlong_as_double, fabs, long long, 0x8000000000000000ll)
#endif
"""

_FMOD = """\
/* The exact remainder: long division of the significands, bit by bit. */
static double xf_long_fmod(double x, double y) {
  unsigned long long a = __double_as_longlong(x) & 0x7fffffffffffffffull, b = __double_as_longlong(y) & 0x7fffffffffffffffull;
  const unsigned long long sign = __double_as_longlong(x) & 0x8000000000000000ull, inf = 0x7ff0000000000000ull;
  if (a >= inf || b > inf || b == 0) return __longlong_as_double(0x7ff8000000000000ll);
  if (a < b) return x;
  int ea = (int)(a >> 52), eb = (int)(b >> 52);
  a &= 0xfffffffffffffull; b &= 0xfffffffffffffull;
  if (ea) a |= 1ull << 52; else for (ea = 1; !(a >> 52); --ea) a <<= 1;
  if (eb) b |= 1ull << 52; else for (eb = 1; !(b >> 52); --eb) b <<= 1;
  for (; ea > eb; --ea) { if (a >= b) a -= b; a <<= 1; }
  if (a >= b) a -= b;
  if (!a) return __longlong_as_double((long long)sign);
  for (; !(a >> 52); --ea) a <<= 1;
  if (ea > 0) a = (a & 0xfffffffffffffull) | (unsigned long long)ea << 52; else a >>= 1 - ea;
  return __longlong_as_double((long long)(a | sign));
}
#if defined(__FMA__) || defined(__aarch64__)
/* The quotient is the right one or one more, and the difference exact: it is a multiple of what b's last bit counts. */
static inline double xf_fmod_f64(double x, double y, int *flag) {
  double a = fabs(x), b = fabs(y), q = a / b, r;
  *flag |= !(q < 0x1p52) | !(b < __longlong_as_double(0x7ff0000000000000ll));
  r = __builtin_fma(-__builtin_trunc(q), b, a);
  r = r < 0 ? r + b : r;
  return __longlong_as_double(__double_as_longlong(r) | (__double_as_longlong(x) & ~0x7fffffffffffffffll));
}
#else
static inline double xf_fmod_f64(double x, double y, int *flag) { *flag |= 1; return x + y; }
#endif
static inline double fmod(double x, double y) {
  int flag = 0;
  double r = xf_fmod_f64(x, y, &flag);
  return flag ? xf_long_fmod(x, y) : r;
}
"""

_HALF = """\
/* In integers, which compilers vectorise on any processor, and which keep the bits of a NaN. */
static inline float xf_from_half(unsigned short half) {
  unsigned int h = half, a = h & 0x7fffu, sign = (h & 0x8000u) << 16;
  unsigned int normal = (a << 13) + (a < 0x7c00u ? 112u << 23 : 224u << 23);
  unsigned int small = __float_as_uint((float)(int)a * 0x1p-24f);
  return __uint_as_float((a < 0x400u ? small : normal) | sign);
}
static inline unsigned short xf_to_half(float f) {
  unsigned int u = __float_as_uint(f), a = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
  unsigned int normal = ((a + 0xfffu + (a >> 13 & 1u)) >> 13) - (112u << 10);
  unsigned int small = __float_as_uint(__uint_as_float(a < 0x38800000u ? a : 0u) * 0x1p24f + 0x1p23f) & 0xffffu;
  unsigned int nan = 0x7c00u | (a >> 13 & 0x3ffu);
  unsigned int found = a < 0x38800000u ? small : a >= 0x47800000u ? 0x7c00u : normal;
  nan = nan == 0x7c00u ? 0x7e00u : nan;
  return (unsigned short)((a > 0x7f800000u ? nan : found) | sign);
}
static inline float xf_half(float f) { return xf_from_half(xf_to_half(f)); }
/* By way of a float that is rounded to odd, so that rounding it again is right. */
static inline float xf_half_of_double(double d) {
  float f = (float)d;
  double back = (double)f;
  unsigned int bits = __float_as_uint(f), odd = (fabs(back) > fabs(d) ? bits - 1 : bits) | 1u;
  return xf_half(__uint_as_float(back == d || d != d ? bits : odd));
}
"""

_CHOICE = """\
static inline float xf_min_f(float x, float y) {
  float same = __uint_as_float(__float_as_uint(x) | __float_as_uint(y));
  return x < y ? x : y < x ? y : x == y ? same : x + y;
}
static inline float xf_max_f(float x, float y) {
  float same = __uint_as_float(__float_as_uint(x) & __float_as_uint(y));
  return x > y ? x : y > x ? y : x == y ? same : x + y;
}
static inline double xf_min_d(double x, double y) {
  double same = __longlong_as_double(__double_as_longlong(x) | __double_as_longlong(y));
  return x < y ? x : y < x ? y : x == y ? same : x + y;
}
static inline double xf_max_d(double x, double y) {
  double same = __longlong_as_double(__double_as_longlong(x) & __double_as_longlong(y));
  return x > y ? x : y > x ? y : x == y ? same : x + y;
}
#define xf_min(x, y) _Generic((x), double: xf_min_d, default: xf_min_f)(x, y)
#define xf_max(x, y) _Generic((x), double: xf_max_d, default: xf_max_f)(x, y)
"""

_INTEGER = """\
#define xf_narrow_NAME(bits) ((T)(bits))
static inline T xf_idiv_NAME(T x, T y) {
  if (XF_CONSTANT(y) && y > 0) return (T)(x / y); /* by a multiplication */
  QUOTIENT
}
static inline T xf_imod_NAME(T x, T y) { return y == 0 ? (T)0 : (T)((U)x - (U)xf_idiv_NAME(x, y) * (U)y); }
static inline T xf_floordiv_NAME(T x, T y) {
  T quotient = xf_idiv_NAME(x, y), rest = xf_imod_NAME(x, y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)((U)quotient - 1) : quotient;
}
static inline T xf_floormod_NAME(T x, T y) {
  T rest = xf_imod_NAME(x, y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)((U)rest + (U)y) : rest;
}
static inline T xf_shl_NAME(T x, T count) {
  return (S)count < BITS ? (T)((U)x << ((U)count & (BITS - 1))) : (T)0;
}
static inline T xf_shr_NAME(T x, T count) {
  return (S)count < BITS ? (T)(x >> ((U)count & (BITS - 1))) : x < 0 ? (T)-1 : (T)0;
}
/* What is 0 is not converted: gcc 12 takes the way to an integer and back for a truncation, which keeps the sign of 0. */
#define xf_saturate_NAME(x, low, high, least, most) \\
  (xf_size_of(x) >= 1 ? ((x) >= (high) ? (most) : (x) < (low) ? (least) : (T)(x)) : (T)0)
"""

_FAST_INTEGER = """\
/* By a division of floats, while they hold the operands: exact, and vectorised. */
#define xf_fast_idiv_NAME(x, y) xf_by_double_NAME(x, y, &xf_wide)
#define xf_fast_imod_NAME(x, y) (T)((U)(x) - (U)xf_by_double_NAME(x, y, &xf_wide) * (U)(y))
#define xf_fast_floordiv_NAME(x, y) xf_floor_by_double_NAME(x, y, &xf_wide)
#define xf_fast_floormod_NAME(x, y) (T)((U)(x) - (U)xf_floor_by_double_NAME(x, y, &xf_wide) * (U)(y))
static inline T xf_by_double_NAME(T x, T y, U *flag) {
  const U half = SHIFT;
  *flag |= ((U)x + half) >> 53 | ((U)y + half) >> 53 | (U)(y == 0);
  double q = (double)x / (double)y;
  return fabs(q) >= 1 ? (T)q : (T)0;
}
static inline T xf_floor_by_double_NAME(T x, T y, U *flag) {
  T quotient = xf_by_double_NAME(x, y, flag), rest = (T)((U)x - (U)quotient * (U)y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)((U)quotient - 1) : quotient;
}
"""

_BY_FLOAT = "F q = (F)x / (F)(y == 0 || y == NONE ? 1 : y); return y == 0 ? (T)0 : y == NONE ? MINUS : FABS(q) >= 1 ? (T)q : (T)0;"
"""In a float type of twice the bits a quotient is never rounded up to an integer; and it is vectorised."""
_BY_INTEGER = "return y == 0 ? (T)0 : y == NONE ? MINUS : (T)(x / (y == 0 || y == NONE ? (T)1 : y));"


def _integer_functions(dtype: DType) -> str:
    bits, is_signed = 8 * dtype.itemsize, dtype.kind == "i"
    kind = c_type(dtype)
    narrow = kind if not is_signed else f"unsigned {kind.removeprefix('signed ')}"
    quotient = _BY_INTEGER if bits == 64 else _BY_FLOAT
    quotient = quotient.replace("MINUS", "(T)(0 - (U)x)" if is_signed else "x")
    quotient = quotient.replace("FABS", "fabs" if bits == 32 else "fabsf").replace("NONE", "-1" if is_signed else "1").replace("F", "double" if bits == 32 else "float")
    text = _INTEGER + (_FAST_INTEGER if bits == 64 else "")
    text = (
        text.replace("SHIFT", "(U)1 << 52" if is_signed else "0")
        .replace("QUOTIENT", quotient)
        .replace("NAME", dtype.name)
        .replace("BITS", str(bits))
    )
    wide = "unsigned long long" if bits == 64 else "unsigned int"
    for name, meaning in (("T", kind), ("U", wide), ("S", narrow)):
        text = _word(text, name, meaning)
    return text


def _word(text: str, name: str, meaning: str) -> str:
    import re

    return re.sub(rf"\b{name}\b", meaning, text)


_TYPED = frozenset({"idiv", "imod", "floordiv", "floormod", "shl", "shr", "neg", "abs"})


def needed_calls(program: Program) -> tuple[str, ...]:
    nodes = [node for each in bodies(program) for node in expand(each).nodes]
    wanted = [node for node in nodes if node.op == "call" or (node.op == "fmod" and node.dtype != FLOAT64)]
    return tuple(sorted(set(map(_function, wanted))))


def needed_parts(program: Program) -> list[str]:
    """The functions that a program needs."""
    nodes: list[Any] = [node for each in bodies(program) for node in expand(each).nodes]
    dtypes = {node.dtype for node in nodes} | {param.dtype for each in bodies(program) for param in each.params}
    parts = []
    if any(node.op in ("floor", "ceil", "trunc", "rint") for node in nodes):
        parts.append(_ROUNDING)
    if any(node.op == "fmod" and node.dtype == FLOAT64 for node in nodes):
        parts.append(_FMOD)
    if FLOAT16 in dtypes:
        parts += [_HALF, FMA_OF_HALF]
    if any(node.op in ("min", "max") and is_float(node.dtype) for node in nodes) or any(
        node.op == "update" and node.attr.kind in ("min", "max") and is_float(node.dtype) for node in nodes
    ):
        parts.append(_CHOICE)
    typed = {
        node.dtype.name: node.dtype
        for node in nodes
        if node.dtype.kind in "iu" and (node.op in _TYPED or (node.op == "cast" and is_float(node.args[0].dtype)))
    }
    return [*parts, *(_integer_functions(dtype) for _, dtype in sorted(typed.items()))]


DRIVER = """\
/* Calls the function of a program for blocks of contiguous operands. The geometry of a call is: dimensions, elements, the
   most turns of a loop, nothing; lengths of raw arrays and facts; extents; strides of each operand. */
enum { MOST_AXES = @AXES, MOST_OPERANDS = @OPERANDS, BLOCK = 512, SHORT_ROW = 64, ROOM = 1 << 16 };
typedef void (*function)(long long, long long, char *const *, char *const *, const long long *, long long *, char *);
typedef struct { long long size, aligned, reads, writes, place; } operand;
typedef struct { long long count, fixed, sites, most; operand operands[]; } form;
typedef struct { long long x, y; } pair;
#define MOVE(T) do { \\
    typedef T word XF_ANY; \\
    if (from_step == 0) { const T held = *(const word *)from; for (long long i = 0; i < n; ++i) ((word *)to)[i] = held; } \\
    else if (to_step == sizeof(T)) for (long long i = 0; i < n; ++i) ((word *)to)[i] = *(const word *)(from + i * from_step); \\
    else for (long long i = 0; i < n; ++i) *(word *)(to + i * to_step) = *(const word *)(from + i * from_step); \\
  } while (0)
static void move(char *to, long long to_step, const char *from, long long from_step, long long n, long long size) {
  switch (size) {
  case 1: MOVE(unsigned char); break;
  case 2: MOVE(unsigned short); break;
  case 4: MOVE(unsigned int); break;
  case 8: MOVE(unsigned long long); break;
  default: MOVE(pair);
  }
}
/* Between a buffer and n elements that may reach over several rows. */
static void move_rows(char *buffer, char *base, const long long *start, long long rank, const long long *extent,
                      const long long *stride, long long n, long long size, int is_store) {
  long long at[MOST_AXES];
  for (long long a = 0; a < rank; ++a) at[a] = start[a];
  while (n > 0) {
    long long left = extent[rank - 1] - at[rank - 1], m = left < n ? left : n, step = stride[rank - 1];
    char *row = base;
    for (long long a = 0; a < rank; ++a) row += at[a] * stride[a];
    if (is_store) move(row, step, buffer, size, m, size); else move(buffer, size, row, step, m, size);
    buffer += m * size;
    n -= m;
    at[rank - 1] += m;
    for (long long a = rank - 1; a > 0 && at[a] == extent[a]; --a) { at[a] = 0; ++at[a - 1]; }
  }
}
static int has_failed(const form *f, const long long *report) {
  for (long long s = 0; s < f->sites; ++s) if (report[3 * s]) return 1;
  return 0;
}
static int run_strided(function run, const form *f, char *const *p, const long long *g, long long begin, long long end,
                       long long *report, char *scratch) {
  const long long rank = g[0], *extent = g + f->fixed, *stride = extent + rank;
  long long at[MOST_AXES], rest = begin, nbytes = 1, offset = 0, block;
  char *q[MOST_OPERANDS], *buffers[MOST_OPERANDS], *held[MOST_OPERANDS]; /* the element that fills a buffer */
  char is_unit[MOST_OPERANDS];
  _Alignas(64) char room[ROOM];
  int are_unit = 1;
  for (long long a = rank - 1; a >= 0; --a) { at[a] = a ? rest % extent[a] : rest; rest /= extent[a]; }
  for (int e = 0; e < f->count; ++e) nbytes += f->operands[e].size;
  block = (ROOM - 64 * f->count) / nbytes;
  block = block > BLOCK ? BLOCK : block;
  for (int e = 0; e < f->count; ++e) {
    const operand *own = &f->operands[e];
    is_unit[e] = (unsigned long long)p[own->place] % (unsigned long long)own->aligned == 0;
    for (long long a = 0; a < rank; ++a)
      is_unit[e] &= a == rank - 1 ? stride[e * rank + a] == own->size : stride[e * rank + a] % own->aligned == 0;
    are_unit &= is_unit[e];
    held[e] = 0;
    buffers[e] = room + offset;
    offset += (block * own->size + 63) / 64 * 64;
  }
  while (begin < end) {
    const long long left = extent[rank - 1] - at[rank - 1];
    const int is_row = left >= SHORT_ROW || left >= end - begin;
    long long n = is_row ? left : block;
    if (!are_unit && n > block) n = block;
    if (n > end - begin) n = end - begin;
    if (n > f->most) n = f->most;
    for (int e = 0; e < f->count; ++e) {
      const operand *own = &f->operands[e];
      const long long *steps = stride + e * rank;
      char *element = p[own->place];
      for (long long a = 0; a < rank; ++a) element += at[a] * steps[a];
      if (is_row && is_unit[e]) { q[e] = element; continue; }
      q[e] = buffers[e];
      if (!own->reads) continue;
      if (is_row && steps[rank - 1] == 0) { /* one value for the row, kept from block to block */
        if (held[e] != element) move(buffers[e], own->size, element, 0, block, own->size);
        held[e] = element;
        continue;
      }
      held[e] = 0;
      move_rows(buffers[e], p[own->place], at, rank, extent, steps, n, own->size, 0);
    }
    run(n, begin, q, p, g, report, scratch);
    for (int e = 0; e < f->count; ++e)
      if (f->operands[e].writes && q[e] == buffers[e])
        move_rows(buffers[e], p[f->operands[e].place], at, rank, extent, stride + e * rank, n, f->operands[e].size, 1);
    if (has_failed(f, report)) return 1;
    begin += n;
    at[rank - 1] += n;
    for (long long a = rank - 1; a > 0 && at[a] >= extent[a]; --a) {
      at[a - 1] += at[a] / extent[a];
      at[a] %= extent[a];
    }
  }
  return 0;
}
/* Compute the elements from `begin` to `end`: whether a site has noted something. */
XF_EXPORT int xf_run(function run, const form *f, char *const *p, const long long *g, long long begin, long long end,
                     long long *report, char *scratch) {
  const long long *stride = g + f->fixed + 1;
  int is_flat = g[0] == 1;
  char *q[MOST_OPERANDS];
  for (int e = 0; e < f->count; ++e) {
    const operand *own = &f->operands[e];
    is_flat &= stride[e] == own->size && (unsigned long long)p[own->place] % (unsigned long long)own->aligned == 0;
    q[e] = p[own->place] + begin * own->size;
  }
  if (!is_flat) return run_strided(run, f, p, g, begin, end, report, scratch);
  while (begin < end) {
    const long long n = end - begin < f->most ? end - begin : f->most;
    run(n, begin, q, p, g, report, scratch);
    if (has_failed(f, report)) return 1;
    for (int e = 0; e < f->count; ++e) q[e] += n * f->operands[e].size;
    begin += n;
  }
  return 0;
}
""".replace("@AXES", str(MOST_AXES)).replace("@OPERANDS", str(MOST_OPERANDS))
