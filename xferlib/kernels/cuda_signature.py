"""The lines of CUDA source that a compiler would see: conditions decided, and macros replaced.

Parameters are read without a compiler. A condition that only the compiler can decide, by a header of the user's or by
the GPU, leaves the lines of all its branches, and the macros that they define in their place.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xferlib.errors import ArgumentError, KernelSyntaxError, shown
from xferlib.kernels.c_frontend.preprocess import check_length, condition_value
from xferlib.kernels.functions import C_TYPES, VECTOR_PARTS
from xferlib.kernels.ir import COMPLEX64, COMPLEX128, DType
from xferlib.kernels.signature import COMMENT, CONTINUATION, plain_types, without_comments

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

    def _kept(self, part: str) -> str:
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
                self._kept(name)
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
                self._kept(name)
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
            return self._kept(f"{inner}{' ' if not inner.endswith('*') else ''}{_POINTERS[letter]}")
        if letter in _QUALIFIERS and letter:
            self._at += 1
            inner = self._type()
            return self._kept(f"{inner} const" if inner.endswith("*") else f"{_QUALIFIERS[letter]}{inner}")
        if self._take("T"):
            return self._kept(self._reference(self._arguments, letter="T"))
        if self._take("Dh"):
            return "half"
        if letter == "S" and not self._text.startswith("St", self._at):
            self._at += 1
            found = self._reference(self._parts, letter="S")
            return self._kept(self._instance(found, is_function=False)[0]) if self._peek() == "I" else found
        if letter in _BUILTIN and letter:
            self._at += 1
            return _BUILTIN[letter]
        name, is_template = self._name()
        if is_template and not (self._parts and self._parts[-1] == name):
            self._kept(name)
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


def is_relocatable(option: str) -> bool:
    """Whether an option makes the compiler leave calls between pieces to a linker."""
    return option.replace(" ", "") in ("--device-c", "-dc", "--relocatable-device-code=true", "-rdc=true")


def read_piece(given: Any) -> tuple[Piece, ...]:
    """The pieces that a module is linked with; files are read now."""
    if not isinstance(given, (list, tuple)):
        raise ArgumentError(
            f"raw_module: link={shown(given)} is no list; give link=(source, pathlib.Path('part.cubin'))"
        )
    found = []
    for number, each in enumerate(given):
        if isinstance(each, str) and "\0" not in each:
            found.append(Piece(f"link[{number}]", SOURCE, each))
            continue
        suffix = Path(each).suffix.lower() if isinstance(each, os.PathLike) else ""
        kind = SOURCE if suffix in SOURCES else _KINDS.get(suffix)
        if kind is None:
            raise ArgumentError(
                f"raw_module: link[{number}]={shown(each)} is neither source nor the path of device code; give "
                f"a string, or a pathlib.Path that ends with one of {', '.join(sorted({*SOURCES, *_KINDS}))}"
            )
        content = Path(each).read_bytes()
        found.append(Piece(Path(each).name, kind, content.decode() if kind == SOURCE else content))
    return tuple(found)


_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)[ \t]*(.*)\Z", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*))")
_OPTION = re.compile(r"(?:-D\s*|--define-macro=)([A-Za-z_]\w*)(?:=(.*))?\Z", re.DOTALL)
_OPTION_UNDEFINES = re.compile(r"(?:-U\s*|--undefine-macro=)([A-Za-z_]\w*)\Z")
_OPTION_INCLUDES = ("--pre-include", "-include")
_COMPILERS_OWN = re.compile(
    r"__(?:CUDA|NV|GNUC|clang|x86|aarch|amd|arm|linux|unix|LP64|SIZEOF|BYTE_ORDER|cpp_|has_|STDC|DATE|TIME|FILE|LINE)"
    r"|_(?:MSC|WIN|GLIBC|OPENMP|LIBCPP|LP64)"
)
"""Names that a compiler defines, or not."""
_COMPILERS = {"__CUDACC__": "1", "__CUDACC_RTC__": "1", "__CUDA_ARCH__": None, "__cplusplus": None}
"""Macros of NVRTC; None for a value that depends on the call."""
_MOST_DEPTH = 16
_MOST_PREPROCESSED_CHARACTERS = 65536


class Preprocessed(NamedTuple):
    """Source without directives, each line in its place."""

    text: str
    is_decided: bool
    """Whether each condition was decided here."""


def option_macros(options: Sequence[str]) -> dict[str, str]:
    """The macros that a compiler's options define."""
    found: dict[str, str] = {}
    for each in options:
        if (match := _OPTION.match(each)) is not None:
            found[match[1]] = match[2] or "1"
        elif (gone := _OPTION_UNDEFINES.match(each)) is not None:
            found.pop(gone[1], None)
    return found


