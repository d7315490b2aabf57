"""The directory of compiled kernels: whether it can be trusted, written to and filled."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from xferlib._cli.doctor.finding import Finding, fine, slow
from xferlib._cli.doctor.machine import InspectedMachine
from xferlib.errors import ConfigError
from xferlib.kernels.engines.cuda import cache

_LEAST_FREE = 64 << 20
_CONSEQUENCE = "Kernels are compiled anew in every process."


def findings(_machine: InspectedMachine) -> Iterator[Finding]:
    """The directory; nothing is written."""
    try:
        found = cache.info()
    except ConfigError:  # the variables' check has said so
        return
    folder = found.directory
    if found.problem:
        fact, _, remedy = found.problem.partition("; ")
        remedy = remedy or "set XFERLIB_CACHE_DIR to a directory of your own"
        yield slow(fact, _CONSEQUENCE, f"{remedy[0].upper()}{remedy[1:]}.")
        return
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield slow(
            f"{found.directory} cannot be written: {folder} is not a directory that this user may write to",
            _CONSEQUENCE,
            "Set XFERLIB_CACHE_DIR to a directory of your own.",
        )
    elif (free := shutil.disk_usage(folder).free) < _LEAST_FREE:
        yield slow(
            f"the disk of {found.directory} has {free >> 20} MiB free",
            _CONSEQUENCE,
            "Free some, or set XFERLIB_CACHE_DIR to a directory elsewhere.",
        )
    else:
        yield fine(f"{found.directory}: {found.files} kernel(s), {found.nbytes / 1e6:.1f} MB")
