"""Variables that a kernel uses and never sets, as far as the optimiser hides them.

The optimiser does away with a variable that has no value, and with all that is computed from it, so that the PTX which
runs shows nothing. The PTX of a debug build keeps each computation, and each variable in a register of its own. It is
only read: what it shows is a fault in any run that comes there, for no path gives the variable a value before.
"""

from __future__ import annotations

from collections.abc import Iterator

from xferlib.kernels.cuda_cpu.dataflow import ValueFlow, find_results, find_sources, find_unwritten
from xferlib.kernels.cuda_cpu.function_writer import make_site
from xferlib.kernels.cuda_cpu.layout import ModuleLayout
from xferlib.kernels.cuda_cpu.ptx import Address, Instruction, Module, Operand, PtxLabel, PtxVariable, Symbol
from xferlib.kernels.cuda_cpu.translation import FaultSite

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
    waiting = list(unset)
    while waiting:
        for user in flow.users[waiting.pop()]:
            if user.opcode == "mov":
                more = find_results(user) - unset
                unset |= more
                waiting.extend(more)
    looked_at = 0
    for index, item in enumerate(flow.body):
        if isinstance(item, PtxLabel) or item.opcode in ("mov", "st", "call", "ret", "exit"):
            continue
        used = find_sources(item) | ({item.guard.number} if item.guard is not None else set())
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
        target = operand.target
        return (layout.resolve(target, flow.function) if isinstance(target, str) else target) is variable

    found: list[Instruction] = []
    derived: set[int] = set()
    is_larger = True
    while is_larger:
        is_larger = False
        found = []
        for item in flow.body:
            if isinstance(item, PtxLabel):
                continue
            if not find_sources(item) & derived and not any(names(operand) for operand in item.operands):
                continue
            if item.opcode in ("ld", "ldu"):
                found.append(item)
            elif item.opcode in ("mov", "cvta", "add", "mad", "sub", "selp", "cvt"):
                more = find_results(item) - derived
                derived |= more
                is_larger = is_larger or bool(more)
            elif item.opcode != "setp":
                return None
    return found
