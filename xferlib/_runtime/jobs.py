"""Jobs: numbered steps that several threads share, and a latch that opens when the last thread has left.

The obvious way is a future for each step in a pool of threads. Each future costs a lock and a condition, for a step
that may be short; the thread that waits sleeps instead of helping, and waits for ever if all threads of the pool wait
for it; and Ctrl-C ends the wait while other threads still touch the caller's memory.

So the steps are a counter, and any thread may come and take the next one: those of the pool, and each that waits.

Guaranteed:

- A step is taken at most once, and none after an error; the first error is kept.
- `finish` runs once, in the last thread to leave; then the latch opens. After `wait` no thread works on the job.
- A thread that comes is counted out again whatever strikes it: its stay lies inside `deferred`, and Ctrl-C during it
  becomes the job's error in `take`.
- What the maker of a job did happens-before its steps; a step happens-before what follows `wait`.

`_lock` protects the count of threads inside, whether one found nothing more to do, and whether the job is over. It is
held for a few assignments, never during a step or `finish`. `take` needs no lock: advancing the counter is atomic.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

from xferlib._runtime import callsite, happens_before
from xferlib._runtime.handoff import Handed
from xferlib._runtime.interrupts import deferred

_PATIENCE_S = 0.05
"""The longest time in seconds for which a wait may put off Ctrl-C."""


def _nothing(take: Callable[[], int]) -> None:
    """The work of a job that is over."""


class Job(Handed):
    """Numbered steps shared by whichever threads come; the first error stops the rest.

    ``work(take)`` runs in each thread that helps: it does step ``take()`` until that is negative.
    ``finish`` runs once, when the last thread has left.

    Attributes:
        helpers: The number of threads worth waking beside the one that waits for the job.
        is_over: Whether the last step has ended.
        run_slice: Does one slice of a job begun by `start`, and returns whether other threads do the rest.
        start: Begins the job without a Python thread; False, and nothing done, if that is impossible now. None: never.
    """

    __slots__ = (
        "_active", "_finish", "_has_left", "_is_over", "_latch", "_lock", "_next", "_work", "error",
        "helpers", "is_over", "run_slice", "site", "start", "steps",
    )  # fmt: skip

    def __init__(
        self,
        steps: int,
        work: Callable[[Callable[[], int]], None],
        *,
        helpers: int = 0,
        finish: Callable[[], None] | None = None,
    ) -> None:
        self.steps = steps
        self.helpers = helpers
        self.start: Callable[[], bool] | None = None
        self.run_slice: Callable[[], bool] | None = None
        self.error: BaseException | None = None
        self.site = callsite.user_site() if callsite.is_recorded or happens_before.listener else None
        self._work = work
        self._finish = finish
        self._next = itertools.count().__next__
        self._active = 0
        self._is_over = self.is_over = False
        self._has_left = False
        """Whether a thread has found nothing more to do, so that the last one to leave ends the job."""
        self._lock = threading.Lock()
        self._latch = threading.Lock()
        self._latch.acquire()
        self.hand_on()

    def take(self) -> int:
        """Take the next step and return its number; -1 when none is left, or after an error."""
        if deferred.is_noted and deferred.is_mine():
            self.error = self.error or KeyboardInterrupt()
        index = self._next()
        return index if index < self.steps and self.error is None else -1

    def help(self) -> None:
        """Do steps until none is left; never raises what a step raised: see `error`."""
        self._visit(self._do_steps, ends=True)

    def help_a_little(self) -> bool:
        """Do a little of a job that may have been begun by `start`; True if `help` would end it at once."""
        return self._visit(self._do_slice, ends=False) is not False

    def try_start(self) -> bool:
        """Begin without a Python thread; False, and nothing done, if that is impossible now or the job is over.

        Raises:
            Exception: The error of `start`; the job is unchanged.
        """
        return self._visit(lambda: self.start is not None and self.start(), ends=False) is True

    def _visit(self, part: Callable[[], bool], *, ends: bool) -> bool | None:
        """Do a part of the job; None if it is over. It does not end before this thread has left.

        Args:
            ends: The part leaves nothing to be done: the last thread to leave then ends the job.
        """
        with deferred:
            with self._lock:
                if self._is_over:
                    return None
                self._active += 1
            try:  # whatever happens from here on, the count goes down again: `wait` relies on it
                return part()
            finally:
                self._leave(ends=ends)

    def _do_steps(self) -> bool:
        try:
            self.take_over()
            if self.site is not None:
                callsite.inherited.site = self.site
            self._work(self.take)
        except BaseException as error:
            self.error = self.error or error
        return True

    def _do_slice(self) -> bool:
        try:
            return self.run_slice is None or self.run_slice()
        except BaseException as error:
            self.error = self.error or error
            return True

    def _leave(self, *, ends: bool) -> None:
        with self._lock:
            try:
                if ends:
                    self.hand_on()
            except BaseException as error:  # as of a step: the latch must open
                self.error = self.error or error
            finally:
                self._active -= 1
                self._has_left = self._has_left or ends
                is_last = self._active == 0 and self._has_left and not self._is_over
                self._is_over = self._is_over or is_last
        if is_last:
            self._close()

    def _close(self) -> None:
        try:
            if self._finish is not None:
                self.take_over()
                self._finish()
                self.hand_on()
        except BaseException as error:
            self.error = self.error or error
        finally:
            self._finish, self._work = None, _nothing  # whose closures hold arrays, and what holds this job
            self.start = self.run_slice = None
            self.is_over = True
            self._latch.release()

    def cancel(self, error: BaseException) -> None:
        """Stop before the next step; a job that no thread has begun ends here."""
        self.error = self.error or error
        self.help()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the last step has ended; False when the time ran out first."""
        if timeout_s is None:
            with self._latch:
                pass
        elif not self._is_over_within(timeout_s):
            return False
        self.take_over()
        return True

    def _is_over_within(self, timeout_s: float) -> bool:
        until_s = time.monotonic() + timeout_s
        while not self.is_over:
            left_s = until_s - time.monotonic()
            with deferred:  # or the latch might be acquired without being known to be
                if self._latch.acquire(timeout=min(max(left_s, 0.0), _PATIENCE_S)):
                    self._latch.release()
                    return True
            if left_s <= 0:
                return False
        return True


class Computation(Job):
    """A CPU-only job: it orders nothing, since it writes only to memory that the caller gave for it."""

    __slots__ = ()

    def hand_on(self) -> None:
        """No-op."""

    def take_over(self) -> None:
        """No-op."""
