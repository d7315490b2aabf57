"""What the library is about, without doing it: arrays, layouts, devices, streams, the seam, the registry."""
