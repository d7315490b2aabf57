"""The nodes of a program as text of C and of CUDA C++, which differ in a few words: a `Dialect`.

Rounding is written out (``__fadd_rn``, of which C has macros), so that no option of the compiler can contract or flush
it. Half floats live in registers as float, rounded after each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xferlib.kernels.float64_functions import Float64Function, float64_function, is_own
from xferlib.kernels.ir import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    LEAVES,
    UINT64,
    Column,
    DType,
    LoopBody,
    Node,
    Program,
    is_float,
    is_integer,
    real_operands,
)

# Each core operation as an expression, with the meaning that `xferlib.kernels.ir` defines.

C_NAMES: dict[str, str] = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
    "float16": "float", "float32": "float", "float64": "double", "complex64": "xf_c64", "complex128": "xf_c128",
}  # fmt: skip
"""The C type of a value in registers."""

_STORAGE = {"bool": "unsigned char", "float16": "unsigned short"}

WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
"""The unsigned types by their size."""

_INTRINSICS = {
    "add": ("__fadd_rn", "__dadd_rn"), "sub": ("__fsub_rn", "__dsub_rn"), "mul": ("__fmul_rn", "__dmul_rn"),
    "sqrt": ("__fsqrt_rn", "__dsqrt_rn"), "fma": ("__fmaf_rn", "__fma_rn"),
}  # fmt: skip
_FUNCTIONS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "abs": "fabs", "fmod": "fmod"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_WRAPPING = {"add": "+", "sub": "-", "mul": "*"}
_BITS = {"and": "&", "or": "|", "xor": "^"}


def c_type(dtype: DType) -> str:
    """The type of a value of ``dtype`` in registers."""
    return C_NAMES[dtype.name]


def storage_type(dtype: DType) -> str:
    """The type of a value of ``dtype`` in memory."""
    return _STORAGE.get(dtype.name) or c_type(dtype)


def to_register(text: str, dtype: DType) -> str:
    """The expression of a value in registers, from one in memory."""
    if dtype == FLOAT16:
        return f"xf_from_half({text})"
    return f"({text} != 0)" if dtype == BOOL else text


def to_memory(text: str, dtype: DType) -> str:
    """The expression of a value in memory, from one in registers."""
    return f"xf_to_half({text})" if dtype == FLOAT16 else text


def constant(value: Any, dtype: DType) -> str:
    """A literal with exactly the bits of ``value``."""
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype == FLOAT16:
        value, dtype = np.float32(value), FLOAT32
    if is_float(dtype):
        bits = int(np.asarray(value, dtype).view(f"u{dtype.itemsize}"))
        return f"__int_as_float(0x{bits:08x})" if dtype == FLOAT32 else f"__longlong_as_double(0x{bits:016x}LL)"
    bits = int(value) & (1 << 8 * dtype.itemsize) - 1
    return f"({c_type(dtype)})0x{bits:x}ull"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The differences between CUDA C++ and C in the text of a program's nodes."""

    typed: Callable[[str, DType], str]
    """The name of a function for operands of one type."""
    pair: Callable[[str, str, str], str]
    """A complex value, from the name of its type and its parts."""
    nothing: str
    """The initial value of a variable of any type."""
    call: Callable[[Node, list[str], str], str]
    """The expression of an operation of `calls`: the node, its operands, and the mode."""
    calls: frozenset[str]
    """The operations that are functions of the language's own."""
    expand: Callable[[Program], Program]
    """The program as this language computes it."""
    begin_loop: Callable[[str, str], list[str]]
    """The beginning of a loop, which runs while a variable is true: its name, and its first value."""
    operand: Callable[[Node, str], str] = lambda _, name: name
    """The expression of a value that an operation takes, from the value's name."""


