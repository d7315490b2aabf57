"""``__dlpack__`` and ``from_dlpack``: arrays over memory that two libraries share, in the order of both their streams.

The layouts of the structures are DLPack's: with a version, for consumers that ask for one, and without.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api import transfers
from xferlib._arrays.primitives import Primitives
from xferlib._core import dtypes, registry
from xferlib._core.arrays import Array, ArrayInfo, Lent, bounds, c_strides
from xferlib._core.dtypes import SUPPORTED
from xferlib._runtime import process
from xferlib.errors import ArgumentError, UnsupportedArrayError, UnsupportedError, quote

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device

_CPU = (1, 0)
_DEVICES = {"cpu": 1, "cuda": 2}
_MANAGED = 13
"""The kind of managed memory, which is CUDA's too."""
_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_TAKEN = {_NAME: b"used_dltensor", _VERSIONED_NAME: b"used_dltensor_versioned"}
"""The names of capsules whose structures a consumer releases."""
_VERSION = (1, 0)
_READ_ONLY, _IS_COPIED = 1, 2
"""The flags of structures with a version."""
_UNORDERED = -1
"""The ``stream=`` of a consumer that orders its work itself."""
_LEGACY = (0, 1)
"""The handles of CUDA's legacy default stream."""


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


_exported: dict[int, Any] = {}
"""The structures that a consumer has not released, by their addresses, with the arrays that they stand for."""

_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))


def _release(address: int, exported: dict[int, Any] = _exported) -> None:
    """Free an array that its consumer has released, perhaps while the interpreter ends."""
    exported.pop(address, None)


def _drop(capsule: int) -> None:
    """Free an array whose capsule no consumer has taken: a consumer renames the capsule."""
    for name in (_NAME, _VERSIONED_NAME):
        if _is_valid(capsule, name):
            _release(_pointer_of(capsule, name))


_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_release)
_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)
process.keep((_deleter, _destructor, _exported))  # consumers call them after this module is gone


def device(lib: Primitives, x: Array) -> tuple[int, int]:
    """DLPack's number of the kind of device, and the device's own.

    Raises:
        UnsupportedError: DLPack knows no such device.
    """
    place = lib.info(x).device
    if place.kind not in _DEVICES:
        raise UnsupportedError(f"__dlpack__: memory of {place} cannot be shared; move it: xferlib.to_host(x)")
    return _DEVICES[place.kind], place.index


def capsule(
    lib: Primitives, x: Array, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
) -> Any:
    """The capsule of an array: ``__dlpack__``, by the standard of 2023.12.

    Args:
        lib: The library.
        x: The array. Elements that share their memory, and strides that few libraries take, are copied.
        stream: The handle of the consumer's, which waits for the work on the current one; None: the host waits, and -1:
            the consumer orders its work itself.
        max_version: The newest version that the consumer takes.
        dl_device: The device's numbers, or (1, 0) for a copy in host memory.
        copy: Whether to copy; None: if need be.

    Raises:
        ArgumentError: ``max_version`` or ``dl_device`` is not a pair of integers.
        BufferError: Another device is wanted, or ``copy=False`` and only a copy will do.
    """
    kind, index = device(lib, x)
    newest = (0, 0) if max_version is None else _check_pair("max_version", max_version)
    if dl_device is not None and _check_pair("dl_device", dl_device) != (kind, index):
        return host_capsule(x, stream, max_version, dl_device, copy)
    info = lib.info(x)
    is_versioned = newest >= _VERSION
    is_odd = any(step < 0 or step % info.dtype.itemsize for step in info.strides)
    if copy or is_odd or not (info.is_writable or is_versioned):
        if copy is False:
            raise BufferError(
                f"__dlpack__: copy=False, and an array of byte strides {info.strides}"
                f"{'' if info.is_writable else ', read-only,'} cannot be shared; leave copy out"
            )
        x, copy = lib.copy(x), True
        info = lib.info(x)
    _order_consumer(lib, x, info, stream)
    return _capsule(info, (kind, index), x, is_versioned=is_versioned, is_copied=bool(copy))


def _check_pair(name: str, value: Any) -> tuple[int, int]:
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(each, int) for each in value):
        return int(value[0]), int(value[1])
    raise ArgumentError(f"__dlpack__: {name}={quote(value)} is not a pair of integers, such as (1, 0); leave it out")


