"""Ranges for a profiler that watches the process, through the package ``nvtx`` where it is installed."""

from __future__ import annotations

import functools
import os
from typing import Any

_INJECTED = ("NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")
"""What profilers set in the processes that they start."""


@functools.cache
def _domain() -> Any:
    """xferlib's own domain; None where no profiler watches, or the package is missing."""
    if not any(name in os.environ for name in _INJECTED):
        return None
    try:
        import nvtx
    except ImportError:
        return None
    return nvtx.get_domain("xferlib")


def push(name: str, category: str) -> bool:
    """Begin a range; False where there is nobody to see it."""
    domain = _domain()
    if domain is None:
        return False
    domain.push_range(domain.get_event_attributes(message=name, category=category))
    return True


def pop() -> None:
    """End the range begun last in this thread."""
    _domain().pop_range()
