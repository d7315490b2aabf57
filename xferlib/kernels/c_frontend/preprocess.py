"""The preprocessor: the text of a snippet as C's tokens, with macros replaced and conditions decided.

A macro is replaced as the standard says: its arguments are expanded first, except beside ``#`` and ``##``, and a name
is not replaced again within its own replacement. Each token remembers where the user wrote it; those of a macro, where
the macro was used. Tokens, and not characters, are what everything behind this module reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from xferlib.errors import KernelSyntaxError
from xferlib.kernels.source_lines import caret

MAX_CHARACTERS = 65536
"""Limit of a text."""
MOST_TOKENS = MAX_CHARACTERS
"""Limit of the tokens of a text with its macros replaced."""
MOST_REPLACED = 1 << 17
"""Limit of the tokens that the replacement of macros looks at."""

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\f\v]+|//[^\n]*|/\*.*?\*/)
    |(?P<newline>\n)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>\.?\d(?:[eEpP][+-]|'?\w|\.)*)
    |(?P<character>'(?:[^'\\\n]|\\.)*')
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<sign>%:%:|<<=|>>=|\.\.\.|->\*|::|\+\+|--|&&|\|\||<<|>>|<=|>=|==|!=|[-+*/%&|^]=|->|\#\#|[][{}()<>+\-*/%&|^~!=;:,.?\#])
    |(?P<stray>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CONTINUED = re.compile(r"\\[ \t]*\r?\n")
_HEADER = re.compile(r"[<\"](?:cupy/|cuda/std/|thrust/|pycuda-)?(\w+)(?:\.\w+)?[>\"]\Z")
_HEADERS = frozenset({
    "complex", "carray", "atomics", "math_constants", "cuda_fp16", "cuda_runtime", "math", "cmath", "stdint", "cstdint",
    "limits", "climits", "float", "cfloat", "stddef", "cstddef", "type_traits", "assert", "cassert",
})  # fmt: skip
"""The headers whose types and functions a snippet has anyway, without their folder and ending."""
_COMPILERS_OWN = re.compile(
    r"__(?:CUDA|NV|GNUC|clang|x86|aarch|amd|arm|linux|unix|LP64|SIZEOF|BYTE_ORDER|cpp_|has_|STDC|DATE|TIME|FILE|LINE)"
    r"|_(?:MSC|WIN|GLIBC|OPENMP|LIBCPP|LP64)"
)
"""Names that a compiler defines, or not."""
_COMPILERS: dict[str, int | None] = {"__CUDACC__": 1, "__CUDACC_RTC__": 1, "__CUDA_ARCH__": None, "__cplusplus": None}
"""Macros of NVRTC; None for a value that depends on the call."""
_OTHERS = "__VA_ARGS__"


class Token(NamedTuple):
    """A token: ``kind`` is one of name, number, character, string and sign."""

    kind: str
    text: str
    at: int
    """Where it stands in the user's text; a macro's tokens stand where it is used."""
    is_spaced: bool = False
    hidden: frozenset[str] = frozenset()
    """The macros that do not replace it."""


class TokenMacro(NamedTuple):
    """A macro; ``params`` is None for one without parentheses."""

    body: tuple[Token, ...]
    params: tuple[str, ...] | None = None


Macros = Mapping[str, TokenMacro]
NONE: Macros = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text of the user's, for messages: ``what`` is ``"operation"``, ``"preamble"`` or the like."""

    text: str
    what: str

    def error(
        self, message: str, at: int | None = None, width: int = 1, kind: type[Exception] = KernelSyntaxError
    ) -> Exception:
        """An error that shows the user's line with a caret under position ``at``."""
        if at is None:
            return kind(f"{self.what}: {message}")
        at = min(at, len(self.text))
        start = self.text.rfind("\n", 0, at) + 1
        line = self.text.count("\n", 0, at) + 1
        end = self.text.find("\n", start)
        shown = self.text[start : end if end >= 0 else len(self.text)]
        where = f"{self.what}, line {line}, column {at - start + 1}"
        return kind(f"{where}: {message}\n{caret(shown, at - start, at - start + width)}")


