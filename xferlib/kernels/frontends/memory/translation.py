"""Places in C's syntax, for the translator of snippets: elements, pointers, references, and local arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xferlib.errors import KernelTypeError
from xferlib.kernels.frontends.ctext import AUTO
from xferlib.kernels.frontends.memory.contents import Place, TranslatorPart
from xferlib.kernels.frontends.memory.local_arrays import MOST_ELEMENTS
from xferlib.kernels.ir.constants import constant_value
from xferlib.kernels.ir.nodes import INT64, UINT64, Node, is_integer

REFERENCE = "volatile"
"""The qualifier of a pointer that marks a reference, which C does not have: see `ctext`."""


def is_reference(kind: Any) -> bool:
    """Whether the type of a declaration is a reference."""
    return REFERENCE in getattr(kind, "quals", ()) and type(kind).__name__ == "PtrDecl"


class Places(TranslatorPart):
    """Translates what stands for a place in memory."""

    type_of: Callable[[Any], Any]
    converted: Callable[[Any, Any], Any]
    returns_reference: Callable[[Any], bool]
    dtype_of: Callable[[Any], Any]
    layout_entry: Callable[[Any, Node], Node | None]
    entry: Callable[..., Node]
    call_place: Callable[[Any], Place | None]
    _statement: Callable[[Any], None]

    def _eval_arrayref(self, node: Any) -> Any:
        return self._read(node)

    def _read(self, node: Any) -> Any:
        place = self.place(node)
        return self.scope.read_place(place, _name(node), lambda message: self.fail(node, message))

    def assign(self, target: Any, value: Any) -> Any:
        """Assign to what ``target`` stands for; returns the converted value."""
        if not is_place(target) and not self.is_lvalue(target):
            self.fail(target, "this cannot be assigned to; assign to a variable or an element")
        place = self.place(target)
        return self.scope.write_place(place, value, _name(target), lambda message: self.fail(target, message))

    def updated(self, target: Any, change: Callable[[Any], Any], known: Place | None = None) -> tuple[Any, Any]:
        """Assign to what ``target`` stands for its changed value; returns the values before and after.

        The target is evaluated once: ``x[k++] += 1`` counts ``k`` by one. It is not if its place is ``known``.
        """
        self.refuse_pointer(target)
        if type(target).__name__ == "ID":
            before = self.expression(target)
            return before, self.assign(target, change(before))
        fail = lambda message: self.fail(target, message)
        place, name = known or self.place(target), _name(target)
        value = self.scope.read_place(place, name, fail)
        if value.dtype.kind == "V":
            self.fail(target, f"a {value.dtype} is no number; take a member of it", KernelTypeError)
        return value, self.scope.write_place(place, change(value), name, fail)

    def refuse_pointer(self, target: Any) -> None:
        """Refuse to assign to a pointer."""
        if type(target).__name__ == "ID" and self.scope.is_pointer(target.name):
            self.fail(target, f"pointer {target.name!r} keeps the place that it is declared with; declare another one")

    def place(self, node: Any) -> Place:
        """The place that an expression stands for."""
        kind = type(node).__name__
        fail = lambda message: self.fail(node, message)
        if kind == "ID":
            found: Place = self.scope.place(node.name, None, fail)
            return found
        if kind == "UnaryOp" and node.op == "*":
            return self.pointed(node.expr)
        if kind == "StructRef":
            owner = self.pointed(node.name) if node.type == "->" else self.place(node.name)
            return self.scope.member(owner, node.field.name, lambda message: self.fail(node.field, message))  # type: ignore[no-any-return]
        if kind != "ArrayRef":
            return self._computed_place(node)
        owner = node
        subscripts: list[Any] = []
        while type(owner).__name__ == "ArrayRef":
            subscripts.insert(0, owner.subscript)
            owner = owner.name
        if type(owner).__name__ != "ID":
            if len(subscripts) == 1 and (entry := self.layout_entry(owner, self._index(subscripts[0]))) is not None:
                return self.scope.constant_place(entry)  # type: ignore[no-any-return]
            return self.scope.moved(self.pointed(owner), self._index(subscripts[0]), "*", fail)  # type: ignore[no-any-return]
        shape = self.scope.shape_of(owner.name)
        if len(subscripts) != (1 if shape is None else len(shape)):
            self.fail(node, f"{owner.name!r} is indexed {len(subscripts)} time(s); give one index for each dimension")
        if shape is not None:
            index = self._flat(subscripts, shape)
        elif (listed := self._coordinates(subscripts[0])) is not None:
            index = self._by_coordinates(owner, listed)
        else:
            index = self._index(subscripts[0])
        return self.scope.place(owner.name, index, fail)  # type: ignore[no-any-return]

    def _computed_place(self, node: Any) -> Place:
        """The place of ``a ? b : c``, ``++a``, ``a = b``, ``(a, b)``, or of a call that returns a reference."""
        kind = type(node).__name__
        if (found := self.call_place(node)) is not None:
            return found
        if kind == "TernaryOp":
            return self._chosen_place(node, self.place)
        if kind == "ExprList":
            for each in node.exprs[:-1]:
                self._statement(each)
            return self.place(node.exprs[-1])
        target = node.lvalue if kind == "Assignment" else node.expr if is_prefix(node) else None
        if target is None or _has_effects(target):
            self.fail(node, "this is no variable and no element, and has no address")
        self.any_value(node)
        return self.place(target)

    def _chosen_place(self, node: Any, find: Callable[[Any], Place]) -> Place:
        """One of two places, by a condition."""
        condition = self.b.truth(self.expression(node.cond))
        with self.scope.branch(condition) as yes:
            one = find(node.iftrue)
        with self.scope.branch(self.b.op("not", condition)) as no:
            other = find(node.iffalse)
        self.scope.merge(condition, yes, no)
        if one.variable.dtype != other.variable.dtype:
            self.fail(node, "?: chooses between places of different types; choose between values", KernelTypeError)
        return self.scope.choice(condition, one, other)  # type: ignore[no-any-return]

    def is_lvalue(self, node: Any) -> bool:
        """Whether an expression that is no `is_place` has a place all the same."""
        kind = type(node).__name__
        if kind == "TernaryOp":
            sides = (node.iftrue, node.iffalse)
            are_places = all(is_place(each) or self.is_lvalue(each) for each in sides)
            return are_places and len({self.dtype_of(each) for each in sides}) == 1
        if kind == "ExprList":
            return is_place(node.exprs[-1]) or self.is_lvalue(node.exprs[-1])
        if kind == "StructRef" and node.type == ".":
            return self.is_lvalue(node.name)
        return kind == "Assignment" or is_prefix(node) or self.returns_reference(node)

    def _coordinates(self, node: Any) -> list[Node] | None:
        """The indices along each axis of ``x[{i, j}]``, or of ``x[a]`` with a local array; None of one index."""
        kind = type(node).__name__
        if kind == "CompoundLiteral":
            return [self._index(each) for each in node.init.exprs]
        shape = self.scope.shape_of(node.name) if kind == "ID" else None
        if shape is None:
            return None
        if len(shape) != 1:
            self.fail(node, f"{node.name!r} has {len(shape)} dimensions; an index is a list of integers")
        fail = lambda message: self.fail(node, message)
        places = [self.scope.place(node.name, self.b.const(k, INT64), fail) for k in range(shape[0])]
        values = [self.scope.read_place(each, node.name, fail) for each in places]
        if not all(is_integer(each.dtype) for each in values):
            self.fail(node, f"the index is {values[0].dtype}; make {node.name!r} an array of integers")
        return [self.b.cast(each, INT64) for each in values]

    def _by_coordinates(self, owner: Any, listed: list[Node]) -> Node:
        """The number in C order of the element with these indices."""
        array = self.scope.array(owner.name, lambda message: self.fail(owner, message))
        found = self.b.const(0, INT64)
        for axis, each in enumerate(listed):
            step = self.entry(array, "inner", self.b.const(axis, INT64))
            found = self.b.op("add", found, self.b.op("mul", each, step))
        return found

    def _index(self, node: Any) -> Node:
        index = self.expression(node)
        if not is_integer(index.dtype) and index.dtype.kind != "b":
            self.fail(node, f"the index is {index.dtype}; cast it to an integer", KernelTypeError)
        return self.b.cast(index, INT64)

    def _flat(self, subscripts: list[Any], shape: tuple[int, ...]) -> Node:
        """The number of an element of a local array."""
        index = self._index(subscripts[0])
        for extent, each in zip(shape[1:], subscripts[1:], strict=True):
            index = self.b.op("add", self.b.op("mul", index, self.b.const(extent, INT64)), self._index(each))
        return index

    def pointed(self, node: Any) -> Place:
        """The place to which an expression of a pointer leads."""
        kind = type(node).__name__
        fail = lambda message: self.fail(node, message)
        if kind == "UnaryOp" and node.op == "&":
            return self.place(node.expr)
        if kind == "TernaryOp":
            return self._chosen_place(node, self.pointed)
        if kind == "Cast" and type(node.to_type.type).__name__ == "PtrDecl":
            return self._as(node, self.pointed(node.expr))
        if kind == "BinaryOp" and node.op in "+-":
            count = self._index(node.right)
            count = count if node.op == "+" else self.b.op("neg", count)
            return self.scope.moved(self.pointed(node.left), count, _name(node.left), fail)  # type: ignore[no-any-return]
        if kind == "ID":
            variable, index = self.scope.place(node.name, None, fail)
            if variable.kind in ("raw", "array") and index is None:
                return Place(variable, self.b.const(0, INT64))
            if self.scope.is_pointer(node.name):
                return Place(variable, index)
        raise self.error(node, "this is no pointer (for a power, write pow(x, y)); write &x, &x[k] or an array")

    def _as(self, node: Any, place: Place) -> Place:
        """A pointer cast to another type, which must have the same representation."""
        dtype, given = self.type_of(node.to_type.type.type.type), place.variable.dtype
        if dtype != given and not (is_integer(dtype) and is_integer(given) and dtype.itemsize == given.itemsize):
            self.fail(node, f"a pointer to {given} cannot become one to {dtype}; convert the value", KernelTypeError)
        return place

    def _size_of(self, node: Any) -> Node:
        """``sizeof(type)``, or of an expression."""
        is_type = type(node.expr).__name__ == "Typename"
        dtype = self.type_of(node.expr.type.type) if is_type else self.any_value(node.expr).dtype
        return self.b.const(dtype.itemsize, UINT64)

    # --- declarations
    def _declare_pointer(self, node: Any) -> None:
        """``T* p = &x[k]``, and ``T& r = x[k]``, which the parser sees as a pointer."""
        if type(node.type.type).__name__ != "TypeDecl" or node.init is None:
            self.fail(node, f"{node.name!r} must point to numbers, and be given its place where it is declared")
        if not is_reference(node.type):
            place = self.pointed(node.init)
        elif is_place(node.init) or self.is_lvalue(node.init):
            place = self.place(node.init)
            if self.is_converted(node.type, place):
                value = self.scope.read_place(place, node.name, lambda message: self.fail(node, message))
                self.scope.declare_temporary(
                    node.name, dtype := self.type_of(node.type.type.type), self.b.cast(value, dtype)
                )
                return
        else:
            if "const" not in node.type.type.quals:
                self.fail(node, f"reference {node.name!r} leads to no variable; declare it const")
            is_auto = getattr(node.type.type.type, "names", None) == [AUTO]
            given = self.any_value(node.init) if is_auto else None
            dtype = given.dtype if given is not None else self.type_of(node.type.type.type)
            self.scope.declare_temporary(node.name, dtype, given or self.converted(node.init, dtype))
            return
        self._check_pointed(node, node.type.type.type, place)
        self.scope.point(node.name, place, is_reference=is_reference(node.type))

    def is_converted(self, reference: Any, place: Place) -> bool:
        """Whether a constant reference of this type leads to a copy of a number, which has another type."""
        if "const" not in reference.type.quals or getattr(reference.type.type, "names", None) == [AUTO]:
            return False
        dtype, given = self.type_of(reference.type.type), place.variable.dtype
        return dtype != given and "V" not in (dtype.kind, given.kind)

    def _check_pointed(self, node: Any, declared: Any, place: Place) -> None:
        if getattr(declared, "names", None) == [AUTO]:
            return
        dtype = self.type_of(declared)
        if dtype != place.variable.dtype:
            self.fail(node, f"a pointer to {dtype} cannot lead to {place.variable.dtype}; convert", KernelTypeError)

    def _declare_array(self, node: Any) -> None:
        """``T x[2][3]``, ``T x[] = {a, b}``."""
        extents, kind = [], node.type
        while type(kind).__name__ == "ArrayDecl":
            extents.append(kind.dim)
            kind = kind.type
        if type(kind).__name__ != "TypeDecl":
            self.fail(node, f"{node.name!r} must be an array of numbers; pointers in arrays are not supported")
        dtype = self.type_of(kind.type)
        if dtype.kind == "V":
            self.fail(node, f"{node.name!r} is an array of {dtype}, and arrays hold numbers; take one a member")
        values = None if node.init is None else [self.b.cast(each, dtype) for each in self._listed(node.init)]
        shape = tuple(self._extent(node, each, values) for each in extents)
        count = 1
        for extent in shape:
            count *= extent
        if not 0 < count <= MOST_ELEMENTS or (values is not None and len(values) > count):
            self.fail(node, f"{node.name!r} has {count} element(s); at most {MOST_ELEMENTS}, and no fewer than values")
        self.scope.declare_array(node.name, dtype, shape, values)

    def _extent(self, node: Any, extent: Any, values: list[Node] | None) -> int:
        if extent is None and values is not None:
            return len(values)
        known = None if extent is None else constant_value(self.expression(extent), self.work.known)
        if known is None:
            self.fail(node, f"the length of {node.name!r} must be known at translation; write a number")
        return int(known)

    def _listed(self, node: Any) -> list[Node]:
        if type(node).__name__ != "InitList":
            return [self.expression(node)]
        return [value for each in node.exprs for value in self._listed(each)]


def pointee(node: Any) -> Any:
    """The expression ``*node``."""
    from pycparser import c_ast

    return c_ast.UnaryOp("*", node, node.coord)


def named(name: str, like: Any) -> Any:
    """The expression that is a name, at the place of another one."""
    from pycparser import c_ast

    return c_ast.ID(name, like.coord)


def is_prefix(node: Any) -> bool:
    """Whether an expression is ``++a`` or ``--a``."""
    return type(node).__name__ == "UnaryOp" and node.op in ("++", "--")


def _has_effects(node: Any) -> bool:
    """Whether an expression may change a variable, so that it must not be evaluated twice."""
    is_count = type(node).__name__ == "UnaryOp" and node.op in ("++", "--", "p++", "p--")
    is_change = is_count or type(node).__name__ in ("Assignment", "FuncCall")
    return is_change or any(_has_effects(child) for _, child in node.children())


def is_place(node: Any) -> bool:
    """Whether an expression stands for a variable, an element or a member, and not for what a function returns."""
    while type(node).__name__ == "StructRef" and node.type == ".":
        node = node.name
    return type(node).__name__ in ("ID", "ArrayRef", "StructRef") or (
        type(node).__name__ == "UnaryOp" and node.op == "*"
    )


def _name(node: Any) -> str:
    """The name of the variable that an expression is about, for messages."""
    while not isinstance(name := getattr(node, "name", None), str):
        node = name if name is not None else getattr(node, "expr", None)
        if node is None:
            return "*"
    return name
