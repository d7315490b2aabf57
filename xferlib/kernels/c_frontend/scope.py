"""Names, and the types and objects that they stand for while a snippet is read.

A name resolves to an *object* by the block in which it is looked up. A number is a `Cell`, a struct or an array of
the snippet's a `CompoundObject` of further objects, an array that is a parameter a `Raw`. A reference is not
an object of its own: its name stands for the object itself, and so does ``this`` of a method. What an expression may be
assigned to is an object too, or an `Either` of several, each under its condition, as where a computed index chooses.
So a write ends up in one place, whatever the way to it, and `memory.Memory` sees it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from xferlib.kernels.c_frontend.preprocess import SourceText
from xferlib.kernels.c_frontend.tree import Alias, FunctionTree, StructTree
from xferlib.kernels.functions import VECTOR_PARTS
from xferlib.kernels.ir import DType, Node

MOST_ELEMENTS = 1024
"""Limit of an array's elements: each is a value of the program."""


# --- types


@dataclass(frozen=True, slots=True, eq=False)
class StructType:
    """The type of a struct: its members with their names. Each is made once."""

    name: str
    members: tuple[tuple[str, Any], ...]
    args: tuple[Any, ...] = ()
    """The types for which it is an instance of a template."""
    definition: Any = None
    """The `tree.StructTree`; None of CUDA's vectors."""
    scope: Any = None
    """The names that its functions know."""
    count: int = 0
    """How many numbers it holds; 0 of CUDA's vectors."""
    kind = "V"

    @property
    def base(self) -> str:
        """The name without the types of a template."""
        return self.name.partition("<")[0]

    @property
    def numpy(self) -> np.dtype[Any]:
        """The dtype of such a struct in memory."""
        return np.dtype([(name, _numpy(each)) for name, each in self.members], align=True)

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    @property
    def parts(self) -> list[Any]:
        """The types of its members."""
        return [each for _, each in self.members]

    def position(self, name: str) -> int | None:
        """The number of a member; None if there is none of this name."""
        return next((number for number, (each, _) in enumerate(self.members) if each == name), None)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of an array of known extents."""

    element: Any
    extents: tuple[int, ...]
    kind = "A"

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.extents)

    @property
    def parts(self) -> list[Any]:
        """The types of its elements."""
        return [self.element] * self.count

    @property
    def itemsize(self) -> int:
        return int(self.element.itemsize) * self.count

    def __str__(self) -> str:
        return f"{self.element}{''.join(f'[{each}]' for each in self.extents)}"


def _numpy(kind: Any) -> Any:
    if isinstance(kind, ArrayType):
        return np.dtype((_numpy(kind.element), kind.extents))
    return kind.numpy if isinstance(kind, StructType) else kind


def count_of(kind: Any) -> int:
    """How many numbers a type holds."""
    if isinstance(kind, ArrayType):
        return count_of(kind.element) * kind.count
    return (kind.count or len(kind.members)) if isinstance(kind, StructType) else 1


def leaf_types(kind: Any) -> list[DType]:
    """The dtypes of all numbers of a type."""
    if isinstance(kind, (StructType, ArrayType)):
        return [leaf for each in kind.parts for leaf in leaf_types(each)]
    return [kind]


def make_value(kind: Any, values: Iterator[Node]) -> Any:
    """The value of a type that consists of the next numbers."""
    if isinstance(kind, (StructType, ArrayType)):
        return CompoundValue(kind, tuple(make_value(each, values) for each in kind.parts))
    return next(values)


VECTORS = {
    f"{name}{count}": StructType(f"{name}{count}", tuple((each, dtype) for each in "xyzw"[:count]))
    for name, dtype in VECTOR_PARTS.items()
    for count in (1, 2, 3, 4)
}
"""CUDA's vector types."""


# --- values: a `Node`, and those of several numbers


