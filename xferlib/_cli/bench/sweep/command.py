"""`xferlib bench sweep`: random transfers, trees, kernels and reductions beside the best ways of other libraries."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from dataclasses import asdict
from typing import Any

from xferlib._cli.arguments import output_file, parsed_size, picture_file, require, seconds
from xferlib._cli.bench import show as _show
from xferlib._cli.bench.sweep import show
from xferlib._cli.bench.sweep.figures import REGIMES, CaseFigures, summaries
from xferlib._cli.bench.sweep.kinds import KINDS, named, turns
from xferlib._cli.bench.sweep.measurement import measured
from xferlib._cli.bench.sweep.peers import present
from xferlib._cli.bench.sweep.timing import OtherWork
from xferlib._cli.bench.transfer import machine


def main(argv: list[str] | None = None) -> int:
    """Measure for some seconds, print what it came to and the worst cases, write JSON and a picture."""
    options = parser().parse_args(argv)
    if options.plot is not None:
        require("matplotlib", "--plot", extra="bench")  # before anything is measured
    peers = present(compiles=not options.without_compile)
    most = options.largest or (None if peers.is_gpu else 32 << 20)
    seed = options.seed if options.seed is not None else time.time_ns() // 1_000_000 % 1_000_000
    other_work = OtherWork()
    if options.case is not None:
        show.one_case(measured(named(options.case, peers.backends, most), peers, other_work, is_twice=options.twins))
        return 0
    found: list[CaseFigures] = []
    with _show.progress("measuring") as report:
        for kind, number in turns(options.kind or list(KINDS), options.seconds):
            case = KINDS[kind].draw(seed, number, peers.backends, most)
            report(f"{len(found)}: {case}")
            found.append(measured(case, peers, other_work, is_twice=options.twins))
    here = {**machine(peers.backends[0]), "seed": seed}
    show.tables(found, here, peers.absent)
    if options.json is not None:
        options.json.write_text(json.dumps(_figures(found, here, peers.absent), indent=1), encoding="utf-8")
    if options.plot is not None:
        show.plot(found, here, options.plot)
    return int(any(each.problem for each in found))


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(prog="xferlib bench sweep", description=__doc__)
    made.add_argument("--seed", type=int, help="of the cases (default: from the clock)")
    made.add_argument("--seconds", type=seconds, default=60.0, help="how long to draw cases (default: 60)")
    made.add_argument(
        "--kind",
        choices=tuple(KINDS),
        metavar="KIND",
        action="append",
        help=f"of cases, which share the seconds evenly: {', '.join(KINDS)} (default: all)",
    )
    made.add_argument("--case", help="measure this one, as the list of the worst names it")
    made.add_argument(
        "--largest",
        type=parsed_size,
        help="array or tree, e.g. 64MiB (default: transfers 256MiB, trees 4GiB, others 2**26 elements; 32MiB on a CPU)",
    )
    made.add_argument(
        "--without-compile", action="store_true", help="leave out torch.compile, which takes seconds for each kernel"
    )
    made.add_argument(
        "--twins",
        action="store_true",
        help="time the peers' ways twice, and print how often the best is behind itself: what noise alone comes to",
    )
    made.add_argument("--json", type=output_file, metavar="FILE", help="write the figures to this file")
    made.add_argument(
        "--plot", type=picture_file, metavar="FILE", help="draw the ratios against size (needs matplotlib)"
    )
    return made


def _figures(found: list[CaseFigures], here: dict[str, Any], absent: dict[str, str]) -> dict[str, Any]:
    return {
        "machine": here,
        "absent": {"libraries": absent, "cases": Counter(way for each in found for way in each.absent)},
        "regimes": REGIMES,
        "summaries": [asdict(each) for each in summaries(found)],
        "cases": [asdict(each) for each in found],
    }