def check_length(text: str, what: str) -> None:
    """Refuse a text that would take too long to parse.

    Raises:
        KernelSyntaxError: It is longer than `MAX_CHARACTERS`.
    """
    if len(text) > MAX_CHARACTERS:
        raise KernelSyntaxError(
            f"{what} has {len(text)} characters; at most {MAX_CHARACTERS} are read: split the kernel"
        )


def check_characters(source: SourceText) -> None:
    """Refuse a text that would take too long to parse, or that is not ASCII.

    Raises:
        KernelSyntaxError: It is one of them.
    """
    check_length(source.text, source.what)
    for position, character in enumerate(source.text):
        if ord(character) > 126 or (ord(character) < 32 and character not in "\t\n\r\f\v"):
            raise source.error(f"character {character!r} cannot stand in C source; use ASCII", position)


def tokens(source: SourceText) -> list[Token]:
    """The tokens of a text, newlines among them (as signs), and no comments; what is no token is a ``stray`` one."""
    text, origin = _join_lines(source.text)
    found: list[Token] = []
    is_spaced = False
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind != "blank":
            found.append(Token(kind, match[0], origin(match.start()), is_spaced and kind != "newline"))
        is_spaced = kind in ("blank", "newline")
    return found


def is_operators_bracket(given: Sequence[Token], number: int) -> bool:
    """Whether a token opens the name ``operator()`` or ``operator[]``, which the parser reads without a blank in it."""
    return number > 0 and given[number].text in ("(", "[") and given[number - 1].text == "operator"


def on_one_line(text: str) -> str:
    """A list of parameters, in which the end of a continued line counts as a blank; columns stay the same."""
    return _CONTINUED.sub(lambda found: " " * len(found[0]), text)


def _join_lines(text: str) -> tuple[str, Callable[[int], int]]:
    """The text with continued lines joined, and a function from its positions to the user's."""
    if "\\" not in text:
        return text, lambda at: at
    pieces: list[str] = []
    origins: list[int] = []
    end = 0
    for match in _CONTINUED.finditer(text):
        pieces.append(text[end : match.start()])
        origins += range(end, match.start())
        end = match.end()
    pieces.append(text[end:])
    origins += range(end, len(text) + 1)
    return "".join(pieces), origins.__getitem__


@dataclass(slots=True)
class _Branches:
    """An ``#if`` and its branches."""

    at: int
    was_read: bool
    """Whether the lines around it are read."""
    is_sure: bool
    """Whether the compiler reads this branch, too, if it is read here."""
    is_read: bool = False
    is_over: bool = False
    """Whether no later branch is read."""


