"""The Array-API namespace of libraries that have none, over xferlib's own kernels and reductions."""
