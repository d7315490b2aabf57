"""The attributes of simulated devices: those of an accelerator of compute capability 9.0, with its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xferlib.errors import ArgumentError, shown

if TYPE_CHECKING:
    from xferlib._core.device import Device

_ATTRIBUTES = {
    "max_threads_per_block": 1024,
    "max_block_dim_x": 1024,
    "max_block_dim_y": 1024,
    "max_block_dim_z": 64,
    "max_grid_dim_x": 2**31 - 1,
    "max_grid_dim_y": 65535,
    "max_grid_dim_z": 65535,
    "max_shared_memory_per_block": 48 << 10,
    "max_shared_memory_per_block_optin": 227 << 10,
    "warp_size": 32,
    "multiprocessor_count": 1,
    "compute_capability_major": 9,
    "compute_capability_minor": 0,
    "unified_addressing": 1,
    "stream_priorities_supported": 1,
}


def of(device: Device, name: str) -> int:
    """The attribute ``name`` of a simulated device.

    Raises:
        ArgumentError: The simulator has none of that name.
    """
    if name not in _ATTRIBUTES:
        raise ArgumentError(f"{device} has no attribute {shown(name)}; it has {', '.join(_ATTRIBUTES)}")
    return _ATTRIBUTES[name]