def host_capsule(x: Array, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    """The capsule of a copy in host memory, complete: for ``dl_device=(1, 0)``, and a BufferError for any other."""
    if not isinstance(dl_device, tuple) or dl_device != _CPU:
        raise BufferError(f"__dlpack__: dl_device={quote(dl_device)} is not the device of the array; move it first")
    if copy is False:
        raise BufferError("__dlpack__: copy=False, and host memory needs a copy; leave copy out")
    if stream is not None:
        raise BufferError(f"__dlpack__: stream={quote(stream)}, and host memory has no stream; leave it out")
    return transfers.to_host(x).__dlpack__(max_version=max_version)


def _order_consumer(lib: Primitives, x: Array, info: ArrayInfo, stream: Any) -> None:
    """Order the consumer's work after the current stream's."""
    if stream == _UNORDERED:
        return
    owner = lib.backend.at(info.device)
    current = owner.stream_current(info.device)
    if stream is None or info.device.kind != "cuda":
        owner.stream_synchronize(current)
        return
    handle = int(stream)
    if handle == current.handle or (handle in _LEGACY and current.handle in _LEGACY):
        return
    consumer = owner.stream_wrap(handle, info.device)
    owner.event_wait(consumer, owner.event_record(current, timing=False))
    owner.note_use(x, consumer)  # its memory outlasts the consumer's work once the consumer has dropped it


def _capsule(info: ArrayInfo, place: tuple[int, int], x: Array, *, is_versioned: bool, is_copied: bool) -> Any:
    numbers = ctypes.c_int64 * len(info.shape)
    shape, strides = numbers(*info.shape), numbers(*(each // info.dtype.itemsize for each in info.strides))
    tensor = _Tensor(
        info.pointer, *place, len(info.shape), *dtypes.dlpack_type(info.dtype),
        ctypes.addressof(shape), ctypes.addressof(strides), 0,
    )  # fmt: skip
    deleter = ctypes.cast(_deleter, ctypes.c_void_p)
    described: ctypes.Structure
    if is_versioned:
        flags = (0 if info.is_writable else _READ_ONLY) | (_IS_COPIED if is_copied else 0)
        described = _Versioned(*_VERSION, None, deleter, flags, tensor)
    else:
        described = _Managed(tensor, None, deleter)
    address = ctypes.addressof(described)
    _exported[address] = (described, shape, strides, x)
    name = _VERSIONED_NAME if is_versioned else _NAME
    return _new_capsule(address, name, ctypes.cast(_destructor, ctypes.c_void_p))


# --- the other way


def share_memory_of(lib: Primitives, x: Any) -> Array | None:
    """An array over the memory of another backend's, of any strides; None where that cannot be.

    The current stream waits for the work on the other library's, and that memory outlives the work here.
    """
    owner = registry.owner_of(x)
    if owner is None:
        return _share_cuda_interface(lib, x)
    info = owner.view(x)
    lender = owner.at(info.device)
    place = _same_device(lib, lender.pinned_domain, info.device)
    if place is None or not info.is_writable or info.dtype not in SUPPORTED:
        return None
    own = lib.backend.at(place)
    own.attach(place)
    current, theirs = own.stream_current(place), lender.stream_current(info.device)
    lent = Lent(x, lender)
    if current.handle != theirs.handle:
        own.event_wait(current, lender.event_record(theirs, timing=False))
        lent.used_on(current)
    return _over(lib, own, info, place, lent)


def _same_device(lib: Primitives, domain: str, device: Device) -> Device | None:
    """The device of the library that is the same as another one's."""
    for each in lib.backend.devices():
        if (each.kind, each.index) == (device.kind, device.index) and lib.backend.at(each).pinned_domain == domain:
            return each
    return None


def _share_cuda_interface(lib: Primitives, x: Any) -> Array | None:
    """As `share_memory_of`, of an array of no backend, by CUDA's array interface."""
    described = getattr(x, "__cuda_array_interface__", None)
    if lib.device(None).kind != "cuda" or not isinstance(described, dict):
        return None
    pointer, is_read_only = described["data"]
    shape, dtype = tuple(described["shape"]), np.dtype(described["typestr"])
    if is_read_only or dtype not in SUPPORTED:
        return None
    strides = tuple(described.get("strides") or c_strides(shape, dtype.itemsize))
    place = lib.backend.device_at(int(pointer))
    own = lib.backend.at(place)
    own.attach(place)
    handle, current = described.get("stream"), own.stream_current(place)
    if handle is not None and handle != current.handle:
        own.event_wait(current, own.event_record(own.stream_wrap(int(handle), place), timing=False))
    return _over(lib, own, ArrayInfo(int(pointer), shape, strides, dtype, place, True), place, x)


class _Borrowed:
    """The structure of a capsule, released with the last array over its memory."""

    def __init__(self, address: int, deleter: int | None) -> None:
        self._address = address
        self._deleter = deleter
        self._pid = os.getpid()

    def __del__(self) -> None:
        if self._deleter and self._pid == os.getpid() and not sys.is_finalizing():
            ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self._deleter)(self._address)


def borrow_from_dlpack(lib: Primitives, x: Any, *, copy: bool | None) -> Array:
    """An array over the memory of an object of no backend that has ``__dlpack__``: of the library, or NumPy's.

    The owner orders its work before that on the current stream. Memory that must not be written is copied.

    Raises:
        BufferError: ``copy=False``, and only a copy will do.
        UnsupportedArrayError: It is of a dtype, or on a device, that the library does not have.
    """
    kind, index = map(int, x.__dlpack_device__())
    kind = _DEVICES["cuda"] if kind == _MANAGED else kind
    here = [each for each in lib.backend.devices() if (_DEVICES.get(each.kind), each.index) == (kind, index)]
    if not here:
        if kind == _CPU[0]:
            return np.from_dlpack(x)
        raise UnsupportedArrayError(
            f"from_dlpack: {type(x).__name__} is on device {index} of DLPack's kind {kind}, whose memory "
            f"{lib.backend.name} cannot share; copy it to the host by its own library, and give xferlib.to_device that"
        )
    own = lib.backend.at(here[0])
    own.attach(here[0])
    current = own.stream_current(here[0])
    options = {"stream": current.handle or _LEGACY[1]} if here[0].kind == "cuda" else {}
    try:
        given = x.__dlpack__(max_version=_VERSION, **options)
    except TypeError:  # it is older than versions
        given = x.__dlpack__(**options)
    name = _VERSIONED_NAME if _is_valid(id(given), _VERSIONED_NAME) else _NAME
    address = _pointer_of(id(given), name)
    described = (_Versioned if name == _VERSIONED_NAME else _Managed).from_address(address)
    info = _read(x, described.tensor, here[0])
    is_read_only = name == _VERSIONED_NAME and bool(described.flags & _READ_ONLY)
    if is_read_only and copy is False:
        raise BufferError("from_dlpack: copy=False, and the memory is read-only; leave copy out")
    keeper = _Borrowed(address, described.deleter)
    _rename(given, _TAKEN[name])
    found = _over(lib, own, info, here[0], keeper)
    if found is None:
        raise UnsupportedArrayError(
            f"from_dlpack: {lib.backend.name} makes no arrays over the memory of others; give a NumPy array"
        )
    return lib.copy(found) if is_read_only else found


def _read(x: Any, tensor: Any, place: Device) -> ArrayInfo:
    """The description of an array in DLPack's structure.

    Raises:
        UnsupportedArrayError: Devices have no such dtype.
    """
    dtype = dtypes.of_dlpack(tensor.code, tensor.bits, tensor.lanes)
    if dtype is None:
        raise UnsupportedArrayError(
            f"from_dlpack: elements of {type(x).__name__} are of DLPack's type {tensor.code} with {tensor.bits} bits "
            f"and {tensor.lanes} lane(s), which no backend holds; convert them by its own library"
        )
    numbers = ctypes.c_int64 * tensor.ndim
    shape = (*numbers.from_address(tensor.shape),) if tensor.ndim else ()
    strides = c_strides(shape, dtype.itemsize)
    if tensor.strides and tensor.ndim:
        strides = tuple(each * dtype.itemsize for each in numbers.from_address(tensor.strides))
    return ArrayInfo((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, place, True)


def _over(lib: Primitives, own: Backend, info: ArrayInfo, place: Device, keeper: Any) -> Array | None:
    low, high = bounds(info.pointer, info.shape, info.strides, info.dtype.itemsize)
    try:
        memory = own.over(low, (high - low,), np.dtype("uint8"), device=place, owner=keeper)
    except UnsupportedError:
        return None
    return lib.backend.strided_view(memory, info.pointer - low, info.shape, info.strides, info.dtype)
