"""The text of a snippet as the C parser reads it, with a map back to the user's columns.

pycparser reads C99: comments, ``static_cast``, constructor-style conversions and initializers are rewritten first, and
every character remembers where it came from, so that an error points at what the user wrote.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from xferlib.errors import KernelSyntaxError
from xferlib.kernels.frontends.cpp import directives, type_names
from xferlib.kernels.frontends.cpp.macros import NONE, Expansion, Macros, TooLongError, use_behind
from xferlib.kernels.frontends.signature import COMMENT, CONTINUATION, MAX_CHARACTERS, check_length, plain_types
from xferlib.kernels.frontends.source_lines import caret
from xferlib.kernels.ir.types import C_TYPES, VECTOR_PARTS

_STATIC_CAST = re.compile(r"\b(?:static_cast|reinterpret_cast|const_cast)\s*<([^<>]*)>")
_STD = re.compile(r"\b(?:std|thrust|cupy|cuda|type_traits|pycuda)\s*::\s*")
_CHARACTER = re.compile(r"(?<![\w'])'(\\[0-7]{1,3}|\\x[0-9a-fA-F]{1,2}|\\[^\n]|[^'\\\n])'")
_ESCAPES = {"n": 10, "t": 9, "r": 13, "v": 11, "f": 12, "a": 7, "b": 8, "\\": 92, "'": 39, '"': 34, "?": 63}
_LIMITS = re.compile(r"\bnumeric_limits\s*<([^<>]*)>\s*::\s*(\w+)\s*\(\s*\)")
_LIST_INDEX = re.compile(r"\[\s*\{")
_FURTHER_REFERENCE = re.compile(r",\s*&\s*(?=\w+\s*=(?!=))")
"""A reference behind other variables of a declaration; an address is not assigned to."""
_VECTOR = re.compile(rf"\b(?:{'|'.join(VECTOR_PARTS)})[1-4]\b")
AUTO = "xf_auto"
"""The name of the type ``auto`` in the text that is parsed."""
_PYTHON = re.compile(
    r"^\s*(?:for\s+\w+(?:\s*,\s*\w+)*\s+in\b|(?:if|elif|else|while|def)\b[^;{?]*:\s*|.*\blambda\b)", re.MULTILINE
)
NO_VALUE = "xf_none"
"""Stands between the parentheses of ``S()``, which C does not have."""
_KEYWORDS = re.compile(r"\b(?:and|or|not)\b")
_OPERATORS = {"and": "&&", "or": "||", "not": "!"}
_BUILTIN = frozenset(["char", "short", "int", "long", "float", "double", "unsigned", "signed"])

Edit = tuple[int, int, str]


class SnippetText:
    """A snippet as given, and as the parser reads it.

    Args:
        source: The user's text.
        generics: Type letters in force, which are type names too.
        what: ``"operation"``, ``"map_expr"`` or the like, for messages.
        macros: Those of the preamble.
        aliases: The names that the preamble gives to types.
        structs: The names of its structs.
    """

    def __init__(
        self,
        source: str,
        generics: frozenset[str],
        what: str,
        macros: Macros = NONE,
        aliases: Mapping[str, str] = MappingProxyType({}),
        structs: frozenset[str] = frozenset(),
    ) -> None:
        self.source = source
        self.what = what
        self._check_characters()
        self._text, own = directives.split(source, what)
        self._text = plain_types(self._text)
        self._origin = list(range(len(self._text) + 1))
        self._replace(CONTINUATION, lambda match: "")  # C joins the lines before it reads them
        self._replace(COMMENT, lambda match: re.sub(r"[^\n]", " ", match[0]))
        self._replace(_CHARACTER, self._character)
        self._expand({**macros, **own})
        self._replace(_CHARACTER, self._character)  # those of macros
        self._replace(_STD, lambda match: "")
        self.aliases = dict(aliases)
        self._name_types(type_names.instances(["complex", *structs]))
        self._name_types(type_names.CHOICE)
        self._replace(type_names.USING, type_names.as_typedef)
        structs |= {match[0] for match in _VECTOR.finditer(self._text)}
        named = [*self.aliases.items(), *type_names.typedefs(self._text)]
        for name, words in named:
            if not structs.isdisjoint({words.split()[-1], type_names.instance(words)[0]}):
                structs |= {name}
        generics = generics.union(structs, (name for name, _ in named))
        if structs:
            self._replace(re.compile(rf"\bstruct\s+(?=(?:{'|'.join(sorted(structs))})\b)"), lambda match: "")
        self._replace(_STATIC_CAST, lambda match: f"({match[1]})")
        names = sorted((set(C_TYPES) | generics) - {"_Bool"}, key=len, reverse=True)
        self._replace(type_names.explicit_call({*names} - structs), type_names.with_types)
        self._replace(_KEYWORDS, lambda match: _OPERATORS[match[0]])
        self._replace(_LIMITS, lambda match: f"xf_limit_{match[2]}(({match[1]})0)")
        self._replace(re.compile(r"\bauto\b"), lambda match: AUTO)
        self._replace(re.compile(r"\bif\s+constexpr\b"), lambda match: "if")
        self._replace(re.compile(r"\bconstexpr\b"), lambda match: "const")
        self._replace(re.compile(r"\b__restrict(?:__)?\b"), lambda match: "")
        self._replace(re.compile(r"\b__ldg\s*(?=\()"), lambda match: "*")  # a read, by whichever cache
        self._replace(_LIST_INDEX, lambda match: "[(long[]){")
        reference = re.compile(rf"\b((?:{'|'.join(map(re.escape, [*names, AUTO]))})(?:\s+const)?)\s*&\s*(?=\w)")
        self._replace(reference, lambda match: f"{match[1]} *volatile ")
        self._replace(_FURTHER_REFERENCE, lambda match: ", *volatile ")
        self._edit(_initializers(self._text, names, structs, is_within_functions=what == "preamble"))
        typedefs = "".join(f"typedef int {name};" for name in [*names, AUTO] if not _BUILTIN & set(name.split()))
        self._typedefs = typedefs

    @functools.cached_property
    def statements(self) -> list[Any]:
        """The syntax trees of the text as the body of a function.

        Raises:
            KernelSyntaxError: It is not C, or nested too deeply.
        """
        body = self._text.rstrip()
        if body and not body.endswith((";", "}")):
            body += ";"
        kernel = self._parsed(f"void kernel(){{\n{body}\n}}")[-1]
        if type(kernel).__name__ != "FuncDef" or kernel.decl.name != "kernel":
            raise self.error("a closing brace without its opening one", self.source.find("}"))
        return kernel.body.block_items or []

    def definitions(self) -> list[Any]:
        """The syntax trees of the text as functions and declarations.

        Raises:
            KernelSyntaxError: It is not C, or nested too deeply.
        """
        return self._parsed(f"\n{self._text}")

    def _parsed(self, unit: str) -> list[Any]:
        """The syntax trees of a translation unit, whose second line is the first one of the text."""
        from pycparser import c_parser

        try:
            return c_parser.CParser().parse(f"{self._typedefs}{unit}", filename="").ext  # type: ignore[no-any-return]
        except c_parser.ParseError as error:
            raise self._parse_error(str(error)) from None
        except RecursionError:
            raise self.error("is nested too deeply; use local variables for parts of it", None) from None

    def _parse_error(self, message: str) -> Exception:
        """The error for a message of pycparser."""
        match = re.match(r":?(\d+):(\d+): (?:before: )?(.*)", message, re.DOTALL)
        if match is None:
            problem = f"is not complete C ({message.strip(': ')}); is a brace or bracket open?"
            found: Exception = self.error(problem, len(self.source))
        else:
            what = match[3].strip() or "the end"
            position = self.position(int(match[1]), int(match[2]))
            remedy = "check the syntax"
            if _PYTHON.search(self.source):
                remedy = "this looks like Python: give a function to elementwise, or write C"
            where = "from here on" if what.startswith("Invalid") else f"before {what!r}"
            found = self.error(f"C cannot be read {where}; {remedy}", position)
        return found

    def _check_characters(self) -> None:
        check_length(self.source, self.what)
        for position, character in enumerate(self.source):
            if character == "\0" or ord(character) > 126 or (ord(character) < 32 and character not in "\t\n\r\f\v"):
                raise self.error(f"character {character!r} cannot stand in C source; use ASCII", position)

    def _expand(self, macros: Macros) -> None:
        """Replace the uses of macros, those in what they expand to among them."""
        start, work = 0, Expansion()
        try:
            while (found := use_behind(self._text, macros, start, work)) is not None:
                self._edit([found])
                start = found[0]
                work.spend(len(self._text) >> 3)
                if len(self._text) > MAX_CHARACTERS:
                    raise TooLongError
        except (TooLongError, RecursionError):
            raise self.error(
                f"its macros have no end, or write out more than {MAX_CHARACTERS} characters; a macro must not name "
                "itself, and one that uses others twice doubles the text",
                self._origin[start],
            ) from None

    def _character(self, match: re.Match[str]) -> str:
        """The number of a character, of type ``char``."""
        text = match[1]
        if text[0] != "\\":
            value = ord(text)
        elif text[1] in "01234567":
            value = int(text[1:], 8)
        elif text[1] == "x" and len(text) > 2:
            value = int(f"0{text[1:]}", 0)
        elif text[1] in _ESCAPES:
            value = _ESCAPES[text[1]]
        else:
            raise self.error(f"{match[0]} is no character of C; write its number", self._origin[match.start()])
        return f"((char){value})"

    def _name_types(self, pattern: re.Pattern[str]) -> None:
        """Give names to the types that angle brackets describe, to those within others first."""

        def named(match: re.Match[str]) -> str:
            words = " ".join(match[0].split())
            name = type_names.name_of(words)
            self.aliases[name] = words
            return name

        while pattern.search(self._text):
            self._replace(pattern, named)

    def _replace(self, pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str]) -> None:
        self._edit([(*match.span(), replacement(match)) for match in pattern.finditer(self._text)])

    def _edit(self, edits: list[Edit]) -> None:
        """Replace parts of the text, given by start and end in ascending order."""
        pieces: list[str] = []
        origin: list[int] = []
        end = 0
        for start, stop, new in edits:
            pieces += [self._text[end:start], new]
            origin += self._origin[end:start]
            origin += [self._origin[start]] * len(new)
            end = stop
        self._text = "".join([*pieces, self._text[end:]])
        self._origin = origin + self._origin[end:]

    def error(self, message: str, position: int | None, width: int = 1, kind: type[Any] = KernelSyntaxError) -> Any:
        """An error of ``kind`` that shows the user's line with a caret under ``position``."""
        if position is None:
            return kind(f"{self.what}: {message}")
        position = min(position, len(self.source))
        start = self.source.rfind("\n", 0, position) + 1
        line = self.source.count("\n", 0, position) + 1
        end = self.source.find("\n", start)
        text = self.source[start : end if end >= 0 else len(self.source)]
        where = f"{self.what}, line {line}, column {position - start + 1}"
        return kind(f"{where}: {message}\n{caret(text, position - start, position - start + width)}")

    def position(self, line: int, column: int) -> int | None:
        """The index in the user's text of a line and column of the parsed text, both counted from 1."""
        start = 0
        for _ in range(line - 2):
            start = self._text.find("\n", start) + 1
            if start == 0:
                return len(self.source)
        if line < 2:
            return 0
        return self._origin[min(start + column - 1, len(self._text))]


