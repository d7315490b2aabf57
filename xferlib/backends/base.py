"""The public seam: all that a backend imports from xferlib.

`xferlib.backends` tells how to add one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib._core.array import Array, ArrayInfo, c_strides, matching
from xferlib._core.backend import Arrays, Backend, Copies, Streams
from xferlib._core.backend_options import DeviceKernels, DirectCopies, FastCopies, LibraryHooks, PlainArrays
from xferlib._core.capabilities import Capabilities
from xferlib._core.device import Device, DeviceProperties, make_device
from xferlib._core.namespaces import make_namespace
from xferlib._core.ordering.capture import RecordedWork
from xferlib._core.raw import (
    OperationListener,
    PinnedBlock,
    RawEvent,
    RawKernel,
    RawStream,
    StagingCalls,
    staging_failure,
)
from xferlib._runtime.interrupts import deferred
from xferlib.backends.device_math import DeviceSorting, FunctionLibrary, Matrices, MatrixProducts, Product
from xferlib.backends.host import WHY_HOST, HostBackend

if TYPE_CHECKING:
    from xferlib.backends.cuda.backend import CudaBackend

__all__ = [
    "WHY_HOST",
    "Array",
    "ArrayInfo",
    "Arrays",
    "Backend",
    "Capabilities",
    "Copies",
    "CudaBackend",
    "Device",
    "DeviceKernels",
    "DeviceProperties",
    "DeviceSorting",
    "DirectCopies",
    "FastCopies",
    "FunctionLibrary",
    "HostBackend",
    "LibraryHooks",
    "Matrices",
    "MatrixProducts",
    "OperationListener",
    "PinnedBlock",
    "PlainArrays",
    "Product",
    "RawEvent",
    "RawKernel",
    "RawStream",
    "RecordedWork",
    "StagingCalls",
    "Streams",
    "c_strides",
    "deferred",
    "make_device",
    "make_namespace",
    "matching",
    "staging_failure",
]


def __getattr__(name: str) -> Any:
    if name == "CudaBackend":  # at its first use: it needs cuda.core
        from xferlib.backends.cuda.backend import CudaBackend

        return CudaBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
