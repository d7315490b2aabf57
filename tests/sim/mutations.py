"""The mutation study: delete each synchronisation of each program in turn, and count the methods that notice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from tests.sim.programs import Array, Program
from tests.sizes import IS_LONG
from xferlib import sim

SCHEDULES = [("lazy", 0), ("lifo", 0), *(("random", seed) for seed in range(1, 21 if IS_LONG else 5))]


@dataclass
class Deletion:
    """One synchronisation deleted."""

    label: str
    changes_the_result: bool
    is_found_by_running: bool
    """Run as a CPU fallback runs it, operation by operation: is the result wrong?"""
    is_reported: bool


@dataclass
class Study:
    """One program's figures."""

    labels: list[str]
    alarms: int
    """Faults reported in the program as it stands."""
    wrong: int
    """Schedules under which the program as it stands gives another result."""
    deletions: list[Deletion] = field(default_factory=list)


class Without:
    """Makes every synchronisation but one, for arrays of ``n`` elements."""

    def __init__(self, deleted: str | None = None, n: int = 1 << 14) -> None:
        self.deleted = deleted
        self.n = n  # float64: 128 KiB, above the size that is copied before the call returns
        self.labels: dict[str, None] = {}

    def __call__(self, label: str, call: Callable[[], Any]) -> None:
        self.labels[label] = None
        if label != self.deleted:
            call()


def run(program: Program, deleted: str | None, schedule: str, seed: int = 0) -> list[Array]:
    with xl.use_backend("sim"), sim.check("off", schedule=schedule, seed=seed):
        return program(Without(deleted))


def is_reported(program: Program, deleted: str | None) -> bool:
    """Whether the detector reports a fault in one run of the usual kind."""
    logger = logging.getLogger("xferlib.sim")
    before, logger.disabled = logger.disabled, True
    try:
        with xl.use_backend("sim"), sim.check("log", schedule="lazy") as checked:
            program(Without(deleted))
        return bool(checked.races)
    finally:
        logger.disabled = before


def same(one: list[Array], two: list[Array]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def study(program: Program) -> Study:
    sync = Without()
    with xl.use_backend("sim"), sim.check("off", schedule="eager"):
        expected = program(sync)
    wrong = sum(not same(run(program, None, *each), expected) for each in SCHEDULES)
    found = Study(list(sync.labels), int(is_reported(program, None)), wrong)
    for label in sync.labels:
        changes = any(not same(run(program, label, *each), expected) for each in SCHEDULES)
        eager = not same(run(program, label, "eager"), expected)
        found.deletions.append(Deletion(label, changes, eager, is_reported(program, label)))
    return found


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "simulator.md"
BEGIN, END = "<!-- mutations: begin -->\n", "<!-- mutations: end -->\n"


def table(studies: dict[str, Study]) -> str:
    """The study as a table of Markdown."""
    lines = [
        "| program | waits | deletions that change the result | found as a CPU runs it | reported | false alarms |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    totals = np.zeros(5, int)
    for name, found in studies.items():
        changing = [each for each in found.deletions if each.changes_the_result]
        row = np.array(
            [
                len(found.deletions),
                len(changing),
                sum(each.is_found_by_running for each in changing),
                sum(each.is_reported for each in changing),
                found.alarms,
            ]
        )
        totals += row
        lines.append(f"| {name} | " + " | ".join(map(str, row)) + " |")
    lines.append("| **all** | " + " | ".join(f"**{number}**" for number in totals) + " |")
    return "\n".join(lines) + "\n"


def written() -> str:
    """The table that the page shows."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Write the table into the page."""
    from tests.sim.programs import PROGRAMS

    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    fresh = table({name: study(program) for name, program in PROGRAMS.items()})
    PAGE.write_text(before + BEGIN + fresh + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
