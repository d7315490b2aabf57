"""The syntax tree of a snippet and its preamble, as `parse` makes it and `translate` reads it.

Each node knows its position in the user's text, and the width of the caret under it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class _Dataclass:
    """Makes each subclass a dataclass whose instances are compared by identity."""

    inner: ClassVar[tuple[str, ...]] = ()
    """The names of the fields that may hold nodes."""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)
        found = fields(cls)  # type: ignore[arg-type]  # a dataclass by now
        cls.inner = tuple(each.name for each in found if each.type not in ("int", "str", "bool"))


class Tree(_Dataclass):
    """A node of the tree."""

    at: int = field(kw_only=True)
    width: int = field(kw_only=True, default=1)


class TypeName(Tree):
    """A type as it is named: ``parts`` are the names between ``::``, each with its template's arguments or None."""

    parts: tuple[tuple[str, tuple[Any, ...] | None], ...]

    @property
    def name(self) -> str:
        return self.parts[-1][0]

    def __str__(self) -> str:
        return "::".join(
            name if args is None else f"{name}<{', '.join(str(each) for each in args)}>" for name, args in self.parts
        )


class DeclaredType(Tree):
    """A declared type: the named one, and what the declarator adds to it."""

    base: TypeName
    pointers: int = 0
    is_reference: bool = False
    extents: tuple[Any, ...] = ()
    """Expressions; None for one that the values say."""
    is_const: bool = False
    """Whether the value, or what a pointer leads to, is constant."""

    def __str__(self) -> str:
        return f"{self.base}{' ' * bool(self.pointers)}{'*' * self.pointers}{'&' * self.is_reference}"


class Literal(Tree):
    """A number, a character or a text, as it is written."""

    text: str


class Name(Tree):
    name: str
    args: tuple[Any, ...] | None = None
    """The types that a call names, of a template."""
    owner: TypeName | None = None
    """The type before ``::``."""


class This(Tree):
    pass


class Unary(Tree):
    op: str
    """With ``p++`` and ``p--`` behind the operand."""
    expr: Any


class Binary(Tree):
    op: str
    left: Any
    right: Any


class Assignment(Tree):
    op: str
    target: Any
    value: Any


class Conditional(Tree):
    condition: Any
    yes: Any
    no: Any


class Comma(Tree):
    exprs: tuple[Any, ...]


class CallExpression(Tree):
    function: Any
    args: tuple[Any, ...]


class Cast(Tree):
    type: DeclaredType
    expr: Any


class Construct(Tree):
    """``T(a, b)`` and ``T{a, b}``."""

    type: TypeName
    args: tuple[Any, ...]


class Listed(Tree):
    """``{a, b}``."""

    items: tuple[Any, ...]


class Index(Tree):
    array: Any
    index: Any


class Member(Tree):
    owner: Any
    name: str
    is_arrow: bool
    name_at: int


class SizeOf(Tree):
    of: Any
    """A `DeclaredType`, or an expression."""


# --- statements


class Variable(Tree):
    """One declared variable."""

    name: str
    type: DeclaredType
    value: Any = None
    """An expression; a `Listed` for ``T x{a}`` and ``T x = {a}``, an `Arguments` for ``T x(a)``."""
    is_static: bool = False


class Arguments(Tree):
    """``(a, b)`` behind a declared name."""

    items: tuple[Any, ...]


class Declaration(Tree):
    variables: tuple[Any, ...]
    """`Variable`, and what the declaration defines beside them."""


class Alias(Tree):
    name: str
    type: DeclaredType
    types: tuple[str, ...] = ()
    """Of a template of aliases."""


class Enumeration(Tree):
    name: str
    numbers: tuple[tuple[str, Any], ...]
    is_scoped: bool
    base: TypeName | None


class Evaluate(Tree):
    expr: Any


class Compound(Tree):
    statements: tuple[Any, ...]


class If(Tree):
    condition: Any
    yes: Any
    no: Any
    begin: Any = None
    """A declaration in front of the condition."""


class Loop(Tree):
    """``for``, ``while`` and ``do``."""

    begin: Any
    condition: Any
    after: Any
    body: Any
    is_late: bool = False
    """``do``: the condition stands behind the body."""


class SwitchCase(Tree):
    value: Any
    """None of ``default``."""
    statements: tuple[Any, ...]


class Switch(Tree):
    value: Any
    cases: tuple[SwitchCase, ...]


class JumpStatement(Tree):
    """``break`` and ``continue``."""

    kind: str


class Return(Tree):
    value: Any


# --- definitions of a preamble


class Parameter(Tree):
    name: str
    type: DeclaredType
    default: Any = None


class FunctionTree(Tree):
    """A function; of a struct, a constructor or an operator too."""

    name: str
    """``operator+`` of an operator."""
    returns: DeclaredType | None
    """None of a constructor."""
    params: tuple[Parameter, ...]
    body: Compound
    types: tuple[str, ...] = ()
    """The parameters of its template."""
    sets: tuple[tuple[str, Any], ...] = ()
    """Of a constructor: members, and their values' `Arguments`."""
    is_static: bool = False
    struct: Any = None
    """The `StructTree` in which it stands."""
    source: Any = None


class StructTree(Tree):
    name: str
    members: tuple[Variable, ...]
    types: tuple[str, ...]
    functions: dict[str, list[FunctionTree]]
    constructors: list[FunctionTree]
    aliases: tuple[Alias | Enumeration | Variable, ...]
    """Its types, enumerations and constants."""
    source: Any = None


def children(node: Tree) -> list[Tree]:
    """The nodes directly within one."""
    found: list[Tree] = []
    for name in node.inner:
        value = getattr(node, name)
        if isinstance(value, Tree):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            for each in value:
                if isinstance(each, Tree):
                    found.append(each)
                elif isinstance(each, tuple):
                    found += [inner for inner in each if isinstance(inner, Tree)]
    return found


def walk(*roots: Any) -> Iterator[Any]:
    """All nodes within some; a tree may be deeper than Python's stack."""
    stack = [each for each in roots if isinstance(each, Tree)]
    while stack:
        node = stack.pop()
        yield node
        stack += children(node)


STEPS = ("++", "--", "p++", "p--")
"""The operators that count a variable up or down."""


def find_target(node: Any) -> Any:
    """The expression that a node changes or takes the address of; None where it does neither."""
    if isinstance(node, Assignment):
        return node.target
    return node.expr if isinstance(node, Unary) and node.op in (*STEPS, "&") else None


def names_in(*roots: Any) -> frozenset[str]:
    """The names that stand for values within some nodes."""
    return frozenset(each.name for each in walk(*roots) if isinstance(each, Name))
