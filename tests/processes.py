"""Programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(*arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments and environment variables; one that hangs is killed."""
    command, environ = [sys.executable, *arguments], {**os.environ, **variables}
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=200, check=False)


def printed(*arguments: str, cwd: Path | None = None, **variables: str) -> str:
    """Return what a program prints, which must not fail."""
    done = run(*arguments, cwd=cwd, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def end_quietly(*arguments: str) -> None:
    """Run a program that must neither fail nor say anything."""
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def path_with(*folders: Path) -> str:
    """A ``PYTHONPATH`` that puts folders before all that this process sees."""
    return os.pathsep.join([*map(str, folders), *filter(None, sys.path)])
