"""PyCUDA's names, as far as its tests of arrays and kernels use them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import xferlib as xl
from tools.peer_suites import pycuda_driver
from tools.peer_suites.arrays import PeerArray, bare, calling, dressed, namespaced, order_of, uploaded, wrap
from tools.peer_suites.missing import skip
from tools.peer_suites.streams import NullStream, Stream

reductions = xl.kernels.reductions


class ElementwiseKernel:
    """`xl.elementwise` by PyCUDA's constructor."""

    def __init__(
        self, arguments: Any, operation: str, name: str = "kernel", keep: bool = False, options: Any = (), **others: Any
    ) -> None:
        if not isinstance(arguments, str):
            skip("parameters that are objects")
        self._own = xl.elementwise(arguments, operation, name=name, options=options or (), **others)

    def __call__(self, *args: Any, **options: Any) -> None:
        options.pop("stream", None)
        self._own(*map(bare, args), **options)


class ReductionKernel:
    """`xl.reduction` by PyCUDA's constructor."""

    def __init__(
        self, dtype_out: Any, neutral: Any, reduce_expr: str, map_expr: Any = None, arguments: Any = None,
        name: str = "reduce_kernel", keep: bool = False, options: Any = (), preamble: str = "", allocator: Any = None,
    ) -> None:  # fmt: skip
        if not isinstance(arguments, str) or np.dtype(dtype_out).names:
            skip("reductions of structs, and parameters that are objects")
        self._own = xl.reduction(
            arguments, map_expr=map_expr or "in[i]", reduce_expr=reduce_expr, identity=str(neutral),
            dtype=np.dtype(dtype_out), name=name, preamble=preamble, options=options or (),
        )  # fmt: skip

    def __call__(self, *args: Any, out: Any = None, stream: Any = None, **options: Any) -> Any:
        if options.pop("allocator", None) is not None:
            skip("allocators")
        if options:
            skip(f"ReductionKernel({', '.join(options)})")
        return dressed(self._own(*map(bare, args), out=bare(out)))


def _scan(*, exclusive: bool) -> Any:
    class Scan:
        def __init__(self, dtype: Any, expression: str, neutral: Any = None, **_: Any) -> None:
            self._own = xl.scan(expression, neutral=None if neutral is None else str(neutral))

        def __call__(self, x: PeerArray, output: Any = None, **_: Any) -> Any:
            target = x if output is None else output
            xl.to_device(self._own(x.native, exclusive=exclusive), out=target.native)
            return target

    return Scan


def _without_allocator(function: Any) -> Any:
    def call(*args: Any, **options: Any) -> Any:
        if options.pop("allocator", None) is not None:
            skip("allocators")
        options.pop("dtype", None)
        options.pop("stream", None)
        return calling(function)(*args, **options)

    return call


def _like(function: Any) -> Any:
    def call(x: PeerArray, dtype: Any = None, order: str = "K", **_: Any) -> PeerArray:
        kind = x.dtype if dtype is None else np.dtype(dtype)
        return wrap(function(x.shape, kind, order="F" if order_of(x, order) == "F" else "C"))

    return call


def rand(shape: Any, dtype: Any = np.float32, stream: Any = None) -> PeerArray:
    kind = np.dtype(dtype)
    rng = xl.random.default_rng(0)
    if kind.kind == "f":
        return wrap(rng.random(shape, kind.name))
    if kind.kind in "iu":
        return wrap(rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind.name))
    return uploaded((np.random.rand(*shape) + 1j * np.random.rand(*shape)).astype(kind))


def fixture() -> Iterator[None]:
    yield


def cumath(name: str) -> Any:
    """A function of `pycuda.cumath`: `out` and `stream` may be given by position."""

    def call(x: PeerArray, *places: Any, out: Any = None, stream: Any = None, stream_or_out: Any = None) -> Any:
        for each in (*places, stream_or_out):
            out, stream = (each, stream) if isinstance(each, PeerArray) else (out, each)
        with contextlib.nullcontext() if stream is None else stream:
            result = namespaced(name)(x)
        if out is None:
            return result
        xl.to_device(result.native, out=out.native)
        return out

    return call


