"""CuPy's and PyCUDA's memory over xferlib's: addresses with an owner, pools, and the layout of an array."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable
from typing import Any, Self

import numpy as np

import xferlib as xl
from xferlib._pretend import policy
from xferlib._pretend.streams import NumberedDevice, own_stream, to_host_async


class OwnedPointer:
    """An address on the device, and what owns the memory. Copies go through arrays of bytes over it."""

    def __init__(self, address: Any, owner: Any, nbytes: int = 0) -> None:
        self.ptr, self.owner, self.size = int(address), owner, nbytes

    mem = property(lambda self: types.SimpleNamespace(size=self.size, ptr=self.ptr, device_id=self.device_id))
    device_id = property(lambda self: 0 if self._device is None else self._device.index)

    @property
    def _device(self) -> xl.Device | None:
        """The device of the memory; None where nothing tells it."""
        kept = self.owner
        while isinstance(kept, (OwnedPointer, CupyUnownedMemory)):
            kept = kept.owner
        return xl.device_of(kept) if xl.is_array(kept) else None

    def __int__(self) -> int:
        return self.ptr

    __index__ = __int__

    def __add__(self, offset: int) -> Self:
        return type(self)(self.ptr + offset, self.owner, self.size - offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> Self:
        return self + -offset

    def over(self, shape: Any, dtype: Any) -> Any:
        """A native array over the memory."""
        return xl.array_over(self.ptr, shape, dtype, owner=self.owner, device=self._device)

    def free(self) -> None:
        """Free the memory, behind the work that is enqueued."""
        self.owner = None


class CupyMemoryPointer(OwnedPointer):
    """CuPy's `MemoryPointer`: some memory, and how far into it."""

    def __init__(self, mem: Any, offset: Any, nbytes: int | None = None) -> None:
        if nbytes is None:
            super().__init__(mem.ptr + int(offset), mem, mem.size - int(offset))
        else:
            super().__init__(mem, offset, nbytes)

    @property
    def device(self) -> NumberedDevice:
        return NumberedDevice(self.device_id)

    def copy_from_async(self, mem: Any, size: int, stream: Any = None) -> None:
        source = mem.over(size, "uint8") if isinstance(mem, OwnedPointer) else host_bytes(mem, size)
        xl.to_device(source, out=self.over(size, "uint8"), stream=own_stream(stream))

    def copy_from(self, mem: Any, size: int) -> None:
        self.copy_from_async(mem, size)
        xl.current_stream().synchronize()

    copy_from_host = copy_from_device = copy_from
    copy_from_host_async = copy_from_device_async = copy_from_async

    def copy_to_host(self, mem: Any, size: int) -> None:
        xl.to_host(self.over(size, "uint8"), out=host_bytes(mem, size))

    def copy_to_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        to_host_async(self.over(size, "uint8"), host_bytes(mem, size), stream)

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        xl.to_device(np.full(size, value, "uint8"), out=self.over(size, "uint8"), stream=own_stream(stream))

    memset = memset_async


def host_bytes(address: Any, nbytes: int) -> Any:
    """Host memory at an address, as bytes."""
    value = int(address.value or 0) if isinstance(address, ctypes.c_void_p) else int(address)
    return np.frombuffer(memoryview((ctypes.c_ubyte * nbytes).from_address(value)), np.uint8)


def allocate_block(nbytes: int) -> tuple[int, Any, int]:
    """New memory: its address, its owner, and its size."""
    block = xl.empty(max(int(nbytes), 1), "uint8")
    return int(xl.get_backend(block).view(block).pointer), block, int(nbytes)


def allocate(nbytes: int) -> CupyMemoryPointer:
    """CuPy's `alloc`."""
    return CupyMemoryPointer(*allocate_block(nbytes))


class CupyUnownedMemory:
    """Memory that another library allocated."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        self.ptr, self.size, self.owner = ptr, size, owner
        self.device_id = owner.device_id if isinstance(owner, OwnedPointer) else max(device_id, 0)


class CupyPinnedPointer:
    """CuPy's `PinnedMemoryPointer` over a block of xferlib's pinned pool: the base of a NumPy array."""

    def __init__(self, block: Any) -> None:
        self._block = block

    ptr = property(lambda self: self._block.ctypes.data)
    __array_interface__ = property(
        lambda self: {**self._block.__array_interface__, "strides": self._block.strides}  # else those of no element
    )


def allocate_pinned(nbytes: int) -> Any:
    """CuPy's `alloc_pinned_memory`: bytes that ``numpy.frombuffer`` takes."""
    return xl.pinned_empty(int(nbytes), "uint8")


def allocate_in_order(create: Callable[..., Any], shape: tuple[int, ...], kind: Any, order: str) -> Any:
    """Make a pinned array by a function of xferlib's, in Fortran order for ``order="F"``."""
    return create(shape[::-1], kind).T if order == "F" else create(shape, kind)


def set_pinned_allocator(allocate: Any = allocate_pinned) -> None:
    """CuPy's `set_pinned_memory_allocator`: None stands for memory that is not pinned."""
    xl.configure(pinned_limit=0 if allocate is allocate_pinned else 1)


class CupyMemoryPool:
    """CuPy's pool of device memory, as far as programs ask it: xferlib's own allocates."""

    def __init__(self, *_: Any) -> None:
        self._limit = 0

    malloc = staticmethod(allocate)

    def used_bytes(self) -> int:
        here = xl.get_device()
        return here.total_memory - here.free_memory

    def total_bytes(self) -> int:
        return self.used_bytes()

    def free_bytes(self) -> int:
        return 0

    def n_free_blocks(self) -> int:
        return 0

    def free_all_blocks(self, stream: Any = None) -> None:
        xl.trim()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self._limit = size or 0

    def get_limit(self) -> int:
        return self._limit


class CupyPinnedMemoryPool(CupyMemoryPool):
    """CuPy's pool of pinned memory."""

    malloc = staticmethod(allocate_pinned)


class Flags:
    """An array's layout."""

    def __init__(self, info: Any) -> None:
        probe = np.lib.stride_tricks.as_strided(np.empty(0, info.dtype), info.shape, info.strides, writeable=False)
        self._own = probe.flags

    c_contiguous = property(lambda self: self._own.c_contiguous)
    f_contiguous = property(lambda self: self._own.f_contiguous)
    fnc = property(lambda self: self._own.fnc)
    forc = property(lambda self: self._own.forc)

    @property
    def owndata(self) -> bool:
        policy.refuse("ndarray.flags.owndata")

    @owndata.setter
    def owndata(self, value: bool) -> None:
        raise AttributeError("owndata")

    def __getitem__(self, name: str) -> Any:
        return getattr(self, {"C": "c_contiguous", "F": "f_contiguous"}.get(name, name).lower())

    def __repr__(self) -> str:
        return f"  C_CONTIGUOUS : {self.c_contiguous}\n  F_CONTIGUOUS : {self.f_contiguous}"
