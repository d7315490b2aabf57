"""A program as a list of NumPy calls over numbered slots, which the NumPy engine executes.

Evaluating the nodes one by one, each into a new array, is the obvious way; allocating and clearing the arrays then
takes longer than the arithmetic. So a recipe assigns memory once, as a compiler assigns registers. A value gets a
buffer, which a later value of its width takes over when the last use has passed; the last operation writes into the
output itself. Values that are the same for all elements are computed once a call.

Each of these must give way to aliasing. Where an output is an input, an early write would change operands that a later
step still reads: then only an operation that reads each element before it writes it may use the output directly, and
operands that an earlier store may overwrite are copied first.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from typing import Any

import numpy as np

from xferlib._runtime import process
from xferlib.errors import KernelError, KernelTypeError
from xferlib.kernels.analysis import is_distinct
from xferlib.kernels.formulas import expand
from xferlib.kernels.ir import (
    COMMUTING,
    INT64,
    LEAVES,
    ElementUpdate,
    LoopBody,
    Node,
    Program,
    Store,
    layout_of_call,
    real_operands,
)
from xferlib.kernels.numpy_functions import UFUNCS, operation

# Reading and writing arrays at computed indices, block by block, with the checks that a GPU cannot make.

A = np.ndarray[Any, Any]


def gather_step(name: str) -> Callable[..., None]:
    """Make ``f(raw, index, [mask,] out)``, which reads array argument ``name``; 0 where the mask is false."""

    def gather(raw: A, index: A, *rest: A) -> None:
        mask, out = (rest[0], rest[1]) if len(rest) == 2 else (None, rest[0])
        taken = index if mask is None else np.where(mask, index, 0)
        if mask is not None and not np.any(mask):
            out[...] = 0
            return
        check_range(taken, raw, name)
        np.copyto(out, raw[taken])
        if mask is not None:
            np.copyto(out, False, where=~mask)  # an int would not go into an array of bool

    return gather


def scatter_step(name: str, *, is_checked: bool) -> Callable[..., None]:
    """Make ``f(index, value, [mask,] out)``, which writes array argument ``name``.

    Args:
        name: The argument's, for messages.
        is_checked: Whether two elements may have one index, so that the values are compared.
    """

    def scatter(index: A, value: A, *rest: A) -> None:
        mask, out = (rest[0], rest[1]) if len(rest) == 2 else (None, rest[0])
        if mask is None:
            index, value = np.broadcast_arrays(index, value)
        else:
            index, value, mask = np.broadcast_arrays(index, value, mask)
            index, value = index[mask], value[mask]
        check_range(index, out, name)
        if out.ndim == 1:
            out[index] = value
        else:  # a strided array, whose elements have no flat view
            np.put(out, index, value)
        if is_checked:
            check_stored(index, value, out, name)

    return scatter


def check_stored(index: A, value: A, out: A, name: str) -> None:
    """Refuse two different values for one element: a GPU would keep either of them."""
    index = index.ravel()
    kept = (out if out.ndim == 1 else out.ravel())[index]
    differs = kept.view(np.uint8) != value.ravel().view(np.uint8)
    if differs.any():
        raise make_stored_error(name, int(index[int(np.flatnonzero(differs)[0]) // out.dtype.itemsize]))


def make_stored_error(name: str, index: int) -> KernelTypeError:
    """The error of two different values for one element of an argument."""
    return KernelTypeError(
        f"argument {name!r}: two elements of the call wrote different values to element {index}, and on a GPU "
        "either might stay; give each element an index of its own"
    )


def check_range(index: A, raw: A, name: str) -> None:
    """Refuse indices beyond an array."""
    if index.size and (index.min() < 0 or index.max() >= raw.size):
        raise make_index_error(name, raw.size, int(index.min() if index.min() < 0 else index.max()))


def make_index_error(name: str, size: int, index: int) -> KernelTypeError:
    """The error of an index beyond an argument of that size."""
    return KernelTypeError(
        f"argument {name!r} has {size} elements, and the kernel used index {index}; "
        "bound the index in the kernel, or call it for fewer elements"
    )


# Loops whose turns depend on the element: each turn computes those elements that are still in the loop.
#
# Computing all elements until the last one stops, and masking the others, takes as many turns over whole blocks; here
# the arrays shrink when elements leave. All temporaries are a run's own: the body must not use the memory of the block
# around it.

Turn = Callable[[Sequence[A]], None]
"""Computes a body's parameters from its first ones."""


