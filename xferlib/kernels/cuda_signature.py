"""The declarations of CUDA source that a launch needs: kernels' parameters, types passed by value, variables.

The same preprocessor and the same parser read it as read snippets. A source may hold what neither knows: a condition
that only the compiler can decide, a header of the user's, syntax that the grammar lacks. What is not plain is then
unknown, and the user is asked for it; it is never guessed.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from xferlib._core.dtypes import find as find_dtype
from xferlib._core.dtypes import is_numpys
from xferlib.errors import ArgumentError, KernelSyntaxError, UnsupportedDTypeError, quote
from xferlib.kernels.c_frontend.preprocess import (
    Preprocessor,
    SourceText,
    Token,
    check_length,
    is_operators_bracket,
    on_one_line,
    parse_options,
)
from xferlib.kernels.c_frontend.syntax import number_type, parser
from xferlib.kernels.functions import C_TYPES, SMALL_TYPES, VECTOR_PARTS
from xferlib.kernels.ir import COMPLEX64, COMPLEX128, INT32, UINT64, DType

# The parameters of a C++ kernel, read from its mangled name: all that machine code tells of them.
#
# The names are those of the Itanium C++ ABI, which NVRTC and nvcc use: ``_Z5scaleIfEvPT_f`` is ``scale<float>`` of a
# ``float *`` and a ``float``.

_BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "f": "float", "d": "double",
}  # fmt: skip
_POINTERS = {"P": "*", "R": "*", "O": "*"}
"""A reference is passed as a pointer."""
_QUALIFIERS = {"K": "const ", "V": "volatile ", "r": ""}
_NUMBERS = {"S": (re.compile(r"([0-9A-Z]*)_"), 36), "T": (re.compile(r"([0-9]*)_"), 10)}
"""How references are numbered, and to which base."""
_MOST_CHARACTERS = 4096


class _UnreadableError(Exception):
    """A part of a name that no kernel of plain parameters has."""


class _Reader:
    """Reads a name from left to right, with the earlier parts to which later ones refer."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._parts: list[str] = []
        self._arguments: list[str] = []

    def signature(self) -> str:
        _, is_template = self._name(is_function=True)
        if is_template:
            self._type()  # the result
        types = []
        while self._at < len(self._text) and self._text[self._at] != ".":
            types.append(self._type())
        if types == ["void"]:
            return ""
        return ", ".join(f"{each} p{number}" for number, each in enumerate(types))

    # --- pieces
    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str) -> bool:
        found = self._text.startswith(expected, self._at)
        self._at += len(expected) if found else 0
        return found

    def _keep(self, part: str) -> str:
        self._parts.append(part)
        return part

    def _identifier(self) -> str:
        match = re.compile(r"\d+").match(self._text, self._at)
        if match is None:
            raise _UnreadableError
        start = match.end()
        self._at = start + int(match[0])
        found = self._text[start : self._at]
        if len(found) != int(match[0]):
            raise _UnreadableError
        return found

    def _reference(self, table: list[str], *, letter: str) -> str:
        """``S_``, ``S0_``, ``S1_``: the first, the second, the third part; likewise ``T_`` of the arguments."""
        pattern, base = _NUMBERS[letter]
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _UnreadableError
        self._at = match.end()
        number = 0 if not match[1] else int(match[1], base) + 1
        if number >= len(table):
            raise _UnreadableError
        return table[number]

    def _template_arguments(self) -> list[str]:
        found = []
        while not self._take("E"):
            if self._take("L"):
                self._type()
                end = self._text.find("E", self._at)
                found.append(self._text[self._at : end].replace("n", "-"))
                self._at = end + 1
            else:
                found.append(self._type())
        return found

    # --- names and types
    def _name(self, *, is_function: bool = False) -> tuple[str, bool]:
        """A name, and whether its last part is a template's instance."""
        if not self._take("N"):
            name = ("std::" if self._take("St") else "") + self._identifier()
            is_template = self._peek() == "I"
            if is_template or not is_function:
                self._keep(name)
            return self._instance(name, is_function=is_function) if is_template else (name, False)
        while self._peek() in _QUALIFIERS and self._peek():
            self._at += 1
        name, is_template = "", False
        while not self._take("E"):
            if self._take("St"):
                name = "std"
                continue
            if self._take("S"):
                name = self._reference(self._parts, letter="S")
                continue
            if self._peek() == "I":
                name, is_template = self._instance(name, is_function=is_function)
            else:
                name, is_template = (f"{name}::" if name else "") + self._identifier(), False
            if not (is_function and self._peek() == "E"):
                self._keep(name)
        return name, is_template

    def _instance(self, name: str, *, is_function: bool) -> tuple[str, bool]:
        self._take("I")
        arguments = self._template_arguments()
        if is_function:
            self._arguments = arguments
        return f"{name}<{', '.join(arguments)}>", True

    def _type(self) -> str:
        letter = self._peek()
        if letter in _POINTERS and letter:
            self._at += 1
            inner = self._type()
            return self._keep(f"{inner}{' ' if not inner.endswith('*') else ''}{_POINTERS[letter]}")
        if letter in _QUALIFIERS and letter:
            self._at += 1
            inner = self._type()
            return self._keep(f"{inner} const" if inner.endswith("*") else f"{_QUALIFIERS[letter]}{inner}")
        if self._take("T"):
            return self._keep(self._reference(self._arguments, letter="T"))
        if self._take("Dh"):
            return "half"
        if letter == "S" and not self._text.startswith("St", self._at):
            self._at += 1
            found = self._reference(self._parts, letter="S")
            return self._keep(self._instance(found, is_function=False)[0]) if self._peek() == "I" else found
        if letter in _BUILTIN and letter:
            self._at += 1
            return _BUILTIN[letter]
        name, is_template = self._name()
        if is_template and not (self._parts and self._parts[-1] == name):
            self._keep(name)
        return name


