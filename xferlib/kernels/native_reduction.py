"""Reductions on a CPU by compiled C, in the order that `xferlib.kernels.ir` fixes.

Adding one element after the other leaves a processor waiting for each sum. The tree of neighbours in pairs has the
vectors that it wants: four neighbours at a time are mapped and combined, and what they give is halved level by level,
each level by one loop. Whole blocks are the digits of a binary counter, so that an element count needs no memory of
its own. Where the order shows in no bit, elements go to lanes instead, which are halved once, and axes are walked as
they lie in memory. Where results are adjacent in memory, and not their elements, the loops go over results.

One text serves every shape and layout of a reduction: extents and strides are arguments.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xferlib import _native
from xferlib._runtime import threads
from xferlib._runtime.threads import helper_count, most_threads
from xferlib.kernels import host_compiler, native_engine, native_source
from xferlib.kernels.c_text import Writer, c_type, storage_type, to_memory, to_register
from xferlib.kernels.ir import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    Builder,
    CallLayout,
    DType,
    Node,
    Param,
    Program,
    ReductionSpec,
    bodies,
    build_reduction,
    is_complex,
    is_float,
    is_integer,
    is_order_free,
    part_dtype,
)
from xferlib.kernels.native_functions import expand, read_sections

A = np.ndarray[Any, Any]

ENTRY = "xf_fold"
CHUNK = 1024
"""Elements that are mapped together."""
_BRANCH = 4
"""Chunks whose nodes are joined at a time, and such groups of chunks, where vectors do no more than two levels."""
_VECTORS = 16
"""Vectors that become one, whose elements are the nodes of as many elements."""
LANES_NBYTES, WIDENED_NBYTES, MOST_LANES = 64, 256, 128
"""Of accumulators that take every so manieth element; of those with more bytes than an element."""
TILE_NBYTES = 4096
"""Of accumulators of results, adjacent in memory, that are computed together: a page, of each row that is read."""
LEVELS = 40
"""Of blocks: more than memory holds."""
GROUP = 8
"""Elements that are mapped between two accesses to an accumulator."""
DECIDED, MOST_DECIDED = 64, 4096
"""Elements after which is looked whether the others can change the result: at first, then four times as many."""
SEARCHED = 1 << 14
"""Elements whose extremum is found before its place."""
SLAB = 4096
"""Elements that are brought into their order at a time, in memory on the stack."""
FEW = 2 * CHUNK
"""Elements of a few adjacent results that are combined together."""
_LANES_OF_FEW = (2, 4, 8, 16)
"""Of which the least that has room for the results is taken, where that is no more than a line of the cache."""
_HEAD = 10
"""Numbers of the geometry before the extents: see `_ReductionWriter._geometry`."""
_SIDE = 64
"""Elements of each that are combined before their nodes are stored."""
_SIDES_NBYTES = 1024
"""Of the elements, one of each row, of rows that are walked together."""
_LEAST_SIDE = 24
"""Elements of each of rows that lie side by side which are combined as vectors of the rows."""
_LEAST_RUN = 64
"""Neighbouring elements that are mapped from where they are."""
_VECTOR_NBYTES = 32
"""Of the lanes of a row; of numbers of two bytes gcc makes no vectors so wide."""
_LEAST_WHOLE = {2: (48, 32), 4: (96, 64), 8: (24, 16)}
"""Elements of a row, by their bytes, below which rows are turned: of any row, and of one that ends with a node."""
_MOST_WHOLE = 4096
"""Elements of a row that is not cut into blocks."""
_LINE_NBYTES = 64
_WORD_NBYTES = 16
"""Of the greatest elements that are brought into order as one."""
_FUNCTIONS = ("xf_columns", "xf_rows", "xf_narrow", "xf_side_by_side")
_COLUMNS, _ROWS, _NARROW, _SIDE_BY_SIDE = range(len(_FUNCTIONS))
"""The functions of a compiled reduction, as `xf_fold` numbers them."""
_MOST_ROOM = 1 << 24
"""Bytes of memory in which elements are brought into their order."""
_PER_BYTE_NS, _PER_NODE_NS, _PER_RESULT_NS = 0.03, 0.05, 20.0
"""The last of results whose elements are adjacent: of adjacent results a vector is done at once."""
_WITH_LOCK_NS = 20_000
_SHORT_ROW, _ROWS_NBYTES = 128, 1 << 14
"""Elements of rows that are turned, many together, so that results are adjacent; bytes of them."""
_FEW, _MANY = 32, 128
"""Elements of a result that are too few for a loop of their own; too many to walk along several axes of results."""
_LEAST_PART = 1 << 14
"""Elements that are worth a part of their own."""
_IN_PLACE = 1 << 62
"""The stride of an axis along which elements are the same."""
_MOST_ARRAYS = 32
"""Inputs of a compiled reduction."""
_MOST_NUMBERED = 1 << 31
"""Elements whose numbers C counts in 32 bits."""


def find_uncovered(programs: Sequence[Program]) -> str:
    """Why a reduction has no C text, which computes elements that are loaded by position; empty if it has one."""
    for node in [node for program in programs for each in bodies(program) for node in each.nodes]:
        if node.op in ("loop", "update", "gather", "length", "fact"):
            return f"its text has the operation {node.op}"
    return ""


def support_text(programs: Sequence[Program]) -> str:
    """The C functions that programs need."""
    parts = dict.fromkeys(part for program in programs for part in native_source.list_parts(program))
    calls = sorted({name for program in programs for name in native_source.list_functions(program)})
    none = "long long xf_none = 0;\n"  # of another library it could have another value, for all that a compiler knows
    return "".join([native_source.section("prelude"), *parts, native_source.function_text(calls), none])


# What accumulators are in C: not always the values of the specification, but what vectors combine faster.


def evaluate(program: Program, loads: dict[int, str], others: dict[str, str]) -> tuple[str, list[str]]:
    """The statements of a program and the names of its results."""
    names: dict[int, str] = {}
    leaf = lambda node: loads[node.attr] if node.op == "load" else others[node.op]
    nothing = lambda *_: ""
    writer = Writer(leaf, nothing, nothing, program.math, native_source.careful_for(program))
    lines = writer.statements(program.nodes, names, "v")
    return " ".join(line.strip() for line in lines), [names[id(store.value)] for store in program.stores]


class _Values:
    """Accumulators as they are specified."""

    text = ""
    is_decided = ""
    """Whether an accumulator ``{}`` is one that no element changes; empty if there is none."""

    def __init__(self, spec: ReductionSpec) -> None:
        self.combine_program = expand(spec.combine)
        self.dtypes = spec.accumulators
        self.types = [c_type(dtype) for dtype in spec.accumulators]

    def enter(self, values: list[str], _number: str = "") -> list[str]:
        """The accumulators of mapped values; ``_number`` is the element's."""
        return values

    def enter_raw(self, stored: str, number: str) -> list[str]:
        """The accumulators of an element that is mapped to itself, as it is stored."""
        return self.enter([to_register(stored, self.dtypes[0])], number)

    def combine(self, x: list[str], y: list[str], *, is_in_order: bool) -> tuple[str, list[str]]:
        """Statements and results; out of order, where the elements of ``x`` need not precede those of ``y``."""
        return evaluate(self.combine_program, dict(enumerate(x + y)), {})

    def leave(self, accumulators: list[str]) -> list[str]:
        """The values of the specification."""
        return accumulators

    def neutral(self) -> list[str]:
        """Accumulators that change none, of a combination whose order shows in no bit."""
        value, dtype = self.combine_program.stores[0].value, self.dtypes[0]
        lowest, highest = (0, 1) if dtype == BOOL else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        found = {"max": lowest, "min": highest, "mul": 1, "and": 1 if dtype == BOOL else -1}.get(value.op, 0)
        return [f"({self.types[0]}){found % (1 << 64)}ULL"]


_KEYS = {1: ("signed char", 0), 2: ("short", 0x7C00), 4: ("int", 0x7F800000), 8: ("long long", 0x7FF0000000000000)}
"""By the size of a float: the integer of that size, and the bits of infinity."""


_BACK = {
    2: "xf_from_half((unsigned short)k)",
    4: "__int_as_float((unsigned int)k)",
    8: "__longlong_as_double(k)",
}  # fmt: skip
"""By the size of a float: the value whose bits are ``k``."""


def _bits_of(value: str, dtype: DType) -> str:
    """The bits of a float in a register, as a signed integer."""
    bits = {2: "(short)xf_to_half({})", 4: "(int)__float_as_uint({})", 8: "__double_as_longlong({})"}
    return bits[dtype.itemsize].format(value)


class _Keys:
    """Floats as integers of their order, in which -0 is below 0, and NaN beyond all numbers, where it is found.

    The bits of a negative float but for its sign are turned over, which also leads back.
    """

    def __init__(self, dtype: DType, op: str) -> None:
        self.dtype = dtype
        kind, infinity = _KEYS[dtype.itemsize]
        self.kind = kind
        bits = 8 * dtype.itemsize
        most = f"({kind}){(1 << bits - 1) - 1}LL"
        nan = most if op == "max" else f"({kind})(-{most} - 1)"
        quiet = infinity | (infinity & -infinity) >> 1
        self.text = (
            f"static inline {kind} xf_key({kind} k) {{ const {kind} a = ({kind})(k & {most}); "
            f"k = ({kind})(k ^ (k >> {bits - 1} & {most})); return a > {infinity}LL ? {nan} : k; }}\n"
            f"static inline {c_type(dtype)} xf_of_key({kind} k) {{ "
            f"k = k == {nan} ? ({kind}){quiet}LL : ({kind})(k ^ (k >> {bits - 1} & {most})); "
            f"return {_BACK[dtype.itemsize]}; }}\n"
        )

    def enter(self, value: str) -> str:
        return f"xf_key({_bits_of(value, self.dtype)})"

    def enter_raw(self, stored: str) -> str:
        return f"xf_key((short){stored})" if self.dtype == FLOAT16 else self.enter(stored)


class _Extremum(_Values):
    """The least or greatest float, with -0 below 0, and NaN if there is one.

    The greatest of the bits as signed integers, and the least and greatest as unsigned ones, tell it: each is one
    instruction of vectors, and takes elements as they are.
    """

    def __init__(self, spec: ReductionSpec, op: str) -> None:
        super().__init__(spec)
        self.dtype = spec.accumulators[0]
        kind, infinity = _KEYS[self.dtype.itemsize]
        bare, bits = kind.removeprefix("signed "), 8 * self.dtype.itemsize
        self.types = [kind, f"unsigned {bare}", f"unsigned {bare}"]
        quiet, sign = infinity | (infinity & -infinity) >> 1, 1 << bits - 1
        found = "most >= 0 ? most : (K)least" if op == "max" else f"last >= {sign}ULL ? (K)last : (K)least"
        self.text = (
            f"static inline {c_type(self.dtype)} xf_of_bits({kind} most, unsigned {bare} least, unsigned {bare} last) "
            f"{{ typedef {kind} K; const int is_nan = most > {infinity}LL || last > {sign | infinity}ULL; "
            f"const K k = is_nan ? (K){quiet}LL : {found}; "
            f"return {_BACK[self.dtype.itemsize]}; }}\n"
        )

    def enter(self, values: list[str], _number: str = "") -> list[str]:
        return [f"({kind}){_bits_of(values[0], self.dtype)}" for kind in self.types]

    def enter_raw(self, stored: str, number: str) -> list[str]:
        return [f"({kind}){stored}" for kind in self.types] if self.dtype == FLOAT16 else self.enter([stored], number)

    def combine(self, x: list[str], y: list[str], *, is_in_order: bool) -> tuple[str, list[str]]:
        return "", [f"({one} {sign} {two} ? {one} : {two})" for one, sign, two in zip(x, "><>", y, strict=True)]

    def leave(self, accumulators: list[str]) -> list[str]:
        return [f"xf_of_bits({', '.join(accumulators)})"]

    def neutral(self) -> list[str]:
        return [f"({self.types[0]})(1ULL << {8 * self.dtype.itemsize - 1})", f"({self.types[1]})~0ULL", "0"]


class _WideExtremum(_Extremum):
    """The least or greatest float64, whose bits processors compare at half the speed of the numbers.

    Beside the number that comparing finds, the sum of all sizes tells whether one is NaN, and all bits whether one has
    the sign of the zero that precedes, which only matters where all others lie on the other side of it.
    """

    def __init__(self, spec: ReductionSpec, op: str) -> None:
        super().__init__(spec, op)
        self._signs = ("<", "|") if op == "min" else (">", "&")
        self.types = ["double", "double", "unsigned long long"]
        self.text = (
            "static inline double xf_of_bits(double found, double sizes, unsigned long long bits) {\n"
            f"  if (sizes != sizes) return __longlong_as_double({0x7FF8 << 48}LL);\n"
            f"  return found == 0 ? __longlong_as_double(bits & {1 << 63}ULL) : found;\n}}\n"
        )

    def enter(self, values: list[str], _number: str = "") -> list[str]:
        return [values[0], f"__builtin_fabs({values[0]})", f"(unsigned long long){_bits_of(values[0], FLOAT64)}"]

    def combine(self, x: list[str], y: list[str], *, is_in_order: bool) -> tuple[str, list[str]]:
        better, both = self._signs
        return "", [f"({x[0]} {better} {y[0]} ? {x[0]} : {y[0]})", f"({x[1]} + {y[1]})", f"({x[2]} {both} {y[2]})"]

    def neutral(self) -> list[str]:
        return ["__builtin_inf()", "0", "0"] if self._signs[0] == "<" else ["-__builtin_inf()", "0", "~0ULL"]


class _Small(_Values):
    """The sum or product of small integers: of few of them in fewer bits, of which a vector holds more."""

    def __init__(self, spec: ReductionSpec, dtype: DType, op: str) -> None:
        super().__init__(spec)
        self._sign = _SIGNS[op]
        self.near_types: list[str]
        """Of the combination of 1, 2, 4 and 8 elements."""
        sign = "" if dtype.kind == "i" else "unsigned "
        if dtype == BOOL:
            self.near_types = ["unsigned char"] * 4
        elif op == "add":
            self.near_types = ["short" if dtype.itemsize == 1 else "int"] * 4
        else:  # of twice as many elements in twice the bits
            sizes = [max(2, min(8, dtype.itemsize << level)) for level in range(4)]
            self.near_types = [sign + {2: "short", 4: "int", 8: "long long"}[size] for size in sizes]

    def combine(self, x: list[str], y: list[str], *, is_in_order: bool) -> tuple[str, list[str]]:
        return "", [f"({x[0]} {self._sign} {y[0]})"]

    def neutral(self) -> list[str]:
        return ["0" if self._sign == "+" else "1"]

    def combine_near(self, count: int) -> str:
        """Combine ``n0_0``, ``n0_1`` and so on to ``v0_0``."""
        lines, levels = [], count.bit_length() - 1
        for level in range(levels):
            kind, step = self.near_types[level + 1], 1 << level
            lines += [
                f"const {kind} n{level + 1}_{j} = ({kind})n{level}_{j} {self._sign} ({kind})n{level}_{j + step};"
                for j in range(0, count, 2 * step)
            ]
        return f"{' '.join(lines)} v0_0 = n{levels}_0;"


