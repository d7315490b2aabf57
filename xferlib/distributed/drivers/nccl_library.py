"""NCCL's own library, which PyTorch brings with it: the few functions that `nccl` calls.

A call costs 1 us; by way of PyTorch's process group it costs 20, and a copy, since that reduces in place alone.

Not by way of nccl4py, NVIDIA's package for Python. Its bindings take addresses and numbers as these functions do, and
save less than a microsecond a call; its checks of arrays see neither strides nor their own stream, so they would not
replace xferlib's. In exchange every installation would carry it (version 0.6: 15 MB, beside cuda-core of one major
version, and cuda-bindings, which it needs and does not name outside of extras with a compiler of kernels), where NCCL
itself is there with PyTorch. The major version in the name ``libnccl.so.2`` holds the functions' signatures.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from pathlib import Path
from typing import Any

from xferlib.errors import DistributedError

_NAME = "libnccl.so.2"
_ID_NBYTES = 128
_IN_PROGRESS = 7
_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class _UniqueId(ctypes.Structure):
    _fields_ = (("internal", ctypes.c_byte * _ID_NBYTES),)


_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "ncclGetUniqueId": (_POINTER,),
    "ncclCommInitRank": (_POINTER, _INT, _UniqueId, _INT),
    "ncclCommGetAsyncError": (_POINTER, _POINTER),
    "ncclCommDestroy": (_POINTER,),
    "ncclCommAbort": (_POINTER,),
    "ncclAllReduce": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclReduceScatter": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclBroadcast": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclAllGather": (_POINTER, _POINTER, _SIZE, _INT, _POINTER, _POINTER),
    "ncclSend": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclRecv": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
}


@functools.cache
def load() -> Any:
    """The library, with the types of its functions' arguments; None where there is none.

    That of the process comes first, as a library of arrays may have loaded it.
    """
    library = _opened()
    if library is not None:
        for name, arguments in _ARGUMENTS.items():
            getattr(library, name).argtypes = arguments
        library.ncclGetErrorString.restype = ctypes.c_char_p
    return library


def _opened() -> ctypes.CDLL | None:
    for name in (_NAME, *_in_wheel()):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _in_wheel() -> list[str]:
    """Where NVIDIA's wheel, on which PyTorch's depends, has the library."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ImportError:
        return []
    folders = [] if found is None else found.submodule_search_locations or []
    return [str(Path(folder) / "lib" / _NAME) for folder in folders]


def text_of(code: int) -> str:
    """The library's words for a result."""
    return str(load().ncclGetErrorString(code).decode())


def check(code: int, name: str) -> None:
    """Raise what a result says, if it is not 0.

    Raises:
        DistributedError: It is not.
    """
    if code:
        raise DistributedError(f"NCCL's {name} failed: {text_of(code)}")


def unique_id() -> bytes:
    """The bytes by which all ranks join one communicator."""
    made = _UniqueId()
    check(load().ncclGetUniqueId(ctypes.byref(made)), "ncclGetUniqueId")
    return bytes(made)


def join(size: int, rank: int, identity: bytes) -> int:
    """Make this rank's communicator on the thread's current device; it waits for the other ranks."""
    comm = _POINTER()
    check(
        load().ncclCommInitRank(ctypes.byref(comm), size, _UniqueId.from_buffer_copy(identity), rank),
        "ncclCommInitRank",
    )
    return comm.value or 0


def failure(comm: int) -> str:
    """The failure that NCCL has found, such as a connection that was closed; empty for none."""
    code = ctypes.c_int()
    found = load().ncclCommGetAsyncError(comm, ctypes.byref(code)) or code.value
    return text_of(found) if found and found != _IN_PROGRESS else ""
