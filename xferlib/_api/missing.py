"""Names that xferlib does not have: what the program probably wanted."""

from __future__ import annotations

import sys

import numpy as np

_ELSEWHERE = {
    "array": "to_device(x)",
    "as_tensor": "to_device(x)",
    "asnumpy": "to_host(x)",
    "device_synchronize": "synchronize()",
    "from_numpy": "to_device(x)",
    "memcpy_dtoh": "to_host(d, out=h)",
    "memcpy_htod": "to_device(h, out=d)",
    "set_backend": "use_backend(name)",
    "SourceModule": "raw_module(source)",
    "sync": "synchronize()",
    "tensor": "to_device(x)",
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
