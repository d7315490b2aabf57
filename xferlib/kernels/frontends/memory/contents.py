"""The contents of a snippet's variables while it is translated."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from xferlib.kernels.ir.nodes import Builder, DType, Node

RESULT = ("result",)
RETURNED = "returned"
"""The first part of the keys of the members of a struct that a function returns."""


Fail = Callable[[str], NoReturn]


class TranslatorPart:
    """The attributes that all parts of the translator of snippets use; `csnippet.Translator` joins them."""

    b: Builder
    scope: Any
    work: Any
    types: dict[str, DType]
    """Those that every text of the kernel knows: C's, NumPy's and those of the letters."""
    own_types: dict[str, Any]
    """Those that hide them, and the names of the preamble: of a function's template, and of the blocks around."""
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
    ``raw`` (an array), ``pointer`` and ``reference`` (to ``place``), and ``choice`` (one of two places)."""
    is_writable: bool = True
    needs_index: bool = False
    """An array declared with ``*``, whose element is written ``x[i]``."""
    shape: tuple[int, ...] = ()
    """The extents of a local array."""
    place: Place | None = None
    """The place to which a pointer or a reference leads."""
    members: tuple[Variable, ...] = ()
    """Of a struct."""
    choice: tuple[Node, Place, Place] | None = None
    """The condition, and the places where it is true and where it is not."""


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
    counter: int = 0
    """The number of variables so far, likewise: what is translated anew gives them the same keys."""
