"""Threads that stage copies: started at the first need, shared by all transfers.

NumPy releases the GIL while it copies, so that plain threads reach memory speed.
"""

from __future__ import annotations

import functools
import threading
from collections import deque

from xferlib._runtime import shutdown, thread_budget
from xferlib._runtime.fork import reset_in_child
from xferlib._runtime.handoff import OwnThread
from xferlib._runtime.interrupts import deferred
from xferlib._runtime.jobs import Job
from xferlib.errors import ClosedError

_EXITING = "the interpreter ends: xferlib starts no more transfers; end threads and transfers before"


class _Worker:
    """A thread of the pool, asleep on its own lock, so that waking it does not disturb the others."""

    __slots__ = ("job", "wake")

    def __init__(self) -> None:
        self.job: Job | None = None
        self.wake = threading.Lock()
        self.wake.acquire()


class Workers:
    """A pool of threads that take jobs in order; several may help with one job."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._asleep: list[_Worker] = []
        """Sleeping threads; the last to fall asleep is woken first, since its memory is warm."""
        self._wanted: deque[Job] = deque()
        """Waiting jobs, each once for every thread that it could use and does not have."""
        self._threads: list[threading.Thread] = []
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside
        self._is_closed = False

    def submit(self, job: Job, helpers: int) -> None:
        """Let up to ``helpers`` threads work on ``job``: sleeping ones, new ones, and those that become free."""
        if helpers <= 0:
            return
        with deferred:
            with self._lock:
                if self._is_closed:
                    raise ClosedError(_EXITING)
                woken = self._asleep[-helpers:]
                del self._asleep[-helpers:]
                self._wanted.extend([job] * (helpers - len(woken)))
            for worker in woken:
                worker.job = job
                worker.wake.release()
            if len(woken) < helpers:
                self._start(max(helpers, thread_budget.staging_threads_in_all()), helpers - len(woken))

    def run(self, job: Job) -> None:
        """Work on ``job`` in this thread too, and return when it is over; raises its error."""
        try:
            self.submit(job, job.helpers)
            job.help()
            job.wait()
        except BaseException as error:  # Ctrl-C: no thread may still touch the caller's memory
            job.cancel(error)
            job.wait()
            raise
        if job.error is not None:
            raise job.error

    def _start(self, most: int, count: int) -> None:
        """Start ``count`` threads, so that there are at most ``most``."""
        with self._lock:
            for _ in range(min(count, most - len(self._threads))):
                name = f"xferlib-{len(self._threads)}"
                thread = OwnThread(functools.partial(self._work, _Worker()), name)
                thread.start()
                self._threads.append(thread)

    def _work(self, worker: _Worker) -> None:
        while (job := self._next(worker)) is not None:
            job.help()
            del job  # or its arrays would live until the next job

    def _next(self, worker: _Worker) -> Job | None:
        """Return the thread's next job, sleeping until there is one; None at the end."""
        with self._lock:
            if self._wanted:
                return self._wanted.popleft()
            if self._is_closed:
                return None
            self._asleep.append(worker)
        worker.wake.acquire()
        job, worker.job = worker.job, None
        return job

    def close(self) -> None:
        """Cancel jobs that no thread has begun, finish the steps that are running, and end the threads."""
        with self._lock:
            self._is_closed = True
            threads, self._threads = self._threads, []
            asleep, self._asleep = self._asleep, []
            wanted = list(dict.fromkeys(self._wanted))
            self._wanted.clear()
        error = ClosedError(_EXITING)
        for job in wanted:
            job.cancel(error)
        for worker in asleep:
            worker.wake.release()
        for thread in threads:
            thread.join(timeout=10.0)  # a stream that never ends must not keep the interpreter


workers = Workers()
shutdown.register(workers.close)
reset_in_child(workers._reset)
