"""Reductions on NumPy arrays, in the order that `xferlib.kernels.ir` fixes.

``ufunc.reduce`` is fast, but the order in which it adds differs with the layout, the dtype and the NumPy version. So a
reduction walks through the tree itself, level by level, by operations on many pairs at a time: blocks are mapped into
memory that stays in cache, folded to one accumulator a node of 1024 elements, and the nodes' accumulators are then
combined in pairs. Where the order cannot change the bits (a maximum,
a sum of integers), NumPy's own reduction does a whole block in one call. A small reduction is bound to memory of its
own in advance, since Python's time for each call would exceed the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextvars import Context
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from xferlib.kernels.ir import INT64, Node, Program, ReductionSpec, is_float, is_order_free
from xferlib.kernels.numpy_engine import BlockFunction, execute, quiet_context
from xferlib.kernels.numpy_functions import UFUNCS, scratch_of

# Reductions whose bits do not depend on the order, so that one NumPy call reduces a whole block.

A = np.ndarray[Any, Any]
Fold = Callable[[A], A]
"""Reduces the last axis, of one element or more."""


def fold_of(combine: Program) -> Fold | None:
    """The fold for the combining program of a reduction; None where the order of the elements matters."""
    if not is_order_free(combine):
        return None
    node = combine.stores[0].value
    if is_float(node.dtype):
        return _extremum(node.op)
    reduce = UFUNCS[node.op].reduce
    return lambda x: reduce(x, axis=-1, dtype=x.dtype)


def _extremum(op: str) -> Fold:
    """The smallest or largest float: NaN propagates, and -0 is below +0.

    Of +0 and -0 NumPy returns either, depending on the vector instructions it uses. So the signs of zeros are
    reduced separately.
    """
    reduce = UFUNCS[op].reduce
    # Where the maximum is zero, no element has a clear sign but +0: it is -0 only if all signs are set.
    signs = {"min": np.bitwise_or.reduce, "max": np.bitwise_and.reduce}[op]

    def fold(x: A) -> A:
        result: A = reduce(x, axis=-1)
        if result.all():
            return result
        bits = np.dtype(f"u{x.dtype.itemsize}")
        sign = bits.type(1 << (8 * x.dtype.itemsize - 1))
        is_zero = result == 0
        zeros = x if is_zero.all() else x[is_zero]
        result[is_zero] = (signs(zeros.view(bits), axis=-1) & sign).view(x.dtype)
        return result

    return fold


# The fixed order of a reduction, level by level, on arrays whose last axis has the nodes of a level side by side.
#
# `xferlib.kernels.ir` defines the order.

Nodes = list[A]
"""Accumulators of the nodes of a level."""
Room = Callable[[int, A, int], A]
"""Memory for nodes of an accumulator: by its number, what it has now, and how many they are."""


def find_constant(spec: ReductionSpec) -> set[int]:
    """The accumulators that depend on nothing but the number of elements; none where all do."""
    count = len(spec.accumulators)
    found = {number for number, store in enumerate(spec.map_program.stores) if store.value.op == "const"}

    def is_known(node: Node) -> bool:
        if node.op == "load":
            return node.attr % count in found
        return node.op == "const" or (bool(node.args) and all(map(is_known, node.args)))

    while lost := {number for number in found if not is_known(spec.combine.stores[number].value)}:
        found -= lost
    return found if len(found) < count else set()


def take_as_scalars(program: Program, numbers: Collection[int]) -> Program:
    """The program with these parameters zero-dimensional, those that it writes included."""
    params = [replace(param, is_scalar=param.is_scalar or n in numbers) for n, param in enumerate(program.params)]
    return replace(program, params=tuple(params))


class Level:
    """The nodes of a level of the tree.

    Complete nodes have one number of elements. An accumulator that depends on nothing else is zero-dimensional, so
    that it takes no operation on many nodes. The last node may have fewer elements, and such accumulators of its own.

    Args:
        values: The accumulators of all nodes; the zero-dimensional ones, of all but the last.
        last: The zero-dimensional ones of the last node, at their places; ``values`` where it is complete.
    """

    __slots__ = ("count", "last", "values")

    def __init__(self, values: Nodes, count: int, last: Nodes | None = None) -> None:
        self.values = values
        self.count = count
        self.last = values if last is None else last

    def halve(self, run: Callable[[Nodes], Any], room: Room | None = None) -> Level:
        """The next level: neighbours combined by ``run``, in ``room`` or in place; an odd node stays."""
        values, last, half = self.values, self.last, self.count // 2
        odd = self.count - 2 * half
        if room is None:
            made = [each[..., ::2] if each.ndim else np.empty((), each.dtype) for each in values]
        else:
            made = [room(n, each, half + odd) for n, each in enumerate(values)]
        alike = half if odd or last is values else half - 1
        if alike:
            run(_pairs(0, alike, values, values, made))
        if odd:
            if room is not None:
                for each, source in zip(made, values, strict=True):
                    if each.ndim:
                        each[..., half:] = source[..., -1:]
            return Level(made, half + odd, None if all(each.ndim for each in values) else last)
        if alike == half:
            return Level(made, half)
        ends = [each if each.ndim else np.empty((), each.dtype) for each in made]
        run(_pairs(alike, half, values, last, ends))
        return Level(made, half, ends)

    def result(self) -> Nodes:
        """The accumulators of the only node."""
        rows = next(each.shape[:-1] for each in self.values if each.ndim)
        pairs = zip(self.values, self.last, strict=True)
        return [each[..., 0] if each.ndim else np.full(rows, other) for each, other in pairs]


def _pairs(start: int, stop: int, values: Nodes, last: Nodes, made: Nodes) -> Nodes:
    """Both nodes of pairs of neighbours, and what is made of them; ``last`` as `Level.last`, of the right nodes."""
    left, right = slice(2 * start, 2 * stop, 2), slice(2 * start + 1, 2 * stop, 2)
    found = [each[..., left] if each.ndim else each for each in values]
    found += [each[..., right] if each.ndim else other for each, other in zip(values, last, strict=True)]
    found += [each[..., start:stop] if each.ndim else each for each in made]
    return found


# A small reduction on NumPy arrays, every step of which is bound in advance to memory of its own.


class SmallReduction:
    """A reduction of one shape; runs one call at a time.

    Args:
        shape: Results, and the elements of each.
        mapping: From inputs to accumulators.
        combine: Two nodes to one, in place.
        post: From accumulators and ``sizes`` to the outputs.
        sizes: The numbers of all elements and of results.
        constants: By their numbers, the accumulators of one element that `Level` has zero-dimensional.
        free: Folds the accumulators in one call; None where their order matters.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        mapping: BlockFunction,
        combine: BlockFunction,
        post: BlockFunction,
        sizes: Sequence[A],
        constants: dict[int, A],
        free: Fold | None,
    ) -> None:
        self._mapping = mapping
        self._free = free
        nothing = mapping.recipe.nothing
        program = mapping.recipe.program
        raws: list[A] = []
        count = len(program.stores)  # each takes one accumulator
        self._inputs = len(program.params) - count
        self._unbound = [nothing] * self._inputs
        # Many short rows reduce faster with their lanes adjacent.
        order: Any = "F" if shape[0] > shape[1] and mapping.is_copy else "C"
        dtypes = [param.dtype for param in program.params[self._inputs :]]
        self._whole = [constants.get(n, np.empty(shape, dtype, order)) for n, dtype in enumerate(dtypes)]
        self._map_slots = mapping.environment([*self._unbound, *self._whole], raws)
        self._calls: list[tuple[Any, ...]] = []

        def bind(operands: Nodes) -> None:
            for function, *arguments in combine.calls(operands, raws):
                if arguments[-1].ndim:
                    self._calls.append((function, *arguments))
                else:  # the same in each call
                    function(*arguments)

        level = Level(self._whole, shape[1])
        while free is None and level.count > 1:
            level = level.halve(bind)
        outputs = [np.empty(shape[0], param.dtype) for param in post.recipe.program.params[count + len(sizes) :]]
        self._outputs = slice(count + len(sizes), count + len(sizes) + len(outputs))
        self._no_outputs = [nothing] * len(outputs)
        self._post_slots = post.environment([*level.result(), *sizes, *outputs], raws)
        execute(post.recipe.uniform, self._post_slots)
        self._post_steps = post.recipe.steps

    def run(self, operands: Sequence[A], outputs: Sequence[A]) -> None:
        """Reduce ``operands``, of the shape or zero-dimensional, to ``outputs``; NumPy must be quiet."""
        slots = self._post_slots
        if self._free is None:
            self._map(operands)
            for function, *arguments in self._calls:
                function(*arguments)
        elif self._mapping.is_copy:
            slots[0] = self._free(operands[self._mapping.recipe.program.stores[0].value.attr])
        else:
            self._map(operands)
            slots[0] = self._free(self._whole[0])
        slots[self._outputs] = outputs
        execute(self._post_steps, slots)
        slots[self._outputs] = self._no_outputs

    def _map(self, operands: Sequence[A]) -> None:
        slots = self._map_slots
        slots[: self._inputs] = operands
        execute(self._mapping.recipe.all_steps, slots)
        slots[: self._inputs] = self._unbound  # or the plan would keep the caller's arrays alive


