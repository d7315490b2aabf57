"""The preprocessor's lines of a snippet: macros are kept, headers of the libraries are known, the rest is refused."""

from __future__ import annotations

import re

from xferlib.errors import KernelSyntaxError
from xferlib.kernels.frontends.cpp.macros import Macro, defined
from xferlib.kernels.frontends.signature import COMMENT, CONTINUATION
from xferlib.kernels.frontends.source_lines import caret

_LINE = re.compile(r"^[ \t]*#[ \t]*(\w*)((?:\\[ \t]*\r?\n|[^\n])*)", re.MULTILINE)
_HEADER = re.compile(r"[ \t]*[<\"](?:cupy/|cuda/std/|thrust/|pycuda-)?(\w+)(?:\.\w+)?[>\"][ \t]*\Z")
_HEADERS = frozenset({
    "complex", "carray", "atomics", "math_constants", "cuda_fp16", "cuda_runtime", "math", "cmath", "stdint", "cstdint",
    "limits", "climits", "float", "cfloat", "stddef", "cstddef", "type_traits", "assert", "cassert",
})  # fmt: skip
"""The headers whose types and functions a snippet has anyway, without their folder and ending."""


def split(source: str, what: str) -> tuple[str, dict[str, Macro]]:
    """The text with blanks for its directives, and the macros that they define.

    Raises:
        KernelSyntaxError: A directive is neither ``#define``, ``#include`` of a known header nor ``#pragma``.
    """
    macros: dict[str, Macro] = {}
    starts: dict[str, int] = {}

    def read(match: re.Match[str]) -> str:
        kind, rest = match[1], COMMENT.sub(" ", CONTINUATION.sub(" ", match[2])).rstrip()
        if kind == "define" and (found := defined(rest)) is not None:
            if macros.setdefault(*found) != found[1]:
                raise _error(source, match.start(), what, f"macro {found[0]} is defined twice; give it another name")
            starts[found[0]] = match.start()
        elif kind == "include" and ((header := _HEADER.match(rest)) is None or header[1] not in _HEADERS):
            raise _error(
                source, match.start(), what, f"header {rest.strip()} is not known; a snippet has none of its own"
            )
        elif kind not in ("include", "pragma", ""):
            problem = f"#{kind} is not supported; of the preprocessor a snippet has #define, #include and #pragma"
            raise _error(source, match.start(), what, problem)
        return re.sub(r"[^\n]", " ", match[0])

    text = _LINE.sub(read, source)
    for name, start in starts.items():  # a macro counts for the whole text, in C from its definition on
        if re.search(rf"\b{name}\b", COMMENT.sub(_blank, text[:start])) is not None:
            raise _error(source, start, what, f"macro {name} is used before its definition; move that to the beginning")
    return text, macros


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _error(source: str, position: int, what: str, message: str) -> KernelSyntaxError:
    start = source.rfind("\n", 0, position) + 1
    line = source[start:].split("\n", 1)[0]
    first = source.count("\n", 0, position) + 1
    return KernelSyntaxError(f"{what}, line {first}: {message}\n{caret(line, 0, 1)}")
