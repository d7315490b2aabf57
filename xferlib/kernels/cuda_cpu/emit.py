"""PTX as C: each kernel becomes a function of kernel.h, and each place that can be at fault a site with its line.

`translate` returns a complete C text: the headers are in it, so that it compiles anywhere, also in memory. Compile it
with the options of `code.list_c_options`. A library of it exports each kernel by `Kernel.symbol`, and
`void xf_init_module(char *block)`, which completes a block of the module's variables (addresses of variables and
functions) after their initial bytes were copied. The block's address is `xf_launch.module`: one library serves any
number of loaded modules.
"""

from __future__ import annotations

from collections.abc import Collection

from xferlib.kernels.cuda_cpu import dataflow
from xferlib.kernels.cuda_cpu.assembler import assemble
from xferlib.kernels.cuda_cpu.c_helpers import choose_helpers, read_headers
from xferlib.kernels.cuda_cpu.c_values import UNSIGNED
from xferlib.kernels.cuda_cpu.function_writer import FunctionWriter, UncoveredError
from xferlib.kernels.cuda_cpu.instructions import HANDLERS
from xferlib.kernels.cuda_cpu.layout import ModuleLayout, align_up
from xferlib.kernels.cuda_cpu.ptx import Instruction, Module, PtxError, PtxFunction, PtxVariable
from xferlib.kernels.cuda_cpu.translation import (
    SHARED_BEGIN,
    FaultSite,
    Kernel,
    KernelParameter,
    SharedVariable,
    TranslatedModule,
)
from xferlib.kernels.cuda_engine import USUAL_SHARED_NBYTES


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
            dataflow.find_unwritten(function)
            or any(isinstance(item, Instruction) and item.opcode == "shfl" for item in function.body or ())
            for function in functions
        )

    def write(self) -> TranslatedModule:
        bodies, failures = {}, {}
        local: dict[str, int] = {}
        facts: dict[str, FunctionWriter] = {}
        for name in [*self.required, *self.optional]:
            function = self.module.functions[name]
            mark = len(self.sites)
            try:
                writer = FunctionWriter(
                    self.layout, function, HANDLERS, self.sites, finds_overflow=self.finds_overflow,
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
            local[name], facts[name] = writer.local_nbytes, writer
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
        kernels = {
            entry.name: self.describe_kernel(entry, local, facts) for entry in self.entries if entry.name in bodies
        }
        return TranslatedModule(
            "\n".join([read_headers(), choose_helpers(text), text, ""]), kernels, self.layout.variables,
            self.layout.block_nbytes, self.layout.block_align, self.sites, uncovered,
            capability=int("".join(filter(str.isdigit, self.module.target)) or 0),
        )  # fmt: skip

    def describe_kernel(self, entry: PtxFunction, local: dict[str, int], facts: dict[str, FunctionWriter]) -> Kernel:
        layout, reached = self.layout, self.layout.reached[entry.name]
        offset, params = 0, []
        for variable in entry.params:
            offset = align_up(offset, variable.align)
            params.append(KernelParameter(variable.name, offset, variable.nbytes, variable.align))
            offset += variable.nbytes
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
        reached_all = {*reached, *(self.optional if indirect else ())}
        if indirect:  # any function whose address may have been taken
            everything = {name for other in layout.reached.values() for name in other}
            reached_all.update(name for name in everything if not self.module.functions[name].is_entry)
        own = [facts[name] for name in reached_all if name in facts]
        return Kernel(
            entry.name, layout.name_function(entry.name), tuple(params), offset, shared, end - SHARED_BEGIN, static,
            layout.find_dynamic_align(entry.name),
            needs_fibers=any(writer.needs_fibers for writer in own),
            is_cooperative=any(writer.is_cooperative for writer in own),
            maxntid=entry.attributes.get("maxntid", ()), reqntid=entry.attributes.get("reqntid", ()),
            local_nbytes=sum(local.get(name, 0) for name in reached_all),
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
