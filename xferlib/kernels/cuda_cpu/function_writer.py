"""A function of PTX in C: its variables, its operands, and what stands around its instructions.

A register is a C variable of its size, unsigned or, where it mostly holds floats, a float (NVRTC declares `.b32` for
both); each instruction reads its operands as the type that it names. All integer arithmetic is unsigned, as signed
overflow has no meaning in C. Loops count `t->budget` down at their backward branches. Registers that a program reads
before it has written them are 0.
"""

from __future__ import annotations

import functools
import re
import struct
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import NoReturn

from xferlib.kernels.cuda_cpu import dataflow, ptx
from xferlib.kernels.cuda_cpu.dataflow import STRONG, find_registers
from xferlib.kernels.cuda_cpu.layout import ModuleLayout, align_up
from xferlib.kernels.cuda_cpu.ptx import (
    NBYTES,
    Address,
    Immediate,
    Instruction,
    NoOperand,
    Not,
    Operand,
    Pair,
    PtxError,
    PtxFunction,
    PtxLabel,
    PtxVariable,
    Register,
    Special,
    Symbol,
    Vector,
)
from xferlib.kernels.cuda_cpu.translation import REDZONE, FaultSite, InlinedCall

# --- PTX's types and values in C

UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "xf_b128"}
_SIGNED = {1: "s8", 2: "s16", 4: "s32", 8: "s64"}


@functools.cache
def name_c_type(ptx_type: str) -> str:
    if ptx_type == "pred":
        return "u32"
    if ptx_type in ("f32", "f64"):
        return ptx_type
    return (_SIGNED if ptx_type in ("s8", "s16", "s32", "s64") else UNSIGNED)[NBYTES[ptx_type]]


FLOATS = {"f32": 4, "f64": 8}
C_NBYTES = {name: nbytes for kinds in (UNSIGNED, _SIGNED) for nbytes, name in kinds.items()} | FLOATS


def convert_value(expression: str, source: str, target: str) -> str:
    """A C expression of one C type as another: bits stay, wider integers are extended, floats are never rounded."""
    if source == target:
        return expression
    if source in FLOATS:
        bits = f"xf_b{8 * C_NBYTES[source]}({expression})"
        plain = "u32" if source == "f32" else "u64"
        return bits if target == plain else convert_value(bits, plain, target)
    if target in FLOATS:
        plain = "u32" if target == "f32" else "u64"
        return f"xf_{target}({convert_value(expression, source, plain)})"
    if target == "xf_b128":
        return f"(xf_b128){{{expression}, 0}}"
    if source == "xf_b128":
        return f"({target})({expression}).x"
    return f"({target}){expression}" if expression.isidentifier() else f"({target})({expression})"


def write_integer(value: int, kind: str) -> str:
    nbits = 8 * C_NBYTES[kind]
    if kind == "xf_b128":
        return f"(xf_b128){{{value & (1 << 64) - 1}ull, {value >> 64 & (1 << 64) - 1}ull}}"
    value &= (1 << nbits) - 1
    if kind[0] == "u":
        return f"{value}ull" if nbits == 64 else f"{value}u" if nbits == 32 else f"(({kind}){value})"
    if value < 1 << (nbits - 1):
        return f"{value}ll" if nbits == 64 else str(value)
    return f"({kind}){value}ull" if nbits == 64 else f"({kind}){value}u"


def encode_float(value: float, kind: str) -> int:
    if kind == "f64":
        return int.from_bytes(struct.pack("<d", value), "little")
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0x7F800000 | (0x80000000 if value < 0 else 0)


def write_float(bits: int, kind: str) -> str:
    nbits, exponent = (32, 0x7F800000) if kind == "f32" else (64, 0x7FF0000000000000)
    if bits & exponent == exponent:
        return f"xf_{kind}({bits}{'u' if nbits == 32 else 'ull'})"
    value = ptx.float_of(Immediate(bits, nbits))
    return f"({value.hex()}{'f' if nbits == 32 else ''})"


# --- functions

_MOST_JOINS = 32  # XF_JOINS
_MOST_PASSED = 8  # XF_PASSED
_MOST_LOCAL_NBYTES = 512 << 10  # of one thread, as on every GPU
_NEEDS_FIBERS = {"bar", "barrier", "shfl", "vote", "match", "redux", "activemask", "elect", "nanosleep"}
# Instructions that make a canonical NaN of every NaN, so that it does not matter which one they are given.
_NAN_BLIND = {
    "add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "min", "max",
    "setp", "set", "testp",
}  # fmt: skip
SPACE_FLAGS = {"global": "XF_GLOBAL", "shared": "XF_SHARED", "local": "XF_LOCAL", "const": "XF_CONST"}
VECTORS = {"v2": 2, "v4": 4, "v8": 8}


class UncoveredError(PtxError):
    """A GPU runs the instruction, this translator does not. `site` says where in the CUDA source it stands."""

    def __init__(self, message: str, site: FaultSite) -> None:
        super().__init__(message, site.ptx_line)
        self.site = site


def make_site(function: PtxFunction, instruction: Instruction, sources: Collection[str]) -> FaultSite:
    """Where an instruction stands; ``sources`` are the files of the kernels."""
    place = instruction.place
    if place is None:
        return FaultSite("", 0, 0, instruction.text, function.name, instruction.line)
    file = function.files.get(place.file, "")
    calls, frames, is_whole = [], [(file, place.line)], place.is_whole
    inner = place
    while inner.inlined_at:
        outer = inner.inlined_at
        called_in = function.files.get(outer.file, "")
        calls.append(InlinedCall(inner.function, called_in, outer.line))
        frames.append((called_in, outer.line))
        is_whole &= outer.is_whole
        inner = outer
    source_lines = tuple(line for name, line in frames if name in sources)
    return FaultSite(
        file, place.line, place.column, instruction.text, function.name, instruction.line, tuple(calls), is_whole,
        source_lines,
    )  # fmt: skip


