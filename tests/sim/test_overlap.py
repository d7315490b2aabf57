"""Prefetching and mapping on the simulator: without a race, overlapped in virtual time, and safe whatever strikes."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.kernels.targets import need_nvrtc
from tests.sizes import IS_LONG, crossed, spread
from xferlib import sim
from xferlib.errors import DeviceLostError, DeviceMemoryError, PinnedMemoryError, TransferError
from xferlib.sim import machine as current
from xferlib.sim.backend import SimBackend
from xferlib.testing import cores

N = 530_000  # more than 2 MiB, so that batches travel on streams of their own where there is one core
FEW = 5
"""Batches of a program that is struck at each of its points, or taken for each of many: the three slots, and two of
them again."""
COUNT = 7 if IS_LONG else FEW
ITEMS, MEDIUM, SMALL = ([np.full(size, number, np.float32) for number in range(COUNT)] for size in (N, 270_000, 100))


@pytest.fixture(autouse=True)
def on_sim(request: pytest.FixtureRequest) -> Iterator[None]:
    """On one core of however many there are; on many where the source is to be staged as a whole."""
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    count = 16 if parameters.get("source") in (whole, whole_generated) else 1
    with cores(count), xl.use_backend("sim"):
        xl.trim()  # of programs that lack a wait: the library must take their memory as still in use
        yield


def pageable() -> Any:
    return ITEMS


def whole() -> Any:
    return ITEMS


def whole_generated() -> Iterator[Any]:
    memory = np.empty(N, np.float32)
    for number in range(COUNT):
        memory[:] = number
        yield memory


def small() -> Any:
    return SMALL


def medium() -> Any:
    return MEDIUM


def medium_generated() -> Iterator[Any]:
    memory = np.empty(70_000, np.float32)
    for number in range(COUNT):
        memory[:] = number
        yield memory


def medium_refilled() -> Iterator[Any]:
    memory = xl.pinned_empty(70_000, "float32")
    for number in range(COUNT):
        sim.writes(memory)
        memory[:] = number
        yield memory


def medium_swapped() -> Iterator[Any]:
    """Of other layouts and byte orders, and of sizes that grow."""
    memory = np.empty((400, 1000), ">f4")
    for number in range(COUNT):
        memory[:] = number
        yield memory[: 40 * (number + 3) : 2, ::3].T


def medium_pinned() -> Any:
    return [xl.pinned_array(item) for item in MEDIUM]


def medium_columns() -> Any:
    return [np.full((1000, 540), number, np.float32)[:, ::2] for number in range(COUNT)]


def pinned() -> Any:
    return [xl.pinned_array(item) for item in ITEMS]


def generated() -> Iterator[Any]:
    memory = np.empty(N, np.float32)
    for number in range(COUNT):
        memory[:] = number
        yield memory


def refilled() -> Iterator[Any]:
    memory = xl.pinned_empty(N, "float32")
    for number in range(COUNT):
        sim.writes(memory)
        memory[:] = number
        yield memory


def trees() -> Any:
    return [{"x": item, "t": item[:5]} for item in ITEMS]


def large() -> Iterator[Any]:
    """Large enough for threads to stage."""
    return (np.full(1 << 21, number, np.float32) for number in range(4))


def rewritten() -> Iterator[Any]:
    """Staged by threads, from memory that is filled again as soon as it may be."""
    memory = np.empty(5 << 18, np.float32)
    for number in range(COUNT):
        memory[:] = number
        yield memory


SCHEDULES = ["lazy", "lifo", "random", "eager"]
SOURCES = [
    pageable, whole, whole_generated, small, medium, medium_generated, medium_refilled, medium_swapped, medium_pinned,
    medium_columns, pinned, generated, refilled, trees, large,
]  # fmt: skip


def consume(source: Callable[[], Any], **options: Any) -> list[float]:
    found = []
    for batch in xl.prefetch(source(), **options):
        x = batch["x"] if isinstance(batch, dict) else batch
        x += 1.0
        found.append(float(xl.to_host(x).flat[-1]) - 1.0)
    return found


def summed(source: Callable[[], Any]) -> float:
    """The host waits at the end alone."""
    total = xl.zeros(source()[0].shape, "float32")
    for batch in xl.prefetch(source()):
        total += batch
    return float(xl.to_host(total)[-1])


def on_streams_in_turn(source: Callable[[], Any]) -> bool:
    """Each batch goes before its kernel has run, on another stream than the one before."""
    batches, sums = xl.prefetch(source()), []
    for _ in range(COUNT):
        stream = xl.Stream()
        with stream:
            sums.append((stream, next(batches) * 2.0))
    return all(float(xl.to_host(x, stream=s)[-1]) == 2.0 * number for number, (s, x) in enumerate(sums))


def doubled(batch: Any) -> Any:
    return {"x": batch["x"] * 1.0} if isinstance(batch, dict) else batch * 1.0


def mapped(**options: Any) -> Any:
    source = np.arange(60 * 3000, dtype=np.float32).reshape(60, 3000)
    return xl.stream_map(lambda chunk: chunk + 1.0, source, chunk_rows=7, **options)[:, 0]


ROWS = np.arange(0, 60 * 3000, 3000, dtype=np.float32) + 1.0


# --- without a race


@pytest.mark.parametrize(("schedule", "source"), crossed(2, SCHEDULES, SOURCES))
def test_every_source_is_prefetched_without_a_race_under_every_schedule(source: Any, schedule: str) -> None:
    with sim.check("raise", schedule=schedule):
        for options in ({}, {"depth": 1}, {"transform": doubled}, {"stream": xl.Stream()}):
            found = consume(source, **options)
            assert found == list(range(len(found)))
            assert len(found) == (4 if source is large else COUNT)


def images(number: int) -> dict[str, Any]:
    return {"x": np.full(600_000, number, np.float32), "mask": np.full(200_000, number, np.uint8), "t": np.arange(5)}


def listed_images() -> list[Any]:
    return [images(number) for number in range(COUNT)]


def pinned_images() -> list[Any]:
    return [{key: xl.pinned_array(value) for key, value in each.items()} for each in listed_images()]


def consumed_images(source: Callable[[], Any]) -> bool:
    with cores(16):  # where threads that spin stage them
        return consume(source) == list(range(COUNT))


def refilled_images() -> Iterator[Any]:
    """In the same pinned memory, again and again."""
    memory = {key: xl.pinned_array(value) for key, value in images(0).items()}
    for number in range(COUNT):
        for key, value in images(number).items():
            sim.writes(memory[key])
            memory[key][...] = value
        yield memory


@pytest.mark.parametrize("end", ["returns", "raises", "is left"])
def test_what_a_generator_writes_in_the_end_is_ordered_before_the_end_of_the_loop(end: str) -> None:
    memory = xl.pinned_zeros(100, "float32")

    def source() -> Iterator[Any]:
        try:
            yield from SMALL
        finally:
            sim.writes(memory)  # in the thread that reads ahead
        if end == "raises":
            raise ValueError

    with sim.check("raise"):
        with xl.prefetch(source()) as batches, contextlib.suppress(ValueError):
            for _ in batches:
                if end == "is left":
                    sim.writes(memory)  # the thread closes the generator behind it
                    break
        sim.writes(memory)
        xl.to_device(memory)


@pytest.mark.parametrize("items", [SMALL, ITEMS])
def test_what_a_generator_writes_in_the_end_is_not_ordered_with_what_the_loop_does_before(items: list[Any]) -> None:
    """Neither with the program's copies nor with its accesses beside the last batches."""
    copied, used = (xl.pinned_zeros(100, "float32") for _ in range(2))
    is_over = threading.Event()

    def source() -> Iterator[Any]:
        try:
            yield from items[:3]
        finally:
            sim.writes(copied)
            sim.writes(used)
            is_over.set()

    with sim.check("log") as found:
        xl.to_device(copied, stream=xl.Stream())
        batches = xl.prefetch(source(), depth=4)
        next(batches)
        sim.reads(used)
        for _ in batches:
            pass
        assert is_over.wait(60)
    pairs = [f"{race.first} {race.second}" for race in found.races]  # in either order
    assert [sum(f"{name} (" in pair for pair in pairs) for name in ("to_device", "reads", "writes")] == [1, 1, 2]


