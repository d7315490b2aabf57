"""`xferlib bench sweep`: random transfers and trees beside the other libraries, each at its best."""

from __future__ import annotations

import argparse
import itertools
import json
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._cli.bench import show as _show
from xferlib._cli.bench.sweep import cases, show, ways
from xferlib._cli.bench.sweep.figures import REGIMES, CaseFigures, summaries
from xferlib._cli.bench.sweep.timing import Key, OtherWork, Timing
from xferlib._cli.bench.transfer import machine
from xferlib._cli.demo.report import require_matplotlib
from xferlib._core.convert import copy_into
from xferlib.errors import ArgumentError, XferError, shown

Case = cases.TransferCase | cases.TreeCase
_KINDS: dict[str, Callable[..., Case]] = {"transfer": cases.transfer_case, "tree": cases.tree_case}
_COLD_PEERS, _NEAR = 3, 2


def measured(case: Case, libraries: list[ways.LibraryWays], other_work: Callable[[float], None]) -> CaseFigures:
    """Check xferlib's bits, then time every way in both regimes; each call has other data."""
    found = CaseFigures(
        name=case.name, kind=case.name.partition(":")[0], text=str(case), nbytes=case.nbytes, is_upload=case.is_upload
    )
    source, out = memory(case)
    try:
        made = {library.name: ways.made(library, case, source, out) for library in libraries}
        subject = libraries[0].name
        if not made[subject]:
            found.problem = "xferlib refuses it"
            return found
        for way in made[subject].values():
            found.problem = found.problem or _differs(case, source, out, way.run())
    except (XferError, MemoryError, RuntimeError) as error:
        found.problem = f"{type(error).__name__}: {error}"
        return found
    every = {Key(library, name): way.run for library, each in made.items() for name, way in each.items()}
    pinned = {key for key in every if made[key.library][key.way].is_pinned}
    for key in sorted(pinned):
        found.pinned.setdefault(key.library, []).append(key.way)
    timing = Timing(_changer(source), other_work, np.random.default_rng(zlib.crc32(case.name.encode())))
    hot = timing.hot(every, pinned)
    chosen = _in_contention({key: hot[key] for key in hot if key not in pinned}, subject)
    chosen |= _in_contention({key: hot[key] for key in pinned}, subject)
    cold = timing.cold({key: run for key, run in every.items() if key in chosen})
    found.seconds.update(hot=_grouped(hot), cold=_grouped(cold))
    return found


def memory(case: Case) -> tuple[Any, Any]:
    """The source, and of a download into an existing array its target."""
    if isinstance(case, cases.TreeCase):
        return case.host_arrays(), None
    if case.is_upload:
        return case.host_array(), None
    dtype = np.dtype(case.given)
    source = cases.laid_out(case.shape, dtype, "contiguous", np.random.default_rng(case.variant))
    return source, None if case.is_new else case.host_array(of_target=True)


def _differs(case: Case, source: Any, out: Any, result: Any) -> str:
    """Why xferlib's result is wrong; empty if it is right."""
    if isinstance(case, cases.TreeCase):
        pairs = zip(source, xl.tree.to_host(result) if case.is_upload else result, strict=True)
        return "" if all(np.array_equal(one, two) for one, two in pairs) else "the tree differs"
    expected = np.empty(case.shape, case.wanted)
    copy_into(expected, source)
    arrived = xl.to_host(result) if case.is_upload else result
    if not case.is_upload and out is not None and arrived is not out:
        return "the target was not returned"
    return "" if np.array_equal(arrived, expected) else "the bits differ"


def _changer(source: Any) -> Callable[[], None]:
    """A function that changes the data a little."""
    first = source[0] if isinstance(source, list) else source
    numbers, origin = itertools.cycle((0, 1)), (0,) * first.ndim

    def change() -> None:
        first[origin] = next(numbers)

    return change


def _grouped(seconds: dict[Key, float]) -> dict[str, dict[str, float]]:
    grouped: dict[str, dict[str, float]] = {}
    for (library, way), each in seconds.items():
        grouped.setdefault(library, {})[way] = each
    return grouped


def _in_contention(hot: dict[Key, float], subject: str) -> set[Key]:
    """The subject's ways, and of the others the three fastest that are near the fastest: no pause brings more back."""
    peers = sorted((key for key in hot if key.library != subject), key=hot.__getitem__)
    near = {key for key in peers[:_COLD_PEERS] if hot[key] <= _NEAR * hot[peers[0]]}
    return near | {key for key in hot if key.library == subject}


def drawn(kinds: list[str], seed: int, backends: tuple[str, ...], most: int | None) -> Iterator[Case]:
    """Cases without end, the kinds in turn."""
    limit = {} if most is None else {"most": most}
    for number in itertools.count():
        yield _KINDS[kinds[number % len(kinds)]](seed, number // len(kinds), backends, **limit)


def named(name: str, backends: tuple[str, ...], most: int | None) -> Case:
    """The case of that name.

    Raises:
        ArgumentError: It is no name of a case.
    """
    kind, _, rest = name.partition(":")
    seed, _, number = rest.partition(":")
    if kind not in _KINDS or not seed.isdecimal() or not number.isdecimal():
        raise ArgumentError(f"--case {shown(name)} names no case; a sweep prints them, such as transfer:7:12")
    return _KINDS[kind](int(seed), int(number), backends, **({} if most is None else {"most": most}))


def main(argv: list[str] | None = None) -> int:
    """Measure for some seconds, print what it came to and the worst cases, write JSON and a picture."""
    parser = argparse.ArgumentParser(prog="xferlib bench sweep", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the cases (default: from the clock)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to draw cases (default: 60)")
    parser.add_argument("--kind", choices=tuple(_KINDS), action="append", help="of cases (default: all)")
    parser.add_argument("--case", help="measure this one, as the list of the worst names it")
    parser.add_argument(
        "--largest", help="of a case, e.g. 64MiB (default: transfers 256MiB, trees 4GiB; 32MiB on a CPU)"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--plot", type=Path, help="draw the ratios against size to this file (needs matplotlib)")
    options = parser.parse_args(argv)
    if options.plot is not None:
        require_matplotlib()  # before anything is measured
    from xferlib._runtime import config

    peers, backends, absent = ways.present()
    is_gpu = xl.get_device(backends[0]).kind == "cuda"
    most = config.parse_nbytes(options.largest) if options.largest else None if is_gpu else 32 << 20
    seed = options.seed if options.seed is not None else time.time_ns() // 1_000_000 % 1_000_000
    own = {backend: ways.XferlibWays(backend) for backend in backends}
    other_work = OtherWork()
    if options.case is not None:
        case = named(options.case, backends, most)
        show.one_case(measured(case, [own[case.library], *peers], other_work))
        return 0
    begun_s = time.perf_counter()
    found: list[CaseFigures] = []
    with _show.progress("measuring") as report:
        for case in drawn(options.kind or list(_KINDS), seed, backends, most):
            if time.perf_counter() - begun_s > options.seconds:
                break
            report(f"{len(found)}: {case}")
            found.append(measured(case, [own[case.library], *peers], other_work))
    here = {**machine(backends[0]), "seed": seed}
    show.tables(found, here, absent)
    if options.json is not None:
        figures = {
            "machine": here, "absent": absent, "regimes": REGIMES,
            "summaries": [asdict(each) for each in summaries(found)], "cases": [asdict(each) for each in found],
        }  # fmt: skip
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    if options.plot is not None:
        show.plot(found, here, options.plot)
    return int(any(each.problem for each in found))
