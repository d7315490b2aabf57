"""CuPy's names that its tests use and programs do not; all others are those of the pretended CuPy."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np

import xferlib as xl
from tools.peer_suites import cupy_testing
from tools.peer_suites.cupy_kernels import RawKernel, RawModule, create_reduction_func, get_arch, run_nvcc
from tools.peer_suites.guards import add_guards, guard_streams, has_no_streams
from tools.peer_suites.missing import Missing, skip
from xferlib._pretend import functions, memory, streams
from xferlib._pretend.arrays import ndarray
from xferlib._pretend.cupy import array
from xferlib._pretend.kernels import CupyReductionKernel


def scan(x: ndarray, out: Any = None) -> Any:
    """The inclusive sum that CuPy's tests call `scan`."""
    return ndarray.over(xl.scan("a + b")(x._native, out=functions.bare(out)))


def _random(*shape: Any, **options: Any) -> Any:
    return ndarray.over(xl.random.default_rng(0).random(shape, options.get("dtype", "float64")))


def _integers(low: int, high: int | None = None, size: Any = None, **_: Any) -> Any:
    return ndarray.over(xl.random.default_rng(0).integers(low, high, () if size is None else size))


class DiskCache:
    """CuPy's cache of kernels; xferlib has its own."""

    def __init__(self, path: str) -> None:
        if type(self) is not DiskCache:
            skip("CuPy's cache of kernels")


def _compile(code: str, **_: Any) -> Any:
    return types.SimpleNamespace(get_function=RawModule(code=code).get_function)


class PinnedPool:
    """CuPy's pool of pinned memory: xferlib's own, which a limit closes where an allocator would have nothing."""

    malloc = staticmethod(memory.allocate_pinned)

    def n_free_blocks(self) -> int:
        skip("free blocks of the pinned pool, counted")

    def free_all_blocks(self) -> None:
        xl.trim()


_POOL: Any = PinnedPool()
AXIS_ERRORS = (np.exceptions.AxisError, xl.errors.KernelShapeError)
"""NumPy's, and those of reductions."""
_RUNTIME: dict[str, Any] = {
    "CUDARuntimeError": xl.errors.XferError, "deviceGetAttribute": lambda *_: 1, "cudaDevAttrMemoryPoolsSupported": 115,
}  # fmt: skip
_KERNELS = {"RawKernel": RawKernel, "RawModule": RawModule}
NAMES: dict[str, dict[str, Any]] = {
    "cupy": {**_KERNELS, "get_default_pinned_memory_pool": lambda: _POOL},
    "cupy.testing": cupy_testing.NAMES,
    "cupy.testing._loops": cupy_testing.LOOPS,
    "cupy.testing._protocol_helpers": cupy_testing.PROTOCOLS,
    "cupy.random": {
        "random": lambda shape=(), dtype=float: _random(*np.atleast_1d(shape), dtype=dtype),
        "rand": _random,
        "randint": _integers,
        "random_integers": lambda low, high, size: _integers(low, high + 1, size),
        "uniform": lambda low, high, size, **_: ndarray.over(xl.random.default_rng(0).uniform(low, high, size)),
    },
    "cupy.exceptions": {"AxisError": AXIS_ERRORS},
    "cupy.cuda": {"get_nvcc_path": lambda: "nvcc", "PinnedMemoryPointer": memory.CupyPinnedPointer},
    "cupy.cuda.runtime": _RUNTIME,
    "cupy.cuda.device": {"get_compute_capability": get_arch},
    "cupy.cuda.memory": {"_malloc": functools.partial(memory.allocate)},
    "cupy.cuda.driver": {
        "CUDADriverError": (xl.errors.XferError, OSError), "get_build_version": lambda: 13000,
        "_is_cuda_python": lambda: True,
    },
    "cupy.cuda.compiler": {
        "_run_cc": run_nvcc, "_get_arch": get_arch, "_get_bool_env_variable": lambda name, default: default,
        "_compile_module_with_cache": _compile, "_kernel_cache_backend": None, "_empty_file_preprocess_cache": {},
    },
    "cupy.cuda._compiler_cache": {"DiskKernelCacheBackend": DiskCache},
    "cupy._util": {"clear_memo": lambda: None, "ENABLE_SLICE_COPY": True, "CUDA_ARRAY_INTERFACE_EXPORT_VERSION": 3},
    "cupy._core": {
        "create_reduction_func": create_reduction_func, "ReductionKernel": CupyReductionKernel, "ndarray": ndarray,
        "array": array,
    },
    "cupy._core.core": {"ndarray": ndarray, "array": array},
    "cupy._core._accelerator": {"ACCELERATOR_CUB": 1, "get_reduction_accelerators": list},
    "cupy._core._routines_math": {"_scan_for_test": scan},
    "cupy._creation": {},
    "cupy._creation.from_data": {"array": array},
    "cupy_tests": {},
    "cupy_tests.core_tests": {},
    "cupy_backends.cuda.stream": {"get_default_stream_ptr": lambda: 1},
    "cupy_backends.cuda.api.runtime": _RUNTIME,
    "cupy_backends.cuda.api.driver": {"get_build_version": lambda: 13000},
    "cupy_backends.cuda.libs": {},
    "cupy_backends.cuda.libs.nvrtc": {"getVersion": lambda: (13, 0)},
}  # fmt: skip
ABSENT = (
    "cupy.get_default_memory_pool", "cupy.memoize", "cupy.fuse", "cupy.cuda.MemoryPool", "cupy.cuda.PinnedMemoryPool",
    "cupy.cuda.malloc_managed", "cupy.cuda.set_allocator", "cupy.cuda.using_allocator", "cupy.cuda.memory.MemoryPool",
    "cupy.cuda.memory.malloc_managed", "cupy.cuda.memory.set_allocator", "cupy.cuda.memory.using_allocator",
    "cupy.cuda.memory.OutOfMemoryError", "cupy.cuda.pinned_memory.PinnedMemoryPool", "cupy.cuda.runtime.memGetInfo",
)  # fmt: skip
"""Names whose pretended objects do less than CuPy's: enough for a program, and nothing that says something."""
_TESTS = "tests/cupy_tests"
FILES = [
    *(f"{_TESTS}/core_tests/test_{name}.py" for name in (
        "userkernel", "reduction", "elementwise", "raw", "scan", "function", "ndarray", "ndarray_copy_and_view",
        "ndarray_get", "ndarray_indexing", "ndarray_conversion", "ndarray_contiguity",
        "ndarray_owndata", "ndarray_cuda_array_interface",
        "dlpack", "flags", "iter", "core",
    )),
    *(f"{_TESTS}/cuda_tests/test_{name}.py" for name in ("stream", "graph", "device", "memory", "pinned_memory")),
    *(f"{_TESTS}/creation_tests/test_{name}.py" for name in ("from_data", "basic")),
    "tests/cupyx_tests/test_pinned_array.py",
]  # fmt: skip


OF_A_CPU = "__cuda_array_interface__ of a CPU"


def _is_of_another_library(value: Any) -> bool:
    return hasattr(value, "__cuda_array_interface__") and xl.get_device().kind != "cuda"


def prepare() -> None:
    add_guards(ndarray, owner="cupy")
    guard_streams()
    if has_no_streams():
        streams.CupyStream.ptds = Missing("default streams of each thread on a CPU")
    adopt = functions.adopt
    functions.adopt = lambda value: skip(OF_A_CPU) if _is_of_another_library(value) else adopt(value)
    for name in ("sum", "min", "max", "all", "any"):
        functions.CHOSEN[name] = getattr(xl.kernels.reductions, name)