def loop_step(
    body: LoopBody, turn: Turn, operands: Sequence[int], arrays: Sequence[int], results: Sequence[int]
) -> Callable[[list[A]], None]:
    """Make ``f(env)``, which runs a loop over the slots of ``env``.

    Args:
        body: One turn.
        turn: Runs it.
        operands: The slots of the node's operands.
        arrays: Those of the arrays that the body reads.
        results: Those of the variables' last values.
    """

    def run(env: list[A]) -> None:
        shape = env[results[0]].shape
        start, *given = [np.broadcast_to(env[slot], shape).reshape(-1) for slot in operands]
        _run(body, turn, start, given, [env[slot] for slot in arrays], [env[slot] for slot in results])

    return run


def make_turns_error(most: int, left: int) -> KernelError:
    """The error of a loop that has made ``most`` turns, with ``left`` elements still in it."""
    return KernelError(
        f"a loop of the kernel has made {most} turns and {left} element(s) are still in it; end it, or "
        "raise the limit with XFERLIB_LOOP_TURNS or xferlib.configure(loop_turns=...)"
    )


def _run(body: LoopBody, turn: Turn, start: A, given: list[A], arrays: list[A], results: list[A]) -> None:
    most = process.get().loop_turns
    flat = [each.copy() for each in given[: body.carried]]
    active = np.flatnonzero(start)
    values = [each[active] for each in given]
    turns = 0
    while active.size:
        turns += 1
        if turns > most:
            raise make_turns_error(most, active.size)
        out = [np.empty(active.size, each.dtype) for each in flat]
        again = np.empty(active.size, np.bool_)
        turn([*values, *arrays, *out, again])
        values[: body.carried] = out
        if not again.all():
            left = ~again
            for whole, part in zip(flat, out, strict=True):
                whole[active[left]] = part[left]
            active = active[again]
            values = [each[again] for each in values]
    for result, whole in zip(results, flat, strict=True):
        result[...] = whole.reshape(result.shape)


# Updates of arrays' elements in the order of the call's elements: see `xferlib.kernels.ir`.


def update_step(
    name: str, what: ElementUpdate, slots: Sequence[int], out: int, *, is_checked: bool
) -> Callable[[list[A]], None]:
    """Make ``f(env)``, which updates elements of an array argument over the slots of ``env``.

    Args:
        name: The argument's, for messages.
        what: The update.
        slots: Those of index, value, mask, and of what is compared.
        out: The slot that gets the values before.
        is_checked: Whether two stores of different values to one element at a time are refused.
    """

    def run(env: list[A]) -> None:
        raw, found = env[what.param], env[out]
        index, value, mask, *rest = [np.broadcast_to(env[slot], found.shape) for slot in slots]
        taken = index[mask]
        check_range(taken, raw, name)
        at = taken if raw.ndim == 1 else np.unravel_index(taken, raw.shape)
        before = _apply(what, raw, at, value[mask], rest[0][mask] if rest else None)
        if is_checked and what.kind == "store":
            check_stored(taken, value[mask], raw, name)
        found[...] = 0
        if before is not None:
            found[mask] = before

    return run


def _apply(what: ElementUpdate, raw: A, at: Any, value: A, compared: A | None) -> A | None:
    """Update elements one after the other; returns their values before, where those are wanted."""
    if what.kind == "store":
        raw[at] = value
        return None
    if not what.is_used and what.kind in COMMUTING:
        UFUNCS[what.kind].at(raw, at, value)
        return None
    before = np.empty_like(value)
    places = at if isinstance(at, np.ndarray) else list(zip(*at, strict=True))
    for number, place in enumerate(places):
        old = before[number] = raw[place]
        if what.kind in COMMUTING:
            raw[place] = UFUNCS[what.kind](old, value[number])
        elif what.kind == "exch" or (compared is not None and old == compared[number]):
            raw[place] = value[number]
    return before


Step = tuple[Callable[..., Any], int, int, int, int]
"""Function, up to three operand slots (-1: absent), output slot; one without any slot gets the environment."""

_PER_ELEMENT = frozenset({"gather", "index", "loop", "pick", "update"})
"""The operations whose values are never computed once for all elements, or in an output's memory."""

_local = threading.local()


