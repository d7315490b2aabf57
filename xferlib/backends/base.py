"""The public seam: all that a backend imports from xferlib.

`xferlib.backends` tells how to add one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib._core.arrays import Array, ArrayInfo, c_strides, make_matcher
from xferlib._core.backend import (
    Backend,
    DirectCopies,
    FastPath,
    FunctionLibrary,
    Matrices,
    MatrixProducts,
    PlainArrays,
    Product,
    Run,
)
from xferlib._core.device import (
    Capabilities,
    Device,
    DeviceProperties,
    OperationListener,
    PinnedBlock,
    RawEvent,
    RawKernel,
    RawStream,
    StagingCalls,
    make_device,
    staging_failure,
)
from xferlib._core.namespaces import make_namespace
from xferlib._core.streams import RecordedWork
from xferlib._runtime.threads import deferred
from xferlib.backends.host import WHY_HOST, HostBackend

if TYPE_CHECKING:
    from xferlib.backends.cuda.backend import CudaBackend

__all__ = [
    "WHY_HOST",
    "Array",
    "ArrayInfo",
    "Backend",
    "Capabilities",
    "CudaBackend",
    "Device",
    "DeviceProperties",
    "DirectCopies",
    "FastPath",
    "FunctionLibrary",
    "HostBackend",
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
    "Run",
    "StagingCalls",
    "c_strides",
    "deferred",
    "make_device",
    "make_matcher",
    "make_namespace",
    "staging_failure",
]


def __getattr__(name: str) -> Any:
    if name == "CudaBackend":  # at its first use: it needs cuda.core
        from xferlib.backends.cuda.backend import CudaBackend

        return CudaBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