@dataclass(frozen=True, slots=True, eq=False)
class CompoundValue:
    """The value of a struct, or of an array within one."""

    dtype: StructType | ArrayType
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """The value of a pointer: element ``index`` of an array, or a whole object (``index`` is None)."""

    base: Any
    """A `CompoundObject`, a `Raw`, a `ComplexParts`, or any object."""
    index: Node | None
    dtype: Any
    """The type of what it leads to."""
    is_const: bool = False
    kind = "P"


Value = Any


def is_struct(value: Any) -> bool:
    """Whether a value or an object is a struct."""
    return isinstance(value, (CompoundValue, CompoundObject)) and isinstance(value.dtype, StructType)


def leaves(value: Value) -> list[Node]:
    """The numbers of a value."""
    if isinstance(value, CompoundValue):
        return [leaf for each in value.parts for leaf in leaves(each)]
    return [value]


# --- objects; of those that consist of others, ``inside`` has these


class Cell:
    """A number that may change. ``param`` is the parameter whose element it is; None of a variable of the snippet's."""

    __slots__ = ("dtype", "name", "param", "serial")

    def __init__(self, name: str, dtype: DType, serial: int, param: int | None = None) -> None:
        self.name = name
        self.dtype = dtype
        self.serial = serial
        """Cells made later have larger ones."""
        self.param = param


@dataclass(frozen=True, slots=True, eq=False)
class CompoundObject:
    """A struct or an array of the snippet's own: its members, or its elements in C order."""

    name: str
    dtype: Any
    """A `StructType` or an `ArrayType`."""
    inside: tuple[Any, ...]


def is_array(place: Any) -> bool:
    """Whether an object is an array of the snippet's own, or a row of one."""
    return isinstance(place, ArrayRow) or (isinstance(place, CompoundObject) and isinstance(place.dtype, ArrayType))


@dataclass(frozen=True, slots=True, eq=False)
class ArrayRow:
    """The part of an array of several dimensions that fewer indices stand for."""

    array: CompoundObject
    offset: Node
    dtype: ArrayType


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """An array parameter that the kernel indexes."""

    name: str
    dtype: DType
    param: int


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """An array parameter of which each element is indexed by its own number alone, ``x[i]``."""

    name: str
    cell: Any


class Element:
    """An element of a `Raw`; those of one index are one object."""

    __slots__ = ("dtype", "index", "name", "param")

    def __init__(self, raw: Raw, index: Node) -> None:
        self.name = raw.name
        self.param = raw.param
        self.dtype = raw.dtype
        self.index = index


@dataclass(frozen=True, slots=True, eq=False)
class ComplexParts:
    """The real and imaginary parts of an object of complex numbers, as an array of real ones."""

    base: Any
    """A `Pointer`."""
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class ComplexPart:
    """A part of a complex number."""

    whole: Any
    is_imaginary: bool
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Bits:
    """A number whose bits are seen as a number of another type."""

    whole: Any
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class PointerVariable:
    """A pointer that may move along the array that it was made for."""

    name: str
    base: Any
    cell: Cell | None
    """Of the index; None where it leads to a single object."""
    dtype: Any
    is_const: bool
    kind = "P"

    @property
    def inside(self) -> tuple[Any, ...]:
        return (self.base,) if self.cell is None else (self.cell, self.base)


@dataclass(frozen=True, slots=True, eq=False)
class Either:
    """One of several objects of a type, each under its condition; exactly one holds, else it is the last one."""

    choices: tuple[tuple[Node, Any], ...]
    dtype: Any

    @property
    def inside(self) -> tuple[Any, ...]:
        return tuple(each for _, each in self.choices)