def test_pinned_memory_is_lent_again_behind_every_thread_that_wrote_it() -> None:
    is_over = threading.Event()
    lend = functools.partial(xl.pinned_empty, 100, "float32")
    before = [lend()]
    address = before[0].ctypes.data

    def source() -> Iterator[Any]:
        memory = before[0]
        try:
            yield from SMALL
        finally:
            sim.writes(memory)
            del memory
            is_over.set()

    with sim.check("raise"):
        batches = xl.prefetch(source())
        next(batches)
        del batches  # nothing waits for the thread
        assert is_over.wait(60)
        before.clear()
        again, line = lend(), line_here()
        assert again.ctypes.data == address
        sim.writes(again)
    with sim.check("log") as found, xl.Stream():
        xl.to_device(again, stream=xl.current_stream())
        sim.writes(again)
        xl.synchronize()
    assert [f"{__file__}:{line} " in race.memory for race in found.races] == [True]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_pinned_memory_is_lent_again_with_what_devices_still_do(schedule: str) -> None:
    """A raw kernel has its address, which the pool does not know of."""
    need_nvrtc()
    read = xl.raw_module('extern "C" __global__ void k(float *x, float *y) { *y = *x; }').get_function("k")
    with sim.check("log", schedule=schedule) as found:
        memory, y, stream = xl.pinned_zeros(100, "float32"), xl.zeros(1, "float32"), xl.Stream()
        stream.wait(xl.current_stream())
        address = memory.ctypes.data
        read(1, 1, (address, y), stream=stream)
        del memory
        again = xl.pinned_empty(100, "float32")
        assert again.ctypes.data == address
        sim.writes(again)
    assert len(found.races) == 1


