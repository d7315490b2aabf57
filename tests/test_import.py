"""``import xferlib`` is cheap, and brings in no library that the program has not asked for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = (
    "torch", "cupy", "cupyx", "pycuda", "cuda.core", "cuda.bindings", "array_api_compat", "hypothesis", "pytest",
    "importlib.metadata", "asyncio", "unittest", "email", "rich", "matplotlib", "mpi4py", "dask", "pathlib", "urllib",
)  # fmt: skip
MOST_MODULES = 85
"""Beyond NumPy's own, of a first transfer; each costs about 0.1 to 0.5 ms."""


def _new_modules(statement: str) -> set[str]:
    script = f"import sys, numpy; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def imported() -> set[str]:
    return _new_modules("import xferlib")


@pytest.mark.parametrize("name", HEAVY)
def test_import_leaves_heavy_modules_out(name: str, imported: set[str]) -> None:
    assert not {module for module in imported if module == name or module.startswith(name + ".")}


def test_import_brings_in_what_a_program_names(imported: set[str]) -> None:
    """`tools/import_cost.py` measures the time itself."""
    named = _new_modules("import xferlib; xferlib.to_device")
    assert len({module for module in imported if module.startswith("xferlib")}) <= 6
    assert "xferlib._api.transfers" in named
    assert len(named) <= MOST_MODULES, sorted(named)
    assert not {module for module in named if module.partition(".")[0] in HEAVY}


_EACH_FIRST = """
import os, xferlib
names_of = {}
for name in xferlib.__all__:
    module = xferlib._MODULES.get(name)
    names_of.setdefault(name if module == "xferlib" else module, []).append(name)
children = {}
for module, names in names_of.items():  # one child for each: the names of a module bring in the same others
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(any(getattr(xferlib, name) is not vars(xferlib)[name] for name in names))
        finally:
            os._exit(code)
    children[child] = module
for child, module in children.items():
    if os.waitpid(child, 0)[1]:
        print(module)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_every_name_is_there_whichever_is_used_first() -> None:
    done = subprocess.run([sys.executable, "-c", _EACH_FIRST], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [], done.stderr


def test_using_numpy_brings_in_no_other_library() -> None:
    used = _new_modules("import xferlib as xl; xl.use_backend('numpy'); xl.to_host(xl.to_device([1, 2]))")
    assert not {module for module in used if module.partition(".")[0] in {"torch", "cupy", "pycuda", "cuda"}}


def test_these_tests_can_fail() -> None:
    assert "importlib.metadata" in _new_modules("import xferlib, importlib.metadata")


def test_asking_which_backends_there_are_follows_no_thread() -> None:
    """The simulator follows what threads hand to each other, which each of them would pay for."""
    script = """
import sys
sys.modules["torch"] = None  # its import takes seconds, and is not the question
import xferlib as xl
from xferlib._runtime import threads as handoff
xl.available_backends()
with xl.use_backend("sim"):
    print(handoff.is_followed(), end=" ")
    {}
print(handoff.is_followed())
"""
    for statement in ("xl.zeros(3)", "xl.pinned_empty(3)"):
        done = subprocess.run([sys.executable, "-c", script.format(statement)], capture_output=True, text=True)
        assert done.stdout.split() == ["False", "True"], done.stderr
