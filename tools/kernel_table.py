"""Write the table of guarantees into docs/reference/kernels.md, from `xferlib.kernels.functions`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xferlib.kernels.functions import ALIASES, TABLE, guarantee

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "kernels.md"
BEGIN, END = "<!-- guarantees -->", "<!-- end of guarantees -->"
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


def updated(page: str) -> str:
    """The page with the table in its place."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
