"""The rings of staging chunks, and the slabs of threads: when they grow, and when their memory is used again."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib import sim
from xferlib._memory import buffers as slab
from xferlib._runtime.threads import Handed, OwnThread
from xferlib.errors import DeviceLostError, PinnedMemoryError, TransferError
from xferlib.testing import THRESHOLDS, assert_same_bits, forced, fresh_staging, lent_chunks, native, staging_stats

pytestmark = pytest.mark.usefixtures("compiled_parts")
compiled = pytest.mark.skipif(bool(native().why_no_staging), reason=f"staging in C: {native().why_no_staging}")


def _send(nbytes: int) -> tuple[np.ndarray[Any, Any], Any]:
    source = np.random.default_rng(0).integers(0, 256, nbytes, dtype=np.uint8)
    before = xl.configure(threads=1)
    try:
        with forced("staged", chunk_nbytes=64 << 10):
            return source, xl.to_device(source, backend="fake")
    finally:
        xl.configure(threads=before.threads)


@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.usefixtures("fake")
def test_a_full_ring_fills_no_chunk_before_its_copy_is_done(chunks: int) -> None:
    with fresh_staging(chunks):
        source, sent = _send(2 << 20)
        assert staging_stats("fake").nbytes == chunks * THRESHOLDS.chunk_nbytes
        assert_same_bits(xl.to_host(sent), source)


@compiled
@pytest.mark.usefixtures("fake")
def test_a_ring_grows_with_what_is_sent_and_no_further_than_a_transfer_needs() -> None:
    with fresh_staging():
        seen = []
        for nbytes in (100 << 10, 1 << 20, 30 << 20, 60 << 20, 1 << 20):
            with forced("staged"):
                source = np.random.default_rng(0).integers(0, 256, nbytes, dtype=np.uint8)
                assert_same_bits(xl.to_host(xl.to_device(source, backend="fake")), source)
            seen.append(staging_stats("fake").nbytes // THRESHOLDS.chunk_nbytes)
        assert seen == sorted(seen)
        assert seen[0] < seen[-1] == THRESHOLDS.transfer_chunks


@compiled
def test_chunks_that_a_lost_device_may_still_use_are_used_no_more(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)

    def lost(stream: Any) -> None:
        raise DeviceLostError("it is gone")

    with fresh_staging(), forced("staged", chunk_nbytes=1000):
        d = xl.to_device(x, device="fake:sim:0")
        before = staging_stats("fake").nbytes
        with monkeypatch.context() as patch:
            patch.setattr(fake, "stream_synchronize", lost)
            fake.machine.failing = OSError("the link is down")
            with pytest.raises(DeviceLostError):
                xl.to_device(x, out=d)
            fake.machine.failing = None
        assert staging_stats("fake").nbytes < before
        assert staging_stats("fake")[1:] == (0, 0)
        assert_same_bits(xl.to_host(xl.to_device(x, device="fake:sim:0")), x)


@compiled
def test_a_device_that_refuses_more_pinned_memory_goes_on_with_the_chunks_there_are(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)

    def refuse(nbytes: int) -> Any:
        raise PinnedMemoryError("no more")

    with fresh_staging(), forced("staged", chunk_nbytes=1000):
        with monkeypatch.context() as patch:
            patch.setattr(fake, "pinned_alloc", refuse)
            with pytest.raises(PinnedMemoryError, match="no more"):
                xl.to_device(x, device="fake:sim:0")
        xl.to_device(x[:2000], device="fake:sim:0")
        held = staging_stats("fake").nbytes
        monkeypatch.setattr(fake, "pinned_alloc", refuse)
        assert_same_bits(xl.to_host(xl.to_device(x, device="fake:sim:0")), x)
        assert staging_stats("fake").nbytes == held


@compiled
def test_a_chunk_that_could_not_be_waited_for_is_never_freed(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number is given to a new chunk."""
    x = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)
    made, alloc = list[weakref.ref[Any]](), fake.pinned_alloc

    def allocate(nbytes: int) -> Any:
        block = alloc(nbytes)
        made.append(weakref.ref(block))
        return block

    def strike(event: Any) -> None:
        raise KeyboardInterrupt

    with fresh_staging(), forced("staged", chunk_nbytes=1000):
        monkeypatch.setattr(fake, "pinned_alloc", allocate)
        d = xl.to_device(x, device="fake:sim:0")
        (first, *_) = made
        with monkeypatch.context() as patch:
            patch.setattr(fake, "event_synchronize", strike)
            with pytest.raises(KeyboardInterrupt):
                slab.trim_rings()
        for _ in range(2):
            assert_same_bits(xl.to_host(d), x)
            assert_same_bits(xl.to_host(xl.to_device(x, device="fake:sim:0")), x)
            slab.trim_rings()
        gc.collect()
        assert first() is not None


