"""Conformance: `prefetch` and `stream_map`, which overlap copies with the device's work."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import UnsupportedDTypeError
from xferlib.testing.asserts import assert_same_bits, scribble
from xferlib.testing.harness import HostArray
from xferlib.testing.processes import Processes
from xferlib.testing.strategies import bits_of

_SIZES = (0, 100, 70 << 10, 300 << 10, 1200 << 10, 2500 << 10, 5 << 20)
"""Bytes of a batch, one for each route that it can take."""


class _FailureError(Exception):
    """The error with which our own sources fail."""


class Overlapping(Processes):
    """Batches keep order, contents and the position of errors; none is lost, and no thread is left running."""

    def test_prefetched_batches_are_those_of_the_source(self) -> None:
        def check(sizes: list[int], depth: int, is_read_ahead: bool, is_kept: bool, is_pinned: bool) -> None:
            items = [bits_of(nbytes, np.uint8, seed=number) for number, nbytes in enumerate(sizes)]
            given = [self.pinned(item) for item in items] if is_pinned else items
            batches = xl.prefetch(iter(given) if is_read_ahead else given, depth=depth, device=self.place)
            found = list(batches) if is_kept else [self.down(batch) for batch in batches]
            for item, batch in zip(items, found, strict=True):
                assert_same_bits(self.down(batch) if is_kept else batch, item)

        sizes = st.lists(st.sampled_from(_SIZES), max_size=6)
        flags = (st.booleans(), st.booleans(), st.booleans())
        self.forall(check, sizes, st.integers(1, 3), *flags, share=0.5)

    def test_a_source_may_fill_the_same_memory_for_every_batch(self) -> None:
        for nbytes, is_pinned in itertools.product(_SIZES[1:], (False, True)):
            expected = [bits_of(nbytes, np.uint8, seed=number) for number in range(5)]
            source = self._refilling(expected, is_pinned=is_pinned)
            for item, batch in zip(expected, xl.prefetch(source, device=self.place), strict=True):
                assert_same_bits(self.down(batch), item)

    def _refilling(self, items: list[HostArray], *, is_pinned: bool) -> Iterator[HostArray]:
        memory = self.pinned(items[0]) if is_pinned else items[0].copy()
        for item in items:
            memory[...] = item
            yield memory
            scribble(memory)

    def test_a_prefetched_batch_stays_what_it_is_when_its_source_and_its_neighbours_go(self) -> None:
        for nbytes in (300 << 10, 2500 << 10):
            items = [bits_of(nbytes, np.uint8, seed=number) for number in range(8)]
            given = [item.copy() for item in items]
            kept = [batch for number, batch in enumerate(xl.prefetch(given, device=self.place)) if number % 3 == 0]
            for item in given:
                scribble(item)
            again = [self.up(item) for item in items]  # recycles any memory that was freed
            for item, batch in zip(items[::3], kept, strict=True):
                assert_same_bits(self.down(batch), item)
            del again

    def test_prefetched_batches_are_ordered_on_the_stream_that_is_current(self) -> None:
        medium, large = ([bits_of(n << 10, np.uint8, seed=number) for number in range(8)] for n in (300, 2500))
        for items, source in ((medium, medium), (large, large), (large, iter(large))):
            batches, copies = xl.prefetch(source, device=self.place), []
            for _ in items:
                stream = self.stream()
                with stream:
                    copies.append((stream, self.up(next(batches))))  # the batch goes before its copy is made
            for item, (stream, copied) in zip(items, copies, strict=True):
                assert_same_bits(self.down(copied, stream=stream), item)

    def test_trees_keep_their_structure(self) -> None:
        items: list[dict[str, Any]] = [
            {"x": bits_of(70 << 10, np.uint8, seed=n), "t": (np.arange(n), n, None)} for n in range(5)
        ]
        for source in (items, iter(items)):
            for item, batch in zip(items, xl.prefetch(source, device=self.place), strict=True):
                assert_same_bits(self.down(batch["x"]), item["x"])
                assert_same_bits(self.down(batch["t"][0]), item["t"][0])
                assert batch["t"][1:] == item["t"][1:]

    def test_a_transform_runs_on_the_device(self) -> None:
        items = [bits_of(nbytes, np.uint8, seed=number) for number, nbytes in enumerate(_SIZES)]

        def copied(batch: Any) -> Any:
            assert xl.device_of(batch) is self.place
            return self.up(batch), batch

        for source in (items, iter(items)):
            batches = xl.prefetch(source, device=self.place, transform=copied)
            for item, (copy, batch) in zip(items, batches, strict=True):
                assert_same_bits(self.down(copy), item)
                assert_same_bits(self.down(batch), item)

    def test_an_error_comes_after_every_batch_before_it_and_again(self) -> None:
        def fails(items: list[HostArray]) -> Iterator[HostArray]:
            yield from items
            raise _FailureError

        for count, nbytes in itertools.product((0, 1, 4), (70 << 10, 300 << 10)):
            items = [bits_of(nbytes, np.uint8, seed=number) for number in range(count)]
            wrong = [*items, np.array([{}])]
            for source, error in ((fails(items), _FailureError), (wrong, UnsupportedDTypeError)):
                batches = xl.prefetch(source, device=self.place)
                for item in items:
                    assert_same_bits(self.down(next(batches)), item)
                for _ in range(2):
                    with pytest.raises(error):
                        next(batches)

    def test_an_endless_source_ends_with_its_prefetcher(self) -> None:
        ended = threading.Event()

        def source() -> Iterator[HostArray]:
            try:
                while True:
                    yield bits_of(70 << 10, np.uint8, seed=1)
            finally:
                ended.set()

        with xl.prefetch(source(), device=self.place) as batches:
            for _ in range(4):
                assert_same_bits(self.down(next(batches)), bits_of(70 << 10, np.uint8, seed=1))
        assert ended.wait(60.0)

    # --- stream_map

    def test_mapped_rows_come_back_in_their_places(self) -> None:
        def check(rows: int, chunk_rows: int, depth: int, width: int) -> None:
            source = bits_of(rows * width, np.uint8, seed=rows).reshape(rows, width)
            found = xl.stream_map(self.up, source, chunk_rows=chunk_rows, devices=self.place, depth=depth)
            if rows:
                assert_same_bits(found, source)
            out = np.zeros_like(source)
            xl.stream_map(lambda chunk: chunk, source, chunk_rows=chunk_rows, out=out, devices=[self.place])
            assert_same_bits(out, source)

        self.forall(
            check,
            st.integers(0, 40),
            st.integers(1, 15),
            st.integers(1, 4),
            st.sampled_from((1, 999, 50_000)),
            share=0.3,
        )

    def test_large_chunks_are_mapped_from_and_into_any_memory(self) -> None:
        source = bits_of(24 << 20, np.uint8, seed=3).reshape(24, -1)
        for given in (source, self.pinned(source), np.asfortranarray(source)):
            for out in (np.zeros_like(source), self.pinned(np.zeros_like(source)), None):
                found = xl.stream_map(lambda chunk: chunk, given, chunk_rows=5, out=out, devices=self.place)
                assert_same_bits(found, source)

    def test_reduction_is_in_the_order_of_the_chunks_on_any_number_of_devices(self) -> None:
        source = np.arange(300, dtype=np.int64).reshape(100, 3)
        here = [each for each in self.raw.devices() if each.kind == self.place.kind]
        for places in ([self.place], here):
            found = xl.stream_map(
                lambda chunk: chunk, source, chunk_rows=7, devices=places, reduce=lambda a, b: np.concatenate([a, b])
            )
            assert_same_bits(found, source)

    def test_a_map_that_fails_says_how_far_it_came_and_goes_on_from_there(self) -> None:
        source = bits_of(100 * 3000, np.uint8, seed=4).reshape(100, 3000)
        for fails_at in (0, 1, 5):
            numbers = itertools.count()

            def sometimes(chunk: Any, numbers: Any = numbers, fails_at: int = fails_at) -> Any:
                if next(numbers) == fails_at:
                    raise KeyboardInterrupt
                return chunk

            with pytest.raises(KeyboardInterrupt) as stopped:
                xl.stream_map(sometimes, source, chunk_rows=9, devices=self.place)
            error: Any = stopped.value
            assert error.rows_done == 9 * fails_at
            rest = {"start": error.rows_done, "out": error.out}
            assert_same_bits(xl.stream_map(sometimes, source, chunk_rows=9, devices=self.place, **rest), source)

    # --- the process

    def test_the_interpreter_may_end_in_the_middle_of_a_loop(self) -> None:
        said = self.passes(
            """
            import itertools
            def endless():
                for number in itertools.count():
                    yield np.full(3 << 18, number)
            lists = [[np.ones(size)] * 9 for size in (1000, 3 << 14, 3 << 18)]
            kept = [xl.prefetch(batches, device=PLACE) for batches in (endless(), *lists)]
            batches = [next(each) for each in kept for _ in range(3)]
            begun = threading.Event()
            def forever(chunk):
                begun.set()
                threading.Event().wait()
            mapping = lambda: xl.stream_map(forever, np.ones((100, 3000)), chunk_rows=7, devices=PLACE)
            threading.Thread(target=mapping, daemon=True).start()
            begun.wait()
            print("ends")
            """
        )
        assert said == "ends"

    def test_a_forked_child_is_told_that_its_prefetcher_is_its_parents(self) -> None:
        self.need("fork")
        self.passes(
            """
            if not hasattr(os, "fork"):
                sys.exit()
            import itertools
            prefetchers = [
                xl.prefetch((np.full(3 << 18, number) for number in itertools.count()), device=PLACE),
                *(xl.prefetch([np.full(n, number) for number in range(9)], device=PLACE) for n in (3 << 14, 3 << 18)),
            ]
            for prefetcher in prefetchers:
                assert (xl.to_host(next(prefetcher)) == 0).all()
            child = os.fork()
            if not child:
                status = 0
                for prefetcher in prefetchers:
                    try:
                        next(prefetcher)
                        status = 1
                    except xl.errors.ForkError as error:
                        status = status or "fork" not in str(error)
                    prefetcher.close()
                del prefetcher, prefetchers
                gc.collect()
                os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            for prefetcher in prefetchers:
                assert (xl.to_host(next(prefetcher)) == 1).all()
                prefetcher.close()
            """
        )
