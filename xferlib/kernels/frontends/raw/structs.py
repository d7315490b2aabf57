"""The structs of CUDA source, by the lines that declare their members: functions and constants in them take no room."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_ALIGNED = r"(?:__align__|alignas)\s*\(\s*(\d+)\s*\)"
_HEAD = re.compile(rf"\bstruct\b(?P<words>(?:[^;{{}}()]|{_ALIGNED})*)\{{")
_TAIL = re.compile(r"\s*(?P<words>[^;{}()]*);")
_ACCESS = re.compile(r"\b(?:public|private|protected)\s*:(?!:)")
_OF_THE_TYPE = re.compile(r"(?:static|static_assert|typedef|using|friend|template)\b")
"""Declarations that hold for all structs of the type."""
_TYPE_WITHIN = re.compile(r"(?:enum|(?:struct|union|class)\s+\w+)\b")
_FUNCTION = re.compile(r"[\w&*>]\s+[&*]*\w+\s*\((?!\s*\*)|\boperator\b")
_UNREADABLE = re.compile(r"\b(?:virtual|override|__attribute__|__declspec|alignas|__align__)\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NO_NAMES = ("alignas", "__align__", "final")


class Struct(NamedTuple):
    """A struct of a source."""

    start: int
    end: int
    names: tuple[str, ...]
    members: tuple[str, ...] | None
    """Lines such as ``float x, y[3]``; None where not all that it has in memory is plain."""
    alignment: int
    """That it asks for, or 1."""


def structs_of(source: str) -> list[Struct]:
    """The structs that a source without comments defines, those within others before them."""
    found = []
    for head in _HEAD.finditer(source):
        end = _closing(source, head.end())
        tail = _TAIL.match(source, end + 1)
        if tail is None:
            continue
        words = head["words"]
        is_derived = ":" in words.replace("::", "")
        own = [name for name in _WORD.findall(words) if name not in _NO_NAMES][-1:]
        members = None if is_derived else _members(source[head.end() : end], *own)
        alignment = max((1, *map(int, re.findall(_ALIGNED, words))))
        found.append(Struct(head.start(), end, (*own, *_WORD.findall(tail["words"])), members, alignment))
    return sorted(found, key=lambda struct: struct.end)


def _members(body: str, name: str = "") -> tuple[str, ...] | None:
    """The lines of the members of a struct; None where one line may be anything else, or it has virtual functions."""
    lines = []
    for head, inner, rest in _declarations(_ACCESS.sub(" ", body), name):
        is_type = inner is not None and re.match(r"(?:struct|union|class|enum)\b", head)
        if _UNREADABLE.search(head) or (is_type and (rest or not _TYPE_WITHIN.match(head))):
            return None
        if is_type or _is_function(head, name) or _OF_THE_TYPE.match(head):
            continue
        if inner is not None and rest:  # more than one member with a value in braces
            return None
        lines.append(re.sub(r"=[^,]*", "", head).strip())
    return tuple(lines)


def _declarations(body: str, name: str) -> Iterator[tuple[str, str | None, str]]:
    """Each declaration: the text before its braces, that within them or None, and that behind them."""
    start = at = 0
    while at < len(body):
        head = body[start:at].strip()
        if body[at] == ";":
            if head:
                yield head, None, ""
            start = at + 1
        elif body[at] == "{":
            close = _closing(body, at + 1)
            after = close
            if not _is_function(head, name):
                after = close + 1 + len(body[close + 1 :].partition(";")[0])
            elif body[close + 1 :].lstrip()[:1] in (",", "{"):  # a value in the list of a constructor
                at = close + 1
                continue
            yield head, body[at + 1 : close], body[close + 1 : after].strip()
            start, at = after + 1, after
        at += 1
    if body[start:].strip():
        yield body[start:].strip(), None, ""


def _is_function(head: str, struct: str) -> bool:
    is_constructor = struct and re.match(rf"(?:\w+\s+)*~?\b{struct}\s*\(", head)
    return bool(is_constructor or _FUNCTION.search(head))


def _closing(text: str, start: int) -> int:
    """The brace that closes the one before ``start``; the end where none does."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return at
    return len(text)
