"""Install the CPU build of PyTorch that the demo and the tests use, or say why they go without.

A torch that is already importable is left as it is. Otherwise pip is asked first what it *would*
install: a build that drags in CUDA is several gigabytes, and is refused. The exit status is 0 either
way, because the backend is optional.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TORCH = "torch==2.13.0"
NAMESPACE = "array-api-compat>=1.12"


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(Path(__file__).with_name("install_packages.py")), *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)


def refusal() -> str:
    """Why pip's choice is not to be installed; empty if it is a CPU build."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        found = pip("--dry-run", "--report", str(report), TORCH)
        if found.returncode:
            return f"pip finds no {TORCH} for this Python: {_last_line(found.stderr)}"
        planned = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    if any(each["name"].startswith(("nvidia-", "cuda-")) for each in planned):
        return f"pip would take a build of {TORCH} with CUDA, which is gigabytes; install a CPU build yourself"
    return ""


def main() -> int:
    if importlib.util.find_spec("torch") is None:
        print("looking for a build of PyTorch without CUDA: some seconds", flush=True)
        reason = refusal()
        if not reason:
            print(f"installing {TORCH}, some 200 MB", flush=True)
            found = pip(TORCH, NAMESPACE)
            reason = f"pip could not install {TORCH}: {_last_line(found.stderr)}" if found.returncode else ""
        if reason:
            print(f"going on without PyTorch: {reason}")
    elif importlib.util.find_spec("array_api_compat") is None:
        pip(NAMESPACE)
    return 0


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


if __name__ == "__main__":
    sys.exit(main())