def signature_of(name: str) -> str | None:
    """The parameters that a mangled name tells, as ``const float * p0, int p1``; None where it tells none."""
    if not name.startswith("_Z") or len(name) > _MOST_CHARACTERS:
        return None
    try:
        text = _Reader(name[2:]).signature()
    except (_UnreadableError, RecursionError):
        return None
    return re.sub(r"\b(?:\w+::)+complex<", "complex<", text).replace("* const", "*")


# The pieces of device code that a module is linked with: further sources, and files of compiled code.

SOURCE = "source"
_KINDS = {
    ".cubin": "CUBIN", ".ptx": "PTX", ".fatbin": "FATBIN", ".o": "OBJECT", ".obj": "OBJECT", ".a": "LIBRARY",
    ".lib": "LIBRARY", ".ltoir": "LTOIR",
}  # fmt: skip
"""nvJitLink's names of what a file holds, by the file's ending."""
SOURCES = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h"})
"""The endings of files of source."""


class Piece(NamedTuple):
    """Device code that a module is linked with."""

    name: str
    kind: str
    """`SOURCE`, or a name of nvJitLink's."""
    content: str | bytes

    def bytes(self) -> bytes:
        return self.content.encode() if isinstance(self.content, str) else self.content


_SURROGATE = re.compile("[\ud800-\udfff]")


def is_text(given: Any) -> TypeGuard[str]:
    """Whether it is a string that a compiler can be given: without NUL, and without half of a pair of surrogates."""
    return isinstance(given, str) and "\0" not in given and _SURROGATE.search(given) is None


