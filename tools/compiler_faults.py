"""Find faults of a CUDA compiler without a GPU: run the PTX that it makes of random kernels on a CPU.

    python -m tools.compiler_faults [--nvcc PATH] [--seed N] [--slices 10]

The text of each kernel is compiled by ``nvcc``, its PTX runs thread by thread as in the tests, and each bit is held
against NumPy's engine. Without ``--nvcc`` it is compiled by NVRTC, as in the tests, which may be another release with
other faults: the same seed by both tells whether a difference is one release's. nvcc 13.0 and NVRTC 13.5 leave the cut
of ``(x + y).astype("int8")`` out where nothing hides it from them. The exit status is 1 if there is a difference,
and 2 if nothing could be compared.
"""

from __future__ import annotations

import argparse
import functools
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.kernels import emulated
from tests.kernels.bits import INTEGERS, random_bits, same_bits, specials
from tests.kernels.targets import has_nvrtc
from xferlib.kernels import elementwise
from xferlib.testing import configured

OPTIONS = ("-ptx", "-lineinfo", "-arch=sm_80", "-std=c++17", "-fmad=false")
DTYPES = (*INTEGERS, *INTEGERS, "bool", "float16", "float32", "float64")
HOLES: dict[str, tuple[str, ...]] = {
    "n": ("1", "2", "3", "5", "7", "8", "16", "31", "100", "127", "-1", "-2", "-7", "-128", "0", "255", "65535"),
    "k": ("1", "3", "4", "7", "8", "9", "15", "16", "17", "24", "25", "31", "32", "48", "56", "63"),
    "s": ("+", "-", "*", "&", "|", "^", "//", "%", "<<", ">>"),
    "o": ("<", "<=", ">", ">=", "==", "!="),
    "t": DTYPES,
    "v": ("x", "x", "y", "y", "z"),
    "a": (
        *["({a}).astype('{t}')"] * 7, *["({a} {s} {a})"] * 7, *["({a} {s} {n})"] * 6, "({a} << {k})", "({a} >> {k})",
        "((x << {k}) >> {k})", "(-{a})", "(~{a})", "abs({a})", "np.sign({a})", "np.minimum({a}, {n})",
        "np.maximum({a}, {a})", "np.fmod({a}, {a})", "np.where(x < 0, -x, x)", "np.where(x - y < 0, y - x, x - y)",
        "((x ^ (x >> {k})) - (x >> {k}))", "np.where({a} {o} {n}, {a}, {a})", "({a} {o} {a}).astype('{t}')",
        "np.rint({a} * 0.5)", "(({a}).astype('float32') / {n}).astype('{t}')",
    ),
}  # fmt: skip
"""The texts that may fill each hole of a template; ``a`` is a value, ``v`` an operand."""


def write(chance: random.Random, depth: int) -> str:
    """A random expression of x, y and z."""

    def fill(hole: re.Match[str], depth: int) -> str:
        kind = hole[1] if hole[1] != "a" or depth else "v"
        return re.sub(r"\{(\w)\}", functools.partial(fill, depth=max(depth - 1, 0)), chance.choice(HOLES[kind]))

    return re.sub(r"\{(\w)\}", functools.partial(fill, depth=depth), "{a}")


def compile_by_nvcc(nvcc: str, _: tuple[str, ...], *sources: str) -> list[bytes]:
    """`emulated.compiled` by another compiler, and so with its spelling of the options."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernels.cu")
        source.write_text(emulated.join_sources(sources))
        command = [nvcc, *OPTIONS, str(source), "-o", str(source.with_suffix(".ptx"))]
        made = subprocess.run(command, check=False, capture_output=True, text=True)
        if made.returncode or not source.with_suffix(".ptx").exists():
            print(f"{nvcc} made no PTX of {len(sources)} kernels:\n{made.stderr[:2000]}", file=sys.stderr)
            raise SystemExit(2)
        text = source.with_suffix(".ptx").read_bytes()
    return [text + number.to_bytes(4, "little") for number in range(len(sources))]


def prepare(seed: int) -> tuple[str, tuple[Any, ...]] | None:
    """A text, and its kernel with operands and the expected result; None if the kernel refuses them."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    text = write(chance, chance.randint(2, 5))
    kinds = [chance.choice(DTYPES)] * 3 if chance.random() < 0.5 else [chance.choice(DTYPES) for _ in "xyz"]
    x, y = (each.ravel() for each in np.meshgrid(specials(kinds[0]), specials(kinds[1])))
    z = np.resize(np.random.default_rng(seed).permutation(specials(kinds[2])), x.size)
    operands = [
        np.concatenate([each, random_bits(kind, 100, seed + number)])
        for number, (each, kind) in enumerate(zip((x, y, z), kinds, strict=True))
    ]
    kernel = elementwise(eval(f"lambda x, y, z: {text}", {"np": np}), name="k")  # noqa: S307 - ours
    try:
        with configured(cpu="numpy"), np.errstate(all="ignore"):
            return f"{text} of {', '.join(kinds)}", (kernel, *operands, np.asarray(kernel(*operands)))
    except (TypeError, ValueError, OverflowError):
        return None


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nvcc", help="the compiler; NVRTC if omitted")
    arguments.add_argument("--seed", type=int, default=int(time.time()), help="0 or more; the time if omitted")
    arguments.add_argument("--slices", type=int, default=10, help="of up to 40 kernels, which are compiled together")
    given = arguments.parse_args()
    if given.seed < 0 or given.slices < 1:
        arguments.error(
            f"--seed {given.seed} --slices {given.slices}: give a seed of 0 or more, and at least one slice"
        )
    if given.nvcc and shutil.which(given.nvcc) is None:
        arguments.error(f"--nvcc {given.nvcc}: there is no such program; give the path of nvcc, or omit it for NVRTC")
    if given.nvcc is None and not has_nvrtc():
        arguments.error(
            "NVRTC is not installed; pip install 'xferlib[cuda-on-cpu]', or give the path of nvcc by --nvcc"
        )
    by = emulated.compiled if given.nvcc is None else functools.partial(compile_by_nvcc, given.nvcc)
    compared = different = 0
    for number in range(given.slices):
        seeds = range(given.seed + 40 * number, given.seed + 40 * (number + 1))
        cases = [case for case in map(prepare, seeds) if case is not None]
        results = [np.zeros_like(case[-1]) for _, case in cases]
        with tempfile.TemporaryDirectory() as folder, configured(cache_dir=folder):  # of this compiler
            emulated.all_as_cuda([(*case[:-1], found) for (_, case), found in zip(cases, results, strict=True)], by)
        for (text, case), found in zip(cases, results, strict=True):
            wrong = [at for at in range(found.size) if not same_bits(found[at], case[-1][at])]
            if wrong:
                different, at = different + 1, wrong[0]
                operands = ", ".join(str(each[at]) for each in case[1:-1])
                print(f"{text}: {len(wrong)} of {found.size} differ, at ({operands}) {found[at]} for {case[-1][at]}")
        compared += len(cases)
        print(f"up to seed {seeds[-1]}: {compared} kernels, {different} differ", flush=True)
    return min(different, 1)


if __name__ == "__main__":
    raise SystemExit(main())
