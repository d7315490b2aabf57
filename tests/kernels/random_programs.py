"""Random programs of C++ for the differential test of snippets: valid, without undefined behaviour, each with an end.

A program is a preamble and an operation over the parameters `INPUTS` and `OUTPUTS`. Whatever it does is defined: each
variable has a value before it is read, divisors and shifts are bounded, floats become integers within a range, a
reference outlives nothing, a counter only moves towards the end of its loop, and no expression reads what another part
of it changes. So a compiler and a front end may differ in nothing.

Most of what it writes are templates whose holes `_Writer.hole` fills: the grammar is the tables of templates.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

INPUTS = "T x, int32 k, raw T a"
OUTPUTS = "T y, int32 z, raw T w"
"""``w`` has two elements for each of the others."""
ELEMENTS = 8
"""Of the array ``a``."""
NAMED = (
    "M_PI", "NAN", "INFINITY", "FLT_MAX", "FLT_MIN", "FLT_EPSILON", "DBL_MAX", "DBL_EPSILON", "INT_MAX", "INT_MIN",
    "UINT_MAX", "LLONG_MAX", "CUDART_PI", "CHAR_BIT", "M_E", "HUGE_VAL", "_J", "_ind", "n", "SHRT_MAX",
)  # fmt: skip
"""Names with a meaning of their own, which a program's variables take all the same."""
FIXED = """
int to_int(double v) { if (!(v > -1000.0)) return -1000; if (v > 1000.0) return 1000; return (int)v; }
template <typename V> void exchange(V &p, V &q) { V t = p; p = q; q = t; }
template <typename V> void order(V &p, V &q) { if (q < p) exchange(p, q); }
template <typename V> V median(V p, V q, V r) { order(p, q); order(q, r); order(p, q); return q; }
template <typename V> void raise(V &v, V by) { V &w = v; w += by; }
void step(int &c) { c += 1; }
void step_back(int *c) { *c -= 1; }
void bump(int &v) { v += 1; }
void bump(T &v) { v = v / 2 + 1; }
template <typename V> bool bump(V *v, int by) { typedef V R; R &w = v[0]; w += by; return w > 3; }
template <typename V> const V &larger(const V &p, const V &q) { return p < q ? q : p; }
template <typename V> V &pick(V *p, int at) { return p[at & 1]; }
template <typename V> V &same(V &p) { if (p > 3) { return p; } V &q = p; return q; }
#define TWICE(v) ((v) + (v))
#define ADD_TO(v, by) { auto &target = v; target += by; }
enum Level { LOW, HIGH = 3 };
static const int STEPS[4] = {1, 2, 4, 8};
constexpr float HALF = 0.5f;
"""
OPERATORS = """
{P} operator+(const {P} &p, const {P} &q) {{ {P} r = p; r.{g} += q.{g}; r.{h} += q.{h}; return r; }}
{P} &operator+=({P} &p, const {P} &q) {{ p.{g} += q.{g}; p.{h} += q.{h}; return p; }}
bool operator<(const {P} &p, const {P} &q) {{ return p.{g} < q.{g}; }}
"""
_INTS = ("int", "int", "int", "unsigned", "short", "long long")
_FLOATS = ("T", "T", "float", "double")
_Any = TypeVar("_Any")