def decode(content: bytes, path: str) -> str:
    """The source in a file.

    Raises:
        KernelSyntaxError: It is not UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise KernelSyntaxError(
            f"raw_module: {path!r} is not UTF-8, at byte {error.start} ({content[error.start]:#04x}); save it as UTF-8"
        ) from None


def is_relocatable(option: str) -> bool:
    """Whether an option makes the compiler leave calls between pieces to a linker."""
    return option.replace(" ", "") in ("--device-c", "-dc", "--relocatable-device-code=true", "-rdc=true")


def read_pieces(given: Any) -> tuple[Piece, ...]:
    """The pieces that a module is linked with; files are read now."""
    if not isinstance(given, (list, tuple)):
        raise ArgumentError(
            f"raw_module: link={quote(given)} is not a list; give link=(source, pathlib.Path('part.cubin'))"
        )
    found = []
    for number, each in enumerate(given):
        if is_text(each):
            found.append(Piece(f"link[{number}]", SOURCE, each))
            continue
        suffix = Path(each).suffix.lower() if isinstance(each, os.PathLike) else ""
        kind = SOURCE if suffix in SOURCES else _KINDS.get(suffix)
        if kind is None:
            raise ArgumentError(
                f"raw_module: link[{number}]={quote(each)} is neither source nor the path of device code; give "
                f"a string, or a pathlib.Path that ends with one of {', '.join(sorted({*SOURCES, *_KINDS}))}"
            )
        content = Path(each).read_bytes()
        found.append(Piece(Path(each).name, kind, decode(content, str(each)) if kind == SOURCE else content))
    return tuple(found)


# The compiler's options.


def option_macros(options: Sequence[str]) -> dict[str, str]:
    """The macros that a compiler's options define."""
    found: dict[str, str] = {}
    for each in options:
        match = _OPTION.match(each)
        if match is not None:
            found.pop(match["name"], None)
            if match["gone"] is None:
                found[match["name"]] = match["text"] or "1"
    return found


_OPTION = re.compile(
    r"(?:-D\s*|--define-macro=|(?P<gone>-U\s*|--undefine-macro=))(?P<name>[A-Za-z_]\w*)(?:=(?P<text>.*))?\Z", re.DOTALL
)
_FAST = frozenset({"--use_fast_math", "-use_fast_math"})
_DEFINE = ("-D", "--define-macro=")
_WITHOUT_EFFECT = ("--std=", "-std=", "-w", "--device-debug", "-G", "--generate-line-info", "-lineinfo")


class CompilerOptions(NamedTuple):
    """The options, the macros of them that replace words of the texts, and ``math``."""

    options: tuple[str, ...]
    macros: dict[str, str]
    math: str

    def apply(self, text: Any) -> Any:
        """A list of parameters with its macros replaced; anything else as it is."""
        return preprocess(text, macros=self.macros)[0] if self.macros and isinstance(text, str) else text


def read(options: Sequence[str], math: str) -> CompilerOptions:
    """The meaning of some options.

    Raises:
        KernelSyntaxError: One that no backend without a CUDA compiler could follow.
    """
    is_list = isinstance(options, Sequence) and not isinstance(options, str)
    if not is_list or not all(isinstance(each, str) for each in options):
        raise KernelSyntaxError(f"options={quote(options)} is not a list of strings; give options=('-DSCALE=2',)")
    for each in options:
        if each in _FAST:
            math = "fast"
        elif not each.startswith((*_DEFINE, *_WITHOUT_EFFECT)):
            raise KernelSyntaxError(
                f"options: {quote(each)} is for a CUDA compiler alone, and a kernel means the same on every backend; "
                "give -DNAME=VALUE or --use_fast_math, or take raw_module"
            )
    return CompilerOptions(tuple(options), option_macros(options), math)


# The source as the compiler reads it.

_INCLUDING = ("--pre-include", "-include")
_WORDS = parse_options({"__align__": "alignas", "__restrict": "", "mutable": ""})
"""The words that the parser knows by another name, or that do not matter."""


