"""ARCHITECTURE.md names what exists: its paths, and the names of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
SPAN = re.compile(r"`([^`\n]+)`")

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="ARCHITECTURE.md is not beside the tests")


def spans() -> list[str]:
    return sorted(set(SPAN.findall(PAGE.read_text(encoding="utf-8"))))


def is_path(span: str) -> bool:
    return "/" in span or span.endswith((".py", ".c", ".md"))


def exists(path: str) -> bool:
    """Whether the page's path exists, below the package or the project."""
    named = [ROOT / "xferlib" / path, ROOT / path]
    if "/" not in path:  # a file by its name alone, as the page has it once its folder is clear
        named += (ROOT / "xferlib").rglob(path)
    return any(each.exists() for each in named)


def words_of_the_code() -> set[str]:
    files = [*(ROOT / "xferlib").rglob("*.py"), *(ROOT / "xferlib").rglob("*.c")]
    return {word for file in files for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}


def test_every_path_exists() -> None:
    assert not [span for span in spans() if is_path(span) and not exists(span)]


def test_every_name_stands_in_the_code() -> None:
    known = words_of_the_code()
    named = [span for span in spans() if not is_path(span) and not span.startswith("xferlib-") and " " not in span]
    assert not {word for span in named for word in re.findall(r"[A-Za-z_]\w+", span)} - known


def test_the_page_is_read() -> None:
    assert {"_runtime/threads.py", "Lease.hold", "in_flight.hold"} <= set(spans())
    count = len(PAGE.read_text(encoding="utf-8").splitlines())
    assert count <= 140, f"{count} lines are more than two pages: say it in a row that is there, or in a module's head"
    assert exists("errors.py")
    assert exists("tests/conftest.py")
    assert not exists("_transfer/no_such_file.py")
