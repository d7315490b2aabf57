"""Each core operation as a function of NumPy blocks: ``f(*operands, out)``.

It is a plain ufunc where that gives the defined result on every CPU; the others are written here. All run with
floating-point warnings off. Operands are arrays of the operation's dtype, with or without axes.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib._core.dtypes import find as find_dtype
from xferlib.kernels.float64_functions import float64_function, is_own
from xferlib.kernels.formulas import PAIRS, expand, two_product, two_sum
from xferlib.kernels.functions import MARGIN_ULP, HardCases, hard_cases
from xferlib.kernels.ir import BOOL, FLOAT32, FLOAT64, INT64, Column, DType, Node, Program, is_float, is_integer

# The fused multiply-add on NumPy arrays: ``x * y + z`` with one rounding.
#
# ``x * y + z`` in float64, rounded to float32, is not it: the sum is rounded twice, and a result next to a midpoint
# goes the wrong way. So float32 and float16 go through float64 with rounding to odd, float64 through error-free
# transformations (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding
# to odd", IEEE Transactions on Computers 57, 2008), and through exact rational arithmetic where those could over- or
# underflow.

A = np.ndarray[Any, Any]

_LARGE, _SMALL = 2.0**500, 2.0**-450  # within these, products of halves are exact and normal


def fma(x: A, y: A, z: A, out: A) -> None:
    """``x * y + z`` of one float dtype, rounded once."""
    with np.errstate(all="ignore"):
        wide = [np.asarray(each, FLOAT64) for each in (x, y, z)]
        if out.dtype == FLOAT64:
            out[...] = _fma64(*np.broadcast_arrays(*wide))
        else:
            out[...] = _sum_to_odd(wide[0] * wide[1], wide[2])  # the product of two float32 is exact


def _sum_to_odd(x: A, y: A) -> A:
    """``x + y`` in float64, an inexact result rounded to the neighbour with an odd last bit."""
    total, error = two_sum(x, y)
    bits = np.array(total, copy=True, ndmin=1).view(np.int64)
    is_inexact = (error != 0) & np.isfinite(total)
    is_even = (bits.reshape(np.shape(total)) & 1) == 0
    is_away = (error > 0) == (total > 0)
    bits += np.where(is_inexact & is_even, np.where(is_away, 1, -1), 0).reshape(bits.shape)
    odd: A = bits.view(np.float64).reshape(np.shape(total))
    return odd


def _is_plain(x: A) -> A:
    size = np.abs(x)
    plain: A = (size < _LARGE) & (size > _SMALL)
    return plain


def _fma64(x: A, y: A, z: A) -> A:
    product, low = two_product(x, y)
    high, low_sum = two_sum(z, low)
    total, error = two_sum(product, high)
    result = np.array(total + _sum_to_odd(error, low_sum))
    is_plain = _is_plain(x) & _is_plain(y) & _is_plain(product) & (_is_plain(z) | (z == 0)) & _is_plain(result)
    for position in zip(*np.nonzero(np.atleast_1d(~is_plain)), strict=True):
        place = position if np.ndim(result) else ()
        result[place] = _exact(float(x[place]), float(y[place]), float(z[place]))
    return result


def _exact(x: float, y: float, z: float) -> float:
    from fractions import Fraction  # rarely needed, and slow to import

    product = float(np.float64(x) * np.float64(y))
    if not np.isfinite([x, y]).all() or x == 0 or y == 0:
        return float(np.float64(product) + np.float64(z))
    if not np.isfinite(z):  # the exact product is finite, even where the rounded one is not
        return z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:  # a non-zero product cancelled: +0 in round-to-nearest
        return 0.0
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = float("inf") if exact > 0 else float("-inf")
    return nearest or (0.0 if exact > 0 else -0.0)


Operation = Callable[..., Any]


# Correct rounding of float32 functions through float64, on NumPy arrays.
#
# A float64 result of small error rounds to the right float32 unless it lies next to a midpoint between two
# of them, which its low 29 bits show. A sweep over all of float32 has found the few inputs whose exact value lies so
# near a midpoint; a table has their results (`hard_cases`).

_rounding_scratch = threading.local()
_SHIFT = np.uint64(35)
_OFFSET = np.uint64(MARGIN_ULP - 0x10000000 + (1 << 64))
_NEAR = np.uint64(2 * MARGIN_ULP + 1 << 35)
_SMALLEST_NORMAL = 2.0**-126


def _buffers(count: int) -> tuple[A, A]:
    """This thread's float64 results and working bits, of ``count`` elements."""
    found: tuple[A, A] | None = getattr(_rounding_scratch, "buffers", None)
    if found is None or found[0].size < count:
        found = _rounding_scratch.buffers = (np.empty(count, np.float64), np.empty(count, np.uint64))
    return found[0][:count], found[1][:count]


