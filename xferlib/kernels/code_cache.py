"""Compiled code on disk: its files, and the part of its key that CUDA's compiler and headers are.

A file is written under a temporary name and renamed, so that any number of processes may share the directory. One that
does not match its checksum, which is of its name too, is compiled again.

Compiled code is kept under a key of all that it depends on. What a header says is in no key, so that code is kept only
where each header is one of CUDA's own; the key then has their folders, with the time of the last change of each.

`importlib.metadata` tells versions too, and to import it takes longer than to load a compiled kernel; NVRTC tells its
own version, once it is loaded. The names of the folders in which packages are described have them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
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


def pack_names(code: bytes, lowered: Mapping[str, str], names: Sequence[str]) -> bytes:
    """A payload of code and the mangled names of its template instances."""
    return "\t".join(lowered[each] for each in names).encode() + b"\n" + code


def unpack_names(payload: bytes, names: Sequence[str]) -> tuple[bytes, dict[str, str]]:
    """The code of a payload, and its mangled names."""
    head, _, code = payload.partition(b"\n")
    return code, dict(zip(names, head.decode().split("\t"), strict=True)) if names else {}


def read(name: str) -> bytes | None:
    """The payload cached under ``name``; None if there is none or its checksum is wrong."""
    try:
        with own_folder.open_folder(_FOLDER) as folder:
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
    with contextlib.suppress(*failures), own_folder.open_folder(_FOLDER, creates=True) as folder:
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
        with own_folder.open_folder(_FOLDER) as folder:
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


# --- the headers of a source

_COMPILER = "nvidia_cuda_nvrtc"
_PREFIXES = (
    _COMPILER,
    "nvidia_cuda_runtime",
    "nvidia_cuda_cccl",
    "nvidia_cuda_crt",
    "cuda_bindings",
    "cuda_pathfinder",
)
_LEXED = re.compile(
    r"""(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
    |(?P<kept>[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|'?\w|\.)*)
    |(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<open>["']|/\*)
    """,
    re.VERBOSE | re.DOTALL,
)
_PERHAPS_CONTINUED = re.compile(r"\\[ \t\r\f\v]+\n")
_WORD = re.compile(r"\binclude(?:_next)?\b|\b__has_(?:include(?:_next)?|embed)\b|(?:\#|%:)[ \t]*embed\b|\bimport\b")
"""All by which a text may name a file."""
_OWN = re.compile(r"^[ \t]*(?:\#|%:)[ \t]*include[ \t]*<([^<>\n]*)>[ \t\r]*$", re.MULTILINE)
_FILES = ("-I", "-i", "-optf", "-pch", "--include", "--pre-include", "--system-include", "--options-file", "--pch",
          "--use-pch", "--create-pch", "@")  # fmt: skip
"""The options that name files or folders, by their beginnings."""


@functools.cache
def list_cuda_packages() -> tuple[str, ...]:
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


def find_header_folders(source: str) -> tuple[Path, ...]:
    """The folders of CUDA's own headers; none for a source that names no file, nor where they are not installed."""
    return () if _WORD.search(_strip(source) or source) is None else _find_all_header_folders()


@functools.cache
def _find_all_header_folders() -> tuple[Path, ...]:
    """The folders; from the cache where they came with packages, for to look takes 10 ms and more."""
    packages = list_cuda_packages()
    name = key("headers", sys.prefix, *packages)
    cached = read(name) if packages else None
    known = tuple(map(Path, cached.decode().split("\n"))) if cached else ()
    if known and all(each.is_dir() for each in known):
        return known
    try:
        from cuda import pathfinder
    except ImportError:  # without it there is no NVRTC, which is what the error has to say
        return ()
    found = (pathfinder.find_nvidia_header_directory(each) for each in ("cudart", "cccl"))
    folders = [Path(each) for each in found if each]
    folders += [folder / "cccl" for folder in folders if (folder / "cccl").is_dir()]
    listed = tuple(dict.fromkeys(folders))
    if packages:
        write(name, "\n".join(map(str, listed)).encode())
    return listed


def list_header_options(folders: Sequence[Path]) -> tuple[str, ...]:
    """The options of NVRTC that name the folders."""
    return tuple(f"--include-path={folder}" for folder in folders)


def identify_headers(folders: Sequence[Path]) -> str:
    """A text that changes with what is in the folders: installing headers makes and removes files there."""
    return " ".join(f"{folder} {folder.stat().st_mtime_ns}" for folder in folders)


def has_only_cuda_headers(source: str, options: Sequence[str], folders: Sequence[Path]) -> bool:
    """Whether all that a source includes is in these folders, so that its compiled code may be kept."""
    if any(each.startswith(_FILES) for each in options):
        return False
    text = _strip(source)
    if text is None:
        return False
    names = _OWN.findall(text)
    # Any other word is an #include by a macro, one in quotes, or a question whether a file exists.
    return len(_WORD.findall(text)) == len(names) and all(
        ".." not in Path(name).parts and any(_is_readable(Path(folder, name)) for folder in folders)
        for name in map(str.strip, names)
    )


def _is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK) and path.is_file()  # which raises for a name that is too long


def _strip(source: str) -> str | None:
    """A source without comments, the content of its strings, and continued lines; None where they are not plain.

    Compilers differ on a blank between the backslash and the end of the line, and a quote may have no end.
    """
    is_whole = _PERHAPS_CONTINUED.search(source) is None

    def leave(found: re.Match[str]) -> str:
        nonlocal is_whole
        is_whole &= found["open"] is None
        return found["kept"] or (" " if found["comment"] else '""')

    text = _LEXED.sub(leave, source.replace("\\\n", ""))
    return text if is_whole else None
