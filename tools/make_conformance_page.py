"""Write the list of what the conformance suite checks into its reference page.

    python tools/make_conformance_page.py [--check]

Each test's name is a sentence; the page shows them between two markers. ``--check`` writes nothing and
exits with 1 where the page is not that of the code.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import pages  # noqa: E402 - from this tree, installed or not
from xferlib.testing import BackendConformance  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "conformance.md"
BEGIN, END = "<!-- tests: begin -->\n", "<!-- tests: end -->\n"


def sentences() -> str:
    """A section for each part of the suite: its purpose, and its tests as sentences."""
    parts = []
    for part in BackendConformance.__mro__:
        names = [name for name in vars(part) if name.startswith("test_")]
        if names:
            lines = "\n".join(f"- {name.removeprefix('test_').replace('_', ' ')}" for name in names)
            parts.append(f"### {part.__name__}\n\n{part.__doc__}\n\n{lines}\n")
    return "\n" + "\n".join(parts) + "\n"


def updated(page: str) -> str:
    """The page with the list of this code."""
    return re.sub(f"(?s){BEGIN}.*{END}", lambda _: BEGIN + sentences() + END, page)


if __name__ == "__main__":
    pages.keep(PAGE, updated)
