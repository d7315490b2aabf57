"""Staging in C: the functions of the folder `staging`, where they have been compiled.

Threads that stage in Python hand the GIL to one another at each piece, and to the user's own threads; this part needs
it only to begin and to end, and its own helper threads never need it. Without it everything works,
more slowly: see `why_absent`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import zlib
from typing import Any

from xferlib._runtime import config

_FOLDER = __file__.rpartition(os.sep)[0]  # importing pathlib would take a fifth of what importing xferlib does
SOURCE = f"{_FOLDER}{os.sep}staging{os.sep}staging.c"
LIBRARY = f"{_FOLDER}{os.sep}{'staging.dll' if sys.platform == 'win32' else 'staging.so'}"


class Mark(ctypes.Structure):
    """A recording's note of one piece: nanoseconds of `time.perf_counter`, bytes, and the thread.

    The thread is the negative number of a helper, or else what `threading.get_ident` returns in it.
    """

    _fields_ = (
        ("begun_ns", ctypes.c_int64), ("ended_ns", ctypes.c_int64), ("nbytes", ctypes.c_int64),
        ("thread", ctypes.c_int64),
    )  # fmt: skip


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
    """Host memory of one array, and its offset and size in a region, in bytes on the device."""

    _fields_ = (
        ("host", ctypes.c_void_p), ("place", ctypes.c_int64), ("nbytes", ctypes.c_int64),
        ("layout", ctypes.POINTER(StridedLayout)),
    )  # fmt: skip


class ArrayRegion(ctypes.Structure):
    """Contiguous bytes on the device, and what they are copied from or to on the host: one array, or many parts."""

    _fields_ = (
        ("host", ctypes.c_void_p), ("device", ctypes.c_uint64), ("nbytes", ctypes.c_int64), ("unit", ctypes.c_int64),
        ("layout", ctypes.POINTER(StridedLayout)), ("part", ctypes.POINTER(Part)), ("parts", ctypes.c_int64),
        ("is_fresh", ctypes.c_int64),
    )  # fmt: skip


# Field by field as the struct of the same name in C: the fingerprint tells that both come from one state of the source,
# not that they agree. Add, move or widen a field on both sides.
class Setup(ctypes.Structure):
    """The common part of transfers of one direction on one stream: see `staging.c`."""

    _fields_ = (
        ("ring", ctypes.c_void_p), ("stream", ctypes.c_void_p), ("copy", ctypes.c_void_p), ("record", ctypes.c_void_p),
        ("wait", ctypes.c_void_p), ("order", ctypes.c_void_p), ("enter", ctypes.c_void_p), ("context", ctypes.c_void_p),
        ("is_upward", ctypes.c_int64), ("most_chunks", ctypes.c_int64), ("shared_chunks", ctypes.c_int64),
        ("way_chunks", ctypes.c_int64), ("first_block", ctypes.c_int64), ("largest_block", ctypes.c_int64),
        ("block_parts", ctypes.c_int64), ("least_piece", ctypes.c_int64), ("most_piece", ctypes.c_int64),
        ("helper_nbytes", ctypes.c_int64), ("streamed_from", ctypes.c_int64), ("streamed_most", ctypes.c_int64),
        ("patient_from", ctypes.c_int64), ("spin_ns", ctypes.c_int64), ("each_way", ctypes.c_int64),
        ("clearing", ctypes.c_int64), ("both_ways", ctypes.c_int64),
        ("is_marked", ctypes.c_int64), ("before_first", ctypes.c_void_p), ("after_last", ctypes.c_void_p),
    )  # fmt: skip


NO_MEMORY = -1
"""The result of ``xf_copy`` where the host has no memory for the transfer's state; nothing has been done."""
STARVED = -2
"""The same where the transfer has waited long for a chunk; the caller goes on with ``xf_run``."""


@functools.cache
def checksum() -> int:
    """The checksum of the C files in the folders here, which the libraries compiled from them carry too."""
    found = 0
    for folder in ("calls", "front", "staging"):
        for name in sorted(os.listdir(f"{_FOLDER}{os.sep}{folder}")):  # noqa: PTH208 - as above
            if name.endswith((".c", ".h")):
                with open(f"{_FOLDER}{os.sep}{folder}{os.sep}{name}", "rb") as file:
                    found = zlib.crc32(file.read(), found)
    return found


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
    # Before any call: an old library would read the structures above by offsets that are no longer theirs.
    if made_from != checksum():
        raise OSError(f"{name} was compiled from another staging.c; run python -m xferlib._native.build")
    pointer, number, size = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    layout = ctypes.POINTER(StridedLayout)
    filling = (pointer, pointer, *[number] * 5)
    functions: tuple[tuple[Any, ...], ...] = (
        ("xf_ring_new", pointer),
        ("xf_ring_close", None, pointer),
        ("xf_ring_add", number, pointer, pointer, pointer),
        ("xf_ring_remove", number, pointer),
        ("xf_ring_lent", number, pointer, number),
        ("xf_ring_free", number, pointer),
        ("xf_open", pointer, pointer),
        ("xf_add", size, pointer, pointer, number, size, number),
        ("xf_close_regions", None, pointer),
        ("xf_run", size, pointer, number),
        ("xf_end", number, pointer),
        ("xf_marks", number, pointer, ctypes.POINTER(ctypes.POINTER(Mark))),
        ("xf_close", number, pointer, size),
        ("xf_copy", number, pointer, pointer, number, ctypes.POINTER(pointer)),
        ("xf_cut", None, pointer, number, number, ctypes.POINTER(number)),
        ("xf_is_crowded", size),
        ("xf_collect", None, pointer, number, number, pointer),
        ("xf_host_copy", None, layout, pointer, pointer, number, size, *[number] * 4),
        ("xf_fill", None, *filling),
        ("xf_fill_begin", pointer, *filling),
        ("xf_fill_end", None, pointer),
        ("xf_unit", number, layout),
        ("xf_gather", None, layout, pointer, number, number, pointer, size),
        ("xf_scatter", None, layout, pointer, number, number, pointer, size),
    )
    # Without these ctypes passes a Python integer as a C int and cuts addresses to 32 bits.
    for name, result, *arguments in functions:
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
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


def tell_if_absent() -> None:
    """Warn, at the user's line, where nothing is compiled that could be; called once, before the first transfer."""
    if os.access(LIBRARY, os.F_OK) or sys.platform == "win32" or not is_wanted_at_import():
        return
    import warnings

    from xferlib._runtime.callsite import user_site
    from xferlib.errors import XferWarning

    site = user_site()
    warnings.warn_explicit(
        "xferlib's parts in C are not compiled: large transfers take longer, and hold the GIL meanwhile. Install a C "
        "compiler (gcc or clang) and run `python -m xferlib._native.build`, or set XFERLIB_NATIVE=off to go without",
        XferWarning,
        site.file,
        site.line,
    )