Piece = tuple[slice, slice, int]
"""One thread's work: rows, columns, and the index of the piece among those of its rows."""

SMALL = 1 << 14
"""The most elements of a reduction that runs in memory kept by its plan."""
_NODE = 1 << 10
"""Elements whose accumulators a block combines: further levels are those of all blocks at once, in fewer calls."""
_SIDE_BY_SIDE = 1 << 12
"""Results, adjacent in memory, that a block combines at a time."""
_BLOCK = 1 << 17
"""Elements that are reduced at a time."""
_LEAST_MAPPED, _MOST_MAPPED = 1 << 15, 1 << 17
_CACHE_NBYTES = 1 << 21
"""Bytes of elements that are mapped at a time, so that they stay in cache with their temporaries."""


class NumpyReduction:
    """A reduction prepared for ``rows`` results of ``count`` elements each."""

    def __init__(
        self, spec: ReductionSpec, rows: int, count: int, functions: dict[str, BlockFunction] | None = None
    ) -> None:
        """``functions``: those of this specification, which all its shapes share."""
        functions = {} if functions is None else functions
        constant, accumulators = find_constant(spec), len(spec.accumulators)
        mapping = take_as_scalars(spec.map_program, {spec.inputs + n for n in constant})
        if not functions:
            numbers = {n + k * accumulators for n in constant for k in range(3)}
            combine = take_as_scalars(spec.combine, numbers)
            made = {
                "combine": BlockFunction(combine, 1),
                "combine in place": BlockFunction(combine, 1, is_aliased=True),
                "post": BlockFunction(spec.post, 1),
            }
            if not any(node.op in ("size", "fact", "length") for node in mapping.nodes):
                made["map"] = BlockFunction(mapping, SMALL)
            functions.update(made)  # at once: another thread may look
        self._spec = spec
        self._rows = rows
        self._count = count
        self._sizes = [np.array(rows * count, INT64), np.array(rows, INT64)]
        self._map = functions.get("map") or BlockFunction(mapping, count)
        self._combine_in_place = functions["combine in place"]
        self._combine = functions["combine"]
        self._ufunc = self._combine.ufunc if accumulators == 1 else None
        stores = spec.map_program.stores
        self._constants = {n: np.array(stores[n].value.attr, spec.accumulators[n]) for n in constant}
        self._free = fold_of(spec.combine)
        self._post = functions["post"]
        # An element's index counts along its own row.
        self._is_by_row = self._map.recipe.uses_index and rows > 1
        self._is_small = 0 < rows * count <= SMALL and not self._is_by_row
        self._idle: list[SmallReduction] = []
        self._quiet: list[Context] = []

    def run(self, operands: Sequence[A], outputs: Sequence[A]) -> None:
        """Reduce.

        Args:
            operands: The inputs seen in shape (rows, count); scalars zero-dimensional.
            outputs: Arrays of shape (rows,).
        """
        try:
            quiet = self._quiet.pop()
        except IndexError:  # the first call, or one beside others
            quiet = quiet_context()
        quiet.run(self._run, operands, outputs)
        self._quiet.append(quiet)

    def _run(self, operands: Sequence[A], outputs: Sequence[A]) -> None:
        spec = self._spec
        if self._rows == 0:
            return
        if self._count == 0:
            assert spec.identity is not None
            pairs = zip(spec.identity, spec.accumulators, strict=True)
            self._finish([np.full(self._rows, value, dtype) for value, dtype in pairs], outputs)
        elif spec.shortcut is not None:
            outputs[0][...] = spec.shortcut(operands[0])
        elif self._is_small:
            try:
                small = self._idle.pop()
            except IndexError:
                small = self._small()
            small.run(operands, outputs)
            self._idle.append(small)
        else:
            self._finish(self._reduce(operands), outputs)

    def _finish(self, accumulators: Sequence[A], outputs: Sequence[A]) -> None:
        self._post([*accumulators, *self._sizes, *outputs])

    def _small(self) -> SmallReduction:
        shape = (self._rows, self._count)
        return SmallReduction(
            shape, self._map, self._combine_in_place, self._post, self._sizes, self._constants, self._free
        )

    # --- large ones
    def _reduce(self, operands: Sequence[A]) -> list[A]:
        """The accumulators of all rows."""
        node, pieces = self._pieces(operands)
        columns = pieces[-1][2] + 1 if self._free else -(-self._count // node)
        parts = [
            self._constants.get(n, np.empty((self._rows, columns), dtype))
            for n, dtype in enumerate(self._spec.accumulators)
        ]
        levels = [self._fold(operands, parts, node, *piece) for piece in pieces]
        if self._free is not None:
            return [self._free(parts[0])]
        # The first piece has complete nodes, if there are any; the last one has the last node.
        values = [each if each.ndim else first for each, first in zip(parts, levels[0].values, strict=True)]
        level = Level(values, columns, levels[-1].last if self._constants and self._count % node else None)
        while level.count > 1:
            level = level.halve(self._combine_in_place)
        return level.result()

    def _pieces(self, operands: Sequence[A]) -> tuple[int, list[Piece]]:
        """The elements of a node, and the pieces of the work: blocks of rows, and of elements that start at a node."""
        block = self._block()
        node = _NODE
        strides = next((each.strides for each in operands if each.ndim), (1, 0))
        if self._free is None and self._rows >= 32 and abs(strides[0]) < abs(strides[1]):  # results lie side by side
            rows = min(self._rows, _SIDE_BY_SIDE)
            node = step = 1 << max(4, (block // rows).bit_length() - 1)
        else:
            step = min(-(-self._count // _NODE) * _NODE, block)
            rows = max(1, block // min(step, self._count))
        pieces = [
            (slice(row, min(row + rows, self._rows)), slice(start, min(start + step, self._count)), number)
            for row in range(0, self._rows, rows)
            for number, start in enumerate(range(0, self._count, step))
        ]
        return node, pieces

    def _block(self) -> int:
        if self._map.is_copy:
            return _BLOCK
        nbytes = self._map.recipe.nbytes_per_element + sum(dtype.itemsize for dtype in self._spec.accumulators)
        return max(_LEAST_MAPPED, min(_MOST_MAPPED, _CACHE_NBYTES // nbytes // _NODE * _NODE))

    def _fold(
        self, operands: Sequence[A], parts: list[A], node: int, rows: slice, columns: slice, number: int
    ) -> Level:
        """Map a block and reduce it, or each of its nodes, into ``parts``."""
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        blocks = [each if each.ndim == 0 else each[rows, columns] for each in operands]
        level = Level(self._map_block(blocks, shape, columns.start), shape[1])
        if self._free is not None:
            parts[0][rows, number] = self._free(level.values[0])
            return level
        ufunc, run = self._ufunc, self._combine
        for step in range(node.bit_length() - 1):
            if level.count == 1:
                break
            level = level.halve(run if ufunc is None else lambda nodes: ufunc(*nodes), _ROOMS[step % 2])
        first = columns.start // node
        for target, value in zip(parts, level.values, strict=True):
            if target.ndim:
                target[rows, first : first + value.shape[1]] = value
        return level

    def _map_block(self, blocks: list[A], shape: tuple[int, int], start: int) -> list[A]:
        """The accumulators of a block of elements; the elements themselves where nothing is mapped."""
        if self._map.is_copy:
            return [blocks[store.value.attr] for store in self._spec.map_program.stores]
        index = np.arange(start, start + shape[1]) if self._is_by_row else np.array(start)
        # Adjacent columns stay adjacent when mapped: a transposition would cost more than the arithmetic.
        strides = next(each.strides for each in blocks if each.ndim)
        if abs(strides[0]) < abs(strides[1]) and (self._is_by_row or not self._map.recipe.uses_index):
            mapped = self._temporaries(shape[::-1])
            self._map([*(each.T for each in blocks), *mapped], index[:, np.newaxis] if index.ndim else index)
            return [each.T for each in mapped]
        mapped = self._temporaries(shape)
        self._map([*blocks, *mapped], index)
        return mapped

    def _temporaries(self, shape: tuple[int, ...]) -> list[A]:
        """This thread's memory for the accumulators of a block, valid until the next block."""
        return [
            self._constants[n] if n in self._constants else scratch_of(shape, dtype, f"mapped{n}")
            for n, dtype in enumerate(self._spec.accumulators)
        ]


def _buffer(name: str, number: int, like: A, count: int) -> A:
    """This thread's memory for ``count`` columns, in the memory order of these values: by rows or by columns."""
    if not like.ndim:
        return np.empty((), like.dtype)
    name = f"{name}.{number}"
    rows = like.shape[0]
    if abs(like.strides[0]) < abs(like.strides[1]):
        return scratch_of((count, rows), like.dtype, name).T
    return scratch_of((rows, count), like.dtype, name)


_ROOMS = partial(_buffer, "even level"), partial(_buffer, "odd level")
"""Memory of its own for each of two levels in turn: in place accumulators would lie ever further apart."""
