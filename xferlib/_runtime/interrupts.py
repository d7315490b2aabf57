"""Ctrl-C: what the library promises, and the critical sections in which it is put off.

The promise: after KeyboardInterrupt nothing leaks, hangs or is corrupted. The interrupted call may have to be repeated,
and a prefetcher may lose the batch that it was about to hand out.

Python runs the signal's handler, which raises KeyboardInterrupt, in the main thread: after a call, at the start of a
function, where a loop jumps back. Most code needs nothing for the promise: what an interrupted call has made dies with
its frame, and an error's ``except`` or ``finally`` waits for copies that no event marks. It is not enough where two
changes belong together (a chunk that is borrowed and not noted, a block that is taken from the pool and not counted):
the signal may strike between the two, or inside the ``finally``. Nor does it help to block the signal in the main
thread: another thread may receive it then, and Python runs the handler in the main thread all the same.

So these critical sections, and no others, are inside ``with deferred:``, where the handler only notes the signal:

- a thread's stay in a job, with the ring of chunks and the staging that it does there (`jobs`), and its waits;
- the hand-over of a job to the thread pool (`threads`);
- the books of the pinned pool and of the registered pages;
- the switch to another stream and back around a call into a library that follows the current one;
- the hand-over of device memory to the guard that frees it (`backends/cuda/memory.py`);
- the note of a transfer that the simulator puts off (`handle`);
- the start of a feed's and a device's threads, and the end of those of `stream_map`;
- the begin of a capture, and its end;
- the begin of an operation of MPI, and its note.

The slabs and the objects in flight need none: each of their steps is whole by itself.

Guaranteed:

- A noted signal is passed to the handler that was there before, at the end of the outermost ``with``, or by `check`,
  which is called where nothing is half done. Two that come close together may be passed on as one.
- A handler that is set inside the ``with`` stays; where SIGINT is ignored or left to the system, nothing is exchanged.
- In any other thread than the main one, entering and leaving do nothing, since handlers run in the main thread alone.

No lock protects the state: only the main thread changes it. `signal.signal` runs the old handler for what is pending
before it exchanges them. So a signal that strikes ``__enter__`` before the exchange is raised there, before anything
has begun; one that strikes ``__exit__`` is noted until the exchange, and `is_noted` is read after it.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes enumerations of it all, at 20 us
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
            # Else Python raises nothing; or this is a finalizer that runs inside `__exit__`.
            if callable(handler) and handler != self._note:
                self.is_noted = False
                try:  # at a third of the time that `contextlib.suppress` takes
                    signal.signal(signal.SIGINT, self._note)
                    self._previous = handler
                except ValueError:  # in an interpreter beside the first one
                    pass
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
        if signal.getsignal(signal.SIGINT) == self._note:  # else the program has set another one meanwhile
            signal.signal(signal.SIGINT, previous)
        if self.is_noted:
            self.is_noted = False
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
