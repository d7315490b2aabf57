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

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from xferlib.kernels.frontends.control.contents import RESULT, Before, Branch, Contents, Variable
from xferlib.kernels.frontends.control.loop_scope import LoopScope
from xferlib.kernels.ir.indices import is_distinct
from xferlib.kernels.ir.nodes import BOOL, Builder, DType, Node, Store

Fail = Callable[[str], NoReturn]


class Scope(LoopScope):
    """Names, values and the condition under which the current statement runs."""

    def __init__(self, builder: Builder, path: Node | None = None) -> None:
        self.b = builder
        self._names: dict[str, Variable] = {}
        self._here: set[str] = set()
        self._state: dict[Hashable, Contents] = {}
        self._true = builder.const(True, BOOL)
        self._path = path
        self._raw_reads: dict[int, set[int]] = {}
        self._raw_writes: dict[int, set[int]] = {}
        self._indices: dict[Hashable, Node] = {}
        self._counter = 0
        self.sizes = {"_ind": builder.size()}
        self.number = builder.index()
        """The value of ``i``."""

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

    def end_preparation(self) -> None:
        """Make the local variables that have a value read-only: those of ``loop_prep``.

        In CuPy these statements run once for each thread, before its loop over elements. Here they are part of every
        element's program, and the compiler computes outside of it what does not depend on the element. The two differ
        where the snippet changes such a variable: then CuPy's result depends on which elements a thread has.
        """
        for name in self._here:
            variable = self._names[name]
            if variable.key in self._state:
                self._names[name] = replace(variable, kind="prepared", is_writable=False)

    def is_declared_here(self, name: str) -> bool:
        return name in self._here

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Open a block: the names declared inside end with it."""
        names, here = dict(self._names), self._here
        self._here = set()
        yield
        for name in self._here:
            self._state.pop(self._names[name].key, None)
        self._names, self._here = names, here

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
            return self.number
        if variable.key == ("kernel", "n"):  # a parameter may have the name too
            return self.b.size()
        if variable.kind == "raw" or variable.needs_index:
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

    def read_element(self, name: str, index: Node, fail: Fail) -> Node:
        """Element ``index`` of a parameter."""
        variable = self._array(name, fail)
        assert variable.param is not None
        if variable.kind != "raw":
            self._check_own(index, name, fail)
            return self._current(variable, name, fail)
        slot = self._state.get(self._element_key(variable.param, index))
        if slot is not None and slot.written is self._true:
            return slot.value
        self._note(self._raw_reads, self._raw_writes, variable.param, index, name, fail)
        self._check_update(variable.param, index, name, fail)
        stored = self.b.gather(variable.param, index, self._path)
        return stored if slot is None else self.b.select(slot.written, slot.value, stored)

    def length(self, name: str, fail: Fail) -> Node:
        """The number of elements of a parameter."""
        variable = self._find(name, fail)
        if variable.param is None:
            fail(f"{name!r} is a number, which has no size()")
        return self.b.length(variable.param) if variable.kind == "raw" else self.b.size()

    def assign(self, name: str, value: Node, fail: Fail) -> Node:
        """Assign to a variable or to a parameter's element; returns the converted value."""
        variable = self._find(name, fail)
        if variable.kind == "raw" or variable.needs_index:
            fail(f"{name!r} is an array; assign to an element, for instance {name}[i] = ...")
        return self._write(variable, variable.key, value, name, fail)

    def assign_element(self, name: str, index: Node, value: Node, fail: Fail) -> Node:
        variable = self._array(name, fail)
        assert variable.param is not None
        if variable.kind != "raw":
            self._check_own(index, name, fail)
            return self._write(variable, variable.key, value, name, fail)
        self._note(self._raw_writes, self._raw_reads, variable.param, index, name, fail)
        self._check_update(variable.param, index, name, fail)
        return self._write(variable, self._element_key(variable.param, index), value, name, fail)

    def _check_own(self, index: Node, name: str, fail: Fail) -> None:
        if index is not self.number:
            fail(f"{name!r} is indexed by i alone here; an index that is computed needs another parameter")

    def _array(self, name: str, fail: Fail) -> Variable:
        variable = self._find(name, fail)
        if variable.kind != "raw" and not variable.needs_index:
            fail(f"{name!r} is one element here and has no index; declare it 'raw' to index it")
        return variable

    def _write(self, variable: Variable, key: Hashable, value: Node, name: str, fail: Fail) -> Node:
        if variable.kind == "prepared":
            fail(f"{name!r} belongs to loop_prep, and is the same for every element; declare it in the operation")
        if not variable.is_writable:
            fail(f"{name!r} is read-only here; assign to an output or a local variable")
        value = self.b.cast(value, variable.dtype)
        self._state.pop(key, None)
        self._state[key] = Contents(value, self._true)
        return value

    def _element_key(self, param: int, index: Node) -> Hashable:
        key = ("element", param, id(index))
        self._indices[key] = index
        return key

    def _note(
        self, mine: dict[int, set[int]], others: dict[int, set[int]], param: int, index: Node, name: str, fail: Fail
    ) -> None:
        mine.setdefault(param, set()).add(id(index))
        if others.get(param, set()) - {id(index)}:
            fail(
                f"{name!r} is read and written at different indices, so that the result would depend on the order "
                "in which elements are computed; write to another array"
            )

    def _check_update(self, param: int, index: Node, name: str, fail: Fail) -> None:
        """Refuse to read and write an array element that several elements of a call may share."""
        is_update = param in self._raw_reads and param in self._raw_writes
        if is_update and not is_distinct(index, self.b.params):
            fail(
                f"{name!r} is read and written at an index that several elements of a call may share, so that one "
                "update would be lost; index it by i times a constant and a shift, or add up with a reduction, or "
                "with atomicAdd in raw_module"
            )

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