CONDITIONS = [
    *[f"({{{one}}} {sign} {{{one}}})" for one in "if" for sign in ("<", "<=", ">", ">=", "==", "!=")],
    *["({c} && {c})", "({c} || {c})", "!{c}"] * 3,
]
INTEGERS = [
    "({i} + {i})",
    "({i} - {i})",
    "({i} * {i})",
    "({i} & {i})",
    "({i} ^ {i})",
    "({i} | {i})",
    "(({i} >> 1) / (({i} & 7) + 1))",
    "(({i} >> 1) % (({i} & 7) + 1))",  # g++ may negate the divisor: INT_MIN / -1
    "({i} << ({i} & 3))",
    "({i} >> ({i} & 3))",
    "({c} ? {i} : {i})",
    "to_int({f})",
    "STEPS[{i} & 3]",
    "TWICE({i})",
    "(HIGH + {i})",
    "sizeof({alias})",
    *["{pure}"] * 3,
    "({K})({i})",
]
FLOATS = [
    "({f} + {f})",
    "({f} - {f})",
    "({f} * {f})",
    "({f} / {f})",
    "({c} ? {f} : {f})",
    "(T)({i})",
    "median<T>({f}, {f}, {f})",
    "larger<T>({f}, {f})",
    "TWICE({f})",
    "(HALF * {f})",
    *["{pure}"] * 2,
    "-({f})",
]
_NUMBER = "T int float"
_ALL = "int unsigned short T float double bool T int"
STATEMENTS = [
    (3, _ALL, "{Y} {n} = {v};", "number"), (1, "long-long", "{K} {n} = {v};", "number"),
    (1, _ALL, "const {Y} {n} = {v};", "const"), (1, _ALL, "auto {n} = ({K})({v});", "number"),
    (1, _ALL, "{Y} {n}(({K})({v}));", "number"),
    (1, "*", "{Y} &{n} = {p};", "number"), (1, "*", "auto &{n} = {p};", "number"),
    (1, "*", "const {Y} &{n} = {r};", "const"), (1, "*", "{Y} const &{n} = {r};", "const"),
    (1, "T int float double", "const {K} &{n} = {v};", "const"),
    (1, "*", "{K} *{n} = &{p};", "pointer 1"), (1, "*", "auto *{n} = &{p};", "pointer 1"),
    (1, "struct", "{K} &{n} = {s};", "struct"), (1, "struct", "{K} *{n} = {address};", "struct pointer"),
    (3, "struct", "{K} {n} = {made};", "struct"),
    (1, _NUMBER, "{K} {n}[2] = {({K})({v}), ({K})({v})};", "array 2"),
    (1, _NUMBER, "{K} {n}[3] = {({K})({v}), ({K})({v})};", "array 3"),
    (1, _NUMBER, "{K} {n}[4] = {({K})({v})};", "array 4"),
    (2, "", "if ({c}) {B}", ""), (1, "", "if ({c}) {B} else {B}", ""), (1, "", "if ({c}) {B} else if ({c}) {B}", ""),
    (1, "", "if ({c}) {B} else if ({c}) {B} else {B}", ""), (1, "", "{B}", ""),
    (1, _NUMBER, "{const} {K} {n} = {k};", "const"),
    (1, "int", "int {n} = {p}++;", "number"), (1, "int", "int {n} = ({p} += 2);", "number"),
    (1, "int", "int {n} = {c} ? {p}++ : 7;", "number"), (1, "int", "bool {n} = {c} && ++{p} > 0;", "bool"),
    (1, "int", "bool {n} = {c} || {p}-- > 0;", "bool"),
    (1, _NUMBER, "({c} ? {p} : {p}) = {v};", ""), (1, _NUMBER, "raise<{K}>({c} ? {p} : {p}, {v});", ""),
    (1, _NUMBER, "{K} *{n} = {c} ? &{p} : &{p};", "pointer 1"), (1, _NUMBER, "{K} &{n} = {c} ? {p} : {p};", "number"),
    (1, _NUMBER, "pick({a}, {i}) = {v};", ""), (1, _NUMBER, "same({p}) = {v};", ""), (1, _NUMBER, "++same({p});", ""),
    (1, _NUMBER, "{K} &{n} = same({p});", "number"), (1, _NUMBER, "{K} &{n} = ++{p};", "number"),
    (1, _NUMBER, "{K} &{n} = ({p} += 1);", "number"),
    (1, "operators", "{s} += {s};", ""), (1, "operators", "({s} += {s}) += {s};", ""),
    (1, "operators", "bool {n} = {s} < {s};", "bool"), (1, "operators", "{K} {n} = {s} + {s} + {s};", "struct"),
    (1, "operators", "{K} &{n} = {s} += {s};", "struct"),
    (1, _NUMBER, "{K} {n} = {v}, {m} = {n};", "number, number"),
    (1, _NUMBER, "{K} {n}({v}), {m}({n} + 1);", "number, number"),
    (1, _NUMBER, "{K} {n} = {v}, *{m} = &{n};", "number, pointer 1"),
    (1, "T int", "{K} {n}[2][3] = { {1, 2, 3}, {4, 5} }; {n}[1][{i} & 1] += 2; {n}[{i} & 1][2] = 7;", "table"),
    (1, "", "if ({z}) {B} else if ({z}) {B}", ""), (1, "", "if ({c} && ({z} || {z})) {B}", ""),
    (1, "", "{c} ? {z} : {z};", ""),
    (1, "", "switch ({z} + 2 * {c}) { case 0: { {z}; } case 2: {B} break; default: ; }", ""),
    (1, "", "for (int {C} = 0; {C} < 5 && {z}; step({C})) {z};", ""),
    (1, "", "{ int {C} = 3; do {z}; while (--{C} > 0 && ({z} || {c})); }", ""),
    (1, "", "bool {n} = {c} ? {z} : {z};", "bool"), (1, "", "bool {n} = {z} && {z};", "bool"),
    (1, "", "bool {n} = ({z}, {z});", "bool"),
    (1, "", "if ({c}) {A} else if ({c}) {A} else ;", ""), (1, "", "if ({c}) if ({c}) {A} else {A}", ""),
    (1, "", "for (int {C} = 0; {C} < ({i} & 3); ++{C}) {A}", ""),
    (1, "", "for (int {C} = 0; {C} < 2; {C} += 1) if ({c}) {A}", ""),
    (1, "int T", "bump({p});", ""), (1, "T int", "exchange({p}, {p});", ""), (1, "T int", "order({p}, {p});", ""),
    (1, "T int", "raise<{K}>({p}, {v});", ""),
]  # fmt: skip
"""Weight, kinds of which one is ``{K}``, template, and kinds and sizes of its names ``{n}`` and ``{m}`` behind it."""
LOOPS = [
    ("for (int {C} = 0; {C} < {bound}; {C}++) {L}", 1), ("for (int {C} = {bound}; {C} > 0; --{C}) {L}", -1),
    ("int {C} = {bound}; while ({C}-- > 0 && {c}) {L}", -1), ("int {C} = 0; do {L} while (++{C} < {bound});", 1),
    ("int {C} = 0; for (;;) { if (++{C} > {bound}) break; {L} }", 1),
]  # fmt: skip
"""Templates, and the direction in which the counter moves."""
MOVES = {
    1: ("{ int &@ = #; @ += 1; }", "{ int *@ = &#; *@ += 1; }", "{ int &@ = #; int &@0 = @; ++@0; }", "step(#);",
        "{ auto &@ = #; @++; }"),
    -1: ("{ int &@ = #; @ -= 1; }", "{ int *@ = &#; *@ -= 1; }", "{ int &@ = #; int &@0 = @; --@0; }", "step_back(&#);",
         "{ auto &@ = #; @--; }"),
}  # fmt: skip
"""Statements that move a counter ``#`` by a name ``@``."""