@dataclass(slots=True)
class _CompilersPreprocessor(Preprocessor):
    """Reads the lines that NVRTC reads.

    A condition that only the compiler can decide leaves the lines of all its branches, and the macros that they define
    in their place.
    """

    has_headers: bool = False
    """Whether any name may be defined by text that is not read here."""
    is_decided: bool = True
    """Whether each condition was decided here."""
    _unclear: set[str] = field(default_factory=set)
    """Names that a branch defines, or not, which the compiler may read."""

    def run(self) -> list[Token]:
        return self._read()

    def _fail(self, line: list[Token], message: str) -> None:
        self.is_decided = False

    def _carry_out(self, line: list[Token], name: str, rest: list[Token]) -> None:
        if name == "include":
            self.has_headers |= not rest or rest[0].text != "<"
        elif name in ("define", "undef") and rest and rest[0].kind == "name":
            word = rest[0].text
            self.macros.pop(word, None)
            (self._unclear.discard if self._is_sure else self._unclear.add)(word)
            if name == "define" and self._is_sure:
                with contextlib.suppress(KernelSyntaxError):
                    self.macros[word] = self._macro(rest)

    def _is_defined(self, name: str) -> bool | None:
        if name in self._unclear:
            return None
        found = Preprocessor._is_defined(self, name)
        return None if found is False and self.has_headers else found

    def _expand(self, given: Sequence[Token]) -> list[Token]:
        try:
            return Preprocessor._expand(self, given)
        except (KernelSyntaxError, RecursionError):  # no use of the macro, or more than is worth it: the compiler's
            self.is_decided = False
            return list(given)


def preprocess(text: str, options: Sequence[str] = (), macros: Mapping[str, str] | None = None) -> tuple[str, bool]:
    """The text that the compiler reads, and whether each condition was decided here.

    Args:
        text: CUDA C++.
        options: The compiler's; others than those that define macros do not matter.
        macros: Further ones.
    """
    defined = {**_WORDS, **parse_options({**option_macros(options), **(macros or {})})}
    has_headers = any(each.startswith(_INCLUDING) for each in options)
    reader = _CompilersPreprocessor(SourceText(text, "source"), defined, has_headers=has_headers)
    found = reader.run()
    pieces = [each.text if is_operators_bracket(found, n) else f"{each.text} " for n, each in enumerate(found)]
    return "".join(pieces).rstrip(), reader.is_decided


# The syntax tree of a source.

_MOST_DEPTH = 16
_OUTER = frozenset({
    "translation_unit", "linkage_specification", "declaration_list", "namespace_definition", "template_declaration",
    "function_definition", "compound_statement", "declaration", "type_definition", "struct_specifier",
    "class_specifier", "field_declaration_list", "field_declaration", "ERROR",
})  # fmt: skip
"""The nodes within which declarations stand."""
_NAMES = frozenset({"identifier", "field_identifier", "type_identifier", "operator_name", "destructor_name"})
_OF_THE_TYPE = frozenset({
    "access_specifier", "alias_declaration", "friend_declaration", "static_assert_declaration", "template_declaration",
    "type_definition", "using_declaration",
})  # fmt: skip
"""Declarations within a struct that take no room in it."""


def _tree(text: str) -> Any:
    return parser().parse(text.encode(errors="replace")).root_node  # a lone surrogate is a syntax error


def _text(node: Any) -> str:
    return str(node.text.decode())


def _declarations(root: Any) -> Iterator[Any]:
    """The nodes of declarations in the order of the source, those within others behind them."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if node.type in _OUTER:
            waiting += reversed(node.named_children)


class _Declarator(NamedTuple):
    """A declared name, and what stands around it."""

    name: str
    pointers: int
    extents: tuple[str, ...]
    params: Any
    """The node of a function's parameters."""
    is_plain: bool
    """Whether a pointer, an array or a function is all that stands around it."""


def _declarator(node: Any) -> _Declarator:
    pointers, extents, params, is_plain = 0, list[str](), None, True
    while node is not None and node.type not in _NAMES:
        if node.type == "array_declarator":
            size = node.child_by_field_name("size")
            extents.insert(0, "" if size is None else _text(size).strip("() "))
        elif node.type == "function_declarator" and params is None:
            params = node.child_by_field_name("parameters")
        elif node.type == "pointer_declarator" and params is None:
            pointers += 1
        elif node.type not in ("init_declarator", "qualified_identifier"):
            is_plain = False
        inner = node.child_by_field_name("declarator") or node.child_by_field_name("name")
        node = inner if inner is not None else next(iter(node.named_children[-1:]), None)
    is_plain = is_plain and node is not None
    return _Declarator("" if node is None else _text(node), pointers, tuple(extents), params, is_plain)


