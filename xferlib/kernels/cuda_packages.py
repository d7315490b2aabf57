"""The installed packages of CUDA's compiler and headers, which the keys of compiled code hold.

`importlib.metadata` tells versions too, and to import it takes longer than to load a compiled kernel; NVRTC tells its
own version, once it is loaded. The names of the folders in which packages are described have them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys

_COMPILER = "nvidia_cuda_nvrtc"
_PREFIXES = (
    _COMPILER,
    "nvidia_cuda_runtime",
    "nvidia_cuda_cccl",
    "nvidia_cuda_crt",
    "cuda_bindings",
    "cuda_pathfinder",
)


@functools.cache
def list_packages() -> tuple[str, ...]:
    """The packages with their versions; empty where NVRTC is none of them, but of a toolkit, which may change."""
    found = set()
    for folder in sys.path:
        with contextlib.suppress(OSError):
            for name in os.listdir(folder or "."):  # noqa: PTH208 - a path for each of thousands of names takes longer
                if name[-4:].lower() != "info":  # most of thousands of names
                    continue
                plain = name.lower().replace("-", "_")
                if plain.startswith(_PREFIXES) and plain.endswith((".dist_info", ".egg_info")):
                    found.add(name)
    has_compiler = any(each.startswith(_COMPILER) for each in found)
    return tuple(sorted(found)) if has_compiler else ()
