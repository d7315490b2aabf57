"""The ``xferlib`` command, as the installed script calls it; from a checkout, as it would be installed."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
_SCRIPT = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["scripts"]["xferlib"]

main = EntryPoint("xferlib", _SCRIPT, "console_scripts").load()
