"""Names of types in a snippet: ``typedef``, ``using``, the parameters of templates, and their instances."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from xferlib.errors import KernelSyntaxError

_TYPEDEF = re.compile(r"\btypedef\s+([\w\s]+?)\s+(\w+)\s*;")
USING = re.compile(r"\busing\s+(\w+)\s*=\s*([\w\s]+?)\s*;")
_ENUM = re.compile(r"\b(?:(?P<typedef>typedef)\s+)?enum\s*(?P<name>\w*)\s*(?P<body>\{[^{}]*\})\s*(?P<alias>\w*)\s*;")
_TEMPLATE = re.compile(r"\btemplate\s*<([^<>]*)>")
_TYPE_PARAMETER = re.compile(r"\s*(?:typename|class)\s+([A-Za-z_]\w*)\s*\Z")
_FUNCTION = re.compile(r"(\w+)\s*\(")
_INSTANCE = re.compile(r"(\w+)\s*(?:<(.*)>)?\Z")
_OPERATOR = re.compile(r"\boperator(\s*)([-+*/%<>=!&|^~]{1,3})(?=\s*\()")
_TYPED = "xf_types_"
_LETTERS = str.maketrans("-+*/%<>=!&|^~", "mptdrlgenaoxc")
CHOICE = re.compile(
    r"(?:\btypename\s+)?\bconditional\s*<\s*is_same\s*<([^<>,]*),([^<>,]*)>\s*::\s*value\s*,([^<>,]*),([^<>,]*)>"
    r"\s*::\s*type\b"
)
"""``conditional<is_same<T, U>::value, V, W>::type``: V where T and U are one type, else W."""


def as_typedef(using: re.Match[str]) -> str:
    """``using R = T;`` as C has it."""
    return f"typedef {using[2]} {using[1]};"


def typedefs(text: str) -> Iterator[tuple[str, str]]:
    """The names that a text gives to types anywhere in it, each with the words of the type."""
    for match in _TYPEDEF.finditer(text):
        yield match[2], match[1]


def take_enums(text: str) -> tuple[str, list[str]]:
    """The text with enumerations that have no names, and their names, each of which is a name for ``int``."""
    found: list[str] = []

    def plain(match: re.Match[str]) -> str:
        found.extend(each for each in (match["name"], match["alias"]) if each)
        start, text = match.start(), match[0]
        for first, last in (match.span("typedef"), match.span("name"), match.span("alias")):
            if first >= 0:
                text = text[: first - start] + " " * (last - first) + text[last - start :]
        return text

    text = _ENUM.sub(plain, text)
    named = "|".join(map(re.escape, found))
    return (re.sub(rf"\benum(?=\s+(?:{named})\b)", "    ", text) if found else text), found


def take_templates(text: str) -> tuple[str, dict[int | None, tuple[str, ...]]]:
    """The text with blanks for ``template <...>``, and the type parameters by the position of the function's name.

    Raises:
        KernelSyntaxError: A parameter is no type.
    """
    found: dict[int | None, tuple[str, ...]] = {}
    for match in _TEMPLATE.finditer(text):
        params = type_parameters(match[1])
        if (function := _FUNCTION.search(text, match.end())) is None or params is None:
            raise KernelSyntaxError(f"preamble: {match[0]} is not supported; write a template of types")
        found[function.start(1)] = params
    return _TEMPLATE.sub(_blank, text), found


def operator_name(sign: str) -> str:
    """The name, for C, of the functions that an operator of structs calls."""
    return f"operator{sign.translate(_LETTERS)}"


def take_operators(text: str) -> str:
    """The text with names for its operators."""
    return _OPERATOR.sub(lambda match: f"{operator_name(match[2])}{match[1]}", text)


def type_parameters(text: str) -> tuple[str, ...] | None:
    """The type parameters of a template; None where one is no type."""
    params = [_TYPE_PARAMETER.match(each) for each in text.split(",")]
    return None if None in params else tuple(each[1] for each in params if each is not None)


def instances(templates: Iterable[str]) -> re.Pattern[str]:
    """Finds ``Pair<T, int>``, with plain names between the angle brackets."""
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, templates))})\s*<[\w\s,]*>")


def instance(text: str) -> tuple[str, list[str]]:
    """The name of a type, and the types between its angle brackets."""
    match = _INSTANCE.match(text)
    if match is None:
        return text, []
    return match[1], [] if match[2] is None else [each.strip() for each in match[2].split(",")]


def explicit_call(types: Iterable[str]) -> re.Pattern[str]:
    """Finds ``f<float, T>(`` up to the bracket, with names of numbers' types between the angle brackets."""
    named = "|".join(map(re.escape, sorted(types, key=len, reverse=True)))
    return re.compile(rf"\b(\w+)\s*<(\s*(?:{named})\s*(?:,\s*(?:{named})\s*)*)>\s*\((?=(\s*\))?)")


def with_types(call: re.Match[str]) -> str:
    """The same for C: the types come as the first arguments, and their number with the name; see `typed_call`."""
    types = [f"({each.strip()})0" for each in call[2].split(",")]
    return f"{_TYPED}{len(types)}_{call[1]}({', '.join(types)}{'' if call[3] else ', '}"


def typed_call(name: str) -> tuple[str, int]:
    """The name of the function that is called, and how many types come before its arguments."""
    if not name.startswith(_TYPED):
        return name, 0
    count, _, own = name.removeprefix(_TYPED).partition("_")
    return own, int(count)


def name_of(text: str) -> str:
    """A name for a type that is not written as one."""
    return "xf_" + re.sub(r"\W", lambda found: f"_{ord(found[0]):x}_", text)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])
