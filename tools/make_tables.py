"""Write the tables of the reference that are data of the code: of namespaces, kernels, other libraries, conformance.

    python tools/make_tables.py [--check]

``--check`` writes nothing and exits with 1 where a page is not that of the code.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import digest, namespace_table, pages, peer_names  # noqa: E402 - from this tree, installed or not
from xferlib._core import dtypes as promotion  # noqa: E402
from xferlib._core.dtypes import DTYPES  # noqa: E402
from xferlib.kernels.functions import ALIASES, TABLE, guarantee, measurable  # noqa: E402

REFERENCE = ROOT / "docs" / "reference"


def row(cells: Iterable[str]) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = list(head)
    return "\n".join([row(head), "|---" * len(head) + "|", *map(row, rows)])


# Each test of the conformance suite, whose name is a sentence.


def conformance() -> str:
    """A section for each part of the suite: its purpose, and its tests as sentences."""
    from xferlib.testing import BackendConformance

    parts = []
    for part in BackendConformance.__mro__:
        names = [name for name in vars(part) if name.startswith("test_")]
        if names:
            lines = "\n".join(f"- {name.removeprefix('test_').replace('_', ' ')}" for name in names)
            parts.append(f"### {part.__name__}\n\n{part.__doc__}\n\n{lines}\n")
    return "\n".join(parts)


# Promotion, and what namespaces guarantee, from `tools/namespace_table.json`.

SETS = {
    "all": DTYPES,
    "integers": tuple(each for each in DTYPES if "int" in each),
    "floats": tuple(each for each in DTYPES if each.startswith("float")),
    "complex": tuple(each for each in DTYPES if each.startswith("complex")),
}
"""Names for sets of dtypes, the largest first."""


def shorten(dtype: str) -> str:
    """A dtype in the few letters that a table has room for: `i4` of int32."""
    return dtype if dtype == "bool" else f"{dtype[0]}{int(re.sub('[^0-9]', '', dtype)) // 8}"


def pairs() -> str:
    """The dtype of two arrays, and of an array and a Python scalar."""
    others: dict[str, Any] = {f"**{shorten(name)}**": np.dtype(name) for name in DTYPES}
    others |= {f"*{kind.__name__}*": kind for kind in (bool, int, float, complex)}
    rows = (
        [label, *(shorten(promotion.promote(np.dtype(name), other).name) for name in DTYPES)]
        for label, other in others.items()
    )
    return table(["", *map(shorten, DTYPES)], rows)


def list_dtypes(dtypes: Iterable[str]) -> str:
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
    return "; ".join(f"{words} ({list_dtypes(dtypes)})" for words, dtypes in by_words.items()) or "exact"


def guarantees(measured: namespace_table.Table) -> str:
    """A row for all functions of which every backend promises the same."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name in promotion.RULES:
        rows.setdefault(tuple(cell(part.get(name, {})) for part in measured.values()), []).append(name)
    words = ([", ".join(f"`{each}`" for each in names), *cells] for cells, names in rows.items())
    return table(["functions", *measured], words)


def refusals(measured: namespace_table.Table) -> str:
    """The sentence of each refusal, and the functions that it is of."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for backend, part in measured.items():
        for name, entries in part.items():
            for dtype, entry in entries.items():
                if is_refusal(entry):
                    sentence = str(entry).removeprefix(f"{name}: ").replace(f" ({dtype})", "")
                    found.setdefault((backend, sentence), {})[name] = None
    return "\n".join(
        f"- {backend}: {', '.join(f'`{each}`' for each in names)}: {sentence}."
        for (backend, sentence), names in found.items()
    )


# What kernels guarantee, from `xferlib.kernels.functions`, and the largest errors that were measured.

_COLUMNS = {
    "bool and integers": "int32",
    **{each: each for each in ("float16", "float32", "float64", "complex64", "complex128")},
}


def kernels() -> str:
    """A row for each function, a column for each kind of number."""
    rows = []
    for name, function in sorted(TABLE.items()):
        others = sorted(alias for alias, target in ALIASES.items() if target == name)
        cells = [", ".join(f"`{each}`" for each in (name, *others))]
        for dtype in _COLUMNS.values():
            kind = np.dtype(dtype).kind
            is_taken = kind in function.kinds or (kind == "i" and "b" in function.kinds)
            cells.append(_bound(name, dtype if kind in function.kinds else "bool") if is_taken else "")
        rows.append(cells)
    return table(["function", *_COLUMNS], rows)


def _bound(name: str, dtype: str) -> str:
    found = guarantee(name, dtype)
    words = "formula" if found.bound_ulp is None else f"{found.bound_ulp:g} ulp"
    return {"0 ulp": "exact", "0.5 ulp": "rounded"}.get(words, words)


def count_digests(page: str) -> str:
    """The page with the number of exact pairs whose digest is known."""
    return re.sub(r"(?<=digests of all )\d+", str(len(digest.read(digest.EXACT))), page)


def figures() -> str:
    """The largest distances found, beside the published bounds: "found of bound", a column for each machine."""
    found: dict[str, Any] = json.loads((ROOT / "tools" / "kernel_ulps.json").read_text(encoding="utf-8"))
    dtypes = ("float64", "complex64", "complex128")
    columns = [(dtype, machine) for dtype in dtypes for machine in sorted(found, reverse=True)]
    rows = []
    for name in sorted({name for dtype in dtypes for name in measurable(dtype)}):
        each = [(found[machine].get(dtype, {}).get(name), dtype) for dtype, machine in columns]
        rows.append(
            [
                f"`{name}`",
                *(
                    "" if it is None else f"{it['ulp']:.2f} of {guarantee(name, dtype).bound_ulp:g}"
                    for it, dtype in each
                ),
            ]
        )
    return table(["function", *(f"{dtype}, {machine}" for dtype, machine in columns)], rows)


# Names of other libraries, from `tools/peer_names.txt`.

_PEERS = """# Names of other libraries

The counterpart of each name of CuPy, PyCUDA, torch and Chainer that has to do with devices, streams, memory and
kernels; or why there is none. `xl` is `xferlib`. A name with `*` stands for all that fit. `examples/from_chainer.py` is
a program written for Chainer with nothing changed but its imports.

<!-- Written by tools/make_tables.py from tools/peer_names.txt; edit that instead. -->
"""


def peers() -> str:
    """The page."""
    parts = [_PEERS]
    for name, answers in peer_names.sections().items():
        rows = [
            [", ".join(f"`{each}`" for each in answer.names), ", ".join(f"`{each}`" for each in answer.ours) or "-",
             answer.note]
            for answer in answers
        ]  # fmt: skip
        parts.append(f"\n## `{name}`\n\n{table(['there', 'here', 'note'], rows)}\n")
    return "".join(parts)


def with_blocks(page: str, **blocks: str) -> str:
    """The page with other texts in its blocks."""
    for name, text in blocks.items():
        page = pages.replace_block(page, name, f"\n{text}\n\n")
    return page


def main() -> None:
    measured = namespace_table.table()
    namespaces = {"pairs": pairs(), "guarantees": guarantees(measured), "refusals": refusals(measured)}
    pages.keep({
        ROOT / "docs" / "explanation" / "kernels.md": count_digests,
        REFERENCE / "conformance.md": lambda page: with_blocks(page, tests=conformance()),
        REFERENCE / "kernels.md": lambda page: with_blocks(page, guarantees=kernels(), figures=figures()),
        REFERENCE / "namespaces.md": lambda page: with_blocks(page, **namespaces),
        REFERENCE / "other-libraries.md": lambda _: peers(),
    })  # fmt: skip


if __name__ == "__main__":
    main()
