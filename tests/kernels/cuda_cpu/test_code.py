"""Code of PTX on the disk: when it is taken, when it is not, and that the translator is not needed for it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.cuda_cpu.running import PTX, needs_cc, needs_nvrtc
from tests.processes import printed
from xferlib.kernels import host_compiler
from xferlib.kernels.cuda_cpu import code
from xferlib.kernels.cuda_cpu.module import CpuModule, KernelMemory
from xferlib.testing import configured

pytestmark = needs_cc


def run(loaded: code.CpuCode) -> list[int]:
    module = CpuModule(loaded, np.zeros(loaded.variables_nbytes, np.uint8))
    module.initialise()
    x = np.arange(4, dtype=np.uint32)
    module.launch(
        "triple", (1, 1, 1), (4, 1, 1), [x.ctypes.data.to_bytes(8, "little")], [KernelMemory("x", x)], label=""
    )
    return x.tolist()


class Compilations:
    """Counts what is compiled, and compiles each text once in all."""

    def __init__(self) -> None:
        self.count = 0
        self._libraries: dict[Any, bytes] = {}
        self._compile = host_compiler.compile_c

    def __call__(self, source: str, **options: Any) -> bytes:
        self.count += 1
        key = source, *options.items()
        if key not in self._libraries:
            self._libraries[key] = self._compile(source, **options)
        return self._libraries[key]


COMPILATIONS = Compilations()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Compilations]:
    monkeypatch.setattr(host_compiler, "compile_c", COMPILATIONS)
    monkeypatch.setattr(code, "_codes", {})
    with configured(cache_dir=str(tmp_path)):
        yield COMPILATIONS


def load(*texts: str, **options: Any) -> code.CpuCode:
    """Code as another process has it: from the disk, or made."""
    code._codes.clear()
    return code.compile_ptx(*(texts or (PTX,)), **{"is_checked": True, **options})


def test_what_is_known_of_a_module_comes_back_from_the_disk(compilations: Compilations) -> None:
    made, before = load(), compilations.count
    found = load()
    assert compilations.count == before
    assert found.translation == made.translation
    assert found.translation.sites
    assert run(found) == run(made) == [0, 3, 6, 9]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_entries_that_are_damaged_are_made_again(
    compilations: Compilations, tmp_path: Path, data: st.DataObject
) -> None:
    load()
    (file,) = (tmp_path / "kernels").iterdir()
    content = bytearray(file.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    before = compilations.count
    assert run(load()) == [0, 3, 6, 9]
    assert compilations.count == before + 1
    load()
    assert compilations.count == before + 1


def test_a_library_that_the_system_does_not_load_is_made_again(
    compilations: Compilations, monkeypatch: pytest.MonkeyPatch
) -> None:
    load()
    real = host_compiler.load_library
    refused: list[str] = []

    def load_library(name: str, content: bytes) -> Any:
        if not refused:
            refused.append(name)
            content = b"another system's"
        return real(name, content)

    before = compilations.count
    monkeypatch.setattr(host_compiler, "load_library", load_library)
    assert run(load()) == [0, 3, 6, 9]
    assert (len(refused), compilations.count) == (1, before + 1)


def _set_compiler(monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    program = folder / "other"
    program.symlink_to(str(shutil.which("cc")))
    monkeypatch.setenv("CC", str(program))
    return {}


CHANGES: dict[str, Callable[[pytest.MonkeyPatch, Path], dict[str, Any]]] = {
    "another text": lambda *_: {"texts": (PTX.replace("= 3", "= 5"),)},
    "a comment": lambda *_: {"texts": (f"// {PTX}",)},
    "unchecked": lambda *_: {"is_checked": False},
    "overflow": lambda *_: {"finds_overflow": True},
    "debug build": lambda *_: {"debug_text": PTX},
    "compiler": _set_compiler,
    "options": lambda monkeypatch, _: monkeypatch.setattr(code, "list_c_options", lambda: ("-O0",)) or {},
    "translator": lambda monkeypatch, _: monkeypatch.setattr(code, "identify_translator", lambda: "other") or {},
}


@pytest.mark.parametrize("change", CHANGES)
def test_all_that_code_depends_on_is_in_its_key(
    compilations: Compilations, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: str
) -> None:
    load()
    before = {each.name for each in (tmp_path / "kernels").iterdir()}
    options = CHANGES[change](monkeypatch, tmp_path)
    load(*options.pop("texts", ()), **options)
    assert len({each.name for each in (tmp_path / "kernels").iterdir()} - before) == 1


def test_each_file_of_the_translator_is_in_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "cuda_cpu"
    shutil.copytree(Path(code.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "__file__", str(folder / "code.py"))
    known = {code.identify_translator.__wrapped__()}
    files = list(folder.glob("*.py"))
    for number, file in enumerate(files, 2):
        file.write_text(file.read_text() + "\n")
        known.add(code.identify_translator.__wrapped__())
        assert len(known) == number, file.name


PROGRAM = """
import sys
import numpy as np
import xferlib as xl

source = 'extern "C" __global__ void fill(int *x) { x[threadIdx.x] = 7; }'
kernel = xl.raw_module(source, options=sys.argv[1:]).get_function("fill")
x = xl.to_device(np.zeros(4, np.int32))
kernel(1, 4, (x,))
assert xl.to_host(x).tolist() == [7, 7, 7, 7]
print(*(each for each in sys.modules if each.startswith("xferlib.kernels.cuda_cpu.")), *LATE & set(sys.modules))
"""
RUNNING = {"code", "module", "runtime", "translation"}
"""The modules that launches need; the other ones there translate."""


@needs_nvrtc
@pytest.mark.parametrize(("backend", "options"), [("numpy", ("--fmad=false",)), ("sim", ())])
def test_a_cached_kernel_imports_no_part_of_the_translator(
    backend: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    late = {"xferlib.backends.cuda.compiler", "subprocess"}
    if importlib.util.find_spec("cuda") is None:  # whose pathfinder imports it
        late.add("tempfile")
    text = f"LATE = {late}\n{PROGRAM}"
    first, second = (
        set(printed("-c", text, *options, XFERLIB_BACKEND=backend, XFERLIB_CACHE_DIR=str(tmp_path)).split())
        for _ in range(2)
    )
    assert late < first
    if hasattr(os, "memfd_create"):
        assert {each.rpartition(".")[2] for each in second} <= RUNNING
