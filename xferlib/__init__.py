"""Move arrays to accelerators, compute, and move them back, over CuPy, PyCUDA, PyTorch or NumPy."""

from typing import TYPE_CHECKING, Any

from xferlib._runtime import supported

supported.refuse()  # before NumPy, which would fail in a way of its own

from xferlib import errors  # noqa: E402
from xferlib._runtime import torch_compile  # noqa: E402
from xferlib._runtime.version import __version__ as __version__  # noqa: E402

if TYPE_CHECKING:
    from xferlib import distributed, kernels, random, sim, tree
    from xferlib._api.creation import (
        arange,
        array_over,
        asarray,
        common,
        concat,
        empty,
        empty_like,
        eye,
        full,
        full_like,
        get_array_module,
        get_backend,
        linspace,
        ones,
        ones_like,
        pin,
        pinned_array,
        pinned_empty,
        pinned_empty_like,
        pinned_pool,
        pinned_zeros,
        synchronize,
        trim,
        zeros,
        zeros_like,
    )
    from xferlib._api.device_array import DeviceArray
    from xferlib._api.diagnose import Calibration, Explanation, calibrate, explain
    from xferlib._api.transfers import copy_to, to_device, to_device_async, to_host, to_host_async
    from xferlib._core.device import Device
    from xferlib._core.registry import BackendStatus, available_backends, device_of, get_device, use_backend
    from xferlib._core.streams import Event, Graph, Stream, current_stream
    from xferlib._memory.pinned import PinnedPool, PinnedStats
    from xferlib._pipeline.prefetch import Prefetcher, prefetch
    from xferlib._pipeline.stream_map import stream_map
    from xferlib._runtime.process import configure
    from xferlib._trace.trace import TraceOperation, trace
    from xferlib._transfer.handle import Transfer, TransferStats
    from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
    from xferlib.kernels.raw import KernelAttributes, RawKernel, RawModule, raw_module
    from xferlib.kernels.reduction import ReductionKernel, reduction
    from xferlib.kernels.scan import ScanKernel, scan
    from xferlib.tree import load, save


torch_compile.keep_tracer_out()

__all__ = [
    "BackendStatus",
    "Calibration",
    "Device",
    "DeviceArray",
    "ElementwiseKernel",
    "Event",
    "Explanation",
    "Graph",
    "KernelAttributes",
    "PinnedPool",
    "PinnedStats",
    "Prefetcher",
    "RawKernel",
    "RawModule",
    "ReductionKernel",
    "ScanKernel",
    "Stream",
    "TraceOperation",
    "Transfer",
    "TransferStats",
    "arange",
    "array_over",
    "asarray",
    "available_backends",
    "calibrate",
    "common",
    "concat",
    "configure",
    "copy_to",
    "current_stream",
    "device_of",
    "distributed",
    "elementwise",
    "empty",
    "empty_like",
    "errors",
    "explain",
    "eye",
    "full",
    "full_like",
    "get_array_module",
    "get_backend",
    "get_device",
    "kernels",
    "linspace",
    "load",
    "ones",
    "ones_like",
    "pin",
    "pinned_array",
    "pinned_empty",
    "pinned_empty_like",
    "pinned_pool",
    "pinned_zeros",
    "prefetch",
    "random",
    "raw_module",
    "reduction",
    "save",
    "scan",
    "sim",
    "stream_map",
    "synchronize",
    "to_device",
    "to_device_async",
    "to_host",
    "to_host_async",
    "trace",
    "tree",
    "trim",
    "use_backend",
    "zeros",
    "zeros_like",
]


# Imported at the first use (SPEC 1 of Scientific Python): a program pays for the parts that it uses.
_LAZY = {
    name: module
    for module, names in {
        "xferlib._api.creation": (
            "arange", "array_over", "asarray", "common", "concat", "empty", "empty_like", "eye", "full", "full_like",
            "get_array_module", "get_backend", "linspace", "ones", "ones_like", "pin", "pinned_array", "pinned_empty",
            "pinned_empty_like", "pinned_pool", "pinned_zeros", "synchronize", "trim", "zeros", "zeros_like",
        ),
        "xferlib._api.device_array": ("DeviceArray",),
        "xferlib._api.diagnose": ("Calibration", "Explanation", "calibrate", "explain"),
        "xferlib._api.transfers": ("copy_to", "to_device", "to_device_async", "to_host", "to_host_async"),
        "xferlib._core.registry": (
            "BackendStatus", "Device", "available_backends", "device_of", "get_device", "use_backend",
        ),
        "xferlib._core.streams": ("Event", "Graph", "Stream", "current_stream"),
        "xferlib._memory.pinned": ("PinnedPool", "PinnedStats"),
        "xferlib._pipeline.prefetch": ("Prefetcher", "prefetch"),
        "xferlib._pipeline.stream_map": ("stream_map",),
        "xferlib._runtime.process": ("configure",),
        "xferlib._trace.trace": ("TraceOperation", "trace"),
        "xferlib._transfer.handle": ("Transfer", "TransferStats"),
        "xferlib.distributed": ("distributed",),
        "xferlib.kernels": (
            "ElementwiseKernel", "KernelAttributes", "RawKernel", "RawModule", "ReductionKernel", "ScanKernel",
            "elementwise", "kernels", "raw_module", "reduction", "scan",
        ),
        "xferlib.random": ("random",),
        "xferlib.sim": ("sim",),
        "xferlib.tree": ("load", "save", "tree"),
    }.items()
    for name in names
}  # fmt: skip

_ROOMS = ("distributed", "kernels", "random", "sim", "tree")
"""Names that are modules themselves."""


# Type checkers read `__init__.pyi`, which tools/make_stub.py writes from the names and signatures here.
def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        if name.startswith("_"):  # a package that `import` is about to look for
            raise AttributeError(f"module 'xferlib' has no attribute {name!r}")
        from xferlib._arrays.missing import missing

        raise missing(name)
    import importlib

    module = importlib.import_module(_LAZY[name])
    value = module if name in _ROOMS else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