def _declarators(node: Any) -> list[_Declarator]:
    return [_declarator(each) for each in node.children_by_field_name("declarator")]


def _words(node: Any) -> set[str]:
    """The words of a declaration beside its type and what it declares."""
    return {_text(each) for n, each in enumerate(node.children) if node.field_name_for_child(n) is None}


def _arguments(node: Any) -> list[str]:
    """The arguments of a template's instance."""
    return [_text(each) for each in node.child_by_field_name("arguments").named_children]


def _has_body(node: Any) -> bool:
    return node.child_by_field_name("body") is not None


def _template_of(node: Any) -> Any:
    """The parameters of the template that a declaration is; None of another one."""
    is_template = node.parent is not None and node.parent.type == "template_declaration"
    return node.parent.child_by_field_name("parameters") if is_template else None


def _bind_types(params: Any, given: Sequence[str]) -> dict[str, str] | None:
    """The meaning of each parameter of a template in an instance; None where an argument is missing."""
    values: dict[str, str] = {}
    for number, each in enumerate(params.named_children):
        if each.type.startswith(("variadic", "template")):
            return None
        default = each.child_by_field_name("default_type") or each.child_by_field_name("default_value")
        name = each.child_by_field_name("name") or each.child_by_field_name("declarator")
        if name is None and default is None:
            name = each.named_children[-1] if each.named_children else None
        value = given[number] if number < len(given) else None
        if value is None and default is not None:
            value, _ = preprocess(_text(default), macros=values)
        if value is None:
            return None
        if name is not None:
            values[_text(name)] = value
    return values


def compact(words: str) -> str:
    """A type's name without the blanks around brackets, by which two spellings of a template's instance differ."""
    return re.sub(r"\s*([<>,*&]|::)\s*", r"\1", words)


# The types that are passed by value.

_MOST_ALIGNMENT = 16
_COMPLEX: dict[str, DType] = {
    "cuFloatComplex": COMPLEX64, "cuComplex": COMPLEX64, "cuDoubleComplex": COMPLEX128, "complex<float>": COMPLEX64,
    "complex<double>": COMPLEX128,
}  # fmt: skip
_HANDLES: dict[str, DType] = {"cudaTextureObject_t": UINT64, "cudaSurfaceObject_t": UINT64}
_DECLARED = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*(?:<[\w:<>, ]+>)?\Z")


class CType(NamedTuple):
    """A type that is passed by value."""

    dtype: DType
    alignment: int


_ADDRESS = CType(np.dtype("u8"), 8)


def _vector(part: DType, count: int) -> CType:
    dtype = np.dtype([(name, part) for name in "xyzw"[:count]])
    base = part.itemsize
    return CType(dtype, base if count in (1, 3) else min(count * base, _MOST_ALIGNMENT))


VECTORS = {f"{name}{count}": _vector(part, count) for name, part in VECTOR_PARTS.items() for count in (1, 2, 3, 4)}
VECTORS["dim3"] = VECTORS["uint3"]
"""CUDA's built-in vector types: alignments are those of ``vector_types.h``."""


