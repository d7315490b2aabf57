"""``import xferlib`` is cheap, and brings in no library that the program has not asked for."""

from __future__ import annotations

import functools
import os

import pytest

from tests import processes

HEAVY = tuple(f"{name}." for name in (
    "torch", "cupy", "cupyx", "pycuda", "cuda.core", "cuda.bindings", "array_api_compat", "hypothesis", "pytest",
    "importlib.metadata", "asyncio", "unittest", "email", "rich", "matplotlib", "mpi4py", "dask", "pathlib", "urllib",
))  # fmt: skip
MOST_MODULES = 85
"""Beyond NumPy's own, of a first transfer; each costs about 0.1 to 0.5 ms."""


printed = functools.partial(processes.printed, after=())  # what a process has imported is the question


def _new_modules(statement: str) -> set[str]:
    script = f"import sys, numpy; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    return set(printed("-c", script).split())


@pytest.fixture(scope="module")
def imported() -> set[str]:
    return _new_modules("import xferlib")


def test_import_brings_in_what_a_program_names_and_no_heavy_modules(imported: set[str]) -> None:
    """`tools/import_cost.py` measures the time itself."""
    assert not {module for module in imported if f"{module}.".startswith(HEAVY)}
    named = _new_modules("import xferlib; xferlib.to_device")
    assert len({module for module in imported if module.startswith("xferlib")}) <= 6
    assert "xferlib._api.transfers" in named
    assert len(named) <= MOST_MODULES, sorted(named)
    assert not {module for module in named if f"{module}.".startswith(HEAVY)}


_EACH_FIRST = """
import os, numpy, xferlib  # NumPy once, which all names need
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
    assert printed("-c", _EACH_FIRST) == ""


def test_using_numpy_brings_in_no_other_library() -> None:
    used = _new_modules("import xferlib as xl; xl.use_backend('numpy'); xl.to_host(xl.to_device([1, 2]))")
    assert not {module for module in used if module.partition(".")[0] in {"torch", "cupy", "pycuda", "cuda"}}


def test_cuda_source_brings_in_no_other_kernels() -> None:
    """Nor do the names of the package stand for modules that have been imported before."""
    named = _new_modules("import xferlib; xferlib.raw_module('').get_function('k', 'int *x')")
    others = (
        "definitions", "numpy_engine", "reductions", "autograd", "calls", "python_frontend",
        "cuda_engine", "cuda_source", "c_text", "float64_functions",
    )  # fmt: skip
    assert not named & {f"xferlib.kernels.{each}" for each in others}
    script = (
        "import xferlib.kernels.elementwise, xferlib.kernels as k; print(callable(k.elementwise), callable(k.scan))"
    )
    assert printed("-c", script).split() == ["True", "True"]


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
        assert printed("-c", script.format(statement)).split() == ["False", "True"]
