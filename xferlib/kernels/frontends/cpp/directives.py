"""The preprocessor's lines of a snippet: macros are kept, headers of the libraries are known, the rest is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from xferlib.errors import KernelSyntaxError
from xferlib.kernels.frontends.signature import COMMENT, CONTINUATION
from xferlib.kernels.frontends.source_lines import caret

_LINE = re.compile(r"^[ \t]*#[ \t]*(\w*)((?:\\[ \t]*\r?\n|[^\n])*)", re.MULTILINE)
_DEFINE = re.compile(r"[ \t]*(\w+)(\(([^()]*)\))?(.*)", re.DOTALL)
_HEADER = re.compile(r"[ \t]*[<\"](?:cupy/|cuda/std/|thrust/|pycuda-)?(\w+)(?:\.\w+)?[>\"][ \t]*\Z")
_HEADERS = frozenset({
    "complex", "carray", "atomics", "math_constants", "cuda_fp16", "cuda_runtime", "math", "cmath", "stdint", "cstdint",
    "limits", "float", "cfloat", "stddef", "cstddef", "type_traits", "assert", "cassert",
})  # fmt: skip
"""The headers whose types and functions a snippet has anyway, without their folder and ending."""
MOST_EXPANSIONS = 4096
"""Limit of the macros replaced in a text: one that names itself has no end."""


class Macro(NamedTuple):
    """The text of a macro, and its parameters; None for one without parentheses."""

    body: str
    params: tuple[str, ...] | None


Macros = Mapping[str, Macro]
NONE: Macros = MappingProxyType({})


def split(source: str, what: str) -> tuple[str, dict[str, Macro]]:
    """The text with blanks for its directives, and the macros that they define.

    Raises:
        KernelSyntaxError: A directive is neither ``#define``, ``#include`` of a known header nor ``#pragma``.
    """
    macros: dict[str, Macro] = {}

    def read(match: re.Match[str]) -> str:
        kind, rest = match[1], COMMENT.sub(" ", CONTINUATION.sub(" ", match[2])).rstrip()
        if kind == "define" and (found := _DEFINE.match(rest)):
            params = tuple(each.strip() for each in found[3].split(",") if each.strip()) if found[2] else None
            if "#" in found[4]:
                raise _error(source, match.start(), what, "a macro that joins or quotes tokens is not supported")
            macros[found[1]] = Macro(found[4].strip(), params)
        elif kind == "include" and ((header := _HEADER.match(rest)) is None or header[1] not in _HEADERS):
            raise _error(
                source, match.start(), what, f"header {rest.strip()} is not known; a snippet has none of its own"
            )
        elif kind not in ("include", "pragma", ""):
            problem = f"#{kind} is not supported; of the preprocessor a snippet has #define, #include and #pragma"
            raise _error(source, match.start(), what, problem)
        return re.sub(r"[^\n]", " ", match[0])

    return _LINE.sub(read, source), macros


def _error(source: str, position: int, what: str, message: str) -> KernelSyntaxError:
    start = source.rfind("\n", 0, position) + 1
    line = source[start:].split("\n", 1)[0]
    first = source.count("\n", 0, position) + 1
    return KernelSyntaxError(f"{what}, line {first}: {message}\n{caret(line, 0, 1)}")


def expansion(text: str, macros: Macros, start: int) -> tuple[int, int, str] | None:
    """The first use of a macro behind ``start``: its beginning, its end, and the text that replaces it."""
    if not macros:
        return None
    names = "|".join(map(re.escape, sorted(macros, key=len, reverse=True)))
    for match in re.compile(rf"\b(?:{names})\b").finditer(text, start):
        macro = macros[match[0]]
        if macro.params is None:
            return match.start(), match.end(), macro.body
        arguments = _arguments(text, match.end())
        if arguments is None:
            continue  # without parentheses the name is no use of the macro
        end, given = arguments
        if len(given) != len(macro.params):
            continue
        return match.start(), end, _filled(macro.body, dict(zip(macro.params, given, strict=True)))
    return None


def _filled(body: str, values: dict[str, str]) -> str:
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda word: values.get(word[0], word[0]), body)


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
            return position + 1, found if found != [""] else []
    return None
