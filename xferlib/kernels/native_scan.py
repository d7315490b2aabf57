"""Scans of any operation on a CPU by compiled C, in the order that `xferlib.kernels.scan` describes."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from xferlib import _native
from xferlib.kernels import host_compiler, native_engine, native_source
from xferlib.kernels.c_text import c_type, storage_type, to_memory, to_register
from xferlib.kernels.ir import Program, is_complex
from xferlib.kernels.native_functions import expand
from xferlib.kernels.native_reduction import evaluate, find_uncovered, support_text

A = np.ndarray[Any, Any]

ENTRY = "xf_scan"
_WITH_LOCK = 1 << 12
"""Elements during which other threads wait."""


def _text(program: Program) -> str:
    """The text of a scan by an operation of two elements."""
    program = expand(program)
    dtype = program.params[0].dtype
    memory, kind = storage_type(dtype), c_type(dtype)
    body, results = evaluate(program, {0: "a", 1: "b"}, {})
    chunks = Path(_native.__file__).with_name("compute").joinpath("chunks.h").read_text(encoding="ascii")
    return f"""{support_text([program])}
{chunks}
static inline {kind} xf_combine(const {kind} a, const {kind} b) {{ {body} return {results[0]}; }}
#define XF_LOAD(x) {to_register("(x)", dtype)}
#define XF_STORE(x) {to_memory("(x)", dtype)}
BY_CHUNKS(xf_row, {memory}, {kind}, XF_LOAD, xf_combine, XF_STORE)
XF_EXPORT void {ENTRY}(const {memory} *x, {memory} *out, long long count, const char *begins) {{
  xf_row(x, out, count, begins);
}}
"""


class NativeScan(native_engine.NativeKernel):
    """The compiled scan of an operation, or how far it is."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.why_not = self.why_not or find_uncovered([program])
        if is_complex(program.params[0].dtype):
            self.why_not = "its elements are complex"

    def _build(self, target: host_compiler.Target) -> int | None:
        library = host_compiler.load_c(_text(self.program), flags=native_source.OPTIONS, target=target)
        # For few elements the GIL is kept: to release it takes as long as they do.
        self._functions = [
            kind((ENTRY, library))
            for make in (ctypes.PYFUNCTYPE, ctypes.CFUNCTYPE)
            for kind in [make(None, *[ctypes.c_void_p] * 2, ctypes.c_longlong, ctypes.c_void_p)]
        ]
        return ctypes.cast(library[ENTRY], ctypes.c_void_p).value

    def run(self, x: A, out: A, begins: A | None) -> None:
        """Scan a row into another, or into itself; anew at each flag."""
        flags = None if begins is None else begins.ctypes.data
        scan = self._functions[x.size > _WITH_LOCK]
        scan(x.__array_interface__["data"][0], out.__array_interface__["data"][0], x.size, flags)
