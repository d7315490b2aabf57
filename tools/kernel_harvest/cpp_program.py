"""Writes kernels as one C++ program: the text of each, in a namespace where its types and functions have names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from tools.kernel_harvest.trying import Taken
from xferlib.kernels import formulas as special_functions
from xferlib.kernels.c_frontend.functions import FLOAT_FUNCTIONS
from xferlib.kernels.c_text import C_NAMES
from xferlib.kernels.definitions import CParam
from xferlib.kernels.functions import C_TYPES

HEADER = Path(__file__).with_name("snippets.hpp")

_BUILTIN = {"bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed", "_Bool", "half", "size_t",
            "ssize_t", "ptrdiff_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t",
            "uint64_t", "ushort", "uint", "ulong"}  # fmt: skip
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*$", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_STD = re.compile(r"\bstd\s*::")

FUNCTIONS = tuple(sorted({*FLOAT_FUNCTIONS, *special_functions.SPECIAL_FORMULAS, "divide"}))
"""The functions that the program asks of xferlib, by their numbers."""


def _type_name(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "c":
        return "complex<float>" if dtype.itemsize == 8 else "complex<double>"
    return "xf_half" if dtype == np.float16 else {"int8": "char"}.get(dtype.name) or C_NAMES[dtype.name]


def preface() -> str:
    """The part of a program that all its kernels share."""
    numbers = "".join(f"enum {{ XF_{name} = {number} }};\n" for number, name in enumerate(FUNCTIONS))
    types = "".join(
        f"typedef {_type_name(dtype)} {name};\n"
        for name, dtype in C_TYPES.items()
        if not (set(name.split()) & _BUILTIN) and dtype != np.float16
    )
    start = (
        'extern "C" void xf_start(xf_callback one, xf_complex_callback two) {\n'
        "  xf_ask = one; xf_ask_complex = two; signal(SIGFPE, xf_fault);\n"
        "  signal(SIGSEGV, xf_fault); signal(SIGVTALRM, xf_endless);\n}\n"
        'extern "C" void xf_turn(int backwards) { xf_backwards = backwards; }\n'
        'extern "C" long long xf_take_beyond() { const long long n = xf_beyond; xf_beyond = 0; return n; }\n'
    )
    return f"{numbers}{HEADER.read_text()}\nnamespace xf {{\n{types}}}\n{start}"


def kernel(taken: Taken, number: int) -> str:
    """The text of a kernel and of ``xf_run_<number>(pointers, sizes, undefined)``."""
    text = _reduction(taken, number) if taken.found.is_reduction else _elementwise(taken, number)
    names = _DEFINE.findall(taken.found.texts.get("preamble", ""))
    return text + "".join(f"#undef {name}\n" for name in names)


def _opening(taken: Taken, number: int) -> str:
    letters = "".join(f"typedef {_type_name(dtype)} {letter};\n" for letter, dtype in taken.types.items())
    preamble = _plain(_INCLUDE.sub("", taken.found.texts.get("preamble", "")))
    return f"namespace xf {{ namespace k{number} {{\n{letters}{preamble}\n"


def _plain(text: str) -> str:
    return _STD.sub("xf::", text)


def _statements(text: str) -> str:
    return f"{_plain(text)};"


def _parameter(taken: Taken, param: CParam, number: int) -> str:
    ctype = _type_name(taken.dtype(param))
    if param.is_pointer:
        return f"{ctype}* {param.name}"
    if param.is_raw and number not in taken.scalars:
        return f"xf_array<{ctype}> {param.name}"
    return f"{ctype}{'&' if number >= len(taken.inputs) else ''} {param.name}"


def _argument(taken: Taken, param: CParam, number: int, element: str = "i") -> str:
    """The argument, from ``p``, the pointers, and ``m``, six sizes for each: the elements, -1 for a number, first."""
    ctype, at = _type_name(taken.dtype(param)), f"m + {6 * (number + 1)}"
    if param.is_pointer:
        return f"({ctype}*)p[{number}]"
    if param.is_raw and number not in taken.scalars:
        return f"xf_array<{ctype}>(p[{number}], {at})"
    return f"(({ctype}*)p[{number}])[*({at}) < 0 ? 0 : {element}]"


def _elementwise(taken: Taken, number: int) -> str:
    texts = taken.found.texts
    params = [*taken.inputs, *taken.outputs]
    names = [_parameter(taken, each, k) for k, each in enumerate(params)]
    count = [] if any(each.name == "n" for each in params) else ["ptrdiff_t n"]
    arguments = ["i", *(["m[0]"] if count else []), "xf_indexer(m, i)"]
    arguments += [_argument(taken, each, k) for k, each in enumerate(params)]
    prepared, operation = _statements(texts.get("loop_prep", "")), _statements(texts["operation"])
    ended = _statements(texts.get("after_loop", ""))
    return f"""{_opening(taken, number)}
