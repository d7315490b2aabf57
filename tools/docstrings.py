"""Docstrings of this project as Markdown: a summary, prose, and the sections Args, Returns, Raises, Attributes."""

from __future__ import annotations

import inspect
import re
import textwrap

_TITLES = {
    "Args": "Arguments",
    "Returns": "Returns",
    "Yields": "Yields",
    "Raises": "Raises",
    "Attributes": "Attributes",
}
_SECTION = re.compile(rf"^({'|'.join(_TITLES)}):$")
_ITEM = re.compile(r"^([*\w][\w, .*]*): (.*)$", re.DOTALL)


def markdown(docstring: str) -> str:
    """The whole docstring."""
    lines = inspect.cleandoc(docstring).splitlines()
    parts: list[str] = []
    prose: list[str] = []
    index = 0
    while index < len(lines):
        match = _SECTION.match(lines[index])
        if match is None:
            prose.append(lines[index])
            index += 1
            continue
        stop = index + 1
        while stop < len(lines) and (not lines[stop] or lines[stop].startswith(" ")):
            stop += 1
        parts.append(_prose(prose))
        parts.append(_section(match[1], textwrap.dedent("\n".join(lines[index + 1 : stop]))))
        prose, index = [], stop
    parts.append(_prose(prose))
    return "\n\n".join(part for part in parts if part)


def summary(docstring: str) -> str:
    """The first paragraph, on one line."""
    return " ".join(_inline(inspect.cleandoc(docstring).partition("\n\n")[0]).split())


def _inline(text: str) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def _prose(lines: list[str]) -> str:
    return _inline("\n".join(lines).strip("\n"))


def _section(title: str, body: str) -> str:
    items = _items(body)
    if title in ("Returns", "Yields") or not all(_ITEM.match(item) for item in items):
        return f"**{_TITLES[title]}**: {_inline(' '.join(body.split()))}"
    lines = [f"**{_TITLES[title]}**", ""]
    for item in items:
        match = _ITEM.match(item)
        assert match is not None
        names = ", ".join(f"`{name.strip()}`" if name != "Others" else name for name in match[1].split(","))
        lines.append(f"- {names}: {_inline(' '.join(match[2].split()))}")
    return "\n".join(lines)


def _items(body: str) -> list[str]:
    """One text an item: a line at the margin begins one, indented lines continue it."""
    items: list[str] = []
    for line in body.splitlines():
        if line.startswith(" ") and items:
            items[-1] += "\n" + line
        elif line:
            items.append(line)
    return items
