"""Staging in C, with a driver that copies as late as it may; and what happens where it is not compiled."""

from __future__ import annotations

import concurrent.futures
import ctypes
import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib import _native
from xferlib._memory import host as _host
from xferlib._memory import staging_ring
from xferlib._native import build
from xferlib._transfer import cutting, partition, staged
from xferlib._transfer.compiled_copies import Filling
from xferlib._transfer.compiled_staging import _steps
from xferlib.backends.base import staging_failure
from xferlib.errors import TransferError
from xferlib.testing import (
    THRESHOLDS,
    assert_same_bits,
    backend_named,
    forced,
    fresh_staging,
    staging_stats,
)
from xferlib.testing.strategies import bits_of

pytestmark = pytest.mark.usefixtures("compiled_parts")

HERE = "fake:sim:0"
CHUNK = 64
CONTEXT = 0xC0
compiled = pytest.mark.skipif(_native.library() is None, reason=f"staging in C: {_native.why_absent()}")


class Driver:
    """One stream: a copy is done when an event behind it is waited for, and not before."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.lock = threading.RLock()
        self.pending: list[tuple[int, int, int]] = []
        self.done = 0
        self.events: dict[int, int] = {}
        self.calls = 0
        self.fails_at = fails_at
        self.refuses = False
        self.has_entered = threading.Event()
        self.bind()

    def bind(self) -> None:
        """The functions as C calls them."""
        word, pointer = ctypes.c_uint64, ctypes.c_void_p
        self.functions = (
            ctypes.CFUNCTYPE(ctypes.c_int, word, word, ctypes.c_size_t, pointer)(self.counted(self.copy)),
            ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(self.counted(self.record)),
            ctypes.CFUNCTYPE(ctypes.c_int, pointer)(self.counted(self.wait)),
            ctypes.CFUNCTYPE(ctypes.c_int, pointer)(self.enter),
        )

    def counted(self, call: Callable[..., None]) -> Callable[..., int]:
        def run(*args: int) -> int:
            with self.lock:
                self.calls += 1
                if self.calls - 1 == self.fails_at:
                    return 77
                call(*args)
                return 0

        return run

    def enter(self, context: int) -> int:
        assert context == CONTEXT
        self.has_entered.set()
        return 78 if self.refuses else 0

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        self.pending.append((dst, src, nbytes))

    def record(self, event: int, stream: int) -> None:
        self.events[event] = len(self.pending)

    def wait(self, event: int) -> None:
        self.finish(self.events[event])

    def finish(self, count: int | None = None) -> None:
        while self.done < (len(self.pending) if count is None else count):
            ctypes.memmove(*self.pending[self.done])
            self.done += 1


def _run(
    driver: Driver,
    host: Any,
    device: Any,
    *,
    limit: int,
    chunks: int,
    threads: int,
    helpers: int,
    slice_: int,
    up: bool,
    spin_ns: int = 0,
    shared: int = 0,
    parts: Any = None,
) -> int:
    """One transfer by several Python threads, and some of the library's; the driver's error.

    ``shared``: chunks that it may use beside a transfer the other way, which is open meanwhile; 0: there is none.
    ``parts``: what ``host`` is put together of.
    """
    offsets = [*range(0, host.size, CHUNK), host.size]
    shares = [limit] * (len(offsets) - 1)
    firsts = [0, *itertools.accumulate(-(-(end - start) // limit) for start, end in itertools.pairwise(offsets))]
    kept = [(ctypes.c_int64 * len(each))(*each) for each in (offsets, shares, firsts)]
    pinned = np.full(chunks * CHUNK, 0xA5, np.uint8)
    lent = (_native.Chunk * chunks)(*[_native.Chunk(pinned.ctypes.data + n * CHUNK, n + 1, 0) for n in range(chunks)])
    copy, record, wait, enter = (ctypes.cast(each, ctypes.c_void_p).value for each in driver.functions)
    setup = _native.Setup(
        host=host.ctypes.data, device=device.ctypes.data, offsets=kept[0], shares=kept[1], firsts=kept[2],
        loads=len(shares), chunks=lent, chunk_count=chunks, stream=1, copy=copy, record=record, wait=wait, enter=enter,
        context=CONTEXT, is_upward=up, shared_chunks=shared, spin_ns=spin_ns, parts=len(parts or ()), part=parts,
    )  # fmt: skip
    library = _native.library()
    opposite = _native.Setup(loads=1, chunk_count=0, is_upward=not up)
    beside = library.xf_open(ctypes.byref(opposite)) if shared else None
    staging = library.xf_open(ctypes.byref(setup))
    library.xf_help(staging, helpers, 3, 8)

    def work() -> None:
        while library.xf_run(staging, slice_, 0):
            pass

    others = [threading.Thread(target=work) for _ in range(threads - 1)]
    for other in others:
        other.start()
    work()
    for other in others:
        other.join()
    library.xf_end(staging)
    error: int = library.xf_error(staging)
    library.xf_close(staging)
    library.xf_close(beside)
    driver.finish()
    return error


_cases = given(
    nbytes=st.integers(1, 1000), limit=st.integers(1, CHUNK), chunks=st.integers(1, 9), threads=st.integers(1, 3),
    helpers=st.integers(0, 4), slice_=st.integers(1, 4), up=st.booleans(), spin_ns=st.sampled_from([0, 50_000]),
    shared=st.integers(0, 3),
)  # fmt: skip


@compiled
@settings(max_examples=200)
@_cases
def test_every_byte_arrives_however_many_threads_and_chunks(
    nbytes: int, limit: int, chunks: int, threads: int, helpers: int, slice_: int, up: bool, spin_ns: int, shared: int
) -> None:
    host, device = bits_of(nbytes, np.uint8, seed=nbytes), bits_of(nbytes, np.uint8, seed=limit)
    expected = (host if up else device).copy()
    how = {"limit": limit, "chunks": chunks, "threads": threads, "helpers": helpers, "slice_": slice_}
    assert not _run(Driver(), host, device, up=up, spin_ns=spin_ns, shared=shared, **how)
    assert_same_bits(host, expected)
    assert_same_bits(device, expected)


@compiled
@settings(max_examples=200)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 20)), min_size=1, max_size=12),
    limit=st.integers(1, CHUNK),
    chunks=st.integers(1, 4),
    helpers=st.integers(0, 3),
)
def test_memory_at_any_address_is_collected(
    sizes: list[tuple[int, int]], limit: int, chunks: int, helpers: int
) -> None:
    owners = [bits_of(nbytes, np.uint8, seed=number) for number, (nbytes, _) in enumerate(sizes)]
    places = list(itertools.accumulate((nbytes + gap for nbytes, gap in sizes), initial=0))
    total = places.pop() or 1
    parts = (_native.Part * len(sizes))(
        *[_native.Part(each.ctypes.data, place, each.size) for each, place in zip(owners, places, strict=True)]
    )
    device = np.zeros(total, np.uint8)
    how = {"limit": limit, "chunks": chunks, "threads": 1, "helpers": helpers, "slice_": 3}
    assert not _run(Driver(), np.zeros(total, np.uint8), device, up=True, parts=parts, **how)
    for each, place in zip(owners, places, strict=True):
        assert_same_bits(device[place : place + each.size], each)


@compiled
@given(nbytes=st.integers(0, 1 << 20), offset=st.integers(0, 100), helpers=st.integers(0, 3))
def test_memory_is_filled_alone_and_in_a_loop(nbytes: int, offset: int, helpers: int) -> None:
    source = bits_of(1 << 20, np.uint8, seed=3)[:nbytes]
    for _ in range(3):  # from the second on it may be a loop
        found = np.full(nbytes + offset + 100, 0xA5, np.uint8)
        _native.library().xf_fill(found.ctypes.data + offset, source.ctypes.data, nbytes, helpers, 3, 8)
        assert_same_bits(found[offset : offset + nbytes], source)
        assert (found[:offset] == 0xA5).all()
        assert (found[offset + nbytes :] == 0xA5).all()


@compiled
@given(nbytes=st.integers(0, 1 << 20), offset=st.integers(0, 100), helpers=st.integers(0, 3), is_loop=st.booleans())
def test_memory_is_filled_while_the_caller_does_something_else(
    nbytes: int, offset: int, helpers: int, is_loop: bool
) -> None:
    source, library = bits_of(1 << 20, np.uint8, seed=4)[:nbytes], _native.library()
    found = np.full(nbytes + offset + 100, 0xA5, np.uint8)
    arguments = (found.ctypes.data + offset, source.ctypes.data, nbytes, helpers, 3, 8)
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


@compiled
def test_a_filling_that_is_dropped_is_ended_before_its_memory_goes() -> None:
    for nbytes in (100, 300 << 10, 1 << 20):
        source, found = bits_of(nbytes, np.uint8, seed=nbytes), np.zeros(nbytes, np.uint8)
        filling = Filling(found.ctypes.data, source.ctypes.data, nbytes, source)
        del filling
        assert_same_bits(found, source)


class _Stopped:
    """A driver that stops a transfer in the middle until it is let go, and tells which threads have entered."""

    def __init__(self, stops_in: str, let_go: threading.Event) -> None:
        self.entered: set[int] = set()
        self.has_entered = threading.Condition()
        stop = lambda *_: 0 if let_go.wait(60) else 1
        go_on = lambda *_: 0
        word, pointer = ctypes.c_uint64, ctypes.c_void_p
        self.copy = ctypes.CFUNCTYPE(ctypes.c_int, word, word, ctypes.c_size_t, pointer)(
            stop if stops_in == "copy" else go_on
        )
        self.record = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(go_on)
        self.wait = ctypes.CFUNCTYPE(ctypes.c_int, pointer)(stop if stops_in == "wait" else go_on)
        self.enter = ctypes.CFUNCTYPE(ctypes.c_int, pointer)(self._enter)

    def _enter(self, context: int) -> int:
        with self.has_entered:
            self.entered.add(threading.get_ident())
            self.has_entered.notify_all()
        return 0

    def await_entered(self, is_enough: Callable[[], bool]) -> bool:
        with self.has_entered:
            return self.has_entered.wait_for(is_enough, 60)


@compiled
def test_helpers_change_sides_when_the_other_direction_begins() -> None:
    """More of them in one direction than its share leave it for the other, which wants some."""
    fresh = multiprocessing.get_context("spawn").Process(target=_change_sides)  # with no threads of earlier tests
    fresh.start()
    fresh.join(120)
    assert fresh.exitcode == 0


def _change_sides() -> None:
    library, let_go = _native.library(), threading.Event()
    host, pinned = np.zeros(4 * CHUNK, np.uint8), np.zeros(CHUNK, np.uint8)
    offsets = (ctypes.c_int64 * 5)(*range(0, 5 * CHUNK, CHUNK))
    shares, firsts = (ctypes.c_int64 * 4)(*[CHUNK] * 4), (ctypes.c_int64 * 5)(*range(5))

    def opened(driver: _Stopped, *, is_upward: bool) -> Any:
        functions = {
            name: ctypes.cast(getattr(driver, name), ctypes.c_void_p).value
            for name in ("copy", "record", "wait", "enter")
        }
        lent = (_native.Chunk * 1)(_native.Chunk(pinned.ctypes.data, 1, 0))
        setup = _native.Setup(
            host=host.ctypes.data, device=1, offsets=offsets, shares=shares, firsts=firsts, loads=4, chunks=lent,
            chunk_count=1, stream=1, context=CONTEXT, is_upward=is_upward, shared_chunks=1, **functions,
        )  # fmt: skip
        staging = library.xf_open(ctypes.byref(setup))
        library.xf_help(staging, 7, 7, 8)  # up to eight in one direction; six up and four down where both are at work
        return staging, lent

    up, down = _Stopped("copy", let_go), _Stopped("wait", let_go)
    upward, upward_chunks = opened(up, is_upward=True)
    try:
        assert up.await_entered(lambda: len(up.entered) == 7)
        downward, downward_chunks = opened(down, is_upward=False)
        try:
            assert down.await_entered(lambda: bool(up.entered & down.entered))
        finally:
            let_go.set()
            library.xf_end(downward)
            library.xf_close(downward)
    finally:
        let_go.set()
        library.xf_end(upward)
        library.xf_close(upward)
    del upward_chunks, downward_chunks


@compiled
def test_transfers_in_both_directions_share_threads_and_chunks() -> None:
    host, device = bits_of(6000, np.uint8, seed=1), np.zeros(6000, np.uint8)
    back, home = np.zeros(6000, np.uint8), bits_of(6000, np.uint8, seed=2)
    how: dict[str, Any] = {"limit": 5, "chunks": 4, "threads": 1, "helpers": 6, "slice_": 1, "shared": 2}
    for _ in range(20):
        device[:], back[:] = 0, 0
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            errors = [
                pool.submit(_run, Driver(), host, device, up=True, **how),
                pool.submit(_run, Driver(), back, home, up=False, **how),
            ]
            assert [each.result() for each in errors] == [0, 0]
        assert_same_bits(device, host)
        assert_same_bits(back, home)


@compiled
@settings(max_examples=200)
@given(fails_at=st.integers(0, 40), data=st.data())
def test_the_drivers_error_is_told_and_ends_the_transfer(fails_at: int, data: st.DataObject) -> None:
    chunks, threads, helpers, up = data.draw(
        st.tuples(st.integers(1, 9), st.integers(1, 3), st.integers(0, 4), st.booleans())
    )
    host, device = bits_of(1000, np.uint8, seed=1), bits_of(1000, np.uint8, seed=2)
    driver = Driver(fails_at)
    how = {"limit": CHUNK, "chunks": chunks, "threads": threads, "helpers": helpers, "slice_": 2}
    error = _run(driver, host, device, up=up, **how)
    assert error == (77 if driver.calls > fails_at else 0)
    if error and threads == 1 and not helpers:
        assert driver.calls == fails_at + 1  # nothing more was asked of a driver that has failed


def _staged() -> Any:
    return forced("staged", chunk_nbytes=1000)


@pytest.fixture
def ring(fake: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A ring of this test's own."""
    ring = staging_ring.Ring(fake)
    monkeypatch.setitem(staging_ring.rings.made, fake.pinned_domain, ring)
    yield ring
    fake.machine.failing = None
    ring.trim()


