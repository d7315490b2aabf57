"""bfloat16 and float8 in programs: float32 to compute with, integers of their bits to every engine.

A node may have the dtype of a small float where nothing is computed: where it is read, chosen, converted or written.
`Builder.op` and the formulas compute in float32, and round each result once. `store_bits` puts integers in the place of
such nodes, and integer operations in that of conversions, before an engine sees the program: so the bits are the same
on each, and no engine knows of these dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xferlib._core.dtypes import SmallFloat, refuse_saturation, small_float
from xferlib.kernels.ir import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT16,
    UINT32,
    Builder,
    DType,
    LoopBody,
    Node,
    Program,
    ReductionSpec,
    is_integer,
)

_INFINITY, _NAN, _FRACTION, _BIAS = 0x7F800000, 0x7FC00000, 23, 127
"""Bits of float32."""


def storage(dtype: DType) -> DType:
    """The dtype that engines see: of a small float, the integer of its bits."""
    return dtype if small_float(dtype) is None else np.dtype(f"u{dtype.itemsize}")


def view_bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A host array of small floats as integers, over its memory; any other is itself."""
    return array if small_float(array.dtype) is None else array.view(f"u{array.dtype.itemsize}")


# Both ways between the bits, as uint32, and float32. The same as `narrow` and `widen` of `_native/staging/elements.h`,
# where the reasons are; tests compare them for every number.


