"""Names that a snippet gives to types: ``typedef``, ``using``, and the parameters of templates."""

from __future__ import annotations

import re

from xferlib.errors import KernelSyntaxError

_TYPEDEF = re.compile(r"\btypedef\s+([\w\s]+?)\s+(\w+)\s*;")
_USING = re.compile(r"\busing\s+(\w+)\s*=\s*([\w\s]+?)\s*;")
_TEMPLATE = re.compile(r"\btemplate\s*<([^<>]*)>")
_TYPE_PARAMETER = re.compile(r"\s*(?:typename|class)\s+([A-Za-z_]\w*)\s*\Z")
_FUNCTION = re.compile(r"(\w+)\s*\(")


def take_aliases(text: str) -> tuple[str, dict[str, str]]:
    """The text with blanks for ``typedef`` and ``using``, and the meaning of each name."""
    found: dict[str, str] = {}

    def typedef(match: re.Match[str]) -> str:
        found[match[2]] = match[1]
        return _blank(match)

    def using(match: re.Match[str]) -> str:
        found[match[1]] = match[2]
        return _blank(match)

    return _USING.sub(using, _TYPEDEF.sub(typedef, text)), found


def take_templates(text: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    """The text with blanks for ``template <...>``, and the type parameters of each function template.

    Raises:
        KernelSyntaxError: A parameter is no type.
    """
    found: dict[str, tuple[str, ...]] = {}
    for match in _TEMPLATE.finditer(text):
        params = [_TYPE_PARAMETER.match(each) for each in match[1].split(",")]
        if (function := _FUNCTION.search(text, match.end())) is None or None in params:
            raise KernelSyntaxError(f"preamble: {match[0]} is not supported; write a template of a function of types")
        found[function[1]] = tuple(each[1] for each in params if each is not None)
    return _TEMPLATE.sub(_blank, text), found


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])