class Recipe:
    """The steps for one program and one set of operand shapes.

    Slots are positions in an environment, a list of arrays: first the parameters, then constants and
    values that are the same for all elements, then buffers, which are reused when their value is dead.
    """

    def __init__(
        self, program: Program, operands: Sequence[A], size: int, *, is_aliased: bool, shape: tuple[int, ...] = ()
    ) -> None:
        self.program = program = expand(program)
        self._size, self._shape = size, shape
        self._is_aliased = is_aliased
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
            self._emit(node, direct)
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
        is_last = len(stores) == 1 and stores[0].value is last and last.op not in LEAVES | _PER_ELEMENT
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

    def _emit(self, node: Node, direct: dict[int, Store]) -> None:
        if self._emit_leaf(node):
            return
        if self._is_uniform(node):
            slot = self._new_slot(np.empty((), node.dtype))
            self._slots[id(node)] = slot
            self.uniform.append(self._step(operation(node, self.program.math)[0], node, slot))
            return
        store = direct.get(id(node))
        self._slots[id(node)] = slot = self._allocate(node) if store is None else store.param
        self.steps.append(self._step(self._function(node)[0], node, slot))

    def _emit_leaf(self, node: Node) -> bool:
        if node.op == "const":
            self._slots[id(node)] = self._new_slot(np.array(node.attr, node.dtype))
        elif node.op == "size":
            self._slots[id(node)] = self._new_slot(np.array(self._size, INT64))
        elif node.op == "fact":
            self._slots[id(node)] = self._new_slot(np.array(node.attr.value(self._shape, self._operands), INT64))
        elif node.op == "length":
            self._slots[id(node)] = self._lengths[node.attr] = self._new_slot(np.array(0, INT64))
        elif node.op == "load":
            self._slots[id(node)] = node.attr
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
        turn = Recipe(program, [self.nothing] * len(program.params), 1, is_aliased=False)
        self.steps.append((loop_step(node.attr, turn.run, operands, node.attr.arrays, results), -1, -1, -1, -1))

    def _update(self, node: Node) -> None:
        out = self._slots[id(node)] = self._allocate(node)
        slots = [self._slots[id(each)] for each in real_operands(node)]
        is_checked = not is_distinct(node.args[0], list(self.program.params))
        name = self.program.params[node.attr.param].name
        self.steps.append((update_step(name, node.attr, slots, out, is_checked=is_checked), -1, -1, -1, -1))

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
    out[...] = first if first.ndim else np.arange(int(first), int(first) + out.size).reshape(out.shape)


# A program as a function of blocks, with which reductions map, combine and finish.

_NONE_BEFORE = np.array(0, INT64)


class BlockFunction:
    """A program for arrays of any shape, all alike in one call; ``is_aliased``: a result may be an operand."""

    def __init__(self, program: Program, size: int, *, is_aliased: bool = False) -> None:
        whole = np.broadcast_to(np.empty((), np.uint8), (max(size, 1),))
        operands = [np.empty(()) if param.is_scalar else whole for param in program.params]
        self.recipe = Recipe(program, operands, whole.size, is_aliased=is_aliased)
        self._last = max(number for number, param in enumerate(program.params) if not param.is_scalar)
        steps = self.recipe.all_steps
        is_plain = len(steps) == 1 and max(steps[0][1:]) < len(program.params)
        self._only = steps[0] if is_plain else None
        loads = [store.value for store in program.stores if store.value.op == "load"]
        self.is_copy = len(loads) == len(program.stores) and not any(
            program.params[each.attr].is_scalar for each in loads
        )
        """Whether the results are the operands, unchanged."""

    @property
    def ufunc(self) -> np.ufunc | None:
        """The NumPy ufunc of two operands that equals the function; None if there is none."""
        if self._only is None or self._only[1:3] != (0, 1) or not isinstance(self._only[0], np.ufunc):
            return None
        return self._only[0]

    def __call__(self, operands: Sequence[A], first: A = _NONE_BEFORE) -> None:
        """Run; all arrays that are not scalars have one shape.

        ``first`` is the number of the first element in C order, or those of all, broadcast to that shape.
        """
        if self._only is not None:
            execute([self._only], operands)
        else:
            execute(self.recipe.all_steps, self._environment(operands, None, first))

    def _environment(self, operands: Sequence[A], raws: list[A] | None, first: A = _NONE_BEFORE) -> list[A]:
        recipe = self.recipe
        env = recipe.environment(None)
        env[: len(operands)] = operands
        recipe.bind_scratch(env, operands[self._last].shape, raws)
        if recipe.uses_index:
            env[recipe.first_slot] = first
        return env

    def environment(self, operands: Sequence[A], raws: list[A]) -> list[A]:
        """The slots of `recipe` for these operands, with temporaries in ``raws``, a list that grows on demand."""
        return self._environment(operands, raws)

    def calls(self, operands: Sequence[A], raws: list[A]) -> list[tuple[Any, ...]]:
        """The work on these operands as a list of calls, each a function and its arguments."""
        env = self.environment(operands, raws)
        return [
            (function, *(env[slot] for slot in (*slots, out) if slot >= 0))
            for function, *slots, out in self.recipe.all_steps
        ]


# Runs programs on NumPy arrays, block by block: the reference, and the engine of every CPU backend.
#
# A block is small enough for its temporaries to stay in cache. A small call is one block of the operands' own shape.
# Nothing runs in threads: compiled C does, where there is a compiler.

