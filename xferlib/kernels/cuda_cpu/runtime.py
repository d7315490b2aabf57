"""The runtime of translated kernels, `emulator.so`, and what a launch gives to it.

The structures are those of `emulator.h`, field by field: the fingerprint tells that both come from one state of the
source, not that they agree.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xferlib import _native
from xferlib._runtime.threads import deferred
from xferlib.errors import UnsupportedError

LIBRARY = Path(_native.SOURCE).parents[1] / "emulator.so"

Extents = ctypes.c_uint32 * 3

IN_ORDER, REVERSED, RANDOM = range(3)
FIBERS, COOPERATIVE, CHECKED, TRACK = 1, 2, 4, 8
READ_ONLY, CONST, UNWRITTEN = 1, 2, 4
READ, WRITE, STRONG = 1, 2, 4
GLOBAL, SHARED, LOCAL, CONSTANT = 32, 64, 128, 256
NOWHERE = 0xFFFFFFFF
"""The site of a location that is not known."""

FAULTS = (
    "", "out of bounds", "misaligned", "uninitialised", "race", "divergent barrier", "deadlock", "read-only", "endless",
    "stack overflow", "segmentation fault", "assertion", "trap", "unsupported", "stopped", "bad mask", "out of memory",
    "bad free", "overflow",
)  # fmt: skip
"""The kinds of a report, by number."""


class MemoryRegion(ctypes.Structure):
    """Memory that a kernel may touch."""

    _fields_ = (
        ("begin", ctypes.c_uint64), ("nbytes", ctypes.c_uint64), ("memory", ctypes.c_uint64),
        ("flags", ctypes.c_uint32), ("item_nbytes", ctypes.c_uint32), ("read", ctypes.c_void_p),
        ("written", ctypes.c_void_p), ("initialised", ctypes.c_void_p),
    )  # fmt: skip


class SharedRange(ctypes.Structure):
    """A variable in the shared window, in bytes."""

    _fields_ = (("offset", ctypes.c_uint32), ("nbytes", ctypes.c_uint32))


class ThreadLocation(ctypes.Structure):
    """A thread, and a location in its program."""

    _fields_ = (("tid", Extents), ("ctaid", Extents), ("site", ctypes.c_uint32), ("flags", ctypes.c_uint32))


class FaultReport(ctypes.Structure):
    """The fault that ended a launch."""

    _fields_ = (
        ("kind", ctypes.c_uint32), ("region", ctypes.c_int32), ("offset", ctypes.c_int64), ("nbytes", ctypes.c_uint32),
        ("variable", ctypes.c_int32), ("here", ThreadLocation), ("other", ThreadLocation),
        ("text", ctypes.c_char * 512),
    )  # fmt: skip


_STOPPED = FAULTS.index("stopped")

Print = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
Ask = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint64)
Find = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(MemoryRegion))


class EmulatedLaunch(ctypes.Structure):
    """All that a launch needs; the memory that it names belongs to the caller."""

    _fields_ = (
        ("entry", ctypes.c_void_p), ("params", ctypes.c_void_p), ("module", ctypes.c_uint64), ("grid", Extents),
        ("block", Extents), ("static_nbytes", ctypes.c_uint32), ("dynamic_nbytes", ctypes.c_uint32),
        ("flags", ctypes.c_uint32), ("workers", ctypes.c_uint32), ("schedule", ctypes.c_uint32),
        ("stack_nbytes", ctypes.c_uint32), ("seed", ctypes.c_uint64), ("most_ticks", ctypes.c_uint64),
        ("regions", ctypes.c_void_p), ("variables", ctypes.c_void_p), ("places", ctypes.c_void_p),
        ("region_count", ctypes.c_uint32), ("variable_count", ctypes.c_uint32), ("place_count", ctypes.c_uint32),
        ("unused", ctypes.c_uint32), ("reaches", ctypes.c_void_p), ("stop", ctypes.c_void_p),
        ("context", ctypes.c_uint64), ("print", Print), ("ask", Ask), ("find", Find),
    )  # fmt: skip


@functools.cache
def load() -> Any:
    """The runtime.

    Raises:
        UnsupportedError: It has not been compiled here.
    """
    try:
        library = ctypes.CDLL(str(LIBRARY))
        made_from = ctypes.c_uint32.in_dll(library, "xf_fingerprint").value
    except (OSError, ValueError) as error:
        if sys.platform == "win32":
            raise UnsupportedError(
                "CUDA source does not run on a CPU of Windows: the runtime in C catches faults of kernels by POSIX's "
                "signals; use WSL, or give get_function(..., cpu=function) a NumPy function that does the same"
            ) from None
        raise UnsupportedError(
            f"CUDA source does not run on a CPU here: the runtime in C has not been compiled ({error}); run python -m "
            "xferlib._native.build"
        ) from None
    if made_from != _native.checksum():
        raise UnsupportedError("emulator.so was compiled from other C files; run python -m xferlib._native.build")
    library.xf_run_launch.argtypes = (ctypes.POINTER(EmulatedLaunch), ctypes.POINTER(FaultReport))
    library.xf_run_launch.restype = ctypes.c_uint32
    return library


class _Running:
    """A launch that runs, for its callbacks."""

    __slots__ = ("failures", "find", "write")

    def __init__(self, write: Callable[[str], Any], find: FindRegion | None) -> None:
        self.write = write
        self.find = find
        self.failures: list[BaseException] = []
        """The errors of callbacks, which C cannot pass on."""


FindRegion = Callable[[int], "tuple[Any, ...] | None"]
_running: dict[int, _Running] = {}
_numbers = itertools.count(1)


def _print(number: int, text: int, nbytes: int) -> None:
    launch = _running[number]
    try:
        launch.write(ctypes.string_at(text, nbytes).decode(errors="replace"))
    except BaseException as error:
        launch.failures.append(error)


def _ask(_: int) -> int:
    return deferred.is_noted


def _find(number: int, address: int, found: Any) -> int:
    launch = _running[number]
    try:
        assert launch.find is not None
        fields = launch.find(address)
    except BaseException as error:
        launch.failures.append(error)
        return 0
    if fields is not None:
        found[0] = MemoryRegion(*fields)
    return fields is not None


_PRINT, _ASK, _FIND = Print(_print), Ask(_ask), Find(_find)


def run(launch: EmulatedLaunch, write: Callable[[str], Any], find: FindRegion | None = None) -> FaultReport | None:
    """Run a launch to its end; returns the fault that ended it, if any.

    Ctrl-C ends it: Python handles signals in the main thread alone, between two of its own instructions, so that the
    launch calls a function of Python's now and then, from there.

    Args:
        launch: What to run; ``stop`` and the callbacks are set here.
        write: Receives what the kernel prints.
        find: The fields of a further region, which holds an address; None where there is none.
    """
    library = load()
    stop = ctypes.c_int32()
    report = FaultReport()
    launch.stop = ctypes.addressof(stop)
    launch.print = _PRINT
    launch.context = number = next(_numbers)
    if find is not None:
        launch.find = _FIND
    if threading.get_ident() == threading.main_thread().ident:
        launch.ask = _ASK
    _running[number] = running = _Running(write, find)
    try:
        with deferred:  # it is raised where this ends
            kind = library.xf_run_launch(launch, report)
    finally:
        del _running[number]
    if running.failures:
        raise running.failures[0]
    return report if kind not in (0, _STOPPED) else None


def make_array(kind: type[ctypes.Structure], values: Sequence[tuple[Any, ...]]) -> ctypes.Array[Any]:
    """A C array of structures, from the fields of each."""
    return (kind * max(len(values), 1))(*(kind(*each) for each in values))
