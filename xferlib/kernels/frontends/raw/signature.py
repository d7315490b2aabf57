"""The parameters of a raw kernel, declared in C by its source or its user."""

from __future__ import annotations

import re

from xferlib.errors import KernelSyntaxError
from xferlib.kernels.c_frontend.preprocess import check_length
from xferlib.kernels.frontends.raw.source import split
from xferlib.kernels.frontends.raw.types import SourceTypes
from xferlib.kernels.frontends.signature import plain_types, without_comments
from xferlib.kernels.ir.nodes import DType

_MOST_CHARACTERS = 512
_PARAMETER = re.compile(r"(?P<type>[A-Za-z_][\w:<>,\s]*?)\s*(?P<stars>[*&\s]*)(?P<name>[A-Za-z_]\w*)\s*(?:\[\s*\])?\Z")
_QUALIFIERS = frozenset(
    {"const", "volatile", "__restrict__", "restrict", "__grid_constant__", "signed", "struct", "enum"}
)
_NO_TYPES = SourceTypes("", {})


class RawParameter:
    """A declared parameter; ``dtype`` is None for a pointer to a type that NumPy lacks, and has fields for a struct."""

    __slots__ = ("dtype", "is_const", "is_pointer", "name")

    def __init__(self, name: str, dtype: DType | None, *, is_pointer: bool, is_const: bool) -> None:
        self.name = name
        self.dtype = dtype
        self.is_pointer = is_pointer
        self.is_const = is_const

    @property
    def is_struct(self) -> bool:
        """Whether several numbers are passed by value."""
        return not self.is_pointer and self.dtype is not None and self.dtype.kind == "V"

    @property
    def nbytes(self) -> int:
        """Of the argument of a launch."""
        return 8 if self.is_pointer or self.dtype is None else self.dtype.itemsize


def parse_signature(text: str, kernel: str, types: SourceTypes = _NO_TYPES) -> list[RawParameter]:
    """The parameters of ``const float *x, int n``.

    Args:
        text: They.
        kernel: The kernel's name, for messages.
        types: The names of types that its source declares.

    Raises:
        KernelSyntaxError: One cannot be read, or is passed by value in a type that is not known.
    """
    check_length(text, f"the signature of kernel {kernel!r}")
    plain = without_comments(plain_types(text)).strip()
    if plain in ("", "void"):
        return []
    return [_parse_parameter(piece, kernel, types) for piece in split(plain)]


def _parse_parameter(piece: str, kernel: str, types: SourceTypes) -> RawParameter:
    plain = " ".join(re.sub(r"\b(?:__restrict__|restrict)\b", " ", piece.partition("=")[0]).split())
    plain = re.sub(r"\*\s?(?:const|volatile)\b", "*", plain)  # the pointer's own, which is a copy
    match = _PARAMETER.match(plain) if len(plain) <= _MOST_CHARACTERS else None
    if match is None:
        raise KernelSyntaxError(
            f"kernel {kernel!r}: parameter {piece[:_MOST_CHARACTERS]!r} cannot be read; "
            "give signature='const float *x, int n'"
        )
    words = [word for word in match["type"].split() if word not in _QUALIFIERS]
    found = types.find(" ".join(words))
    dtype = found.dtype if found is not None else None
    is_pointer = "*" in match["stars"] or "[" in piece
    if is_pointer and dtype is not None and (dtype.kind == "V" or match["stars"].count("*") > 1):
        dtype = None  # no array of a device has elements with fields, nor pointers
    if not is_pointer and dtype is None:
        raise KernelSyntaxError(
            f"kernel {kernel!r}: parameter {match['name']!r} of type {' '.join(words)!r} cannot be passed by value; "
            f"use a number type or a pointer, or declare it: raw_module(..., types={{{' '.join(words)!r}: dtype}})"
        )
    return RawParameter(match["name"], dtype, is_pointer=is_pointer, is_const="const" in match["type"].split())
