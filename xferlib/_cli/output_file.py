"""Paths of files that a command writes at its end, checked at its start."""

from __future__ import annotations

import argparse
from pathlib import Path


def output_file(text: str) -> Path:
    """Check, before the work is done, that a path can be written to; for ``type=`` of an argument."""
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: {path.absolute().parent} must be a directory")
    return path
