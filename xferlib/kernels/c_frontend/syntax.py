"""The syntax of C++: tokens become a text that tree-sitter reads, and its errors become ours.

tree-sitter, with its grammar of CUDA C++, knows no names and goes on behind errors. Where the grammar has two meanings,
the text that it reads is written so that the right one remains, with each token's position beside it; an error is
reported at the user's own characters.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from collections import Counter
from collections.abc import Container
from typing import Any, NoReturn

from xferlib.kernels.c_frontend.preprocess import SourceText, Token, is_operators_bracket
from xferlib.kernels.functions import C_TYPES, SMALL_TYPES, VECTOR_PARTS

_VECTORS = frozenset(f"{name}{count}" for name in VECTOR_PARTS for count in (1, 2, 3, 4))
TYPES = frozenset({*(each for each in C_TYPES if " " not in each), *SMALL_TYPES, *_VECTORS, "void", "signed", "auto"})
"""The names of types that are always known."""
TEMPLATES = frozenset({"complex", "numeric_limits", "conditional", "is_same", "enable_if", "is_floating_point"})
"""Those of templates of types."""
_SIZED = {"short": "int16_t", "long": "int64_t", "signed": "int32_t", "unsigned": "uint32_t"}
"""The types of one word that may stand before others, by another name."""
MOST_NESTED = 256
"""Limit of brackets within brackets."""
_PYTHON = re.compile(
    r"^\s*(?:for\s+\w+(?:\s*,\s*\w+)*\s+in\b|(?:if|elif|else|while|def)\b[^;{?]*:\s*|.*\blambda\b)", re.MULTILINE
)
IGNORED_WORDS = frozenset({"const", "volatile", "constexpr", "__restrict__", "restrict", "__restrict", "mutable"})


@functools.cache
def parser() -> Any:
    """tree-sitter's parser of CUDA C++."""
    import tree_sitter
    import tree_sitter_cuda

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


class SyntaxText:
    """The text that tree-sitter reads, and the tokens at its positions.

    Where the grammar has two meanings and the names decide, the text has only the right one: ``<`` behind anything
    but a template is written ``<=``, of the same precedence, and the parts of ``(a = 1, b)`` have brackets of their
    own. The sign of ``(a * (b)) - c`` is written ``/``, because tree-sitter would read a cast of ``-c`` to a pointer to
    a function, and ``&&`` behind a bracket ``||``, for ``(a) && b`` could be ``(a) &(&b)``; the reader takes operators
    and their precedence from the tokens. The type of ``(unsigned(a) + b)`` is written ``uint32_t``, since
    ``(unsigned(a))`` could be that of a function.
    """

    def __init__(self, tokens: list[Token], before: str, after: str, templates: Container[str] = ()) -> None:
        self.tokens = _add_brackets(tokens)
        pieces, starts, at = [before], [], len(before)
        behind = _signs_behind_brackets(self.tokens)
        for number, each in enumerate(self.tokens):
            text = each.text
            if each.kind in ("number", "character"):
                text = "1"
            elif each.kind == "string":
                text = '""'
            elif text == "<" and not self._opens(number, templates):
                text = "<="
            elif text in _SIZED and [one.text for one in self.tokens[number - 1 : number + 2 : 2]] == ["(", "("]:
                text = _SIZED[text]
            elif number in behind:
                text = "||" if text == "&&" else "/"
            space = "" if is_operators_bracket(self.tokens, number) else " "
            starts.append(at)
            pieces += [text, space]
            at += len(text) + len(space)
        self.starts = starts
        self.text = "".join([*pieces, after])

    def _opens(self, number: int, templates: Container[str]) -> bool:
        """Whether a ``<`` opens the arguments of a template; of an unknown one too, which is refused by its name."""
        tokens = self.tokens
        name = tokens[number - 1] if number else None
        if name is None or name.kind != "name":
            return False
        if name.text in templates or name.text in ("template", "operator"):
            return True
        following = [each.text for each in tokens[number + 1 : number + 3]]
        return len(following) == 2 and following[0] in TYPES and following[1] in (">", ",", "*")

    def token(self, start: int) -> int:
        """The number of the token at a position, or of the one behind it."""
        return bisect.bisect_left(self.starts, start)


def _add_brackets(tokens: list[Token]) -> list[Token]:
    """The tokens with brackets around what stands in ``(a = 1, b)``, which tree-sitter cannot read without."""
    if not any(each.text == "," for each in tokens):
        return tokens
    opened: list[list[int]] = []
    """The positions of each open bracket and of the commas within it."""
    groups: list[list[int]] = []
    for number, each in enumerate(tokens):
        if each.kind != "sign":
            continue
        if each.text in "([{":
            opened.append([number])
        elif each.text in ")]}" and opened:
            found = opened.pop()
            before = tokens[found[0] - 1] if found[0] else None
            is_group = each.text == ")" and (
                before is None
                or before.text == "return"
                or (before.kind == "sign" and before.text not in (")", "]", ">"))
            )
            if len(found) > 1 and is_group:
                groups.append([*found, number])
        elif each.text == "," and opened:
            opened[-1].append(number)
    opening: Counter[int] = Counter()
    closing: Counter[int] = Counter()
    for group in groups:
        for first, last in itertools.pairwise(group):
            if any(each.kind == "sign" and each.text.endswith("=") for each in tokens[first + 1 : last]):
                opening[first + 1] += 1
                closing[last] += 1
    if not opening:
        return tokens
    found_tokens: list[Token] = []
    for number, each in enumerate(tokens):
        found_tokens += [Token("sign", ")", each.at)] * closing[number]
        found_tokens += [Token("sign", "(", each.at)] * opening[number]
        found_tokens.append(each)
    return found_tokens