def line_here() -> int:
    return sys._getframe(1).f_lineno


@pytest.mark.parametrize(("schedule", "source"), crossed(2, SCHEDULES, [listed_images, pinned_images, refilled_images]))
def test_batches_of_few_arrays_are_prefetched_without_a_race(source: Any, schedule: str) -> None:
    with cores(16), sim.check("raise", schedule=schedule):
        for options in ({}, {"depth": 1}, {"transform": lambda batch: batch | {"x": batch["x"] + batch["x"]}}):
            factor = 2 if "transform" in options else 1
            assert consume(source, **options) == [factor * number for number in range(COUNT)]
        streams = [xl.Stream() for _ in range(3)]
        batches = xl.prefetch(source())
        for number in range(COUNT):
            with streams[number % 3]:
                batch = next(batches)
                batch["x"][:200_000] += batch["mask"]
                assert list(xl.to_host(batch["x"])[[0, -1]]) == [2 * number, number]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "source", [small, medium, medium_pinned, pinned, pageable, whole], ids=lambda source: source.__name__
)
def test_the_consumer_may_change_streams_without_a_race(source: Any, schedule: str) -> None:
    with sim.check("raise", schedule=schedule):
        assert on_streams_in_turn(source)


def made_on_the_device() -> Iterator[Any]:
    """By kernels on the current stream of the thread that reads."""
    for number in range(COUNT):
        x = xl.zeros((N,), "float32")
        x += float(number)
        yield x


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_arrays_that_the_source_makes_on_the_device_are_copied_behind_its_work(schedule: str) -> None:
    with sim.check("raise", schedule=schedule):
        for options in ({}, {"depth": 1}, {"transform": doubled}, {"stream": xl.Stream()}):
            assert consume(made_on_the_device, **options) == list(range(COUNT))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_maps_are_without_a_race_under_every_schedule(schedule: str) -> None:
    with sim.check("raise", schedule=schedule):
        for devices in (None, ["sim:0", "sim:1"]):
            for depth in (1, 3):
                np.testing.assert_array_equal(mapped(devices=devices, depth=depth), ROWS)
        out = xl.pinned_empty((60, 3000), "float32")
        np.testing.assert_array_equal(mapped(out=out), ROWS)
        sim.reads(out)


def test_pinned_memory_that_another_thread_has_given_up_is_taken_over_without_a_race() -> None:
    addresses: list[int] = []
    given_up, may_end = threading.Event(), threading.Event()

    def source() -> Iterator[Any]:
        yield SMALL[0]
        memory = xl.pinned_empty(N, "float32")
        sim.writes(memory)
        memory[:] = 3
        addresses.append(memory.ctypes.data)
        del memory
        given_up.set()
        may_end.wait(60)

    with sim.check("raise"), xl.prefetch(source()) as batches:
        next(batches)
        assert given_up.wait(60)
        mine = xl.pinned_empty(N, "float32")
        assert mine.ctypes.data == addresses[0]
        try:
            assert float(xl.to_host(xl.to_device(mine))[-1]) == 3.0
        finally:
            may_end.set()


def nothing(self: SimBackend, *_: Any, **__: Any) -> None:
    """In place of a wait."""


@pytest.fixture
def no_memory_left() -> Iterator[None]:
    """Recycle no pinned block of a test that takes waits away: the next user would meet its unordered accesses."""
    yield
    for _ in range(4):  # each race that a missing wait has left, and that is found only now, ends one turn
        with contextlib.suppress(sim.RaceError):
            gc.collect()
            xl.trim()
            return
    pytest.fail("races are left after four turns")