def expanded(text: str, values: dict[str, str]) -> str:
    """A text with its macros replaced by what they stand for."""
    if not values:
        return text
    for _ in range(_MOST_DEPTH):
        further = _NAME_ALONE.sub(lambda word: values.get(word[0], word[0]), text)
        if further == text or len(further) > _MOST_PREPROCESSED_CHARACTERS:
            break
        text = further
    return text


_NAME_ALONE = re.compile(r"\b[A-Za-z_]\w*\b")


def preprocessed(source: str, options: Sequence[str]) -> Preprocessed:
    """Give the lines of a source that the compiler reads with some options.

    Args:
        source: With continued lines joined, and without comments.
        options: The compiler's; others than those that define macros do not matter.
    """
    reader = _LineReader(options)
    return Preprocessed("\n".join(map(reader.line, source.split("\n"))), reader.is_decided)


class _Condition:
    """An ``#if`` and its branches."""

    __slots__ = ("is_over", "is_read", "is_sure", "was_read")

    def __init__(self, *, was_read: bool, is_sure: bool) -> None:
        self.was_read = was_read
        """Whether the lines around it are read."""
        self.is_over = False
        """Whether no later branch is read."""
        self.is_read = False
        self.is_sure = is_sure
        """Whether the compiler reads this branch, too, if it is read here."""

    def branch(self, holds: bool | None) -> None:
        """Begin a branch; its condition, None where it is not known."""
        self.is_read = self.was_read and not self.is_over and holds is not False
        self.is_over |= holds is True
        self.is_sure &= holds is not None


