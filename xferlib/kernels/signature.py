"""The parameter lists of C kernels: ``"raw T x, float32 y"`` as in CuPy, ``"int *x, float a"`` as in PyCUDA."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from xferlib.errors import KernelSyntaxError, did_you_mean, quote
from xferlib.kernels.c_frontend.preprocess import SourceText, Token, check_length, on_one_line, tokens
from xferlib.kernels.functions import C_TYPES, know_types
from xferlib.kernels.ir import DType
from xferlib.kernels.source_lines import caret

MAX_PARAMS = 1024

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_GENERIC = re.compile(r"[A-Za-z]\Z")
_COMPLEX = {"complex<float>": "complex64", "complex<double>": "complex128"}
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


def check_name(name: str) -> str:
    """``name`` if it is an ASCII identifier.

    Raises:
        KernelSyntaxError: It is not.
    """
    if not isinstance(name, str) or not _IDENTIFIER.match(name):
        raise KernelSyntaxError(f"kernel name {quote(name)} is not a C identifier; use ASCII letters, digits and _")
    return name


def check_texts(call: str, **texts: Any) -> None:
    """Refuse parts of a kernel that are no texts.

    Raises:
        KernelSyntaxError: One of them is no string.
    """
    for what, text in texts.items():
        if not isinstance(text, str):
            raise KernelSyntaxError(f"{call}: {what}={quote(text)} is not a string; give one")


def parse(text: str, what: str) -> list[CParam]:
    """The parameters of a comma-separated list.

    Args:
        text: The list; empty for none.
        what: ``"in_params"`` or the like, for messages.

    Raises:
        KernelSyntaxError: The list cannot be read.
    """
    check_length(text, what)
    know_types(text)
    given = [each for each in tokens(SourceText(on_one_line(text), what)) if each.kind != "newline"]
    if not given:
        return []
    commas = [number for number, each in enumerate(given) if each.text == ","]
    ends = zip((-1, *commas), (*commas, len(given)), strict=True)
    params = [_parse_one(given[first + 1 : last], given[max(first, 0)].at, text, what) for first, last in ends]
    if len(params) > MAX_PARAMS:
        raise KernelSyntaxError(f"{what} has {len(params)} parameters; at most {MAX_PARAMS} fit a launch")
    return params


def _parse_one(piece: list[Token], at: int, text: str, what: str) -> CParam:
    words = [each.text for each in piece]

    def fail(message: str) -> KernelSyntaxError:
        start = piece[0].at if piece else at
        end = piece[-1].at + len(piece[-1].text) if piece else at + 1
        begin = text.rfind("\n", 0, start) + 1
        line = text[begin:].split("\n", 1)[0]
        return KernelSyntaxError(f"{what}: {message}\n{caret(line, start - begin, end - begin)}")

    is_raw = words[:1] == ["raw"]
    is_const = "const" in words
    is_pointer = "*" in words
    if words.count("*") > 1:
        raise fail("a pointer to a pointer is not an array; declare one * for each array")
    words = [word for word in words[is_raw:] if word not in ("const", "*", "__restrict__", "restrict")]
    if len(words) < 2:
        raise fail("expected 'type name', for instance 'float32 x' or 'float *x'")
    *type_words, name = words
    if not _IDENTIFIER.match(name):
        raise fail(f"{name!r} is not a C identifier; use ASCII letters, digits and _")
    if name in _RESERVED or name in C_TYPES:
        raise fail(f"{name!r} has a meaning of its own in a kernel; choose another name")
    if type_words[1:2] == ["::"] and type_words[0] in ("pycuda", "thrust", "std"):
        del type_words[:2]
    type_name = _COMPLEX.get("".join(type_words)) or " ".join(type_words)
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
