"""Kernels written once: `elementwise`.

Two front ends (`traced`, `csnippet`) build one representation (`ir`), which two engines run with one meaning:
`numpy_engine` on every CPU, and generated CUDA on GPUs.
"""

from xferlib.kernels.elementwise import ElementwiseKernel, elementwise

__all__ = ["ElementwiseKernel", "elementwise"]