static void element({", ".join(["ptrdiff_t i", *count, "xf_indexer _ind", *names])}) {{
  {{ {prepared}
    for (bool xf_once = true; xf_once; xf_once = false) {{
{operation}
    }}
    {ended}
  }}
}}
extern "C" void xf_run_{number}(void** p, const long long* m, unsigned char* undefined) {{
  for (volatile ptrdiff_t count = 0; count < m[0]; ++count) {{
    const ptrdiff_t k = xf_backwards ? m[0] - 1 - count : count, i = k;
    xf_undefined = 0;
    xf_limit(2);
    if (const int why = sigsetjmp(xf_home, 1)) {{ undefined[k] = why; if (why == 1) continue; break; }}
    element({", ".join(arguments)});
    undefined[k] = xf_undefined;
  }}
  xf_limit(0);
}}
}} }}
"""


def _reduction(taken: Taken, number: int) -> str:
    texts = taken.found.texts
    inputs, outputs = taken.inputs, taken.outputs
    names = [_parameter(taken, each, k) for k, each in enumerate(inputs)]
    given = [_argument(taken, each, k, "_j") for k, each in enumerate(inputs)]
    results = [_parameter(taken, each, len(inputs) + k) for k, each in enumerate(outputs)]
    put = [_argument(taken, each, len(inputs) + k, "0") for k, each in enumerate(outputs)]
    same_for_all = [k for k, each in enumerate(inputs) if k in taken.scalars or each.is_raw]
    results = [*(names[k] for k in same_for_all), *results]
    put = [*(_argument(taken, inputs[k], k, "0") for k in same_for_all), *put]
    accumulator = texts.get("reduce_type") or _type_name(taken.dtype(outputs[0]))
    count = [] if any(each.name == "n" for each in inputs) else ["ptrdiff_t n"]
    return f"""{_opening(taken, number)}
typedef {accumulator} xf_acc;
static xf_acc map({", ".join(["ptrdiff_t i", *count, "ptrdiff_t _j", *names])}) {{
  return (xf_acc)({_plain(texts["map_expr"])});
}}
static xf_acc reduce(xf_acc a, xf_acc b) {{ return (xf_acc)({_plain(texts["reduce_expr"])}); }}
static void post({", ".join(["xf_acc a", "xf_sizes _in_ind", "xf_sizes _out_ind", *results])}) {{
  {_statements(texts.get("post_map_expr", ""))}
}}
extern "C" void xf_run_{number}(void** p, const long long* m, unsigned char* undefined) {{
  xf_undefined = 0;
  if (const int why = sigsetjmp(xf_home, 1)) {{ undefined[0] = why; return; }}
  static const long long one[] = {{1, 0}};
  const xf_acc total = xf_reduce<xf_acc>(m[0],
    [&](ptrdiff_t _j) {{ return map({", ".join(["_j", *(["m[0]"] if count else []), "_j", *given])}); }}, reduce);
  post({", ".join(["total", "xf_sizes{m}", "xf_sizes{one}", *put])});
  undefined[0] = xf_undefined;
}}
}} }}
"""
