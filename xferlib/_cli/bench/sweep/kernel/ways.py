"""How each library evaluates an expression: every way that its users know. What a way compiles, it compiles first."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._cli.bench import libraries
from xferlib._cli.bench.sweep.kernel import expressions
from xferlib._cli.bench.sweep.kernel.cases import KernelCase
from xferlib._cli.bench.sweep.trial import Ways, ordinary

_C_TYPES = {
    "float32": "float", "float64": "double", "float16": "float", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "int16": "short", "bool": "bool", "complex64": "complex<float>",
}  # fmt: skip


def own(device: libraries.XferlibDevice, kernel: xl.ElementwiseKernel, inputs: list[Any], out: Any) -> Ways:
    """The kernel, in its default mode."""
    if out is None:
        return ordinary({"elementwise": device.awaited(lambda: kernel(*inputs))})
    return ordinary({"elementwise(out=)": device.awaited(lambda: kernel(*inputs, out=out))})


def eager(library: libraries.ArrayLibrary, case: KernelCase, inputs: list[Any], out: Any) -> Ways:
    """One call of the library for each step, the last one into ``out``."""
    if out is None:
        compute = expressions.function(expressions.text(case.expression), library.module, case.names)
        return ordinary({"eager": library.awaited(lambda: compute(*inputs))})
    source = expressions.text(case.expression, out="out")
    compute = expressions.function(source, library.module, (*case.names, "out"))
    return ordinary({"eager": library.awaited(lambda: compute(*inputs, out))})


def cupy(library: libraries.CupyLibrary, case: KernelCase, inputs: list[Any], out: Any) -> Ways:
    """``ElementwiseKernel`` and ``cupy.fuse``."""
    parameters = ", ".join(f"{each.dtype} {name}" for name, each in zip(case.names, case.inputs, strict=True))
    operation = f"out = {expressions.c_text(case.expression, _C_TYPES[case.out.dtype])}"
    kernel = library.module.ElementwiseKernel(parameters, f"{case.out.dtype} out", operation, "sweep")
    fused = library.module.fuse()(expressions.function(expressions.text(case.expression), library.module, case.names))
    if out is None:
        runs = {
            "ElementwiseKernel": library.awaited(lambda: kernel(*inputs)),
            "fuse": library.awaited(lambda: fused(*inputs)),
        }
        return ordinary(runs)

    def assign() -> None:
        out[...] = fused(*inputs)

    runs = {"ElementwiseKernel": lambda: kernel(*inputs, out), "fuse, assigned": assign}
    return ordinary({name: library.awaited(run) for name, run in runs.items()})


def torch_compiled(library: libraries.TorchLibrary, case: KernelCase, inputs: list[Any], out: Any) -> Ways:
    """``torch.compile``, compiled here for these shapes."""
    source, names, given = expressions.text(case.expression), case.names, inputs
    if out is not None:
        source, names, given = f"out.copy_({source})", (*case.names, "out"), [*inputs, out]
    compiled = library.module.compile(expressions.function(source, library.module, names), dynamic=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(*given)
    return ordinary({"compile": library.awaited(lambda: compiled(*given))})


def numexpr(case: KernelCase, inputs: list[Any], out: Any) -> Ways:
    """``numexpr.evaluate``, for the dtypes that it has."""
    import numexpr

    if {each.dtype for each in case.inputs} - {"float32", "float64", "int32", "int64", "bool"}:
        raise TypeError("numexpr computes in float32, float64, int32, int64 and bool")
    dtype = np.dtype(case.out.dtype).type
    given: dict[str, Any] = dict(zip(case.names, inputs, strict=True))
    given |= {expressions.number_name(each): dtype(each) for each in expressions.numbers(case.expression)}
    evaluate = functools.partial(numexpr.evaluate, expressions.numexpr_text(case.expression), given, out=out)
    return ordinary({"evaluate": evaluate})
