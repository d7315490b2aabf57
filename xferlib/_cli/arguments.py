"""Arguments that several commands have, checked before any work is done; for ``type=`` of an argument."""

from __future__ import annotations

import argparse
from pathlib import Path

from xferlib._runtime.config import parse_nbytes


def output_file(text: str) -> Path:
    """The path of a file that the command writes at its end: check that it can be written to."""
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: {path.absolute().parent} must be a directory")
    return path


def parsed_size(text: str) -> int:
    """Bytes from a size such as 64MiB."""
    try:
        return parse_nbytes(text)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
