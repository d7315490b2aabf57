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

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from xferlib.errors import did_you_mean
from xferlib.kernels.frontends.control.loop_scope import LoopScope
from xferlib.kernels.frontends.memory.contents import (
    RESULT,
    RETURNED,
    Before,
    Branch,
    Contents,
    Fail,
    OutputReadError,
    Place,
    Variable,
)
from xferlib.kernels.frontends.memory.place_scope import PlaceScope
from xferlib.kernels.frontends.memory.structs import StructScope, StructType, StructValue, keys_of
from xferlib.kernels.ir.constants import constant_value, is_tautology
from xferlib.kernels.ir.nodes import BOOL, Builder, Node, Store, is_integer


class Scope(PlaceScope, LoopScope, StructScope):
    """Names, values and the condition under which the current statement runs."""

    def __init__(self, builder: Builder, ordered: frozenset[int] = frozenset()) -> None:
        self.b = builder
        self._names: dict[str, Variable] = {}
        self._here: dict[str, Variable | None] = {}
        """The names that the present block declares, each with the variable that ends with it; None for a name of
        another variable: a reference, or a pointer."""
        self._declared: dict[Hashable, Variable] = {}
        """Each number, by the key of its contents."""
        self._state: dict[Hashable, Contents] = {}
        self._true = builder.const(True, BOOL)
        self._path: Node | None = None
        self._begin_elements(ordered)
        self._counter = 0
        self._known: dict[int, np.generic | None] = {}
        self._jumped: dict[Hashable, None] = {RESULT: None}
        self.sizes = {"_ind": builder.size()}
        self.constants: dict[str, Variable] = {}
        """The constants of the preamble, which functions know too."""
        self.number = builder.index()
        """The value of ``i``."""
        self.outputs: frozenset[str] = frozenset()
        """The outputs of a reduction, which are local variables."""

    # --- declarations
    def bind(self, name: str, variable: Variable) -> None:
        """Declare a parameter."""
        self._names[name] = self._declared[variable.key] = variable

    def bind_value(self, name: str, value: Node) -> None:
        """Declare a read-only name for a value."""
        key = ("value", name)
        self._names[name] = Variable(key, value.dtype, is_writable=False)
        self._state[key] = Contents(value, self._true)

    def keep_constants(self) -> None:
        """Take the variables declared so far for constants, which functions know."""
        self.constants = {name: _frozen(each) for name, each in self._names.items()}
        self._names, self._here = dict(self.constants), {}

    def bind_record(self, name: str, value: StructValue) -> None:
        """Declare a read-only name for a struct."""
        self._names[name] = self.record_variable(("value", name), value.dtype, value, is_writable=False)

    def bind_sizes(self, in_size: Node, out_size: Node) -> None:
        """Set the values of ``_in_ind.size()`` and ``_out_ind.size()``, in a reduction."""
        self.sizes = {"_in_ind": in_size, "_out_ind": out_size}

    def declare(self, name: str, dtype: Any, value: Any) -> None:
        """Declare a local variable, a number or a struct, possibly without a value yet."""
        self._names[name] = self._here[name] = self.variable(name, dtype, value)

    def variable(self, name: str, dtype: Any, value: Any, *, is_writable: bool = True) -> Variable:
        """A new variable, a number or a struct, possibly without a value yet."""
        self._counter += 1
        key = (self._counter, name)
        if isinstance(dtype, StructType):
            return self.record_variable(key, dtype, value, is_writable=is_writable)
        if value is not None:
            self._state[key] = Contents(value, self._true)
        found = self._declared[key] = Variable(key, dtype, is_writable=is_writable)
        return found

    def declare_temporary(self, name: str, dtype: Any, value: Any) -> None:
        """Declare a constant reference to a value that no variable holds."""
        self._names[name] = self._here[name] = self.variable(name, dtype, value, is_writable=False)

    def is_declared_here(self, name: str) -> bool:
        return name in self._here

    def is_declared(self, name: str) -> bool:
        return name in self._names

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Open a block: the names declared inside end with it."""
        names, here = dict(self._names), self._here
        self._here = {}
        self.b.work += len(names) >> 3
        yield
        self._forget(self._here.values())
        self._names, self._here = names, here

    def _forget(self, variables: Iterable[Variable | None]) -> None:
        for each in variables:
            for key in keys_of(each) if each is not None else ():
                self._state.pop(key, None)

    @contextmanager
    def function(self, names: Mapping[str, Variable], own: Iterable[Variable], *, is_apart: bool) -> Iterator[None]:
        """Open the body of a function, which knows its parameters alone.

        Args:
            names: The parameters.
            own: Those of them that end with the function; the others are variables of its callers.
            is_apart: The function may run under no condition, wherever it is called.
        """
        self.b.work += 25 + (len(self._state) >> 2)
        outside = self._names, self._here, self._path
        jumps = {key: self._state.pop(key) for key in (*self._jumps(), *self._returned())}
        self._names, self._here = {**self.constants, **names}, {}
        if is_apart:
            self._path = None
        yield
        self._forget([*self._here.values(), *own])
        for key in (*self._jumps(), *self._returned()):
            del self._state[key]
        self._names, self._here, self._path = outside
        self._state.update(jumps)

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
        self.b.work += len(self._state) >> 3
        self._path = condition if self._path is None else self.b.op("and", self._path, condition)
        return before

    def leave(self, before: Before) -> Branch:
        """End a branch and return its state; the scope returns to the state before it."""
        branch = Branch(self._state)
        self._path, self._state = before.path, before.state
        return branch

    @property
    def true(self) -> Node:
        """The constant."""
        return self._true

    @property
    def path(self) -> Node | None:
        """The condition under which the current statement runs; None if there is none."""
        return self._path

    def snapshot(self) -> Before:
        """The present state, for `restore`."""
        self.b.work += len(self._state) >> 3
        return Before(self._path, dict(self._state), dict(self.touched), self._counter)

    def restore(self, before: Before) -> None:
        self._path, self._state, self.touched = before.path, dict(before.state), dict(before.touched)
        self._counter = before.counter

    def is_sure(self, condition: Node) -> bool:
        """Whether a condition holds whatever the data are."""
        return is_tautology(condition)

    def merge(self, condition: Node, yes: Branch, no: Branch) -> None:
        """Set the state after both sides of ``condition``."""
        taken = constant_value(condition, self._known)
        if taken is not None:  # the other side never runs: what it assigns, and its jumps, are none
            self._state = dict((yes if taken else no).state)
            return
        self.b.work += (len(yes.state) + len(no.state)) >> 2
        for key in (*yes.state, *(key for key in no.state if key not in yes.state)):
            self._state.pop(key, None)  # an element written again is stored after those written before
            found = self._merged(condition, yes.state.get(key), no.state.get(key))
            is_told = key == RESULT or (key in self._declared and self._declared[key].param is not None)
            if is_told and found.written is not self._true and self.is_sure(found.written):
                found = Contents(found.value, self._true)
            self._state[key] = found

    def _merged(self, condition: Node, yes: Contents | None, no: Contents | None) -> Contents:
        if yes is None or no is None:
            slot = yes or no
            assert slot is not None
            taken = condition if yes is not None else self.b.op("not", condition)
            return Contents(slot.value, self._both(taken, slot.written))
        if yes == no:
            return yes
        value = self._either(condition, yes.value, no.value)
        written = self._true if yes.written is condition else yes.written  # as where each case of a switch assigns
        return Contents(value, self.b.select(condition, written, no.written))

    def _either(self, condition: Node, yes: Node, no: Node) -> Node:
        """One of two values; a counter that a loop within one side has folded is still the same number."""
        if is_integer(yes.dtype) and yes is not no:
            number = constant_value(yes, self._known)
            if number is not None and number == constant_value(no, self._known):
                return yes if yes.op == "const" else no
        return self.b.select(condition, yes, no)

    def _both(self, x: Node, y: Node) -> Node:
        return x if y is self._true else self.b.op("and", x, y)

    def replace(self, folded: Callable[[Node], Node]) -> None:
        """Replace the value of each variable by the equal node that ``folded`` gives."""
        self.b.work += len(self._state) >> 1
        for key, slot in self._state.items():
            self._state[key] = Contents(folded(slot.value), slot.written)

    # --- the result of a function
    def set_result(self, value: Any) -> None:
        """Set the value that the function returns on the current path."""
        if isinstance(value, StructValue):
            for number, leaf in enumerate(value.leaves()):
                self._state[RETURNED, number] = Contents(leaf, self._true)
            value = self._true
        self._state[RESULT] = Contents(value, self._true)

    def returned(self, dtype: Any) -> Any:
        """The value that the function returns, where every path has returned."""
        if isinstance(dtype, StructType):
            return dtype.of(self._state[RETURNED, number].value for number in range(len(dtype.leaves())))
        return self._state[RESULT].value

    def _returned(self) -> list[Hashable]:
        return [key for key in self._state if isinstance(key, tuple) and key[0] == RETURNED]

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
            known = ", ".join(sorted(self._names)) or "no names"
            fail(f"{name!r} is not declared{did_you_mean(name, self._names)}; known here are {known}")
        return variable

    def read(self, name: str, fail: Fail) -> Any:
        """The value of a variable or of a parameter's element; a `StructValue` of a struct."""
        variable = self._find(name, fail)
        if variable.kind == "reference" and variable.place is not None:
            return self.read_place(variable.place, name, fail)
        if variable.kind == "choice":
            return self.read_place(Place(variable, None), name, fail)
        if variable.kind in ("raw", "array", "pointer") or variable.needs_index:
            fail(f"{name!r} is an array; index it, for instance {name}[i]")
        if variable.kind == "record":
            return self.read_record(variable)
        return self._current(variable, name, fail)

    def _current(self, variable: Variable, name: str, fail: Fail) -> Node:
        if variable.key == ("kernel", "i"):
            return self.number
        if variable.key == ("kernel", "n"):  # a parameter may have the name too
            return self.b.size()
        slot = self._state.get(variable.key)
        if slot is not None and (slot.written is self._true or variable.param is None):
            return slot.value
        if variable.param is None:
            if name in self.outputs:
                raise OutputReadError
            fail(f"{name!r} is read before it has a value; give it one where it is declared")
        initial = self.b.load(variable.param)
        return initial if slot is None else self.b.select(slot.written, slot.value, initial)

    def array(self, name: str, fail: Fail) -> int:
        """The parameter that an array which the kernel indexes is."""
        variable = self._find(name, fail)
        if variable.kind != "raw" or variable.param is None:
            fail(f"{name!r} has no layout here; declare it 'raw'")
        return variable.param

    def length(self, name: str, fail: Fail) -> Node:
        """The number of elements of a parameter."""
        variable = self._find(name, fail)
        if variable.param is None:
            fail(f"{name!r} is a number, which has no size()")
        return self.b.length(variable.param) if variable.kind == "raw" else self.b.size()

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


def _frozen(variable: Variable) -> Variable:
    """The variable, read-only like its members."""
    return replace(variable, is_writable=False, members=tuple(map(_frozen, variable.members)))
