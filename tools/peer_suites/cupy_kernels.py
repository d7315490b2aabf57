"""CuPy's kernels where its tests ask for more than a program does: machine code by nvcc, CuPy's own headers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from tools.peer_suites.missing import needs_compiler, skip
from xferlib._pretend import kernels
from xferlib._pretend.arrays import ndarray
from xferlib._pretend.cupy import adopt


def create_reduction_func(name: str, ops: Sequence[str], routine: Any, identity: Any = None, preamble: str = "") -> Any:
    """CuPy's own maker of reductions: an expression for each dtype."""
    mapping, combining, finishing, kind = routine
    made = {}
    for each in ops:
        given, result = each.split("->")
        made[given] = kernels.CupyReductionKernel(
            f"{np.dtype(given).name} in0", f"{np.dtype(result).name} out0", mapping, combining, finishing, identity,
            name, kind, preamble=preamble,
        )  # fmt: skip

    def call(x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        x = adopt(x)
        kernel = made.get(x.dtype.char) if isinstance(x, ndarray) else None
        if kernel is None or dtype is not None:
            skip("create_reduction_func for other arguments")
        return kernel(x, axis=axis, out=out, keepdims=keepdims)

    return call


@contextlib.contextmanager
def refused_on_cpu() -> Iterator[None]:
    """End a test of what a CPU refuses by decision; any other refusal is a failure."""
    try:
        yield
    except xl.errors.UnsupportedError as error:
        for text, reason in _REFUSED.items():
            if text in str(error) and "on a CPU" in str(error):
                skip(reason)
        raise


_REFUSED = {"cudaCDP": "kernels that launch kernels on a CPU", "it is not PTX": "machine code on a CPU"}


_sources: dict[str, str] = {}
"""The sources of files that `run_nvcc` has written, by their paths."""


def run_nvcc(command: Sequence[str], *_: Any) -> str:
    """Do with NVRTC as nvcc would in CuPy's tests: tell the version, compile a file to PTX or machine code."""
    if "--version" in command:
        return "release 12.0"  # the tests of the grid's barrier are left out from 12.2 on
    needs_compiler()
    from xferlib.backends.cuda import compiler

    kind = "-ptx" if "-ptx" in command else "-cubin"
    arch = "compute_80" if kind == "-ptx" else f"sm_{get_arch()}"
    source, target = (command[command.index(each) + 1] for each in (kind, "-o"))
    _sources[target] = Path(source).read_text(encoding="utf-8")
    Path(target).write_bytes(compiler.compile_source(_sources[target], arch=arch, options=(), names=()).cubin)
    return ""


def get_arch() -> str:
    """The architecture of machine code, without the dot: on a CPU, which runs none, any that NVRTC knows."""
    device = xl.get_device()
    return "{}{}".format(*device.properties.compute_capability) if device.kind == "cuda" else "90"


class RawKernel(kernels.CupyRawKernel):
    """CuPy's kernel, compiled where there is a compiler."""

    def __init__(self, code: str, name: str, *args: Any, module: Any = None, **options: Any) -> None:
        super().__init__(code, name, *args, module=module or RawModule(code, **options), **options)

    @property
    def kernel(self) -> Any:
        needs_compiler()
        if self._function is None:
            source = _sources.get(str(self.module.path))  # xferlib has the types of PTX's parameters from the program
            signature = None if source is None else xl.raw_module(source).get_function(self.name)._signature
            self._function = self.module.own.get_function(self.name, signature)
        return self._function

    def __call__(self, *args: Any, **options: Any) -> None:
        with refused_on_cpu():
            super().__call__(*args, **options)

    @property
    def attributes(self) -> dict[str, int]:
        return Attributes(super().attributes)

    def __reduce__(self) -> Any:
        skip("kernels in another process, which has no shim")


class Attributes(dict[str, int]):
    """The facts of a kernel; the driver's own choices are not."""

    def __contains__(self, name: object) -> bool:
        if name in ("cache_mode_ca", "preferred_shared_memory_carveout"):
            skip(f"RawKernel.attributes[{name}], the driver's choice")
        return super().__contains__(name)


class RawModule(kernels.CupyRawModule):
    """CuPy's module, compiled where there is a compiler."""

    def __init__(self, code: str | None = None, **given: Any) -> None:
        if given.get("backend") == "nvcc" and given.get("name_expressions"):
            skip("a refusal of nvcc; NVRTC compiles everything")
        own_headers = [f"-I{os.environ['PEER_CHECKOUT']}/cupy/_core/include"] if "<cupy/" in (code or "") else []
        super().__init__(code, **{**given, "options": (*given.get("options", ()), *own_headers)})

    def get_function(self, name: str) -> RawKernel:
        needs_compiler()
        made = RawKernel("", name, module=self, enable_cooperative_groups=self.enable_cooperative_groups)
        with refused_on_cpu():
            self.own.compile()
            made.kernel.attributes()  # CuPy looks for it now
        return made

    def get_global(self, name: str) -> Any:
        needs_compiler()
        return super().get_global(name)

    def compile(self, log_stream: Any = None) -> None:
        needs_compiler()
        super().compile(log_stream)

    def __reduce__(self) -> Any:
        skip("kernels in another process, which has no shim")
