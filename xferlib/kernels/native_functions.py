"""The float32 functions of native kernels: C source, correctly rounded, with no call of a library.

The C library's functions would be shorter: but their bits differ between libraries and CPUs, and compilers vectorise
none of them without a second library. The text is in ``native_functions.c``: a function's *fast* form takes operations
and selections alone and says where it is not certain of the rounding; the caller then repeats that element with the
*slow* form. float16 and bfloat16 have the functions of float32, rounded once more (`xferlib.kernels.formulas.call`);
some have a shorter text for the numbers of float16, which is always right.

A compiler must not contract (``-ffp-contract=off``): the slow forms add exactly what a rounding has lost. Where the
machine multiplies and adds in one instruction the text says so itself, and the correctly rounded result is the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from xferlib.kernels import formulas
from xferlib.kernels.functions import CALLS
from xferlib.kernels.ir import FLOAT16, FLOAT32, FLOAT64, Builder, DType, Node, Program
from xferlib.kernels.small_floats import find_bfloat16_bits

NAMES = (*CALLS, "power", "arctan2", "fmod")
"""The functions that have C text, of float32."""
OF_BFLOAT16 = frozenset({
    "exp", "expm1", "exp2", "tanh", "log", "log1p", "log2", "log10", "sin", "cos", "arctan", "arcsin", "arccos",
    "arctanh", "rsqrt", "erf",
})  # fmt: skip
"""Those that have a text for operands of bfloat16 too."""
OF_HALF = OF_BFLOAT16 | {
    "sinh", "cosh", "arccosh", "cbrt",
}  # fmt: skip
"""Those that have one for operands of float16."""
_ENDING = "_bf16"
"""Of the ``attr`` of a call whose operand and result are numbers of bfloat16, in float32."""
UNCERTAIN = frozenset({("sin", "bfloat16"), ("cos", "bfloat16")})
"""Those of these that have a slow form."""
BINARY = frozenset({"power", "arctan2", "fmod"})


Sections = dict[str, tuple[tuple[str, ...], str]]
"""The needs of each section of a text, and its own text, in an order that compiles."""


@functools.cache
def read_sections(path: Path) -> Sections:
    """The sections of a text: each begins with a line ``//: its name: the sections that it needs``."""
    found = {}
    for part in path.read_text(encoding="utf-8").split("//: ")[1:]:
        head, _, body = part.partition("\n")
        name, _, needs = head.partition(":")
        found[name] = (tuple(needs.split()), body)
    return found


def collect_sections(sections: Sections, names: Iterable[str]) -> list[str]:
    """The names of the given sections and of all that they need, in an order that compiles."""
    waiting = list(names)
    wanted: set[str] = set()
    while waiting:
        each = waiting.pop()
        if each not in wanted:
            wanted.add(each)
            waiting += sections[each][0]
    return [each for each in sections if each in wanted]


def expand(program: Program) -> Program:
    """The program as C computes it: `formulas.expand`, and calls of float16 where one of float32 is rounded to it.

    Their operands are float32, which hold numbers of float16. Likewise of bfloat16, whose numbers are integers here.
    """
    program = formulas.expand(program)
    if not any(_is_of_half(node) or find_bfloat16(node) for node in program.nodes):
        return program

    def replacement(b: Builder, node: Node, copies: dict[int, Node]) -> Node | None:
        if _is_of_half(node):
            call = node.args[0]
            return b.emit("call", FLOAT16, (b.cast(copies[id(call.args[0].args[0])], FLOAT32),), call.attr)
        return call_of_bfloat16(b, node, copies)

    return formulas.rebuild(program, replacement)


def _is_of_half(node: Node) -> bool:
    if node.op != "cast" or node.dtype != FLOAT16:
        return False
    call = node.args[0]
    is_own = call.op == "call" and call.attr in OF_HALF and call.dtype == _dtype_of(call.attr)
    return is_own and call.args[0].op == "cast" and call.args[0].args[0].dtype == FLOAT16


def find_bfloat16(node: Node) -> tuple[str, Node] | None:
    """The function with a text for bfloat16 whose rounded result a node is, and its operand, of bfloat16 too."""
    if node.op != "narrow":
        return None
    call = node.args[0]
    if call.op == "cast" and call.args[0].op == "call":
        call = call.args[0]
    if call.op != "call" or call.attr not in OF_BFLOAT16 or call.dtype != _dtype_of(call.attr):
        return None
    operand = call.args[0]
    if call.dtype == FLOAT64 and operand.op == "cast":
        operand = operand.args[0]
    return (call.attr, operand) if find_bfloat16_bits(operand) is not None else None


def call_of_bfloat16(b: Builder, node: Node, copies: dict[int, Node]) -> Node | None:
    """Such a node by that text; None of any other."""
    found = find_bfloat16(node)
    if found is None:
        return None
    name, operand = found
    return b.emit(node.op, node.dtype, (b.emit("call", FLOAT32, (copies[id(operand)],), name + _ENDING),))


def _dtype_of(name: object) -> DType:
    """The dtype in which programs of 16 bits call a function."""
    return FLOAT64 if name == "erf" else FLOAT32


def split_call(node: Node) -> tuple[str, str]:
    """The function of a call, and the dtype of its C text."""
    name = str(node.attr)
    return (name.removesuffix(_ENDING), "bfloat16") if name.endswith(_ENDING) else (name, node.dtype.name)


def _sections() -> Sections:
    return read_sections(Path(__file__).with_name("native_functions.c"))


def text(names: Iterable[str]) -> str:
    """C11 source of functions, by the names of their sections: no ``#include``, static functions alone, each once.

    Each function defines ``static inline float xf_NAME_f32(float x, int *flag)`` and ``static float
    xf_NAME_f32_slow(float x)``; those of two operands take ``float x, float y``. The fast form gives the correctly
    rounded result, or sets the flag's lowest bit and gives any value; the slow form is always right.

    The names are those of a ``call`` of the representation. One of ``NAME_f16`` defines ``static inline float
    xf_NAME_f16(float x)`` alone: the float that is rounded to the right float16, for a float that holds a float16.
    ``NAME_bf16`` is the same of bfloat16; those of angles take a flag, and have the slow form of float32.
    """
    sections = _sections()
    return "".join(sections[each][1] for each in collect_sections(sections, names))


def bfloat16_text(names: Iterable[str]) -> str:
    """Functions of bfloat16 by the names of their sections, without those of float32 and their base."""
    base = {"base", "sqrt", *NAMES}
    sections = {each: (tuple(set(needs) - base), body) for each, (needs, body) in _sections().items()}
    return "".join(sections[each][1] for each in collect_sections(sections, names))
