"""Compile the C files in the folders beside this one with the system's C compiler: ``python -m xferlib._native.build``.

Installing does this by itself where there is a compiler. `staging.c` and `emulator.c` depend on the platform, not on
Python; `calls.c` on CPython, any version from 3.11 on, and needs its headers. On Windows a compiler is used only if
``CC`` names it, as `python -m ziglang cc` or the gcc or clang of MinGW: what they make has not run with Python yet.
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
LIBRARIES = (
    {"staging.c": "staging.dll", "calls.c": "_calls.pyd"}
    if sys.platform == "win32"
    else {"staging.c": "staging.so", "calls.c": "_calls.abi3.so", "emulator.c": "emulator.so"}
)
FOLDERS = {"staging.c": ("staging",), "calls.c": ("calls", "compute", "replay"), "emulator.c": ("emulator",)}
"""The folders whose C files a library is made from; the first holds the one that gives it its name."""
EXTENSIONS = frozenset({"calls.c"})
"""Those that are extension modules of CPython."""
POSIX_ONLY = frozenset({"emulator.c"})
"""Those that depend on POSIX's signals and memory mappings: Windows has none of them."""


def _compiler() -> list[str]:
    named = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "").partition(" ")[0]
    for command in [named] if sys.platform == "win32" else [named, "cc", "gcc", "clang"]:
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return words
    return []


def flags(system: str, include: Path | None = None) -> list[str]:
    """The compiler's and the linker's flags for a library.

    Args:
        system: The `sys.platform` that the library is for.
        include: The folder of the CPython headers, for an extension module.
    """
    found = ["-std=c11", "-O3", "-shared", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra"]
    # Conversions and roots as vectors, with the same bits everywhere.
    found += ["-fno-trapping-math", "-fno-math-errno", "-ffp-contract=off"]
    found += ["-static"] if system == "win32" else ["-fPIC"]  # Windows: with winpthreads in it
    if include is None:
        return found
    found += ["-isystem", str(include)]
    return [*found, "-undefined", "dynamic_lookup"] if system == "darwin" else found


def build(source: Path, target: Path, fingerprint: int, include: Path | None = None) -> str:
    """Compile ``source`` and its parts to ``target``, whole or not at all; returns why not, or nothing.

    A library that the same version of the compiler has made by the same command of the same C files stays as it is.

    Args:
        source: One of the C files.
        target: The library to write.
        fingerprint: The checksum of the C files, for the library to carry.
        include: The folder of the CPython headers, for an extension module.
    """
    compiler = _compiler()
    if not compiler and sys.platform == "win32":
        return "CC names no compiler; on Windows, where the parts in C are an experiment, none is looked for"
    if not compiler:
        return "no C compiler (cc, gcc or clang); install one, or go without"
    if include is not None and not Path(include, "Python.h").exists():
        return f"no Python.h in {include}; install Python's headers (python3-dev), or go without"
    command = [*compiler, *flags(sys.platform, include)]
    asked = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - as below
    made_from = f"C files {fingerprint}, command {zlib.crc32(f'{command} {asked.stdout}'.encode())}"
    if target.exists() and f"{made_from}\0".encode() in target.read_bytes():
        return ""
    # Beside the target, to be moved there at once; hidden from whatever walks through the sources meanwhile.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as folder:
        stamp, made = Path(folder, "stamp.c"), Path(folder, target.name)
        stamp.write_text(write_fingerprint_source(fingerprint, sys.platform, made_from))
        sources = [source, *(each for each in parts(source.parents[1], source.name) if each != source)]
        if include is not None and sys.platform == "win32":
            sources.append(Path(sys.base_prefix, "libs", "python3.lib"))  # the stable ABI
        # Small functions of one file are inlined in others only when the whole library is optimised as one; a call of
        # 0.74 us took 0.06 more without. Some installations of a compiler cannot do that.
        for optimised in (["-flto"], []):
            done = subprocess.run(  # noqa: S603 - the compiler that Python was built with, or the user's CC
                [*command, *optimised, "-o", str(made), *map(str, sources), str(stamp)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                break
        else:
            return f"{compiler[0]} failed: {done.stderr.strip()}"
        os.replace(made, target)
    return ""


def write_fingerprint_source(fingerprint: int, system: str, made_from: str = "") -> str:
    """The source that gives a library its fingerprint, and a text that tells what it is made from."""
    exported = "__declspec(dllexport)" if system == "win32" else '__attribute__((visibility("default")))'
    return (
        f"{exported} const unsigned int xf_fingerprint = {fingerprint}u;\n"
        f'{exported} const char xf_made_from[] = "{made_from}";\n'
    )


def parts(folder: Path, name: str) -> list[Path]:
    """The C files of a library, from the folder of this package in some tree."""
    return sorted(path for each in FOLDERS[name] for path in (folder / each).glob("*.c"))


def checksum(folder: Path) -> int:
    """The checksum of all C files, as `xferlib._native.checksum`: the build hook cannot import that."""
    files = (path for each in FOLDERS.values() for name in each for path in (folder / name).iterdir())
    return zlib.crc32(b"".join(path.read_bytes() for path in sorted(files) if path.suffix in (".c", ".h")))


def build_all(folder: Path = FOLDER) -> dict[str, str]:
    """Compile every C file in place; returns by file the reason for a failure, or nothing."""
    problems = {}
    for name, library in LIBRARIES.items():
        source = Path(folder, FOLDERS[name][0], name)
        include = Path(sysconfig.get_paths()["include"]) if name in EXTENSIONS else None
        problems[name] = build(source, Path(folder, library), checksum(Path(folder)), include)
    return problems


def main() -> int:
    """Compile in place and print the results; fails if `staging.c`, which needs no CPython headers, does."""
    problems = build_all()
    for name, problem in problems.items():
        print(f"{name}: {problem or 'compiled'}")
    return bool(problems["staging.c"])


if __name__ == "__main__":
    sys.exit(main())
