"""The table of other libraries' names, `peer_names.txt`, as data."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "peer_names.txt"


class Answer(NamedTuple):
    """A line of the table."""

    names: tuple[str, ...]
    """Of the other library; they may have * in them."""
    ours: tuple[str, ...]
    """xferlib's; none where it has no counterpart."""
    note: str

    def covers(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, each) for each in self.names)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def sections(text: str | None = None) -> dict[str, list[Answer]]:
    """The answers by the module or class that the names are of; those of this project's table if no text is given."""
    found: dict[str, list[Answer]] = {}
    for line in (FILE.read_text(encoding="utf-8") if text is None else text).splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if (head := re.fullmatch(r"\[([\w.]+)\]", line)) is not None:
            answers = found[head[1]] = []
        else:
            names, ours, note = (each.strip() for each in line.split("|"))
            answers.append(Answer(_listed(names), _listed(ours), note))
    return found
