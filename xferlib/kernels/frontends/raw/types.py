"""Types of a raw kernel's parameters beyond numbers: CUDA's vectors, the source's structs and its names for types."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from xferlib.errors import KernelSyntaxError, shown
from xferlib.kernels.frontends.raw.preprocessor import expanded
from xferlib.kernels.frontends.raw.source import instance, split, template_before
from xferlib.kernels.frontends.raw.structs import Struct, structs_of
from xferlib.kernels.ir.nodes import COMPLEX64, COMPLEX128, DType
from xferlib.kernels.ir.types import C_TYPES, VECTOR_PARTS

_MOST_ALIGNMENT = 16
_COMPLEX: dict[str, DType] = {"cuFloatComplex": COMPLEX64, "cuComplex": COMPLEX64, "cuDoubleComplex": COMPLEX128}
_QUALIFIERS = frozenset({"const", "volatile", "signed", "struct", "enum"})
_ALIAS = re.compile(r"\btypedef\s+(?!struct\b)(?P<of>[\w\s:<>,]+?)\s+(?P<name>\w+)\s*;")
_USING = re.compile(r"\busing\s+(?P<name>\w+)\s*=\s*(?P<of>[\w\s:<>,]+?)\s*;")
_ENUM = re.compile(r"\benum\s+(?:(?:class|struct)\s+)?(?P<name>\w+)\s*(?::\s*(?P<of>[\w\s:]+?)\s*)?\{")
_NAMED_ENUM = re.compile(r"\btypedef\s+enum\b[^{};]*\{[^{}]*\}\s*(?P<name>\w+)\s*;")
_MEMBER = re.compile(r"(?P<stars>[*\s]*)(?P<name>[A-Za-z_]\w*)\s*(?P<dims>(?:\[\s*\d+\s*\]\s*)*)\Z")
_FIRST_MEMBER = re.compile(
    r"(?P<type>(?:[A-Za-z_][\w:]*\s+)*?[A-Za-z_][\w:]*(?:<[\w:<>,\s]*>)?)(?P<rest>[\s*]+[A-Za-z_]\w*\s*(?:\[.*)?)\Z"
)
_INSTANCE = re.compile(r"(?P<name>\w+)<(?P<arguments>.*)>\Z")
_DECLARED = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*(?:<[\w:<>, ]+>)?\Z")
_MOST_DEPTH = 16


class CType(NamedTuple):
    """A type that is passed by value."""

    dtype: DType
    alignment: int


def _vector(part: DType, count: int) -> CType:
    dtype = np.dtype([(name, part) for name in "xyzw"[:count]])
    base = part.itemsize
    return CType(dtype, base if count in (1, 3) else min(count * base, _MOST_ALIGNMENT))


VECTORS = {f"{name}{count}": _vector(part, count) for name, part in VECTOR_PARTS.items() for count in (1, 2, 3, 4)}
VECTORS["dim3"] = VECTORS["uint3"]
"""CUDA's built-in vector types: alignments are those of ``vector_types.h``."""