class _LineReader:
    """Reads a source line by line, and knows the macros at each."""

    def __init__(self, options: Sequence[str]) -> None:
        self.is_decided = True
        self._macros = {name: Macro(value, None) for name, value in option_macros(options).items()}
        self._unclear: set[str] = set()
        """Names that a branch defines, or not, which the compiler may read."""
        self._has_headers = any(each.startswith(_OPTION_INCLUDES) for each in options)
        """Whether any name may be defined by text that is not read here."""
        self._open: list[_Condition] = []
        self._work = Expansion()

    def line(self, text: str) -> str:
        """The text that is left of a line."""
        if not self.is_read(text) or _DIRECTIVE.match(text) is not None:
            return ""
        return self._replaced(text, self._macros) or text

    def _replaced(self, text: str, macros: Macros) -> str | None:
        """The text with its macros replaced; None where that is more work than is worth it, and the compiler's."""
        try:
            return replaced(text, macros, self._work)
        except (TooLongError, RecursionError):
            self.is_decided = False
            return None

    def is_read(self, text: str) -> bool:
        """Whether the compiler reads a line, conditions aside; a directive is carried out."""
        match = _DIRECTIVE.match(text)
        is_read = not self._open or self._open[-1].is_read
        is_sure = not self._open or self._open[-1].is_sure
        if match is None:
            return is_read
        word, rest = match[1], match[2].strip()
        if word in ("if", "ifdef", "ifndef"):
            self._open.append(_Condition(was_read=is_read, is_sure=is_sure))
            self._branch(word, rest)
            return False
        if word in ("elif", "else", "elifdef", "elifndef", "endif") and self._open:
            if word == "endif":
                self._open.pop()
            else:
                self._branch(word, rest)
            return False
        if is_read:
            (self._define if is_sure else self._doubt)(word, rest)
        return is_read

    def _branch(self, word: str, rest: str) -> None:
        found = self._open[-1]
        if not found.was_read or found.is_over:  # a compiler does not look at the condition, either
            found.branch(holds=False)
            return
        holds = True if word == "else" else self._holds(word, rest)
        self.is_decided &= holds is not None
        found.branch(holds)

    def _holds(self, word: str, rest: str) -> bool | None:
        if not word.endswith("def"):
            value = self._value(rest)
            return None if value is None else bool(value)
        name = _NAME.match(rest)
        is_defined = None if name is None else self._is_defined(name[0])
        return is_defined if is_defined is None else is_defined != word.endswith("ndef")

    def _define(self, word: str, rest: str) -> None:
        """Read a directive that is no condition."""
        found = defined(rest) if word == "define" else None
        gone = _NAME.match(rest) if word == "undef" else None
        if found is not None:
            self._macros[found[0]] = found[1]
            self._unclear.discard(found[0])
        elif gone is not None:
            self._macros.pop(gone[0], None)
            self._unclear.discard(gone[0])
        elif word == "include" and not rest.startswith("<"):
            self._has_headers = True

    def _doubt(self, word: str, rest: str) -> None:
        """Read a directive that the compiler may not read."""
        if word in ("define", "undef") and (match := _NAME.match(rest)) is not None:
            self._macros.pop(match[0], None)
            self._unclear.add(match[0])
        elif word == "include" and not rest.startswith("<"):
            self._has_headers = True

    def _is_defined(self, name: str) -> bool | None:
        if name in self._unclear:
            return None
        if name in self._macros or name in _COMPILERS:
            return True
        return None if self._has_headers or _COMPILERS_OWN.match(name) else False

    def _value(self, text: str) -> int | None:
        """The value of a condition; None where it is not known."""
        asked = _DEFINED.sub(lambda found: _TRUTH[self._is_defined(found[1] or found[2])], text)
        constants = {name: Macro(value, None) for name, value in _COMPILERS.items() if value is not None}
        plain = self._replaced(asked, {**constants, **self._macros})
        return None if plain is None else condition_value(plain, self._named)

    def _named(self, name: str) -> int | None:
        """The value of a name that is no macro."""
        return 0 if name != "__unknown" and self._is_defined(name) is False else None


_TRUTH = {True: " 1 ", False: " 0 ", None: " __unknown "}


# --- macros, in text

_DEFINITION = re.compile(r"[ \t]*(?P<name>[A-Za-z_]\w*)(?:\((?P<parameters>[^()]*)\))?(?P<body>.*)\Z", re.DOTALL)
_PASTED = re.compile(r"\s*##\s*")
_WORD = re.compile(r"(#?)(#\s*)?\b([A-Za-z_]\w*)\b(?=(\s*##)?)")
_OTHERS = "__VA_ARGS__"
_USE = 300
"""The work of one use of a macro, in characters."""
MOST_REPLACING = 2_500_000
"""Limit of the work on one text."""


class TooLongError(Exception):
    """Macros write out more than is read."""


class Expansion:
    """The work of replacing macros in one text: nested ones may double with each, in a few lines.

    It is counted in characters looked at or written, about 1e7 of them a second.
    """

    def __init__(self, most: int = MOST_REPLACING) -> None:
        self._left = most

    def spend(self, characters: int) -> None:
        """Count some work.

        Raises:
            TooLongError: It is too much.
        """
        self._left -= characters
        if self._left < 0:
            raise TooLongError


