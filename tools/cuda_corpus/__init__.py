"""The device code of NVIDIA's samples and of the peers, run on a CPU and compared with a GPU: see `__main__`."""
