"""Fingerprints of functions over many inputs: two engines that agree on one agree on every result.

    python -m tools.digest --backend cupy [--json sweep.json] [--here FILE] [--only exp,log]
    python -m tools.digest --update

The inputs are made inside the kernel from a counter, so that 2^32 of them need no memory, and each result is hashed
together with its input, to 32 bits. NaNs count as one value. The fingerprint is the sum of the hashes.

As a program it compares a GPU with this machine's CPU: for each float32 function of one argument over all 2^32 inputs,
and for each exact function over 10^8 random bit patterns of every dtype (`SLOW` has the exceptions). With
``--backend numpy`` it prints the CPU's digests; ``--here FILE`` takes them from what ``--json`` wrote then, such as
`COMPLETE` and `EXACT`. ``--update`` brings these two up to the table: it computes on this CPU what they lack, some
seconds for each pair of `EXACT`, and drops what the table no longer promises.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from xferlib.kernels.definitions import ArgumentKind
from xferlib.kernels.formulas import plain_bits
from xferlib.kernels.functions import CALLS, TABLE
from xferlib.kernels.ir import (
    FLOAT32,
    UINT32,
    UINT64,
    Builder,
    DType,
    Node,
    Param,
    ReductionSpec,
    build_reduction,
    is_float,
)
from xferlib.kernels.reduction import ReductionKernel

EXACT_DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
                "float64")  # fmt: skip
COUNT = 10**8
SLOW = {("fma", "float64"): 10**5}
"""On a CPU, most random operands of these go through rational arithmetic."""
COMPLETE, EXACT = (Path(__file__).with_name(f"kernel_{name}.json") for name in ("digests", "exact_digests"))
"""The CPU's digests of functions over all inputs, and of exact functions over random ones."""
CHUNK = 1 << 26
MASK = (1 << 64) - 1


class _Definition:
    """The sum of the hashes of ``function`` of ``dtype`` at ``count`` counters from ``offset`` on."""

    names: tuple[str, ...] = ("counter", "offset")

    def __init__(self, function: str, dtype: DType, *, is_complete: bool) -> None:
        self.name = f"digest_{function}"
        self._function = TABLE[function]
        self._dtype = dtype
        self._is_complete = is_complete

    def specialize(self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int]) -> ReductionSpec:
        params = [Param(name="counter", dtype=UINT32), Param(name="offset", dtype=UINT32, is_scalar=True)]
        return build_reduction(
            params,
            lambda b, x: [self._hashed(b, b.op("add", x[0], x[1]))],
            lambda b, x, y: [b.op("add", x[0], y[0])],
            lambda b, a, n, m: [a[0]],
            identity=(0,),
        )

    def _hashed(self, b: Builder, counter: Node) -> Node:
        if self._is_complete:
            operands = [b.bitcast(counter, FLOAT32)]
        else:
            seed = b.cast(counter, UINT64)
            operands = [self._random(b, seed, number) for number in range(self._function.arity)]
        result = _bits(b, self._function.lowering(b, *operands))
        place = b.op("mul", counter, b.const(0x9E3779B1, UINT32))  # 2^32 over the golden ratio, odd
        return b.cast(_scrambled(b, b.op("xor", place, result)), UINT64)

    def _random(self, b: Builder, seed: Node, number: int) -> Node:
        """Uniformly random bits of the dtype."""
        mixed = _mixed(b, b.op("add", b.op("mul", seed, b.const(3, UINT64)), b.const(number, UINT64)))
        if self._dtype.kind == "b":
            return b.truth(b.op("and", mixed, b.const(1, UINT64)))
        bits = b.cast(mixed, np.dtype(f"u{self._dtype.itemsize}"))
        return b.bitcast(bits, self._dtype)


def _bits(b: Builder, value: Node) -> Node:
    """The bits of a result as uint32; the halves of 64 of them folded into one another."""
    if is_float(value.dtype):
        value = plain_bits(b, value)
    if value.dtype.itemsize < 8:
        return b.cast(value, UINT32)
    low, high = b.cast(value, UINT32), b.cast(b.op("shr", value, b.const(32, value.dtype)), UINT32)
    return b.op("xor", low, b.op("mul", high, b.const(0xC2B2AE35, UINT32)))


