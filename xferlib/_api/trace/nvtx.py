"""Ranges for a profiler that watches the process, through the package ``nvtx`` where it is installed."""

from __future__ import annotations

import os
from typing import Any

_INJECTED = ("NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")
"""Environment variables that profilers set in the processes that they start."""


class Profiler:
    """Shows recorded operations to a profiler, in a domain of their own."""

    def __init__(self, domain: Any) -> None:
        self._domain = domain

    def push(self, name: str, category: str) -> None:
        """Begin a range."""
        self._domain.push_range(self._domain.get_event_attributes(message=name, category=str(category)))

    def pop(self) -> None:
        """End the range begun last in this thread."""
        self._domain.pop_range()


def domain() -> Profiler | None:
    """Return the profiler; None where none is attached, or the package is missing."""
    if not any(name in os.environ for name in _INJECTED):
        return None
    try:
        import nvtx
    except ImportError:
        return None
    return Profiler(nvtx.get_domain("xferlib"))
