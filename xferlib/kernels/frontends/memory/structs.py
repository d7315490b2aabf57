"""Structs in snippets: a struct is its members, each a value of the program."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from xferlib.errors import KernelTypeError
from xferlib.kernels.frontends.cpp import type_names
from xferlib.kernels.frontends.ctext import NO_VALUE
from xferlib.kernels.frontends.memory.contents import Contents, Fail, Place, TranslatorPart, Variable
from xferlib.kernels.frontends.memory.local_arrays import element_keys
from xferlib.kernels.ir.nodes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, Builder, DType, Node
from xferlib.kernels.ir.types import VECTOR_PARTS

MOST_LEAVES = 1024
"""Limit of the numbers of a struct, those of structs within it included."""


@dataclass(frozen=True, slots=True)
class StructType:
    """The type of a struct: its members with their names."""

    name: str
    members: tuple[tuple[str, Any], ...]
    """Dtypes, and types of structs."""
    args: tuple[Any, ...] = ()
    """The types for which it is an instance of a template."""
    kind = "V"

    @property
    def base(self) -> str:
        """The name without the types of a template."""
        return self.name.partition("<")[0]

    @property
    def numpy(self) -> np.dtype[Any]:
        """The dtype of such a struct in memory."""
        fields = [(name, each.numpy if isinstance(each, StructType) else each) for name, each in self.members]
        return np.dtype(fields, align=True)

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    def leaves(self) -> list[DType]:
        """The dtypes of all numbers in it."""
        return [
            leaf for _, each in self.members for leaf in (each.leaves() if isinstance(each, StructType) else [each])
        ]

    def of(self, values: Iterator[Node]) -> StructValue:
        """A struct of the next values, as many as it has numbers."""
        return StructValue(
            self,
            {name: each.of(values) if isinstance(each, StructType) else next(values) for name, each in self.members},
        )

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class StructValue:
    """The value of a struct."""

    dtype: StructType
    members: dict[str, Any]
    """Nodes, and values of structs."""

    def leaves(self) -> list[Node]:
        """All numbers in it."""
        return [leaf for each in self.members.values() for leaf in leaves(each)]


def leaves(value: Node | StructValue) -> list[Node]:
    """The numbers of a struct, or the one number."""
    return value.leaves() if isinstance(value, StructValue) else [value]


VECTORS = {
    f"{name}{count}": StructType(f"{name}{count}", tuple((each, dtype) for each in "xyzw"[:count]))
    for name, dtype in VECTOR_PARTS.items()
    for count in (1, 2, 3, 4)
}
"""CUDA's vector types."""


def keys_of(variable: Variable) -> list[Hashable]:
    """The keys of a variable's contents: its own, those of its elements, or those of its members."""
    if variable.kind == "array":
        return element_keys(variable)
    if variable.kind == "record":
        return [key for each in variable.members for key in keys_of(each)]
    return [variable.key]


