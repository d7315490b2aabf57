"""Lines that fit a terminal, and in a pipe stay whole, so that `grep` finds them; tables."""

from __future__ import annotations

import shutil
import sys
import textwrap

_LEAST_WIDTH = 30


def terminal_columns() -> int | None:
    """The columns of the terminal on standard output; None where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(line: str, width: int | None, *, indent: int) -> list[str]:
    """A line as lines of at most ``width`` columns, those after the first indented; whole where that is None."""
    if width is None:
        return [line.rstrip()]
    return textwrap.wrap(
        line, max(width, _LEAST_WIDTH), subsequent_indent=" " * indent, drop_whitespace=True, break_on_hyphens=False
    )


def aligned(rows: list[list[str]]) -> list[str]:
    """A table's lines: the first column begins in one line, the others end in one."""
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))]).rstrip()
        for name, *cells in rows
    ]
