"""A translated module: all that a launch and a report need to know of it, and no part of the translator.

It is kept on disk, so that a module that was translated once is loaded without the translator.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple

SHARED_BEGIN = 1024
"""Where shared memory begins in the window, as `kernel.h` has it."""
REDZONE = 32
"""Bytes on each side of a variable in checked code: an index that is wrong by a few is seen."""
_MOST_CALLERS = 3
"""In words: more say no more."""


class InlinedCall(NamedTuple):
    """A place in the source where a function's text replaced its call."""

    function: str
    file: str
    line: int


class FaultSite(NamedTuple):
    """Where a fault can be. `line` is 0 where the PTX has no lines; then `ptx_line` is all that is known."""

    file: str
    line: int
    column: int
    instruction: str
    function: str  # the PTX function: a kernel, or a function that kernels call
    ptx_line: int
    inlined: tuple[InlinedCall, ...] = ()  # the innermost call first; the function is the callee
    is_whole: bool = True  # all calls are known
    source_lines: tuple[int, ...] = ()
    """In the file of the kernels: that of the place or of a call, the innermost first."""

    @property
    def source_line(self) -> int:
        """The line in the file of the kernels, where a header's function is called; 0 where that is not known."""
        return self.source_lines[0] if self.source_lines else 0

    @property
    def words(self) -> str:
        """The place as people name it: the line of the source, the header's that it calls, and what calls it."""
        if not self.line:
            return f"line {self.ptx_line} of the PTX"
        header = f"{PurePath(self.file).name}:{self.line}"
        if not self.source_lines:
            return header
        line, *callers = self.source_lines
        return "".join(
            [
                f"line {line}",
                f" ({header})" * (line != self.line),
                *(f", called at line {each}" for each in callers[:_MOST_CALLERS]),
            ]
        )


class KernelParameter(NamedTuple):
    name: str
    offset: int
    nbytes: int


class SharedVariable(NamedTuple):
    name: str
    offset: int  # in the shared window
    nbytes: int


class Kernel(NamedTuple):
    name: str
    symbol: str  # of the C function
    params: tuple[KernelParameter, ...]
    shared: tuple[SharedVariable, ...]
    shared_nbytes: int  # from SHARED_BEGIN on, with redzones: xf_launch.static_nbytes
    static_nbytes: int  # what the GPU would say
    dynamic_align: int  # of dynamic shared memory; 0: it has none
    needs_fibers: bool
    is_cooperative: bool  # waits for the whole grid
    maxntid: tuple[int, ...]
    reqntid: tuple[int, ...]
    local_nbytes: int  # local variables of the kernel and of all functions that it may call, each once
    is_recursive: bool  # or calls through pointers: local_nbytes is only one level of it

    @property
    def params_nbytes(self) -> int:
        return max((each.offset + each.nbytes for each in self.params), default=0)


class ModuleVariable(NamedTuple):
    name: str
    space: str  # global or const
    offset: int  # in the module's block
    nbytes: int
    initial: bytes  # empty: zeros


@dataclass(slots=True)
class TranslatedModule:
    text: str  # in C; it is not kept
    kernels: dict[str, Kernel]
    variables: dict[str, ModuleVariable]
    block_nbytes: int  # of the module's variables
    block_align: int
    sites: list[FaultSite]
    uncovered: dict[str, str]  # kernels that were left out, and why
    capability: int  # of the target, such as 80
    unset: dict[str, FaultSite] = field(default_factory=dict)  # by kernel, a use of a variable that nothing sets

    @property
    def places(self) -> list[int]:
        """A number of each site's place in the source, the same for copies of one place; 0 where it is not known.

        A line is not enough: a header's barrier is at one line for all its calls.
        """
        numbers: dict[tuple[object, ...], int] = {}
        keys = [(site.file, site.line, site.inlined) if site.is_whole and site.line else None for site in self.sites]
        return [0 if key is None else numbers.setdefault(key, len(numbers) + 1) for key in keys]

    def make_block(self) -> bytes:
        """The initial bytes of the module's variables; `xf_init_module` adds the addresses."""
        data = bytearray(self.block_nbytes)
        for variable in self.variables.values():
            data[variable.offset : variable.offset + len(variable.initial)] = variable.initial
        return bytes(data)


def pack(module: TranslatedModule) -> bytes:
    """A module as JSON, without its text."""
    variables = [[*each[:-1], each.initial.hex()] for each in module.variables.values()]
    kernels, unset = [*module.kernels.values()], module.unset
    numbers = module.block_nbytes, module.block_align, module.capability
    return json.dumps([kernels, variables, numbers, module.sites, module.uncovered, unset]).encode()


def unpack(data: bytes) -> TranslatedModule:
    """The module that `pack` was given."""
    kernels, variables, (block_nbytes, block_align, capability), sites, uncovered, unset = json.loads(data)
    return TranslatedModule(
        text="",
        kernels={each[0]: _make_kernel(each) for each in kernels},
        variables={each[0]: ModuleVariable(*each)._replace(initial=bytes.fromhex(each[-1])) for each in variables},
        block_nbytes=block_nbytes,
        block_align=block_align,
        sites=[_make_site(each) for each in sites],
        uncovered=uncovered,
        capability=capability,
        unset={name: _make_site(each) for name, each in unset.items()},
    )


def _make_kernel(values: list[Any]) -> Kernel:
    found = Kernel(*values)
    return found._replace(
        params=tuple([KernelParameter(*each) for each in found.params]),
        shared=tuple([SharedVariable(*each) for each in found.shared]),
        maxntid=tuple(found.maxntid),
        reqntid=tuple(found.reqntid),
    )


def _make_site(values: list[Any]) -> FaultSite:
    found = FaultSite(*values)
    inlined = tuple([InlinedCall(*each) for each in found.inlined])
    return found._replace(inlined=inlined, source_lines=tuple(found.source_lines))
