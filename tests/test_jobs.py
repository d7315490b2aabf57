"""Jobs shared by threads: every step once, errors, cancelling, Ctrl-C, the end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import xferlib as xl
from xferlib._runtime import threads as thread_budget
from xferlib._runtime.threads import Computation, Job, Workers
from xferlib.errors import ClosedError
from xferlib.testing import configured, cores, load_backend


@pytest.fixture
def workers() -> Any:
    pool = Workers()
    yield pool
    pool.close()


def _each(step: Callable[[int], Any]) -> Callable[[Callable[[], int]], None]:
    """Work that does ``step`` for every number taken."""

    def work(take: Callable[[], int]) -> None:
        while (index := take()) >= 0:
            step(index)

    return work


@pytest.mark.parametrize("helpers", [0, 1, 2, 3, 7, 12])
def test_every_step_is_done_exactly_once_and_finish_comes_last(workers: Workers, helpers: int) -> None:
    done: list[Any] = []
    job = Job(100, _each(done.append), helpers=helpers, finish=lambda: done.append("finish"))
    workers.run(job)
    assert sorted(done[:-1]) == list(range(100))
    assert done[-1] == "finish"
    assert job.is_over
    assert job.error is None


def test_threads_work_at_the_same_time(workers: Workers) -> None:
    barrier = threading.Barrier(3, timeout=60)
    workers.run(Job(3, _each(lambda index: barrier.wait()), helpers=2))


def test_a_job_without_steps_is_over_at_once(workers: Workers) -> None:
    finished: list[int] = []
    workers.run(Job(0, _each(finished.append), finish=lambda: finished.append(-1)))
    assert finished == [-1]


@pytest.mark.parametrize("helpers", [0, 3])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_the_first_error_stops_the_rest_and_is_raised(workers: Workers, helpers: int, error: Any) -> None:
    done: list[int] = []

    def step(index: int) -> None:
        if index == 3:
            raise error("at three")
        done.append(index)

    job = Job(10_000, _each(step), helpers=helpers)
    with pytest.raises(error, match="at three"):
        workers.run(job)
    assert job.is_over
    assert len(done) < 10_000
    count = len(done)
    workers.run(Job(5, _each(lambda index: None), helpers=helpers))
    assert len(done) == count  # no thread goes on after run() has returned


def test_an_error_of_finish_is_raised(workers: Workers) -> None:
    def fail() -> None:
        raise OSError("no event")

    with pytest.raises(OSError, match="no event"):
        workers.run(Job(2, _each(lambda index: None), finish=fail, helpers=1))


def test_a_submitted_job_can_be_waited_for_with_a_limit(workers: Workers) -> None:
    gate = threading.Event()
    job = Job(1, _each(lambda index: gate.wait(60)))
    workers.submit(job, 1)
    assert not job.wait(0)
    assert not job.wait(0.001)
    assert not job.is_over
    gate.set()
    assert job.wait(60)
    assert job.is_over


def test_a_cancelled_job_does_no_further_step(workers: Workers) -> None:
    job = Job(5, _each(lambda index: pytest.fail("a step ran")))
    job.cancel(ValueError("not wanted"))
    assert job.is_over
    assert str(job.error) == "not wanted"
    job.help()  # as a thread would that comes late


def test_finish_runs_once_however_many_come_late() -> None:
    finished: list[int] = []
    job = Job(1, _each(lambda index: None), finish=lambda: finished.append(1))
    for _ in range(3):
        job.help()
    assert finished == [1]


def test_a_closed_pool_takes_no_more_work(workers: Workers) -> None:
    gate = threading.Event()
    most = thread_budget.count_staging_threads()
    started = threading.Barrier(most + 1, timeout=60)
    done: list[int] = []

    def step(index: int) -> None:
        started.wait()
        gate.wait(60)
        done.append(index)

    running = Job(most, _each(step))
    workers.submit(running, most)
    started.wait()
    waiting = Job(3, _each(done.append))
    workers.submit(waiting, 1)
    closing = threading.Thread(target=workers.close)
    closing.start()
    assert waiting.wait(60)
    assert "the interpreter ends" in str(waiting.error)
    gate.set()
    closing.join(60)
    assert not closing.is_alive()
    assert sorted(done) == list(range(most))
    with pytest.raises(ClosedError, match="the interpreter ends"):
        workers.submit(Job(1, _each(lambda index: None)), 1)


def test_two_jobs_are_worked_on_at_once(workers: Workers) -> None:
    meeting = threading.Barrier(2, timeout=60)
    jobs = [Job(1, _each(lambda index: meeting.wait())) for _ in range(2)]
    for job in jobs:
        workers.submit(job, 1)
    assert all(job.wait(60) for job in jobs)
    assert [job.error for job in jobs] == [None, None]


def test_a_job_that_finds_every_thread_busy_is_done_when_one_comes_free(workers: Workers) -> None:
    gate = threading.Event()
    most = thread_budget.count_staging_threads()
    held = Job(most, _each(lambda index: gate.wait(60)))
    workers.submit(held, most)
    later = Job(1, _each(lambda index: None))
    workers.submit(later, most)
    assert not later.is_over
    gate.set()
    assert later.wait(60)
    assert held.wait(60)


def test_threads_are_used_again(workers: Workers) -> None:
    seen: set[int] = set()
    for _ in range(50):
        workers.run(Job(4, _each(lambda index: seen.add(threading.get_ident())), helpers=1))
    assert len(seen) <= 1 + thread_budget.count_staging_threads()
    assert len(workers._threads) <= thread_budget.count_staging_threads()


def test_a_job_lets_go_of_its_arrays_when_it_is_over(workers: Workers) -> None:
    import gc
    import weakref

    class Array:
        pass

    array = Array()
    seen = weakref.ref(array)
    job = Job(4, _each(lambda index, held=array: None), helpers=2)
    workers.run(job)
    del array, job
    for _ in range(4):  # a thread may still be on its way out of the job
        workers.run(Job(8, _each(lambda index: None), helpers=2))
    gc.collect()
    assert seen() is None


class _Held:
    """A part of a job that waits in the middle."""

    def __init__(self, gives: bool = True) -> None:
        self.calls = 0
        self.is_inside, self.may_leave = threading.Event(), threading.Event()
        self._gives = gives

    def __call__(self) -> bool:
        self.calls += 1
        self.is_inside.set()
        assert self.may_leave.wait(60)
        return self._gives


@pytest.mark.parametrize("name", ["start", "run_slice"])
def test_a_job_cancelled_while_a_thread_is_in_a_part_of_it_ends_when_that_thread_has_left(name: str) -> None:
    order: list[str] = []
    part = _Held()
    job = Job(1, _each(lambda index: order.append("step")), finish=lambda: order.append("finish"))
    setattr(job, name, part)
    inside = threading.Thread(target=job.try_start if name == "start" else job.help_a_little)
    inside.start()
    assert part.is_inside.wait(60)
    job.cancel(ValueError("stop"))
    assert not job.is_over
    assert not order
    part.may_leave.set()
    inside.join(60)
    assert job.is_over
    assert order == ["finish"]


@pytest.mark.parametrize("name", ["start", "run_slice"])
def test_no_part_of_a_job_is_begun_when_it_is_over(name: str) -> None:
    part = _Held()
    job = Job(1, _each(lambda index: None))
    setattr(job, name, part)
    job.cancel(ValueError("stop"))
    assert job.is_over
    assert (job.try_start(), job.help_a_little(), part.calls) == (False, True, 0)


def test_a_start_that_fails_leaves_the_job_to_be_done_otherwise() -> None:
    def start() -> bool:
        raise MemoryError

    done: list[int] = []
    job = Job(2, _each(done.append))
    job.start = start
    with pytest.raises(MemoryError):
        job.try_start()
    assert (job.is_over, job.error) == (False, None)
    job.help()
    assert (job.is_over, done) == (True, [0, 1])


def test_an_error_in_a_slice_is_the_jobs() -> None:
    def run_slice() -> bool:
        raise OSError("gone")

    job = Job(2, _each(lambda index: None))
    job.run_slice = run_slice
    assert job.help_a_little()
    assert isinstance(job.error, OSError)
    assert not job.is_over
    job.help()
    assert job.is_over


@pytest.mark.parametrize("kind", [Job, Computation])
def test_arithmetic_in_threads_orders_nothing_and_takes_no_time(workers: Workers, kind: type[Job]) -> None:
    backend: Any = load_backend("sim")
    xl.zeros(1, device="sim")  # which makes the simulator follow the library's threads
    hosts = backend.machine.hosts
    before, clock = hosts.main.time_ps, dict(hosts.main.clock)
    helped = threading.Event()

    def work(take: Callable[[], int]) -> None:
        while take() >= 0:
            if hosts.current() is hosts.main:
                assert helped.wait(60)
            else:  # as if the thread had waited for a copy that ended a second later
                hosts.current().time_ps = before + 10**12
                hosts.current().clock[987654321] = 1
                helped.set()

    workers.run(kind(2, work, helpers=1))
    is_ordered = kind is Job
    assert (hosts.main.time_ps == before + 10**12) == is_ordered
    assert (987654321 in hosts.main.clock) == is_ordered
    hosts.main.time_ps = before
    hosts.main.clock.clear()
    hosts.main.clock.update(clock)


# --- how many threads


@pytest.mark.parametrize(
    ("count", "threads", "crew"),
    [
        (1, None, (1, 1, 1, 0)),
        (2, None, (2, 2, 2, 1)),
        (8, None, (8, 8, 8, 6)),
        (16, None, (10, 14, 16, 12)),
        (32, None, (10, 20, 32, 20)),
        (16, 3, (3, 6, 3, 2)),
        (1, 5, (5, 5, 5, 0)),
        (2, 5, (5, 5, 5, 1)),
    ],
)
def test_the_threads_leave_cores_to_the_program_and_keep_to_what_is_set(
    count: int, threads: int | None, crew: tuple[int, ...]
) -> None:
    with cores(count), configured(threads=threads):
        assert thread_budget.crew() == crew


def test_the_cores_are_asked_for_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    found, now_s = [4], [100.0]
    monkeypatch.setattr(thread_budget, "_cores", (0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(found[0]), raising=False)
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    assert thread_budget.usable_cores() == 4
    found[0] = 2
    assert thread_budget.usable_cores() == 4
    now_s[0] += 1.5
    assert thread_budget.usable_cores() == 2
