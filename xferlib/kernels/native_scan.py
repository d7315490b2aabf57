"""Scans of any operation on a CPU by compiled C, in the order of the kernels of `xferlib.kernels.scan`.

Each distance is one pass over elements in place, from the last down, so that none is read after it was written. A long
row is done in tiles that fit the cache, each with the elements before it that it reaches, up to the distance of a step;
then all elements at one place of each step, which meet no others, for the other distances.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from xferlib.kernels import host_compiler, native_engine, native_source
from xferlib.kernels.cuda_source import storage_type, to_memory, to_register
from xferlib.kernels.ir import Program, is_complex
from xferlib.kernels.native_functions import expand
from xferlib.kernels.native_reduction import evaluate, find_uncovered, support_text

A = np.ndarray[Any, Any]

ENTRY = "xf_scan"
_STEP_NBYTES = 1 << 13
_LINE_NBYTES = 64
_WITH_LOCK = 1 << 12
"""Elements during which other threads wait."""


def _text(program: Program, itemsize: int) -> str:
    """The text of a scan by an operation of two elements."""
    program = expand(program)
    dtype = program.params[0].dtype
    kind = storage_type(dtype)
    body, results = evaluate(program, {0: to_register("a", dtype), 1: to_register("b", dtype)}, {})

    def combine(left: str, right: str, to: str) -> str:
        return f"{{ const {kind} a = {left}, b = {right}; {body} {to} = {to_memory(results[0], dtype)}; }}"

    return f"""{support_text([program])}
typedef {kind} T;
enum {{ GROUP = 64, STEP = {_STEP_NBYTES // itemsize}, TILE = 4 * STEP, WIDTH = {_LINE_NBYTES // itemsize} }};
static void xf_pass(T *v, long long n, long long distance) {{
  long long i = n;
  for (; i - GROUP >= distance; i -= GROUP) {{
    T made[GROUP], *const to = v + i - GROUP;
    const T *const from = to - distance;
    XF_INDEPENDENT
    for (long long j = 0; j < GROUP; ++j) {combine("from[j]", "to[j]", "made[j]")}
    for (long long j = 0; j < GROUP; ++j) to[j] = made[j];
  }}
  while (--i >= distance) {combine("v[i - distance]", "v[i]", "v[i]")}
}}
static void xf_copy(T *to, const T *from, long long n) {{ for (long long i = 0; i < n; ++i) to[i] = from[i]; }}
static void xf_row(const T *x, T *out, long long n, T *room) {{
  if (n <= TILE) {{
    if (x != out) xf_copy(out, x, n);
    for (long long d = 1; d < n; d *= 2) xf_pass(out, n, d);
    return;
  }}
  for (long long at = (n - 1) / TILE * TILE; at >= 0; at -= TILE) {{ /* x may be out: the last tile first */
    const long long before = at ? STEP : 0, length = n - at < TILE ? n - at : TILE;
    xf_copy(room, x + at - before, before + length);
    for (long long d = 1; d < STEP && d < before + length; d *= 2) xf_pass(room, before + length, d);
    xf_copy(out + at, room + before, length);
  }}
  for (long long at = 0; at < STEP; at += WIDTH) {{
    const long long rows = (n - at + STEP - 1) / STEP, rest = n - at - (rows - 1) * STEP;
    const long long last = rest < WIDTH ? rest : WIDTH;
    for (long long q = 0; q < rows; ++q) xf_copy(room + q * WIDTH, out + at + q * STEP, q < rows - 1 ? WIDTH : last);
    for (long long d = 1; d < rows; d *= 2) xf_pass(room, rows * WIDTH, d * WIDTH);
    for (long long q = 0; q < rows; ++q) xf_copy(out + at + q * STEP, room + q * WIDTH, q < rows - 1 ? WIDTH : last);
  }}
}}
/* Segments begin where `begins` is not zero; there is one segment without it. */
XF_EXPORT void {ENTRY}(const T *x, T *out, long long count, const char *begins, T *room) {{
  for (long long at = 0, n; at < count; at += n) {{
    for (n = begins ? 1 : count - at; at + n < count && !begins[at + n];) ++n;
    xf_row(x + at, out + at, n, room);
  }}
}}
"""


class NativeScan(native_engine.NativeKernel):
    """The compiled scan of an operation, or how far it is."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._itemsize = program.params[0].dtype.itemsize
        self.why_not = self.why_not or find_uncovered([program])
        if is_complex(program.params[0].dtype):
            self.why_not = "its elements are complex"

    def _build(self, target: host_compiler.Target) -> int | None:
        library = host_compiler.load_c(_text(self.program, self._itemsize), flags=native_source.OPTIONS, target=target)
        # For few elements the GIL is kept: to release it takes as long as they do.
        self._functions = [
            kind((ENTRY, library))
            for make in (ctypes.PYFUNCTYPE, ctypes.CFUNCTYPE)
            for kind in [make(None, *[ctypes.c_void_p] * 2, ctypes.c_longlong, *[ctypes.c_void_p] * 2)]
        ]
        return ctypes.cast(library[ENTRY], ctypes.c_void_p).value

    def run(self, x: A, out: A, begins: A | None) -> None:
        """Scan a row into another, or into itself; anew at each flag."""
        count, step = x.size, _STEP_NBYTES // self._itemsize
        room = flags = None
        if count > 4 * step:
            memory = np.empty(max(5 * _STEP_NBYTES, -(-count // step) * _LINE_NBYTES), np.uint8)
            room = memory.ctypes.data
        if begins is not None:
            flags = begins.ctypes.data
        scan = self._functions[count > _WITH_LOCK]
        scan(x.__array_interface__["data"][0], out.__array_interface__["data"][0], count, flags, room)
