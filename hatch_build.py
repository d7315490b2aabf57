"""The build hook: compiles the C files of xferlib into the wheel where there is a C compiler, and names its version.

Without a compiler the wheel is the same for every platform, and everything is done in Python. The version is that of
`xferlib/_runtime/version.py` at the tag of a release, and names the commit anywhere else; a source archive has it in
``PKG-INFO``, where hatchling finds it.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def find_version() -> str:
    """The version of a clone: ``0.1.0`` at its tag, else ``0.1.0.dev12+gabc1234``, 12 commits after the last tag."""
    root = Path(__file__).parent
    text = (root / "xferlib" / "_runtime" / "version.py").read_text(encoding="utf-8")
    found = re.search(r'^RELEASE = "(.+)"', text, re.MULTILINE)
    assert found is not None
    release = found[1]
    if not (root / ".git").exists():
        return release
    described = (
        _git("describe", "--tags", "--long", "--match", "v[0-9]*") or f"-{_git('rev-list', '--count', 'HEAD')}-g"
    )
    tag, count, _ = described.rsplit("-", 2)
    if (tag, count) == (f"v{release}", "0"):
        return release
    return f"{release}.dev{count or 0}+g{_git('rev-parse', '--short=7', 'HEAD') or 'unknown'}"


def _git(*arguments: str) -> str:
    """The output of git; empty where it fails, or is not installed."""
    # A container that builds wheels may own the clone as another user, which git refuses without the setting.
    command = ["git", "-c", "safe.directory=*", "-C", str(Path(__file__).parent), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the words above
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


class Compile(BuildHookInterface):  # type: ignore[type-arg]
    """Runs for wheels and for editable installs."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the platform; a compiler that is absent or fails is told and is no error."""
        if reason := self._module("_runtime/supported.py").refusal():
            raise SystemExit(reason)
        if version == "standard":  # an editable install finds the commit at each start, as a clone does
            self._folder = tempfile.mkdtemp()
            written = Path(self._folder, "version.txt")
            written.write_text(f"{self.metadata.version}\n", encoding="utf-8")
            build_data["force_include"][str(written)] = "xferlib/_runtime/version.txt"
        folder = Path(self.root, "xferlib", "_native")
        compiling = self._module("_native/build.py")
        problems = compiling.build_all(folder)
        for name, problem in problems.items():
            if problem:
                self.app.display_warning(f"xferlib does without {name}, more slowly: {problem}")
        made = [name for name, problem in problems.items() if not problem]
        if not made:
            return
        build_data["artifacts"] += [f"xferlib/_native/{compiling.LIBRARIES[name]}" for name in made]
        build_data["pure_python"] = False
        python = "cp311-abi3" if compiling.EXTENSIONS.intersection(made) else "py3-none"
        build_data["tag"] = f"{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder of what was written for the wheel."""
        shutil.rmtree(getattr(self, "_folder", ""), ignore_errors=True)

    def _module(self, path: str) -> Any:
        """Load a file of the package by itself: the package needs NumPy."""
        file = Path(self.root, "xferlib", path)
        spec = importlib.util.spec_from_file_location(f"xferlib_build_{file.stem}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
