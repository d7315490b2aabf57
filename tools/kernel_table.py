"""Write the table of guarantees into docs/reference/kernels.md, from `xferlib.kernels.functions`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from xferlib.kernels.functions import ALIASES, TABLE, guarantee, measurable

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "kernels.md"
FIGURES = Path(__file__).with_name("kernel_ulps.json")
BEGIN, END = "<!-- guarantees -->", "<!-- end of guarantees -->"
BEGIN_FIGURES, END_FIGURES = "<!-- figures -->", "<!-- end of figures -->"
COLUMNS = ("bool and integers", "float16", "float32", "float64", "complex64", "complex128")
_DTYPES = ("int32", "float16", "float32", "float64", "complex64", "complex128")


def table() -> str:
    """The table in Markdown: a row for each function, a column for each kind of number."""
    lines = [f"| function | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, function in sorted(TABLE.items()):
        others = sorted(alias for alias, target in ALIASES.items() if target == name)
        label = ", ".join(f"`{each}`" for each in (name, *others))
        cells = []
        for dtype in _DTYPES:
            kind = np.dtype(dtype).kind
            is_taken = kind in function.kinds or (kind == "i" and "b" in function.kinds)
            cells.append(_cell(name, dtype if kind in function.kinds else "bool") if is_taken else "")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(name: str, dtype: str) -> str:
    found = guarantee(name, dtype)
    mark = "" if found.is_identical else " ≠"
    if found.bound_ulp is None:
        return "formula" + mark
    if found.bound_ulp == 0:
        return "exact" + mark
    return ("rounded" if found.bound_ulp == 0.5 else f"{found.bound_ulp:g} ulp") + mark


def figures() -> str:
    """The largest distances found, beside the published bounds: "found of bound", a column for each machine."""
    found: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    dtypes = ("float64", "complex64", "complex128")
    columns = [(dtype, machine) for dtype in dtypes for machine in sorted(found, reverse=True)]
    lines = [f"| function | {' | '.join(f'{dtype}, {machine}' for dtype, machine in columns)} |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for name in sorted({name for dtype in dtypes for name in measurable(dtype)}):
        cells = [_figure(found[machine].get(dtype, {}).get(name), name, dtype) for dtype, machine in columns]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _figure(found: dict[str, Any] | None, name: str, dtype: str) -> str:
    return "" if found is None else f"{found['ulp']:.2f} of {guarantee(name, dtype).bound_ulp:g}"


def updated(page: str) -> str:
    """The page with the tables in their places."""
    page = _replaced(page, BEGIN, table(), END)
    return _replaced(page, BEGIN_FIGURES, figures(), END_FIGURES)


def _replaced(page: str, begin: str, text: str, end: str) -> str:
    head, _, rest = page.partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n{text}\n{end}{tail}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
