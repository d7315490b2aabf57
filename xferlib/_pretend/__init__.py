"""Programs written for CuPy or PyCUDA, run on a machine without a GPU, over the simulated device `sim`.

    python -m xferlib pretend cupy program.py
    pytest -p xferlib.testing.plugin --pretend=pycuda

The program is not changed. Its arrays lie in simulated memory, its streams and events are the simulator's, its kernels
are checked as CUDA C on a CPU: a missing synchronisation, an access outside an array and a forgotten barrier are
reported at the program's line. A function that the simulated device does not compute is computed by NumPy between two
copies. A name that is missing raises an error.

`functions` finds NumPy's functions, `arrays` has what both libraries' arrays have; `memory`, `streams` and `kernels`
are what both work with. `cupy` and `pycuda` are the tables of names; `policy` says what happens where one is missing.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import xferlib as xl
from xferlib._core.device import Device
from xferlib._pretend import policy
from xferlib._pretend.policy import PretendError as PretendError
from xferlib._runtime import checks
from xferlib.errors import ArgumentError, quote

LIBRARIES = ("cupy", "pycuda")
"""Those that can be pretended."""


class ModuleTable(NamedTuple):
    """The names of a pretended module."""

    names: Mapping[str, Any]
    find: Callable[[str], Any] | None = None
    """The object by another name; None where there is none."""
    is_open: bool = False
    """Whether it has submodules by any name, each found as this one's names are, by the submodule's own name."""
    start: Callable[[], Mapping[str, Any]] | None = None
    """Runs at its import and gives more names; a module that has it is not imported with its package."""


class _Module(ModuleType):
    """A module of a pretended library."""

    def __init__(self, name: str, find: Callable[[str], Any] | None) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._find = find

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = self._find(name) if self._find is not None else None
        if found is None:
            return policy.find_missing(f"{self.__name__.removeprefix(policy.prefix)}.{name}")
        setattr(self, name, found)
        return found


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the modules of the pretended libraries before the real ones are looked for."""

    def __init__(self) -> None:
        self.tables: dict[str, ModuleTable] = {}

    def _open_over(self, name: str) -> ModuleTable | None:
        owners = [owner for owner, table in self.tables.items() if table.is_open and name.startswith(f"{owner}.")]
        return self.tables[max(owners, key=len)] if owners else None

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if fullname not in self.tables and self._open_over(fullname) is None:
            if fullname.partition(".")[0] in self.tables:  # by no `name=`: `from cupyx import jit` would drop the text
                raise ModuleNotFoundError(f"{fullname} is not pretended; run the program on a GPU for it")
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        table = self.tables.get(spec.name) or self._open_over(spec.name)
        assert table is not None
        return _Module(spec.name, table.find(spec.name) if table.is_open and table.find else table.find)

    def exec_module(self, module: ModuleType) -> None:
        if table := self.tables.get(module.__name__):
            vars(module).update(table.names if table.start is None else {**table.names, **table.start()})
        prefix = module.__name__ + "."
        for name, each in self.tables.items():
            if name.startswith(prefix) and "." not in name[len(prefix) :] and each.start is None:
                setattr(module, name[len(prefix) :], importlib.import_module(name))


_finder = _Finder()


def add_modules(tables: Mapping[str, ModuleTable]) -> None:
    """Let ``import`` give these modules, by their names behind `policy.prefix`."""
    if policy.prefix:  # a package of which every module is there
        _finder.tables[policy.prefix.removesuffix(".")] = ModuleTable({}, lambda module: None, is_open=True)
    _finder.tables.update({f"{policy.prefix}{name}": table for name, table in tables.items()})
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def find_tables(library: str) -> dict[str, ModuleTable]:
    """The modules of a library."""
    tables: dict[str, ModuleTable] = importlib.import_module(f"{__name__}.{library}").make_tables()
    return tables


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
    xl.use_backend("sim")
    for library in libraries:
        add_modules(find_tables(library))
    from xferlib._pretend import streams  # whose errors are in a program's own words

    checks.remedy_calls = streams.CupyCalls() if libraries[0] == "cupy" else streams.PycudaCalls()


def run(library: str, program: str, arguments: Sequence[str]) -> None:
    """Run a program, as ``python program.py`` does, with a pretended library, or several with commas between them."""
    import runpy
    from pathlib import Path

    from xferlib.sim.machine import CAN_GUARD, machine

    if not Path(program).exists():
        raise ArgumentError(f"pretend: there is no file {program!r}; give the path of a Python file")
    install(*library.split(","))
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(Path(program).resolve().parent))
    with xl.sim.check(guard=CAN_GUARD):
        try:
            names = runpy.run_path(program, run_name="__main__")
        except SystemExit:
            _wait_for_all(machine().devices)
            raise
        _wait_for_all(machine().devices)
        del names


def _wait_for_all(devices: Sequence[Device]) -> None:
    """Wait before the arrays of a program die with it: nothing uses their memory again."""
    for device in devices:
        xl.synchronize(device)
