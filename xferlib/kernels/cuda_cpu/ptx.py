"""PTX text as Python objects: the form of the language, ISA 7 to 9; which instructions there are is emit.py's.

Names are resolved here, since PTX has scopes: a register, a variable or a label in `{ }` hides one of the same name
outside, and inline assembly opens such a scope wherever it is expanded. So an operand refers to a `Register` or a
`PtxVariable` by identity, and a label is a `PtxLabel`. Only names of the module (variables, functions) may stay names:
they may be declared later.
"""

from __future__ import annotations

import math
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeVar

from xferlib.kernels.c_frontend.preprocess import LEVELS, OPERATORS

NBYTES = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "e4m3": 1, "e5m2": 1,
    "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "e4m3x2": 2, "e5m2x2": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "u16x2": 4, "s16x2": 4, "tf32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8, "b128": 16,
}  # fmt: skip


class PtxError(ValueError):
    """The text is not PTX, or holds what is not translated. `line` counts in the PTX text, from 1; 0 is unknown."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(slots=True, eq=False)
class Register:
    name: str
    type: str
    number: int  # unique in its function


@dataclass(slots=True)
class Relocation:
    """Bytes of a variable that hold an address of a variable or a function; it is known when the module is loaded."""

    offset: int
    nbytes: int
    target: str
    addend: int
    shift: int = 0  # `mask(symbol)`: the address is shifted right by this number of bits, and cut


@dataclass(slots=True, eq=False)
class PtxVariable:
    name: str
    space: str  # global, const, shared, local, param, reg
    type: str
    align: int
    nbytes: int  # 0: an array of unknown size
    number: int = 0
    initial: bytes = b""
    relocations: list[Relocation] = field(default_factory=list)
    is_extern: bool = False
    is_visible: bool = False  # to other modules
    is_weak: bool = False  # yields to a definition of another module
    function: str = ""  # of the function that declares it; empty: the module


@dataclass(slots=True, eq=False)
class PtxLabel:
    name: str
    number: int


@dataclass(slots=True)
class Immediate:
    """A number: an int, a float of any notation, or with `bits` the exact bits of a 32- or 64-bit float."""

    value: int | float
    nbits: int = 0  # 32 or 64: `value` holds the bits of a float


@dataclass(slots=True)
class Symbol:
    target: PtxVariable | str
    offset: int = 0


@dataclass(slots=True)
class Special:
    name: str  # without %: "tid.x"


@dataclass(slots=True)
class Address:
    base: Register | Symbol | Immediate
    offset: int


@dataclass(slots=True)
class Vector:
    items: tuple[Operand, ...]


@dataclass(slots=True)
class Pair:
    first: Operand
    second: Operand


@dataclass(slots=True)
class Not:
    operand: Operand


@dataclass(slots=True)
class OperandList:
    """A list in parentheses, of a call; or an address with coordinates."""

    items: tuple[Operand, ...]


@dataclass(slots=True)
class NoOperand:
    """`_`: a result that is not used."""


Operand = Register | PtxLabel | Immediate | Symbol | Special | Address | Vector | Pair | Not | OperandList | NoOperand


def walk(operands: Iterable[Operand], *, with_addresses: bool = True) -> Iterator[Operand]:
    """Operands and those within them; ``with_addresses``: also the bases of addresses."""
    for each in operands:
        yield each
        if isinstance(each, Register):
            continue
        if isinstance(each, Vector | OperandList):
            yield from walk(each.items, with_addresses=with_addresses)
        elif isinstance(each, Pair):
            yield from walk((each.first, each.second), with_addresses=with_addresses)
        elif isinstance(each, Not):
            yield from walk((each.operand,), with_addresses=with_addresses)
        elif with_addresses and isinstance(each, Address):
            yield each.base


@dataclass(slots=True)
class SourceLocation:
    """Of an instruction in the CUDA source; `inlined_at` is the place of the call that the callee's text replaced."""

    file: int
    line: int
    column: int
    function: str = ""
    inlined_at: SourceLocation | None = None
    is_whole: bool = True  # False: which of several calls it was, the text does not tell


@dataclass(slots=True)
class Instruction:
    opcode: str  # "ld"
    modifiers: tuple[str, ...]  # ("global", "u32")
    operands: list[Operand]
    guard: Register | None
    negated: bool
    place: SourceLocation | None
    line: int  # in the PTX text
    text: str

    @property
    def name(self) -> str:
        return ".".join((self.opcode, *self.modifiers))


@dataclass(slots=True)
class Prototype:
    returns: list[PtxVariable]
    params: list[PtxVariable]


@dataclass(slots=True, eq=False)
class PtxFunction:
    name: str
    is_entry: bool
    returns: list[PtxVariable]
    params: list[PtxVariable]
    line: int
    body: list[Instruction | PtxLabel] | None = None
    is_visible: bool = False
    is_weak: bool = False
    files: dict[int, str] = field(default_factory=dict)  # of its module
    aliases: dict[str, str] = field(default_factory=dict)  # names that mean others in its module, after `merge`
    variables: list[PtxVariable] = field(default_factory=list)
    param_registers: dict[int, Register] = field(default_factory=dict)  # of parameters declared by `.reg`, by number
    prototypes: dict[str, Prototype] = field(default_factory=dict)
    branch_targets: dict[str, list[PtxLabel]] = field(default_factory=dict)
    call_targets: dict[str, list[str]] = field(default_factory=dict)
    attributes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def instructions(self) -> list[tuple[int, Instruction]]:
        """Those of the body, each with its index there."""
        return [(index, item) for index, item in enumerate(self.body or ()) if isinstance(item, Instruction)]


