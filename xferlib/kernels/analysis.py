"""Facts of a program's values, before it runs: indices that differ for each element, and ranges of numbers.

Two elements of a call that write one element of an array would race on a GPU. An index of the form ``c * i + u``,
with a constant ``c`` and a ``u`` that is the same for all elements, differs for each element.

The result of a sine is never above 1, and a sum of 1 and a size never below 1. Text that knows so leaves out what it
would do for other operands: limits, poles, special values. The intervals are found by the operations, operands before
users, in float64 and rounded outwards.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xferlib.kernels.ir import FLOAT16, FLOAT32, FLOAT64, Node, Param, Program, is_complex, is_integer, sort_nodes
from xferlib.kernels.numpy_functions import operation

# --- indices

A = np.ndarray[Any, Any]

_MOST_FACTOR = 1 << 20
"""The largest factor; a larger one may overflow 64 bits within the memory of a device."""
_SIZES = (2, 3, 4, 6, 8, 12)
"""Numbers that are tried: sizes of axes, of which several together give all elements, 24 times a power of two."""
_EXTENTS = (1, 3, 4, 6, 8, 24)
"""Likewise for the extents of a call or an array, which may have one axis."""
_DIVIDING = frozenset({"idiv", "imod", "floordiv", "floormod", "and", "shr", "min", "max"})
_MOST_TRIED = 1296
_MOST_DIVISOR = 1 << 20


class Linear(NamedTuple):
    """``factor * i + offset`` and the sum of uniform values, each with its own factor."""

    factor: int
    offset: int
    uniform: frozenset[tuple[int, int]]
    """(identity of the node, its factor)"""


def linear(index: Node, params: list[Param]) -> Linear | None:
    """The linear form of an index; None if it depends on the element in another form.

    Arithmetic in 32 bits counts as not overflowing, as in C.
    """
    forms: dict[int, Linear | None] = {}
    for node in sort_nodes([index]):
        forms[id(node)] = _form(node, [forms[id(each)] for each in node.args], params)
    return forms[id(index)]


def is_distinct(index: Node, params: list[Param]) -> bool:
    """Whether the elements of a call certainly have different indices."""
    form = linear(index, params)
    return form is not None and form.factor != 0


class OwnIndices:
    """Finds out whether each element of a call may have an index of its own.

    A proof would refuse what published kernels do: ``first + k * inner`` with ``first = (i / inner) * inner * len + i %
    inner`` is another index for each element because of how the caller chose the numbers. So the index is computed for
    a few elements, with many combinations of what is the same for all: where each combination gives two elements one
    index, as ``k``, ``i / 2`` and ``i % k`` do, no call is right. What arrays hold counts as the same for all too, so
    that ``3 * i + k[i] % 3`` is taken at its word, and ``k[i]`` is not.
    """

    def __init__(self, params: list[Param]) -> None:
        self.params = params
        self.starts: dict[int, Node] = {}
        """The first value of what a loop changes, by the identity of its leaf."""
        self._right: dict[int, int] = {}
        """The combination that was right last, by the identity of each number's node."""

    def may_be(self, index: Node, conditions: Iterable[Node]) -> bool:
        """Whether the elements that meet the conditions may have different indices."""
        conditions = list(conditions)
        nodes = self._nodes([index, *conditions])
        numbers = [each for each in nodes if not self._operands(each) and each.op not in ("const", "index", "size")]
        elements, scale = _elements(nodes)
        last = [self._right.get(id(each), _SIZES[0]) for each in numbers]
        sizes = [_EXTENTS if each.op == "fact" else _SIZES for each in numbers]
        for tried in (np.array(last, np.int64)[None], _combinations(sizes, scale)):
            given = {id(each): tried[:, [at]] for at, each in enumerate(numbers)}
            found, data, right_ones = self._values(nodes, given, elements, _SIZES[0] * _SIZES[-1] * scale)
            value = found[id(index)]
            if value is None:
                return False
            shape = (len(tried), elements.size)
            meets = np.ones(shape, np.bool_)
            for each in conditions:
                holds = found[id(each)]
                if holds is not None and id(each) not in data:
                    meets &= holds
            whole = np.broadcast_to(value, shape)
            for own, some, right in zip(whole[right_ones], meets[right_ones], tried[right_ones].tolist(), strict=True):
                indices = own[some] if some.any() else own
                if len(np.unique(indices)) == len(indices):
                    self._right.update(zip(map(id, numbers), right, strict=True))
                    return True
        return False

    def _operands(self, node: Node) -> tuple[Node, ...]:
        if node.op in ("gather", "update", "loop", "pick"):
            return ()
        start = self.starts.get(id(node))
        return node.args if start is None else (start,)

    def _nodes(self, roots: list[Node]) -> list[Node]:
        """The nodes that the roots rest on, each after its operands."""
        found: dict[int, Node] = {}
        stack = roots[::-1]
        while stack:
            node = stack[-1]
            waiting = [] if id(node) in found else [each for each in self._operands(node) if id(each) not in found]
            if waiting:
                stack += waiting
            else:
                found.setdefault(id(node), stack.pop())
        return list(found.values())

    def _values(
        self, nodes: list[Node], numbers: dict[int, A], elements: A, size: int
    ) -> tuple[dict[int, A | None], set[int], A]:
        """The value of each node for each combination and element, None if unknown; which rest on data; what is right.

        Where data chooses, some elements get one value and the others the other one. A combination is right where each
        remainder by its numbers differs from the dividend somewhere: ``i % (h * w)`` is for more elements than that.
        """
        found: dict[int, A | None] = {}
        data: set[int] = set()
        varying: set[int] = set()
        chosen: set[int] = set()
        """Nodes that rest on numbers of the caller, unlike the extents."""
        is_right = np.ones(len(next(iter(numbers.values()), [0])), np.bool_)
        for node in nodes:
            operands = self._operands(node)
            values = [found[id(each)] for each in operands]
            value: A | None
            if any(id(each) in chosen for each in operands) or (id(node) in numbers and node.op != "fact"):
                chosen.add(id(node))
            if id(node) in numbers:
                value = numbers[id(node)].astype(node.dtype)
                is_same = node.op in ("length", "fact") or (node.op == "load" and self.params[node.attr].is_scalar)
                if not is_same:
                    data.add(id(node))
            elif node.op == "index":
                value = elements
                varying.add(id(node))
            elif not operands:
                value = np.array([[node.attr if node.op == "const" else size]], node.dtype)
            else:
                if any(id(each) in data for each in operands) or id(node) in self.starts:
                    data.add(id(node))
                if any(id(each) in varying for each in operands):
                    varying.add(id(node))
                if node.op == "select" and id(operands[0]) in data:
                    values[0] = elements % 5 % 2 == 0
                    varying.add(id(node))
                value = values[0] if id(node) in self.starts else _compute(node, values)
                if node.op in ("imod", "floormod") and id(operands[0]) in varying and id(operands[1]) in chosen:
                    dividend, divisor = values
                    if dividend is not None and divisor is not None:
                        is_right &= (dividend >= divisor).any(axis=1)
                if value is None and id(node) not in varying:
                    value = np.full((1, 1), _SIZES[0], node.dtype)
            found[id(node)] = value
        return found, data, is_right