class _Words:
    """Operations on words of 32 bits."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def of(self, value: int) -> Node:
        return self.b.const(value, UINT32)

    def __call__(self, op: str, x: Node, y: Node | int) -> Node:
        return self.b.op(op, x, self.of(y) if isinstance(y, int) else y)

    def choose(self, condition: Node, yes: Node | int, no: Node | int) -> Node:
        return self.b.select(condition, *(self.of(each) if isinstance(each, int) else each for each in (yes, no)))


def narrow(b: Builder, x: Node, form: SmallFloat) -> Node:
    """The bits of a float32, rounded to a float8 to nearest, ties to even; uint32."""
    w, width, drop = _Words(b), 8 * form.itemsize, _FRACTION - form.fraction
    whole = b.bitcast(x, UINT32)
    bits = w("and", whole, 0x7FFFFFFF)
    sign = w("and", w("shr", whole, 32 - width), 1 << (width - 1))
    last = w("and", w("shr", bits, drop), 1)
    half = (1 << (drop - 1)) - 1 - ((_BIAS - form.bias) << _FRACTION)
    code = w("shr", w("add", w("add", bits, half & 0xFFFFFFFF), last), drop)
    large = (_BIAS + 24 - form.bias - form.fraction) << _FRACTION
    raised = b.op("add", b.bitcast(bits, FLOAT32), b.bitcast(w.of(large), FLOAT32))
    subnormal = w("sub", b.bitcast(raised, UINT32), large)
    code = w.choose(w("lt", bits, (_BIAS + 1 - form.bias) << _FRACTION), subnormal, code)
    code = w.choose(w("gt", code, form.most), form.beyond, code)
    code = w.choose(w("gt", bits, _INFINITY), form.nan, code)
    found = w("or", sign, code)
    return w.choose(w("eq", code, 0), 0, found) if form.is_unsigned_zero else found


def widen(b: Builder, code: Node, form: SmallFloat) -> Node:
    """The float32 of these bits, uint32."""
    w, width, drop = _Words(b), 8 * form.itemsize, _FRACTION - form.fraction
    if form.bias == _BIAS:
        return b.bitcast(w("shl", code, drop), FLOAT32)
    size = w("and", code, (1 << (width - 1)) - 1)
    sign = w("shl", w("and", code, 1 << (width - 1)), 32 - width)
    unit = b.bitcast(w.of((_BIAS + 1 - form.bias - form.fraction) << _FRACTION), FLOAT32)
    subnormal = b.bitcast(b.op("mul", b.cast(size, FLOAT32), unit), UINT32)
    normal = w("add", w("shl", size, drop), (_BIAS - form.bias) << _FRACTION)
    bits = w.choose(w("lt", size, 1 << form.fraction), subnormal, normal)
    bits = w.choose(w("gt", size, form.most), _NAN, bits)
    if form.beyond != form.nan:
        bits = w.choose(w("eq", size, form.beyond), _INFINITY, bits)
    if form.is_unsigned_zero:
        bits = w.choose(w("eq", code, form.nan), _NAN, bits)
    return b.bitcast(w("or", bits, sign), FLOAT32)


def saturate(b: Builder, x: Node, dtype: DType) -> Node:
    """``x`` converted to a float8, between its finite limits.

    Raises:
        UnsupportedDTypeError: The dtype is none of float8.
    """
    refuse_saturation(dtype)
    return b.cast(b.saturate(x, dtype), dtype)


def find_bfloat16_bits(x: Node) -> Node | None:
    """The bits of the bfloat16 of which a float32 is made, in a program of `store_bits`; None of any other."""
    if x.op != "bitcast" or x.dtype != FLOAT32 or x.args[0].op != "shl":
        return None
    code, count = x.args[0].args
    is_half = code.op == "cast" and code.args[0].dtype == UINT16
    return code.args[0] if is_half and count.op == "const" and int(count.attr) == 16 else None


def _round_to_odd(b: Builder, x: Node) -> Node:
    """A real number as float32, from which rounding once more gives what rounding once does."""
    if x.dtype == BOOL or x.dtype.itemsize < 4 or x.dtype == FLOAT32:
        return b.cast(x, FLOAT32)
    if is_integer(x.dtype):
        x = b.cast(_fit_double(b, x) if x.dtype.itemsize == 8 else x, FLOAT64)
    near = b.cast(x, FLOAT32)
    back = b.cast(near, FLOAT64)
    one, zero = b.const(1, INT32), b.const(0, INT32)
    is_above = b.op("gt", b.op("abs", back), b.op("abs", x))
    is_inexact = b.op("and", b.op("ne", back, x), b.op("eq", x, x))
    bits = b.bitcast(near, INT32)
    odd = b.op("or", b.op("sub", bits, b.select(is_above, one, zero)), one)
    return b.bitcast(b.select(is_inexact, odd, bits), FLOAT32)


def _fit_double(b: Builder, x: Node) -> Node:
    """An integer of 64 bits; of one that a double does not hold, the lowest become 1 bit that tells of them."""
    is_wide = b.op("gt", b.op("abs", x) if x.dtype == INT64 else x, b.const(1 << 53, x.dtype))
    if x.dtype == INT64:  # the least is its own absolute value
        is_wide = b.op("or", is_wide, b.op("eq", x, b.const(-(1 << 63), INT64)))
    low = b.const(0x7FF, x.dtype)
    rest, zero = b.op("and", x, low), b.const(0, x.dtype)
    sticky = b.select(b.op("ne", rest, zero), b.const(0x800, x.dtype), zero)
    return b.select(is_wide, b.op("or", b.op("and", x, b.op("not", low)), sticky), x)


_OF_SIGNS = {"abs": ("and", 0x7FFF), "neg": ("xor", 0x8000)}
"""Changes of the sign of a bfloat16, which need no conversions: those take longer than all else in short kernels."""


def _to_bits(b: Builder, x: Node, dtype: DType) -> Node:
    form = small_float(dtype)
    assert form is not None
    if form.bias == _BIAS:
        code = find_bfloat16_bits(x.args[0]) if x.op in _OF_SIGNS else None
        if code is not None:
            op, mask = _OF_SIGNS[x.op]
            return b.op(op, code, b.const(mask, UINT16))
        return b.emit("narrow", UINT16, (_round_to_odd(b, x),))
    return b.cast(narrow(b, _round_to_odd(b, x), form), storage(dtype))


def _of_bits(b: Builder, bits: Node, dtype: DType) -> Node:
    form = small_float(dtype)
    assert form is not None
    return widen(b, b.cast(bits, UINT32), form)


class BitsPlan:
    """A plan on host memory for the program of `store_bits`: arrays of small floats are integers over their memory."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan

    @property
    def native(self) -> Any:
        """The plan of the compiled program, where that runs."""
        return self._plan.native

    def run(self, operands: Sequence[Any]) -> None:
        """Compute."""
        self._plan.run([*map(view_bits, operands)])