@dataclass(slots=True)
class Module:
    target: str = ""
    variables: dict[str, PtxVariable] = field(default_factory=dict)
    functions: dict[str, PtxFunction] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_SPACE = re.compile(r"[\s;]*")
_NAME = r"[A-Za-z_$%][\w$]*"
_LABEL = re.compile(rf"({_NAME})\s*:(?!:)")
_INSTRUCTION = re.compile(
    rf"(?:@\s*(!?)\s*({_NAME})\s+)?([a-z]\w*(?:\s*\.\s*\w+(?:::\w+)*)*)(?=[\s;{{(\[])"
    r"([^;{}]*(?:{[^;{}]*}[^;{}]*)*);"
)
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)(?:\s+(\d+))?"
    rf"(?:\s*,\s*function_name\s+({_NAME})(?:\s*\+\s*(\d+))?\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_TOKEN = re.compile(
    r"\s*(0[fF][0-9a-fA-F]{8}(?![0-9a-fA-F])|0[dD][0-9a-fA-F]{16}"
    r"|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.\d+(?:[eE][-+]?\d+)?"
    r"|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?"
    rf"|{_NAME}(?:\.[xyzwrgba](?![\w$]))?|\.\w+|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%~&|^!<>?:=(){{}}\[\],])"
)
_REGISTER_RANGE = re.compile(rf"\s*({_NAME})\s*(?:<\s*(\d+)\s*>)?\s*")
_DECIMAL = re.compile("0|[1-9][0-9]{0,18}")
_SPLIT_NUMBER = re.compile(r"(.*?)(0|[1-9]\d*)$")
_SPACES = ("global", "const", "shared", "local", "param", "reg", "sreg", "tex")
_LINKAGES = ("extern", "visible", "weak", "common")
_NUMBERED = re.compile(r"envreg\d+|pm\d+(?:_64)?")
SPECIAL_REGISTERS = frozenset(
    "tid ntid ctaid nctaid laneid warpid nwarpid smid nsmid gridid lanemask_eq lanemask_le lanemask_lt lanemask_ge "  # noqa: SIM905
    "lanemask_gt clock clock_hi clock64 globaltimer globaltimer_lo globaltimer_hi dynamic_smem_size total_smem_size "
    "aggr_smem_size current_graph_exec clusterid nclusterid cluster_ctaid cluster_nctaid cluster_ctarank "
    "cluster_nctarank is_explicit_cluster reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap "
    "reserved_smem_offset_0 reserved_smem_offset_1".split()
)  # fmt: skip


def is_special(name: str) -> bool:
    return name.startswith("%") and (
        (base := name[1:].partition(".")[0]) in SPECIAL_REGISTERS or _NUMBERED.fullmatch(base) is not None
    )


