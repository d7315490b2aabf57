"""The ring of staging chunks: when it grows, and when a chunk is used again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib import sim
from xferlib._memory import slab, staging_ring
from xferlib._runtime.handoff import Handed, OwnThread
from xferlib.errors import DeviceLostError, TransferError
from xferlib.testing import THRESHOLDS, assert_same_bits, forced, fresh_staging, native, staging_stats

pytestmark = pytest.mark.usefixtures("compiled_parts")


@pytest.fixture
def ring(fake: Any, monkeypatch: pytest.MonkeyPatch) -> staging_ring.Ring:
    ring = staging_ring.Ring(fake)
    monkeypatch.setitem(staging_ring.rings.made, fake.pinned_domain, ring)
    return ring


def _send(nbytes: int) -> tuple[np.ndarray[Any, Any], Any]:
    source = np.random.default_rng(0).integers(0, 256, nbytes, dtype=np.uint8)
    before = xl.configure(threads=1)
    try:
        with forced("staged", chunk_nbytes=64 << 10):
            return source, xl.to_device(source, backend="fake")
    finally:
        xl.configure(threads=before.threads)


def test_one_thread_fills_a_new_chunk_while_the_last_one_is_sent(ring: staging_ring.Ring) -> None:
    source, sent = _send(1 << 20)
    assert ring.nbytes > THRESHOLDS.chunk_nbytes
    assert ring.nbytes <= THRESHOLDS.ring_chunks * THRESHOLDS.chunk_nbytes
    assert_same_bits(xl.to_host(sent), source)


@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.usefixtures("fake")
def test_a_full_ring_fills_no_chunk_before_its_copy_is_done(chunks: int) -> None:
    with fresh_staging(chunks):
        source, sent = _send(2 << 20)
        assert staging_stats("fake").nbytes == chunks * THRESHOLDS.chunk_nbytes
        assert_same_bits(xl.to_host(sent), source)


def test_a_chunk_whose_copy_is_done_is_used_again(ring: staging_ring.Ring, fake: Any) -> None:
    stream = fake.stream_current(xl.get_device("fake"))
    target = xl.empty(16, np.uint8, device="fake")
    first = ring.acquire()
    first.copy(fake.view(target).pointer, first.pointer, 16, fake, stream)
    fake.stream_synchronize(stream)
    ring.release(first)
    assert ring.acquire() is first
    assert ring.nbytes == THRESHOLDS.chunk_nbytes


class _Watched:
    """A queue that says when a thread waits for it."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.is_waited_for = threading.Event()

    def get(self, **options: Any) -> Any:
        self.is_waited_for.set()
        return self._queue.get(**options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


def test_a_transfer_that_waited_gets_all_chunks_that_come_free(
    ring: staging_ring.Ring, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them would have to be filled and sent in turn, for as long as the transfer lasts."""
    monkeypatch.setattr(staging_ring, "RING_CHUNKS", 4)
    watched: Any = _Watched(ring._free)
    monkeypatch.setattr(ring, "_free", watched)
    stream = fake.stream_current(fake.device_current())
    lent = ring.borrow(4, stream, is_upward=True)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(ring.borrow(4, stream, is_upward=True)))
    thread.start()
    assert watched.is_waited_for.wait(30)
    ring.give_back(lent, is_upward=True)
    thread.join(30)
    assert {each.pointer for each in found} == {each.pointer for each in lent}
    assert len(found) == 4


def test_chunks_that_a_lost_device_may_still_use_are_used_no_more(
    ring: staging_ring.Ring, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = fake.stream_current(fake.device_current())
    chunks = [ring.acquire(), ring.acquire()]

    def lost(stream: Any) -> None:
        raise DeviceLostError("it is gone")

    monkeypatch.setattr(fake, "stream_synchronize", lost)
    with pytest.raises(DeviceLostError):
        ring.abandon(chunks, stream)
    monkeypatch.undo()
    others = [ring.acquire() for _ in range(THRESHOLDS.ring_chunks)]
    assert not {each.pointer for each in chunks} & {each.pointer for each in others}
    for each in others:
        ring.release(each)


def _batches() -> list[np.ndarray[Any, Any]]:
    return [np.full(5 << 20, number, np.uint8) for number in range(6)]


@pytest.mark.skipif(bool(native().why_no_staging), reason=f"staging in C: {native().why_no_staging}")
@pytest.mark.parametrize("chunks", [1, 2, 8])
@pytest.mark.parametrize("path", ["staged", None])
@pytest.mark.usefixtures("fake")
def test_a_thread_that_waits_for_chunks_ends_an_orphaned_job(chunks: int, path: str | None) -> None:
    """Batches on their way hold all the chunks, and their consumer sends something else."""
    other = np.random.default_rng(1).integers(0, 256, 5 << 20, dtype=np.uint8)
    batches = _batches()
    before = set(threading.enumerate())
    with fresh_staging(chunks), xl.prefetch(batches, device="fake:sim:0") as ahead:
        for number, batch in enumerate(ahead):
            assert "xferlib-feed" not in {each.name for each in {*threading.enumerate()} - before}
            with forced(path, chunk_nbytes=8 << 20):
                sent = xl.to_device(other, backend="fake", stream=xl.current_stream("fake:sim:0"))
            assert_same_bits(xl.to_host(sent), other)
            assert (xl.to_host(batch) == number).all()
        assert number == len(batches) - 1
        assert staging_stats("fake")[1:] == (0, 0)


@pytest.mark.skipif(bool(native().why_no_staging), reason=f"staging in C: {native().why_no_staging}")
def test_batches_that_are_not_taken_give_their_chunks_back(ring: staging_ring.Ring, fake: Any) -> None:
    for is_dropped in (True, False):
        ahead = xl.prefetch(_batches(), device="fake:sim:0")
        next(ahead)
        assert staging_stats("fake").orphaned
        if is_dropped:
            del ahead
        else:
            ahead.close()
        assert ring.quota.lent == {True: 0, False: 0}
        assert not ring.quota.orphans


@pytest.mark.skipif(bool(native().why_no_staging), reason=f"staging in C: {native().why_no_staging}")
def test_a_transfer_that_cannot_start_ahead_raises_when_its_batch_is_taken(
    ring: staging_ring.Ring, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*args: Any, **options: Any) -> Any:
        raise DeviceLostError("gone")

    monkeypatch.setattr(ring, "borrow", lost)
    ahead = xl.prefetch(_batches(), device="fake:sim:0")
    with pytest.raises(TransferError, match="gone"):
        next(ahead)
    monkeypatch.undo()
    assert (xl.to_host(next(ahead)) == 0).all()
    ahead.close()


class Own(OwnThread):
    """A thread of the library's own, which knows what the one that made it has waited for."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(self._do, "own")
        self._work = work
        self._begun = Handed()
        self._begun.hand_on()
        self.error: BaseException | None = None

    def _do(self) -> None:
        try:
            self._begun.take_over()
            self._work()
        except BaseException as error:
            self.error = error


@pytest.mark.parametrize("is_upload", [False, True])
def test_a_slab_comes_with_what_the_thread_that_had_it_waited_for(
    is_upload: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slab, "_idle_slabs", {})
    x = np.ones(10_000, np.float32)

    def copy(times: int, *, is_upload: bool) -> None:
        for _ in range(times):
            if is_upload:
                xl.to_device(x, device="sim:0", stream=stream)
            else:
                xl.to_host(d, stream=stream)

    with sim.check("raise"):
        d = xl.to_device(x, device="sim:0")
        xl.synchronize("sim:0")
        # Once round the slab, and from there on.
        works = [lambda: copy(27, is_upload=False), lambda: copy(1, is_upload=is_upload)]
        for thread in map(Own, works):
            stream = xl.Stream("sim:0")
            thread.start()
            thread.join()
            assert thread.error is None
    assert sum(map(len, slab._idle_slabs.values())) == 1  # the second had what the first had had


class Waited:
    """Memory that is given back after a wait, in which another thread adds some to ``table`` and takes what is left."""

    def __init__(self, table: dict[Any, Any], key: Any, added: Any) -> None:
        self.table, self.key, self.added = table, key, added

    def settle(self) -> int:
        thread = threading.Thread(target=self._interfere)
        thread.start()
        thread.join()
        return 1

    trim = settle

    def _interfere(self) -> None:
        self.table.setdefault(self.key, self.added)
        for left in self.table.values():
            if isinstance(left, list):
                left.clear()


def test_staging_memory_is_given_back_while_another_thread_adds_and_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    slabs: dict[Any, Any] = {}
    rings: dict[Any, Any] = {}
    slabs["one", 0] = [Waited(slabs, ("two", 0), []), Waited(slabs, ("three", 0), [])]
    rings["one"] = Waited(rings, "two", Waited(rings, "two", None))
    monkeypatch.setattr(slab, "_idle_slabs", slabs)
    monkeypatch.setattr(staging_ring.rings, "made", rings)
    assert slab.trim() + staging_ring.trim() == 2
    assert list(slabs) == [("one", 0), ("three", 0)]
    assert list(rings) == ["one", "two"]
