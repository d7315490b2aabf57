"""Write the tables of promotion and of guarantees into their reference page.

    python tools/make_namespace_page.py [--check]

The tables are `xferlib/_core/arrays.py` and `tools/namespace_table.json`. ``--check`` writes nothing and exits with
1 where the page is not theirs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import namespace_table, pages  # noqa: E402 - from this tree, installed or not
from xferlib._core import arrays as promotion  # noqa: E402
from xferlib._core.arrays import DTYPES  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "namespaces.md"
SETS = {
    "all": DTYPES,
    "integers": tuple(each for each in DTYPES if "int" in each),
    "floats": tuple(each for each in DTYPES if each.startswith("float")),
    "complex": tuple(each for each in DTYPES if each.startswith("complex")),
}
"""Names for sets of dtypes, the largest first."""


def short(dtype: str) -> str:
    """A dtype in the few letters that a table has room for: `i4` of int32."""
    return dtype if dtype == "bool" else f"{dtype[0]}{int(re.sub('[^0-9]', '', dtype)) // 8}"


def row(cells: Iterable[str]) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


def pairs() -> str:
    """The dtype of two arrays, and of an array and a Python scalar."""
    lines = [row(["", *map(short, DTYPES)]), "|---|" + "---|" * len(DTYPES)]
    others: dict[str, Any] = {f"**{short(name)}**": np.dtype(name) for name in DTYPES}
    scalars = {f"*{kind.__name__}*": kind for kind in (bool, int, float, complex)}
    for label, other in (others | scalars).items():
        lines.append(row([label, *(short(promotion.promote(np.dtype(name), other).name) for name in DTYPES)]))
    return "\n".join(lines) + "\n"


def listed(dtypes: Iterable[str]) -> str:
    """Dtypes in words."""
    left, words = list(dtypes), []
    for name, members in SETS.items():
        if set(members) <= set(left):
            words.append(name)
            left = [each for each in left if each not in members]
    return ", ".join(words + left)


def is_refusal(entry: int | str) -> bool:
    """Whether an entry of the table is the sentence of a refusal."""
    return isinstance(entry, str) and entry != "n"


def cell(entries: dict[str, int | str]) -> str:
    """A function's entries on a backend, in words."""
    by_words: dict[str, list[str]] = {}
    for dtype, entry in entries.items():
        words = "refused" if is_refusal(entry) else "own order" if entry == "n" else f"{entry} ulp"
        by_words.setdefault(words, []).append(dtype)
    return "; ".join(f"{words} ({listed(dtypes)})" for words, dtypes in by_words.items()) or "exact"


def guarantees(table: namespace_table.Table) -> str:
    """A row for all functions of which every backend promises the same."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name in promotion.RULES:
        rows.setdefault(tuple(cell(part.get(name, {})) for part in table.values()), []).append(name)
    lines = [row(["functions", *table]), "|---|" + "---|" * len(table)]
    lines += [row([", ".join(f"`{each}`" for each in names), *cells]) for cells, names in rows.items()]
    return "\n".join(lines) + "\n"


def refusals(table: namespace_table.Table) -> str:
    """The sentence of each refusal, and the functions that it is of."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for backend, part in table.items():
        for name, entries in part.items():
            for dtype, entry in entries.items():
                if is_refusal(entry):
                    sentence = str(entry).removeprefix(f"{name}: ").replace(f" ({dtype})", "")
                    found.setdefault((backend, sentence), {})[name] = None
    return "".join(
        f"- {backend}: {', '.join(f'`{each}`' for each in names)}: {sentence}.\n"
        for (backend, sentence), names in found.items()
    )


def updated(page: str) -> str:
    """The page with the tables of this code."""
    table = namespace_table.table()
    for name, text in (("pairs", pairs()), ("guarantees", guarantees(table)), ("refusals", refusals(table))):
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
        page = re.sub(f"(?s){begin}.*{end}", lambda _, new=f"{begin}\n{text}\n{end}": new, page)  # type: ignore[misc]
    return page


if __name__ == "__main__":
    pages.keep(PAGE, updated)
