"""CuPy's kernels and modules over xferlib's."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

import xferlib as xl
from tools.peer_suites.arrays import PeerArray, adopted, bare, dressed
from tools.peer_suites.missing import Partial, skip

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


def _needs_device() -> None:
    if xl.get_device().kind != "cuda":
        skip("CUDA source without a GPU")


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
            self._function = self._module.own.get_function(self.name)
        return self._function

    def __call__(self, grid: Any, block: Any, args: Any = (), *, shared_mem: int = 0, **_: Any) -> None:
        _needs_device()
        given = args if isinstance(args, (list, tuple)) else (args,)
        self._own(
            tuple(grid), tuple(block), [*map(bare, given)], shared_nbytes=shared_mem,
            cooperative=self.enable_cooperative_groups,
        )  # fmt: skip

    def linear_launch(self, size: int, args: Any, shared_mem: int = 0, block_max_size: int = 128) -> None:
        block = min(max(int(size), 1), block_max_size)
        self((-(-int(size) // block),), (block,), args, shared_mem=shared_mem)

    @property
    def attributes(self) -> dict[str, int]:
        _needs_device()
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
        if backend != "nvrtc":
            skip("nvcc: NVRTC compiles everything")
        if jitify:
            skip("jitify, which CuPy gives up")
        if code is not None and "cupy/" in code:
            skip("CuPy's own headers")
        if translate_cucomplex:
            skip("CuPy's translation of cuComplex")
        self.enable_cooperative_groups = enable_cooperative_groups
        self.own = xl.raw_module(code, path=path, options=tuple(options), names=tuple(name_expressions or ()))

    def get_function(self, name: str) -> RawKernel:
        _needs_device()
        made = RawKernel("", name, module=self, enable_cooperative_groups=self.enable_cooperative_groups)
        self.own.compile()
        made._own.attributes()  # CuPy looks for it now
        return made

    def get_global(self, name: str) -> Any:
        _needs_device()
        return dressed(self.own.get_global(name)).data

    def compile(self, log_stream: Any = None) -> None:
        _needs_device()
        self.own.compile(log_stream=log_stream)

    def __reduce__(self) -> Any:
        skip("kernels in another process, which has no shim")
