"""The end of the interpreter, while daemon threads use the library.

The obvious way is to do nothing: daemon threads end with the process. But after the exit handlers the main thread holds
the GIL, and a daemon thread that wants it is ended by ``pthread_exit`` (until Python 3.13). That unwinds its C++
frames, and the process aborts if one of them is ``noexcept``, as where torch takes the GIL back; or it destroys the
objects that the thread owns, and PyCUDA aborts if a context is among them. Joining the threads does not help either: a
user's daemon thread need never end. So before that, in an exit handler:

1. `finish` closes the seam: a daemon thread that then enters a backend parks, for ever and without the GIL, if it holds
   no lock. The backends' class is exchanged for that, so that an operation pays nothing before the end.
2. `finish` runs the registered steps: the library's own threads end, and threads that wait for them are woken. A thread
   that fails with an error of the library's parks.
3. `await_threads`, called by one of these steps, waits for threads inside the library or about to enter it, for a
   bounded time.

Left are threads in the user's own code, and those for which that time was too short: `_native/calls/ending.c` stops
one where it would abort the process, as every daemon thread stops from Python 3.14 on. Where it is not compiled, such a
thread aborts the process, as it does without this library.

No lock protects the state here. `_finisher` is set once, and each thread compares itself with it. `_forever` is locked
at import and never released: threads park by acquiring it. The tables are filled when modules are imported, and read by
the finisher alone.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, TypeVar

from xferlib._runtime import circumstances, leak
from xferlib.errors import XferError

T = TypeVar("T")

_INSIDE_S = 2.0
"""The longest wait for threads inside the library."""
_OUTSIDE_S = 0.1
"""The longest wait for threads that run elsewhere, and may enter the library."""
_LOOK_S = 0.0005

_PACKAGE = __package__.partition(".")[0]
_OWN = f"{_PACKAGE}._runtime.handoff"
"""The module of the library's own threads' first function: those threads end by themselves."""
_LOCKING = {
    f"{_PACKAGE}.{name}"
    for name in (
        "_core.defaults", "_core.registry", "_core.staging_hooks", "_memory.domains", "_memory.host",
        "_memory.in_flight", "_memory.pinned", "_memory.registration", "_memory.slab", "_memory.staging_ring",
        "_pipeline.batch", "_pipeline.chunk_ledger", "_pipeline.device_worker", "_pipeline.feed",
        "_pipeline.reader_feed", "_pipeline.rotation", "_pipeline.routing", "_pipeline.sequence_feed",
        "_pipeline.side_stream",
        "_pipeline.tree_upload", "_runtime.handoff", "_runtime.jobs", "_runtime.threads", "_api.trace.notes",
        "_api.trace.recorder", "_api.trace.staged_copy", "_api.trace.trace", "_transfer.compiled_staging",
        "_transfer.compiled_copies", "_transfer.host_copy", "_transfer.open_transfer", "_transfer.plan",
        "_transfer.staged",
    )
}  # fmt: skip
"""Modules that call a backend with a lock held, or within a step that other threads wait for: no thread parks there."""
_BELOW = (f"{_PACKAGE}.backends.", f"{_PACKAGE}.sim.", f"{_PACKAGE}.testing.fake", f"{_PACKAGE}._native")
"""The backends, which use themselves: such a use is no entry into the library."""

_seams: list[Callable[[], Iterable[Any]]] = []
_firsts: list[Callable[[], None]] = []
_steps: list[Callable[[], None]] = []
_forever = threading.Lock()
_forever.acquire()
leak.keep(_forever)  # a lock that dies is released
_parked: set[int] = set()
_finisher: int | None = None
"""The thread that ends the interpreter; None before the end."""


def register(step: Callable[[], None]) -> Callable[[], None]:
    """Call a function at the end, those registered last first, when the seam is closed."""
    _steps.append(step)
    return step


def close_at_end(backends: Callable[[], Iterable[Any]]) -> None:
    """Close the seam at the end: every use of the objects that ``backends`` returns then calls `_knock` first."""
    _seams.append(backends)


def call_first(step: Callable[[], None]) -> None:
    """Call a function at the end, before anything else, if there are other threads than the main one."""
    _firsts.append(step)


def living(table: weakref.WeakValueDictionary[int, T]) -> list[T]:
    """Return the objects of a table that other threads may add to; a `WeakSet` could not be read meanwhile."""
    return [each for each in (reference() for reference in table.valuerefs()) if each is not None]


def gate() -> None:
    """Park here if the interpreter ends; to be called before a lock is taken that is held while a backend is used."""
    if _finisher is not None and threading.get_ident() != _finisher:
        _park()


def _park() -> None:
    _parked.add(threading.get_ident())
    while True:
        _forever.acquire()


def _modules(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back


def _is_ours(module: str) -> bool:
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")


def _knock() -> None:
    """Park the calling thread, which uses a backend after the seam was closed, unless it may hold a lock."""
    if threading.get_ident() == _finisher:
        return
    modules = list(_modules(sys._getframe(2)))
    if _is_ours(modules[0]) and not modules[0].startswith(_BELOW) and _LOCKING.isdisjoint(modules):
        _park()


def _close(backend: Any) -> None:
    """Let every use of a backend call `_knock` first."""
    kind: Any = type(backend)

    def __getattribute__(self: Any, name: str) -> Any:  # noqa: N807 - of the class made below
        _knock()
        return kind.__getattribute__(self, name)

    try:
        backend.__class__ = type(kind.__name__, (kind,), {"__slots__": (), "__getattribute__": __getattribute__})
    except TypeError:  # a foreign backend, whose class cannot be exchanged: its threads are only waited for
        return


def _silence() -> None:
    """Park a thread that fails because the library has ended."""
    before = threading.excepthook

    def hook(what: threading.ExceptHookArgs) -> None:
        if what.exc_type is not None and issubclass(what.exc_type, XferError):
            gate()
        before(what)

    threading.excepthook = hook


def has_begun() -> bool:
    """Whether the interpreter ends, so that every thread must pass the seam, which calls in C alone do not."""
    return _finisher is not None


@atexit.register
def finish() -> None:
    """End everything; a second call is a no-op."""
    global _finisher
    if _finisher is not None:
        return
    _finisher = threading.get_ident()
    if len(sys._current_frames()) > 1:
        for step in _firsts:
            step()
    _silence()
    for backend in {id(part): part for backends in _seams for part in backends()}.values():
        _close(backend)
    circumstances.changed()
    while _steps:
        _steps.pop()()


def await_threads() -> None:
    """Wait until no other thread runs in the library or is about to enter it, for a bounded time."""
    start_s = time.monotonic()
    before: dict[int, tuple[int, int]] = {}
    while True:
        time.sleep(_LOOK_S)  # without the GIL
        inside, outside, before = _look(before)
        waited_s = time.monotonic() - start_s
        if waited_s > _INSIDE_S or not (inside or (outside and waited_s <= _OUTSIDE_S)):
            return


def _look(before: dict[int, tuple[int, int]]) -> tuple[bool, bool, dict[int, tuple[int, int]]]:
    """Return whether a thread is in the library, whether one runs elsewhere, and each thread's position."""
    inside = outside = False
    now: dict[int, tuple[int, int]] = {}
    for thread, frame in sys._current_frames().items():
        if thread == _finisher or thread in _parked:
            continue
        now[thread] = (id(frame), frame.f_lasti)
        runs = before.get(thread) != now[thread]
        modules = [each for each in _modules(frame) if each != "threading"]
        if any(map(_is_ours, modules)) and modules[-1] != _OWN:  # a user's thread, however far inside
            inside = True
        elif runs:
            outside = True
    return inside, outside, now
