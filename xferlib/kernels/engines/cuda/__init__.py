"""Programs as CUDA C++: generated, compiled once, launched."""
