"""The parameters of a raw kernel, declared in C by its source or its user."""

from __future__ import annotations

import re

from xferlib.errors import KernelSyntaxError
from xferlib.kernels.frontends.signature import check_length, plain_types, without_comments
from xferlib.kernels.ir.nodes import DType
from xferlib.kernels.ir.types import C_TYPES

_MOST_CHARACTERS = 512
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PARAMETER = re.compile(r"(?P<type>[A-Za-z_][\w:<>\s]*?)\s*(?P<stars>[*&\s]*)(?P<name>[A-Za-z_]\w*)\s*(?:\[\s*\])?\Z")
_QUALIFIERS = frozenset({"const", "volatile", "__restrict__", "restrict", "__grid_constant__", "signed"})


class RawParameter:
    """A declared parameter; ``dtype`` is None for a pointer to a type that NumPy lacks."""

    __slots__ = ("dtype", "is_const", "is_pointer", "name")

    def __init__(self, name: str, dtype: DType | None, *, is_pointer: bool, is_const: bool) -> None:
        self.name = name
        self.dtype = dtype
        self.is_pointer = is_pointer
        self.is_const = is_const


def parse_signature(text: str, kernel: str) -> list[RawParameter]:
    """The parameters of ``const float *x, int n``.

    Raises:
        KernelSyntaxError: One cannot be read, or is passed by value in a type that NumPy lacks.
    """
    check_length(text, f"the signature of kernel {kernel!r}")
    plain = without_comments(plain_types(text)).strip()
    if plain in ("", "void"):
        return []
    return [_parse_parameter(piece.strip(), kernel) for piece in plain.split(",")]


def _parse_parameter(piece: str, kernel: str) -> RawParameter:
    plain = " ".join(re.sub(r"\b(?:__restrict__|restrict)\b", " ", piece).split())
    match = _PARAMETER.match(plain) if len(plain) <= _MOST_CHARACTERS else None
    if match is None:
        raise KernelSyntaxError(
            f"kernel {kernel!r}: parameter {piece[:_MOST_CHARACTERS]!r} cannot be read; "
            "give signature='const float *x, int n'"
        )
    words = [word for word in match["type"].split() if word not in _QUALIFIERS]
    dtype = C_TYPES.get(" ".join(words)) or C_TYPES.get(" ".join(word for word in words if word != "int"))
    is_pointer = "*" in match["stars"] or "[" in piece
    if not is_pointer and dtype is None:
        raise KernelSyntaxError(
            f"kernel {kernel!r}: parameter {match['name']!r} of type {' '.join(words)!r} cannot be passed by value; "
            "use a number type or a pointer"
        )
    return RawParameter(match["name"], dtype, is_pointer=is_pointer, is_const="const" in match["type"].split())


def find_signature(source: str, kernel: str) -> str | None:
    """The parameter list of ``__global__`` function ``kernel`` in the source; None where it is not plain C."""
    name = kernel.partition("<")[0].rpartition("::")[2]
    bounds = r"(?:__launch_bounds__\s*\([^)]*\)[^;{}()]*)?"
    pattern = re.compile(rf"__global__\b[^;{{}}()]*{bounds}\b{re.escape(name)}\s*\(")
    match = pattern.search(_COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source))
    if match is None or "<" in kernel:
        return None
    end = source.find(")", match.end())
    return source[match.end() : end] if end > 0 else None
