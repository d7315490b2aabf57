"""The typed representation of a kernel, and everything that is computed of it without an array."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xferlib._core import arrays as core_arrays
from xferlib._core import dtypes
from xferlib._core.arrays import merge_axes
from xferlib._core.dtypes import small_float
from xferlib.errors import KernelShapeError

# The typed intermediate representation that both front ends build and both engines run.
#
# A program is straight-line code in single-assignment form: every node is a pure value of one NumPy
# dtype, a branch of the source is a ``select`` or the mask of a gather or store, and every
# conversion is an explicit ``cast``. No pass rewrites the nodes algebraically: they are the
# definition of the result, and an engine may only choose how to compute each one.
#
# The operations, all of whose operands have the node's dtype unless said otherwise:
#
# ============================  =====================================================================
# const, load, index, size      a typed constant; parameter ``attr`` at this element; the element's
#                               number in C order and the number of elements (int64)
# fact                          a number of the call's or an array's layout: a `LayoutFact`
# gather, length                element ``args[0]`` of raw parameter ``attr``, zero where the optional
#                               mask ``args[1]`` is false; the number of its elements
# cast, bitcast                 to the node's dtype: by value, or reinterpreting the bits
# add sub mul neg abs           IEEE, or wrapping
# div                           IEEE division
# idiv imod                     integers, truncating; x/0 = 0, x%0 = 0, MIN/-1 = MIN, MIN%-1 = 0
# floordiv floormod             integers, flooring; the same exceptions
# fmod sqrt fma floor ceil      IEEE, exact or correctly rounded
# trunc rint
# min max                       NaN propagates; -0 < +0
# eq ne lt le gt ge             to bool
# and or xor not                bitwise, logical on bool
# shl shr                       by the width or more, or by a negative count: 0, or the sign
# select                        ``args[0]`` (bool) ? ``args[1]`` : ``args[2]``
# call                          the mathematical function ``attr``
# lookup                        row ``args[0]`` (uint64, in range) of a `Column` of constants
# narrow                        the bits, uint16, of a float32 as bfloat16: see `xferlib.kernels.small_floats`
# complex, real, imag           a complex value from its parts, and its parts
# update                        a write that others of the program see: an `ElementUpdate`
# loop, pick                    a loop whose turns depend on the element, a `LoopBody`, and the last
#                               value of one of its variables
# ============================  =====================================================================

DType = np.dtype[Any]

BOOL = np.dtype(np.bool_)
INT8, INT16, INT32, INT64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (np.dtype(f"float{bits}") for bits in (16, 32, 64))
COMPLEX64, COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})

_FLOAT_OPS = frozenset({"div", "fmod", "sqrt", "fma", "floor", "ceil", "trunc", "rint"})
_INTEGER_OPS = frozenset({"idiv", "imod", "floordiv", "floormod", "shl", "shr"})
_BITWISE_OPS = frozenset({"and", "or", "xor", "not"})
_ANY_REAL_OPS = frozenset({"add", "sub", "mul", "neg", "abs", "min", "max"})
LEAVES = frozenset({"const", "load", "index", "size", "length", "fact"})
"""The operations without operands."""
_TOUCHING = frozenset({"gather", "loop", "update"})
EFFECTS = frozenset({"gather", "loop", "update", "pick"})
"""Operations that may do more with an operand than compute with it."""
_COPIES = frozenset({"load", "gather", "bitcast", "update", "pick", "carried"})
"""The operations whose value may be what an array held, unchanged."""
_CUDAS_NAN = {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0xFFF8000000000000}
_ARITY = {"neg": 1, "abs": 1, "not": 1, "sqrt": 1, "floor": 1, "ceil": 1, "trunc": 1, "rint": 1, "fma": 3}


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Constants in columns of equal length: of floats (float64), or of ints (uint64)."""

    name: str
    columns: tuple[tuple[float, ...] | tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Column:
    """The attribute of a node ``lookup``."""

    table: Table
    number: int

    def __str__(self) -> str:
        return f"{self.table.name}.{self.number}"

    @property
    def values(self) -> tuple[float, ...] | tuple[int, ...]:
        return self.table.columns[self.number]

    @property
    def dtype(self) -> DType:
        return FLOAT64 if isinstance(self.values[0], float) else UINT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """One value. Nodes of one `Builder` are unique: equal values are the same object."""

    op: str
    dtype: DType
    args: tuple[Node, ...] = ()
    attr: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A parameter of a program, in the order of the call.

    ``is_raw`` parameters are indexed by the kernel and do not broadcast; ``is_scalar`` ones are
    passed by value.
    """

    name: str
    dtype: DType
    is_raw: bool = False
    is_scalar: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A write: element-wise where ``index`` is None, else to that element of a raw parameter."""

    param: int
    value: Node
    index: Node | None = None
    mask: Node | None = None

    def operands(self) -> Iterator[Node]:
        yield self.value
        if self.index is not None:
            yield self.index
        if self.mask is not None:
            yield self.mask

    def move(self, copies: Mapping[int, Node]) -> Store:
        """The same write of the copies of its operands, which are there by identity."""
        index, mask = (each and copies[id(each)] for each in (self.index, self.mask))
        return replace(self, value=copies[id(self.value)], index=index, mask=mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A complete kernel body: parameters, the nodes in an order of evaluation, and the stores."""

    params: tuple[Param, ...]
    nodes: tuple[Node, ...]
    stores: tuple[Store, ...]
    effects: tuple[Node, ...]
    """The nodes that are needed for what they write."""
    reads: frozenset[int]
    writes: frozenset[int]
    math: str
    text: str
    """A canonical listing; two programs of equal text compute the same."""

    @property
    def elements(self) -> list[int]:
        """The parameters of which each element is read or written at its own position."""
        used = sorted(self.reads | self.writes)
        return [n for n in used if not (self.params[n].is_raw or self.params[n].is_scalar)]

    @property
    def raw(self) -> list[int]:
        """The parameters that the kernel indexes."""
        return [n for n, param in enumerate(self.params) if param.is_raw]

    @property
    def scalars(self) -> list[int]:
        """The parameters passed by value."""
        return [n for n, param in enumerate(self.params) if param.is_scalar]

    @property
    def keeps_order(self) -> bool:
        """Whether elements have a number or an order, so that axes may not be sorted."""
        return bool(self.effects) or any(node.op == "index" for node in self.nodes)

    @property
    def is_in_place(self) -> bool:
        """Whether it reads what it writes."""
        return bool(self.writes & self.reads)


def is_float(dtype: DType) -> bool:
    return dtype.kind == "f" or small_float(dtype) is not None


def result_of_float32(dtype: DType) -> DType:
    """The dtype of what is computed in float32 of a small float: of bfloat16 its own, of float8 float32."""
    return dtype if dtype.itemsize == 2 else FLOAT32


def is_integer(dtype: DType) -> bool:
    return dtype.kind in "iu"


def is_complex(dtype: DType) -> bool:
    return dtype.kind == "c"


def part_dtype(dtype: DType) -> DType:
    """The dtype of the parts of a complex dtype."""
    return FLOAT32 if dtype == COMPLEX64 else FLOAT64


MOST_STEPS = 1 << 19
"""Limit of `Builder.work`: a second or less, whatever the source."""


class Builder:
    """Makes the nodes of one program; ``math`` is ``"exact"`` or ``"fast"``."""

    def __init__(self, params: Iterable[Param] = (), *, math: str = "exact") -> None:
        self.params = list(params)
        self.math = math
        self.reads_bits = False
        """Whether the source reads the bits of floats, so that a NaN that it computes must be the one of `one_nan`."""
        self.saturates = False
        """Whether `cast` to a float8 saturates, as the constructors of CUDA's types do."""
        self.work = 0
        """The work of making the program so far, about 1e6 a second, which front ends bound by `MOST_STEPS`.

        A few lines may stand for any number of operations. The count is the same on every machine, as time is not.
        """
        self._nodes: dict[tuple[Any, ...], Node] = {}
        self._touching: dict[int, int] = {}
        """The numbers of the nodes that touch arrays, by identity."""

    def emit(self, op: str, dtype: DType, args: tuple[Node, ...] = (), attr: Any = None) -> Node:
        """The unique node of these contents; front ends validate, so assertions alone check it."""
        token = attr.tobytes() if isinstance(attr, np.generic) else attr
        key = (op, dtype.char, tuple(map(id, args)), token)
        node = self._nodes.get(key)
        self.work += 1
        if node is None:
            node = self._nodes[key] = Node(op, dtype, args, attr)
            self.work += 5  # also for what later goes through all nodes
            if op in _TOUCHING:
                self._touching[id(node)] = len(self._nodes)
        return node

    def copy(self, node: Node, copies: Mapping[int, Node], attr: Any = None) -> Node:
        """A node of another program, of the copies of its operands, and with another attribute where one is given."""
        args = tuple(copies[id(each)] for each in node.args)
        return self.emit(node.op, node.dtype, args, node.attr if attr is None else attr)

    @property
    def node_count(self) -> int:
        """The number of nodes made so far."""
        return len(self._nodes)

    def touches_since(self, made: int, node: Node) -> bool:
        """Whether a node touches an array, and was not among the first ``made``."""
        return self._touching.get(id(node), 0) > made

    # --- leaves
    def const(self, value: Any, dtype: DType) -> Node:
        """``value`` converted as the dtype's constructor does; integers must be in range."""
        if is_complex(dtype):
            part = part_dtype(dtype)
            number = complex(value)
            return self.complex(self.const(number.real, part), self.const(number.imag, part))
        with np.errstate(all="ignore"):
            is_numpys = dtypes.is_numpys(dtype)
            return self.emit("const", dtype, (), dtype.type(value) if is_numpys else core_arrays.number(value, dtype))

    def load(self, param: int) -> Node:
        return self.emit("load", self.params[param].dtype, (), param)

    def index(self) -> Node:
        return self.emit("index", INT64)

    def size(self) -> Node:
        return self.emit("size", INT64)

    def length(self, param: int) -> Node:
        return self.emit("length", INT64, (), param)

    def fact(self, fact: Any) -> Node:
        return self.emit("fact", INT64, (), fact)

    def gather(self, param: int, index: Node, mask: Node | None = None) -> Node:
        index = self.cast(index, INT64)
        args = (index,) if mask is None else (index, mask)
        return self.emit("gather", self.params[param].dtype, args, param)

    def lookup(self, column: Column, row: Node) -> Node:
        """A constant of a table; ``row`` is in range for all operands."""
        assert row.dtype == UINT64
        return self.emit("lookup", column.dtype, (row,), column)

    # --- conversions
    def cast(self, value: Node, dtype: DType) -> Node:
        """Convert explicitly; complex values by their parts."""
        if value.dtype == dtype:
            return value
        if is_complex(dtype):
            part = part_dtype(dtype)
            if is_complex(value.dtype):
                return self.complex(self.cast(self.real(value), part), self.cast(self.imag(value), part))
            return self.complex(self.cast(value, part), self.const(0, part))
        if is_complex(value.dtype):
            if dtype == BOOL:
                return self.truth(value)
            return self.cast(self.real(value), dtype)
        if self.saturates and dtypes.is_float8(dtype):
            value = self.saturate(value, dtype)
        return self.emit("cast", dtype, (value,))

    def saturate(self, value: Node, dtype: DType) -> Node:
        """``value`` between the finite limits of a float8, infinity too; NaN stays. What rounds to a limit is one."""
        if is_complex(value.dtype):
            value = self.real(value)
        if dtypes.small_float(value.dtype) is not None:
            value = self.cast(value, FLOAT32)
        most = int(dtypes.float_info(dtype).max)
        if value.dtype.kind not in "fiu" or (is_integer(value.dtype) and np.iinfo(value.dtype).max <= most):
            return value
        high = self.const(most, value.dtype)
        value = self.select(self.op("gt", value, high), high, value)
        if value.dtype.kind == "u":
            return value
        low = self.const(-most, value.dtype)
        return self.select(self.op("lt", value, low), low, value)

    def bitcast(self, value: Node, dtype: DType) -> Node:
        assert value.dtype.itemsize == dtype.itemsize
        return value if value.dtype == dtype else self.emit("bitcast", dtype, (value,))

    def one_nan(self, value: Node) -> Node:
        """``value``, whose NaN has the bits of CUDA's if the program computes it; processors give it any.

        What is read, from an array or from bits, keeps its own: a program may carry integers in floats.
        """
        if not is_float(value.dtype):
            return value
        done: dict[int, Node] = {}
        stack = [value]
        while stack:
            node = stack[-1]
            if node.op == "select" and (parts := [each for each in node.args[1:] if id(each) not in done]):
                stack += parts
                continue
            stack.pop()
            if node.op == "select":
                done[id(node)] = self.select(node.args[0], done[id(node.args[1])], done[id(node.args[2])])
            elif node.op in _COPIES or (node.op in ("real", "imag") and node.args[0].op in _COPIES):
                done[id(node)] = node
            elif node.op != "const":
                done[id(node)] = self.select(self.op("ne", node, node), self._nan(node.dtype), node)
            else:
                done[id(node)] = self._nan(node.dtype) if node.attr != node.attr else node
        return done[id(value)]

    def _nan(self, dtype: DType) -> Node:
        unsigned = np.dtype(f"u{dtype.itemsize}")
        return self.bitcast(self.const(_CUDAS_NAN[dtype.itemsize], unsigned), dtype)

    def truth(self, value: Node) -> Node:
        """``value != 0``, as bool."""
        if value.dtype == BOOL:
            return value
        if is_complex(value.dtype):
            return self.op("or", self.truth(self.real(value)), self.truth(self.imag(value)))
        return self.op("ne", value, self.const(0, value.dtype))

    # --- arithmetic
    def op(self, op: str, *args: Node) -> Node:
        """A core operation on operands of one real dtype; of small floats, by way of float32 and rounded once."""
        dtype = args[0].dtype
        if small_float(dtype) is not None:
            found = self.op(op, *[self.cast(each, FLOAT32) for each in args])
            return found if found.dtype == BOOL else self.cast(found, result_of_float32(dtype))
        assert all(each.dtype == dtype for each in args), f"{op}: {[str(each.dtype) for each in args]}"
        assert len(args) == _ARITY.get(op, 2), op
        if op in COMPARISONS:
            return self.emit(op, BOOL, args)
        if op in _FLOAT_OPS:
            assert is_float(dtype), f"{op} of {dtype}"
        elif op in _INTEGER_OPS:
            assert is_integer(dtype), f"{op} of {dtype}"
        elif op in _BITWISE_OPS:
            assert is_integer(dtype) or dtype == BOOL, f"{op} of {dtype}"
        else:
            assert op in _ANY_REAL_OPS, op
            assert is_float(dtype) or is_integer(dtype), f"{op} of {dtype}"
        return self.emit(op, dtype, args)

    def select(self, condition: Node, yes: Node, no: Node) -> Node:
        assert condition.dtype == BOOL
        assert yes.dtype == no.dtype
        if yes is no:
            return yes
        if is_complex(yes.dtype):
            return self.complex(
                self.select(condition, self.real(yes), self.real(no)),
                self.select(condition, self.imag(yes), self.imag(no)),
            )
        return self.emit("select", yes.dtype, (condition, yes, no))

    def call(self, name: str, *args: Node) -> Node:
        """A mathematical function of float32 or float64 operands."""
        if small_float(args[0].dtype) is not None:
            found = self.call(name, *[self.cast(each, FLOAT32) for each in args])
            return self.cast(found, result_of_float32(args[0].dtype))
        assert args[0].dtype in (FLOAT32, FLOAT64)
        return self.emit("call", args[0].dtype, args, name)

    # --- complex numbers
    def complex(self, real: Node, imag: Node) -> Node:
        dtype = COMPLEX64 if real.dtype == FLOAT32 else COMPLEX128
        return self.emit("complex", dtype, (real, imag))

    def real(self, value: Node) -> Node:
        if value.op == "complex":
            return value.args[0]
        return self.emit("real", part_dtype(value.dtype), (value,))

    def imag(self, value: Node) -> Node:
        if value.op == "complex":
            return value.args[1]
        return self.emit("imag", part_dtype(value.dtype), (value,))

    def program(self, stores: Iterable[Store], effects: Iterable[Node] = ()) -> Program:
        """The finished program: the nodes that the stores and ``effects`` need, operands first."""
        stores, effects, nodes = self._merge_reads(tuple(stores), tuple(effects))
        updates = frozenset(node.attr.param for node in nodes if node.op == "update")
        reads = updates.union(node.attr for node in nodes if node.op in ("load", "gather"))
        loops = [node.attr for node in nodes if node.op == "loop"]
        reads = reads.union(*(each.arrays for each in loops))
        writes = updates.union(*(each.writes for each in loops)) | {store.param for store in stores}
        return Program(
            params=tuple(self.params),
            nodes=nodes,
            stores=stores,
            effects=effects,
            reads=reads,
            writes=writes,
            math=self.math,
            text=_format_program(self.params, nodes, stores, self.math),
        )

    def _merge_reads(
        self, stores: tuple[Store, ...], effects: tuple[Node, ...]
    ) -> tuple[tuple[Store, ...], tuple[Node, ...], tuple[Node, ...]]:
        """Make one read of two of the same element, on both sides of an ``if``; with the nodes of the program."""
        nodes = _nodes_of(stores, effects)
        reads: dict[tuple[int, int], list[Node]] = {}
        for node in nodes:
            if node.op == "gather" and len(node.args) == 2:
                reads.setdefault((node.attr, id(node.args[0])), []).append(node)
        pairs = [
            (one, two, common)
            for same in reads.values()
            for one, two in itertools.combinations(same, 2)
            for common in _find_common_mask(one.args[1], two.args[1])
        ]
        made: dict[int, Node] = {}
        unseen = find_unseen_reads(nodes, stores, effects) if pairs else set()
        for one, two, common in pairs:
            if {id(one), id(two)} <= unseen - made.keys():
                made[id(one)] = made[id(two)] = self.emit("gather", one.dtype, (one.args[0], *common), one.attr)
        if not made:
            return stores, effects, nodes
        for node in nodes:
            args = tuple(made.get(id(each), each) for each in made.get(id(node), node).args)
            made[id(node)] = self.emit(node.op, node.dtype, args, node.attr)
        stores = tuple(store.move(made) for store in stores)
        effects = tuple(made[id(each)] for each in effects)
        return stores, effects, _nodes_of(stores, effects)


def _nodes_of(stores: Iterable[Store], effects: Iterable[Node]) -> tuple[Node, ...]:
    return sort_nodes([*effects, *(operand for store in stores for operand in store.operands())])


def _find_common_mask(one: Node, two: Node) -> list[tuple[Node, ...]]:
    """The mask in a list, or no mask where one of the two always holds, that stands for both; else an empty list."""
    if _is_negated(one, two):
        return [()]
    if one.op == two.op == "and":
        for k, j in itertools.product((0, 1), (0, 1)):
            if one.args[k] is two.args[j] and _is_negated(one.args[1 - k], two.args[1 - j]):
                return [(one.args[k],)]
    return []


def _is_negated(one: Node, two: Node) -> bool:
    return (one.op == "not" and one.args[0] is two) or (two.op == "not" and two.args[0] is one)


def find_unseen_reads(nodes: Sequence[Node], stores: Iterable[Store], effects: Iterable[Node]) -> set[int]:
    """The masked reads whose value nothing sees where their mask is false, by identity: choices take another."""
    negated = {id(node.args[0]): id(node) for node in nodes if node.op == "not"}
    never: frozenset[int] = frozenset()
    without: dict[int, frozenset[int]] = {}  # for each node, the conditions without which nothing sees it

    def note(node: Node, conditions: frozenset[int]) -> None:
        without[id(node)] = without.get(id(node), conditions) & conditions

    def holds(mask: Node, conditions: frozenset[int]) -> bool:
        parts = [mask]  # a mask may be deeper than Python's stack
        while parts:
            part = parts.pop()
            if id(part) not in conditions:
                if part.op != "and":
                    return False
                parts.extend(part.args)
        return True

    for each in (*effects, *(each for store in stores for each in store.operands())):
        note(each, never)
    for node in reversed(nodes):
        own = without.get(id(node), never)
        if node.op == "select":
            condition, yes, no = node.args
            note(condition, own)
            note(yes, own | {id(condition)})
            note(no, own | {negated.get(id(condition), 0)})
            continue
        for each in node.args:
            note(each, never if node.op in EFFECTS else own)
    gathers = [node for node in nodes if node.op == "gather" and len(node.args) == 2]
    return {id(node) for node in gathers if holds(node.args[1], without.get(id(node), never))}


def sort_nodes(roots: Iterable[Node]) -> tuple[Node, ...]:
    """Every node that the roots need, operands before users; iterative, because a program may be deep."""
    done: dict[int, Node] = {}
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, is_expanded = stack.pop()
        if id(node) in done:
            continue
        if is_expanded:
            done[id(node)] = node
        else:
            stack.append((node, True))
            stack.extend((each, False) for each in reversed(node.args))
    return tuple(done.values())


def _format_program(params: list[Param], nodes: tuple[Node, ...], stores: tuple[Store, ...], math: str) -> str:
    names = {id(node): f"%{number}" for number, node in enumerate(nodes)}
    lines = [f"math {math}"]
    for number, param in enumerate(params):
        kind = "scalar" if param.is_scalar else "raw" if param.is_raw else "array"
        lines.append(f"param {number} {kind} {param.dtype} {param.name}")
    for node in nodes:
        attr = "" if node.attr is None else f" {_attr_text(node.attr)}"
        operands = "".join(f" {names[id(each)]}" for each in node.args)
        lines.append(f"{names[id(node)]} = {node.op}{attr}{operands} : {_dtype_text(node.dtype)}")
    for store in stores:
        index = "" if store.index is None else f"[{names[id(store.index)]}]"
        mask = "" if store.mask is None else f" if {names[id(store.mask)]}"
        lines.append(f"store {store.param}{index} {names[id(store.value)]}{mask}")
    return "\n".join(lines)


_dtype_text = functools.cache(str)
"""A dtype in words, which NumPy makes anew each time: half of the time that a program of few nodes takes to format."""


def _attr_text(attr: Any) -> str:
    return f"{attr!r}/{attr.tobytes().hex()}" if isinstance(attr, np.generic) else str(attr)


# Facts of a call's shape and of its arrays' layouts, which a kernel may read: leaves whose values a plan knows.

MOST_AXES = 64
"""Axes that an index computed by the kernel can name."""


@dataclass(frozen=True, slots=True)
class LayoutFact:
    """The attribute of a node ``fact``.

    ``array`` is the parameter, None for the call itself. ``what`` is ``"rank"``, or for one axis ``"extent"``,
    ``"stride"`` in bytes, or ``"inner"``, the number of elements behind it. An axis that does not exist has zeros.
    """

    array: int | None
    what: str
    axis: int

    def value(self, shape: tuple[int, ...], arrays: Any) -> int:
        """The number, in a call of this shape whose arrays, by their parameters, have ``shape`` and ``strides``."""
        if self.array is None:
            return self._of(shape, ())
        return self._of(arrays[self.array].shape, arrays[self.array].strides)

    def _of(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
        if self.what == "rank":
            return len(shape)
        if not 0 <= self.axis < len(shape):
            return 0
        if self.what == "inner":
            return math.prod(shape[self.axis + 1 :])
        return (shape if self.what == "extent" else strides)[self.axis]


def facts(program: Program) -> list[LayoutFact]:
    """The facts that a program reads, in the order of its nodes."""
    return [node.attr for node in program.nodes if node.op == "fact"]


# Loops whose number of turns depends on the element: a node that runs a program of its own until it says stop.
#
# A node ``loop`` has the operands ``start`` (bool), the initial values of the variables that the loop changes, and the
# values that its turns use and do not change. Its attribute is a `LoopBody`. An element for which ``start`` is false
# makes no turn; any other repeats the body with the variables' newest values until a turn stores false. A node ``pick``
# is the last value of one variable.
#
# What a turn does not change is computed once, before the loop: it is no part of the body. Reads of arrays are, even at
# an index that stays the same, because a loop without a turn must not read.

CARRIED = "carried"
"""The operation of a variable's value at the beginning of a turn, while the body is being built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBody:
    """One turn of a loop.

    The program's parameters are the ``carried`` variables, ``captured`` values, the arrays that it reads, then the
    variables' new values and, as the last one, whether another turn follows.
    """

    program: Program
    carried: int
    captured: int
    arrays: tuple[int, ...]
    """The parameters of the program around the loop that are the body's arrays."""

    @property
    def writes(self) -> tuple[int, ...]:
        """The parameters around the loop to whose elements it writes."""
        first = self.carried + self.captured
        return tuple(array for number, array in enumerate(self.arrays, first) if number in self.program.writes)

    def __str__(self) -> str:
        return f"arrays {self.arrays} {{\n{self.program.text}\n}}"

    def array(self, param: int) -> int:
        """The parameter around the loop that is parameter ``param`` of the body."""
        return self.arrays[param - self.carried - self.captured]


def add_carried(b: Builder, key: object, initial: Node) -> Node:
    """The value of a variable at the beginning of a turn; ``key`` is unique among the loops of a program."""
    return b.emit(CARRIED, initial.dtype, (), key)


def add_loop(
    b: Builder,
    start: Node,
    variables: Sequence[tuple[Node, Node, Node]],
    again: Node,
    before: int,
    effects: Sequence[Node] = (),
    after: Sequence[Node] = (),
) -> tuple[Node, list[Node]]:
    """Add a loop to a program; returns it, and the last values of its variables.

    Args:
        b: The program's builder.
        start: Whether an element makes a turn at all, bool.
        variables: For each variable its initial value, its leaf, and its value at the end of a turn.
        again: Whether another turn follows one, bool.
        before: The number of nodes that were made before the loop.
        effects: The nodes of a turn that are needed for what they write.
        after: The nodes that must be evaluated before the loop.
    """
    if b.reads_bits:
        variables = [(b.one_nan(initial), node, b.one_nan(value)) for initial, node, value in variables]
    roots = [*(value for _, _, value in variables), again]
    own = {id(node) for _, node, _ in variables}
    nodes = sort_nodes([*roots, *effects])
    inside: set[int] = set()
    b.work += 4 * len(nodes)
    for node in nodes:
        if id(node) in own or b.touches_since(before, node) or any(id(each) in inside for each in node.args):
            inside.add(id(node))
    captured: dict[int, Node] = {}
    arrays: dict[int, None] = {}
    for node in nodes:
        if id(node) in inside:
            captured |= {id(each): each for each in node.args if id(each) not in inside and each.op != "const"}
            arrays |= dict.fromkeys(_arrays_of(node))
    captured |= {id(each): each for each in roots if id(each) not in inside and each.op != "const"}
    leaves = [node for _, node, _ in variables]
    body = _body(b, nodes, inside, leaves, list(captured.values()), list(arrays), roots, effects)
    loop = b.emit("loop", BOOL, (start, *(initial for initial, _, _ in variables), *captured.values(), *after), body)
    return loop, [b.emit("pick", node.dtype, (loop,), number) for number, (_, node, _) in enumerate(variables)]


def _arrays_of(node: Node) -> tuple[int, ...]:
    if node.op == "loop":
        return tuple(node.attr.arrays)
    if node.op == "update":
        return (node.attr.param,)
    return (node.attr,) if node.op == "gather" else ()


def _body(
    b: Builder, nodes: Sequence[Node], inside: set[int], leaves: list[Node], captured: list[Node],
    arrays: list[int], roots: list[Node], effects: Sequence[Node],
) -> LoopBody:  # fmt: skip
    given = [*leaves, *captured]
    params = [Param(name=f"in{number}", dtype=node.dtype) for number, node in enumerate(given)]
    params += [b.params[number] for number in arrays]
    first_result = len(params)
    params += [Param(name=f"out{number}", dtype=node.dtype) for number, node in enumerate(roots)]
    inner = Builder(params, math=b.math)
    place = {number: len(given) + position for position, number in enumerate(arrays)}
    copies = {id(node): inner.load(number) for number, node in enumerate(given)}
    for node in nodes:
        if id(node) in copies or (id(node) not in inside and node.op != "const"):
            continue
        attr = node.attr
        if node.op == "gather":
            attr = place[attr]
        elif node.op == "update":
            attr = replace(attr, param=place[attr.param])
        elif node.op == "loop":
            attr = replace(attr, arrays=tuple(place[each] for each in attr.arrays))
        copies[id(node)] = inner.copy(node, copies, attr)
    stores = [Store(param=first_result + number, value=copies[id(node)]) for number, node in enumerate(roots)]
    program = inner.program(stores, [copies[id(node)] for node in effects])
    return LoopBody(program=program, carried=len(leaves), captured=len(captured), arrays=tuple(arrays))


def bodies(program: Program) -> list[Program]:
    """The program, and those of its loops."""
    found = [program]
    for each in found:  # grows while it is read
        found += [node.attr.program for node in each.nodes if node.op == "loop"]
    return found


# Writes to an array's elements in a given order: stores that others of the kernel may see, and atomic operations.
#
# A node ``update`` has the operands index (int64), value, mask (bool) and, to compare with, another value; behind those
# stand the nodes that come before it in the source and touch the same array, so that the order of evaluation keeps them
# in order. Its own value is the element's before. A ``gather`` that must see an update has it as its third operand.
#
# Elements of a call are in no order: where two of them update one element of an array, a result is the same on every
# device only if the operation commutes and is exact, and nothing reads in between. The front end refuses any other use
# where exact results are promised. A CPU takes the elements of a block in their order, one update after the other.

COMMUTING = frozenset({"add", "sub", "and", "or", "xor", "min", "max"})
"""The kinds whose order does not matter, for integers and as long as they are not mixed; but add and sub may be."""


@dataclass(frozen=True, slots=True)
class ElementUpdate:
    """The attribute of a node ``update``."""

    param: int
    kind: str
    """One of `COMMUTING`, or ``store``, ``exch`` (which returns the value before) or ``cas``."""
    is_used: bool
    """Whether the value before is used."""

    @property
    def operands(self) -> int:
        """The number of operands that are no mere order."""
        return 4 if self.kind == "cas" else 3


def update(
    b: Builder, what: ElementUpdate, index: Node, value: Node, mask: Node, compared: Node | None, after: Iterable[Node]
) -> Node:
    """Add an update to a program."""
    operands = (index, value, mask) if compared is None else (index, value, mask, compared)
    return b.emit("update", b.params[what.param].dtype, (*operands, *after), what)


def is_exact(kinds: frozenset[str], dtype_kind: str) -> bool:
    """Whether an array that is touched in these ways alone ends with the same contents in any order."""
    if kinds == {"store"}:
        return True  # each element by one element of the call, as for stores without an order
    return dtype_kind in "iu" and (kinds <= {"add", "sub"} or (len(kinds) == 1 and kinds <= COMMUTING))


def real_operands(node: Node) -> Sequence[Node]:
    """The operands of a node that are no mere order."""
    if node.op == "update":
        return node.args[: node.attr.operands]
    if node.op == "gather":
        return node.args[:2]
    return node.args


# A reduction whose dtypes are known: three programs, and the order in which every engine runs them.
#
# A reduction maps every element to an accumulator, one or several numbers; combines two accumulators into
# one; and turns the last one into the outputs. Each of the three is a program. Floating-point addition is not
# associative, so equal bits on every backend need one order. The sequential order would be the obvious one, but
# neither a GPU nor a vector unit can follow it fast. This one suits both:
#
# - the N elements of one result are numbered in C order along the reduced axes;
# - neighbours are combined in pairs, (0, 1), (2, 3) and so on, and the results again, level by level; an odd one at the
#   end stays for the next level.
#
# Every aligned block of 2^k elements is one node of this tree, so that a vector, a thread, a warp, a block of threads
# may own any of them: how an engine cuts the work changes no bit. The right operand never precedes the left, so that an
# operation need be associative only, and ``argmax`` compares no indices. The error grows with log2 N.


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """The program of an element-wise kernel beside a reduction; its inputs come first, then its outputs."""

    program: Program
    inputs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmap(Elementwise):
    """The program of the kernel that turns accumulators into outputs by arguments of the call.

    Its inputs are the accumulators, those arguments, and the int64 scalars in_size and out_size.
    """

    arguments: tuple[int, ...]
    """The inputs of the reduction that it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionSpec:
    """A reduction for one set of dtypes.

    ``map_program`` has the inputs and then the accumulators it writes; in it, ``index`` is the element's
    number among those reduced together. ``combine`` has accumulators a, accumulators b, and the results.
    ``post`` has the accumulators, the int64 scalars in_size and out_size, and the outputs.
    """

    map_program: Program
    combine: Program
    post: Program
    inputs: int
    outputs: int
    identity: tuple[Any, ...] | None
    """The accumulator of no elements; None where an empty reduction is an error."""
    shortcut: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None
    """NumPy's own reduction along the last axis, where the result does not depend on the order."""

    chooses: str = ""
    """``min`` or ``max``, where the accumulators are the first such element and its number."""

    premap: Elementwise | None = None
    """The kernel that runs first and writes the one input, for a map that reads arrays at computed indices."""

    postmap: Postmap | None = None
    """The kernel that runs last; the outputs of ``post`` are the accumulators then."""

    firsts: tuple[int, ...] = ()
    """Of the last inputs, which are no arguments: the arguments of which each result takes its first element."""

    @property
    def arguments(self) -> int:
        """The number of arguments of a call."""
        return self.inputs - len(self.firsts) if self.premap is None else self.premap.inputs

    @property
    def sources(self) -> tuple[int, ...]:
        """For each input the argument from whose memory it comes."""
        return (*range(self.inputs - len(self.firsts)), *self.firsts)

    @property
    def accumulators(self) -> tuple[DType, ...]:
        return tuple(param.dtype for param in self.map_program.params[self.inputs :])

    @property
    def output_dtypes(self) -> tuple[DType, ...]:
        return tuple(param.dtype for param in self.post.params[len(self.accumulators) + 2 :])


def build_reduction(
    inputs: Sequence[Param],
    mapping: Any,
    combining: Any,
    finishing: Any,
    *,
    identity: tuple[Any, ...] | int | None,
    shortcut: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None,
    chooses: str = "",
    firsts: tuple[int, ...] = (),
    math: str = "exact",
) -> ReductionSpec:
    """Build a specification from functions on nodes.

    Args:
        inputs: The parameters.
        mapping: ``(builder, input nodes) -> accumulator nodes``.
        combining: ``(builder, accumulators a, accumulators b) -> accumulators``.
        finishing: ``(builder, accumulators, in_size, out_size) -> output nodes``.
        identity: The accumulator of no elements; a number, where zeros follow it; or None.
        shortcut: NumPy's own reduction along the last axis, where the result does not depend on the order.
        chooses: ``min`` or ``max``, where the accumulators are the first such element and its number.
        firsts: As `ReductionSpec.firsts`.
        math: ``"exact"`` or ``"fast"``.
    """
    b = Builder(inputs, math=math)
    mapped = mapping(b, [b.load(number) for number in range(len(inputs))])
    map_program = store_all(b, "acc", mapped)
    if isinstance(identity, int):
        identity = (identity, *[0] * (len(mapped) - 1))
    dtypes = [node.dtype for node in mapped]
    c = Builder([Param(name=f"{side}{k}", dtype=d) for side in "ab" for k, d in enumerate(dtypes)], math=math)
    count = len(dtypes)
    combined = combining(c, [c.load(k) for k in range(count)], [c.load(count + k) for k in range(count)])
    sizes = [Param(name=name, dtype=INT64, is_scalar=True) for name in ("in_size", "out_size")]
    p = Builder([*(Param(name=f"a{k}", dtype=d) for k, d in enumerate(dtypes)), *sizes], math=math)
    finished = finishing(p, [p.load(k) for k in range(count)], p.load(count), p.load(count + 1))
    return ReductionSpec(
        map_program=map_program,
        combine=store_all(c, "c", [c.cast(node, dtype) for node, dtype in zip(combined, dtypes, strict=True)]),
        post=store_all(p, "out", finished),
        inputs=len(inputs),
        outputs=len(finished),
        identity=identity,
        shortcut=shortcut,
        chooses=chooses,
        firsts=firsts,
    )


def program_of_few(spec: ReductionSpec, count: int) -> Program | None:
    """The element-wise program for results of one element each, or of none; None for a map or an end with loops."""
    arguments, held = spec.arguments, len(spec.accumulators)
    if any(node.op == "loop" for node in (*spec.map_program.nodes, *spec.post.nodes)):
        return None  # whose bodies may ask for the number of the element, or of all
    b = Builder([*spec.map_program.params[:arguments], *spec.post.params[held + 2 :]], math=spec.map_program.math)

    def copy(program: Program, leaf: Callable[[Node], Node]) -> list[Node]:
        """The nodes that it stores, in the order of its parameters."""
        copies: dict[int, Node] = {}
        for node in program.nodes:
            is_leaf = node.op in LEAVES and node.op != "const"
            copies[id(node)] = leaf(node) if is_leaf else b.copy(node, copies)
        return [copies[id(store.value)] for store in sorted(program.stores, key=lambda store: store.param)]

    if count:
        one = {"index": b.const(0, INT64), "size": b.const(1, INT64)}
        found = copy(spec.map_program, lambda node: one.get(node.op) or b.load(spec.sources[node.attr]))
    else:
        assert spec.identity is not None
        found = [b.const(value, dtype) for value, dtype in zip(spec.identity, spec.accumulators, strict=True)]
    sizes = [b.size() if count else b.const(0, INT64), b.size()]
    finished = copy(spec.post, lambda node: [*found, *sizes][node.attr])
    return b.program([Store(param=arguments + number, value=node) for number, node in enumerate(finished)])


EXTREMA = ("min", "max")
FREE = ("and", "or", "xor", *EXTREMA, "add", "mul")
"""The operations on integers and bool whose order does not matter: sums and products wrap."""


def is_order_free(combine: Program) -> bool:
    """Whether a combining program gives the same bits in any order of the elements."""
    node = combine.stores[0].value
    operands = sorted(each.attr for each in node.args if each.op == "load")
    if len(combine.stores) > 1 or operands != [0, 1] or node.dtype.kind == "c":
        return False
    return node.op in (EXTREMA if is_float(node.dtype) else FREE)


def store_all(b: Builder, prefix: str, nodes: Sequence[Node]) -> Program:
    """Make the program whose outputs, named ``prefix0``, ``prefix1`` and so on, are these nodes."""
    first = len(b.params)
    b.params += [Param(name=f"{prefix}{number}", dtype=node.dtype) for number, node in enumerate(nodes)]
    return b.program([Store(param=first + number, value=node) for number, node in enumerate(nodes)])


# The memory layout of a call's operands: one shape, and byte strides for each operand.


@dataclass(frozen=True, slots=True)
class CallLayout:
    """Extents, outermost first, and for each operand its byte strides along them."""

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def with_axes(self) -> CallLayout:
        """The same layout, with one axis of extent 1 if it has none."""
        return self if self.shape else CallLayout((1,), tuple((0,) for _ in self.strides))


def broadcast_shape(kernel: str, named: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[int, ...]:
    """The common shape of the operands.

    Raises:
        KernelShapeError: They do not broadcast; the message names both.
    """
    result: tuple[int, ...] = ()
    for name, shape in named:
        if shape == result:
            continue
        rank = max(len(shape), len(result))
        left, right = (1,) * (rank - len(result)) + result, (1,) * (rank - len(shape)) + shape
        extents = []
        for a, b in zip(left, right, strict=True):
            if a != b and 1 not in (a, b):
                raise KernelShapeError(
                    f"{kernel}(): argument {name!r} has shape {shape}, which does not broadcast with {result} of the "
                    "arguments before it; reshape it, or index it with None where an axis is missing"
                )
            extents.append(b if a == 1 else a)
        result = tuple(extents)
    return result


def broadcast_strides(shape: tuple[int, ...], own: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Byte strides of an operand of shape ``own`` broadcast to ``shape``: 0 along repeated axes."""
    missing = len(shape) - len(own)
    seen = [0 if extent == 1 else stride for extent, stride in zip(own, strides, strict=True)]
    return (0,) * missing + tuple(seen)


def layout_of_call(program: Program, shape: tuple[int, ...], arrays: Any) -> CallLayout:
    """The collapsed layout of a program's elements; ``arrays``, by parameter, have a shape and strides."""
    strides = tuple(broadcast_strides(shape, arrays[n].shape, arrays[n].strides) for n in program.elements)
    return collapse(CallLayout(shape, strides), keep_order=program.keeps_order)


def order_of_result(shape: tuple[int, ...], arrays: Any) -> tuple[int, ...] | None:
    """The order of a new result's axes in memory, the outermost first; None: C order.

    It is the order in which all arrays lie; where two disagree on a pair of axes, C order of these. NumPy's ufuncs find
    it likewise, axis by axis from the last one outwards, so that results of both lie alike.

    Args:
        shape: The shape of the result.
        arrays: What it is computed from, with a shape and strides.
    """
    strides = [broadcast_strides(shape, each.shape, each.strides) for each in arrays]
    inwards: list[int] = []
    for axis in reversed(range(len(shape))):
        place = len(inwards)
        for number in reversed(range(len(inwards))):
            pairs = [
                (abs(own[axis]), abs(own[inwards[number]])) for own in strides if own[axis] and own[inwards[number]]
            ]
            if pairs and any(outer >= inner for outer, inner in pairs):
                break
            place = number if pairs else place
        inwards.insert(place, axis)
    order = tuple(reversed(inwards))
    return None if order == tuple(range(len(shape))) else order


def word_of(pointer: int, strides: Sequence[int], itemsize: int) -> int:
    """Bytes of the widest aligned access to every element: an element's size, or a divisor of it.

    A GPU fails on an access at an address that is no multiple of its size, and the context is lost. NumPy and torch
    align complex numbers to their parts only, and a view of bytes may have any address.
    """
    return math.gcd(pointer, *strides, itemsize)


def collapse(layout: CallLayout, *, keep_order: bool) -> CallLayout:
    """The same elements in as few dimensions as possible.

    Dimensions of extent 1 are dropped, and neighbours that advance together are merged. The dimensions are first
    sorted by the last operand's strides, so that equally transposed operands become contiguous; with ``keep_order``,
    for a program that uses the element's index, they are not.
    """
    axes = [axis for axis in zip(layout.shape, *layout.strides, strict=True) if axis[0] != 1]
    if not keep_order:
        axes.sort(key=lambda axis: [-abs(stride) for stride in axis[:0:-1]])
    if not axes:
        return CallLayout((), tuple(() for _ in layout.strides))
    shape, *strides = zip(*merge_axes(axes), strict=True)
    return CallLayout(shape, tuple(strides))
