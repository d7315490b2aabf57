"""PyCUDA: ``GPUArray`` in the primary context."""

from xferlib.backends.pycuda.backend import PycudaBackend

__all__ = ["PycudaBackend"]
