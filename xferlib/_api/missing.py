"""Names that xferlib does not have: what the program probably wanted."""

from __future__ import annotations

import sys

import numpy as np

_ELSEWHERE = {
    "array": "to_device(x)",
    "asnumpy": "to_host(x)",
    "to_cpu": "to_host(x)",
    "to_gpu": "to_device(x)",
    "to_numpy": "to_host(x)",
}
"""Verbs of other libraries, and the call that does the same."""


def missing(name: str) -> AttributeError:
    """The error for a name that the module lacks; Python's traceback adds a name that is like it."""
    remedy = ""
    if name in _ELSEWHERE:
        remedy = f"; xferlib.{_ELSEWHERE[name]} does that"
    elif callable(getattr(np, name, None)):
        remedy = f"; functions of arrays are in the namespace of their library: xferlib.get_array_module(x).{name}"
    return AttributeError(f"module 'xferlib' has no attribute {name!r}{remedy}", name=name, obj=sys.modules["xferlib"])
