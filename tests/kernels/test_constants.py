"""Constants of functions are those that the tools compute with mpmath."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.sizes import IS_LONG

mpmath = pytest.importorskip("mpmath")

from tools import float64_constants, kernel_polynomials  # noqa: E402 - they need mpmath


@pytest.mark.parametrize("name", kernel_polynomials.TOOLS)
def test_the_constants_are_those_of_the_tool(name: str) -> None:
    """Computed anew in a long run, and where a file or a tool has changed since a tool wrote the file."""
    tool = importlib.import_module(f"tools.{name}")
    files = [float64_constants.KERNELS / f"{each}.txt" for each in getattr(tool, "FILES", ())] or [tool.FILE]
    if IS_LONG or not all(map(kernel_polynomials.is_recorded, files)):
        arguments = (tool.FILES, ["--check"]) if hasattr(tool, "FILES") else (["--check"],)
        assert tool.main(*arguments) == 0, f"run python -m tools.{name}"


@pytest.mark.parametrize("is_tool", [True, False])
def test_a_changed_constant_or_tool_is_not_as_recorded(
    is_tool: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / kernel_polynomials.FILE.name
    copy.write_text(kernel_polynomials.FILE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(kernel_polynomials, "RECORD", tmp_path / "constants.json")
    kernel_polynomials.RECORD.write_text("{}", encoding="utf-8")
    assert not kernel_polynomials.is_recorded(copy)
    kernel_polynomials.record(copy)
    assert kernel_polynomials.is_recorded(copy)
    if is_tool:
        monkeypatch.setattr(kernel_polynomials, "TOOLS", kernel_polynomials.TOOLS[:-1])
    else:
        head, begin, rest = copy.read_text(encoding="utf-8").partition(kernel_polynomials.BEGIN)
        copy.write_text(f"{head}// other code\n{begin}{rest}", encoding="utf-8")
        assert kernel_polynomials.is_recorded(copy)
        copy.write_text(f"{head}{begin}{rest.replace('0x1', '0x2', 1)}", encoding="utf-8")
    assert not kernel_polynomials.is_recorded(copy)
