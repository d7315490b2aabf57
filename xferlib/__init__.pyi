# Written by tools/make_stub.py from the names and signatures of the code; change those instead.
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypeVar, overload

import cupy
import numpy as np
import torch
from pycuda.gpuarray import GPUArray

from xferlib import distributed as distributed
from xferlib import errors as errors
from xferlib import kernels as kernels
from xferlib import random as random
from xferlib import sim as sim
from xferlib import tree as tree
from xferlib._api.array_module import ArrayModule as ArrayModule
from xferlib._api.creation import Shape
from xferlib._api.creation import common as common
from xferlib._api.creation import get_array_module as get_array_module
from xferlib._api.creation import get_backend as get_backend
from xferlib._api.creation import namespace as namespace
from xferlib._api.creation import pin as pin
from xferlib._api.creation import pinned_array as pinned_array
from xferlib._api.creation import pinned_empty as pinned_empty
from xferlib._api.creation import pinned_empty_like as pinned_empty_like
from xferlib._api.creation import pinned_pool as pinned_pool
from xferlib._api.creation import pinned_zeros as pinned_zeros
from xferlib._api.creation import synchronize as synchronize
from xferlib._api.creation import trim as trim
from xferlib._api.device_array import DeviceArray as DeviceArray
from xferlib._api.device_array import is_array as is_array
from xferlib._api.diagnose import Calibration as Calibration
from xferlib._api.diagnose import Explanation as Explanation
from xferlib._api.diagnose import calibrate as calibrate
from xferlib._api.diagnose import explain as explain
from xferlib._api.transfers import astype as astype
from xferlib._api.transfers import to_host as to_host
from xferlib._api.transfers import to_host_async as to_host_async
from xferlib._arrays.namespace import get_exact_module as get_exact_module
from xferlib._core.device import Device as Device
from xferlib._core.device import DeviceName, DeviceSpec
from xferlib._core.registry import BackendStatus as BackendStatus
from xferlib._core.registry import available_backends as available_backends
from xferlib._core.registry import device_of as device_of
from xferlib._core.registry import get_device as get_device
from xferlib._core.registry import use_backend as use_backend
from xferlib._core.streams import Event as Event
from xferlib._core.streams import Graph as Graph
from xferlib._core.streams import Stream as Stream
from xferlib._core.streams import current_stream as current_stream
from xferlib._memory.pinned import PinnedPool as PinnedPool
from xferlib._memory.pinned import PinnedStats as PinnedStats
from xferlib._pipeline.prefetch import Prefetcher as Prefetcher
from xferlib._pipeline.prefetch import prefetch as prefetch
from xferlib._pipeline.stream_map import stream_map as stream_map
from xferlib._runtime.process import configure as configure
from xferlib._trace.trace import TraceOperation as TraceOperation
from xferlib._trace.trace import trace as trace
from xferlib._transfer.handle import Transfer as Transfer
from xferlib._transfer.handle import TransferStats as TransferStats
from xferlib.kernels.elementwise import ElementwiseKernel as ElementwiseKernel
from xferlib.kernels.elementwise import elementwise as elementwise
from xferlib.kernels.raw import KernelAttributes as KernelAttributes
from xferlib.kernels.raw import RawKernel as RawKernel
from xferlib.kernels.raw import RawModule as RawModule
from xferlib.kernels.raw import raw_module as raw_module
from xferlib.kernels.reduction import ReductionKernel as ReductionKernel
from xferlib.kernels.reduction import reduction as reduction
from xferlib.kernels.scan import ScanKernel as ScanKernel
from xferlib.kernels.scan import scan as scan
from xferlib.tree import load as load
from xferlib.tree import save as save

_HostArray: TypeAlias = np.ndarray[Any, Any]
_A = TypeVar("_A")

class _TorchTensor(torch.Tensor): ...  # type: ignore[misc, unused-ignore]
class _CupyArray(cupy.ndarray): ...  # type: ignore[misc, unused-ignore]
class _PycudaArray(GPUArray): ...  # type: ignore[misc, unused-ignore]

__version__: str