# --- initializers


def _none(kind: str, structs: Collection[str]) -> str:
    """The text of the value of a type that is given none."""
    return NO_VALUE if kind in structs else "0"


_PAIRS = {"(": ")", "{": "}", "[": "]"}
_ENDS = re.compile(r"\s*[;,]")


@dataclass(slots=True)
class _Bracket:
    """A pair of brackets."""

    start: int
    end: int = -1
    """-1 where none closes it."""
    is_list: bool = False
    """Whether a comma stands inside, and not inside a further pair: several values, which no number has."""
    has_statements: bool = False
    is_in_function: bool = False
    """Whether a brace stands around it."""


def _brackets(text: str) -> dict[int, _Bracket]:
    """The pairs of brackets by their positions, found in one pass."""
    found: dict[int, _Bracket] = {}
    around: list[_Bracket] = []
    braces = 0
    for position, character in enumerate(text):
        if character in _PAIRS:
            found[position] = _Bracket(position, is_in_function=braces > 0)
            around.append(found[position])
            braces += character == "{"
        elif around and character == _PAIRS[text[around[-1].start]]:
            ended = around.pop()
            ended.end = position
            braces -= character == "}"
            if around and ended.has_statements:
                around[-1].has_statements = True
        elif around and character == ",":
            around[-1].is_list = True
        elif around and character == ";":
            around[-1].has_statements = True
    return found


