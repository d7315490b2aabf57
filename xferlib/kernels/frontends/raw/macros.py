"""Macros with parameters: their definitions, and the text that a call of one stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_DEFINITION = re.compile(r"(?P<name>[A-Za-z_]\w*)\((?P<parameters>[\w\s,.]*)\)(?P<body>.*)\Z", re.DOTALL)
_PASTED = re.compile(r"\s*##\s*")
_OTHERS = "__VA_ARGS__"
_MOST_CHARACTERS = 65536


class MacroFunction(NamedTuple):
    """A macro with parameters."""

    parameters: tuple[str, ...]
    body: str


def defined(text: str) -> tuple[str, MacroFunction | None] | None:
    """The name and the macro of a ``#define`` whose name a bracket follows; no macro where it cannot be read."""
    match = _DEFINITION.match(text)
    if match is None:
        name = re.match(r"([A-Za-z_]\w*)\(", text)
        return None if name is None else (name[1], None)
    names = [each.strip() for each in match["parameters"].split(",") if each.strip()]
    parameters = tuple(_OTHERS if each == "..." else each for each in names)
    is_plain = all(each.isidentifier() for each in parameters) and _OTHERS not in parameters[:-1]
    return match["name"], MacroFunction(parameters, match["body"].strip()) if is_plain else None


def replaced(text: str, functions: Mapping[str, MacroFunction]) -> str:
    """A line with each call of a macro, whose brackets it closes, replaced once."""
    if not functions:
        return text
    calls = re.compile(rf"\b({'|'.join(map(re.escape, functions))})\s*\(")
    pieces: list[str] = []
    at = length = 0
    while (call := calls.search(text, at)) is not None and length < _MOST_CHARACTERS:
        pieces.append(text[at : call.start()])
        found = _arguments(text, call.end())
        written = None if found is None else _written(functions[call[1]], found[0])
        at = call.end() if found is None or written is None else found[1]
        pieces.append(call[0] if written is None else written)
        length += len(pieces[-1])
    return "".join(pieces) + text[at:]


def _arguments(text: str, start: int) -> tuple[list[str], int] | None:
    """The arguments behind the bracket before ``start``, and where they end; None where the line does not close it."""
    arguments: list[str] = []
    depth, first = 0, start
    for at in range(start, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            if not depth:
                return [*arguments, text[first:at].strip()], at + 1
            depth -= 1
        elif text[at] == "," and not depth:
            arguments.append(text[first:at].strip())
            first = at + 1
    return None


def _written(macro: MacroFunction, arguments: list[str]) -> str | None:
    """The body with the arguments in the place of the parameters; None for another number of them."""
    count = len(macro.parameters)
    if macro.parameters[-1:] == (_OTHERS,):
        arguments = [*arguments[: count - 1], ", ".join(arguments[count - 1 :])]
    if not count and arguments == [""]:
        arguments = []
    if len(arguments) != count:
        return None
    values = dict(zip(macro.parameters, arguments, strict=True))
    text = re.sub(r"(#?)(#\s*)?\b([A-Za-z_]\w*)\b", lambda word: _value(word, values), macro.body)
    return _PASTED.sub("", text)


def _value(word: re.Match[str], values: Mapping[str, str]) -> str:
    if word[3] not in values:
        return word[0]
    if word[1] and not word[2]:  # a name in quotes
        return '"' + values[word[3]].replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{word[1]}{word[2] or ''}{values[word[3]]}"
