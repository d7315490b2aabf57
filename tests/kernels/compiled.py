"""Programs of kernels as compiled C, many in one translation unit: one process of the compiler for a whole test."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from xferlib.errors import KernelError
from xferlib.kernels import host_compiler, native_engine, native_source
from xferlib.kernels.ir import Program
from xferlib.kernels.native_engine import NativeKernel, NativePlan
from xferlib.kernels.numpy_engine import NumpyPlan


@functools.cache
def _target() -> host_compiler.Target:
    compiler = host_compiler.find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    return host_compiler.find_target(compiler)


def compile_all(programs: Sequence[Program]) -> list[NativeKernel]:
    """The kernels of programs; one that stays on the NumPy engine has no function."""
    target = _target()
    kernels = [NativeKernel(each) for each in programs]
    parts: dict[str, None] = {}
    blocks, calls = [], set()
    for number, kernel in enumerate(kernels):
        if kernel.why_not:
            continue
        kernel.source = native_source.native_source(kernel.program)
        kernel.form = (ctypes.c_longlong * len(kernel.source.form))(*kernel.source.form)
        kernel.driver = native_engine._load_driver(target)
        parts |= dict.fromkeys(kernel.source.parts)
        calls |= {*kernel.source.calls}
        name = f"{native_source.ENTRY}_{number}"
        blocks.append(kernel.source.block.replace(f"{native_source.ENTRY}(", f"{name}("))
    library = host_compiler.load_c(
        "".join((*parts, native_source.function_text(calls), *blocks)), flags=native_source.OPTIONS, target=target
    )
    for number, kernel in enumerate(kernels):
        if not kernel.why_not:
            entry = getattr(library, f"{native_source.ENTRY}_{number}")
            kernel.function = ctypes.cast(entry, ctypes.c_void_p).value
    return kernels


def run_both(
    kernel: NativeKernel, shape: tuple[int, ...], operands: Sequence[np.ndarray[Any, Any]], *, is_aliased: bool = False
) -> tuple[list[Any], list[Any]]:
    """The arrays after a run on the NumPy engine, and after one by compiled C; or the error's text in their place."""
    results: list[list[Any]] = []
    for is_native in (False, True):
        own = copies(operands)
        try:
            numpy = NumpyPlan(kernel.program, shape, own, is_aliased=is_aliased or kernel.program.is_in_place)
            plan = NativePlan(kernel, shape, own, lambda _: pytest.fail("it ran on NumPy")) if is_native else numpy
            plan.run(own)
        except KernelError as error:
            results.append([str(error)])
        else:
            results.append(own)
    return results[0], results[1]


def copies(operands: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Arrays with the same layouts and contents in memory of their own, shared as that of the operands is."""
    memories: dict[int, np.ndarray[Any, Any]] = {}
    found = []
    for each in operands:
        base = each
        while isinstance(base.base, np.ndarray):
            base = base.base
        if id(base) not in memories:
            memories[id(base)] = base.copy(order="K")
        copy = memories[id(base)]
        shift = each.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        flat = np.frombuffer(copy.data.cast("B") if copy.flags.c_contiguous else copy.T.data.cast("B"), np.uint8)
        found.append(np.ndarray(each.shape, each.dtype, flat, shift, each.strides))
    return found
