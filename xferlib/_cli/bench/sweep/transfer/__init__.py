"""Copies of one array, and of a tree of arrays."""
