"""The float32 functions of CUDA kernels, correctly rounded: CUDA C++ by two ways with the same bits.

*Through float64*: CUDA's function of float64, rounded once, and a table of the inputs for which this may be wrong
(`xferlib.kernels.functions.hard_cases`). It is short, and fast where a device has float64 at full or half rate. On
most devices float64 runs at 1/32 or 1/64 of float32, and bounds the kernel instead of memory.

*In pairs of float32*: ``cuda_functions.cu``, with no float64 at all. On devices with fast float64 it is faster for
some functions and slower for others: `THROUGH_DOUBLE` are those. The preprocessor chooses by the architecture that is
compiled for.

A float16 result needs less. CUDA's own float32 functions are within some units of float32's last place, which decide
over the rounding to float16 in one of some hundred cases; only these take the exact function.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from xferlib.kernels.formulas import PAIRS, rebuild
from xferlib.kernels.functions import CALL_NAMES, MARGIN_ULP, hard_cases
from xferlib.kernels.ir import FLOAT16, FLOAT32, Builder, Node, Program
from xferlib.kernels.native_functions import Sections, collect_sections, read_sections

FULL_DOUBLE = (600, 700, 800, 900, 1000)
"""The architectures with float64 at half of float32's rate, as ``__CUDA_ARCH__``; all others have 1/32 or less."""

NEAR_ULP = 5
"""More than the error of CUDA's own float32 functions, which is at most 4 ulp by its documentation."""

IN_PAIRS = frozenset({"power", "arctan2", "cbrt", "rsqrt"})
"""The functions that these compute in pairs of floats too: they have no other text, or are as fast."""


@functools.cache
def sections() -> Sections:
    """The sections of the text in pairs; those of functions have their names."""
    return read_sections(Path(__file__).with_name("cuda_functions.cu"))


def narrow_calls(program: Program) -> Program:
    """The program with calls of float16 in place of those that are rounded to it.

    Such a call takes float32. The same program if there is none.
    """
    if not any(_is_rounded_call(node, program) for node in program.nodes):
        return program

    def replacement(b: Builder, node: Node, copies: dict[int, Node]) -> Node | None:
        if not _is_rounded_call(node, program):
            return None
        call = node.args[0]
        return b.emit("call", FLOAT16, (copies[id(call.args[0])],), call.attr)

    return rebuild(program, replacement)


def _is_rounded_call(node: Node, program: Program) -> bool:
    if node.op != "cast" or node.dtype != FLOAT16 or program.math != "exact":
        return False
    call = node.args[0]
    return call.op == "call" and call.dtype == FLOAT32 and call.attr not in PAIRS


def text(names: Iterable[str], halves: Iterable[str] = ()) -> str:
    """CUDA C++ of functions of float32.

    ``xf_exact_NAME`` of one float, or two, is ``xf_quick_NAME`` where that is certain, else ``xf_careful_NAME``. (To
    compute a thread's elements by the quick forms and the others in a second pass was slower on an H200.)

    Args:
        names: The functions.
        halves: Those that ``xf_exact_half_NAME`` computes as well: the exact result, rounded to float16.
    """
    halves = set(halves)
    names = sorted({*names, *halves})
    if not names:
        return ""
    in_pairs, in_double = (collect_sections(sections(), sections_of(names, way)) for way in ("pairs", "double"))
    fast = " || ".join(f"__CUDA_ARCH__ == {each}" for each in FULL_DOUBLE) or "0"
    parts = _pieces(each for each in in_pairs if each in in_double)
    parts += [f"#if {fast}\n", *_pieces(each for each in in_double if each not in in_pairs)]
    parts += ["#else\n", *_pieces(each for each in in_pairs if each not in in_double), "#endif\n"]
    parts += [join_steps(each, each) for each in names]
    if halves:
        parts.append(_HALF_WITHIN)
        for each in sorted(halves):
            parts += [_half(each), join_steps(f"half_{each}", each)]
    return "".join(parts)


def sections_of(names: Iterable[str], way: str) -> list[str]:
    """The sections that define both steps of functions, the quick one in ``pairs`` of floats or in ``double``."""
    return [f"{each}_in_{'pairs' if each in IN_PAIRS else way}" for each in names]


def _pieces(names: Iterable[str]) -> list[str]:
    return [sections()[each][1] for each in names]


def _operands(name: str) -> tuple[str, str]:
    """The parameters of a function, and the arguments of their names."""
    return ("float x, float y", "x, y") if name in PAIRS else ("float x", "x")


def join_steps(name: str, function: str) -> str:
    """The text of ``xf_exact_NAME`` from the steps of a function."""
    given, args = _operands(function)
    return f"""\
XF_QUICK float xf_exact_{name}({given}) {{
  int is_unsure = 0;
  float r = xf_quick_{name}({args}, &is_unsure);
  return is_unsure ? xf_careful_{name}({args}) : r;
}}
"""


_HALF_WITHIN = """\
// The float16 to which all numbers round that are within a relative distance e of x; the flag, if they are several.
XF_QUICK float xf_half_within(float x, float e, int *is_unsure) {
  unsigned short low = xf_to_half(x * (1.0f - e)), high = xf_to_half(x * (1.0f + e));
  *is_unsure |= low != high;
  return xf_from_half(low);
}
"""

def _half(name: str) -> str:
    """CUDA's own float32 function, and the exact one where the rounding to float16 depends on some units of float32."""
    near = "__fdiv_rn(1.0f, __fsqrt_rn(x))" if name == "rsqrt" else f"{CALL_NAMES.get(name, name)}f(x)"
    return f"""\
XF_QUICK float xf_quick_half_{name}(float x, int *is_unsure) {{
  return xf_half_within({near}, {NEAR_ULP} * 0x1p-23f, is_unsure);
}}
XF_CAREFUL float xf_careful_half_{name}(float x) {{ return xf_half(xf_exact_{name}(x)); }}
"""