class Macro(NamedTuple):
    """The text of a macro, and its parameters; None for one without parentheses."""

    body: str
    params: tuple[str, ...] | None


Macros = Mapping[str, Macro]


def defined(text: str) -> tuple[str, Macro] | None:
    """The name and the macro that stand behind ``#define``."""
    match = _DEFINITION.match(text)
    if match is None:
        return None
    if match["parameters"] is None:
        return match["name"], Macro(match["body"].strip(), None)
    named = [each.strip() for each in match["parameters"].split(",") if each.strip()]
    return match["name"], Macro(match["body"].strip(), tuple(_OTHERS if each == "..." else each for each in named))


def replaced(text: str, macros: Macros, work: Expansion | None = None, most: int = 1 << 16) -> str:
    """A text with its macros replaced, and those in what they stand for; a macro that names itself stays there.

    Args:
        text, macros: They.
        work: That of the text of which this one is a part; none counted so far if omitted.
        most: Of the characters that are written.

    Raises:
        TooLongError: The work is too much.
    """
    work = work or Expansion()
    pieces: list[str] = []
    at = length = 0
    while length < most and (found := _use(text, macros, at, work)) is not None:
        name, start, end, written = found
        others = {each: macro for each, macro in macros.items() if each != name}
        pieces += [text[at:start], replaced(written, others, work, most - length)]
        length += len(pieces[-1])
        at = end
    return "".join([*pieces, text[at:]])


def _use(text: str, macros: Macros, at: int, work: Expansion) -> tuple[str, int, int, str] | None:
    if not macros:
        return None
    work.spend(_USE + 10 * len(macros))
    names = "|".join(map(re.escape, sorted(macros, key=len, reverse=True)))
    for match in re.compile(rf"\b(?:{names})\b").finditer(text, at):
        macro = macros[match[0]]
        if macro.params is None:
            work.spend(match.start() - at + len(macro.body))
            return match[0], match.start(), match.end(), macro.body
        found = _arguments(text, match.end())
        work.spend((len(text) if found is None else found[0]) - match.end())
        written = None if found is None else _written(macro.body, macro.params, found[1], macros, work)
        work.spend(len(written or ""))
        if found is not None and written is not None:  # without parentheses the name is no use of the macro
            return match[0], match.start(), found[0], written
    return None


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
            return position + 1, found
    return None


def _written(body: str, params: tuple[str, ...], given: list[str], macros: Macros, work: Expansion) -> str | None:
    """The body with the arguments in the place of the parameters; None for another number of them."""
    if params[-1:] == (_OTHERS,):
        given = [*given[: len(params) - 1], ", ".join(given[len(params) - 1 :])]
    elif not params and given == [""]:
        given = []
    if len(given) != len(params):
        return None
    values = dict(zip(params, given, strict=True))
    return _PASTED.sub("", _WORD.sub(lambda word: _value(word, values, macros, work), body))


def _value(word: re.Match[str], values: Mapping[str, str], macros: Macros, work: Expansion) -> str:
    """The text of an argument: as it stands beside ``#`` and ``##``, else with its own macros replaced."""
    if word[3] not in values:
        return word[0]
    text = values[word[3]]
    if word[1] and not word[2]:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{word[1]}{word[2] or ''}{text if word[2] or word[4] else replaced(text, macros, work)}"


# ``options=`` of element-wise kernels and reductions: those of a compiler that mean something on every backend.

_FAST = frozenset({"--use_fast_math", "-use_fast_math"})
_DEFINE = ("-D", "--define-macro=")
_WITHOUT_EFFECT = ("--std=", "-std=", "-w", "--device-debug", "-G", "--generate-line-info", "-lineinfo")


class CompilerOptions(NamedTuple):
    """The options, the macros of them that replace words of the texts, and ``math``."""

    options: tuple[str, ...]
    macros: dict[str, str]
    math: str

    def applied(self, text: Any) -> Any:
        """A list of parameters with its macros replaced; anything else as it is."""
        return expanded(text, self.macros) if isinstance(text, str) else text


