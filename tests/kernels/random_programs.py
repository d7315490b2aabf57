"""Random programs of C++ for the differential test of snippets: valid, without undefined behaviour, each with an end.

A program is a preamble and an operation over the parameters `INPUTS` and `OUTPUTS`. Whatever it does is defined: each
variable has a value before it is read, divisors and shifts are bounded, floats become integers within a range, a
reference outlives nothing, a counter only moves towards the end of its loop, and no expression reads what another part
of it changes. So a compiler and a front end may differ in nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

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


def program(seed: int) -> Program:
    """The program of a seed."""
    return _Writer(seed).program()


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

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.count = 0
        self.scopes: list[dict[str, Var]] = [{}]
        self.aliases: list[dict[str, str]] = [{}]
        self.functions: list[Function] = []
        self.structs: list[Struct] = []
        self.loops = 0
        self.budget = 0
        self.returns: str | None = None
        """The type that the function around a statement returns; None in the operation."""
        self.is_pure = False
        self.counters: list[tuple[str, int]] = []
        """The counters of the loops around, and their directions."""
        self.in_switch = False
        self.may_leave = False
        self.self_type: Struct | None = None
        self.writes_all = self.has_elements = False

    # --- choices
    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def name(self, beginning: str = "v", behind: str = "") -> str:
        """A name for a declaration that ends with ``behind``, which does not use it."""
        taken = {*self.scopes[-1], *(self.scopes[0] if len(self.scopes) == 2 else ())}  # of a function's parameters too
        if self.chance(0.2):
            outer = [each for scope in self.scopes[:-1] for each in scope if each.isidentifier()]
            outer = [each for each in outer if each not in ("x", "k", "a", "y", "z") and not each.startswith("c")]
            free = [each for each in (*NAMED, *outer) if each not in taken and each not in behind]
            if free:
                return self.rng.choice(free)
        self.count += 1
        return f"{beginning}{self.count}"

    def type_name(self, kind: str) -> str:
        """A name for a type, perhaps by an alias in force."""
        for scope in reversed(self.aliases):
            fitting = [name for name, meant in scope.items() if meant == kind and self.meaning(name) == kind]
            if fitting and self.chance(0.5):
                return self.rng.choice(fitting)
        return kind

    def meaning(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self.aliases) if name in scope), name)

    @contextmanager
    def block(self) -> Iterator[None]:
        self.scopes.append({})
        self.aliases.append({})
        yield
        self.scopes.pop()
        self.aliases.pop()

    def declare(self, name: str, var: Var) -> None:
        self.scopes[-1][name] = var

    def visible(self) -> list[Var]:
        found: dict[str, Var] = {}
        for scope in self.scopes:
            found |= scope
        return list(found.values())

    # --- places
    def places(self, want: Callable[[str], bool], *, writable: bool) -> list[Var]:
        """The places of numbers whose type is wanted."""
        found: list[Var] = []
        for var in self.visible():
            found += self.parts(var)
        return [each for each in found if want(each.type) and (each.is_writable or not writable)]

    def parts(self, var: Var) -> list[Var]:
        if var.kind == "number":
            return [var]
        if var.kind == "pointer":
            texts = [f"*{var.text}", f"{var.text}[0]"] if var.size <= 1 else [f"{var.text}[{self.index(var.size)}]"]
            return [Var(f"({each})" if each[0] == "*" else each, var.type, "number", var.is_writable) for each in texts]
        if var.kind == "array":
            return [Var(f"{var.text}[{self.index(var.size)}]", var.type, "number", var.is_writable)]
        dot = "->" if var.kind == "struct pointer" else "."
        struct = next(each for each in self.structs if each.name == var.type)
        found = [Var(f"{var.text}{dot}{name}", kind, "number", var.is_writable) for kind, name in struct.members]
        if struct.inner is not None:
            found += self.parts(Var(f"{var.text}{dot}inner", struct.inner, "struct", var.is_writable))
        return found

    def index(self, size: int) -> str:
        if size & (size - 1) or self.chance(0.5):
            return str(self.rng.randrange(size))
        return f"{self.operand_int()} & {size - 1}"

    def operand_int(self) -> str:
        plain = [each.text for each in self.visible() if each.kind == "number" and each.type in ("int", "unsigned")]
        return self.rng.choice(plain) if plain else str(self.rng.randrange(4))

    # --- expressions
    def number(self, kind: str, depth: int = 2) -> str:
        if kind == "bool":
            return self.condition(depth)
        return self.integer(depth) if kind in _INTS else self.floating(depth)

    def constant(self, kind: str) -> str:
        if kind in _INTS:
            return self.rng.choice(("0", "1", "2", "3", "5", "-1", "-7", "1000", "12u", "0x7f"))
        return self.rng.choice(("0.5", "1.25f", "-2.0", "3", "1e3f", "0.1", "-0.75f", "7.0f"))

    def integer(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.2):
            found = self.places(lambda kind: kind in (*_INTS, "bool"), writable=False)
            return self.rng.choice(found).text if found and self.chance(0.8) else self.constant("int")
        left, right = self.integer(depth - 1), self.integer(depth - 1)
        form = self.rng.randrange(15)
        if form < 6:
            return f"({left} {'+-*&^|'[form]} {right})"
        if form == 6:
            return f"(({left} >> 1) / (({right} & 7) + 1))"  # g++ may negate the divisor: INT_MIN / -1
        if form == 7:
            return f"(({left} >> 1) % (({right} & 7) + 1))"
        if form == 8:
            return f"({left} {self.rng.choice(('<<', '>>'))} ({right} & 3))"
        if form == 9:
            return f"({self.condition(depth - 1)} ? {left} : {right})"
        if form == 10:
            return f"to_int({self.floating(depth - 1)})"
        if form == 11:
            return self.rng.choice(
                (f"STEPS[{left} & 3]", f"TWICE({left})", f"(HIGH + {left})", f"sizeof({self.alias()})")
            )
        return self.pure_call(lambda kind: kind in _INTS, depth) or f"({self.rng.choice(_INTS)})({left})"

    def floating(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.2):
            found = self.places(lambda kind: kind in _FLOATS, writable=False)
            return self.rng.choice(found).text if found and self.chance(0.8) else self.constant("T")
        left, right = self.floating(depth - 1), self.floating(depth - 1)
        form = self.rng.randrange(11)
        if form < 4:
            return f"({left} {'+-*/'[form]} {right})"
        if form == 4:
            return f"({self.condition(depth - 1)} ? {left} : {right})"
        if form == 5:
            return f"(T)({self.integer(depth - 1)})"
        if form == 6:
            return f"median<T>({left}, {right}, {self.floating(depth - 1)})"
        if form == 7:
            return f"larger<T>({left}, {right})"
        if form == 8:
            return self.rng.choice((f"TWICE({left})", f"(HALF * {left})"))
        return self.pure_call(lambda kind: kind in _FLOATS, depth) or f"-({left})"

    def condition(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.6):
            sign = self.rng.choice(("<", "<=", ">", ">=", "==", "!="))
            kind = self.rng.choice(("int", "T"))
            return f"({self.number(kind, min(depth, 1) - 1)} {sign} {self.number(kind, min(depth, 1) - 1)})"
        left, right = self.condition(depth - 1), self.condition(depth - 1)
        return self.rng.choice((f"({left} && {right})", f"({left} || {right})", f"!{left}"))

    def alias(self) -> str:
        names = [name for scope in self.aliases for name in scope]
        return self.rng.choice(names) if names else "T"

    def pure_call(self, want: Callable[[str], bool], depth: int) -> str | None:
        fitting = [each for each in self.functions if each.is_pure and want(each.returns)]
        if not fitting or not self.chance(0.6):
            return None
        function = self.rng.choice(fitting)
        args = [self.argument(each, depth - 1) for each in function.params]
        return None if None in args else f"{function.name}({', '.join(map(str, args))})"

    def struct_value(self, struct: Struct) -> str:
        made = [each for each in self.visible() if each.kind == "struct" and each.type == struct.name]
        if made and self.chance(0.4):
            return self.rng.choice(made).text
        values = ", ".join(self.converted(kind, 1) for kind, _ in struct.members)
        if struct.inner is not None:
            values += f", {self.struct_value(next(each for each in self.structs if each.name == struct.inner))}"
        return f"{struct.name}({values})" if struct.has_constructor else f"{struct.name}{{{values}}}"

    def converted(self, kind: str, depth: int) -> str:
        """An expression that braces accept for a number of this kind."""
        return f"({kind})({self.number(kind, depth)})"

    def argument(self, param: Param, depth: int) -> str | None:
        struct = next((each for each in self.structs if each.name == param.type), None)
        if struct is not None:
            found = [each for each in self.visible() if each.type == struct.name]
            if param.passing == "value" or (param.passing == "const reference" and self.chance(0.3)):
                return self.struct_value(struct)
            found = [each for each in found if each.is_writable or param.passing == "const reference"]
            if not found:
                return None
            var = self.rng.choice(found)
            if param.passing == "pointer":
                return var.text if var.kind == "struct pointer" else f"&{var.text}"
            return f"*{var.text}" if var.kind == "struct pointer" else var.text
        same = lambda kind: kind == param.type
        if param.passing == "value" or (param.passing == "const reference" and self.chance(0.4)):
            return self.number(param.type, depth)
        if param.passing == "array":
            arrays = [
                each for each in self.visible()
                if each.type == param.type and each.size >= param.size and each.kind in ("array", "pointer")
                and each.is_writable
            ]  # fmt: skip
            return self.rng.choice(arrays).text if arrays else None
        if param.passing == "pointer":
            pointers = [
                each.text for each in self.visible()
                if each.kind == "pointer" and each.type == param.type and each.is_writable
            ]  # fmt: skip
            if pointers and self.chance(0.4):
                return self.rng.choice(pointers)
        found = self.places(same, writable=param.passing != "const reference")
        if not found:
            return None
        text = self.rng.choice(found).text
        return f"&{text}" if param.passing == "pointer" else text

    # --- statements
    def statements(self, least: int, most: int) -> str:
        return "\n".join(self.statement() for _ in range(self.rng.randint(least, most)))

    def body(self, least: int = 1, most: int = 3) -> str:
        with self.block():
            return f"{{ {self.statements(least, most)} }}"

    def statement(self) -> str:
        self.budget -= 1
        if self.budget < 0:
            return self.assignment()
        forms = [
            (5, self.number_declaration), (5, self.assignment), (4, self.reference), (3, self.pointer),
            (2, self.array), (3, self.struct), (4, self.choice), (5, self.call), (2, self.alias_block),
            (1, self.plain_block), (1, self.switch), (1, self.constants), (2, self.exit), (2, self.move_counter),
            (1, self.side_effect), (2, self.chosen), (2, self.returned_reference), (1, self.operator),
            (1, self.several), (1, self.table), (3, self.impure), (1, self.short_choice), (1, self.bumped),
        ]  # fmt: skip
        if self.loops < 2:
            forms.append((4, self.loop))
        return self.rng.choices([each for _, each in forms], [weight for weight, _ in forms])[0]()

    def kind(self) -> str:
        return self.rng.choice((*_INTS, *_FLOATS, "T", "T", "int", "bool"))

    def number_declaration(self) -> str:
        kind = self.kind()
        value = self.number(kind)
        name = self.name(behind=value)
        form = self.rng.randrange(5)
        written = self.type_name(kind)
        is_const = form > 1 and self.chance(0.2)
        if form == 0:
            text = f"auto {name} = ({kind})({value});"
        elif form == 1 and " " not in written:
            text = f"{written} {name}(({kind})({value}));"
        else:
            text = f"{'const ' if is_const else ''}{written} {name} = {value};"
        self.declare(name, Var(name, kind, is_writable=not is_const))
        return text

    def assignment(self) -> str:
        found = self.places(lambda kind: True, writable=True)
        if not found:
            return ";"
        place = self.rng.choice(found)
        value = self.number(place.type)
        if place.type == "bool":
            return f"{place.text} = {value};"
        if place.type in _INTS:
            sign = self.rng.choice(("=", "+=", "-=", "*=", "^=", "|=", "&=", "<<="))
            if self.chance(0.15):
                return self.rng.choice((f"++{place.text};", f"{place.text}--;"))
            return f"{place.text} {sign} {value if sign != '<<=' else 1};"
        return f"{place.text} {self.rng.choice(('=', '=', '+=', '-=', '*='))} {value};"

    def reference(self) -> str:
        if self.chance(0.25):
            return self.struct_reference()
        if self.chance(0.2):  # a copy that the reference's target may leave behind, or one of another type
            kind = self.rng.choice(("T", "int", "float", "double"))
            value = self.number(kind)
            name = self.name("r", value)
            self.declare(name, Var(name, kind, is_writable=False))
            return f"const {kind} &{name} = {value};"
        is_const = self.chance(0.3)
        found = self.places(lambda kind: True, writable=not is_const)
        if not found:
            return ";"
        place = self.rng.choice(found)
        name = self.name("r", place.text)
        written = "auto" if self.chance(0.2) else self.type_name(place.type)
        if is_const:
            written = f"const {written}" if self.chance(0.7) else f"{written} const"
        self.declare(name, Var(name, place.type, is_writable=place.is_writable and not is_const))
        return f"{written} &{name} = {place.text};"

    def struct_reference(self) -> str:
        found = [each for each in self.visible() if each.kind in ("struct", "struct pointer") and each.is_writable]
        if not found:
            return self.struct()
        var = self.rng.choice(found)
        name = self.name("s", var.text)
        if self.chance(0.3):
            self.declare(name, Var(name, var.type, "struct pointer"))
            return f"{var.type} *{name} = {var.text if var.kind == 'struct pointer' else '&' + var.text};"
        self.declare(name, Var(name, var.type, "struct"))
        return f"{var.type} &{name} = {'*' if var.kind == 'struct pointer' else ''}{var.text};"

    def pointer(self) -> str:
        arrays = [each for each in self.visible() if each.kind == "array"]
        if arrays and self.chance(0.5):
            array = self.rng.choice(arrays)
            name = self.name("p", array.text)
            start = self.rng.randrange(array.size)
            const = "" if array.is_writable else "const "
            text = self.rng.choice((f"{array.text} + {start}", f"&{array.text}[{start}]"))
            self.declare(name, Var(name, array.type, "pointer", array.is_writable, array.size - start))
            return f"{const}{array.type} *{name} = {text};"
        found = self.places(lambda kind: True, writable=True)
        if not found:
            return ";"
        place = self.rng.choice(found)
        name = self.name("p", place.text)
        self.declare(name, Var(name, place.type, "pointer", size=1))
        return f"{'auto' if self.chance(0.2) else place.type} *{name} = &{place.text};"

    def array(self) -> str:
        kind, size = self.rng.choice(("int", "T", "float")), self.rng.choice((2, 3, 4))
        values = [self.converted(kind, 1) for _ in range(self.rng.randint(1, size))]
        name = self.name("m", str(values))
        self.declare(name, Var(name, kind, "array", size=size))
        return f"{kind} {name}[{size}] = {{{', '.join(values)}}};"

    def struct(self) -> str:
        if not self.structs:
            return self.array()
        struct = self.rng.choice(self.structs)
        value = self.struct_value(struct)
        name = self.name("s", value)
        self.declare(name, Var(name, struct.name, "struct"))
        return f"{struct.name} {name} = {value};"

    def choice(self) -> str:
        text = f"if ({self.condition(2)}) {self.body()}"
        if self.chance(0.3):
            text += f" else if ({self.condition(1)}) {self.body()}"
        return text + f" else {self.body()}" if self.chance(0.4) else text

    def plain_block(self) -> str:
        return self.body(2, 4)

    def alias_block(self) -> str:
        """A block with a name for a type, which hides one of the same name outside."""
        with self.block():
            name = self.rng.choice(("R", "S", "Real", "Whole"))
            meant = self.rng.choice(("float", "double", "int", "T", "short", "unsigned"))
            written = self.type_name(meant)
            self.aliases[-1][name] = meant
            text = f"typedef {written} {name};" if self.chance(0.5) else f"using {name} = {written};"
            value = self.number(meant)
            own = self.name(behind=value)
            value = f"{name} {own} = {value};"
            self.declare(own, Var(own, meant))
            return f"{{ {text} {value} {self.statements(1, 3)} }}"

    def constants(self) -> str:
        kind, name = self.rng.choice(("int", "T", "float")), self.name("q")
        self.declare(name, Var(name, kind, is_writable=False))
        constant = self.rng.choice(("3", "7", "2")) if kind == "int" else self.rng.choice(("0.5f", "1.5f", "2.0f"))
        written = self.rng.choice(("const", "static const", "constexpr", "static constexpr"))
        return f"{written} {kind} {name} = {constant};"

    def switch(self) -> str:
        value, was = self.integer(1), self.in_switch
        self.in_switch = True
        cases = []
        labels = [*self.rng.sample(range(4), self.rng.randint(1, 3))]
        default = self.rng.randrange(len(labels) + 1) if self.chance(0.7) else None
        for at, label in enumerate(labels):
            if at == default:
                cases.append(f"default: {self.body(1, 2)} {'break;' if self.chance(0.7) else ''}")
            cases.append(f"case {label}: {self.body(1, 2)} {'break;' if self.chance(0.7) else ''}")
        if default == len(labels):
            cases.append(f"default: {self.body(1, 2)}")
        self.in_switch = was
        return f"switch (({value}) & 3) {{ {' '.join(cases)} }}"

    def side_effect(self) -> str:
        found = self.places(lambda kind: kind == "int", writable=True)
        if not found:
            return ";"
        place, condition = self.rng.choice(found).text, self.condition(1)
        name = self.name("e", f"{place} {condition}")
        kind, value = self.rng.choice((
            ("int", f"{place}++"), ("int", f"({place} += 2)"), ("bool", f"{condition} && ++{place} > 0"),
            ("bool", f"{condition} || {place}-- > 0"), ("int", f"{condition} ? {place}++ : 7"),
        ))  # fmt: skip
        self.declare(name, Var(name, kind))
        return f"{kind} {name} = {value};"

    def chosen(self) -> str:
        """A reference or a pointer to one of two variables, by a condition."""
        kind = self.rng.choice(("T", "int", "float"))
        found = self.places(lambda each: each == kind, writable=True)
        if len(found) < 2:
            return self.assignment()
        one, other, condition = self.rng.choice(found).text, self.rng.choice(found).text, self.condition(1)
        value = self.number(kind, 1)
        form = self.rng.randrange(4)
        name = self.name("r", f"{one} {other} {condition}")
        if form == 0:
            return f"({condition} ? {one} : {other}) = {value};"
        if form == 1:
            return f"raise<{kind}>({condition} ? {one} : {other}, {value});"
        is_pointer = form == 2
        self.declare(name, Var(name, kind, "pointer" if is_pointer else "number", size=int(is_pointer)))
        if is_pointer:
            return f"{kind} *{name} = {condition} ? &{one} : &{other};"
        return f"{kind} &{name} = {condition} ? {one} : {other};"

    def returned_reference(self) -> str:
        kind = self.rng.choice(("T", "int", "float"))
        found = self.places(lambda each: each == kind, writable=True)
        if not found:
            return self.assignment()
        place, value = self.rng.choice(found).text, self.number(kind, 1)
        arrays = [each.text for each in self.visible() if each.type == kind and each.size >= 2 and each.is_writable]
        form = self.rng.randrange(5)
        if form == 0 and arrays:
            return f"pick({self.rng.choice(arrays)}, {self.integer(1)}) = {value};"
        if form == 1:
            return f"same({place}) = {value};"
        if form == 2:
            return f"++same({place});"
        name = self.name("r", place)
        self.declare(name, Var(name, kind))
        return f"{kind} &{name} = {self.rng.choice((f'same({place})', f'++{place}', f'({place} += 1)'))};"

    def operator(self) -> str:
        found = [
            each for each in self.visible() if each.kind == "struct" and each.is_writable
            and any(kind.name == each.type and kind.has_operators for kind in self.structs)
        ]  # fmt: skip
        if not found:
            return self.struct()
        one = self.rng.choice(found)
        alike = [each.text for each in found if each.type == one.type]
        two, three = self.rng.choice(alike), self.rng.choice(alike)
        name = self.name("s", f"{one.text} {two} {three}")
        form = self.rng.randrange(5)
        if form == 0:
            return f"{one.text} += {two};"
        if form == 1:
            return f"({one.text} += {two}) += {three};"
        if form == 2:
            self.declare(name, Var(name, "bool"))
            return f"bool {name} = {one.text} < {two};"
        self.declare(name, Var(name, one.type, "struct"))
        if form == 3:
            return f"{one.type} {name} = {one.text} + {two} + {three};"
        return f"{one.type} &{name} = {one.text} += {two};"

    def several(self) -> str:
        """Several variables by one declaration."""
        kind = self.rng.choice(("T", "int", "float"))
        value = self.number(kind, 1)
        one = self.name(behind=value)
        self.declare(one, Var(one, kind))
        other = self.name(behind=f"{value} {one}")
        form = self.rng.randrange(3)
        self.declare(other, Var(other, kind, "pointer" if form == 1 else "number", size=int(form == 1)))
        if form == 0:
            return f"{kind} {one} = {value}, {other} = {one};"
        if form == 1:
            return f"{kind} {one} = {value}, *{other} = &{one};"
        return f"{kind} {one}({value}), {other}({one} + 1);"

    def impure(self) -> str:
        """A call that changes variables, as the part of an expression that is evaluated at a certain time, or not."""
        fitting = [each for each in self.functions if not each.is_pure and each.returns in ("T", "int", "float")]
        made: list[str] = []
        for function in self.rng.choices(fitting, k=2) if fitting else []:
            args = [self.argument(each, 1) for each in function.params]
            if None not in args:
                made.append(f"({function.name}({', '.join(map(str, args))}) > 1)")
        found = self.places(lambda kind: kind in ("int", "T"), writable=True)
        while len(made) < 2 and found:
            made.append(f"bump(&{self.rng.choice(found).text}, {self.rng.randrange(3)})")
        if len(made) < 2:
            return self.assignment()
        one, other = made
        condition, form = self.condition(1), self.rng.randrange(7)
        if form == 0:
            return f"if ({one}) {self.body()} else if ({other}) {self.body()}"
        if form == 1:
            return f"if ({condition} && ({one} || {other})) {self.body()}"
        if form == 2:
            return f"{condition} ? {one} : {other};"
        if form == 3:
            cases = f"case 0: {{ {other}; }} case 2: {self.body(1, 2)} break; default: ;"
            return f"switch ({one} + 2 * {condition}) {{ {cases} }}"
        if form == 4 and self.loops < 2:
            self.count += 1
            return f"for (int c{self.count} = 0; c{self.count} < 5 && {one}; step(c{self.count})) {other};"
        if form == 5 and self.loops < 2:
            self.count += 1
            return f"{{ int c{self.count} = 3; do {other}; while (--c{self.count} > 0 && ({one} || {condition})); }}"
        name = self.name(behind=f"{one} {other} {condition}")
        self.declare(name, Var(name, "bool"))
        values = (f"{condition} ? {one} : {other}", f"{one} && {other}", f"({one}, {other})")
        return f"bool {name} = {self.rng.choice(values)};"

    def short_choice(self) -> str:
        """Branches and loops without braces."""
        self.count += 1
        counter = f"c{self.count}"
        return self.rng.choice((
            f"if ({self.condition(1)}) {self.assignment()} else if ({self.condition(1)}) {self.assignment()} else ;",
            f"if ({self.condition(1)}) if ({self.condition(1)}) {self.assignment()} else {self.assignment()}",
            f"for (int {counter} = 0; {counter} < ({self.integer(1)} & 3); ++{counter}) {self.assignment()}",
            f"for (int {counter} = 0; {counter} < 2; {counter} += 1) if ({self.condition(1)}) {self.assignment()}",
        ))  # fmt: skip

    def bumped(self) -> str:
        found = self.places(lambda kind: kind in ("int", "T"), writable=True)
        return f"bump({self.rng.choice(found).text});" if found else ";"

    def table(self) -> str:
        """An array of two dimensions, by one row of it."""
        kind, value = self.rng.choice(("T", "int")), self.number("int", 1)
        place, name = self.name("m", value), self.name("t", value)
        if place == name:
            return ";"
        self.declare(place, Var(f"{place}[1][{self.rng.randrange(3)}]", kind))
        values = "{{1, 2, 3}, {4, 5}}"
        changes = f"{place}[1][{value} & 1] += 2; {place}[{value} & 1][2] = 7;"
        return f"{kind} {place}[2][3] = {values}; {changes}"

    def leave(self) -> str:
        """A statement that ends the function."""
        if self.returns is None:
            if self.writes_all:
                return f"y = {self.number('T')}; z = {self.number('int')}; return;"
            return "return;"
        return self.result()

    def result(self) -> str:
        if self.returns == "void":
            return "return;"
        if self.returns == "self":
            return "return *this;"
        struct = next((each for each in self.structs if each.name == self.returns), None)
        return f"return {self.struct_value(struct)};" if struct else f"return {self.number(str(self.returns))};"

    def exit(self) -> str:
        if self.loops and self.chance(0.7):
            words = ["continue"] if self.in_switch else ["break", "continue"]
            return f"if ({self.condition(1)}) {self.rng.choice(words)};"
        if not self.may_leave:
            return self.assignment()
        return f"if ({self.condition(1)}) {{ {self.leave()} }}"

    def move_counter(self) -> str:
        """Move a loop's counter towards its end, by a reference, a pointer or a function."""
        if not self.counters:
            return self.assignment()
        counter, direction = self.rng.choice(self.counters)
        if not any(each.text == counter for each in self.visible()):
            return ";"
        sign = "+" if direction > 0 else "-"
        name = self.name("j", counter)
        text = self.rng.choice((
            f"{{ int &{name} = {counter}; {name} {sign}= 1; }}", f"{{ int *{name} = &{counter}; *{name} {sign}= 1; }}",
            f"{{ int &{name} = {counter}; int &{name}0 = {name}; {sign}{sign}{name}0; }}",
            f"step({counter});" if direction > 0 else f"step_back(&{counter});",
            f"{{ auto &{name} = {counter}; {name}{sign}{sign}; }}",
        ))  # fmt: skip
        return f"if ({self.condition(1)}) {text}" if self.chance(0.5) else text

    def loop(self) -> str:
        self.loops += 1
        was, self.in_switch = self.in_switch, False
        self.count += 1
        counter = f"c{self.count}"
        form = self.rng.randrange(6)
        with self.block():
            bound = (
                str(self.rng.randint(1, 3))
                if self.chance(0.4)
                else f"(({self.integer(1)}) & {self.rng.choice((1, 3, 7))})"
            )
            self.declare(counter, Var(counter, "int", is_writable=False))
            if form < 2:
                moves = self.chance(0.5)
                self.counters.append((counter, 1))
                body = self.loop_body(moves)
                text = f"for (int {counter} = 0; {counter} < {bound}; {counter}++) {body}"
            elif form == 2:
                self.counters.append((counter, -1))
                text = f"for (int {counter} = {bound}; {counter} > 0; --{counter}) {self.loop_body(True)}"
            elif form == 3:
                self.counters.append((counter, -1))
                text = f"int {counter} = {bound}; while ({counter}-- > 0 && {self.condition(1)}) {self.loop_body(True)}"
            elif form == 4:
                self.counters.append((counter, 1))
                text = f"int {counter} = 0; do {self.loop_body(True)} while (++{counter} < {bound});"
            else:
                self.counters.append((counter, 1))
                body = self.loop_body(True)
                text = f"int {counter} = 0; for (;;) {{ if (++{counter} > {bound}) break; {body} }}"
            self.counters.pop()
        self.loops -= 1
        self.in_switch = was
        return f"{{ {text} }}"

    def loop_body(self, moves: bool) -> str:
        with self.block():
            text = self.statements(1, 3)
            return f"{{ {text} {self.move_counter() if moves and self.chance(0.4) else ''} }}"

    # --- calls
    def call(self) -> str:
        if self.chance(0.4):
            return self.method_call()
        if self.chance(0.3):
            return self.fixed_call()
        if not self.functions:
            return self.fixed_call()
        function = self.rng.choice(self.functions)
        args = [self.argument(each, 1) for each in function.params]
        if None in args:
            return self.assignment()
        text = f"{function.name}({', '.join(map(str, args))})"
        return self.used(text, function.returns)

    def used(self, text: str, returns: str) -> str:
        if returns == "void" or self.chance(0.2):
            return f"{text};"
        name = self.name(behind=text)
        is_struct = any(each.name == returns for each in self.structs)
        if not is_struct and self.chance(0.4):
            found = self.places(lambda kind: kind == returns, writable=True)
            if found:
                place = self.rng.choice(found).text
                is_plain = place.isidentifier()
                return (
                    f"{place} {self.rng.choice(('=', '+=')) if is_plain and returns != 'bool' else '='} {text};"
                    if is_plain
                    else f"{text};"
                )
        self.declare(name, Var(name, returns, "struct" if is_struct else "number"))
        return f"{returns} {name} = {text};"

    def fixed_call(self) -> str:
        kind = self.rng.choice(("T", "int"))
        found = self.places(lambda each: each == kind, writable=True)
        if len(found) < 2:
            return self.assignment()
        one, other = self.rng.choice(found).text, self.rng.choice(found).text
        return self.rng.choice((
            f"exchange({one}, {other});", f"order({one}, {other});", f"raise<{kind}>({one}, {self.number(kind)});"
        ))  # fmt: skip

    def method_call(self) -> str:
        objects = [each for each in self.visible() if each.kind in ("struct", "struct pointer") and each.is_writable]
        calls: list[tuple[str, Function]] = []
        for each in objects:
            struct = next(kind for kind in self.structs if kind.name == each.type)
            dot = "->" if each.kind == "struct pointer" else "."
            calls += [(f"{each.text}{dot}", method) for method in struct.methods]
        if self.self_type is not None:
            calls += [(self.rng.choice(("", "this->")), method) for method in self.self_type.methods]
        if not calls:
            return self.fixed_call()
        owner, method = self.rng.choice(calls)
        args = [self.argument(each, 1) for each in method.params]
        if None in args:
            return ";"
        text = f"{owner}{method.name}({', '.join(map(str, args))})"
        if method.is_chained and self.chance(0.5):
            args = [self.argument(each, 1) for each in method.params]
            if None not in args:
                text += f".{method.name}({', '.join(map(str, args))})"
        if method.is_chained:
            return f"{text};"
        return self.used(text, method.returns)

    # --- definitions
    def parameter(self, is_pure: bool) -> Param:
        if self.structs and self.chance(0.25):
            ways = ["value", "const reference"] + ([] if is_pure else ["reference", "pointer"])
            return Param(self.rng.choice(self.structs).name, self.rng.choice(ways))
        kind = self.rng.choice(("T", "int", "T", "int", "float", "unsigned"))
        if is_pure:
            return Param(kind, self.rng.choice(("value", "value", "const reference")))
        passing = self.rng.choice(("value", "reference", "reference", "const reference", "pointer", "array"))
        return Param(kind, passing, self.rng.choice((2, 3)) if passing == "array" else 0)

    def bound(self, params: list[Param]) -> tuple[dict[str, Var], str]:
        """The variables of parameters, and the text that declares them."""
        scope, texts = {}, []
        for each in params:
            name = self.name("u")
            while name in scope:
                name = self.name("u")
            is_struct = any(struct.name == each.type for struct in self.structs)
            kind = "struct" if is_struct else "number"
            if each.passing == "pointer":
                kind = "struct pointer" if is_struct else "pointer"
            if each.passing == "array":
                kind = "pointer"
            signs = {"reference": "&", "const reference": "&", "pointer": "*", "array": "*"}
            const = "const " if each.passing == "const reference" else ""
            texts.append(f"{const}{each.type} {signs.get(each.passing, '')}{name}")
            size = each.size if each.passing == "array" else 1 if kind == "pointer" else 0
            scope[name] = Var(name, each.type, kind, each.passing != "const reference", size)
        return scope, ", ".join(texts)

    def function_body(self, scope: dict[str, Var], returns: str, is_pure: bool) -> str:
        saved = self.scopes, self.aliases, self.budget, self.returns, self.is_pure
        self.scopes, self.aliases = [scope], [dict(self.aliases[0])]
        self.budget, self.returns, self.is_pure = self.rng.randint(2, 8), returns, is_pure
        self.may_leave = True
        with self.block():
            text = self.statements(1, 4)
            last = "" if returns == "void" else self.result()
        self.may_leave = False
        self.scopes, self.aliases, self.budget, self.returns, self.is_pure = saved
        return f"{{ {text} {last} }}"

    def function(self) -> str:
        self.count += 1
        is_pure = self.chance(0.35)
        returns = self.rng.choice(("T", "int", "float", "T", *(["void", "void"] if not is_pure else [])))
        if self.structs and self.chance(0.15):
            returns = self.rng.choice(self.structs).name
        params = [self.parameter(is_pure) for _ in range(self.rng.randint(1, 3))]
        scope, text = self.bound(params)
        body = self.function_body(scope, returns, is_pure)
        exact = [
            at for at, each in enumerate(params) if each.passing in ("reference", "pointer") and each.type == "int"
        ]
        head = ""
        if exact and self.chance(0.5):  # a template, whose argument says the type exactly
            head, parts = "template <typename V> ", text.split(", ")
            parts[exact[0]] = parts[exact[0]].replace("int", "V", 1)
            text = ", ".join(parts)
        found = Function(f"f{self.count}", returns, params, is_pure)
        self.functions.append(found)
        return f"{head}{returns} {found.name}({text}) {body}"

    def struct_definition(self) -> str:
        self.count += 1
        members = [(self.rng.choice(("T", "int", "float")), f"{letter}{self.count}") for letter in "gh"]
        if self.chance(0.15):
            members[0] = (members[0][0], self.rng.choice(("M_PI", "INT_MAX", "n")))
        struct = Struct(f"P{self.count}", members, has_constructor=self.chance(0.4))
        if self.structs and self.chance(0.4):
            struct.has_constructor, struct.inner = False, self.structs[-1].name
        lines = [f"{kind} {name};" for kind, name in members]
        if struct.inner is not None:
            lines.append(f"{struct.inner} inner;")
        if struct.has_constructor:
            given = ", ".join(f"{kind} w{at}" for at, (kind, _) in enumerate(members))
            sets = ", ".join(f"{name}(w{at})" for at, (_, name) in enumerate(members))
            lines.append(f"{struct.name}({given}) : {sets} {{}}")
        self.structs.append(struct)
        for _ in range(self.rng.randint(0, 3)):
            lines.append(self.method(struct))
        (_, g), (_, h) = members
        struct.has_operators = self.chance(0.4)
        operators = OPERATORS.format(P=struct.name, g=g, h=h) if struct.has_operators else ""
        return f"struct {struct.name} {{ {' '.join(lines)} }};{operators}"

    def method(self, struct: Struct) -> str:
        self.count += 1
        returns = self.rng.choice(("void", "T", "int", "self", struct.name))
        params = [self.parameter(is_pure=False) for _ in range(self.rng.randint(0, 2))]
        scope, text = self.bound(params)
        own = {
            name: Var(self.rng.choice((name, name, f"this->{name}")), kind)
            for kind, name in struct.members if name not in scope
        }  # fmt: skip
        own |= {f"this->{name}": Var(f"this->{name}", kind) for kind, name in struct.members if name in scope}
        self.self_type = struct
        body = self.function_body({**own, **scope}, returns, is_pure=False)
        self.self_type = None
        method = Function(f"g{self.count}", returns, params, is_pure=False, is_chained=returns == "self")
        struct.methods.append(method)
        return f"{f'{struct.name} &' if returns == 'self' else returns} {method.name}({text}) {body}"

    def program(self) -> Program:
        lines = [FIXED]
        if self.chance(0.3):
            self.aliases[0]["R"] = self.rng.choice(("float", "double", "int"))
            lines.append(f"typedef {self.aliases[0]['R']} R;")
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            lines.append(self.struct_definition())
        for _ in range(self.rng.randint(0, 4)):
            lines.append(self.function())
        self.scopes = [{
            "x": Var("x", "T", is_writable=False), "k": Var("k", "int", is_writable=False),
            "a": Var("a", "T", "array", is_writable=False, size=ELEMENTS),
        }]  # fmt: skip
        gives_outputs = self.chance(0.5)
        self.writes_all = not gives_outputs
        outputs = {"y": Var("y", "T"), "z": Var("z", "int")}
        first = ""
        if gives_outputs or self.chance(0.4):
            self.scopes[0] |= outputs
            first = "" if gives_outputs else "y = x; z = k;"
        self.scopes.append({})
        self.aliases.append({})
        self.budget = self.rng.randint(4, 16)
        self.may_leave = True
        self.has_elements = gives_outputs and self.chance(0.2)
        if self.has_elements:
            first += " T &w0 = w[2 * i]; T *w1 = &w[2 * i];"
            self.scopes[-1] |= {"w0": Var("w0", "T"), "w1": Var("w1", "T", "pointer", size=1)}
        text = f"{first} {self.statements(3, 8)}\n"
        if self.chance(0.3):
            text += (
                f"if ({self.condition(2)}) {{ y = {self.number('T')}; z = {self.number('int')}; }} "
                f"else {{ z = {self.number('int')}; y = {self.number('T')}; }}"
            )
        else:
            text += f"y = {self.number('T')}; z = {self.number('int')};"
        return Program(self.seed, "\n".join(lines), text, self.has_elements, gives_outputs)
