"""Ctrl-C, put off while the main thread does what must not be left half done.

Python runs the signal's handler, which raises KeyboardInterrupt, in the main thread after any call. The obvious way to
undo half-done work is ``try``/``finally``. It does not help: the signal may strike between a call and the assignment of
its result (a chunk that is borrowed and not noted, a lock that is acquired and not known to be), or inside the
``finally``. Nor does blocking the signal in the main thread: another thread may receive it then, and Python runs the
handler in the main thread all the same.

So while `deferred` is entered, the handler is one that only notes the signal.

Guaranteed:

- A noted signal is passed, once, to the handler that was there before: at the end of the outermost ``with``, or by
  `check`, which is called where nothing is half done. One that comes while the end itself runs may be passed on at the
  end of the next ``with``.
- A handler that is set inside the ``with`` stays; where SIGINT is ignored or left to the system, nothing is exchanged.
- In any other thread than the main one, entering and leaving do nothing, since handlers run in the main thread alone.

No lock protects the state: only the main thread changes it. A signal that strikes ``__enter__`` before the exchange is
raised there, before anything has begun.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes enumerations of it all, at 20 us
import contextlib
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from xferlib._runtime.fork import reset_in_child


class _Deferred:
    """The context manager `deferred`, for any thread: signals concern the main one alone. It may be nested."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._main = threading.main_thread().ident
        self._depth = 0
        self._previous: Callable[[int, FrameType | None], Any] | None = None
        self.is_noted = False
        """Whether Ctrl-C has come."""

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.is_noted = True

    def __enter__(self) -> None:
        if not self.is_mine():
            return
        if not self._depth:
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):  # else Python raises nothing
                with contextlib.suppress(ValueError):  # in an interpreter beside the first one
                    signal.signal(signal.SIGINT, self._note)
                    self._previous = handler
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_mine():
            return
        self._depth -= 1
        if self._depth or self._previous is None:
            return
        previous, self._previous = self._previous, None
        is_noted, self.is_noted = self.is_noted, False
        if signal.getsignal(signal.SIGINT) == self._note:  # else the program has set another one meanwhile
            signal.signal(signal.SIGINT, previous)
        if is_noted:
            previous(signal.SIGINT, None)

    def is_mine(self) -> bool:
        """Whether Ctrl-C concerns the calling thread."""
        return threading.get_ident() == self._main

    def check(self) -> None:
        """Pass a noted Ctrl-C on now: nothing is half done here."""
        if self.is_noted and self._previous is not None and self.is_mine():
            self.is_noted = False
            self._previous(signal.SIGINT, None)


deferred = _Deferred()

reset_in_child(deferred._reset)
