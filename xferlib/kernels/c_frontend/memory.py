"""The contents of memory while a snippet is read.

A program is straight-line code without variables, so an assignment changes which node stands for a cell from here on.
An ``if`` is translated by running both sides from the same contents, each under its condition, and selecting between
what they leave, cell by cell. An output that one side alone writes must keep its initial content otherwise, without
being read: it may be uninitialised. So the contents of a cell are a pair, the value and the condition under which it
has been written, which becomes the mask of the final store. Whether that condition always holds is decided by
`Truth`, so that an output written on every path counts as written, whatever form the paths have.

Most kernels write each element of an array once, and read none of what they write: their writes stand at the end of
the program. An array that a kernel writes in a loop, updates atomically, or reads where it writes, has its reads and
writes in the order of the source instead: it is an *ordered* one. Which arrays are is found while a snippet is
translated; `OrderNeededError` then begins the translation anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from xferlib.errors import KernelOrderError, KernelSyntaxError, KernelTypeError
from xferlib.kernels.analysis import OwnIndices, is_distinct, linear
from xferlib.kernels.c_frontend.scope import (
    MOST_ELEMENTS,
    ArrayRow,
    ArrayType,
    Bits,
    Cell,
    ComplexPart,
    ComplexParts,
    CompoundObject,
    CompoundValue,
    Constant,
    Either,
    Element,
    Jump,
    Own,
    Pointer,
    PointerVariable,
    Raw,
    ReadOnly,
    StructType,
    Value,
    count_of,
    is_array,
    is_struct,
    numbers_of,
    plain,
)
from xferlib.kernels.ir import (
    BOOL,
    INT64,
    Builder,
    DType,
    ElementUpdate,
    Node,
    Store,
    is_exact,
    is_integer,
    part_dtype,
    real_operands,
    update,
)
from xferlib.kernels.numpy_functions import constant_value


class RefusedError(Exception):
    """Memory cannot do this; the translator adds where, and raises the error."""

    def __init__(self, message: str, kind: type[Exception] = KernelSyntaxError) -> None:
        super().__init__(message)
        self.kind = kind


class OrderNeededError(Exception):
    """The reads and writes of an array must be in the order of the source."""

    def __init__(self, param: int) -> None:
        super().__init__(param)
        self.param = param


class OutputReadError(Exception):
    """A reduction's output is read before it is written."""


# --- conditions


class Truth:
    """Decides whether a condition always holds: by binary decision diagrams over what it consists of."""

    _MOST = 1 << 12
    """Limit of the nodes of all diagrams; beyond it nothing more is known."""
    _MOST_ATOMS = 64

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, int, int], int] = {}
        self._of: list[tuple[int, int, int]] = [(1 << 30, 0, 0), (1 << 30, 1, 1)]
        self._known: dict[int, int | None] = {}
        self._atoms: dict[Any, int] = {}
        self._choices: dict[tuple[int, int, int], int | None] = {}

    def always(self, node: Node) -> bool:
        """Whether a condition of bool is true whatever its parts are."""
        return self._diagram(node) == 1

    def _diagram(self, root: Node) -> int | None:
        known, stack = self._known, [root]
        while stack:
            node = stack[-1]
            if id(node) in known:
                stack.pop()
                continue
            parts = node.args if node.op in ("and", "or", "not", "select") else ()
            waiting = [each for each in parts if id(each) not in known]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            known[id(node)] = self._combine(node, [known[id(each)] for each in parts])
        return known[id(root)]

    def _combine(self, node: Node, parts: list[int | None]) -> int | None:
        if node.op == "const":
            return int(bool(node.attr))
        if any(each is None for each in parts):
            return None
        x: list[Any] = parts
        if node.op == "not":
            return self._choice(x[0], 0, 1)
        if node.op == "and":
            return self._choice(x[0], x[1], 0)
        if node.op == "or":
            return self._choice(x[0], 1, x[1])
        if node.op == "select":
            return self._choice(x[0], x[1], x[2])
        if len(self._atoms) >= self._MOST_ATOMS:
            return None
        key, is_opposite = _comparison(node)
        atom = self._atoms.setdefault(key, len(self._atoms))
        return self._node(atom, 1, 0) if is_opposite else self._node(atom, 0, 1)

    def _node(self, atom: int, no: int, yes: int) -> int:
        if no == yes:
            return no
        key = (atom, no, yes)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = len(self._of)
            self._of.append(key)
        return found

    def _choice(self, condition: int, yes: int, no: int) -> int | None:
        """The diagram of ``condition ? yes : no``."""
        if condition < 2:
            return yes if condition else no
        if yes == no:
            return yes
        if (yes, no) == (1, 0):
            return condition
        key = (condition, yes, no)
        if key in self._choices:
            return self._choices[key]
        if len(self._of) > self._MOST:
            return None
        atom = min(self._of[each][0] for each in key)
        sides: list[int | None] = []
        for side in (1, 2):
            parts = [self._of[each][side] if self._of[each][0] == atom else each for each in key]
            sides.append(self._choice(*parts))
        found = None if sides[0] is None or sides[1] is None else self._node(atom, sides[0], sides[1])
        self._choices[key] = found
        return found


