"""The float32 functions of CUDA kernels, correctly rounded: CUDA C++ by two ways with the same bits.

A call has a *quick* step, which is right or says that it is not certain, and a *careful* one, which is right always and
computes with integers. There are two texts of the quick step, both in ``cuda_functions.cu``; the preprocessor chooses
by the architecture that is compiled for:

*In pairs of float32*, with no float64 at all. On most devices float64 runs at 1/32 or 1/64 of float32, and would bound
the kernel instead of memory.

*In double*, by polynomials and tables as short as a rounding to float32 allows: half the instructions, and faster on
devices whose float64 is at half rate.

A result of float16 or bfloat16 needs less. Functions of one float16 have texts of their own (``NAME_of_half``) in
float32, which are right for all operands; those of one bfloat16 have the text of ``native_functions.c``, which is right
for all but large angles, in operations that every machine computes alike. For others with a float16 result CUDA's own
float32 functions are within some units of float32's last place, which decide over the rounding to float16 in one of
some hundred cases; only these take the exact function.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from xferlib.kernels import native_functions
from xferlib.kernels.formulas import OWN, PAIRS, is_narrow, rebuild
from xferlib.kernels.functions import CALL_NAMES, CALLS
from xferlib.kernels.ir import FLOAT16, FLOAT32, FLOAT64, Builder, Node, Program
from xferlib.kernels.native_functions import Sections, collect_sections, read_sections

FULL_DOUBLE = (600, 700, 800, 900, 1000)
"""The architectures with float64 at half of float32's rate, as ``__CUDA_ARCH__``; all others have 1/32 or less."""

NEAR_ULP = {
    "exp": 2, "exp2": 2, "expm1": 1, "log": 1, "log2": 1, "log10": 2, "log1p": 1, "sin": 2, "cos": 2, "tan": 4,
    "arcsin": 2, "arccos": 2, "arctan": 2, "sinh": 3, "cosh": 2, "tanh": 2, "arcsinh": 3, "arccosh": 4, "arctanh": 3,
    "cbrt": 1, "rsqrt": 2, "erf": 2, "power": 4, "arctan2": 3, "hypot": 3,
}  # fmt: skip
"""The errors of CUDA's own float32 functions in ulp, by its Programming Guide ("Mathematical Functions")."""

IN_PAIRS = frozenset({"power", "cbrt", "rsqrt"})
"""The functions that these compute in pairs of floats too: they have no other text, or are as fast."""

IN_TURNS = {"erf": 5}
"""The functions that alone are faster by several vectors a thread, with their table in shared memory, and the blocks
that a multiprocessor then runs at once: on an H200 at 0.92 of a copy's speed instead of 0.86, with 4 blocks at 0.86."""

WIDE = PAIRS | {"erf", "hypot"}
"""The functions that a program of float32 or float16 computes in float64, and rounds once."""

BINARY = PAIRS | {"hypot"}
"""Those of two operands."""

WITHIN = frozenset({*CALLS, "erf"}) - IN_PAIRS
"""Those that take a range of the operand: see `xferlib.kernels.analysis`."""


@functools.cache
def sections() -> Sections:
    """The sections of the text: a function's careful step has its name, a quick one ends with its way."""
    return read_sections(Path(__file__).with_name("cuda_functions.cu"))


def narrow_calls(program: Program) -> Program:
    """The program with calls of float32 and float16 in place of what it computes wider and rounds to them.

    A call of float16 takes float32, which holds its operands. With ``math="fast"`` those are calls of float32 that no
    language of a CPU has in float32. The same program if there is none.
    """
    find = _find_rounded if program.math == "exact" else _find_special

    def has_own(node: Node) -> bool:
        return program.math == "exact" and native_functions.find_bfloat16(node) is not None

    if not any(find(node) or has_own(node) for node in program.nodes):
        return program

    def replacement(b: Builder, node: Node, copies: dict[int, Node]) -> Node | None:
        if has_own(node):
            return native_functions.call_of_bfloat16(b, node, copies)
        found = find(node)
        if found is None:
            return None
        name, operands = found
        if find is _find_special:
            return b.cast(
                b.emit("call", FLOAT32, tuple(_as_single(b, each, copies) for each in operands), name), node.dtype
            )
        return b.emit("call", node.dtype, tuple(_as_single(b, each, copies) for each in operands), name)

    return rebuild(program, replacement)


def _as_single(b: Builder, node: Node, copies: dict[int, Node]) -> Node:
    """An operand as float32: what was widened, or itself."""
    if node.op == "const":
        return b.const(node.attr, FLOAT32)
    return b.cast(copies[id(node.args[0])], FLOAT32) if node.dtype == FLOAT64 else copies[id(node)]


