"""Move arrays to accelerators, compute, and move them back, over CuPy, PyCUDA, PyTorch or NumPy."""

from typing import TYPE_CHECKING, Any

from xferlib._runtime import supported

supported.refuse()  # before NumPy, which would fail in a way of its own

from xferlib import errors  # noqa: E402
from xferlib._runtime import torch_compile  # noqa: E402
from xferlib._runtime.version import __version__ as __version__  # noqa: E402

if TYPE_CHECKING:
    from xferlib import distributed, random, sim
    from xferlib import kernels as kernels
    from xferlib import tree as tree
    from xferlib._api.calibration import Calibration, calibrate
    from xferlib._api.constructors import arange, asarray, concat, eye, linspace
    from xferlib._api.creation import (
        array_over,
        empty,
        empty_like,
        full,
        full_like,
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
    from xferlib._api.dispatch import common, get_array_module, get_backend
    from xferlib._api.explain import Explanation, explain
    from xferlib._api.trace.timeline import TraceOperation
    from xferlib._api.trace.trace import trace
    from xferlib._api.transfers import copy_to, to_device, to_device_async, to_host, to_host_async
    from xferlib._core.defaults import use_backend
    from xferlib._core.device import Device
    from xferlib._core.devices import device_of, get_device
    from xferlib._core.ordering.event import Event
    from xferlib._core.ordering.graph import Graph
    from xferlib._core.registry import BackendStatus, available_backends
    from xferlib._core.stream import Stream, current_stream
    from xferlib._memory.pinned import PinnedPool, PinnedStats
    from xferlib._pipeline.prefetch import prefetch
    from xferlib._pipeline.prefetcher import Prefetcher
    from xferlib._pipeline.stream_map import stream_map
    from xferlib._runtime.config import configure
    from xferlib._transfer.handle import Transfer, TransferStats
    from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
    from xferlib.kernels.raw import KernelAttributes, RawKernel
    from xferlib.kernels.raw_module import RawModule, raw_module
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
        "xferlib._api.calibration": ("Calibration", "calibrate"),
        "xferlib._api.constructors": ("arange", "asarray", "concat", "eye", "linspace"),
        "xferlib._api.creation": (
            "array_over", "empty", "empty_like", "full", "full_like", "ones", "ones_like", "pin", "pinned_array",
            "pinned_empty", "pinned_empty_like", "pinned_pool", "pinned_zeros", "synchronize", "trim", "zeros",
            "zeros_like",
        ),
        "xferlib._api.device_array": ("DeviceArray",),
        "xferlib._api.dispatch": ("common", "get_array_module", "get_backend"),
        "xferlib._api.explain": ("Explanation", "explain"),
        "xferlib._api.transfers": ("copy_to", "to_device", "to_device_async", "to_host", "to_host_async"),
        "xferlib._core.defaults": ("use_backend",),
        "xferlib._core.devices": ("Device", "device_of", "get_device"),
        "xferlib._core.registry": ("BackendStatus", "available_backends"),
        "xferlib._core.ordering.event": ("Event",),
        "xferlib._core.ordering.graph": ("Graph",),
        "xferlib._core.stream": ("Stream", "current_stream"),
        "xferlib._memory.pinned": ("PinnedPool", "PinnedStats"),
        "xferlib._pipeline.prefetch": ("prefetch",),
        "xferlib._pipeline.prefetcher": ("Prefetcher",),
        "xferlib._pipeline.stream_map": ("stream_map",),
        "xferlib._runtime.config": ("configure",),
        "xferlib._api.trace.timeline": ("TraceOperation",),
        "xferlib._api.trace.trace": ("trace",),
        "xferlib._transfer.handle": ("Transfer", "TransferStats"),
        "xferlib.kernels": (
            "ElementwiseKernel", "KernelAttributes", "RawKernel", "RawModule", "ReductionKernel", "elementwise",
            "kernels", "raw_module", "reduction", "ScanKernel", "scan",
        ),
        "xferlib.distributed": ("distributed",),
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
        from xferlib._api.missing import missing

        raise missing(name)
    import importlib

    module = importlib.import_module(_LAZY[name])
    value = module if name in _ROOMS else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
