"""Device functions that a snippet may call: the ``preamble=`` of CuPy's and PyCUDA's kernels.

They are read as C and written out where they are called, so that they mean the same on every backend. A function
ends with ``return``, on every path; templates, pointers and the preprocessor are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from xferlib.errors import KernelSyntaxError
from xferlib.kernels.cscope import Scope
from xferlib.kernels.ctext import SnippetText
from xferlib.kernels.ir import Builder, DType, Node
from xferlib.kernels.types import c_common

MOST_DEPTH = 32

_QUALIFIERS = re.compile(r"__(?:device|host|forceinline|inline|noinline)__|\b(?:inline|static|constexpr)\b")


class Function(NamedTuple):
    """A function of the preamble, and the text that its errors point into."""

    text: SnippetText
    tree: Any


def functions_of(source: str, generics: frozenset[str]) -> dict[str, Function]:
    """The functions of a preamble, by name; of an empty one none.

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
    functions: dict[str, Function] = {}
    for each in tree.ext:
        kind = type(each).__name__
        if kind == "FuncDef":
            functions[each.decl.name] = Function(text, each)
        elif kind != "Typedef":
            raise KernelSyntaxError(f"preamble: it holds a {kind}; write functions alone")
    return functions


class Inliner:
    """Writes one call of a preamble's function into the program.

    Args:
        builder: The program's.
        make: Makes a translator for a scope and a text; it knows the same types and functions, one call deeper.
    """

    def __init__(self, builder: Builder, make: Callable[[Scope, SnippetText], Any]) -> None:
        self.b = builder
        self._make = make

    def call(self, function: Function, args: list[Node]) -> Node:
        """The value that the function returns."""
        declaration = function.tree.decl.type
        given = declaration.args.params if declaration.args else []
        scope = Scope(self.b)
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
        result = self._returned(translator, function.tree.body.block_items or [], function.tree)
        returned: DType = translator.type_of(declaration.type.type)
        return self.b.cast(result, returned)

    def _returned(self, translator: Any, statements: list[Any], owner: Any) -> Node:
        """The value of the first ``return`` that is reached."""
        for number, each in enumerate(statements):
            kind = type(each).__name__
            if kind == "Return":
                if each.expr is None:
                    translator.fail(each, "return needs a value")
                value: Node = translator.expression(each.expr)
                return value
            if kind == "Compound" and _has_return(each):
                return self._returned(translator, [*(each.block_items or []), *statements[number + 1 :]], owner)
            if kind == "If" and _has_return(each):
                return self._either(translator, each, statements[number + 1 :], owner)
            if _has_return(each):
                translator.fail(each, "return inside a loop is not supported; end the loop, then return")
            translator.run([each])
        translator.fail(owner.decl, "a path through the function ends without return")
        raise AssertionError

    def _either(self, translator: Any, node: Any, rest: list[Any], owner: Any) -> Node:
        condition = self.b.truth(translator.expression(node.cond))
        values = []
        for taken, branch in ((condition, node.iftrue), (self.b.op("not", condition), node.iffalse)):
            with translator.scope.branch(taken), translator.scope.nested():
                values.append(self._returned(translator, [*([branch] if branch else []), *rest], owner))
        yes, no = values
        dtype = yes.dtype if yes.dtype == no.dtype else c_common(yes.dtype, no.dtype)
        return self.b.select(condition, self.b.cast(yes, dtype), self.b.cast(no, dtype))


def _is_void(param: Any) -> bool:
    kind = getattr(param.type, "type", None)
    return getattr(kind, "names", None) == ["void"]


def _has_return(node: Any) -> bool:
    return type(node).__name__ == "Return" or any(_has_return(child) for _, child in node.children())