class StructScope:
    """The part of a scope that knows of structs."""

    b: Builder
    _names: dict[str, Variable]
    _state: dict[Hashable, Contents]
    _declared: dict[Hashable, Variable]
    _true: Node
    choice: Callable[[Node, Place, Place], Place]
    _write: Callable[[Variable, Hashable, Node, str, Fail], Node]

    def record_variable(
        self,
        key: Hashable,
        dtype: StructType,
        value: StructValue | None,
        *,
        is_writable: bool = True,
    ) -> Variable:
        """A new variable of a struct, with its value where it has one."""
        members: list[Variable] = []
        for name, kind in dtype.members:
            own, content = (key, name), None if value is None else value.members[name]
            if isinstance(kind, StructType):
                members.append(self.record_variable(own, kind, content, is_writable=is_writable))
                continue
            self._declared[own] = Variable(own, kind, is_writable=is_writable)
            members.append(self._declared[own])
            if content is not None:
                self._state[own] = Contents(content, self._true)
        kind_of: Any = dtype
        return Variable(key, kind_of, kind="record", is_writable=is_writable, members=tuple(members))

    def read_record(self, variable: Variable) -> StructValue:
        """The value of a struct; members that have none are 0."""
        dtype: Any = variable.dtype
        values: dict[str, Any] = {}
        for (name, kind), each in zip(dtype.members, variable.members, strict=True):
            if isinstance(kind, StructType):
                values[name] = self.read_record(each)
            else:
                slot = self._state.get(each.key)
                values[name] = self.b.const(0, kind) if slot is None else slot.value
        return StructValue(dtype, values)

    def write_record(self, variable: Variable, value: Any, name: str, fail: Fail) -> StructValue:
        """Assign a struct."""
        if not isinstance(value, StructValue) or value.dtype != variable.dtype:
            fail(f"{name!r} is a {variable.dtype}, and {value.dtype} is assigned")
        for each, content in zip(variable.members, value.members.values(), strict=True):
            if each.kind == "record":
                self.write_record(each, content, name, fail)
            else:
                self._write(each, each.key, content, name, fail)
        return value

    def is_record(self, name: str) -> bool:
        """Whether a name is that of a struct."""
        variable = self._names.get(name)
        return variable is not None and variable.kind in ("record", "choice") and isinstance(variable.dtype, StructType)

    def selected(self, condition: Node, yes: Any, no: Any) -> Any:
        """One of two numbers or structs of one type."""
        if not isinstance(yes, StructValue):
            return self.b.select(condition, yes, no)
        pairs = zip(yes.leaves(), no.leaves(), strict=True)
        return yes.dtype.of(iter([self.b.select(condition, one, other) for one, other in pairs]))

    def members(self, variable: Variable) -> dict[str, Variable]:
        """The members of a struct by their names."""
        dtype: Any = variable.dtype
        found = (self.member(Place(variable, None), name, _missing).variable for name, _ in dtype.members)
        return dict(zip((name for name, _ in dtype.members), found, strict=True))

    def open_members(self, variable: Variable, hidden: Container[str]) -> None:
        """Let the names of a struct's members stand for them, as its functions do."""
        self._names |= {name: each for name, each in self.members(variable).items() if name not in hidden}

    def member(self, place: Place, name: str, fail: Fail) -> Place:
        """The place of a member of the struct at a place."""
        variable = place.variable
        if variable.choice is not None:
            condition, yes, no = variable.choice
            return self.choice(condition, self.member(yes, name, fail), self.member(no, name, fail))
        if variable.kind != "record":
            fail("a number has no members; of an array and of _ind there is .ndim")
        dtype: Any = variable.dtype
        names = [each for each, _ in dtype.members]
        if name not in names:
            fail(f"{dtype} has no member {name!r}; its members are {', '.join(names)}")
        return Place(variable.members[names.index(name)], None)


def _missing(message: str) -> NoReturn:
    raise AssertionError(message)