class _Scope:
    """The meaning of names between `{` and `}`."""

    __slots__ = ("labels", "names", "parent", "prefixes")

    def __init__(self, parent: _Scope | None) -> None:
        self.parent = parent
        self.names: dict[str, Register | PtxVariable | tuple[Register, ...]] = {}
        self.prefixes: dict[str, tuple[str, int]] = {}  # of `.reg .b32 %r<10>`: type and count
        self.labels: dict[str, PtxLabel] = {}


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = _COMMENT.sub(_blank, text)
        self.starts = [match.end() for match in re.finditer("\n", self.text)]
        self.at = 0
        self.module = Module()
        self.strings: dict[str, str] = {}  # of .debug_str: the names of functions that were inlined
        self.numbers = 0
        self.function: PtxFunction | None = None
        self.scope: _Scope | None = None
        self.place: SourceLocation | None = None
        self.fresh: list[SourceLocation] = []  # the places since the last instruction, the newest last
        self.places: dict[tuple[int, ...], list[SourceLocation]] = {}  # of the function, by file, line and column

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        line = self.line(self.at if at is None else at)
        raise PtxError(f"{message} (line {line} of the PTX text)", line)

    def line(self, at: int) -> int:
        return bisect_right(self.starts, at) + 1

    def accept(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        """Read what a pattern matches here; None where it does not."""
        match = re.compile(pattern).match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def expect(self, pattern: str | re.Pattern[str], message: str) -> re.Match[str]:
        """Read what a pattern matches here, or fail with a message."""
        return self.accept(pattern) or self.fail(message)

    # The module

    def parse(self) -> Module:
        self.strings = self.read_strings()
        text = self.text
        while True:
            self.accept(_SPACE)
            if self.at >= len(text):
                return self.module
            if text.startswith(("@@DWARF", "@@dwarf"), self.at):
                self.skip_line()
            else:
                self.read_directive()

    def read_directive(self) -> None:
        match = re.compile(r"\.(\w+)").match(self.text, self.at)
        if not match:
            self.fail(f"{self.excerpt()!r} is not a directive of a module")
        word = match[1]
        if word == "version":
            self.expect(r"\.version\s+\d+\.\d+", "'.version' names no version")
        elif word == "target":
            self.module.target = self.expect(r"\.target\s+(\w+)(?:\s*,\s*\w+)*", "'.target' names no target")[1]
        elif word == "address_size":
            problem = "'.address_size' other than 64 is not supported: compile for 64 bits"
            if self.expect(r"\.address_size\s+(\d+)", problem)[1] != "64":
                self.fail(problem)
        elif word == "file":
            self.read_file()
        elif word == "section":
            self.at = self.block_end(self.text.find("{", self.at))
        elif word == "pragma":
            self.skip_statement()
        elif word == "loc":
            self.read_location()
        elif word == "alias":
            found = self.expect(rf"\.alias\s+({_NAME})\s*,\s*({_NAME})\s*;", "'.alias' needs two names")
            self.module.aliases[found[1]] = found[2]
        else:
            self.read_declaration()

    def read_file(self) -> None:
        pattern = r'\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"(?:\s*,\s*\d+\s*,\s*\d+)?'
        found = self.expect(pattern, "'.file' needs a number and a name")
        self.module.files[int(found[1])] = found[2]

    def read_strings(self) -> dict[str, str]:
        strings: dict[str, str] = {}
        start = self.text.find(".debug_str")
        if start < 0:
            return strings
        body = self.text[start : self.block_end(self.text.find("{", start))]
        for label, items in re.findall(rf"({_NAME})\s*:\s*((?:\.b8[^.:]*?(?=\.b8|{_NAME}\s*:|\}}))+)", body):
            codes = bytes(int(code) & 255 for code in re.findall(r"-?\b\d+\b(?!\w)", items.replace(".b8", " ")))
            strings[label] = codes.split(b"\0")[0].decode("utf-8", "replace")
        return strings

    def read_declaration(self) -> None:
        """A variable or a function, after its linkage."""
        if match := self.accept(r"((?:\.(?:extern|visible|weak|common)\s+)*)\.(entry|func)\b"):
            self.read_function(is_entry=match[2] == "entry", linkage=match[1])
        else:
            for variable in self.read_variables():
                old = self.module.variables.get(variable.name)
                if old is None or old.is_extern:
                    self.module.variables[variable.name] = variable

    # Functions

    def read_function(self, *, is_entry: bool, linkage: str) -> None:
        start = self.at
        returns = self.read_params()
        found = self.expect(rf"\s*({_NAME})", "a function without a name")
        params = self.read_params()
        function = PtxFunction(found[1], is_entry, returns, params, self.line(start), files=self.module.files)
        function.is_weak = "weak" in linkage
        function.is_visible = function.is_weak or "visible" in linkage or "extern" in linkage
        while match := self.accept(r"\s*\.(\w+)([^.{;]*)"):
            if not match[1].startswith(
                ("max", "min", "req", "no", "explicit", "abi", "pragma", "unified", "blocks", "attr")
            ):
                self.fail(f"'.{match[1]}' is not a directive of a function")
            function.attributes[match[1]] = tuple(int(number) for number in re.findall(r"\d+", match[2]))
        if self.peek(";"):
            self.module.functions.setdefault(function.name, function)
            return
        if not self.peek("{"):
            self.fail(f"function '{function.name}' has neither a body nor an end")
        self.module.functions[function.name] = function
        self.read_body(function)

    def read_params(self) -> list[PtxVariable]:
        """The parameters in brackets; none where there are no brackets."""
        if not self.peek("("):
            return []
        at = self.text.index("(", self.at)
        end = self.text.find(")", at)
        if end < 0:
            self.fail("a list of parameters without an end")
        variables = []
        for part in self.text[at + 1 : end].split(","):
            words = part.split()
            if not words:
                continue
            text = re.sub(r"\.(?:ptr|global|const|shared|local)\b", " ", part) if ".ptr" in part else part
            text = re.sub(r"\.align\s+(\d+)(?=.*\.align)", " ", text) if text.count(".align") > 1 else text
            match = re.compile(
                r"\s*\.(param|reg)\s*(?:\.align\s+(\d+)\s*)?(?:\.v[248]\s*)?\.(\w+)\s*(?:\.align\s+(\d+)\s*)?"
                rf"({_NAME})?\s*(?:\[\s*(\w*)\s*\])?\s*$"
            ).match(text)
            if not match or match[3] not in NBYTES:
                self.fail(f"{part.strip()!r} is not a parameter", at)
            self.numbers += 1
            # A pointer's `.ptr .align` says how its target is aligned, not itself.
            align = NBYTES[match[3]] if ".ptr" in part else int(match[2] or match[4] or NBYTES[match[3]])
            count = 1 if match[6] is None else int(match[6] or "0", 0)
            variables.append(
                PtxVariable(match[5] or "_", match[1], match[3], align, NBYTES[match[3]] * count, self.numbers)
            )
        self.at = end + 1
        return variables

    def read_body(self, function: PtxFunction) -> None:
        self.function, self.scope, self.place = function, _Scope(None), None
        self.fresh, self.places = [], {}
        for variable in (*function.returns, *function.params):
            variable.function = function.name
            if variable.space == "reg":
                register = self.new_register(variable.name, variable.type)
                function.param_registers[variable.number] = register
                self.scope.names[variable.name] = register
            else:
                self.scope.names[variable.name] = variable
        self.late: list[Callable[[], None]] = []  # lists of labels, which may stand later
        body: list[Instruction | PtxLabel] = []
        function.body = body
        pending: list[tuple[list[Operand], int, _Scope]] = []
        text = self.text
        self.at = text.index("{", self.at) + 1
        depth = 1
        while depth:
            self.accept(_SPACE)
            char = text[self.at : self.at + 1]
            if char == "":
                self.fail(f"function '{function.name}' has no end")
            elif char == "{":
                self.scope = _Scope(self.scope)
                self.at += 1
                depth += 1
            elif char == "}":
                self.scope = self.scope.parent or self.scope
                self.at += 1
                depth -= 1
            elif char == ".":
                self.read_local_directive(function)
            elif text.startswith("@@", self.at):
                self.skip_line()
            elif match := self.accept(_LABEL):
                self.read_label(match[1], body)
            elif match := _INSTRUCTION.match(text, self.at):
                body.append(self.read_instruction(match, pending))
                self.at = match.end()
            else:
                self.fail(f"{self.excerpt()!r} is not an instruction")
        for operands, index, scope in pending:
            if not -len(operands) <= index < len(operands):
                self.fail("a branch names no label")
            operands[index] = self.find_label(operands[index], scope)
        for resolve in self.late:
            resolve()
        first = next((item.place for _, item in function.instructions if item.place), None)
        for _, item in function.instructions:  # a prologue stands before the first .loc
            if item.place:
                break
            item.place = first
        self.function = self.scope = None

    def read_label(self, name: str, body: list[Instruction | PtxLabel]) -> None:
        assert self.function is not None
        assert self.scope is not None
        function, scope = self.function, self.scope
        if self.accept(r"\s*\.callprototype\b"):
            returns = self.read_params()
            self.accept(rf"\s*({_NAME})")
            function.prototypes[name] = Prototype(returns, self.read_params())
            self.skip_statement()
        elif match := self.accept(r"\s*\.(branchtargets|calltargets)\s+([^;]*);"):
            names = match[2].split(",")
            if match[1] == "calltargets":
                function.call_targets[name] = [item.strip() for item in names]
            else:
                function.branch_targets[name] = []
                self.late.append(
                    lambda: function.branch_targets[name].extend(
                        self.find_label(Symbol(item.strip()), scope) for item in names
                    )
                )
        else:
            if name in scope.labels:
                self.fail(f"label '{name}' stands twice")
            self.numbers += 1
            label = scope.labels[name] = PtxLabel(name, self.numbers)
            body.append(label)

    def find_label(self, operand: Operand, scope: _Scope | None) -> PtxLabel:
        name = operand.target if isinstance(operand, Symbol) and isinstance(operand.target, str) else "?"
        while scope:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        assert self.function is not None
        raise PtxError(f"label '{name}' of function '{self.function.name}' is nowhere", self.function.line)

    def read_local_directive(self, function: PtxFunction) -> None:
        word = re.compile(r"\.(\w+)").match(self.text, self.at)
        if word is None:
            self.fail(f"{self.excerpt()!r} is not a directive")
        if word[1] == "loc":
            self.read_location()
        elif word[1] == "reg":
            self.read_registers()
        elif word[1] == "pragma":
            self.skip_statement()
        elif word[1] == "file":
            self.read_file()
        elif word[1] in _SPACES or word[1] in _LINKAGES:
            assert self.scope is not None
            for variable in self.read_variables():
                variable.function = function.name
                self.scope.names[variable.name] = variable
                function.variables.append(variable)
        elif word[1].startswith(("max", "min", "req")):
            self.accept(r"\.\w+\s*([\d,\s]*);?")
        else:
            self.fail(f"'.{word[1]}' is not a directive of a function's body")

    def read_location(self) -> None:
        match = self.expect(_LOC, "'.loc' needs a file and a line")
        file, line, column = int(match[1]), int(match[2]), int(match[3] or 0)
        if line == 0:
            return  # the compiler's way to say that it does not know: the last place is as good
        outer = self.find_call(int(match[6]), int(match[7]), int(match[8])) if match[4] else None
        self.place = SourceLocation(file, line, column, self.strings.get(match[4] or "", ""), outer)
        self.fresh.append(self.place)
        known = self.places.setdefault((file, line, column), [])
        if len(known) < 2 and self.place not in known:
            known.append(self.place)

    def find_call(self, file: int, line: int, column: int) -> SourceLocation:
        """The place of a call, with the calls that it is in.

        The compiler writes those in front at the first instruction of each call, and leaves them out at later ones.
        """
        wanted = file, line, column
        for each in reversed(self.fresh):
            if (each.file, each.line, each.column) == wanted:
                return each
        known = self.places.get(wanted, [])
        return known[0] if len(known) == 1 else SourceLocation(*wanted, is_whole=not known)

    def read_registers(self) -> None:
        end = self.text.find(";", self.at)
        match = re.compile(r"\.reg\s*(?:\.(v[248])\s*)?\.(\w+)\s").match(self.text, self.at)
        if end < 0 or not match or match[2] not in NBYTES:
            self.fail(f"{self.excerpt()!r} declares no register")
        assert self.scope is not None
        for part in self.text[match.end() : end].split(","):
            found = _REGISTER_RANGE.fullmatch(part)
            if not found:
                self.fail(f"{part.strip()!r} is not a register's name")
            if found[2]:
                self.scope.prefixes[found[1]] = match[2], int(found[2])
            elif match[1]:
                names = [f"{found[1]}.{letter}" for letter in "xyzw"[: int(match[1][1])]]
                items = tuple(self.new_register(name, match[2]) for name in names)
                self.scope.names[found[1]] = items
                self.scope.names.update(zip(names, items, strict=True))
            else:
                self.scope.names[found[1]] = self.new_register(found[1], match[2])
        self.at = end + 1

    def new_register(self, name: str, ptx_type: str) -> Register:
        assert self.function is not None
        self.numbers += 1
        return Register(name, ptx_type, self.numbers)

    # Instructions

    def read_instruction(self, match: re.Match[str], pending: list[tuple[list[Operand], int, _Scope]]) -> Instruction:
        scope = self.scope
        assert scope is not None
        self.fresh.clear()
        opcode, *modifiers = re.sub(r"\s+", "", match[3]).split(".") if " " in match[3] else match[3].split(".")
        guard = None
        if match[2]:
            found = self.find(match[2])
            if not isinstance(found, Register):
                self.fail(f"'{match[2]}' is not a predicate")
            guard = found
        source = match[4].strip()
        operands = self.read_operands(source) if source else []
        text = re.sub(r"\s+", " ", match[0]).rstrip(";")
        if opcode == "bra":
            pending.append((operands, 0, scope))
        return Instruction(
            opcode, tuple(modifiers), operands, guard, match[1] == "!", self.place, self.line(match.start()), text
        )

    def read_operands(self, source: str) -> list[Operand]:
        operands: list[Operand] = []
        for part in _split(source):
            found = self.find(part)
            operands.append(found if isinstance(found, Register) else self.read_operand(part))
        return operands

    def read_operand(self, source: str) -> Operand:
        tokens = _TOKEN.findall(source)
        if "".join(tokens) != re.sub(r"\s+", "", source):
            self.fail(f"{source!r} is not an operand")
        reader = _Operands(self, tokens)
        operand = reader.read()
        if reader.at != len(tokens):
            self.fail(f"{source!r} is not an operand")
        return operand

    def find(self, name: str) -> Register | PtxVariable | tuple[Register, ...] | None:
        scope = self.scope
        while scope:
            if (found := scope.names.get(name)) is not None:
                return found
            if scope.prefixes and (match := _SPLIT_NUMBER.fullmatch(name)):
                declared = scope.prefixes.get(match[1])
                if declared and int(match[2]) < declared[1]:
                    register = scope.names[name] = self.new_register(name, declared[0])
                    return register
            scope = scope.parent
        return None

    # Variables

    def read_variables(self) -> Iterator[PtxVariable]:
        start = self.at
        end = self.text.find(";", start)
        if end < 0:
            self.fail("a declaration without an end")
        source = self.text[start:end]
        match = re.compile(
            r"((?:\.(?:extern|visible|weak|common)\s*)*)\.(global|const|shared|local|param|tex)(?:::\w+|\[\d+\])?\s*"
            r"((?:\.align\s+\d+\s*|\.attribute\s*\([^)]*\)\s*|\.v[248]\b\s*|\.ptr\b\s*)*)\.(\w+)\s*"
            r"(?:\.align\s+(\d+)\s*)?"
        ).match(source)
        if not match:
            self.fail(f"{self.excerpt()!r} is not a declaration")
        ptx_type = match[4]
        self.at = end + 1
        if ptx_type not in NBYTES:
            if ptx_type in ("texref", "samplerref", "surfref") or match[2] == "tex":
                return  # an error where it is used
            self.fail(f"'.{ptx_type}' is not a type of a variable", start)
        vector = re.search(r"\.v([248])", match[3])
        item_nbytes = NBYTES[ptx_type]
        lanes = int(vector[1]) if vector else 1
        found = re.search(r"\.align\s+(\d+)", match[3])
        align = int(found[1]) if found else int(match[5] or item_nbytes * lanes)
        for declarator in _split(source[match.end() :]):
            yield self.read_variable(declarator, match, ptx_type, align, item_nbytes, lanes, start)

    def read_variable(
        self, declarator: str, match: re.Match[str], ptx_type: str, align: int, item_nbytes: int, lanes: int, start: int
    ) -> PtxVariable:
        head, _, initial = declarator.partition("=")
        found = re.fullmatch(rf"\s*({_NAME})\s*(?:<\s*(\d+)\s*>)?\s*((?:\[[^\]]*\]\s*)*)", head)
        if not found:
            self.fail(f"{head.strip()!r} is not a variable's name", start)
        dims = [item.strip() for item in re.findall(r"\[([^\]]*)\]", found[3])]
        self.numbers += 1
        variable = PtxVariable(found[1], match[2], ptx_type, align, 0, self.numbers)
        variable.is_extern = "extern" in match[1]
        variable.is_weak = "weak" in match[1] or "common" in match[1]
        variable.is_visible = variable.is_weak or variable.is_extern or "visible" in match[1]
        data = bytearray()
        counts = [self.constant(dim) if dim else 0 for dim in dims]
        if initial:
            self.fill(variable, data, _TOKEN.findall(initial), [*counts, lanes] if lanes > 1 else counts, start)
        nbytes = item_nbytes * lanes
        if dims and not dims[0]:  # as long as its initialiser, or declared elsewhere
            inner = nbytes * math.prod(counts[1:])
            nbytes = -(-len(data) // inner) * inner if inner else 0
        else:
            nbytes *= math.prod(counts)
        if len(data) > nbytes:
            self.fail(f"variable '{variable.name}' has more initial values than elements", start)
        variable.nbytes = nbytes
        variable.initial = bytes(data) if any(data) else b""
        return variable

    def fill(self, variable: PtxVariable, data: bytearray, tokens: list[str], counts: list[int], start: int) -> None:
        """Write an initialiser: nested braces follow the dimensions, and what is not given is zero."""
        size = NBYTES[variable.type]
        at = 0

        def span(level: int) -> int:
            return size * math.prod(max(count, 1) for count in counts[level:])

        def read_numbers() -> bytes:
            """Elements up to the next that is no plain number: a table has very many of them."""
            nonlocal at
            end = at
            while end + 1 < len(tokens) and _DECIMAL.fullmatch(tokens[end]) and tokens[end + 1] in (",", "}"):
                end += 2
            words = tokens[at:end:2]
            encoded = {word: _encode(int(word), variable.type) for word in set(words)}
            at = end - 1 if words and tokens[end - 1] == "}" else end
            return b"".join(map(encoded.__getitem__, words))

        def read(level: int, begin: int) -> None:
            nonlocal at
            if at < len(tokens) and tokens[at] == "{":
                at += 1
                position = begin
                while at < len(tokens) and tokens[at] != "}":
                    if numbers := read_numbers():
                        data.extend(bytes(max(position - len(data), 0)))
                        data[position : position + len(numbers)] = numbers
                        position += len(numbers)
                        continue
                    nested = tokens[at] == "{"
                    read(level + 1, position)
                    position += span(level + 1) if nested else size
                    if at < len(tokens) and tokens[at] == ",":
                        at += 1
                at += 1
                return
            reader = _Operands(self, tokens)
            reader.at = at
            value = reader.initial()
            at = reader.at
            if len(data) < begin + size:
                data.extend(bytes(begin + size - len(data)))
            if isinstance(value, Relocation):
                value.offset, value.nbytes = begin, size
                variable.relocations.append(value)
            else:
                data[begin : begin + size] = _encode(value, variable.type)

        read(0, 0)
        if at != len(tokens):
            self.fail(f"the initialiser of '{variable.name}' is not understood", start)

    def constant(self, source: str) -> int:
        operand = self.read_operand(source)
        if not isinstance(operand, Immediate) or not isinstance(operand.value, int):
            self.fail(f"{source!r} is not a constant")
        return operand.value

    # Text

    def peek(self, char: str) -> bool:
        match = re.compile(r"\s*").match(self.text, self.at)
        assert match
        return self.text.startswith(char, match.end())

    def skip_line(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end + 1

    def skip_statement(self) -> None:
        end = self.text.find(";", self.at)
        if end < 0:
            self.fail("a statement without an end")
        self.at = end + 1

    def block_end(self, at: int) -> int:
        end = self.text.find("}", at)
        if at < 0 or end < 0:
            self.fail("a section without an end")
        return end + 1

    def excerpt(self) -> str:
        return " ".join(self.text[self.at : self.at + 60].split())[:50]


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    **OPERATORS, "||": lambda a, b: bool(a or b), "&&": lambda a, b: bool(a and b),
    "<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63),
}  # fmt: skip


class _Operands:
    """Reads operands from tokens: registers, addresses, vectors, and constant expressions by precedence."""

    def __init__(self, parser: _Parser, tokens: list[str]) -> None:
        self.parser = parser
        self.tokens = tokens
        self.at = 0

    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        word = self.next()
        self.at += 1
        return word

    def accept(self, *words: str) -> str:
        """Take the next word if it is one of these; else an empty one."""
        return self.take() if self.next() in words else ""

    def expect(self, word: str) -> None:
        if self.take() != word:
            self.fail(f"lacks a {word!r}")

    def fail(self, problem: str) -> NoReturn:
        self.parser.fail(f"{''.join(self.tokens)!r} {problem}")

    def offset(self) -> int:
        """The number behind a sign; 0 where there is no sign."""
        sign = self.accept("+", "-")
        return (self.number() if sign == "+" else -self.number()) if sign else 0

    def read(self) -> Operand:
        word = self.next()
        if word == "{":
            return Vector(self.read_list("{", "}"))
        if word == "(":
            saved = self.at
            try:
                return self.read_expression()
            except PtxError:
                self.at = saved
            items = self.read_list("(", ")")
            return OperandList(items)
        if self.accept("["):
            parts: list[Operand] = [self.read_address()]
            while self.accept(","):  # of a texture or a tensor: its coordinates
                parts.append(self.read())
            self.expect("]")
            return parts[0] if len(parts) == 1 else OperandList(tuple(parts))
        if self.accept("!"):
            return Not(self.read())
        if self.accept("_"):
            return self.read_second(NoOperand())
        if word[:1].isalpha() or word[:1] in "_$%":
            return self.read_second(self.read_name())
        return self.read_expression()

    def read_second(self, first: Operand) -> Operand:
        return Pair(first, self.read()) if self.accept("|") else first

    def read_list(self, begin: str, end: str) -> tuple[Operand, ...]:
        self.expect(begin)
        items = []
        while self.next() != end:
            if self.at >= len(self.tokens):
                self.fail(f"lacks a {end!r}")
            items.append(self.read())
            self.accept(",")
        self.take()
        return tuple(items)

    def read_name(self) -> Operand:
        name = self.take()
        if name == "WARP_SZ":
            return Immediate(32)
        found = self.parser.find(name)
        if isinstance(found, Register):
            return found
        if isinstance(found, tuple):
            return Vector(found)
        if found is None and "." in name and isinstance(whole := self.parser.find(name.partition(".")[0]), tuple):
            letter = name.partition(".")[2]
            index = "xyzw".find(letter) if letter in "xyzw" else "rgba".find(letter)
            if 0 <= index < len(whole):
                return whole[index]
        if found is None and is_special(name):
            return Special(name[1:])
        symbol = Symbol(found if found is not None else name)
        if self.next() in ("+", "-") and self.at + 1 < len(self.tokens):
            symbol.offset = self.offset()
        elif self.accept("["):  # an element of an array of b8: its byte
            symbol.offset = self.number() * (NBYTES[found.type] if found else 1)
            self.expect("]")
        return symbol

    def read_address(self) -> Address:
        word = self.next()
        if word[:1].isalpha() or word[:1] in "_$%":
            base = self.read_name()
            offset = self.offset()
            if isinstance(base, Symbol):
                return Address(Symbol(base.target), base.offset + offset)
            if isinstance(base, Register):
                return Address(base, offset)
            self.fail("is not an address")
        return Address(Immediate(self.number()), 0)

    def number(self) -> int:
        value = self.read_expression()
        if not isinstance(value.value, int):
            self.fail("needs an integer")
        return value.value

    def initial(self) -> int | float | Relocation:
        word = self.next()
        if word == "mask":
            self.parser.fail("'mask()' in an initialiser is not supported")
        if word[:1].isalpha() or word[:1] in "_$%":
            return self.relocation()
        if re.fullmatch(r"0[xX][fF][fF]0*", word) and self.tokens[self.at + 1 : self.at + 2] == ["("]:
            return self.parse_mask()
        value = self.read_expression()
        return float_of(value) if value.nbits else value.value

    def parse_mask(self) -> Relocation:
        """`0xFF00(symbol)`: one byte of an address, as old compilers write addresses into arrays of bytes."""
        mask = int(self.take(), 16)
        self.expect("(")
        relocation = self.relocation()
        self.expect(")")
        relocation.shift = (mask & -mask).bit_length() - 1
        return relocation

    def relocation(self) -> Relocation:
        """An address: of a name, or `generic(name)`, and what is added to it."""
        if self.accept("generic"):
            self.expect("(")
            relocation = self.relocation()
            self.expect(")")
        else:
            relocation = Relocation(0, 0, self.take(), 0)
        relocation.addend += self.offset()
        return relocation

    def read_expression(self, least: int = 0) -> Immediate:
        """A constant expression of operators that bind no looser than ``least``."""
        left = self.read_unary()
        while LEVELS.get(self.next(), -1) >= least:
            operator = self.take()
            right = self.read_expression(LEVELS[operator] + 1)
            if not isinstance(left.value, int) or not isinstance(right.value, int):
                self.fail("mixes numbers that are not integers")
            try:
                left = Immediate(int(_OPERATORS[operator](left.value, right.value)))
            except ZeroDivisionError:
                raise PtxError("a constant expression divides by zero") from None
        if not least and self.accept("?"):
            first = self.read_expression()
            self.expect(":")
            second = self.read_expression()
            return first if left.value else second
        return left

    def read_unary(self) -> Immediate:
        word = self.take()
        if word == "-":
            operand = self.read_unary()
            if operand.nbits:
                return Immediate(int(operand.value) ^ (1 << (operand.nbits - 1)), operand.nbits)
            return Immediate(-operand.value)
        if word == "+":
            return self.read_unary()
        if word in ("~", "!"):
            operand = self.read_unary()
            if not isinstance(operand.value, int):
                self.fail("needs an integer")
            return Immediate(~operand.value if word == "~" else int(not operand.value))
        if word == "(":
            if self.next().startswith("."):  # a cast: .s64 or .u64
                self.take()
                self.expect(")")
                return self.read_unary()
            value = self.read_expression()
            self.expect(")")
            return value
        if word == "WARP_SZ":
            return Immediate(32)
        if word[:2] in ("0f", "0F"):
            return Immediate(int(f"0x{word[2:]}", 0), 32)
        if word[:2] in ("0d", "0D") and len(word) == 18:
            return Immediate(int(f"0x{word[2:]}", 0), 64)
        if not word[:1].isdigit() and not (word[:1] == "." and word[1:2].isdigit()):
            self.fail("is not an operand")
        return Immediate(_number(word))


def float_of(value: Immediate) -> float:
    """The number that an operand's float denotes; payloads of NaN are lost."""
    if value.nbits == 32:
        return float(struct.unpack("<f", struct.pack("<I", value.value))[0])
    if value.nbits == 64:
        return float(struct.unpack("<d", struct.pack("<Q", value.value))[0])
    return float(value.value)


def _number(word: str) -> int | float:
    word = word.rstrip("U")
    if word[:2] in ("0x", "0X"):
        return int(word, 16)
    if word[:2] in ("0b", "0B"):
        return int(word, 2)
    if "." in word or "e" in word or "E" in word:
        return float(word)
    return int(word, 8) if len(word) > 1 and word[0] == "0" and all(c in "01234567" for c in word) else int(word)


def _encode(value: float, ptx_type: str) -> bytes:
    nbytes = NBYTES[ptx_type]
    if ptx_type in ("f32", "f64"):
        return struct.pack("<f" if ptx_type == "f32" else "<d", float(value))
    if isinstance(value, float):
        return struct.pack("<f" if nbytes == 4 else "<d", value)
    return (int(value) & ((1 << (8 * nbytes)) - 1)).to_bytes(nbytes, "little")


def _blank(match: re.Match[str]) -> str:
    found = match[0]
    return found if found[0] == '"' else " " + "\n" * found.count("\n")


def _split(source: str) -> list[str]:
    """Parts between the commas that are outside of all brackets."""
    if not any(bracket in source for bracket in "{[("):
        return [part.strip() for part in source.split(",")]
    parts, depth, begin = [], 0, 0
    for at, char in enumerate(source):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(source[begin:at].strip())
            begin = at + 1
    parts.append(source[begin:].strip())
    return parts


def parse(text: str) -> Module:
    """Read a PTX text.

    Raises:
        PtxError: The text is not PTX; the message and `line` say where.
    """
    try:
        return _Parser(text.rstrip("\0")).parse()
    except RecursionError:
        raise PtxError("an expression of the PTX text has too many brackets") from None


SYSTEM_CALLS = ("vprintf", "__assertfail", "malloc", "free")
"""Functions that are declared and nowhere defined: the runtime has them."""


def merge(modules: Sequence[Module]) -> Module:
    """Link modules: one that has the definitions of all, as the linker makes it of texts compiled with `-rdc=true`.

    A definition takes the place of declarations, and of weak definitions. What is not visible stays apart: if another
    module has its name, it gets another one, which ends in `@` and the number of its module.

    Raises:
        PtxError: A name is defined twice, or nowhere.
    """
    if len(modules) == 1:
        return modules[0]
    merged = Module(modules[0].target, files=modules[0].files)
    owners: dict[str, set[int]] = {}
    for number, module in enumerate(modules):
        for name in (*module.variables, *module.functions, *module.aliases):
            owners.setdefault(name, set()).add(number)
    for number, module in enumerate(modules):
        own = {
            name: f"{name}@{number}"
            for name, found in _find_by_name(module)
            if not found.is_visible and _is_defined(found) and len(owners[name]) > 1
        }
        for name, variable in module.variables.items():
            relocations = [replace(each, target=own.get(each.target, each.target)) for each in variable.relocations]
            name = own.get(name, name)
            changed = replace(variable, name=name, relocations=relocations)
            merged.variables[name] = _choose(merged.variables.get(name), changed)
        for name, function in module.functions.items():
            name = own.get(name, name)
            merged.functions[name] = _choose(merged.functions.get(name), replace(function, name=name, aliases=own))
        for name, target in module.aliases.items():
            merged.aliases[name] = own.get(target, target)
    for name, found in _find_by_name(merged):
        is_system = name in SYSTEM_CALLS or name.startswith(("cuda", "__cuda"))
        is_window = isinstance(found, PtxVariable) and found.space == "shared"  # the dynamic part of it
        if not (_is_defined(found) or is_system or is_window or name in merged.aliases):
            raise PtxError(f"'{name}' is declared, and no module defines it: link the one that does")
    return merged


def _find_by_name(module: Module) -> list[tuple[str, PtxFunction | PtxVariable]]:
    return [*module.variables.items(), *module.functions.items()]


def _is_defined(found: PtxFunction | PtxVariable) -> bool:
    return found.body is not None if isinstance(found, PtxFunction) else not found.is_extern


_Named = TypeVar("_Named", PtxFunction, PtxVariable)


def _choose(first: _Named | None, second: _Named) -> _Named:
    """Choose which of two declarations or definitions of a name stays."""
    if first is None or not _is_defined(first):
        if isinstance(first, PtxVariable) and isinstance(second, PtxVariable) and not _is_defined(second):
            return replace(second, align=max(first.align, second.align))
        return second
    if not _is_defined(second) or second.is_weak:
        return first
    if first.is_weak:
        return second
    raise PtxError(f"'{first.name}' is defined in two modules: make one of them static, or weak")