def _find_special(node: Node) -> tuple[str, tuple[Node, ...]] | None:
    """The special function whose rounded float64 result a node is, and its operands."""
    wide = node.args[0] if node.op == "cast" and node.dtype in (FLOAT16, FLOAT32) else node
    is_found = wide is not node and wide.op == "call" and wide.dtype == FLOAT64 and wide.attr in OWN
    return (str(wide.attr), wide.args) if is_found and is_narrow(wide.args[0], node.dtype) else None


def _find_rounded(node: Node) -> tuple[str, tuple[Node, ...]] | None:
    """The function whose rounded result a node is, and its operands; None if it is no such result."""
    if node.op != "cast" or node.dtype not in (FLOAT16, FLOAT32):
        return None
    wide = node.args[0]
    name, operands = str(wide.attr), wide.args
    if wide.op == "sqrt" and wide.args[0].op == "add":
        squares = wide.args[0].args
        if any(each.op != "mul" or each.args[0] is not each.args[1] for each in squares):
            return None
        name, operands = "hypot", tuple(each.args[0] for each in squares)
    elif wide.op != "call":
        return None
    if wide.dtype == FLOAT32:
        is_found = node.dtype == FLOAT16 and name not in BINARY
    else:
        is_found = name in WIDE and all(is_narrow(each, node.dtype) for each in operands)
    return (name, operands) if is_found and any(each.op != "const" for each in operands) else None


def section_of(node: Node) -> str:
    """The section for a call with float16 or bfloat16 as operand and result; or empty."""
    if node.op != "call":
        return ""
    name, kind = native_functions.split_call(node)
    if kind == "bfloat16":
        return f"{name}_bf16"
    is_half = kind == "float16" and f"{name}_of_half" in sections()
    return f"{name}_of_half" if is_half and node.args[0].op == "cast" and node.args[0].args[0].dtype == FLOAT16 else ""


def is_certain(node: Node) -> bool:
    """Whether a call is of such a section, and needs no second step."""
    return bool(section_of(node)) and native_functions.split_call(node) not in native_functions.UNCERTAIN


def text(
    names: Iterable[str],
    halves: Iterable[str] = (),
    small: Iterable[str] = (),
    *,
    has_quotients: bool = False,
    is_shared: bool = False,
) -> str:
    """CUDA C++ of functions of float32.

    ``xf_exact_NAME`` of one float, or two, is ``xf_quick_NAME`` where that is certain, else ``xf_careful_NAME``.

    Args:
        names: The functions.
        halves: Those that ``xf_exact_half_NAME`` computes as well: the exact result, rounded to float16.
        small: The sections of functions that ``xf_NAME_of_half`` and ``xf_NAME_bf16`` compute for operands of these
            dtypes: what is rounded to the right result. Those of bfloat16 that are not certain of it are steps too.
        has_quotients: ``xf_first_quotient`` too.
        is_shared: A block has the tables of steps in double in shared memory once it has called ``xf_fill_tables``.
    """
    halves, small = set(halves), set(small)
    of_bfloat16 = sorted(each for each in small if each.endswith("_bf16"))
    in_steps = [name for name, _ in sorted(native_functions.UNCERTAIN) if f"{name}_bf16" in small]
    names = sorted({*names, *halves, *in_steps})
    base = [*sorted(small.difference(of_bfloat16)), *(["reciprocal"] if of_bfloat16 else [])]
    base += ["quotient"] if has_quotients else []
    in_pairs, in_double = (collect_sections(sections(), base + sections_of(names, way)) for way in ("pairs", "double"))
    fast = " || ".join(f"__CUDA_ARCH__ == {each}" for each in FULL_DOUBLE) or "0"
    parts = _pieces(each for each in in_pairs if each in in_double)
    if names:
        doubles = "".join(_pieces(each for each in in_double if each not in in_pairs))
        doubles += "".join(join_steps(each, *operands_of(each), way="double") for each in names)
        doubles = pool_constants(_share_tables(doubles) if is_shared else doubles, "xf_constants")
        parts += [f"#if {fast}\n", doubles, "#else\n", *_pieces(each for each in in_pairs if each not in in_double)]
        parts += [_fill([])] if is_shared else []
        parts += [*(join_steps(each, *operands_of(each)) for each in names), "#endif\n"]
    elif is_shared:
        parts.append(_fill([]))
    if of_bfloat16:
        parts += [_BASE, native_functions.bfloat16_text(of_bfloat16).replace("static inline", "XF_QUICK")]
    for each in in_steps:
        parts += [_OF_BFLOAT16.replace("NAME", each), join_steps(f"bf16_{each}", *operands_of(each))]
    if halves:
        parts.append(_HALF_WITHIN)
        for each in sorted(halves):
            parts += [_half(each), join_steps(f"half_{each}", *operands_of(each))]
    return "".join(parts)


