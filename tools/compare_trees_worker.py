"""Measure cases of one tree's xferlib for `compare_trees`: questions on standard input, answers on standard output.

It uses only names that every version of xferlib has. Data differs from call to call: uploads read parts of a larger
array in turn.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import xferlib as xl

KIB, MIB = 1 << 10, 1 << 20
SMALL = (4, 400, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 2 * MIB)
LARGE = (8 * MIB, 32 * MIB, 128 * MIB)
BLOCK_SECONDS = 0.02
PARTS = 4
Call = Callable[[], Any]


def name_of(nbytes: int) -> str:
    return next(f"{nbytes // unit} {text}" for unit, text in ((MIB, "MiB"), (KIB, "KiB"), (1, "B")) if nbytes >= unit)


class Cases:
    """The cases of one backend, by name: each makes a call that is measured."""

    def __init__(self, backend: str) -> None:
        self.device = xl.get_device(backend)
        self.makers: dict[str, Callable[[], Call]] = {}
        b = backend
        for nbytes in SMALL + LARGE:
            size = name_of(nbytes)
            self.makers[f"{b} up {size}"] = partial(self.up, nbytes)
            self.makers[f"{b} up device= {size}"] = partial(self.up, nbytes, device=self.device)
            self.makers[f"{b} up out= {size}"] = partial(self.up_into, nbytes)
            self.makers[f"{b} down {size}"] = partial(self.down, nbytes)
            self.makers[f"{b} down out= {size}"] = partial(self.down_into, nbytes)
        for nbytes in (64 * KIB, MIB, 32 * MIB):
            size = name_of(nbytes)
            self.makers[f"{b} layout rows {size}"] = partial(self.strided, nbytes, "rows")
            self.makers[f"{b} layout transposed {size}"] = partial(self.strided, nbytes, "transposed")
            self.makers[f"{b} layout narrowed {size}"] = partial(self.strided, nbytes, "narrowed")
            self.makers[f"{b} pinned up {size}"] = partial(self.pinned_up, nbytes)
            self.makers[f"{b} pinned down {size}"] = partial(self.pinned_down, nbytes)
        for nbytes in (4 * KIB, MIB, 128 * MIB):
            size = name_of(nbytes)
            self.makers[f"{b} kernel elementwise {size}"] = partial(self.elementwise, nbytes)
            self.makers[f"{b} kernel sum {size}"] = partial(self.reduction, nbytes, None)
            self.makers[f"{b} kernel rows {size}"] = partial(self.reduction, nbytes, 1)
        for nbytes in (64 * KIB, MIB, 16 * MIB):
            size = name_of(nbytes)
            self.makers[f"{b} overlap list {size}"] = partial(self.prefetched, nbytes, list)
            self.makers[f"{b} overlap generator {size}"] = partial(self.prefetched, nbytes, iter)
            self.makers[f"{b} overlap pinned {size}"] = partial(self.prefetched, nbytes, self.pinned)
        self.makers[f"{b} overlap stream_map 512 MiB"] = self.mapped
        self.makers[f"{b} tree 160 leaves 40 MiB"] = self.tree

    def parts(self, nbytes: int) -> Iterator[np.ndarray]:
        """Arrays of ``nbytes``, float32, of other values in turn."""
        whole = np.random.default_rng(0).random(PARTS * (nbytes // 4), np.float32)
        return itertools.cycle(np.split(whole, PARTS))

    def up(self, nbytes: int, **options: Any) -> Call:
        parts, options = self.parts(nbytes), options or {"device": self.device.backend}
        return lambda: xl.to_device(next(parts), **options)

    def up_into(self, nbytes: int) -> Call:
        parts, out = self.parts(nbytes), xl.empty((nbytes // 4,), np.float32, device=self.device)
        return lambda: xl.to_device(next(parts), out=out)

    def sent(self, nbytes: int) -> Any:
        return xl.to_device(next(self.parts(nbytes)), device=self.device)

    def down(self, nbytes: int) -> Call:
        x = self.sent(nbytes)
        return lambda: xl.to_host(x)

    def down_into(self, nbytes: int) -> Call:
        x, out = self.sent(nbytes), np.empty(nbytes // 4, np.float32)
        return lambda: xl.to_host(x, out=out)

    def strided(self, nbytes: int, layout: str) -> Call:
        base = np.random.default_rng(0).random((2 * nbytes // 256, 64), np.float32)
        if layout == "narrowed":
            narrow = base[: len(base) // 2].astype(np.float64)
            return lambda: xl.to_device(narrow, device=self.device, dtype=np.float32)
        x = base[::2] if layout == "rows" else base[: len(base) // 2].T
        return lambda: xl.to_device(x, device=self.device)

    def pinned(self, batches: list[np.ndarray]) -> list[Any]:
        return [xl.pinned_array(batch, backend=self.device.backend) for batch in batches]

    def pinned_up(self, nbytes: int) -> Call:
        (x,), out = self.pinned([next(self.parts(nbytes))]), xl.empty((nbytes // 4,), np.float32, device=self.device)
        return lambda: xl.to_device(x, out=out)

    def pinned_down(self, nbytes: int) -> Call:
        x, (out,) = self.sent(nbytes), self.pinned([np.empty(nbytes // 4, np.float32)])
        return lambda: xl.to_host(x, out=out)

    def elementwise(self, nbytes: int) -> Call:
        kernel = xl.elementwise("T x, T y, T a", "T z", "z = a * x + y", name="axpy")
        x, y = self.sent(nbytes), self.sent(nbytes)
        out = xl.empty((nbytes // 4,), np.float32, device=self.device)
        return lambda: kernel(x, y, np.float32(2), out)

    def reduction(self, nbytes: int, axis: int | None) -> Call:
        kernel = xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + b", post_map_expr="y = a", identity="0")
        x = xl.to_device(next(self.parts(nbytes)).reshape(-1, 256 if nbytes > 4 * KIB else 32), device=self.device)
        return lambda: kernel(x, axis=axis)

    def prefetched(self, nbytes: int, made: Callable[[list[np.ndarray]], Any]) -> Call:
        parts = self.parts(nbytes)
        batches = [next(parts) for _ in range(max(8, min(64, 64 * MIB // nbytes)))]
        kept = made(batches) if made is not iter else batches
        kernel = xl.elementwise("T x", "T z", "z = x * x", name="square")

        def loop() -> None:
            for batch in xl.prefetch(iter(kept) if made is iter else kept, device=self.device):
                kernel(batch)
            xl.synchronize(self.device)

        return loop

    def mapped(self) -> Call:
        x = np.random.default_rng(0).random((512, 256 * KIB), np.float32)
        out = np.empty_like(x)
        kernel = xl.elementwise("T x", "T z", "z = x * x", name="square")
        return lambda: xl.stream_map(kernel, x, chunk_rows=16, out=out, devices=[self.device])

    def tree(self) -> Call:
        parts = self.parts(256 * KIB)
        leaves = [next(parts) for _ in range(160)]
        return lambda: xl.tree.to_device(leaves, device=self.device)


class Measurement:
    """One case: its call, and how often it is made between two looks at the clock."""

    def __init__(self, cases: Cases, name: str) -> None:
        self.call, self.device, self.times = cases.makers[name](), cases.device, 1
        for _ in range(3):
            self.seconds()
        self.times = max(1, min(2000, int(BLOCK_SECONDS / max(self.seconds(), 1e-9))))

    def seconds(self) -> float:
        """Seconds of a call, with the wait for the device at the end of the block."""
        begun = time.perf_counter()
        for _ in range(self.times):
            self.call()
        xl.synchronize(self.device)
        return (time.perf_counter() - begun) / self.times


def main() -> None:
    cases: Cases | None = None
    open_ones: dict[str, Measurement] = {}
    for line in sys.stdin:
        question: dict[str, Any] = json.loads(line)
        answer: Any = None
        if "cases" in question:
            cases = Cases(question["cases"])
            answer = list(cases.makers)
        elif "begin" in question:
            assert cases is not None
            try:
                open_ones[question["begin"]] = Measurement(cases, question["begin"])
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
        elif "measure" in question:
            answer = open_ones[question["measure"]].seconds()
        else:
            open_ones.pop(question["end"], None)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
