"""Move arrays to accelerators, compute, and move them back, over CuPy, PyCUDA, PyTorch or NumPy."""

from xferlib import errors
from xferlib._api import (
    empty,
    empty_like,
    full,
    full_like,
    get_array_module,
    get_backend,
    ones,
    ones_like,
    pin,
    pinned_array,
    pinned_empty,
    pinned_empty_like,
    pinned_pool,
    pinned_zeros,
    synchronize,
    to_device,
    to_device_async,
    to_host,
    to_host_async,
    trim,
    zeros,
    zeros_like,
)
from xferlib._config import configure
from xferlib._device import Device, device_of, get_device
from xferlib._pinned import PinnedPool, PinnedStats
from xferlib._registry import BackendStatus, available_backends, use_backend
from xferlib._stream import Event, Stream, current_stream
from xferlib._transfer import Transfer, TransferStats

__version__ = "0.1.0"

__all__ = [
    "BackendStatus",
    "Device",
    "Event",
    "PinnedPool",
    "PinnedStats",
    "Stream",
    "Transfer",
    "TransferStats",
    "available_backends",
    "configure",
    "current_stream",
    "device_of",
    "empty",
    "empty_like",
    "errors",
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
    "synchronize",
    "to_device",
    "to_device_async",
    "to_host",
    "to_host_async",
    "trim",
    "use_backend",
    "zeros",
    "zeros_like",
]
