"""Conformance: pinned memory, its pool, and memory pinned in place."""

from __future__ import annotations

import mmap
import tempfile

import numpy as np
import pytest

import xferlib as xl
from xferlib._memory import pinned as _pinned
from xferlib._memory.pinned import PinnedPool
from xferlib.errors import LayoutError, PinnedMemoryError
from xferlib.testing import strategies
from xferlib.testing.asserts import assert_same_bits
from xferlib.testing.harness import Harness, HostArray, in_threads
from xferlib.testing.strategies import bits_of

_NBYTES = 300 << 10
_SHAPES: tuple[int | tuple[int, ...], ...] = ((), 7, (3, 0), (5, 4, 3))


class Pinning(Harness):
    """`pinned_empty` and its family, `PinnedPool`, `pin`."""

    def path_of(self, source: HostArray) -> str:
        """The path that an upload of ``source`` takes."""
        transfer = self.up_async(source)
        assert_same_bits(self.down(transfer.result()), source)
        return transfer.stats.path

    def test_pinned_arrays_are_ordinary_writable_arrays(self) -> None:
        for dtype in strategies.DTYPES:
            for shape in _SHAPES:
                x = xl.pinned_zeros(shape, dtype, backend=self.backend)
                assert type(x) is np.ndarray
                assert x.dtype == dtype
                assert x.flags.c_contiguous
                assert x.flags.writeable
                assert not x.any()
                assert xl.pinned_empty_like(x, backend=self.backend).shape == x.shape
        assert xl.pinned_empty_like(self.up(np.zeros((2, 3))), "int8", backend=self.backend).dtype == np.int8

    def test_a_pinned_copy_has_the_bits_of_any_array(self) -> None:
        def check(source: HostArray) -> None:
            pinned = xl.pinned_array(source, backend=self.backend)
            assert pinned.flags.c_contiguous
            assert_same_bits(pinned, source)
            assert_same_bits(xl.pinned_array(self.up(source), backend=self.backend), source)

        self.forall(check, strategies.host_arrays(), share=0.5)

    def test_views_of_pinned_memory_are_found(self) -> None:
        self.need("pinned_memory")
        x = self.pinned(bits_of(4 * _NBYTES, np.uint8, seed=1))
        assert self.path_of(x) == "pinned"
        assert self.path_of(x[13 : 13 + _NBYTES]) == "pinned"
        assert self.path_of(x[: 8 * (_NBYTES // 8)].view(np.float64)) == "pinned"
        assert self.path_of(x[-_NBYTES:].reshape(-1, 2)) == "pinned"
        assert self.path_of(x.copy()) == "staged"

    def test_a_view_keeps_the_block_alive(self) -> None:
        pool = PinnedPool(self.raw)
        view = pool.empty((_NBYTES,), np.dtype(np.uint8))[5:6]
        assert pool.stats().in_use_nbytes >= _NBYTES
        view[:] = 1
        del view
        assert pool.stats().in_use_nbytes == 0

    def test_blocks_are_counted_recycled_and_given_back(self) -> None:
        pool = PinnedPool(self.raw)
        x = pool.empty((_NBYTES,), np.dtype(np.uint8))
        stats = pool.stats()
        assert _NBYTES <= stats.in_use_nbytes <= _NBYTES * 9 // 8
        assert (stats.allocations, stats.reuses, stats.total_nbytes) == (1, 0, stats.in_use_nbytes)
        del x
        assert pool.stats().free_nbytes == stats.in_use_nbytes
        x = pool.empty((_NBYTES // 4,), np.dtype(np.float32))
        again = pool.stats()
        assert (again.allocations, again.reuses, again.free_nbytes) == (1, 1, 0)
        assert again.peak_nbytes == stats.in_use_nbytes
        del x
        assert pool.trim() == stats.in_use_nbytes
        assert pool.stats().total_nbytes == 0

    def test_a_pool_at_its_limit_stages_blocks_or_raises(self) -> None:
        dtype = np.dtype(np.uint8)
        full = PinnedPool(self.raw, max_bytes=_NBYTES * 2, when_full="raise")
        kept = full.empty((_NBYTES,), dtype)
        with pytest.raises(PinnedMemoryError, match="in use"):
            full.empty((_NBYTES * 2,), dtype)
        assert full.stats().allocations == 1
        staged = PinnedPool(self.raw, max_bytes=_NBYTES, when_full="stage")
        ordinary = staged.empty((_NBYTES * 2,), dtype)
        assert staged.find(ordinary.ctypes.data) is None
        assert staged.stats().total_nbytes == 0
        waiting = PinnedPool(self.raw, max_bytes=_NBYTES * 2, when_full="block")
        other = waiting.empty((_NBYTES,), dtype)
        with pytest.raises(PinnedMemoryError, match="in use"):  # nothing in flight could ever make room
            waiting.empty((_NBYTES * 2,), dtype)
        with pytest.raises(ValueError, match="when_full"):
            PinnedPool(self.raw, when_full="pray")  # type: ignore[arg-type]
        del kept, other

    def test_a_full_pool_gives_its_free_blocks_up_for_another_size(self) -> None:
        pool = PinnedPool(self.raw, max_bytes=_NBYTES * 2, when_full="raise")
        pool.empty((_NBYTES,), np.dtype(np.uint8))
        assert pool.empty((_NBYTES + _NBYTES // 2,), np.dtype(np.uint8)).nbytes == _NBYTES + _NBYTES // 2

    def test_a_block_released_under_a_copy_is_recycled_after_it(self) -> None:
        stream = self.stream()
        pool = PinnedPool(self.raw, max_bytes=_NBYTES * 3, when_full="block")
        with self.patched(_pinned.pools, "made", {self.raw.pinned_domain: pool}):
            arrived = []
            for number in range(8):
                source = pool.empty((_NBYTES,), np.dtype(np.uint8))
                source[:] = bits_of(_NBYTES, np.uint8, seed=number)
                arrived.append(self.up(source, stream=stream))
                del source
            stream.synchronize()
            for number, d in enumerate(arrived):
                assert_same_bits(self.down(d), bits_of(_NBYTES, np.uint8, seed=number))

    def test_pinned_arrays_may_be_made_and_dropped_by_many_threads(self) -> None:
        pool = PinnedPool(self.raw)

        def work(number: int) -> None:
            for count in range(20):
                x = pool.empty((1000 + 4000 * (count % 3),), np.dtype(np.uint8))
                x.fill(number)
                assert (x == number).all()

        in_threads(work, range(8))
        assert pool.stats().in_use_nbytes == 0

    # --- in place

    def test_pin_makes_ordinary_memory_pinned_for_a_block(self) -> None:
        self.need("pinned_memory")
        x = bits_of(4 * _NBYTES, np.uint8, seed=2)
        with xl.pin(x, backend=self.backend) as pinned:
            assert pinned is x
            assert self.path_of(x) == "pinned"
            assert self.path_of(x[5:-5]) == "pinned"
            with xl.pin(x[_NBYTES : 2 * _NBYTES], backend=self.backend):
                assert self.path_of(x) == "pinned"
            assert self.path_of(x) == "pinned"
        assert self.path_of(x) == "staged"

    def test_pins_that_overlap_or_meet_send_what_spans_them(self) -> None:
        self.need("pinned_memory")
        x = bits_of(4 * _NBYTES, np.uint8, seed=3)
        first, second = xl.pin(x[: 2 * _NBYTES], backend=self.backend), xl.pin(x[_NBYTES:], backend=self.backend)
        first.__enter__()
        with second:
            assert self.path_of(x) == "pinned"
            out = np.zeros_like(x)
            with xl.pin(out[: 3 * _NBYTES], backend=self.backend), xl.pin(out[3 * _NBYTES :], backend=self.backend):
                assert_same_bits(self.down(self.up(x), out=out), x)
            first.__exit__(None, None, None)
            assert self.path_of(x[2 * _NBYTES :]) == "pinned"
        assert self.path_of(x) == "staged"

    def test_pin_may_be_entered_again(self) -> None:
        x = bits_of(_NBYTES, np.uint8, seed=4)
        pinned = xl.pin(x, backend=self.backend)
        with pinned, pinned:
            assert_same_bits(self.down(self.up(x)), x)
        with pinned:
            assert_same_bits(self.down(self.up(x)), x)

    def test_pin_takes_fortran_order_empty_and_tiny_arrays(self) -> None:
        for x in (np.ones((50, 60), order="F"), np.zeros(0), np.zeros(()), np.zeros((0, 3), order="F")):
            with xl.pin(x, backend=self.backend):
                assert_same_bits(self.down(self.up(x)), x)

    def test_pin_refuses_gaps_and_what_is_no_array(self) -> None:
        for x in (np.zeros((6, 6))[:, ::2], [1, 2]):
            with pytest.raises(LayoutError, match="contiguous"):
                xl.pin(x, backend=self.backend)  # type: ignore[arg-type]

    def test_pin_refuses_a_file_backed_map_however_it_is_seen(self) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(1 << 16))
            file.flush()
            mapped = np.memmap(file.name, np.uint8, "r+")
            plain = np.frombuffer(mmap.mmap(file.fileno(), 1 << 16), np.uint8)
            for x in (mapped, mapped[100:200], np.asarray(mapped).view(np.uint16), plain, plain[3:]):
                with pytest.raises(LayoutError, match="file-backed"):
                    xl.pin(x, backend=self.backend)
            del mapped, plain

    def test_pin_takes_anonymous_maps(self) -> None:
        x = np.frombuffer(mmap.mmap(-1, 1 << 16), np.uint8)
        with xl.pin(x, backend=self.backend):
            assert_same_bits(self.down(self.up(x)), x)
