"""The lines of CUDA source that a compiler would see: conditions decided, and macros replaced.

Parameters are read without a compiler. A condition that only the compiler can decide, by a header of the user's or by
the GPU, leaves the lines of all its branches, and the macros that they define in their place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xferlib.errors import KernelSyntaxError
from xferlib.kernels.frontends.cpp.macros import Expansion, Macro, Macros, TooLongError, defined, replaced
from xferlib.kernels.frontends.signature import COMMENT, CONTINUATION

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)[ \t]*(.*)\Z", re.DOTALL)
_LINE = re.compile(r"(?:\\[ \t]*\r?\n|[^\n])*(?:\n|\Z)")
"""A line with those that continue it."""
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
_MOST_CHARACTERS = 65536


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
        if further == text or len(further) > _MOST_CHARACTERS:
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


def decided(source: str, options: Sequence[str]) -> str:
    """Give a text with blanks for its conditions, and for the lines that they leave out.

    Raises:
        KernelSyntaxError: A condition is a GPU's compiler's to decide.
    """
    if "#" not in source:
        return source
    plain = COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    reader, pieces = _LineReader(options), []
    for line in _LINE.finditer(plain):
        is_read = reader.is_read(CONTINUATION.sub(" ", line[0]).rstrip("\r\n"))
        text = source[line.start() : line.end()]
        pieces.append(text if is_read else re.sub(r"[^\n]", " ", text))
        if not reader.is_decided:
            raise KernelSyntaxError(
                f"condition {line[0].strip()!r} is decided by the compiler of a GPU; write the branch that is meant"
            )
    return "".join(pieces)


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
        from pycparser import c_parser

        asked = _DEFINED.sub(lambda found: _TRUTH[self._is_defined(found[1] or found[2])], text)
        constants = {name: Macro(value, None) for name, value in _COMPILERS.items() if value is not None}
        plain = self._replaced(asked, {**constants, **self._macros})
        if plain is None:
            return None
        try:
            tree = c_parser.CParser().parse(f"int x = {plain};")
        except Exception:  # pycparser fails in several ways; the compiler will tell
            return None
        least = 0 if _UNSIGNED.search(plain) else -1 << 63
        return _Evaluation(lambda name: 0 if self._is_defined(name) is False else None, least).value(tree.ext[0].init)


_TRUTH = {True: " 1 ", False: " 0 ", None: " __unknown "}
_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "&": lambda a, b: a & b, "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip
_UNARY: dict[str, Callable[[int], int]] = {
    "+": lambda a: a, "-": lambda a: -a, "!": lambda a: not a, "~": lambda a: ~a
}  # fmt: skip
_MOST_SHIFT = 62
_UNSIGNED = re.compile(r"\b\d\w*[uU]")


class _Evaluation:
    """Gives the value of a parsed expression of integers; None where a part that matters is not known.

    Args:
        value_of: The value of a name that is no macro.
        least: The least value; what is less would count as a large one, or not be held.
    """

    def __init__(self, value_of: Callable[[str], int | None], least: int) -> None:
        self._value_of = value_of
        self._least = least

    def value(self, node: Any) -> int | None:
        found = self._found(node)
        return found if found is not None and self._least <= found < 1 << 63 else None

    def _found(self, node: Any) -> int | None:
        kind = type(node).__name__
        if kind == "Constant" and "int" in node.type:
            digits = node.value.rstrip("uUlL")
            return int(digits, 8) if re.fullmatch(r"0[0-7]+", digits) else int(digits, 0)
        if kind == "ID":
            return {"true": 1, "false": 0}.get(node.name, self._value_of(node.name))
        if kind == "UnaryOp" and node.op in _UNARY:
            value = self.value(node.expr)
            return None if value is None else int(_UNARY[node.op](value))
        if kind == "TernaryOp":
            value = self.value(node.cond)
            return None if value is None else self.value(node.iftrue if value else node.iffalse)
        return self._binary(node) if kind == "BinaryOp" else None

    def _binary(self, node: Any) -> int | None:
        left, right = self.value(node.left), self.value(node.right)
        if node.op in ("&&", "||"):
            decides = node.op == "||"
            if any(each is not None and bool(each) is decides for each in (left, right)):
                return int(decides)
            return None if left is None or right is None else int(not decides)
        if left is None or right is None or node.op not in _BINARY:
            return None
        if (node.op in "/%" and not right) or (node.op in ("<<", ">>") and not 0 <= right <= _MOST_SHIFT):
            return None
        return int(_BINARY[node.op](left, right))
