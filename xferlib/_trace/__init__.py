"""Recordings of copies and kernels: the recorder, numbers, pictures, files for Perfetto."""