def round_correctly(name: str, function: Callable[..., Any]) -> Callable[[A, A], None]:
    """Function ``name`` of float32 operands, correctly rounded, from a float64 ``function`` of small error."""
    table = hard_cases()[name]

    def compute(x: A, out: A) -> None:
        wide, bits = _buffers(out.size)
        shaped = wide.reshape(out.shape)
        np.copyto(shaped, x)
        function(shaped, shaped)
        np.copyto(out, shaped, casting="unsafe")
        np.add(wide.view(np.uint64), _OFFSET, bits)
        np.left_shift(bits, _SHIFT, bits)
        is_near = bits.min(initial=_NEAR) < _NEAR
        if is_near or (table.has_subnormal and np.fmin.reduce(wide, initial=1.0) < _SMALLEST_NORMAL):
            _correct_hard_cases(x, out, wide, bits, table)

    return compute


def _correct_hard_cases(x: A, out: A, wide: A, bits: A, table: HardCases) -> None:
    """Insert the known results of the elements that are hard cases."""
    if not out.ndim:
        x, out = x.reshape(1), out.reshape(1)  # NumPy finds no places in an array without axes
    suspect = bits < _NEAR
    if table.has_subnormal:
        suspect |= wide < _SMALLEST_NORMAL
    places = np.nonzero(suspect.reshape(out.shape))
    inputs = np.ascontiguousarray(np.broadcast_to(x, out.shape)[places]).view(np.uint32)
    found = np.searchsorted(table.inputs, inputs)
    found[found == table.inputs.size] = 0
    is_known = table.inputs[found] == inputs
    values = out[places]
    values[is_known] = table.results[found[is_known]].view(np.float32)
    out[places] = values


# Correct rounding of float32 functions of two numbers.
#
# Their hard cases are too many for a table. Where the float64 result lies next to a midpoint, once in 10^7 results, the
# exact value is compared with the midpoint by arithmetic of many digits.

_DIGITS = 150
_ANGLE_BITS = 1200
"""Of fixed-point numbers: the tangent of the least float32 differs from it by its cube, of 2^-450."""


def round_pairs_correctly(name: str) -> Callable[[A, A, A], None]:
    """``power`` or ``arctan2`` of float32 operands, correctly rounded."""
    function: np.ufunc = getattr(np, name)
    is_less = _is_power_below if name == "power" else _is_angle_below

    def compute(x: A, y: A, out: A) -> None:
        wide = scratch(out, FLOAT64, "pairs")
        first, second = scratch(out, FLOAT64, "first"), scratch(out, FLOAT64, "second")
        np.copyto(first, x)
        np.copyto(second, y)
        function(first, second, wide)
        result = wide.astype(FLOAT32)
        for place in zip(*np.nonzero(_is_near_midpoint(np.atleast_1d(wide))), strict=True):
            at = place if out.ndim else ()
            result[at] = _nearest_of_pair(float(first[at]), float(second[at]), float(wide[at]), is_less)
        np.copyto(out, result)

    return compute


def _is_near_midpoint(wide: A) -> A:
    """Where a float64 number of small error may lie on the other side of a midpoint of float32 than the exact one."""
    size = np.abs(wide)
    distance = (size.view(np.uint64) + _OFFSET) << _SHIFT
    near: A = (distance < _NEAR) & (size < 2.0**128)
    is_subnormal = (size < _SMALLEST_NORMAL) & (size > 0)
    if is_subnormal.any():
        steps = size * 2.0**150  # midpoints are odd
        is_odd = np.abs(np.rint(steps * 0.5 - 0.5) * 2 + 1 - steps) <= steps * (MARGIN_ULP * 2.0**-52)
        near = np.where(is_subnormal, is_odd, near)
    return near