def read(options: Sequence[str], math: str) -> CompilerOptions:
    """The meaning of some options.

    Raises:
        KernelSyntaxError: One that no backend without a CUDA compiler could follow.
    """
    is_list = isinstance(options, Sequence) and not isinstance(options, str)
    if not is_list or not all(isinstance(each, str) for each in options):
        raise KernelSyntaxError(f"options={shown(options)} is no list of strings; give options=('-DSCALE=2',)")
    for each in options:
        if each in _FAST:
            math = "fast"
        elif not each.startswith((*_DEFINE, *_WITHOUT_EFFECT)):
            raise KernelSyntaxError(
                f"options: {shown(each)} is for a CUDA compiler alone, and a kernel means the same on every backend; "
                "give -DNAME=VALUE or --use_fast_math, or take raw_module"
            )
    return CompilerOptions(tuple(options), option_macros(options), math)


# CUDA source as far as parameters need it: continued lines, comments, template instances, variables of the device.

_SOURCE_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_KERNEL = re.compile(r"__global__\b[^;{}()]*?\b(?:__launch_bounds__\s*\([^)]*\)[^;{}()]*?)?\b(\w+)\s*\(")
_MOST_SOURCE_CHARACTERS = 65536


def plain(source: str) -> str:
    """The source with continued lines joined, and blanks for comments."""
    joined = CONTINUATION.sub(" ", source)
    return COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), joined)


def split(text: str) -> list[str]:
    """The pieces of a list between the commas that stand in no brackets."""
    pieces, depth, start = [], 0, 0
    for at, each in enumerate(text):
        if each in "<([{":
            depth += 1
        elif each in ">)]}":
            depth -= 1
        elif each == "," and not depth:
            pieces.append(text[start:at])
            start = at + 1
    return [each.strip() for each in (*pieces, text[start:])]


def find_signature(source: Preprocessed, kernel: str) -> str | None:
    """The parameter list of ``__global__`` function ``kernel``; None where the source does not show it.

    Args:
        source: Of a `plain` one.
        kernel: Its name; of a template with the arguments of an instance.
    """
    name, _, arguments = kernel.partition("<")
    bounds = r"(?:__launch_bounds__\s*\([^)]*\)[^;{}()]*)?"
    pattern = re.compile(rf"__global__\b[^;{{}}()]*{bounds}\b{re.escape(name.strip().rpartition('::')[2])}\s*\(")
    found: list[str] = []
    for match in pattern.finditer(source.text):
        text = _in_brackets(source.text, match.end())
        if text is None:
            continue
        declared = template_before(source.text, match.start())
        if declared is None and not arguments:
            found.append(text)
        if declared is not None and arguments:
            values = instance(declared, arguments.rpartition(">")[0])
            if values is not None:
                found.append(expanded(text, values))
    is_one = source.is_decided or len({" ".join(each.split()) for each in found}) == 1
    return found[0] if found and is_one else None


def kernel_names(source: Preprocessed, without: str) -> list[str]:
    """The names of the ``__global__`` functions; none if the source has the word ``without``, or may have others."""
    if not source.is_decided or without.partition("<")[0].strip().rpartition("::")[2] in _SOURCE_WORD.findall(
        source.text
    ):
        return []
    return _KERNEL.findall(source.text)


def _in_brackets(source: str, start: int) -> str | None:
    """The text up to the bracket that closes the one before ``start``."""
    depth = 1
    for at in range(start, min(len(source), start + _MOST_SOURCE_CHARACTERS)):
        depth += {"(": 1, ")": -1}.get(source[at], 0)
        if not depth:
            return source[start:at]
    return None


