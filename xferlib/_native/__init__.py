"""Staging in C: the functions of `staging.c` beside this file, where it has been compiled.

Threads that stage in Python hand the GIL to one another at each piece, and to the user's own threads; this part needs
it only to begin and to end, and its own helper threads never need it. Without it everything works,
more slowly: see `why_absent`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import zlib
from typing import Any

from xferlib._runtime import config

_FOLDER = __file__.rpartition(os.sep)[0]  # importing pathlib would take a fifth of what importing xferlib does
SOURCE = f"{_FOLDER}{os.sep}staging.c"
PARTS = ("strided.c", "strided.h", "loops.h")
"""Other files that the library is made from."""
LIBRARY = f"{_FOLDER}{os.sep}staging.so"


class Chunk(ctypes.Structure):
    """A pinned chunk that is lent for one transfer."""

    _fields_ = (("memory", ctypes.c_void_p), ("event", ctypes.c_void_p), ("is_busy", ctypes.c_int64))


class Mark(ctypes.Structure):
    """A recording's note of one piece: nanoseconds of `time.perf_counter`, and the number of a thread."""

    _fields_ = (("begun_ns", ctypes.c_int64), ("ended_ns", ctypes.c_int64), ("thread", ctypes.c_int64))


MOST_AXES = 32
"""Of a `StridedLayout`."""


class StridedLayout(ctypes.Structure):
    """The form of a host array; the dtypes on both sides are numbers, their places in `xferlib._core.array.DTYPES`."""

    _fields_ = (
        ("axes", ctypes.c_int64),
        ("extents", ctypes.c_int64 * MOST_AXES), ("strides", ctypes.c_int64 * MOST_AXES),
        ("host_size", ctypes.c_int64), ("device_size", ctypes.c_int64),
        ("host_type", ctypes.c_int64), ("device_type", ctypes.c_int64), ("is_swapped", ctypes.c_int64),
    )  # fmt: skip


class Part(ctypes.Structure):
    """Host memory of one array, and its offset and size in a transfer, in bytes on the device."""

    _fields_ = (
        ("host", ctypes.c_void_p), ("place", ctypes.c_int64), ("nbytes", ctypes.c_int64),
        ("layout", ctypes.POINTER(StridedLayout)),
    )  # fmt: skip


class Setup(ctypes.Structure):
    """A transfer: addresses, pieces, the loads that they are sent in, chunks, and the driver's functions."""

    _fields_ = (
        ("host", ctypes.c_void_p), ("device", ctypes.c_uint64), ("devices", ctypes.POINTER(ctypes.c_uint64)),
        ("offsets", ctypes.POINTER(ctypes.c_int64)), ("shares", ctypes.POINTER(ctypes.c_int64)),
        ("firsts", ctypes.POINTER(ctypes.c_int64)), ("loads", ctypes.c_int64),
        ("chunks", ctypes.POINTER(Chunk)), ("chunk_count", ctypes.c_int64),
        ("stream", ctypes.c_void_p), ("copy", ctypes.c_void_p), ("record", ctypes.c_void_p), ("wait", ctypes.c_void_p),
        ("enter", ctypes.c_void_p), ("context", ctypes.c_void_p),
        ("is_upward", ctypes.c_int64), ("is_streamed", ctypes.c_int64),
        ("shared_chunks", ctypes.c_int64), ("layout", ctypes.POINTER(StridedLayout)),
        ("spin_ns", ctypes.c_int64), ("parts", ctypes.c_int64), ("part", ctypes.POINTER(Part)),
        ("marks", ctypes.POINTER(Mark)), ("before_first", ctypes.c_void_p), ("after_last", ctypes.c_void_p),
    )  # fmt: skip


def fingerprint(source: bytes) -> int:
    """The checksum of a source, which the library compiled from it carries too."""
    return zlib.crc32(source)


def _sources() -> bytes:
    found = []
    for path in (SOURCE, *(f"{_FOLDER}{os.sep}{part}" for part in PARTS)):
        with open(path, "rb") as file:
            found.append(file.read())
    return b"".join(found)


def load(path: str | os.PathLike[str]) -> Any:
    """The functions of a compiled library.

    Raises:
        OSError: It cannot be loaded, or was made from another source.
    """
    library = ctypes.CDLL(os.fspath(path))
    name = os.fspath(path).rpartition(os.sep)[2]
    try:
        made_from = ctypes.c_uint32.in_dll(library, "xf_fingerprint").value
    except ValueError as error:
        raise OSError(f"{name} is not what staging.c compiles to: {error}") from None
    if made_from != fingerprint(_sources()):
        raise OSError(f"{name} was compiled from another staging.c; run python -m xferlib._native.build")
    library.xf_open.argtypes, library.xf_open.restype = [ctypes.POINTER(Setup)], ctypes.c_void_p
    library.xf_close.argtypes, library.xf_close.restype = [ctypes.c_void_p], None
    library.xf_error.argtypes, library.xf_error.restype = [ctypes.c_void_p], ctypes.c_int64
    library.xf_run.argtypes, library.xf_run.restype = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64], ctypes.c_int
    library.xf_help.argtypes, library.xf_help.restype = [ctypes.c_void_p, *[ctypes.c_int64] * 3], None
    library.xf_fill.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 4]
    library.xf_fill.restype = None
    library.xf_fill_begin.argtypes = library.xf_fill.argtypes
    library.xf_fill_begin.restype = ctypes.c_void_p
    library.xf_fill_end.argtypes, library.xf_fill_end.restype = [ctypes.c_void_p], None
    pointer = ctypes.POINTER(StridedLayout)
    library.xf_gather.argtypes = [pointer, ctypes.c_void_p, *[ctypes.c_int64] * 2, ctypes.c_void_p, ctypes.c_int]
    library.xf_scatter.argtypes = [pointer, ctypes.c_void_p, *[ctypes.c_int64] * 2, ctypes.c_void_p]
    library.xf_gather.restype = library.xf_scatter.restype = None
    library.xf_end.argtypes, library.xf_end.restype = [ctypes.c_void_p], None
    return library


@functools.cache
def _loaded() -> tuple[Any, str]:
    try:
        return load(LIBRARY), ""
    except OSError as error:
        return None, str(error) if os.access(LIBRARY, os.F_OK) else "not compiled; run python -m xferlib._native.build"


def is_wanted() -> bool:
    """Whether compiled parts are used where they exist."""
    return config.get().native != "off"


def is_wanted_at_import() -> bool:
    """`is_wanted`, for what is chosen while xferlib is imported, which must not settle the configuration yet."""
    return os.environ.get("XFERLIB_NATIVE", "").strip() != "off"


def is_on() -> bool:
    """Whether staging in C is compiled and wanted."""
    return config.get().native != "off" and _loaded()[0] is not None


def library() -> Any:
    """The compiled functions; None if they are not compiled."""
    return _loaded()[0]


def why_absent() -> str:
    """Why `library` is None; empty where it is not."""
    return _loaded()[1]
