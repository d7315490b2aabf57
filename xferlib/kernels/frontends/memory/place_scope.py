"""Places in a snippet's scope: what a name, an index or a pointer leads to, read, written and updated."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from xferlib.kernels.frontends.memory.contents import Branch, Contents, Fail, Place, Variable
from xferlib.kernels.frontends.memory.elements import ArrayElements
from xferlib.kernels.frontends.memory.local_arrays import LocalArrays
from xferlib.kernels.ir.constants import constant_value
from xferlib.kernels.ir.nodes import INT64, Builder, Node


class PlaceScope(ArrayElements, LocalArrays):
    """The part of a scope that knows of places."""

    b: Builder
    _here: dict[str, Variable | None]
    number: Node
    read_record: Callable[[Variable], Any]
    selected: Callable[[Node, Any, Any], Any]
    write_record: Callable[[Variable, Any, str, Fail], Any]
    branch: Callable[[Node], AbstractContextManager[Branch]]
    merge: Callable[[Node, Branch, Branch], None]
    _find: Callable[[str, Fail], Variable]
    _current: Callable[[Variable, str, Fail], Node]
    _write: Callable[[Variable, Hashable, Node, str, Fail], Node]

    def point(self, name: str, place: Place, *, is_reference: bool = False) -> None:
        """Declare a pointer or a reference to a place."""
        self._names[name] = self.leading(name, place, is_reference=is_reference)
        self._here[name] = None

    def leading(self, name: str, place: Place, *, is_reference: bool) -> Variable:
        """A variable that leads to a place; a reference to a whole variable is that variable."""
        target, index = place
        if is_reference and index is None:
            return replace(target, needs_index=False) if target.needs_index else target
        kind = "reference" if is_reference else "pointer"
        return Variable(("pointer", name), target.dtype, kind=kind, is_writable=target.is_writable, place=place)

    def place(self, name: str, index: Node | None, fail: Fail) -> Place:
        """The place of a variable (``index`` is None), or of an element of an array or behind a pointer."""
        variable = self._find(name, fail)
        if variable.kind == "reference" and variable.place is not None:
            variable, offset = variable.place
            if index is None:
                return Place(variable, offset)
        if index is None:
            return variable.place or Place(variable, None)
        if variable.place is not None:
            return self.moved(variable.place, index, name, fail)
        if variable.kind in ("raw", "array"):
            return Place(variable, index)
        if not variable.needs_index:
            fail(f"{name!r} is one element here and has no index; declare it 'raw' to index it")
        if index is not self.number:
            fail(f"{name!r} is indexed by i alone here; an index that is computed needs another parameter")
        return Place(variable, None)

    def choice(self, condition: Node, yes: Place, no: Place) -> Place:
        """One of two places of one type."""
        known = constant_value(condition, self._known)
        if yes == no or known is not None:
            return yes if yes == no or known else no
        is_writable = yes.variable.is_writable and no.variable.is_writable
        dtype = yes.variable.dtype
        made = Variable(("choice",), dtype, kind="choice", is_writable=is_writable, choice=(condition, yes, no))
        return Place(made, None)

    def constant_place(self, value: Node) -> Place:
        """The place of a value that is no variable's, and cannot be written."""
        key = ("value", id(value))
        self._state[key] = Contents(value, self._true)
        return Place(Variable(key, value.dtype, is_writable=False), None)

    def moved(self, place: Place, count: Node, name: str, fail: Fail) -> Place:
        """The place ``count`` elements behind another one."""
        if constant_value(count, self._known) == 0:
            return place
        if place.variable.choice is not None:
            condition, yes, no = place.variable.choice
            return self.choice(condition, self.moved(yes, count, name, fail), self.moved(no, count, name, fail))
        if place.at is None:
            fail(f"{name!r} points to a single number; only its element 0 exists")
        return Place(place.variable, self.b.op("add", place.at, self.b.cast(count, INT64)))

    def is_pointer(self, name: str) -> bool:
        variable = self._names.get(name)
        return variable is not None and variable.kind == "pointer"

    def leads_to_numbers(self, name: str) -> bool:
        """Whether a name is that of a pointer or an array."""
        variable = self._names.get(name)
        return variable is not None and (variable.kind in ("pointer", "raw", "array") or variable.needs_index)

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The extents of a local array; None of anything else."""
        variable = self._names.get(name)
        return variable.shape if variable is not None and variable.kind == "array" else None

    def read_place(self, place: Place, name: str, fail: Fail) -> Any:
        """The value at a place, a `StructValue` of a struct; ``name`` is for messages."""
        variable, index = place
        if variable.choice is not None:
            condition, yes, no = variable.choice
            with self.branch(condition):  # reading an element that the other place has may fail
                one = self.read_place(yes, name, fail)
            with self.branch(self.b.op("not", condition)):
                other = self.read_place(no, name, fail)
            return self.selected(condition, one, other)
        if index is None:
            if variable.kind == "record":
                return self.read_record(variable)
            if variable.kind in ("raw", "array"):
                fail(f"{name!r} is an array; index it, for instance {name}[i]")
            return self._current(variable, name, fail)
        if variable.kind == "array":
            return self._read_local(variable, index, fail)
        return self._read_element(variable, index, name, fail)

    def write_place(self, place: Place, value: Any, name: str, fail: Fail) -> Any:
        """Assign to a place; returns the converted value."""
        variable, index = place
        if variable.choice is not None:
            condition, one, other = variable.choice
            with self.branch(condition) as yes:
                written = self.write_place(one, value, name, fail)
            with self.branch(self.b.op("not", condition)) as no:
                self.write_place(other, value, name, fail)
            self.merge(condition, yes, no)
            return written
        if variable.kind == "record":
            return self.write_record(variable, value, name, fail)
        if value.dtype.kind == "V":
            fail(f"{name!r} is {variable.dtype}, and a struct is assigned; take a member")
        if index is None:
            if variable.kind in ("raw", "array", "pointer") or variable.key in (("kernel", "i"), ("kernel", "n")):
                is_array = variable.kind in ("raw", "array")
                fail(
                    f"{name!r} is an array; assign to an element, for instance {name}[i] = ..."
                    if is_array
                    else f"{name!r} is read-only here; assign to an output or a local variable"
                )
            return self._write(variable, variable.key, value, name, fail)
        if variable.kind == "array":
            if not variable.is_writable:
                fail(f"{name!r} is read-only here; assign to an output or a local variable")
            value = self.b.cast(value, variable.dtype)
            self._write_local(variable, index, value, fail)
            return value
        return self._write_element(variable, index, value, name, fail)

    def update_place(
        self, place: Place, kind: str, value: Node, compared: Node | None, name: str, fail: Fail, *, is_used: bool
    ) -> Node:
        """Update a place atomically; returns its value before."""
        variable, index = place
        if not variable.is_writable:
            what = "its target" if variable.param is None else repr(self.b.params[variable.param].name)
            fail(f"{name}: {what} is read-only here; update an output")
        if variable.kind == "raw" and index is not None:
            return self.update_element(variable, index, kind, value, compared, is_used=is_used)
        before: Node = self.read_place(place, name, fail)  # no other element knows it
        after = value
        if compared is not None:
            after = self.b.select(self.b.op("eq", before, compared), value, before)
        elif kind != "exch":
            after = self.b.op(kind, before, value)
        self.write_place(place, after, name, fail)
        return before
