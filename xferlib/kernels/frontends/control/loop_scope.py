"""Jumps and loops in a snippet's scope: where the rest of a block does not run, and what a turn may change."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from xferlib.kernels.frontends.memory.contents import RESULT, RETURNED, Before, Carried, Contents, Variable
from xferlib.kernels.frontends.memory.elements import OrderNeededError, Touched
from xferlib.kernels.frontends.memory.local_arrays import LocalArrays, element_keys
from xferlib.kernels.ir.nodes import BOOL, Node


class LoopScope(LocalArrays):
    """The part of a scope that knows of ``break``, ``continue`` and ``return``, and of loops that end with the data."""

    _path: Node | None
    _declared: dict[Hashable, Variable]
    touched: dict[int, Touched]
    _jumped: dict[Hashable, None]
    """The keys of the jumps that the state may hold, which has many others."""

    def jump(self, key: Hashable) -> None:
        """Note that the current path leaves its block: ``("break", loop)`` or ``("continue", loop)``."""
        self._jumped[key] = None
        self._state[key] = Contents(self._true, self._true)

    def end_jump(self, key: Hashable) -> None:
        """Forget a jump, where its loop goes on or has ended."""
        self._state.pop(key, None)
        self._jumped.pop(key, None)

    def jumped(self) -> Node | None:
        """The condition for a ``return``, ``break`` or ``continue`` so far; None if no path has met one."""
        found: Node | None = None
        for key in self._jumps():
            written = self._state[key].written
            if written is self._true:
                return written
            found = written if found is None else self.b.op("or", found, written)
        return found

    def _jumps(self) -> list[Hashable]:
        return [key for key in self._jumped if key in self._state]

    # --- loops that end with the data
    def carried(self, names: Iterable[str], returned: Any) -> list[Carried]:
        """The variables of ``names``, and the result of the type ``returned``, as they are before a loop."""
        known = dict.fromkeys(self._target(self._names[name]) for name in names if name in self._names)
        found = [part for each in known if each.is_writable and each.kind != "raw" for part in self._parts(each)]
        if returned is not None:
            members = returned.leaves() if returned.kind == "V" else []
            for number, dtype in enumerate(members):
                slot = self._state.get((RETURNED, number))
                value = self.b.const(0, dtype) if slot is None else slot.value
                found.append(Carried((RETURNED, number), value, None))
            value = self.b.const(0, BOOL if members else returned)
            found.append(Carried(RESULT, value, self.b.const(False, BOOL)))
        return found

    def further(self, keys: Iterable[Hashable], carried: Iterable[Carried]) -> list[Carried]:
        """Those of the variables with these keys that are not ``carried`` yet."""
        known = {each.key for each in carried}
        return [
            self._carried(self._declared[key], self._state) for key in keys if key in self._state and key not in known
        ]

    def missed(self, before: Before, carried: Iterable[Carried]) -> list[Carried]:
        """The variables from before a loop that a turn has changed, and that are not among those ``carried``.

        Which names a turn assigns does not say which variables: references, pointers and ``this`` lead to others.
        """
        known = {each.key for each in carried}
        return [
            self._carried(self._declared[key], before.state)
            for key, slot in self._state.items()
            if key in self._declared and key not in known and before.state.get(key) != slot
        ]

    def _target(self, variable: Variable) -> Variable:
        """The variable itself, or that to which it leads."""
        return variable if variable.place is None else variable.place.variable

    def _parts(self, variable: Variable) -> list[Carried]:
        if variable.choice is not None:  # what it leads to is `missed`, if it changes
            return []
        if variable.kind == "record":
            return [part for each in variable.members for part in self._parts(each)]
        if variable.kind != "array":
            return [self._carried(variable, self._state)]
        slots = [(key, self._state.get(key)) for key in element_keys(variable)]
        zero = self.b.const(0, variable.dtype)
        return [Carried(key, zero if slot is None else slot.value, None) for key, slot in slots]

    def _carried(self, variable: Variable, state: Mapping[Hashable, Contents]) -> Carried:
        slot = state.get(variable.key)
        value = self.b.const(0, variable.dtype) if slot is None else slot.value
        if variable.param is None or (slot is not None and slot.written is self._true):
            return Carried(variable.key, value, None)
        return Carried(variable.key, value, self.b.const(False, BOOL) if slot is None else slot.written)

    def enter_loop(self, leaves: Iterable[tuple[Carried, tuple[Node, Node | None]]]) -> Before:
        """Begin a turn with these contents, under no condition; returns the argument of `leave_loop`."""
        before = Before(self._path, dict(self._state), dict(self.touched))
        self._path = None
        for key in self._jumps():
            del self._state[key]
        for each, (value, written) in leaves:
            if each.key != RESULT:  # no turn begins behind a return
                self._state[each.key] = Contents(value, written or self._true)
        return before

    def contents(self, each: Carried) -> Contents:
        """The contents of a variable at the end of a turn."""
        found = self._state.get(each.key)
        if found is None and each.key == RESULT:
            found = Contents(each.value, self.b.const(False, BOOL))
        assert found is not None
        return found

    def start(self, before: Before) -> Node:
        """Whether an element comes to the loop."""
        return self._true if before.path is None else before.path

    def check_written(self, before: Before) -> None:
        """Begin anew where a turn has written an element of an array without order."""
        for key, slot in self._state.items():
            if isinstance(key, tuple) and key[0] == "element" and before.state.get(key) != slot:
                raise OrderNeededError(int(key[1]))

    def leave_loop(self, before: Before, last: Iterable[tuple[Carried, Node, Node | None]]) -> None:
        """Go on behind a loop with the last contents of its variables."""
        self._path, self._state = before.path, before.state
        for each, value, written in last:
            found = Contents(value, written or self._true)
            earlier = self._state.pop(each.key, None)
            if each.key == RESULT and earlier is not None and written is not None:
                value = self.b.select(written, value, earlier.value)
                found = Contents(value, self.b.op("or", written, earlier.written))
            self._state[each.key] = found