def _begin(text: str, position: int, closed: dict[int, _Bracket]) -> int:
    """Where the statement around a position begins, or the list in brackets in which it stands."""
    while position > 0:
        pair = closed.get(position - 1)
        if pair is not None and not pair.has_statements:
            position = pair.start
        elif text[position - 1] in "([{;})]":
            break
        else:
            position -= 1
    return position


def _initializers(
    text: str, types: Sequence[str], structs: Collection[str], *, is_within_functions: bool
) -> list[Edit]:
    """C++'s initializers as C: ``T x{e}`` and ``T x(e)`` become ``T x=(e)``, ``T{e}`` and ``T(e)`` ``((T)(e))``.

    A regular expression alone cannot do it: the expression between the brackets may hold further ones.

    Args:
        text: Without comments.
        types: The names of types, longer ones before their beginnings.
        structs: Those whose values are lists.
        is_within_functions: Outside of all braces ``T f(...)`` declares a function.

    Returns:
        What to replace: start, end and the new text, in ascending order.
    """
    named = "|".join(map(re.escape, types))
    pattern = re.compile(
        rf"\b(?P<type>{named})(?P<name>\s+\w+)?\s*(?P<open>[{{(])|,\s*(?!(?:{named})\b)\w+\s*(?P<next>[{{(])"
    )
    declaration = re.compile(rf"\s*(?:const\s+)?(?P<type>{named})\s")
    brackets = _brackets(text)
    closed = {each.end: each for each in brackets.values()}
    found: dict[int, Edit] = {}
    for match in pattern.finditer(text):
        at = match.start("open" if match["open"] else "next")
        bracket = brackets[at]
        kind = match["type"]
        if kind is None:  # of a declaration that has begun before
            begun = declaration.match(text, _begin(text, match.start(), closed))
            if begun is None:
                continue
            kind = begun["type"]
        is_value = match["type"] is not None and match["name"] is None
        is_empty = not text[at + 1 : bracket.end].strip()
        if bracket.end < 0 or bracket.has_statements:
            continue
        if is_value and bracket.is_list and text[at] == "{" and match["type"] not in structs:
            continue
        if not is_value and text[at] == "(":
            is_declared = not is_empty and _ENDS.match(text, bracket.end + 1) is not None
            if not is_declared or (is_within_functions and not bracket.is_in_function):
                continue  # a function
        if is_value:
            found[match.start("type")] = (*match.span("type"), f"(({match['type']})")
        start = "" if is_value else f"=({kind})" if bracket.is_list else "="
        found[at] = (at, at + 1, start + "(" + (_none(kind, structs) if is_empty else ""))
        found[bracket.end] = (bracket.end, bracket.end + 1, "))" if is_value else ")")
    return [found[each] for each in sorted(found)]
