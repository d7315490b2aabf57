"""The C types of a translation: what names and declarations mean as types, and values converted to them.

C names a type in many ways: by a word, a ``typedef``, a struct or an instance of its template, a member of another type
(``T::value_type``), a choice between two (``conditional``), each within the scope in which it stands. Here they
all become a dtype, a `StructType`, an `ArrayType` or a `PointerType`. An instance of a template of structs is
made once for each set of types, so that equal types are one object. A conversion to a type is a cast of a number, a
constructor of a struct, or the list of an array's elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xferlib.errors import KernelTypeError
from xferlib.kernels.c_frontend import tree
from xferlib.kernels.c_frontend.memory import RefusedError
from xferlib.kernels.c_frontend.scope import (
    MOST_ELEMENTS,
    ArrayType,
    CompoundValue,
    Constant,
    InstanceName,
    NamedType,
    Pointer,
    PointerType,
    Scope,
    ScopedNumbers,
    StructType,
    Template,
    count_of,
    is_array,
    is_struct,
    leaves,
    make_value,
)
from xferlib.kernels.c_frontend.translation import Translation
from xferlib.kernels.functions import fits, tell_unknown_type
from xferlib.kernels.ir import (
    COMPLEX64,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT32,
    UINT64,
    is_complex,
    is_float,
    part_dtype,
)

_ENUMERATED = (INT32, UINT32, INT64, UINT64)
"""The types that an enumeration may have, the first one that holds its numbers."""


class Types:
    """Resolves types and converts values to them, for a translator."""

    def __init__(self, translator: Translation) -> None:
        self._t = translator

    # --- what names and declarations mean
    def own_type(self, kind: Any) -> Any:
        """This program's own type for one of another program with the same preamble."""
        if not isinstance(kind, StructType) or kind.definition is None:
            return kind
        template = self._t.globals.names[kind.definition.name]
        return self.instantiate(kind.definition, template, tuple(map(self.own_type, kind.args)))

    def resolve_name(self, name: tree.TypeName) -> Any:
        """The type of a name: a dtype, a `StructType`, an `ArrayType` or a `PointerType`."""
        found = self.find(name)
        if found is None:
            self._t.fail(name, tell_unknown_type(str(name)))
        return found

    def find(self, name: tree.TypeName) -> Any:
        first, args = name.parts[0]
        entity = self._t.frame.scope.find(first)
        if first == "complex" and args is not None and not isinstance(entity, (Template, InstanceName)):
            found: Any = None
            if len(args) == 1:
                found = {FLOAT32: COMPLEX64, FLOAT64: COMPLEX128}.get(self.resolve_argument(args[0]))
        elif first in ("conditional", "is_same", "enable_if", "is_floating_point"):
            return self._trait(name)
        elif isinstance(entity, InstanceName):
            found = entity.type if args is None else self._struct_type(name, entity.template, args)
        elif isinstance(entity, Template):
            found = self._struct_type(name, entity, args)
        elif isinstance(entity, NamedType):
            found = self._expand_alias(name, entity, args)
        elif isinstance(entity, ScopedNumbers):
            found = entity.dtype
        elif args is None and isinstance(entity, (np.dtype, StructType, ArrayType, PointerType)):
            found = entity
        else:
            return None
        for member, inner in name.parts[1:]:
            if found is None or inner is not None:
                return None
            found = self._member_type(found, member)
        return found

    def _expand_alias(self, name: tree.TypeName, entity: NamedType, args: tuple[Any, ...] | None) -> Any:
        types = entity.alias.types
        if len(types) != len(args or ()):
            self._t.fail(name, f"{entity.alias.name} takes {len(types)} type(s); give C or NumPy type names")
        given = [self.resolve_argument(each) for each in args or ()]
        scope = Scope(entity.scope)
        scope.names.update(zip(types, given, strict=True))
        self._t.count(1)
        with self._t.inside(scope, entity.source):
            return self.resolve(entity.alias.type)

    def _member_type(self, owner: Any, name: str) -> Any:
        """``T::value_type``, and the types that a struct names."""
        if isinstance(owner, np.dtype):
            if name == "value_type" and not is_complex(owner):
                raise RefusedError(f"{owner} has no value_type; complex numbers have", KernelTypeError)
            return part_dtype(owner) if name == "value_type" else None
        if isinstance(owner, StructType) and owner.scope is not None:
            found = owner.scope.names.get(name)
            if isinstance(found, NamedType):
                with self._t.inside(found.scope, found.source):
                    return self.resolve(found.alias.type)
        return None

    def resolve_argument(self, given: Any) -> Any:
        """The type that an argument of a template is."""
        if isinstance(given, tree.Name) and given.owner is None and given.args is None:
            given = tree.DeclaredType(tree.TypeName(((given.name, None),), at=given.at, width=given.width), at=given.at)
        if not isinstance(given, tree.DeclaredType):
            self._t.fail(given, "this argument of a template is not a type; give C or NumPy type names")
        found = self.find(given.base)
        if found is None:
            self._t.fail(given.base, f"unknown type {str(given.base)!r}; give C or NumPy type names")
        return self.resolve(given)

    def _trait(self, name: tree.TypeName) -> Any:
        """``conditional<is_same<T, U>::value, V, W>::type``."""
        first, args = name.parts[0]
        if first == "conditional" and len(name.parts) == 2 and name.parts[1] == ("type", None) and len(args or ()) == 3:
            assert args is not None
            return self.resolve_argument(args[1] if self._is_true(args[0]) else args[2])
        raise self._t.error(name, f"{name} is not supported; name the type")

    def _is_true(self, given: Any) -> bool:
        """The value of a condition of types."""
        name = getattr(given, "base" if isinstance(given, tree.DeclaredType) else "owner", None)
        trait, given_types = name.parts[0] if isinstance(name, tree.TypeName) else ("", None)
        args = given_types or ()
        if trait == "is_same" and len(args) == 2:
            one, other = map(self.resolve_argument, args)
            return bool(one == other)
        if trait == "is_floating_point" and len(args) == 1:
            kind = self.resolve_argument(args[0])
            return isinstance(kind, np.dtype) and is_float(kind)
        if isinstance(given, tree.DeclaredType):
            self._t.fail(given, "this condition of types is not supported; name the type")
        known = self._t.memory.constant(self._t.b.truth(self._t.value_of_number(given)))
        if known is None:
            self._t.fail(given, "this condition must be known at translation; name the type")
        return bool(known)

    def resolve(self, declared: tree.DeclaredType) -> Any:
        """The type of a declaration, apart from a reference."""
        if declared.base.name == "auto":
            self._t.fail(declared, "auto has no value here that says its type; name the type")
        found = self.resolve_name(declared.base)
        if declared.pointers > 1 or (declared.pointers and isinstance(found, (PointerType, ArrayType))):
            self._t.fail(declared, "a pointer to a pointer or to an array is not supported; use an index")
        if declared.pointers:
            found = PointerType(found, declared.is_const)
        if declared.extents:
            if isinstance(found, PointerType):
                self._t.fail(declared, "an array of pointers is not supported; use an array of indices")
            extents = tuple(self.extent(declared, each) for each in declared.extents)
            inner = found.extents if isinstance(found, ArrayType) else ()
            found = ArrayType(found.element if inner else found, (*extents, *inner))
        return found

    def extent(self, node: Any, extent: Any) -> int:
        known = None if extent is None else self._t.memory.constant(self._t.value_of_number(extent))
        if known is None or np.asarray(known).dtype.kind not in "biu":
            self._t.fail(
                node if extent is None else extent,
                "the length of an array must be known at translation; write a number",
            )
        return int(known)

    def _struct_type(self, node: Any, template: Template, args: tuple[Any, ...] | None) -> StructType:
        struct = template.struct
        name = struct.name
        if len(struct.types) != len(args or ()):
            count = f"{len(struct.types)} type(s)" if struct.types else "no types"
            self._t.fail(node, f"struct {name}: the template takes {count}; give C or NumPy type names")
        given = tuple(self.resolve_argument(each) for each in args or ())
        return self.instantiate(node, template, given)

    def instantiate(self, node: Any, template: Template, given: tuple[Any, ...]) -> StructType:
        """The type of a struct for these types of its template."""
        found = template.made.get(given)
        if found is not None:
            return found
        struct, name = template.struct, template.struct.name
        if given:
            name = f"{name}<{', '.join(map(str, given))}>"
        self._t.count(1 + len(struct.members))
        scope = Scope(template.scope)
        scope.names.update(zip(struct.types, given, strict=True))
        for each in struct.aliases:
            if isinstance(each, tree.Alias):
                scope.names[each.name] = NamedType(each, scope, struct.source)
        with self._t.inside(scope, struct.source):
            for each in struct.aliases:
                if isinstance(each, tree.Enumeration):
                    self._t.statement(each)
                elif isinstance(each, tree.Variable):
                    scope.names[each.name] = Constant(self.convert(each.value, self.resolve(each.type)))
            members: list[tuple[str, Any]] = []
            for member in struct.members:
                if self.find(member.type.base) is None:
                    self._t.fail(
                        member,
                        f"struct {name}: unknown type {str(member.type.base)!r} of member {member.name!r}; use a C or "
                        "NumPy type name",
                    )
                members.append((member.name, self.resolve(member.type)))
        count = sum(count_of(kind) for _, kind in members)
        if count > MOST_ELEMENTS:
            self._t.fail(struct, f"struct {name} has {count} numbers; at most {MOST_ELEMENTS} are possible")
        found = StructType(name, tuple(members), given, struct, scope, count)
        template.made[given] = found
        for methods in struct.functions.values():
            for method in methods:
                self._t.calls.define(scope, method)
        scope.names[struct.name] = InstanceName(found, template)  # within itself the name is that of the instance
        return found

    # --- declarations
    def refuse_another(self, node: tree.Alias, earlier: Any) -> None:
        """Refuse a second meaning of a type's name in one block."""
        if isinstance(earlier, NamedType) and str(earlier.alias.type) != str(node.type):
            self._t.fail(node, f"{node.name!r} means {earlier.alias.type} and {node.type}; choose another name")

    def declare_alias(self, node: tree.Alias) -> None:
        earlier = self._t.frame.scope.names.get(node.name)
        if earlier is not None and not node.types and earlier != self.resolve(node.type):
            self._t.fail(node, f"{node.name!r} is declared already; choose another name")
        if node.types:
            self._t.frame.scope.names[node.name] = NamedType(node, self._t.frame.scope, self._t.frame.source)
        else:
            self._t.frame.scope.names[node.name] = self.resolve(node.type)

    def declare_struct(self, node: tree.StructTree) -> None:
        if isinstance(self._t.frame.scope.names.get(node.name), Template):
            self._t.fail(node, f"struct {node.name} is defined twice; choose another name")
        self._t.calls.note_struct(node)
        self._t.frame.scope.names[node.name] = Template(node, self._t.frame.scope)

    def declare_enumeration(self, node: tree.Enumeration) -> None:
        names = self._t.frame.scope.names
        value = -1
        values: dict[str, int] = {}
        for name, expr in node.numbers:
            value += 1
            if expr is not None:
                earlier = Scope(self._t.frame.scope)
                earlier.names.update({each: self._enumerator(expr, number) for each, number in values.items()})
                with self._t.inside(earlier, self._t.frame.source):
                    given = self._t.memory.constant(self._t.value_of_number(expr))
                if given is None or given.dtype.kind not in "biu":
                    self._t.fail(expr, "the number of an enumeration must be an integer that is known at translation")
                value = int(given)
            values[name] = value
        dtype = INT32 if node.base is None else self.resolve_name(node.base)
        if node.base is None:
            dtype = next((each for each in _ENUMERATED if all(fits(one, each) for one in values.values())), INT32)
        for name, value in values.items():
            if not fits(value, dtype):
                self._t.fail(node, f"{name} = {value} is out of range for {dtype}, the type of the enumeration")
        numbers = {name: Constant(self._t.b.const(value, dtype)) for name, value in values.items()}
        if node.is_scoped:
            names[node.name] = ScopedNumbers(numbers, dtype)
        else:
            names.update(numbers)
            names[node.name] = dtype

    def _enumerator(self, node: Any, value: int) -> Constant:
        """An earlier number of an enumeration, for the later ones."""
        dtype = next((each for each in _ENUMERATED if fits(value, each)), INT64)
        if not fits(value, dtype):
            self._t.fail(node, f"{value} is out of range for an enumeration")
        return Constant(self._t.b.const(value, dtype))

    # --- conversions
    def convert(self, node: Any, kind: Any) -> Any:
        """The value of an initializer or an expression, as one of this type."""
        if isinstance(node, (tree.Listed, tree.Arguments)):
            return self.construct(node, kind, node.items)
        value = self._t.value(node)
        return self.cast(node, value, kind)

    def cast(self, node: Any, value: Any, kind: Any) -> Any:
        """A value converted to a type."""
        if isinstance(kind, StructType):
            if isinstance(value, CompoundValue) and value.dtype is kind:
                return value
            return self._t.calls.make(node, kind, [value], is_implicit=True)
        if isinstance(kind, PointerType):
            if not isinstance(value, Pointer):
                self._t.fail(node, "this is not a pointer; write &x, &x[k] or an array")
            self.check_pointer(node, kind, value)
            return value
        if isinstance(kind, ArrayType):
            self._t.fail(node, "an array is given its elements in braces")
        return self._t.b.cast(self._t.number_of(node, value), kind)

    def construct(self, node: Any, kind: Any, items: Sequence[Any]) -> Any:
        """``T(a, b)``, ``T{a, b}`` and their like."""
        if isinstance(kind, StructType):
            return self._t.calls.make(node, kind, list(items))
        if isinstance(kind, ArrayType):
            values = self.list_elements(tree.Listed(tuple(items), at=node.at), kind)
            if len(values) > kind.count:
                self._t.fail(node, f"an array of {kind.count} element(s) is given {len(values)} values")
            values += [self.zero(node, kind.element)] * (kind.count - len(values))
            return CompoundValue(kind, tuple(values))
        if isinstance(kind, PointerType):
            if len(items) != 1:
                self._t.fail(node, "a pointer needs one place")
            return self.convert(items[0], kind)
        if not items:
            return self._t.b.const(0, kind)
        if len(items) == 1:
            return self.convert(items[0], kind)
        if len(items) != 2 or not is_complex(kind):
            self._t.fail(node, f"{kind} is made of one value, and {len(items)} are given")
        part = part_dtype(kind)
        return self._t.b.complex(*(self._t.b.cast(self._t.value_of_number(each), part) for each in items))

    def list_elements(self, value: Any, kind: ArrayType) -> list[Any]:
        """The values of an array's list, as values of its elements in C order; lists within it fill their rows.

        There may be more or fewer than the first extent says.
        """
        if not isinstance(value, tree.Listed):
            self._t.fail(value, "an array is given its elements in braces")
        if min(kind.extents[1:], default=1) < 1:
            self._t.fail(value, "a row of this array has no elements; give each extent a number from 1 on")
        found: list[Any] = []
        self._fill(value, kind.element, kind.extents[1:], found)
        return found

    def _fill(self, listed: tree.Listed, element: Any, extents: tuple[int, ...], found: list[Any]) -> None:
        size = math.prod(extents)
        for each in listed.items:
            if isinstance(each, tree.Listed) and extents:
                found += [self.zero(each, element)] * (-len(found) % size)
                start = len(found)
                self._fill(each, element, extents[1:], found)
                if len(found) - start > size:
                    self._t.fail(each, f"a row of {size} element(s) is given {len(found) - start} values")
                found += [self.zero(each, element)] * (start + size - len(found))
            else:
                found.append(self.convert(each, element))
            if len(found) > MOST_ELEMENTS:
                self._t.fail(listed, f"at most {MOST_ELEMENTS} elements are possible")

    def zero(self, node: Any, kind: Any) -> Any:
        """The value of a type that is given none."""
        if isinstance(kind, StructType):
            return self._t.calls.make(node, kind, [])
        if isinstance(kind, ArrayType):
            return CompoundValue(kind, tuple(self.zero(node, each) for each in kind.parts))
        return self._t.b.const(0, kind)

    def check_pointer(self, node: Any, kind: PointerType, value: Pointer) -> None:
        if kind.element != value.dtype:
            self._t.fail(node, f"a pointer to {kind.element} cannot lead to {value.dtype}; convert", KernelTypeError)
        if value.is_const and not kind.is_const and is_array(value.base):
            self._t.fail(node, "a pointer to a constant is declared const, and its target is read-only here")

    def own_value(self, value: Any) -> Any:
        """A value of another program's type as one of this program's."""
        return make_value(self.own_type(value.dtype), iter(leaves(value))) if is_struct(value) else value
