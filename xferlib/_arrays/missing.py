"""Names that xferlib does not have: what the program probably wanted."""

from __future__ import annotations

import sys

import numpy as np

from xferlib._core.registry import RENAMED

_ELSEWHERE = {
    "Array": "DeviceArray", "Buffer": "empty(shape, dtype)", "array": "to_device(x)", "as_tensor": "to_device(x)",
    "asnumpy": "to_host(x)", "backend": "get_backend()", "block_until_ready": "synchronize()",
    "copy": "copy_to(x, xferlib.device_of(x))", "cuda": "get_device('cuda:0')", "current_device": "get_device()",
    "device": "get_device(spec)", "device_count": "available_backends()", "device_synchronize": "synchronize()",
    "device_get": "to_host(x)", "device_put": "to_device(x)", "devices": "available_backends()",
    "from_numpy": "to_device(x)", "fuse": "elementwise(function)", "get_array": "to_host(x)",
    "gpuarray": "to_device(x)", "graph": "Stream().capture()", "is_available": "available_backends()",
    "jit": "elementwise(function)", "kernel": "elementwise(function)", "manual_seed": "random.default_rng(seed)",
    "mem_alloc": "empty(shape, dtype)", "mem_get_info": "get_device().free_memory",
    "list_devices": "available_backends()", "map": "stream_map(fn, source, chunk_rows=n)",
    "memcpy_dtoh": "to_host(d, out=h)", "memcpy_htod": "to_device(h, out=d)",
    "memory_info": "get_device().free_memory", "memory_allocated": "get_device().free_memory",
    "ndarray": "DeviceArray", "pagelocked_empty": "pinned_empty(shape, dtype)", "pin_memory": "pinned_array(x)",
    "profile": "trace()", "profiler": "trace()", "rand": "random.default_rng().random(shape)",
    "randn": "random.default_rng().standard_normal(shape)", "raw_kernel": "raw_module(source).get_function(name)",
    "reduce": "reduction('T x', 'T y', map_expr='x', reduce_expr='a + b')", "set_backend": "use_backend(name)",
    "set_device": "get_device(spec).use()", "seed": "random.default_rng(seed)", "stream": "Stream()",
    "use_device": "get_device(spec).use()", "vectorize": "elementwise(function)", "SourceModule": "raw_module(source)",
    "sync": "synchronize()", "tensor": "to_device(x)", "to_cpu": "to_host(x)", "to_gpu": "to_device(x)",
    "to_numpy": "to_host(x)",
}  # fmt: skip
"""Verbs of other libraries, and the call that does the same."""
_MODULES = ("backends", "distributed", "testing")


def _standard() -> frozenset[str]:
    from xferlib._arrays import namespace  # here: only a program with a mistake waits for all of it

    return namespace.names()


def missing(name: str) -> AttributeError:
    """The error for a name that the module lacks; Python's traceback adds a name that is like it."""
    remedy = ""
    if name in _ELSEWHERE:
        remedy = f"; xferlib.{_ELSEWHERE[name]} does that"
    elif callable(getattr(np, name, None)) and (known := RENAMED.get(name, name)) in _standard():
        remedy = f"; functions of arrays are in the namespace of their library: xferlib.get_array_module(x).{known}"
    elif name in _MODULES:
        remedy = f"; it is a module of its own: import xferlib.{name}"
    elif isinstance(kind := getattr(np, name, None), type) and issubclass(kind, np.generic):
        remedy = f"; dtypes are NumPy's: numpy.{name}, or a text such as 'float32'"
    elif callable(getattr(np, name, None)):
        remedy = f"; use numpy.{name} with xferlib.to_host(x)"
    return AttributeError(f"module 'xferlib' has no attribute {name!r}{remedy}", name=name, obj=sys.modules["xferlib"])