@pytest.mark.parametrize(
    ("wait", "program"),
    [
        ("event_wait", lambda: consume(pageable) == list(range(COUNT))),
        ("event_wait", lambda: consume(large) == list(range(4))),
        ("event_wait", lambda: consume(medium) == list(range(COUNT))),
        ("event_wait", lambda: consume(medium_pinned) == list(range(COUNT))),
        ("event_wait", lambda: consume(medium_generated) == list(range(COUNT))),
        ("event_wait", lambda: consumed_images(listed_images)),
        ("note_use", lambda: on_streams_in_turn(medium)),
        ("event_wait", lambda: consume(pageable, transform=doubled) == list(range(COUNT))),
        ("stream_synchronize", lambda: consume(refilled) == list(range(COUNT))),
        ("event_synchronize", lambda: bool((mapped() == ROWS).all())),
        ("event_wait", lambda: bool((mapped() == ROWS).all())),
        ("event_wait", lambda: consume(pinned, depth=1) == list(range(COUNT))),
        ("note_use", lambda: summed(pageable) == sum(range(COUNT))),
    ],
)
def test_a_wait_that_is_taken_away_is_found_out(
    wait: str, program: Callable[[], bool], no_memory_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimBackend, wait, nothing)
    try:
        with sim.check("raise"):
            is_right = program()
    except (sim.RaceError, TransferError):
        is_right = False
    assert not is_right


