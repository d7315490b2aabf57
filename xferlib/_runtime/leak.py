"""Objects that must not be destroyed before the process is gone.

A forked child inherits the parent's streams and memory, and the driver, which did not survive the fork, would crash
where it is asked to destroy them. At the end of an interpreter a library may free memory that another stream has used:
it asks that stream, which must still be there.
"""

from __future__ import annotations

import ctypes
from typing import Any


def keep(thing: object, _increase: Any = ctypes.pythonapi.Py_IncRef, _object: Any = ctypes.py_object) -> None:
    """Keep an object for as long as this process lives; may be called while the interpreter ends."""
    _increase(_object(thing))
