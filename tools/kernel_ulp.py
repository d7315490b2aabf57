"""Measure how far every function of the table of guarantees is from the exact one, and compare with its bound.

    python -m tools.kernel_ulp --backend cupy --count 20000000
    python -m tools.kernel_ulp --backend numpy --save x86-64

Each line says PASS or FAIL; the worst input can be fed to the kernel again. ``--save COLUMN`` keeps the largest
distance ever found in ``tools/kernel_ulps.json``, from which the documentation has its figures.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from tools import ulp_oracle
from xferlib.kernels import elementwise
from xferlib.kernels.functions import guarantee, measurable
from xferlib.kernels.python_frontend import NAMESPACE

FIGURES = Path(__file__).with_name("kernel_ulps.json")
DTYPES = ("float64", "complex64", "complex128")
CHUNK = 1 << 17
Row = tuple[str, str]


def rows(dtypes: Iterable[str] = DTYPES) -> list[Row]:
    """The functions and dtypes whose guarantee is a bound to be measured."""
    return [(name, dtype) for dtype in dtypes for name in measurable(dtype)]


def kernel_of(name: str) -> Any:
    call = getattr(NAMESPACE, name)

    def of_one(x: Any) -> Any:
        return call(x)

    def of_two(x: Any, y: Any) -> Any:
        return call(x, y)

    return elementwise(of_two if name in ulp_oracle.OF_TWO else of_one, name=name)


def measured(row: Row, count: int, seed: int, backend: str, pool: Any = None) -> tuple[float, str]:
    """The largest distance of one function over ``count`` inputs, and where it is."""
    name, dtype = row
    inputs = ulp_oracle.inputs_of(name, dtype, count, seed)
    if backend == "numpy":
        actual = kernel_of(name)(*inputs)
    else:
        with xl.use_backend(backend):
            actual = xl.to_host(kernel_of(name)(*map(xl.to_device, inputs)))
    if pool is None:
        return ulp_oracle.worst(name, inputs, actual)
    pieces = list(ulp_oracle.in_chunks(inputs, actual, CHUNK))
    found = pool.map(ulp_oracle.worst, [name] * len(pieces), *zip(*pieces, strict=True))
    largest: tuple[float, str] = max(found, key=lambda each: each[0])
    return largest


def survey(options: argparse.Namespace, wanted: list[Row]) -> dict[Row, tuple[float, str]]:
    """The worst of each row, every row getting its share of the time."""
    worst = dict.fromkeys(wanted, (-1.0, ""))
    began, seed, done = time.perf_counter(), options.seed, 0
    step = min(options.count, 1 << 21)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context) if options.workers else nullcontext() as pool:
        while done < options.count and time.perf_counter() - began < options.seconds:
            for row in wanted:
                found = measured(row, step, seed, options.backend, pool)
                worst[row] = max(worst[row], found, key=lambda each: each[0])
            seed, done = seed + 1, done + step
    print(f"{done} inputs for each function, {time.perf_counter() - began:.0f} s")
    return worst


def report(worst: dict[Row, tuple[float, str]]) -> int:
    """Print the table; how many are beyond their bounds."""
    failed = 0
    for (name, dtype), (ulp, place) in worst.items():
        bound = guarantee(name, dtype).bound_ulp
        verdict = "-" if bound is None else "PASS" if ulp <= bound else "FAIL"
        failed += verdict == "FAIL"
        print(f"{verdict:4} {name:9} {dtype:10} worst {ulp:8.4f} ulp, published {bound}, at {place}")
    return failed


def save(worst: dict[Row, tuple[float, str]], column: str) -> None:
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    kept = figures.setdefault(column, {})
    for (name, dtype), (ulp, place) in worst.items():
        before = kept.setdefault(dtype, {}).get(name, {"ulp": -1})
        if ulp > before["ulp"]:
            kept[dtype][name] = {"ulp": round(ulp, 4), "at": place}
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cupy")
    parser.add_argument("--count", type=int, default=20_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="functions, separated by commas")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="0: none besides this process")
    parser.add_argument("--seconds", type=float, default=95)
    parser.add_argument("--save", default="", metavar="COLUMN")
    options = parser.parse_args(argv)
    wanted = [row for row in rows(options.dtypes.split(",")) if not options.only or row[0] in options.only.split(",")]
    np.seterr(all="ignore")
    worst = survey(options, wanted)
    if options.save:
        save(worst, options.save)
    failed = report(worst)
    print(f"{failed} FAIL", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