__all__ = [
    "ArrayModule",
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
    "astype",
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
    "get_exact_module",
    "is_array",
    "kernels",
    "linspace",
    "load",
    "namespace",
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

@overload
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    *,
    backend: Literal["numpy"],
    device: DeviceSpec = None,
) -> _HostArray: ...
@overload
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    *,
    backend: Literal["torch"],
    device: DeviceSpec = None,
) -> _TorchTensor: ...
@overload
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    *,
    backend: Literal["cupy"],
    device: DeviceSpec = None,
) -> _CupyArray: ...
@overload
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    *,
    backend: Literal["pycuda"],
    device: DeviceSpec = None,
) -> _PycudaArray: ...
@overload
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    *,
    backend: Literal["sim"],
    device: DeviceSpec = None,
) -> sim.SimArray: ...
@overload
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    *,
    backend: str | None = None,
    device: DeviceSpec = None,
) -> DeviceArray: ...
@overload
def array_over(
    pointer: int, shape: Shape, dtype: Any, *, owner: Any, backend: Literal["numpy"], device: DeviceSpec = None
) -> _HostArray: ...
@overload
def array_over(
    pointer: int, shape: Shape, dtype: Any, *, owner: Any, backend: Literal["torch"], device: DeviceSpec = None
) -> _TorchTensor: ...
@overload
def array_over(
    pointer: int, shape: Shape, dtype: Any, *, owner: Any, backend: Literal["cupy"], device: DeviceSpec = None
) -> _CupyArray: ...
@overload
def array_over(
    pointer: int, shape: Shape, dtype: Any, *, owner: Any, backend: Literal["pycuda"], device: DeviceSpec = None
) -> _PycudaArray: ...
@overload
def array_over(
    pointer: int, shape: Shape, dtype: Any, *, owner: Any, backend: Literal["sim"], device: DeviceSpec = None
) -> sim.SimArray: ...
@overload
def array_over(
    pointer: int, shape: Shape, dtype: Any, *, owner: Any, backend: str | None = None, device: DeviceSpec = None
) -> DeviceArray: ...
@overload
def asarray(x: Any, dtype: Any = None, *, backend: Literal["numpy"], device: DeviceSpec = None) -> _HostArray: ...
@overload
def asarray(x: Any, dtype: Any = None, *, backend: Literal["torch"], device: DeviceSpec = None) -> _TorchTensor: ...
@overload
def asarray(x: Any, dtype: Any = None, *, backend: Literal["cupy"], device: DeviceSpec = None) -> _CupyArray: ...
@overload
def asarray(x: Any, dtype: Any = None, *, backend: Literal["pycuda"], device: DeviceSpec = None) -> _PycudaArray: ...
@overload
def asarray(x: Any, dtype: Any = None, *, backend: Literal["sim"], device: DeviceSpec = None) -> sim.SimArray: ...
@overload
def asarray(x: Any, dtype: Any = None, *, backend: str | None = None, device: DeviceSpec = None) -> DeviceArray: ...
def concat(arrays: Sequence[_A], axis: int | None = 0, *, dtype: Any = None) -> _A: ...
def copy_to(
    x: Any, device: Any, *, dtype: Any = None, stream: Any = None, copy: bool | None = True, saturate: bool = False
) -> DeviceArray: ...
@overload
def empty(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["numpy"], device: DeviceSpec = None, order: str = "C"
) -> _HostArray: ...
@overload
def empty(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["torch"], device: DeviceSpec = None, order: str = "C"
) -> _TorchTensor: ...
@overload
def empty(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["cupy"], device: DeviceSpec = None, order: str = "C"
) -> _CupyArray: ...
@overload
def empty(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["pycuda"], device: DeviceSpec = None, order: str = "C"
) -> _PycudaArray: ...
@overload
def empty(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["sim"], device: DeviceSpec = None, order: str = "C"
) -> sim.SimArray: ...
@overload
def empty(
    shape: Shape, dtype: Any = "float64", *, backend: str | None = None, device: DeviceSpec = None, order: str = "C"
) -> DeviceArray: ...
@overload
def empty_like(x: _A, dtype: Any = None, *, device: None = None) -> _A: ...
@overload
def empty_like(x: Any, dtype: Any = None, *, device: DeviceName) -> DeviceArray: ...
@overload
def eye(
    rows: int,
    columns: int | None = None,
    k: int = 0,
    dtype: Any = "float64",
    *,
    backend: Literal["numpy"],
    device: DeviceSpec = None,
) -> _HostArray: ...
@overload
def eye(
    rows: int,
    columns: int | None = None,
    k: int = 0,
    dtype: Any = "float64",
    *,
    backend: Literal["torch"],
    device: DeviceSpec = None,
) -> _TorchTensor: ...
@overload
def eye(
    rows: int,
    columns: int | None = None,
    k: int = 0,
    dtype: Any = "float64",
    *,
    backend: Literal["cupy"],
    device: DeviceSpec = None,
) -> _CupyArray: ...
@overload
def eye(
    rows: int,
    columns: int | None = None,
    k: int = 0,
    dtype: Any = "float64",
    *,
    backend: Literal["pycuda"],
    device: DeviceSpec = None,
) -> _PycudaArray: ...
@overload
def eye(
    rows: int,
    columns: int | None = None,
    k: int = 0,
    dtype: Any = "float64",
    *,
    backend: Literal["sim"],
    device: DeviceSpec = None,
) -> sim.SimArray: ...
@overload
def eye(
    rows: int,
    columns: int | None = None,
    k: int = 0,
    dtype: Any = "float64",
    *,
    backend: str | None = None,
    device: DeviceSpec = None,
) -> DeviceArray: ...
@overload
def full(
    shape: Shape,
    fill_value: complex,
    dtype: Any = None,
    *,
    backend: Literal["numpy"],
    device: DeviceSpec = None,
    order: str = "C",
) -> _HostArray: ...
@overload
def full(
    shape: Shape,
    fill_value: complex,
    dtype: Any = None,
    *,
    backend: Literal["torch"],
    device: DeviceSpec = None,
    order: str = "C",
) -> _TorchTensor: ...
@overload
def full(
    shape: Shape,
    fill_value: complex,
    dtype: Any = None,
    *,
    backend: Literal["cupy"],
    device: DeviceSpec = None,
    order: str = "C",
) -> _CupyArray: ...
@overload
def full(
    shape: Shape,
    fill_value: complex,
    dtype: Any = None,
    *,
    backend: Literal["pycuda"],
    device: DeviceSpec = None,
    order: str = "C",
) -> _PycudaArray: ...
@overload
def full(
    shape: Shape,
    fill_value: complex,
    dtype: Any = None,
    *,
    backend: Literal["sim"],
    device: DeviceSpec = None,
    order: str = "C",
) -> sim.SimArray: ...
@overload
def full(
    shape: Shape,
    fill_value: complex,
    dtype: Any = None,
    *,
    backend: str | None = None,
    device: DeviceSpec = None,
    order: str = "C",
) -> DeviceArray: ...
@overload
def full_like(x: _A, fill_value: complex, dtype: Any = None, *, device: None = None) -> _A: ...
@overload
def full_like(x: Any, fill_value: complex, dtype: Any = None, *, device: DeviceName) -> DeviceArray: ...
@overload
def linspace(
    start: complex,
    stop: complex,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    backend: Literal["numpy"],
    device: DeviceSpec = None,
) -> _HostArray: ...
@overload
def linspace(
    start: complex,
    stop: complex,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    backend: Literal["torch"],
    device: DeviceSpec = None,
) -> _TorchTensor: ...
@overload
def linspace(
    start: complex,
    stop: complex,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    backend: Literal["cupy"],
    device: DeviceSpec = None,
) -> _CupyArray: ...
@overload
def linspace(
    start: complex,
    stop: complex,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    backend: Literal["pycuda"],
    device: DeviceSpec = None,
) -> _PycudaArray: ...
@overload
def linspace(
    start: complex,
    stop: complex,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    backend: Literal["sim"],
    device: DeviceSpec = None,
) -> sim.SimArray: ...
@overload
def linspace(
    start: complex,
    stop: complex,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    backend: str | None = None,
    device: DeviceSpec = None,
) -> DeviceArray: ...
@overload
def ones(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["numpy"], device: DeviceSpec = None, order: str = "C"
) -> _HostArray: ...
@overload
def ones(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["torch"], device: DeviceSpec = None, order: str = "C"
) -> _TorchTensor: ...
@overload
def ones(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["cupy"], device: DeviceSpec = None, order: str = "C"
) -> _CupyArray: ...
@overload
def ones(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["pycuda"], device: DeviceSpec = None, order: str = "C"
) -> _PycudaArray: ...
@overload
def ones(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["sim"], device: DeviceSpec = None, order: str = "C"
) -> sim.SimArray: ...
@overload
def ones(
    shape: Shape, dtype: Any = "float64", *, backend: str | None = None, device: DeviceSpec = None, order: str = "C"
) -> DeviceArray: ...
@overload
def ones_like(x: _A, dtype: Any = None, *, device: None = None) -> _A: ...
@overload
def ones_like(x: Any, dtype: Any = None, *, device: DeviceName) -> DeviceArray: ...
@overload
def to_device(
    x: Any,
    *,
    backend: str | None = None,
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: _A,
    copy: bool | None = True,
    order: str = ...,
    saturate: bool = False,
) -> _A: ...
@overload
def to_device(
    x: Any,
    *,
    backend: Literal["numpy"],
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    copy: bool | None = True,
    order: str = ...,
    saturate: bool = False,
) -> _HostArray: ...
@overload
def to_device(
    x: Any,
    *,
    backend: Literal["torch"],
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    copy: bool | None = True,
    order: str = ...,
    saturate: bool = False,
) -> _TorchTensor: ...
@overload
def to_device(
    x: Any,
    *,
    backend: Literal["cupy"],
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    copy: bool | None = True,
    order: str = ...,
    saturate: bool = False,
) -> _CupyArray: ...
@overload
def to_device(
    x: Any,
    *,
    backend: Literal["pycuda"],
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    copy: bool | None = True,
    order: str = ...,
    saturate: bool = False,
) -> _PycudaArray: ...
@overload
def to_device(
    x: Any,
    *,
    backend: Literal["sim"],
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    copy: bool | None = True,
    order: str = ...,
    saturate: bool = False,
) -> sim.SimArray: ...
@overload
def to_device(
    x: Any,
    *,
    backend: str | None = None,
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    copy: bool | None = True,
    order: str = ...,
    saturate: bool = False,
) -> DeviceArray: ...
@overload
def to_device_async(
    x: Any,
    *,
    backend: str | None = None,
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: _A,
    saturate: bool = False,
) -> Transfer[_A]: ...
@overload
def to_device_async(
    x: Any,
    *,
    backend: Literal["numpy"],
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    saturate: bool = False,
) -> Transfer[_HostArray]: ...
@overload
def to_device_async(
    x: Any,
    *,
    backend: Literal["torch"],
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    saturate: bool = False,
) -> Transfer[_TorchTensor]: ...
@overload
def to_device_async(
    x: Any,
    *,
    backend: Literal["cupy"],
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    saturate: bool = False,
) -> Transfer[_CupyArray]: ...
@overload
def to_device_async(
    x: Any,
    *,
    backend: Literal["pycuda"],
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    saturate: bool = False,
) -> Transfer[_PycudaArray]: ...
@overload
def to_device_async(
    x: Any,
    *,
    backend: Literal["sim"],
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    saturate: bool = False,
) -> Transfer[sim.SimArray]: ...
@overload
def to_device_async(
    x: Any,
    *,
    backend: str | None = None,
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: None = None,
    saturate: bool = False,
) -> Transfer[DeviceArray]: ...
@overload
def zeros(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["numpy"], device: DeviceSpec = None, order: str = "C"
) -> _HostArray: ...
@overload
def zeros(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["torch"], device: DeviceSpec = None, order: str = "C"
) -> _TorchTensor: ...
@overload
def zeros(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["cupy"], device: DeviceSpec = None, order: str = "C"
) -> _CupyArray: ...
@overload
def zeros(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["pycuda"], device: DeviceSpec = None, order: str = "C"
) -> _PycudaArray: ...
@overload
def zeros(
    shape: Shape, dtype: Any = "float64", *, backend: Literal["sim"], device: DeviceSpec = None, order: str = "C"
) -> sim.SimArray: ...
@overload
def zeros(
    shape: Shape, dtype: Any = "float64", *, backend: str | None = None, device: DeviceSpec = None, order: str = "C"
) -> DeviceArray: ...
@overload
def zeros_like(x: _A, dtype: Any = None, *, device: None = None) -> _A: ...
@overload
def zeros_like(x: Any, dtype: Any = None, *, device: DeviceName) -> DeviceArray: ...
