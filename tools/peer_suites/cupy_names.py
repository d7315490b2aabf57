"""CuPy's names, as far as its tests of kernels, reductions, streams and arrays use them."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xferlib as xl
from tools.peer_suites.arrays import PeerArray, bare, calling, dressed, namespaced, uploaded
from tools.peer_suites.missing import Missing, skip
from tools.peer_suites.streams import Device, Event, Stream, current_stream

ALL = "?bBhHiIlLqQefdFD"


class ElementwiseKernel:
    """`xl.elementwise` by CuPy's constructor."""

    def __init__(self, in_params: str, out_params: str, operation: str, name: str = "kernel", **options: Any) -> None:
        for each in ("reduce_dims", "return_tuple", "no_return", "after_loop"):
            if options.pop(each, None):
                skip(f"ElementwiseKernel({each}=)")
        self._own = xl.elementwise(in_params, out_params, operation, name=name, **options)

    def __call__(self, *args: Any, **options: Any) -> Any:
        options.pop("stream", None)
        return dressed(self._own(*map(bare, args), **options))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        skip(f"ElementwiseKernel.{name}")


class ReductionKernel:
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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        skip(f"ReductionKernel.{name}")


def create_reduction_func(name: str, ops: Sequence[str], routine: Any, identity: Any = None, preamble: str = "") -> Any:
    """CuPy's own maker of reductions: an expression for each dtype."""
    mapping, combining, finishing, kind = routine
    made = {}
    for each in ops:
        given, result = each.split("->")
        made[given] = ReductionKernel(
            f"{np.dtype(given).name} in0", f"{np.dtype(result).name} out0", mapping, combining,
            finishing.replace("out0 =", "out0 ="), identity, name, kind, preamble,
        )  # fmt: skip

    def call(x: Any, **options: Any) -> Any:
        kernel = made.get(x.dtype.char) if isinstance(x, PeerArray) else None
        if kernel is None:
            skip("create_reduction_func for other arguments")
        return kernel(x, **options)

    return call


# --- cupy.testing


def parameterize(*sets: dict[str, Any]) -> Callable[[type], type]:
    """One class for each set of attributes, in the module of the class."""

    def make(cls: type) -> Any:
        namespace = vars(sys.modules[cls.__module__])
        for number, attributes in enumerate(sets):
            name = f"{cls.__name__}_{number}"
            namespace[name] = type(name, (cls,), {**attributes, "__test__": True})
        cls.__test__ = False  # type: ignore[attr-defined]
        return cls

    return make


def product(choices: Any) -> list[dict[str, Any]]:
    if isinstance(choices, dict):
        return [dict(zip(choices, each, strict=True)) for each in itertools.product(*choices.values())]
    return [{key: value for part in each for key, value in part.items()} for each in itertools.product(*choices)]


def for_each(values: Sequence[Any], name: str) -> Callable[[Any], Any]:
    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def run(*args: Any, **options: Any) -> None:
            for each in values:
                test(*args, **{**options, name: each})

        del run.__wrapped__  # pytest would take its arguments for fixtures
        return run

    return decorate


def dtypes(codes: str) -> Callable[..., Any]:
    def decorate(
        name: str = "dtype", no_float16: bool = False, no_bool: bool = False, no_complex: bool = False, **_: Any
    ) -> Any:
        chosen = [
            each for each in codes
            if not (each == "e" and no_float16) and not (each == "?" and no_bool) and not (each in "FD" and no_complex)
        ]  # fmt: skip
        return for_each([np.dtype(each).type for each in chosen], name)

    return decorate


def comparing(check: Callable[[Any, Any], None]) -> Callable[..., Any]:
    """The results of a test for NumPy and for CuPy are compared."""

    def options(name: str = "xp", accept_error: Any = False, type_check: bool = True, **given: Any) -> Any:
        def decorate(test: Any) -> Any:
            @functools.wraps(test)
            def run(*args: Any, **others: Any) -> None:
                with np.errstate(all="ignore"):
                    ours = test(*args, **{**others, name: sys.modules["cupy"]})
                    theirs = test(*args, **{**others, name: np})
                pairs = zip(ours, theirs, strict=True) if isinstance(theirs, (tuple, list)) else [(ours, theirs)]
                for mine, other in pairs:
                    check(np.asarray(mine), np.asarray(other))

            del run.__wrapped__
            return run

        return decorate

    return options


def assert_allclose(mine: Any, other: Any, rtol: float = 1e-3, atol: float = 0, **_: Any) -> None:
    np.testing.assert_allclose(np.asarray(mine), np.asarray(other), rtol=rtol, atol=atol)


def assert_array_equal(mine: Any, other: Any, *_: Any, **__: Any) -> None:
    np.testing.assert_array_equal(np.asarray(mine), np.asarray(other))


def shaped_arange(shape: Any, xp: Any = None, dtype: Any = np.float32, order: str = "C") -> Any:
    made = np.arange(1, int(np.prod(shape)) + 1)
    host = (made % 2 == 0 if np.dtype(dtype) == np.bool_ else made).astype(dtype).reshape(shape)
    if np.dtype(dtype).kind == "c":
        host = host + host * 1j
    return host if xp is np else uploaded(host)


