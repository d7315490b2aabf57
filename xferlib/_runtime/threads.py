"""Threads that stage copies: started at the first need, shared by all transfers.

NumPy releases the GIL while it copies, so that plain threads reach memory speed.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes enumerations of it all, at 20 us
import functools
import itertools
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from xferlib._runtime import checks, happens_before, process
from xferlib._runtime.process import reset_in_child
from xferlib.errors import ClosedError

if TYPE_CHECKING:
    from queue import SimpleQueue


# Things that threads hand to each other, and the library's own threads.
#
# A queue, a lock or a latch orders two threads, but nothing outside Python can see it, and a race detector must know.
# The obvious way is a call to the detector beside each of them, which every author of a queue has to remember. So the
# calls are in what threads are handed: a `Handed` thing, a `HandoffQueue`, an `OwnThread`, and the latch of a
# `Job`.
#
# What a thread does before `hand_on` happens-before what another does after `take_over`. Where several hand a thing on,
# all of them do. On real devices there is no listener (`happens_before`), and a call is one look at it.

T = TypeVar("T")


def is_followed() -> bool:
    """Whether a race detector learns what threads hand to each other."""
    return happens_before.listener is not None


class Handed:
    """Something that threads use one after the other."""

    __slots__ = ("_mark",)

    _mark: object

    def hand_on(self) -> None:
        """Let another thread have it: to be called before that can see it."""
        if happens_before.listener is not None:
            self._mark = happens_before.listener.publish(getattr(self, "_mark", None))

    def take_over(self) -> None:
        """Go on with it: to be called before it is used."""
        if happens_before.listener is not None:
            happens_before.listener.acquire(getattr(self, "_mark", None))

    def follow(self, user: T, dead: deque[Death[T]]) -> Death[T]:
        """Hand it on when its user dies, in whichever thread; returns a reference that ``dead`` then receives.

        The death runs a C function, so that Ctrl-C comes before or after it: raised in Python it would be swallowed.
        """
        if happens_before.listener is None:
            reference = Death(user, dead.append)
        else:
            # When the interpreter ends, users die behind this module, whose names are None by then.
            def died(reference: weakref.ref[T], is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
                if not is_ending():
                    self.hand_on()
                    dead.append(cast("Death[T]", reference))

            reference = Death(user, died)
        reference.thing = self
        return reference


class Death(weakref.ref[T]):
    """A reference to the user of a thing, which tells the thing after the user's death."""

    __slots__ = ("thing",)

    thing: Handed


class HandoffQueue(Generic[T]):
    """A queue between threads."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        from queue import SimpleQueue  # here, for programs that only copy

        self._entries: SimpleQueue[tuple[T, Handed]] = SimpleQueue()

    def put(self, item: T) -> None:
        handed = Handed()
        handed.hand_on()
        self._entries.put((item, handed))

    def get(self) -> T:
        """Wait for the oldest item, and remove it."""
        item, handed = self._entries.get()
        handed.take_over()
        return item

    def clear(self) -> None:
        """Remove all that are there."""
        from queue import Empty

        try:
            while True:
                self._entries.get_nowait()
        except Empty:
            return


class OwnThread(threading.Thread):
    """A daemon thread of the library's own, which the simulator orders by what it is handed alone."""

    def __init__(self, work: Callable[[], object], name: str) -> None:
        super().__init__(target=work, name=name, daemon=True)

    def run(self) -> None:
        listener = happens_before.listener
        if listener is not None:
            listener.began()
        try:
            super().run()
        finally:
            if listener is not None:
                listener.note_end()


# Ctrl-C: what the library promises, and the critical sections in which it is put off.
#
# The promise: after KeyboardInterrupt nothing leaks, hangs or is corrupted. The interrupted call may have to be
# repeated, and a prefetcher may lose the batch that it was about to hand out.
#
# Python runs the signal's handler, which raises KeyboardInterrupt, in the main thread: after a call, at the start of a
# function, where a loop jumps back. Most code needs nothing for the promise: what an interrupted call has made dies
# with its frame, and an error's ``except`` or ``finally`` waits for copies that no event marks. It is not enough where
# two changes belong together (a chunk that is borrowed and not noted, a block that is taken from the pool and not
# counted): the signal may strike between the two, or inside the ``finally``. Nor does it help to block the signal in
# the main thread: another thread may receive it then, and Python runs the handler in the main thread all the same.
#
# So these critical sections, and no others, are inside ``with deferred:``, where the handler only notes the signal:
#
# - a thread's stay in a job, with the ring of chunks and the staging that it does there, and its waits;
# - the hand-over of a job to the thread pool;
# - the books of the pinned pool and of the registered pages;
# - the switch to another stream and back around a call into a library that follows the current one;
# - the hand-over of device memory to the guard that frees it (`backends/cuda/memory.py`);
# - the note of a transfer that the simulator puts off (`handle`);
# - the start of a feed's and a device's threads, the close of a feed, and the end of the threads of `stream_map`;
# - the begin of a capture, and its end;
# - the begin of an operation of MPI, and its note.
#
# The slabs and the objects in flight need none: each of their steps is whole by itself.
#
# Guaranteed:
#
# - A noted signal is passed to the handler that was there before, at the end of the outermost ``with``, or by `check`,
#   which is called where nothing is half done. Two that come close together may be passed on as one.
# - A handler that is set inside the ``with`` stays; where SIGINT is ignored or left to the system, nothing is
#   exchanged.
# - In any other thread than the main one, entering and leaving do nothing, since handlers run in the main thread alone.
#
# No lock protects the state: only the main thread changes it. `signal.signal` runs the old handler for what is pending
# before it exchanges them. So a signal that strikes ``__enter__`` before the exchange is raised there, before anything
# has begun; one that strikes ``__exit__`` is noted until the exchange, and `is_noted` is read after it.


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


