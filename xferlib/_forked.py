"""What a forked child inherits and must not destroy: the driver, which did not survive the fork, would crash it."""

from __future__ import annotations


def keep(thing: object) -> None:
    """Keep something for as long as this forked child lives, beyond the end of its interpreter."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