def shaped_random(
    shape: Any, xp: Any = None, dtype: Any = np.float32, scale: float = 10, seed: int = 0, **_: Any
) -> Any:
    host = np.random.RandomState(seed).rand(*shape) * scale
    host = (host > scale / 2 if np.dtype(dtype) == np.bool_ else host).astype(dtype)
    return host if xp is np else uploaded(host)


def multi_gpu(count: int) -> Callable[[Any], Any]:
    def decorate(test: Any) -> Any:
        def run(*args: Any, **options: Any) -> None:
            skip("several devices")

        run.__name__ = test.__name__
        return run

    return decorate


def identity(*_: Any, **__: Any) -> Callable[[Any], Any]:
    return lambda test: test


def _random(*shape: Any, **options: Any) -> PeerArray:
    return PeerArray(xl.random.default_rng(0).random(shape, options.get("dtype", "float64")))


_FUNCTIONS = ("sin", "cos", "exp", "log", "sqrt", "where", "maximum", "minimum", "concat", "matmul", "argmin", "argmax")
NUMPY = {
    name: getattr(np, name)
    for name in (
        "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "bool_", "complex64", "complex128", "dtype", "pi", "inf", "nan", "newaxis",
    )
}  # fmt: skip
NAMES: dict[str, dict[str, Any]] = {
    "cupy": {
        **NUMPY,
        "ndarray": PeerArray,
        "ElementwiseKernel": ElementwiseKernel,
        "ReductionKernel": ReductionKernel,
        "array": lambda values, dtype=None, **_: uploaded(values, dtype),
        "asarray": lambda values, dtype=None, **_: uploaded(values, dtype),
        "asnumpy": lambda x, **_: np.asarray(x),
        "arange": lambda *args, dtype=None: uploaded(np.arange(*args, dtype=dtype)),
        "zeros": lambda shape, dtype=float, **_: PeerArray(xl.zeros(shape, dtype)),
        "ones": lambda shape, dtype=float, **_: PeerArray(xl.ones(shape, dtype)),
        "full": lambda shape, value, dtype=None, **_: uploaded(np.full(shape, value, dtype)),
        "empty": lambda shape, dtype=float, **_: PeerArray(xl.empty(shape, dtype)),
        "empty_like": lambda x, **_: PeerArray(xl.empty_like(x.native)),
        "zeros_like": lambda x, **_: PeerArray(xl.zeros_like(x.native)),
        "copy": lambda x, order="K": x.copy() if order in "CK" else skip("order="),
        "sum": calling(xl.kernels.reductions.sum),
        "get_array_module": lambda *args: sys.modules["cupy"] if any(isinstance(x, PeerArray) for x in args) else np,
        **{name: namespaced(name) for name in _FUNCTIONS},
    },
    "cupy.testing": {
        "parameterize": parameterize,
        "product": product,
        "for_all_dtypes": dtypes(ALL),
        "for_float_dtypes": dtypes("efd"),
        "for_int_dtypes": dtypes("?bBhHiIlLqQ"),
        "for_complex_dtypes": dtypes("FD"),
        "for_signed_dtypes": dtypes("bhilqefd"),
        "for_dtypes": lambda given, name="dtype": for_each([np.dtype(each).type for each in given], name),
        "for_orders": lambda given, name="order": for_each(list(given), name),
        "numpy_cupy_array_equal": comparing(assert_array_equal),
        "numpy_cupy_allclose": comparing(assert_allclose),
        "assert_array_equal": assert_array_equal,
        "assert_allclose": assert_allclose,
        "shaped_arange": shaped_arange,
        "shaped_random": shaped_random,
        "multi_gpu": multi_gpu,
        "with_requires": identity,
        "slow": multi_gpu(0),
    },
    "cupy.testing._protocol_helpers": {},
    "cupy.random": {
        "random": lambda shape=(), dtype=float: _random(*np.atleast_1d(shape), dtype=dtype),
        "rand": _random,
        "uniform": lambda low, high, size, **_: PeerArray(xl.random.default_rng(0).uniform(low, high, size)),
    },
    "cupy.exceptions": {"AxisError": np.exceptions.AxisError, "ComplexWarning": np.exceptions.ComplexWarning},
    "cupy.cuda": {
        "Stream": Stream,
        "Event": Event,
        "Device": Device,
        "get_current_stream": current_stream,
        "get_elapsed_time": lambda start, end: start.time_till(end),
        "ExternalStream": Missing("cupy.cuda.ExternalStream"),
    },
    "cupy.cuda.stream": {"Stream": Stream, "Event": Event, "get_current_stream": current_stream},
    "cupy.cuda.runtime": {"is_hip": False, "runtimeGetVersion": lambda: 13000, "driverGetVersion": lambda: 13000},
    "cupy._core": {"create_reduction_func": create_reduction_func},
    "cupy._creation": {},
    "cupy._creation.from_data": {"array": lambda values, dtype=None, **_: uploaded(values, dtype)},
    "cupyx": {},
}
FILES = [
    "tests/cupy_tests/core_tests/test_userkernel.py",
    "tests/cupy_tests/core_tests/test_reduction.py",
    "tests/cupy_tests/core_tests/test_elementwise.py",
    "tests/cupy_tests/cuda_tests/test_stream.py",
    "tests/cupy_tests/cuda_tests/test_graph.py",
]


def prepare() -> None:
    Stream.null = Stream(null=True)
    if xl.get_backend().capabilities.streams:
        Stream.ptds = Stream(ptds=True)
