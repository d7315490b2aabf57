"""Plain structs of a preamble, read from its text: their members, and constructors that set these one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xferlib.errors import KernelSyntaxError

_HEAD = re.compile(r"\b(typedef\s+)?struct\s*(?:__align__\s*\([^()]*\)\s*)?(\w*)\s*\{")
_TAIL = re.compile(r"\s*(\w*)\s*;")
_NAMES = re.compile(r"(?P<type>[\w\s]*\w)\s+(?P<names>\w+(?:\s*,\s*\w+)*)\s*\Z")
_FUNCTION = re.compile(
    r"(?P<name>~?\w+|operator\s*=)\s*\((?P<params>[^()]*)\)\s*(?:const|volatile|\s)*(?P<set>:.*)?\Z", re.DOTALL
)
_SET = re.compile(r"(\w+)\s*[({]\s*([\w.]*)\s*[)}]")
_ASSIGNMENT = re.compile(r"(this->)?\b(\w+)\s*=\s*([\w.]+)\s*;")
_RETURN = re.compile(r"\breturn\s*\*\s*this\s*;\s*\Z")
_BEFORE = re.compile(r"(?:public\s*:|explicit|\s)*\Z")
_ZERO = re.compile(r"(?:0+(?:\.0*)?[fF]?)?\Z")
"""The text of a value that a member without one has too."""


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
        _check_function(name, members, head, inner)
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


def _check_function(struct: str, members: Sequence[tuple[str, str]], head: str, body: str) -> None:
    """Refuse a member function that is no constructor in the order of the members, and copies no struct."""
    match = _FUNCTION.search(head)
    if match is None or not _is_plain(struct, members, match, body):
        raise KernelSyntaxError(
            f"preamble: struct {struct} has a function {head!r}; a struct of a snippet has members, and constructors "
            "that set them in their order, by parameters of their types, and do nothing else: write functions outside "
            "of it"
        )


def _is_plain(struct: str, members: Sequence[tuple[str, str]], match: re.Match[str], body: str) -> bool:
    """Whether a function does what the translator does without it: copies, zeros, or values in their order."""
    is_assignment = "".join(match["name"].split()) == "operator="
    is_constructor = match["name"] == struct and _BEFORE.match(match.string[: match.start()]) is not None
    params = [_words(each) for each in match["params"].split(",") if each.strip()]
    if not (is_assignment or is_constructor) or not all(params):
        return False
    names = [each[-1] for each in params]
    pairs = _pairs(match["set"] or "", body, names)
    if pairs is None:
        return False
    if len(params) == 1 and params[0][:-1] == [struct]:
        return sorted(pairs) == sorted((member, f"{names[0]}.{member}") for _, member in members)
    if is_assignment:
        return False
    if not params:
        own = {member for _, member in members}
        return all(member in own and _ZERO.match(value) is not None for member, value in pairs)
    taken = members[: len(params)]
    sets = [*zip((member for _, member in taken), names, strict=False)]
    return pairs == sets and [each[:-1] for each in params] == [_words(words) for words, _ in taken]


def _words(text: str) -> list[str]:
    """The words of a declaration; what is neither a word nor a reference is one by itself."""
    return [each for each in re.findall(r"\w+|[^\w\s&]", text) if each not in ("const", "volatile", "struct")]


def _pairs(listed: str, body: str, params: Sequence[str]) -> list[tuple[str, str]] | None:
    """The members that a function sets, each with the text of its value; None where the function does more."""
    body = _RETURN.sub("", body)
    if re.sub(r"[:,\s]", "", _SET.sub("", listed)) or _ASSIGNMENT.sub("", body).strip():
        return None
    assigned = _ASSIGNMENT.findall(body)
    if any(not this and member in params for this, member, _ in assigned):  # the parameter is set
        return None
    return [*_SET.findall(listed), *((member, value) for _, member, value in assigned)]
