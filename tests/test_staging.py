"""`staging.c` and `ring.c`, with a driver that copies as late as it may: bits, chunks, blocks, threads, errors."""

from __future__ import annotations

import concurrent.futures
import ctypes
import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xferlib import _native
from xferlib.testing import assert_same_bits
from xferlib.testing.strategies import bits_of

CHUNK = 64
CONTEXT = 0xC0
pytestmark = pytest.mark.skipif(_native.load_library() is None, reason=f"staging in C: {_native.why_absent()}")


DEVICE = threading.RLock()
"""Held during a call of any driver."""


class Driver:
    """One stream: a copy is done when an event behind it is waited for, and not before.

    Args:
        fails_at: The number of the call that fails.
        events: Of the device, which streams that share a ring share.
    """

    def __init__(self, fails_at: int | None = None, events: dict[int, tuple[Driver, int]] | None = None) -> None:
        self.lock = threading.RLock()
        self.pending: list[tuple[int, int, int]] = []
        self.done = 0
        self.events = {} if events is None else events
        self.log: list[tuple[str, int]] = []
        self.calls = 0
        self.fails_at = fails_at
        self.refuses = False
        self.has_entered = threading.Event()
        self.bind()

    def bind(self) -> None:
        """The functions as C calls them."""
        word, pointer = ctypes.c_uint64, ctypes.c_void_p
        self.functions = {
            "copy": ctypes.CFUNCTYPE(ctypes.c_int, word, word, ctypes.c_size_t, pointer)(self.counted(self.copy)),
            "record": ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(self.counted(self.record)),
            "wait": ctypes.CFUNCTYPE(ctypes.c_int, pointer)(self.counted(self.wait)),
            "order": ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, ctypes.c_uint)(self.counted(self.order)),
            "enter": ctypes.CFUNCTYPE(ctypes.c_int, pointer)(self.enter),
        }

    def counted(self, call: Callable[..., None]) -> Callable[..., int]:
        def run(*args: int) -> int:
            with self.lock:
                self.calls += 1
                if self.calls - 1 == self.fails_at:
                    return 77
            with DEVICE:
                call(*args)
            return 0

        return run

    def enter(self, context: int) -> int:
        assert context == CONTEXT
        self.has_entered.set()
        return 78 if self.refuses else 0

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        self.pending.append((dst, src, nbytes))
        self.log.append(("copy", nbytes))

    def record(self, event: int, stream: int) -> None:
        self.events[event] = self, len(self.pending)
        self.log.append(("record", event))

    def wait(self, event: int) -> None:
        driver, count = self.events[event]
        driver.finish(count)

    def order(self, stream: int, event: int, flags: int) -> None:
        """Complete first, as a stream that waits for the event would."""
        self.wait(event)
        self.log.append(("order", event))

    def finish(self, count: int | None = None) -> None:
        with self.lock:
            while self.done < (len(self.pending) if count is None else count):
                ctypes.memmove(*self.pending[self.done])
                self.done += 1

    @property
    def sizes(self) -> list[int]:
        """Of the copies, in order."""
        return [nbytes for kind, nbytes in self.log if kind == "copy"]


class Ring:
    """A ring of small chunks."""

    def __init__(self, chunks: int, nbytes: int = CHUNK) -> None:
        self.nbytes = nbytes
        self.handle = _native.load_library().xf_ring_new()
        self.memory: list[Any] = []
        for _ in range(chunks):
            self.add()

    def add(self) -> None:
        """One chunk more; its event has the number of the chunk and one."""
        memory = np.full(self.nbytes, 0xA5, np.uint8)
        number = _native.load_library().xf_ring_add(self.handle, memory.ctypes.data, len(self.memory) + 1)
        assert number == len(self.memory)
        self.memory.append(memory)

    @property
    def lent(self) -> tuple[int, int]:
        library = _native.load_library()
        return library.xf_ring_lent(self.handle, 0), library.xf_ring_lent(self.handle, 1)

    @property
    def free(self) -> int:
        return int(_native.load_library().xf_ring_free(self.handle))

    def __del__(self) -> None:
        _native.load_library().xf_ring_close(self.handle)