# --- programs

_READS = frozenset({"load", "gather", "pick", "carried", "update", "select"})
"""The operations whose value, if it is a small float, is one that is there already."""


def has_small_floats(program: Program) -> bool:
    """Whether a program has small floats."""
    dtypes = [*(param.dtype for param in program.params), *(node.dtype for node in program.nodes)]
    loops = [node.attr.program for node in program.nodes if node.op == "loop"]
    return any(small_float(each) is not None for each in dtypes) or any(map(has_small_floats, loops))


def store_bits(program: Program) -> Program:
    """The program in which small floats are integers of their bits; itself if there are none."""
    return _rebuild(program) if has_small_floats(program) else program


@functools.lru_cache(maxsize=512)
def _rebuild(program: Program) -> Program:
    b = Builder([replace(param, dtype=storage(param.dtype)) for param in program.params], math=program.math)
    made: dict[int, Node] = {}
    for node in program.nodes:
        tested = _find_tested(node)
        if tested is None:
            made[id(node)] = _lower(b, node, [made[id(each)] for each in node.args])
        else:
            made[id(node)] = _test_bits(b, made[id(tested)], tested.dtype)
    return b.program((each.move(made) for each in program.stores), [made[id(node)] for node in program.effects])


def _find_tested(node: Node) -> Node | None:
    """The small float that is compared with zero, as it is: another type may round it to zero."""
    if node.op != "ne":
        return None
    value, zero = node.args
    zero = zero.args[0] if zero.op == "cast" else zero
    if zero.op != "const" or zero.attr != 0:
        return None
    is_exact = value.op == "cast" and value.dtype in (FLOAT32, FLOAT64)
    return value.args[0] if is_exact and small_float(value.args[0].dtype) is not None else None


def _test_bits(b: Builder, bits: Node, dtype: DType) -> Node:
    """Whether a small float is not zero: its bits but for the sign, without conversion."""
    form = small_float(dtype)
    assert form is not None
    if not form.is_unsigned_zero:
        bits = b.op("and", bits, b.const((1 << 8 * form.itemsize - 1) - 1, bits.dtype))
    return b.op("ne", bits, b.const(0, bits.dtype))


def _lower(b: Builder, node: Node, args: Sequence[Node]) -> Node:
    own = storage(node.dtype)
    if node.op == "loop":
        body: LoopBody = node.attr
        return b.emit("loop", own, tuple(args), replace(body, program=store_bits(body.program)))
    if node.op == "cast":
        given = node.args[0].dtype
        value = args[0] if small_float(given) is None else _of_bits(b, args[0], given)
        return b.cast(value, own) if own is node.dtype else _to_bits(b, value, node.dtype)
    if own is node.dtype and not any(small_float(each.dtype) for each in node.args):
        return b.emit(node.op, own, tuple(args), node.attr)
    if node.op == "const":
        return b.const(view_bits(np.asarray(node.attr))[()], own)
    if node.op == "bitcast":
        return b.bitcast(args[0], own)
    assert node.op in _READS, node.op
    return b.emit(node.op, own, tuple(args), node.attr)


def store_bits_of(spec: ReductionSpec) -> ReductionSpec:
    """Store the bits likewise in a reduction, whose accumulators are no small floats."""
    programs = store_bits(spec.map_program), store_bits(spec.post)
    if programs == (spec.map_program, spec.post):
        return spec
    # NumPy's own reduction would take the bits for numbers.
    return replace(spec, map_program=programs[0], post=programs[1], shortcut=None)