@compiled
def test_a_helper_that_cannot_enter_fails_the_transfer_and_touches_nothing() -> None:
    host, device = bits_of(1000, np.uint8, seed=1), np.zeros(1000, np.uint8)
    driver = Driver()
    driver.refuses = True
    copy = driver.copy

    def late(*args: int) -> None:
        assert driver.has_entered.wait(60)  # the one that conducts goes on when a helper has come
        copy(*args)

    driver.copy = late  # type: ignore[assignment,method-assign]
    driver.bind()
    assert _run(driver, host, device, limit=1, chunks=2, threads=1, helpers=4, slice_=1, up=True) == 78


@compiled
def test_helpers_of_several_transfers_at_once_and_more_wanted_than_there_are() -> None:
    def one(seed: int) -> bool:
        host, device = bits_of(5000, np.uint8, seed=seed), np.zeros(5000, np.uint8)
        how = {"limit": 7, "chunks": 3, "threads": 1, "helpers": 9, "slice_": 3}
        assert not _run(Driver(), host, device, up=True, **how)
        return bool((host == device).all())

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(one, range(60)))


@compiled
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_helpers_of_its_own() -> None:
    host, device = bits_of(5000, np.uint8, seed=1), np.zeros(5000, np.uint8)
    how = {"limit": 7, "chunks": 3, "threads": 1, "helpers": 4, "slice_": 3}
    _run(Driver(), host, device, up=True, **how)
    child = os.fork()
    if not child:
        driver, device[:] = Driver(), 0
        error = _run(driver, host, device, up=True, **how)
        os._exit(0 if not error and (host == device).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@given(
    units=st.integers(1, 5000), unit=st.sampled_from([1, 2, 4, 8, 16]), threads=st.integers(1, 20), up=st.booleans(),
    most=st.sampled_from([16, 100, 4096]),
)  # fmt: skip
def test_loads_cover_a_transfer_and_fit_a_chunk(units: int, unit: int, threads: int, up: bool, most: int) -> None:
    found = cutting.cut(units * unit, unit=unit, threads=threads, is_upward=up, most=most)
    loads = [end - start for start, end in itertools.pairwise(found.offsets)]
    sizes = list(found.sizes())
    assert (found.offsets[0], found.offsets[-1]) == (0, sum(sizes)) == (0, units * unit)
    assert all(0 < load <= min(THRESHOLDS.chunk_nbytes, 8 * most) for load in loads)
    assert all(0 < size <= most and size % unit == 0 for size in sizes)
    assert len(sizes) == found.firsts[-1]
    for load, share, (first, end) in zip(loads, found.shares, itertools.pairwise(found.firsts), strict=True):
        assert sizes[first:end] == [share] * (load // share) + ([load % share] if load % share else [])


@given(nbytes=st.integers(1, 200 << 20), threads=st.integers(1, 20))
def test_pieces_of_fresh_memory_are_whole_huge_pages(nbytes: int, threads: int) -> None:
    found = cutting.cut(nbytes, unit=1, threads=threads, is_upward=False, least=_host.HUGE)
    starts = list(itertools.accumulate(found.sizes(), initial=0))
    assert starts[-1] == found.offsets[-1] == nbytes
    assert all(start % _host.HUGE == 0 for start in starts[:-1])
    assert max(end - start for start, end in itertools.pairwise(found.offsets)) <= THRESHOLDS.chunk_nbytes


def test_results_on_fresh_pages_are_known_to_be() -> None:
    cache = _host.HostCache()
    fresh = cache.empty((10 << 20,), np.dtype("float32"))
    assert _host.is_fresh(fresh)
    assert partition.pieces(fresh, fresh.dtype).staged().least == _host.HUGE  # type: ignore[union-attr]
    del fresh
    for _ in range(3):  # a loop gets pages that are there
        again = cache.empty((10 << 20,), np.dtype("float32"))
        was_fresh = _host.is_fresh(again)
        del again
    assert not was_fresh
    ordinary = np.zeros(10)
    assert not _host.is_fresh(ordinary)
    assert not _host.is_fresh(ordinary[::2])
    assert partition.pieces(ordinary, ordinary.dtype).staged().least == 0  # type: ignore[union-attr]


def test_no_thread_waits_for_the_device_with_a_batch_that_may_wait_for_it() -> None:
    for nbytes in {*range(1 << 20, THRESHOLDS.one_borrow_nbytes, 123_457), THRESHOLDS.one_borrow_nbytes}:
        for unit in (1, 4, 16):
            found = cutting.cut(nbytes - nbytes % unit, unit=unit, threads=10, is_upward=True)
            assert len(found.shares) <= THRESHOLDS.transfer_chunks


@pytest.mark.parametrize("nbytes", [1 << 20, 3 << 20, (16 << 20) + 5, 64 << 20, 1 << 30])
def test_the_link_starts_early_and_little_is_left_at_the_end(nbytes: int) -> None:
    for up in (True, False):
        found = cutting.cut(nbytes, unit=1, threads=10, is_upward=up)
        loads = [end - start for start, end in itertools.pairwise(found.offsets)]
        assert loads[0] <= 256 << 10
        assert max(loads) <= max(nbytes // 4, 256 << 10)
        assert up or loads[-1] <= 256 << 10
        assert found is cutting.cut(nbytes, unit=1, threads=10, is_upward=up)  # a loop does not cut again


@compiled
def test_transfers_of_every_layout_are_staged_in_c(ring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    library = _native.library()

    class Noting:
        xf_open, xf_close, xf_error = library.xf_open, library.xf_close, library.xf_error
        xf_help, xf_end = library.xf_help, library.xf_end

        def xf_run(self, *args: Any) -> Any:
            seen.append(True)
            return library.xf_run(*args)

    noting = Noting()
    monkeypatch.setattr(_native, "_loaded", lambda: (noting, ""))
    x = bits_of(100_000, np.uint8, seed=1)
    for source in [
        x,
        x[::-1],
        x.view("f4")[::-1],
        x.reshape(100, -1)[::2, 3:70],
        x.view(">u2"),
        x.reshape(10, 100, 100)[::2, ::3, ::4],
    ]:
        seen.clear()
        with _staged():
            d = xl.to_device(source, device=HERE)
        assert seen, source.dtype
        assert_same_bits(xl.to_host(d), np.array(source, source.dtype.newbyteorder("="), order="C"))
    before = xl.configure(native="off")
    try:
        seen.clear()
        with _staged():
            assert_same_bits(xl.to_host(xl.to_device(x, device=HERE)), x)
        assert not seen
    finally:
        xl.configure(native=before.native)


@compiled
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 60), row_nbytes=st.integers(1, 40), gap=st.integers(0, 30), skip=st.integers(0, 15),
    chunk_nbytes=st.integers(1, 300), is_backwards=st.booleans(), itemsize=st.sampled_from([1, 2, 4, 8, 16]),
)  # fmt: skip
def test_rows_that_lie_apart_arrive_and_come_back(
    ring: Any, rows: int, row_nbytes: int, gap: int, skip: int, chunk_nbytes: int, is_backwards: bool, itemsize: int
) -> None:
    dtype = {1: "u1", 2: "u2", 4: "f4", 8: "f8", 16: "c16"}[itemsize]
    width = row_nbytes * itemsize
    memory = bits_of(skip + rows * (width + gap), np.uint8, seed=rows)

    def spread(bytes_: Any) -> Any:
        seen = np.ndarray((rows, row_nbytes), dtype, bytes_, skip, (width + gap, itemsize))
        return seen[::-1] if is_backwards else seen

    source, out = spread(memory), np.full_like(memory, 7)
    with forced("staged", chunk_nbytes=max(chunk_nbytes, itemsize)):
        d = xl.to_device(source, device=HERE)
        xl.to_host(d, out=spread(out))
    assert_same_bits(spread(out), source)
    untouched = np.ones(memory.size, bool)
    spread_mask = np.ndarray((rows, width), bool, untouched, skip, (width + gap, 1))
    spread_mask[...] = False
    assert (out[untouched] == 7).all()


@compiled
def test_chunks_come_back_after_success_and_after_failure(ring: Any) -> None:
    x = bits_of(100_000, np.uint8, seed=2)
    with _staged():
        d = xl.to_device(x, device=HERE)
        held = ring._free.qsize()
        assert held == THRESHOLDS.transfer_chunks
        backend_named("fake").machine.failing = OSError("the link is down")  # type: ignore[attr-defined]
        with pytest.raises(OSError, match="the link is down"):
            xl.to_device(x, out=d)
        with pytest.raises(OSError, match="the link is down"):
            xl.to_host(d)
        backend_named("fake").machine.failing = None  # type: ignore[attr-defined]
        assert ring._free.qsize() == held
        assert_same_bits(xl.to_host(xl.to_device(x, device=HERE)), x)


@compiled
def test_a_transfer_in_each_direction_has_chunks_of_its_own(ring: Any) -> None:
    x, y = bits_of(50_000, np.uint8, seed=3), np.zeros(50_000, np.uint8)
    with _staged():
        d = xl.to_device(x, device=HERE)
        up, down = xl.to_device_async(x[::-1].copy(), device=HERE), xl.to_host_async(d, out=y)
        assert_same_bits(down.result(), x)
        assert_same_bits(xl.to_host(up.result()), x[::-1])
    assert ring._count <= THRESHOLDS.ring_chunks


@compiled
def test_transfers_in_one_direction_leave_chunks_for_the_other(ring: Any, fake: Any) -> None:
    stream = fake.stream_current(xl.Device(HERE))
    lent = [ring.borrow(100, stream, is_upward=True) for _ in range(2)]
    assert [len(each) for each in lent] == [THRESHOLDS.transfer_chunks] * 2
    has_asked = threading.Event()

    class Watched(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            has_asked.set()
            return super().wait(timeout)

    ring.quota.changed = Watched()
    waits = threading.Thread(target=lambda: lent.append(ring.borrow(3, stream, is_upward=True)))
    waits.start()
    assert has_asked.wait(60)
    down = ring.borrow(100, stream, is_upward=False)
    assert len(down) == THRESHOLDS.ring_chunks - THRESHOLDS.one_way_chunks
    assert len(lent) == 2
    ring.give_back(lent[0], is_upward=True)
    waits.join(60)
    assert len(lent[2]) == 3
    for chunks in lent[1:]:
        ring.give_back(chunks, is_upward=True)
    ring.abandon(down, stream, is_upward=False)
    assert ring.quota.lent == {True: 0, False: 0}


@compiled
@pytest.mark.usefixtures("fake")
def test_one_chunk_is_enough() -> None:
    x = bits_of(30_000, np.uint8, seed=4)
    with fresh_staging(chunks=1), _staged():
        assert_same_bits(xl.to_host(xl.to_device(x, device=HERE)), x)
        transfers = [xl.to_device_async(x, device=HERE) for _ in range(5)]
        for transfer in transfers:
            assert_same_bits(xl.to_host(transfer.result()), x)
        assert staging_stats("fake").nbytes == THRESHOLDS.chunk_nbytes


def test_without_a_compiler_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_compiler", list)
    assert "no C compiler" in build.build(Path(_native.SOURCE), tmp_path / "staging.so", 1)
    assert not list(tmp_path.iterdir())


@compiled
def test_a_source_that_does_not_compile_leaves_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "staging.c"
    broken.write_text("int main(")
    assert "failed" in build.build(broken, tmp_path / "staging.so", 1)
    assert [each.name for each in tmp_path.iterdir()] == ["staging.c"]


@compiled
def test_a_library_of_another_source_is_not_used(tmp_path: Path) -> None:
    target = tmp_path / "staging.so"
    assert not build.build(Path(_native.SOURCE), target, 12345)
    with pytest.raises(OSError, match=r"another staging\.c; run python -m xferlib\._native\.build"):
        _native.load(target)


@pytest.mark.parametrize("native", ["on", "off"])
def test_the_setting_is_read_from_the_environment(native: str) -> None:
    code = "import xferlib as xl; print(xl._runtime.config.get().native)"
    environ = {**os.environ, "XFERLIB_NATIVE": native}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.strip() == native


def test_an_error_without_words_of_its_own_names_the_code() -> None:
    stream = backend_named("numpy").stream_current(xl.get_device("cpu"))
    assert isinstance(staging_failure(5, stream), TransferError)
    assert "code 5" in str(staging_failure(5, stream))


@compiled
@pytest.mark.parametrize("is_upward", [True, False])
def test_a_recording_learns_of_every_piece(ring: Any, is_upward: bool) -> None:
    x = bits_of(100_000, np.uint8, seed=6)
    d = xl.to_device(x, device=HERE)
    with _staged(), xl.trace() as found:
        if is_upward:
            xl.to_device(x, out=d)
        else:
            xl.to_host(d)
    kind = "h2d" if is_upward else "d2h"
    copies = [each for each in found.operations if each.kind == kind]
    steps = [each for each in found.operations if each.kind == "staging"]
    assert len(copies) == 1
    assert len(steps) >= 100
    assert copies[0].nbytes == sum(each.nbytes for each in steps) == x.nbytes
    assert all(each.file == __file__ and each.end_s >= each.start_s for each in [*copies, *steps])
    assert copies[0].is_timed
    here = {each.name for each in threading.enumerate()}
    assert {each.stream for each in steps} <= here | {f"xferlib-c{number}" for number in range(1, 21)}


@compiled
def test_a_transfer_that_cannot_begin_keeps_no_chunk(ring: Any, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = bits_of(100_000, np.uint8, seed=7)
    d = xl.to_device(x, device=HERE)
    with _staged():
        pieces = partition.pieces(np.empty_like(x), x.dtype)
    stream = fake.stream_current(d.device)
    lending = staged._lending(pieces, d.pointer, fake, stream, ring, None, is_upward=False)
    assert lending is not None
    monkeypatch.setattr(_native.library(), "xf_open", lambda setup: None)
    for _ in range(3):  # as the threads of one transfer would, one after the other
        with pytest.raises(MemoryError, match="state of a transfer"):
            lending._open(_native.library(), waits=True)
    lending._finish()
    assert ring._free.qsize() == ring._count == THRESHOLDS.transfer_chunks


def test_pieces_that_were_not_done_are_no_steps() -> None:
    marks = (_native.Mark * 3)(_native.Mark(1000, 3000, 1), _native.Mark(), _native.Mark(2000, 2500, -3))
    done = [(10, 1000 * 1e-9, 3000 * 1e-9, "b"), (30, 2000 * 1e-9, 2500 * 1e-9, "xferlib-c3")]
    assert _steps(marks, cutting.Cut((0, 20, 50), (10, 30), (0, 2, 3)), ["a", "b"]) == done
