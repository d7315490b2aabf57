"""The parameter lists of C kernels: ``"raw T x, float32 y"`` as in CuPy, ``"int *x, float a"`` as in PyCUDA."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from xferlib.errors import KernelSyntaxError, did_you_mean, shown
from xferlib.kernels.c_frontend.preprocess import check_length
from xferlib.kernels.functions import C_TYPES
from xferlib.kernels.ir import DType
from xferlib.kernels.source_lines import caret

MAX_PARAMS = 1024

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_GENERIC = re.compile(r"[A-Za-z]\Z")
_COMPLEX = re.compile(r"(?:pycuda::|thrust::|std::)?complex\s*<\s*(float|double)\s*>")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CONTINUATION = re.compile(r"\\[ \t]*\r?\n")
_RESERVED = frozenset({"i", "_ind", "CUPY_UNUSED", "and", "or", "not"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CParam:
    """One declared parameter; ``dtype`` is None where ``generic`` names a type letter."""

    name: str
    dtype: DType | None
    generic: str | None
    is_raw: bool = False
    is_pointer: bool = False
    is_const: bool = False


def check_name(name: str, what: str) -> str:
    """``name`` if it is an ASCII identifier.

    Raises:
        KernelSyntaxError: It is not.
    """
    if not isinstance(name, str) or not _IDENTIFIER.match(name):
        raise KernelSyntaxError(f"{what} {shown(name)} is not a C identifier; use ASCII letters, digits and _")
    return name


def plain_types(text: str) -> str:
    """``text`` with ``complex<float>`` and ``complex<double>`` replaced by one-word names of the same length."""

    def one_word(match: re.Match[str]) -> str:
        name = "complex64" if match[1] == "float" else "complex128"
        return name.ljust(len(match[0]))

    return _COMPLEX.sub(one_word, text)


def without_comments(text: str) -> str:
    """``text`` with blanks for comments and continued line ends, so that columns stay the same."""
    return COMMENT.sub(_blank, CONTINUATION.sub(_blank, text))


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def check_texts(call: str, **texts: Any) -> None:
    """Refuse parts of a kernel that are no texts.

    Raises:
        KernelSyntaxError: One of them is no string.
    """
    for what, text in texts.items():
        if not isinstance(text, str):
            raise KernelSyntaxError(f"{call}: {what}={shown(text)} is no string; give one")


def parse(text: str, what: str) -> list[CParam]:
    """The parameters of a comma-separated list.

    Args:
        text: The list; empty for none.
        what: ``"in_params"`` or the like, for messages.

    Raises:
        KernelSyntaxError: The list cannot be read.
    """
    check_length(text, what)
    plain = plain_types(without_comments(text))
    if not plain.strip():
        return []
    params = []
    column = 0
    for piece in plain.split(","):
        params.append(_parse_one(piece, text, column, what))
        column += len(piece) + 1
    if len(params) > MAX_PARAMS:
        raise KernelSyntaxError(f"{what} has {len(params)} parameters; at most {MAX_PARAMS} fit a launch")
    return params


def _parse_one(piece: str, text: str, column: int, what: str) -> CParam:
    words = piece.replace("*", " * ").split()
    start = column + len(piece) - len(piece.lstrip())

    def fail(message: str) -> KernelSyntaxError:
        end = max(start + 1, column + len(piece.rstrip()))
        begin = text.rfind("\n", 0, start) + 1
        line = text[begin:].split("\n", 1)[0]
        return KernelSyntaxError(f"{what}: {message}\n{caret(line, start - begin, end - begin)}")

    is_raw = bool(words) and words[0] == "raw"
    is_const = "const" in words
    is_pointer = "*" in words
    words = [word for word in words[is_raw:] if word not in ("const", "*", "__restrict__", "restrict")]
    if piece.count("*") > 1:
        raise fail("a pointer to a pointer is no array; declare one * for each array")
    if len(words) < 2:
        raise fail("expected 'type name', for instance 'float32 x' or 'float *x'")
    *type_words, name = words
    if not _IDENTIFIER.match(name):
        raise fail(f"{name!r} is not a C identifier; use ASCII letters, digits and _")
    if name in _RESERVED or name in C_TYPES:
        raise fail(f"{name!r} has a meaning of its own in a kernel; choose another name")
    type_name = " ".join(type_words)
    dtype = C_TYPES.get(type_name) or C_TYPES.get(" ".join(word for word in type_words if word != "signed"))
    generic = None
    if dtype is None:
        if not _GENERIC.match(type_name):
            raise fail(
                f"unknown type {type_name!r}{did_you_mean(type_name, C_TYPES)}; use a C or NumPy type name, or one "
                "letter for a generic type"
            )
        generic = type_name
    if is_raw and is_pointer:
        raise fail("'raw' and '*' are two notations for the same; use one")
    return CParam(name=name, dtype=dtype, generic=generic, is_raw=is_raw, is_pointer=is_pointer, is_const=is_const)