def _nearest_of_pair(x: float, y: float, wide: float, is_less: Callable[[float, float, float], bool | None]) -> Any:
    """The float32 nearest to the function of ``x`` and ``y``, which ``wide`` is near to."""
    from fractions import Fraction  # rarely needed, and slow to import

    size = abs(wide)
    unit = max(Fraction(2) ** (math.frexp(size)[1] - 25), Fraction(1, 1 << 150))
    midpoint = float((int(Fraction(size) / unit / 2) * 2 + 1) * unit)
    below = is_less(x, y, midpoint)
    if below is not None:
        midpoint = math.nextafter(midpoint, 0.0 if below else math.inf)
    return np.float32(math.copysign(midpoint, wide))


def _is_power_below(x: float, y: float, midpoint: float) -> bool | None:
    """Whether ``abs(x) ** y`` is less than a number; None if it is that number."""
    import decimal

    with decimal.localcontext() as context:
        context.prec, context.Emax, context.Emin = _DIGITS, decimal.MAX_EMAX, decimal.MIN_EMIN
        difference = decimal.Decimal(abs(x)) ** decimal.Decimal(y) / decimal.Decimal(midpoint) - 1
        return None if abs(difference) < decimal.Decimal(10) ** (20 - _DIGITS) else difference < 0


