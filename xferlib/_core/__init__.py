"""The terms that every layer shares: arrays, layouts, devices, streams, the seam to backends, the registry."""
