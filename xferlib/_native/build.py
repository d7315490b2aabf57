"""Compile the C files beside this one with the system's C compiler: ``python -m xferlib._native.build``.

Installing does this by itself where there is a compiler. `staging.c` depends on the platform, not on Python; `calls.c`
on CPython, any version from 3.11 on, and needs its headers.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path

FOLDER = Path(__file__).parent
LIBRARIES = {"staging.c": "staging.so", "calls.c": "_calls.abi3.so"}
PARTS = {
    "staging.c": ("ring.c", "ring.h", "strided.c", "strided.h", "loops.h"),
    "calls.c": (
        "copier.h", "front.c", "front.h", "launch.c", "launch.h", "lease.c", "lease.h", "leaves.c", "leaves.h",
        "strided.h",
    ),
}  # fmt: skip
"""Other files that a library is made from."""
EXTENSIONS = frozenset({"calls.c"})
"""Those that are extension modules of CPython."""


def _compiler() -> list[str]:
    named = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "").partition(" ")[0]
    for command in (named, "cc", "gcc", "clang"):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return words
    return []


def _flags_of_extensions(include: Path) -> list[str]:
    if sys.platform == "darwin":
        return ["-isystem", str(include), "-undefined", "dynamic_lookup"]
    return ["-isystem", str(include)]


def build(source: Path, target: Path, fingerprint: int, include: Path | None = None) -> str:
    """Compile ``source`` and its parts to ``target``, whole or not at all; returns why not, or nothing.

    Args:
        source: One of the C files.
        target: The library to write.
        fingerprint: The checksum of its sources, for the library to carry.
        include: The folder of the CPython headers, for an extension module.
    """
    if sys.platform == "win32":
        return f"{source.name} is compiled on POSIX systems only"
    compiler = _compiler()
    if not compiler:
        return "no C compiler (cc, gcc or clang); install one, or go without"
    if include is not None and not Path(include, "Python.h").exists():
        return f"no Python.h in {include}; install Python's headers (python3-dev), or go without"
    # Beside the target, to be moved there at once; hidden from whatever walks through the sources meanwhile.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as folder:
        stamp, made = Path(folder, "stamp.c"), Path(folder, target.name)
        stamp.write_text(
            f'__attribute__((visibility("default"))) const unsigned int xf_fingerprint = {fingerprint}u;\n'
        )
        flags = ["-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra"]
        flags += ["-fno-trapping-math", "-ffp-contract=off"]  # conversions as vectors, with the same bits everywhere
        sources = [source, *(source.with_name(part) for part in PARTS.get(source.name, ()) if part.endswith(".c"))]
        flags += _flags_of_extensions(include) if include is not None else []
        done = subprocess.run(  # noqa: S603 - the compiler that Python was built with, or the user's CC
            [*compiler, *flags, "-o", str(made), *map(str, sources), str(stamp)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"{compiler[0]} failed: {done.stderr.strip()}"
        os.replace(made, target)
    return ""


def checksum(source: Path) -> int:
    """The checksum of a source and its parts."""
    files = [source, *(source.with_name(part) for part in PARTS.get(source.name, ()))]
    return zlib.crc32(b"".join(file.read_bytes() for file in files))


def build_all(folder: Path = FOLDER) -> dict[str, str]:
    """Compile every C file in place; returns by file the reason for a failure, or nothing."""
    problems = {}
    for name, library in LIBRARIES.items():
        source = Path(folder, name)
        include = Path(sysconfig.get_paths()["include"]) if name in EXTENSIONS else None
        problems[name] = build(source, Path(folder, library), checksum(source), include)
    return problems


def main() -> int:
    """Compile in place and print the results; fails if `staging.c`, which needs no CPython headers, does."""
    problems = build_all()
    for name, problem in problems.items():
        print(f"{name}: {problem or 'compiled'}")
    return bool(problems["staging.c"])


if __name__ == "__main__":
    sys.exit(main())
