"""The tables and the picture of a sweep."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from xferlib._cli.bench.result import size_text
from xferlib._cli.bench.show import INK, heading, picture
from xferlib._cli.bench.sweep.figures import REGIMES, CaseFigures, summaries

_WORST, _NOTES = 20, 10
_ORDINARY = "  ordinary results only"
_COLOURS = ("#14906a", "#d1495b", "#c5862c", "#6f82b8")


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
    for way, reason in case.absent.items():
        print(f"  left out: {way} ({reason})")
    if case.problem:
        print(f"WRONG: {case.problem}")
    for regime, libraries in case.seconds.items():
        for library, ways in libraries.items():
            for way, seconds in ways.items():
                memory = " (pinned result)" if way in case.pinned.get(library, ()) else ""
                speed = f"{case.nbytes / seconds / 1e9:.2f} GB/s"
                print(f"  {regime:5} {library}, {way}{memory}: {time_text(seconds)}, {speed}")


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
    for colour, group in zip(_COLOURS, sorted({case.group for case in cases}), strict=False):
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