class _First(_Values):
    """The first of the least or greatest values, and its number, in 32 bits where the value has no more."""

    def __init__(self, spec: ReductionSpec) -> None:
        super().__init__(spec)
        self.sign = ">" if spec.chooses == "max" else "<"
        self._keys = _Keys(self.dtypes[0], spec.chooses) if is_float(self.dtypes[0]) else None
        kind = self._keys.kind if self._keys else storage_type(self.dtypes[0])
        self.types = [kind, "long long" if self.dtypes[0].itemsize == 8 else "int"]
        if self._keys:  # -0 is as great as 0
            self.text = (
                f"{self._keys.text}static inline {kind} xf_same_zero({kind} k) {{ return ({kind})(k + (k < 0)); }}\n"
            )

    def enter(self, values: list[str], number: str = "") -> list[str]:
        key = f"xf_same_zero({self._keys.enter(values[0])})" if self._keys else values[0]
        return [key, f"({self.types[1]})({number or values[-1]})"]

    def enter_raw(self, stored: str, number: str) -> list[str]:
        key = f"xf_same_zero({self._keys.enter_raw(stored)})" if self._keys else stored
        return [key, f"({self.types[1]})({number})"]

    def combine(self, x: list[str], y: list[str], *, is_in_order: bool) -> tuple[str, list[str]]:
        better = f"{y[0]} {self.sign} {x[0]}"
        if not is_in_order:
            better = f"({better}) | (({y[0]} == {x[0]}) & ({y[1]} < {x[1]}))"
        return f"const int better = {better};", [f"(better ? {two} : {one})" for one, two in zip(x, y, strict=True)]

    # While a row is searched, a float of 32 or 64 bits is compared as what it is: that takes fewer operations.

    @property
    def is_compared(self) -> bool:
        return self._keys is not None and self.dtypes[0] != FLOAT16

    @property
    def value_type(self) -> str:
        return c_type(self.dtypes[0]) if self.is_compared else self.types[0]

    @property
    def furthest(self) -> str:
        """The value that no other exceeds, of a dtype so small that a row is likely to have it; empty of others."""
        dtype = self.dtypes[0]
        if self._keys or dtype.itemsize > 1:
            return ""
        is_least = self.sign == "<"
        bounds = (0, 1) if dtype == BOOL else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return str(bounds[0] if is_least else bounds[1])

    def find(self, stored: str) -> str:
        return stored if self.is_compared else self.enter_raw(stored, "0")[0]

    def enter_value(self, found: str, number: str) -> list[str]:
        return [self.enter([found])[0] if self.is_compared else found, f"({self.types[1]}){number}"]

    def leave(self, accumulators: list[str]) -> list[str]:
        key, number = accumulators
        value = f"xf_of_key(({self.types[0]})({key} - ({key} < 0)))" if self._keys else key
        return [value, f"(long long){number}"]


class _Truth(_Values):
    """Whether any or all elements differ from zero, in integers of their size."""

    def __init__(self, spec: ReductionSpec, op: str, dtype: DType) -> None:
        super().__init__(spec)
        self._dtype = dtype
        self._is_any = op == "or"
        part = part_dtype(dtype) if is_complex(dtype) else dtype
        self.types = [f"unsigned {_KEYS[part.itemsize][0].removeprefix('signed ')}"]
        self.is_decided = "{} != 0" if self._is_any else "{} == 0"

    def enter(self, values: list[str], _number: str = "") -> list[str]:
        return [f"({self.types[0]}){values[0]}"]

    def enter_raw(self, stored: str, number: str) -> list[str]:
        """Of a float all bits but the sign, and of both parts of a complex number."""
        if is_complex(self._dtype):
            part = part_dtype(self._dtype)
            both = " | ".join(f"({self.types[0]}){_bits_of(f'{stored}.{name}', part)}" for name in "xy")
            return [f"({self.types[0]})(({both}) << 1)"]
        if not is_float(self._dtype):
            return [f"({self.types[0]}){stored}"]
        bits = stored if self._dtype == FLOAT16 else _bits_of(stored, self._dtype)
        return [f"({self.types[0]})(({self.types[0]}){bits} << 1)"]

    def combine(self, x: list[str], y: list[str], *, is_in_order: bool) -> tuple[str, list[str]]:
        return "", [f"({x[0]} | {y[0]})" if self._is_any else f"({x[0]} < {y[0]} ? {x[0]} : {y[0]})"]

    def leave(self, accumulators: list[str]) -> list[str]:
        return [f"({accumulators[0]} != 0)"]

    def neutral(self) -> list[str]:
        return [f"({self.types[0]})~0ULL" if not self._is_any else "0"]


def _find_whole(program: Program, *, of_truth: bool) -> int | None:
    """The array whose elements are the first accumulator as they are, or whose truth is it."""
    value = program.stores[0].value
    if of_truth and (value := _find_tested(value)).op == "or":
        parts = [_find_tested(each) for each in value.args]
        if [each.op for each in parts] == ["real", "imag"] and parts[0].args[0] is parts[1].args[0]:
            value = parts[0].args[0]
    elif is_complex(value.dtype):
        return None
    return int(value.attr) if value.op == "load" and not program.params[value.attr].is_scalar else None


def _find_tested(value: Node) -> Node:
    """The value that is compared with zero; else the value itself."""
    is_test = value.op == "ne" and value.args[1].op == "const" and value.args[1].attr == 0
    return value.args[0] if is_test else value


def _find_small(program: Program, combine: Node) -> DType | None:
    """The dtype of the small integers that are added or multiplied; None of any others."""
    value = program.stores[0].value
    if combine.op not in _SIGNS or value.op != "cast" or value.args[0].op != "load" or value.dtype.kind not in "iu":
        return None
    found = value.args[0].dtype
    return found if found.kind in "iub" and found.itemsize < (4 if combine.op == "add" else 8) else None


_SIGNS = {"add": "+", "mul": "*"}
_LOAD = re.compile(r"xf_load\w*\([^()]*\)")
_ARITHMETIC = {**_SIGNS, "sub": "-"}
"""Operations of vectors in C."""


def _vector_text(node: Node, leaf: Callable[[Node], str]) -> str:
    """An expression of vectors, of which ``leaf`` writes what is no arithmetic; empty if it has no text."""
    if node.op not in _ARITHMETIC:
        return leaf(node)
    args = [_vector_text(each, leaf) for each in node.args]
    return f"({f' {_ARITHMETIC[node.op]} '.join(args)})" if all(args) else ""


