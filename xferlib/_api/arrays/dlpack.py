"""``__dlpack__``: an array as a capsule that other libraries make their own array of, over the same memory.

The layout of the structures is DLPack's, before its version 1.
"""

from __future__ import annotations

import ctypes
from typing import Any

from xferlib._api.arrays.primitives import Primitives
from xferlib._core.array import Array
from xferlib._runtime import leak
from xferlib.errors import UnsupportedError

_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_DEVICES = {"cpu": 1, "cuda": 2}
_NAME = b"dltensor"
_UNORDERED = -1
"""The ``stream=`` of a consumer that orders its work itself."""


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
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


def _release(address: int, exported: dict[int, Any] = _exported) -> None:
    """Free an array that its consumer has released, perhaps while the interpreter ends."""
    exported.pop(address, None)


def _drop(capsule: int) -> None:
    """Free an array whose capsule no consumer has taken: a consumer renames the capsule."""
    if _is_valid(capsule, _NAME):
        _release(_pointer_of(capsule, _NAME))


_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_release)
_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)
leak.keep((_deleter, _destructor, _exported))  # consumers call them after this module is gone


def device(lib: Primitives, x: Array) -> tuple[int, int]:
    """DLPack's number of the kind of device, and the device's own.

    Raises:
        UnsupportedError: DLPack knows no such device.
    """
    place = lib.info(x).device
    if place.kind not in _DEVICES:
        raise UnsupportedError(f"__dlpack__: memory of {place} cannot be shared; move it: xferlib.to_host(x)")
    return _DEVICES[place.kind], place.index


def capsule(lib: Primitives, x: Array, stream: Any) -> Any:
    """The capsule of an array; work on the current stream is complete unless the consumer orders it itself."""
    kind, index = device(lib, x)
    info = lib.info(x)
    if stream != _UNORDERED:
        owner = lib.backend.at(info.device)
        owner.stream_synchronize(owner.stream_current(info.device))
    numbers = ctypes.c_int64 * len(info.shape)
    shape, strides = numbers(*info.shape), numbers(*(each // info.dtype.itemsize for each in info.strides))
    described = _Tensor(
        info.pointer, kind, index, len(info.shape), _KINDS[info.dtype.kind], 8 * info.dtype.itemsize, 1,
        ctypes.addressof(shape), ctypes.addressof(strides), 0, None, ctypes.cast(_deleter, ctypes.c_void_p),
    )  # fmt: skip
    address = ctypes.addressof(described)
    _exported[address] = (described, shape, strides, x)
    return _new_capsule(address, _NAME, ctypes.cast(_destructor, ctypes.c_void_p))