SMALL = 16384
"""The most elements of a call that runs as one block, in memory that the plan keeps."""
_MOST, _LEAST = 65536, 16384
_CACHE_NBYTES = 1 << 21


class NumpyPlan:
    """A program prepared for operands of one shape each.

    Args:
        program: What to run.
        shape: The common shape of its element-wise operands.
        operands: One array per parameter, for shapes and strides; scalars are zero-dimensional.
        is_aliased: Whether an output shares memory with an input, so that a block must be read completely
            before it is written.
    """

    def __init__(self, program: Program, shape: tuple[int, ...], operands: Sequence[A], *, is_aliased: bool) -> None:
        self._program = program
        self._shape = shape
        self._size = math.prod(shape)
        self._is_small = self._size <= SMALL
        self._elements, self._raw = program.elements, program.raw
        self._recipe = Recipe(program, operands, self._size, is_aliased=is_aliased, shape=shape)
        self._idle: list[tuple[list[A], Context]] = []
        self._nothing = [self._recipe.nothing] * len(operands)
        self._layout = None if self._is_small else layout_of_call(program, shape, operands)
        self._places = np.broadcast_to(False, () if self._layout is None else self._layout.shape)
        """An array whose parts have the shapes of blocks; a kernel of raw arrays alone has no other."""

    def run(self, operands: Sequence[A]) -> None:
        """Execute for arrays of the planned shapes, strides and dtypes."""
        if self._size == 0:
            return
        try:
            env, quiet = self._idle.pop()
        except IndexError:  # the first call, or one beside others
            env, quiet = self._recipe.environment(self._shape if self._is_small else None), quiet_context()
        count = len(operands)
        env[:count] = operands  # the first slots are the parameters
        if self._raw:
            self._bind_raw(env, operands)
        if self._is_small:
            quiet.run(execute, self._recipe.all_steps, env)
        else:
            quiet.run(self._run_blocks, env)
        env[:count] = self._nothing  # or the plan would keep the caller's arrays alive
        self._idle.append((env, quiet))

    def _bind_raw(self, env: list[A], operands: Sequence[A]) -> None:
        for number in self._raw:
            operand = operands[number]
            is_written = number in self._program.writes
            env[number] = operand if is_written and not operand.flags.c_contiguous else operand.reshape(-1)
        self._recipe.bind_lengths(env, operands)

    # --- large calls
    def _run_blocks(self, env: list[A]) -> None:
        """Cut the operands in ``env`` into blocks and run them; NumPy must be quiet."""
        assert self._layout is not None
        shape = self._layout.shape
        views = [
            np.lib.stride_tricks.as_strided(env[number], shape, strides)
            for number, strides in zip(self._elements, self._layout.strides, strict=True)
        ]
        execute(self._recipe.uniform, env)
        fitting = _CACHE_NBYTES // max(1, self._recipe.nbytes_per_element)
        bound: tuple[int, ...] | None = None
        for block in _blocks(shape, max(_LEAST, min(_MOST, 1 << max(0, fitting.bit_length() - 1)))):
            bound = self._run_block(env, views, *block, bound)

    def _run_block(
        self, env: list[A], views: list[A], first: int, region: tuple[Any, ...], bound: tuple[int, ...] | None
    ) -> tuple[int, ...]:
        """Run one block in ``env``, whose buffers have shape ``bound``; returns their shape afterwards."""
        recipe = self._recipe
        for number, view in zip(self._elements, views, strict=True):
            env[number] = view[region]
        shape: tuple[int, ...] = self._places[region].shape
        if shape != bound:
            recipe.bind_scratch(env, shape)
        if recipe.uses_index:
            env[recipe.first_slot] = np.array(first, INT64)
        execute(recipe.steps, env)
        return shape


def quiet_context() -> Context:
    """A context in which NumPy does not warn: entering it costs a tenth of ``np.errstate``."""
    context = Context()
    context.run(np.seterr, all="ignore")
    return context


def _blocks(shape: tuple[int, ...], size: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The blocks of at most ``size`` elements, in C order: of each the number of its first element, and its index."""
    axis, inner = len(shape), 1
    while axis and inner * shape[axis - 1] <= size:
        axis -= 1
        inner *= shape[axis]
    if axis == 0:
        yield 0, ()
        return
    axis -= 1
    step = max(1, size // inner)
    row = shape[axis] * inner
    for number, outer in enumerate(itertools.product(*map(range, shape[:axis]))):
        for start in range(0, shape[axis], step):
            yield number * row + start * inner, (*outer, slice(start, start + step))
