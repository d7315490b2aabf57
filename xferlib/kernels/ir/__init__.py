"""The typed representation of a kernel, and everything that is computed of it without an array."""
