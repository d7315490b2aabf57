"""The PyCUDA backend: arrays in the primary context, with the Array API's functions computed by xferlib's kernels."""

from xferlib.backends.pycuda.backend import PycudaBackend

__all__ = ["PycudaBackend"]