def setup_of(driver: Driver, ring: Ring | None, *, up: bool, helpers: int = 0, **changed: Any) -> Any:
    """A setup for small blocks and pieces."""
    calls = {name: ctypes.cast(function, ctypes.c_void_p).value for name, function in driver.functions.items()}
    values: dict[str, Any] = {
        "ring": ring.handle if ring is not None else None, "stream": 1, "context": CONTEXT, "is_upward": up,
        "most_chunks": 8, "shared_chunks": 6, "way_chunks": 64, "first_block": 16, "largest_block": CHUNK,
        "block_parts": 4, "least_piece": 1, "most_piece": 16, "helper_nbytes": 1, "streamed_from": 0,
        "cached_from": 1 << 20, "shared_cached_from": 1 << 20,
        "spin_ns": 0, "each_way": helpers + 1, "clearing": helpers + 1, "both_ways": helpers + 1,
    }  # fmt: skip
    setup = _native.Setup(**{**calls, **values, **changed})
    setup.kept = driver, ring  # they live as long as it
    return setup


def region(host: Any, device: Any, *, unit: int = 1) -> Any:
    return _native.ArrayRegion(
        host=host.ctypes.data, device=device.ctypes.data, nbytes=host.size * host.itemsize, unit=unit
    )


def transfer(setup: Any, regions: Sequence[Any], *, threads: int = 1, slice_: int = 3, groups: int = 1) -> int:
    """One transfer by several Python threads, and helpers; its regions come in groups. Returns the driver's error."""
    library = _native.load_library()
    staging = library.xf_open(ctypes.byref(setup))
    each = max(-(-len(regions) // groups), 1)
    parts = [regions[start : start + each] for start in range(0, len(regions), each)]

    def add(part: Sequence[Any], *, is_last: bool) -> None:
        table = (_native.ArrayRegion * len(part))(*part)
        assert library.xf_add(staging, ctypes.byref(table), len(part), is_last, 0)

    add(parts[0], is_last=len(parts) == 1)

    def work() -> None:
        while library.xf_run(staging, slice_):
            pass

    others = [threading.Thread(target=work) for _ in range(threads - 1)]
    for other in others:
        other.start()
    for number, part in enumerate(parts[1:], 2):
        library.xf_run(staging, slice_)
        add(part, is_last=number == len(parts))
    work()
    for other in others:
        other.join()
    error: int = library.xf_end(staging)
    library.xf_close(staging, 0)
    return error


@settings(max_examples=200)
@given(
    nbytes=st.integers(1, 1000), piece=st.integers(1, CHUNK), chunks=st.integers(1, 9), threads=st.integers(1, 3),
    helpers=st.integers(0, 4), slice_=st.integers(1, 4), up=st.booleans(), spin_ns=st.sampled_from([0, 50_000]),
    most_chunks=st.integers(1, 8), unit=st.sampled_from([1, 2, 8, 16]), first=st.integers(1, CHUNK),
)  # fmt: skip
def test_every_byte_arrives_however_many_threads_and_chunks(
    nbytes: int, piece: int, chunks: int, threads: int, helpers: int, slice_: int, up: bool, spin_ns: int,
    most_chunks: int, unit: int, first: int,
) -> None:  # fmt: skip
    host, device = bits_of(nbytes, np.uint8, seed=nbytes), bits_of(nbytes, np.uint8, seed=piece)
    expected = (host if up else device).copy()
    driver, ring = Driver(), Ring(chunks)
    setup = setup_of(
        driver, ring, up=up, helpers=helpers, most_piece=piece, spin_ns=spin_ns, most_chunks=most_chunks,
        first_block=first,
    )  # fmt: skip
    cut = (ctypes.c_int64 * 5)()
    _native.load_library().xf_cut(ctypes.byref(setup), nbytes, unit, cut)
    assert not transfer(setup, [region(host, device, unit=unit)], threads=threads, slice_=slice_)
    assert list(cut[:3]) == [len(driver.sizes), cut[1] * (cut[1] in driver.sizes), max(driver.sizes)]
    assert 1 <= cut[3] <= helpers + 1
    driver.finish()
    assert_same_bits(host, expected)
    assert_same_bits(device, expected)
    assert ring.lent == (0, 0)
    assert ring.free == chunks


@settings(max_examples=200)
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=12), groups=st.integers(1, 5), chunks=st.integers(1, 4),
    helpers=st.integers(0, 3), threads=st.integers(1, 2), up=st.booleans(), unit=st.sampled_from([1, 4, 64]),
)  # fmt: skip
def test_regions_may_be_added_while_others_are_on_their_way(
    sizes: list[int], groups: int, chunks: int, helpers: int, threads: int, up: bool, unit: int
) -> None:
    hosts = [bits_of(nbytes, np.uint8, seed=number) for number, nbytes in enumerate(sizes)]
    devices = [bits_of(nbytes, np.uint8, seed=100 + number) for number, nbytes in enumerate(sizes)]
    expected = [each.copy() for each in (hosts if up else devices)]
    driver, ring = Driver(), Ring(chunks)
    regions = [region(host, device, unit=unit) for host, device in zip(hosts, devices, strict=True)]
    assert not transfer(setup_of(driver, ring, up=up, helpers=helpers), regions, threads=threads, groups=groups)
    driver.finish()
    for wanted, host, device in zip(expected, hosts, devices, strict=True):
        assert_same_bits(host, wanted)
        assert_same_bits(device, wanted)
    assert ring.lent == (0, 0)