_LITERAL = re.compile(r"(?<![\w.])(?:(0x1\.[0-9a-f]+p[+-]?\d+)(?![\w.])|__longlong_as_double\(0x([0-9a-f]{16})LL\))")
_TABLE = re.compile(r"^XF_TABLE (\w+) (xf_\w+_table(?:_source)?)\[(\d+)\] = \{.*?\};\n", re.MULTILINE | re.DOTALL)


def pool_constants(text: str, name: str) -> str:
    """The text with its numbers of float64 in constant memory, in an array of that name, which one instruction reads.

    As literals they take two: but for those whose low word is 0, which instructions contain.
    """
    places: dict[bytes, str] = {}

    def place(match: re.Match[str]) -> str:
        bits = struct.pack(">d", float.fromhex(match[1])) if match[1] else bytes.fromhex(match[2])
        return match[0] if bits[4:] == bytes(4) else places.setdefault(bits, f"{name}[{len(places)}]")

    pieces, at = [], 0
    for table in _TABLE.finditer(text):
        pieces += [_LITERAL.sub(place, text[at : table.start()]), table[0]]
        at = table.end()
    pieces.append(_LITERAL.sub(place, text[at:]))
    if not places:
        return text
    numbers = ", ".join(struct.unpack(">d", bits)[0].hex() for bits in places)
    return f"static __constant__ double {name}[{len(places)}] = {{{numbers}}};\n{''.join(pieces)}"


def _share_tables(text: str) -> str:
    """The text whose functions read tables in shared memory, and ``xf_fill_tables``.

    Lookups of a warp take as long there as in the cache at worst, and their addresses two instructions less.
    """
    tables = _TABLE.findall(text)
    for kind, name, _ in tables:
        text = text.replace(f"XF_TABLE {kind} {name}[", f"XF_TABLE {kind} {name}_source[")
    declared = [f"static __shared__ {kind} {name}[{count}];\n" for kind, name, count in tables]
    return "".join([*declared, text, _fill([(name, count) for _, name, count in tables])])


def _fill(tables: Sequence[tuple[str, str]]) -> str:
    lines = [
        f"  for (int i = threadIdx.x; i < {count}; i += blockDim.x) {name}[i] = {name}_source[i];\n"
        for name, count in tables
    ]
    return f"XF_QUICK void xf_fill_tables(void) {{\n{''.join(lines)}{'  __syncthreads();' if lines else ''}\n}}\n"


def sections_of(names: Iterable[str], way: str) -> list[str]:
    """The sections that define both steps of functions, the quick one in ``pairs`` of floats or in ``double``."""
    return [f"{each}_in_{'pairs' if each in IN_PAIRS else way}" for each in names]


def _pieces(names: Iterable[str]) -> list[str]:
    return [sections()[each][1] for each in names]


def operands_of(name: str) -> tuple[str, str]:
    """The parameters of a function, and the arguments of their names."""
    return ("float x, float y", "x, y") if name in BINARY else ("float x", "x")


def write_range(low: str, high: str) -> str:
    """The argument that says between which numbers, given as text, an operand lies."""
    return f"xf_known({low}, {high})"


def join_steps(name: str, given: str, args: str, kind: str = "float", way: str = "pairs") -> str:
    """The text of ``xf_first_NAME``, of ``xf_exact_NAME``, and of ``xf_again_NAME``, which is the latter as a call.

    The first step is certain of NaN: some arrays, and results of other functions, have many of them. In ``double`` a
    section defines it, as ``xf_bounded_NAME`` of an operand that lies within known limits; else it is the quick step,
    and knows NaN.

    Args:
        name: Of the steps.
        given: Their parameters.
        args: The names of these.
        kind: The type of the result.
        way: That of the quick step.
    """
    knows_nan = way == "double" and name not in IN_PAIRS
    first = "" if knows_nan else _know_nan(name, given, args, kind)
    if knows_nan and name not in BINARY:
        first = _as_same("first", name, given, f"bounded_{name}({args}, xf_any(), is_unsure)", kind)
    elif name in WITHIN:
        first += _as_same("bounded", name, f"{given}, xf_range known", f"first_{name}({args}, is_unsure)", kind)
    return f"""\
{first}XF_QUICK {kind} xf_exact_{name}({given}) {{
  int is_unsure = 0;
  {kind} r = xf_first_{name}({args}, &is_unsure);
  return is_unsure ? xf_careful_{name}({args}) : r;
}}
XF_CAREFUL {kind} xf_again_{name}({given}) {{ return xf_exact_{name}({args}); }}
"""


