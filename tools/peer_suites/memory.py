"""Memory by the peers' names: addresses with an owner, and what is known of an array's layout."""

from __future__ import annotations

import ctypes
import types
from typing import Any

import numpy as np

import xferlib as xl
from tools.peer_suites.missing import Partial, skip


class Pointer(Partial):
    """CuPy's `MemoryPointer` and PyCUDA's `DeviceAllocation`: an address on the device, and what owns the memory.

    Copies go through arrays of bytes over it, which `xl.array_over` makes.
    """

    peer_name = "MemoryPointer"

    def __init__(self, address: Any, owner: Any, nbytes: int = 0) -> None:
        self.ptr, self.owner, self.size = int(address), owner, nbytes

    mem = property(lambda self: types.SimpleNamespace(size=self.size))

    @property
    def device(self) -> xl.Device | None:
        """The device of the memory; the current one where nothing tells it."""
        kept = self.owner
        while isinstance(kept, (Pointer, UnownedMemory)):
            kept = kept.owner
        return xl.device_of(kept) if hasattr(kept, "dtype") else None

    def __int__(self) -> int:
        return self.ptr

    __index__ = __int__

    def __add__(self, offset: int) -> Pointer:
        return Pointer(self.ptr + offset, self.owner, self.size - offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> Pointer:
        return self + -offset

    def over(self, shape: Any, dtype: Any) -> Any:
        """A native array over the memory."""
        return xl.array_over(self.ptr, shape, dtype, owner=self.owner, device=self.device)

    def free(self) -> None:
        """Free the memory."""
        self.owner = None

    # --- CuPy's copies

    def copy_from_async(self, source: Any, nbytes: int, stream: Any = None) -> None:
        target = self.over(nbytes, "uint8")
        own = getattr(stream, "own", None)
        if isinstance(source, Pointer):
            xl.to_device(source.over(nbytes, "uint8"), out=target, stream=own)
        else:
            xl.to_device(host_bytes(source, nbytes), out=target, stream=own)

    def copy_to_host_async(self, target: Any, nbytes: int, stream: Any = None) -> None:
        xl.to_host(self.over(nbytes, "uint8"), out=host_bytes(target, nbytes), stream=getattr(stream, "own", None))

    def memset_async(self, value: int, nbytes: int, stream: Any = None) -> None:
        xl.to_device(
            np.full(nbytes, value, "uint8"), out=self.over(nbytes, "uint8"), stream=getattr(stream, "own", None)
        )

    copy_from = copy_from_device = copy_from_host = copy_from_async
    copy_from_device_async = copy_from_host_async = copy_from_async
    copy_to_host = copy_to_host_async
    memset = memset_async


def host_bytes(address: Any, nbytes: int) -> Any:
    """Host memory at an address, as bytes."""
    value = int(address.value or 0) if isinstance(address, ctypes.c_void_p) else int(address)
    block: Any = (ctypes.c_ubyte * nbytes).from_address(value)
    return np.frombuffer(block, np.uint8)


def allocated(nbytes: int) -> Pointer:
    """Memory of the backend's pool."""
    block = xl.empty(max(int(nbytes), 1), "uint8")
    return Pointer(xl.get_backend(block).view(block).pointer, block, int(nbytes))


class MemoryPointer(Pointer):
    """CuPy's constructor: some memory, and how far into it."""

    def __init__(self, mem: Any, offset: int) -> None:
        if not isinstance(mem, UnownedMemory):
            skip("memory of a class of the test's own")
        super().__init__(mem.ptr + offset, mem, mem.size - offset)


class UnownedMemory:
    """Memory that another library allocated, for `xl.array_over`."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = 0) -> None:
        self.ptr, self.size, self.owner = ptr, size, owner
        self.device_id = owner.device.index if isinstance(owner, Pointer) and owner.device is not None else device_id


class PinnedPointer:
    """CuPy's `PinnedMemoryPointer` over a block of xferlib's pinned pool: the base of a NumPy array."""

    def __init__(self, block: Any) -> None:
        self._block = block

    ptr = property(lambda self: self._block.ctypes.data)
    __array_interface__ = property(
        lambda self: {**self._block.__array_interface__, "strides": self._block.strides}  # else those of no element
    )


class Flags:
    """An array's layout."""

    def __init__(self, info: Any) -> None:
        probe = np.lib.stride_tricks.as_strided(np.empty(0, info.dtype), info.shape, info.strides, writeable=False)
        self._own = probe.flags

    @property
    def c_contiguous(self) -> bool:
        return self._own.c_contiguous

    @property
    def f_contiguous(self) -> bool:
        return self._own.f_contiguous

    @property
    def fnc(self) -> bool:
        return self._own.fnc

    @property
    def forc(self) -> bool:
        return self._own.forc

    @property
    def owndata(self) -> bool:
        skip("which array owns its memory, which each library knows for itself")

    @owndata.setter
    def owndata(self, value: bool) -> None:
        raise AttributeError("owndata")