@dataclass(slots=True)
class Preprocessor:
    """Reads the lines of a text: carries out directives, and replaces macros in the others."""

    source: SourceText
    macros: dict[str, TokenMacro]
    _open: list[_Branches] = field(default_factory=list)
    _replaced: int = 0

    def run(self) -> list[Token]:
        """The tokens that a compiler reads.

        Raises:
            KernelSyntaxError: A directive is not supported, or a condition is a GPU's compiler's to decide.
        """
        check_characters(self.source)
        try:
            found = self._read()
        except RecursionError:
            raise self.source.error("has macros that are nested too deeply; use local variables for parts") from None
        if self._open:
            raise self.source.error("this condition has no #endif; add it", self._open[-1].at)
        for each in found:
            if each.kind == "stray":
                what = "has no end on its line" if each.text in "'\"" else "cannot stand in C source"
                raise self.source.error(f"{each.text!r} {what}; C cannot be read from here on", each.at)
        if len(found) > MOST_TOKENS:
            raise self.source.error(f"the text has more than {MOST_TOKENS} tokens; split the kernel", found[-1].at)
        return found

    def _read(self) -> list[Token]:
        """The tokens behind the directives, with all macros replaced."""
        found: list[Token] = []
        text: list[Token] = []
        for line in _lines(tokens(self.source)):
            if line and line[0].text == "#":
                found += self._expand(text)
                text = []
                self._directive(line)
            elif self._is_read:
                text += line
        found += self._expand(text)
        return found

    @property
    def _is_read(self) -> bool:
        return not self._open or self._open[-1].is_read

    @property
    def _is_sure(self) -> bool:
        return not self._open or self._open[-1].is_sure

    # --- directives
    def _directive(self, line: list[Token]) -> None:
        name = line[1].text if len(line) > 1 else ""
        rest = line[2:]
        if name in ("if", "ifdef", "ifndef"):
            self._open.append(_Branches(line[0].at, self._is_read, self._is_sure))
            self._branch(line, name, rest)
        elif name in ("elif", "else", "elifdef", "elifndef", "endif"):
            if not self._open:
                self._fail(line, f"#{name} stands behind no #if")
            elif name == "endif":
                self._open.pop()
            else:
                self._branch(line, name, rest)
        elif self._is_read and name not in ("", "pragma"):
            self._carry_out(line, name, rest)

    def _carry_out(self, line: list[Token], name: str, rest: list[Token]) -> None:
        """Carry out a directive that is no condition."""
        if name == "define" and rest and rest[0].kind == "name":
            self.macros[rest[0].text] = self._macro(rest)
        elif name == "undef" and rest:
            self.macros.pop(rest[0].text, None)
        elif name == "include":
            self._include(line)
        else:
            self._fail(
                line, f"#{name} is not supported; of the preprocessor a snippet has #define, #if, #include and #pragma"
            )

    def _fail(self, line: list[Token], message: str) -> None:
        raise self.source.error(message, line[0].at)

    def _include(self, line: list[Token]) -> None:
        header = "".join(each.text for each in line[2:])
        match = _HEADER.match(header)
        if match is None or match[1] not in _HEADERS:
            self._fail(line, f"header {header} is not known; a snippet has none of its own")

    def _macro(self, rest: list[Token]) -> TokenMacro:
        if len(rest) < 2 or rest[1].text != "(" or rest[1].is_spaced:
            return TokenMacro(tuple(rest[1:]))
        params: list[str] = []
        at = 2
        while at < len(rest) and rest[at].text != ")":
            each = rest[at]
            if each.kind == "name" or each.text == "...":
                params.append(_OTHERS if each.text == "..." else each.text)
            elif each.text != ",":
                raise self.source.error(f"{each.text!r} is not a parameter of a macro", each.at)
            at += 1
        return TokenMacro(tuple(rest[at + 1 :]), tuple(params))

    # --- conditions
    def _branch(self, line: list[Token], name: str, rest: list[Token]) -> None:
        found = self._open[-1]
        if not found.was_read or found.is_over:
            found.is_read = False
            return
        holds: bool | None = True
        if name.endswith("def"):
            holds = self._is_defined(rest[0].text) if rest else None
            holds = holds if holds is None else holds != name.endswith("ndef")
        elif name != "else":
            value = self._value(rest)
            holds = None if value is None else bool(value)
        if holds is None:
            text = " ".join(each.text for each in line).replace("# ", "#")
            self._fail(line, f"condition {text!r} is decided by the compiler of a GPU; write the branch that is meant")
        found.is_read, found.is_over = holds is not False, holds is True
        found.is_sure = found.is_sure and holds is not None

    def _is_defined(self, name: str) -> bool | None:
        if name in self.macros or name in _COMPILERS:
            return True
        return None if _COMPILERS_OWN.match(name) else False

    def _value(self, line: list[Token]) -> int | None:
        """The value of a condition; None where it is not known."""
        asked: list[Token] = []
        at = 0
        while at < len(line):
            each = line[at]
            if each.text != "defined":
                asked.append(each)
                at += 1
                continue
            is_bracketed = at + 1 < len(line) and line[at + 1].text == "("
            place = at + 1 + is_bracketed
            defined = self._is_defined(line[place].text) if place < len(line) else None
            kind, text = ("name", "__unknown") if defined is None else ("number", str(int(defined)))
            asked.append(Token(kind, text, each.at))
            at = place + 1 + is_bracketed
        try:
            return _ConditionValue(self._expand(asked), self._value_of_name).value()
        except (ValueError, IndexError, ZeroDivisionError, RecursionError):
            return None

    def _value_of_name(self, name: str) -> int | None:
        if name in ("true", "false"):
            return int(name == "true")
        if name in _COMPILERS:
            return _COMPILERS[name]
        return 0 if name != "__unknown" and self._is_defined(name) is False else None

    # --- macros
    def _expand(self, given: Sequence[Token]) -> list[Token]:
        """The tokens with all macros replaced."""
        macros = self.macros
        if not any(each.text in macros for each in given):
            return list(given)
        waiting = list(reversed(given))
        found: list[Token] = []
        while waiting:
            token = waiting.pop()
            macro = macros.get(token.text) if token.kind == "name" else None
            if macro is None or token.text in token.hidden:
                found.append(token)
                continue
            self._count(token, 1)
            hidden = token.hidden | {token.text}
            arguments: list[list[Token]] = []
            if macro.params is not None:
                taken = _arguments(waiting)
                if taken is None:  # without parentheses the name is no use of the macro
                    found.append(token)
                    continue
                arguments = self._fit(token, macro.params, taken)
            made = self._substitute(token, macro, arguments)
            self._count(token, len(made))
            waiting += [
                Token(each.kind, each.text, token.at, each.is_spaced, each.hidden | hidden) for each in reversed(made)
            ]
        return found

    def _count(self, token: Token, more: int) -> None:
        self._replaced += more
        if self._replaced > MOST_REPLACED:
            raise self.source.error(
                f"its macros stand for more than {MOST_REPLACED} tokens; write them shorter", token.at, len(token.text)
            )

    def _fit(self, token: Token, params: tuple[str, ...], given: list[list[Token]]) -> list[list[Token]]:
        """One argument for each parameter."""
        if params[-1:] == (_OTHERS,):
            fixed = len(params) - 1
            others: list[Token] = []
            for number, each in enumerate(given[fixed:]):
                others += [*([Token("sign", ",", token.at)] if number else []), *each]
            given = [*given[:fixed], others]
        elif not params and given == [[]]:
            given = []
        if len(given) != len(params):
            raise self.source.error(
                f"macro {token.text}() takes {len(params)} argument(s), {len(given)} were given", token.at,
                len(token.text),
            )  # fmt: skip
        return given

    def _substitute(self, use: Token, macro: TokenMacro, arguments: list[list[Token]]) -> list[Token]:
        """The body of a macro with its arguments in the place of the parameters."""
        values = dict(zip(macro.params or (), arguments, strict=True))
        expanded: dict[str, list[Token]] = {}
        made: list[Token] = []
        body, at, is_joined = macro.body, 0, False
        while at < len(body):
            token = body[at]
            follows = at + 1 < len(body) and body[at + 1].text == "##"
            if token.text == "#" and macro.params is not None and at + 1 < len(body) and body[at + 1].text in values:
                text = "".join(" " * each.is_spaced + each.text for each in values[body[at + 1].text]).strip()
                piece = [Token("string", '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"', use.at)]
                at += 1
                follows = at + 1 < len(body) and body[at + 1].text == "##"
            elif token.text in values:
                if is_joined or follows:
                    piece = values[token.text]
                else:
                    if token.text not in expanded:
                        expanded[token.text] = self._expand(values[token.text])
                    piece = expanded[token.text]
            else:
                piece = [token]
            self._count(use, len(piece))
            made += self._paste(use, made, piece) if is_joined else piece
            at += 1
            is_joined = follows
            at += follows
        return made

    def _paste(self, use: Token, made: list[Token], piece: Sequence[Token]) -> list[Token]:
        """The tokens that join the last one made; that one is taken away."""
        if not made or not piece:
            return list(piece)
        last = made.pop()
        text = last.text + piece[0].text
        match = _TOKEN.fullmatch(text)
        if match is None or match.lastgroup in ("blank", "newline", "stray"):
            raise self.source.error(f"## joins {last.text!r} and {piece[0].text!r} to no token", use.at)
        return [Token(str(match.lastgroup), text, use.at, last.is_spaced), *piece[1:]]