def _sanitise(name: str) -> str:
    return re.sub(r"\W", "_", name.lstrip("%"))


Handler = Callable[["FunctionWriter", Instruction], None]
_NO_INSTRUCTION = Instruction("", (), [], None, False, None, 0, "")


def _join_doubts(*doubts: str) -> str:
    """The first doubt of some that is one."""
    *first, last = [each for each in doubts if each != "0"] or ["0"]
    return f"({''.join(f'{each} ? {each} : ' for each in first)}{last})" if first else last


class FunctionWriter:
    """Writes one function.

    Args:
        layout: Of its module.
        function: What to write.
        find_handler: What writes an instruction; None of one that is not known.
        sites: Those of the module, which grow by those of the function.
        finds_overflow: As of `emit.translate`.
        passes_doubts: A function of the module may give another one what has no value.
    """

    def __init__(
        self,
        layout: ModuleLayout,
        function: PtxFunction,
        find_handler: Callable[[Instruction], Handler | None],
        sites: list[FaultSite],
        *,
        finds_overflow: bool,
        passes_doubts: bool,
    ) -> None:
        self.layout = layout
        self.function = function
        self.checked = layout.checked
        self.sites = sites
        self._find_handler = find_handler
        self._finds_overflow = finds_overflow
        self._passes_doubts = passes_doubts
        self.local_nbytes = 0
        self.needs_fibers = self.is_cooperative = self.calls_pointers = False

    def write(self) -> str:
        mark = len(self.sites)
        self.kinds: dict[int, str] = {}
        self.separate = dataflow.separate_locals(self.function, REDZONE) if self.checked else None
        if self.separate is not None:
            self.function = replace(self.function, body=self.separate.body)
        self.zeroed = dataflow.find_unwritten(self.function)
        self.find_loops()
        self.find_meanings()
        text = self.write_once()
        # NVRTC declares registers of floats as bits, too: those that mostly hold floats become floats, in a second
        # pass.
        floats = {number: kind for number, (kind, score) in self.scores.items() if score > 0}
        if floats:
            del self.sites[mark:]
            self.kinds = floats
            text = self.write_once()
        return text

    def write_once(self) -> str:
        function = self.function
        self.lines: list[str] = []
        self.names: dict[int, tuple[str, str]] = {}  # of registers: C name and C type
        self.used = {"void", "volatile"}  # a register may be named oid
        self.scores: dict[int, tuple[str, int]] = {}
        self.arrays: dict[int, str] = {}
        self.locals: list[tuple[str, int, int]] = []
        self.site_number: int | None = None
        self.temporaries = 0
        self.declare_variables()
        self.find_observed()
        for number, variable in enumerate(function.params):
            if register := function.param_registers.get(variable.number):
                self.instruction = _NO_INSTRUCTION
                self.assign(register, variable.type, f"*({name_c_type(variable.type)} *)i{number}")
        if not function.is_entry:
            self.add_doubt_exchange(function.params, "{name} = t->doubts[{number}];")
        body = function.body or []
        for index, item in enumerate(body):
            if isinstance(item, PtxLabel):
                self.lines.append(f"L{item.number}:;")
                continue
            self.index, self.instruction, self.site_number = index, item, None
            for number in self.passed.get(index, ()):
                self.add_line(f"t->joins[{number}]++;")
            for branch in self.decided.get(index, ()):
                self.add_doubts_of_branch(branch)
            self.write_instruction(item)
        self.leave("0")
        return self.assemble()

    def make_site(self) -> FaultSite:
        return make_site(self.function, self.instruction, self.layout.sources)

    def fail(self, message: str) -> NoReturn:
        site = self.make_site()
        raise PtxError(f"{site.words}: {message}: `{self.instruction.text}`", self.instruction.line)

    def refuse(self, what: str = "") -> NoReturn:
        site = self.make_site()
        what = what or f"the instruction '{self.instruction.name}'"
        raise UncoveredError(f"{self.function.name}(), {site.words}: {what} does not run on a CPU", site)

    @property
    def site(self) -> int:
        if self.site_number is None:
            self.site_number = len(self.sites)
            self.sites.append(self.make_site())
        return self.site_number

    # Declarations

    def declare_variables(self) -> None:
        function = self.function
        self.offsets: dict[int, int] = {}
        offset = 0
        if function.is_entry:
            for variable in function.params:
                offset = align_up(offset, variable.align)
                self.offsets[id(variable)] = offset
                offset += variable.nbytes
        else:
            for letter, variables in (("o", function.returns), ("i", function.params)):
                self.arrays |= {id(variable): f"{letter}{number}" for number, variable in enumerate(variables)}
        for variable in function.variables:
            if variable.space in ("local", "param"):
                name = self.make_name(variable.name)
                self.arrays[id(variable)] = name
                is_apart = self.separate is not None and variable is self.separate.variable
                nbytes = self.separate.nbytes if self.separate is not None and is_apart else variable.nbytes
                self.locals.append((name, nbytes, max(variable.align, 1)))
                if variable.space == "local":
                    self.local_nbytes += nbytes
        for variable in self.layout.uses[function.name][1].values():
            if variable.space == "local" and id(variable) not in self.arrays:  # of the module: each thread has its own
                name = self.make_name(variable.name)
                self.arrays[id(variable)] = name
                self.locals.append((name, variable.nbytes, max(variable.align, 1)))
                self.local_nbytes += variable.nbytes
        if self.local_nbytes > _MOST_LOCAL_NBYTES:
            raise PtxError(
                f"'{function.name}' has {self.local_nbytes} bytes of local variables, and the most is "
                f"{_MOST_LOCAL_NBYTES}; use an array for more"
            )
        local = {
            id(v): v for v in [*function.variables, *self.layout.uses[function.name][1].values()]
            if v.space == "local" and v.nbytes
        }  # fmt: skip
        self.watched: list[tuple[str, int, int]] = []  # the array, the offset and the bytes of a variable in it
        for identity, variable in local.items():
            name = self.arrays[identity]
            if self.separate is not None and variable is self.separate.variable:
                self.watched.extend((name, offset, nbytes) for offset, nbytes in self.separate.ranges)
            else:
                self.watched.append((name, 0, variable.nbytes))

    def make_name(self, name: str) -> str:
        name = base = "v" + _sanitise(name)
        number = 2
        while name in self.used:
            name, number = f"{base}__{number}", number + 1
        self.used.add(name)
        return name

    def find_name(self, register: Register) -> tuple[str, str]:
        found = self.names.get(register.number)
        if found is None:
            kind = self.kinds.get(register.number) or name_c_type(register.type)
            if kind[0] == "s":
                kind = "u" + kind[1:]
            found = self.names[register.number] = self.make_name(register.name), kind
        return found

    def find_observed(self) -> None:
        """Registers whose bits are observed: only for these must a NaN be the canonical one."""
        self.observed: set[int] = set()
        copies: list[tuple[Register, list[Operand]]] = []
        for _, item in self.function.instructions:
            if item.opcode in _NAN_BLIND and "f32" in item.modifiers:
                continue
            target = item.operands[0] if item.operands else None
            if item.opcode in ("mov", "selp") and item.modifiers == ("f32",) and isinstance(target, Register):
                copies.append((target, item.operands[1:]))
                continue
            self.observed |= find_registers(item.operands)
        size = -1
        while size != len(self.observed):  # who observes a copy observes its source
            size = len(self.observed)
            for target, sources in copies:
                if target.number in self.observed:
                    self.observed |= find_registers(sources)

    # Loops

    def find_loops(self) -> None:
        body = self.function.body or []
        self.positions = {item.number: index for index, item in enumerate(body) if isinstance(item, PtxLabel)}
        instructions = self.function.instructions
        branches = ((index, self.find_positions(item)) for index, item in instructions)
        self.loops = {(begin, index) for index, begins in branches for begin in begins if begin <= index}
        self.in_loop: set[int] = set()
        for begin, end in self.loops:
            self.in_loop.update(range(begin, end + 1))
        self.is_cooperative = any(
            isinstance(operand, Special) and operand.name in ("envreg1", "envreg2")
            for _, item in instructions for operand in item.operands
        )  # fmt: skip
        sources = [index for index, item in instructions if _is_source(item)]
        self.needs_fibers = (
            self.is_cooperative
            or any(item.opcode in _NEEDS_FIBERS for _, item in instructions)
            or any(
                bisect_left(sources, begin) < bisect_left(sources, end + 1) and self.may_spin(begin, end)
                for begin, end in self.loops
            )
        )

    def find_positions(self, item: Instruction) -> list[int]:
        """The indices to which a branch may lead."""
        return [self.positions[target.number] for target in dataflow.find_targets(self.function, item)]

    def may_spin(self, begin: int, end: int) -> bool:
        """Whether a loop may end only because another thread wrote to memory.

        That is: whether a branch out of it depends on a strong load or an atomic. A compare-and-swap whose expected
        value is renewed in the loop succeeds when its thread runs alone; so does what each turn changes by itself.
        """
        inside = [(index, item) for index, item in self.function.instructions if begin <= index <= end]
        defined = {number for _, item in inside for number in find_registers(item.operands[:1])}
        tainted: set[int] = set()
        for _, item in inside:
            if item.opcode == "ld" and not STRONG.isdisjoint(item.modifiers):
                tainted |= find_registers(item.operands[:1])
            elif item.opcode == "atom":
                second = item.operands[2] if len(item.operands) > 2 else None
                if "cas" in item.modifiers:
                    if not (second is not None and find_registers([second]) & defined):
                        tainted |= find_registers(item.operands[:1])
                elif "inc" in item.modifiers or "dec" in item.modifiers:
                    continue
                elif "exch" in item.modifiers or not isinstance(second, Immediate) or not second.value:
                    tainted |= find_registers(item.operands[:1])
            elif item.opcode == "call":
                named = (each.target for each in item.operands if isinstance(each, Symbol))
                if any(isinstance(each, str) and self.may_wait(each) for each in named):
                    return True
        if not tainted:
            return False
        users = [item for _, item in inside if item.opcode not in ("st", "bra", "red")]
        tainted = dataflow.close(
            tainted,
            lambda number: {
                result
                for item in users if number in find_registers(item.operands[1:])
                for result in find_registers(item.operands[:1])
            },
        )  # fmt: skip
        for index, item in inside:
            if item.opcode in ("bra", "exit", "ret") and item.guard and item.guard.number in tainted:
                targets = self.find_positions(item)
                if index == end or not targets or any(not begin <= target <= end for target in targets):
                    return True
        return False

    def may_wait(self, name: str) -> bool:
        """Whether a called function, or what it calls, looks at memory that other threads write."""
        functions = map(self.layout.module.functions.get, self.layout.reach([self.function.aliases.get(name, name)]))
        return any(
            _is_source(item) and item.opcode != "call"
            for function in functions if function is not None
            for _, item in function.instructions
        )  # fmt: skip

    # Text

    def assemble(self) -> str:
        body = "\n".join(self.lines)
        head = [self.layout.declare(self.function) + " {"]
        for kind in sorted({kind for _, kind in self.names.values()}):
            declared = [
                name + (" = 0" if number in self.zeroed and kind != "xf_b128" else "")
                for number, (name, of) in self.names.items()
                if of == kind
            ]
            head.append(f"{kind} {', '.join(declared)};")
        if self.doubtful:
            unset = dict.fromkeys(self.zeroed, "XF_UNSET")
            initial = (f"u_{number} = {unset.get(number, '0')}" for number in sorted(self.doubtful))
            head.append(f"u32 {', '.join(initial)};")
        if passed := sorted(set(re.findall(r"\bp_\w+", body))):
            head.append(f"u32 {', '.join(f'{name} = 0' for name in passed)};")
        if self.decisions:
            head.append(f"u32 {', '.join(f'd_{branch} = 0' for branch in self.decisions)};")
        if self.exact:
            head.append(f"u64 {', '.join(f'e_{number} = 0' for number in sorted(self.exact))};")
        if re.search(r"\bcc\b", body):
            head.append("u32 cc = 0;")
        for name, nbytes, align in self.locals:
            zone = max(REDZONE, align) if self.checked and any(name == each for each, _, _ in self.watched) else 0
            total = max(nbytes + 2 * zone, 1)
            if zone:
                head.append(
                    f"char {name}_[{total}] __attribute__((aligned({align}))); char *const {name} = {name}_ + {zone};"
                )
            elif nbytes == align and align in (4, 8):
                # One word: a compiler keeps it in a register where its address is not taken otherwise.
                head.append(f"{UNSIGNED[align]} {name}_; char *const {name} = (char *)&{name}_;")
            else:
                head.append(f"char {name}[{total}] __attribute__((aligned({align})));")
        if self.watched and self.checked:
            begins = (f"run->local_begin(t, {name} + {offset}, {nbytes});" for name, offset, nbytes in self.watched)
            body = "\n".join([*begins, body])
        for name, text in (
            ("run", "const xf_run *const run = t->run;"),
            ("m", "const xf_math *const m = t->math;"),
            ("sh", "const u64 sh = t->shared;"),
            ("md", "const u64 md = t->module;"),
        ):
            if re.search(rf"\b{name}\b", body) or (name == "run" and "XF_TICK" in body):
                head.append(text)
        return "\n".join([*head, body, "}"])

    def add_line(self, line: str) -> None:
        self.lines.append(line)

    def open_block(self, line: str) -> None:
        """Begin a block of C, which ends with the instruction."""
        self.add_line(f"{{ {line}")
        self.opened += 1

    def write_instruction(self, item: Instruction) -> None:
        handler = self._find_handler(item)
        if handler is None:
            self.refuse()
        guard = f"u_{item.guard.number}" if item.guard is not None and item.guard.number in self.doubtful else ""
        decided = dataflow.find_results(item) & self.doubtful if guard else set()
        if guard and not decided and item.opcode not in ("bra", "exit", "ret"):
            self.refuse_doubts([guard])
        if (decision := self.decisions.get(self.index)) is not None:
            self.refuse_doubts([guard] if decision.is_of_write else [])
            self.add_line(f"d_{self.index} = {_join_doubts(guard, f'd_{self.index}')};")
        begin = len(self.lines)
        self.refuse_doubts([f"d_{branch}" for branch, each in self.decisions.items() if self.index in each.writes])
        if self.doubtful:
            self.add_doubts(item)
        if self.exact:
            self.add_whole_numbers(item)
        self.opened = 0
        try:
            handler(self, item)
        except PtxError:
            raise
        except (KeyError, ValueError, StopIteration):  # a type or a word that is none of the instruction's
            self.refuse()
        self.lines += ["}"] * self.opened
        if self.doubtful and item.opcode == "st" and dataflow.may_reach_block_memory(item):
            self.add_stored_doubts(item)
        if self.checked and item.opcode == "shfl":
            self.add_doubt_of_shuffle(item)
        if self.exact and not dataflow.is_exact_step(item):
            for number in sorted(dataflow.find_results(item) & self.exact):
                self.add_line(f"e_{number} = (u64)(s64)(s32){self.names[number][0]};")
        if item.guard is not None:
            condition = self.read_register(item.guard, "pred")
            body = " ".join(self.lines[begin:])
            del self.lines[begin:]
            self.add_line(f"if ({'!' if item.negated else ''}{condition}) {{ {body} }}")
            for number in sorted(decided - {item.guard.number}):
                self.add_line(f"u_{number} = {_join_doubts(f'u_{number}', guard)};")

    # What is checked of registers

    def find_meanings(self) -> None:
        self.meanings: dict[int, str] = {}
        self.doubtful: set[int] = set()
        self.decisions: dict[int, dataflow.Decision] = {}  # of branches by registers that may have no value
        self.decided: dict[int, list[int]] = {}  # where their ways meet, those branches
        self.exact: set[int] = set()
        self.widenings: set[int] = set()
        self.bypasses: dict[int, int] = {}  # of barriers that may be passed by, their numbers
        self.passed: dict[int, list[int]] = {}  # where they have been, their numbers
        if not self.checked:
            return
        flow = dataflow.ValueFlow(self.function)
        self.meanings = dataflow.find_meanings(flow, self.loops)
        if self.function.is_entry:
            joins = dataflow.find_joins(flow, _MOST_JOINS)
            self.bypasses = {barrier: number for number, barrier in enumerate(joins)}
            for number, join in enumerate(joins.values()):
                self.passed.setdefault(join, []).append(number)
        self.parts = dataflow.find_parts(flow)
        unset = self.zeroed | self.find_received()
        self.doubtful, self.decisions = dataflow.find_doubtful(flow, unset, self.loops)
        for branch, decision in self.decisions.items():
            if decision.join is not None:
                self.decided.setdefault(decision.join, []).append(branch)
        if self._finds_overflow:
            self.exact, self.widenings = dataflow.find_indices(flow)

    def may_pass_doubt(self, variable: object) -> bool:
        """Whether the doubt of a parameter, or of what a call returns, goes with it: of numbers, in some modules."""
        return (
            self._passes_doubts and isinstance(variable, PtxVariable) and variable.space == "param"
            and 0 < variable.nbytes <= 8
            and not (self.function.is_entry and any(variable is each for each in self.function.params))
        )  # fmt: skip

    def find_passed(self, operand: Operand) -> PtxVariable | None:
        """The variable at an address, if its doubt goes with it."""
        base = operand.base if isinstance(operand, Address) else None
        target = base.target if isinstance(base, Symbol) else None
        return target if isinstance(target, PtxVariable) and self.may_pass_doubt(target) else None

    def find_received(self) -> set[int]:
        """Registers that may have received no value from another function."""
        loads = (each for _, each in self.function.instructions if each.opcode == "ld")
        return dataflow.find_results(*(each for each in loads if self.find_passed(each.operands[1])))

    def add_doubt_exchange(self, variables: Iterable[object], text: str) -> None:
        """Give the doubts of some variables to another function, or take them, as `text` says."""
        for number, variable in enumerate(variables):
            if number < _MOST_PASSED and self._passes_doubts:
                name = f"p_{self.arrays[id(variable)]}" if self.may_pass_doubt(variable) else ""
                if name or "= {name}" in text:
                    self.add_line(text.format(number=number, name=name or "0"))

    def find_doubts(self, operands: Iterable[Operand]) -> list[str]:
        """Conditions that registers among operands have no value."""
        found = find_registers(operands, with_addresses=True) & self.doubtful
        return [f"u_{number}" for number in sorted(found)]

    def refuse_doubts(self, doubts: list[str], operator: str = " || ") -> None:
        if doubts:
            self.add_line(f"if ({operator.join(doubts)}) run->unset(t, {_join_doubts(*doubts)}, {self.site});")

    def add_doubts_of_branch(self, branch: int) -> None:
        """Where the ways of a branch that was decided without a value meet, what they have set has none."""
        doubts = (
            f"u_{number} = {_join_doubts(f'u_{number}', f'd_{branch}')};" for number in self.decisions[branch].results
        )
        self.add_line(f"if (d_{branch}) {{ {' '.join(sorted(doubts))} d_{branch} = 0; }}")

    def add_doubt_of_shuffle(self, item: Instruction) -> None:
        """Of the value that it has given, and not of whether the lane is in the range."""
        target = item.operands[0]
        value = target.first if isinstance(target, Pair) else target
        for number in sorted(dataflow.find_results(item) & self.doubtful):
            self.add_line(f"u_{number} = {'t->doubt' if number in find_registers([value]) else '0'};")

    def add_doubts(self, item: Instruction) -> None:
        """Registers without a value make others so, until they reach memory, an address or another thread.

        Kernels compute whole rows of which they store the first ones, and a compiler selects among such registers: also
        a branch may depend on what is not used.
        """
        operands, opcode = item.operands, item.opcode
        results = sorted(dataflow.find_results(item) & self.doubtful)
        if opcode == "ld" and dataflow.may_reach_block_memory(item):
            self.refuse_doubts(self.find_doubts(operands[1:]))
            self.add_loaded_doubts(item)
            return
        if opcode in ("ld", "ldu", "call"):
            self.refuse_doubts(self.find_doubts(operands[1:]) if opcode != "call" else [])
            received = self.find_passed(operands[1]) if opcode == "ld" else None
            expression = "0" if received is None else f"p_{self.arrays[id(received)]}"
        elif opcode == "st":
            self.refuse_doubts(self.find_doubts(operands[:1]))
            doubts = [self.find_doubts([value]) for value in _list_values(operands[1])]
            if (passed := self.find_passed(operands[0])) is not None:
                given = _join_doubts(*(each for doubt in doubts for each in doubt))
                self.add_line(f"p_{self.arrays[id(passed)]} = {given};")
            # Of a struct that is copied, some members may have no value.
            if all(doubts) and "global" in item.modifiers:
                self.refuse_doubts([each for doubt in doubts for each in doubt], " && ")
            return
        elif opcode in ("atom", "red", "vote", "match", "redux", "bar", "barrier"):
            self.refuse_doubts(self.find_doubts(operands[dataflow.has_target(item) :]))
            expression = "0"
        elif opcode == "shfl":
            self.refuse_doubts(self.find_doubts(operands[2:]))
            self.add_line(f"t->doubt = {_join_doubts(*self.find_doubts(operands[1:2]))};")
            return
        else:
            expression = self.combine_doubts(item)
        for number in results:
            self.add_line(f"u_{number} = {expression};")

    def combine_doubts(self, item: Instruction) -> str:
        operands, opcode = item.operands, item.opcode
        sources = [self.find_doubts([operand]) for operand in operands[1:]]
        if not any(sources):
            return "0"
        each = [_join_doubts(*source) for source in sources]
        if opcode == "selp":
            return _join_doubts(each[2], f"({self.read(operands[3], 'pred')} ? {each[0]} : {each[1]})")
        if opcode == "and" or (opcode == "or" and item.modifiers == ("pred",)):  # the other one may decide
            sign = "" if opcode == "and" else "!"
            a, b = (f"{sign}{self.read(operand, item.modifiers[0])}" for operand in operands[1:3])
            return f"{each[0]} && ({each[1]} || {b}) ? {each[0]} : {each[1]} && {a} ? {each[1]} : 0"
        is_pack = opcode in ("bfi", "prmt") or (opcode == "mov" and isinstance(operands[1], Vector))
        is_pack = is_pack or (opcode == "or" and bool(find_registers(operands[1:3]) & self.parts))
        if is_pack:  # of members, some of which may have no value
            parts = operands[1].items if isinstance(operands[1], Vector) else operands[1:3]
            doubts = [_join_doubts(*self.find_doubts([part])) for part in parts]
            return f"{' && '.join(doubts)} ? {doubts[0]} : 0"
        return _join_doubts(*dict.fromkeys(doubt for source in sources for doubt in source))

    def add_stored_doubts(self, item: Instruction) -> None:
        """Shared and local memory may receive what has no value, if no thread uses it then."""
        for value, place in zip(_list_values(item.operands[1]), self.list_places(item, 0), strict=False):
            for doubt in self.find_doubts([value]):
                self.add_line(f"if ({doubt}) run->forget(t, {place}, {doubt}, {self.site});")

    def add_loaded_doubts(self, item: Instruction) -> None:
        for value, place in zip(_list_values(item.operands[0]), self.list_places(item, 1), strict=False):
            for number in find_registers([value]) & self.doubtful:
                self.add_line(f"u_{number} = run->lacks(t, {place});")

    def list_places(self, item: Instruction, operand: int) -> list[str]:
        """The address, the bytes and the state space of each value of an access."""
        nbytes = next(NBYTES[word] for word in item.modifiers if word in NBYTES)
        count = next((VECTORS[word] for word in item.modifiers if word in VECTORS), 1)
        space = next((SPACE_FLAGS[word] for word in item.modifiers if word in SPACE_FLAGS), "0")
        address = self.write_address(item.operands[operand])
        return [f"{address} + {number * nbytes}, {nbytes}, {space}" for number in range(count)]

    def add_whole_numbers(self, item: Instruction) -> None:
        """The whole numbers that 32-bit registers stand for; sums that leave their range and come back are right."""

        def whole(operand: Operand) -> str:
            if isinstance(operand, Register) and operand.number in self.exact:
                return f"e_{operand.number}"
            return f"(u64)(s64)(s32){self.read(operand, 'u32')}"

        operands = item.operands
        if self.index in self.widenings:
            for operand in operands[1:3] if item.opcode != "cvt" else operands[1:2]:
                if isinstance(operand, Register) and operand.number in self.exact:
                    number = f"e_{operand.number}"
                    test = f"(u64)(s64)(s32){self.read(operand, 'u32')} != {number}"
                    self.add_line(f"if ({test}) run->overflow(t, (s64){number}, {self.site});")
        results = dataflow.find_results(item) & self.exact
        if not results or not dataflow.is_exact_step(item):
            return
        a = whole(operands[1])
        b = whole(operands[2]) if len(operands) > 2 else ""
        expression = {
            "add": f"{a} + {b}", "sub": f"{a} - {b}", "mul": f"{a} * {b}", "shl": f"{a} << (u32)({b})", "mov": a,
            "mad": f"{a} * {b} + {whole(operands[3])}" if len(operands) > 3 else "",
        }[item.opcode]  # fmt: skip
        for result in results:
            self.add_line(f"e_{result} = {expression};")

    def leave(self, result: str) -> None:
        if self.watched and self.checked:
            for name, offset, nbytes in reversed(self.watched):
                self.add_line(f"run->local_end(t, {name} + {offset}, {nbytes});")
        if not self.function.is_entry:
            self.add_doubt_exchange(self.function.returns, "t->doubts[{number}] = {name};")
            for number, variable in enumerate(self.function.returns):
                if register := self.function.param_registers.get(variable.number):
                    value = self.read_register(register, variable.type)
                    self.add_line(f"*({name_c_type(variable.type)} *)o{number} = {value};")
        self.add_line("return;" if self.function.is_entry else f"return {result};")

    # Operands

    def score(self, register: Register, ptx_type: str) -> None:
        kind = name_c_type(register.type)
        if kind in ("u32", "s32", "u64", "s64") and register.type != "pred":
            wanted = "f32" if NBYTES[register.type] == 4 else "f64"
            _, score = self.scores.get(register.number, (wanted, 0))
            self.scores[register.number] = wanted, score + (1 if ptx_type == wanted else -1)

    def read_register(self, register: Register, ptx_type: str) -> str:
        self.score(register, ptx_type)
        name, kind = self.find_name(register)
        return convert_value(name, kind, name_c_type(ptx_type))

    def read(self, operand: Operand, ptx_type: str) -> str:
        """An operand as a C expression of the type's C type."""
        if isinstance(operand, Register):
            return self.read_register(operand, ptx_type)
        if isinstance(operand, Immediate):
            return self.write_literal(operand, ptx_type)
        if isinstance(operand, Not):
            return f"(u32)(!{self.read(operand.operand, 'pred')})"
        if isinstance(operand, Symbol):
            return convert_value(self.find_address(operand), "u64", name_c_type(ptx_type))
        if isinstance(operand, Special):
            expression, kind = self.read_special(operand)
            return convert_value(expression, kind, name_c_type(ptx_type))
        if not isinstance(operand, Vector):
            self.fail("an operand has the wrong form")
        return self.pack(operand, ptx_type)

    def write_literal(self, operand: Immediate, ptx_type: str) -> str:
        value, kind = operand.value, name_c_type(ptx_type)
        if kind in FLOATS:
            if kind == "f32" and operand.nbits == 32:
                return write_float(int(value), "f32")
            if kind == "f64" and operand.nbits == 64:
                return write_float(int(value), "f64")
            number = ptx.float_of(operand)
            return write_float(encode_float(number, kind), kind)
        if ptx_type == "pred":
            return f"{int(bool(value))}u"
        if operand.nbits:
            bits = int(value)
            if operand.nbits != 8 * NBYTES[ptx_type] and NBYTES[ptx_type] in (4, 8):
                bits = encode_float(ptx.float_of(operand), "f32" if NBYTES[ptx_type] == 4 else "f64")
        elif isinstance(value, float):
            bits = encode_float(value, "f32" if NBYTES[ptx_type] == 4 else "f64")
        else:
            bits = value
        return write_integer(bits, kind)

    def find_address(self, symbol: Symbol) -> str:
        target = symbol.target
        found = self.layout.resolve(target, self.function)
        offset = f" + {write_integer(symbol.offset, 'u64')}" if symbol.offset else ""
        if isinstance(found, PtxFunction):
            if found.body is None:
                self.refuse(f"the address of '{found.name}', which is not defined,")
            return write_integer(self.layout.locate_function(found), "u64")
        if found is None:
            if isinstance(target, str) and target.startswith("%"):
                self.refuse(f"the register '{target}'")
            self.fail(f"'{target}' is not defined")
        if found.space == "shared":
            if found.is_extern:
                return f"((u64)t->dynamic_begin{offset})"
            return write_integer(self.layout.offsets[id(found)] + symbol.offset, "u64")
        if id(found) in self.arrays:
            return f"((u64){self.arrays[id(found)]}{offset})"
        if id(found) in self.offsets:
            return f"((u64)params + {self.offsets[id(found)] + symbol.offset}ull)"
        if id(found) not in self.layout.offsets:
            self.fail(f"'{found.name}' is declared, but not defined")
        return f"(md + {write_integer(self.layout.offsets[id(found)] + symbol.offset, 'u64')})"

    def write_address(self, operand: Operand) -> str:
        """An address as a C expression of u64: the host's, or an offset in the window where the space is shared."""
        if not isinstance(operand, Address):
            self.fail("an operand is not an address")
        base, offset = operand.base, operand.offset
        if isinstance(base, Register):
            value = self.read_register(base, f"u{8 * NBYTES[base.type]}")
            if not offset:
                return value
            operator, size = ("+", offset) if offset > 0 else ("-", -offset)
            suffix = "ull" if NBYTES[base.type] == 8 else "u"
            return f"({value} {operator} {size}{suffix})"
        if isinstance(base, Symbol):
            return self.find_address(Symbol(base.target, base.offset + offset))
        return write_integer(int(base.value) + offset, "u64")

    def read_special(self, operand: Special) -> tuple[str, str]:
        name, _, part = operand.name.partition(".")
        index = "xyzw".find(part) if part else 0
        if name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid"):
            name = {"clusterid": "ctaid", "nclusterid": "nctaid"}.get(name, name)
            return (f"t->{name}[{index}]", "u32") if index < 3 else ("0u", "u32")
        if name.startswith("envreg"):
            return f"run->environment(t, {name[6:]})", "u64"
        if name.startswith("pm"):
            return "0u", "u32"
        if name not in _SPECIAL:
            self.refuse(f"the register '%{operand.name}'")
        return _SPECIAL[name]

    def pack(self, vector: Vector, ptx_type: str) -> str:
        nbytes = NBYTES[ptx_type]
        part = nbytes // len(vector.items)
        if nbytes == 16:
            low, high = (self.read(half, "b64") for half in _halve(vector))
            return f"(xf_b128){{{low}, {high}}}"
        kind = name_c_type(f"b{8 * nbytes}")
        words = [f"({kind}){self.read(item, f'b{8 * part}')} << {8 * part * n}" for n, item in enumerate(vector.items)]
        words[0] = words[0].removesuffix(" << 0")
        return f"({kind})({' | '.join(words)})"

    def assign(self, operand: Operand, ptx_type: str, expression: str) -> None:
        """Assign a C expression of the type's C type to a destination; a wider register is extended."""
        if isinstance(operand, NoOperand):
            return
        if isinstance(operand, Vector):
            self.unpack(operand, ptx_type, expression)
            return
        if isinstance(operand, Symbol) and isinstance(operand.target, str):
            self.fail(f"'{operand.target}' is not declared")
        if not isinstance(operand, Register):
            self.fail("a destination is not a register")
        self.score(operand, ptx_type)
        name, kind = self.find_name(operand)
        source = name_c_type(ptx_type)
        if source != kind and C_NBYTES[source] < C_NBYTES[kind] and kind not in FLOATS and source not in FLOATS:
            expression = f"({source})({expression})"
        self.add_line(f"{name} = {convert_value(expression, source, kind)};")

    def unpack(self, vector: Vector, ptx_type: str, expression: str) -> None:
        nbytes = NBYTES[ptx_type]
        part = nbytes // len(vector.items)
        if nbytes == 16:
            self.add_line(f"{{ const xf_b128 x = {expression};")
            for half, name in zip(_halve(vector), ("x.x", "x.y"), strict=True):
                self.assign(half, "b64", name)
            self.add_line("}")
            return
        temporary = self.make_temporary()
        kind = name_c_type(f"b{8 * nbytes}")
        self.add_line(f"{{ const {kind} {temporary} = {expression};")
        for number, item in enumerate(vector.items):
            shifted = f"{temporary} >> {8 * part * number}" if number else temporary
            self.assign(item, f"b{8 * part}", f"({name_c_type(f'b{8 * part}')})({shifted})")
        self.add_line("}")

    def make_temporary(self) -> str:
        self.temporaries += 1
        return f"x{self.temporaries}"

    def bind(self, ptx_type: str, operands: Iterable[Operand]) -> list[str]:
        """Operands in C variables of a new block, for instructions that use them often."""
        values = [(self.make_temporary(), self.read(operand, ptx_type)) for operand in operands]
        self.open_block(f"const {name_c_type(ptx_type)} {', '.join(f'{name} = {value}' for name, value in values)};")
        return [name for name, _ in values]

    def split(self, item: Instruction, allowed: Iterable[str], count: int | None = None) -> tuple[list[str], set[str]]:
        """Types of an instruction, and its other modifiers, which must be known."""
        types = [word for word in item.modifiers if word in NBYTES]
        flags = {word for word in item.modifiers if word not in NBYTES}
        for word in flags.difference(allowed):
            self.refuse(f"'.{word}' of the instruction '{item.name}'")
        if count is not None and len(types) != count:
            self.refuse()
        return types, flags

    def take_operands(self, least: int, most: int | None = None) -> list[Operand]:
        operands = self.instruction.operands
        if not least <= len(operands) <= (most or least):
            self.fail(f"'{self.instruction.name}' has {len(operands)} operands")
        return operands


