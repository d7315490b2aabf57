"""Kernels written once for every backend: `elementwise`, `reduction`, and raw CUDA.

Two front ends (`python_frontend`, `c_frontend`) build one representation (`ir`), which two engines run with one
meaning: `numpy_engine` on every CPU, and generated CUDA on GPUs.
"""

from xferlib.kernels import reductions
from xferlib.kernels.elementwise import ElementwiseKernel, elementwise
from xferlib.kernels.raw import KernelAttributes, RawKernel, RawModule, raw_module
from xferlib.kernels.reduction import ReductionKernel, reduction
from xferlib.kernels.scan import ScanKernel, scan

__all__ = [
    "ElementwiseKernel",
    "KernelAttributes",
    "RawKernel",
    "RawModule",
    "ReductionKernel",
    "ScanKernel",
    "elementwise",
    "raw_module",
    "reduction",
    "reductions",
    "scan",
]
