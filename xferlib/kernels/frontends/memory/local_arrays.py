"""Arrays that a snippet declares: each of their elements is a variable, and a computed index selects among them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from xferlib.kernels.frontends.memory.contents import Contents, Fail, Variable
from xferlib.kernels.ir.constants import constant_value
from xferlib.kernels.ir.nodes import Builder, DType, Node

MOST_ELEMENTS = 1024
"""Limit of an array's elements: each is a value of the program."""


class LocalArrays:
    """The part of a scope that knows of local arrays."""

    b: Builder
    _names: dict[str, Variable]
    _here: dict[str, Variable | None]
    _declared: dict[Hashable, Variable]
    _state: dict[Hashable, Contents]
    _true: Node
    _counter: int
    _known: dict[int, np.generic | None]

    def declare_array(self, name: str, dtype: DType, shape: tuple[int, ...], values: list[Node] | None) -> None:
        """Declare a local array; ``values`` are its first elements, the rest being 0, and None leaves all unset."""
        self._counter += 1
        variable = Variable((self._counter, name), dtype, kind="array", shape=shape)
        self._names[name] = self._here[name] = variable
        keys = element_keys(variable)
        self._declared.update((key, Variable(key, dtype)) for key in keys)
        if values is not None:
            rest = [self.b.const(0, dtype)] * (len(keys) - len(values))
            for key, value in zip(keys, [*values, *rest], strict=True):
                self._state[key] = Contents(value, self._true)

    def _read_local(self, variable: Variable, index: Node, fail: Fail) -> Node:
        keys = element_keys(variable)
        number = self._number(variable, index, fail)
        if number is not None:
            slot = self._state.get(keys[number])
            if slot is None:
                fail(f"element {number} of {_name(variable)!r} is read before it has a value; give it one")
            return slot.value
        slots = [self._state.get(key) for key in keys]
        values = [self.b.const(0, variable.dtype) if slot is None else slot.value for slot in slots]
        found = values[-1]
        for at, value in enumerate(values[:-1]):
            found = self.b.select(self._is_at(index, at), value, found)
        return found

    def _write_local(self, variable: Variable, index: Node, value: Node, fail: Fail) -> None:
        keys = element_keys(variable)
        number = self._number(variable, index, fail)
        if number is not None:
            self._state[keys[number]] = Contents(value, self._true)
            return
        for at, key in enumerate(keys):
            slot = self._state.get(key)
            before = self.b.const(0, variable.dtype) if slot is None else slot.value
            self._state[key] = Contents(self.b.select(self._is_at(index, at), value, before), self._true)

    def _number(self, variable: Variable, index: Node, fail: Fail) -> int | None:
        """The value of an index that is known at translation; None of any other."""
        known = constant_value(index, self._known)
        if known is None:
            return None
        count = len(element_keys(variable))
        if not 0 <= int(known) < count:
            fail(f"{_name(variable)!r} has {count} element(s), and is indexed by {int(known)}")
        return int(known)

    def _is_at(self, index: Node, at: int) -> Node:
        return self.b.op("eq", index, self.b.const(at, index.dtype))


def element_keys(variable: Variable) -> list[Hashable]:
    """The keys of an array's elements."""
    count = 1
    for extent in variable.shape:
        count *= extent
    return [(variable.key, number) for number in range(count)]


def _name(variable: Variable) -> Any:
    return variable.key[1] if isinstance(variable.key, tuple) else variable.key