def template_before(source: str, end: int) -> str | None:
    """The parameters of the ``template <...>`` that stands directly before ``end``."""
    start = source.rfind("template", 0, end)
    head = source[start:end] if start >= 0 else ""
    match = re.match(r"template\s*<(?P<inside>[^;{}()]*)>[^<>;{}()]*\Z", head)
    return match["inside"] if match is not None else None


def instance(declared: str, arguments: str) -> dict[str, str] | None:
    """The meaning of each parameter of a template in an instance; None where an argument is missing."""
    given = split(arguments)
    values: dict[str, str] = {}
    for number, each in enumerate(split(declared)):
        left, _, default = each.partition("=")
        words = _SOURCE_WORD.findall(left)
        if not words or "..." in left:
            return None
        value = given[number] if number < len(given) else expanded(default.strip(), values)
        if not value:
            return None
        values[words[-1]] = value
    return values


def variable(source: Preprocessed, name: str) -> tuple[str, tuple[int | None, ...]] | None:
    """Type and extents of a ``__device__`` or ``__constant__`` variable; None for an extent that is no number."""
    qualifiers = r"(?:__device__|__constant__|__managed__|extern|static|const|volatile)\s+"
    pattern = rf"(?:__device__|__constant__|__managed__)\s+(?:{qualifiers})*(?P<type>[A-Za-z_][\w\s]*?)\s+"
    own = name.lstrip("&").rpartition("::")[2]
    match = re.search(rf"{pattern}{re.escape(own)}\s*(?P<dims>(?:\[[^\]]*\]\s*)*)(?:=|;|\{{)", source.text)
    if match is None:
        return None
    extents = [each.strip(" ()") for each in re.findall(r"\[([^\]]*)\]", match["dims"])]
    return match["type"], tuple(int(each) if each.isdigit() else None for each in extents)


