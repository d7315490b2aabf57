"""Macros: their definitions, and the text that a use of one stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_DEFINITION = re.compile(r"[ \t]*(?P<name>[A-Za-z_]\w*)(?:\((?P<parameters>[^()]*)\))?(?P<body>.*)\Z", re.DOTALL)
_PASTED = re.compile(r"\s*##\s*")
_WORD = re.compile(r"(#?)(#\s*)?\b([A-Za-z_]\w*)\b(?=(\s*##)?)")
_OTHERS = "__VA_ARGS__"
_USE = 300
"""The work of one use of a macro, in characters."""
MOST_REPLACING = 2_500_000
"""Limit of the work on one text."""


class TooLongError(Exception):
    """Macros write out more than is read."""


class Expansion:
    """The work of replacing macros in one text: nested ones may double with each, in a few lines.

    It is counted in characters looked at or written, about 1e7 of them a second.
    """

    def __init__(self, most: int = MOST_REPLACING) -> None:
        self._left = most

    def spend(self, characters: int) -> None:
        """Count some work.

        Raises:
            TooLongError: It is too much.
        """
        self._left -= characters
        if self._left < 0:
            raise TooLongError


class Macro(NamedTuple):
    """The text of a macro, and its parameters; None for one without parentheses."""

    body: str
    params: tuple[str, ...] | None


Macros = Mapping[str, Macro]
NONE: Macros = MappingProxyType({})


def defined(text: str) -> tuple[str, Macro] | None:
    """The name and the macro that stand behind ``#define``."""
    match = _DEFINITION.match(text)
    if match is None:
        return None
    if match["parameters"] is None:
        return match["name"], Macro(match["body"].strip(), None)
    named = [each.strip() for each in match["parameters"].split(",") if each.strip()]
    return match["name"], Macro(match["body"].strip(), tuple(_OTHERS if each == "..." else each for each in named))


def use_behind(text: str, macros: Macros, start: int, work: Expansion) -> tuple[int, int, str] | None:
    """The first use of a macro behind ``start``: its beginning, its end, and the text that replaces it.

    Raises:
        TooLongError: ``work``, of this use and those before, is too much.
    """
    found = _use(text, macros, start, work)
    return None if found is None else found[1:]


def replaced(text: str, macros: Macros, work: Expansion | None = None, most: int = 1 << 16) -> str:
    """A text with its macros replaced, and those in what they stand for; a macro that names itself stays there.

    Args:
        text, macros: They.
        work: That of the text of which this one is a part; none counted so far if omitted.
        most: Of the characters that are written.

    Raises:
        TooLongError: The work is too much.
    """
    work = work or Expansion()
    pieces: list[str] = []
    at = length = 0
    while length < most and (found := _use(text, macros, at, work)) is not None:
        name, start, end, written = found
        others = {each: macro for each, macro in macros.items() if each != name}
        pieces += [text[at:start], replaced(written, others, work, most - length)]
        length += len(pieces[-1])
        at = end
    return "".join([*pieces, text[at:]])


def _use(text: str, macros: Macros, at: int, work: Expansion) -> tuple[str, int, int, str] | None:
    if not macros:
        return None
    work.spend(_USE + 10 * len(macros))
    names = "|".join(map(re.escape, sorted(macros, key=len, reverse=True)))
    for match in re.compile(rf"\b(?:{names})\b").finditer(text, at):
        macro = macros[match[0]]
        if macro.params is None:
            work.spend(match.start() - at + len(macro.body))
            return match[0], match.start(), match.end(), macro.body
        found = _arguments(text, match.end())
        work.spend((len(text) if found is None else found[0]) - match.end())
        written = None if found is None else _written(macro.body, macro.params, found[1], macros, work)
        work.spend(len(written or ""))
        if found is not None and written is not None:  # without parentheses the name is no use of the macro
            return match[0], match.start(), found[0], written
    return None


def _arguments(text: str, at: int) -> tuple[int, list[str]] | None:
    """The end and the arguments of the parentheses that begin at ``at``, blanks aside."""
    while at < len(text) and text[at].isspace():
        at += 1
    if text[at : at + 1] != "(":
        return None
    depth, start, found = 0, at + 1, []
    for position in range(at, len(text)):
        character = text[position]
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 or (depth == 1 and character == ","):
            found.append(text[start:position].strip())
            start = position + 1
        if depth == 0:
            return position + 1, found
    return None


def _written(body: str, params: tuple[str, ...], given: list[str], macros: Macros, work: Expansion) -> str | None:
    """The body with the arguments in the place of the parameters; None for another number of them."""
    if params[-1:] == (_OTHERS,):
        given = [*given[: len(params) - 1], ", ".join(given[len(params) - 1 :])]
    elif not params and given == [""]:
        given = []
    if len(given) != len(params):
        return None
    values = dict(zip(params, given, strict=True))
    return _PASTED.sub("", _WORD.sub(lambda word: _value(word, values, macros, work), body))


def _value(word: re.Match[str], values: Mapping[str, str], macros: Macros, work: Expansion) -> str:
    """The text of an argument: as it stands beside ``#`` and ``##``, else with its own macros replaced."""
    if word[3] not in values:
        return word[0]
    text = values[word[3]]
    if word[1] and not word[2]:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{word[1]}{word[2] or ''}{text if word[2] or word[4] else replaced(text, macros, work)}"