@settings(max_examples=200)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 20)), min_size=1, max_size=12),
    piece=st.integers(1, CHUNK),
    chunks=st.integers(1, 4),
    helpers=st.integers(0, 3),
)
def test_memory_at_any_address_is_collected(
    sizes: list[tuple[int, int]], piece: int, chunks: int, helpers: int
) -> None:
    owners = [bits_of(nbytes, np.uint8, seed=number) for number, (nbytes, _) in enumerate(sizes)]
    places = list(itertools.accumulate((nbytes + gap for nbytes, gap in sizes), initial=0))
    total = places.pop() or 1
    parts = (_native.Part * len(sizes))(
        *[_native.Part(each.ctypes.data, place, each.size) for each, place in zip(owners, places, strict=True)]
    )
    device, driver = np.zeros(total, np.uint8), Driver()
    whole = _native.ArrayRegion(device=device.ctypes.data, nbytes=total, unit=1, part=parts, parts=len(parts))
    assert not transfer(setup_of(driver, Ring(chunks), up=True, helpers=helpers, most_piece=piece), [whole])
    driver.finish()
    for each, place in zip(owners, places, strict=True):
        assert_same_bits(device[place : place + each.size], each)


# --- blocks


@given(
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=5), unit=st.sampled_from([1, 3, 16, 64]), up=st.booleans()
)
def test_blocks_begin_at_units_fit_a_chunk_and_cover_their_regions(sizes: list[int], unit: int, up: bool) -> None:
    hosts = [np.zeros(nbytes, np.uint8) for nbytes in sizes]
    devices = [np.zeros(nbytes, np.uint8) for nbytes in sizes]
    driver, ring = Driver(), Ring(8, 512)
    setup = setup_of(driver, ring, up=up, first_block=32, largest_block=512)
    assert not transfer(setup, [region(*both, unit=unit) for both in zip(hosts, devices, strict=True)])
    seen: list[tuple[int, int]] = [((dst if up else src), nbytes) for dst, src, nbytes in driver.pending]
    for device in devices:
        mine = sorted(
            (at - device.ctypes.data, nbytes) for at, nbytes in seen if 0 <= at - device.ctypes.data < device.size
        )
        assert [at for at, _ in mine] == list(itertools.accumulate((nbytes for _, nbytes in mine), initial=0))[:-1]
        assert sum(nbytes for _, nbytes in mine) == device.size
        assert all(at % unit == 0 for at, _ in mine)
    assert max(driver.sizes) <= 512


