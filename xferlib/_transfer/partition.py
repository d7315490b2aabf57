"""How much of a transfer one thread takes at a time, and how many threads take part; tests replace both functions."""

from __future__ import annotations

from xferlib._core.thresholds import C_PIECE_MOST, HOST_HELPER_NBYTES
from xferlib._runtime import thread_budget


def helpers(nbytes: int) -> int:
    """How many of Python's threads are worth waking beside the caller's to copy between host arrays."""
    return min(thread_budget.crew().each_way - 1, nbytes // HOST_HELPER_NBYTES)


def chunk_nbytes() -> int:
    """Most bytes that a thread fills or empties at a time."""
    return C_PIECE_MOST