def _comparison(node: Node) -> tuple[Any, bool]:
    """A comparison as the one that stands for its family, and whether it is the opposite of that."""
    op, args = node.op, tuple(map(id, node.args))
    if op in ("eq", "ne"):
        return ("eq", frozenset(args)), op == "ne"
    if op not in ("lt", "le", "gt", "ge"):
        return id(node), False
    if op in ("gt", "ge"):
        op, args = {"gt": "lt", "ge": "le"}[op], args[::-1]
    if op == "le" and node.args[0].dtype.kind in "biu":  # no NaN: a <= b is not b < a
        return ("lt", args[::-1]), True
    return (op, args), False


# --- memory


class SsaValue(NamedTuple):
    """The contents of a cell: ``value`` where ``written`` is true, else the initial content."""

    value: Node
    written: Node


@dataclass(slots=True)
class MemoryState:
    """The contents of all cells, and the jumps under way with their conditions."""

    cells: dict[Any, SsaValue]
    jumps: dict[Jump, Node]

    def copy(self) -> MemoryState:
        return MemoryState(dict(self.cells), dict(self.jumps))


class Branch(NamedTuple):
    """A branch that has begun: the path and the state before it."""

    path: Node | None
    state: MemoryState


class Touched(NamedTuple):
    """The nodes that touched an ordered array last."""

    update: Node | None
    reads: tuple[Node, ...]
    """Those behind it."""


UNTOUCHED = Touched(None, ())


@dataclass(slots=True)
class MemorySnapshot:
    """All that a translation can be set back to."""

    path: Node | None
    state: MemoryState
    touched: dict[int, Touched]


