"""Running an example program as a reader would, in this process."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

import xferlib as xl
from tests.needed import need


def run_example(
    path: Path, backend: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Return the last line that a program writes; a skip where a device or a library cannot do what it shows."""
    return (read_example(path, backend, arguments, monkeypatch, capsys).splitlines() or [""])[-1]


def read_example(
    path: Path, backend: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Return all that a program writes; skip as `run_example`."""
    need(backend)
    monkeypatch.setattr(sys, "argv", [path.name, *arguments])
    monkeypatch.syspath_prepend(str(path.parent))
    with xl.use_backend(backend):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except xl.errors.UnsupportedError as error:
            pytest.skip(str(error))
        except xl.errors.KernelCompileError as error:
            if "libcudadevrt" not in str(error):
                raise
            pytest.skip(str(error))
        except SystemExit as error:  # for want of a library that the example shows
            pytest.skip(f"{path.name} {error.code}")
    return capsys.readouterr().out