def _scrambled(b: Builder, x: Node) -> Node:
    """Mix bits: a multiplication spreads each to higher ones, a shift brings the result down again."""
    x = b.op("mul", x, b.const(0x85EBCA6B, UINT32))
    return b.op("xor", x, b.op("shr", x, b.const(15, UINT32)))


def _mixed(b: Builder, x: Node) -> Node:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None)):
        x = b.op("xor", x, b.op("shr", x, b.const(shift, UINT64)))
        if factor is not None:
            x = b.op("mul", x, b.const(factor, UINT64))
    return x


def complete(function: str) -> ReductionKernel:
    """The kernel for a function of one float32; call it with counters, which are the bits, and an offset."""
    return ReductionKernel(_Definition(function, FLOAT32, is_complete=True))


def random(function: str, dtype: Any) -> ReductionKernel:
    """The kernel for a function of ``dtype`` at random bit patterns, one for each counter."""
    return ReductionKernel(_Definition(function, np.dtype(dtype), is_complete=False))


def total(kernel: ReductionKernel, counters: Any, chunks: int, to_host: Any = np.asarray) -> int:
    """The digest over ``chunks`` times the counters, each time `CHUNK` further on."""
    result = 0
    for chunk in range(chunks):
        result += int(to_host(kernel(counters, np.uint32(chunk * CHUNK & 0xFFFFFFFF))))
    return result & MASK


def sweeps(only: str) -> Iterator[tuple[str, str, ReductionKernel, int, int]]:
    """Each function and dtype with its kernel, the number of counters, and how many times they are shifted."""
    wanted = only.split(",") if only else [*TABLE]
    for name in (name for name in CALLS if name in wanted):
        yield name, "float32", complete(name), CHUNK, (1 << 32) // CHUNK
    for name in (name for name in TABLE if name in wanted):
        for dtype in ("float64",) if name in CALLS else EXACT_DTYPES:  # those of float32 are swept completely
            kind = np.dtype(dtype).kind
            if kind in TABLE[name].kinds.replace("i", "iu"):
                yield name, dtype, random(name, dtype), SLOW.get((name, dtype), COUNT), 1


def read(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of a file by function and dtype."""
    return {(row["function"], row["dtype"]): row for row in json.loads(path.read_text(encoding="utf-8"))}


def promised(path: Path) -> dict[tuple[str, str], tuple[ReductionKernel, int, int]]:
    """The functions and dtypes whose digests belong into `COMPLETE` or `EXACT`, with what computes them."""
    return {
        (name, dtype): (kernel, count, chunks)
        for name, dtype, kernel, count, chunks in sweeps("")
        if (path == COMPLETE) == (chunks > 1)
    }


def update() -> None:
    """Compute the digests that the two files lack."""
    counters = np.arange(COUNT, dtype=np.uint32)
    for path in (COMPLETE, EXACT):
        known, rows = read(path), []
        for (name, dtype), (kernel, count, chunks) in promised(path).items():
            row = known.get((name, dtype))
            if row is None or row["inputs"] != count * chunks:
                here = total(kernel, counters[:count], chunks)
                row = {"function": name, "dtype": dtype, "inputs": count * chunks, "here": f"{here:016x}"}
                print(*row.values(), flush=True)
            rows.append(json.dumps(row))
        path.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cupy")
    parser.add_argument("--only", default="", help="functions, separated by commas")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--here", type=Path)
    parser.add_argument("--update", action="store_true", help="compute what the files of digests lack")
    options = parser.parse_args()
    if options.update:
        update()
        return 0
    known = {(row["function"], row["dtype"], row["inputs"]): int(row["here"], 16)
             for row in (json.loads(options.here.read_text()) if options.here else [])}  # fmt: skip
    counters, rows = np.arange(COUNT, dtype=np.uint32), []
    moved = xl.to_device(counters, backend=options.backend)
    for name, dtype, kernel, count, chunks in sweeps(options.only):
        here = known.get((name, dtype, count * chunks)) or total(kernel, counters[:count], chunks)
        there = here if options.backend == "numpy" else total(kernel, moved[:count], chunks, xl.to_host)
        row = {"function": name, "dtype": dtype, "inputs": count * chunks, "here": f"{here:016x}",
               "there": f"{there:016x}"}  # fmt: skip
        rows.append(row)
        print(*row.values(), "equal" if here == there else "DIFFERENT", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    wrong = [row for row in rows if row["here"] != row["there"]]
    print(f"{len(rows)} digests, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
