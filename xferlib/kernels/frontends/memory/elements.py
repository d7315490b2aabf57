"""Elements of array parameters at computed indices, for a snippet's scope: which are read, and which are written.

Most kernels write each element of an array once, and read none of what they write: their writes stand at the end of
the program. An array that a kernel writes in a loop, updates atomically, or reads where it writes, has its reads and
writes in the order of the source instead: it is an *ordered* one. Which arrays are is found while a snippet is
translated; `OrderNeededError` then begins the translation anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from xferlib.errors import KernelTypeError
from xferlib.kernels.frontends.memory.contents import Contents, Fail, Variable
from xferlib.kernels.ir.indices import is_distinct, linear, may_be_own
from xferlib.kernels.ir.nodes import Builder, Node
from xferlib.kernels.ir.updates import Update, is_exact, real_operands, update


class OrderNeededError(Exception):
    """The reads and writes of an array must be in the order of the source."""

    def __init__(self, param: int) -> None:
        super().__init__(param)
        self.param = param


class Touched(NamedTuple):
    """The nodes that touched an ordered array last."""

    update: Node | None
    reads: tuple[Node, ...]
    """Those behind it."""


UNTOUCHED = Touched(None, ())


class ArrayElements:
    """The part of a scope that reads and writes elements of arrays."""

    b: Builder
    _state: dict[Hashable, Contents]
    _true: Node
    _path: Node | None

    def _begin_elements(self, ordered: frozenset[int]) -> None:
        self._raw_reads: dict[int, set[int]] = {}
        self._raw_writes: dict[int, set[int]] = {}
        self._indices: dict[Hashable, Node] = {}
        self.ordered = ordered
        self.touched: dict[int, Touched] = {}
        self._uses: dict[int, set[str]] = {}
        self._searched: tuple[int, Node, dict[int, bool]] | None = None
        """The element that `_rests_on` looked for last, and whether each node rests on it."""

    def _read_element(self, variable: Variable, index: Node, name: str, fail: Fail) -> Node:
        assert variable.param is not None
        if variable.param in self.ordered:
            return self._read_in_order(variable.param, index)
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
        value = self.b.cast(value, variable.dtype)
        value = self.b.one_nan(value) if self.b.reads_bits else value
        if variable.param in self.ordered:
            self._check_store(variable.param, index, value, name, fail)
            self._update_in_order(Update(variable.param, "store", is_used=False), index, value, None)
            return value
        self._note(self._raw_writes, self._raw_reads, variable.param, index, name, fail)
        self._check_update(variable.param, index, name, fail)
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
            self._need_order(param)
            fail(
                f"{name!r} is read and written at different indices, so that the result would depend on the order "
                "in which elements are computed; write to another array, or take any order with math='fast'"
            )

    def _check_update(self, param: int, index: Node, name: str, fail: Fail) -> None:
        """Refuse to read and write an array element that several elements of a call may share."""
        is_update = param in self._raw_reads and param in self._raw_writes
        if is_update and not is_distinct(index, self.b.params):
            self._need_order(param)
            self._fail_for_lost(param, name, fail)

    def _check_store(self, param: int, index: Node, value: Node, name: str, fail: Fail) -> None:
        """Refuse to store what depends on the element's value before: no order of the elements keeps both updates."""
        if self.b.math == "exact" or may_be_own(index, self.b.params):
            return  # exact results are promised for less: see `check_order`
        is_chosen = self._path is not None and linear(value, self.b.params) is None  # such as the larger of two
        if self._rests_on(value, param, index) or (is_chosen and self._rests_on(self._path, param, index)):
            self._fail_for_lost(param, name, fail)

    def _rests_on(self, value: Node | None, param: int, index: Node) -> bool:
        """Whether a value is computed from an element of an array."""
        if self._searched is None or self._searched[:2] != (param, index):
            self._searched = param, index, {}
        known: dict[int, bool] = self._searched[2]
        waiting = [] if value is None else [value]
        while waiting:
            node = waiting[-1]
            if id(node) in known:
                waiting.pop()
            elif node.op == "gather" and node.attr == param and node.args[0] is index:
                known[id(node)] = True
            elif unknown := [each for each in real_operands(node) if id(each) not in known]:
                waiting += unknown
            else:
                known[id(node)] = any(known[id(each)] for each in real_operands(node))
        return value is not None and known[id(value)]

    def _fail_for_lost(self, param: int, name: str, fail: Fail) -> None:
        array = self.b.params[param]
        fail(
            f"{name!r} is read and written at an index that several elements of a call may share, so that one "
            "update would be lost; index it by i times a constant and a shift, add up with a reduction, or write "
            f"atomicAdd(&{array.name}[...], value)"
            + (", which takes floats with math='fast'" if array.dtype.kind == "f" else "")
        )

    def _need_order(self, param: int) -> None:
        if self.b.math == "fast":
            raise OrderNeededError(param)

    # --- in the order of the source
    def _read_in_order(self, param: int, index: Node) -> Node:
        self._uses.setdefault(param, set()).add("read")
        last, reads = self.touched.get(param, UNTOUCHED)
        after = () if last is None else (last,)
        mask = self._path or self._true
        node = self.b.emit("gather", self.b.params[param].dtype, (index, mask, *after), param)
        self.touched[param] = Touched(last, (*reads, node))
        return node

    def _update_in_order(self, what: Update, index: Node, value: Node, compared: Node | None) -> Node:
        self._uses.setdefault(what.param, set()).update([what.kind, *(["used"] if what.is_used else [])])
        last, reads = self.touched.get(what.param, UNTOUCHED)
        after = reads if last is None else (last, *reads)
        node = update(self.b, what, index, value, self._path or self._true, compared, after)
        self.touched[what.param] = Touched(node, ())
        return node

    def update_element(
        self, variable: Variable, index: Node, kind: str, value: Node, compared: Node | None, *, is_used: bool
    ) -> Node:
        """Update an element atomically; returns its value before."""
        assert variable.param is not None
        if variable.param not in self.ordered:
            raise OrderNeededError(variable.param)
        return self._update_in_order(Update(variable.param, kind, is_used), index, value, compared)

    def effects(self) -> list[Node]:
        """The last updates of the ordered arrays."""
        return [each.update for each in self.touched.values() if each.update is not None]

    def check_order(self, names: Iterable[str]) -> None:
        """Refuse uses of ordered arrays whose result depends on the order, where exact results are promised.

        Raises:
            KernelTypeError: There is one.
        """
        labels = tuple(names)
        for param, uses in self._uses.items():
            dtype = self.b.params[param].dtype
            if self.b.math == "exact" and not is_exact(frozenset(uses), dtype.kind):
                how = "added up" if dtype.kind == "f" and uses <= {"add", "sub"} else "read and written"
                raise KernelTypeError(
                    f"argument {labels[param]!r} ({dtype}) is {how} in an order that differs from device to device, "
                    "and so may the result; take any order with math='fast', or use integers or a reduction"
                )
