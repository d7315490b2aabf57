"""Benchmarks of a checkout, beside the other libraries: `python -m benchmarks kernels`, or `overlap`.

That of transfers is in the package: `xferlib bench transfer`.
"""
