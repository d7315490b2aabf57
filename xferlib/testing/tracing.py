"""Conformance: traces of copies, kernels and the program's own work."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import xferlib as xl
from xferlib._core import observe, pending
from xferlib.testing.asserts import assert_same_bits
from xferlib.testing.harness import Harness, in_threads
from xferlib.testing.settings import forced
from xferlib.testing.strategies import bits_of

_RESOLUTION_S = 1e-6
"""Events tell milliseconds in single precision, in steps of half a microsecond."""
_DEVICE = ("h2d", "d2h", "d2d", "peer", "kernel")
_PATHS = (None, "small", "staged")


def _line() -> int:
    return sys._getframe(1).f_lineno


class Tracing(Harness):
    """`xferlib.trace` records every operation once, with its bytes, its line and consistent times."""

    @contextmanager
    def traced(self) -> Iterator[xl.trace]:
        """Trace a block, with no copy in flight at its beginning and end."""
        pending.settle_all()  # a trace sees all threads, and with them what earlier tests have left behind
        with xl.trace() as t:
            yield t
            self.synchronize()

    def moved(self, t: xl.trace, kind: str, line: int) -> int:
        """Sum the bytes of all operations of a kind that one line of this file requested."""
        found = [each for each in t.operations if each.kind == kind and each.line == line]
        assert all(each.file == __file__ for each in found)
        return sum(each.nbytes for each in found)

    def test_every_copy_appears_once_with_its_bytes_and_its_line(self) -> None:
        def check(nbytes: int, path: str | None, is_async: bool) -> None:
            x = bits_of(nbytes, np.uint8, seed=nbytes)
            with forced(path, chunk_nbytes=64 << 10), self.traced() as t:
                if is_async:
                    d, up = xl.to_device_async(x, device=self.target_device).result(), _line()
                    h, down = xl.to_host_async(d).result(), _line()
                else:
                    d, up = xl.to_device(x, device=self.target_device), _line()
                    h, down = xl.to_host(d), _line()
            assert_same_bits(h, x)
            assert self.moved(t, "h2d", up) == self.moved(t, "d2h", down) == nbytes
            assert t.nbytes["h2d"] == t.nbytes["d2h"] == nbytes
            if self.backend != "sim":  # which shows every piece
                assert [each.kind for each in t.operations if each.kind in _DEVICE] == ["h2d", "d2h"]

        sizes = st.sampled_from([1, 1000, 64 << 10, 65 << 10, 600_000, 3 << 20])
        self.forall(check, sizes, st.sampled_from(_PATHS), st.booleans(), share=0.5)

    def test_copies_from_pinned_memory_appear(self) -> None:
        self.need("pinned_memory")
        x = self.pinned(bits_of(200_000, np.uint8, seed=0))
        with self.traced() as t:
            stream = self.stream()
            d, line = xl.to_device(x, device=self.target_device, stream=stream), _line()
        assert self.moved(t, "h2d", line) == x.nbytes
        del d

    def test_operations_on_one_stream_do_not_overlap(self) -> None:
        stream = self.stream()
        x = bits_of(2 << 20, np.uint8, seed=0)
        with self.traced() as t:
            for path in ("staged", "small", "staged"):
                with forced(path, chunk_nbytes=64 << 10):
                    d = self.up(x[: 2 << 20 if path == "staged" else 64 << 10], stream=stream)
                    xl.to_device(d, device=self.target_device, stream=stream)
                    xl.to_host(d, stream=stream)
        self.check_apart(t, 3 * 3)

    def test_operations_that_threads_put_on_one_stream_do_not_overlap(self) -> None:
        """No thread's operation comes between another's and the events around it."""
        stream = self.stream()
        x = bits_of(16 << 10, np.uint8, seed=0)

        def send(_: int) -> None:
            for _ in range(20):
                with forced("small"):
                    xl.to_host(self.up(x, stream=stream), stream=stream)

        with self.traced() as t:
            in_threads(send, range(4))
        self.check_apart(t, 4 * 20 * 2)

    def check_apart(self, t: xl.trace, least: int) -> None:
        found = sorted((each.start_s, each.end_s) for each in t.operations if each.kind in _DEVICE)
        assert len(found) >= least
        assert all(start <= end + _RESOLUTION_S for start, end in found)
        if self.is_async:  # else every thread does its own, at the same time
            assert all(two[0] >= one[1] - _RESOLUTION_S for one, two in itertools.pairwise(found))

    def test_a_device_begins_nothing_before_it_was_asked_to(self) -> None:
        with self.traced() as t:
            for _ in range(5):
                self.down(self.up(bits_of(300_000, np.uint8, seed=0)))
        slack_s = t.clock_error_s + _RESOLUTION_S
        assert 0 <= t.clock_error_s < 0.1
        for each in t.operations:
            assert -slack_s <= each.host_start_s <= each.start_s + slack_s
            assert each.start_s <= each.end_s + _RESOLUTION_S
            assert each.host_start_s <= each.host_end_s
            assert each.is_timed

    def test_a_kernel_appears_with_its_name_and_the_bytes_of_its_arrays(self) -> None:
        if self.target_device.kind not in ("cpu", "cuda") and self.backend != "sim":
            pytest.skip(f"{self.target_device}: its kernels are not made by xferlib")
        double = xl.elementwise("T x", "T y", "y = x + x", name="double_of_it")
        d = self.up(np.ones(1000, np.float32))
        double(d)
        with self.traced() as t:
            e, line = double(d), _line()
        found = [each for each in t.operations if each.kind == "kernel" and each.name == "double_of_it"]
        assert [(each.nbytes, each.line) for each in found] == [(8000, line)]
        assert self.down(e)[0] == 2.0

    def test_a_range_lasts_as_long_as_what_is_in_it(self) -> None:
        d = self.up(bits_of(1 << 20, np.uint8, seed=0))
        with self.traced() as t, t.range("copying", device=self.target_device):
            xl.to_device(d, device=self.target_device)
        (block,) = [each for each in t.operations if each.kind == "range"]
        inside = [each for each in t.operations if each.kind in _DEVICE]
        assert block.name == "copying"
        assert inside
        assert all(block.start_s <= each.start_s + _RESOLUTION_S for each in inside)
        assert all(each.end_s <= block.end_s + _RESOLUTION_S for each in inside)

    def test_the_ranges_of_a_copy_by_another_library_count_as_copies(self) -> None:
        with self.traced() as t, xl.trace.range("own", kind="h2d", nbytes=4096, device=self.target_device):
            pass
        assert t.nbytes["h2d"] == 4096

    def test_a_trace_within_a_trace_gets_its_own_part(self) -> None:
        x = bits_of(1000, np.uint8, seed=0)
        with self.traced() as outer:
            self.up(x)
            with self.traced() as inner:
                self.up(x)
            self.up(x)
        assert (inner.nbytes["h2d"], outer.nbytes["h2d"]) == (1000, 3000)

    def test_nothing_is_recorded_when_no_trace_is_open(self) -> None:
        with self.traced() as t:
            self.up(bits_of(1000, np.uint8, seed=0))
        self.up(bits_of(1000, np.uint8, seed=0))
        self.synchronize()
        assert observe.active is None
        assert t.nbytes["h2d"] == 1000

    def test_an_exception_leaves_what_was_recorded_before_it(self) -> None:
        pending.settle_all()
        t = xl.trace()

        def stop() -> None:
            with t:
                self.up(bits_of(1000, np.uint8, seed=0))
                raise InterruptedError

        with pytest.raises(InterruptedError):
            stop()
        assert t.nbytes["h2d"] == 1000
        assert observe.active is None

    def test_more_operations_than_there_are_events(self) -> None:
        """Events are recycled; the times that they gave are not lost."""
        self.need("in_place")
        d = self.up(np.zeros(16, np.uint8))
        x: Any = np.zeros(16, np.uint8)
        with self.traced() as t:
            for value in range(1500):
                x[:] = value % 251
                self.up(x, out=d)
        assert t.nbytes["h2d"] == 1500 * 16
        times = [each.start_s for each in t.operations if each.kind == "h2d"]
        assert times == sorted(times)
        assert self.down(d)[0] == 1499 % 251
