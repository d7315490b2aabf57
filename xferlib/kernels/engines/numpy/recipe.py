"""A program as a list of NumPy calls over numbered slots, which the NumPy engine executes.

Evaluating the nodes one by one, each into a new array, is the obvious way; allocating and clearing the arrays then
takes longer than the arithmetic. So a recipe assigns memory once, as a compiler assigns registers. A value gets a
buffer, which the next value of its width takes over when the last use has passed; a plain ufunc writes over an operand
that dies; the last operation writes into the output itself. Values that are the same for all elements are computed
once a call.

Each of these must give way to aliasing. Where an output is an input, an early write would change operands that a later
step still reads: then only an operation that reads each element before it writes it may use the output directly, and
operands that an earlier store may overwrite are copied first.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib.kernels.engines.numpy.indexing import gather_step, scatter_step
from xferlib.kernels.engines.numpy.loops import loop_step
from xferlib.kernels.engines.numpy.updates import update_step
from xferlib.kernels.ir.formulas.own_functions import expanded
from xferlib.kernels.ir.indices import is_distinct
from xferlib.kernels.ir.nodes import INT64, Node, Program, Store
from xferlib.kernels.ir.numpy_ops import operation
from xferlib.kernels.ir.updates import real_operands

A = np.ndarray[Any, Any]
Step = tuple[Callable[..., Any], int, int, int, int]
"""Function, up to three operand slots (-1: absent), output slot; one without any slot gets the environment."""

_LEAVES = frozenset({"const", "load", "index", "size", "length", "fact"})
_PER_ELEMENT = frozenset({"gather", "index", "loop", "pick", "update"})
"""The operations whose values are never computed once for all elements, or in an output's memory."""

_local = threading.local()