def _compute(node: Node, values: list[A | None]) -> A | None:
    if any(each is None for each in values) or is_complex(node.dtype):
        return None
    known = [each for each in values if each is not None]
    found = np.empty(np.broadcast_shapes(*(each.shape for each in known)), node.dtype)
    try:
        with np.errstate(all="ignore"):
            operation(node, "fast")[0](*known, found)
    except (KeyError, AttributeError, TypeError):  # an operation that is made of others, later
        return None
    return found


def _elements(nodes: list[Node]) -> tuple[A, int]:
    """Elements that are tried, and the scale of their number: some beyond each constant that divides or bounds."""
    constants = {
        (1 << min(int(each.attr), 20) if node.op == "shr" else abs(int(each.attr)) + more)
        for node in nodes if node.op in _DIVIDING
        for each in (arg.args[0] if arg.op == "cast" else arg for arg in node.args)
        if each.op == "const" and is_integer(each.dtype)
        for more in ((0, 1) if node.op == "and" else (0,))
    }  # fmt: skip
    few = sorted(each for each in constants if 1 < each <= _MOST_DIVISOR)[-6:]
    few += [one * two for one, two in itertools.combinations_with_replacement(few, 2) if one * two <= _MOST_DIVISOR]
    scale = 1 << (max([24, *few]) // 6).bit_length() + 1
    size = _SIZES[0] * _SIZES[-1] * scale
    few += [one * two for one in _products() for two in (1, scale)]
    found = {*range(96), size - 2, size - 1}
    found.update(turn * each + more for each in few for turn in (1, 2, 3) for more in (0, 1))
    return np.array(sorted(each for each in found if each < size))[None], scale


@functools.cache
def _products() -> list[int]:
    return sorted({math.prod(each) for each in itertools.product((1, *_SIZES), repeat=3)} - {1})


def _combinations(sizes: Sequence[tuple[int, ...]], scale: int) -> A:
    """Combinations of numbers, each of which has these sizes or is larger by the scale."""
    wide = [(*each, *(one * scale for one in each)) for each in sizes]
    if len(sizes) < 3:
        return np.array(list(itertools.product(*wide)), np.int64)
    random = np.random.default_rng(0)
    found = np.stack([random.choice(each, _MOST_TRIED) for each in sizes], axis=1)
    found[np.arange(_MOST_TRIED), random.integers(0, len(sizes), _MOST_TRIED)] *= scale  # all elements, more likely
    return np.concatenate([found, np.stack([random.choice(each, _MOST_TRIED // 3) for each in wide], axis=1)])


def conflict(stores: Iterable[tuple[int, Node]], params: list[Param]) -> int | None:
    """The parameter of which two elements of a call certainly write the same element; None if there is none.

    Args:
        stores: Parameter and index of each store that every element of a call executes.
        params: The parameters of the program.
    """
    offsets: dict[tuple[int, int, frozenset[tuple[int, int]]], dict[int, int]] = {}
    for param, index in stores:
        form = linear(index, params)
        if form is None or form.factor == 0:
            continue
        taken = offsets.setdefault((param, form.factor, form.uniform), {})
        if taken.setdefault(form.offset % abs(form.factor), form.offset) != form.offset:
            return param
    return None


def _form(node: Node, args: list[Linear | None], params: list[Param]) -> Linear | None:
    if node.op == "const":
        return Linear(0, int(node.attr), frozenset()) if is_integer(node.dtype) else _symbol(node)
    if node.op == "index":
        return Linear(1, 0, frozenset())
    if node.op == "load":
        return _symbol(node) if params[node.attr].is_scalar else None
    if node.op in ("size", "length", "fact"):
        return _symbol(node)
    if node.op in ("gather", "loop", "carried", "update") or any(each is None for each in args):
        return None
    known = [each for each in args if each is not None]
    return _combine(node, known)


def _combine(node: Node, args: list[Linear]) -> Linear | None:
    if node.op in ("add", "sub") and is_integer(node.dtype) and node.dtype.itemsize >= 4:
        return _sum(args[0], args[1], 1 if node.op == "add" else -1)
    if node.op == "neg" and node.dtype.itemsize >= 4:
        return _scale(args[0], -1)
    if node.op == "mul" and node.dtype.itemsize >= 4 and is_integer(node.dtype):
        for one, two in (args, args[::-1]):
            if not one.factor and not one.uniform:
                return _scale(two, one.offset)
    if node.op == "cast" and is_integer(node.dtype) and node.dtype.itemsize >= 4 and is_integer(node.args[0].dtype):
        return args[0]
    return _symbol(node) if all(each.factor == 0 for each in args) else None


def _symbol(node: Node) -> Linear:
    return Linear(0, 0, frozenset({(id(node), 1)}))


def _sum(x: Linear, y: Linear, sign: int) -> Linear:
    uniform = dict(x.uniform)
    for node, factor in y.uniform:
        uniform[node] = uniform.get(node, 0) + sign * factor
    pairs = frozenset((node, factor) for node, factor in uniform.items() if factor)
    return Linear(x.factor + sign * y.factor, x.offset + sign * y.offset, pairs)


def _scale(x: Linear, factor: int) -> Linear | None:
    if abs(x.factor * factor) > _MOST_FACTOR:
        return None
    pairs = frozenset((node, each * factor) for node, each in x.uniform if each * factor)
    return Linear(x.factor * factor, x.offset * factor, pairs)


# --- ranges of float32 values, for any operands

_INF = math.inf
_LEAST = 2.0**-149
_FLOATS = (FLOAT16, FLOAT32, FLOAT64)


class Range(NamedTuple):
    """The least and the greatest value but for NaN, which any may be.

    A ``low`` of 0 or more also says that the sign is clear: a value that may be -0 has a negative one.
    """

    low: float
    high: float


ANY = Range(-_INF, _INF)
_POSITIVE = Range(0.0, _INF)

_GROWING: dict[str, tuple[Callable[[float], float], float, float]] = {
    "exp": (np.exp, -_INF, _INF), "exp2": (np.exp2, -_INF, _INF), "expm1": (np.expm1, -_INF, _INF),
    "log": (np.log, 0.0, _INF), "log2": (np.log2, 0.0, _INF), "log10": (np.log10, 0.0, _INF),
    "log1p": (np.log1p, -1.0, _INF), "arcsin": (np.arcsin, -1.0, 1.0), "arctan": (np.arctan, -_INF, _INF),
    "sinh": (np.sinh, -_INF, _INF), "tanh": (np.tanh, -_INF, _INF), "arcsinh": (np.arcsinh, -_INF, _INF),
    "arccosh": (np.arccosh, 1.0, _INF), "arctanh": (np.arctanh, -1.0, 1.0), "cbrt": (np.cbrt, -_INF, _INF),
    "sqrt": (np.sqrt, -0.0, _INF),
}  # fmt: skip
"""The functions that never fall, and between which operands they have results."""
_ODD = frozenset({"expm1", "log1p", "arcsin", "arctan", "sinh", "tanh", "arcsinh", "arctanh", "cbrt", "sqrt"})
"""Those whose result has the sign of the operand, that of zeros too."""


def find_ranges(program: Program) -> dict[int, Range]:
    """The range of each float node of a program without loops, by its identity."""
    found: dict[int, Range] = {}
    with np.errstate(all="ignore"):
        for node in program.nodes:
            if node.dtype in _FLOATS:
                found[id(node)] = _round(_range_of(node, [found.get(id(each), ANY) for each in node.args]), node)
    return found


def _range_of(node: Node, args: list[Range]) -> Range:
    op = str(node.attr) if node.op == "call" else node.op
    if op == "const":
        value = float(node.attr)
        return ANY if math.isnan(value) else Range(value if math.copysign(1, value) > 0 else min(value, -_LEAST), value)
    if op == "cast":
        return _of_integers(node.args[0]) if node.args[0].dtype not in _FLOATS else args[0]
    if op == "mul" and node.args[0] is node.args[1]:
        args = [_size(args[0])] * 2
    elif op == "mul" and node.args[0].op == "neg" and node.args[0].args[0] is node.args[1]:
        return _negate(_ends(np.multiply, _size(args[1]), _size(args[1])))
    if op in _GROWING:
        return _grow(op, args[0])
    if op in _OPERATIONS:
        return _OPERATIONS[op](*args)
    return ANY


def _round(range_: Range, node: Node) -> Range:
    """The range of values that are rounded to float32 or float16, or computed in float64 with an error of some ulp."""
    low, high = range_
    if node.op in ("const", "neg", "abs", "min", "max", "select"):
        return range_
    step, least, most = (2.0**-10, 2.0**-24, 6.5e4) if node.dtype == FLOAT16 else (2.0**-20, _LEAST, 3.4e38)
    if math.isfinite(low):
        wider = low - abs(low) * step - least
        low = max(wider, 0.0) if low >= 0 else wider if wider > -most else -_INF
    if math.isfinite(high):
        high += abs(high) * step + least
    return Range(min(low, most), max(high, -most) if high < most else _INF)


def _of_integers(node: Node) -> Range:
    if node.dtype.kind == "b":
        return Range(0.0, 1.0)
    if node.dtype.kind not in "iu":
        return ANY
    info = np.iinfo(node.dtype)
    return Range(float(info.min), float(info.max))


def _grow(name: str, x: Range) -> Range:
    function, least, most = _GROWING[name]
    low, high = (float(function(min(max(each, least), most))) for each in x)
    if name in _ODD and x.low >= 0:
        return Range(max(low, 0.0), high)
    return Range(low if low > 0 else 0.0 if name in ("exp", "exp2", "arccosh") else min(low, -_LEAST), high)


def _ends(function: Callable[[float, float], float], x: Range, y: Range) -> Range:
    """The range of a function whose greatest and least values are at the ends; 0 where these have none."""
    values = [
        0.0 if math.isnan(value := float(function(np.float64(a), np.float64(b)))) else value for a in x for b in y
    ]
    is_positive = x.low >= 0 and y.low >= 0
    return Range(max(min(values), 0.0) if is_positive else min(*values, -_LEAST), max(values))


def _add(x: Range, y: Range) -> Range:
    low, high = x.low + y.low, x.high + y.high
    if math.isnan(low) or math.isnan(high):
        return ANY
    return Range(low if low > 0 or (x.low >= 0 and y.low >= 0) else min(low, -_LEAST), high)


def _negate(x: Range) -> Range:
    return Range(-x.high if x.high < 0 else min(-x.high, -_LEAST), -x.low)


def _size(x: Range) -> Range:
    if x.low >= 0:
        return x
    return Range(-x.high if x.high < 0 else 0.0, max(-x.low, x.high))


def _divide(x: Range, y: Range) -> Range:
    return _ends(np.divide, x, y) if y.low > 0 else ANY


def _join(_: Range, x: Range, y: Range) -> Range:
    return Range(min(x.low, y.low), max(x.high, y.high))


_OPERATIONS: dict[str, Callable[..., Range]] = {
    "neg": _negate, "abs": _size, "add": _add, "sub": lambda x, y: _add(x, _negate(y)),
    "mul": lambda x, y: _ends(np.multiply, x, y), "div": _divide, "select": _join,
    "min": lambda x, y: Range(min(x.low, y.low), min(x.high, y.high)),
    "max": lambda x, y: Range(max(x.low, y.low), max(x.high, y.high)),
    "sin": lambda _: Range(-1.0, 1.0), "cos": lambda _: Range(-1.0, 1.0),
    "arccos": lambda x: Range(math.acos(min(max(x.high, -1.0), 1.0)), math.acos(min(max(x.low, -1.0), 1.0))),
    "cosh": lambda x: Range(float(np.cosh(_size(x).low)), float(np.cosh(_size(x).high))),
    "erf": lambda x: Range(0.0 if x.low >= 0 else -1.0, 1.0),
    "hypot": lambda *_: _POSITIVE,
}  # fmt: skip
