"""Raw kernels: what a source declares."""