class Recipe:
    """The steps for one program and one set of operand shapes.

    Slots are positions in an environment, a list of arrays: first the parameters, then constants and
    values that are the same for all elements, then buffers, which are reused when their value is dead.
    """

    def __init__(
        self, program: Program, operands: Sequence[A], size: int, *, is_aliased: bool, keeps_strides: bool,
        shape: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        self.program = program = expanded(program)
        self._size, self._shape = size, shape
        self._is_aliased = is_aliased
        self._keeps_strides = keeps_strides
        self.nothing: A = np.empty(0)
        self.first_slot = len(program.params)
        self._preset: list[A | None] = [None] * (len(program.params) + 1)
        self._buffers: list[tuple[int, np.dtype[Any]]] = []  # slot -> (buffer number, dtype)
        self._buffer_slots: dict[tuple[int, np.dtype[Any]], int] = {}
        self._widths: list[int] = []
        self._free: dict[int, list[int]] = {}
        self._held: dict[int, int] = {}  # id(node) -> buffer number
        self._slots: dict[int, int] = {}
        self._uniform_ids: set[int] = set()
        self._lengths: dict[int, int] = {}
        self.uniform: list[Step] = []
        self.steps: list[Step] = []
        self.uses_index = any(node.op == "index" for node in program.nodes)
        self._operands = operands
        self._compile()
        self.all_steps = [*self.uniform, *self.steps]
        del self._operands

    @property
    def nbytes_per_element(self) -> int:
        return sum(self._widths) + 8

    # --- environments
    def environment(self, shape: tuple[int, ...] | None) -> list[A]:
        """Slots with the constants set and, if ``shape`` is given, buffers of their own."""
        env = [self.nothing if each is None else each for each in self._preset]
        for step in self.uniform:
            env[step[4]] = np.empty((), env[step[4]].dtype)
        if shape is not None:
            raws = [np.empty(self._size * width, np.uint8) for width in self._widths]
            self._bind(env, shape, raws)
            if self.uses_index:
                env[self.first_slot] = np.zeros((), INT64)
        return env

    def bind_scratch(self, env: list[A], shape: tuple[int, ...], raws: list[A] | None = None) -> None:
        """Put buffers of ``shape`` into ``env``: from ``raws``, a list that grows on demand, or this thread's."""
        if not self._widths:
            return
        count = math.prod(shape)
        if raws is None:
            raws = _local.__dict__.setdefault("raws", [])
        for number, width in enumerate(self._widths):
            if number == len(raws):
                raws.append(np.empty(count * width, np.uint8))
            elif raws[number].nbytes < count * width:
                raws[number] = np.empty(count * width, np.uint8)
        self._bind(env, shape, raws)

    def _bind(self, env: list[A], shape: tuple[int, ...], raws: list[A]) -> None:
        count = math.prod(shape)
        for (number, dtype), slot in self._buffer_slots.items():
            env[slot] = raws[number][: count * dtype.itemsize].view(dtype).reshape(shape)

    def bind_lengths(self, env: list[A], operands: Sequence[A]) -> None:
        for param, slot in self._lengths.items():
            env[slot] = np.array(operands[param].size, INT64)

    def run(self, operands: Sequence[A]) -> None:
        """Run on arrays of one shape, with memory of this call alone: for a program within another one's block."""
        env = self.environment(None)
        env[: len(operands)] = operands
        self.bind_scratch(env, operands[-1].shape, [])
        execute(self.all_steps, env)

    # --- compilation
    def _compile(self) -> None:
        self._find_uniform()
        uses = self._last_uses()
        direct = self._direct_outputs()
        for position, node in enumerate(self.program.nodes):
            self._emit(node, position, uses, direct)
            for each in node.args:
                if uses[id(each)] == position:
                    self._release(each)
        if self._is_aliased:
            self._keep_overwritten()
        for store in self.program.stores:
            self._store(store, direct)

    def _last_uses(self) -> dict[int, int]:
        uses: dict[int, int] = {}
        for position, node in enumerate(self.program.nodes):
            uses[id(node)] = position
            for each in node.args:
                uses[id(each)] = position
        for store in self.program.stores:
            for each in store.operands():
                uses[id(each)] = len(self.program.nodes)
        return uses

    def _direct_outputs(self) -> dict[int, Store]:
        """The nodes that may be computed directly in an output's memory, by their store."""
        direct: dict[int, Store] = {}
        if self._is_aliased and not self._may_overwrite_operands():
            return direct
        for store in self.program.stores:
            node = store.value
            is_computed = store.index is None and id(node) not in direct and node.op not in ("load", *_PER_ELEMENT)
            if is_computed and self._operands[store.param].size == self._size and not self._is_uniform(node):
                direct[id(node)] = store
        return direct

    def _may_overwrite_operands(self) -> bool:
        """Whether the only store takes the last value, by a function that reads each element before it writes it."""
        stores, last = self.program.stores, self.program.nodes[-1]
        is_last = len(stores) == 1 and stores[0].value is last and last.op not in _LEAVES | _PER_ELEMENT
        return is_last and self._function(last)[1]

    def _keep_overwritten(self) -> None:
        """Copy the operands that a store takes unchanged and an earlier store may overwrite."""
        for number, store in enumerate(self.program.stores):
            if all(earlier.index is not None for earlier in self.program.stores[:number]):
                continue  # a raw array overlaps no other operand
            for node in store.operands():
                is_operand = node.op == "load" and self._slots[id(node)] == node.attr and not self._is_uniform(node)
                if is_operand and node.attr != store.param:
                    self._slots[id(node)] = copy = self._allocate(node)
                    self.steps.append((_copy, node.attr, -1, -1, copy))

    def _is_uniform(self, node: Node) -> bool:
        """Whether the value is the same for all elements."""
        return id(node) in self._uniform_ids

    def _find_uniform(self) -> None:
        for node in self.program.nodes:
            if node.op == "load":
                is_uniform = self.program.params[node.attr].is_scalar
            elif node.op in _PER_ELEMENT:
                is_uniform = False
            else:
                is_uniform = all(map(self._is_uniform, node.args))  # constants have no operands
            if is_uniform:
                self._uniform_ids.add(id(node))

    def _emit(self, node: Node, position: int, uses: dict[int, int], direct: dict[int, Store]) -> None:
        if self._emit_leaf(node):
            return
        if self._is_uniform(node):
            slot = self._new_slot(np.empty((), node.dtype))
            self._slots[id(node)] = slot
            self.uniform.append(self._step(operation(node, self.program.math)[0], node, slot))
            return
        function, may_overwrite = self._function(node)
        store = direct.get(id(node))
        if store is not None:
            slot = store.param
        else:
            if may_overwrite:
                self._release_dying(node, position, uses)
            slot = self._allocate(node)
        self._slots[id(node)] = slot
        self.steps.append(self._step(function, node, slot))

    def _emit_leaf(self, node: Node) -> bool:
        if node.op == "const":
            self._slots[id(node)] = self._new_slot(np.array(node.attr, node.dtype))
        elif node.op == "size":
            self._slots[id(node)] = self._new_slot(np.array(self._size, INT64))
        elif node.op == "fact":
            self._slots[id(node)] = self._new_slot(np.array(node.attr.found(self._shape, self._operands), INT64))
        elif node.op == "length":
            self._slots[id(node)] = self._lengths[node.attr] = self._new_slot(np.array(0, INT64))
        elif node.op == "load":
            self._load(node)
        elif node.op == "index":
            self._slots[id(node)] = slot = self._allocate(node)
            self.steps.append((_index, self.first_slot, -1, -1, slot))
        elif node.op == "loop":
            self._loop(node)
        elif node.op == "update":
            self._update(node)
        else:
            return node.op == "pick"
        return True

    def _loop(self, node: Node) -> None:
        """Add the step of a loop, which fills the slots of its picks."""
        picks = {each.attr: each for each in self.program.nodes if each.op == "pick" and each.args[0] is node}
        results = []
        for number in range(node.attr.carried):
            value = picks.get(number) or node.args[1 + number]  # an unread one takes memory too
            slot = self._allocate(value) if number in picks else self._new_buffer(value)
            if number in picks:
                self._slots[id(value)] = slot
            results.append(slot)
        operands = [self._slots[id(each)] for each in node.args[: 1 + node.attr.carried + node.attr.captured]]
        program = node.attr.program
        turn = Recipe(program, [self.nothing] * len(program.params), 1, is_aliased=False, keeps_strides=True)
        self.steps.append((loop_step(node.attr, turn.run, operands, node.attr.arrays, results), -1, -1, -1, -1))

    def _update(self, node: Node) -> None:
        out = self._slots[id(node)] = self._allocate(node)
        slots = [self._slots[id(each)] for each in real_operands(node)]
        is_checked = not is_distinct(node.args[0], list(self.program.params))
        name = self.program.params[node.attr.param].name
        self.steps.append((update_step(name, node.attr, slots, out, is_checked=is_checked), -1, -1, -1, -1))

    def _load(self, node: Node) -> None:
        slot = node.attr
        operand = self._operands[node.attr]
        self._slots[id(node)] = slot
        if not self._is_uniform(node) and self._needs_copy(node, operand):
            self._slots[id(node)] = copy = self._allocate(node)
            self.steps.append((_copy, slot, -1, -1, copy))

    def _needs_copy(self, node: Node, operand: A) -> bool:
        """Whether an operand is strided or broadcast and used several times: one copy a block then pays."""
        if self._keeps_strides or (operand.flags.c_contiguous and operand.size == self._size):
            return False
        return sum(each is node for user in self.program.nodes for each in user.args) > 1

    def _function(self, node: Node) -> tuple[Callable[..., Any], bool]:
        if node.op == "gather":
            return gather_step(self.program.params[node.attr].name), False
        return operation(node, self.program.math)

    def _step(self, function: Callable[..., Any], node: Node, out: int) -> Step:
        slots = [self._slots[id(each)] for each in real_operands(node)]
        if node.op == "gather":
            slots.insert(0, node.attr)
        a, b, c = (*slots, -1, -1)[:3]
        return function, a, b, c, out

    def _store(self, store: Store, direct: dict[int, Store]) -> None:
        value, target = self._slots[id(store.value)], store.param
        if store.index is not None:
            mask = -1 if store.mask is None else self._slots[id(store.mask)]
            params = list(self.program.params)
            function = scatter_step(params[store.param].name, is_checked=not is_distinct(store.index, params))
            self.steps.append((function, self._slots[id(store.index)], value, mask, target))
        elif direct.get(id(store.value)) is not store:
            self.steps.append((_copy, value, -1, -1, target))

    # --- slots and buffers
    def _new_slot(self, preset: A | None) -> int:
        self._preset.append(preset)
        return len(self._preset) - 1

    def _allocate(self, node: Node) -> int:
        """A buffer slot for ``node``; buffers are shared by values of one width."""
        width = node.dtype.itemsize
        free = self._free.setdefault(width, [])
        if free:
            number = free.pop()
        else:
            number = len(self._widths)
            self._widths.append(width)
        self._held[id(node)] = number
        key = (number, node.dtype)
        if key not in self._buffer_slots:
            self._buffer_slots[key] = self._new_slot(None)
        return self._buffer_slots[key]

    def _new_buffer(self, like: Node) -> int:
        """A buffer slot of the width of ``like``, for this use alone."""
        self._widths.append(like.dtype.itemsize)
        slot = self._buffer_slots[len(self._widths) - 1, like.dtype] = self._new_slot(None)
        return slot

    def _release(self, node: Node) -> None:
        number = self._held.pop(id(node), None)
        if number is not None:
            self._free.setdefault(self._widths[number], []).append(number)

    def _release_dying(self, node: Node, position: int, uses: dict[int, int]) -> None:
        """Release the operands that no later node needs; a plain ufunc may overwrite them."""
        for each in node.args:
            if uses[id(each)] == position and each.dtype.itemsize == node.dtype.itemsize:
                self._release(each)


def execute(steps: Sequence[Step], env: Sequence[A]) -> None:
    """Run steps over the slots of ``env``."""
    for function, a, b, c, out in steps:
        if b < 0:
            if a < 0:
                function(env)
            else:
                function(env[a], env[out])
        elif c < 0:
            function(env[a], env[b], env[out])
        else:
            function(env[a], env[b], env[c], env[out])


def _copy(x: A, out: A) -> None:
    np.copyto(out, x)


def _index(first: A, out: A) -> None:
    out[...] = np.arange(int(first), int(first) + out.size).reshape(out.shape)
