"""The parts of `tools.harvest_kernels`: finding kernels, and trying them."""
