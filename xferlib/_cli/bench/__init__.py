"""Benchmarks beside the other libraries: `xferlib bench transfer`, `xferlib bench kernels`."""
