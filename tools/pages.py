"""Pages that a tool keeps up to date: written, or with ``--check`` compared."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def keep(updates: Mapping[Path, Callable[[str], str]]) -> None:
    """Write what is made of each page; with ``--check`` write nothing, and exit with 1 where one differs."""
    is_check, stale = "--check" in sys.argv[1:], []
    for page, update in updates.items():
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        after = update(before)
        if before != after and is_check:
            stale.append(f"{page.name} is out of date; run {Path(sys.argv[0]).name}")
        elif before != after:
            page.write_text(after, encoding="utf-8")
            print(f"wrote {page.name}")
    sys.exit("\n".join(stale) or 0)


def replace_block(text: str, block: str, content: str) -> str:
    """``text`` with another one between the two markers of a block."""
    start, stop = f"<!-- {block} -->\n", f"<!-- end of {block} -->"
    return text[: text.index(start) + len(start)] + content + text[text.index(stop) :]
