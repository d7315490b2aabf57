"""Interpreters that are refused with a sentence, and what a program is told where nothing is compiled."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

import xferlib as xl
from tests.processes import path_with, printed, run

ROOT = Path(__file__).parents[1]
PACKAGE = Path(xl.__file__).parent

REFUSED = [("sys.maxsize = 2**31 - 1", "64-bit Python"), ("sys.abiflags = 't'", "free-threaded Python")]


def test_an_interpreter_that_is_not_supported_is_refused_at_import() -> None:
    change, said = REFUSED[0]
    code = f"import sys; {change}\ntry: import xferlib\nexcept ImportError as error: print(error)"
    found = printed("-c", code)
    assert said in found
    assert "; " in found  # and what to do


@pytest.mark.parametrize(("change", "said"), REFUSED)
def test_it_is_refused_when_the_package_is_built(change: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (ROOT / "hatch_build.py").is_file():
        pytest.skip("the project is not beside the tests")
    plugin = ModuleType("hatchling.builders.hooks.plugin.interface")
    plugin.BuildHookInterface = type("BuildHookInterface", (), {})  # type: ignore[attr-defined]
    for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, plugin.__name__, plugin)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook = module.Compile()
    hook.root = str(ROOT)
    attribute, _, value = change.removeprefix("sys.").partition(" = ")
    monkeypatch.setattr(sys, attribute, eval(value), raising=False)
    with pytest.raises(SystemExit, match=said):
        hook.initialize("standard", {})


@pytest.fixture(scope="module")
def without_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is where there was no compiler."""
    if sys.platform == "win32":
        pytest.skip("nothing can be compiled on Windows")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE, folder / "xferlib", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return folder


PROGRAM = """\
import numpy as np
import xferlib as xl

x = np.arange(5.0)
for _ in range(2):
    print(xl.to_host(xl.to_device(x, backend="sim")).sum())
xl.to_device_async(x).result()
"""


@pytest.mark.parametrize("native", ["on", "off"])
def test_the_first_transfer_says_once_that_nothing_is_compiled(native: str, without_c: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run(str(program), PYTHONPATH=path_with(without_c), XFERLIB_NATIVE=native)
    assert done.stdout == "10.0\n10.0\n"
    if native == "off":
        assert not done.stderr
        return
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"{program}:6: XferWarning: xferlib's parts in C are not compiled")
    assert "python -m xferlib._native.build" in lines[0]
    assert done.stderr.count("XferWarning") == 1


def test_an_import_and_the_doctor_say_nothing_of_it(without_c: Path) -> None:
    for arguments in (["-m", "xferlib", "info"], ["-m", "xferlib", "doctor", "--quick"]):
        done = run(*arguments, cwd=without_c, PYTHONPATH=path_with(without_c), XFERLIB_NATIVE="on")
        assert not done.stderr
    assert "slow     staging in C: not compiled" in done.stdout
