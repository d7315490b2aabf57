"""The contents of a snippet's variables while it is translated."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from xferlib.kernels.ir.nodes import Builder, DType, Node

RESULT = ("result",)


Fail = Callable[[str], NoReturn]


class TranslatorPart:
    """The attributes that all parts of the translator of snippets use; `csnippet.Translator` joins them."""

    b: Builder
    scope: Any
    work: Any
    types: dict[str, DType]
    fail: Callable[..., NoReturn]
    error: Callable[..., Exception]
    expression: Callable[[Any], Node]
    any_value: Callable[[Any], Any]


class OutputReadError(Exception):
    """A reduction's output is read before it is written."""


class Contents(NamedTuple):
    """The contents of a variable: ``value`` where ``written`` is true, else the initial content."""

    value: Node
    written: Node


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared name. ``param`` is the parameter behind it, None for a local variable."""

    key: Hashable
    dtype: DType
    param: int | None = None
    kind: str = "local"
    """One of ``local``, ``array`` and ``record`` (local), ``value`` (a read-only parameter), ``element`` (of an array),
    ``raw`` (an array), ``pointer`` and ``reference`` (to ``place``)."""
    is_writable: bool = True
    needs_index: bool = False
    """An array declared with ``*``, whose element is written ``x[i]``."""
    shape: tuple[int, ...] = ()
    """The extents of a local array."""
    is_argument: bool = False
    """A function's parameter with a value of its own."""
    place: Place | None = None
    """The place to which a pointer or a reference leads."""
    members: tuple[Variable, ...] = ()
    """Of a struct."""


class Place(NamedTuple):
    """A variable, or element ``at`` of an array."""

    variable: Variable
    at: Node | None


class Carried(NamedTuple):
    """A variable that a loop may change, and its contents before the loop."""

    key: Hashable
    value: Node
    written: Node | None
    """None where it counts as written."""


@dataclass(slots=True)
class Branch:
    """The state at the end of one side of a branch."""

    state: dict[Hashable, Contents] = field(default_factory=dict)


class Before(NamedTuple):
    """The scope before a branch: its condition, and the contents of its variables."""

    path: Node | None
    state: dict[Hashable, Contents]
    touched: Mapping[int, Any] = MappingProxyType({})
    """The nodes that touched ordered arrays last, where those are restored too."""