def expression(node: Node, args: list[str], math: str, dialect: Dialect) -> str:
    """The C expression that computes ``node`` from the names of its operands."""
    dtype, op = node.dtype, node.op
    operand = node.args[0].dtype if node.args else dtype
    if op in dialect.calls:
        return dialect.call(node, args, math)
    if op == "cast":
        return _cast(args[0], operand, dtype, dialect)
    if op == "bitcast":
        return _bitcast(args[0], operand, dtype)
    if op == "select" and dtype == BOOL:  # gcc 12 has no vectors of conditions that choose between conditions
        return f"(bool)(({args[0]} & {args[1]}) | (!{args[0]} & {args[2]}))"
    if op == "select":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if op == "narrow":
        return f"xf_to_bfloat16({args[0]})"
    if op in _COMPARE:
        return f"{args[0]} {_COMPARE[op]} {args[1]}"
    if op == "lookup":
        return _lookup(node.attr, args[0])
    if op == "complex":
        return dialect.pair(c_type(dtype), args[0], args[1])
    if op in ("real", "imag"):
        return f"{args[0]}.{'x' if op == 'real' else 'y'}"
    if is_float(dtype):
        return _float(op, dtype, args)
    if negated := operand_of_negation(node):
        return _integer("neg", dtype, [args[0 if node.args[0] is negated else 1]], dialect)
    return _bool(op, args) if dtype == BOOL else _integer(op, dtype, args, dialect)


def operand_of_negation(node: Node) -> Node | None:
    """The operand that an integer's negation, difference from 0 or product with -1 has; of other nodes None."""
    if node.dtype.kind not in "iu" or node.op not in ("neg", "sub", "mul"):
        return None
    first, second = node.args[0], node.args[-1]
    if node.op == "neg":
        return first
    if node.op == "sub":
        return second if first.op == "const" and first.attr == 0 else None
    whole = (1 << 8 * node.dtype.itemsize) - 1
    pairs = ((first, second), (second, first))
    return next((x for x, y in pairs if y.op == "const" and int(y.attr) & whole == whole), None)


def _lookup(column: Column, row: str) -> str:
    """An element of a table, whose rows lie one after the other."""
    word = f"xf_{column.table.name}_table[{len(column.table.columns)} * (int){row} + {column.number}]"
    return word if column.dtype == UINT64 else f"__longlong_as_double((long long){word})"


def binary(op: str, dtype: DType, x: str, y: str, dialect: Dialect) -> str:
    """The C expression of a core operation on two values of one dtype that is no bool."""
    return _float(op, dtype, [x, y]) if is_float(dtype) else _integer(op, dtype, [x, y], dialect)


def _float(op: str, dtype: DType, args: list[str]) -> str:
    text = ", ".join(args)
    if op == "neg":
        return f"-{args[0]}"
    if op == "div":  # no compiler contracts it, and of constants it is one
        quotient = f"{args[0]} / {args[1]}"
        return f"xf_half({quotient})" if dtype == FLOAT16 else quotient
    if op in ("min", "max"):
        return f"xf_{op}({text})"
    if op in _FUNCTIONS:
        return f"{_FUNCTIONS[op]}{'' if dtype == FLOAT64 else 'f'}({text})"
    if dtype == FLOAT64:
        return f"{_INTRINSICS[op][1]}({text})"
    if dtype == FLOAT32:
        return f"{_INTRINSICS[op][0]}({text})"
    return f"xf_fma_half({text})" if op == "fma" else f"xf_half({_INTRINSICS[op][0]}({text}))"


def _bool(op: str, args: list[str]) -> str:
    if op == "not":
        return f"!{args[0]}"
    return f"(bool)({args[0]} {_BITS[op]} {args[1]})"


def _integer(op: str, dtype: DType, args: list[str], dialect: Dialect) -> str:
    ctype = c_type(dtype)
    wide = "unsigned long long" if dtype.itemsize == 8 else "unsigned int"
    if op in _WRAPPING:
        return f"({ctype})(({wide}){args[0]} {_WRAPPING[op]} ({wide}){args[1]})"
    if op == "abs" and dtype.kind == "u":
        return args[0]
    if op in _BITS:
        return f"({ctype})({args[0]} {_BITS[op]} {args[1]})"
    if op == "not":
        return f"({ctype})(~{args[0]})"
    if op in ("min", "max"):
        return f"({args[0]} {'<' if op == 'min' else '>'} {args[1]} ? {args[0]} : {args[1]})"
    return f"{dialect.typed(f'xf_{op}', dtype)}({', '.join(args)})"


