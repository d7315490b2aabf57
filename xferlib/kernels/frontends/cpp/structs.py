"""Structs of a preamble, read from its text: their members, and their constructors, which become functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xferlib.errors import KernelSyntaxError
from xferlib.kernels.frontends.cpp import type_names

SELF = "xf_self"
"""The struct that a function within it is about, in the function that it becomes."""
METHOD = "xf_method_"
"""The beginning of the names of functions that functions within structs become."""

_HEAD = re.compile(
    r"(?:\btemplate\s*<(?P<params>[^<>]*)>\s*)?\b(?P<typedef>typedef\s+)?"
    r"struct\s*(?:__align__\s*\([^()]*\)\s*)?(?P<name>\w*)\s*\{"
)
_TAIL = re.compile(r"\s*(\w*)\s*;")
_NAMES = re.compile(r"(?P<type>[\w\s]*\w(?:\s*<[\w\s,<>]*>)?)\s+(?P<names>\w+(?:\s*,\s*\w+)*)\s*\Z")
_FUNCTION = re.compile(
    r"(?P<name>~?\w+)\s*\((?P<params>(?:[^()]|\([^()]*\))*)\)\s*(?:const|volatile|\s)*(?P<set>:.*)?\Z", re.DOTALL
)
_SET = re.compile(r"\s*[:,]\s*(\w+)\s*([({])")
_COPIED = re.compile(r"(\w+)\s*[({]\s*([\w.]*)\s*[)}]")
_ASSIGNMENT = re.compile(r"(?:this->)?\b(\w+)\s*=\s*([\w.]+)\s*;")
_RETURN = re.compile(r"\breturn\s*\*\s*this\s*;\s*\Z")
_SPECIAL = re.compile(r"\b(?:friend|template|operator|virtual)\b")
_RESULT = re.compile(r"\s*(?:public\s*:)?[\w\s<>,&]*\w[\w\s<>,&]*\Z")
_PLAIN_RESULT = re.compile(r"public\s*:|\b(?:explicit|constexpr|const|volatile)\b")
_BEFORE = re.compile(r"(?:public\s*:|explicit|constexpr|\s)*\Z")
_ALIAS = re.compile(r"\s*(?:typedef|using)\b")
_ALIASES = re.compile(r"\btypedef\b[^;{}()]*?(\w+)\s*;|\busing\s+(\w+)\s*=")
_DECLARATOR = re.compile(r"(\w)\s*\(\s*(\w+)\s*\)\Z")
_PAIRS = {"(": ")", "{": "}"}


class StructText(NamedTuple):
    """A struct by its members: the words of the type, and the name."""

    members: tuple[tuple[str, str], ...]
    types: tuple[str, ...] = ()
    """The type parameters of a template."""
    constructor: str = ""
    """The name of the functions that its constructors become; empty if it has none."""


def take_structs(text: str) -> tuple[str, dict[str, StructText]]:
    """The text, without comments, with blanks for its structs and with their constructors behind it, and what they are.

    Raises:
        KernelSyntaxError: A member is no number and no struct, or a function that is no constructor and no copy.
    """
    found: dict[str, StructText] = {}
    functions: list[str] = []
    at = 0
    text = type_names.take_operators(text)
    while (head := _HEAD.search(text, at)) is not None:
        end = _closing(text, head.end() - 1)
        tail = _TAIL.match(text, end + 1) if end > 0 else None
        name = head["name"] or (tail[1] if tail is not None and head["typedef"] else "")
        if tail is None or not name or (tail[1] and not head["typedef"]):
            raise KernelSyntaxError(f"preamble: struct {name!r} is not plain; write 'struct Name {{ ... }};'")
        types = () if head["params"] is None else type_names.type_parameters(head["params"])
        if types is None:
            raise KernelSyntaxError(
                f"preamble: template <{head['params']}> of struct {name} is not supported; its parameters must be types"
            )
        if not found.keys().isdisjoint({name, tail[1]} - {""}):  # those within functions are known everywhere
            raise KernelSyntaxError(f"preamble: struct {name} is defined twice; give it another name")
        found[name] = struct = _read(name, types, text[head.end() : end], functions)
        if head["typedef"] and tail[1]:
            found[tail[1]] = struct
        at = head.start()
        text = text[:at] + re.sub(r"[^\n]", " ", text[at : tail.end()]) + text[tail.end() :]
    named = "|".join(map(re.escape, found))
    text = re.sub(rf"\bstruct(?=\s+(?:{named})\b)", "      ", text) if found else text
    return "\n".join([text, *functions]) if functions else text, found


def _closing(text: str, opening: int) -> int:
    """The bracket that closes the one at ``opening``; -1 where none does."""
    first, depth = text[opening], 0
    for at in range(opening, len(text)):
        depth += (text[at] == first) - (text[at] == _PAIRS[first])
        if depth == 0:
            return at
    return -1


def _read(name: str, types: tuple[str, ...], body: str, functions: list[str]) -> StructText:
    """The struct; adds the texts of the functions that its constructors become."""
    members: list[tuple[str, str]] = []
    within: list[tuple[str, str]] = []
    for alias in {each for pair in _ALIASES.findall(body) for each in pair if each}:  # each struct has its own
        body = re.sub(rf"\b{alias}\b", f"xf_of_{name}_{alias}", body)
    for head, inner in _parts(body):
        if inner is not None:
            within.append((head, inner))
            continue
        if _ALIAS.match(head):
            functions.append(f"{head};")
            continue
        match = _NAMES.match(head.strip())
        if match is None:
            raise KernelSyntaxError(f"preamble: struct {name}: {head.strip()!r} is no number and no struct")
        members += [(match["type"].strip(), each.strip()) for each in match["names"].split(",")]
    if not members or len({member for _, member in members}) < len(members):
        raise KernelSyntaxError(f"preamble: struct {name} must have members, each with a name of its own")
    owner = f"{name}<{', '.join(types)}>" if types else name
    maker = ""
    for head, inner in within:
        match = _FUNCTION.search(head)
        other = _other(name, match["params"]) if match is not None else None
        if match is not None and other is not None and _is_copy(name, members, match, other, inner):
            continue
        before = head[: match.start()] if match is not None else ""
        if match is None or (is_own := _is_supported(name, match["name"], before, has_other=other is not None)) is None:
            raise KernelSyntaxError(
                f"preamble: struct {name} has a function {head!r}, which is not supported; write it outside of it"
            )
        for params, local in _overloads(match["params"]):
            body = _with_self(inner)
            if is_own:
                maker = f"xf_make_{name}"
                sets = _sets(name, owner, members, match)
                text = f"{owner} {maker}({params}) {{ {owner} {SELF}; {local} {sets} {body} return {SELF}; }}"
            else:
                method = match["name"] if match["name"].startswith("operator") else METHOD + match["name"]
                listed = ", ".join(filter(None, (f"{owner}& {SELF}", params)))
                text = f"{_template(types)}{_PLAIN_RESULT.sub(' ', before)} {method}({listed}) {{ {local} {body} }}"
            functions.append(re.sub(rf"\b{name}\b(?!\s*<)", owner, text))
    return StructText(tuple(members), types, maker)


def _parts(body: str) -> Iterator[tuple[str, str | None]]:
    """The members, and the heads of functions with their bodies."""
    start = at = 0
    while at < len(body):
        if body[at] == ";":
            if body[start:at].strip():
                yield body[start:at], None
            start = at + 1
        elif body[at] == "{":
            close = _closing(body, at)
            rest = body[close + 1 :].lstrip()[:1]
            if ":" in body[start:at].replace("::", "").replace("public:", "") and rest in (",", "{"):
                at = close  # a member's value in braces
            else:
                yield body[start:at].strip(), body[at + 1 : close]
                start, at = close + 1, close
        at += 1


def _overloads(params: str) -> Iterator[tuple[str, str]]:
    """The parameters for each number of arguments, and the others as local variables with their default values."""
    listed = [_DECLARATOR.sub(r"\1 \2", each.strip()) for each in _split(params)]
    listed = [] if listed == ["void"] else listed
    given = [each.partition("=")[0].strip() for each in listed]
    required = sum("=" not in each for each in listed)
    for count in range(required, len(listed) + 1):
        yield ", ".join(given[:count]), "".join(f"{each};" for each in listed[count:])


def _split(text: str) -> list[str]:
    """The parts between the commas that stand in no brackets."""
    parts, depth = [""], 0
    for each in text:
        depth += (each in "(<{[") - (each in ")>}]")
        if each == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += each
    return [each for each in parts if each.strip()]


def _sets(struct: str, owner: str, members: Sequence[tuple[str, str]], match: re.Match[str]) -> str:
    """The members' values before a constructor's body, as assignments."""
    text, at = match["set"] or "", 0
    found: dict[str, str] = {}
    kinds = {member: words for words, member in members}
    while (each := _SET.match(text, at)) is not None:
        end = _closing(text, each.end() - 1)
        if end < 0 or each[1] not in (*kinds, struct):
            break
        value = _with_self(text[each.end() : end].strip())
        plain = " ".join(word for word in kinds.get(each[1], owner).split() if word not in ("const", "volatile"))
        found[each[1]] = f"{SELF if each[1] == struct else f'{SELF}.{each[1]}'} = {plain}({value});"
        at = end + 1
    if text[at:].strip():
        raise KernelSyntaxError(f"preamble: struct {struct}: {text[at:].strip()!r} sets no member")
    return " ".join(found[each] for each in (*kinds, struct) if each in found)  # C++ sets them in their own order


def _is_supported(struct: str, name: str, before: str, *, has_other: bool) -> bool | None:
    """Whether a function within a struct is a constructor, or else a method; None where it is not supported.

    Args:
        struct, name: The names of the struct and of the function.
        before: The text before the function's name.
        has_other: It takes another such struct alone, without being a copy.
    """
    if name == struct:
        return None if has_other or not _BEFORE.match(before) else True
    is_special = name in ("struct", type_names.operator_name("=")) or _SPECIAL.search(before) is not None
    return None if name.startswith("~") or is_special or not _RESULT.match(before) else False


def _template(types: Sequence[str]) -> str:
    """The head of a template of these types."""
    return f"template <{', '.join(f'class {each}' for each in types)}> " if types else ""


def _with_self(text: str) -> str:
    """The text with a name for the struct to which ``this`` points; its members' names are found by their scope."""
    text = re.sub(r"\bthis\s*->\s*", f"{SELF}.", text)
    return re.sub(r"\bthis\b", f"(&{SELF})", re.sub(r"\*\s*this\b", SELF, text))


def _other(struct: str, params: str) -> str | None:
    """The parameter of a function that takes another such struct alone; None if it takes anything else."""
    words = re.findall(r"\w+|[^\w\s&]", re.sub(r"<[^<>]*>", "", params))
    words = [each for each in words if each not in ("const", "volatile", "struct")]
    return words[1] if len(words) == 2 and words[0] == struct else None


def _is_copy(struct: str, members: Sequence[tuple[str, str]], match: re.Match[str], other: str, body: str) -> bool:
    """Whether a constructor or an assignment copies each member of ``other``, and does nothing else."""
    if match["name"] not in (struct, type_names.operator_name("=")):
        return False
    listed, body = match["set"] or "", _RETURN.sub("", body)
    if re.sub(r"[:,\s]", "", _COPIED.sub("", listed)) or _ASSIGNMENT.sub("", body).strip():
        return False
    pairs = [*_COPIED.findall(listed), *_ASSIGNMENT.findall(body)]
    return sorted(pairs) == sorted((member, f"{other}.{member}") for _, member in members)
