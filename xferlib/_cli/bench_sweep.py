"""The figures of a sweep: the best peer's time over xferlib's, in two regimes."""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xferlib._cli import bench, sweep_kernels, sweep_transfers
from xferlib._cli.arguments import output_file, parsed_size, picture_file, require, seconds
from xferlib._cli.bench import INK, heading, picture, size_text
from xferlib._cli.bench_transfer import machine
from xferlib._cli.sweep_trial import Case, Key, OtherWork, Peers, Timing, Trial, present_peers, reason
from xferlib.errors import ArgumentError, XferError, shown

REGIMES = {"hot": "the same call in a loop", "cold": "each call after at least 5 ms of other work"}
_BEHIND = 1 / 1.1


@dataclass(slots=True, kw_only=True)
class CaseFigures:
    """One case: median seconds of each way, by regime and library."""

    name: str
    """The argument of ``--case``."""
    kind: str
    text: str
    nbytes: int
    group: str
    """The colour in the picture."""
    seconds: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """By regime, library and way."""
    again: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """The same of a second run of the peers' ways, in turn with the first; empty unless that was asked for."""
    pinned: dict[str, list[str]] = field(default_factory=dict)
    """By library, the ways that return page-locked memory; the others return ordinary memory, or no new array."""
    absent: dict[str, str] = field(default_factory=dict)
    """Libraries and ways that are left out, with the reason."""
    problem: str = ""
    """The error, or how the bits differ; empty where they are right."""

    def has_peers(self, *, is_ordinary: bool = False) -> bool:
        """Whether xferlib and a peer were timed; with ordinary results, if wanted."""
        return bool(self.seconds) and all(
            self._timed(regime, is_own=is_own, is_ordinary=is_ordinary)
            for regime in self.seconds
            for is_own in (True, False)
        )

    def best(self, regime: str, *, is_ordinary: bool = False) -> tuple[str, float]:
        """The fastest way of a peer, named, and its seconds; among ordinary results only if wanted."""
        named = self._timed(regime, is_own=False, is_ordinary=is_ordinary)
        return min(named.items(), key=lambda each: each[1])

    def own(self, regime: str, *, is_ordinary: bool = False) -> float:
        """Seconds of xferlib's fastest way."""
        return min(self._timed(regime, is_own=True, is_ordinary=is_ordinary).values())

    def ratio(self, regime: str, *, is_ordinary: bool = False) -> float:
        """The best peer's time over xferlib's: above 1 xferlib is faster."""
        return self.best(regime, is_ordinary=is_ordinary)[1] / self.own(regime, is_ordinary=is_ordinary)

    def floor(self, regime: str, *, is_ordinary: bool = False) -> float | None:
        """The best peer's time over that of the same way's second run: 1, but for noise; None where it was not run."""
        way, seconds = self.best(regime, is_ordinary=is_ordinary)
        library, _, name = way.partition(", ")
        again = self.again.get(regime, {}).get(library, {}).get(name)
        return None if again is None else seconds / again

    def _timed(self, regime: str, *, is_own: bool, is_ordinary: bool) -> dict[str, float]:
        return {
            f"{library}, {way}": seconds
            for library, ways in self.seconds[regime].items()
            if library.startswith("xferlib") is is_own
            for way, seconds in ways.items()
            if not (is_ordinary and way in self.pinned.get(library, ()))
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The ratios of one kind and regime, summed up."""

    kind: str
    regime: str
    is_ordinary: bool
    """Only of results in ordinary memory, where a library can return page-locked memory as well."""
    count: int
    worst: float
    percentile_5: float
    percentile_25: float
    median: float
    behind: float
    """The share in which xferlib is behind by more than 10 %."""
    floor: float | None
    """The share in which the best peer's second run is behind its first by as much; None where none ran twice."""


def summaries(cases: list[CaseFigures]) -> Iterator[Summary]:
    """Sum up each kind and regime, with the best way of each side, and with ordinary results only."""
    for kind in dict.fromkeys(case.kind for case in cases):
        every = [case for case in cases if case.kind == kind and case.has_peers()]
        ordinary = [case for case in every if case.pinned and case.has_peers(is_ordinary=True)]
        for is_ordinary, chosen in ((False, every), (True, ordinary)):
            for regime in REGIMES if chosen else ():
                ratios = np.array([case.ratio(regime, is_ordinary=is_ordinary) for case in chosen])
                floors = [case.floor(regime, is_ordinary=is_ordinary) for case in chosen]
                known = [each for each in floors if each is not None]
                low, quarter, middle = (float(each) for each in np.percentile(ratios, (5, 25, 50)))
                yield Summary(
                    kind=kind, regime=regime, is_ordinary=is_ordinary, count=len(ratios), worst=float(ratios.min()),
                    percentile_5=low, percentile_25=quarter, median=middle, behind=float((ratios < _BEHIND).mean()),
                    floor=sum(each < _BEHIND for each in known) / len(known) if known else None,
                )  # fmt: skip


# The kinds of random cases: how each is drawn, and made ready.


class CaseKind(NamedTuple):
    """One kind of case."""

    draw: Callable[[int, int, tuple[str, ...], int | None], Case]
    """By seed, number, the backends to choose from, and the bytes of the largest."""
    make: Callable[[Any, Peers], Trial]


KINDS: dict[str, CaseKind] = {
    "transfer": CaseKind(sweep_transfers.draw_array_case, sweep_transfers.of_array),
    "tree": CaseKind(sweep_transfers.draw_tree_case, sweep_transfers.of_tree),
    "kernel": CaseKind(sweep_kernels.drawn, sweep_kernels.of_kernel),
    "reduction": CaseKind(sweep_kernels.draw_reduction, sweep_kernels.of_reduction),
}


def kind_of(case: Case) -> str:
    return case.name.partition(":")[0]


def named(name: str, backends: tuple[str, ...], most: int | None) -> Case:
    """The case of that name.

    Raises:
        ArgumentError: It is no name of a case.
    """
    kind, _, rest = name.partition(":")
    seed, _, number = rest.partition(":")
    if kind not in KINDS or not seed.isdecimal() or not number.isdecimal():
        raise ArgumentError(f"--case {shown(name)} names no case; a sweep prints them, such as transfer:7:12")
    return KINDS[kind].draw(int(seed), int(number), backends, most)


def turns(
    kinds: list[str], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> Iterator[tuple[str, int]]:
    """The kind and the number of each case: the kind with the least time so far, until all have had an even share."""
    spent_s, numbers = dict.fromkeys(kinds, 0.0), dict.fromkeys(kinds, 0)
    while True:
        kind = min(spent_s, key=spent_s.__getitem__)
        if spent_s[kind] >= seconds / len(spent_s):
            return
        begun_s = clock()
        yield kind, numbers[kind]
        spent_s[kind] += clock() - begun_s
        numbers[kind] += 1


# One case, checked and timed.

_COLD_PEERS, _NEAR = 3, 2


def measured(case: Case, peers: Peers, other_work: Callable[[float], None], *, is_twice: bool = False) -> CaseFigures:
    """Check xferlib's results, then time every way in both regimes; if wanted, the peers' ways twice."""
    kind = kind_of(case)
    found = CaseFigures(name=case.name, kind=kind, text=str(case), nbytes=case.nbytes, group=case.group)
    try:
        trial = KINDS[kind].make(case, peers)
        if trial.subject not in trial.ways:
            found.problem = f"xferlib refuses it: {trial.absent[trial.subject]}"
            return found
        for way in trial.ways[trial.subject].values():
            found.problem = found.problem or trial.problem(way.run())
    except (XferError, MemoryError, RuntimeError) as error:
        found.problem = reason(error)
        return found
    chance = np.random.default_rng(zlib.crc32(case.name.encode()))
    with np.errstate(all="ignore"):  # NumPy's float16 overflows where others' sums do not
        trial.try_peers()
        found.absent = trial.absent
        _time(trial, found, Timing(trial.change, other_work, chance), is_twice=is_twice)
    return found


def _time(trial: Trial, found: CaseFigures, timing: Timing, *, is_twice: bool) -> None:
    ways = {Key(library, name): way for library, each in trial.ways.items() for name, way in each.items()}
    runs = {key: way.run for key, way in ways.items()}
    pinned = {key for key, way in ways.items() if way.is_pinned}
    for key in sorted(pinned):
        found.pinned.setdefault(key.library, []).append(key.way)
    again = {_again(key): key for key in runs if is_twice and key.library != trial.subject}
    hot = timing.hot(runs | {twin: runs[key] for twin, key in again.items()}, pinned | {_again(key) for key in pinned})
    hot_again = {key: hot.pop(twin) for twin, key in again.items()}
    chosen = _in_contention({key: hot[key] for key in hot if key not in pinned}, trial.subject)
    chosen |= _in_contention({key: hot[key] for key in pinned}, trial.subject)
    again = {twin: key for twin, key in again.items() if key in chosen}
    cold = timing.cold({key: runs[key] for key in chosen} | {twin: runs[key] for twin, key in again.items()})
    cold_again = {key: cold.pop(twin) for twin, key in again.items()}
    found.seconds.update(hot=_grouped(hot), cold=_grouped(cold))
    if is_twice:
        found.again.update(hot=_grouped(hot_again), cold=_grouped(cold_again))


def _again(key: Key) -> Key:
    """The second run of a way."""
    return Key(key.library, f"{key.way}, again")


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


# The tables and the picture of a sweep.

_WORST, _NOTES = 20, 10
_ORDINARY = "  ordinary results only"
_SWEEP_COLOURS = ("#14906a", "#d1495b", "#c5862c", "#6f82b8")


def time_text(seconds: float) -> str:
    """Seconds as a person writes them."""
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def tables(cases: list[CaseFigures], machine: dict[str, Any], absent: dict[str, str]) -> None:
    """Print what each kind and regime came to, the worst cases of each, and those that went wrong."""
    heading(machine, absent)
    left_out = Counter(f"{way}: {reason}" for case in cases for way, reason in case.absent.items())
    for way, count in left_out.most_common(_NOTES):
        print(f"left out in {count} of {len(cases)} cases: {way}")
    print("\nThe best peer's time over xferlib's; below 1 xferlib is slower.")
    width = len(_ORDINARY) + 2
    heads = f"{'cases':>6}{'worst':>8}{'5 %':>8}{'25 %':>8}{'median':>8}"
    floor = ", a peer behind itself" if any(case.again for case in cases) else ""
    print(f"{'kind':{width}}{'regime':8}{heads}  behind by over 10 %{floor}")
    for each in summaries(cases):
        print(
            f"{_ORDINARY if each.is_ordinary else each.kind:{width}}{each.regime:8}{each.count:6}{each.worst:8.2f}"
            f"{each.percentile_5:8.2f}{each.percentile_25:8.2f}{each.median:8.2f}{each.behind * 100:10.1f} %"
            + ("" if each.floor is None else f"{each.floor * 100:21.1f} %")
        )
    kinds = list(dict.fromkeys(case.kind for case in cases))
    for kind in kinds:
        for regime, meaning in REGIMES.items():
            worst = sorted(_measured(cases, kind), key=lambda case: case.ratio(regime))[:_WORST]
            if worst:
                print(f"\nWorst of {kind}, {regime} ({meaning}):")
            for case in worst:
                print(f"  {_line(case, regime)}")
    for case in cases:
        if case.problem:
            print(f"\nWRONG: {case.problem}\n  --case {case.name}: {case.text}")


def _measured(cases: list[CaseFigures], kind: str) -> list[CaseFigures]:
    return [case for case in cases if case.kind == kind and case.has_peers()]


def _line(case: CaseFigures, regime: str) -> str:
    way, seconds = case.best(regime)
    return (
        f"{case.ratio(regime):.2f}  {time_text(case.own(regime))}, {way} {time_text(seconds)}: {case.text}"
        f"  --case {case.name}"
    )


def one_case(case: CaseFigures) -> None:
    """Print every way of one case."""
    print(f"{case.name}: {case.text}")
    for way, why in case.absent.items():
        print(f"  left out: {way} ({why})")
    if case.problem:
        print(f"WRONG: {case.problem}")
    for regime, libraries in case.seconds.items():
        for library, ways in libraries.items():
            for way, taken in ways.items():
                memory = " (pinned result)" if way in case.pinned.get(library, ()) else ""
                speed = f"{case.nbytes / taken / 1e9:.2f} GB/s"
                print(f"  {regime:5} {library}, {way}{memory}: {time_text(taken)}, {speed}")


def plot(cases: list[CaseFigures], machine: dict[str, Any], path: Path) -> None:
    """The ratio against the size, a panel for each kind and regime; a line at 1, and one 10 % below."""
    kinds = [kind for kind in dict.fromkeys(case.kind for case in cases) if _measured(cases, kind)]
    if not kinds:
        return
    title = f"{machine['device']}, {machine['cores']} cores, seed {machine['seed']}"
    with picture(path, title, (len(kinds), len(REGIMES)), 4.2, sharey=True) as axes:
        for row, kind in zip(axes, kinds, strict=True):
            for axis, regime in zip(row, REGIMES, strict=True):
                _panel(axis, _measured(cases, kind), regime)
                axis.set_title(f"{kind}, {regime}: {REGIMES[regime]}", fontsize=10)
            row[0].set_ylabel("best peer's time over xferlib's")
            row[0].legend(fontsize=8)


def _panel(axis: Any, cases: list[CaseFigures], regime: str) -> None:
    for colour, group in zip(_SWEEP_COLOURS, sorted({case.group for case in cases}), strict=False):
        points = [(max(case.nbytes, 1), case.ratio(regime)) for case in cases if case.group == group]
        axis.scatter(*zip(*points, strict=True), s=12, color=colour, label=group, alpha=0.7)
    axis.axhline(1, color=INK, linewidth=1)
    axis.axhline(1 / 1.1, color=INK, linewidth=0.8, linestyle="--")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda size, _: size_text(int(size)))
    axis.yaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}")
    axis.grid(visible=True, which="major", linewidth=0.3)
    axis.tick_params(axis="x", labelsize=8)  # so that sizes stand apart
    axis.set_xlabel("bytes")