def _is_angle_below(y: float, x: float, midpoint: float) -> bool:
    """Whether the angle of the point (x, abs(y)) is less than one: by the sine of their difference."""
    from fractions import Fraction

    angle = int(Fraction(midpoint) * (1 << _ANGLE_BITS))
    terms = [1 << _ANGLE_BITS]
    while terms[-1]:
        terms.append((terms[-1] * angle >> _ANGLE_BITS) // len(terms))
    cosine, sine = sum(terms[::4]) - sum(terms[2::4]), sum(terms[1::4]) - sum(terms[3::4])
    return Fraction(abs(y)) * cosine < Fraction(x) * sine


UFUNCS: dict[str, np.ufunc] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.absolute, "div": np.divide,
    "imod": np.fmod, "floordiv": np.floor_divide, "floormod": np.remainder, "fmod": np.fmod, "sqrt": np.sqrt,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "shl": np.left_shift, "shr": np.right_shift,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip
"""NumPy's functions; for the least and the greatest see `operation`."""

_scratch = threading.local()


def scratch(like: A, dtype: DType, name: str) -> A:
    """This thread's contiguous temporary of the shape of ``like``, valid until the next request by that name."""
    return scratch_of(like.shape, dtype, name)


def scratch_of(shape: tuple[int, ...], dtype: DType, name: str) -> A:
    """As `scratch`, for a shape. It is reused because the system clears new memory of this size page by page."""
    buffers: dict[str, A] = _scratch.__dict__.setdefault("buffers", {})
    nbytes = math.prod(shape) * dtype.itemsize
    buffer = buffers.get(name)
    if buffer is None or buffer.nbytes < nbytes:
        buffer = buffers[name] = np.empty(nbytes, np.uint8)
    return buffer[:nbytes].view(dtype).reshape(shape)


def operation(node: Node, mode: str) -> tuple[Operation, bool]:
    """The function that computes ``node``, and whether it may write over an operand."""
    op, dtype = node.op, node.dtype
    if op in ("min", "max") and is_float(dtype):
        return (_float_min if op == "min" else _float_max), False
    if op in ("min", "max"):
        return (_min if op == "min" else _max), True
    if op in UFUNCS:
        return UFUNCS[op], True
    if op == "call":
        return _call(node, mode), False
    if op == "lookup":
        return _lookup(node.attr), False
    if op == "cast":
        return _cast(node.args[0].dtype, dtype), False
    return _OTHERS[op], False


def _call(node: Node, mode: str) -> Operation:
    name = str(node.attr)
    if is_own(node, mode):
        return own_function(name)
    if name == "rsqrt":
        return _rsqrt if mode == "fast" else round_correctly("rsqrt", _rsqrt)
    if name in PAIRS and node.dtype == FLOAT32 and mode == "exact":
        return round_pairs_correctly(name)
    function: np.ufunc = getattr(np, name)
    if len(node.args) == 1 and node.dtype == FLOAT32 and mode == "exact":
        return round_correctly(name, function)
    return function


def _rsqrt(x: A, out: A) -> None:
    np.sqrt(x, out)
    np.divide(x.dtype.type(1), out, out)


# Own float64 functions: their programs, run over pieces that stay in cache.
#
# The calls of a piece are prepared once for each thread, on memory that all functions share. The few elements whose
# value does not hold are computed anew by the second program, together.

PIECE = 16384
"""Elements of a piece: with fewer, calls take longer than the arithmetic; more do not fit the cache."""


class _Piece:
    """A program as calls on arrays of this thread; its operands are set, and its results read, between two runs."""

    def __init__(self, program: Program, size: int) -> None:
        self._size = size
        self._count = 0
        self._free: dict[int, list[int]] = {8: [], 1: []}
        self._held: dict[int, int] = {}
        self._calls: list[tuple[Operation, list[A]]] = []
        last = {id(each): place for place, node in enumerate(program.nodes) for each in (node, *node.args)}
        last |= {id(store.value): len(program.nodes) for store in program.stores}
        reads = [param for number, param in enumerate(program.params) if number not in program.writes]
        self.operands = [self._memory(self._number(8), param.dtype) for param in reads]
        values: dict[int, A] = {}
        for place, node in enumerate(program.nodes):
            values[id(node)] = self._add(node, values, [each for each in node.args if last[id(each)] == place])
        self.results = [values[id(store.value)] for store in program.stores]

    def run(self) -> None:
        for function, arrays in self._calls:
            function(*arrays)

    def _add(self, node: Node, values: dict[int, A], dying: list[Node]) -> A:
        if node.op == "const":
            return np.array(node.attr)
        if node.op == "load":
            return self.operands[int(node.attr)]
        args = [values[id(each)] for each in node.args]
        function, may_overwrite = operation(node, "exact")
        if not any(each.ndim for each in args):
            out = np.empty((), node.dtype)
            function(*args, out)
            return out
        if node.op == "bitcast" and dying and id(dying[0]) in self._held:
            self._held[id(node)] = self._held.pop(id(dying[0]))
            return args[0].view(node.dtype)
        if may_overwrite:
            self._release(dying)
        number = self._held[id(node)] = self._number(node.dtype.itemsize)
        self._release(dying)
        out = self._memory(number, node.dtype)
        self._calls.append((function, [*args, out]))
        return out

    def _number(self, width: int) -> int:
        free = self._free[width]
        if not free:
            free.append(self._count)
            self._count += 1
        return free.pop()

    def _release(self, nodes: list[Node]) -> None:
        for each in nodes:
            if id(each) in self._held:
                self._free[each.dtype.itemsize].append(self._held.pop(id(each)))

    def _memory(self, number: int, dtype: DType) -> A:
        kept: list[A] = _pieces.__dict__.setdefault("memory", [])
        while len(kept) <= number:
            kept.append(np.empty(PIECE))
        whole: A = kept[number].view(dtype)
        return whole[: self._size]


_pieces = threading.local()


def _piece(program: Program, size: int) -> _Piece:
    """The calls for at least ``size`` elements; what is behind them is of no account."""
    known: dict[tuple[int, int], _Piece] = _pieces.__dict__.setdefault("known", {})
    size = max(16, 1 << (size - 1).bit_length())
    found = known.get((id(program), size))
    if found is None:
        found = known[id(program), size] = _Piece(program, size)
    return found


@functools.cache
def own_function(name: str) -> Operation:
    """``function(*operands, out)``; the output is none of the operands."""
    programs = float64_function(name)

    def compute(*operands_and_out: A) -> None:
        *operands, out = operands_and_out
        flat = [np.broadcast_to(each, out.shape).reshape(-1) for each in operands]
        target = out.reshape(-1) if out.flags.c_contiguous else np.empty(out.size)
        for start in range(0, target.size, PIECE):
            given, found = [each[start : start + PIECE] for each in flat], target[start : start + PIECE]
            holds = _run_piece(programs.common, given, found)
            if not holds.all():
                places = np.flatnonzero(~holds)
                again = np.empty(places.size)
                _run_piece(programs.rare, [each[places] for each in given], again)
                found[places] = again
        if not out.flags.c_contiguous:
            out[...] = target.reshape(out.shape)

    return compute


def _run_piece(program: Program, given: list[A], out: A) -> A:
    """Compute the first result of a program; returns the last one."""
    piece, size = _piece(program, out.size), out.size
    for to, each in zip(piece.operands, given, strict=True):
        to[:size] = each
    piece.run()
    out[:] = piece.results[0][:size]
    found = piece.results[-1]
    return found[:size] if found.ndim else np.broadcast_to(found, out.shape)


@functools.cache
def _lookup(column: Column) -> Operation:
    values = np.array(column.values, column.dtype)

    def take(row: A, out: A) -> None:
        values.take(row.view(np.int64), out=out, mode="clip")  # any other mode copies the result

    return take


# --- choosing


def _min(x: A, y: A, out: A) -> None:
    np.minimum(x, y, out=out)


def _max(x: A, y: A, out: A) -> None:
    np.maximum(x, y, out=out)


def _float_min(x: A, y: A, out: A) -> None:
    np.minimum(x, y, out=out)
    _order_zeros(x, y, out, np.bitwise_or)


def _float_max(x: A, y: A, out: A) -> None:
    np.maximum(x, y, out=out)
    for each in (x, y):
        if each.ndim == 0 and each == 0 and not np.signbit(each):
            np.add(out, each, out)  # -0 + +0 is +0; any other value stays
            return
    _order_zeros(x, y, out, np.bitwise_and)


def _order_zeros(x: A, y: A, out: A, sign: np.ufunc) -> None:
    """Set the zeros' signs, of which NumPy takes either: ``sign`` combines the operands' sign bits."""
    for each in (x, y):
        if each.ndim == 0 and each != 0:
            return
    if np.all(out):
        return
    where = np.equal(x, y, out=scratch(out, BOOL, "zeros"))
    bits = np.dtype(f"u{out.dtype.itemsize}")
    zeros = np.equal(out, 0) & where
    x, y = np.broadcast_to(x, out.shape), np.broadcast_to(y, out.shape)
    out[zeros] = sign(x[zeros].view(bits), y[zeros].view(bits)).view(out.dtype)


_BLENDED_FROM = 1024
_RARE = 32


def _select(condition: A, yes: A, no: A, out: A) -> None:
    size = condition.size
    if size >= _BLENDED_FROM:
        count = int(np.count_nonzero(condition))
        if size < _RARE * count < (_RARE - 1) * size:
            _blend(condition, yes, no, out)
            return
    np.copyto(out, no)
    np.copyto(out, yes, where=condition)


def _blend(condition: A, yes: A, no: A, out: A) -> None:
    """``no ^ (no ^ yes) & mask``; a masked copy would mispredict its branch for every other element."""
    bits = np.dtype(f"i{out.dtype.itemsize}")
    mask = np.negative(condition.view(np.int8), scratch(out, bits, "mask"))
    yes, no, out = yes.view(bits), no.view(bits), out.view(bits)
    np.bitwise_xor(no, yes, out)
    np.bitwise_and(out, mask, out)
    np.bitwise_xor(out, no, out)


# --- conversions


def _cast(source: DType, target: DType) -> Operation:
    if target == BOOL:
        return lambda x, out: np.not_equal(x, 0, out)
    if is_float(source) and is_integer(target):
        return _saturate
    if is_integer(source) and target == np.float16:
        return _integer_to_half
    return _copy


def _copy(x: A, out: A) -> None:
    np.copyto(out, x, casting="unsafe")


def _integer_to_half(x: A, out: A) -> None:
    """Convert through float32, as defined; NumPy's own conversions differ between integer widths."""
    wide = scratch(out, FLOAT32, "half")
    np.copyto(wide, x, casting="unsafe")
    np.copyto(out, wide, casting="unsafe")


def _saturate(x: A, out: A) -> None:
    """Convert towards zero; a value out of range saturates, NaN gives 0. C leaves both undefined, and CPUs differ."""
    info = np.iinfo(out.dtype)
    if out.dtype.itemsize < 4 or (out.dtype.itemsize == 4 and x.dtype == FLOAT64):
        wide = scratch(out, FLOAT64, "saturate")
        np.copyto(wide, x)
        np.clip(wide, info.min, info.max, out=wide)
        np.copyto(wide, 0.0, where=np.isnan(wide))
        np.copyto(out, wide, casting="unsafe")
        return
    low, high = x.dtype.type(info.min), x.dtype.type(2.0 ** (info.bits - (out.dtype.kind == "i")))
    with np.errstate(all="ignore"):
        inside = np.logical_and(np.greater_equal(x, low), np.less(x, high))
        np.copyto(out, 0)
        np.copyto(out, x, where=inside, casting="unsafe")
        np.copyto(out, info.max, where=np.greater_equal(x, high))
        np.copyto(out, info.min, where=np.less(x, low))


def _bitcast(x: A, out: A) -> None:
    whole = x if x.ndim == 0 or x.flags.c_contiguous else np.ascontiguousarray(x)
    np.copyto(out, whole.view(out.dtype))


def _narrow(x: A, out: A) -> None:
    bfloat16 = find_dtype("bfloat16")
    assert bfloat16 is not None
    np.copyto(out.view(bfloat16), x, casting="unsafe")


def _complex(real: A, imag: A, out: A) -> None:
    out.real[...] = real
    out.imag[...] = imag


def _real(x: A, out: A) -> None:
    np.copyto(out, x.real)


def _imag(x: A, out: A) -> None:
    np.copyto(out, x.imag)


# --- integers


def _truncate_quotient(x: A, y: A, out: A) -> None:
    rest = scratch(out, out.dtype, "rest")
    np.fmod(x, y, rest)
    np.subtract(x, rest, rest)
    np.floor_divide(rest, y, out)


_OTHERS: dict[str, Operation] = {
    "select": _select, "bitcast": _bitcast, "narrow": _narrow, "complex": _complex, "real": _real, "imag": _imag,
    "idiv": _truncate_quotient, "fma": fma,
}  # fmt: skip


# Folds constants: the value of a node that depends on constants alone, as the reference engine computes it.

_UNKNOWN = frozenset({"const", "gather", "loop", "update", "fact"})
"""The operations whose operands say nothing about their value."""


def constant_value(node: Node, known: dict[int, np.generic | None]) -> np.generic | None:
    """The value of a node that depends on constants alone; None for any other.

    Args:
        node: The node.
        known: The answers so far, by node identity, so that a shared node is computed once.
    """
    stack = [node]
    while stack:
        each = stack[-1]
        if id(each) in known:
            stack.pop()
            continue
        waiting = [] if each.op in _UNKNOWN else [arg for arg in each.args if id(arg) not in known]
        if waiting:
            stack += waiting
        else:
            known[id(each)] = _fold(each, [known[id(arg)] for arg in each.args if each.op not in _UNKNOWN])
            stack.pop()
    return known[id(node)]


def _fold(node: Node, operands: list[np.generic | None]) -> np.generic | None:
    if node.op == "const":
        value: np.generic = node.attr
        return value
    if not operands or any(each is None for each in operands):
        return None
    return _apply(node, operands, "exact")


def compute_stored_value(program: Program) -> np.generic:
    """The value that a program stores in a call of one element; its output is its only parameter."""
    program = expand(program)
    known: dict[int, Any] = {}
    for node in program.nodes:
        if node.op in ("const", "index", "size"):
            known[id(node)] = node.attr if node.op == "const" else INT64.type(node.op == "size")
        else:
            known[id(node)] = _apply(node, [known[id(each)] for each in node.args], program.math)
    (store,) = program.stores
    found: np.generic = known[id(store.value)]
    return found


def _apply(node: Node, operands: list[Any], math: str) -> np.generic:
    out = np.empty((), node.dtype)
    with np.errstate(all="ignore"):
        operation(node, math)[0](*map(np.asarray, operands), out)
    result: Any = out[()]
    return result  # type: ignore[no-any-return]
