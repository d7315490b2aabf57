"""Elements of array parameters at computed indices, for a snippet's scope: which are read, and which are written."""

from __future__ import annotations

from collections.abc import Hashable

from xferlib.kernels.frontends.memory.contents import Contents, Fail, Variable
from xferlib.kernels.ir.indices import is_distinct
from xferlib.kernels.ir.nodes import Builder, Node


class ArrayElements:
    """The part of a scope that reads and writes elements of arrays."""

    b: Builder
    _state: dict[Hashable, Contents]
    _true: Node
    _path: Node | None

    def _begin_elements(self) -> None:
        self._raw_reads: dict[int, set[int]] = {}
        self._raw_writes: dict[int, set[int]] = {}
        self._indices: dict[Hashable, Node] = {}

    def _read_element(self, variable: Variable, index: Node, name: str, fail: Fail) -> Node:
        assert variable.param is not None
        slot = self._state.get(self._element_key(variable.param, index))
        if slot is not None and slot.written is self._true:
            return slot.value
        self._note(self._raw_reads, self._raw_writes, variable.param, index, name, fail)
        self._check_update(variable.param, index, name, fail)
        stored = self.b.gather(variable.param, index, self._path)
        return stored if slot is None else self.b.select(slot.written, slot.value, stored)

    def _write_element(self, variable: Variable, index: Node, value: Node, name: str, fail: Fail) -> Node:
        assert variable.param is not None
        if not variable.is_writable:
            fail(f"{name!r} is read-only here; assign to an output or a local variable")
        self._note(self._raw_writes, self._raw_reads, variable.param, index, name, fail)
        self._check_update(variable.param, index, name, fail)
        value = self.b.cast(value, variable.dtype)
        key = self._element_key(variable.param, index)
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