_SUBSETS = ("subset_sum", "subset_dot", "subset_min", "subset_max")
NAMES: dict[str, dict[str, Any]] = {
    "pycuda": {},
    "pycuda.gpuarray": {
        "GPUArray": PeerArray, "vec": pycuda_driver.VEC,
        "to_gpu": lambda x, *_, **__: uploaded(x, order="K"),
        "to_gpu_async": lambda x, *_, **__: uploaded(x, order="K"),
        "empty": lambda shape, dtype, *_, **__: wrap(xl.empty(shape, np.dtype(dtype))),
        "zeros": lambda shape, dtype=np.float64, *_, **__: wrap(xl.zeros(shape, np.dtype(dtype))),
        "ones": lambda shape, dtype=np.float64, *_, **__: wrap(xl.ones(shape, np.dtype(dtype))),
        "empty_like": _like(xl.empty),
        "zeros_like": _like(xl.zeros),
        "ones_like": _like(xl.ones),
        "arange": lambda *args, dtype=None, **_: uploaded(np.arange(*args, dtype=dtype)),
        "sum": _without_allocator(reductions.sum),
        "dot": _without_allocator(reductions.dot),
        "min": calling(reductions.min),
        "max": calling(reductions.max),
        "any": calling(reductions.any),
        "all": calling(reductions.all),
        "concatenate": namespaced("concat"),
        "stack": namespaced("stack"),
        "where": lambda mask, x, y: namespaced("where")(mask if mask.dtype == np.bool_ else mask != 0, x, y),
        "transpose": lambda x, axes=None: x.transpose(*(axes or ())),
        "reshape": lambda x, shape: x.reshape(shape),
        "maximum": namespaced("maximum"),
        "minimum": namespaced("minimum"),
        **{name: _without_allocator(getattr(reductions, name)) for name in _SUBSETS},
    },
    "pycuda.driver": pycuda_driver.NAMES,
    "pycuda.elementwise": {"ElementwiseKernel": ElementwiseKernel},
    "pycuda.reduction": {"ReductionKernel": ReductionKernel},
    "pycuda.scan": {"InclusiveScanKernel": _scan(exclusive=False), "ExclusiveScanKernel": _scan(exclusive=True)},
    "pycuda.compiler": {"SourceModule": pycuda_driver.SourceModule},
    "pycuda.curandom": {"rand": rand},
    "pycuda.characterize": {"has_double_support": lambda: True},
    "pycuda.tools": {
        "init_cuda_context_fixture": fixture, "mark_cuda_test": lambda test: test,
        "dtype_to_ctype": lambda dtype: np.dtype(dtype).name, "bitlog2": lambda number: number.bit_length() - 1,
    },
    "pycuda.cumath": {
        **{name: cumath(name) for name in (
            "log10", "sin", "cos", "exp", "log", "sqrt", "ceil", "floor", "tan", "sinh", "cosh", "tanh",
        )},
        "fabs": cumath("abs"), "asin": cumath("asin"), "acos": cumath("acos"), "atan": cumath("atan"),
        "fmod": lambda x, y, **_: dressed(xl.elementwise("T x, T y", "T z", "z = fmod(x, y)")(x.native, y.native)),
    },
}  # fmt: skip
FILES = ["test/test_gpuarray.py", "test/test_driver.py", "test/test_cumath.py"]


def prepare() -> None:
    PeerArray.default_order, PeerArray.owner = "K", "pycuda"
    PeerArray.made = staticmethod(pycuda_driver.made)
    Stream.null = NullStream(null=True)
    if xl.get_backend().capabilities.streams:
        Stream.ptds = Stream(ptds=True)
