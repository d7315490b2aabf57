"""Device functions that a snippet may call: the ``preamble=`` of CuPy's and PyCUDA's kernels.

They are parsed as C and inlined at each call, so that they mean the same on every backend. Every path through a
function ends with ``return``; templates, pointers and preprocessor lines are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from xferlib.errors import KernelSyntaxError
from xferlib.kernels.frontends.cscope import Scope
from xferlib.kernels.frontends.ctext import SnippetText
from xferlib.kernels.ir.nodes import Builder, Node

MOST_DEPTH = 32

_QUALIFIERS = re.compile(r"__(?:device|host|forceinline|inline|noinline)__|\b(?:inline|static|constexpr)\b")


class PreambleFunction(NamedTuple):
    """A function of the preamble, and the text that its errors point into."""

    text: SnippetText
    tree: Any


def functions_of(source: str, generics: frozenset[str]) -> dict[str, PreambleFunction]:
    """The functions of a preamble by name.

    Raises:
        KernelSyntaxError: It is not C, or holds anything but functions.
    """
    if not source.strip():
        return {}
    from pycparser import c_parser

    blank = _QUALIFIERS.sub(lambda match: " " * len(match[0]), source)
    text = SnippetText(blank, generics, "preamble")
    try:
        tree = c_parser.CParser().parse(text.unit(), filename="")
    except c_parser.ParseError as error:
        raise text.parse_error(str(error)) from None
    except RecursionError:
        raise text.error("is nested too deeply; use local variables for parts of it", None) from None
    functions: dict[str, PreambleFunction] = {}
    for each in tree.ext:
        kind = type(each).__name__
        if kind == "FuncDef":
            functions[each.decl.name] = PreambleFunction(text, each)
        elif kind != "Typedef":
            raise KernelSyntaxError(f"preamble: it holds a {kind}; write functions alone")
    return functions


class Inliner:
    """Inlines calls of the preamble's functions into the program.

    Args:
        builder: The program's.
        make: Makes a translator for a scope and a text; it knows the same types and functions, one call deeper.
    """

    def __init__(self, builder: Builder, make: Callable[[Scope, SnippetText], Any]) -> None:
        self.b = builder
        self._make = make

    def call(self, function: PreambleFunction, args: list[Node], path: Node | None) -> Node:
        """The value that the function returns, called under the condition ``path``."""
        declaration = function.tree.decl.type
        given = declaration.args.params if declaration.args else []
        scope = Scope(self.b, path)
        translator = self._make(scope, function.text)
        params = [each for each in given if not _is_void(each)]
        if len(params) != len(args):
            name = function.tree.decl.name
            translator.fail(function.tree.decl, f"{name}() takes {len(params)} argument(s), {len(args)} were given")
        for param, value in zip(params, args, strict=True):
            if type(param.type).__name__ != "TypeDecl":
                translator.fail(param, "a parameter must be a number; pointers and arrays are not supported")
            dtype = translator.type_of(param.type.type)
            scope.declare(param.name, dtype, self.b.cast(value, dtype))
        translator.returns = returned = translator.type_of(declaration.type.type)
        translator.run(function.tree.body.block_items or [])
        if not any(map(_always_returns, function.tree.body.block_items or [])):
            translator.fail(function.tree.decl, "a path through the function ends without return")
        assert scope.result is not None
        assert scope.result.value.dtype == returned
        return scope.result.value


def _always_returns(node: Any) -> bool:
    """Whether every path through a statement ends with ``return``."""
    kind = type(node).__name__
    if kind == "Compound":
        return any(map(_always_returns, node.block_items or []))
    if kind == "If":
        return node.iffalse is not None and _always_returns(node.iftrue) and _always_returns(node.iffalse)
    return kind == "Return"


def _is_void(param: Any) -> bool:
    kind = getattr(param.type, "type", None)
    return getattr(kind, "names", None) == ["void"]
