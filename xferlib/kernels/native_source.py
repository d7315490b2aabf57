"""C for an element-wise program: loops over arrays of any layout, from the nodes that CUDA C++ is written from.

One text serves every call of a program: extents and strides are arguments, or each new shape would wait for the
compiler. A loop over any strides is what a compiler cannot vectorise. So there is one loop, over contiguous memory: an
operand that is not contiguous is gathered into a small buffer first, block by block, and a result scattered from one.

What rounds is written as plain C: the options of the compiler (`OPTIONS`) let nothing be contracted or reordered. No
function of another library is called, and nothing is included.

Errors that the NumPy engine finds between its steps are noted at numbered sites, in the order of those steps; they are
read when the function returns.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xferlib.kernels import native_functions
from xferlib.kernels.analysis import is_distinct, linear
from xferlib.kernels.c_text import (
    FMA_OF_HALF,
    Dialect,
    Writer,
    binary,
    c_type,
    constant,
    expression,
    function_statements,
    operand_of_negation,
    own_functions,
    storage_type,
    table_text,
    to_memory,
    to_register,
)
from xferlib.kernels.float64_functions import Float64Function, float64_function
from xferlib.kernels.ir import (
    BOOL,
    EFFECTS,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    LEAVES,
    DType,
    Node,
    Program,
    Store,
    bodies,
    facts,
    find_unseen_reads,
    is_complex,
    is_float,
    is_integer,
    part_dtype,
    sort_nodes,
)
from xferlib.kernels.native_functions import expand, read_sections

OPTIONS = (
    "-std=gnu11", "-O3", "-w", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fno-strict-aliasing",
    "-fwrapv", "-fno-tree-loop-distribute-patterns", "-fno-thread-jumps", "-fno-tree-pre", "-fvisibility=hidden",
    "-funroll-loops", "--param=ranger-logical-depth=1",
)  # fmt: skip
"""IEEE arithmetic; a loop that copies is not made a call of another library's function; gcc neither threads jumps nor
moves what is partially redundant, for both make branches of conditions, and then loops are not vectorised; and it
looks through one condition for the range of a value, as six deep take minutes where conditions are made of others."""

ENTRY = "xf_block"
DRIVER_ENTRY = "xf_run"
HEAD = 4
"""Numbers of a call before the lengths of raw arrays: rank, size, most turns of a loop, whether axes keep order."""
MOST_AXES = 64
MOST_OPERANDS = 256
"""That broadcast."""
SHORT_ROW = 8
"""The shortest row that is a piece of its own in a program that computes rows and columns from its index."""
LANES, FEW_LANES = 64, 4
"""Elements whose loops run in step: four of the widest vectors of 32 bits, as their additions take four steps of the
processor; fewer take up to twice as long, and of more that end apart too many wait. Of few that are left each runs on
by itself.
"""
STORED_BLOCK = 16384
"""Elements whose indexed stores are kept until all of them are computed, as the NumPy engine does."""
_MOST_IN_PLACE, _NEAR, _NEVER = 16, 1 << 15, 1 << 62
"""The most nodes of a program whose operands are read where they are, contiguous or not; from how many elements on, if
it has minima or maxima; and a number that no call has.
"""


@dataclass(frozen=True, slots=True)
class FailureSite:
    """A place where a call may fail."""

    kind: str
    """``index`` beyond an array, ``stored`` two values for one element, or ``loop`` with too many turns."""
    param: int
    """The parameter of the array."""


_MOST_PIECE = 1024
_MOST_STEP = 1 << 20
_LEAST_FOR_GATHER = 10
"""Nodes of a loop in step for each gather at indices of elements' own: processors read such elements one by one, and
sums over the rows of a sparse matrix, whose lengths differ, take ten times as long in step.
"""
_MOST_VARIABLES = 64
"""Of loops in step: each has a buffer on the stack."""
_CUT = """\
  if (!xf_all && (low > 0 || high <= 0)) {
    m = low > 0 && low < m ? low : m;
    xf_all = 1;
  } else if (!xf_all) m = high;