class _Streams:
    """Sums, products and what else is arithmetic of one float type: whole groups of elements are vectors' work.

    `_VECTORS` become one, whose elements are the nodes of as many neighbours. Of some that are equally far apart, as
    many as each has elements, one is made: in each step two vectors give one, of what neighbours in both make. The
    vectors between them become others, which are combined element by element: that needs no exchange. Of a sum or a
    product either neighbour may come first, so that half of the elements are exchanged and those of the second vector
    are in the odd places.
    """

    def __init__(self, ops: list[str], combined: list[str], dtype: DType, mapped: list[str]) -> None:
        self.ops = ops
        """Of accumulators that are added or multiplied each by itself; empty of others."""
        self._combined = combined
        """The vectors that accumulators become, from those of left and right neighbours."""
        self._dtype = dtype
        self._mapped = mapped
        """The vectors that elements from number ``{at}`` on are mapped to; empty if they have no such text."""
        self._arrays = sorted({*re.findall(r"\b[ehz]\d+\b", " ".join(mapped))})

    def text(self) -> str:
        size, own = self._dtype.itemsize, [f"w{k}" for k in range(len(self._combined))]
        parts = ["#define XF_NODE_2 0\n"]
        for nbytes in (16, 32):
            lanes = nbytes // size
            parts.append(f"#if XF_WIDTH == {nbytes}\n#define XF_NODE {_VECTORS}\n#define XF_UNIT {_VECTORS * lanes}\n")
            parts.append(self._types("xf", lanes))
            parts += [self._steps("xf", op, lanes) for op in sorted({*self.ops})]
            if not self.ops:
                parts.append(self._step(lanes))
            parts.append(f"XF_BEHIND({c_type(self._dtype)}, {', '.join(map(str, range(lanes)))})\n")
            parts.append(self._trees("xf_trees", lanes, [f"xf_load({each} + {{at}})" for each in own], own))
            if self._mapped:
                parts.append(self._map_vectors(lanes))
            if self.sides:
                parts.append(self._turn_nodes(lanes))
            if self.is_one and lanes > 4:  # of float64 exchanges cost more than they save
                parts.append(f"#undef XF_NODE_2\n#define XF_NODE_2 {lanes // 2}\n{self._tree(self.ops[0], lanes)}")
            parts.append("#endif\n")
        parts.append("#ifndef XF_NODE\n#define XF_NODE 0\n#endif\n#ifndef XF_MAPPED\n#define XF_MAPPED 0\n#endif\n")
        if self.ops:
            parts.append("#define XF_PADDED XF_NODE\n")
        if self.row is not None:
            parts.append(self._across(self.ops[0]))
        if self.is_one:
            parts.append(self._few())
        return "".join(parts)

    def neutral(self, k: int) -> str:
        return {"add": "-0.0", "mul": "1.0"}[self.ops[k]]

    def store_vectors(self, to: str, at: str, shift: str) -> str:
        """Store what elements from number ``at`` on are mapped to; or those from ``shift`` on, then neutral ones."""
        text = ""
        for k, each in enumerate(self._mapped):
            value = re.sub(
                r"\b([ehz]\d+)\b", lambda found: f"({self._sources([found[1]])[0]})", each.replace("{at}", f"({at})")
            )
            if shift:
                value = f"xf_behind({value}, {self.neutral_vector(k)}, {shift})"
            text += f"*(xf_any *)({to.format(k)}) = {value}; "
        return text

    def pad(self, name: str, start: str, end: str) -> str:
        """Let the elements of ``name`` that are behind those of a level be such that each of these stays what it is."""
        set_all = " ".join(f"{name.format(k)}[i] = {self.neutral(k)};" for k in range(len(self.ops)))
        return f"for (long long i = {start}; i < {end}; ++i) {{ {set_all} }}"

    def neutral_vector(self, k: int) -> str:
        return f"({c_type(self._dtype)}){self.neutral(k)} - (xf_vector){{0}}"

    @property
    def is_one(self) -> bool:
        """Whether there is one accumulator, of which a few adjacent results are computed together."""
        return len(self.ops) == 1

    @property
    def most_few(self) -> int:
        return _LINE_NBYTES // self._dtype.itemsize

    def _few(self) -> str:
        """``xf_few``: the sums of ``n`` groups of ``unit`` elements, in ``to``, which has room for ``lanes``."""
        kind, sign = c_type(self._dtype), _SIGNS[self.ops[0]]
        lanes_of_few = [each for each in _LANES_OF_FEW if each <= self.most_few]
        defined = "".join(f"XF_FEW_OF({lanes}, {kind}, {sign})\n" for lanes in lanes_of_few)
        cases = " ".join(f"case {lanes}: xf_few_{lanes}(to, e, unit, n); break;" for lanes in lanes_of_few)
        return f"""#define XF_MOST_FEW {FEW}
{_section("few")}{defined}
static void xf_few({kind} *to, const {kind} *e, long long unit, long long n, long long lanes) {{
#if XF_NODE_2
  if (unit == 2 && n == {CHUNK}) {{
    {kind} v[{FEW} / XF_NODE_2];
    xf_tree_2(v, e);
    xf_few_2(to, v, 2, {CHUNK} / XF_NODE_2);
    return;
  }}
#endif
  switch (lanes) {{ {cases} }}
}}
"""

    def _types(self, prefix: str, lanes: int) -> str:
        size, kind = self._dtype.itemsize, c_type(self._dtype)
        mask, nbytes = {4: "int", 8: "long long"}[size], size * lanes
        return (
            f"typedef {kind} {prefix}_vector __attribute__((vector_size({nbytes})));\n"
            f"typedef {kind} {prefix}_any __attribute__((vector_size({nbytes}), aligned({size}), may_alias));\n"
            f"typedef {mask} {prefix}_places __attribute__((vector_size({nbytes})));\n"
            f"static inline {prefix}_vector {prefix}_load(const void *e) "
            f"{{ {prefix}_vector v = *(const {prefix}_any *)e; XF_LOADED(v); return v; }}\n"
        )

    @property
    def _near(self) -> int:
        """Elements in 16 bytes."""
        return 16 // self._dtype.itemsize

    def _steps(self, prefix: str, op: str, lanes: int) -> str:
        """The functions that make one vector of two, whose nodes are combined with those at a distance.

        One instruction takes every second element of both vectors, of 16 bytes each by itself, and one the others: that
        is done level by level until of these 16 bytes one node is left. At a greater distance what is left in place is
        combined with what is exchanged.
        """
        at, near = range(lanes), min(lanes, self._near)
        sides = [
            [(k - k % near) + 2 * k % near + lanes * (2 * (k % near) >= near) + side for k in at] for side in (0, 1)
        ]
        places, distance = {1: sides}, 2
        while distance < lanes:
            second = [lanes * (k // distance % 2) for k in at]
            places[distance] = [[k + second[k] for k in at], [(k ^ distance) + second[k] for k in at]]
            distance *= 2
        return "".join(
            f"static inline {prefix}_vector {prefix}_{op}_{distance}({prefix}_vector a, {prefix}_vector b) {{\n"
            f"  return XF_SHUFFLE({prefix}_places, a, b, {', '.join(map(str, ones))}) {_SIGNS[op]} "
            f"XF_SHUFFLE({prefix}_places, a, b, {', '.join(map(str, others))});\n}}\n"
            for distance, (ones, others) in places.items()
        )

    def _all(self, step: str, leaf: str, first: int, count: int, lanes: int, unit: int = 1) -> str:
        """One vector of ``count``: ``{}`` is the number of a ``leaf``, and of a ``step`` the distance of its nodes."""
        if count == 1:
            return leaf.replace("{}", str(first))
        half, levels = count // 2, (lanes // unit).bit_length() - 1
        both = (self._all(step, leaf, at, half, lanes, unit) for at in (first, first + half))
        distance = unit << (half.bit_length() - 1) % levels
        return f"{step.format(1 if unit == 1 and distance < self._near else distance)}({', '.join(both)})"

    def _step(self, lanes: int) -> str:
        """``xf_both``: what is combined of two vectors of each accumulator; ``xf_step``: of neighbours in both."""
        names = [f"x{k}" for k in range(len(self._combined))]
        joined = [re.sub(r"\b([lr])(\d+)\b", r"\1.x\2", each) for each in self._combined]

        def take(first: int) -> str:
            places = ", ".join(str(first + 2 * at) for at in range(lanes))
            return ", ".join(f"XF_SHUFFLE(xf_places, a.{name}, b.{name}, {places})" for name in names)

        return (
            f"typedef struct {{ xf_vector {', '.join(names)}; }} xf_nodes;\n"
            f"static inline xf_nodes xf_both(xf_nodes l, xf_nodes r) {{ return (xf_nodes){{{', '.join(joined)}}}; }}\n"
            f"static inline xf_nodes xf_step(xf_nodes a, xf_nodes b) {{\n"
            f"  return xf_both((xf_nodes){{{take(0)}}}, (xf_nodes){{{take(1)}}});\n}}\n"
        )

    def _map_vectors(self, lanes: int) -> str:
        """``xf_mapped``: the nodes of groups of elements of the inputs."""
        loads, condition, text = "", "1", " ".join(self._mapped)
        for side, name in enumerate(("even", "odd")):
            if f"xf_{name}" in text:
                places = ", ".join(str(side + 2 * at) for at in range(lanes))
                loads += (
                    f"static inline xf_vector xf_{name}(xf_vector a, xf_vector b) "
                    f"{{ return XF_SHUFFLE(xf_places, a, b, {places}); }}\n"
                )
        if "xf_load_eight" in text:
            condition = "defined(XF_EIGHT_FLOATS)" if lanes == 8 else "0"
            loads += (
                "static inline xf_vector xf_load_eight(const unsigned short *e) "
                "{ return (xf_vector)XF_EIGHT_FLOATS(e); }\n"
            )
        trees = "#define xf_mapped xf_trees\n"
        if self.row is None:
            trees = self._trees("xf_mapped", lanes, self._mapped, self._arrays)
        return f"#if {condition}\n#define XF_MAPPED 1\n{loads}{trees}{self._twice()}#endif\n"

    def _twice(self) -> str:
        """``xf_twice``: two such levels at once, while memory sends the next elements."""
        count = range(len(self._combined))
        taken = ", ".join([f"{c_type(self._dtype)} *to{k}" for k in count] + self._parameters(self._arrays))
        own = ", ".join(f"({c_type(self._dtype)} *)u{k}" for k in count)
        moved = " ".join(
            [f"to{k} += XF_UNIT / XF_NODE;" for k in count]
            + [f"{each} += XF_NODE * XF_UNIT{' * 2' if each[0] == 'z' else ''};" for each in self._arrays]
        )
        return (
            f"static void xf_twice({taken}, long long groups) {{\n"
            f"  for (; groups > 0; --groups) {{\n    xf_vector {', '.join(f'u{k}[XF_NODE]' for k in count)};\n"
            f"    xf_mapped({own}, {', '.join(self._arrays)}, XF_NODE);\n"
            f"    xf_trees({', '.join(f'to{k}' for k in count)}, {own}, 1);\n    {moved}\n  }}\n}}\n"
        )

    def _parameters(self, sources: list[str]) -> list[str]:
        kind = c_type(self._dtype)
        return [f"const {'unsigned short' if source[0] == 'h' else kind} *{source}" for source in sources]

    def _trees(self, name: str, lanes: int, vectors: list[str], sources: list[str]) -> str:
        """A function that makes the nodes of ``groups`` of elements, which ``vectors`` load from ``sources``."""
        accumulators = range(len(vectors))
        taken = [f"{c_type(self._dtype)} *to{k}" for k in accumulators] + self._parameters(sources)
        steps = [_VECTORS * lanes * (2 if source[0] == "z" else 1) for source in sources]
        moved = " ".join(f"{source} += {step};" for source, step in zip(sources, steps, strict=True))
        loads = list(dict.fromkeys(_LOAD.findall(" ".join(vectors))))
        lines: list[str] = []
        held: list[list[list[str]]] = []
        count = _VECTORS // lanes  # of results that are combined element by element

        def let(kind: str, value: str) -> str:
            lines.append(f"const {kind} n{len(lines)} = {value};")
            return f"n{len(lines) - 1}"

        def load(at: int) -> list[str]:
            names = {text: let("xf_vector", text.replace("{at}", str(at))) for text in loads}
            values = [_LOAD.sub(lambda found: names[found[0]], each) for each in vectors]
            if self.ops:
                return [let("xf_vector", value) for value in values]
            return [let("xf_nodes", f"{{{', '.join(values)}}}")]

        def combine(x: list[str], y: list[str], distance: int) -> list[str]:
            if not self.ops:
                return [let("xf_nodes", f"{'xf_step' if distance else 'xf_both'}({x[0]}, {y[0]})")]
            distance = 1 if distance < self._near and distance else distance
            forms = [f"xf_{op}_{distance}({{}}, {{}})" if distance else f"{{}} {_SIGNS[op]} {{}}" for op in self.ops]
            return [let("xf_vector", form.format(*both)) for form, *both in zip(forms, x, y, strict=True)]

        for place in range(lanes):
            made = [load((place * count + j) * lanes) for j in range(count)]
            level = 0
            while place >> level & 1:
                made = [combine(x, y, 1 << level) for x, y in zip(held.pop(), made, strict=True)]
                level += 1
            held.append(made)
        made = held[0]
        while len(made) > 1:
            made = [combine(x, y, 0) for x, y in zip(made[::2], made[1::2], strict=True)]
        results = made[0] if self.ops else [f"{made[0][0]}.x{k}" for k in accumulators]
        stored = " ".join(f"*(xf_any *)to{k} = {results[k]}; to{k} += {lanes};" for k in accumulators)
        return (
            f"static void {name}({', '.join(taken)}, long long groups) {{\n"
            f"  for (; groups > 0; --groups) {{\n    {' '.join(lines)} {moved}\n    {stored}\n  }}\n}}\n"
        )

    def _tree(self, op: str, lanes: int) -> str:
        """``xf_tree_2``: halve the pairs of a chunk, as far as vectors do."""
        node, kind = lanes // 2, c_type(self._dtype)
        loaded = " ".join(f"const xf_vector v_{at} = xf_load(e + {at * lanes});" for at in range(node))
        made = self._all(f"xf_{op}_{{}}", "v_{}", 0, node, lanes, unit=2)
        return (
            f"static void xf_tree_2({kind} *to, const {kind} *e) {{\n"
            f"  for (int i = 0; i < {CHUNK // (node * node)}; ++i, e += {node * lanes}, to += {lanes}) {{\n"
            f"    {loaded}\n    *(xf_any *)to = {made};\n  }}\n}}\n"
        )

    def _across(self, op: str) -> str:
        """``xf_across``: combine a group of neighbours of each of ``columns`` rows, which are ``step`` bytes apart."""
        kind, size = c_type(self._dtype), self._dtype.itemsize
        load = "(*(const T *)(q + {} * sizeof(T)))"

        def of(first: int, count: int) -> str:
            half = count // 2
            return f"({of(first, half)} {_SIGNS[op]} {of(first + half, half)})" if half else load.format(first)

        return (
            f"#if XF_WIDTH >= {GROUP * size}\n#define XF_ACROSS 1\n{self._types('xf8', GROUP)}"
            f"{self._steps('xf8', op, GROUP)}"
            f"static void xf_across({kind} *to, const char *q, long long step, long long columns) {{\n"
            f"  typedef {kind} T;\n  long long t = 0;\n"
            f"  for (; t + {GROUP} <= columns; t += {GROUP}, q += {GROUP} * step)\n"
            f"    *(xf8_any *)(to + t) = {self._all(f'xf8_{op}_{{}}', 'xf8_load(q + {} * step)', 0, GROUP, GROUP)};\n"
            f"  for (; t < columns; ++t, q += step) to[t] = {of(0, GROUP)};\n}}\n#endif\n"
        )

    @property
    def sides(self) -> bool:
        """Whether there is a text for rows side by side: one accumulator, of elements each of its own number."""
        return self.is_one and bool(self._mapped) and all(each[0] in "eh" for each in self._arrays)

    def _turn_nodes(self, lanes: int) -> str:
        """``xf_turn_nodes``: store `_SIDE` / 8 vectors, whose elements are nodes of rows, in memory of each row."""
        kind, half, text = c_type(self._dtype), lanes // 2, ""
        stored = [""] * lanes  # row by row: the next row replaces what is behind this one's nodes
        for first in range(0, _SIDE // 8, lanes):
            names = [f"m[{first + k}]" for k in range(lanes)]
            for level in range(lanes.bit_length() - 1):
                turned: list[str] = []
                for k in range(half):
                    for side in (0, half):
                        places = ", ".join(f"{side + i}, {side + i + lanes}" for i in range(half))
                        turned.append(f"v{first}_{level}_{len(turned)}")
                        text += (
                            f"  const xf_vector {turned[-1]} = "
                            f"XF_SHUFFLE(xf_places, {names[k]}, {names[k + half]}, {places});\n"
                        )
                names = turned
            for t, name in enumerate(names):
                stored[t] += f"  *(xf_any *)(to + (at + {t} * length) / 8 + {first}) = {name};\n"
        taken = f"{kind} *to, long long at, long long length, const xf_vector *m"
        return f"static inline void xf_turn_nodes({taken}) {{\n{text}{''.join(stored)}}}\n"

    def load_at(self, j: int, address: Callable[[int, int], str]) -> str:
        """Let ``v{j}`` be what a vector of elements is mapped to: at addresses by the array's number and ``j``."""
        kind = c_type(self._dtype)

        def load(found: re.Match[str]) -> str:
            name, source, number = found[1], found[2], int(found[3])
            return f"{name}((const {'unsigned short' if source == 'h' else kind} *)({address(number, j)}))"

        text = re.sub(r"(xf_load\w*)\(([eh])(\d+) \+ {at}\)", load, self._mapped[0])
        return f"const xf_vector v{j} = {text};"

    def store_mapped(self, name: str, loads: list[str]) -> str:
        """Let ``name`` be the first elements of these vectors."""
        return " ".join([*loads, *(f"{name}[{j}] = v{j}[0];" for j in range(len(loads)))])

    @property
    def row(self) -> int | None:
        """The array of which each element is added or multiplied as it is."""
        found = re.fullmatch(r"xf_load\(e(\d+) \+ {at}\)", self._mapped[0]) if self.is_one and self._mapped else None
        return int(found[1]) if found else None

    def take(self, *, is_mapped: bool) -> str:
        """Make the nodes of whole groups of ``m`` elements: of what is in ``w``, or of the inputs."""
        if is_mapped and not self._mapped:
            return ""
        count = len(self._combined)
        names = self._arrays if is_mapped else [f"w{k}" for k in range(count)]
        arguments = [f"a{k} + n" for k in range(count)] + self._sources(names)
        return f"""
#if {"XF_MAPPED" if is_mapped else "XF_NODE"}
        base = m - m % XF_UNIT;
        {"xf_mapped" if is_mapped else "xf_trees"}({", ".join(arguments)}, m / XF_UNIT);
#endif"""

    def take_run(self, advance: Callable[[str], str]) -> str:
        """Make the nodes of all whole chunks of a group that lie before ``e``."""
        if not self._mapped:
            return ""
        arguments = [*(f"a{k} + n" for k in range(len(self._combined))), *self._sources(self._arrays)]
        twice = [*(f"d{k} + held" for k in range(len(self._combined))), *self._sources(self._arrays)]
        return f"""
#if XF_MAPPED
      const long long chunks = (left < end - at ? left : end - at) / {CHUNK};
      if (!chunk && chunks >= XF_BRANCH) {{
        const long long some = chunks / XF_BRANCH < XF_BRANCH - group ? chunks / XF_BRANCH : XF_BRANCH - group;
        const long long taken = some * (XF_BRANCH * {CHUNK});
        xf_twice({", ".join(twice)}, taken / (XF_UNIT * XF_NODE));
        held += taken / (XF_NODE * XF_NODE);
        at += taken;
        group += some - 1;
        {advance("taken")}
        break;
      }}
      if (chunks) {{
        const long long some = chunks < XF_BRANCH - chunk ? chunks : XF_BRANCH - chunk, taken = some * {CHUNK};
        xf_mapped({", ".join(arguments)}, taken / XF_UNIT);
        n += taken / XF_NODE;
        at += taken;
        chunk += some - 1;
        {advance("taken")}
        continue;
      }}
#endif"""

    @property
    def sources(self) -> list[str]:
        """The elements that ``xf_mapped`` takes; empty if there is no such function."""
        return self._sources(self._arrays)

    def _sources(self, names: list[str]) -> list[str]:
        kind = c_type(self._dtype)
        return [f"(const {kind} *)e{each[1:]}" if each[0] == "z" else each.replace("h", "e") for each in names]


def _find_streams(map_program: Program, combine: Program) -> _Streams | None:
    values = [store.value for store in combine.stores]
    dtype, count = values[0].dtype, len(values)
    if dtype not in (FLOAT32, FLOAT64) or any(value.dtype != dtype for value in values):
        return None
    ops = []
    for k, value in enumerate(values):
        own = sorted(each.attr for each in value.args if each.op == "load")
        if value.op in _SIGNS and own == [k, count + k]:
            ops.append(value.op)
    ops = ops if len(ops) == count else []
    sides = lambda node: f"{'lr'[node.attr // count]}{node.attr % count}" if node.op == "load" else ""
    combined = [_vector_text(value, sides) for value in values]

    def load(node: Node) -> str:
        source = node.args[0] if node.args else node
        if source.op != "load" or map_program.params[source.attr].is_scalar:
            return ""
        found = {
            ("load", dtype): "xf_load(e{} + {{at}})",
            ("cast", FLOAT16): "xf_load_eight(h{} + {{at}})",
            (
                "real",
                source.dtype,
            ): "xf_even(xf_load(z{0} + 2 * {{at}}), xf_load(z{0} + 2 * {{at}} + XF_UNIT / XF_NODE))",
            (
                "imag",
                source.dtype,
            ): "xf_odd(xf_load(z{0} + 2 * {{at}}), xf_load(z{0} + 2 * {{at}} + XF_UNIT / XF_NODE))",
        }.get((node.op, source.dtype), "")
        return found.format(source.attr) if node.dtype == dtype else ""

    mapped = [_vector_text(store.value, load) for store in map_program.stores]
    return _Streams(ops, combined, dtype, mapped if all(mapped) else []) if all(combined) else None


def _split_parts(spec: ReductionSpec) -> ReductionSpec | None:
    """The reduction of either part of complex numbers whose real and imaginary parts are summed; None of any other."""
    mapped = [store.value for store in spec.map_program.stores]
    found = [store.value for store in spec.post.stores]
    is_sum = [each.op for each in mapped] == ["real", "imag"] and all(each.args[0].op == "load" for each in mapped)
    if not is_sum or spec.inputs != 1 or [each.op for each in found] != ["complex"]:
        return None
    if [store.value.op for store in spec.combine.stores] != ["add", "add"] or _find_streams(
        spec.map_program, spec.combine
    ) is None:
        return None
    copies: dict[int, Node] = {}

    def finish(b: Builder, accumulators: list[Node], in_size: Node, out_size: Node) -> list[Node]:
        leaves = [*accumulators, *accumulators, in_size, out_size]
        for node in spec.post.nodes:
            args = tuple(copies[id(each)] for each in node.args)
            copies[id(node)] = leaves[node.attr] if node.op == "load" else b.emit(node.op, node.dtype, args, node.attr)
        return [copies[id(found[0].args[0])]]

    params = [Param(name=spec.map_program.params[0].name, dtype=mapped[0].dtype)]
    parts = build_reduction(
        params,
        lambda b, x: x,
        lambda b, x, y: [b.op("add", x[0], y[0])],
        finish,
        identity=None,
        math=spec.map_program.math,
    )
    is_alike = copies[id(found[0].args[0])] is copies[id(found[0].args[1])]
    return parts if is_alike else None


class _ReductionWriter:
    """Writes the text of a reduction."""

    def __init__(self, spec: ReductionSpec, *, split: bool) -> None:
        self.spec = spec
        self._results_text = "rows / 2" if split else "rows"
        self.map, self.post = expand(spec.map_program), expand(spec.post)
        self.programs = (self.map, expand(spec.combine), self.post)
        params = self.map.params[: spec.inputs]
        self.arrays = [number for number, param in enumerate(params) if not param.is_scalar]
        self.scalars = [number for number, param in enumerate(params) if param.is_scalar]
        # Of what is computed of an element, such as the number that bits are, the first is found by the tree.
        finds_first = bool(spec.chooses) and _find_whole(self.map, of_truth=False) is not None
        self.is_free = is_order_free(spec.combine) or finds_first
        combine, dtype = spec.combine.stores[0].value, spec.accumulators[0]
        is_truth = self.is_free and dtype == BOOL and combine.op in ("and", "or") and not finds_first
        self.whole = _find_whole(self.map, of_truth=is_truth)
        self.values = _Values(spec)
        tested = _find_tested(self.map.stores[0].value)
        if finds_first:
            self.values = _First(spec)
        elif is_truth and self.whole is not None:
            self.values = _Truth(spec, combine.op, self._dtype(self.whole))
        elif is_truth and is_integer(tested.dtype):  # of which the bits are collected
            self.map = dataclasses.replace(self.map, stores=(dataclasses.replace(self.map.stores[0], value=tested),))
            self.values = _Truth(spec, combine.op, tested.dtype)
        elif self.is_free and is_float(dtype):
            self.values = (_WideExtremum if dtype == FLOAT64 else _Extremum)(spec, combine.op)
        elif (small := _find_small(self.map, combine)) is not None:
            self.values = _Small(spec, small, combine.op)
        elif not self.is_free:
            self.whole = None
        self.streams = None if self.is_free else _find_streams(self.map, self.programs[1])
        takes_few = self.streams is not None and self.streams.is_one and not spec.map_program.keeps_order
        self.most_few = self.streams.most_few if self.streams is not None and takes_few else 0
        self.sides = self.streams is not None and self.streams.sides
        self.types = self.values.types
        self.accumulators = range(len(self.types))
        sizes = [_size_of(kind) for kind in self.types]
        self.is_widened = max(sizes) > max([self._dtype(number).itemsize for number in self.arrays], default=8)
        self.lanes = min(MOST_LANES, (WIDENED_NBYTES if self.is_widened else LANES_NBYTES) // max(sizes))
        self.wide = 8 if max(sizes) == 2 else _VECTOR_NBYTES // max(sizes)
        self.tile = TILE_NBYTES // sum(sizes) * (2 if self.is_free else 1)

    def _dtype(self, number: int) -> DType:
        return self.map.params[number].dtype

    def _names(self, text: str) -> list[str]:
        return [text.format(k) for k in self.accumulators]

    def _combine(self, left: str, right: str, to: str, *, is_in_order: bool = True) -> str:
        """Combine the accumulators ``left`` and ``right``, names with a place for the number, into those at ``to``."""
        body, results = self.values.combine(self._names("x{}"), self._names("y{}"), is_in_order=is_in_order)
        taken = " ".join(
            f"const {kind} x{k} = {left.format(k)}, y{k} = {right.format(k)};" for k, kind in enumerate(self.types)
        )
        given = " ".join(f"{to.format(k)} = {result};" for k, result in enumerate(results))
        return f"{{ {taken} {body} {given} }}"

    def _each(self, text: str) -> str:
        return " ".join(text.format(k=k, T=kind) for k, kind in enumerate(self.types))

    def _move(self, to: str, source: str) -> str:
        return " ".join(f"{to.format(k)} = {source.format(k)};" for k in self.accumulators)

    def _buffers(self, size: int | str, converted: int | str) -> str:
        """Memory for the elements of each input, and for what some are converted to: see `_convert`."""
        lines = []
        for number in self.arrays:
            dtype = self._dtype(number)
            lines.append(f"{storage_type(dtype)} b{number}[{size}];")
            if is_complex(dtype) and self.whole is None:
                part = c_type(part_dtype(dtype))
                lines.append(f"{part} re{number}[{converted}], im{number}[{converted}];")
            elif self._is_widened(number):
                lines.append(f"float re{number}[{converted}];")
        return " ".join(lines)

    def _is_widened(self, number: int) -> bool:
        return self._dtype(number) == FLOAT16 and self.whole is None

    @property
    def _converts(self) -> bool:
        is_apart = self.whole is None and any(is_complex(self._dtype(number)) for number in self.arrays)
        return is_apart or any(map(self._is_widened, self.arrays))

    def _map(self, place: str, pointer: str, index: str, to: str) -> str:
        """Map one element, whose number is ``index``.

        It is at ``place`` of the parts of a complex input, and of any other at ``pointer``, if given, of ``e``, else at
        ``place`` of ``f``.
        """
        loads, taken = {}, []
        for number in self.arrays:
            dtype = self._dtype(number)
            kind = storage_type(dtype)
            value = f"e{number}{pointer}" if pointer else f"f{number}{place}"
            if is_complex(dtype) and self.whole is None:
                value = f"{{re{number}{place}, im{number}{place}}}"
            loads[number] = to_register(f"m{number}", dtype)
            if self._is_widened(number):
                kind, value, loads[number] = "float", f"re{number}{place}", f"m{number}"
            taken.append(f"const {kind} m{number} = {value};")
        for number in self.scalars:
            loads[number] = to_register(f"s{number}", self._dtype(number))
        if self.whole is not None:
            body, results = "", self.values.enter_raw(f"m{self.whole}", index)
        else:
            body, values = evaluate(self.map, loads, {"index": f"(long long)({index})", "size": "count"})
            results = self.values.enter(values, index)
        given = " ".join(f"{to.format(k)} = {result};" for k, result in enumerate(results))
        return f"{{ {' '.join(taken)} {body} {given} }}"

    def _map_and_combine(self, count: int, place: Callable[[int], tuple[str, str, str]]) -> str:
        """Map ``count`` elements, a power of two, each at its place, and combine them to ``v{}_0``."""
        if isinstance(self.values, _Small):
            near = self.values.near_types
            lines = [f"{near[0]} n0_{j}; {self._map(*place(j), f'n0_{j}')}" for j in range(count)]
            return f"{near[count.bit_length() - 1]} v0_0; {{ {' '.join(lines)} {self.values.combine_near(count)} }}"
        lines = [self._each("{T} v{k}_" + str(j) + ";") + self._map(*place(j), f"v{{0}}_{j}") for j in range(count)]
        return " ".join([*lines, *self._pairs(count)])

    def _pairs(self, count: int) -> list[str]:
        """Combine ``v{}_0``, ``v{}_1`` and so on."""
        steps = [1 << level for level in range(count.bit_length() - 1)]
        return [
            self._combine(f"v{{0}}_{j}", f"v{{0}}_{j + step}", f"v{{0}}_{j}")
            for step in steps
            for j in range(0, count, 2 * step)
        ]

    def _convert(self, count: str, pointer: str = "e{}", place: str = "", start: str = "0") -> str:
        """Take ``count`` complex elements apart, and halves to floats, by an instruction that no loop becomes."""
        lines = []
        for number in self.arrays:
            source = pointer.format(number)
            if is_complex(self._dtype(number)) and self.whole is None:
                lines.append(
                    f"XF_INDEPENDENT\n for (long long j_ = {start}; j_ < {count}; ++j_) "
                    f"{{ re{number}{place}[j_] = {source}[j_].x; im{number}{place}[j_] = {source}[j_].y; }}\n"
                )
            elif self._is_widened(number):
                lines.append(f"xf_widen(re{number}{place} + {start}, {source} + {start}, {count} - {start});\n")
        return "".join(lines)

    def _keep(self, source: str, row: str) -> str:
        """Write accumulators to the memory for those of parts."""
        values = self.values.leave(self._names(source))
        return " ".join(
            f"(({storage_type(dtype)} *)to[{k}])[({row}) * parts + part] = {to_memory(value, dtype)};"
            for k, (dtype, value) in enumerate(zip(self.spec.accumulators, values, strict=True))
        )

    def _results(self, source: str, at: str) -> str:
        """Write the results of accumulators, of which ``at`` is the place."""
        values = self.values.leave(self._names(source))
        taken = [
            f"const {c_type(dtype)} z{k} = {value};"
            for k, (dtype, value) in enumerate(zip(self.spec.accumulators, values, strict=True))
        ]
        count = len(taken)
        rows = self._results_text
        loads = {k: f"z{k}" for k in range(count)} | {count: f"({rows} * count)", count + 1: f"({rows})"}
        body, results = evaluate(self.post, loads, {})
        out = " ".join(
            f"o{k}[{at}] = {to_memory(result, dtype)};"
            for k, (dtype, result) in enumerate(zip(self.spec.output_dtypes, results, strict=True))
        )
        return f"{' '.join(taken)} {body} {out}"

    def text(self) -> str:
        """The whole text: `ENTRY`, for results whose elements, or which themselves, are adjacent; and ``xf_join``."""
        widen = _section("widen") if any(map(self._is_widened, self.arrays)) else ""
        return "".join(
            [
                support_text(self.programs), _section("offset"), _section("walk"), widen,
                self.values.text, self.streams.text() if self.streams else "#define XF_NODE 0\n",
                self._halve(), self._level(), self._rows(), self._few(), self._columns(),
                self._side_by_side(), self._join(), self._entry(),
            ]
        )  # fmt: skip

    def _geometry(self) -> str:
        """Names for the numbers of a call, and for the strides of each array along kept and reduced axes."""
        lines = [
            "const long long count = g[0], rows = g[1], kept = g[2], reduced = g[3], parts = g[5];",
            f"const long long *const kept_extent = g + {_HEAD}, *const places = kept_extent + kept;",
            "const long long *const extent = places + kept, *const strides = extent + reduced;",
        ]
        for place, number in enumerate(self.arrays):
            lines.append(
                f"const long long *const k{number} = strides + {place} * (kept + reduced), "
                f"*const r{number} = k{number} + kept;"
            )
        for k, dtype in enumerate(self.spec.output_dtypes):
            kind = storage_type(dtype)
            lines.append(f"{kind} *const o{k} = ({kind} *)p[{self.spec.inputs + k}];")
        for number in self.scalars:
            kind = storage_type(self._dtype(number))
            lines.append(f"const {kind} s{number} = *(const {kind} *)p[{number}];")
        return "\n  ".join(lines)

    def _range(self, scale: str = "1") -> str:
        """The elements of a part, or ``scale`` times as many."""
        return (
            "const long long first_ = part * g[4];\n"
            "  const long long last_ = parts == 1 || first_ + g[4] > count ? count : first_ + g[4];\n"
            f"  const long long begin = first_ * {scale}, end = last_ * {scale};"
        )

    def _bases(self) -> str:
        """The addresses of the row's elements."""
        return " ".join(
            f"const char *const base{number} = p[{number}] + xf_offset(row, kept, kept_extent, k{number});"
            for number in self.arrays
        )

    def _halve(self) -> str:
        """``xf_halve``: combine ``n`` neighbours, level by level; returns how many accumulators there are then."""
        taken = ", ".join(f"{kind} *a{k}" for k, kind in enumerate(self.types))
        return f"""\
static long long xf_halve(long long n, int levels, {taken}) {{
  for (; n > 1 && levels; --levels) {{
    const long long half = n / 2;
    XF_INDEPENDENT
    for (long long i = 0; i < half; ++i) {self._combine("a{0}[2 * i]", "a{0}[2 * i + 1]", "a{0}[i]")}
    if (n & 1) {{ {self._move("a{0}[half]", "a{0}[n - 1]")} }}
    n = half + (n & 1);
  }}
  return n;
}}
"""

    def _level(self) -> str:
        """``xf_level``: make the nodes of ``XF_BRANCH`` neighbours; returns how many there are."""
        taken = ", ".join(f"{kind} *a{k}" for k, kind in enumerate(self.types))
        own = ", ".join(self._names("a{}"))
        trees = ""
        if self.streams and self.streams.ops:
            trees = f"""
#if XF_NODE
  const long long groups = (n + XF_UNIT - 1) / XF_UNIT;
  {self.streams.pad("a{}", "n", "groups * XF_UNIT")}
  xf_trees({own}, {own}, groups);
  return (n + XF_NODE - 1) / XF_NODE;
#endif"""
        elif self.streams:
            trees = f"""
#if XF_NODE
  const long long groups = n / XF_UNIT;
  xf_trees({own}, {own}, groups);
  n -= groups * XF_UNIT;
  made = groups * (XF_UNIT / XF_NODE);
  for (long long i = 0; i < n; ++i) {{ {self._move("a{0}[made + i]", "a{0}[groups * XF_UNIT + i]")} }}
#endif"""
        return f"""\
#define XF_BRANCH (XF_NODE ? {_VECTORS} : {_BRANCH})
#define XF_LEVELS (XF_BRANCH == 4 ? 2 : 4)
#ifndef XF_PADDED
#define XF_PADDED 0
#endif
static long long xf_level(long long n, {taken}) {{
  long long made = 0;{trees}
  return made + xf_halve(n, XF_LEVELS, {", ".join(self._names("a{} + made"))});
}}
"""

    # --- rows: elements that are adjacent
    #
    # The elements of a row are read in runs: where elements are near each other along the last axis, as they lie in
    # memory, and else by way of a buffer, into which a box of some steps along an axis, and all inside, is copied in
    # order. What a chunk left there is moved to the buffer's begin, so that each chunk is read as one.
    def _rows(self) -> str:
        first = ""
        if whole := self._whole_rows():
            least = 1 if self.streams else self.wide
            first = f"""
  if (count <= XF_WHOLE_ROWS && count >= {least} && parts == 1) {{
    xf_whole_rows(row, last_row, g, p);
    return;
  }}"""
        body = self._blocks()
        if isinstance(self.values, _First):
            body = self._search(self.values)
        elif self.is_free:
            body = self._lanes()
        return whole + self._walk(
            "xf_rows",
            f"  {self._each(self._row_memory())}\n",
            body,
            f"""\
    const long long place = xf_offset(row, kept, kept_extent, places);
    if (parts > 1) {{ {self._keep("a{0}[0]", "row")} }} else {{ {self._results("a{0}[0]", "place")} }}""",
            first=first,
        )

    def _walk(
        self, name: str, memory: str, body: str, end: str, unit: str = "1", wide: str = "1", first: str = ""
    ) -> str:
        """A function of rows of elements, or of words of ``wide`` elements, each row for ``unit`` results."""
        buffers, direct, is_direct, room = [], [], [], "0"
        for number in self.arrays:
            kind, size = storage_type(self._dtype(number)), f"{self._dtype(number).itemsize} * {wide}"
            buffers.append(
                f"char *const f{number} = slab * inside * {wide} > {SLAB} ? to[{len(self.spec.accumulators)}] + {room} "
                f": (char *)b{number};"
            )
            own = f"slab * inside * {size} + {FEW * self._dtype(number).itemsize}"
            room = f"{room} + ({own} + {_LINE_NBYTES - 1}) / {_LINE_NBYTES} * {_LINE_NBYTES}"
            is_direct.append(f"is_direct{number}")
            direct.append(
                f"const int is_direct{number} = u == reduced - 1 && r{number}[u] == {size} && "
                f"(unsigned long long)base{number} % _Alignof({kind}) == 0 && "
                f"xf_are_multiples(r{number}, reduced, _Alignof({kind}));"
            )
        pointers = " ".join(f"const {storage_type(self._dtype(number))} *e{number} = 0;" for number in self.arrays)
        return f"""\
static void {name}(long long row, long long last_row, long long part, const long long *g, char *const *p,
                    char *const *to) {{
  {self._geometry()}{first}
  const long long u = g[6], slab = g[7], inside = g[8];
  {self._buffers(SLAB + FEW, CHUNK)}
{memory}  {self._range(f"{unit} / {wide}")}
  {" ".join(buffers)}
  for (; row < last_row; row += {unit}) {{
    {self._bases()}
    {" ".join(direct)}
    const long long step = {" && ".join(is_direct) or "1"} ? extent[u] : slab;
    const int is_copied = !({" || ".join(is_direct) or "1"});
    long long at = begin, left = 0;
    {pointers}
{body}
{end}
  }}
}}
"""

    def _few(self) -> str:
        """``xf_narrow``: a few results side by side, whose elements are groups of ``unit``, or words."""
        if self.streams is None or not self.streams.is_one:
            return "#define xf_narrow xf_rows\n"
        kind, source = self.types[0], self.streams.row
        mapped = f"""for (long long j = 0; j < q * wide; ++j) {self._map("[j]", "[j]", "0", "w[done * wide + j]")}"""
        taken = whole = ""
        if source is not None:
            whole = (
                f"if (is_direct{source} && reduced == 1 && lanes == unit && end - begin <= most) xf_few(v, "
                f"(const {kind} *)(base{source} + begin * r{source}[0]), unit, (end - begin) * wide / unit, lanes);\n"
                "    else "
            )
            taken = (
                f"if (q == m && (lanes == unit || left * wide >= q * wide + lanes)) "
                f"xf_few(v, e{source}, unit, m * wide / unit, lanes);\n      else "
            )
        sign = _SIGNS[self.streams.ops[0]]
        return self._walk(
            "xf_narrow",
            f"""\
  const long long unit = kept_extent[kept - 1], wide = g[9], apart = places[kept - 1];
  const long long lanes = unit > 8 ? 16 : unit > 4 ? 8 : unit > 2 ? 4 : 2, most = {FEW} / lanes * unit / wide;
  {kind} v[16] = {{0}}, w[{FEW} + 16], c[{LEVELS}][16];
""",
            f"""\
    long long turn = 0;
    {whole}for (;; ++turn) {{
      const long long m = end - at < most ? end - at : most;
      for (long long done = 0, q; done < m; done += q) {{
{self._find_run("at + done", "wide", "(is_copied ? m - done : 1)")}
      q = left < m - done ? left : m - done;
      {f"if (q * wide > {CHUNK}) q = {CHUNK} / wide;" if self._converts else ""}
      {self._convert("q * wide")}
      {taken}{{
        XF_INDEPENDENT
        {mapped}
        if (done + q == m) xf_few(v, w, unit, m * wide / unit, lanes);
      }}
      {self._advance("q", "wide")}
      }}
      at += m;
      if (at == end) break;
      int level = 0;
      for (; turn >> level & 1; ++level) for (int t = 0; t < 16; ++t) v[t] = c[level][t] {sign} v[t];
      for (int t = 0; t < 16; ++t) c[level][t] = v[t];
    }}
    for (int level = 0; turn >> level; ++level)
      if (turn >> level & 1) for (int t = 0; t < 16; ++t) v[t] = c[level][t] {sign} v[t];""",
            f"""\
    const long long place = xf_offset(row, kept, kept_extent, places);
    for (long long t = 0; t < unit; ++t) {{
      if (parts > 1) {{ {self._keep("v[t]", "row + t")} }} else {{ {self._results("v[t]", "place + t * apart")} }}
    }}""",
            "unit",
            "wide",
        )

    def _side_by_side(self) -> str:
        """``xf_side_by_side``: rows whose elements lie side by side, and which follow each other in order.

        Pairs begin at even places of the whole order, and so at a phase of its own in each row: in rows that begin at
        an odd place every second element is combined with the one before it, in others with the one behind it, and so
        are nodes at each level. Which of the two comes first shows in no bit. A node that a row begins the next one
        ends.
        """
        if not self.sides:
            return "#define xf_side_by_side xf_rows\n"
        streams = self.streams
        assert streams is not None
        kind, sign = self.types[0], _SIGNS[streams.ops[0]]
        sources = [(number, self._dtype(number).itemsize, storage_type(self._dtype(number))) for number in self.arrays]
        address = lambda number, j: f"q{number}[{j}] + at * {self._dtype(number).itemsize}"
        steps = [streams.load_at(j, address) for j in range(GROUP)]
        for level, (below, name) in enumerate(zip(("v", "two", "four"), ("two", "four", "made"), strict=True)):
            count = GROUP >> level
            for j in range(0, count, 2):
                before = f"{below}{j - 1}" if j else f"s->last[{level}]"
                other = f"XF_CHOOSE(s->is_late[{level}], {before}, {below}{j + 1})"
                steps.append(f"const xf_vector {name}{j // 2} = {below}{j} {sign} {other};")
            steps.append(f"s->last[{level}] = {below}{count - 1};")
        pointers = "".join(f", const char *const *q{number}" for number, _, _ in sources)
        given = "".join(f", q{number}" for number, _, _ in sources)
        columns = "".join(f", c{number} + 8 * h" for number, _, _ in sources)

        def each(text: str) -> str:
            return " ".join(text.format(n=number, size=size, T=stored) for number, size, stored in sources)

        is_aligned = " && ".join(
            f"(unsigned long long)base{number} % _Alignof({stored}) == 0 && "
            f"xf_are_multiples(r{number}, reduced, _Alignof({stored}))"
            for number, _, stored in sources
        )
        last = [streams.load_at(j, lambda number, j: f"(const char *)edge{number}[{j}]") for j in range(GROUP)]
        return f"""\
#if !XF_MAPPED
#define xf_side_by_side xf_rows
#else
enum {{ LANES = XF_UNIT / XF_NODE, SIDES = {_SIDES_NBYTES} / (LANES * {_size_of(kind)}) }};
typedef struct {{ xf_vector last[3]; xf_places is_late[3]; }} xf_chain;
typedef struct {{ xf_chain chain; xf_vector made[{_SIDE // 8}]; long long at, first; }} xf_side;
static inline xf_vector xf_eight(xf_chain *s, long long at{pointers}) {{
  {" ".join(steps)}
  return made0;
}}
static void xf_side_by_side(long long row, long long last_row, long long part, const long long *g, char *const *p,
                            char *const *to) {{
  {self._geometry()}
  const long long u = g[6], length = g[8], extent_u = extent[u], turns = count / (extent_u * length);
  {kind} *const nodes = ({kind} *)to[{len(self.spec.accumulators)}];
  xf_places lane;
  for (int t = 0; t < LANES; ++t) lane[t] = t;
  for (; row < last_row; ++row) {{
    {self._bases()}
    {each("const long long last{n} = (extent_u - 1) * {size};")}
    {each("{T} edge{n}[8][LANES] = {{{{0}}}}; const char *q{n}[8]; long long ends{n}[8];")}
    {each(f"const char *c{{n}}[{_SIDE}];")}
    if (!({is_aligned})) {{ xf_rows(row, row + 1, part, g, p, to); continue; }}
    for (long long j = 0; j < 8; ++j) {{
      {each("ends{n}[j] = xf_offset(length - 8 + j, reduced - u - 1, extent + u + 1, r{n} + u + 1);")}
    }}
    for (long long turn = 0; turn < turns; ++turn) {{
      {each("const char *const from{n} = base{n} + xf_offset(turn, u, extent, r{n});")}
      {each("const char *const before{n} = base{n} + xf_offset(turn - 1, u, extent, r{n}) + last{n};")}
      for (long long begin = 0; begin < extent_u; begin += SIDES * LANES) {{
        xf_side side[SIDES];
        long long sides = 0, index[64] = {{0}};
        for (; sides < SIDES && begin + sides * LANES < extent_u; ++sides) {{
          xf_side *const s = side + sides;
          s->at = begin + sides * LANES < extent_u - LANES ? begin + sides * LANES : extent_u - LANES;
          s->first = (turn * extent_u + s->at) * length;
          const xf_places phase = lane * (int)(length % 8) + (int)(s->first % 8);
          for (int level = 0; level < 3; ++level) s->chain.is_late[level] = -(phase >> level & 1);
          for (int j = 0; j < 8; ++j) {{ /* the last elements of the rows before */
            {each("q{n}[j] = from{n} + ends{n}[j] - {size};")}
            if (!s->at) {{
              {each("if (turn) edge{n}[j][0] = *(const {T} *)(before{n} + ends{n}[j]);")}
              {each("__builtin_memcpy(edge{n}[j] + 1, from{n} + ends{n}[j], (LANES - 1) * {size});")}
              {each("q{n}[j] = (const char *)edge{n}[j];")}
            }}
          }}
          xf_eight(&s->chain, s->at{given});
        }}
        {each("long long offset{n} = 0;")}
        for (long long e = 0; e < length; e += {_SIDE}) {{
          const long long groups = length - e < {_SIDE} ? (length - e + 7) / 8 : {_SIDE // 8};
          for (long long i = 0, some; i < groups; i += some) {{ /* of few sides many columns: a chain in registers */
            some = sides > {_SIDE // 16} ? 1 : {_SIDE // 8} / sides;
            if (some > groups - i) some = groups - i;
            const long long rest = length - e - 8 * i, columns = rest < some * 8 ? rest : some * 8;
            for (long long j = 0, run; j < columns; j += run) {{
              const long long a = reduced - 1;
              run = extent[a] - index[a] < columns - j ? extent[a] - index[a] : columns - j;
              {each("for (long long k = 0; k < run; ++k) c{n}[j + k] = from{n} + offset{n} + k * r{n}[a];")}
              {each("offset{n} += run * r{n}[a];")}
              index[a] += run;
              for (long long b = a; b > u + 1 && index[b] == extent[b]; --b) {{
                {each("offset{n} += r{n}[b - 1] - extent[b] * r{n}[b];")}
                index[b] = 0;
                ++index[b - 1];
              }}
            }}
            for (long long j = columns; j < some * 8; ++j) {{ {each("c{n}[j] = c{n}[columns - 1];")} }}
            for (long long k = 0; k < sides; ++k) {{
              xf_side *const s = side + k;
              xf_chain chain = s->chain;
              for (long long h = 0; h < some; ++h) s->made[i + h] = xf_eight(&chain, s->at{columns});
              s->chain = chain;
            }}
          }}
          for (long long k = 0; k < sides; ++k) {{ /* what is behind a row's nodes the next row replaces */
            xf_side *const s = side + k;
            if (length <= {_SIDE} || e + {_SIDE} < length) xf_turn_nodes(nodes + e / 8, s->first, length, s->made);
            else for (long long t = 0, first = s->first; t < LANES; ++t, first += length) {{
              for (long long i = 0; i < groups - (first % 8 + length < e + groups * 8); ++i)
                nodes[first / 8 + e / 8 + i] = s->made[i][t];
            }}
          }}
        }}
      }}
    }}
    long long n = count / 8;
    if (count % 8) {{ /* the last node has the elements that are left */
      {kind} w[8];
      for (int j = 0; j < 8; ++j) {{
        {each("const char *const end{n} = base{n} + xf_offset(turns - 1, u, extent, r{n}) + last{n};")}
        {each("edge{n}[j][0] = *(const {T} *)(end{n} + ends{n}[j]);")}
      }}
      {streams.store_mapped("w", last)}
      const int left = count % 8;
      xf_halve(left, 3, w + 8 - left);
      nodes[n++] = w[8 - left];
    }}
    while (n > 1) n = xf_level(n, nodes);
    const long long place = xf_offset(row, kept, kept_extent, places);
    {self._results("nodes[0]", "place")}
  }}
}}
#endif
"""

    def _row_memory(self) -> str:
        if isinstance(self.values, _First):
            return "{T} a{k}[1];"
        if self.is_free:
            return f"{{T}} a{{k}}[{self.lanes}];"
        return f"{{T}} a{{k}}[{CHUNK + CHUNK // 4 + 1}], d{{k}}[{CHUNK + 1}], w{{k}}[{CHUNK}], c{{k}}[{LEVELS}];"

    def _find_run(self, at: str, wide: str = "1", least: str = "1") -> str:
        """Let ``e`` be the words of ``wide`` elements from number ``at`` on, ``left`` of them: at least ``least``."""
        lines = []
        for number in self.arrays:
            kind, size = storage_type(self._dtype(number)), f"{self._dtype(number).itemsize} * {wide}"
            lines.append(
                f"{{ const char *const q = base{number} + xf_offset(outer, u, extent, r{number}) + "
                f"first * r{number}[u];\n"
                f"  if (is_direct{number}) e{number} = (const {kind} *)q + skip * {wide};\n"
                f"  else {{ if (left && (const char *)e{number} != f{number}) "
                f"__builtin_memmove(f{number}, e{number}, left * {size});\n"
                f"    xf_box(f{number} + left * {size}, q, {size}, steps, r{number}[u], inside, reduced - u - 1, "
                f"extent + u + 1, r{number} + u + 1); e{number} = (const {kind} *)f{number} + skip * {wide}; }} }}"
            )
        return f"""\
      while (left < {least} && ({at}) + left < end) {{
        const long long next = ({at}) + left, turn_u = inside < 2 ? next : next / inside;
        const long long outer = u ? turn_u / extent[u] : 0;
        const long long along = turn_u - outer * extent[u], first = along - along % step;
        const long long steps = extent[u] - first < step ? extent[u] - first : step;
        const long long skip = next - (outer * extent[u] + first) * inside;
        {chr(10).join(lines)}
        left += steps * inside - skip;
      }}"""

    def _advance(self, count: str, wide: str = "1") -> str:
        return f"left -= {count}; " + " ".join(f"e{number} += {count} * {wide};" for number in self.arrays)

    def _collapse(self, count: str, combine: Callable[[str], str], whole: int | None = None) -> str:
        """Combine lanes; ``combine`` writes how lane ``t`` is with the one that far after it."""
        each, whole = "XF_INDEPENDENT\n for (long long t = 0;", whole or self.lanes
        halves = [whole >> level for level in range(1, whole.bit_length())]
        constant = "\n".join(f"{each} t < {half}; ++t) {combine(str(half))}" for half in halves)
        if count == str(whole):
            return constant
        return f"""if ({count} == {whole}) {{ {constant} }}
    else for (long long n_ = {count}; n_ > 1;) {{
      const long long rest = n_ - n_ / 2;
      {each} t < n_ / 2; ++t) {combine("rest")}
      n_ = rest;
    }}"""

    def _lanes(self) -> str:
        """Combine every so manieth element, where the order shows in no bit."""
        cap = f"if (m > {CHUNK}) m = {CHUNK};" if self._converts else ""
        lanes, wide = self.lanes, self.wide
        eight = self._map_and_combine(
            GROUP, lambda j: (f"[j + {lanes * j} + t]", f"[j + {lanes * j} + t]", f"at + j + {lanes * j} + t")
        )
        folded = lambda rest: self._combine("a{0}[t]", f"a{{0}}[{rest} + t]", "a{0}[t]", is_in_order=False)
        decided = ""
        if self.values.is_decided:
            decided = f"""
      int go = 1;
      for (long long t = 0; t < {lanes}; ++t) go &= !({self.values.is_decided.format("a0[t]")});
      for (long long t = 0; t < {wide}; ++t) go &= !({self.values.is_decided.format("w0[t]")});
      if (!go) break;"""
            cap += f"""
      if (m > look) m = look;
      if (look < {MOST_DECIDED}) look *= 4;"""
        neutral = " ".join(f"w{k}[t] = {value};" for k, value in enumerate(self.values.neutral()))
        start = f"for (long long t = 0; t < {wide}; ++t) {{ {neutral} }}"
        end = f"for (long long t = 0; t < {wide}; ++t) {{ {self._move('a{0}[t]', 'w{0}[t]')} }}"
        many, count = "", wide
        if not self._loads_vectors:
            count = lanes
            neutral = " ".join(f"a{k}[t] = {value};" for k, value in enumerate(self.values.neutral()))
            start += f" for (long long t = 0; t < {lanes}; ++t) {{ {neutral} }}"
            end = f"for (long long t = 0; t < {wide}; ++t) {self._combine('a{0}[t]', 'w{0}[t]', 'a{0}[t]')}"
            many = f"""
      {"XF_TWICE" if isinstance(self.values, _Extremum) else ""}
      for (; j + {GROUP * lanes} <= m; j += {GROUP * lanes}) {{
        XF_INDEPENDENT
        for (long long t = 0; t < {lanes}; ++t) {{ {eight} {self._combine("a{0}[t]", "v{0}_0", "a{0}[t]")} }}
      }}"""
        return f"""\
    long long look = {DECIDED};
    {self._lane_types()} {self._each("xf_w{k} w{k};")}
    {start}
    for (long long m; at < end; at += m) {{
{self._find_run("at")}
      m = left < end - at ? left : end - at;
      {cap}
      {self._convert("m")}
      long long j = 0;{many}{self._take_lanes("m", "at + ")}
      {self._advance("m")}{decided}
    }}
    {end}
    {self._collapse(str(count), folded, count)}"""

    @property
    def _loads_vectors(self) -> bool:
        """Whether elements are loaded as vectors: of several accumulators a compiler reads them for each again."""
        return isinstance(self.values, _Extremum) and self.whole is not None and self.values.dtype != FLOAT16

    def _lane_types(self) -> str:
        kinds = [kind.replace("bool", "unsigned char") for kind in self.types]  # of bool there are no vectors
        text = " ".join(f"XF_VECTOR({kind}, {self.wide}, xf_w{k});" for k, kind in enumerate(kinds))
        return f"{text} XF_LOADS({c_type(self.spec.accumulators[0])}, {self.wide})" if self._loads_vectors else text

    def _take_lanes(self, count: str, start: str = "") -> str:
        """Combine the elements from ``j`` on with the lanes ``w``; ``start`` is before the number of the first."""
        wide, number = self.wide, self.whole
        each = f"XF_INDEPENDENT\n for (long long t = 0; t < {wide}; ++t)"
        one = self._each("{T} x{k}_;") + self._map("[j + t]", "[j + t]", f"{start}j + t", "x{0}_")
        one += self._combine("w{0}[t]", "x{0}_", "w{0}[t]")
        many, last = "", f"{each} if (j + t < {count}) {{ {one} }}"
        if self._loads_vectors and (start or isinstance(self.values, _WideExtremum)):
            loads = [f"XF_LOAD(e{number}_{k}, e{number} + j + {wide * k});" for k in range(GROUP)]
            eight = self._map_and_combine(GROUP, lambda k: ("", f"_{k}[t]", "0"))
            many = f"""
      XF_TWICE
      for (; j + {GROUP * wide} <= {count}; j += {GROUP * wide}) {{
        {" ".join(loads)}
        XF_VECTORISED
        {each} {{ {eight} {self._combine("w{0}[t]", "v{0}_0", "w{0}[t]")} }}
      }}"""
        if self.spec.combine.stores[0].value.op in _IDEMPOTENT:
            last = f"if (j && {count} >= {wide}) {{ j = {count} - {wide}; {each} {{ {one} }} }} else {last}"
        return f"""{many}
      XF_UNROLLED
      for (; j + {wide} <= {count}; j += {wide}) {{ {each} {{ {one} }} }}
      if (j < {count}) {{ {last} }}"""

    def _search(self, values: _First) -> str:
        """Find the extremum of a block, and its place where none before is as good: less work than both at once.

        A comparison passes over NaN, but their sum does not: where it is one, as of infinities, NaN is looked for.
        """
        lanes, kind, sign = self.lanes, values.value_type, values.sign
        value = values.find(f"e{self.whole}[{{}}]")

        def take(name: str, at: str) -> str:
            return f"const {kind} {name} = {value.format(at)};"

        def choose(x: str, y: str) -> str:
            return f"{y} {sign} {x} ? {y} : {x}"

        eight = " ".join(take(f"x{k}", f"j + {lanes * k} + t") for k in range(GROUP))
        for k in range(GROUP - 1):
            eight += f" const {kind} x{GROUP + k} = {choose(f'x{2 * k}', f'x{2 * k + 1}')};"
        eight += f" w[t] = {choose('w[t]', f'x{2 * GROUP - 2}')};"
        one = f"{take('x', 'j + t')} w[t] = {choose('w[t]', 'x')};"
        first, sums, nans = f"{take('x', 't')} w[t] = x;", "", ""
        if values.is_compared:
            eight += " s[t] += ((x0 + x1) + (x2 + x3)) + ((x4 + x5) + (x6 + x7));"
            one += " s[t] += x;"
            first += " s[t] = x;"
            sums = " s[t] += s[{rest} + t];"
            nans = f"""
      if (s[0] != s[0]) {{
        long long i = 0;
        while (i < m && {value.format("i")} == {value.format("i")}) ++i;
        if (i < m) {{ best = {value.format("i")}; best_at = at + i; break; }}
      }}"""
        each = "XF_INDEPENDENT\n for (long long t = 0;"
        halve = lambda rest: f"{{ w[t] = {choose('w[t]', f'w[{rest} + t]')};{sums.format(rest=rest)} }}"
        first_of_all, decided = "", ""
        if values.furthest:
            decided = f"\n      if (best == {values.furthest}) break;"
        if self.whole is not None and self._dtype(self.whole) == BOOL:  # which most rows have at their begin
            first_of_all = f"""
      for (long long i = 0; best_at < 0 && i < m && i < {2 * GROUP}; ++i)
        if ({value.format("i")} == {values.furthest}) {{ best = {values.furthest}; best_at = at + i; }}
      if (best_at >= 0 && best == {values.furthest}) break;"""
        return f"""\
    {kind} best = 0;
    long long best_at = -1;
    for (long long m; at < end; at += m) {{
{self._find_run("at")}
      m = left < end - at ? left : end - at;
      if (m > {SEARCHED}) m = {SEARCHED};{first_of_all}
      {kind} w[{lanes}];{f" {kind} s[{lanes}];" if values.is_compared else ""}
      long long n = m < {lanes} ? m : {lanes}, j = n;
      {each} t < n; ++t) {{ {first} }}
      for (; j + {GROUP * lanes} <= m; j += {GROUP * lanes}) {{
        {each} t < {lanes}; ++t) {{ {eight} }}
      }}
      for (; j + {lanes} <= m; j += {lanes}) {{
        {each} t < {lanes}; ++t) {{ {one} }}
      }}
      {each} t < m - j; ++t) {{ {one} }}
      {self._collapse("n", halve)}{nans}
      if (best_at < 0 || w[0] {sign} best) {{
        long long i = 0;
        best = w[0];
        for (; i + {2 * lanes} <= m; i += {2 * lanes}) {{
          {"long long" if values.dtypes[0].itemsize == 8 else "int"} is_there = 0;
          XF_VECTORISED
          for (long long t = 0; t < {2 * lanes}; ++t) {{ {take("x", "i + t")} is_there |= x == best; }}
          if (is_there) break;
        }}
        for (;; ++i) {{ {take("x", "i")} if (x == best) break; }}
        best_at = at + i;
      }}
      {self._advance("m")}{decided}
    }}
    {" ".join(f"a{k}[0] = {each};" for k, each in enumerate(values.enter_value("best", "best_at")))}"""

    def _blocks(self) -> str:
        """Combine neighbours: four at a time, the nodes of some chunks level by level, and blocks by a counter.

        Of whole chunks of plain sums and products vectors do more levels at once.
        """
        four = self._map_and_combine(
            4, lambda j: (f"[base + 4 * i + {j}]", f"[base + 4 * i + {j}]", f"at + base + 4 * i + {j}")
        )
        kept = " ".join(
            [self._each("{T} v{k}_" + str(j) + " = w{k}[base + 4 * i + " + str(j) + "];") for j in range(4)]
            + self._pairs(4)
        )
        joined = self._combine("c{0}[level]", "a{0}[0]", "a{0}[0]")
        rest = self._map("[base + 4 * nodes + i]", "[base + 4 * nodes + i]", "at + base + 4 * nodes + i", "w{0}[i]")
        mapped_rest = self._map("[base + i]", "[base + i]", "at + base + i", "w{0}[i]")
        streams, padded = self.streams, ""
        if streams and streams.ops:
            arguments = ", ".join([*self._names("a{} + n"), *self._names("w{}")])
            padded = f"""{streams.pad("w{}", "over", "XF_UNIT")}
        xf_trees({arguments}, 1);
        n += (over + XF_NODE - 1) / XF_NODE;"""
        is_near = "q == m && (XF_MAPPED || !XF_NODE || m < XF_UNIT)" if streams else "q == m"

        def level(n: str, nodes: str) -> str:
            return f"{n} = xf_level({n}, {', '.join(self._names(nodes))});"

        return f"""\
    long long turn = 0;
    for (;; ++turn) {{
    long long held = 0;
    for (int group = 0; group < XF_BRANCH && at < end; ++group) {{
    long long n = 0;
    for (int chunk = 0; chunk < XF_BRANCH && at < end; ++chunk) {{{streams.take_run(self._advance) if streams else ""}
      const long long m = end - at < {CHUNK} ? end - at : {CHUNK};
      long long base = 0, nodes = 0, over = 0;
      for (long long done = 0, q; done < m; done += q) {{
{self._find_run("at + done", least="(is_copied ? m - done : 1)")}
      q = left < m - done ? left : m - done;
      if ({is_near}) {{{streams.take(is_mapped=True) if streams else ""}
        {self._convert("m", start="base")}
#if XF_PADDED
        n += base / XF_NODE;
        over = m - base;
        XF_INDEPENDENT
        for (long long i = 0; i < over; ++i) {mapped_rest}
#else
        nodes = (m - base) / 4, over = (m - base) % 4;
        n += base / (XF_NODE + !XF_NODE);
        XF_INDEPENDENT
        for (long long i = 0; i < nodes; ++i) {{ {four} {self._move("a{0}[n + i]", "v{0}_0")} }}
        for (long long i = 0; i < over; ++i) {rest}
#endif
      }} else {{
        {self._convert("q")}
        XF_INDEPENDENT
        for (long long j = 0; j < q; ++j) {self._map("[j]", "[j]", "at + done + j", "w{0}[done + j]")}
        if (done + q == m) {{{streams.take(is_mapped=False) if streams else ""}
#if XF_PADDED
          n += base / XF_NODE;
          over = m - base;
          for (long long i = 0; i < over; ++i) {{ {self._move("w{0}[i]", "w{0}[base + i]")} }}
#else
          nodes = (m - base) / 4, over = (m - base) % 4;
          n += base / (XF_NODE + !XF_NODE);
          XF_INDEPENDENT
          for (long long i = 0; i < nodes; ++i) {{ {kept} {self._move("a{0}[n + i]", "v{0}_0")} }}
          for (long long i = 0; i < over; ++i) {{ {self._move("w{0}[i]", "w{0}[base + 4 * nodes + i]")} }}
#endif
        }}
      }}
      {self._advance("q")}
      }}
#if XF_PADDED
      if (over) {{ {padded} }}
#else
      if (over) {{
        for (long long i = 1; i < over; ++i) {self._combine("w{0}[0]", "w{0}[i]", "w{0}[0]")}
        {self._move("a{0}[n + nodes]", "w{0}[0]")}
        ++nodes;
      }}
      if (XF_NODE > 4) nodes = xf_halve(nodes, XF_LEVELS - 2, {", ".join(self._names("a{} + n"))}); /* of one size */
      n += nodes;
#endif
      at += m;
    }}
    {level("n", "a{}")}
    for (long long i = 0; i < n; ++i) {{ {self._move("d{0}[held + i]", "a{0}[i]")} }}
    held += n;
    }}
    while (held > 1) {level("held", "d{}")}
    {self._move("a{0}[0]", "d{0}[0]")}
    if (at == end) break;
    int level = 0;
    for (; turn >> level & 1; ++level) {joined}
    {self._move("c{0}[level]", "a{0}[0]")}
    }}
    for (int level = 0; turn >> level; ++level)
      if (turn >> level & 1) {joined}"""

    def _whole_rows(self) -> str:
        """``xf_whole_rows``: many rows of few elements together, whose nodes or lanes lie one after the other."""
        takes_nodes = self._takes_nodes
        if not self._most_whole() or (not takes_nodes and (not self.is_free or self._converts)):
            return ""
        start, wide, row, halve, whole = self._row_of_nodes() if takes_nodes else self._row_of_lanes()
        near, lasts, bases = [], [], []
        for number in self.arrays:
            kind, size = storage_type(self._dtype(number)), self._dtype(number).itemsize
            room, set_rest, is_apart = "", "", ""
            if takes_nodes:  # whole groups are read: of the last rows in memory, and of gathered ones, by way of a copy
                room = " + XF_UNIT"
                set_rest = f"if (behind_row > 0) __builtin_memset(f{number} + count, 0, behind_row * {size});\n  "
                lasts.append(
                    f"const long long last{number} = (k{number}[kept - 1] > 0 ? (m - 1) * k{number}[kept - 1] : 0) "
                    f"- behind_row * {size};"
                )
                is_apart = f" || r * k{number}[kept - 1] > last{number}"
            near.append(
                f"{kind} f{number}[{self._most_whole()}{room}];\n  {set_rest}"
                f"  const int is_near{number} = reduced == 1 && r{number}[0] == {size} && "
                f"(unsigned long long)p[{number}] % _Alignof({kind}) == 0 && "
                f"xf_are_multiples(k{number}, kept, _Alignof({kind}));"
            )
            bases.append(
                f"const {kind} *e{number} = (const {kind} *)(base{number} + r * k{number}[kept - 1]);\n"
                f"      if (!is_near{number}{is_apart}) {{ "
                f"xf_box((char *)f{number}, (const char *)e{number}, {size}, extent[0], r{number}[0], "
                f"count / extent[0], reduced - 1, extent + 1, r{number} + 1); e{number} = f{number}; }}"
            )
        return f"""\
#if {"XF_MAPPED" if takes_nodes else "1"}
#define XF_WHOLE_ROWS {self._most_whole()}
static void xf_whole_rows(long long row, long long last_row, const long long *g, char *const *p) {{
  {self._geometry()}
  {start}
  {" ".join(near)}
  {self._each(f"{{T}} a{{k}}[{2 * CHUNK}];")}
  for (long long m; row < last_row; row += m) {{
    m = kept_extent[kept - 1] - row % kept_extent[kept - 1];
    if (m > last_row - row) m = last_row - row;
    if (m > most) m = most;
    {self._bases()}
    {" ".join(lasts)}{whole}
    for (long long r = 0; r < m; ++r) {{
      {" ".join(bases)}
      {row}
    }}
    long long n = m * {wide}, each = {wide};
    {halve}
    for (; each > 1; each /= 2, n /= 2) xf_halve(n, 1, {", ".join(self._names("a{}"))});
    const long long place = xf_offset(row, kept, kept_extent, places), apart = places[kept - 1];
    if (apart == 1) {{
      XF_INDEPENDENT
      for (long long t = 0; t < m; ++t) {{ {self._results("a{0}[t]", "place + t")} }}
    }} else {{
      for (long long t = 0; t < m; ++t) {{ XF_ONE_BY_ONE; {self._results("a{0}[t]", "place + t * apart")} }}
    }}
  }}
}}
#endif
#ifndef XF_WHOLE_ROWS
#define XF_WHOLE_ROWS 0
#define xf_whole_rows(row, last_row, g, p)
#endif
"""

    @property
    def _takes_nodes(self) -> bool:
        return self.streams is not None and bool(self.streams.ops) and bool(self.streams.sources)

    @property
    def whole_counts(self) -> range:
        """The numbers of adjacent elements of which rows are not turned."""
        if self._takes_nodes:
            return range(self._least_whole[0], self._most_whole() + 1)
        return range(self.wide, self._most_whole() + 1) if self.is_free and not self._converts else range(0)

    @property
    def least_of_nodes(self) -> int:
        """From how many on rows of whole nodes are not turned."""
        return self._least_whole[1] if self._takes_nodes else self.whole_counts.start

    @property
    def _least_whole(self) -> tuple[int, int]:
        dtypes = [self._dtype(number) for number in self.arrays]
        return _LEAST_WHOLE[max((part_dtype(each) if is_complex(each) else each).itemsize for each in dtypes)]

    def _most_whole(self) -> int:
        if isinstance(self.values, _First):  # which has to find the first of equal elements
            return 0
        if self._loads_vectors:
            return CHUNK
        return 4 * DECIDED if self.values.is_decided or self.is_widened else _MOST_WHOLE

    def _row_of_nodes(self) -> tuple[str, str, str, str, str]:
        """Of sums and products: each row is padded to a power of two of nodes.

        Whole nodes are made where they are, with what follows them in memory. What is behind them, of all rows, lies
        together, in as many elements as nodes have; so does all behind the whole groups where that is less than half a
        group. Where rows follow each other and end with a node, they are one row.
        """
        streams = self.streams
        assert streams is not None
        arguments = ", ".join([*self._names("a{} + r * wide"), *streams.sources])
        rest, nodes, own = (", ".join(self._names(each)) for each in ("w{}", "t{}", "a{}"))
        moved = " ".join(f"e{number} += count - over;" for number in self.arrays)
        start = f"""
  enum {{ LANES = XF_UNIT / XF_NODE }};
  const int is_read = count % XF_UNIT >= XF_UNIT / 2 && kept_extent[kept - 1] > LANES;
  const long long over = count % (is_read ? XF_NODE : XF_UNIT);
  const long long made = (count - over) / XF_NODE, behind = (over + XF_NODE - 1) / XF_NODE, own = made + behind;
  const long long groups = (count - over + XF_UNIT - 1) / XF_UNIT, behind_row = groups * XF_UNIT - count;
  long long wide = 1, most = {CHUNK};
  while (wide < own) wide *= 2;
  const long long first = made / LANES * LANES; /* of the last nodes, which are a vector */
  xf_places is_rest, is_none;
  for (int t = 0; t < LANES; ++t) {{
    is_rest[t] = -(over && is_read && first + t == made);
    is_none[t] = -(first + t >= own);
  }}
  most /= wide;
  if (over && most > {2 * CHUNK} / (behind * XF_NODE)) most = {2 * CHUNK} / (behind * XF_NODE);
  {self._buffers(1, "XF_UNIT")}
  {self._each(f"{{T}} w{{k}}[{2 * CHUNK} + XF_UNIT], t{{k}}[{CHUNK} + 2 * LANES];")}
"""
        none = " ".join(f"*(xf_any *)(to{k} + i) = {streams.neutral_vector(k)};" for k in self.accumulators)
        row = f"""
      if (made) xf_mapped({arguments}, groups);
      if (over) {{
        {self._each("{T} *const to{k} = w{k} + r * behind * XF_NODE;")}
        long long i = 0;
        {moved}
        if (count >= LANES) {{
          for (; i + LANES <= over; i += LANES) {{ {streams.store_vectors("to{} + i", "i", "")} }}
          if (i < over) {{ {streams.store_vectors("to{} + i", "over - LANES", "LANES - (over - i)")} i += LANES; }}
          for (; i < behind * XF_NODE; i += LANES) {{ {none} }}
        }} else {{
          {self._convert("over")}
          for (; i < over; ++i) {self._map("[i]", "[i]", "0", "to{0}[i]")}
          {streams.pad("to{}", "over", "behind * XF_NODE")}
        }}
      }}"""
        finished = " ".join(
            f"{{ xf_any *const to = (xf_any *)(a{k} + r * wide + first);\n"
            f"        xf_vector last = over && !is_read ? *(const xf_any *)(t{k} + r * behind) : *to;\n"
            f"        last = XF_CHOOSE(is_rest, t{k}[r] - (xf_vector){{0}}, last);\n"
            f"        *to = XF_CHOOSE(is_none, {streams.neutral_vector(k)}, last); }}"
            for k in self.accumulators
        )
        halve = f"""
    if (over && !is_one) {{
      const long long some = m * behind * XF_NODE, groups = (some + XF_UNIT - 1) / XF_UNIT;
      {streams.pad("w{}", "some", "groups * XF_UNIT")}
      xf_trees({nodes}, {rest}, groups);
    }}
    if (is_one && wide > own) for (long long r = 0; r < m; ++r) for (long long i = 0; i < own; i += LANES) {{
      {self._each("*(xf_any *)(a{k} + r * wide + i) = *(const xf_any *)(t{k} + r * own + i);")}
    }}
    if (wide > own || (over && !is_one)) for (long long r = 0; r < m; ++r) {{
      if (!is_one) {{ {finished} }}
      {streams.pad("a{}", "r * wide + (is_one ? own : first + LANES)", "(r + 1) * wide")}
    }}
    for (; each >= XF_NODE; each /= XF_NODE, n /= XF_NODE) {{
      const long long groups = (n + XF_UNIT - 1) / XF_UNIT;
      {streams.pad("a{}", "n", "groups * XF_UNIT")}
      xf_trees({own}, {own}, groups);
    }}"""
        follow = " && ".join(
            f"is_near{number} && k{number}[kept - 1] == count * {self._dtype(number).itemsize}"
            for number in self.arrays
        )
        pointers = " ".join(
            f"const {storage_type(self._dtype(number))} *e{number} = (const void *)base{number};"
            for number in self.arrays
        )
        given = ", ".join(streams.sources)
        whole = f"""
    const int is_one = count % XF_NODE == 0 && m >= LANES && {follow};
    if (is_one) {{
      {pointers}
      m -= m % LANES;
      if (wide == own) xf_mapped({own}, {given}, m * count / XF_UNIT);
      else xf_mapped({nodes}, {given}, m * count / XF_UNIT);
    }} else"""
        return start, "wide", row, halve, whole

    def _row_of_lanes(self) -> tuple[str, str, str, str, str]:
        """Where the order shows in no bit: each of ``wide`` lanes combines the elements that are ``wide`` apart."""
        wide, each = self.wide, f"XF_INDEPENDENT\n for (long long t = 0; t < {self.wide}; ++t)"
        row = f"""
      {self._each("xf_w{k} w{k};")}
      long long j = {wide};
      {each} {self._map("[t]", "[t]", "t", "w{0}[t]")}
      {self._take_lanes("count")}
      {each} {{ {self._move(f"a{{0}}[r * {wide} + t]", "w{0}[t]")} }}"""
        return f"enum {{ wide = {wide}, most = {CHUNK} / wide }}; {self._lane_types()}", "wide", row, "", ""

    # --- columns: results that are adjacent
    def _columns(self) -> str:
        """The function for tiles of results, a group of elements at a time."""
        loads, places, names = [], [], []
        for number in self.arrays:
            kind, size = storage_type(self._dtype(number)), self._dtype(number).itemsize
            places.append(
                f"const int is_row{number} = !is_wide && reduced == 1 && r{number}[0] == {size};\n    "
                f"const int is_unit{number} = !is_wide && k{number}[kept - 1] == {size} && "
                f"(unsigned long long)base{number} % _Alignof({kind}) == 0 && "
                f"xf_are_multiples(r{number}, reduced, _Alignof({kind}));\n    "
                f"const {kind} *f{number}[{GROUP}];"
            )
            loads.append(
                f"if (is_row{number} && n == {GROUP}) {{ const long long all = m; xf_box((char *)b{number}, "
                f"base{number} + start * {size}, {size}, {GROUP}, {size}, {self.tile}, 1, &all, k{number} + kept - 1); "
                f"for (long long j = 0; j < n; ++j) f{number}[j] = b{number}[j]; }}\n"
                f"else for (long long j = 0; j < n; ++j) {{ "
                f"const char *const q = base{number} + xf_offset(start + j, reduced, extent, r{number}); "
                f"f{number}[j] = is_unit{number} ? (const {kind} *)q : b{number}[j]; "
                f"if (!is_unit{number}) xf_box((char *)b{number}[j], q, {size}, steps, k{number}[over], inner, "
                f"kept - 1 - over, kept_extent + over + 1, k{number} + over + 1); }}"
            )
            names += [f"const {kind} *const e{number}_{j} = f{number}[{j}];" for j in range(GROUP)]
        convert = ""
        if self._converts:
            convert = f"for (long long j = 0; j < n; ++j) {{ {self._convert('m', 'f{}[j]', '[j]')} }}"
        near = lambda j: (f"[{j}][t]", f"_{j}[t]", f"start + {j}")
        eight = f"{{ {self._map_and_combine(GROUP, near)}"
        body = self._tile_of_lanes if self.is_free else self._tile_of_blocks
        levels = "" if self.is_free else f", c{{k}}[{LEVELS}][{self.tile}]"
        return f"""\
static void xf_columns(long long row, long long last_row, long long part, const long long *g, char *const *p,
                       char *const *to) {{
  {self._geometry()}
  {self._range()}
  {self._buffers(f"{GROUP}][{self.tile}", f"{GROUP}][{self.tile}")}
  {self._each(f"{{T}} a{{k}}[1][{self.tile}]{levels};")}
  const long long over = g[6], is_wide = over < kept - 1, apart = places[kept - 1];
  long long inner = 1, is_next = apart == 1;
  for (long long a = kept - 1; a > over; --a) {{
    inner *= kept_extent[a];
    is_next &= places[a - 1] == places[a] * kept_extent[a];
  }}
  while (row < last_row) {{
    const long long most = kept_extent[over] - row / inner % kept_extent[over];
    long long steps = (last_row - row) / inner;
    if (steps > g[7]) steps = g[7]; /* of rows as many as stay in the nearest cache */
    if (steps > most) steps = most;
    const long long m = steps * inner;
    {self._bases()}
    const long long place = xf_offset(row, kept, kept_extent, places);
    {" ".join(places)}
    {self._few_elements()}
{body(" ".join([*loads, convert]), " ".join(names), eight)}
    if (parts > 1) {{
      for (long long t = 0; t < m; ++t) {{ {self._keep("a{0}[0][t]", "row + t")} }}
    }} else if (is_next) {{
      XF_INDEPENDENT
      for (long long t = 0; t < m; ++t) {{ {self._results("a{0}[0][t]", "place + t")} }}
    }} else {{
      const long long side = is_wide ? kept_extent[kept - 1] : m, turns = is_wide ? steps : 1;
      for (long long q = 0; q < inner; q += side) {{
        const long long at = place + xf_offset(q, kept - 1 - over, kept_extent + over + 1, places + over + 1);
        for (long long s = 0; s < turns; ++s) {{
          const long long first = s * inner + q, to_first = at + s * places[over];
          for (long long t = 0; t < side; ++t) {{
            XF_ONE_BY_ONE; /* vectors would take a compiler long */
            {self._results("a{0}[0][first + t]", "to_first + t * apart")}
          }}
        }}
      }}
    }}
    row += m;
  }}
}}
"""

    def _few_elements(self) -> str:
        """Results of so few elements that accumulators need no memory."""
        if self._converts or len(self.spec.accumulators) > 1:  # which take a compiler long
            return ""
        is_plain = " && ".join([f"is_unit{number}" for number in self.arrays] or ["!is_wide"])
        cases = []
        for count in (1, 2, 3, 4):
            names = ""
            for number in self.arrays:
                kind = storage_type(self._dtype(number))
                for j in range(count):
                    place = f"(const {kind} *)(base{number} + xf_offset({j}, reduced, extent, r{number}))"
                    names += f"const {kind} *const e{number}_{j} = {place}; "
            lines = [
                self._each("{T} v{k}_" + str(j) + ";") + self._map("", f"_{j}[t]", str(j), f"v{{0}}_{j}")
                for j in range(count)
            ]
            steps = [*self._pairs(count & 6), *([self._combine("v{0}_0", "v{0}_2", "v{0}_0")] if count == 3 else [])]
            cases.append(
                f"if (count == {count}) {{ {names}\nXF_INDEPENDENT\nfor (long long t = 0; t < m; ++t) {{ "
                f"{' '.join([*lines, *steps])} {self._results('v{0}_0', 'place + t')} }} }}\n"
            )
        return f"""if (count <= 4 && parts == 1 && apart == 1 && {is_plain}) {{
      {" else ".join(cases)}
      row += m;
      continue;
    }}"""

    def _tile_of_lanes(self, loads: str, names: str, eight: str) -> str:
        each = "XF_INDEPENDENT\n for (long long t = 0; t < m; ++t)"
        joined = self._combine("a{0}[0][t]", "v{0}_0", "a{0}[0][t]")
        few = ""
        for count in (4, 2, 1):
            mapped = self._map_and_combine(count, lambda j: (f"[j + {j}][t]", "", f"start + j + {j}"))
            few += f"""
        if (n & {count}) {{
          const long long j = n & {8 - 2 * count};
          if (start + j > begin) {{ {each} {{ {mapped} {joined} }} }}
          else {{ {each} {{ {mapped} {self._move("a{0}[0][t]", "v{0}_0")} }} }}
        }}"""
        decided = ""
        if self.values.is_decided:
            decided = f"""
      if ((start - begin) / {GROUP} % 64 == 63) {{
        int go = 0;
        for (long long t = 0; t < m; ++t) go |= !({self.values.is_decided.format("a0[0][t]")});
        if (!go) break;
      }}"""
        return f"""\
    for (long long start = begin, n; start < end; start += n) {{
      n = end - start < {GROUP} ? end - start : start == begin ? {GROUP // 2} : {GROUP};
      {loads}
      if (n == {GROUP}) {{
        {names}
        {each} {eight} {joined} }}
      }} else {{ {few} }}{decided}
    }}"""

    def _tile_of_blocks(self, loads: str, names: str, eight: str) -> str:
        each = "XF_INDEPENDENT\n for (long long t = 0; t < m; ++t)"
        moved = f"{self._move('a{0}[0][t]', 'v{0}_0')} }}"
        few = ""  # two, or four neighbours before those that are done
        for count in (1, 2, 4):
            mapped = self._map_and_combine(count, lambda j: (f"[j + {j}][t]", "", f"start + j + {j}"))
            done = self._combine("v{0}_0", "a{0}[0][t]", "a{0}[0][t]")
            few += f"""
        if (n & {count}) {{
          const long long j = n & {8 - 2 * count};
          if (n & {count - 1}) {{ {each} {{ {mapped} {done} }} }}
          else {{ {each} {{ {mapped} {self._move("a{0}[0][t]", "v{0}_0")} }} }}
        }}"""
        across = ""
        if self.streams and (row := self.streams.row) is not None:
            across = " && !is_across"
            loads = f"""
#ifdef XF_ACROSS
      const int is_across = is_row{row} && n == {GROUP};
      if (is_across) xf_across(a0[0], base{row} + start * sizeof *a0[0], k{row}[kept - 1], m);
#else
      const int is_across = 0;
#endif
      if (!is_across) {{ {loads} }}"""
        joined = self._combine("c{0}[level][t]", "a{0}[0][t]", "a{0}[0][t]")
        return f"""\
    long long turn = 0;
    for (long long start = begin;; start += {GROUP}, ++turn) {{
      const long long n = end - start < {GROUP} ? end - start : {GROUP};
      {loads}
      if (n == {GROUP}{across}) {{
        {names}
        {each} {eight} {moved}
      }} else if (n < {GROUP}) {{ {few} }}
      if (start + {GROUP} >= end) break;
      int level = 0;
      for (; turn >> level & 1; ++level) {{ {each} {joined} }}
      {each} {{ {self._move("c{0}[level][t]", "a{0}[0][t]")} }}
    }}
    for (int level = 0; turn >> level; ++level)
      if (turn >> level & 1) {{ {each} {joined} }}"""

    def _join(self) -> str:
        dtypes = self.spec.accumulators
        values = [
            to_register(f"((const {storage_type(dtype)} *)to[{k}])[row * parts + j]", dtype)
            for k, dtype in enumerate(dtypes)
        ]
        entered = " ".join(f"a{k}[j] = {value};" for k, value in enumerate(self.values.enter(values)))
        memory = " ".join(
            f"{kind} *const a{k} = ({kind} *)(room + {k} * parts * 16);" for k, kind in enumerate(self.types)
        )
        return f"""\
XF_EXPORT void xf_join(const long long *g, char *const *p, char *const *to, char *room) {{
  {self._geometry()}
  {memory}
  for (long long row = 0; row < rows; ++row) {{
    for (long long j = 0; j < parts; ++j) {{ {entered} }}
    xf_halve(parts, {LEVELS}, {", ".join(self._names("a{}"))});
    const long long place = xf_offset(row, kept, kept_extent, places);
    {self._results("a{0}[0]", "place")}
  }}
}}
"""

    def _entry(self) -> str:
        cases = "\n".join(
            f"  case {along}: {name}(row, last_row, part, g, p, to); break;" for along, name in enumerate(_FUNCTIONS)
        )
        return f"""\
XF_EXPORT void {ENTRY}(long long row, long long last_row, long long part, long long along, const long long *g,
                       char *const *p, char *const *to) {{
  switch (along) {{
{cases}
  }}
}}
"""


def _section(name: str) -> str:
    return read_sections(Path(__file__).with_suffix(".c"))[name][1]


def _size_of(kind: str) -> int:
    return {"char": 1, "bool": 1, "short": 2, "int": 4, "float": 4}.get(kind.rsplit(maxsplit=1)[-1], 8)


@functools.cache
def _load_shared(target: host_compiler.Target) -> ctypes.CDLL:
    """The functions that all reductions share: they bring elements into order, and plan calls."""
    numbers = {
        "HEAD": _HEAD, "MOST_ARRAYS": _MOST_ARRAYS, "IN_PLACE": f"{_IN_PLACE}LL", "GROUP": GROUP, "CHUNK": CHUNK,
        "SLAB": SLAB, "FEW_RESULTS": _FEW, "MANY": _MANY, "VECTORS": _VECTORS,
        "SHORT_ROW": _SHORT_ROW, "MOST_LEFT": FEW, "LEAST_RUN": _LEAST_RUN,
        "LINE_NBYTES": _LINE_NBYTES, "WORD_NBYTES": _WORD_NBYTES,
        "ROWS_NBYTES": _ROWS_NBYTES, "MOST_ROOM": _MOST_ROOM,
        "COLUMNS_WAY": _COLUMNS, "ROWS_WAY": _ROWS, "NARROW_WAY": _NARROW, "SIDES_WAY": _SIDE_BY_SIDE,
    }  # fmt: skip
    defined = "".join(f"#define XF_{name} {value}\n" for name, value in numbers.items())
    text = native_source.section("prelude") + defined + _section("offset") + _section("order") + _section("plan")
    # Loops that copy an element at a time take up to 1.3 times as long where they cross a line.
    flags = (*native_engine.COMPACT_OPTIONS, "-falign-loops=32")
    return host_compiler.load_c(text, flags=flags, target=target)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class NativeReduction(native_engine.NativeKernel):
    """The compiled functions of a reduction, or how far they are."""

    def __init__(self, spec: ReductionSpec) -> None:
        parts = _split_parts(spec)
        self.spec, self.written, self.is_split = spec, parts or spec, parts is not None
        super().__init__(self.written.map_program, self.written.combine, self.written.post)
        self.why_not = self.why_not or find_uncovered(self._programs)
        written = self.written
        self.sizes = [
            param.dtype.itemsize for param in written.map_program.params[: written.inputs] if not param.is_scalar
        ]
        self.is_free = is_order_free(written.combine) and not written.map_program.keeps_order
        """Whether axes are walked as they lie in memory."""
        self.is_idempotent = written.combine.stores[0].value.op in _IDEMPOTENT and not _takes_count(written)
        self.per_element_ns = _PER_BYTE_NS * sum(self.sizes)
        self.per_element_ns += _PER_NODE_NS * len([*written.map_program.nodes, *written.combine.nodes])

    def takes(self, rows: int, count: int) -> bool:
        """Whether it computes ``rows`` results, each of ``count`` elements."""
        is_able = rows > 0 and count > 0 and len(self.sizes) <= _MOST_ARRAYS
        return is_able and not (self.spec.chooses and count >= _MOST_NUMBERED)

    def write_text(self) -> str:
        """The C text, for any processor."""
        writer = _ReductionWriter(self.written, split=self.is_split)
        self.tile, self.most_few, self.words = writer.tile, writer.most_few, len(writer.types)
        self.sides, self.whole_counts, self.least_of_nodes = writer.sides, writer.whole_counts, writer.least_of_nodes
        self.finds_first = isinstance(writer.values, _First)
        return writer.text()

    def _build(self, target: host_compiler.Target) -> int | None:
        text = self.write_text()
        library = host_compiler.load_c(text, flags=native_engine.COMPACT_OPTIONS, target=target)
        shared = _load_shared(target)
        ctypes.c_void_p.in_dll(library, "xf_box").value = _address(shared["xf_box"])
        self.plan = shared["xf_plan"]
        self.plan.restype = None
        self.layout_form = self._find_form()
        pointer, number = ctypes.c_void_p, ctypes.c_longlong
        self.reduce, self.join = library[ENTRY], library["xf_join"]
        self.reduce.restype = self.join.restype = None
        self.reduce.argtypes = (number, number, number, number, pointer, pointer, pointer)
        self.join.argtypes = (pointer, pointer, pointer, pointer)
        return _address(self.reduce)

    def bind(
        self,
        inputs: Sequence[DType],
        outputs: Sequence[DType],
        rank: int,
        axes: tuple[int, ...],
        *,
        keepdims: bool,
    ) -> Callable[[tuple[Any, ...]], Any] | None:
        """A function that runs calls on NumPy arrays of these dtypes and a rank, in any layout, along axes.

        It gives ``NotImplemented`` where Python has to; so does None. Of small floats the kernel sees the bits.
        """
        spec = self.spec
        if len(inputs) < spec.arguments:
            return None
        kept = tuple(axis for axis in range(rank) if axis not in axes)
        of_result = tuple(-1 if axis in axes else axis for axis in range(rank)) if keepdims else kept
        alone_ns = 2.0 * threads.THREAD_NS if most_threads() > 1 else math.inf
        most = _MOST_NUMBERED - 1 if spec.chooses else _IN_PLACE
        return _native.bind_fold(
            _address(self.reduce), _address(self.plan), ctypes.addressof(native_engine._settings),
            self.layout_form.tobytes(), self.per_element_ns, _PER_RESULT_NS, _WITH_LOCK_NS, alone_ns, most,
            len(self.written.accumulators), rank, kept, axes, of_result, tuple(inputs), spec.firsts, tuple(outputs),
            outputs[0].itemsize, np.ndarray, np._core.multiarray._ARRAY_API, self,  # type: ignore[attr-defined]
        )  # fmt: skip

    def _find_form(self) -> A:
        """The numbers on which a plan depends, beside the layout: see `xf_plan`."""
        whole, itemsize = self.whole_counts, self.written.accumulators[0].itemsize
        numbers = [
            len(self.sizes),
            self.is_free,
            self.is_idempotent,
            self.most_few,
            self.tile,
            _LEAST_SIDE * self.sides,
            whole.start,
            whole.stop,
            self.least_of_nodes,
            itemsize,
            self.is_split,
            self.finds_first,
        ]
        return np.array([*numbers, *self.sizes], np.int64)


_IDEMPOTENT = frozenset({"min", "max", "and", "or"})
"""Operations that give a value of two that are equal to it."""


def _takes_count(spec: ReductionSpec) -> bool:
    """Whether the number of elements is in a result: the map's `size`, or what follows the accumulators at the end."""
    follows = len(spec.accumulators)
    ends = any(node.op == "load" and node.attr == follows for node in spec.post.nodes)
    return ends or any(node.op == "size" for node in spec.map_program.nodes)


class NativeReductionPlan:
    """A compiled reduction prepared for one layout.

    Args:
        kernel: Compiled.
        kept: Extents of the result, and the byte strides of each input array along them.
        reduced: The same of the reduced axes.
    """

    def __init__(self, kernel: NativeReduction, kept: CallLayout, reduced: CallLayout) -> None:
        self.kernel = kernel
        spec = kernel.written
        ranks = len(kept.shape), len(reduced.shape)
        axes = [np.array([*zip(each.shape, *each.strides, strict=True)], np.int64) for each in (kept, reduced)]
        geometry, found = (
            np.empty(_HEAD + (3 + 2 * len(kernel.sizes)) * (sum(ranks) + 4), np.int64),
            np.empty(6, np.int64),
        )
        given: tuple[A, ...] = (kernel.layout_form, *axes, geometry, found)
        form, *addresses = (ctypes.c_void_p(each.ctypes.data) for each in given)
        kernel.plan(form, *map(ctypes.c_longlong, ranks), *addresses)
        self._rows, self._count, self._along, self._tile, self._room_nbytes, size = found.tolist()
        self._geometry = geometry[:size].tolist()
        self._pointers = ctypes.c_void_p * (spec.inputs + spec.outputs)
        self._accumulators = spec.accumulators
        per_result_ns = _PER_RESULT_NS * (self._along in (_ROWS, _SIDE_BY_SIDE))
        self._work_ns = self._rows * (self._count * kernel.per_element_ns + per_result_ns)
        self._divided: tuple[int, Any, int, int, int] = (0, None, 0, 0, 0)

    def _divide(self, most: int) -> tuple[Any, int, int, int]:
        """The geometry, the rows of a piece, the parts of a row, and how many threads to wake, of at most ``most``."""
        if self._divided[0] != most:
            blocks = max(self._rows, -(-self._rows * self._count // _LEAST_PART))
            helpers = helper_count(self._work_ns, blocks, most)
            pieces = 4 * (helpers + 1) if helpers else 1
            rows, parts, length = -(-self._rows // pieces), 1, 0
            if helpers and self._rows < pieces and self._count > 2 * _LEAST_PART:
                rows = 1
                wanted = -(-self._count * self._rows // pieces)
                length = max(_LEAST_PART, 1 << max(0, wanted - 1).bit_length())
                parts = -(-self._count // length)
            if self._along in (_COLUMNS, _NARROW):
                tile = self._tile
                rows = -(-rows // tile) * tile if self._rows > tile else self._rows
            numbers = [*self._geometry]
            numbers[4:6] = [length, parts]
            self._divided = most, (ctypes.c_longlong * len(numbers))(*numbers), rows, parts, helpers
        return self._divided[1:]

    def _memory(self, partial: Sequence[A]) -> tuple[Any, A]:
        """The addresses of the memory for parts and of a thread's own, and that memory."""
        room = np.empty(self._room_nbytes, np.uint8)
        addresses = [each.ctypes.data for each in partial] or [0] * len(self._accumulators)
        return (ctypes.c_void_p * (len(addresses) + 1))(*addresses, room.ctypes.data), room

    def run(self, operands: Sequence[int], outputs: Sequence[A]) -> None:
        """Reduce the arrays and scalars at these addresses to contiguous arrays of as many elements as results."""
        geometry, step, parts, helpers = self._divide(most_threads())
        pointers = self._pointers(*operands, *[each.__array_interface__["data"][0] for each in outputs])
        reduce, rows, along = self.kernel.reduce, self._rows, self._along
        if parts > 1 and along == _SIDE_BY_SIDE:
            along = _ROWS
        if parts == 1 and not helpers:
            into, _held = self._memory(()) if self._room_nbytes else (None, None)
            reduce(0, rows, 0, along, geometry, pointers, into)
            return
        partial = [np.empty(rows * parts, dtype) for dtype in self._accumulators] if parts > 1 else []
        pieces = [(row, min(row + step, rows), part) for row in range(0, rows, step) for part in range(parts)]

        def work(take: Callable[[], int]) -> None:
            into, _held = self._memory(partial)
            while (number := take()) >= 0:
                row, last, part = pieces[number]
                reduce(row, last, part, along, geometry, pointers, into)

        threads.workers.run(threads.Computation(len(pieces), work, helpers=helpers))
        if parts > 1:
            into, _held = self._memory(partial)
            room = np.empty(parts * 16 * self.kernel.words, np.uint8)  # named: an address alone does not keep it alive
            self.kernel.join(geometry, pointers, into, room.ctypes.data)
