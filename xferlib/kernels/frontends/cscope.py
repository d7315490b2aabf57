"""Variables of a snippet while it is translated: their values, and the conditions under which they were written.

A program is straight-line code without variables, so an assignment cannot be translated as a store to memory: it
changes which node stands for the variable from here on. An ``if`` is translated by running both sides from the same
state, each under its condition, and selecting between the two states afterwards, variable by variable.

An output element that one side alone writes must keep its initial content otherwise, without being read: it may be
uninitialised. So the contents of a variable are a pair, the value and the condition under which it has been written;
the condition becomes the mask of the final store. The same pair serves ``return``, ``break`` and ``continue``: the
rest of a block runs under the condition that none of them has been reached yet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from xferlib.kernels.frontends.control.loop_scope import LoopScope
from xferlib.kernels.frontends.memory.contents import RESULT, Before, Branch, Contents, Fail, Place, Variable
from xferlib.kernels.frontends.memory.elements import ArrayElements
from xferlib.kernels.frontends.memory.local_arrays import element_keys
from xferlib.kernels.ir.constants import constant_value
from xferlib.kernels.ir.nodes import BOOL, INT64, Builder, DType, Node, Store


class Scope(ArrayElements, LoopScope):
    """Names, values and the condition under which the current statement runs."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder
        self._names: dict[str, Variable] = {}
        self._here: set[str] = set()
        self._state: dict[Hashable, Contents] = {}
        self._true = builder.const(True, BOOL)
        self._path: Node | None = None
        self._begin_elements()
        self._counter = 0
        self._known: dict[int, np.generic | None] = {}
        self.sizes = {"_ind": builder.size()}

    # --- declarations
    def bind(self, name: str, variable: Variable) -> None:
        """Declare a parameter."""
        self._names[name] = variable

    def bind_value(self, name: str, value: Node) -> None:
        """Declare a read-only name for a value."""
        key = ("value", name)
        self._names[name] = Variable(key, value.dtype, is_writable=False)
        self._state[key] = Contents(value, self._true)

    def bind_sizes(self, in_size: Node, out_size: Node) -> None:
        """Set the values of ``_in_ind.size()`` and ``_out_ind.size()``, in a reduction."""
        self.sizes = {"_in_ind": in_size, "_out_ind": out_size}

    def declare(self, name: str, dtype: DType, value: Node | None) -> None:
        """Declare a local variable, possibly without a value yet."""
        self._counter += 1
        key = (self._counter, name)
        self._names[name] = Variable(key, dtype)
        self._here.add(name)
        if value is not None:
            self._state[key] = Contents(value, self._true)

    def point(self, name: str, place: Place, *, is_reference: bool = False) -> None:
        """Declare a pointer or a reference to a place."""
        self._names[name] = self.leading(name, place, is_reference=is_reference)
        self._here.add(name)

    def leading(self, name: str, place: Place, *, is_reference: bool) -> Variable:
        """A variable that leads to a place; a reference to a whole variable is that variable."""
        target, index = place
        if is_reference and index is None:
            return target
        kind = "reference" if is_reference else "pointer"
        return Variable(("pointer", name), target.dtype, kind=kind, is_writable=target.is_writable, place=place)

    def is_declared_here(self, name: str) -> bool:
        return name in self._here

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Open a block: the names declared inside end with it."""
        names, here = dict(self._names), self._here
        self._here = set()
        yield
        self._forget(self._names[name] for name in self._here)
        self._names, self._here = names, here

    def _forget(self, variables: Iterable[Variable]) -> None:
        for each in variables:
            for key in element_keys(each) if each.kind == "array" else [each.key]:
                self._state.pop(key, None)

    @contextmanager
    def function(self, names: dict[str, Variable], *, is_apart: bool) -> Iterator[None]:
        """Open the body of a function, which knows its parameters alone.

        Args:
            names: The parameters.
            is_apart: The function may run under no condition, wherever it is called.
        """
        outside = self._names, self._here, self._path
        jumps = {key: self._state.pop(key) for key in self._jumps()}
        self._names, self._here = dict(names), set()
        if is_apart:
            self._path = None
        yield
        self._forget(self._names[name] for name in self._here)
        self._forget(each for each in names.values() if each.is_argument)
        for key in self._jumps():
            del self._state[key]
        self._names, self._here, self._path = outside
        self._state.update(jumps)

    def argument(self, name: str, dtype: DType, value: Node) -> Variable:
        """A parameter of a function, with its value."""
        self._counter += 1
        key = (self._counter, name)
        self._state[key] = Contents(value, self._true)
        return Variable(key, dtype, is_argument=True)

    # --- branches
    @contextmanager
    def branch(self, condition: Node) -> Iterator[Branch]:
        """Translate under ``condition``; the branch gets the state at its end, the scope returns to its own."""
        result = Branch()
        before = self.enter(condition)
        yield result
        result.state = self.leave(before).state

    def enter(self, condition: Node) -> Before:
        """Begin a branch under ``condition``; returns the argument of `leave`."""
        before = Before(self._path, dict(self._state))
        self._path = condition if self._path is None else self.b.op("and", self._path, condition)
        return before

    def leave(self, before: Before) -> Branch:
        """End a branch and return its state; the scope returns to the state before it."""
        branch = Branch(self._state)
        self._path, self._state = before.path, before.state
        return branch

    @property
    def path(self) -> Node | None:
        """The condition under which the current statement runs; None if there is none."""
        return self._path

    def snapshot(self) -> Before:
        """The present state, for `restore`."""
        return Before(self._path, dict(self._state))

    def restore(self, before: Before) -> None:
        self._path, self._state = before.path, dict(before.state)

    def has_changed(self, branch: Branch) -> bool:
        return branch.state != self._state

    def merge(self, condition: Node, yes: Branch, no: Branch) -> None:
        """Set the state after both sides of ``condition``."""
        for key in (*yes.state, *(key for key in no.state if key not in yes.state)):
            self._state.pop(key, None)  # an element written again is stored after those written before
            self._state[key] = self._merged(condition, yes.state.get(key), no.state.get(key))

    def _merged(self, condition: Node, yes: Contents | None, no: Contents | None) -> Contents:
        if yes is None or no is None:
            slot = yes or no
            assert slot is not None
            taken = condition if yes is not None else self.b.op("not", condition)
            return Contents(slot.value, self._both(taken, slot.written))
        if yes == no:
            return yes
        value = self.b.select(condition, yes.value, no.value)
        return Contents(value, self.b.select(condition, yes.written, no.written))

    def _both(self, x: Node, y: Node) -> Node:
        return x if y is self._true else self.b.op("and", x, y)

    def replace(self, folded: Callable[[Node], Node]) -> None:
        """Replace the value of each variable by the equal node that ``folded`` gives."""
        for key, slot in self._state.items():
            self._state[key] = Contents(folded(slot.value), slot.written)

    # --- the result of a function
    def set_result(self, value: Node) -> None:
        """Set the value that the function returns on the current path."""
        self._state[RESULT] = Contents(value, self._true)

    @property
    def result(self) -> Contents | None:
        """The value returned so far and the condition for it; None if no path has returned."""
        return self._state.get(RESULT)

    def resume(self, returned: Node, before: Before) -> None:
        """End a branch that ran where the function had not ``returned``, and merge its state."""
        rest = self.leave(before)
        self.merge(returned, Branch(dict(self._state)), rest)

    # --- access
    def _find(self, name: str, fail: Fail) -> Variable:
        variable = self._names.get(name)
        if variable is None:
            if name in ("i", "n"):
                return Variable(("kernel", name), self.b.index().dtype, is_writable=False)
            fail(f"{name!r} is not declared; known here are {', '.join(sorted(self._names)) or 'no names'}")
        return variable

    def read(self, name: str, fail: Fail) -> Node:
        """The value of a variable or of a parameter's element."""
        variable = self._find(name, fail)
        if variable.key == ("kernel", "i"):
            return self.b.index()
        if variable.key == ("kernel", "n"):  # a parameter may have the name too
            return self.b.size()
        if variable.kind == "reference" and variable.place is not None:
            return self.read_place(variable.place, name, fail)
        if variable.kind in ("raw", "array", "pointer") or variable.needs_index:
            fail(f"{name!r} is an array; index it, for instance {name}[i]")
        return self._current(variable, name, fail)

    def _current(self, variable: Variable, name: str, fail: Fail) -> Node:
        slot = self._state.get(variable.key)
        if slot is not None and (slot.written is self._true or variable.param is None):
            return slot.value
        if variable.param is None:
            fail(f"{name!r} is read before it has a value; give it one where it is declared")
        initial = self.b.load(variable.param)
        return initial if slot is None else self.b.select(slot.written, slot.value, initial)

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
        self._check_own(index, name, fail)
        return Place(variable, None)

    def moved(self, place: Place, count: Node, name: str, fail: Fail) -> Place:
        """The place ``count`` elements behind another one."""
        if constant_value(count, self._known) == 0:
            return place
        if place.at is None:
            fail(f"{name!r} points to a single number; only its element 0 exists")
        return Place(place.variable, self.b.op("add", place.at, self.b.cast(count, INT64)))

    def is_pointer(self, name: str) -> bool:
        variable = self._names.get(name)
        return variable is not None and variable.kind == "pointer"

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The extents of a local array; None of anything else."""
        variable = self._names.get(name)
        return variable.shape if variable is not None and variable.kind == "array" else None

    def read_place(self, place: Place, name: str, fail: Fail) -> Node:
        """The value at a place; ``name`` is for messages."""
        variable, index = place
        if index is None:
            if variable.kind in ("raw", "array"):
                fail(f"{name!r} is an array; index it, for instance {name}[i]")
            return self._current(variable, name, fail)
        if variable.kind == "array":
            return self._read_local(variable, index, fail)
        return self._read_element(variable, index, name, fail)

    def length(self, name: str, fail: Fail) -> Node:
        """The number of elements of a parameter."""
        variable = self._find(name, fail)
        if variable.param is None:
            fail(f"{name!r} is a number, which has no size()")
        return self.b.length(variable.param) if variable.kind == "raw" else self.b.size()

    def write_place(self, place: Place, value: Node, name: str, fail: Fail) -> Node:
        """Assign to a place; returns the converted value."""
        variable, index = place
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
            value = self.b.cast(value, variable.dtype)
            self._write_local(variable, index, value, fail)
            return value
        return self._write_element(variable, index, value, name, fail)

    def _check_own(self, index: Node, name: str, fail: Fail) -> None:
        if index is not self.b.index():
            fail(f"{name!r} is indexed by i alone here; an index that is computed needs another parameter")

    def _write(self, variable: Variable, key: Hashable, value: Node, name: str, fail: Fail) -> Node:
        if not variable.is_writable:
            fail(f"{name!r} is read-only here; assign to an output or a local variable")
        value = self.b.cast(value, variable.dtype)
        self._state.pop(key, None)
        self._state[key] = Contents(value, self._true)
        return value

    def stores(self, params: dict[str, Variable]) -> list[Store]:
        """The writes to parameters."""
        by_key = {variable.key: variable for variable in params.values() if variable.kind != "raw"}
        result = []
        for key, slot in self._state.items():
            if isinstance(key, tuple) and key[0] == "element":
                mask = None if slot.written is self._true else slot.written
                result.append(Store(param=key[1], value=slot.value, index=self._indices[key], mask=mask))
            elif (variable := by_key.get(key)) is not None and variable.param is not None and variable.is_writable:
                value = slot.value
                if slot.written is not self._true:
                    value = self.b.select(slot.written, value, self.b.load(variable.param))
                result.append(Store(param=variable.param, value=value))
        return result
