"""From a Python function or C source to the representation in `kernels.ir`."""
