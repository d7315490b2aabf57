"""Interpreters that xferlib does not run on, refused with a sentence: when it is built, and when it is imported.

The build hook loads this file by its path, so it imports nothing of xferlib.
"""

from __future__ import annotations

import sys


def refusal() -> str:
    """Why this interpreter is not supported, and what to do; empty if it is."""
    if sys.maxsize < 1 << 32:
        return (
            "xferlib needs a 64-bit Python, and this one has 32 bits: the C parts and device addresses take 64; "
            "install a 64-bit build of Python"
        )
    if "t" in getattr(sys, "abiflags", "") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return (
            "xferlib does not support free-threaded Python: its locks and finalizers rely on the GIL; use the ordinary "
            "build of the same version"
        )
    return ""


def refuse() -> None:
    """Raise where this interpreter is not supported.

    Raises:
        ImportError: It is not.
    """
    if reason := refusal():
        raise ImportError(reason)