class Structs(TranslatorPart):
    """Translates types, and structs."""

    structs: Any
    constructed: Callable[..., Any]
    text: Any

    def type_of(self, node: Any) -> Any:
        """The dtype that a type's words name, or the `StructType` of a struct."""
        if type(node).__name__ != "IdentifierType":
            self.fail(
                node,
                "union is not supported, nor enum outside of the preamble, nor a struct without a name; use numbers",
            )
        found = self._words(node.names, node) or self.record_type(node, node.names[-1])
        if found is None:
            self.fail(node, f"unknown type {' '.join(node.names)!r}; use a C or NumPy type name")
        return found

    def _words(self, names: list[str], node: Any) -> Any:
        if (found := self.own_types.get(" ".join(names))) is not None:
            return found
        if len(names) == 1 and (meant := self.text.aliases.get(names[0], names[0])) != names[0]:
            return self.named_type(meant, node)
        words = sorted((word for word in names if word != "signed" or len(names) == 1), reverse=True)
        name = " ".join(words)
        name = name.removesuffix(" int") if (name != "int" and "long" in name) or "short" in name else name
        name = "int" if name == "signed" else name
        return self.types.get(name) or self.types.get(" ".join(names))

    def named_type(self, name: str, node: Any = None) -> Any:
        """The type of a name, a dtype or a `StructType`; None if there is none. Errors point at ``node``."""
        plain = [each for each in name.split() if each not in ("const", "volatile", "struct", "typename")]
        return self._words(plain, node) or self.record_type(node, " ".join(plain))

    def record_type(self, node: Any, name: str) -> Any:
        """The type of a struct of that name, or of the one that ``conditional`` chooses; None if there is none."""
        if (choice := type_names.CHOICE.match(name)) is not None:
            one, other, yes, no = map(self.named_type, choice.groups())
            return yes if one == other else no
        base, texts = type_names.instance(name)
        struct = self.structs.get(base)
        if struct is None and base == "complex" and len(texts) == 1:
            return {FLOAT32: COMPLEX64, FLOAT64: COMPLEX128}.get(self.named_type(texts[0]))
        if struct is None:
            return VECTORS.get(name)
        args = tuple(map(self.named_type, texts))
        if any(each is None for each in args) or len(args) != len(struct.types):
            count = f"{len(struct.types)} type(s)" if struct.types else "no types"
            self.fail(node, f"struct {name}: the template takes {count}; give C or NumPy type names")
        if args:
            name = f"{base}<{', '.join(map(str, args))}>"
        outside, self.own_types = self.own_types, dict(zip(struct.types, args, strict=True))
        members: list[tuple[str, Any]] = []
        for words, member in struct.members:
            kind: Any = None if base in words.split() else self.named_type(words)
            if kind is None:
                self.fail(
                    node, f"struct {name}: unknown type {words!r} of member {member!r}; use a C or NumPy type name"
                )
            members.append((member, kind))
        self.own_types = outside
        made = StructType(name, tuple(members), args)
        if (numbers := len(made.leaves())) > MOST_LEAVES:
            message = f"struct {name} has {numbers} numbers; at most {MOST_LEAVES}, as each is a variable"
            raise self.text.error(message, None) if node is None else self.error(node, message)
        return made

    def has_constructor(self, dtype: StructType) -> bool:
        """Whether a struct, or one within it, is made by constructors."""
        struct = self.structs.get(dtype.base)
        within = (each for _, each in dtype.members if isinstance(each, StructType))
        return bool(struct is not None and struct.constructor) or any(map(self.has_constructor, within))

    def made_record(self, node: Any, dtype: StructType, given: list[Any]) -> StructValue:
        """A struct from one of its own type, by a constructor, or from its members' expressions."""
        given = [each for each in given if getattr(each, "name", None) != NO_VALUE]
        struct = self.structs.get(dtype.base)
        if struct is None or not struct.constructor:
            return self.aggregate(node, dtype, given)
        if any(type(each).__name__ == "InitList" for each in given):
            self.fail(node, f"a constructor of {dtype} takes no list; name the type of the value")
        values = [self.any_value(each) for each in given]
        if len(values) == 1 and isinstance(values[0], StructValue) and values[0].dtype == dtype:
            return values[0]
        types = dict(zip(struct.types, dtype.args, strict=True))
        return self.constructed(node, dtype, struct.constructor, values, types)  # type: ignore[no-any-return]

    def aggregate(self, node: Any, dtype: StructType, given: list[Any]) -> StructValue:
        """A struct from its members' expressions, or from one of its own type; what is missing is 0."""
        if len(given) == 1 and type(given[0]).__name__ != "InitList":
            value = self.any_value(given[0])
            if isinstance(value, StructValue):
                if value.dtype == dtype:
                    return value
                if not isinstance(dtype.members[0][1], StructType):
                    self.fail(node, f"{value.dtype} cannot become {dtype}; set its members", KernelTypeError)
            values = [value]
        else:
            values = [each if type(each).__name__ == "InitList" else self.any_value(each) for each in given]
        if len(values) > len(dtype.members):
            self.fail(node, f"{dtype} has {len(dtype.members)} member(s), {len(values)} are given", KernelTypeError)
        found: dict[str, Any] = {}
        for number, (name, kind) in enumerate(dtype.members):
            value = values[number] if number < len(values) else None
            found[name] = self._member_value(node, kind, value)
        return StructValue(dtype, found)

    def _member_value(self, node: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, StructType):
            if isinstance(value, StructValue) and value.dtype == kind:
                return value
            if value is None or type(value).__name__ == "InitList":
                return self.made_record(node, kind, value.exprs if value is not None else [])
            self.fail(node, f"a member is a {kind}, and {value.dtype} is given", KernelTypeError)
        if isinstance(value, StructValue) or type(value).__name__ == "InitList":
            self.fail(node, f"a member is {kind}, and a struct is given", KernelTypeError)
        return self.b.const(0, kind) if value is None else self.b.cast(value, kind)
