"""Move arrays to accelerators, compute, and move them back, over CuPy, PyCUDA, PyTorch or NumPy."""

from typing import TYPE_CHECKING, Any

from xferlib import _opaque, errors
from xferlib._api import (
    get_array_module,
    get_backend,
    to_device,
    to_device_async,
    to_host,
    to_host_async,
)
from xferlib._config import configure
from xferlib._create import (
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
from xferlib._defaults import use_backend
from xferlib._device import Device
from xferlib._devices import device_of, get_device
from xferlib._pinned import PinnedPool, PinnedStats
from xferlib._registry import BackendStatus, available_backends
from xferlib._stream import Event, Stream, current_stream
from xferlib._transfer import Transfer, TransferStats
from xferlib._version import __version__ as __version__

if TYPE_CHECKING:
    from xferlib import sim
    from xferlib import tree as tree
    from xferlib._calibration import Calibration, calibrate
    from xferlib._explain import Explanation, explain
    from xferlib._prefetch import Prefetcher, prefetch
    from xferlib._streammap import stream_map
    from xferlib._timeline import TraceOperation
    from xferlib._trace import trace
    from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
    from xferlib.kernels.raw import RawKernel, RawModule, raw_module
    from xferlib.kernels.reduction import ReductionKernel, reduction


_opaque.keep_tracer_out()

__all__ = [
    "BackendStatus",
    "Calibration",
    "Device",
    "ElementwiseKernel",
    "Event",
    "Explanation",
    "PinnedPool",
    "PinnedStats",
    "Prefetcher",
    "RawKernel",
    "RawModule",
    "ReductionKernel",
    "Stream",
    "TraceOperation",
    "Transfer",
    "TransferStats",
    "available_backends",
    "calibrate",
    "configure",
    "current_stream",
    "device_of",
    "elementwise",
    "empty",
    "empty_like",
    "errors",
    "explain",
    "full",
    "full_like",
    "get_array_module",
    "get_backend",
    "get_device",
    "ones",
    "ones_like",
    "pin",
    "pinned_array",
    "pinned_empty",
    "pinned_empty_like",
    "pinned_pool",
    "pinned_zeros",
    "prefetch",
    "raw_module",
    "reduction",
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


# Imported at the first use: the compiler of kernels alone would triple the time of `import xferlib`.
_LAZY = {
    name: module
    for module, names in {
        "xferlib._calibration": ("Calibration", "calibrate"),
        "xferlib._explain": ("Explanation", "explain"),
        "xferlib._prefetch": ("Prefetcher", "prefetch"),
        "xferlib._streammap": ("stream_map",),
        "xferlib._timeline": ("TraceOperation",),
        "xferlib._trace": ("trace",),
        "xferlib.kernels": (
            "ElementwiseKernel", "RawKernel", "RawModule", "ReductionKernel", "elementwise", "raw_module", "reduction"
        ),
        "xferlib.sim": ("sim",),
        "xferlib.tree": ("tree",),
    }.items()
    for name in names
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'xferlib' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_LAZY[name])
    value = module if name in ("sim", "tree") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