def _lines(given: list[Token]) -> Iterator[list[Token]]:
    line: list[Token] = []
    for each in given:
        if each.kind == "newline":
            yield line
            line = []
        else:
            line.append(each)
    yield line


def _arguments(waiting: list[Token]) -> list[list[Token]] | None:
    """Take the arguments of a macro from the end of the reversed tokens; None where no parentheses stand there."""
    if not waiting or waiting[-1].text != "(":
        return None
    depth = 0
    found: list[list[Token]] = []
    current: list[Token] = []
    for number in range(len(waiting) - 1, -1, -1):
        each = waiting[number]
        if each.text in "([{" and each.kind == "sign":
            depth += 1
            if depth == 1:
                continue
        elif each.text in ")]}" and each.kind == "sign":
            depth -= 1
            if not depth:
                del waiting[number:]
                return [*found, current]
        if each.text == "," and depth == 1:
            found.append(current)
            current = []
        else:
            current.append(each)
    return None


def parse_options(options: Mapping[str, str]) -> dict[str, TokenMacro]:
    """The macros of a compiler's options, by name and text."""
    return {
        name: TokenMacro(tuple(each for each in tokens(SourceText(text, "options")) if each.kind != "newline"))
        for name, text in options.items()
    }


PREDEFINED: Macros = MappingProxyType({
    **dict.fromkeys(
        ("__device__", "__host__", "__forceinline__", "__inline__", "__noinline__", "__restrict__", "__restrict",
         "__constant__", "__inline"),
        TokenMacro(()),
    ),
    "__align__": TokenMacro((), ("n",)),
    **{
        f"{kind}{bits}_C": TokenMacro(
            (Token("name", "c", 0), Token("sign", "##", 0), Token("name", f"{'U' * (kind == 'UINT')}L", 0))
            if bits == 64 else (Token("name", "c", 0),),
            ("c",),
        )
        for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)
    },
    "UINT32_C": TokenMacro((Token("name", "c", 0), Token("sign", "##", 0), Token("name", "U", 0)), ("c",)),
})  # fmt: skip
"""The words of CUDA that a snippet's functions and tables may have in front, and the macros of its headers."""


