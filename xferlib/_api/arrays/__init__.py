"""The Array API over xferlib's own kernels and reductions, for libraries that have no namespace."""
