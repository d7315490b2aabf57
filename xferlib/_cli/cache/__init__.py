"""``xferlib cache``: the compiled kernels on disk."""
