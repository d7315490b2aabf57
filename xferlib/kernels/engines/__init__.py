"""From the representation in `kernels.ir` to results: on NumPy arrays and on CUDA devices."""
