"""Plain structs of a preamble, read from its text: their members, and constructors that set these one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from xferlib.errors import KernelSyntaxError

_HEAD = re.compile(r"\b(typedef\s+)?struct\s*(?:__align__\s*\([^()]*\)\s*)?(\w*)\s*\{")
_TAIL = re.compile(r"\s*(\w*)\s*;")
_NAMES = re.compile(r"(?P<type>[\w\s]*\w)\s+(?P<names>\w+(?:\s*,\s*\w+)*)\s*\Z")
_FUNCTION = re.compile(
    r"(?P<name>~?\w+|operator\s*=)\s*\((?P<params>[^()]*)\)\s*(?:const|volatile|\s)*(?P<set>:.*)?\Z", re.DOTALL
)
_SET = re.compile(r"(\w+)\s*[({]\s*([\w.]*)\s*[)}]")


class StructText(NamedTuple):
    """A struct by its members: the words of the type, and the name."""

    members: tuple[tuple[str, str], ...]


def take_structs(text: str) -> tuple[str, dict[str, StructText]]:
    """The text, without comments, with blanks for its structs, and what they are.

    Raises:
        KernelSyntaxError: A member is no number and no struct, or a function that does more than copying.
    """
    found: dict[str, StructText] = {}
    at = 0
    while (head := _HEAD.search(text, at)) is not None:
        end = _closing(text, head.end() - 1)
        tail = _TAIL.match(text, end + 1) if end > 0 else None
        name = head[2] or (tail[1] if tail is not None and head[1] else "")
        if tail is None or not name or (tail[1] and not head[1]):
            raise KernelSyntaxError(f"preamble: struct {name!r} is not plain; write 'struct Name {{ ... }};'")
        found[name] = struct = _read(name, text[head.end() : end])
        if head[1] and tail[1]:
            found[tail[1]] = struct
        at = head.start()
        text = text[:at] + re.sub(r"[^\n]", " ", text[at : tail.end()]) + text[tail.end() :]
    named = "|".join(map(re.escape, found))
    return (re.sub(rf"\bstruct(?=\s+(?:{named})\b)", "      ", text) if found else text), found


def _closing(text: str, opening: int) -> int:
    """The brace that closes the one at ``opening``; -1 where none does."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return -1


def _read(name: str, body: str) -> StructText:
    members: list[tuple[str, str]] = []
    functions: list[tuple[str, str]] = []
    for head, inner in _parts(body):
        if inner is not None:
            functions.append((head, inner))
            continue
        match = _NAMES.match(head.strip())
        if match is None:
            raise KernelSyntaxError(f"preamble: struct {name}: {head.strip()!r} is no number and no struct")
        members += [(match["type"].strip(), each.strip()) for each in match["names"].split(",")]
    if not members or len({member for _, member in members}) < len(members):
        raise KernelSyntaxError(f"preamble: struct {name} must have members, each with a name of its own")
    for head, inner in functions:
        _check_function(name, [member for _, member in members], head, inner)
    return StructText(tuple(members))


def _parts(body: str) -> Iterator[tuple[str, str | None]]:
    """The members, and the heads of functions with their bodies."""
    start = 0
    while start < len(body):
        ends = [at for at in (body.find(";", start), body.find("{", start)) if at >= 0]
        if not ends:
            return
        end = min(ends)
        if body[end] == ";":
            if body[start:end].strip():
                yield body[start:end], None
            start = end + 1
        else:
            close = _closing(body, end)
            yield body[start:end].strip(), body[end + 1 : close]
            start = close + 1


def _check_function(struct: str, members: list[str], head: str, body: str) -> None:
    """Refuse a member function that is no constructor in the order of the members, and copies no struct."""
    match = _FUNCTION.search(head)
    params = [each.strip() for each in match["params"].split(",") if each.strip()] if match is not None else []
    is_copy = len(params) == 1 and re.search(rf"\b{struct}\b", params[0]) is not None
    if match is not None and (is_copy or (match["name"] == struct and not params)):
        return
    names = [re.split(r"\W+", each)[-1] for each in params]
    given = _SET.findall(match["set"] or "") if match is not None else []
    given += re.findall(r"(?:this->)?(\w+)\s*=\s*(\w+)\s*;", body)
    if match is None or match["name"] != struct or [*given] != [*zip(members, names, strict=False)]:
        raise KernelSyntaxError(
            f"preamble: struct {struct} has a function {head!r}; a struct of a snippet has members, and constructors "
            "that set them in their order: write functions outside of it"
        )
