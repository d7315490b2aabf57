"""PTX as C: each kernel becomes a function of kernel.h, and each place that can be at fault a site with its line.

`translate` returns a complete C text: the headers are in it, so that it compiles anywhere, also in memory. Compile it
with the options of `code.list_c_options`. A library of it exports each kernel by `Kernel.symbol`, and
`void xf_init_module(char *block)`, which completes a block of the module's variables (addresses of variables and
functions) after their initial bytes were copied. The block's address is `xf_launch.module`: one library serves any
number of loaded modules.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from xferlib.kernels.cuda_cpu.assembler import assemble
from xferlib.kernels.cuda_cpu.dataflow import ValueFlow, close, find_results, find_sources, find_unwritten, find_used
from xferlib.kernels.cuda_cpu.function_writer import UNSIGNED, FunctionWriter, UncoveredError, make_site
from xferlib.kernels.cuda_cpu.instructions import find_handler
from xferlib.kernels.cuda_cpu.layout import ModuleLayout, align_up
from xferlib.kernels.cuda_cpu.ptx import (
    Address,
    Instruction,
    Module,
    Operand,
    PtxError,
    PtxFunction,
    PtxVariable,
    Symbol,
)
from xferlib.kernels.cuda_cpu.translation import (
    SHARED_BEGIN,
    FaultSite,
    Kernel,
    KernelParameter,
    SharedVariable,
    TranslatedModule,
)
from xferlib.kernels.cuda_launch import USUAL_SHARED_NBYTES


def translate(module: Module, *, checked: bool, finds_overflow: bool = False) -> TranslatedModule:
    """Write the C text of all kernels of a module; `uncovered` of the result says why one is left out.

    Args:
        module: What `ptx.parse` returned.
        checked: Each access goes through `run->access`, `store` or `atomic`, and variables have redzones between them.
        finds_overflow: In checked code, report a signed product or sum that does not fit in 32 bits, where it is
            widened to be part of an address.

    Raises:
        PtxError: A name is not defined, or operands do not fit their instruction.
    """
    return _ModuleWriter(module, checked, finds_overflow).write()


class _ModuleWriter:
    def __init__(self, module: Module, checked: bool, finds_overflow: bool) -> None:
        self.module = module
        self.finds_overflow = finds_overflow
        for function in module.functions.values():
            if function.body is not None:
                function.body = assemble(function)
        self.layout = ModuleLayout(module, checked=checked)
        self.sites: list[FaultSite] = []
        self.entries = [f for f in module.functions.values() if f.is_entry and f.body is not None]
        required = {name for entry in self.entries for name in self.layout.reached[entry.name]}
        named = [
            relocation.target for _, variable in self.layout.relocations for relocation in variable.relocations
            if relocation.target in module.functions
        ]  # fmt: skip
        self.optional = [name for name in self.layout.reach(named) if name not in required]
        self.required = [name for name in module.functions if name in required]
        self.passes_doubts = checked and self.finds_doubts()

    def finds_doubts(self) -> bool:
        """Whether a function may give another one what has no value."""
        functions = [self.module.functions[name] for name in (*self.required, *self.optional)]
        return not all(function.is_entry for function in functions) and any(
            find_unwritten(function) or any(item.opcode == "shfl" for _, item in function.instructions)
            for function in functions
        )

    def write(self) -> TranslatedModule:
        bodies, failures = {}, {}
        facts: dict[str, FunctionWriter] = {}
        for name in [*self.required, *self.optional]:
            function = self.module.functions[name]
            mark = len(self.sites)
            try:
                writer = FunctionWriter(
                    self.layout, function, find_handler, self.sites, finds_overflow=self.finds_overflow,
                    passes_doubts=self.passes_doubts,
                )  # fmt: skip
                bodies[name] = writer.write()
            except UncoveredError as error:
                del self.sites[mark:]
                failures[name] = error
                if not function.is_entry:
                    # A kernel that has only its address may call it after all, and is stopped there.
                    self.sites.append(error.site)
                    bodies[name] = f"{self.layout.declare(function)} {{ t->run->unsupported(t, {mark}); return 0; }}"
                continue
            facts[name] = writer
        uncovered = {}
        for entry in self.entries:
            for name in self.layout.reached[entry.name]:
                if name in failures:
                    uncovered[entry.name] = str(failures[name])
                    bodies.pop(entry.name, None)
        declarations = [self.layout.declare(self.module.functions[name]) + ";" for name in bodies]
        if any(writer.calls_pointers for writer in facts.values()):
            declarations.append(self.layout.write_functions(bodies.keys()))
        text = "\n".join([*declarations, *bodies.values(), self.write_init(bodies.keys())])
        kernels = {entry.name: self.describe_kernel(entry, facts) for entry in self.entries if entry.name in bodies}
        return TranslatedModule(
            f"{_write_runtime()}\n{_choose_groups(text)}\n{text}\n", kernels, self.layout.variables,
            self.layout.block_nbytes, self.layout.block_align, self.sites, uncovered,
            capability=int("".join(filter(str.isdigit, self.module.target)) or 0),
        )  # fmt: skip

    def describe_kernel(self, entry: PtxFunction, facts: dict[str, FunctionWriter]) -> Kernel:
        layout, reached = self.layout, self.layout.reached[entry.name]
        offsets = facts[entry.name].offsets
        params = tuple(KernelParameter(v.name, offsets[id(v)], v.nbytes) for v in entry.params)
        variables = layout.find_window(entry.name)
        shared = tuple(SharedVariable(v.name, layout.offsets[id(v)], v.nbytes) for v in variables)
        end = max((layout.shared_end[id(v)] for v in variables), default=SHARED_BEGIN)
        static = 0
        for variable in variables:
            static = align_up(static, max(variable.align, 1)) + variable.nbytes
        if static > USUAL_SHARED_NBYTES:
            raise PtxError(
                f"'{entry.name}' has {static} bytes of shared variables, and the most is "
                f"{USUAL_SHARED_NBYTES}; use dynamic shared memory for more"
            )
        indirect = any(facts[name].calls_pointers for name in reached if name in facts)
        reached_all = {*reached}
        if indirect:  # any function whose address may have been taken
            everything = (name for other in layout.reached.values() for name in other)
            reached_all.update(self.optional, (name for name in everything if not self.module.functions[name].is_entry))
        own = [facts[name] for name in reached_all if name in facts]
        return Kernel(
            entry.name, layout.name_function(entry.name), params, shared, end - SHARED_BEGIN, static,
            layout.find_dynamic_align(entry.name),
            needs_fibers=any(writer.needs_fibers for writer in own),
            is_cooperative=any(writer.is_cooperative for writer in own),
            maxntid=entry.attributes.get("maxntid", ()), reqntid=entry.attributes.get("reqntid", ()),
            local_nbytes=sum(writer.local_nbytes for writer in own),
            is_recursive=indirect or self.is_recursive(reached),
        )  # fmt: skip

    def is_recursive(self, names: list[str]) -> bool:
        return any(name in self.layout.reach(self.layout.uses[name][0]) for name in names)

    def write_init(self, written: Collection[str]) -> str:
        lines = []
        for offset, variable in self.layout.relocations:
            for relocation in variable.relocations:
                target = self.layout.resolve(relocation.target, self.module.functions.get(variable.function))
                if isinstance(target, PtxVariable) and id(target) in self.layout.offsets:
                    address = f"(u64)block + {self.layout.offsets[id(target)]}ull"
                    if target.space == "shared":
                        address = f"{self.layout.offsets[id(target)]}ull"
                elif isinstance(target, PtxFunction) and target.body is not None:
                    if target.name not in written:  # a kernel that was left out
                        continue
                    address = f"{self.layout.locate_function(target)}ull"
                else:
                    raise PtxError(
                        f"variable '{variable.name}' holds the address of '{relocation.target}', which is not defined"
                    )
                value = f"({address} + {relocation.addend & (1 << 64) - 1}ull) >> {relocation.shift}"
                kind = UNSIGNED[relocation.nbytes]
                lines.append(f"    *({kind} *)(block + {offset + relocation.offset}) = ({kind})({value});")
        return "\n".join(["void xf_init_module(char *block) {", "    (void)block;", *lines, "}"])


# The C that all texts share: the headers of the runtime, and functions for instructions.

_DEFINED = re.compile(r"^(?:static inline|#define|typedef|XF_).*?\b(xf_\w+|XF_TICK)\b", re.MULTILINE)


def _read_headers(*names: str) -> str:
    """Headers without comments."""
    folder = Path(__file__).parents[2] / "_native" / "emulator"
    text = "".join((folder / name).read_text("utf-8") for name in names)
    return re.sub(r"/\*.*?\*/|^#include[^\n]*", "", text, flags=re.DOTALL | re.MULTILINE)


@cache
def _write_runtime() -> str:
    text = _read_headers("kernel.h", "arithmetic.h")
    return "#define XF_KERNEL_ONLY 1\n" + re.sub(r"\n\s*\n+", "\n", text)


@cache
def _list_groups() -> list[tuple[str, frozenset[str]]]:
    """The groups of functions for instructions, and the names that each defines; each uses those before it."""
    groups = re.split(r"\n\s*\n+", _read_headers("instructions.h"))[1:-1]
    return [(each.strip("\n"), frozenset(_DEFINED.findall(each))) for each in groups]


def _choose_groups(text: str) -> str:
    """The groups that a text uses, and those that they use."""
    chosen: list[str] = []
    used = set(re.findall(r"\w+", text))
    for group, names in reversed(_list_groups()):
        if names & used:
            chosen.insert(0, group)
            used.update(re.findall(r"\w+", group))
    return "\n".join(chosen)


# Variables that a kernel uses and never sets, as far as the optimiser hides them.
#
# The optimiser does away with a variable that has no value, and with all that is computed from it, so that the PTX that
# runs shows nothing. The PTX of a debug build keeps each computation, and each variable in a register of its own. It is
# only read: what it shows is a fault in any run that comes there, for no path gives the variable a value before.

_MOST_USES = 64
"""Of variables that may have no value, in one function: each takes a walk through it."""


def find_unset(module: Module, file: str) -> dict[str, FaultSite]:
    """The kernels of a debug build that use a variable which nothing sets, and where.

    Args:
        module: Its PTX.
        file: The name of the source; what stands in other files, such as CUDA's headers, is not looked at.
    """
    layout = ModuleLayout(module, checked=False)
    sites: dict[str, list[FaultSite]] = {name: [] for name in layout.uses}
    flows = {name: ValueFlow(module.functions[name]) for name in layout.uses}
    sources = {each for name in layout.uses for each in module.functions[name].files.values() if each.endswith(file)}
    for name, flow in flows.items():
        sites[name] += [make_site(flow.function, item, sources) for item in _find_unset_registers(flow)]
    shared = {
        id(variable): variable
        for _, variables in layout.uses.values()
        for variable in variables.values()
        if variable.space == "shared" and not variable.is_extern
    }
    for variable in shared.values():
        reads: list[tuple[str, Instruction]] = []
        for name, flow in flows.items():  # a function that does not name it cannot write it
            if id(variable) not in layout.uses[name][1]:
                continue
            found = _find_reads(layout, flow, variable)
            if found is None:
                break
            reads += [(name, item) for item in found]
        else:
            for name, read in reads:
                sites[name].append(make_site(module.functions[name], read, sources))
    result: dict[str, FaultSite] = {}
    for kernel, reached in layout.reached.items():
        own = [site for name in reached for site in sites[name] if site.line and site.file.endswith(file)]
        if own:
            result[kernel] = min(own, key=lambda site: site.line)
    return result


def _find_unset_registers(flow: ValueFlow) -> Iterator[Instruction]:
    """Instructions that compute with a register to which no path brings a value.

    Copies compute nothing, and so do stores, for members of structs are copied that have no value.
    """
    unset = find_unwritten(flow.function)
    if not unset:
        return
    unset = close(unset, lambda number: find_results(*(user for user in flow.users[number] if user.opcode == "mov")))
    looked_at = 0
    for index, item in flow.instructions:
        if item.opcode in ("mov", "st", "call", "ret", "exit"):
            continue
        used = find_used(item)
        looked_at += bool(used & unset)
        if looked_at > _MOST_USES:
            return
        if any(not _has_value(flow, index, number, unset) for number in used & unset):
            yield item


def _has_value(flow: ValueFlow, index: int, number: int, tracked: set[int]) -> bool:
    """Whether any path to an instruction that does not pass it before gives a register a value."""
    known: dict[int, set[int]] = {0: set()}
    waiting = [0]
    while waiting:
        at = waiting.pop()
        if at == index or at >= len(flow.body):
            continue
        item, after = flow.body[at], set(known[at])
        if isinstance(item, Instruction):
            results = find_results(item) & tracked
            is_copy = item.opcode == "mov" and bool(find_sources(item) & tracked)
            if not is_copy or find_sources(item) & known[at]:
                after |= results
            elif item.guard is None:
                after -= results
        for following in flow.find_next(at):
            if following not in known or not after <= known[following]:
                known[following] = known.get(following, set()) | after
                waiting.append(following)
    return number in known.get(index, {number})  # code that is not reached has no fault


def _find_reads(layout: ModuleLayout, flow: ValueFlow, variable: PtxVariable) -> list[Instruction] | None:
    """The loads from a variable; None where something may write it."""

    def names(operand: Operand) -> bool:
        if isinstance(operand, Address):
            operand = operand.base
        if not isinstance(operand, Symbol):
            return False
        return layout.resolve(operand.target, flow.function) is variable

    derived: set[int] = set()
    while True:
        found: list[Instruction] = []
        more = set(derived)
        for _, item in flow.instructions:
            if not find_sources(item) & more and not any(map(names, item.operands)):
                continue
            if item.opcode in ("ld", "ldu"):
                found.append(item)
            elif item.opcode in ("mov", "cvta", "add", "mad", "sub", "selp", "cvt"):
                more |= find_results(item)
            elif item.opcode != "setp":
                return None
        if more == derived:
            return found
        derived = more