def _as_same(step: str, name: str, given: str, other: str, kind: str) -> str:
    """The text of a step that is a call of another."""
    return f"XF_QUICK {kind} xf_{step}_{name}({given}, int *is_unsure) {{\n  return xf_{other};\n}}\n"


def _know_nan(name: str, given: str, args: str, kind: str) -> str:
    is_nan, found = (f"{args} != {args}", f"{args} == {args} ? r : {args}") if "," not in args else ("0", "r")
    return f"""\
XF_QUICK {kind} xf_first_{name}({given}, int *is_unsure) {{
  int own = 0;
  {kind} r = xf_quick_{name}({args}, &own);
  *is_unsure |= own && !({is_nan});
  return {found};
}}
"""


_BASE = """\
#define XF_FUSED 1
#define __builtin_fmaf __fmaf_rn
#define xf_abs_f32 fabsf
#define xf_sqrtf __fsqrt_rn
#define xf_bits_of_float __float_as_uint
#define xf_float_of_bits __uint_as_float
XF_QUICK float xf_limit(float x, float y) { return xf_signed(fminf(fabsf(x), y), x); }
// The rounded quotient, without what division does for operands of unusual size (P. Markstein, "Computation of
// elementary functions on the IBM RISC System/6000 processor", IBM J. Res. Dev. 34, 1990)
XF_QUICK float xf_ratio(float x, float y) {
  float r = xf_near_reciprocal(y), q;
  r = __fmaf_rn(__fmaf_rn(-y, r, 1.0f), r, r);
  q = x * r;
  return __fmaf_rn(__fmaf_rn(-y, q, x), r, q);
}
#define XF_RATIO xf_ratio
"""
"""Names of the base of ``native_functions.c`` that its text for bfloat16 needs."""

_OF_BFLOAT16 = """\
XF_QUICK float xf_quick_bf16_NAME(float x, int *is_unsure) { return xf_NAME_bf16(x, is_unsure); }
XF_CAREFUL float xf_careful_bf16_NAME(float x) { return xf_exact_NAME(x); }
"""

_HALF_WITHIN = """\
// The float16 to which all numbers round that are within a relative distance e of x; the flag, if they are several.
XF_QUICK float xf_half_within(float x, float e, int *is_unsure) {
  unsigned short low = xf_to_half(x * (1.0f - e)), high = xf_to_half(x * (1.0f + e));
  *is_unsure |= low != high;
  return xf_from_half(low);
}
// The same for a distance of some units of x's last place, by the bits that the rounding drops; subnormals are unsure.
XF_QUICK float xf_half_near(float x, unsigned int units, int *is_unsure) {
  *is_unsure |= (__float_as_uint(x) << 19) + ((units - 0x1000u) << 19) <= units << 20;
  *is_unsure |= fabsf(x) < 0x1p-14f && x != 0.0f;
  return xf_half(x);
}
"""


def _half(name: str) -> str:
    """CUDA's own float32 function, and the exact one where the rounding to float16 depends on some units of float32."""
    given, args = operands_of(name)
    near = "__fdiv_rn(1.0f, __fsqrt_rn(x))" if name == "rsqrt" else f"{CALL_NAMES.get(name, name)}f({args})"
    exact = f"return xf_half(xf_exact_{name}({args}));"
    if name in WIDE:  # rounded once: the nearest float may be the middle of two float16, and say nothing
        exact = f"""\
is_unsure = 0;
  r = xf_half_within(xf_first_{name}({args}, &is_unsure), 0x1.1p-24f, &is_unsure);
  return is_unsure ? xf_half(xf_rounded_{name}({args}, 1)) : r;"""
    ulp = NEAR_ULP[name] + 1
    return f"""\
XF_QUICK float xf_quick_half_{name}({given}, int *is_unsure) {{
  return xf_half_near({near}, {ulp}u, is_unsure);
}}
XF_CAREFUL float xf_careful_half_{name}({given}) {{
  int is_unsure = 0;
  float r = xf_half_within({near}, {ulp} * 0x1p-23f, &is_unsure);
  if (!is_unsure) return r;
  {exact}
}}
"""
