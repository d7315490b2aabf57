"""CUDA source as far as parameters need it: continued lines, comments, template instances, variables of the device."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from xferlib.kernels.frontends.raw.preprocessor import Preprocessed, expanded
from xferlib.kernels.frontends.signature import COMMENT, CONTINUATION

_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_KERNEL = re.compile(r"__global__\b[^;{}()]*?\b(?:__launch_bounds__\s*\([^)]*\)[^;{}()]*?)?\b(\w+)\s*\(")
_MOST_CHARACTERS = 65536


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
    if not source.is_decided or without.partition("<")[0].strip().rpartition("::")[2] in _WORD.findall(source.text):
        return []
    return _KERNEL.findall(source.text)


def _in_brackets(source: str, start: int) -> str | None:
    """The text up to the bracket that closes the one before ``start``."""
    depth = 1
    for at in range(start, min(len(source), start + _MOST_CHARACTERS)):
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
        words = _WORD.findall(left)
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
