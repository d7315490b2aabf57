"""The public seam: all that a backend imports from xferlib.

`xferlib.backends` tells how to add one.
"""

from __future__ import annotations

from xferlib._array import Array, ArrayInfo
from xferlib._backend import Backend, matching
from xferlib._capabilities import Capabilities
from xferlib._device import Device, DeviceProperties
from xferlib._raw import OperationListener, PinnedBlock, RawEvent, RawKernel, RawStream, StagingCalls

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