class _Unfit(Exception):
    """Nothing visible fits a hole of a template."""


@dataclass(frozen=True)
class Var:
    """A variable by its name, or a place by an expression."""

    text: str
    type: str
    kind: str = "number"
    """``number``, ``pointer``, ``array``, ``struct`` or ``struct pointer``."""
    is_writable: bool = True
    size: int = 0


@dataclass(frozen=True)
class Param:
    type: str
    passing: str
    """``value``, ``reference``, ``const reference``, ``pointer`` or ``array``."""
    size: int = 0


@dataclass
class Function:
    name: str
    returns: str
    """A type, or ``void``."""
    params: list[Param]
    is_pure: bool
    is_chained: bool = False
    """Whether it is a method that returns ``*this`` by reference."""


@dataclass
class Struct:
    name: str
    members: list[tuple[str, str]]
    has_constructor: bool = False
    inner: str | None = None
    """The type of its member ``inner``."""
    has_operators: bool = False
    methods: list[Function] = field(default_factory=list)


@dataclass(frozen=True)
class Program:
    seed: int
    preamble: str
    operation: str
    has_elements: bool
    """Whether it writes ``w``."""
    gives_outputs: bool
    """Whether the outputs are given with contents; otherwise each path writes them."""

    def __str__(self) -> str:
        outputs = "given" if self.gives_outputs else "omitted"
        return f"seed {self.seed}, outputs {outputs}\n{self.preamble}\n---\n{self.operation}"


def outputs(each: Program) -> str:
    """The parameters that a program writes."""
    return OUTPUTS if each.has_elements else OUTPUTS.rpartition(",")[0]


def program(seed: int, functions: Iterable[str] = ()) -> Program:
    """The program of a seed.

    Args:
        seed: Of the random numbers.
        functions: Expressions like ``"sin({f})"`` that may take part: a compiler's differ in their last bits.
    """
    return _Writer(seed, functions).program()


def unit(programs: list[Program], number: str) -> str:
    """A translation unit of the programs, for elements of a type ``number``, and a function that runs one of them."""
    undefined = "\n".join(f"#undef {name}" for name in NAMED)
    pieces = [f"#include <cmath>\n#include <climits>\n#include <cfloat>\n{undefined}\n"]
    for at, each in enumerate(programs):
        pieces.append(
            f"namespace p{at} {{ typedef {number} T;\n{each.preamble}\n"
            "void kernel(const long i, const T x, const int k, const T *a, T &y, int &z, T *w) "
            f"{{\n{each.operation}\n}} }}"
        )
    table = ", ".join(f"p{at}::kernel" for at in range(len(programs)))
    pieces.append(
        f"typedef {number} N; typedef void Kernel(const long, const N, const int, const N *, N &, int &, N *);\n"
        f"static Kernel *const kernels[] = {{{table}}};\n"
        'extern "C" void run(int at, int count, const N *x, const int *k, const N *a, N *y, int *z, N *w)\n'
        "{ for (int e = 0; e < count; ++e) kernels[at](e, x[e], k[e], a, y[e], z[e], w); }"
    )
    return "\n".join(pieces)


