"""Sums, extrema and other reductions."""