@dataclass(frozen=True, slots=True, eq=False)
class ReadOnly:
    """An object that cannot be written by this way."""

    object: Any

    @property
    def dtype(self) -> Any:
        return self.object.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A name for a value; numbers of headers, enumerations, and the operands of a reduction."""

    value: Any

    @property
    def dtype(self) -> Any:
        return self.value.dtype


_TARGETS = {Pointer: "base", ArrayRow: "array", Own: "cell", ComplexParts: "base", ComplexPart: "whole", Bits: "whole"}
"""The one object that a value or an object leads to, by the name of its attribute; several are in ``inside``."""


def plain(place: Any) -> Any:
    """The object itself of one that may be read-only."""
    while isinstance(place, ReadOnly):
        place = place.object
    return place


def numbers_of(place: Any) -> Iterator[Cell | Element]:
    """The cells and the elements of parameters behind an object."""
    place = plain(place)
    if isinstance(place, (Cell, Element)):
        yield place
        return
    target = _TARGETS.get(type(place))
    for each in getattr(place, "inside", ()) if target is None else (getattr(place, target),):
        yield from numbers_of(each)


def cells_of(place: Any) -> Iterator[Cell]:
    """The cells behind an object."""
    return (each for each in numbers_of(place) if isinstance(each, Cell))


# --- names


class Scope:
    """The names of a block; what it does not know, the block around it may."""

    __slots__ = ("is_users", "names", "outer")

    def __init__(self, outer: Scope | None = None, *, is_users: bool = True) -> None:
        self.names: dict[str, Any] = {}
        self.outer = outer
        self.is_users = is_users
        """Whether a user has given its names."""

    def find(self, name: str) -> Any:
        """The meaning of a name; None if it is not known."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.outer
        return None

    def list_names(self) -> list[str]:
        """The names of variables that a user has given, for messages."""
        found: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            if scope.is_users:
                found.update(name for name, each in scope.names.items() if is_variable(each))
            scope = scope.outer
        return sorted(found)


_VARIABLES = frozenset({
    Cell, CompoundObject, ArrayRow, Raw, Own, Element, ComplexPart, Bits, PointerVariable, Either, ReadOnly, Constant,
})  # fmt: skip


def is_variable(entity: Any) -> bool:
    """Whether a name stands for a value, and not for a type or a function."""
    return type(entity) in _VARIABLES


# --- names of other things than objects


class HeaderNumber(NamedTuple):
    """A number that a header names."""

    value: Any
    dtype: DType


@dataclass(slots=True, eq=False)
class Template:
    """A struct's definition, and the types made of it."""

    struct: StructTree
    scope: Scope
    made: dict[tuple[Any, ...], StructType] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class NamedType:
    """A name that the source gives to a type."""

    alias: Alias
    scope: Scope
    source: SourceText


@dataclass(slots=True, eq=False)
class ScopedNumbers:
    """An ``enum class``."""

    numbers: dict[str, Any]
    dtype: DType


@dataclass(slots=True, eq=False)
class Overloads:
    """The functions of a name; ``this`` is the struct of which they are methods."""

    functions: list[FunctionTree]
    scope: Scope
    this: Any = None


@dataclass(frozen=True, slots=True)
class PointerType:
    element: Any
    is_const: bool
    kind = "P"
    itemsize = 8

    def __str__(self) -> str:
        return f"pointer to {self.element}"


@dataclass(slots=True, eq=False)
class ShapeOfCall:
    """``_ind`` and its like: the shape of a call."""

    name: str
    size: Node
    has_axes: bool


class Jump:
    """A place that statements may jump to: the end of a loop, of its turn, or of a function."""

    __slots__ = ()


@dataclass(slots=True)
class Frame:
    """The state of a function that is translated, beside its names' meaning."""

    source: SourceText
    scope: Scope
    end: Jump
    is_function: bool = False
    returns: Any = None
    """The type that it returns; None in a snippet, and of ``void``."""
    result: Any = None
    """The object of the result."""
    references: list[tuple[Node | None, Any]] | None = None
    """The results so far, each under its condition, where it returns a reference or a pointer."""
    is_pointer: bool = False
    loops: tuple[tuple[Jump, Jump | None], ...] = ()
    """The jumps of ``break`` and ``continue`` of the loops and switches around the current statement."""
    this: Any = None
    depth: int = 0


class InstanceName(NamedTuple):
    """The name of a template of structs within an instance of it: alone it is the instance."""

    type: StructType
    template: Template