class CudaSource:
    """The declarations of a source.

    Args:
        text: CUDA C++.
        options: The compiler's.
        declared: Structs by name, as NumPy has them, which stand before those that the source shows.
    """

    def __init__(
        self, text: str = "", options: Sequence[str] = (), declared: Mapping[str, DType] = MappingProxyType({})
    ) -> None:
        self._text, self._is_decided = preprocess(text, options)
        self._types = {compact(name): CType(dtype, dtype.alignment) for name, dtype in declared.items()}
        self._aliases: dict[str, Any] = {}
        self._structs: dict[str, Any] = {}
        self._variables: dict[str, tuple[Any, _Declarator]] = {}
        self._kernels: list[tuple[str, Any, Any]] = []
        """Each with the parameters of its template, and its own."""
        meanings: dict[str, set[str]] = {}
        for node in _declarations(_tree(self._text)):
            for name in self._note(node):
                meanings.setdefault(name, set()).add(_text(node).removesuffix(f"{name} ;"))
        if not self._is_decided:  # a name with two meanings has none
            for name in (name for name, found in meanings.items() if len(found) > 1):
                self._aliases.pop(name, None)
                self._structs.pop(name, None)

    def _note(self, node: Any) -> list[str]:
        """Note what a node declares; returns the names of types that it gives a meaning."""
        kind, name = node.child_by_field_name("type"), node.child_by_field_name("name")
        names: list[str] = []
        if node.type in ("function_definition", "declaration"):
            self._note_objects(node, kind)
        elif node.type == "type_definition":
            names = [each.name for each in _declarators(node) if each[1:] == (0, (), None, True)]
        elif node.type == "alias_declaration" and _template_of(node) is None and kind.child_count == 1:
            names, kind = [_text(name)], kind.child_by_field_name("type")
        elif node.type in ("struct_specifier", "enum_specifier") and name is not None and _has_body(node):
            names, kind = [_text(name)], node
        for each in names:
            table = self._structs if kind.type == "struct_specifier" and _has_body(kind) else self._aliases
            table.setdefault(each, kind)
        return names

    def _note_objects(self, node: Any, kind: Any) -> None:
        """Note the kernels and variables of a declaration."""
        words = _words(node)
        for each in _declarators(node):
            if "__global__" in words and each.params is not None:
                self._kernels.append((each.name, _template_of(node), each.params))
            elif words & {"__device__", "__constant__", "__managed__"} and each.params is None:
                self._variables.setdefault(each.name, (kind, each))

    # --- kernels and variables
    def find_signature(self, kernel: str) -> str | None:
        """The parameter list of ``__global__`` function ``kernel``; None where the source does not show it.

        Args:
            kernel: Its name; of a template with the arguments of an instance.
        """
        node = _tree(f"{kernel} x ;")
        node = node.children[0].child_by_field_name("type") if node.children else None
        while node is not None and node.type == "qualified_identifier":
            node = node.child_by_field_name("name")
        if node is None or node.type not in ("type_identifier", "template_type"):
            return None
        is_instance = node.type == "template_type"
        wanted = _text(node.child_by_field_name("name") if is_instance else node)
        found: list[str] = []
        for name, template, params in self._kernels:
            if name == wanted and (template is not None) == is_instance:
                values = _bind_types(template, _arguments(node)) if is_instance else {}
                if values is not None:
                    found.append(preprocess(_text(params)[1:-1], macros=values)[0])
        return found[0] if found and (self._is_decided or len(set(found)) == 1) else None

    def kernel_names(self, without: str) -> list[str]:
        """The names of the ``__global__`` functions; none if the source has the word ``without``, or hides others."""
        word = without.partition("<")[0].strip().rpartition("::")[2]
        return [name for name, *_ in self._kernels] if self._is_decided and word not in self._text.split() else []

    def variable(self, name: str) -> tuple[CType | None, tuple[int | None, ...]] | None:
        """Type and extents of a ``__device__`` or ``__constant__`` variable; None for an extent that is unknown."""
        known = self._variables.get(name.lstrip("&").rpartition("::")[2])
        if known is None or known[1].pointers or not known[1].is_plain:
            return None
        kind, found = known
        return self.find(kind), tuple(int(each) if each.isdigit() else None for each in found.extents)

    # --- types
    def find(self, node: Any, depth: int = 0) -> CType | None:
        """The type that a node names; None for one that cannot be passed by value, or is not known."""
        if node is None or depth > _MOST_DEPTH:
            return None
        if node.type == "enum_specifier" and _has_body(node):
            base = node.child_by_field_name("base")
            return CType(INT32, 4) if base is None else self.find(base, depth + 1)
        if node.type in ("struct_specifier", "enum_specifier"):
            node = node.child_by_field_name("name")
        name = compact(_text(node))
        if name in self._types:
            return self._types[name]
        struct = self._structs.get(name)
        if struct is not None and _template_of(struct) is None:
            return self._struct(struct, depth)
        dtype = C_TYPES.get(number_type(name.split()) or name) or _COMPLEX.get(name) or _HANDLES.get(name)
        dtype = dtype or _find_small_float(name)
        if dtype is not None:
            return CType(dtype, dtype.itemsize)
        if name in VECTORS:
            return VECTORS[name]
        if name in self._aliases:
            return self.find(self._aliases[name], depth + 1)
        if node.type == "qualified_identifier":
            return self.find(node.child_by_field_name("name"), depth + 1)
        if node.type != "template_type":
            return None
        struct = self._structs.get(_text(node.child_by_field_name("name")))
        template = None if struct is None else _template_of(struct)
        values = None if template is None else _bind_types(template, _arguments(node))
        if values is None:
            return None
        text, _ = preprocess(_text(struct), macros=values)
        made = [each for each in _declarations(_tree(f"{text} ;")) if each.type == "struct_specifier"]
        return self._struct(made[0], depth) if made else None

    def _struct(self, node: Any, depth: int) -> CType | None:
        """The dtype of plain members, at C's offsets; None where one of them is anything else."""
        if node.has_error or any(each.type == "base_class_clause" for each in node.children):
            return None
        names: list[str] = []
        formats: list[Any] = []
        offsets: list[int] = []
        aligned = [_text(each.named_children[0]) for each in node.children if each.type == "alignas_qualifier"]
        if not all(each.isdigit() for each in aligned):
            return None
        end, alignment = 0, max((1, *map(int, aligned)))
        for each in node.child_by_field_name("body").named_children:
            members = self._members(each, node, depth)
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

    def _members(self, node: Any, struct: Any, depth: int) -> list[tuple[str, CType, tuple[int, ...]]] | None:
        """The members that a declaration within a struct adds to it; None where that is not plain."""
        words, kind, found = _words(node), node.child_by_field_name("type"), _declarators(node)
        if node.type in _OF_THE_TYPE or words & {"static", "friend"}:
            return []
        if "virtual" in words:
            return None
        if node.type in ("function_definition", "declaration"):  # which without a type is a constructor
            name = struct.child_by_field_name("name")
            own = {"" if name is None else _text(name)}
            is_function = kind is not None or all(each.name.lstrip("~ ") in own for each in found)
            return [] if is_function and all(each.params is not None for each in found) else None
        if node.type != "field_declaration" or any(each.type == "bitfield_clause" for each in node.children):
            return None
        if any("(" in each for each in words):  # an attribute, or an alignment of its own
            return None
        if _has_body(kind):
            is_type = kind.type == "enum_specifier" or kind.child_by_field_name("name") is not None
            return [] if is_type and not found else None
        members = []
        for each in found:
            if not each.is_plain or not all(extent.isdigit() for extent in each.extents):
                return None
            if each.params is None:
                of = _ADDRESS if each.pointers else self.find(kind, depth + 1)
                if of is None:
                    return None
                members.append((each.name, of, tuple(map(int, each.extents))))
        return members if found else None