@pytest.mark.parametrize("nbytes", [1 << 20, 3 << 20, (16 << 20) + 5, 64 << 20])
@pytest.mark.parametrize("up", [True, False])
def test_the_link_starts_early_and_little_is_left_at_the_end(nbytes: int, up: bool) -> None:
    driver, ring = Driver(), Ring(8, 8 << 20)
    host, device = np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    setup = setup_of(
        driver, ring, up=up, first_block=256 << 10, largest_block=8 << 20, most_piece=1 << 20, least_piece=128 << 10
    )
    assert not transfer(setup, [region(host, device, unit=64)])
    sizes = driver.sizes
    assert sizes[0] == 256 << 10
    assert all(two <= 2 * one for one, two in itertools.pairwise(sizes))
    assert max(sizes) <= max(nbytes // 4, 256 << 10)
    assert up or sizes[-1] <= 256 << 10
    assert len(sizes) <= 8 + nbytes // (4 << 20) + (0 if up else 8)


def test_no_more_chunks_are_held_than_a_transfer_may_have() -> None:
    held: list[tuple[int, int]] = []
    driver, ring = Driver(), Ring(8)
    copy = driver.copy

    def noted(*args: int) -> None:
        held.append(ring.lent)
        copy(*args)

    driver.copy = noted  # type: ignore[method-assign, assignment]
    driver.bind()
    host, device = bits_of(2000, np.uint8, seed=1), np.zeros(2000, np.uint8)
    for up in (True, False):
        assert not transfer(setup_of(driver, ring, up=up, helpers=3, most_chunks=3), [region(host, device)])
    assert max(max(each) for each in held) == 3
    assert not transfer(setup_of(driver, ring, up=False, way_chunks=1), [region(host, device)])
    assert ring.lent == (0, 0)


def test_a_chunk_that_a_copy_still_reads_is_waited_for_or_ordered() -> None:
    host, device, back = bits_of(50, np.uint8, seed=1), np.zeros(50, np.uint8), np.zeros(50, np.uint8)
    for order in (True, False):
        driver, ring = Driver(), Ring(1)
        assert not transfer(setup_of(driver, ring, up=True, first_block=CHUNK), [region(host, device)])
        driver.log.clear()
        changed: dict[str, Any] = {} if order else {"order": None}
        assert not transfer(setup_of(driver, ring, up=False, first_block=CHUNK, **changed), [region(back, device)])
        assert ("order", 1) in driver.log or not order
        assert_same_bits(back, host)
        assert not transfer(setup_of(driver, ring, up=True, first_block=CHUNK), [region(back[::-1].copy(), device)])
        assert not transfer(setup_of(driver, ring, up=True, first_block=CHUNK), [region(host, device)])
        driver.finish()
        assert_same_bits(device, host)


# --- several transfers


def test_transfers_in_both_directions_share_threads_and_chunks() -> None:
    host, device = bits_of(6000, np.uint8, seed=1), np.zeros(6000, np.uint8)
    back, home = np.zeros(6000, np.uint8), bits_of(6000, np.uint8, seed=2)
    for _ in range(20):
        device[:], back[:] = 0, 0
        events: dict[int, tuple[Driver, int]] = {}
        drivers, ring = (Driver(events=events), Driver(events=events)), Ring(4)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            errors = [
                pool.submit(
                    transfer,
                    setup_of(driver, ring, up=up, helpers=6, shared_chunks=2, most_piece=5),
                    [region(one, two)],
                    slice_=1,
                )
                for driver, up, one, two in ((drivers[0], True, host, device), (drivers[1], False, back, home))
            ]
            assert [each.result(60) for each in errors] == [0, 0]
        for driver in drivers:
            driver.finish()
        assert_same_bits(device, host)
        assert_same_bits(back, home)
        assert ring.lent == (0, 0)


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_more_transfers_than_chunks_all_end(chunks: int) -> None:
    ring, events = Ring(chunks), dict[int, tuple[Driver, int]]()

    def one(seed: int) -> bool:
        host, device, driver = bits_of(2000, np.uint8, seed=seed), np.zeros(2000, np.uint8), Driver(events=events)
        up = seed % 3 > 0
        expected = (host if up else device).copy()
        setup = setup_of(driver, ring, up=up, helpers=seed % 4, most_piece=7)
        assert not transfer(setup, [region(host, device)], groups=1)
        driver.finish()
        return bool((host == expected).all() and (device == expected).all())

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(one, range(60), timeout=120))
    assert ring.lent == (0, 0)


