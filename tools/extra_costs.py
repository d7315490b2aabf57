"""The packages and bytes that each extra downloads, for the table of docs/how-to/install.md; by uv's lock file.

    uv run --no-project tools/extra_costs.py        or: pip install uv; python tools/extra_costs.py

uv knows the size of every wheel without downloading it. Counted are wheels for Linux on x86-64 with glibc and Python
3.11, and source archives where there are none, without those of the core.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOR_DEVELOPERS = {"test", "lint", "docs", "release", "dev"}
CUDA = ("cuda-", "nvidia-", "nccl", "nvmath", "triton")
CORE = {"numpy", "optree", "tree-sitter", "tree-sitter-cuda"}
FITTING = re.compile(r"-(cp311-cp311|cp3(?:\d|10|11)-abi3|py3-none|py2\.py3-none)-(?:any|[\w.]*manylinux[\w.]*x86_64)")
PROJECT = """\
[project]
name = "costs"
version = "0"
requires-python = "==3.11.*"
dependencies = {wanted}
[tool.uv]
environments = ["sys_platform == 'linux' and platform_machine == 'x86_64'"]
"""


def locked(wanted: list[str]) -> dict[str, Any]:
    """Resolve requirements with uv; returns the packages of the lock file by name."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(PROJECT.format(wanted=wanted))
        uv = [shutil.which("uv") or sys.executable, *([] if shutil.which("uv") else ["-m", "uv"])]
        subprocess.run([*uv, "lock", "--quiet", "--python", "3.11"], cwd=folder, check=True)
        packages = tomllib.loads(Path(folder, "uv.lock").read_text(encoding="utf-8"))["package"]
    return {each["name"]: each for each in packages}


def requirements(extras: dict[str, list[str]], name: str) -> list[str]:
    """The requirements of an extra, with those of the extras in it."""
    found = []
    for each in extras[name]:
        own = re.fullmatch(r"xferlib\[([\w,-]+)\]", each)
        found += [each] if own is None else [more for part in own[1].split(",") for more in requirements(extras, part)]
    return found


def closure(packages: dict[str, Any], wanted: list[dict[str, Any]]) -> set[str]:
    """The names of all packages that come with some, extras of packages included."""
    found: set[tuple[str, str]] = set()
    ahead = [(each["name"], extra) for each in wanted for extra in ("", *each.get("extra", ()))]
    while ahead:
        name, extra = key = ahead.pop()
        if key in found:
            continue
        found.add(key)
        package = packages[name]
        asked = package.get("optional-dependencies", {}).get(extra, []) if extra else package.get("dependencies", [])
        ahead += [(each["name"], more) for each in asked for more in ("", *each.get("extra", ()))]
    return {name for name, _ in found}


def nbytes(package: dict[str, Any]) -> int:
    """The size of the wheel, or of the source archive where none fits."""
    wheels = {found[1]: each["size"] for each in package.get("wheels", []) if (found := FITTING.search(each["url"]))}
    for tag in ("cp311-cp311", *sorted(wheels)):  # the most special first, as pip takes it
        if tag in wheels:
            return int(wheels[tag])
    return int(package.get("sdist", {}).get("size", 0))


def main() -> int:
    """Print a line for each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for name in ("", *sorted(set(extras) - FOR_DEVELOPERS)):  # each by itself: together they restrict one another
        wanted = requirements(extras, name) if name else []
        packages = locked([*project["dependencies"], *wanted])
        asked = packages.pop("costs")["dependencies"]
        core = closure(packages, [each for each in asked if each["name"] in CORE])
        names = closure(packages, asked) - (core if name else set())
        size = sum(nbytes(packages[each]) for each in names) / 1e6
        cuda = sum(each.startswith(CUDA) for each in names)
        print(f"{name or 'core'}: {len(names)} packages, {size:.1f} MB, {cuda} of CUDA", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
