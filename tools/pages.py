"""Pages that a tool keeps up to date: written, or with ``--check`` compared."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path


def keep(page: Path, updated: Callable[[str], str]) -> None:
    """Write what ``updated`` makes of a page; with ``--check`` write nothing, and exit with 1 where it differs."""
    before = page.read_text(encoding="utf-8")
    after = updated(before)
    if "--check" in sys.argv[1:]:
        sys.exit(f"{page.name} is out of date; run {Path(sys.argv[0]).name}" if before != after else 0)
    page.write_text(after, encoding="utf-8")
