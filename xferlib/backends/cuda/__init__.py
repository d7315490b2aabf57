"""Shared parts of the CUDA backends, written once on cuda.core and the driver."""
