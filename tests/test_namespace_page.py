"""The table of guarantees names what exists, and the reference page shows it as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.comparing import (
    DTYPES,
    RULES,
    TABLE,
)
from tools import make_namespace_page

ROOT = Path(__file__).parents[1]


def test_the_table_names_functions_and_dtypes() -> None:
    for part in TABLE.values():
        assert set(part) <= set(RULES)
        assert all(set(entries) <= set(DTYPES) for entries in part.values())


@pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the documentation is not beside the tests")
def test_the_reference_page_has_the_tables() -> None:
    script = ROOT / "tools" / "make_namespace_page.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_cell_says_what_the_table_says() -> None:
    cell = make_namespace_page.cell
    assert cell({}) == "exact"
    assert cell({"float16": 2, "float32": 2, "float64": 2, "complex64": 3}) == "2 ulp (floats); 3 ulp (complex64)"
    assert cell({"int8": "n", "bool": "f: no such thing"}) == "own order (int8); refused (bool)"
    assert cell(dict.fromkeys(DTYPES, "n")) == "own order (all)"
