"""CUB's radix sort, by cuda.compute of cuda-cccl."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib.backends.cuda.libraries import translated
from xferlib.backends.device_math import DeviceSorting

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.raw import RawStream


def load_compute(load: Callable[[str], Any] = importlib.import_module) -> Any:
    """The module ``cuda.compute``; None if it is not installed, or lacks a library: it then raises, or warns."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = load("cuda.compute")
    except (ImportError, RuntimeError):
        return None
    return found if hasattr(found, "make_radix_sort") else None


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
    """Sorts by bits, stable, in one pass for each eight; the first of each dtype is compiled, for seconds.

    Args:
        backend: Allocates the temporary memory, and makes devices current.
        compute: The module ``cuda.compute``.
    """

    def __init__(self, backend: Any, compute: Any) -> None:
        self._backend = backend
        self._compute = compute

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
        compute = self._compute
        order = compute.SortOrder.DESCENDING if is_descending else compute.SortOrder.ASCENDING
        before, after = (None, None) if values is None else map(_Described, values)
        arrays = {
            "d_in_keys": _Described(keys), "d_out_keys": _Described(sorted_keys), "d_in_values": before,
            "d_out_values": after,
        }  # fmt: skip
        options = {**arrays, "num_items": keys.size, "begin_bit": 0, "end_bit": bits, "stream": _Stream(stream.handle)}
        with translated("cuda-cccl", "sort"), self._backend.inside(stream.device):
            sorter = compute.make_radix_sort(**arrays, order=order)
            nbytes = max(int(sorter(temp_storage=None, **options)), 1)
            memory = self._backend.empty((nbytes,), np.dtype("uint8"), device=stream.device, stream=stream)
            sorter(temp_storage=_Described(self._backend.view(memory)), **options)
