"""Install packages with pip, and tell what it is doing every five seconds; all that it said, if it fails.

python tools/install_packages.py --editable '.[test]'
python tools/install_packages.py --packages-of lint    # what the project and an extra need: nothing is compiled
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

EVERY_S = 5.0
STEPS = ("Collecting", "Downloading", "  Downloading", "Processing", "  Building", "Building", "Installing")
"""How pip's lines begin that say what it does now."""
_WIDTH = 100


def install(*arguments: str, every_s: float = EVERY_S) -> tuple[int, str]:
    """Run ``pip install``; its exit status and its output."""
    return run([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *arguments], every_s=every_s)


def run(command: list[str], *, every_s: float = EVERY_S) -> tuple[int, str]:
    """Run a command quietly, but for its latest line every ``every_s`` seconds; its exit status and its output."""
    begun = time.monotonic()
    output: list[str] = []
    step = "starting"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in _lines(process.stdout, every_s):
            if line is None:
                print(f"  {time.monotonic() - begun:3.0f} s: {step[:_WIDTH]}", flush=True)
            else:
                output.append(line)
                step = line.strip() if line.startswith(STEPS) else step
    return process.returncode, "".join(output)


def _lines(stream: IO[str], every_s: float) -> Iterator[str | None]:
    """The lines of a stream as they come, and None whenever ``every_s`` seconds have passed."""
    found: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in stream:
            found.put(line)
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    due = time.monotonic() + every_s
    while True:
        try:
            line = found.get(timeout=max(due - time.monotonic(), 0))
        except queue.Empty:
            yield None
            due += every_s
            continue
        if line is None:
            return
        yield line


def list_packages(extra: str) -> list[str]:
    """The packages that the project needs, and those that an extra adds."""
    file = Path(__file__).resolve().parents[1] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"][extra]]


def main() -> int:
    option, *extras = sys.argv[1:]
    arguments = list_packages(*extras) if option == "--packages-of" else sys.argv[1:]
    status, output = install(*arguments)
    if status:
        print(output, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
