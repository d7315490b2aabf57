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
    "limits", "float", "cfloat", "stddef", "cstddef", "type_traits", "assert", "cassert",
})  # fmt: skip
"""The headers whose types and functions a snippet has anyway, without their folder and ending."""


def split(source: str, what: str) -> tuple[str, dict[str, Macro]]:
    """The text with blanks for its directives, and the macros that they define.

    Raises:
        KernelSyntaxError: A directive is neither ``#define``, ``#include`` of a known header nor ``#pragma``.
    """
    macros: dict[str, Macro] = {}

    def read(match: re.Match[str]) -> str:
        kind, rest = match[1], COMMENT.sub(" ", CONTINUATION.sub(" ", match[2])).rstrip()
        if kind == "define" and (found := defined(rest)) is not None:
            macros[found[0]] = found[1]
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
