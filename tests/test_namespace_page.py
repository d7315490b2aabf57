"""The table of guarantees names what exists."""

from __future__ import annotations

from tests.comparing import DTYPES, RULES, TABLE
from tools import make_tables


def test_the_table_names_functions_and_dtypes() -> None:
    for part in TABLE.values():
        assert set(part) <= set(RULES)
        assert all(set(entries) <= set(DTYPES) for entries in part.values())


def test_a_cell_says_what_the_table_says() -> None:
    cell = make_tables.cell
    assert cell({}) == "exact"
    assert cell({"float16": 2, "float32": 2, "float64": 2, "complex64": 3}) == "2 ulp (floats); 3 ulp (complex64)"
    assert cell({"int8": "n", "bool": "f: no such thing"}) == "own order (int8); refused (bool)"
    assert cell(dict.fromkeys(DTYPES, "n")) == "own order (all)"
