"""`python -m benchmarks exact`: what exact functions cost a GPU, beside a copy and beside ``math="fast"``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._cli.bench import describe_machine, print_heading
from xferlib._cli.main import align, progress
from xferlib.errors import UnsupportedError
from xferlib.kernels import elementwise

NAMES = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
    "cosh", "tanh", "arcsinh", "arccosh", "arctanh",
)  # fmt: skip
DTYPES = {"float32": 1 << 26, "float16": 1 << 27}
"""The elements of an array: more than 100 us of a copy."""
_TILE = 1 << 20


def within_domain(name: str, operand: str) -> str:
    """The operand of a function, from one of any size."""
    if name.startswith("log"):
        return f"abs({operand})"
    if name in ("arcsin", "arccos", "arctanh"):
        return f"{operand} / (1 + abs({operand}))"
    return f"1 + abs({operand})" if name == "arccosh" else operand


def call(name: str, operand: str) -> str:
    return f"{name}({within_domain(name, operand)})"


def draw(chance: np.random.Generator, count: int) -> str:
    """An expression of that many functions of x, or of x and y."""
    operands = ["x", "y"] if chance.random() < 0.3 else ["x"]
    text = call(str(chance.choice(NAMES)), "x")
    for _ in range(count - 1):
        name = str(chance.choice(NAMES))
        if chance.random() < 0.6:
            text = call(name, text)
        else:
            text = f"{text} {chance.choice(['+', '-', '*'])} {call(name, str(chance.choice(operands)))}"
    if chance.random() < 0.4:
        text = f"{chance.choice(['0.5', '2', '3'])} * ({text}) {chance.choice(['+', '-'])} {chance.choice(operands)}"
    return text


def kernel_of(text: str, *, is_exact: bool) -> Any:
    names = "x, y" if re.search(r"\by\b", text) else "x"
    words = {name: getattr(np, name) for name in NAMES}
    function: Callable[..., Any] = eval(f"lambda {names}: {text}", words)  # noqa: S307 - ours
    return elementwise(function, name="expression", math="exact" if is_exact else "fast")


def measure(kernel: Any, given: list[Any], out: Any) -> float:
    """The least seconds of some calls on the device."""
    stream, times = xl.current_stream(), []
    for _ in range(6):
        start = stream.record()
        for _ in range(2):
            kernel(*given, out=out)
        times.append(stream.record().elapsed_ms(start) / 2e3)
    return min(times[1:])


def main(argv: list[str] | None = None) -> int:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks exact", description=__doc__)
    parser.add_argument("--backend", help="backend that xferlib uses (default: the current one)")
    parser.add_argument("--count", type=int, default=16, help="expressions of each number of functions and dtype")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    backend = options.backend or xl.get_backend().name
    device = xl.get_device(backend)
    if device.kind != "cuda":
        raise UnsupportedError(f"{device} is not a GPU, which `python -m benchmarks exact` measures")
    chance = np.random.default_rng(options.seed)
    copy = elementwise(lambda x: +x, name="copy")
    ratios: dict[tuple[int, str], list[tuple[float, str]]] = {}
    alone: dict[str, dict[str, float]] = {name: {} for name in NAMES}
    with progress("measuring exact kernels") as report, device:
        for dtype, size in DTYPES.items():
            tiles = [chance.standard_normal(_TILE).astype(dtype) for _ in range(2)]
            given = [xl.to_device(np.tile(each, size // _TILE)) for each in tiles]
            out = xl.empty((size,), dtype)
            base = measure(copy, given[:1], out)
            for name in NAMES:
                report(f"{name} of {dtype}")
                operand = kernel_of(within_domain(name, "+x"), is_exact=True)(given[0])
                alone[name][dtype] = base / measure(kernel_of(f"{name}(x)", is_exact=True), [operand], out)
            for count in (1, 2, 3):
                for _ in range(options.count):
                    text = draw(chance, count)
                    report(text)
                    exact, fast = (
                        measure(kernel, given[: 1 + bool(re.search(r"\by\b", text))], out)
                        for kernel in (kernel_of(text, is_exact=each) for each in (True, False))
                    )
                    ratios.setdefault((count, dtype), []).append((fast / exact, text))
    print_heading({**describe_machine(backend), "backend": backend}, {})
    print(f"Seed {options.seed}. A copy's time over that of an exact function:")
    print(
        "\n".join(
            align([["function", *DTYPES], *([n, *(f"{each[d]:.2f}" for d in DTYPES)] for n, each in alone.items())])
        )
    )
    print("\nFast's time over that of an exact expression:")
    rows = [["functions", "dtype", "5 %", "median", "over 10 % slower", "worst"]]
    for count in (1, 2, 3):
        for dtypes in (*([each] for each in DTYPES), [*DTYPES]):
            found = sorted(each for dtype in dtypes for each in ratios[count, dtype])
            figures = [ratio for ratio, _ in found]
            slow = sum(ratio < 1 / 1.1 for ratio in figures)
            rows.append([
                str(count), ", ".join(dtypes), *(f"{np.percentile(figures, each):.2f}" for each in (5, 50)),
                f"{slow} of {len(figures)}", found[0][1],
            ])  # fmt: skip
    print("\n".join(align(rows)))
    return 0
