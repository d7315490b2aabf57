"""Files that are whole or not there: written beside their place, and moved to it at once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def write(path: Path, write_to: Callable[[Path], None]) -> None:
    """Let ``write_to`` write a new file next to ``path``, and put it in its place when it is on the disk.

    What was at ``path`` stays as it is if anything fails, Ctrl-C included.
    """
    target = Path(os.path.realpath(path))  # where a link leads
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        write_to(beside)
        with beside.open("rb+") as written:
            os.fsync(written.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
