"""Install packages, and tell what is being done every five seconds; all that was said, if it fails.

python tools/install_packages.py --editable '.[test]'
python tools/install_packages.py --packages-of lint    # what the project and an extra need: nothing is compiled
python tools/install_packages.py --get-uv              # the others then take a tenth of the time, in this environment

uv is told what pip is configured to do, and takes the packages that pip would take. Where it is absent, fails or does
not know a setting of pip's, pip installs.
"""

from __future__ import annotations

import ast
import json
import os
import queue
import shutil
import subprocess
import sys
import sysconfig
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
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

UV_FOLDER = Path(sys.prefix, "uv")
"""Beside the environment's packages: uv is not one of those that tests and type checkers find."""
UV_OPTIONS = {
    "cert": "--cert", "constraint": "--constraints", "extra-index-url": "--extra-index-url",
    "find-links": "--find-links", "index-url": "--index-url", "trusted-host": "--allow-insecure-host",
}  # fmt: skip
"""The settings of pip that choose packages, and uv's options for them."""
WITHOUT_EFFECT = frozenset({
    "cache-dir", "compile", "config-file", "default-timeout", "disable-pip-version-check", "no-cache-dir", "no-color",
    "no-compile", "no-input", "no-warn-script-location", "progress-bar", "quiet", "require-virtualenv", "retries",
    "root-user-action", "timeout", "verbose",
})  # fmt: skip
"""Those that do not; what stands in the file of `config-file` is listed too."""


def install(*arguments: str, every_s: float = EVERY_S) -> tuple[int, str]:
    """Install packages as ``pip install`` does with these arguments; the exit status and the output."""
    command = find_uv_command()
    if command:
        status, output = _install_by_uv(command, arguments, every_s=every_s)
        if status == 0:
            return status, output
        print(f"  uv: {(output.strip().splitlines() or ['no message'])[-1][:_WIDTH]}; pip installs", flush=True)
    return run([*_PIP, "install", *arguments], every_s=every_s)


def _install_by_uv(command: list[str], arguments: tuple[str, ...], *, every_s: float) -> tuple[int, str]:
    """As `install`; pip's ``--report``, which uv has in another form, names the packages."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    if "--report" not in arguments:
        return run([*command, *arguments], every_s=every_s, environ=environ)
    at = arguments.index("--report")
    command += ["--quiet", "--output-format", "json", *arguments[:at], *arguments[at + 2 :]]
    status, output = run(command, every_s=every_s, environ=environ)
    if status == 0:
        try:
            changes = json.loads(output)["changes"]
            planned = [{"metadata": {"name": each["name"]}} for each in changes if each["action"] == "installed"]
        except (ValueError, LookupError) as error:
            return 1, f"another form of report: {error!r}"
        Path(arguments[at + 1]).write_text(json.dumps({"install": planned}), encoding="utf-8")
    return status, output


def sees_other_packages() -> bool:
    """Whether the environment sees those of another interpreter, which `make_venv.sh` sets up and only pip counts."""
    return Path(sysconfig.get_path("purelib"), "installed-backends.pth").exists()


def get_uv() -> None:
    """Install uv beside the environment's packages; where that fails, everything is done by pip."""
    if sees_other_packages():
        return
    status, _ = run([*_PIP, "install", "--target", str(UV_FOLDER), "uv>=0.11"])
    if status:
        shutil.rmtree(UV_FOLDER, ignore_errors=True)


def find_uv_command() -> list[str]:
    """The command of uv that installs as pip is configured to; empty where there is none."""
    uv = shutil.which("uv", path=str(UV_FOLDER / "bin"))
    if uv is None or sees_other_packages():
        return []
    listed = subprocess.run([*_PIP, "config", "list"], capture_output=True, text=True, check=False)
    options = convert_settings(listed.stdout) if listed.returncode == 0 else None
    if options is None:
        return []
    # As pip, it looks for the best release in all indexes, and not in the first that has the package.
    same = ["--no-config", "--no-progress", "--python", sys.executable, "--index-strategy", "unsafe-best-match"]
    return [uv, "pip", "install", *same, *options]


def convert_settings(listed: str) -> list[str] | None:
    """The options of uv for what ``pip config list`` says; None if it has none for a setting."""
    chosen: dict[str, str] = {}
    for section in ("global", "install", ":env:"):  # the later one counts
        for line in listed.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(f"{section}."):
                chosen[name.removeprefix(f"{section}.")] = ast.literal_eval(value)
    if not chosen.keys() <= {*UV_OPTIONS, *WITHOUT_EFFECT}:
        return None
    pairs = [(option, value) for name, option in UV_OPTIONS.items() for value in chosen.get(name, "").split()]
    return [word for pair in pairs for word in pair]


def run(command: list[str], *, every_s: float = EVERY_S, environ: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a command quietly, but for its latest line every ``every_s`` seconds; its exit status and its output."""
    begun = time.monotonic()
    output: list[str] = []
    step = "starting"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="backslashreplace", env=environ
    ) as process:  # a compiler's bytes need not be text of this locale
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
    if option == "--get-uv":
        get_uv()
        return 0
    arguments = list_packages(*extras) if option == "--packages-of" else sys.argv[1:]
    status, output = install(*arguments)
    if status:
        print(output, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
