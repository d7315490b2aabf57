"""Sizes at which transfers change their ways, each with what it decides and what was measured."""

from __future__ import annotations

CHUNK_NBYTES = 8 << 20
"""Each copy costs the link some microseconds: on an H200 pieces of 4 MiB get 53.6 GB/s of 55.5, of 8 MiB 54.6."""
SMALL_NBYTES = 64 << 10
"""Up to here one thread and the slab are fastest."""
MEDIUM_NBYTES = 2 << 20
"""Up to here one thread is as fast as several, which must be woken."""
