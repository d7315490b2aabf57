"""Jobs: numbered steps that several threads share, and a latch that opens when the last step has ended."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

from xferlib._runtime import callsite, happens_before
from xferlib._runtime.interrupts import deferred

_PATIENCE_S = 0.05
"""How long Ctrl-C may be put off by a wait."""


def _nothing(take: Callable[[], int]) -> None:
    """The work of a job that is over."""


class Job:
    """Numbered steps shared by whichever threads come; the first error stops the rest.

    ``work(take)`` runs in each thread that helps: it does step ``take()`` until that is negative.
    ``finish`` runs once, when the last thread has left.

    Attributes:
        helpers: How many threads are worth waking beside the one that waits for it.
        is_over: Whether the last step has ended.
        lap: Of a job that has been started so: does a little of it, and returns whether others do what is left.
        start: Begins it without any thread of Python's; False, and nothing done, if that cannot be now. None: never.
    """

    __slots__ = (
        "_active", "_finish", "_has_left", "_is_over", "_latch", "_lock", "_next", "_work", "error", "handover",
        "helpers", "is_over", "lap", "site", "start", "steps",
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
        self.lap: Callable[[], bool] | None = None
        self.error: BaseException | None = None
        self.handover: object = None
        self.site = callsite.user_site() if callsite.is_recorded or happens_before.listener else None
        self._work = work
        self._finish = finish
        self._next = itertools.count().__next__
        self._active = 0
        self._is_over = self.is_over = False
        self._has_left = False
        """Whether a thread found nothing more to do, so that the last one to leave ends the job."""
        self._lock = threading.Lock()
        self._latch = threading.Lock()
        self._latch.acquire()

    def take(self) -> int:
        """The number of a step that nobody has taken; -1 when there is none, or after an error."""
        if deferred.is_noted and deferred.is_mine():
            self.error = self.error or KeyboardInterrupt()
        index = self._next()
        return index if index < self.steps and self.error is None else -1

    def help(self) -> None:
        """Do steps until none is left; never raises what a step raised: see `error`."""
        self._visit(self._do_steps, ends=True)

    def help_a_little(self) -> bool:
        """Do some of a job that may have been started without Python's threads; whether `help` would end it at once."""
        return self._visit(self._do_lap, ends=False) is not False

    def try_start(self) -> bool:
        """Begin without any thread of Python's; False, and nothing done, if that cannot be now, or the job is over.

        Raises:
            Exception: Whatever `start` raised; the job is as it was.
        """
        return self._visit(lambda: self.start is not None and self.start(), ends=False) is True

    def _visit(self, part: Callable[[], bool], *, ends: bool) -> bool | None:
        """Do a part of the job; None if it is over. It does not end before this thread has left.

        Args:
            ends: Nothing is left to be done then: the last thread to leave ends the job.
        """
        with deferred:
            with self._lock:
                if self._is_over:
                    return None
                self._active += 1
            try:  # whatever happens from here on, the count goes down again: who waits for the job relies on it
                return part()
            finally:
                self._leave(ends=ends)

    def _do_steps(self) -> bool:
        try:
            self._taken()
            if self.site is not None:
                callsite.inherited.site = self.site
            self._work(self.take)
        except BaseException as error:
            self.error = self.error or error
        return True

    def _do_lap(self) -> bool:
        try:
            return self.lap is None or self.lap()
        except BaseException as error:
            self.error = self.error or error
            return True

    def _leave(self, *, ends: bool) -> None:
        with self._lock:
            try:
                if ends:
                    self._given()
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
                self._taken()
                self._finish()
                self._given()
        except BaseException as error:
            self.error = self.error or error
        finally:
            self._finish, self._work = None, _nothing  # whose closures hold arrays, and what holds this job
            self.start = self.lap = None
            self.is_over = True
            self._latch.release()

    def cancel(self, error: BaseException) -> None:
        """Stop before the next step; a job that nobody has begun ends here."""
        self.error = self.error or error
        self.help()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the last step has ended; False when the time ran out first."""
        if timeout_s is None:
            with self._latch:
                pass
        elif not self._is_over_within(timeout_s):
            return False
        self._taken()
        return True

    def _is_over_within(self, timeout_s: float) -> bool:
        until_s = time.monotonic() + timeout_s
        while not self.is_over:
            left_s = until_s - time.monotonic()
            with deferred:  # or nobody would know whether the latch was acquired
                if self._latch.acquire(timeout=min(max(left_s, 0.0), _PATIENCE_S)):
                    self._latch.release()
                    return True
            if left_s <= 0:
                return False
        return True

    def given(self) -> None:
        """Whatever the calling thread has done comes before what the job's threads do."""
        if self.handover is None:  # or its giver has said so before, when the transfer was started
            self._given()

    def _given(self) -> None:
        happens_before.given(self)

    def _taken(self) -> None:
        happens_before.taken(self)


class Computation(Job):
    """A job that is plain arithmetic: what its threads have done for a device before it orders nobody."""

    __slots__ = ()

    def _given(self) -> None:
        """Nothing but memory that the caller gave for it is written."""

    def _taken(self) -> None:
        """The caller has the same place on every clock after it as before."""
