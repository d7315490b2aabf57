"""Questions answered in a process of their own: a library that crashes or hangs there ends that process alone."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PACKAGE = "xferlib._cli.doctor"
_ROOT = str(Path(__file__).resolve().parents[2])
_LIMIT_S = 120
MARK = "xferlib-doctor:"
"""The beginning of the line with the answer: libraries write lines of their own."""


def answer(question: str, *arguments: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Ask the module of that name in a new process; ``problem`` in the answer says why there is none.

    Args:
        question: A module beside this one with ``answer(*arguments)``, which returns what JSON can hold.
        *arguments: For it.
        environ: The environment of the new process.
    """
    paths = os.pathsep.join(each for each in (_ROOT, environ.get("PYTHONPATH", "")) if each)
    command = ["-W", "ignore", "-m", f"{_PACKAGE}_child", question, *arguments]
    return _said(command, {**environ, "PYTHONPATH": paths})


def answer_of_script(path: str, *arguments: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """As `answer`, of a file that imports nothing of xferlib and is given `MARK` first: a new process in 20 ms."""
    return _said(["-I", "-S", path, MARK, *arguments], environ)


def _said(arguments: list[str], environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        done = subprocess.run(  # noqa: S603 - this Python, with a module of ours
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environ,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"no answer within {_LIMIT_S} s"}
    except OSError as error:
        return {"problem": f"no process could be started: {error}"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return found
    return {"problem": _ended(done.returncode, done.stderr)}


def _ended(status: int, errors: str) -> str:
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"the process was ended by {name}"
    last = (errors.strip().splitlines() or ["nothing was said"])[-1]
    return f"the process ended with status {status}: {last}"


def main() -> None:
    """Answer one question on standard output."""
    question, *arguments = sys.argv[1:]
    module = importlib.import_module(f"{_PACKAGE}_{question}")
    found = json.dumps(module.answer(*arguments))
    print(f"\n{MARK}{found}", flush=True)


if __name__ == "__main__":
    main()
