"""`xferlib bench transfer`; the other benchmarks are in the repository's `benchmarks/`."""