LEVELS = {
    op: level
    for level, ops in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")
    )
    for op in ops.split()
}  # fmt: skip
"""How closely the operators of two operands bind."""
OPERATORS: Mapping[str, Callable[[int, int], int]] = MappingProxyType({
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    "<<": lambda a, b: a << b if 0 <= b < 63 else _unheld(), ">>": lambda a, b: a >> b if 0 <= b < 63 else _unheld(),
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
})  # fmt: skip
"""The operators of constant integers, beside those that may leave one operand out."""


def _unheld() -> int:
    raise ValueError


class _ConditionValue:
    """Evaluates the tokens of an ``#if``; a value is None where it is not known."""

    def __init__(self, given: list[Token], named: Callable[[str], int | None]) -> None:
        self._tokens = [*(each.text for each in given), ""]
        self._at = 0
        self._value_of_name = named
        is_unsigned = any(each.kind == "number" and "u" in each.text.lower() for each in given)
        self._least = 0 if is_unsigned else -1 << 63
        """The least value; what is less would count as a large one, or not be held."""

    def value(self) -> int | None:
        found = self._choice()
        if self._tokens[self._at]:
            raise ValueError
        return found

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _choice(self) -> int | None:
        condition = self._level(0)
        if self._tokens[self._at] != "?":
            return condition
        self._at += 1
        yes = self._choice()
        if self._next() != ":":
            raise ValueError
        no = self._choice()
        return None if condition is None else yes if condition else no

    def _level(self, least: int) -> int | None:
        left = self._unary()
        while LEVELS.get(self._tokens[self._at], -1) >= least:
            sign = self._next()
            left = self._combine(sign, left, self._level(LEVELS[sign] + 1))
        return left

    def _combine(self, sign: str, left: int | None, right: int | None) -> int | None:
        if sign in ("&&", "||"):
            decides = sign == "||"
            if any(each is not None and bool(each) is decides for each in (left, right)):
                return int(decides)
            return None if left is None or right is None else int(not decides)
        if left is None or right is None:
            return None
        return self._check_range(int(OPERATORS[sign](left, right)))

    def _unary(self) -> int | None:
        word = self._next()
        if word == "(":
            found = self._choice()
            if self._next() != ")":
                raise ValueError
            return found
        if word in ("+", "-", "!", "~"):
            value = self._unary()
            if value is None:
                return None
            return self._check_range({"+": value, "-": -value, "!": int(not value), "~": ~value}[word])
        if word[:1].isdigit():
            digits = word.replace("'", "").rstrip("uUlL")
            return self._check_range(int(digits, 8) if re.fullmatch(r"0[0-7]+", digits) else int(digits, 0))
        if not re.fullmatch(r"[A-Za-z_]\w*", word):
            raise ValueError
        return self._value_of_name(word)

    def _check_range(self, value: int) -> int:
        if not self._least <= value < 1 << 63:
            raise ValueError
        return value
