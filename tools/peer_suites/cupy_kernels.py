"""CuPy's kernels and modules over xferlib's."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from tools.peer_suites.arrays import PeerArray, adopted, bare, dressed
from tools.peer_suites.missing import Partial, needs_compiler, skip

OPTIONS = ("reduce_dims", "return_tuple", "no_return")
"""Of the loop that CuPy makes; xferlib has none of them."""


class ElementwiseKernel(Partial):
    """`xl.elementwise` by CuPy's constructor."""

    def __init__(self, in_params: str, out_params: str, operation: str, name: str = "kernel", **options: Any) -> None:
        for each in OPTIONS:
            if options.pop(each, None):
                skip(f"ElementwiseKernel({each}=)")
        self._own = xl.elementwise(in_params, out_params, operation, name=name, **options)

    def __call__(self, *args: Any, **options: Any) -> Any:
        options.pop("stream", None)
        return dressed(self._own(*map(bare, args), **options))

    name = property(lambda self: self._own.name)


class ReductionKernel(Partial):
    """`xl.reduction` by CuPy's constructor."""

    def __init__(
        self, in_params: str, out_params: str, map_expr: str, reduce_expr: str, post_map_expr: str, identity: Any,
        name: str = "reduce_kernel", reduce_type: Any = None, preamble: str = "", options: Sequence[str] = (), **_: Any,
    ) -> None:  # fmt: skip
        self._own = xl.reduction(
            in_params, out_params, map_expr=map_expr, reduce_expr=reduce_expr, post_map_expr=post_map_expr,
            identity=None if identity is None else str(identity), name=name, dtype=reduce_type, preamble=preamble,
            options=options,
        )  # fmt: skip

    def __call__(self, *args: Any, **options: Any) -> Any:
        options.pop("stream", None)
        return dressed(self._own(*map(bare, args), **{name: bare(value) for name, value in options.items()}))

    name = property(lambda self: self._own.name)


def create_reduction_func(name: str, ops: Sequence[str], routine: Any, identity: Any = None, preamble: str = "") -> Any:
    """CuPy's own maker of reductions: an expression for each dtype."""
    mapping, combining, finishing, kind = routine
    made = {}
    for each in ops:
        given, result = each.split("->")
        made[given] = ReductionKernel(
            f"{np.dtype(given).name} in0", f"{np.dtype(result).name} out0", mapping, combining, finishing, identity,
            name, kind, preamble,
        )  # fmt: skip

    def call(x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        options = {"axis": axis, "out": bare(out), "keepdims": keepdims}
        x = dressed(adopted(x)) if hasattr(x, "__cuda_array_interface__") else x
        if dtype is not None:
            skip("create_reduction_func for other arguments")
        kernel = made.get(x.dtype.char) if isinstance(x, PeerArray) else None
        if kernel is None:
            skip("create_reduction_func for other arguments")
        return kernel(x, **options)

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


def own_headers(source: str) -> tuple[str, ...]:
    """The option for a source that includes CuPy's headers, which are read from its checkout."""
    return (f"-I{os.environ['PEER_CHECKOUT']}/cupy/_core/include",) if "<cupy/" in source else ()


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


class RawKernel(Partial):
    """`RawModule.get_function` by CuPy's constructor of a kernel."""

    def __init__(self, code: str, name: str, *args: Any, module: RawModule | None = None, **options: Any) -> None:
        self.enable_cooperative_groups = bool(options.get("enable_cooperative_groups"))
        self._module = RawModule(code, **options) if module is None else module
        self.name, self._ready = name, threading.Lock()
        self._function: Any = None

    @property
    def _own(self) -> Any:
        if self._function is None:
            source = _sources.get(str(self._module.path))  # xferlib has the types of PTX's parameters from the program
            signature = None if source is None else xl.raw_module(source).get_function(self.name)._signature
            self._function = self._module.own.get_function(self.name, signature)
        return self._function

    def __call__(self, grid: Any, block: Any, args: Any = (), *, shared_mem: int = 0, **_: Any) -> None:
        needs_compiler()
        given = args if isinstance(args, (list, tuple)) else (args,)
        with refused_on_cpu():
            self._own(
                tuple(grid), tuple(block), [*map(bare, given)], shared_nbytes=shared_mem,
                cooperative=self.enable_cooperative_groups,
            )  # fmt: skip

    def linear_launch(self, size: int, args: Any, shared_mem: int = 0, block_max_size: int = 128) -> None:
        block = min(max(int(size), 1), block_max_size)
        self((-(-int(size) // block),), (block,), args, shared_mem=shared_mem)

    @property
    def attributes(self) -> dict[str, int]:
        needs_compiler()
        return _by_cupys_names(self._own.attributes())

    num_regs = property(lambda self: self.attributes["num_regs"])
    max_threads_per_block = property(lambda self: self.attributes["max_threads_per_block"])
    shared_size_bytes = property(lambda self: self.attributes["shared_size_bytes"])

    def compile(self, log_stream: Any = None) -> None:
        self._module.compile(log_stream)

    def __reduce__(self) -> Any:
        skip("kernels in another process, which has no shim")


class Attributes(dict[str, int]):
    """The facts of a kernel; the driver's own choices are not."""

    def __contains__(self, name: object) -> bool:
        if name in ("cache_mode_ca", "preferred_shared_memory_carveout"):
            skip(f"RawKernel.attributes[{name}], the driver's choice")
        return super().__contains__(name)


def _by_cupys_names(found: Any) -> dict[str, int]:
    names = {
        "binary_version": "binary_version", "const_size_bytes": "constant_nbytes", "local_size_bytes": "local_nbytes",
        "max_threads_per_block": "max_threads", "num_regs": "registers", "ptx_version": "ptx_version",
        "shared_size_bytes": "shared_nbytes", "max_dynamic_shared_size_bytes": "max_dynamic_shared_nbytes",
    }  # fmt: skip
    return Attributes({theirs: getattr(found, ours) for theirs, ours in names.items()})


class RawModule(Partial):
    """`xl.raw_module` by CuPy's constructor."""

    def __init__(
        self, code: str | None = None, *, path: str | None = None, options: Sequence[str] = (), backend: str = "nvrtc",
        translate_cucomplex: bool = False, enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None, jitify: bool = False,
    ) -> None:  # fmt: skip
        if backend == "nvcc" and name_expressions:
            skip("a refusal of nvcc; NVRTC compiles everything")
        if jitify:
            skip("jitify, which CuPy gives up")
        if translate_cucomplex:
            skip("CuPy's translation of cuComplex")
        self.enable_cooperative_groups, self.path = enable_cooperative_groups, path
        options = (*options, *own_headers(code or ""))
        self.own = xl.raw_module(code, path=path, options=options, names=tuple(name_expressions or ()))

    def get_function(self, name: str) -> RawKernel:
        needs_compiler()
        made = RawKernel("", name, module=self, enable_cooperative_groups=self.enable_cooperative_groups)
        with refused_on_cpu():
            self.own.compile()
            made._own.attributes()  # CuPy looks for it now
        return made

    def get_global(self, name: str) -> Any:
        needs_compiler()
        return dressed(self.own.get_global(name)).data

    def compile(self, log_stream: Any = None) -> None:
        needs_compiler()
        self.own.compile(log_stream=log_stream)

    def __reduce__(self) -> Any:
        skip("kernels in another process, which has no shim")
