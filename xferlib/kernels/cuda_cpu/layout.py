"""A module of PTX: where its variables are, the names of its functions in C, and which of them a kernel reaches."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xferlib.kernels.cuda_cpu import ptx
from xferlib.kernels.cuda_cpu.ptx import Module, PtxError, PtxFunction, PtxVariable, Register, Symbol
from xferlib.kernels.cuda_cpu.translation import REDZONE, SHARED_BEGIN, ModuleVariable

_MOST_BLOCK_NBYTES = 4 << 30
_FUNCTIONS_BEGIN = 0xF0F << 52
"""An address that no machine has."""


def align_up(value: int, align: int) -> int:
    return -(-value // align) * align


class ModuleLayout:
    """Offsets of module variables and of shared variables, and which functions a kernel may reach."""

    def __init__(self, module: Module, *, checked: bool) -> None:
        self.module = module
        self.checked = checked
        self.gap = REDZONE if checked else 0  # in shared memory
        self.variables: dict[str, ModuleVariable] = {}
        self.offsets: dict[int, int] = {}  # by the identity of the variable
        self.relocations: list[tuple[int, PtxVariable]] = []
        self.block_nbytes = 0
        self.block_align = 16
        self.const_end = 0  # the constants begin the block
        self.uses = {
            name: self.collect(function) for name, function in module.functions.items() if function.body is not None
        }
        self.lay_out_block()
        self.numbers = {name: number for number, name in enumerate(module.functions)}
        self.ends = self.find_ends()
        entries = (each for each in module.functions.values() if each.is_entry and each.body is not None)
        self.sources = {self.find_source(each) for each in entries}

    def resolve(self, name: str | PtxVariable, function: PtxFunction | None) -> PtxFunction | PtxVariable | None:
        """The meaning of a name in a function."""
        if isinstance(name, PtxVariable):
            return name
        name = function.aliases.get(name, name) if function else name
        name = self.module.aliases.get(name, name)
        return self.module.variables.get(name) or self.module.functions.get(name)

    def collect(self, function: PtxFunction) -> tuple[list[str], dict[int, PtxVariable]]:
        """The functions and the variables that a function names."""
        functions: dict[str, None] = {}
        variables: dict[int, PtxVariable] = {}
        for operand in ptx.walk(operand for _, item in function.instructions for operand in item.operands):
            if isinstance(operand, Symbol):
                found = self.resolve(operand.target, function)
                if isinstance(found, PtxVariable):
                    variables[id(found)] = found
                elif isinstance(found, PtxFunction):
                    functions[found.name] = None
        return list(functions), variables

    def reach(self, roots: Iterable[str]) -> list[str]:
        found: dict[str, None] = {}
        waiting = list(roots)
        while waiting:
            name = waiting.pop()
            if name in found or name not in self.uses:
                continue
            found[name] = None
            waiting.extend(self.uses[name][0])
        return list(found)

    def lay_out_block(self) -> None:
        everything = [variable for variable in self.module.variables.values() if variable.space in ("global", "const")]
        for function in self.module.functions.values():
            everything.extend(variable for variable in function.variables if variable.space in ("global", "const"))
        everything.sort(key=lambda variable: variable.space)  # the constants first, together: isspacep.const
        at = REDZONE  # in unchecked code too: both kinds may use the same memory
        for variable in everything:
            if variable.is_extern:
                continue
            at = align_up(at, max(variable.align, 1))
            self.block_align = max(self.block_align, variable.align)
            self.offsets[id(variable)] = at
            name = variable.name if variable.name not in self.variables else f"{variable.function}::{variable.name}"
            self.variables[name] = ModuleVariable(name, variable.space, at, variable.nbytes, variable.initial)
            if variable.relocations:
                self.relocations.append((at, variable))
            at += variable.nbytes + REDZONE
            if variable.space == "const":
                self.const_end = at
        self.block_nbytes = align_up(at, 16)
        if self.block_nbytes > _MOST_BLOCK_NBYTES:
            raise PtxError(
                f"the module's variables take {self.block_nbytes} bytes, and the most is {_MOST_BLOCK_NBYTES}; use "
                "arrays"
            )
        self.arrange_window()

    def arrange_window(self) -> None:
        """Variables of the module and of functions have one offset for all kernels; those of kernels begin after."""
        self.common: list[PtxVariable] = [
            v for v in self.module.variables.values() if v.space == "shared" and not v.is_extern
        ]
        self.own: dict[str, list[PtxVariable]] = {}
        for function in self.module.functions.values():
            variables = [v for v in function.variables if v.space == "shared" and not v.is_extern]
            if function.is_entry:
                self.own[function.name] = variables
            else:
                self.common.extend(variables)
        self.shared_end: dict[int, int] = {}
        self.assign_offsets(self.common, SHARED_BEGIN)
        self.reached: dict[str, list[str]] = {}
        for function in self.module.functions.values():
            if function.is_entry and function.body is not None:
                self.reached[function.name] = self.reach([function.name])
                begin = max(
                    (self.shared_end[id(v)] for v in self.find_used_common(function.name)), default=SHARED_BEGIN
                )
                self.assign_offsets(self.own[function.name], begin)

    def assign_offsets(self, variables: list[PtxVariable], at: int) -> None:
        for variable in variables:
            at = align_up(at + self.gap, max(variable.align, 1))
            self.offsets[id(variable)] = at
            at += variable.nbytes
            self.shared_end[id(variable)] = at + self.gap

    def find_used_common(self, kernel: str) -> list[PtxVariable]:
        used = {identity for name in self.reached[kernel] for identity in self.uses[name][1]}
        return [variable for variable in self.common if id(variable) in used]

    def find_window(self, kernel: str) -> list[PtxVariable]:
        return [*self.find_used_common(kernel), *self.own[kernel]]

    def find_dynamic_align(self, kernel: str) -> int:
        used = (v for name in self.reached[kernel] for v in self.uses[name][1].values())
        return max((v.align for v in used if v.space == "shared" and v.is_extern), default=0)

    @staticmethod
    def find_source(entry: PtxFunction) -> str:
        """The file of a kernel; empty where the PTX has no lines."""
        place = next((item.place for _, item in entry.instructions if item.place), None)
        while place and place.inlined_at:
            place = place.inlined_at
        return entry.files.get(place.file, "") if place else ""

    def find_ends(self) -> set[str]:
        """Functions that may end their thread by `exit`: their callers must ask."""
        ends = {
            name
            for name in self.uses
            for _, item in self.module.functions[name].instructions
            if item.opcode == "exit" or (item.opcode == "call" and any(isinstance(o, Register) for o in item.operands))
        }
        while True:
            more = {name for name, (called, _) in self.uses.items() if name not in ends and ends.intersection(called)}
            if not more:
                return ends
            ends |= more

    def locate_function(self, function: PtxFunction) -> int:
        """The address of a function as kernels have it: the same in checked and unchecked code, and none of memory."""
        return _FUNCTIONS_BEGIN + 16 * self.numbers[function.name]

    def name_function(self, name: str) -> str:
        return f"xf_k{self.numbers[name]}" if self.module.functions[name].is_entry else f"xf_fn{self.numbers[name]}"

    def declare(self, function: PtxFunction) -> str:
        if function.is_entry:
            return f"void {self.name_function(function.name)}(xf_thread *t, const char *params)"
        params = [f"char *o{n}" for n in range(len(function.returns))] + [
            f"char *i{n}" for n in range(len(function.params))
        ]
        return f"static u32 {self.name_function(function.name)}({', '.join(['xf_thread *t', *params])})"

    def write_functions(self, written: Collection[str]) -> str:
        """The function that finds the C function at an address."""
        names = (f"(u64){self.name_function(name)}" if name in written else "0" for name in self.numbers)
        return "\n".join([
            "static u64 xf_function(u64 a) {",
            f"    const u64 all[] = {{{', '.join(names)}}};",
            f"    const u64 i = a - {_FUNCTIONS_BEGIN}ull;",
            "    return i % 16 == 0 && i / 16 < sizeof all / sizeof *all ? all[i / 16] : a;",
            "}",
        ])  # fmt: skip
