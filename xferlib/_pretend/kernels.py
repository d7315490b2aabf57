"""CuPy's kernels over xferlib's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._pretend import loops
from xferlib._pretend.arrays import wrap
from xferlib._pretend.devices import own_stream
from xferlib._pretend.functions import bare
from xferlib.errors import KernelSyntaxError


def _call(kernel: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> Any:
    """Call a kernel of xferlib's on pretended arrays, on the stream that CuPy's ``stream=`` names."""
    stream = own_stream(options.pop("stream", None))
    options.pop("block_size", None)
    given = [bare(each) for each in args]
    named = {name: bare(each) for name, each in options.items()}
    if stream is None:
        return wrap(kernel(*given, **named))
    with stream:
        return wrap(kernel(*given, **named))


class CupyElementwiseKernel:
    """`xl.elementwise` by CuPy's constructor; what that refuses, such as a sum into raw memory, runs as CUDA C."""

    def __init__(
        self, in_params: str, out_params: str, operation: str, name: str = "kernel", reduce_dims: bool = True,
        preamble: str = "", no_return: bool = False, return_tuple: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        given = {key: options[key] for key in ("options", "loop_prep", "after_loop") if options.get(key)}
        self.name, self._no_return, self._return_tuple = name, no_return, return_tuple
        self.in_params, self.out_params, self.operation, self.preamble = in_params, out_params, operation, preamble
        self._given = given
        self._own: Callable[..., Any] | None = None
        self._parameters = loops.parse(in_params, is_out=False) + loops.parse(out_params, is_out=True)

    def _make(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """The kernel, made at the first call, as CuPy compiles it."""
        return make(  # type: ignore[no-any-return]
            self.in_params, self.out_params, self.operation, name=self.name, preamble=self.preamble, **self._given
        )

    def __call__(self, *args: Any, **options: Any) -> Any:
        given = [_convert(each, parameter) for each, parameter in zip(args, self._parameters, strict=False)]
        try:
            if self._own is None:
                self._own = self._make(xl.elementwise)
            found = _call(self._own, given, dict(options))
        except KernelSyntaxError:  # some of them are of the arguments' dtypes
            self._own = self._make(loops.CudaLoop)
            found = _call(self._own, given, options)
        if self._no_return:
            return None
        return (found,) if self._return_tuple and not isinstance(found, tuple) else found


def _convert(value: Any, parameter: loops.LoopParameter) -> Any:
    """A number as the declared dtype, to which CuPy converts it without a word."""
    is_number = isinstance(value, (bool, int, float, complex, np.generic))
    return np.dtype(parameter.type).type(value) if is_number and len(parameter.type) > 1 else value


class CupyReductionKernel:
    """`xl.reduction` by CuPy's constructor."""

    def __init__(
        self, in_params: str, out_params: str, map_expr: str, reduce_expr: str, post_map_expr: str, identity: Any,
        name: str = "reduce_kernel", reduce_type: Any = None, reduce_dims: bool = True, preamble: str = "",
        options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.name = name
        self._own = xl.reduction(
            in_params, out_params, map_expr=map_expr, reduce_expr=reduce_expr, post_map_expr=post_map_expr,
            identity=None if identity is None else str(identity), name=name, dtype=reduce_type, preamble=preamble,
            options=options,
        )  # fmt: skip

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _call(self._own, args, options)


class CupyRawModule:
    """`xl.raw_module` by CuPy's constructor."""

    def __init__(
        self, code: str | None = None, *, path: str | None = None, options: Sequence[str] = (), backend: str = "nvrtc",
        translate_cucomplex: bool = False, enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None, jitify: bool = False,
    ) -> None:  # fmt: skip
        self._cooperative = enable_cooperative_groups
        if translate_cucomplex or jitify:
            raise NotImplementedError("CupyRawModule(translate_cucomplex=) and jitify= are not pretended")
        self._own = xl.raw_module(code, path=path, options=tuple(options), names=tuple(name_expressions or ()))

    def get_function(self, name: str) -> CupyRawKernel:
        return CupyRawKernel("", name, module=self, enable_cooperative_groups=self._cooperative)

    def get_global(self, name: str) -> Any:
        return wrap(self._own.get_global(name)).data

    def compile(self, log_stream: Any = None) -> None:
        self._own.compile(log_stream=log_stream)


class CupyRawKernel:
    """A kernel of CUDA C, which a CPU runs and checks."""

    def __init__(
        self, code: str, name: str, options: Sequence[str] = (), backend: str = "nvrtc", *,
        translate_cucomplex: bool = False, enable_cooperative_groups: bool = False, jitify: bool = False,
        module: CupyRawModule | None = None,
    ) -> None:  # fmt: skip
        self.name, self.code, self._cooperative = name, code, enable_cooperative_groups
        self._module = module or CupyRawModule(
            code, options=options, translate_cucomplex=translate_cucomplex, jitify=jitify
        )
        self._function: Any = None
        self.max_dynamic_shared_size_bytes = 0

    @property
    def kernel(self) -> Any:
        if self._function is None:
            self._function = self._module._own.get_function(self.name)
        return self._function

    def __call__(
        self, grid: Any, block: Any, args: Sequence[Any] = (), *, shared_mem: int = 0, stream: Any = None
    ) -> None:
        given = [*map(bare, args)]
        options = {"shared_nbytes": shared_mem, "cooperative": self._cooperative}
        _call(lambda: self.kernel(tuple(grid), tuple(block), given, **options), (), {"stream": stream})

    def compile(self, log_stream: Any = None) -> None:
        self._module.compile(log_stream)

    @property
    def attributes(self) -> dict[str, int]:
        found = self.kernel.attributes()
        return {
            "max_threads_per_block": found.max_threads, "num_regs": found.registers,
            "shared_size_bytes": found.shared_nbytes, "local_size_bytes": found.local_nbytes,
            "const_size_bytes": found.constant_nbytes,
        }  # fmt: skip

    num_regs = property(lambda self: self.attributes["num_regs"])
    max_threads_per_block = property(lambda self: self.attributes["max_threads_per_block"])
    shared_size_bytes = property(lambda self: self.attributes["shared_size_bytes"])
