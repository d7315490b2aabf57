"""Mutants of a CUDA program, and what a checked run says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

import xferlib
from tests.kernels.cuda_cpu.mutated_programs import PROGRAMS, Program
from tests.kernels.cuda_cpu.running import compile_cuda
from xferlib.errors import KernelFaultError
from xferlib.kernels.cuda_cpu.code import compile_ptx
from xferlib.kernels.cuda_cpu.module import CpuModule, KernelMemory

SCHEDULES = [("in-order", 0), ("reversed", 0), *(("random", seed) for seed in range(20))]

_PRELUDE = """#include <cooperative_groups.h>
namespace unsafe {
template <typename T, typename V> __device__ T Add(T *p, V v) { T old = *p; *p = old + v; return old; }
template <typename T, typename V> __device__ T Max(T *p, V v) { T old = *p; *p = old > v ? old : v; return old; }
template <typename T, typename V> __device__ T Exch(T *p, V v) { T old = *p; *p = v; return old; }
template <typename T, typename V> __device__ T Inc(T *p, V v) { T old = *p; *p = old >= v ? 0 : old + 1; return old; }
template <typename T, typename V> __device__ T CAS(T *p, V c, V v) { T old = *p; if (old == c) *p = v; return old; }
}
"""

_SYNC = re.compile(r"\s*(__syncthreads\(\)|__syncwarp\(\w*\)|\w+\.sync\(\)|__threadfence(?:_block)?\(\));$")
_BARE_HEADER = re.compile(r"\s*(if|for|while|else)\b[^;{]*(\([^{]*\))?$|\s*(for) \(.*\)$")
_ASSIGNS = re.compile(r"(?P<type>\s*(?:\w+ )+)?\s*(?P<name>\w+)(?:\[.*\])? = (?P<value>.*);$")
_DECLARES_ARRAY = re.compile(r"\s*(extern )?(__shared__|__constant__|(volatile )?int \w+\[\d+\];)")
_SHARED = re.compile(r"__shared__ (?:volatile )?\w+ (\w+)")
_LOCAL = re.compile(r"(?<!\w )\bint (\w+)\[\d+\];|\bint (\w+);")


@dataclass(frozen=True)
class Mutant:
    program: str
    kind: str
    line: int  # of the source
    what: str  # the text that was changed
    source: str

    def __str__(self) -> str:
        return f"{self.program}:{self.line} {self.kind} `{self.what}`"


def _end_of(lines: Sequence[str], at: int) -> int:
    """The last line of the statement that begins at a line."""
    if lines[at].rstrip().endswith("{"):
        depth = 0
        for end in range(at, len(lines)):
            depth += lines[end].count("{") - lines[end].count("}")
            if depth == 0 and not lines[end].rstrip().endswith("else {"):
                return end
    if _BARE_HEADER.match(lines[at]) and not lines[at].rstrip().endswith(";"):
        return _end_of(lines, at + 1)
    return at


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _begin_of(lines: Sequence[str], end: int, indent: int) -> int | None:
    """The first line of the statement that ends at a line, beside a statement of that indentation."""
    for at in range(end, -1, -1):
        if _indent(lines[at]) < indent or not lines[at].strip():
            return None
        if _indent(lines[at]) == indent and not lines[at].lstrip().startswith("}") and _end_of(lines, at) == end:
            return at
    return None


def _brackets(line: str) -> Iterator[tuple[int, int]]:
    """The beginning and the end of what is between brackets behind a name."""
    for match in re.finditer(r"[\w\]]\[", line):
        depth, begin = 1, match.end()
        for end in range(begin, len(line)):
            depth += (line[end] == "[") - (line[end] == "]")
            if depth == 0:
                yield begin, end
                break


def mutate(program: Program) -> list[Mutant]:
    """Each barrier, fence, guard, atomic, initialisation deleted or moved, each index one higher."""
    lines = program.source.split("\n")
    made: list[Mutant] = []
    shared = set(_SHARED.findall(program.source))
    variables = shared | {name for names in _LOCAL.findall(program.source) for name in names if name}
    variables |= {"own", "keys", "ranks"} if "memory" in variables else set()

    def add(kind: str, at: int, changed: Sequence[str]) -> None:
        made.append(Mutant(program.name, kind, at + 1, lines[at].strip(), "\n".join(changed)))

    def with_line(at: int, line: str) -> list[str]:
        return [*lines[:at], line, *lines[at + 1 :]]

    for at, line in enumerate(lines):
        if _SYNC.match(line):
            kind = "fence" if "fence" in line else "barrier"
            add(f"{kind} deleted", at, with_line(at, ";"))
            before = _begin_of(lines, at - 1, _indent(line))
            if before is not None and not _SYNC.match(lines[before]):
                add(f"{kind} moved up", at, [*lines[:before], line, *lines[before:at], *lines[at + 1 :]])
            if at + 1 < len(lines) and _indent(lines[at + 1]) == _indent(line) and not _SYNC.match(lines[at + 1]):
                end = _end_of(lines, at + 1)
                add(f"{kind} moved down", at, [*lines[:at], *lines[at + 1 : end + 1], line, *lines[end + 1 :]])
        if match := re.match(r"(\s*)if \((.*)\)( \{)?$", line):
            leaves = lines[at + 1].strip() in ("return;", "break;", "continue;")
            add("guard deleted", at, with_line(at, f"{match[1]}if ({'false' if leaves else 'true'}){match[3] or ''}"))
        for match in re.finditer(r"\w+ < n && |row >= 0 && ", line):
            add("guard's part deleted", at, with_line(at, line[: match.start()] + line[match.end() :]))
        for match in re.finditer(r"\batomic(\w+)\(", line):
            add("atomic deleted", at, with_line(at, f"{line[: match.start()]}unsafe::{match[1]}({line[match.end() :]}"))
            target = re.match(r"&?(\w+)", line[match.end() :])
            if program.grid > 1 and target and target[1] not in shared:
                add("atomic narrowed", at, with_line(at, line.replace(match[0], f"{match[0][:-1]}_block(")))
        match = _ASSIGNS.match(line)
        if match and match["type"] and re.fullmatch(r"-?\d+|false|true", match["value"]):
            add("initialisation deleted", at, with_line(at, f"{match['type']}{match['name']};"))
        elif match and not match["type"] and match["name"] in variables:
            variables.remove(match["name"])  # the first value that it is given
            add("initialisation deleted", at, with_line(at, ";"))
        if not _DECLARES_ARRAY.match(line):
            for begin, end in _brackets(line):
                changed = f"{line[:begin]}({line[begin:end]}) + 1{line[end:]}"
                name = re.findall(r"\w+", line[:begin])[-1]
                made.append(
                    Mutant(program.name, "index widened", at + 1, f"{name}[{line[begin:end]}]",
                           "\n".join(with_line(at, changed)))
                )  # fmt: skip
    return made


class Batch:
    """Programs in one compilation; `sources` and their programs have the same order."""

    def __init__(self, sources: Sequence[str], programs: Sequence[Program]) -> None:
        texts = [
            re.sub(r"\bSPACE\b", f"s{number}", re.sub(r"\bKERNEL\b", f"k{number}", source)).replace(
                "__global__", 'extern "C" __global__'
            )
            for number, source in enumerate(sources)
        ]
        self.programs = programs
        text = "\n".join([_PRELUDE, *texts])
        code = compile_ptx(compile_cuda(text), is_checked=True, debug_text=compile_cuda(text, "--device-debug"))
        self.module = CpuModule(code, np.empty(code.variables_nbytes, np.uint8))
        self.module.initialise()

    def run(self, number: int, schedule: tuple[str, int]) -> tuple[KernelFaultError | None, list[str]]:
        """The report, and the arrays that are not as expected."""
        program = self.programs[number]
        arrays = {name: array.copy() for name, array in program.arrays.items()}
        values = [np.uint64(array.ctypes.data).tobytes() for array in arrays.values()]
        values += [each.tobytes() for each in program.numbers]
        operands = [KernelMemory(name, array, name in program.const) for name, array in arrays.items()]
        config = replace(xferlib.configure(), kernel_schedule=schedule[0], sim_seed=schedule[1], loop_turns=2000)
        try:
            self.module.launch(
                f"k{number}", (program.grid, program.extents[0], 1), (program.block, program.extents[1], 1), values,
                operands, label=program.name, shared_nbytes=program.dynamic, is_cooperative=program.is_cooperative,
                config=config,
            )  # fmt: skip
        except KernelFaultError as error:
            return error, []
        if program.sorts:
            arrays = {name: np.sort(array) for name, array in arrays.items()}
        return None, [name for name, wanted in program.expected.items() if not np.array_equal(arrays[name], wanted)]


@dataclass
class Outcome:
    """Of a mutant over the schedules."""

    reported: int = 0
    wrong: int = 0
    runs: int = 0
    first: str = ""


def judge(mutants: Sequence[Mutant], *, at_a_time: int = 150, to_first_report: bool = True) -> dict[Mutant, Outcome]:
    outcomes: dict[Mutant, Outcome] = {}
    for begin in range(0, len(mutants), at_a_time):
        some = mutants[begin : begin + at_a_time]
        batch = Batch([each.source for each in some], [PROGRAMS[each.program] for each in some])
        for number, mutant in enumerate(some):
            outcome = outcomes[mutant] = Outcome()
            for schedule in SCHEDULES:
                error, different = batch.run(number, schedule)
                outcome.runs += 1
                outcome.reported += error is not None
                outcome.wrong += bool(different)
                if error is not None:
                    outcome.first = outcome.first or f"{schedule}: {error}"
                    if to_first_report:
                        break
    return outcomes
