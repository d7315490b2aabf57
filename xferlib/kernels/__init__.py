"""Kernels written once: `elementwise` and `reduction`.

Two front ends (`traced`, `csnippet`) build one representation (`ir`), which two engines run with one meaning:
`numpy_engine` on every CPU, and generated CUDA on GPUs.
"""

from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
from xferlib.kernels.reduction import ReductionKernel, reduction

__all__ = ["ElementwiseKernel", "ReductionKernel", "elementwise", "reduction"]
