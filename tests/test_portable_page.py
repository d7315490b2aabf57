"""The page of what is portable is true: each line of its tables, on each backend of this machine."""

from __future__ import annotations

import functools
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import NumpyVersion

import xferlib as xl
from xferlib import sim

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "portable.md"


@functools.cache
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def rows(table: str) -> list[list[str]]:
    found = re.search(rf"<!-- {table}\b.*?-->\n(.*?)<!-- end of {table} -->", text(), re.DOTALL)
    assert found is not None
    return [row.strip("| \n").split(" | ") for row in found[1].strip().splitlines()[2:]]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


SAME = [code for row in rows("same") for code in codes(row[1])]
MEMORY = [code for row in rows("memory")[:3] for code in codes(row[1])]
ERRORS = codes(rows("memory")[3][1])
DIFFERENT = [(codes(row[0])[0], codes(row[1])[0], row[2]) for row in (*rows("different"), *rows("numpy"))]
BACKENDS = [name for name, status in xl.available_backends().items() if status.is_available]
(SETUP,) = re.findall(r"^```python\n(.*?)^```", text(), re.MULTILINE | re.DOTALL)


def result(backend: str, code: str, *, strict: bool | None = False) -> Any:
    """Return the value of a line, after a statement those of x and i; or the type of its error."""
    names: dict[str, Any] = {}
    with (
        xl.use_backend(backend),
        sim.check(strict=strict) if backend == "sim" else nullcontext(),
        np.errstate(all="ignore"),
    ):
        exec(SETUP, names)
        try:
            program = compile(code, "<page>", "eval")
        except SyntaxError:
            program = compile(code, "<page>", "exec")
        try:
            found = eval(program, names)
        except Exception as error:
            return type(error)
        if found is None:  # a statement
            found = names["x"], names["i"]
        parts = found if isinstance(found, tuple) and found and xl.is_array(found[0]) else (found,)
        return [xl.to_host(part) if xl.is_array(part) else part for part in parts]


def differ(found: Any, expected: Any) -> bool:
    if isinstance(found, type) or isinstance(expected, type):
        return found is not expected
    return len(found) != len(expected) or any(map(is_other, found, expected))


def is_other(one: Any, two: Any) -> bool:
    if callable(one) or callable(two):
        return one is not two
    a, b = np.asarray(one), np.asarray(two)
    return (a.dtype, a.shape) != (b.dtype, b.shape) or not np.allclose(a, b, rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_the_same_is_the_same(backend: str) -> None:
    for code in (*SAME, *MEMORY):
        expected = result("numpy", code)
        assert not isinstance(expected, type), code
        assert not differ(result(backend, code), expected), code


def test_portable_mode_allows_what_is_the_same() -> None:
    for code in (*SAME, *MEMORY, *(write for _, write, _ in DIFFERENT)):
        assert not isinstance(result("sim", code, strict=True), type), code


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_to_be_written_gives_what_numpy_gave(backend: str) -> None:
    for instead, write, on in DIFFERENT:
        reference = "sim" if on.startswith("numpy") else "numpy"
        assert not differ(result(backend, write), result(reference, instead)), write


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_differs_differs(backend: str) -> None:
    """Lest the page forbids what is portable: where it names a backend, the line differs there."""
    for instead, write, on in DIFFERENT:
        before = re.search(r"before ([\d.]+)", on)
        if before is not None and NumpyVersion(np.__version__) >= f"{before[1]}.0":
            continue
        if "on a GPU" in on and xl.get_device(backend).kind == "cpu":
            continue
        if backend in on.lower().replace(",", "").split():
            assert differ(result(backend, instead), result("numpy", write)), instead


def test_portable_mode_refuses_what_differs_on_others() -> None:
    by_value = {"i // 0"}
    for instead, _, on in DIFFERENT:
        if not on.startswith("numpy") and instead not in by_value:
            assert isinstance(result("sim", instead, strict=True), type), instead


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_are_errors(backend: str) -> None:
    for code in ERRORS:
        assert isinstance(result(backend, code), type), code


def test_the_tables_are_read() -> None:
    assert len(SAME) > 80
    assert len(MEMORY) > 6
    assert len(DIFFERENT) > 25
