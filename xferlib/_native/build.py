"""Compile `staging.c` with the system's C compiler: ``python -m xferlib._native.build``.

Installing does this by itself where there is a compiler. The result depends on the platform, not on Python.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path


def _compiler() -> list[str]:
    named = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "").partition(" ")[0]
    for command in (named, "cc", "gcc", "clang"):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return words
    return []


def build(source: Path, target: Path, fingerprint: int) -> str:
    """Compile ``source`` to ``target``, whole or not at all; returns why not, or nothing.

    Args:
        source: `staging.c`.
        target: The library to write.
        fingerprint: What the library is to say of its source.
    """
    if sys.platform == "win32":
        return "staging.c needs POSIX threads"
    compiler = _compiler()
    if not compiler:
        return "no C compiler (cc, gcc or clang); install one, or go without"
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        stamp, made = Path(folder, "stamp.c"), Path(folder, target.name)
        stamp.write_text(
            f'__attribute__((visibility("default"))) const unsigned int xf_fingerprint = {fingerprint}u;\n'
        )
        flags = ["-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra"]
        done = subprocess.run(  # noqa: S603 - the compiler that Python was built with, or the user's CC
            [*compiler, *flags, "-o", str(made), str(source), str(stamp)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            return f"{compiler[0]} failed: {done.stderr.strip()}"
        os.replace(made, target)
    return ""


def main() -> int:
    """Compile in place."""
    from xferlib import _native

    problem = build(_native.SOURCE, _native.LIBRARY, _native.fingerprint(_native.SOURCE.read_bytes()))
    print(problem or f"compiled {_native.LIBRARY.name}")
    return bool(problem)


if __name__ == "__main__":
    sys.exit(main())
