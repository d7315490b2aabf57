"""The build hook: compiles the C files of xferlib into the wheel where there is a C compiler.

Without one the wheel is the same for every platform, and everything is done in Python.
"""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Compile(BuildHookInterface):  # type: ignore[type-arg]
    """Runs for wheels and for editable installs."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the platform; a compiler that is absent or fails is told and is no error."""
        if reason := self._module("_runtime/supported.py").refusal():
            raise SystemExit(reason)
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

    def _module(self, path: str) -> Any:
        """Load a file of the package by itself: the package needs NumPy."""
        file = Path(self.root, "xferlib", path)
        spec = importlib.util.spec_from_file_location(f"xferlib_build_{file.stem}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
