"""Write the page of other libraries' names from the table `peer_names.txt`.

    python tools/make_peer_page.py [--check]

``--check`` writes nothing and exits with 1 where the page is not the table's.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import pages, peer_names  # noqa: E402 - from this tree, installed or not

PAGE = ROOT / "docs" / "reference" / "other-libraries.md"
HEAD = """# Names of other libraries

The counterpart of each name of CuPy, PyCUDA, torch and Chainer that has to do with devices, streams, memory and
kernels; or why there is none. `xl` is `xferlib`. A name with `*` stands for all that fit. `examples/from_chainer.py` is
a program written for Chainer with nothing changed but its imports.

<!-- Written by tools/make_peer_page.py from tools/peer_names.txt; edit that instead. -->
"""


def row(answer: peer_names.Answer) -> str:
    """A row of the table in Markdown."""
    theirs = ", ".join(f"`{each}`" for each in answer.names)
    ours = ", ".join(f"`{each}`" for each in answer.ours) or "-"
    return f"| {theirs} | {ours} | {answer.note} |"


def updated(_: str) -> str:
    """The page."""
    parts = [HEAD]
    for name, answers in peer_names.sections().items():
        parts.append(f"\n## `{name}`\n\n| there | here | note |\n|---|---|---|\n" + "\n".join(map(row, answers)) + "\n")
    return "".join(parts)


if __name__ == "__main__":
    pages.keep(PAGE, updated)
