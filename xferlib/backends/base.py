"""The public seam: all that a backend imports from xferlib.

`xferlib.backends` tells how to add one.
"""

from __future__ import annotations

from xferlib._core.array import Array, ArrayInfo
from xferlib._core.backend import Backend, matching
from xferlib._core.capabilities import Capabilities
from xferlib._core.device import Device, DeviceProperties
from xferlib._core.raw import OperationListener, PinnedBlock, RawEvent, RawKernel, RawStream, StagingCalls

__all__ = [
    "Array",
    "ArrayInfo",
    "Backend",
    "Capabilities",
    "Device",
    "DeviceProperties",
    "OperationListener",
    "PinnedBlock",
    "RawEvent",
    "RawKernel",
    "RawStream",
    "StagingCalls",
    "matching",
]
