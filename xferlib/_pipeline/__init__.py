"""Copies beside computation: `prefetch` and `stream_map`."""
