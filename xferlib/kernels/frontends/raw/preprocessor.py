"""The lines of CUDA source that a compiler would see: conditions decided, and macros replaced.

Parameters are read without a compiler. A condition that only the compiler can decide, by a header of the user's or by
the GPU, leaves the lines of all its branches, and the macros that they define in their place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xferlib.kernels.c_frontend.preprocess import condition_value

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
