"""Parts of the peers that say nothing about xferlib: a test that uses one is not applicable."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

import xferlib as xl

PREFIX = "not applicable: "


skipped_in_threads: list[str] = []
"""Names that threads of the running test have used: pytest sees only those of its own."""


def skip(name: str, *_: Any) -> NoReturn:
    if threading.current_thread() is not threading.main_thread():
        skipped_in_threads.append(name)
    raise pytest.skip.Exception(PREFIX + name)


def needs_compiler() -> None:
    """CUDA source runs everywhere, but for a CPU where NVRTC is not installed."""
    if lacks_compiler():
        skip("CUDA source without NVRTC")


def lacks_compiler(*_: Any, **__: Any) -> bool:
    return xl.get_device().kind != "cuda" and not _has_nvrtc()


@functools.cache
def _has_nvrtc() -> bool:
    try:
        from xferlib.backends.cuda import compiler

        compiler.version()
    except (ImportError, RuntimeError):
        return False
    return True


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


def guard(cls: type, members: str, applies: Callable[..., Any], reason: str) -> None:
    """Let a test end that uses a member of a class where that says nothing about xferlib.

    Args:
        cls: The class.
        members: Their names.
        applies: Whether it is so for an object and the arguments; of a property, for the object.
        reason: Why.
    """
    for member in members.split():
        setattr(cls, member, _guarded(inspect.getattr_static(cls, member), applies, reason))


def _guarded(own: Any, applies: Callable[..., Any], reason: str) -> Any:
    if isinstance(own, property):
        return property(lambda self: skip(reason) if applies(self) else own.fget(self), own.fset)  # type: ignore[misc]
    bound = isinstance(own, (classmethod, staticmethod))
    function = own.__func__ if bound else own

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        return skip(reason) if applies(*args, **options) else function(*args, **options)

    return type(own)(run) if bound else run
