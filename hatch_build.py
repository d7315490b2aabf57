"""The build hook: compiles `staging.c` into the wheel where there is a C compiler.

Without one the wheel is the same for every platform, and transfers are staged in Python.
"""

from __future__ import annotations

import importlib.util
import sysconfig
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileStaging(BuildHookInterface):  # type: ignore[type-arg]
    """Runs for wheels and for editable installs."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the platform; a compiler that is absent or fails is told and is no error."""
        folder = Path(self.root, "xferlib", "_native")
        spec = importlib.util.spec_from_file_location("xferlib_native_build", folder / "build.py")
        assert spec is not None
        assert spec.loader is not None
        compiling = importlib.util.module_from_spec(spec)  # not through the package, which needs NumPy
        spec.loader.exec_module(compiling)
        source = folder / "staging.c"
        problem = compiling.build(source, folder / "staging.so", zlib.crc32(source.read_bytes()))
        if problem:
            self.app.display_warning(f"xferlib stages transfers in Python: {problem}")
            return
        build_data["artifacts"].append("xferlib/_native/staging.so")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
