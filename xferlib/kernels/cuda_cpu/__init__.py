"""CUDA C++ on a CPU: NVRTC's PTX, translated to C, compiled, and run block by block with or without checks."""
