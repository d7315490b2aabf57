"""Kernels of one text of PTX, run on a CPU: with the first arguments that a checked run finds no fault in."""

from __future__ import annotations

import json
import re
import sys
import zipfile
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from tools.cuda_corpus import arguments
from tools.cuda_corpus.arguments import Launch
from tools.cuda_corpus.finding import find_signature
from xferlib.errors import XferError
from xferlib.kernels.cuda_cpu.code import CpuCode, compile_ptx
from xferlib.kernels.cuda_cpu.module import CpuModule, KernelMemory

_LOOP_TURNS = 4_000
_MOST_LATE = 16
"""Runs of a kernel that do not end, until no further arguments are tried."""
_APPROXIMATE = re.compile(r"\b(?:ex2|lg2|rcp|rsqrt|sin|cos|tanh|sqrt|div)\.(?:approx|full)")
_FLOAT_ATOMIC = re.compile(r"\b(?:atom|red)\.[\w.]*add[\w.]*\.(?:noftz\.)?(?:f16|f16x2|bf16|bf16x2|f32|f64)\b")
_OF_THE_MACHINE = re.compile(
    r"%(?:clock|globaltimer|smid|nsmid|warpid|nwarpid|gridid|envreg|pm\d)|\bcall\.uni.*\bmalloc"
)


@dataclass(slots=True)
class Outcome:
    """The fate of a kernel."""

    kernel: str
    signature: str | None = None
    attempt: int = -1
    """The number of its arguments; -1 where a checked run reports all of them."""
    report: str = ""
    """Of the last run with a fault; or the instruction that is not covered."""
    is_covered: bool = True
    digests: list[int] = field(default_factory=list)
    """Of the arrays behind the run."""
    traits: list[str] = field(default_factory=list)
    """Why a GPU may give other bits: ``approximate``, ``float atomic``, ``machine`` (clocks, the heap), ``order``.

    The last one is of kernels of which two runs on a CPU differ, by the order of threads or by addresses.
    """


def run_text(text: str, debug_text: str, source: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Load PTX, checked and unchecked, and run its kernels.

    Args:
        text: PTX.
        debug_text: PTX of a debug build; empty where there is none.
        source: The CUDA source, for the parameters of its kernels.

    Returns:
        What happened, for JSON; and what each run changed in its arrays, compressed, by kernel and number of array.
    """
    found: dict[str, Any] = {"loads": {}, "kernels": []}
    codes = {}
    for is_checked in (False, True):
        try:
            codes[is_checked] = compile_ptx(text, is_checked=is_checked, debug_text=debug_text if is_checked else "")
            found["loads"][str(is_checked)] = ""
        except XferError as error:
            found["loads"][str(is_checked)] = str(error)[:500]
    if len(codes) < 2:
        return found, {}
    outcomes = [
        Outcome(name, report=str(why)[:300], is_covered=False)
        for name, why in codes[True].translation.uncovered.items()
    ]
    outcomes += [_try_arguments(codes[True], name, source) for name in codes[True].translation.kernels]
    clean = [each for each in outcomes if each.attempt >= 0]
    changes = {}
    runs = {}
    for schedule in ("in-order", "reversed"):
        xl.configure(kernel_schedule=schedule)
        module = _load(codes[False])
        for each in clean:
            launch = _make(codes[False], each)
            before = [array.copy() for array in launch.arrays]
            try:
                run_on_cpu(module, each.kernel, launch)
            except XferError as error:
                each.report, each.attempt = f"unchecked: {error}"[:300], -1
                continue
            runs[schedule, each.kernel] = list_digests(launch.arrays)
            if schedule == "in-order":
                for number, (old, new) in enumerate(zip(before, launch.arrays, strict=True)):
                    changes[f"{each.kernel}/{number}"] = zlib.compress((_words(old) ^ _words(new)).tobytes(), 6)
    for each in clean:
        each.digests = runs.get(("in-order", each.kernel), [])
        each.traits = list_traits(text, each.kernel)
        if each.digests != runs.get(("reversed", each.kernel)):
            each.traits.append("order")
    found["kernels"] = [asdict(each) for each in outcomes]
    return found, changes


def _load(code: CpuCode) -> CpuModule:
    module = CpuModule(code, np.zeros(code.variables_nbytes, np.uint8))
    module.initialise()
    return module


def _make(code: CpuCode, outcome: Outcome) -> Launch:
    return arguments.make_launch(code.translation.kernels[outcome.kernel], outcome.signature, outcome.attempt)


def _try_arguments(code: CpuCode, name: str, source: str) -> Outcome:
    """The first arguments with which checked runs in two orders are without a fault, and which change an array."""
    outcome = Outcome(name, signature=find_signature(name, source))
    found, late = -1, 0
    for outcome.attempt in range(arguments.COUNT):
        if late == _MOST_LATE:
            break
        try:
            for schedule in ("in-order", "reversed"):
                xl.configure(kernel_schedule=schedule, loop_turns=_LOOP_TURNS)
                launch = _make(code, outcome)
                before = list_digests(launch.arrays)
                run_on_cpu(_load(code), name, launch)
        except XferError as error:
            late += getattr(error, "kind", "") == "endless"
            outcome.report = f"{getattr(error, 'kind', type(error).__name__)}: {error}"[:300]
            continue
        if found < 0:
            found = outcome.attempt
        if not before or list_digests(launch.arrays) != before:
            return outcome
    outcome.attempt = found
    return outcome


def run_on_cpu(module: CpuModule, name: str, launch: Launch) -> None:
    module.find_kernel(name)
    values = arguments.list_bytes(launch, [each.ctypes.data for each in launch.arrays])
    operands = [KernelMemory(f"a{number}", each) for number, each in enumerate(launch.arrays)]
    module.launch(
        name, launch.grid, launch.block, values, operands, label=name, shared_nbytes=launch.shared_nbytes,
        is_cooperative=launch.is_cooperative,
    )  # fmt: skip


def _words(array: np.ndarray[Any, Any]) -> Any:
    return array.view(np.uint8)


def list_digests(arrays: list[np.ndarray[Any, Any]]) -> list[int]:
    return [zlib.crc32(_words(each)) for each in arrays]


def list_traits(text: str, kernel: str) -> list[str]:
    """The traits that the text of a kernel shows, and of the module's functions where it calls one."""
    found = re.search(rf"\.entry\s+{re.escape(kernel)}\b.*?^}}", text, re.DOTALL | re.MULTILINE)
    body = found[0] if found else text
    if re.search(r"\bcall\b", body):
        body += "".join(each[0] for each in re.finditer(r"^(?:\.\w+\s+)*\.func\b.*?^}", text, re.DOTALL | re.MULTILINE))
    kinds = {"approximate": _APPROXIMATE, "float atomic": _FLOAT_ATOMIC, "machine": _OF_THE_MACHINE}
    return [name for name, pattern in kinds.items() if pattern.search(body)]


def main() -> None:
    *files, folder = (Path(each) for each in sys.argv[1:])
    found, changes = run_text(*(each.read_text(encoding="utf-8") for each in files))
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")
    with zipfile.ZipFile(folder / "changes.zip", "w") as file:
        for name, content in changes.items():
            file.writestr(name, content)


if __name__ == "__main__":
    main()