class _Writer:
    """Writes one program."""

    def __init__(self, seed: int, functions: Iterable[str] = ()) -> None:
        self.seed = seed
        self.floats = [*FLOATS, *functions]
        self.rng = random.Random(seed)
        self.count = 0
        self.scopes: list[dict[str, Var]] = [{}]
        self.aliases: list[dict[str, str]] = [{}]
        self.functions: list[Function] = []
        self.structs: dict[str, Struct] = {}
        self.loops = self.budget = 0
        self.returns: str | None = None
        """The type that the function around a statement returns; None in the operation."""
        self.counters: list[tuple[str, int]] = []
        """The counters of the loops around, and their directions."""
        self.in_switch = self.may_leave = self.writes_all = False
        self.self_type: Struct | None = None

    # --- choices
    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def one(self, choices: Sequence[_Any]) -> _Any:
        if not choices:
            raise _Unfit
        return self.rng.choice(choices)

    def fresh(self, beginning: str) -> str:
        self.count += 1
        return f"{beginning}{self.count}"

    def name(self, text: str = "") -> str:
        """A name for a declaration in a text, which does not use it."""
        taken = {*self.scopes[-1], *(self.scopes[0] if len(self.scopes) == 2 else ())}  # of a function's parameters too
        outer = [each for scope in self.scopes[:-1] for each in scope if each.isidentifier()]
        outer = [each for each in outer if each not in ("x", "k", "a", "y", "z") and not each.startswith("c")]
        free = [each for each in (*NAMED, *outer) if each not in taken and each not in text]
        return self.rng.choice(free) if free and self.chance(0.2) else self.fresh("v")

    def type_name(self, kind: str) -> str:
        """A name for a type, perhaps by an alias in force."""
        meant = {name: each for scope in self.aliases for name, each in scope.items()}
        fitting = [name for name, each in meant.items() if each == kind]
        return self.rng.choice(fitting) if fitting and self.chance(0.5) else kind

    @contextmanager
    def block(self) -> Iterator[None]:
        depth = len(self.scopes)
        self.scopes.append({})
        self.aliases.append({})
        try:
            yield
        finally:
            del self.scopes[depth:], self.aliases[depth:]

    def visible(self, *kinds: str) -> list[Var]:
        found: dict[str, Var] = {}
        for scope in self.scopes:
            found |= scope
        return [each for each in found.values() if not kinds or each.kind in kinds]

    # --- places
    def places(self, kinds: Container[str], *, writable: bool) -> list[Var]:
        """The places of numbers of these types."""
        found = [part for var in self.visible() for part in self.parts(var)]
        return [each for each in found if each.type in kinds and (each.is_writable or not writable)]

    def parts(self, var: Var) -> list[Var]:
        if var.kind == "number":
            return [var]
        if var.kind in ("pointer", "array"):
            texts = [f"(*{var.text})", f"{var.text}[0]"] if var.size <= 1 else [f"{var.text}[{self.index(var.size)}]"]
            return [Var(each, var.type, "number", var.is_writable) for each in texts]
        dot, struct = "->" if var.kind == "struct pointer" else ".", self.structs[var.type]
        found = [Var(f"{var.text}{dot}{name}", kind, "number", var.is_writable) for kind, name in struct.members]
        if struct.inner is not None:
            found += self.parts(Var(f"{var.text}{dot}inner", struct.inner, "struct", var.is_writable))
        return found

    def index(self, size: int) -> str:
        plain = [each.text for each in self.visible("number") if each.type in ("int", "unsigned")]
        if size & (size - 1) or not plain or self.chance(0.5):
            return str(self.rng.randrange(size))
        return f"{self.rng.choice(plain)} & {size - 1}"

    # --- templates
    def fill(self, template: str, kind: str = "", depth: int = 1, declares: str = "") -> str:
        """Fill the holes of a template for a type ``kind``, and declare its names."""
        counter = self.fresh("c") if "{C}" in template else ""
        text = re.sub(r"\{([a-zA-Z]+)\}", lambda found: self.hole(found[1], kind, depth) or found[0], template)
        names = []
        for each in ("{n}", "{m}"):
            if each in template:
                names.append(self.name(text))
                text = text.replace(each, names[-1])
        for name, what in zip(names, declares.split(", "), strict=False):
            plain, size = (what[:-2], int(what[-1])) if what[-1].isdigit() else (what, 0)
            place = f"{name}[1][{self.rng.randrange(3)}]" if what == "table" else name
            is_number = plain in ("const", "bool", "table")
            self.scopes[-1][name] = Var(
                place, "bool" if what == "bool" else kind, "number" if is_number else plain, what != "const", size
            )
        return text.replace("{C}", counter)

    def hole(self, what: str, kind: str, depth: int) -> str:
        """Text for a hole; nothing for the names, which follow."""
        match what:
            case "K":
                return kind or self.rng.choice(_INTS)
            case "Y":
                return self.type_name(kind)
            case "v":
                return self.number(kind, depth)
            case "i" | "f" | "c":
                return self.number({"i": "int", "f": "T", "c": "bool"}[what], depth - 1)
            case "p" | "r":
                return self.one(self.places((kind,), writable=what == "p")).text
            case "a":
                arrays = [each for each in self.visible("array", "pointer") if each.type == kind and each.size > 1]
                return self.one([each for each in arrays if each.is_writable]).text
            case "s" | "address":
                var = self.one([each for each in self.visible("struct", "struct pointer")
                                if each.type == kind and each.is_writable])  # fmt: skip
                is_pointer, sign = var.kind == "struct pointer", "&" if what == "address" else "*"
                return (
                    var.text
                    if is_pointer == (what == "address")
                    else f"({sign}{var.text})"
                    if is_pointer
                    else f"&{var.text}"
                )
            case "made":
                return self.struct_value(self.structs[kind])
            case "z":
                return self.impure()
            case "B" | "L":
                with self.block():
                    moved = self.move_counter() if what == "L" and self.chance(0.3) else ""
                    return f"{{ {self.statements(1, 3)} {moved} }}"
            case "A":
                return self.assignment()
            case "pure":
                wanted = _INTS if kind == "int" else _FLOATS
                found = [each for each in self.functions if each.is_pure and each.returns in wanted]
                return self.called(self.one(found), depth - 1)
            case "alias":
                return self.rng.choice([*(name for scope in self.aliases for name in scope), "T"])
            case "const":
                return self.rng.choice(("const", "static const", "constexpr", "static constexpr"))
            case "k":
                return self.rng.choice(("3", "7", "2") if kind == "int" else ("0.5f", "1.5f", "2.0f"))
            case "bound":
                return self.rng.choice(
                    ("1", "2", "3", *[f"(({self.number('int', 1)}) & {most})" for most in (1, 3, 7)])
                )
        return ""

    # --- expressions
    def number(self, kind: str, depth: int) -> str:
        kinds, family = (_INTS, "int") if kind in _INTS else (_FLOATS, "T")
        if kind == "bool":
            table, family = CONDITIONS if depth > 0 else CONDITIONS[:12], "bool"
            depth = depth if depth > 0 else 1
        elif depth <= 0 or self.chance(0.2):
            found = self.places((*kinds, "bool") if family == "int" else kinds, writable=False)
            constants: tuple[str, ...] = ("0", "1", "2", "3", "5", "-1", "-7", "1000", "12u", "0x7f")
            if family == "T":
                constants = ("0.5", "1.25f", "-2.0", "3", "1e3f", "0.1", "-0.75f", "7.0f")
            return self.rng.choice(found).text if found and self.chance(0.8) else self.rng.choice(constants)
        else:
            table = INTEGERS if family == "int" else self.floats
        template = self.rng.choice(table)
        try:
            return self.fill(template, "" if "{K}" in template else family, depth)
        except _Unfit:
            return self.number(kind, 0)

    def struct_value(self, struct: Struct) -> str:
        made = [each.text for each in self.visible("struct") if each.type == struct.name]
        if made and self.chance(0.4):
            return self.rng.choice(made)
        values = ", ".join(f"({kind})({self.number(kind, 1)})" for kind, _ in struct.members)
        if struct.inner is not None:
            values += f", {self.struct_value(self.structs[struct.inner])}"
        return f"{struct.name}({values})" if struct.has_constructor else f"{struct.name}{{{values}}}"

    def argument(self, param: Param, depth: int) -> str:
        by_const = param.passing == "const reference"
        if param.passing == "value" or (by_const and self.chance(0.4)):
            struct = self.structs.get(param.type)
            return self.struct_value(struct) if struct else self.number(param.type, depth)
        if param.type in self.structs:
            return self.hole("address" if param.passing == "pointer" else "s", param.type, depth)
        pointers = [each for each in self.visible("pointer", "array") if each.type == param.type and each.is_writable]
        if param.passing == "array":
            return self.one([each for each in pointers if each.size >= param.size]).text
        if param.passing == "pointer":
            texts = [each.text for each in pointers if each.kind == "pointer"]
            return self.rng.choice(texts) if texts and self.chance(0.4) else self.fill("&{p}", param.type)
        return self.fill("{r}" if by_const else "{p}", param.type)

    def called(self, function: Function, depth: int = 1, owner: str = "") -> str:
        return f"{owner}{function.name}({', '.join(self.argument(each, depth) for each in function.params)})"

    def impure(self) -> str:
        """A condition that changes variables."""
        fitting = [each for each in self.functions if not each.is_pure and each.returns in ("T", "int", "float")]
        if fitting and self.chance(0.6):
            return f"({self.called(self.rng.choice(fitting))} > 1)"
        return f"bump(&{self.one(self.places(('int', 'T'), writable=True)).text}, {self.rng.randrange(3)})"

    # --- statements
    def statements(self, least: int, most: int) -> str:
        return "\n".join(self.statement() for _ in range(self.rng.randint(least, most)))

    def statement(self) -> str:
        self.budget -= 1
        forms: list[tuple[int, Callable[[], str]]] = [
            (34, self.row), (5, self.assignment), (2, self.pointer), (5, self.call), (2, self.alias_block),
            (1, self.switch), (4, self.exit), (3, self.move_counter), (5 if self.loops < 2 else 0, self.loop),
        ]  # fmt: skip
        try:
            if self.budget >= 0:
                return self.rng.choices([each for _, each in forms], [weight for weight, _ in forms])[0]()
        except _Unfit:
            pass
        return self.assignment()

    def row(self) -> str:
        _, kinds, template, declares = self.rng.choices(STATEMENTS, [each[0] for each in STATEMENTS])[0]
        if kinds == "*":
            kind = self.one(self.places((*_INTS, *_FLOATS, "bool"), writable=True)).type
        elif kinds in ("struct", "operators"):
            found = [each for each in self.structs.values() if each.has_operators or kinds == "struct"]
            kind = self.one(found).name
        else:
            kind = self.rng.choice(kinds.split() or [""]).replace("-", " ")
        depth = 2 if declares and kind not in self.structs else 1
        return self.fill(template, kind, depth, declares)

    def assignment(self) -> str:
        found = self.places((*_INTS, *_FLOATS, "bool"), writable=True)
        if not found:
            return ";"
        place = self.rng.choice(found)
        signs: tuple[str, ...] = ("=", "=", "+=", "-=", "*=")
        if place.type in _INTS:
            if self.chance(0.15):
                return self.rng.choice((f"++{place.text};", f"{place.text}--;"))
            signs = ("=", "+=", "-=", "*=", "^=", "|=", "&=", "<<=")
        sign = "=" if place.type == "bool" else self.rng.choice(signs)
        return f"{place.text} {sign} {self.number(place.type, 2) if sign != '<<=' else 1};"

    def pointer(self) -> str:
        array = self.one(self.visible("array"))
        start = self.rng.randrange(array.size)
        text = self.rng.choice((f"{array.text} + {start}", f"&{array.text}[{start}]"))
        name = self.name(text)
        self.scopes[-1][name] = Var(name, array.type, "pointer", array.is_writable, array.size - start)
        return f"{'' if array.is_writable else 'const '}{array.type} *{name} = {text};"

    def alias_block(self) -> str:
        """A block with a name for a type, which hides one of the same name outside."""
        with self.block():
            name = self.rng.choice(("R", "S", "Real", "Whole"))
            meant = self.rng.choice(("float", "double", "int", "T", "short", "unsigned"))
            written = self.type_name(meant)
            self.aliases[-1][name] = meant
            text = f"typedef {written} {name};" if self.chance(0.5) else f"using {name} = {written};"
            value = self.fill(name + " {n} = {v};", meant, 2, "number")
            return f"{{ {text} {value} {self.statements(1, 3)} }}"

    def switch(self) -> str:
        value, was = self.number("int", 1), self.in_switch
        self.in_switch = True
        labels = [f"case {each}" for each in self.rng.sample(range(4), self.rng.randint(1, 3))]
        if self.chance(0.7):
            labels.insert(self.rng.randrange(len(labels) + 1), "default")
        cases = [f"{each}: {self.fill('{B}')} {'break;' if self.chance(0.7) else ''}" for each in labels]
        self.in_switch = was
        return f"switch (({value}) & 3) {{ {' '.join(cases)} }}"

    def result(self) -> str:
        """A statement that ends the function."""
        if self.returns is None:
            return self.fill("y = {f}; z = {i}; return;", depth=3) if self.writes_all else "return;"
        if self.returns in ("void", "self"):
            return "return;" if self.returns == "void" else "return *this;"
        struct = self.structs.get(self.returns)
        return f"return {self.struct_value(struct) if struct else self.number(self.returns, 2)};"

    def exit(self) -> str:
        if self.loops and self.chance(0.7):
            return self.fill("if ({c}) ") + f"{self.rng.choice(['continue', *['break'] * (not self.in_switch)])};"
        return self.fill("if ({c}) ") + f"{{ {self.result()} }}" if self.may_leave else self.assignment()

    def move_counter(self) -> str:
        """Move a loop's counter towards its end, by a reference, a pointer or a function."""
        shown = {each.text for each in self.visible()}
        counter, direction = self.one([each for each in self.counters if each[0] in shown])
        text = self.rng.choice(MOVES[direction]).replace("@", self.name(counter)).replace("#", counter)
        return self.fill("if ({c}) ") + text if self.chance(0.5) else text

    def loop(self) -> str:
        was, counter = (self.in_switch, len(self.counters)), self.fresh("c")
        template, direction = self.rng.choice(LOOPS)
        template = template.replace("{C}", counter).replace("{bound}", self.hole("bound", "", 1))
        self.in_switch = False
        self.loops += 1
        try:
            with self.block():
                self.scopes[-1][counter] = Var(counter, "int", is_writable=False)
                self.counters.append((counter, direction))
                return f"{{ {self.fill(template)} }}"
        finally:
            self.loops -= 1
            self.in_switch = was[0]
            del self.counters[was[1] :]

    # --- calls
    def call(self) -> str:
        if self.chance(0.5):
            return self.method_call()
        function = self.one(self.functions)
        return self.used(self.called(function), function.returns)

    def used(self, text: str, returns: str) -> str:
        if returns == "void" or self.chance(0.2):
            return f"{text};"
        found = [each.text for each in self.places((returns,), writable=True) if each.text.isidentifier()]
        if found and self.chance(0.4):
            return f"{self.rng.choice(found)} {self.rng.choice(('=', '+='))} {text};"
        name = self.name(text)
        self.scopes[-1][name] = Var(name, returns, "struct" if returns in self.structs else "number")
        return f"{returns} {name} = {text};"

    def method_call(self) -> str:
        calls = [
            (f"{each.text}{'->' if each.kind == 'struct pointer' else '.'}", method)
            for each in self.visible("struct", "struct pointer")
            if each.is_writable
            for method in self.structs[each.type].methods
        ]
        if self.self_type is not None:
            calls += [(self.rng.choice(("", "this->")), method) for method in self.self_type.methods]
        owner, method = self.one(calls)
        text = self.called(method, owner=owner)
        if not method.is_chained:
            return self.used(text, method.returns)
        return f"{self.called(method, owner=f'{text}.')};" if self.chance(0.5) else f"{text};"

    # --- definitions
    def parameter(self, is_pure: bool) -> Param:
        if self.structs and self.chance(0.25):
            ways = ["value", "const reference"] + ([] if is_pure else ["reference", "pointer"])
            return Param(self.rng.choice([*self.structs]), self.rng.choice(ways))
        kind = self.rng.choice(("T", "int", "T", "int", "float", "unsigned"))
        if is_pure:
            return Param(kind, self.rng.choice(("value", "value", "const reference")))
        passing = self.rng.choice(("value", "reference", "reference", "const reference", "pointer", "array"))
        return Param(kind, passing, self.rng.choice((2, 3)) if passing == "array" else int(passing == "pointer"))

    def bound(self, params: list[Param]) -> tuple[dict[str, Var], list[str]]:
        """The variables of parameters, and the texts that declare them."""
        scope: dict[str, Var] = {}
        texts = []
        for each in params:
            name = next(name for name in iter(self.name, None) if name not in scope)
            is_struct, is_pointer = each.type in self.structs, each.passing in ("pointer", "array")
            kind = " ".join(["struct"] * is_struct + ["pointer"] * is_pointer) or "number"
            sign = "*" if is_pointer else "&" if "reference" in each.passing else ""
            is_const = each.passing == "const reference"
            texts.append(f"{'const ' if is_const else ''}{each.type} {sign}{name}")
            scope[name] = Var(name, each.type, kind, not is_const, 0 if is_struct else each.size)
        return scope, texts

    def function_body(self, scope: dict[str, Var], returns: str) -> str:
        saved = self.scopes, self.aliases, self.budget, self.returns
        self.scopes, self.aliases = [scope], [dict(self.aliases[0])]
        self.budget, self.returns, self.may_leave = self.rng.randint(2, 8), returns, True
        with self.block():
            text = f"{{ {self.statements(1, 4)} {'' if returns == 'void' else self.result()} }}"
        self.scopes, self.aliases, self.budget, self.returns = saved
        self.may_leave = False
        return text

    def function(self) -> str:
        name, is_pure = self.fresh("f"), self.chance(0.35)
        returns = self.rng.choice(("T", "int", "float", "T", *(["void", "void"] if not is_pure else [])))
        if self.structs and self.chance(0.15):
            returns = self.rng.choice([*self.structs])
        params = [self.parameter(is_pure) for _ in range(self.rng.randint(1, 3))]
        scope, texts = self.bound(params)
        body, head = self.function_body(scope, returns), ""
        exact = [
            at for at, each in enumerate(params) if each.passing in ("reference", "pointer") and each.type == "int"
        ]
        if exact and self.chance(0.5):  # a template, whose argument says the type exactly
            head = "template <typename V> "
            texts[exact[0]] = texts[exact[0]].replace("int", "V", 1)
        self.functions.append(Function(name, returns, params, is_pure))
        return f"{head}{returns} {name}({', '.join(texts)}) {body}"

    def struct_definition(self) -> str:
        last, name = next(reversed(self.structs), None), self.fresh("P")
        members = [(self.rng.choice(("T", "int", "float")), f"{letter}{self.count}") for letter in "gh"]
        if self.chance(0.15):
            members[0] = (members[0][0], self.rng.choice(("M_PI", "INT_MAX", "n")))
        struct = Struct(name, members, has_constructor=self.chance(0.4))
        if last is not None and self.chance(0.4):
            struct.has_constructor, struct.inner = False, last
        lines = [f"{kind} {each};" for kind, each in members]
        if struct.inner is not None:
            lines.append(f"{struct.inner} inner;")
        if struct.has_constructor:
            (one, g), (two, h) = members
            lines.append(f"{name}({one} w0, {two} w1) : {g}(w0), {h}(w1) {{}}")
        self.structs[name] = struct
        lines += [self.method(struct) for _ in range(self.rng.randint(0, 3))]
        struct.has_operators = self.chance(0.4)
        operators = OPERATORS.format(P=name, g=members[0][1], h=members[1][1]) if struct.has_operators else ""
        return f"struct {name} {{ {' '.join(lines)} }};{operators}"

    def method(self, struct: Struct) -> str:
        name, returns = self.fresh("g"), self.rng.choice(("void", "T", "int", "self", struct.name))
        params = [self.parameter(is_pure=False) for _ in range(self.rng.randint(0, 2))]
        scope, texts = self.bound(params)
        own = {}
        for kind, each in struct.members:
            by_this = f"this->{each}"
            own[by_this if each in scope else each] = Var(by_this if each in scope or self.chance(0.3) else each, kind)
        self.self_type = struct
        body = self.function_body({**own, **scope}, returns)
        self.self_type = None
        struct.methods.append(Function(name, returns, params, is_pure=False, is_chained=returns == "self"))
        return f"{f'{struct.name} &' if returns == 'self' else returns} {name}({', '.join(texts)}) {body}"

    def program(self) -> Program:
        lines = [FIXED]
        if self.chance(0.3):
            self.aliases[0]["R"] = self.rng.choice(("float", "double", "int"))
            lines.append(f"typedef {self.aliases[0]['R']} R;")
        lines += [self.struct_definition() for _ in range(self.rng.choice((0, 1, 1, 2)))]
        lines += [self.function() for _ in range(self.rng.randint(0, 4))]
        fixed = (
            Var("x", "T", is_writable=False),
            Var("k", "int", is_writable=False),
            Var("a", "T", "array", False, ELEMENTS),
        )
        self.scopes = [{each.text: each for each in fixed}, {}]
        self.aliases.append({})
        gives_outputs, first = self.chance(0.5), ""
        self.writes_all, self.may_leave, self.budget = not gives_outputs, True, self.rng.randint(4, 16)
        if gives_outputs or self.chance(0.4):
            self.scopes[0] |= {"y": Var("y", "T"), "z": Var("z", "int")}
            first = "" if gives_outputs else "y = x; z = k;"
        has_elements = gives_outputs and self.chance(0.2)
        if has_elements:
            first += " T &w0 = w[2 * i]; T *w1 = &w[2 * i];"
            self.scopes[-1] |= {"w0": Var("w0", "T"), "w1": Var("w1", "T", "pointer", size=1)}
        ends = ("if ({c}) { y = {f}; z = {i}; } else { z = {i}; y = {f}; }", *["y = {f}; z = {i};"] * 2)
        text = f"{first} {self.statements(3, 8)}\n{self.fill(self.rng.choice(ends), depth=3)}"
        return Program(self.seed, "\n".join(lines), text, has_elements, gives_outputs)
