"""Programs written for CuPy, run on a machine without a GPU: a module `cupy` over the simulated device `sim`.

    python -m xferlib pretend cupy program.py
    pytest -p xferlib.testing.plugin --pretend=cupy

The program is not changed. Its arrays lie in simulated memory, its streams and events are the simulator's, its kernels
are checked as CUDA C on a CPU: a missing synchronisation, an access outside an array and a forgotten barrier are
reported at the program's line. A function that the simulated device does not compute is computed by NumPy between two
copies. A name that is missing raises an error.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import xferlib as xl
from xferlib.errors import ArgumentError, UnsupportedError, quote

LIBRARIES = ("cupy",)
"""Those that can be pretended."""


class PretendError(UnsupportedError, AttributeError):
    """The pretended library lacks a name that the real one has."""


class _Module(ModuleType):
    """A module of a pretended library: the names that it was given, what ``find`` makes of others, or an error."""

    def __init__(self, name: str, find: Callable[[str], Any]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._find = find

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = self._find(name)
        if found is None:
            raise PretendError(
                f"{self.__name__}.{name} is not pretended; run the program on a GPU for it, or add it in a "
                f"conftest.py: {self.__name__}.{name} = ..."
            )
        setattr(self, name, found)
        return found


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the modules of the pretended libraries before the real ones are looked for."""

    def __init__(self) -> None:
        self.tables: dict[str, Any] = {}

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if fullname not in self.tables and not any(fullname.startswith(f"{each}.") for each in self._open):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    @property
    def _open(self) -> list[str]:
        """Modules of which every submodule is there: those that pass what they are asked for to another library."""
        return [name for name, (_, _, is_open) in self.tables.items() if is_open]

    def create_module(self, spec: Any) -> ModuleType:
        _, make_find, _ = (
            self.tables.get(spec.name) or self.tables[next(e for e in self._open if spec.name.startswith(e))]
        )
        return _Module(spec.name, make_find(spec.name))

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self.tables.get(module.__name__, ({}, None, False))[0])
        prefix = module.__name__ + "."
        for name in self.tables:
            if name.startswith(prefix) and "." not in name[len(prefix) :]:
                setattr(module, name[len(prefix) :], importlib.import_module(name))


_finder = _Finder()


def install(*libraries: str) -> None:
    """Let ``import cupy`` give the pretended library in this process, and make `sim` the default backend.

    Raises:
        ArgumentError: A library that cannot be pretended, or one that is imported already.
    """
    for library in libraries:
        if library not in LIBRARIES:
            raise ArgumentError(f"pretend: {quote(library)} cannot be pretended; {' and '.join(LIBRARIES)} can")
        if library in _finder.tables:
            continue
        if library in sys.modules:
            raise ArgumentError(
                f"pretend: {library} is imported already; begin to pretend before the first import of it"
            )
        tables = importlib.import_module(f"{__name__}.{library}").make_tables()
        _finder.tables.update(tables)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    xl.use_backend("sim")


def run(library: str, program: str, arguments: Sequence[str]) -> None:
    """Run a program, as ``python program.py`` does, with a pretended library."""
    import runpy
    from pathlib import Path

    install(library)
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(Path(program).resolve().parent))
    runpy.run_path(program, run_name="__main__")