"""
"""Ends a piece where the affine indices of its first elements are out of range, or those behind them get there."""

FunctionCall = tuple[str, str]
"""The name of a function and its dtype."""


@dataclass(frozen=True, slots=True)
class NativeSource:
    """The text of a program: functions that other programs may need too, and its own one, `ENTRY`."""

    parts: tuple[str, ...]
    calls: tuple[FunctionCall, ...]
    """The functions that it needs."""
    block: str
    form: tuple[int, ...]
    """Its facts for the driver, ``xf_run``."""
    sites: tuple[FailureSite, ...]
    scratch_nbytes: int
    """The memory that a call needs for each element of a block of `STORED_BLOCK`."""
    is_ordered: bool
    """Whether the elements must be computed one after the other."""

    @property
    def text(self) -> str:
        return "".join((*self.parts, function_text(self.calls), self.block))


def function_text(calls: Iterable[FunctionCall]) -> str:
    """The C text of functions, in their three forms."""
    calls = sorted(calls)
    narrow = [name for name, dtype in calls if dtype == "float32"]
    halves = [f"{name}_{_ENDINGS[dtype]}" for name, dtype in calls if dtype in ("float16", "bfloat16")]
    own = [float64_function(name) for name, dtype in calls if dtype == "float64"]
    careful = [_careful_function(n, "float", "f32", "xy"[: 1 + (n in native_functions.BINARY)]) for n in narrow]
    careful += [
        _careful_function(n, "float", "bf16", "x", slow="f32")
        for n, dtype in calls
        if (n, dtype) in native_functions.UNCERTAIN
    ]
    tables = table_text(own, "static const unsigned long long")
    return "".join([native_functions.text([*narrow, *halves]), tables, *map(_own_function, own), *careful])


def _careful_function(name: str, kind: str, ending: str, operands: Sequence[str], *, slow: str = "") -> str:
    given, taken = ", ".join(operands), ", ".join(f"{kind} {each}" for each in operands)
    return (
        f"static inline {kind} xf_careful_{name}_{ending}({taken}) {{ int flag = 0; {kind} found = "
        f"xf_{name}_{ending}({given}, &flag); return flag ? xf_{name}_{slow or ending}_slow({given}) : found; }}\n"
    )


def _own_function(function: Float64Function) -> str:
    operands = [f"x{number}" for number in range(function.operands)]
    taken = ", ".join(f"double {each}" for each in operands)
    common, (value, holds) = function_statements(function.common, CAREFUL)
    rare, (found,) = function_statements(function.rare, CAREFUL)
    return (
        f"XF_INLINE double xf_{function.name}_f64({taken}, int *flag) {{\n{common}  *flag |= !{holds};\n"
        f"  return {value};\n}}\nXF_RARE static double xf_{function.name}_f64_slow({taken}) {{\n{rare}"
        f"  return {found};\n}}\n{_careful_function(function.name, 'double', 'f64', operands)}"
    )


def why_not(program: Program) -> str:
    """Why a program has no C text yet; empty if it has one."""
    if len(program.elements) > MOST_OPERANDS:
        return f"it has more than {MOST_OPERANDS} operands"
    for each in bodies(expand(program)):
        each = expand(each)
        for node in each.nodes:
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


def _careful_call(node: Node, args: list[str], _math: str) -> str:
    if node.op == "fmod" and node.dtype == FLOAT64:
        return f"fmod({', '.join(args)})"
    careful = "" if _is_certain(node) else "careful_"
    return _round_half(node, f"xf_{careful}{_function(node)}({', '.join(args)})")


def _fast_call(node: Node, args: list[str], _math: str) -> str:
    if node.op == "fmod" and node.dtype == FLOAT64:
        return f"xf_fmod_f64({', '.join(args)}, &xf_flag)"
    flag = () if _is_certain(node) else ("&xf_flag",)
    return _round_half(node, f"xf_{_function(node)}({', '.join((*args, *flag))})")


def _call_apart(call: Callable[[Node, list[str], str], str]) -> Callable[[Node, list[str], str], str]:
    """As another call, with operands that gcc does not know for results of what would change the operation's.

    The parts of a complex product are a difference and a sum of products: gcc 12 has one fused instruction for two such
    neighbours, and takes it in spite of its options. And it was seen to leave out the rounding of doubles to floats
    that are widened again, in vectors of neighbours that are stored side by side, which have as many of the ones as of
    the others; probably it compares their lanes and not their precision. The float32 functions widen what they take
    too, but their results are stored apart.
    """

    def write(node: Node, args: list[str], math: str) -> str:
        if node.op == "cast":
            if _is_half_of_double(node):
                return f"xf_half_of_double_apart(xf_none, {args[0]})"
            if _is_widened_result(node):
                args = [f"xf_apart(xf_none, {args[0]})"]
        elif node.op != "add":
            return call(node, args, math)
        elif is_float(node.dtype):
            args = [
                f"xf_unfused(xf_none, {x})" if own.op == "mul" else x for x, own in zip(args, node.args, strict=True)
            ]
        return expression(node, args, math, CAREFUL)

    return write


_FROM_MEMORY = frozenset({*LEAVES, "gather"})
"""Operations whose float32 result is no double that is rounded: even a product is, where a factor is 1."""


def _is_widened_result(node: Node) -> bool:
    is_widening = node.op == "cast" and (node.dtype, node.args[0].dtype) == (FLOAT64, FLOAT32)
    return is_widening and node.args[0].op not in _FROM_MEMORY


def _is_half_of_double(node: Node) -> bool:
    return node.op == "cast" and (node.dtype, node.args[0].dtype) == (FLOAT16, FLOAT64)


def _may_lose_rounding(program: Program) -> bool:
    """Whether a program may round doubles to floats and widen these."""
    return any(_is_widened_result(node) or _is_half_of_double(node) for each in bodies(program) for node in each.nodes)


def _may_fuse(program: Program) -> bool:
    """Whether a program may have both a sum and a difference of products, as a complex product has."""
    if any(is_complex(node.dtype) for node in program.nodes):
        return True
    nodes = (node for node in program.nodes if is_float(node.dtype) and any(each.op == "mul" for each in node.args))
    return {"add", "sub"} <= {node.op for node in nodes}


def careful_for(program: Program) -> Dialect:
    """The dialect of a program's careful statements; ``xf_none`` is a 0 that the compiler does not know."""
    apart = {"add"} if _may_fuse(program) else set()
    apart |= {"cast"} if _may_lose_rounding(program) else set()
    return replace(CAREFUL, call=_call_apart(_careful_call), calls=_CALLS | apart) if apart else CAREFUL


def _call_of(node: Node) -> FunctionCall:
    """The function that an operation is, and the dtype of its C text: ``fmod`` of float16 is computed in float32."""
    if node.op == "fmod":
        return "fmod", "float64" if node.dtype == FLOAT64 else "float32"
    return native_functions.split_call(node)


def _is_certain(node: Node) -> bool:
    """Whether it is a function that has one form."""
    if node.op != "call":
        return False
    call = native_functions.split_call(node)
    return call[1] in ("float16", "bfloat16") and call not in native_functions.UNCERTAIN


_ENDINGS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}


def _function(node: Node) -> str:
    name, dtype = _call_of(node)
    return f"{name}_{_ENDINGS[dtype]}"


def _round_half(node: Node, text: str) -> str:
    return f"xf_half({text})" if node.dtype == FLOAT16 else text


_CALLS = frozenset({"call", "fmod"})
DIVISIONS = frozenset({"idiv", "imod", "floordiv", "floormod"})
_SLOW = _CALLS | DIVISIONS | {"div", "sqrt", "select", "loop"}
"""Operations that take several times as long one by one as by vectors."""


def _fast_name(name: str, dtype: DType) -> str:
    is_division = name.removeprefix("xf_") in DIVISIONS and dtype.itemsize == 8
    return f"{name.replace('xf_', 'xf_fast_') if is_division else name}_{dtype.name}"


def _has_fast_form(node: Node) -> bool:
    if node.op in _CALLS:
        return not _is_certain(node)
    return node.op == "gather" or (node.op in DIVISIONS and node.dtype.itemsize == 8)


CAREFUL = Dialect(
    typed=lambda name, dtype: f"{name}_{dtype.name}",
    pair=lambda kind, x, y: f"({kind}){{{x}, {y}}}",
    nothing="{0}",
    call=_careful_call,
    calls=_CALLS,
    expand=expand,
    begin_loop=lambda name, start: [f"    for (bool {name} = {start}; {name};) {{"],
)
"""Every operation by the function that is right for all operands."""


def _turns(count: int) -> str:
    """The beginning of a loop over the first element of a piece and, for two turns, the last one."""
    return f"  for (int turn = 0; turn < {count}; ++turn) {{\n    const long long j = turn ? m - 1 : 0;"


def _zero(dtype: DType) -> str:
    return f"({c_type(dtype)}){{0, 0}}" if dtype.kind == "c" else f"({c_type(dtype)})0"