def _cast(text: str, source: DType, target: DType, dialect: Dialect) -> str:
    if target == BOOL:
        return f"({text} != 0)"
    if target == FLOAT16:
        return f"xf_half_of_double({text})" if source == FLOAT64 else f"xf_half((float){text})"
    if is_float(source) and is_integer(target):
        return f"{dialect.typed('xf_saturate', target)}({text}, {_range(source, target)})"
    return f"({c_type(target)}){text}"


def _range(source: DType, target: DType) -> str:
    """The lowest value of ``target`` and the first one beyond it, exact in float, and its highest value."""
    info = np.iinfo(target)
    kind = FLOAT64 if source == FLOAT64 else FLOAT32
    beyond = 2.0 ** (info.bits - (target.kind == "i"))
    low, high = constant(float(info.min), kind), constant(beyond, kind)
    return f"{low}, {high}, {constant(info.min, target)}, {constant(info.max, target)}"


def _bitcast(text: str, source: DType, target: DType) -> str:
    if source == FLOAT16:
        return f"({c_type(target)})xf_to_half({text})"
    if target == FLOAT16:
        return f"xf_from_half((unsigned short){text})"
    if source == FLOAT32:
        return f"({c_type(target)})__float_as_uint({text})"
    if target == FLOAT32:
        return f"__uint_as_float((unsigned int){text})"
    if source == FLOAT64:
        return f"({c_type(target)})__double_as_longlong({text})"
    if target == FLOAT64:
        return f"__longlong_as_double((long long){text})"
    return f"({c_type(target)}){text}"


# The statements of a program's nodes, loops among them.

Gather = Callable[[Node, int, list[str]], str]
"""The expression of an element of an array: the node, the array's parameter, and the names of the operands."""
Update = Callable[[Node, int, list[str], str], str]
"""The statement of an update: as for `Gather`, and the name that gets the element's value before."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the statements of a program's nodes.

    Args:
        leaf: The expression of a parameter's value, or of a number of the call or its arrays.
        gather: The expression of an array's element.
        update: The statement of an update.
        math: ``"exact"`` or ``"fast"``.
        dialect: The language.
        unrounded: Gets what is rounded to values of float16, by their names, so that a store need not round twice.
    """

    leaf: Callable[[Node], str]
    gather: Gather
    update: Update
    math: str
    dialect: Dialect
    unrounded: dict[str, str] | None = None

    def statements(self, nodes: Sequence[Node], names: dict[int, str], prefix: str) -> list[str]:
        """The statements that compute nodes, and their names in ``names``.

        Args:
            nodes: Operands before users.
            names: Gets the name of each node by its identity.
            prefix: What the names begin with.
        """
        lines: list[str] = []
        for count, node in enumerate(nodes):
            name = names[id(node)] = f"{prefix}{count}"
            if node.op == "loop":
                lines += self._loop(node.attr, name, [names[id(each)] for each in node.args])
            elif node.op == "update":
                args = [self.dialect.operand(each, names[id(each)]) for each in real_operands(node)]
                update = self.update(node, node.attr.param, args, name)
                lines.append(f"    {c_type(node.dtype)} {name} = {self.dialect.nothing}; {update}")
            elif node.op == "pick":
                names[id(node)] = f"{names[id(node.args[0])]}_{node.attr}"
            else:
                args = [self.dialect.operand(each, names[id(each)]) for each in real_operands(node)]
                if node.op == "const":
                    text = constant(node.attr, node.dtype)
                elif node.op == "gather":
                    text = self.gather(node, node.attr, args)
                else:
                    is_leaf = node.op in LEAVES
                    text = self.leaf(node) if is_leaf else expression(node, args, self.math, self.dialect)
                if self.unrounded is not None and text.startswith("xf_half("):
                    lines.append(f"    const float {name}_wide = {text.removeprefix('xf_half')};")
                    self.unrounded[name] = f"{name}_wide"
                    text = f"xf_half({name}_wide)"
                lines.append(f"    const {c_type(node.dtype)} {name} = {text};")
        return lines

    def _loop(self, body: LoopBody, name: str, args: list[str]) -> list[str]:
        """A loop whose variables are ``name_0``, ``name_1``, ..."""
        program = self.dialect.expand(body.program)
        given: list[str] = [f"{name}_{number}" for number in range(body.carried)] + args[1 + body.carried :]
        names: dict[int, str] = {}

        def outer_gather(node: Node, array: int, args: list[str]) -> str:
            return self.gather(node, body.array(array), args)

        def outer_update(node: Node, array: int, args: list[str], name: str) -> str:
            return self.update(node, body.array(array), args, name)

        lines = [
            f"    {c_type(param.dtype)} {name}_{number} = {args[1 + number]};"
            for number, param in enumerate(program.params[: body.carried])
        ]
        inner = Writer(lambda node: given[int(node.attr)], outer_gather, outer_update, self.math, self.dialect)
        turn = inner.statements(program.nodes, names, f"{name}_v")
        # Behind the body, whose sites come before that of too many turns.
        lines += self.dialect.begin_loop(f"{name}_go", args[0])
        lines += turn
        *results, again = [names[id(store.value)] for store in program.stores]
        lines += [f"    {name}_{number} = {result};" for number, result in enumerate(results)]
        return [*lines, f"    {name}_go = {again};", "    }"]


