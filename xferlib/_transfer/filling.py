"""Pinned memory that threads of `staging.c` fill while the calling thread does something else."""

from __future__ import annotations

import os
from typing import Any

from xferlib import _native
from xferlib._core.thresholds import C_HELPERS_OF_MEDIUM, MEDIUM_NBYTES
from xferlib._runtime import thread_budget


def fill(pinned: int, host: int, nbytes: int) -> None:
    """Copy plain bytes into pinned memory; in a loop, spinning helper threads take part."""
    _native.library().xf_fill(*_arguments(pinned, host, nbytes))


def _arguments(pinned: int, host: int, nbytes: int) -> tuple[int, ...]:
    budget = thread_budget.crew()
    helpers = budget.fillers if nbytes > MEDIUM_NBYTES else min(budget.fillers, C_HELPERS_OF_MEDIUM)
    return pinned, host, nbytes, helpers, budget.each_way - 1, budget.both_ways


class Filling:
    """Plain bytes on their way into pinned memory.

    Args:
        pinned: The address of memory that nothing else uses.
        host: The address of as many bytes, which stay as they are until `end`.
        nbytes: The number of bytes.
        keep: Must outlive the copy.
    """

    __slots__ = ("_handle", "_keep", "_pid", "nbytes")

    def __init__(self, pinned: int, host: int, nbytes: int, keep: Any) -> None:
        arguments, library = _arguments(pinned, host, nbytes), _native.library()
        self.nbytes = nbytes
        self._keep = keep
        self._pid = os.getpid()
        self._handle: int | None = library.xf_fill_begin(*arguments)
        if self._handle is None:
            library.xf_fill(*arguments)

    def end(self) -> None:
        """Do what is left in this thread too; on return every byte is there."""
        handle, self._handle = self._handle, None
        if handle is not None and self._pid == os.getpid():  # a forked child has none of the threads
            _native.library().xf_fill_end(handle)
        self._keep = None

    def __del__(self) -> None:
        try:
            if self._handle is not None:
                self.end()
        except Exception:  # it was never begun, or the interpreter is going away
            return