class SourceTypes:
    """The names of types in a source.

    Args:
        source: Without comments.
        declared: Structs by name, as NumPy has them, which stand before those that the source shows.
        is_decided: Whether all of the source counts; else a name with two meanings has none.
    """

    def __init__(self, source: str, declared: Mapping[str, DType], *, is_decided: bool = True) -> None:
        self._types = {closed_up(name): CType(dtype, dtype.alignment) for name, dtype in declared.items()}
        doubtful = frozenset() if is_decided else _doubtful(source)
        aliases = [match for form in (_ALIAS, _USING) for match in form.finditer(source)]
        self._aliases = {match["name"]: match["of"] for match in aliases if match["name"] not in doubtful}
        self._aliases |= {match["name"]: match["of"] or "int" for match in _ENUM.finditer(source)}
        self._aliases |= {match["name"]: "int" for match in _NAMED_ENUM.finditer(source)}
        self._templates: dict[str, tuple[str, Struct]] = {}
        """The templates of structs, with their parameters."""
        for struct in structs_of(source):
            names = [each for each in struct.names if each not in doubtful]
            if (parameters := template_before(source, struct.start)) is not None:
                self._templates.update((name, (parameters, struct)) for name in names)
                continue
            found = self._struct(struct)
            for name in names:
                if found is not None:
                    self._types.setdefault(name, found)

    def find(self, words: str, depth: int = 0) -> CType | None:
        """The type that some words name; None for one that cannot be passed by value, or is not known."""
        plain = [word for word in closed_up(words).split() if word not in _QUALIFIERS]
        name = " ".join(plain)
        short = " ".join(word for word in plain if word != "int")
        dtype: DType | None = C_TYPES.get(name) or C_TYPES.get(short) or _COMPLEX.get(name)
        if name in self._types:
            return self._types[name]
        if dtype is not None:
            return CType(dtype, dtype.itemsize)
        if name in VECTORS:
            return VECTORS[name]
        if name in self._aliases and depth < _MOST_DEPTH:
            return self.find(self._aliases[name], depth + 1)
        if "::" in name and depth < _MOST_DEPTH:
            return self.find(re.sub(r"\b(?:\w+::)+", "", name), depth + 1)
        match = _INSTANCE.match(name) if depth < _MOST_DEPTH else None
        if match is None or match["name"] not in self._templates:
            return None
        parameters, struct = self._templates[match["name"]]
        values = instance(parameters, match["arguments"])
        return None if values is None else self._struct(struct, values)

    def _struct(self, struct: Struct, values: dict[str, str] | None = None) -> CType | None:
        """The dtype of plain members, at C's offsets; None where one of them is anything else.

        Args:
            struct: Of the source.
            values: The meaning of a template's parameters.
        """
        if struct.members is None:
            return None
        names: list[str] = []
        formats: list[Any] = []
        offsets: list[int] = []
        end, alignment = 0, struct.alignment
        for line in struct.members:
            members = self._members(expanded(line, values) if values else line)
            if members is None:
                return None
            for name, kind, shape in members:
                end = -(-end // kind.alignment) * kind.alignment
                alignment = max(alignment, kind.alignment)
                names.append(name)
                formats.append((kind.dtype, shape))
                offsets.append(end)
                end += np.dtype((kind.dtype, shape)).itemsize
        if not names or len(set(names)) < len(names):
            return None
        itemsize = -(-end // alignment) * alignment
        made = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": itemsize})
        return CType(made, alignment)

    def _members(self, line: str) -> list[tuple[str, CType, tuple[int, ...]]] | None:
        """The members that a line such as ``float x, y[3]`` declares."""
        first, *others = split(re.sub(r"\b(?:__restrict__|restrict|mutable)\b", " ", line))
        match = _FIRST_MEMBER.match(first)
        if match is None:
            return None
        found = self.find(match["type"])
        members = []
        for each in (match["rest"], *others):
            member = _MEMBER.match(each.strip())
            if member is None or (found is None and "*" not in member["stars"]):
                return None
            kind = CType(np.dtype("u8"), 8) if "*" in member["stars"] or found is None else found
            members.append((member["name"], kind, tuple(map(int, re.findall(r"\d+", member["dims"])))))
        return members


def closed_up(words: str) -> str:
    """A type's name without the blanks around brackets, by which two spellings of a template's instance differ."""
    return re.sub(r"\s*([<>,*&])\s*", r"\1", words)


def _doubtful(source: str) -> frozenset[str]:
    """The types that a source defines in more than one way."""
    meanings: dict[str, set[str]] = {}
    for match in (*_ALIAS.finditer(source), *_USING.finditer(source)):
        meanings.setdefault(match["name"], set()).add(" ".join(match["of"].split()))
    for struct in structs_of(source):
        for name in struct.names:
            meanings.setdefault(name, set()).add(" ".join(" ".join(struct.members or ()).split()))
    return frozenset(name for name, found in meanings.items() if len(found) > 1)


def checked_types(types: Any) -> dict[str, DType]:
    """The types that a module's user declares, by name.

    Raises:
        KernelSyntaxError: A name is no identifier, or a type no dtype of fixed size without Python objects.
    """
    found: dict[str, DType] = {}
    if types is not None and not isinstance(types, Mapping):
        raise KernelSyntaxError(f"types: {shown(types)} is no dict; give NumPy dtypes by the names that they have in C")
    for name, given in (types or {}).items():
        dtype: DType = np.dtype(object)
        with contextlib.suppress(TypeError, ValueError):
            dtype = np.dtype(given)
        if not isinstance(name, str) or not _DECLARED.match(name) or dtype.hasobject or not dtype.itemsize:
            raise KernelSyntaxError(
                f"types: {shown(name)} must be a C name with a NumPy dtype of its bytes, such as "
                "numpy.dtype([('x', 'f4'), ('n', 'i4')], align=True)"
            )
        found[name] = dtype
    return found