def test_a_transfer_without_chunks_works_for_one_that_has_them() -> None:
    """It holds the only chunk, and no thread is at work on it."""
    events: dict[int, tuple[Driver, int]] = {}
    ring, drivers = Ring(1), (Driver(events=events), Driver(events=events))
    hosts = [bits_of(500, np.uint8, seed=seed) for seed in (1, 2)]
    devices = [np.zeros(500, np.uint8) for _ in hosts]
    library = _native.load_library()
    first = library.xf_open(ctypes.byref(setup_of(drivers[0], ring, up=True, most_piece=4)))
    assert library.xf_add(first, ctypes.byref(region(hosts[0], devices[0])), 1, 1, 0)
    assert library.xf_run(first, 1)
    assert ring.lent == (0, 1)
    opened = ctypes.c_void_p()
    setup = setup_of(drivers[1], ring, up=True)
    error = library.xf_copy(ctypes.byref(setup), ctypes.byref(region(hosts[1], devices[1])), 1, ctypes.byref(opened))
    if error == _native.STARVED:
        while library.xf_run(opened, 16):
            pass
        error = library.xf_end(opened)
        library.xf_close(opened, 0)
    assert not error
    assert not library.xf_run(first, 1)  # the other one has done it all
    assert not library.xf_end(first)
    library.xf_close(first, 0)
    for driver, host, device in zip(drivers, hosts, devices, strict=True):
        driver.finish()
        assert_same_bits(device, host)
    assert ring.lent == (0, 0)


def test_a_copy_without_any_chunk_says_so_and_goes_on_with_one() -> None:
    ring, driver, library = Ring(0), Driver(), _native.load_library()
    host, device = bits_of(500, np.uint8, seed=1), np.zeros(500, np.uint8)
    opened = ctypes.c_void_p()
    setup = setup_of(driver, ring, up=True)
    error = library.xf_copy(ctypes.byref(setup), ctypes.byref(region(host, device)), 1, ctypes.byref(opened))
    assert error == _native.STARVED
    ring.add()
    while library.xf_run(opened, 16):
        pass
    assert not library.xf_end(opened)
    library.xf_close(opened, 0)
    driver.finish()
    assert_same_bits(device, host)


@given(pieces=st.integers(0, 20), up=st.booleans(), helpers=st.integers(0, 2))
def test_a_transfer_that_is_ended_early_gives_its_chunks_back(pieces: int, up: bool, helpers: int) -> None:
    ring, driver, library = Ring(4), Driver(), _native.load_library()
    host, device = bits_of(1000, np.uint8, seed=1), bits_of(1000, np.uint8, seed=2)
    staging = library.xf_open(ctypes.byref(setup_of(driver, ring, up=up, helpers=helpers)))
    assert library.xf_add(staging, ctypes.byref(region(host, device)), 1, 0, 0)
    library.xf_run(staging, pieces)
    assert not library.xf_end(staging)
    library.xf_close(staging, 0)
    assert ring.lent == (0, 0)
    assert ring.free == 4
    expected = host.copy()
    assert not transfer(setup_of(driver, ring, up=True), [region(host, device)])
    driver.finish()
    assert_same_bits(device, expected)


