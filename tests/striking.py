"""Ctrl-C at any code location of the library where CPython looks for it."""

from __future__ import annotations

import dis
import functools
import gc
import inspect
import itertools
import os
import signal
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import xferlib as xl
from tests.sizes import IS_LONG
from xferlib.backends.base import deferred
from xferlib.testing import get_in_use_nbytes, lent_chunks, pending_count, settle_all

ROOT = Path(xl.__file__).parent
OURS = tuple(
    f"{ROOT / folder}/"
    for folder in (
        "_api",
        "_core",
        "_memory",
        "_native",
        "_pipeline",
        "_runtime",
        "_transfer",
        "backends",
        "kernels",
    )
)
STRIKES = 12 if IS_LONG else 3
"""Of each program, spread over its length; the first of them at another part of it in each test."""


@contextmanager
def python_s_handler() -> Iterator[Any]:
    """Give SIGINT Python's own handler: a shell starts what runs in the background with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


class Strike:
    """Lets SIGINT's handler run at the n-th place where CPython would call it: behind a call, and in a new frame.

    In the calling thread, in the library's own code. Python ignores what is raised in a ``__del__``, in the callback of
    a weak reference and in a generator that is closed, and leaves out an ``__exit__`` that is struck as it is entered
    (bpo-29988): there it strikes at the next place. So it does where CPython 3.14 looks for signals between the
    ``__enter__`` of a lock and the block that releases it: each of its ``with lock:`` may stay locked, in any program.
    """

    def __init__(self, at: int) -> None:
        self.at = at
        self.passed = 0
        self.struck = ""

    def run(self, program: Callable[[], Any]) -> Any:
        sys.setprofile(self._look)
        try:
            return program()
        finally:
            sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "c_return") or not _is_ours(frame.f_code.co_filename):
            return
        self.passed += 1
        if self.passed > self.at and not self.struck and not _is_ignored(frame, event):
            self.struck = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({event})"
            handler = signal.getsignal(signal.SIGINT)
            assert callable(handler)
            handler(signal.SIGINT, frame)


def _is_ours(file: str) -> bool:
    return file.startswith(OURS) and file != type(deferred).__enter__.__code__.co_filename


def _is_ignored(frame: FrameType | None, event: str) -> bool:
    if frame is not None and event == "call":  # a generator is entered when it is closed, too
        if frame.f_code.co_name == "__exit__" or frame.f_code.co_flags & inspect.CO_GENERATOR:
            return True
    if frame is not None and event == "c_return" and frame.f_lasti in _unguarded(frame.f_code):
        return True
    while frame is not None:
        if frame.f_code.co_name in ("__del__", "<genexpr>", "died") or frame.f_code.co_filename == weakref.__file__:
            return True
        frame = frame.f_back
    return False


@functools.cache
def _unguarded(code: CodeType) -> frozenset[int]:
    """The calls of an ``__enter__`` from which no exception reaches the ``__exit__``: those of CPython 3.14."""
    if sys.version_info[:2] != (3, 14):
        return frozenset()
    steps = list(itertools.pairwise(dis.get_instructions(code)))
    return frozenset(
        call.offset for load, call in steps if (load.opname, load.argrepr) == ("LOAD_SPECIAL", "__enter__")
    )


def held() -> list[Any]:
    """The objects that an operation might keep by mistake."""
    settle_all()  # transfers without a handle go on by themselves
    xl.synchronize()
    return [get_in_use_nbytes(), lent_chunks(), pending_count(), xl.current_stream().handle, str(xl.get_device())]


def struck_everywhere(
    program: Callable[[Callable[[Callable[[], Any]], Any]], int | None], strikes: int = STRIKES
) -> None:
    """Runs a program with a strike here and there.

    Args:
        program: Calls what it is given with whatever may be struck, and again after each KeyboardInterrupt; it says by
            an assertion what is wrong, and returns how many batches it has lost.
        strikes: Of the program, spread over its length.
    """
    xl.pinned_pool()  # which is made at its first use
    assert not program(lambda part: part())
    count, before = Strike(sys.maxsize), held()
    assert not program(count.run)
    times = 0
    step = max(1, count.passed // strikes)
    for at in range(sum(os.environ.get("PYTEST_CURRENT_TEST", "").encode()) % step, count.passed, step):
        strike = Strike(at)
        interrupts: list[str] = []

        def run(part: Callable[[], Any], strike: Strike = strike, interrupts: list[str] = interrupts) -> Any:
            while True:
                try:
                    return strike.run(part)
                except KeyboardInterrupt:
                    interrupts.append(strike.struck)
                    assert len(interrupts) == 1

        lost = program(run) or 0
        assert len(interrupts) == bool(strike.struck), strike.struck
        assert lost <= len(interrupts), strike.struck
        times += len(interrupts)
        if held() != before:
            gc.collect()  # an error that a job keeps holds the job
        found = held()
        assert found[1:] == before[1:], strike.struck
        assert all(now <= then for now, then in zip(found[0], before[0], strict=True)), strike.struck
    assert times or not count.passed  # no call in Python: C does all of it, and cannot be struck