# Jobs: numbered steps that several threads share, and a latch that opens when the last thread has left.
#
# The obvious way is a future for each step in a pool of threads. Each future costs a lock and a condition, for a step
# that may be short; the thread that waits sleeps instead of helping, and waits for ever if all threads of the pool wait
# for it; and Ctrl-C ends the wait while other threads still touch the caller's memory.
#
# So the steps are a counter, and any thread may come and take the next one: those of the pool, and each that waits.
#
# Guaranteed:
#
# - A step is taken at most once, and none after an error; the first error is kept.
# - `finish` runs once, in the last thread to leave; then the latch opens. After `wait` no thread works on the job.
# - A thread that comes is counted out again whatever strikes it: its stay lies inside `deferred`, and Ctrl-C during it
#   becomes the job's error in `take`.
# - What the maker of a job did happens-before its steps; a step happens-before what follows `wait`.
#
# `_lock` protects the count of threads inside, whether one found nothing more to do, and whether the job is over. It is
# held for a few assignments, never during a step or `finish`. `take` needs no lock: advancing the counter is atomic.

PATIENCE_S = 0.05
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
        self.site = checks.user_site() if checks.is_recorded or happens_before.listener else None
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
                checks.inherited.site = self.site
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
                if self._latch.acquire(timeout=min(max(left_s, 0.0), PATIENCE_S)):
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


# The number of threads that stage: from the setting ``threads`` and the cores that this process may use.


class Crew(NamedTuple):
    """The number of threads that stage, for each purpose."""

    each_way: int
    """Threads that fill or drain the staging buffers of one transfer, and of one direction."""
    both_ways: int
    """Helpers in both directions: few enough that the program's own threads find a core when they wake."""
    clearing: int
    """Threads that drain into memory that was never touched: the kernel clears a page in the thread that touches it."""
    fillers: int
    """Helper threads that spin briefly for the next fill before they sleep; 0: there are none."""


_MOST_EACH_WAY = 10


def crew() -> Crew:
    """Return the numbers of threads for a transfer that begins now."""
    return _crew(process.get().threads, usable_cores())


@functools.lru_cache(maxsize=8)
def _crew(wanted: int | None, cores: int) -> Crew:
    each_way = wanted or min(_MOST_EACH_WAY, cores)
    both_ways = min(2 * each_way, max(each_way, cores - 2))
    # On two cores of an H200's host 40 arrays of 3.7 MiB with four of torch's kernels took 29.6 ms without a helper,
    # 11.8 with one that sleeps, 10.5 with one that spins.
    fillers = min((wanted or cores) - 1, cores * 3 // 4, both_ways)
    return Crew(each_way, both_ways, wanted or cores, fillers)


def count_staging_threads() -> int:
    """Return the most threads that the pool has: enough for one transfer in each direction."""
    return 2 * crew().each_way


_CORES_S = 1.0
_cores: tuple[int, float] = (0, 0.0)


def usable_cores() -> int:
    """Count the cores that this process may use; cached for a second, since counting takes as long as a copy call."""
    global _cores
    found, until_s = _cores
    now_s = time.monotonic()
    if now_s >= until_s:
        found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
        _cores = (found, now_s + _CORES_S)
    return found


THREAD_NS = 100_000
"""The least computation for which a thread is woken; waking one and waiting for it takes 30 to 40 us."""


def helper_count(nanoseconds: float, blocks: int, most: int) -> int:
    """The number of threads to wake, beside the calling one, for this much computation in that number of blocks."""
    return max(0, min(blocks, most, int(nanoseconds / THREAD_NS)) - 1)


def most_threads() -> int:
    """The number of threads that may compute at a time."""
    return process.get().threads or usable_cores()


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
                self._start(max(helpers, count_staging_threads()), helpers - len(woken))

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
process.register(workers.close)
reset_in_child(workers._reset)


# Blocking calls in tasks of asyncio: a thread waits, and the event loop runs other tasks.

_END: Any = object()


def wait_in_task(call: Callable[[], T]) -> Generator[Any, None, T]:
    """Make a blocking call in a thread, with the task's context, and once more in the task, where it returns at once.

    What happens-before the call's end is known to the thread that makes it: the second call makes it known to the task.
    """
    import asyncio  # a program without it does not wait for its import

    yield from asyncio.to_thread(call).__await__()
    return call()


async def iterate_in_task(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, each fetched by a thread with the task's context."""
    import asyncio

    iterator = iter(items)
    while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
        yield item
