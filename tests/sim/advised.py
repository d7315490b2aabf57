"""Random racy programs as text, and what becomes of them when the reports' advice is followed to the letter."""

from __future__ import annotations

import logging
import random
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

import xferlib as xl
from xferlib import sim

FILE = "program.py"
_ARRAYS, _STREAMS = 3, 3
SIZES = (1, 64, 1 << 14, 1 << 15)
"""Of float64: 8 B, 512 B, 128 KiB, 256 KiB."""
_MOST_FIXES = 60
SCHEDULES = [("lazy", 0), ("lifo", 0), ("random", 1), ("random", 2), ("random", 3)]


def draw(seed: int) -> tuple[list[str], int]:
    """The lines of a program, and how many elements its arrays have."""
    chance = random.Random(seed)
    n = chance.choice(SIZES)
    lines = [f"s{i} = xl.Stream(non_blocking={chance.random() < 0.8})" for i in range(_STREAMS)]
    for i in range(_ARRAYS):
        lines.append(f"d{i} = xl.to_device(np.full(n, {i + 1}.0))")
        is_pinned = chance.random() < 0.5
        lines.append(
            f"h{i} = xl.pinned_array(np.full(n, {i + 10}.0))" if is_pinned else f"h{i} = np.full(n, {i + 10}.0)"
        )
    lines.append("xl.synchronize()")
    transfers: list[str] = []
    for _ in range(chance.randint(4, 12)):
        lines.append(f"{_statement(chance, transfers, len(lines))}  # {len(lines)}")
    return lines, n


def _statement(chance: random.Random, transfers: list[str], number: int) -> str:
    d, e = (f"d{chance.randrange(_ARRAYS)}" for _ in range(2))
    h = f"h{chance.randrange(_ARRAYS)}"
    s, r = (f"s{chance.randrange(_STREAMS)}" for _ in range(2))
    stream = chance.choice((f", stream={s}", ""))
    on = chance.choice((f"with {s}: ", ""))
    kinds = {
        "in place": f"{on}{d} *= {chance.choice((2.0, 3.0, 0.5))}",
        "two": f"{on}{d} += {e}",
        "up": f"xl.to_device({h}, out={d}{stream})",
        "down": f"xl.to_host({d}, out={h}{stream})",
        "up later": f"t{number} = xl.to_device_async({h}, out={d}{stream})",
        "down later": f"t{number} = xl.to_host_async({d}, out={h}{stream})",
        "wait": f"{s}.wait({r})",
        "synchronize": f"{s}.synchronize()",
        "write": f"sim.writes({h}); {h}[:] = {number + 100}.0",
        "silent write": f"{h}[:] = {number + 100}.0",
        "read": f"sim.reads({h}); seen[{number}] = {h}.copy()",
    }
    weights = {"in place": 3, "two": 3, "up": 2, "down": 1, "up later": 4, "down later": 4, "wait": 1,
               "synchronize": 1, "write": 1, "silent write": 1, "read": 2}  # fmt: skip
    if transfers:
        t = chance.choice(transfers)
        kinds |= {"result": f"{t}.result()", "stream waits": f"{s}.wait({t})"}
        weights |= {"result": 1, "stream waits": 1}
    kind = chance.choices(list(kinds), [weights[each] for each in kinds])[0]
    if kind in ("up later", "down later"):
        transfers.append(f"t{number}")
    return kinds[kind]


@dataclass
class Outcome:
    """Races that a run found, and values that it computed."""

    races: list[sim.Race]
    values: list[Any]


def run(lines: list[str], n: int, mode: str, schedule: str, seed: int = 0) -> Outcome:
    seen: dict[int, Any] = {}
    names: dict[str, Any] = {"xl": xl, "sim": sim, "np": np, "n": n, "seen": seen}
    logger = logging.getLogger("xferlib.sim")
    before, logger.disabled = logger.disabled, True
    try:
        with xl.use_backend("sim"), sim.check(mode, schedule=schedule, seed=seed) as checked:
            exec(compile("\n".join(lines), FILE, "exec"), names)
            xl.synchronize()
            for name in list(names):
                if re.fullmatch(r"t\d+", name):
                    names[name].result()
            xl.synchronize()
            found = [xl.to_host(names[f"d{i}"]) for i in range(_ARRAYS)]
            found += [names[f"h{i}"].copy() for i in range(_ARRAYS)]
            races = checked.races
        return Outcome(races, [*found, *(seen[each] for each in sorted(seen))])
    finally:
        logger.disabled = before


def synchronous(lines: list[str], n: int) -> list[Any]:
    """Its values when every call is complete on return."""
    return run(lines, n, "off", "eager").values


# --- following the advice


_LINE = rf"{re.escape(FILE)}:(\d+)"


def followed(lines: list[str], race: sim.Race) -> list[str]:
    """The program with the one call that a report advises, put where it says."""
    advice, _, where = race.remedy.partition(", where ")
    found = re.fullmatch(rf"(.+) (before|after) {_LINE}(?: and before the write)?", advice)
    assert found is not None, f"advice that cannot be followed to the letter: {race.remedy}"
    call, side, line = found[1], found[2], int(found[3])
    names = dict(re.findall(r"\b([abt]|s\d) is (.+?)(?= and (?:[abt]|s\d) is |$)", where))
    call = re.sub(r"\b([abt])\b", lambda name: _named(lines, names[name[1]]), call) if names else call
    call = call.replace("xferlib.", "xl.")
    at = line - 1 if side == "before" else line
    return [*lines[:at], f"{call}  # advice {len(lines)}", *lines[at:]]


def _fault(race: sim.Race, lines: list[str]) -> tuple[object, ...]:
    """A report by the texts of its lines, which stay what they are when others come between."""
    text = [lines[each.site.line - 1] if each.site.file == FILE else "" for each in (race.first, race.second)]
    is_found_later = race.hazard in (sim.Hazard.SOURCE_CHANGED, sim.Hazard.TARGET_CHANGED)
    return race.hazard, race.first.what, race.second.what, text[0], "" if is_found_later else text[1]


def _named(lines: list[str], what: str) -> str:
    """A stream or a transfer as the program calls it."""
    made = re.fullmatch(rf"(?:stream \d+ \(made at|the transfer of) {_LINE}\)?", what)
    assert made is not None, what
    return lines[int(made[1]) - 1].partition(" = ")[0]


@dataclass
class Study:
    """The study of one program."""

    lines: list[str]
    fixes: int = 0
    fault: str = ""


def study(seed: int) -> Study:
    """Follow every report's advice until none is left; then every schedule must give the synchronous values."""
    lines, n = draw(seed)
    expected = synchronous(lines, n)
    found = Study(lines)
    while races := run(found.lines, n, "log", "lazy").races:
        was = _fault(races[0], found.lines)
        found.lines = followed(found.lines, races[0])
        found.fixes += 1
        if was in [_fault(race, found.lines) for race in run(found.lines, n, "log", "lazy").races]:
            found.fault = f"the report stays: {races[0]}"
            return found
        if found.fixes > _MOST_FIXES:
            found.fault = "advice without end"
            return found
    for schedule, number in SCHEDULES:
        values = run(found.lines, n, "off", schedule, number).values
        if not all(np.array_equal(a, b) for a, b in zip(values, expected, strict=True)):
            found.fault = f"no report is left, but {schedule} {number} gives other values"
            return found
    return found
