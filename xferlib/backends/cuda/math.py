"""Linear algebra and Fourier transforms on CUDA devices."""

from __future__ import annotations

from xferlib.backends.cuda.blas import Blas
from xferlib.backends.cuda.fft import Transforms
from xferlib.backends.cuda.solver import Solver


class CudaMath(Blas, Solver, Transforms):
    """cuBLAS, cuSOLVER and cuFFT, for the arrays of one backend."""