@dataclass(slots=True)
class Memory:
    """The contents of objects, and the condition under which the current statement runs."""

    b: Builder
    ordered: frozenset[int] = frozenset()
    """The arrays whose reads and writes stay in the order of the source."""
    state: MemoryState = field(default_factory=lambda: MemoryState({}, {}))
    path: Node | None = None
    """The condition under which the current statement runs; None if there is none."""
    touched: dict[int, Touched] = field(default_factory=dict)
    known: dict[int, np.generic | None] = field(default_factory=dict)
    """By node identity, the value of a node that depends on constants alone."""
    outputs: frozenset[Any] = frozenset()
    """The cells of a reduction's outputs, which are variables of the snippet."""
    work: Callable[[int], None] = lambda _: None
    """Counts work, and raises where there is too much."""
    around: tuple[Node | None, ...] = ()
    """The conditions around the loops that are being translated, each of which has a path of its own."""
    own_indices: OwnIndices = field(init=False)
    serial: int = 0
    raws: dict[int, Raw] = field(default_factory=dict)
    """The array parameters that pointers lead to."""
    true: Node = field(init=False)
    zero: Node = field(init=False)
    created: list[Cell] = field(default_factory=list)
    """All cells made so far, for `forget`."""
    _truth: Truth = field(default_factory=Truth)
    _elements: dict[tuple[int, int], Element] = field(default_factory=dict)
    _raw_reads: dict[int, set[int]] = field(default_factory=dict)
    _raw_writes: dict[int, set[int]] = field(default_factory=dict)
    _uses: dict[int, set[str]] = field(default_factory=dict)
    _searched: tuple[Element, dict[int, bool]] | None = None
    """The element that `_rests_on` looked for last, and whether each node rests on it."""

    def __post_init__(self) -> None:
        self.true = self.b.const(True, BOOL)
        self.zero = self.b.const(0, INT64)
        self.own_indices = OwnIndices(self.b.params)

    def constant(self, node: Node) -> Any:
        """The value of a node that depends on constants alone; None of any other."""
        return constant_value(node, self.known)

    # --- making objects
    def cell(self, name: str, dtype: DType, param: int | None = None) -> Cell:
        self.serial += 1
        found = Cell(name, dtype, self.serial, param)
        self.created.append(found)
        return found

    def forget(self, mark: int) -> None:
        """Drop the cells made since ``created`` had this length."""
        if len(self.created) > mark:
            cells = self.state.cells
            for each in self.created[mark:]:
                cells.pop(each, None)
            del self.created[mark:]

    def new(self, name: str, kind: Any) -> Any:
        """A new object of a type, without contents."""
        if isinstance(kind, StructType):
            return CompoundObject(name, kind, tuple(self.new(each, inner) for each, inner in kind.members))
        if isinstance(kind, ArrayType):
            if not 0 < count_of(kind) <= MOST_ELEMENTS:
                raise RefusedError(f"{name!r} has {count_of(kind)} element(s); at most {MOST_ELEMENTS} are possible")
            self.work(kind.count // 3)
            elements = (self.new(f"element {k} of {name}", kind.element) for k in range(kind.count))
            return CompoundObject(name, kind, tuple(elements))
        return self.cell(name, kind)

    def temporary(self, value: Value) -> Any:
        """A new object that holds a value."""
        if isinstance(value, Pointer):
            return self.pointer_variable("*", value)
        found = self.new("a value", value.dtype)
        self.store(found, value)
        return found

    def pointer_variable(self, name: str, value: Pointer) -> PointerVariable:
        cell = None
        if value.index is not None:
            cell = self.cell(name, INT64)
            self.state.cells[cell] = SsaValue(value.index, self.true)
        return PointerVariable(name, value.base, cell, value.dtype, value.is_const)

    # --- reading and writing
    def load(self, place: Any, *, is_whole: bool = False) -> Value:
        """The value of an object.

        Args:
            place: The object.
            is_whole: It is a part of one that is read as a whole, where what has no value counts as 0.
        """
        if isinstance(place, Cell):
            return self._load_cell(place, is_whole=is_whole)
        if isinstance(place, ReadOnly):
            if isinstance(inner := plain(place), Raw) or is_array(inner):
                return self.decay(place)
            return self.load(place.object, is_whole=is_whole)
        if isinstance(place, Constant):
            return place.value
        if is_struct(place):
            return self.load_whole(place)
        if isinstance(place, Element):
            return self._load_element(place)
        if isinstance(place, Either):
            return self._load_either(place)
        if isinstance(place, ComplexPart):
            whole = self.load(place.whole)
            return self.b.imag(whole) if place.is_imaginary else self.b.real(whole)
        if isinstance(place, Bits):
            return self.b.bitcast(self.b.one_nan(self.load(place.whole)), place.dtype)
        if isinstance(place, PointerVariable):
            return Pointer(
                place.base, None if place.cell is None else self.load(place.cell), place.dtype, place.is_const
            )
        if isinstance(place, (CompoundObject, ArrayRow, Raw, Own)):
            return self.decay(place)
        raise RefusedError("this has no value")

    def decay(self, place: Any) -> Pointer:
        """The pointer to the first element of an array."""
        is_const = isinstance(place, ReadOnly)
        place = plain(place)
        zero = self.zero
        if isinstance(place, CompoundObject):
            return Pointer(place, zero, place.dtype.element, is_const)
        if isinstance(place, ArrayRow):
            return Pointer(place.array, place.offset, place.dtype.element, is_const)
        if isinstance(place, Own):
            raise RefusedError(f"{place.name!r} is an array; index it, for instance {place.name}[i]")
        return Pointer(place, zero, place.dtype, is_const)

    def load_whole(self, place: Any) -> Value:
        """The value of an object; that of an array is its elements, and what has no value counts as 0."""
        place = plain(place)
        if isinstance(place, CompoundObject):
            return CompoundValue(place.dtype, tuple(map(self.load_whole, place.inside)))
        return self.load(place, is_whole=True)

    def _load_cell(self, cell: Cell, *, is_whole: bool) -> Node:
        slot = self.state.cells.get(cell)
        if slot is not None and (cell.param is None or slot.written is self.true):
            return slot.value
        if cell.param is None:
            if cell in self.outputs:
                raise OutputReadError
            if is_whole:
                return self.b.const(0, cell.dtype)
            name = cell.name if cell.name.startswith("element ") else repr(cell.name)
            raise RefusedError(f"{name} is read before it has a value; give it one where it is declared")
        initial = self.b.load(cell.param)
        return initial if slot is None else self.b.select(slot.written, slot.value, initial)

    def _load_either(self, place: Either) -> Value:
        self.work(len(place.choices))
        values = []
        for condition, each in place.choices:
            if isinstance(plain(each), (Element, ComplexPart, Bits)):
                with self.guard(condition):
                    values.append(self.load(each))
            else:
                values.append(self.load(each, is_whole=True))
        found = values[-1]
        for (condition, _), value in zip(place.choices[:-1], values[:-1], strict=True):
            found = self.select(condition, value, found)
        return found

    def select(self, condition: Node, yes: Value, no: Value) -> Value:
        """``condition ? yes : no`` of values of one type."""
        if isinstance(yes, Pointer) or isinstance(no, Pointer):
            if not isinstance(yes, Pointer) or not isinstance(no, Pointer) or yes.dtype != no.dtype:
                raise RefusedError("a choice between a pointer and something else is not supported; choose the values")
            if (yes.index is None) != (no.index is None):  # an element, which the pointer then cannot leave
                yes, no = (
                    each if each.index is None else Pointer(self._dereference(each, self.zero, "*"), None, each.dtype)
                    for each in (yes, no)
                )
            base = yes.base
            if yes.base is not no.base:
                base = Either(((condition, yes.base), (self.b.op("not", condition), no.base)), yes.dtype)
            index = None if yes.index is None or no.index is None else self.b.select(condition, yes.index, no.index)
            return Pointer(base, index, yes.dtype, yes.is_const or no.is_const)
        if isinstance(yes, CompoundValue):
            pairs = zip(yes.parts, no.parts, strict=True)
            return CompoundValue(yes.dtype, tuple(self.select(condition, one, other) for one, other in pairs))
        return self.b.select(condition, yes, no)

    def store(self, place: Any, value: Value, name: str = "this") -> Value:
        """Write an object; returns the converted value. ``name`` is for messages."""
        if isinstance(place, Cell):
            value = self._convert(place, value, name)
            self.state.cells.pop(place, None)  # what is written again is stored after what was written before
            self.state.cells[place] = SsaValue(value, self.true)
            return value
        if is_struct(place) and (not is_struct(value) or value.dtype is not place.dtype):
            raise RefusedError(f"{name!r} is a {place.dtype}, and {value.dtype} is assigned")
        if isinstance(place, CompoundObject) and isinstance(value, CompoundValue):
            for each, inner in zip(place.inside, value.parts, strict=True):
                self.store(each, inner, name)
            return value
        if isinstance(place, Element):
            return self._store_element(place, value, name)
        if isinstance(place, Either):
            return self._store_either(place, value, name)
        if isinstance(place, ComplexPart):
            whole = self.load(place.whole)
            value = self.b.cast(value, place.dtype)
            pair = (self.b.real(whole), value) if place.is_imaginary else (value, self.b.imag(whole))
            self.store(place.whole, self.b.complex(*pair), name)
            return value
        if isinstance(place, Bits):
            value = self.b.cast(value, place.dtype)
            self.store(place.whole, self.b.bitcast(value, place.whole.dtype), name)
            return value
        if isinstance(place, PointerVariable):
            return self._store_pointer(place, value)
        if isinstance(place, (CompoundObject, Raw, Own, ArrayRow)):
            raise RefusedError(f"{name!r} is an array; assign to an element, for instance {name}[i] = ...")
        raise RefusedError(f"{name!r} is read-only here; assign to an output or a local variable")

    def _store_either(self, place: Either, value: Value, name: str) -> Value:
        self.work(len(place.choices))
        for condition, each in place.choices:
            if isinstance(each, Cell) and each.param is None and isinstance(value, Node):
                slot = self.state.cells.get(each)
                before = self.b.const(0, each.dtype) if slot is None else slot.value
                new = self.b.select(condition, self.b.cast(value, each.dtype), before)
                self.state.cells[each] = SsaValue(new, self.true)
            else:
                before_branch = self.enter(condition)
                self.store(each, value, name)
                self.merge(condition, self.leave(before_branch), self.state)
        is_number = isinstance(value, Node) and isinstance(place.dtype, np.dtype)
        return self.b.cast(value, place.dtype) if is_number else value

    def _store_pointer(self, place: PointerVariable, value: Value) -> Value:
        if not isinstance(value, Pointer):
            raise RefusedError(f"{place.name!r} is a pointer, and {_what(value)} is assigned")
        if value.base is not place.base or (value.index is None) != (place.cell is None):
            raise RefusedError(
                f"pointer {place.name!r} leads to one array or variable, and would get to another; declare a pointer "
                "for each"
            )
        if value.dtype != place.dtype or (value.is_const and not place.is_const):
            raise RefusedError(
                f"a pointer to {place.dtype} cannot lead to {value.dtype}; convert the value", KernelTypeError
            )
        if place.cell is not None and value.index is not None:
            self.store(place.cell, value.index, place.name)
        return value

    # --- ways to objects
    def member(self, place: Any, name: str) -> Any:
        """A member of a struct in memory."""
        if isinstance(place, ReadOnly):
            return ReadOnly(self.member(place.object, name))
        if isinstance(place, Either):
            choices = tuple((condition, self.member(each, name)) for condition, each in place.choices)
            return Either(choices, choices[0][1].dtype)
        if not is_struct(place):
            raise RefusedError("a scalar has no members (only structs, arrays and _ind have)")
        number = place.dtype.position(name)
        if number is None:
            members = ", ".join(each for each, _ in place.dtype.members)
            raise RefusedError(f"{place.dtype} has no member {name!r}; its members are {members}")
        return place.inside[number]

    def element(self, array: Any, index: Node, name: str = "*") -> Any:
        """An element of an array, or of the one that a pointer leads to."""
        if isinstance(array, ReadOnly):
            return ReadOnly(self.element(array.object, index, name))
        if isinstance(array, CompoundObject) and is_array(array):
            return self._of_array(array, index, array.dtype.extents)
        if isinstance(array, ArrayRow):
            return self._of_array(array.array, index, array.dtype.extents, array.offset)
        if isinstance(array, Raw):
            key = (array.param, id(index))
            found = self._elements.get(key)
            if found is None:
                found = self._elements[key] = Element(array, index)
            return found
        if isinstance(array, Either):
            choices = tuple((condition, self.element(each, index, name)) for condition, each in array.choices)
            return Either(choices, choices[0][1].dtype)
        if isinstance(array, Pointer):
            return self._dereference(array, index, name)
        if isinstance(array, PointerVariable):
            return self._dereference(self.load(array), index, name)
        if isinstance(array, Cell) and array.param is not None:
            raise RefusedError(f"{name!r} is one element here and has no index; declare it 'raw' to index it")
        raise RefusedError(f"{name!r} has no elements")

    def _of_array(
        self, array: CompoundObject, index: Node, extents: tuple[int, ...], offset: Node | None = None
    ) -> Any:
        rest = math.prod(extents[1:])
        if rest != 1:
            index = self.b.op("mul", index, self.b.const(rest, INT64))
        if offset is not None:
            index = self.b.op("add", offset, index)
        if len(extents) > 1:
            return ArrayRow(array, index, ArrayType(array.dtype.element, extents[1:]))
        known = self.constant(index)
        count = len(array.inside)
        if known is not None:
            if not 0 <= int(known) < count:
                raise RefusedError(f"{array.name!r} has {count} element(s), and is indexed by {int(known)}")
            return array.inside[int(known)]
        self.work(count)
        choices = tuple((self.b.op("eq", index, self.b.const(k, INT64)), each) for k, each in enumerate(array.inside))
        return Either(choices, array.dtype.element) if count > 1 else array.inside[0]

    def _dereference(self, pointer: Pointer, index: Node, name: str) -> Any:
        moved = self.move(pointer, index, name)
        base: Any = moved.base
        if isinstance(base, ComplexParts):
            assert moved.index is not None
            found = self._part(base, moved.index)
        elif moved.index is None:
            found = base
        elif isinstance(base, CompoundObject):
            found = self._of_array(base, moved.index, (len(base.inside),))
        elif isinstance(base, Either):
            choices = tuple(
                (condition, self._dereference(Pointer(each, moved.index, moved.dtype), self.zero, name))
                for condition, each in base.choices
            )
            found = Either(choices, moved.dtype)
        else:
            found = self.element(base, moved.index, name)
        if isinstance(moved.dtype, np.dtype) and found.dtype != moved.dtype:
            inner = plain(found)
            found = ReadOnly(Bits(inner, moved.dtype)) if inner is not found else Bits(found, moved.dtype)
        return ReadOnly(found) if moved.is_const else found

    def _part(self, parts: ComplexParts, index: Node) -> Any:
        """A part of the complex number that holds element ``index`` of the real ones."""
        one = self.b.const(1, INT64)
        whole = self._dereference(parts.base, self.b.op("shr", index, one), "*")
        known = self.constant(self.b.op("and", index, one))
        if known is not None:
            return ComplexPart(whole, bool(known), parts.dtype)
        is_imaginary = self.b.op("ne", self.b.op("and", index, one), self.zero)
        sides = (ComplexPart(whole, True, parts.dtype), ComplexPart(whole, False, parts.dtype))
        return Either(((is_imaginary, sides[0]), (self.b.op("not", is_imaginary), sides[1])), parts.dtype)

    def move(self, pointer: Pointer, count: Node, name: str = "*") -> Pointer:
        """The pointer ``count`` elements behind another one."""
        known = self.constant(count)
        if known == 0:
            return pointer
        if pointer.index is None:
            raise RefusedError(f"{name!r} points to a single number; only its element 0 exists")
        index = self.b.cast(count, INT64)
        if self.constant(pointer.index) != 0:
            index = self.b.op("add", pointer.index, index)
        return Pointer(pointer.base, index, pointer.dtype, pointer.is_const)

    def parts(self, pointer: Pointer) -> Pointer:
        """A pointer to complex numbers as one to their parts."""
        dtype = part_dtype(pointer.dtype)
        return Pointer(ComplexParts(pointer, dtype), self.zero, dtype, pointer.is_const)

    def address(self, place: Any) -> Pointer:
        """The pointer to an object."""
        is_const = isinstance(place, (ReadOnly, Constant))
        place = plain(place)
        if isinstance(place, Constant):
            place = self.temporary(place.value)
        if isinstance(place, Element):
            raw = Raw(place.name, place.dtype, place.param)
            return Pointer(self.raw(raw), place.index, place.dtype, is_const)
        return Pointer(place, None, place.dtype, is_const)

    def raw(self, raw: Raw) -> Raw:
        """The one object of an array parameter."""
        return self.raws.setdefault(raw.param, raw)

    # --- branches
    @contextmanager
    def guard(self, condition: Node) -> Iterator[None]:
        """Read under a condition."""
        outside = self.path
        self.path = condition if outside is None else self.b.op("and", outside, condition)
        yield
        self.path = outside

    def enter(self, condition: Node) -> Branch:
        """Begin a branch under ``condition``; returns the argument of `leave`."""
        self.work(1 + len(self.state.cells) // 8)
        before = Branch(self.path, self.state)
        self.state = self.state.copy()
        self.path = condition if self.path is None else self.b.op("and", self.path, condition)
        return before

    def leave(self, before: Branch) -> MemoryState:
        """End a branch and return its state; memory returns to that before it."""
        found = self.state
        self.path, self.state = before
        return found

    def merge(self, condition: Node, yes: MemoryState, no: MemoryState) -> None:
        """Set the state after both sides of ``condition``."""
        taken = self.constant(condition)
        if taken is not None:  # the other side never runs: what it assigns, and its jumps, are none
            self.state = (yes if taken else no).copy()
            return
        merged = dict(no.cells)
        for key, one in yes.cells.items():
            other = no.cells.get(key)
            if one is other:
                continue
            if other is not None and isinstance(key, Element):
                self._check_alone(key, yes, no)
            merged.pop(key, None)
            merged[key] = self._merge_cells(key, condition, one, other)
        for key, other in no.cells.items():
            if key not in yes.cells:
                merged.pop(key, None)
                merged[key] = self._merge_cells(key, condition, None, other)
        self.state = MemoryState(merged, self._merge_jumps(condition, yes.jumps, no.jumps))

    def _check_alone(self, element: Element, *states: MemoryState) -> None:
        """Begin anew where an element may be another one that is written, in an order that depends on a condition."""
        form = linear(element.index, self.b.params)
        for state in states:
            for key in state.cells:
                if not isinstance(key, Element) or key.param != element.param or key is element:
                    continue
                other = linear(key.index, self.b.params)
                if form is None or other is None or form[::2] != other[::2] or form.offset == other.offset:
                    raise OrderNeededError(element.param)

    def _merge_cells(self, key: Any, condition: Node, yes: SsaValue | None, no: SsaValue | None) -> SsaValue:
        is_output = isinstance(key, Element) or key.param is not None or key in self.outputs
        if yes is None or no is None:
            slot = yes or no
            assert slot is not None
            if not is_output:
                return slot
            taken = condition if yes is not None else self.b.op("not", condition)
            return SsaValue(slot.value, self._simple(self._both(taken, slot.written)))
        if yes.value is no.value and yes.written is no.written:
            return yes
        value = self._either(condition, yes.value, no.value)
        if not is_output:
            return SsaValue(value, self.true)
        return SsaValue(value, self._simple(self._select(condition, yes.written, no.written)))

    def _merge_jumps(self, condition: Node, yes: dict[Jump, Node], no: dict[Jump, Node]) -> dict[Jump, Node]:
        if yes is no or (not yes and not no):
            return dict(no)
        merged: dict[Jump, Node] = {}
        for key in (*yes, *(each for each in no if each not in yes)):
            one, other = yes.get(key), no.get(key)
            if one is None or other is None:
                taken = condition if one is not None else self.b.op("not", condition)
                found = self._both(taken, one or other or taken)
            else:
                found = self._select(condition, one, other)
            merged[key] = self._simple(found)
        return merged

    def _select(self, condition: Node, yes: Node, no: Node) -> Node:
        if yes is condition:  # as where each case of a switch assigns
            yes = self.true
        return self.b.select(condition, yes, no)

    def _simple(self, condition: Node) -> Node:
        """The constant, of a condition that always holds."""
        return self.true if self._truth.always(condition) else condition

    def always(self, condition: Node) -> bool:
        """Whether a condition always holds."""
        return self._truth.always(condition)

    def _either(self, condition: Node, yes: Node, no: Node) -> Node:
        """One of two values; a counter that a loop within one side has folded is still the same number."""
        if is_integer(yes.dtype) and yes is not no:
            number = self.constant(yes)
            if number is not None and number == self.constant(no):
                return yes if yes.op == "const" else no
        return self.b.select(condition, yes, no)

    def _both(self, x: Node, y: Node) -> Node:
        return x if y is self.true else self.b.op("and", x, y)

    def snapshot(self) -> MemorySnapshot:
        """The present state, for `restore`."""
        self.work(len(self.state.cells) // 8)
        return MemorySnapshot(self.path, self.state.copy(), dict(self.touched))

    def restore(self, before: MemorySnapshot) -> None:
        self.path, self.state, self.touched = before.path, before.state.copy(), dict(before.touched)

    # --- jumps
    def jump(self, to: Jump) -> None:
        """Note that the current path leaves its block."""
        self.state.jumps[to] = self.true

    def end_jump(self, to: Jump) -> None:
        """Forget a jump, where it has arrived."""
        self.state.jumps.pop(to, None)

    def jump_condition(self) -> Node | None:
        """The condition for a jump that is under way; None if no path has met one."""
        found: Node | None = None
        for each in self.state.jumps.values():
            if each is self.true:
                return each
            found = each if found is None else self.b.op("or", found, each)
        return found if found is None else self._simple(found)

    def fold(self) -> None:
        """Replace known integers by constants, or a counter would grow into a sum of ones."""
        for key, slot in self.state.cells.items():
            value = slot.value
            if value.op != "const" and is_integer(value.dtype):
                known = self.constant(value)
                if known is not None:
                    self.state.cells[key] = SsaValue(self.b.const(known, value.dtype), slot.written)

    # --- elements of array parameters
    def _load_element(self, place: Element) -> Node:
        param = place.param
        if param in self.ordered:
            return self._read_in_order(param, place.index)
        slot = self.state.cells.get(place)
        if slot is not None and slot.written is self.true:
            return slot.value
        self._note(self._raw_reads, self._raw_writes, place)
        stored = self.b.gather(param, place.index, self.path)
        return stored if slot is None else self.b.select(slot.written, slot.value, stored)

    def _convert(self, place: Cell | Element, given: Value, name: str) -> Node:
        """Convert what is assigned to a number to its type."""
        if not isinstance(given, Node):
            raise RefusedError(
                f"{name!r} is {place.dtype}, and {_what(given)} is assigned; take a member or an element"
            )
        return self.b.cast(given, place.dtype)

    def _store_element(self, place: Element, given: Value, name: str) -> Node:
        value = self._convert(place, given, name)
        value = self.b.one_nan(value) if self.b.reads_bits else value
        if place.param in self.ordered:
            self._check_store(place, value)
            self._update_in_order(ElementUpdate(place.param, "store", is_used=False), place.index, value, None)
            return value
        self._note(self._raw_writes, self._raw_reads, place)
        self.state.cells.pop(place, None)
        self.state.cells[place] = SsaValue(value, self.true)
        return value

    def _note(self, mine: dict[int, set[int]], others: dict[int, set[int]], place: Element) -> None:
        """Note a read or a write, and refuse those of an array that several elements of a call may share."""
        param, index = place.param, place.index
        mine.setdefault(param, set()).add(id(index))
        if others.get(param, set()) - {id(index)}:
            self._need_order(param)
            raise RefusedError(
                f"{place.name!r} is read and written at different indices, so that the result would depend on the "
                "order in which elements are computed; write to another array, or take any order with math='fast'"
            )
        is_update = param in self._raw_reads and param in self._raw_writes
        if is_update and not is_distinct(index, self.b.params):
            self._need_order(param)
            self._refuse_lost(place)

    def _check_store(self, place: Element, value: Node) -> None:
        """Refuse to store what depends on the element's value before: no order of the elements keeps both updates."""
        if self.b.math == "exact" or is_distinct(place.index, self.b.params):
            return  # exact results are promised for less: see `check_order`
        is_chosen = self.path is not None and linear(value, self.b.params) is None  # such as the larger of two
        if self._rests_on(value, place) or (is_chosen and self._rests_on(self.path, place)):
            self.work(128)
            if not self.own_indices.may_be(place.index, _conditions([*self.around, self.path])):
                self._refuse_lost(place)

    def _rests_on(self, value: Node | None, place: Element) -> bool:
        """Whether a value is computed from an element of an array."""
        if self._searched is None or self._searched[0] is not place:
            self._searched = place, {}
        known = self._searched[1]
        waiting = [] if value is None else [value]
        while waiting:
            node = waiting[-1]
            if id(node) in known:
                waiting.pop()
            elif node.op == "gather" and node.attr == place.param and node.args[0] is place.index:
                known[id(node)] = True
            elif unknown := [each for each in real_operands(node) if id(each) not in known]:
                waiting += unknown
            else:
                known[id(node)] = any(known[id(each)] for each in real_operands(node))
        return value is not None and known[id(value)]

    def _refuse_lost(self, place: Element) -> NoReturn:
        array = self.b.params[place.param]
        raise RefusedError(
            f"{place.name!r} is read and written at an index that several elements of a call may share, so that one "
            "update would be lost; index it by i times a constant and a shift, add up with a reduction, or write "
            f"atomicAdd(&{array.name}[...], value)"
            + (", which takes floats with math='fast'" if array.dtype.kind == "f" else "")
        )

    def _need_order(self, param: int) -> None:
        if self.b.math == "fast":
            raise OrderNeededError(param)

    def _read_in_order(self, param: int, index: Node) -> Node:
        self._uses.setdefault(param, set()).add("read")
        last, reads = self.touched.get(param, UNTOUCHED)
        after = () if last is None else (last,)
        node = self.b.emit("gather", self.b.params[param].dtype, (index, self.path or self.true, *after), param)
        self.touched[param] = Touched(last, (*reads, node))
        return node

    def _update_in_order(self, what: ElementUpdate, index: Node, value: Node, compared: Node | None) -> Node:
        self._uses.setdefault(what.param, set()).update([what.kind, *(["used"] if what.is_used else [])])
        last, reads = self.touched.get(what.param, UNTOUCHED)
        after = reads if last is None else (last, *reads)
        node = update(self.b, what, index, value, self.path or self.true, compared, after)
        self.touched[what.param] = Touched(node, ())
        return node

    def update(self, place: Any, kind: str, value: Node, compared: Node | None, name: str, *, is_used: bool) -> Node:
        """Update an object atomically; returns its value before."""
        if isinstance(place, (ReadOnly, Constant)):
            inner = plain(place)
            what = repr(inner.name) if isinstance(inner, (Element, Cell)) else "its target"
            raise RefusedError(f"{name}: {what} is read-only here; update an output")
        if isinstance(place, Element):
            if place.param not in self.ordered:
                raise OrderNeededError(place.param)
            return self._update_in_order(ElementUpdate(place.param, kind, is_used), place.index, value, compared)
        if isinstance(place, Bits):
            if place.dtype.kind not in "iu" or place.whole.dtype.kind not in "iu" or kind in ("min", "max"):
                raise RefusedError(
                    f"{name}: {place.whole.dtype} cannot be updated as {place.dtype}; update it as it is"
                )
            values = [None if each is None else self.b.bitcast(each, place.whole.dtype) for each in (value, compared)]
            assert values[0] is not None
            bits = self.update(place.whole, kind, values[0], values[1], name, is_used=is_used)
            return self.b.bitcast(bits, place.dtype)
        if isinstance(place, ComplexPart) and _has_elements(place):
            raise RefusedError(
                f"{name}: a part of a complex element cannot be updated atomically; use two arrays of real numbers"
            )
        if isinstance(place, Either) and _has_elements(place):
            raise RefusedError(f"{name}: an element that a condition chooses cannot be updated atomically; use if")
        before: Node = self.load(place)  # no other element knows it
        after = value
        if compared is not None:
            after = self.b.select(self.b.op("eq", before, compared), value, before)
        elif kind != "exch":
            after = self.b.op(kind, before, value)
        self.store(place, after, name)
        return before

    # --- the end
    def effects(self) -> list[Node]:
        """The last updates of the ordered arrays."""
        return [each.update for each in self.touched.values() if each.update is not None]

    def check_order(self, names: Sequence[str]) -> None:
        """Refuse uses of ordered arrays whose result depends on the order, where exact results are promised.

        Raises:
            KernelOrderError: There is one.
        """
        for param, uses in self._uses.items():
            dtype = self.b.params[param].dtype
            if self.b.math == "exact" and not is_exact(frozenset(uses), dtype.kind):
                how = "added up" if dtype.kind == "f" and uses <= {"add", "sub"} else "read and written"
                raise KernelOrderError(
                    f"argument {names[param]!r} ({dtype}) is {how} in an order that differs from device to device, "
                    "and so may the result; take any order with math='fast', or use integers or a reduction"
                )

    def stores(self) -> list[Store]:
        """The writes to parameters."""
        result = []
        for key, slot in self.state.cells.items():
            is_whole = slot.written is self.true
            if isinstance(key, Element):
                mask = None if is_whole else slot.written
                result.append(Store(param=key.param, value=slot.value, index=key.index, mask=mask))
            elif key.param is not None:
                value = slot.value
                if not is_whole:
                    value = self.b.select(slot.written, value, self.b.load(key.param))
                result.append(Store(param=key.param, value=value))
        return result


def _what(value: Any) -> str:
    if is_struct(value):
        return "a struct"
    return "a pointer" if isinstance(value, Pointer) else "an array"


def _conditions(paths: Iterable[Node | None]) -> Iterator[Node]:
    """The parts of conditions that all hold."""
    waiting = [each for each in paths if each is not None]
    while waiting:
        node = waiting.pop()
        if node.op == "and":
            waiting += node.args
        else:
            yield node


def _has_elements(place: Any) -> bool:
    return any(isinstance(each, Element) for each in numbers_of(place))
