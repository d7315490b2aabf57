"""Sources and PTX with mistakes of chance: each gives a result or an error of xferlib's, soon and in little memory.

python -m tests.kernels.cuda_cpu.hostile [count] [seed]
"""

from __future__ import annotations

import collections
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
from typing import Any, NamedTuple

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


class Trial(NamedTuple):
    """A text, and what became of it: the type of its error, "a result", or what its process said before it died."""

    text: list[Any]
    outcome: str
    took_s: float = 0
    nbytes: int = 0

    @property
    def fault(self) -> str:
        """The fault in the outcome; empty where nothing is."""
        if self.outcome.startswith("exit status"):
            return f"{self.outcome}\n{self.text}"
        is_small = self.took_s <= LIMIT_S and self.nbytes <= LIMIT_NBYTES
        return "" if is_small else f"{self.took_s:.1f} s, {self.nbytes >> 20} MiB: {self.text}"


def run(count: int, seed: int) -> list[Trial]:
    """Try many texts in processes of their own."""
    trials: list[Trial] = []
    while len(trials) < count:
        begin = [str(number) for number in (len(trials), count, seed)]
        command = [sys.executable, "-m", "tests.kernels.cuda_cpu.hostile", "work", *begin]
        with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
            text: list[Any] = []
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as done:
                assert done.stdout is not None
                for line in done.stdout:
                    found = json.loads(line)
                    if isinstance(found[2], str):
                        text = found
                    else:
                        trials.append(Trial(text, *found[1:]))
            if done.returncode and text and len(trials) <= text[0]:
                said.seek(0)
                trials.append(Trial(text, f"exit status {done.returncode}: {said.read()[-1500:]}"))
            elif len(trials) < count:
                raise RuntimeError("no text was tried")
    return trials


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*map(int, sys.argv[2:]))
    else:
        _count, _seed = [*map(int, sys.argv[1:]), 2000, 7][:2] if len(sys.argv) != 2 else (int(sys.argv[1]), 7)
        _trials = run(_count, _seed)
        _faults = [each.fault for each in _trials if each.fault]
        print(collections.Counter(each.outcome for each in _trials), *_faults, sep="\n")
        sys.exit(bool(_faults))