@pytest.mark.parametrize("source", [whole, whole_generated], ids=lambda source: source.__name__)
def test_a_wait_for_what_is_staged_as_a_whole_is_missed(
    source: Any, no_memory_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sim.check("raise"):
        assert consume(source) == list(range(COUNT))
    monkeypatch.setattr(SimBackend, "event_wait", nothing)
    with pytest.raises((sim.RaceError, TransferError)), sim.check("raise"):
        consume(source)


# --- overlap


def looped(batches: Any) -> None:
    for batch in batches:
        for _ in range(10):
            batch += 1.0


def test_a_prefetched_loop_overlaps_in_virtual_time_and_the_plain_one_does_not() -> None:
    # Per batch on the profile's machine: 8 MiB take 151 us over the link, ten kernels of 16 MiB 64 us.
    items = [xl.pinned_array(np.full(1 << 21, number, np.float32)) for number in range(12)]
    with sim.timeline("h200") as plain:
        looped(xl.to_device(item) for item in items)
    with sim.timeline("h200") as prefetched:
        looped(xl.prefetch(items))
    assert plain.overlap() < 0.1
    assert prefetched.overlap() > 0.85
    assert prefetched.duration_s < 1.15 * max(prefetched.busy_s(sim.Lane.H2D), prefetched.busy_s(sim.Lane.KERNELS))
    assert plain.duration_s > 1.2 * prefetched.duration_s


def test_a_map_copies_both_ways_at_once_in_virtual_time() -> None:
    source, out = (xl.pinned_zeros((12, 1 << 20), "float32") for _ in range(2))
    with sim.timeline("h200") as t:
        xl.stream_map(lambda chunk: chunk, source, chunk_rows=2, out=out)
    up, down = t.busy_s(sim.Lane.H2D), t.busy_s(sim.Lane.D2H)
    assert t.duration_s < 0.75 * (up + down)


# --- whatever strikes


def persistent(prefetcher: xl.Prefetcher[Any], errors: tuple[type[BaseException], ...]) -> list[float]:
    """The batches of a consumer that retries after every error."""
    found: list[float] = []
    while True:
        try:
            batch = next(prefetcher)
        except StopIteration:
            return found
        except errors:
            continue
        x = batch["x"] if isinstance(batch, dict) else batch
        while True:
            try:
                found.append(float(xl.to_host(x).flat[-1]))
                break
            except errors:
                continue


MOMENTS = 25
"""Points of a run that are tried, about: its sources, and both numbers of devices, have most of the code in common."""

STRIKES: dict[str, tuple[type[BaseException], ...]] = {
    "out of memory": (DeviceMemoryError, TransferError),
    "out of pinned memory": (PinnedMemoryError, TransferError),
    "interrupt": (KeyboardInterrupt, TransferError),
}


def points(fault: str, program: Callable[[], Any]) -> int:
    with sim.faults(fault, at=1 << 40) as plan:
        program()
    return plan.passed


@pytest.mark.parametrize("fault", STRIKES)
@pytest.mark.parametrize(
    "source",
    [*(each for each in SOURCES if each not in (medium_refilled, refilled, large)), rewritten],
    ids=lambda source: source.__name__,
)
def test_a_fault_at_any_point_loses_no_batch_and_an_interrupt_one_at_most(source: Any, fault: str) -> None:
    given = source() if source in (pinned, medium_pinned) else None  # whose own memory is no part of this
    goes_ahead = "medium" in source.__name__ or "whole" in source.__name__
    transform = None if goes_ahead else doubled  # with one they go as others do

    def run() -> list[float]:
        batches = given if given is not None else source()
        few = batches[:FEW] if isinstance(batches, list) else itertools.islice(batches, FEW)
        return persistent(xl.prefetch(few, transform=transform), STRIKES[fault])

    count = points(fault, run)
    for at in spread(count, MOMENTS, source.__name__):
        xl.trim()
        with sim.faults(fault, at=at) as plan:
            found = run()
        assert found == sorted(set(found))
        assert len(found) >= FEW - (fault == "interrupt" and bool(plan.struck))
    assert_nothing_runs()


@pytest.mark.parametrize(
    "source", [pageable, whole, medium, generated, medium_generated], ids=lambda source: source.__name__
)
def test_a_device_lost_at_any_point_is_an_error_and_no_hang(source: Any) -> None:
    def run() -> None:
        with xl.prefetch(source()) as prefetcher:
            for batch in prefetcher:
                xl.to_host(batch)

    count = points("lost device", run)
    for at in spread(count, MOMENTS, source.__name__):
        with sim.faults("lost device", at=at) as plan:
            try:
                run()
                assert not plan.struck or plan.struck[0][0] > count // 2  # too late to matter
            except (DeviceLostError, TransferError):
                pass
    assert_nothing_runs()


@pytest.mark.parametrize("fault", STRIKES)
@pytest.mark.parametrize("devices", [1, 2])
def test_a_map_struck_at_any_point_is_resumed_to_the_same_bits(fault: str, devices: int) -> None:
    places = ["sim:0", "sim:1"][:devices]

    def run() -> None:
        rest: dict[str, Any] = {}
        for _ in range(10):
            try:
                np.testing.assert_array_equal(mapped(devices=places, **rest), ROWS)
                return
            except STRIKES[fault] as error:
                found: Any = error
                rest = {"start": found.rows_complete, "out": found.out}
        pytest.fail("struck once, failed ten times")

    count = points(fault, run)
    for at in spread(count, MOMENTS, fault):
        xl.trim()
        with sim.faults(fault, at=at):
            run()
    assert_nothing_runs()


def assert_nothing_runs() -> None:
    """Threads of prefetchers and maps end; one in a source that has just been left needs a moment."""
    for thread in threading.enumerate():
        if thread.name in ("xferlib-feed", "xferlib-drain"):
            thread.join(30.0)
            assert not thread.is_alive()


def in_use() -> int:
    """Bytes of the first device, after everything that has ended is freed."""
    xl.synchronize()
    for _ in range(2):
        xl.to_host(xl.to_device_async(SMALL[0]).result())  # looks at what has ended
    xl.trim()
    current.machine().raise_faults()
    return current.machine().memory.used.get(0, 0)


@pytest.mark.parametrize("count", [1, 16])
@pytest.mark.parametrize("source", [pageable, generated, trees], ids=lambda source: source.__name__)
def test_a_device_that_is_too_small_for_the_depth_is_used_as_far_as_it_goes(
    source: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = xl.zeros(N, "float32")
    small = replace(current.machine().settings, memory_nbytes=in_use() + 4 * N * 4)
    monkeypatch.setattr(current.machine(), "settings", small)
    with cores(count):
        for batch in xl.prefetch(source(), depth=5):
            x = batch["x"] if isinstance(batch, dict) else batch
            total += x
        xl.synchronize()
        del x, batch
    np.testing.assert_array_equal(xl.to_host(total), np.full(N, sum(range(COUNT)), np.float32))


@pytest.mark.parametrize(
    "source",
    [pageable, medium, medium_generated, medium_pinned, generated, large],
    ids=lambda source: source.__name__,
)
@pytest.mark.parametrize("has_failed", [False, True])
def test_a_consumer_that_stops_leaves_nothing_behind(source: Any, has_failed: bool) -> None:
    used = in_use()

    def consume() -> None:
        for number, _ in enumerate(xl.prefetch(source())):
            if number == 2:
                break
            if has_failed:
                raise ZeroDivisionError

    try:
        consume()
    except ZeroDivisionError:
        pass
    assert_nothing_runs()
    for _ in range(1000):  # a thread that was staging when the loop ended finishes its step first
        if in_use() <= used:  # what an earlier test left may have died meanwhile
            break
    assert in_use() <= used
