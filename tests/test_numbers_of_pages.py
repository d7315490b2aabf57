"""Numbers of pages that a constant of the code decides: `8 MiB<!-- CHUNK_NBYTES -->` must be the value of that name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pytest

ROOT = Path(__file__).parents[1]
MARKED = re.compile(r"([\d.]+)\s+(\w+)<!-- ([A-Z_]+(?: \* [A-Z_]+)*) -->")
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "ms": 1_000_000}
"""In bytes and nanoseconds; other words are those of what is counted."""
PAGES = [path for path in [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))] if path.is_file()]
CONSTANT = re.compile(r"^([A-Z_][A-Z_0-9, ]*) = (.+)$", re.MULTILINE)
C_CONSTANT = re.compile(r"(?:#define |[{,]\s+)([A-Z_]+)(?: =)? (\(?\d+(?: << \d+)?\)?)(?=[ ,\n])")


def values(text: str, known: Mapping[str, int | float] = MappingProxyType({})) -> list[int | float]:
    """The value of an expression of numbers and known names, or of each in a row of them; none of anything else."""
    try:
        found = eval(text, {"__builtins__": {}}, dict(known))
    except Exception:
        return []
    return [each for each in (found if isinstance(found, tuple) else (found,)) if isinstance(each, (int, float))]


@cache
def constants() -> dict[str, set[int | float]]:
    """The values of each constant in capitals, in Python's modules and in C."""
    found: dict[str, set[int | float]] = defaultdict(set)
    lines = [each for path in (ROOT / "xferlib").rglob("*.py") for each in CONSTANT.findall(path.read_text())]
    known: dict[str, int | float] = {}
    for _ in range(2):  # some follow from others
        for names, text in lines:
            for name, value in zip(re.findall(r"\w+", names), values(text, known), strict=False):
                found[name].add(value)
        known = {name: next(iter(each)) for name, each in found.items() if len(each) == 1}
    for path in (ROOT / "xferlib").rglob("*.[ch]"):
        for name, value in C_CONSTANT.findall(path.read_text()):
            found[name] |= set(values(value))
    return found


def meant(expression: str) -> int | float:
    product: int | float = 1
    for name in expression.split(" * "):
        (value,) = constants()[name]  # one constant of that name, with one value
        product *= value
    return product


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_number_with_a_constants_name_is_its_value(page: Path) -> None:
    for number, unit, expression in MARKED.findall(page.read_text()):
        assert float(number) * UNITS.get(unit, 1) == meant(expression), f"{number} {unit} is {expression}"


def test_each_name_in_a_comment_is_read() -> None:
    for page in PAGES:
        text = page.read_text()
        assert len(re.findall(r"<!-- [A-Z_* ]+ -->", text)) == len(MARKED.findall(text)), page.name
    assert len(MARKED.findall((ROOT / "docs" / "explanation" / "staging.md").read_text())) > 15


def test_thresholds_that_c_has_too_have_one_value() -> None:
    text = (ROOT / "xferlib" / "_core" / "thresholds.py").read_text()
    names = re.findall(r"^([A-Z][A-Z_]+) = ", text, re.MULTILINE)
    assert len(names) > 20
    assert [name for name in (*names, "MOST_BUFFERS") if len(constants()[name]) != 1] == []


def test_constants_of_both_languages_are_known() -> None:
    assert constants()["LARGE_NBYTES"] == {8 << 20}
    assert constants()["ENQUEUED_MOST"] == {64 << 10}
    assert constants()["LOOPED_FROM"] == {384 << 10}
    assert constants()["SMALL_NBYTES"] == {64 << 10}
    assert constants()["PIECE_LEAST"] == {64 << 10}
    assert constants()["_MOST_RECYCLED"] == {1 << 20}
    assert constants()["DRIVER_MOST"] == {1 << 20}
