"""Arguments that several commands have, checked before any work is done; for ``type=`` of an argument."""

from __future__ import annotations

import argparse
import importlib.util
import os
from pathlib import Path

from xferlib._runtime.process import parse_nbytes
from xferlib._runtime.version import install_command
from xferlib._trace.trace import PICTURES
from xferlib.errors import BackendUnavailableError


def has(module: str) -> bool:
    """Whether a package is installed, without importing it."""
    return importlib.util.find_spec(module) is not None


def require(module: str, what: str, *, extra: str) -> None:
    """Refuse what needs a package that is not installed; ``extra`` of xferlib installs it.

    Raises:
        BackendUnavailableError: As said.
    """
    if not has(module):
        raise BackendUnavailableError(f"{what} needs {module}, which is not installed: {install_command(extra)}")


def output_file(text: str) -> Path:
    """The path of a file that the command writes at its end: check that it can be written to."""
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: {path.absolute().parent} must be a directory")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: you have no permission to")
    return path


def picture_file(text: str) -> Path:
    """The path of a picture: an `output_file` in a format that every matplotlib writes."""
    path = output_file(text)
    if path.suffix not in PICTURES:
        raise argparse.ArgumentTypeError(f"{text!r} is no picture: give a name that ends in .png, .svg or .pdf")
    return path


def output_folder(text: str) -> Path:
    """The path of a folder, which is made where it does not exist."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be made: {error.strerror}") from None
    return path


def seconds(text: str) -> float:
    """A time in seconds, more than none."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return found


def parsed_size(text: str) -> int:
    """Bytes from a size such as 64MiB."""
    try:
        return parse_nbytes(text)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
