"""The CuPy backend: CuPy's arrays, and its functions with what the Array API adds to them."""

from xferlib.backends.cupy.backend import CupyBackend

__all__ = ["CupyBackend"]
