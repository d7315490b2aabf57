"""Compiled kernels on disk: atomic, checksummed, private to the user.

A file is written under a temporary name and renamed, so that any number of processes may share the
directory. A file that does not match its checksum is compiled again. Machine code of another user would run
with this user's rights, so a directory that others own or may write to is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from xferlib._runtime import config

_MAGIC = b"xferlib-kernel-1\n"
_SUFFIX = ".kernel"


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The contents of the cache on disk; ``problem`` says why the directory is not used, empty if it is."""

    directory: Path
    files: int
    nbytes: int
    problem: str


def directory() -> Path:
    """The folder of compiled kernels: ``kernels`` below ``XFERLIB_CACHE_DIR``."""
    return Path(config.get().cache_dir).expanduser() / "kernels"


def key(*parts: str) -> str:
    """The name of the machine code made from ``parts``, which are all that it depends on."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


def read(name: str) -> bytes | None:
    """The payload cached under ``name``; None if there is none or its checksum is wrong."""
    folder = directory()
    if _problem(folder):
        return None
    try:
        content = (folder / f"{name}{_SUFFIX}").read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + 32
    payload = content[start:]
    if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(payload).digest() != content[len(_MAGIC) : start]:
        return None
    return payload


def write(name: str, payload: bytes) -> None:
    """Cache ``payload`` under ``name``; a full or read-only disk is no error."""
    folder = directory()
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _problem(folder):
        return
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
        Path(temporary).replace(folder / f"{name}{_SUFFIX}")
        temporary = None
    except OSError:
        return
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()


def info() -> CacheInfo:
    """The number and size of the cached kernels."""
    folder = directory()
    problem = _problem(folder) if folder.exists() else ""
    sizes = [] if problem else [_size(path) for path in folder.glob(f"*{_SUFFIX}")]
    return CacheInfo(folder, len(sizes), sum(sizes), problem)


def clear() -> CacheInfo:
    """Delete the cached kernels; returns their number and size."""
    before = info()
    if not before.problem:
        for path in (*before.directory.glob(f"*{_SUFFIX}"), *before.directory.glob(".*.tmp")):
            with contextlib.suppress(OSError):
                path.unlink()
    return before


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _problem(folder: Path) -> str:
    """The reason why ``folder`` cannot be trusted or used; empty if it can."""
    try:
        status = folder.lstat()
    except OSError as error:
        return f"{folder} cannot be read ({error.strerror})"
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is not a directory; remove it or set XFERLIB_CACHE_DIR"
    if hasattr(os, "getuid"):
        if status.st_uid != os.getuid():
            return f"{folder} belongs to user {status.st_uid}; set XFERLIB_CACHE_DIR to a directory of your own"
        if status.st_mode & 0o022:
            return f"{folder} can be written by others; run chmod 700 on it"
    return ""
