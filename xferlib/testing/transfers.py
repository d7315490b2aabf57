"""Conformance: asynchronous transfers, and the lifetimes of the memory that they use."""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import ArgumentError, TransferError
from xferlib.testing import strategies
from xferlib.testing.asserts import assert_same_bits, native_bits, scribble
from xferlib.testing.copies import TINY_CHUNK
from xferlib.testing.harness import PATHS, Harness, HostArray
from xferlib.testing.settings import configured, forced
from xferlib.testing.strategies import bits_of

_PATH_NAMES = {"empty", "small", "pinned", "staged", "permuted", "device", "host"}
_SIZES = (0, 1, 5000, 100 << 10, 700 << 10, 5 << 20)


class Transfers(Harness):
    """`to_device_async`, `to_host_async` and `Transfer`."""

    def test_every_layout_survives_the_asynchronous_round_trip(self) -> None:
        def check(source: HostArray, path: Any, chunk: Any, is_pinned: bool) -> None:
            given = self.pinned(source) if is_pinned else source
            with forced(path, chunk_nbytes=chunk):
                up = self.up_async(given)
                down = xl.to_host_async(up.result())
                assert_same_bits(down.result(), source)

        chunks = st.sampled_from([None, TINY_CHUNK])
        self.forall(check, strategies.host_arrays(), st.sampled_from(PATHS), chunks, st.booleans())

    def test_asynchronous_copies_fill_out_of_any_strides(self) -> None:
        self.need("strided")

        def check(data: Any, steps: strategies.Steps, dtype: np.dtype[Any], path: Any) -> None:
            expected = np.zeros(steps.parent, dtype)
            d = self.up(expected)
            view = steps.of(d)
            source = data.draw(strategies.host_arrays(dtype=dtype, shape=self.shape_of(view)))
            layout = data.draw(strategies.destinations(dtype, source.shape))
            out = layout.over(np.zeros(layout.nbytes, np.uint8))
            with forced(path):
                assert self.up_async(source, out=view).result() is view
                assert xl.to_host_async(view, out=out).result() is out
            assert_same_bits(out, source)
            steps.of(expected)[...] = np.frombuffer(native_bits(source).tobytes(), dtype).reshape(source.shape)
            assert_same_bits(self.down(d), expected)

        views = strategies.views(negative=self.negative_steps)
        self.forall(check, st.data(), views, strategies.dtypes(), st.sampled_from(PATHS))

    def test_dtype_converts_on_the_way(self) -> None:
        source = np.array([1.9, -1.9, 3e9, np.nan], np.float64)
        expected = np.array([1, -1, 2**31 - 1, 0], np.int32)
        for path in PATHS:
            with forced(path):
                assert_same_bits(self.down(self.up_async(source, dtype="int32").result()), expected)
                assert_same_bits(xl.to_host_async(self.up(source), dtype="int32").result(), expected)

    @pytest.mark.parametrize("nbytes", _SIZES)
    def test_a_transfer_tells_of_itself(self, nbytes: int) -> None:
        source = bits_of(nbytes, np.uint8, seed=1)
        up = self.up_async(source)
        d = up.result()
        assert up.result() is d
        self.synchronize()
        assert up.done()
        assert up.source_released
        assert up.is_upload
        assert up.stats.nbytes == nbytes
        assert up.stats.path in _PATH_NAMES
        down = xl.to_host_async(d)
        host = down.result()
        assert down.result() is host
        assert down.done()
        assert not down.is_upload
        assert down.stats.seconds >= 0
        assert "Transfer" in repr(down)
        assert_same_bits(host, source)

    def test_a_result_is_ordered_on_the_stream_that_is_current_when_it_is_asked_for(self) -> None:
        source = bits_of(3 << 20, np.uint8, seed=2)
        for given in (source, self.pinned(source)):
            transfer = self.up_async(given)
            with self.stream():
                copied = self.up(transfer.result())
                assert_same_bits(self.down(copied), source)

    def test_a_stream_that_waits_for_a_transfer_comes_after_it(self) -> None:
        self.need("in_place")
        source = bits_of(3 << 20, np.uint8, seed=3)
        for given in (source, self.pinned(source)):
            one, two = self.stream(), self.stream()
            d = self.up(np.zeros_like(source))
            self.synchronize()
            two.wait(self.up_async(given, out=d, stream=one))
            assert_same_bits(self.down(d, stream=two), source)

    def test_synchronising_a_stream_covers_transfers_whose_source_is_still_being_read(self) -> None:
        self.need("in_place")
        stream = self.stream()
        source = bits_of(6 << 20, np.uint8, seed=4)
        d = self.up(np.zeros_like(source))
        self.synchronize()
        with forced(None, chunk_nbytes=64 << 10):
            transfer = self.up_async(source, out=d, stream=stream)
        stream.synchronize()
        assert transfer.done()
        assert stream.is_done
        assert_same_bits(self.down(d), source)

    def test_a_released_source_may_change(self) -> None:
        for path, is_pinned in [(None, False), (None, True), *((path, False) for path in PATHS[1:])]:
            for nbytes in _SIZES:
                source = bits_of(nbytes, np.uint8, seed=5)
                expected = source.copy()
                given = self.pinned(source) if is_pinned else source
                with forced(path):
                    transfer = self.up_async(given)
                while not transfer.source_released:
                    transfer.done()
                scribble(given)
                assert_same_bits(self.down(transfer.result()), expected)

    def test_a_download_is_complete_when_it_says_so(self) -> None:
        source = bits_of(3 << 20, np.uint8, seed=6)
        d = self.up(source)
        for out in (np.zeros_like(source), xl.pinned_zeros(source.shape, source.dtype, backend=self.backend)):
            transfer = xl.to_host_async(d, out=out)
            while not transfer.done():
                pass
            assert_same_bits(out, source)

    def test_result_takes_a_timeout(self) -> None:
        source = bits_of(1 << 20, np.uint8, seed=7)
        transfer = self.up_async(source)
        d = transfer.result(timeout=600)
        assert_same_bits(xl.to_host_async(d).result(timeout=float("inf")), source)

    def test_what_is_no_timeout_is_refused_and_the_transfer_goes_on(self) -> None:
        source = bits_of(1 << 20, np.uint8, seed=7)
        transfer = self.up_async(source)
        wrong: Any
        for wrong in ("soon", -1, float("nan"), [1]):
            with pytest.raises(ArgumentError, match=r"no number of seconds from 0.*None"):
                transfer.result(wrong)
        wrong = np.float32(600)  # a number like any other
        assert_same_bits(xl.to_host(transfer.result(wrong)), source)

    def test_a_copy_that_fails_on_the_way_says_so_and_the_next_one_works(self) -> None:
        self.need("streams")
        source = bits_of(3 << 20, np.uint8, seed=8).reshape(3, -1)[:, ::2]

        def fail(*args: Any, **options: Any) -> None:
            raise OSError("the link went away")

        # The parts in C call the driver by themselves.
        with configured(native="off"), self.patched(self.raw, "copy", fail):
            transfer = self.up_async(source)
            with pytest.raises(TransferError, match="the link went away"):
                transfer.result()
            with pytest.raises(TransferError, match="nothing of use"):
                transfer.wait(self.stream())
            with pytest.raises(OSError, match="went away"):
                self.up(source)
            assert transfer.done()
        assert_same_bits(self.down(self.up_async(source).result()), np.ascontiguousarray(source))

    # --- lifetimes

    def test_handles_may_be_dropped_at_any_time(self) -> None:
        def check(seed: int) -> None:
            chance = random.Random(seed)
            live: list[tuple[xl.Transfer, HostArray]] = []
            for number in range(24):
                nbytes = chance.choice(_SIZES[:-1])
                source = bits_of(nbytes, np.uint8, seed=number)
                expected = source.copy()
                given = self.pinned(source) if chance.random() < 0.5 else source
                transfer = self.up_async(given, stream=self.stream() if chance.random() < 0.5 else None)
                if chance.random() < 0.5:
                    transfer = xl.to_host_async(transfer.result())
                del source, given
                live.append((transfer, expected))
                chance.shuffle(live)
                while live and chance.random() < 0.4:
                    self._drop_or_check(chance, *live.pop())
                if chance.random() < 0.1:
                    gc.collect(1)
            for transfer, expected in live:
                self._drop_or_check(random.Random(1), transfer, expected)

        self.forall(check, st.integers(0, 1 << 32), share=0.08)

    def _drop_or_check(self, chance: random.Random, transfer: xl.Transfer, expected: HostArray) -> None:
        if chance.random() < 0.3:
            return
        result = transfer.result()
        del transfer
        gc.collect(0)
        assert_same_bits(result if isinstance(result, np.ndarray) else self.down(result), expected)

    def test_a_pinned_source_may_be_dropped_at_once_and_its_memory_is_not_handed_out_too_early(self) -> None:
        stream = self.stream()
        arrived = []
        for number in range(12):
            source = self.pinned(bits_of(300 << 10, np.uint8, seed=number))
            arrived.append(self.up(source, stream=stream))
            del source
            xl.pinned_empty(300 << 10, np.uint8, backend=self.backend).fill(0)
        stream.synchronize()
        for number, d in enumerate(arrived):
            assert_same_bits(self.down(d), bits_of(300 << 10, np.uint8, seed=number))

    def test_a_device_array_may_be_dropped_under_copies_from_and_to_it(self) -> None:
        stream = self.stream()
        for number in range(12):
            source = bits_of(300 << 10, np.uint8, seed=number)
            d = self.up(source)
            stream.wait(xl.current_stream(self.target_device))
            transfer = xl.to_host_async(d, stream=stream)
            del d
            self.up_async(self.pinned(np.zeros(300 << 10, np.uint8)))  # dropped, and its memory with it
            again = self.up(np.ones(300 << 10, np.uint8))
            assert_same_bits(transfer.result(), source)
            del again

    def test_a_result_dropped_while_another_stream_reads_it_is_not_overwritten(self) -> None:
        self.need("native_current_stream")
        self.need("namespace")
        xp = self.raw.namespace()
        one, two = self.stream(), self.stream()
        zeros = self.pinned(np.zeros(1 << 20, np.int32))
        for number in range(12):
            source = np.full(1 << 20, number, np.int32)
            transfer = self.up_async(self.pinned(source), stream=one)
            with two:
                d = transfer.result()
                total = xp.add(d, d)
            del d, transfer
            self.up(zeros, stream=one)
            assert_same_bits(self.down(total, stream=two), source + source)
