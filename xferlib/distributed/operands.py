"""The arrays of a call: where they are, which memory carries them, and where the result goes."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._api import creation, transfers
from xferlib._core import mixing, registry
from xferlib._core.array import UNWRITABLE
from xferlib._core.layout import HostArray, address_in_order, refuse_truncated, share_memory
from xferlib._memory.host import host_cache
from xferlib._transfer import ends
from xferlib._transfer.ends import CopySource
from xferlib.errors import LayoutError, UnsupportedArrayError

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.raw import RawStream


@functools.cache
def _name_of(dtype: np.dtype[Any]) -> str:
    """NumPy's own takes microseconds."""
    return dtype.name


class Operand(NamedTuple):
    """The array that a rank gives."""

    source: CopySource
    stream: Any
    """As the user gave it."""
    raw_stream: RawStream | None
    """The one of a device array: the user's, or the current one; None in host memory."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def dtype_name(self) -> str:
        return _name_of(self.dtype)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype = self.source.dtype
        # The ranks reduce bytes as numbers of this machine; `loaded` swaps those of another order on the way.
        return dtype if dtype.isnative else dtype.newbyteorder("=")

    @property
    def nbytes(self) -> int:
        """Of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def loaded(self) -> HostArray:
        """Its elements in host memory, flat and in C order: its own memory where that is so already."""
        host = self.source.host
        if host is None:
            # Pinned: the device writes it by itself, and no thread copies it once more.
            host = transfers.to_host(self.source.given, stream=self.stream, pinned=True)
        return np.ascontiguousarray(host, self.dtype).reshape(-1)


def operand_of(x: Any, call: str, stream: Any) -> Operand:
    """Describe what a rank gives: an array of any backend, a sequence or a scalar.

    Raises:
        UnsupportedArrayError, UnsupportedDTypeError: No device can hold it.
        StreamError: The stream is of another device.
    """
    source = ends.source_of(x, what=f"{call}: x")
    device = source.device if source.device is not None else source.backend.devices()[0]
    if source.host is not None:
        if stream is not None:
            ends.raw_stream(stream, device)  # a formality there, which is of the right device all the same
        return Operand(source, None, None)
    source.backend.attach(device)
    raw = source.backend.stream_current(device) if stream is None else ends.raw_stream(stream, device)
    return Operand(source, stream, raw)


class Result:
    """The array that a call returns, and the host memory that the driver fills for it.

    Args:
        operand: The array that the rank gives; the result is of its backend and on its device.
        shape: Of the result.
        out: The caller's array; None for a new one.
        call: For messages.

    Raises:
        LayoutError: ``out`` differs in shape or dtype, is not contiguous, or is read-only.
        MixedBackendsError, MixedDevicesError: It is of another backend or device.
    """

    __slots__ = ("array", "host", "info", "is_given", "operand")

    def __init__(self, operand: Operand, shape: tuple[int, ...], out: Any, call: str) -> None:
        source = operand.source
        self.operand = operand
        self.is_given = out is not None
        """Whether the array is the caller's."""
        self.info: ArrayInfo | None = None
        """Location and layout on a device; None in host memory."""
        self.host: HostArray | None = None
        """The result in host memory; None on a device."""
        backend, device = source.backend, source.device
        if out is not None:
            self.array, self.info = out, _checked_out(out, operand, shape, call)
            backend.note_write(out, f"{call}: out")
        elif device is None or source.backend.name == "numpy":
            # From the cache of results, whose pages are there: the system clears fresh ones at the first touch.
            self.array = host_cache.empty(shape, operand.dtype)
        else:
            stream = operand.raw_stream if operand.raw_stream is not None else backend.stream_current(device)
            self.array = backend.empty(shape, operand.dtype, device=device, stream=stream)
        if source.host is not None:
            self.info = None
            self.host = self.array if isinstance(self.array, np.ndarray) else backend.host_view(self.array)
        elif self.info is None:
            self.info = backend.view(self.array)

    def buffer(self, given: HostArray) -> HostArray:
        """Flat host memory for the driver to fill: ``given`` itself where the result is to replace it."""
        if self.host is None:
            assert self.info is not None
            backend = self.operand.source.backend.name
            return creation.pinned_empty((self.info.size,), self.operand.dtype, backend=backend)
        flat = self.host.reshape(-1)
        # The same array, not another one over the same memory: the drivers know by identity that they work in place.
        return given if _is_same(flat, given) else flat

    def stored(self, flat: HostArray) -> None:
        """Take over what the driver has filled."""
        if self.host is None:
            assert self.info is not None
            transfers.to_device(flat.reshape(self.info.shape), out=self.array, stream=self.operand.stream)


def _is_same(one: HostArray, two: HostArray) -> bool:
    return one.nbytes == two.nbytes and (address_in_order(one) == address_in_order(two) or not one.nbytes)


def separate(given: HostArray, out: HostArray) -> HostArray:
    """``given``, or a copy of it where the driver would overwrite it before it has been read."""
    return given.copy() if share_memory(given, out) else given


def _checked_out(out: Any, operand: Operand, shape: tuple[int, ...], call: str) -> ArrayInfo:
    owner, source = registry.backend_of(out), operand.source
    if owner is None or isinstance(out, np.generic):  # NumPy's scalars cannot be written
        raise UnsupportedArrayError(
            f"{call}: out is {type(out).__name__}, not an array of any backend; make it with xferlib.empty()"
        )
    info = owner.view(out)
    # Devices are made once each, so identity tells; the backend comes first, for two devices of different libraries may
    # have the same number.
    if source.device is not None and info.device is not source.device:
        if info.device.backend != source.device.backend:
            raise mixing.mixed_backends(call, ("x", source.backend), ("out", owner))
        raise mixing.mixed_devices(call, ("x", source.device), ("out", info.device))
    if info.shape != shape or info.dtype != operand.dtype:
        raise LayoutError(
            f"{call}: out has shape {info.shape} and dtype {info.dtype}, but the result has shape {shape} and dtype "
            f"{operand.dtype}; make it with xferlib.empty()"
        )
    if not info.is_c_contiguous:
        raise LayoutError(f"{call}: out is not contiguous, with strides {info.strides}; give a C-contiguous array")
    if not info.is_writable:
        raise LayoutError(f"{call}: out {UNWRITABLE}")
    refuse_truncated(out, f"{call}: out")
    return info
