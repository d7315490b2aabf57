"""Compiled kernels on disk: atomic, checksummed, private to the user.

A file is written under a temporary name and renamed, so that any number of processes may share the
directory. A file that does not match its checksum, which is of its name too, is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path

from xferlib._runtime import own_folder

_MAGIC = b"xferlib-kernel-2\n"
_SUFFIX = ".kernel"
_FOLDER = "kernels"
_MOST = 1 << 30


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The contents of the cache on disk; ``problem`` says why the directory is not used, empty if it is."""

    directory: Path
    files: int
    nbytes: int
    problem: str


def key(*parts: str) -> str:
    """The name of the machine code made from ``parts``, which are all that it depends on."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


def _checksum(name: str, payload: bytes) -> bytes:
    """The checksum of machine code under its name: code of another kernel is not taken for this one's."""
    return hashlib.sha256(name.encode() + b"\0" + payload).digest()


def read(name: str) -> bytes | None:
    """The payload cached under ``name``; None if there is none or its checksum is wrong."""
    try:
        with own_folder.opened(_FOLDER) as folder:
            content = folder.read(f"{name}{_SUFFIX}", _MOST)
    except (own_folder.NotUsedError, OSError, ValueError):
        return None
    start = len(_MAGIC) + 32
    if content is None or content[: len(_MAGIC)] != _MAGIC:
        return None
    payload = content[start:]
    return payload if content[len(_MAGIC) : start] == _checksum(name, payload) else None


def write(name: str, payload: bytes) -> None:
    """Cache ``payload`` under ``name``; a full or read-only disk is no error."""
    failures = own_folder.NotUsedError, OSError, ValueError
    with contextlib.suppress(*failures), own_folder.opened(_FOLDER, creates=True) as folder:
        folder.write(f"{name}{_SUFFIX}", _MAGIC + _checksum(name, payload) + payload)


def info() -> CacheInfo:
    """The number and size of the cached kernels."""
    return _info(clears=False)


def clear() -> CacheInfo:
    """Delete the cached kernels; returns their number and size."""
    return _info(clears=True)


def _info(*, clears: bool) -> CacheInfo:
    place = own_folder.path(_FOLDER)
    try:
        with own_folder.opened(_FOLDER) as folder:
            sizes = folder.files(_SUFFIX)
            for name in (*sizes, *folder.files(".tmp")) if clears else ():
                folder.remove(name)
    except FileNotFoundError:
        return CacheInfo(place, 0, 0, "")
    except (own_folder.NotUsedError, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return CacheInfo(
            place,
            0,
            0,
            str(error) if isinstance(error, own_folder.NotUsedError) else f"{place} cannot be read ({reason})",
        )
    return CacheInfo(place, len(sizes), sum(sizes.values()), "")