class _NativeWriter:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.params = list(program.params)
        self.elements, self.raw, self.scalars = program.elements, program.raw, program.scalars
        self.facts = facts(program)
        self.sites: list[FailureSite] = []
        self.names: dict[int, str] = {}
        self.is_in_place = False
        """Whether the loop that is written takes steps between elements."""
        self.buffers: dict[str, str] = {}
        """Values that are kept from one loop of a piece to the next, and their C types."""
        self.late = self._list_late_stores()
        self.indexed = [
            store for number, store in enumerate(program.stores) if store.index is not None and number not in self.late
        ]
        """Stores at indices that are another one for each element."""
        self.is_ordered = bool(program.effects)
        """Whether iterations may not be computed at a time."""
        self.halves = [] if self.is_ordered else [n for n in self.elements if self._dtype(n) == FLOAT16]
        """Operands that are converted by loops of their own: compilers have no vectors for it."""
        self.is_in_step = self._can_run_in_step()
        """Whether the loops of neighbouring elements run turn by turn, side by side."""
        self.is_fast = self.is_in_step or (not self.is_ordered and self._has_fast_forms())
        self.is_complex = any(self._dtype(number).kind == "c" for number in self.elements)
        stores = self.program.stores
        used = {id(each) for node in self.program.nodes for each in node.args}
        self.only_stored = {id(each.value) for each in stores if each.param in self.halves} - used
        self.is_piecewise = self.is_fast or bool(self.halves)
        self.rows: dict[tuple[int, int], tuple[Node, Node]] = {}
        """Dividends that grow by one from an element to the next, and divisors that are the same for all."""
        self.steps: dict[int, int | None] = self._find_steps() if self.is_fast else {}
        """By how much a value grows from one element of a row to the next; None where not by one number."""
        if self.is_in_step:
            self.rows = {}
        self.has_flags = self.is_in_step or (self.is_fast and self._raises_flags(self._is_affine))
        """Whether elements are computed anew one by one; else pieces as a whole."""
        self.has_flags_in_row = self.is_fast and self._raises_flags(self._is_affine_in_row)
        self.careful = replace(careful_for(program), begin_loop=self._begin_loop)
        fast_call = _fast_call if self.careful.calls == _CALLS else _call_apart(_fast_call)
        self.fast = replace(self.careful, typed=_fast_name, call=fast_call)
        self.in_row = replace(self.fast, call=self._call_in_row, calls=self.fast.calls | DIVISIONS | {"cast"})
        self.unseen = find_unseen_reads(program.nodes, program.stores, program.effects)
        self.shared_masks = self._find_shared_masks()

    def source(self) -> NativeSource:
        block = self._block()
        nbytes = sum(9 + self._dtype(self.program.stores[n].param).itemsize for n in self.late)
        return NativeSource(
            parts=(section("prelude"), *list_parts(self.program)),
            calls=list_functions(self.program),
            block=block,
            form=tuple(self._form()),
            sites=tuple(self.sites),
            scratch_nbytes=nbytes,
            is_ordered=any(node.op == "update" for each in bodies(self.program) for node in each.nodes),
        )

    def _list_late_stores(self) -> list[int]:
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
        return any([*self.indexed, *filter(_has_fast_form, nodes)]) and not any(node.op == "loop" for node in nodes)

    def _index(self, store: Store) -> Node:
        assert store.index is not None
        return store.index

    def _dtype(self, number: int) -> DType:
        return self.params[number].dtype

    def _site(self, kind: str, param: int) -> str:
        self.sites.append(FailureSite(kind, param))
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
    # fast forms first, and anew by the careful ones those on which one gave up. Results stay in buffers until then, for
    # an output may be an input.
    #
    def _block(self) -> str:
        careful = self._loop(self.careful)
        if self.is_fast:
            test = self._test_indices(self._is_affine, self.careful)
            fast = f"  if (!xf_all) {{\n{self._loop(self.fast)}{self._read_flags(has_flags=self.has_flags)}  }}\n"
            if self.rows:
                in_row = self._test_indices(self._is_affine_in_row, self.in_row)
                test = f"{self._point_into_rows()}  if (xf_row) {{\n{in_row}  }} else {{\n{test}  }}\n"
                done = "  xf_kept = 0;\n" if self._is_direct(self.in_row) else ""
                row = f"{self._loop(self.in_row)}{self._read_flags(has_flags=self.has_flags_in_row)}{done}"
                fast = f"  if (xf_row && !xf_all) {{\n{row}  }} else{fast}"
            flags = "  int xf_all = 0, xf_any = 0, xf_kept = 1;\n  unsigned long long xf_wide = 0;\n"
            flags += "  long long low = 0, high = m;\n"
            again = "  if (xf_all || xf_any) {\n"
            careful = f"{flags}{test}{_CUT}{fast}  xf_all |= xf_wide != 0;\n{again}{careful}  }}\n"
        size = 256 if self.has_flags else _MOST_PIECE if self.halves else 512
        rest = f"n - at < {size} ? n - at : {size}" if self.is_piecewise else "n"
        return (
            "XF_EXPORT void xf_block(long long n, long long first, char *const *q, char *const *p, const long long *g, "
            "long long *xf_report, char *scratch, const long long *steps) {\n"
            "  const long long xf_size = g[1], xf_most = g[2], xf_none = xf_most >> 63;\n"
            f"{self._declarations(size)}{self._scratch()}{self._in_place()}"
            f"  for (long long at = 0, m; at < n; at += m) {{\n  m = {rest};\n{self._begin_rows()}"
            f"{self._load_halves()}{careful}{self._store_results()}  }}\n{self._late_stores()}}}\n"
        )  # fmt: skip

    def _read_flags(self, *, has_flags: bool) -> str:
        return "  for (int j = 0; j < m; ++j) xf_any |= xf_flags[j];\n" if has_flags else ""

    def _raises_flags(self, is_affine: Callable[[Node], bool]) -> bool:
        """Whether a loop of fast forms may give up on single elements."""
        return any(
            (_has_fast_form(node) if node.op in _CALLS else node.op == "gather" and not is_affine(node))
            for node in self.program.nodes
        )

    def _is_direct(self, dialect: Dialect) -> bool:
        """Whether a loop that never gives up stores into the outputs themselves."""
        if dialect is not self.in_row or self.has_flags_in_row or self.is_complex or self.halves:
            return False
        nodes = [each for each in self.program.nodes if each.op in DIVISIONS and each.dtype.itemsize == 8]
        return all(self.steps[id(each)] is not None for each in nodes)

    def _in_place(self) -> str:
        """The loop for operands of any distance between elements, in a program whose time their memory takes."""
        if self._least_in_place() == _NEVER:
            return ""
        self.is_in_place = True
        loop = self._loop(self.careful).replace("j < m; ++j) {", "j < n; ++j) {\n    XF_ONE_BY_ONE;")
        self.is_in_place = False
        places = range(len(self.elements))  # by names: a store may change what is read through a pointer
        names = "".join(f"  char *const q{k} = q[{k}]; const long long step{k} = steps[{k}];\n" for k in places)
        return f"  if (steps) {{\n  const long long at = 0;\n{names}{loop}  return;\n  }}\n"

    def _least_in_place(self) -> int:
        """The fewest elements that are not copied to contiguous memory first.

        The processor waits for memory less if it computes while it reads; but it computes one element at a time then,
        which takes longer than the waiting where the elements are short, or the operations slow or choices.
        """
        dtypes = [self._dtype(number) for number in self.elements]
        sizes = [(part_dtype(each) if is_complex(each) else each).itemsize for each in dtypes]
        nodes = {node.op for node in self.program.nodes if node.op not in LEAVES}
        is_plain = not (self.is_piecewise or self.is_ordered or self.sites or self.raw)
        if not is_plain or len(self.program.nodes) > _MOST_IN_PLACE or min(sizes, default=0) < 8 or nodes & _SLOW:
            return _NEVER
        return _NEAR if nodes & {"min", "max"} else 1

    def _element(self, number: int) -> str:
        """An operand's element in a loop."""
        if not self.is_in_place:
            return f"p{number}[at + j]"
        place, memory = self.elements.index(number), storage_type(self._dtype(number))
        return f"(*({memory} *)(q{place} + j * step{place}))"

    # --- rows: pieces in which the quotients of the element's number are the same for all, and remainders grow by one
    def _find_steps(self) -> dict[int, int | None]:
        """Find the step of each value, and the rows on the way.

        Pieces end where a row does. Arithmetic in 32 bits counts as not overflowing: the ends of pieces are compared.
        """
        steps: dict[int, int | None] = {}
        for node in self.program.nodes:
            args = [steps[id(each)] for each in node.args]
            if node.op in DIVISIONS and node.dtype.name == "int64" and args == [1, 0]:
                self.rows[id(node.args[0]), id(node.args[1])] = node.args[0], node.args[1]
            steps[id(node)] = self._step(node, args)
        return steps

    def _step(self, node: Node, args: Sequence[int | None]) -> int | None:
        if node.op in LEAVES:
            is_same = node.op != "load" or self.params[node.attr].is_scalar
            return 1 if node.op == "index" else 0 if is_same else None
        if node.op in EFFECTS or node.op in _CALLS:
            return None
        known = [each for each in args if each is not None]
        if len(known) < len(args) or not any(known):
            return None if len(known) < len(args) else 0
        if node.op in DIVISIONS and node.dtype.name == "int64" and known == [1, 0]:
            return int(node.op in ("imod", "floormod"))
        if not is_integer(node.dtype) or node.dtype.itemsize < 4:
            return None
        if node.op == "cast":
            return known[0] if is_integer(node.args[0].dtype) and node.args[0].dtype.itemsize >= 4 else None
        if node.op == "mul":
            factors = [int(node.args[1 - k].attr) * known[k] for k in (0, 1) if node.args[1 - k].op == "const"]
            return factors[0] if factors and abs(factors[0]) <= _MOST_STEP else None
        step = {"add": known[0] + known[-1], "sub": known[0] - known[-1], "neg": -known[0]}.get(node.op)
        return step if step is not None and abs(step) <= _MOST_STEP else None

    def _is_affine_in_row(self, node: Node) -> bool:
        return self.steps[id(node.args[0])] is not None

    def _find_shared_masks(self) -> dict[int, list[Node]]:
        """The gathers of neighbours in a row, and the parts of their masks that are the same for all of it."""
        found: dict[int, list[Node]] = {}
        for node in self.program.nodes if self.rows else ():
            if node.op != "gather" or len(node.args) != 2 or self.steps[id(node.args[0])] != 1:
                continue
            parts = [node.args[1]]
            for each in parts:  # grows while it is read
                parts += each.args if each.op == "and" and self.steps[id(each)] != 0 else ()
            if shared := [each for each in parts if self.steps[id(each)] == 0]:
                found[id(node)] = shared
        return found

    def _point_into_rows(self) -> str:
        """Declare the pointers to what such gathers read: to zeros, where their mask is false for the piece."""
        gathers = [node for node in self.program.nodes if id(node) in self.shared_masks]
        return "".join(
            f"  const {storage_type(node.dtype)} *a{k} = (const {storage_type(node.dtype)} *)xf_zeros;\n"
            for k, node in enumerate(gathers)
        )

    def _begin_rows(self) -> str:
        """Find quotient and remainder of a piece's first element, and end the piece where a row does."""
        lines = ["  int xf_row = 1;"] * bool(self.rows)
        writer = Writer(self._leaf, self._gather, self._update, self.program.math, self.in_row)
        for k, pair in enumerate(self.rows.values()):
            names: dict[int, str] = {}
            lines += [_turns(2 if self._may_overflow(pair[0]) else 1)]
            lines += writer.statements(sort_nodes(pair), names, "t")
            x, y = (names[id(each)] for each in pair)
            lines += [
                f"    if (turn) xf_row &= {x} == x{k} + m - 1;",  # not after an overflow of 32 bits
                f"    else if ({x} < 0 || {y} < {SHORT_ROW}) {{ xf_row = 0; break; }}",
                f"    else {{ x{k} = {x}; y{k} = {y}; q{k} = {x} / {y}; r{k} = {x} % {y}; }}",
                "  }",
            ]
        lines += [f"  if (xf_row && y{k} - r{k} < m) m = y{k} - r{k};" for k in range(len(self.rows))]
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
        if node.op in DIVISIONS and (id(node.args[0]), id(node.args[1])) in self.rows:  # i + w is of the same pair
            return f"q{list(self.rows).index((id(node.args[0]), id(node.args[1])))}"
        is_same = node.op in DIVISIONS and self.steps[id(node)] == 0
        return expression(node, args, math, self.careful if is_same else self.fast)

    def _column(self, node: Node) -> str:
        """The first column of a piece, where a node is the column of an element; else nothing."""
        key = (id(node.args[0]), id(node.args[1])) if node.op in ("imod", "floormod") else None
        return f"r{list(self.rows).index(key)}" if key in self.rows else ""

    def _declarations(self, size: int) -> str:
        lines = []
        for k, _ in enumerate(self.rows):
            lines.append(f"long long x{k} = 0, y{k} = 0, q{k} = 0, r{k} = 0")
        for number in self.elements:
            dtype = self._dtype(number)
            const = "" if number in self.program.writes else "const "
            memory = storage_type(dtype)
            lines.append(f"{const}{memory} *p{number} = ({const}{memory} *)q[{self.elements.index(number)}]")
            part = c_type(part_dtype(dtype)) if is_complex(dtype) else self._type_in_piece(number)
            if number in self.halves and number in self.program.reads:
                lines.append(f"float h{number}[{size}]")
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
        lines += [f"{kind} {name}[{size}]" for name, kind in self.buffers.items()]
        lines += [f"int xf_flags[{size}]"] * (self.has_flags or self.has_flags_in_row)
        lines += [f"const long long fact{k} = g[{HEAD + len(self.raw) + k}]" for k, _ in enumerate(self.facts)]
        return "".join(f"  {each};\n" for each in lines)

    def _is_buffered(self, number: int) -> bool:
        """Whether an output is written after the loop."""
        return number in self.program.writes and (self.is_fast or number in self.halves)

    def _type_in_piece(self, number: int) -> str:
        """The C type of an operand's elements in a piece."""
        return "float" if number in self.halves else storage_type(self._dtype(number))

    def _load_halves(self) -> str:
        read = [number for number in self.halves if number in self.program.reads]
        return "".join(f"  xf_load_halves(h{number}, p{number} + at, m);\n" for number in read)

    def _store_results(self) -> str:
        lines = []
        for number in filter(self._is_buffered, self.elements):
            if number in self.halves:
                lines.append(f"  xf_store_halves(p{number} + at, or{number}, m);\n")
                continue
            to = self._element(number)
            each = f"{to} = or{number}[j];"
            if is_complex(self._dtype(number)):
                each = f"{{ {to}.x = or{number}[j]; {to}.y = oi{number}[j]; }}"
            lines.append(f"  XF_INDEPENDENT\n  for (long long j = 0; j < m; ++j) {each}\n")
        is_kept = bool(lines) and self._is_direct(self.in_row) and bool(self.rows)
        return "".join(["  if (xf_kept) {\n", *lines, "  }\n"] if is_kept else lines)

    # --- loops in step: each turn is a loop over elements, which is vectorised
    def _can_run_in_step(self) -> bool:
        loops = [node for node in self.program.nodes if node.op == "loop"]
        if not loops or self.is_ordered or self.late or self.indexed:
            return False
        inner = [node for loop in loops for node in expand(loop.attr.program).nodes]
        if sum(loop.attr.carried for loop in loops) > _MOST_VARIABLES:
            return False
        if any(node.op in ("loop", "update", "pick") for node in inner):
            return False
        steps = [_StepLoop(self, node, "", {}) for node in loops]
        return all(_LEAST_FOR_GATHER * each.count_gathers() <= len(each.program.nodes) for each in steps)

    def _loop_in_step(self) -> str:
        """The loops of fast forms of a program with loops: values go from one to the next by buffers."""
        nodes = self.program.nodes
        loops = [node for node in nodes if node.op == "loop"]
        of_loops = {id(each) for node in loops for each in node.args}
        loaded = [n for n in nodes if n.op == "load" and not self.params[n.attr].is_scalar and id(n) in of_loops]
        parts: list[list[Node]] = [[*loaded]]
        for node in nodes:
            if node.op == "loop":
                parts += [[node], []]
            elif node.op not in LEAVES:
                parts[-1].append(node)
        owner = {id(node): count for count, part in enumerate(parts) for node in part}
        kept: dict[int, str] = {}
        texts = []
        for count, part in enumerate(parts):
            if count % 2:
                texts.append(_StepLoop(self, part[0], f"w{count}", kept).text())
                continue
            is_last = count == len(parts) - 1
            own = set(map(id, part))
            picks = [node for node in part if node.op == "pick"]
            part = [node for node in part if node.op != "pick"]
            used = {id(each): each for node in part for each in node.args}
            if is_last:
                used |= {id(each): each for store in self.program.stores for each in store.operands()}
            lines = ["    int xf_flag = 0;", *self._loads()]
            for node in picks:
                kept[id(node)] = f"{kept[id(node.args[0])]}_{node.attr}"
            self.names |= {each: f"{kept[each]}_j" for each in used if each in kept}
            lines += [
                f"    const {c_type(node.dtype)} {kept[each]}_j = {self._read_buffer(kept[each], node.dtype)};"
                for each, node in used.items()
                if each in kept
            ]
            leaves = [each for each in nodes if each.op in LEAVES and id(each) in used and id(each) not in own]
            writer = Writer(self._leaf, self._gather_fast, self._update, self.program.math, self.fast)
            lines += writer.statements([*leaves, *part], self.names, f"v{count}_")
            for node in part:
                users = {owner.get(id(user)) for user in nodes if any(node is each for each in user.args)}
                if any(node is each for store in self.program.stores for each in store.operands()):
                    users.add(len(parts) - 1)
                if users - {count, None}:
                    kept[id(node)] = self._make_buffer(self.names[id(node)], node.dtype)
                    lines.append(f"    {self._write_buffer(kept[id(node)], node.dtype, self.names[id(node)])}")
            lines.append(f"    xf_flags[j] {'|=' if count else '='} xf_flag;")
            if is_last:
                lines += [f"    {each}" for each in self._stores(self.fast)]
            texts += ["  XF_INDEPENDENT\n  for (int j = 0; j < m; ++j) {\n", *(f"{each}\n" for each in lines), "  }\n"]
        return "".join(texts)

    def _make_buffer(self, name: str, dtype: DType) -> str:
        """A buffer for a value of each element of a piece; two for the parts of a complex one, which are vectorised."""
        kind = "int" if dtype.kind == "b" else c_type(part_dtype(dtype) if is_complex(dtype) else dtype)
        self.buffers |= {f"{part}_{name}": kind for part in ("k", "ki")[: 1 + is_complex(dtype)]}
        return f"k_{name}"

    def _read_buffer(self, buffer: str, dtype: DType, at: str = "j") -> str:
        if not is_complex(dtype):
            return f"{buffer}[{at}]"
        return f"({c_type(dtype)}){{{buffer}[{at}], {buffer.replace('k_', 'ki_', 1)}[{at}]}}"

    def _write_buffer(self, buffer: str, dtype: DType, value: str) -> str:
        if not is_complex(dtype):
            return f"{buffer}[j] = {value};"
        imaginary = buffer.replace("k_", "ki_", 1)
        return f"{{ const {c_type(dtype)} xf_z = {value}; {buffer}[j] = xf_z.x; {imaginary}[j] = xf_z.y; }}"

    def _loop(self, dialect: Dialect) -> str:
        if self.is_in_step and dialect is self.fast:
            return self._loop_in_step()
        forms = {id(self.careful): self._gather, id(self.in_row): self._gather_in_row}
        gather = forms.get(id(dialect), self._gather_fast)
        writer = Writer(self._leaf, gather, self._update, self.program.math, dialect)
        parts = [[*self.program.nodes]] if dialect is self.careful else self._parts()
        loops: list[list[str]] = []
        kept: dict[int, tuple[Node, str, int]] = {}  # what a later loop uses: its name, and the loop that computes it
        for count, part in enumerate(parts):
            own = set(map(id, part))
            used = {id(each): each for node in part for each in node.args}
            if count == len(parts) - 1:
                used |= {id(each): each for store in self.program.stores for each in store.operands()}
            leaves = [each for each in self.program.nodes if each.op in LEAVES and id(each) in used]
            earlier = [kept[each] for each in used if each in kept and each not in own]
            has_flags = self.has_flags_in_row if dialect is self.in_row else self.has_flags
            lines = ["    int xf_flag = 0;"] * (has_flags and dialect is not self.careful)
            if self.has_flags and dialect is self.careful:
                lines = ["    if (!(xf_all || xf_flags[j])) continue;"]
            lines += self._loads()
            for node, name, loop in earlier:
                self.buffers[f"k_{name}"] = "int" if node.dtype.kind == "b" else c_type(node.dtype)
                if (line := f"    k_{name}[j] = {name};") not in loops[loop]:
                    loops[loop].append(line)
                lines.append(f"    const {c_type(node.dtype)} {name} = k_{name}[j];")
            nodes = part if len(parts) == 1 else [*leaves, *part]
            lines += map(self._round_once, writer.statements(nodes, self.names, f"v{count}_" if count else "v"))
            kept |= {id(node): (node, self.names[id(node)], count) for node in part}
            if has_flags and dialect is not self.careful:
                lines.append(f"    xf_flags[j] {'|=' if count else '='} xf_flag;")
            loops.append(lines)
        loops[-1] += [f"    {each}" for each in self._stores(dialect)]
        ahead = "" if self.is_ordered else "  XF_INDEPENDENT\n"
        counter = "int" if self.is_piecewise else "long long"  # whose vectors are twice as long
        head = f"{ahead}  for ({counter} j = 0; j < m; ++j) {{\n"
        return "".join(head + "".join(f"{each}\n" for each in lines) + "  }\n" for lines in loops)

    def _round_once(self, line: str) -> str:
        """The statement of a value; without its rounding to a half, where only the conversion of an output follows."""
        found = re.fullmatch(r"    const float (\w+) = xf_half\((.*)\);", line)
        if found is None or found[1] not in {self.names.get(each) for each in self.only_stored}:
            return line
        return f"    const float {found[1]} = {found[2]};"

    def _parts(self) -> list[list[Node]]:
        """The nodes of each loop: in a chain of functions a processor does not reach the next element's beginning."""
        nodes = [node for node in self.program.nodes if node.op not in LEAVES]
        if self.is_complex or sum(node.op in _CALLS for node in nodes) < 2:
            return [[*self.program.nodes]]
        return [[*part] for _, part in itertools.groupby(nodes, lambda node: id(node) if node.op in _CALLS else 0)]

    def _loads(self) -> list[str]:
        lines = []
        for number in self.elements:
            if number in self.program.reads:
                value = f"h{number}[j]" if number in self.halves else self._element(number)
                lines.append(f"    const {self._type_in_piece(number)} l{number} = {value};")
        return lines

    def _leaf(self, node: Node) -> str:
        if node.op == "load":
            is_scalar = self.params[node.attr].is_scalar
            if node.attr in self.halves:
                return f"l{node.attr}"
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
        return self._gather_by(self._is_affine(node), node, array, args)

    def _gather_in_row(self, node: Node, array: int, args: list[str]) -> str:
        if id(node) in self.shared_masks:
            value = to_register(f"a{list(self.shared_masks).index(id(node))}[j]", node.dtype)
            return self._choose_read(value, node, args[1:])
        return self._gather_by(self._is_affine_in_row(node), node, array, args)

    def _gather_by(self, is_affine: bool, node: Node, array: int, args: list[str]) -> str:
        index, *mask = args
        if not is_affine:
            inside = f"({' & '.join([*mask, f'((unsigned long long){index} < (unsigned long long)n{array})'])})"
            wrong = f"{mask[0]} > {inside}" if mask else f"!{inside}"
            index = f"(xf_flag |= {wrong}, {inside} ? {index} : 0)"
        return self._choose_read(to_register(f"p{array}[{index}]", node.dtype), node, mask)

    def _choose_read(self, value: str, node: Node, mask: list[str]) -> str:
        if not mask or id(node) in self.unseen:
            return value
        return f"({{ const {c_type(node.dtype)} read = {value}; {mask[0]} ? read : {_zero(node.dtype)}; }})"

    def _is_affine(self, node: Node) -> bool:
        """Whether the indices of neighbouring elements have one distance, so that two of them tell of all between."""
        form = linear(node.args[0], self.params)
        return form is not None and form.factor != 0

    def _test_indices(self, is_affine: Callable[[Node], bool], dialect: Dialect) -> str:
        """Statements that find where the affine indices of a piece are in range.

        Those that grow by one tell of the elements between which they are; others raise the flag for the piece.
        """
        gathers = [node for node in self.program.nodes if node.op == "gather" and is_affine(node)]
        indices: list[tuple[Node, int, Node | None]] = [(node.args[0], node.attr, node) for node in gathers]
        indices += [(self._index(store), store.param, None) for store in self.indexed]
        if not indices:
            return ""
        masks = self.shared_masks if dialect is self.in_row else {}
        steps = [self._step_of_index(index, dialect) for index, *_ in indices]
        at_ends = [k for k, (index, *_) in enumerate(indices) if steps[k] not in (0, 1) or self._may_overflow(index)]
        head = f"  long long {', '.join(f'from{k} = 0' for k in at_ends)};\n" if at_ends else ""
        text = ""
        for is_end, places in ((False, range(len(indices))), (True, at_ends)):
            roots = [indices[k][0] for k in places]
            roots += [each for k in places for each in masks.get(id(indices[k][2]), ())]
            writer = Writer(self._leaf, self._gather, self._update, self.program.math, dialect)
            names: dict[int, str] = {}
            lines = writer.statements(sort_nodes(roots), names, "t")
            outside: dict[str, None] = {}  # each once, in their order
            narrow: dict[str, None] = {}
            for k in places:
                index, array, node = indices[k]
                name, shared = names[id(index)], [names[id(each)] for each in masks.get(id(node), ())]
                if steps[k] != 1:
                    test = f"((unsigned long long){name} >= (unsigned long long)n{array})"
                    lines.append(f"    xf_all |= {' & '.join((*shared, test))};")
                elif is_end:
                    lines.append(f"    xf_all |= {' & '.join((*shared, f'({name} != from{k} + m - 1)'))};")
                else:
                    outside[" & ".join((*shared, f"XF_OUTSIDE({name}, n{array})"))] = None
                    narrow[f"if ({' & '.join(shared) or 1}) XF_WITHIN({name}, n{array});"] = None
                if shared and not is_end:
                    pointer = f"a{list(masks).index(id(node))}"
                    lines.append(f"    {pointer} = {' & '.join(shared)} ? p{array} + {name} : {pointer};")
                if k in at_ends and not is_end:
                    lines.append(f"    from{k} = {name};")
            if outside:
                lines.append(f"    if ({' | '.join(outside)}) {{ {' '.join(narrow)} }}")
            if places:
                begin = f"  {{ const long long j = {'m - 1' if is_end else '0'};"
                text += "".join(f"{each}\n" for each in (begin, *lines, "  }"))
        return f"{head}{text}"

    def _step_of_index(self, index: Node, dialect: Dialect) -> int | None:
        if dialect is self.in_row:
            return self.steps[id(index)]
        form = linear(index, self.params)
        return None if form is None else form.factor

    def _may_overflow(self, index: Node) -> bool:
        """Whether an index that grows by a fixed number may jump, as in 32 bits."""
        return any(node.dtype.itemsize < 8 and self.steps[id(node)] != 0 for node in sort_nodes([index]))

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
    def _stores(self, dialect: Dialect) -> list[str]:
        lines = []
        is_careful, is_direct = dialect is self.careful, self._is_direct(dialect)
        for number, store in enumerate(self.program.stores):
            dtype = self._dtype(store.param)
            name = self.names[id(store.value)]
            value = name if store.param in self.halves else to_memory(name, dtype)
            if store.index is None:
                if is_complex(dtype) and self._is_buffered(store.param):
                    lines.append(f"or{store.param}[j] = {name}.x; oi{store.param}[j] = {name}.y;")
                elif is_complex(dtype):
                    to = self._element(store.param)
                    lines.append(f"{to}.x = {name}.x; {to}.y = {name}.y;")
                else:
                    is_kept = self._is_buffered(store.param) and not is_direct
                    to = f"or{store.param}[j]" if is_kept else self._element(store.param)
                    lines.append(f"{to} = {value};")
                continue
            index = self.names[id(store.index)]
            mask = "1" if store.mask is None else self.names[id(store.mask)]
            if number in self.late:
                note = "" if store.mask is None else f" m{number}[at + j] = {mask};"
                lines.append(f"k{number}[at + j] = {index}; w{number}[at + j] = {value};{note}")
                continue
            when = f"{mask} && {self._inside(index, store.param)}" if is_careful else mask
            lines.append(f"if ({when}) p{store.param}[{index}] = {value};")
        return lines

    def _scratch(self) -> str:
        """The arrays of the stores that wait, in the caller's memory: the widest elements first."""
        lines, at = [], 0
        for name, kind, size in sorted(
            [
                part
                for number in self.late
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
        """The statements of stores that wait: a loop looks whether anything is wrong, another one then tells what."""
        lines = []
        for number in self.late:
            store = self.program.stores[number]
            to, index, size = f"p{store.param}", f"k{number}[j]", self._dtype(store.param).itemsize
            each, mask = "  for (long long j = 0; j < n; ++j)", "1" if store.mask is None else f"m{number}[j]"
            outside = f"(unsigned long long){index} >= (unsigned long long)n{store.param}"
            lines += ["  {", "  int is_wrong = 0;", f"{each} is_wrong |= {mask} & ({outside});", "  if (is_wrong) {"]
            lines.append(f"{each} if ({mask}) (void)({self._inside(index, store.param)});")
            lines += ["  return;", "  }", f"{each} if ({mask}) {to}[{index}] = w{number}[j];"]
            if not is_distinct(self._index(store), self.params):
                site = self._site("stored", store.param)
                differs = f"xf_differs{size}(&{to}[{index}], &w{number}[j])"
                lines.append(f"{each} if ({mask} && {differs}) {{ xf_miss({site}, {index}); return; }}")
            lines.append("  }")
        return "".join(f"{each}\n" for each in lines)

    def _form(self) -> list[int]:
        """The facts of the function for the driver, ``xf_run``."""
        operands = []
        for number in self.elements:
            dtype, uses = self._dtype(number), (self.program.reads, self.program.writes)
            operands.append([dtype.itemsize, dtype.alignment, *(int(number in each) for each in uses), number])
        fixed = HEAD + len(self.raw) + len(self.facts)
        head = [len(operands), fixed, len(self.sites), self._least_in_place()]
        return [*head, *(each for operand in operands for each in operand)]


class _StepLoop:
    """A loop whose turns are done for `LANES` elements at a time.

    What is the same for all elements is computed once for all of them; where that holds for the loop's condition, they
    end together. Else an element that has ended keeps its values, and the last ones run on one by one.
    """

    def __init__(self, outer: _NativeWriter, node: Node, name: str, kept: dict[int, str]) -> None:
        self.outer, self.node, self.name, self.kept = outer, node, name, kept
        self.body = node.attr
        self.program = expand(self.body.program)
        carried = self.body.carried
        self.start, self.initial, self.captured = node.args[0], node.args[1 : 1 + carried], node.args[1 + carried :]
        self.results = [store.value for store in self.program.stores]
        self.shared: set[int] = set()
        """The nodes of the body that are the same for all elements, by identity."""
        self.same = self._find_same()
        """The variables that are the same for all elements."""
        self.is_together = self._is_same(self.start) and id(self.results[-1]) in self.shared
        if not self.is_together:
            self.same = set()
            self._share()
        self.early = {id(node): k for k, node in enumerate(self.program.nodes) if self._is_early(node)}
        """The gathers whose index no turn changes."""
        self.variables = [f"k_{name}_{number}" for number, _ in enumerate(self.initial)]

    def _is_same(self, node: Node) -> bool:
        """Whether a value of the program around the loop is the same for all elements."""
        nodes = sort_nodes([node])
        arrays = any(each.op == "load" and not self.outer.params[each.attr].is_scalar for each in nodes)
        return not arrays and not any(each.op in EFFECTS or each.op == "index" for each in nodes)

    def _find_same(self) -> set[int]:
        self.same = {number for number, each in enumerate(self.initial) if self._is_same(each)}
        while True:
            self._share()
            left = {number for number in self.same if id(self.results[number]) in self.shared}
            if left == self.same:
                return left
            self.same = left

    def _share(self) -> None:
        """Find what is the same for all elements, if some variables are."""
        self.shared = set()
        for node in self.program.nodes:
            if node.op == "load":
                number = node.attr
                if number < len(self.initial):
                    is_same = number in self.same
                else:
                    is_same = self._is_same(self.captured[number - len(self.initial)])
            else:
                is_same = all(id(each) in self.shared for each in node.args) and node.op not in _CALLS
            if is_same:
                self.shared.add(id(node))

    def count_gathers(self) -> int:
        """The gathers that are made anew for each element in each turn."""
        own = [node for node in self.program.nodes if node.op == "gather" and id(node) not in self.shared]
        return len(own) - len(self.early)

    def _is_early(self, node: Node) -> bool:
        if node.op != "gather" or id(node) in self.shared:
            return False
        nodes = sort_nodes([node.args[0]])
        carried = any(each.op == "load" and each.attr < len(self.initial) for each in nodes)
        return not carried and not any(each.op in EFFECTS or _has_fast_form(each) for each in nodes)

    def _input(self, node: Node) -> str:
        """A value from around the loop, or a variable."""
        if node.op != "load":
            return self.outer._leaf(node)
        number = node.attr
        if number < len(self.initial):
            return f"{self.name}_u{number}" if number in self.same else self._variable(number)
        return self._outer(self.captured[number - len(self.initial)])

    def _outer(self, node: Node) -> str:
        if id(node) in self.kept:
            return self.outer._read_buffer(self.kept[id(node)], node.dtype, "b" if self._is_same(node) else "j")
        return constant(node.attr, node.dtype) if node.op == "const" else self.outer._leaf(node)

    def _gather_once(self, node: Node, array: int, args: list[str]) -> str:
        index, *mask = args
        to = self.body.array(array)
        inside = " && ".join([*mask, f"(unsigned long long){index} < (unsigned long long)n{to}"])
        lost = " && ".join([*mask, f"(unsigned long long){index} >= (unsigned long long)n{to}"])
        return f"(xf_lost |= {lost}, {inside} ? {to_register(f'p{to}[{index}]', node.dtype)} : {_zero(node.dtype)})"

    def _gather_each(self, node: Node, array: int, args: list[str]) -> str:
        if id(node) not in self.early:
            return self.outer._gather_by(False, node, self.body.array(array), args)
        mask, k = args[1:], self.early[id(node)]
        inside = f"k_{self.name}_i{k}[j]"
        wrong = f"{mask[0]} > {inside}" if mask else f"!{inside}"
        value = f"(xf_flag |= {wrong}, {self.outer._read_buffer(f'k_{self.name}_g{k}', node.dtype)})"
        return self.outer._choose_read(value, node, mask)

    def _statements(self, nodes: Iterable[Node], names: dict[int, str], gather: Any, prefix: str) -> list[str]:
        outer = self.outer
        writer = Writer(self._input, gather, outer._update, outer.program.math, outer.fast)
        return writer.statements([*nodes], names, f"{self.name}{prefix}")

    def _begin(self) -> list[str]:
        """The statements that give an element its values before the first turn."""
        self.kept[id(self.node)] = f"k_{self.name}"
        for number, each in enumerate(self.initial):
            self.outer._make_buffer(f"{self.name}_{number}", each.dtype)
        lines = [self._assign(number, self._outer(each)) for number, each in enumerate(self.initial)]
        for node in self.program.nodes:
            if id(node) not in self.early:
                continue
            k, array = self.early[id(node)], self.body.array(node.attr)
            names: dict[int, str] = {}
            lines += self._statements(sort_nodes([node.args[0]]), names, self._gather_each, f"e{k}_")
            index = names[id(node.args[0])]
            inside = self.outer._make_buffer(f"{self.name}_i{k}", BOOL)
            found = self.outer._make_buffer(f"{self.name}_g{k}", node.dtype)
            lines.append(f"    {inside}[j] = (unsigned long long){index} < (unsigned long long)n{array};")
            value = to_register(f"p{array}[{inside}[j] ? {index} : 0]", node.dtype)
            lines.append(f"    {self.outer._write_buffer(found, node.dtype, value)}")
        return lines

    def _variable(self, number: int) -> str:
        return self.outer._read_buffer(self.variables[number], self.initial[number].dtype)

    def _assign(self, number: int, value: str) -> str:
        return f"    {self.outer._write_buffer(self.variables[number], self.initial[number].dtype, value)}"

    def text(self) -> str:
        """The loop for a piece."""
        names: dict[int, str] = {}
        shared = [node for node in self.program.nodes if id(node) in self.shared]
        each = [node for node in self.program.nodes if id(node) not in self.shared]
        common = self._statements(shared, names, self._gather_once, "s")
        turn = self._statements(each, names, self._gather_each, "v")
        *results, again = [names[id(result)] for result in self.results]
        has_flags = any(_has_fast_form(node) for node in each)
        mark = ["    xf_flags[j] |= xf_flag & xf_go;"] * has_flags
        turn = ["    int xf_flag = 0;"] * has_flags + turn
        begin = self._begin()
        lanes = f"  XF_INDEPENDENT\n  for (int j = b; j < b + {LANES}; ++j) {{"
        lines = [f"  for (int b = 0; b < m; b += {LANES}) {{", "  long long xf_turns = 0;"]
        lines.append("  int xf_lost = 0, xf_left = 0;")
        own = [number for number in range(len(self.initial)) if number not in self.same]
        if self.is_together:
            lines += [lanes, *begin, "  }"]
            for number in sorted(self.same):
                kind = c_type(self.initial[number].dtype)
                lines.append(f"  {kind} {self.name}_u{number} = {self._outer(self.initial[number])};")
            lines += [f"  for (bool xf_more = {self._outer(self.start)}; xf_more;) {{"]
            lines += ["  if (xf_turns++ >= xf_most) { xf_lost = 1; break; }", *common]
            lines += [lanes, *turn, *(["    const int xf_go = 1;"] * has_flags), *mark]
            lines += [self._assign(number, results[number]) for number in own]
            lines += ["  }", *(f"  {self.name}_u{number} = {results[number]};" for number in sorted(self.same))]
            lines += [f"  xf_more = {again};", "  }", lanes]
            lines += [self._assign(number, f"{self.name}_u{number}") for number in sorted(self.same)]
        else:
            go = self.outer._make_buffer(f"{self.name}_go", BOOL)
            lines += [*common, lanes, *begin, f"    {go}[j] = {self._outer(self.start)} & (j < m);"]
            lines += [f"    xf_left += {go}[j];", "  }", f"  while (xf_left > {FEW_LANES} && xf_turns < xf_most) {{"]
            chosen = [self._assign(n, f"xf_go ? {results[n]} : {self._variable(n)}") for n in own]
            lines += ["  ++xf_turns; xf_left = 0;", lanes, f"    const int xf_go = {go}[j];", *turn, *mark, *chosen]
            lines += [f"    {go}[j] = xf_go & {again};", f"    xf_left += {go}[j];", "  }", "  }"]
            lines += [f"  for (int j = b; xf_left && j < b + {LANES}; ++j) {{", "  long long xf_own = xf_turns;"]
            lines += [f"  for (int xf_go = {go}[j]; xf_go;) {{"]
            lines += ["  if (xf_own++ >= xf_most) { xf_flags[j] = 1; break; }", *turn]
            lines += [*mark, *(self._assign(n, results[n]) for n in own), f"  xf_go = {again};"]
            lines += ["  }", "  }", lanes]
        lines += ["    xf_flags[j] |= xf_lost;", "  }", "  }"]
        return "".join(f"{line}\n" for line in lines)


# The C functions that texts use.


@functools.cache
def section(name: str) -> str:
    """A section of ``native_source.c``."""
    return (
        read_sections(Path(__file__).with_suffix(".c"))[name][1]
        .replace("@AXES", str(MOST_AXES))
        .replace("@OPERANDS", str(MOST_OPERANDS))
        .replace("@PIECE", str(_MOST_PIECE))
    )


_BY_FLOAT = """\
F q = (F)x / (F)(y == 0 || y == NONE ? 1 : y);
  return y == 0 ? (T)0 : y == NONE ? MINUS : FABS(q) >= 1 ? (T)q : (T)0;"""
"""In a float type of twice the bits a quotient is never rounded up to an integer; and it is vectorised."""
_BY_INTEGER = "return y == 0 ? (T)0 : y == NONE ? MINUS : (T)(x / (y == 0 || y == NONE ? (T)1 : y));"


def _integer_functions(dtype: DType) -> str:
    bits, is_signed, kind = 8 * dtype.itemsize, dtype.kind == "i", c_type(dtype)
    text = section("integer") + (section("integer64") if bits == 64 else "")
    text = text.replace("QUOTIENT", _BY_INTEGER if bits == 64 else _BY_FLOAT).replace("NAME", dtype.name)
    meanings = {
        "MINUS": "(T)(0 - (U)x)" if is_signed else "x",
        "NONE": "-1" if is_signed else "1",
        "SHIFT": "(U)1 << 52" if is_signed else "0",
        "BITS": str(bits),
        "FABS": "fabs" if bits == 32 else "fabsf",
        "F": "double" if bits == 32 else "float",
        "P": "int" if is_signed else "unsigned int",
        "S": f"unsigned {kind.removeprefix('signed ')}" if is_signed else kind,
        "U": "unsigned long long" if bits == 64 else "unsigned int",
        "T": kind,
    }
    for name, meaning in meanings.items():
        text = re.sub(rf"\b{name}\b", meaning, text)
    return text


_TYPED = frozenset({"idiv", "imod", "floordiv", "floormod", "shl", "shr", "abs"})


def list_functions(program: Program) -> tuple[FunctionCall, ...]:
    nodes = [node for each in bodies(program) for node in expand(each).nodes]
    wanted = [node for node in nodes if node.op == "call" or (node.op == "fmod" and node.dtype != FLOAT64)]
    return tuple(sorted(set(map(_call_of, wanted))))


def list_parts(program: Program) -> list[str]:
    """The C functions that a program and the definitions of its functions need."""
    programs = [expand(each) for each in bodies(program)]
    own = own_functions(programs, is_any=True)
    programs += [each for function in own for each in (function.common, function.rare)]
    nodes: list[Any] = [node for each in programs for node in each.nodes]
    dtypes = {node.dtype for node in nodes} | {param.dtype for each in bodies(program) for param in each.params}
    parts = []
    if any(node.op in ("floor", "ceil", "trunc", "rint") for node in nodes):
        parts.append(section("rounding"))
    if any(node.op == "fmod" and node.dtype == FLOAT64 for node in nodes):
        parts.append(section("fmod"))
    if FLOAT16 in dtypes:
        parts += [section("half"), FMA_OF_HALF]
    if any(node.op == "narrow" for node in nodes):
        parts.append(section("bfloat16"))
    if any(node.op in ("min", "max") and is_float(node.dtype) for node in nodes) or any(
        node.op == "update" and node.attr.kind in ("min", "max") and is_float(node.dtype) for node in nodes
    ):
        parts.append(section("choice"))
    typed = {
        node.dtype.name: node.dtype
        for node in nodes
        if node.dtype.kind in "iu"
        and (node.op in _TYPED or operand_of_negation(node) or (node.op == "cast" and is_float(node.args[0].dtype)))
    }
    return [*parts, *(_integer_functions(dtype) for _, dtype in sorted(typed.items()))]
