"""Operations of an array library, in contrast to xferlib's own kernels.

A library such as CuPy or torch does not know on which other streams its arrays are in use: what its operations read
may be recycled while they still run. xferlib's kernels tell (`kernel_engine`). The namespace of the simulated devices
is made of these kernels, and stands for such a library: its calls are marked here, so that a program with a lifetime
that is too short is found.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any


class _Inside(threading.local):
    is_inside = False
    """Whether the thread is in a call of the namespace."""


_thread = _Inside()


def is_inside() -> bool:
    """Whether the calling thread computes for the namespace."""
    return _thread.is_inside


def operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as an operation of an array library."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        was, _thread.is_inside = _thread.is_inside, True
        try:
            return function(*args, **options)
        finally:
            _thread.is_inside = was

    made: Any = call  # reports name the function by its code, as the program called it
    made.__code__ = made.__code__.replace(co_name=function.__name__, co_qualname=function.__name__)
    return call