def whole_shape(extents: Sequence[int | None], count: int) -> tuple[int, ...] | None:
    """The extents of ``count`` elements, of which one may be unknown; None where they do not fit, or more are."""
    known = math.prod(each for each in extents if each is not None)
    unknown = sum(each is None for each in extents)
    if not known or count % known or unknown > 1 or (not unknown and count != known):
        return None
    return tuple(count // known if each is None else each for each in extents)


def check_types(types: Any) -> dict[str, DType]:
    """The types that a module's user declares, by name.

    Raises:
        KernelSyntaxError: A name is no identifier, or a type no dtype of fixed size without Python objects.
    """
    found: dict[str, DType] = {}
    if types is not None and not isinstance(types, Mapping):
        raise KernelSyntaxError(
            f"types: {quote(types)} is not a dict; give NumPy dtypes by the names that they have in C"
        )
    for name, given in (types or {}).items():
        dtype: DType = np.dtype(object)
        with contextlib.suppress(TypeError, ValueError):
            dtype = np.dtype(given)
        if not isinstance(name, str) or not _DECLARED.match(name) or dtype.hasobject or not dtype.itemsize:
            raise KernelSyntaxError(
                f"types: {quote(name)} must be a C name with a NumPy dtype of its bytes, such as "
                "numpy.dtype([('x', 'f4'), ('n', 'i4')], align=True)"
            )
        found[name] = dtype
    return found


# The parameters of a raw kernel, declared in C by its source or its user.

_MOST_SHOWN = 512


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
        return not self.is_pointer and self.dtype is not None and self.dtype.kind == "V" and is_numpys(self.dtype)

    @property
    def nbytes(self) -> int:
        """Of the argument of a launch."""
        return 8 if self.is_pointer or self.dtype is None else self.dtype.itemsize


def parse_signature(text: str, kernel: str, source: CudaSource | None = None) -> list[RawParameter]:
    """The parameters of ``const float *x, int n``.

    Args:
        text: They.
        kernel: The kernel's name, for messages.
        source: That declares types.

    Raises:
        KernelSyntaxError: One cannot be read, or is passed by value in a type that is not known.
    """
    check_length(text, f"the signature of kernel {kernel!r}")
    source = CudaSource() if source is None else source
    plain, _ = preprocess(on_one_line(text))
    if plain in ("", "void"):
        return []
    root = _tree(f"void kernel ( {plain} ) ;")
    found = _declarators(root.children[0]) if root.child_count == 1 else []
    if root.child_count != 1 or len(found) != 1 or found[0].params is None or found[0].name != "kernel":
        raise _unreadable(text, kernel)
    given = found[0].params.named_children
    if root.has_error and not any(each.has_error for each in given):
        raise _unreadable(text, kernel)
    return [_parse_parameter(each, kernel, source) for each in given]


def _unreadable(text: str, kernel: str) -> KernelSyntaxError:
    return KernelSyntaxError(
        f"kernel {kernel!r}: parameter {text[:_MOST_SHOWN]!r} cannot be read; give signature='const float *x, int n'"
    )


def _find_small_float(name: str) -> np.dtype[Any] | None:
    """The dtype of bfloat16 or float8 by its name in C; None of another type, or where ml_dtypes is not installed."""
    try:
        return find_dtype(SMALL_TYPES[name]) if name in SMALL_TYPES else None
    except UnsupportedDTypeError:
        return None


def _parse_parameter(node: Any, kernel: str, source: CudaSource) -> RawParameter:
    kind, declarator = node.child_by_field_name("type"), node.child_by_field_name("declarator")
    declared = None if declarator is None else _declarator(declarator)
    if node.has_error or kind is None or declared is None or not declared.is_plain or declared.params is not None:
        raise _unreadable(_text(node), kernel)
    found = source.find(kind)
    dtype = found.dtype if found is not None else None
    is_pointer = bool(declared.pointers or declared.extents)
    if is_pointer and dtype is not None and (dtype.kind == "V" or not is_numpys(dtype) or declared.pointers > 1):
        dtype = None  # no array has elements with fields, nor pointers; integers may hold the bits of small floats
    if not is_pointer and dtype is None:
        words = compact(_text(kind))
        raise KernelSyntaxError(
            f"kernel {kernel!r}: parameter {declared.name!r} of type {words!r} cannot be passed by value; "
            f"use a number type or a pointer, or declare it: raw_module(..., types={{{words!r}: dtype}})"
        )
    return RawParameter(declared.name, dtype, is_pointer=is_pointer, is_const="const" in _words(node))
