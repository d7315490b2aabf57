"""The runtime of translated kernels, `emulator.so`, and what a launch gives to it.

The structures are those of `emulator.h`, field by field: the fingerprint tells that both come from one state of the
source, not that they agree.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
    "bad free",
)  # fmt: skip
"""The kinds of a report, by number."""


class MemoryRegion(ctypes.Structure):
    """Memory that a kernel may touch."""

    _fields_ = (
        ("begin", ctypes.c_uint64), ("nbytes", ctypes.c_uint64), ("flags", ctypes.c_uint32),
        ("item_nbytes", ctypes.c_uint32), ("read", ctypes.c_void_p), ("written", ctypes.c_void_p),
        ("initialised", ctypes.c_void_p),
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
_PATIENCE_S = 0.05
"""The longest time in seconds that a launch goes on behind Ctrl-C before it is told to end."""

Print = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64)


class EmulatedLaunch(ctypes.Structure):
    """All that a launch needs; the memory that it names belongs to the caller."""

    _fields_ = (
        ("entry", ctypes.c_void_p), ("params", ctypes.c_void_p), ("module", ctypes.c_uint64), ("grid", Extents),
        ("block", Extents), ("static_nbytes", ctypes.c_uint32), ("dynamic_nbytes", ctypes.c_uint32),
        ("flags", ctypes.c_uint32), ("workers", ctypes.c_uint32), ("schedule", ctypes.c_uint32),
        ("stack_nbytes", ctypes.c_uint32), ("seed", ctypes.c_uint64), ("most_ticks", ctypes.c_uint64),
        ("regions", ctypes.c_void_p), ("variables", ctypes.c_void_p), ("places", ctypes.c_void_p),
        ("region_count", ctypes.c_uint32), ("variable_count", ctypes.c_uint32), ("place_count", ctypes.c_uint32),
        ("unused", ctypes.c_uint32), ("stop", ctypes.c_void_p), ("print", Print),
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
        raise UnsupportedError("emulator.so was compiled from another source; run python -m xferlib._native.build")
    library.xf_run_launch.argtypes = (ctypes.POINTER(EmulatedLaunch), ctypes.POINTER(FaultReport))
    library.xf_run_launch.restype = ctypes.c_uint32
    return library


def run(launch: EmulatedLaunch, write: Callable[[str], Any]) -> FaultReport | None:
    """Run a launch to its end; returns the fault that ended it, if any.

    Ctrl-C ends it: the launch runs in a thread of its own, since Python handles signals in the main thread alone and
    only between two instructions of Python.

    Args:
        launch: What to run; ``stop`` and ``print`` are set here.
        write: Receives what the kernel prints.
    """
    library = load()
    stop = np.zeros(1, np.int32)
    report = FaultReport()

    failures: list[BaseException] = []
    result: list[int] = []

    def print_text(text: int, nbytes: int) -> None:
        try:
            write(ctypes.string_at(text, nbytes).decode(errors="replace"))
        except BaseException as error:  # C cannot pass it on: it is raised behind the launch
            failures.append(error)

    def run_launch() -> None:
        result.append(library.xf_run_launch(launch, report))

    launch.stop = stop.ctypes.data
    launch.print = Print(print_text)
    if threading.current_thread() is not threading.main_thread():
        run_launch()
    else:
        thread = threading.Thread(target=run_launch, name="xferlib-kernel")
        with deferred:  # the thread uses memory of this frame, and must not outlive it
            thread.start()
            while thread.is_alive():
                thread.join(_PATIENCE_S)
                stop[0] = deferred.is_noted
    if failures:
        raise failures[0]
    return report if result[0] not in (0, _STOPPED) else None  # Ctrl-C is raised where `deferred` ends


def make_array(kind: type[ctypes.Structure], values: Sequence[tuple[Any, ...]]) -> ctypes.Array[Any]:
    """A C array of structures, from the fields of each."""
    return (kind * max(len(values), 1))(*(kind(*each) for each in values))