def test_chunks_that_the_device_may_use_for_ever_are_lost() -> None:
    ring, driver, library = Ring(4), Driver(), _native.load_library()
    host, device = bits_of(1000, np.uint8, seed=1), bits_of(1000, np.uint8, seed=2)
    staging = library.xf_open(ctypes.byref(setup_of(driver, ring, up=False, most_chunks=3)))
    assert library.xf_add(staging, ctypes.byref(region(host, device)), 1, 1, 0)
    library.xf_run(staging, 1)
    assert not library.xf_end(staging)
    library.xf_close(staging, 1)
    assert library.xf_ring_usable(ring.handle) == 1
    assert ring.lent == (0, 0)
    assert ring.free == 1
    assert _native.load_library().xf_ring_remove(ring.handle) == 3
    assert _native.load_library().xf_ring_remove(ring.handle) == -1


# --- errors, helpers, recordings


@settings(max_examples=200)
@given(fails_at=st.integers(0, 40), data=st.data())
def test_the_drivers_error_is_told_and_ends_the_transfer(fails_at: int, data: st.DataObject) -> None:
    chunks, threads, helpers, up = data.draw(
        st.tuples(st.integers(1, 9), st.integers(1, 3), st.integers(0, 4), st.booleans())
    )
    host, device = bits_of(1000, np.uint8, seed=1), bits_of(1000, np.uint8, seed=2)
    driver, ring = Driver(fails_at), Ring(chunks)
    setup = setup_of(driver, ring, up=up, helpers=helpers, most_piece=CHUNK)
    error = transfer(setup, [region(host, device)], threads=threads, slice_=2)
    assert error == (77 if driver.calls > fails_at else 0)
    if error and threads == 1 and not helpers:
        assert driver.calls == fails_at + 1  # nothing more was asked of a driver that has failed
    assert ring.lent == (0, 0)


