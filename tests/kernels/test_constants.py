"""Constants of functions are those that the tools compute with mpmath."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.sizes import IS_LONG

mpmath = pytest.importorskip("mpmath")

from tools import float64_constants, kernel_polynomials  # noqa: E402 - they need mpmath

TOOLS = kernel_polynomials.TOOLS


@pytest.mark.parametrize("name", TOOLS)
def test_the_constants_are_those_of_the_tool(name: str) -> None:
    """Computed anew in a long run, and where a file or one of its tools has changed since they wrote it."""
    tool = importlib.import_module(f"tools.{name}")
    files = [float64_constants.KERNELS / f"{each}.txt" for each in getattr(tool, "FILES", ())] or [tool.FILE]
    if IS_LONG or not all(map(kernel_polynomials.is_recorded, files)):
        assert tool.main(["--check"]) == 0, f"run python -m tools.{name}"


@pytest.mark.parametrize(
    ("name", "its_tools"),
    [
        ("native_functions.c", {"kernel_polynomials"}),
        ("cuda_functions.cu", {"cuda_tables", "kernel_polynomials"}),
        ("float64_special.txt", {"float64_constants", "kernel_polynomials"}),
    ],
)
def test_changed_constants_or_tools_of_theirs_are_not_as_recorded(
    name: str, its_tools: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (float64_constants.KERNELS / name, *(kernel_polynomials.FOLDER / f"{each}.py" for each in TOOLS)):
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    file = tmp_path / name
    monkeypatch.setattr(kernel_polynomials, "FOLDER", tmp_path)
    monkeypatch.setattr(kernel_polynomials, "RECORD", tmp_path / "constants.json")
    kernel_polynomials.RECORD.write_text("{}", encoding="utf-8")
    assert not kernel_polynomials.is_recorded(file)
    for tool in TOOLS:
        kernel_polynomials.record(file)
        assert kernel_polynomials.is_recorded(file)
        with (tmp_path / f"{tool}.py").open("a", encoding="utf-8") as text:
            text.write("# changed\n")
        assert kernel_polynomials.is_recorded(file) == (tool not in its_tools)
    kernel_polynomials.record(file)
    head, begin, rest = file.read_text(encoding="utf-8").rpartition(kernel_polynomials.BEGIN)
    if begin:
        file.write_text(f"// other code\n{head}{begin}{rest}", encoding="utf-8")
        assert kernel_polynomials.is_recorded(file)
    file.write_text(f"{head}{begin}{rest.replace('1', '2', 1)}", encoding="utf-8")
    assert not kernel_polynomials.is_recorded(file)
