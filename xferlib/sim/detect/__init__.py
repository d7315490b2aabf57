"""The race detector, and what it says."""