def test_a_helper_that_cannot_enter_fails_the_transfer_and_touches_nothing() -> None:
    host, device = bits_of(1000, np.uint8, seed=1), np.zeros(1000, np.uint8)
    driver = Driver()
    driver.refuses = True
    copy = driver.copy

    def late(*args: int) -> None:
        assert driver.has_entered.wait(60)  # the one that conducts goes on when a helper has come
        copy(*args)

    driver.copy = late  # type: ignore[method-assign, assignment]
    driver.bind()
    setup = setup_of(driver, Ring(2), up=True, helpers=4, most_piece=1)
    assert transfer(setup, [region(host, device)], slice_=1) == 78


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_helpers_of_its_own() -> None:
    host, device = bits_of(5000, np.uint8, seed=1), np.zeros(5000, np.uint8)

    def send() -> int:
        driver = Driver()
        error = transfer(setup_of(driver, Ring(3), up=True, helpers=4, most_piece=7), [region(host, device)])
        driver.finish()
        return error

    assert not send()
    child = os.fork()
    if not child:
        device[:] = 0
        error = send()
        os._exit(0 if not error and (host == device).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@settings(max_examples=50)
@given(nbytes=st.integers(1, 2000), up=st.booleans(), helpers=st.integers(0, 3), groups=st.integers(1, 2))
def test_a_recording_learns_of_every_byte_and_of_both_ends(nbytes: int, up: bool, helpers: int, groups: int) -> None:
    host, device, driver, library = (
        np.zeros(nbytes, np.uint8),
        np.zeros(nbytes, np.uint8),
        Driver(),
        _native.load_library(),
    )
    setup = setup_of(driver, Ring(3), up=up, helpers=helpers, is_marked=1, before_first=1001, after_last=1002)
    staging = library.xf_open(ctypes.byref(setup))
    assert library.xf_add(staging, ctypes.byref(region(host, device)), 1, groups == 1, 0)
    while library.xf_run(staging, 3):
        pass
    if groups > 1:
        assert library.xf_add(staging, None, 0, True, 0)
    assert not library.xf_end(staging)
    marks = ctypes.POINTER(_native.Mark)()
    count = library.xf_marks(staging, ctypes.byref(marks))
    found = [marks[number] for number in range(count)]
    assert sum(each.nbytes for each in found) == nbytes
    assert all(0 < each.begun_ns <= each.ended_ns for each in found)
    assert {each.thread for each in found} <= {threading.get_ident(), *range(-20, 0)}
    library.xf_close(staging, 0)
    kinds = [entry for entry in driver.log if entry[0] == "copy" or entry[1] > 1000]
    assert kinds[0] == ("record", 1001)
    assert kinds[-1] == ("record", 1002)
    assert len(kinds) == len(driver.sizes) + 2


class _Stopped(Driver):
    """A driver that stops a transfer in the middle until it is let go, and tells which threads have entered."""

    def __init__(self, stops_in: str, let_go: threading.Event) -> None:
        self.entered: set[int] = set()
        self.changed = threading.Condition()
        self.stops_in = stops_in
        self.let_go = let_go
        super().__init__()

    def bind(self) -> None:
        stop = lambda *_: 0 if self.let_go.wait(60) else 1
        go_on = lambda *_: 0
        chosen = lambda name: stop if self.stops_in == name else go_on
        word, pointer = ctypes.c_uint64, ctypes.c_void_p
        self.functions = {
            "copy": ctypes.CFUNCTYPE(ctypes.c_int, word, word, ctypes.c_size_t, pointer)(chosen("copy")),
            "record": ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(go_on),
            "wait": ctypes.CFUNCTYPE(ctypes.c_int, pointer)(chosen("wait")),
            "enter": ctypes.CFUNCTYPE(ctypes.c_int, pointer)(self.enter),
        }

    def enter(self, context: int) -> int:
        with self.changed:
            self.entered.add(threading.get_ident())
            self.changed.notify_all()
        return 0

    def await_entered(self, is_enough: Callable[[], bool]) -> bool:
        with self.changed:
            return self.changed.wait_for(is_enough, 60)


def test_helpers_change_sides_when_the_other_direction_begins() -> None:
    """More of them in one direction than its share leave it for the other, which wants some."""
    fresh = multiprocessing.get_context("spawn").Process(target=_change_sides)  # with no threads of earlier tests
    fresh.start()
    fresh.join(120)
    assert fresh.exitcode == 0


def _change_sides() -> None:
    library, let_go = _native.load_library(), threading.Event()
    host = np.zeros(4 * CHUNK, np.uint8)
    rings = Ring(1), Ring(1)

    def opened(driver: _Stopped, ring: Ring, *, up: bool) -> Any:
        # Up to eight in one direction; six up and four down where both are at work.
        setup = setup_of(driver, ring, up=up, each_way=8, both_ways=8, largest_block=CHUNK, first_block=CHUNK)
        staging = library.xf_open(ctypes.byref(setup))
        assert library.xf_add(staging, ctypes.byref(region(host, host)), 1, 1, 0)
        return staging

    up, down = _Stopped("copy", let_go), _Stopped("wait", let_go)
    upward = opened(up, rings[0], up=True)
    try:
        assert up.await_entered(lambda: len(up.entered) == 7)
        downward = opened(down, rings[1], up=False)
        try:
            assert down.await_entered(lambda: bool(up.entered & down.entered))
        finally:
            let_go.set()
            library.xf_end(downward)
            library.xf_close(downward, 0)
    finally:
        let_go.set()
        library.xf_end(upward)
        library.xf_close(upward, 0)


# --- memory that one thread sends by itself


@given(nbytes=st.integers(0, 1 << 20), offset=st.integers(0, 100), helpers=st.integers(0, 3))
def test_memory_is_filled_alone_and_in_a_loop(nbytes: int, offset: int, helpers: int) -> None:
    source = bits_of(1 << 20, np.uint8, seed=3)[:nbytes]
    for _ in range(3):  # from the second on it may be a loop
        found = np.full(nbytes + offset + 100, 0xA5, np.uint8)
        _native.load_library().xf_fill(
            found.ctypes.data + offset, source.ctypes.data, nbytes, nbytes % 2, helpers, 8, 50_000
        )
        assert_same_bits(found[offset : offset + nbytes], source)
        assert (found[:offset] == 0xA5).all()
        assert (found[offset + nbytes :] == 0xA5).all()


@given(nbytes=st.integers(0, 1 << 20), offset=st.integers(0, 100), helpers=st.integers(0, 3), is_loop=st.booleans())
def test_memory_is_filled_while_the_caller_does_something_else(
    nbytes: int, offset: int, helpers: int, is_loop: bool
) -> None:
    source, library = bits_of(1 << 20, np.uint8, seed=4)[:nbytes], _native.load_library()
    found = np.full(nbytes + offset + 100, 0xA5, np.uint8)
    arguments = (found.ctypes.data + offset, source.ctypes.data, nbytes, nbytes % 2, helpers, 8, 50_000)
    if is_loop:
        library.xf_fill(*arguments)
        found[:] = 0xA5
    handle = library.xf_fill_begin(*arguments)
    if handle is None:  # one thread is as good
        assert nbytes <= 128 << 10 or not helpers
        assert (found == 0xA5).all()
        return
    library.xf_fill_end(handle)
    assert_same_bits(found[offset : offset + nbytes], source)
    assert (found[:offset] == 0xA5).all()
    assert (found[offset + nbytes :] == 0xA5).all()


@settings(max_examples=60)
@given(
    sizes=st.lists(st.one_of(st.integers(1, 90), st.integers(1, 200_000)), min_size=1, max_size=30),
    gaps=st.sampled_from((0, 7, 64)), cuts=st.lists(st.floats(0, 1), max_size=3), helpers=st.integers(0, 3),
    is_streamed=st.booleans(),
)  # fmt: skip
def test_arrays_are_collected_in_a_row_and_come_out_of_it_in_steps(
    sizes: list[int], gaps: int, cuts: list[float], helpers: int, is_streamed: bool
) -> None:
    library, places, end = _native.load_library(), [], 0
    for nbytes in sizes:
        places.append(end)
        end += nbytes + gaps
    sources, found = ([np.full(nbytes + 64, 0xA5, np.uint8) for nbytes in sizes] for _ in range(2))
    for number, (each, nbytes) in enumerate(zip(sources, sizes, strict=True)):
        each[:nbytes] = bits_of(nbytes, np.uint8, seed=number)
    tables = [
        (_native.Part * len(sizes))(
            *[
                _native.Part(host=a.ctypes.data, place=place, nbytes=n)
                for a, place, n in zip(some, places, sizes, strict=True)
            ]
        )
        for some in (sources, found)
    ]
    row = np.full(end + 64, 0x3C, np.uint8)
    bounds = sorted({0, end, *(int(cut * end) for cut in cuts)})
    for table, is_emptied in zip(tables, (0, 1), strict=True):
        for first, last in itertools.pairwise(bounds):
            start, address = row.ctypes.data + first, ctypes.addressof(table)
            options = is_emptied, is_streamed, helpers, 8, 50_000
            library.xf_fill_parts(start, address, len(sizes), first, last - first, *options)
    assert (row[end:] == 0x3C).all()
    for one, other in zip(sources, found, strict=True):
        assert_same_bits(one, other)


def test_threads_that_are_woken_for_a_transfer_that_does_not_come_sleep_again() -> None:
    """And for one that comes they copy the same bits."""
    library = _native.load_library()
    source = np.random.default_rng(1).integers(0, 256, 3 << 20, np.uint8)
    for number in range(20):
        target = np.zeros_like(source)
        library.xf_rouse(number % 4, 50_000)
        if number % 2:
            addresses = source.ctypes.data, target.ctypes.data
            library.xf_host_copy(None, *addresses, source.nbytes, 1, 1 << 16, 3, 4, 50_000)
            np.testing.assert_array_equal(target, source)