# Own float64 functions, from the programs that define them.


def own_functions(programs: Iterable[Program], *, is_any: bool = False) -> list[Float64Function]:
    """The own float64 functions that programs call; with ``is_any`` those of ``math="fast"`` too.

    CUDA has functions for all of them.
    """
    names = {
        str(node.attr)
        for program in programs
        for node in program.nodes
        if (is_any or program.math == "exact") and is_own(node, "exact")
    }
    return [float64_function(name) for name in sorted(names)]


def table_text(functions: Iterable[Float64Function], kind: str, *, multiple: int = 1) -> str:
    """The arrays of constants that functions look up, as bits.

    Args:
        functions: The functions.
        kind: The type of the arrays.
        multiple: What the number of columns is a multiple of, by columns of zeros.
    """
    programs = [program for each in functions for program in (each.common, each.rare)]
    tables = {node.attr.table: None for program in programs for node in program.nodes if node.op == "lookup"}
    lines = []
    for table in tables:
        columns = [
            np.array(each, Column(table, number).dtype).view(UINT64) for number, each in enumerate(table.columns)
        ]
        columns += [np.zeros_like(columns[0])] * (-len(columns) % multiple)
        words = np.stack(columns, axis=1).ravel().tolist()
        lines.append(f"{kind} xf_{table.name}_table[{len(words)}] = {{{', '.join(map('{:#x}ull'.format, words))}}};\n")
    return "".join(lines)


def function_statements(program: Program, dialect: Dialect) -> tuple[str, list[str]]:
    """The statements of a definition's program of operands x0 and x1, and the names of its results."""
    names: dict[int, str] = {}
    nothing = lambda *_: ""  # there are no raw parameters
    writer = Writer(lambda node: f"x{node.attr}", nothing, nothing, "exact", dialect)
    lines = writer.statements(program.nodes, names, "v")
    return "".join(f"{each[2:]}\n" for each in lines), [names[id(store.value)] for store in program.stores]


FMA_OF_HALF = """\
// x*y is exact in double; the sum is rounded to odd, so that rounding it again to half is right.
__device__ __forceinline__ float xf_fma_half(float x, float y, float z) {
  double p = __dmul_rn(x, y), s = __dadd_rn(p, z), back = __dadd_rn(s, -p);
  double error = __dadd_rn(__dadd_rn(p, -__dadd_rn(s, -back)), __dadd_rn(z, -back));
  long long bits = __double_as_longlong(s);
  if (error != 0.0 && !(bits & 1) && fabs(s) < __longlong_as_double(0x7ff0000000000000LL))
    bits += (error > 0.0) == (s > 0.0) ? 1 : -1;
  return xf_half_of_double(__longlong_as_double(bits));
}
"""