def _list_values(operand: Operand) -> tuple[Operand, ...]:
    """The values that an access moves."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def _halve(vector: Vector) -> list[Operand]:
    """The operands of the lower and of the upper 8 bytes of 16."""
    count = len(vector.items) // 2
    halves = vector.items[:count], vector.items[count:]
    return [half[0] if count == 1 else Vector(half) for half in halves]


def _is_source(item: Instruction) -> bool:
    """Whether an instruction may see what another thread wrote, as a loop that waits for it must."""
    return item.opcode in ("atom", "call") or (item.opcode == "ld" and not STRONG.isdisjoint(item.modifiers))


_SPECIAL = {
    "laneid": ("t->lane", "u32"),
    "warpid": ("t->warp", "u32"),
    "nwarpid": ("((t->ntid[0] * t->ntid[1] * t->ntid[2] + 31) / 32)", "u32"),
    "smid": ("0u", "u32"),
    "nsmid": ("1u", "u32"),
    "gridid": ("1ull", "u64"),
    "lanemask_eq": ("(1u << t->lane)", "u32"),
    "lanemask_lt": ("((1u << t->lane) - 1)", "u32"),
    "lanemask_le": ("((2u << t->lane) - 1)", "u32"),
    "lanemask_gt": ("(~((2u << t->lane) - 1))", "u32"),
    "lanemask_ge": ("(~((1u << t->lane) - 1))", "u32"),
    "clock": ("run->clock(t)", "u64"),
    "clock64": ("run->clock(t)", "u64"),
    "clock_hi": ("(run->clock(t) >> 32)", "u64"),
    "globaltimer": ("run->global_timer(t)", "u64"),
    "globaltimer_lo": ("run->global_timer(t)", "u64"),
    "globaltimer_hi": ("(run->global_timer(t) >> 32)", "u64"),
    "dynamic_smem_size": ("t->dynamic_nbytes", "u32"),
    "total_smem_size": ("(t->dynamic_begin - XF_SHARED_BEGIN + t->dynamic_nbytes)", "u32"),
    "aggr_smem_size": ("(t->dynamic_begin - XF_SHARED_BEGIN + t->dynamic_nbytes)", "u32"),
    "current_graph_exec": ("0ull", "u64"),
    "reserved_smem_offset_begin": ("512u", "u32"),
    "reserved_smem_offset_end": ("XF_SHARED_BEGIN", "u32"),
    "reserved_smem_offset_cap": ("XF_SHARED_BEGIN", "u32"),
    "reserved_smem_offset_0": ("512u", "u32"),
    "reserved_smem_offset_1": ("512u", "u32"),
    "cluster_ctaid": ("0u", "u32"),
    "cluster_nctaid": ("1u", "u32"),
    "cluster_ctarank": ("0u", "u32"),
    "cluster_nctarank": ("1u", "u32"),
    "is_explicit_cluster": ("0u", "u32"),
}