def _signs_behind_brackets(tokens: list[Token]) -> set[int]:
    """The signs that stand between two operands, where tree-sitter may take them for those of one.

    They are behind brackets that hold others and no arguments, ``(a * (b)) - c``, which no type does here, and ``&&``
    behind any. Those of a type that is refused, ``(decltype(a)) - b`` and ``(int (*)(int)) &f``, are left to be named.
    """
    found: set[int] = set()
    opened: list[int] = []
    last = refused = -2
    """Where the last bracket, and the last type that is refused, begins."""
    for number, each in enumerate(tokens[:-1]):
        if each.text == "decltype" or (
            each.text == "(" and [one.text for one in tokens[number + 1 : number + 3]] == ["*", ")"]
        ):
            refused = number
        if each.kind == "sign" and each.text in "([{":
            last = number
            if each.text == "(":
                opened.append(number)
        elif each.kind == "sign" and each.text == ")" and opened:
            first, following = opened.pop(), tokens[number + 1].text
            if refused >= first - 1:
                continue
            before = tokens[first - 1] if first else None
            is_operand = before is None or before.kind == "sign" or before.text in ("return", "case", "sizeof")
            if following == "&&" or (last > first and is_operand and following in ("+", "-", "*", "&")):
                found.add(number + 1)
    return found


def templates_in(tokens: list[Token]) -> set[str]:
    """The names of the templates that a text defines."""
    found: set[str] = set()
    for number, each in enumerate(tokens):
        if each.text != "template":
            continue
        at, depth = number + 1, 0
        while at < len(tokens):
            depth += (tokens[at].text == "<") - (tokens[at].text == ">") - 2 * (tokens[at].text == ">>")
            at += 1
            if depth <= 0:
                break
        while at + 1 < len(tokens) and tokens[at].text not in (";", "{"):
            one, following = tokens[at], tokens[at + 1].text
            if one.kind == "name" and (following == "(" or tokens[at - 1].text in ("struct", "using", "class")):
                found.add(one.text)
                break
            at += 1
    return found


def read_syntax(
    source: SourceText, tokens: list[Token], before: str, after: str, templates: Container[str]
) -> tuple[SyntaxText, Any]:
    """The text of tokens between two others, and the root of its syntax tree.

    Raises:
        KernelSyntaxError: It is not C++.
    """
    depth = 0
    for each in tokens:
        if each.kind == "sign" and each.text in "()[]{}":
            depth += 1 if each.text in "([{" else -1
            if depth > MOST_NESTED:
                raise source.error("is nested too deeply; use local variables for parts of it")
    text = SyntaxText(tokens, before, after, templates)
    root = parser().parse(text.text.encode()).root_node
    if root.has_error:
        _refuse(source, text, root)
    return text, root


def _refuse(source: SourceText, text: SyntaxText, root: Any) -> NoReturn:
    """Raise the error of a text that is not C++."""
    node: Any = root
    while node.type != "ERROR" and not node.is_missing:
        node = next(each for each in node.children if each.has_error or each.is_missing)
    opened: list[Token] = []
    for each in text.tokens:
        if each.text in "([{" and each.kind == "sign":
            opened.append(each)
        elif each.text in ")]}" and each.kind == "sign":
            if not opened or "([{".index(opened[-1].text) != ")]}".index(each.text):
                what = "brace" if each.text == "}" else "bracket"
                raise source.error(f"a closing {what} without its opening one: C cannot be read", each.at)
            opened.pop()
    number = text.token(node.start_byte)
    real = [each for each in text.tokens if each.at < len(source.text)]
    if text.token(node.end_byte) >= len(real) and real and real[-1].text not in (";", "}", ")", "]"):
        number = len(text.tokens)
    if opened or number >= len(text.tokens) or text.tokens[number].at >= len(source.text):
        if len(text.tokens) > 2000:
            raise source.error("is not complete C, or nested too deeply; use local variables for parts of it")
        which = "an operand or a bracket is missing"
        if opened:
            line = source.text.count("\n", 0, opened[-1].at) + 1
            which = f"{opened[-1].text!r} of line {line} is open"
        raise source.error(f"is not complete C; {which}", len(source.text))
    token = text.tokens[number]
    remedy = "check the syntax"
    if _PYTHON.search(source.text):
        remedy = "this looks like Python: give a function to elementwise, or write C"
    raise source.error(f"C cannot be read before {token.text!r}; {remedy}", token.at, len(token.text))


def find_closing_brace(source: SourceText, tokens: list[Token]) -> int:
    """The first brace that closes none."""
    depth = 0
    for each in tokens:
        depth += (each.text == "{") - (each.text == "}")
        if depth < 0:
            return each.at
    return len(source.text)


def number_type(words: list[str]) -> str | None:
    """The name in `C_TYPES` of the words of a number's type; None if there is none."""
    plain = [each for each in words if each not in IGNORED_WORDS]
    longs = plain.count("long")
    rest = sorted(each for each in plain if each not in ("long", "int", "signed"))
    if "double" in rest or longs > 2:
        return " ".join(plain) if plain == ["double"] else None
    size = "short" if "short" in rest else "long long" if longs == 2 else "long" if longs else ""
    is_unsigned = "unsigned" in rest
    others = [each for each in rest if each not in ("short", "unsigned")]
    if others == ["char"]:
        return "unsigned char" if is_unsigned else "signed char" if "signed" in plain else "char"
    if others:
        return " ".join(plain) if len(plain) == 1 else None
    return " ".join(filter(None, ("unsigned" if is_unsigned else "", size or ("" if is_unsigned else "int"))))
