"""Install xferlib as a new user does, in an empty environment, and do what the front page says.

    python tools/check_install.py [wheel or source archive]

Without a wheel one is built from this checkout. Then, in a new folder: the lines of the pages' install block, nothing
but the core's dependencies installed, the programs under "Ten lines" and the tutorial, and commands that need what is
not installed, which must say so before they do anything. Needs a package index for the core's dependencies; a minute.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTALL = re.compile(r"<!-- install.*?```sh\n(.*?)```", re.DOTALL)
TEN_LINES = re.compile(r"## Ten lines\n\n(?:<!-- .*? -->\n)?```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)
TUTORIAL = re.compile(r"(<!-- needs: [\w ]+ -->\n)?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ALWAYS = {"pip", "setuptools", "wheel", "xferlib", "typing-extensions"}
"""The packages of any environment, and optree's one dependency."""
_BENCH = "bench transfer --backend numpy --largest 1KiB"
NEEDS_MORE = {
    "trace program.py --plot x.png": "[trace]",
    "demo --plot x.png": "[demo]",
    "completion bash": "[completion]",
}


class StepError(Exception):
    """A step that did not do what the pages say."""


def run(*command: str, folder: Path, status: int = 0) -> str:
    """Run a command; returns both of its outputs."""
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    print(f"{time.perf_counter() - begun:6.1f} s  {' '.join(command)[:100].splitlines()[0]}", flush=True)
    if done.returncode != status:
        raise StepError(f"{command} ended with {done.returncode}, not {status}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def build(folder: Path) -> Path:
    """Build a wheel of the checkout."""
    options = ("--quiet", "--no-deps", "--wheel-dir", str(folder))
    run(sys.executable, "-m", "pip", "wheel", *options, str(ROOT), folder=folder)
    return next(folder.glob("*.whl"))


def install(wheel: Path, folder: Path) -> None:
    """Run the lines of the install block, with the wheel in the place of the clone."""
    block = INSTALL.search((ROOT / "README.md").read_text(encoding="utf-8"))
    if block is None or "pip install . " not in block[1]:
        raise StepError("README.md has no install block, or one without `pip install .`")
    lines = block[1].replace("python3 ", f"{sys.executable} ")
    lines = lines.replace("pip install . ", f"pip install --quiet '{wheel}' ")
    run("sh", "-e", "-c", lines, folder=folder)


def check_packages(python: str, folder: Path) -> None:
    """Nothing but the core is installed."""
    listed = json.loads(run(python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check", folder=folder))
    names = {re.sub(r"[-_.]+", "-", each["name"]).lower() for each in listed}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = {re.split(r"[<>=]", each)[0] for each in project["dependencies"]}
    if names - ALWAYS != core:
        raise StepError(f"installed are {sorted(names)}, and the core needs {sorted(core)}")


def check_programs(python: str, folder: Path) -> None:
    """The programs of the front pages print what the pages say."""
    for page in ("README.md", "docs/index.md"):
        found = TEN_LINES.search((ROOT / page).read_text(encoding="utf-8"))
        if found is None:
            raise StepError(f"{page} has no program under 'Ten lines'")
        (folder / "program.py").write_text(found[1], encoding="utf-8")
        printed = run(python, "program.py", folder=folder)
        if found[2] is not None and printed != found[2]:
            raise StepError(f"{page}: the program prints {printed!r}")


def check_tutorial(python: str, folder: Path) -> None:
    """The first tutorial, as one program, on NumPy and on the simulator; what needs another library is left out."""
    page = (ROOT / "docs" / "tutorial" / "first-steps.md").read_text(encoding="utf-8")
    program = "\n".join(code for needs, code in TUTORIAL.findall(page) if not needs)
    for name in ("numpy", "sim"):
        text = f"import os\nos.environ['XFERLIB_BACKEND'] = {name!r}\n{program}"
        (folder / "program.py").write_text(text, encoding="utf-8")
        run(python, "program.py", folder=folder)


def check_commands(command: str, folder: Path) -> None:
    """Commands work without extras, or name the extra that they need before they do anything."""
    (folder / "program.py").write_text("raise SystemExit('the program ran')\n", encoding="utf-8")
    for arguments, extra in NEEDS_MORE.items():
        said = run(command, *arguments.split(), folder=folder, status=2)
        if extra not in said or len(said.splitlines()) != 1:
            raise StepError(f"xferlib {arguments} says {said!r}, and not one line that names {extra}")
    for arguments in ("info", "--help", "bench --help", "cache info", "demo --epochs 2", _BENCH):
        run(command, *arguments.split(), folder=folder)


def main() -> int:
    """Run every step; 1 at the first that fails."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        try:
            wheel = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else build(folder)
            install(wheel, folder)
            python = str(folder / "env" / "bin" / "python")
            check_packages(python, folder)
            run(python, str(ROOT / "tools" / "check_wheel.py"), folder=folder)
            check_programs(python, folder)
            check_tutorial(python, folder)
            check_commands(str(folder / "env" / "bin" / "xferlib"), folder)
        except StepError as failure:
            print(failure, file=sys.stderr)
            return 1
    print("installed, and works")
    return 0


if __name__ == "__main__":
    sys.exit(main())
