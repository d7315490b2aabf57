"""Sources and PTX with mistakes of chance: each gives a result or an error of xferlib's, soon and in little memory.

python -m tests.kernels.cuda_cpu.hostile [count] [seed]
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from xferlib.errors import XferError

LIMIT_S = 2
LIMIT_NBYTES = 1 << 30
_TOKENS = [
    "0", "1", "-1", "4294967295", "0x7fffffff", "1e39", "<<40", "n", "i", "[", "(", "{", "}", ";", "*", "&", "%", "/",
    ",", "float", "double", "__syncthreads();", "return;", "for(;;)", "__shared__", "__device__", "template<", ">",
    "goto", 'asm("trap;");', "%r1", "%rd1", "%f1", "%p1", ".b64", ".f32", ".v4", ".shared", ".reg", "ld", "st", "bra",
    "@%p1", "ret;", ".global", ".entry", ".func", ".param", '"', "//", "/*", "%tid.x", "call", "atom.add", "bar.sync",
    "mov.u64", ".align", ".b8", "0f7fffff", "99999999999999999999", "$L__BB0_1", "é", "\x00",
]  # fmt: skip
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)


def mutate(text: str, random: random.Random) -> str:
    """The text with one to four changes, most of which leave its form as it is."""
    words = _WORD.findall(text)
    for _ in range(random.choice((1, 1, 2, 4))):
        at, other = random.randrange(len(words)), random.randrange(len(words))
        like = [number for number, word in enumerate(words) if word[0].isalnum() == words[at][0].isalnum()]
        numbers = [number for number, word in enumerate(words) if word.isdigit()]
        names = [number for number, word in enumerate(words) if word[0].isalpha()]
        match random.choice((0, 1, 2, 3, 4, 5, 6, 6, 6, 7, 7, 7, 7)):
            case 0:
                words[at : at + random.randint(1, 12)] = []
            case 1:
                words[at] = random.choice(_TOKENS)
            case 2:
                words.insert(at, f" {random.choice(_TOKENS)} ")
            case 3:
                words[at] = words[random.choice(like)]
            case 4:
                lines = "".join(words).split("\n")
                first, second = random.randrange(len(lines)), random.randrange(len(lines))
                lines[first] = lines[second] if random.random() < 0.5 else ""
                words = _WORD.findall("\n".join(lines))
            case 5:
                words = words[: max(at, 40)] if random.random() < 0.2 else words[: at + 9] + words[at:]
            case 6 if numbers:
                words[random.choice(numbers)] = random.choice(("0", "1", "3", "7", "31", "33", "1000000", "4294967295"))
            case 7 if names:
                words[random.choice(names)] = words[random.choice(names)]
            case _:
                words[at], words[other] = words[other], words[at]
        words = words or ["x"]
    return "".join(words)


def _try(text: str, *, is_ptx: bool, inputs: tuple[Any, ...], folder: Path) -> str:
    """Load a text, with and without checks, and run its kernel with checks; the type of the error that it gives."""
    try:
        if is_ptx:
            path = folder / "text.ptx"
            path.write_text(text, encoding="utf-8")
            module = xl.raw_module(path=path)
            signature = ", ".join(f"void *p{number}" for number in range(len(inputs) + 1))
            kernel = module.get_function("k", signature)
        else:
            module = xl.raw_module(text)
            kernel = module.get_function("k")
        with xl.use_backend("numpy"):
            module.compile()
        arrays = [xl.to_device(np.zeros(1 << 14, np.uint8)), *map(xl.to_device, inputs)]
        addresses = arrays if is_ptx else [_fit(x, each) for x, each in zip(arrays, kernel.parameters, strict=False)]
        kernel(2, 64, tuple(addresses), shared_nbytes=2048)
        xl.synchronize()
    except XferError as error:
        return type(error).__name__
    return "a result"


def _fit(array: Any, parameter: Any) -> Any:
    """The array with the type that the source declares, or a number."""
    if not parameter.is_pointer:
        return 16
    return (
        array
        if parameter.dtype is None
        else xl.to_device(xl.to_host(array).ravel().view(np.uint8)[:4096].view(parameter.dtype))
    )


def _peak_nbytes() -> int:
    found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(found[1]) << 10 if found else 0


def _cpu_s() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def work(begin: int, count: int, seed: int) -> None:
    """Try the texts of these numbers, and tell of each before and after."""
    sys.modules["torch"] = None  # type: ignore[assignment] # its import would take longer than the first texts
    from tests.kernels.cuda_cpu.running import compile_cuda
    from tests.kernels.cuda_cpu.test_corpus import CASES

    xl.use_backend("sim")
    xl.configure(loop_turns=2000)
    cases = [each for each in CASES if not each.options and 'extern "C" __global__ void k(' in each.source]
    cases = [each for each in cases if all(isinstance(x, np.ndarray) for x in each.inputs)]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(begin, count):
            chance = random.Random(f"{seed} {number}")
            case = chance.choice(cases)
            is_ptx = number % 2 == 1
            text = mutate(compile_cuda(case.source) if is_ptx else case.source, chance)
            print(json.dumps([number, case.name, text]), flush=True)
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
            before, start = _peak_nbytes(), _cpu_s()
            clock = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                outcome = _try(text, is_ptx=is_ptx, inputs=case.inputs, folder=Path(folder))
            took = min(_cpu_s() - start, time.perf_counter() - clock)  # other programs may have the processor
            print(json.dumps([number, outcome, took, _peak_nbytes() - before]), flush=True)


def run(count: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """Try many texts in processes of their own; how often there was which outcome, and what was wrong."""
    outcomes: dict[str, int] = {}
    wrong: list[str] = []
    begin = 0
    while begin < count:
        command = [sys.executable, "-m", "tests.kernels.cuda_cpu.hostile", "work", str(begin), str(count), str(seed)]
        with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
            text: list[Any] = [begin, "", ""]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as done:
                assert done.stdout is not None
                for line in done.stdout:
                    found = json.loads(line)
                    if isinstance(found[2], str):
                        text = found
                        continue
                    begin = found[0] + 1
                    outcomes[found[1]] = outcomes.get(found[1], 0) + 1
                    if found[2] > LIMIT_S or found[3] > LIMIT_NBYTES:
                        wrong.append(f"{found[2]:.1f} s, {found[3] >> 20} MiB: {text}")
            if done.returncode and begin <= text[0]:
                said.seek(0)
                wrong.append(f"exit status {done.returncode}: {said.read()[-1500:]}\n{text}")
                begin = text[0] + 1
            elif begin < count and done.returncode:
                raise RuntimeError("no text was tried")
    return outcomes, wrong


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*map(int, sys.argv[2:]))
    else:
        _count, _seed = [*map(int, sys.argv[1:]), 2000, 7][:2] if len(sys.argv) != 2 else (int(sys.argv[1]), 7)
        _outcomes, _wrong = run(_count, _seed)
        print(_outcomes, *_wrong, sep="\n")
        sys.exit(bool(_wrong))
