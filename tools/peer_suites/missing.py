"""Names of the peers that xferlib has no part of: a test that uses one is not applicable."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
import threading
import types
from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

import xferlib as xl
from tools.peer_suites.adapting import SHIM

PREFIX = "not applicable: "


skipped_in_threads: list[str] = []
"""Names that threads of the running test have used: pytest sees only those of its own."""


def skip(name: str) -> NoReturn:
    if threading.current_thread() is not threading.main_thread():
        skipped_in_threads.append(name)
    raise pytest.skip.Exception(PREFIX + name)


def needs_compiler() -> None:
    """CUDA source runs everywhere, but for a CPU where NVRTC is not installed."""
    if xl.get_device().kind != "cuda" and not _has_nvrtc():
        skip("CUDA source without NVRTC")


@functools.cache
def _has_nvrtc() -> bool:
    try:
        from xferlib.backends.cuda import compiler

        compiler.version()
    except (ImportError, RuntimeError):
        return False
    return True


class Partial:
    """A class of a peer, of whose members xferlib has some: the use of any other ends the test."""

    __slots__ = ()
    peer_name = ""
    """The peer's name of the class, where it is another."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("own", "native", "_own", "_graph"):  # asked for before it is there
            raise AttributeError(name)
        skip(f"{self.peer_name or type(self).__name__}.{name}")


class Missing:
    """A name without a counterpart; any use of it ends the test."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **options: Any) -> NoReturn:
        skip(self._name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self._name}.{name}")

    def __enter__(self) -> NoReturn:
        skip(self._name)

    def __exit__(self, *error: object) -> None: ...

    def __iter__(self) -> NoReturn:
        skip(self._name)

    def __bool__(self) -> bool:
        return False

    def __instancecheck__(self, value: object) -> bool:
        skip(self._name)

    def __subclasscheck__(self, cls: type) -> bool:
        skip(self._name)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()


for _each in ("lt", "le", "gt", "ge", "add", "sub", "mul", "floordiv", "truediv", "index", "int", "getitem", "len"):
    setattr(Missing, f"__{_each}__", lambda self, *_: skip(self._name))


class Shim(types.ModuleType):
    """A module of a peer: the names that it was given, and `Missing` for all others."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.__name__.removeprefix(SHIM + '.')}.{name}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the modules of a peer, of which the shim knows some.

    Args:
        known: The names that have a counterpart, by module.
    """

    def __init__(self, known: dict[str, dict[str, Any]]) -> None:
        self._known = {SHIM: {}, **{f"{SHIM}.{name}": names for name, names in known.items()}}

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if name.split(".", maxsplit=1)[0] != SHIM:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Shim:
        return Shim(spec.name)

    def exec_module(self, module: Any) -> None:
        vars(module).update(self._known.get(module.__name__, {}))
        prefix = module.__name__ + "."
        for name in self._known:
            if name.startswith(prefix) and "." not in name[len(prefix) :]:
                setattr(module, name[len(prefix) :], importlib.import_module(name))


def install(known: dict[str, dict[str, Any]]) -> None:
    sys.meta_path.insert(0, Finder(known))
