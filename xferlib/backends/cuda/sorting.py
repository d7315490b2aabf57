"""CUB's radix sort, by cuda.compute of cuda-cccl."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.array import ArrayInfo
from xferlib.backends.cuda.blas import translated
from xferlib.backends.device_math import DeviceSorting, SortKind

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream

_NOWHERE = 256
"""An address that nothing reads."""

Architecture = tuple[int, int]
"""The compute capability."""


def load_compute(load: Callable[[str], Any] = importlib.import_module) -> Any:
    """The module ``cuda.compute``; None if it is not installed, or old, or lacks a library."""
    try:  # it raises or warns where it lacks a library
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = load("cuda.compute")
    except (ImportError, RuntimeError):
        return None
    return found if hasattr(found, "make_radix_sort") and hasattr(found, "serialize") else None


@functools.cache
def _version() -> str:
    try:
        return importlib.metadata.version("cuda-cccl")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


class _Described:
    """An array as cuda.compute takes it."""

    def __init__(self, info: ArrayInfo) -> None:
        self.dtype = info.dtype
        self.shape = info.shape
        self.size = info.size
        self.nbytes = info.nbytes
        self.__cuda_array_interface__ = {
            "data": (info.pointer, False), "shape": info.shape, "strides": None, "typestr": info.dtype.str, "version": 3
        }  # fmt: skip


class _Stream:
    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


class CudaSorting(DeviceSorting):
    """Sorts by bits, stable, in one pass for each eight.

    Args:
        backend: Allocates the temporary memory, makes devices current, and knows their architectures.
        compute: The module ``cuda.compute``.
    """

    def __init__(self, backend: Any, compute: Any) -> None:
        self._backend = backend
        self._compute = compute
        self._codes: dict[tuple[SortKind, Architecture], bytes] = {}
        self._architectures: dict[int, Architecture] = {}
        self._local = threading.local()

    def fingerprint(self, device: Device) -> str:
        """See `DeviceSorting.fingerprint`."""
        return f"cuda-cccl {_version()}, NVRTC {self._backend.compiler_version()}, {self._architecture(device)}"

    def is_loaded(self, kind: SortKind, device: Device) -> bool:
        """See `DeviceSorting.is_loaded`."""
        return (kind, self._architecture(device)) in self._codes

    def compile(self, kind: SortKind, device: Device) -> bytes:
        """See `DeviceSorting.compile`."""
        compute = self._compute
        # Its own ProxyArray has address 0, for which values are left out of the code.
        keys, values = (
            None if each is None else _Described(ArrayInfo(_NOWHERE, (1,), (each.itemsize,), each, device, True))
            for each in (kind.keys, kind.values)
        )
        order = compute.SortOrder.DESCENDING if kind.is_descending else compute.SortOrder.ASCENDING
        with translated("cuda-cccl", "sort"):
            made = compute.make_radix_sort(
                d_in_keys=keys, d_out_keys=keys, d_in_values=values, d_out_values=values, order=order,
                compute_capability=self._architecture(device),
            )  # fmt: skip
            return bytes(compute.serialize(made))

    def load(self, kind: SortKind, code: bytes, device: Device) -> None:
        """See `DeviceSorting.load`."""
        key = kind, self._architecture(device)
        with translated("cuda-cccl", "sort"):
            self._sorters()[key] = self._compute.deserialize(code)
        self._codes[key] = code

    def _architecture(self, device: Device) -> Architecture:
        found = self._architectures.get(device.index)
        if found is None:
            found = self._architectures[device.index] = self._backend.compute_capability(device)
        return found

    def _sorters(self) -> dict[tuple[SortKind, Architecture], Any]:
        """Those of this thread: each keeps the arguments of its call in itself."""
        found: dict[tuple[SortKind, Architecture], Any] = self._local.__dict__.setdefault("sorters", {})
        return found

    def sort(
        self,
        keys: ArrayInfo,
        sorted_keys: ArrayInfo,
        values: tuple[ArrayInfo, ArrayInfo] | None,
        *,
        is_descending: bool,
        bits: int | None = None,
        stream: RawStream,
    ) -> None:
        """See `DeviceSorting.sort`."""
        kind = SortKind(keys.dtype, None if values is None else values[0].dtype, is_descending)
        key = kind, self._architecture(stream.device)
        before, after = (None, None) if values is None else map(_Described, values)
        options = {
            "d_in_keys": _Described(keys), "d_out_keys": _Described(sorted_keys), "d_in_values": before,
            "d_out_values": after, "num_items": keys.size, "begin_bit": 0, "end_bit": bits,
            "stream": _Stream(stream.handle),
        }  # fmt: skip
        with translated("cuda-cccl", "sort"), self._backend.inside(stream.device):
            sorters = self._sorters()
            sorter = sorters.get(key)
            if sorter is None:
                sorter = sorters[key] = self._compute.deserialize(self._codes[key])
            nbytes = max(int(sorter(temp_storage=None, **options)), 1)
            memory = self._backend.empty((nbytes,), np.dtype("uint8"), device=stream.device, stream=stream)
            sorter(temp_storage=_Described(self._backend.view(memory)), **options)