@compiled
def test_a_ring_whose_chunks_are_all_lost_says_so(fake: Any) -> None:
    x = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)
    library, number, pointer = sys.modules["xferlib._native"].load_library(), ctypes.c_int64, ctypes.c_void_p
    take = ctypes.CFUNCTYPE(pointer, pointer, ctypes.c_int, number, number)(("xf_ring_take", library))
    lose = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int)(("xf_ring_lose", library))
    with fresh_staging(), forced("staged", chunk_nbytes=1000):
        stream, d = xl.current_stream("fake:sim:0"), xl.to_device(x, device="fake:sim:0")
        (ring,) = slab.rings.made.values()
        for _ in range(100):
            with contextlib.suppress(PinnedMemoryError):
                ring.provide(1, stream._raw)
            while take(ring.handle, 0, 100, 0):
                lose(ring.handle, 0)
        with pytest.raises(PinnedMemoryError, match="that do not end use all staging buffers"):
            xl.to_host(d)
        assert staging_stats("fake") == (0, 0, 0)


@compiled
@pytest.mark.usefixtures("fake")
def test_each_device_has_a_ring_of_its_own() -> None:
    x = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)
    with fresh_staging(), forced("staged", chunk_nbytes=1000):
        nbytes = []
        for device in ("fake:sim:0", "fake:sim:1"):
            assert_same_bits(xl.to_host(xl.to_device(x, device=device)), x)
            nbytes.append(staging_stats("fake").nbytes)
    assert nbytes[1] == 2 * nbytes[0]


def _batches() -> list[np.ndarray[Any, Any]]:
    """Too large to be staged as a whole on any host."""
    return [np.full(33 << 20, number, np.uint8) for number in range(4)]


@compiled
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


@compiled
@pytest.mark.usefixtures("fake")
def test_batches_that_are_not_taken_give_their_chunks_back() -> None:
    with fresh_staging():
        for is_dropped in (True, False):
            ahead = xl.prefetch(_batches(), device="fake:sim:0")
            next(ahead)
            if is_dropped:
                del ahead
            else:
                ahead.close()
            assert lent_chunks() == 0


@compiled
def test_a_transfer_that_cannot_start_ahead_raises_when_its_batch_is_taken(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(nbytes: int) -> Any:
        raise DeviceLostError("gone")

    with fresh_staging():
        monkeypatch.setattr(fake, "pinned_alloc", lost)
        ahead = xl.prefetch(_batches(), device="fake:sim:0")
        with pytest.raises((TransferError, DeviceLostError), match="gone"):
            next(ahead)
        monkeypatch.undo()
        assert (xl.to_host(next(ahead)) == 0).all()
        ahead.close()


class Own(OwnThread):
    """A thread of the library's own, which knows what the one that made it has waited for."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(self._do, "own")
        self._work = work
        self._begin = Handed()
        self._begin.hand_on()
        self.error: BaseException | None = None

    def _do(self) -> None:
        try:
            self._begin.take_over()
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