# `xferlib bench sweep`: random transfers, trees, kernels and reductions beside the best ways of other libraries.


def main(argv: list[str] | None = None) -> int:
    """Measure for some seconds, print what it came to and the worst cases, write JSON and a picture."""
    options = parser().parse_args(argv)
    if options.plot is not None:
        require("matplotlib", "--plot", extra="bench")  # before anything is measured
    peers = present_peers(compiles=not options.without_compile)
    most = options.largest or (None if peers.is_gpu else 32 << 20)
    seed = options.seed if options.seed is not None else time.time_ns() // 1_000_000 % 1_000_000
    other_work = OtherWork()
    if options.case is not None:
        one_case(measured(named(options.case, peers.backends, most), peers, other_work, is_twice=options.twins))
        return 0
    found: list[CaseFigures] = []
    with bench.progress("measuring") as report:
        for kind, number in turns(options.kind or list(KINDS), options.seconds):
            case = KINDS[kind].draw(seed, number, peers.backends, most)
            report(f"{len(found)}: {case}")
            found.append(measured(case, peers, other_work, is_twice=options.twins))
    here = {**machine(peers.backends[0]), "seed": seed}
    tables(found, here, peers.absent)
    if options.json is not None:
        options.json.write_text(json.dumps(_figures(found, here, peers.absent), indent=1), encoding="utf-8")
    if options.plot is not None:
        plot(found, here, options.plot)
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