def whole_shape(extents: Sequence[int | None], count: int) -> tuple[int, ...] | None:
    """The extents of ``count`` elements, of which one may be unknown; None where they do not fit, or more are."""
    known = math.prod(each for each in extents if each is not None)
    unknown = sum(each is None for each in extents)
    if not known or count % known or unknown > 1 or (not unknown and count != known):
        return None
    return tuple(count // known if each is None else each for each in extents)


# The structs of CUDA source, by the lines that declare their members: functions and constants in them take no room.

_ALIGNED = r"(?:__align__|alignas)\s*\(\s*(\d+)\s*\)"
_HEAD = re.compile(rf"\bstruct\b(?P<words>(?:[^;{{}}()]|{_ALIGNED})*)\{{")
_TAIL = re.compile(r"\s*(?P<words>[^;{}()]*);")
_ACCESS = re.compile(r"\b(?:public|private|protected)\s*:(?!:)")
_OF_THE_TYPE = re.compile(r"(?:static|static_assert|typedef|using|friend|template)\b")
"""Declarations that hold for all structs of the type."""
_TYPE_WITHIN = re.compile(r"(?:enum|(?:struct|union|class)\s+\w+)\b")
_FUNCTION = re.compile(r"[\w&*>]\s+[&*]*\w+\s*\((?!\s*\*)|\boperator\b")
_UNREADABLE = re.compile(r"\b(?:virtual|override|__attribute__|__declspec|alignas|__align__)\b")
_STRUCT_WORD = re.compile(r"[A-Za-z_]\w*")
_NO_NAMES = ("alignas", "__align__", "final")


class Struct(NamedTuple):
    """A struct of a source."""

    start: int
    end: int
    names: tuple[str, ...]
    members: tuple[str, ...] | None
    """Lines such as ``float x, y[3]``; None where not all that it has in memory is plain."""
    alignment: int
    """That it asks for, or 1."""


def structs_of(source: str) -> list[Struct]:
    """The structs that a source without comments defines, those within others before them."""
    found = []
    for head in _HEAD.finditer(source):
        end = _closing(source, head.end())
        tail = _TAIL.match(source, end + 1)
        if tail is None:
            continue
        words = head["words"]
        is_derived = ":" in words.replace("::", "")
        own = [name for name in _STRUCT_WORD.findall(words) if name not in _NO_NAMES][-1:]
        members = None if is_derived else _members(source[head.end() : end], *own)
        alignment = max((1, *map(int, re.findall(_ALIGNED, words))))
        found.append(Struct(head.start(), end, (*own, *_STRUCT_WORD.findall(tail["words"])), members, alignment))
    return sorted(found, key=lambda struct: struct.end)


def _members(body: str, name: str = "") -> tuple[str, ...] | None:
    """The lines of the members of a struct; None where one line may be anything else, or it has virtual functions."""
    lines = []
    for head, inner, rest in _declarations(_ACCESS.sub(" ", body), name):
        is_type = inner is not None and re.match(r"(?:struct|union|class|enum)\b", head)
        if _UNREADABLE.search(head) or (is_type and (rest or not _TYPE_WITHIN.match(head))):
            return None
        if is_type or _is_function(head, name) or _OF_THE_TYPE.match(head):
            continue
        if inner is not None and rest:  # more than one member with a value in braces
            return None
        lines.append(re.sub(r"=[^,]*", "", head).strip())
    return tuple(lines)


def _declarations(body: str, name: str) -> Iterator[tuple[str, str | None, str]]:
    """Each declaration: the text before its braces, that within them or None, and that behind them."""
    start = at = 0
    while at < len(body):
        head = body[start:at].strip()
        if body[at] == ";":
            if head:
                yield head, None, ""
            start = at + 1
        elif body[at] == "{":
            close = _closing(body, at + 1)
            after = close
            if not _is_function(head, name):
                after = close + 1 + len(body[close + 1 :].partition(";")[0])
            elif body[close + 1 :].lstrip()[:1] in (",", "{"):  # a value in the list of a constructor
                at = close + 1
                continue
            yield head, body[at + 1 : close], body[close + 1 : after].strip()
            start, at = after + 1, after
        at += 1
    if body[start:].strip():
        yield body[start:].strip(), None, ""


def _is_function(head: str, struct: str) -> bool:
    is_constructor = struct and re.match(rf"(?:\w+\s+)*~?\b{struct}\s*\(", head)
    return bool(is_constructor or _FUNCTION.search(head))


def _closing(text: str, start: int) -> int:
    """The brace that closes the one before ``start``; the end where none does."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return at
    return len(text)


# Types of a raw kernel's parameters beyond numbers: CUDA's vectors, the source's structs and its names for types.

_MOST_ALIGNMENT = 16
_COMPLEX: dict[str, DType] = {"cuFloatComplex": COMPLEX64, "cuComplex": COMPLEX64, "cuDoubleComplex": COMPLEX128}
_TYPE_QUALIFIERS = frozenset({"const", "volatile", "signed", "struct", "enum"})
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
        plain = [word for word in closed_up(words).split() if word not in _TYPE_QUALIFIERS]
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


# The parameters of a raw kernel, declared in C by its source or its user.

_MOST_SIGNATURE_CHARACTERS = 512
_PARAMETER = re.compile(r"(?P<type>[A-Za-z_][\w:<>,\s]*?)\s*(?P<stars>[*&\s]*)(?P<name>[A-Za-z_]\w*)\s*(?:\[\s*\])?\Z")
_SIGNATURE_QUALIFIERS = frozenset(
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
    match = _PARAMETER.match(plain) if len(plain) <= _MOST_SIGNATURE_CHARACTERS else None
    if match is None:
        raise KernelSyntaxError(
            f"kernel {kernel!r}: parameter {piece[:_MOST_SIGNATURE_CHARACTERS]!r} cannot be read; "
            "give signature='const float *x, int n'"
        )
    words = [word for word in match["type"].split() if word not in _SIGNATURE_QUALIFIERS]
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
