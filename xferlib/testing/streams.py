"""Conformance: streams, events, and the order that they give to copies."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import xferlib as xl
from xferlib._core import registry
from xferlib.errors import StreamError
from xferlib.testing.asserts import assert_same_bits, scribble
from xferlib.testing.harness import Harness, in_threads
from xferlib.testing.strategies import bits_of

_ARRAYS, _STREAMS, _LENGTH = 4, 3, 96 << 10

_OPERATION = st.tuples(
    st.sampled_from(["upload", "copy", "download"]),
    st.integers(0, _ARRAYS - 1),
    st.integers(0, _ARRAYS - 1),
    st.integers(0, _STREAMS - 1),
    st.sampled_from(["event", "stream", "transfer"]),
)


class _Program:
    """Operations on device arrays over several streams, each waiting for exactly what it depends on."""

    def __init__(self, suite: Harness) -> None:
        self.suite = suite
        self.host = [bits_of(_LENGTH, np.uint8, seed=i) for i in range(_ARRAYS)]
        self.device = [suite.up(x) for x in self.host]
        self.streams = [suite.stream() for _ in range(_STREAMS)]
        self.last: list[list[tuple[int, Any]]] = [[] for _ in range(_ARRAYS)]
        self.downloads: list[tuple[xl.Transfer, Any]] = []
        suite.synchronize()

    def run(self, kind: str, one: int, two: int, stream: int, how: str) -> None:
        if kind == "copy" and one == two:
            return
        used = {one, two} if kind == "copy" else {one}
        order = self.streams[stream]
        for array in used:
            for other, awaited in self.last[array]:
                if other != stream or isinstance(awaited, xl.Transfer):
                    order.wait(awaited)
        awaited = getattr(self, kind)(one, two, order)
        if how == "event" or awaited is None:
            awaited = order.record(xl.Event(timing=False))
        elif how == "stream":
            order.synchronize()  # which covers the transfer, so that waiting for the stream does too
            awaited = order
        for array in used:
            self.last[array].append((stream, awaited))

    def upload(self, one: int, two: int, order: xl.Stream) -> xl.Transfer:
        source = bits_of(_LENGTH, np.uint8, seed=1000 + len(self.last[one]) * _ARRAYS + one)
        self.host[one] = source.copy()
        is_pinned = two % 2
        return self.suite.up_async(
            self.suite.pinned(source) if is_pinned else source, out=self.device[one], stream=order
        )

    def copy(self, one: int, two: int, order: xl.Stream) -> None:
        # A copy between arrays follows the source library's current stream, so that is the one to give it.
        with order:
            self.suite.up(self.device[one], out=self.device[two], stream=order)
        self.host[two] = self.host[one].copy()

    def download(self, one: int, two: int, order: xl.Stream) -> xl.Transfer:
        transfer = xl.to_host_async(self.device[one], stream=order)
        self.downloads.append((transfer, self.host[one].copy()))
        return transfer

    def check(self) -> None:
        for transfer, expected in self.downloads:
            assert_same_bits(transfer.result(), expected)
        for stream in self.streams:
            stream.synchronize()
        for d, expected in zip(self.device, self.host, strict=True):
            assert_same_bits(self.suite.down(d), expected)


class Ordering(Harness):
    """Record, wait and synchronise, on our own streams, the current one, and other libraries'."""

    def test_random_programs_over_three_streams_give_what_one_thread_gives(self) -> None:
        self.need("in_place")

        def check(operations: list[Any]) -> None:
            program = _Program(self)
            for operation in operations:
                program.run(*operation)
            program.check()

        self.forall(check, st.lists(_OPERATION, max_size=14))

    @pytest.mark.parametrize("is_named", [False, True])
    def test_new_arrays_of_streams_in_turn_hold_what_was_sent(self, is_named: bool) -> None:
        """Memory is given back and taken again, with the arrays and with what is put in order between them."""
        streams = [self.stream() for _ in range(2)]
        kept: list[tuple[Any, Any]] = []
        for number in range(16):
            stream = streams[number % 2]
            x = bits_of(300 * 400, np.uint8, seed=number).reshape(300, 400)
            sent: list[tuple[Any, Any]] = [(x, x.dtype), (x.T, x.dtype), (x[::2].T, x.dtype), (x, np.dtype("float32"))]
            expected = [each.astype(dtype) for each, dtype in sent]
            options: Any = {"stream": stream} if is_named else {}
            with contextlib.nullcontext() if is_named else stream:
                made = [self.up(each, dtype=dtype, **options) for each, dtype in sent]
            scribble(x)
            if number % 3:  # the others die at once
                kept += zip(made, expected, strict=True)
        self.synchronize()
        for d, wanted in kept:
            assert_same_bits(self.down(d), wanted)

    def test_a_pageable_source_given_a_stream_has_been_read_on_return(self) -> None:
        stream = self.stream()
        for nbytes in (100, 200 << 10, 3 << 20):
            source = bits_of(nbytes, np.uint8, seed=5)
            expected = source.copy()
            d = self.up(source, stream=stream)
            scribble(source)
            stream.synchronize()
            assert_same_bits(self.down(d), expected)

    def test_a_pinned_source_given_a_stream_is_free_when_the_stream_has_passed_the_copy(self) -> None:
        stream = self.stream()
        for nbytes in (100, 200 << 10, 3 << 20):
            source = self.pinned(bits_of(nbytes, np.uint8, seed=6))
            expected = source.copy()
            d = self.up(source, stream=stream)
            stream.record().synchronize()
            scribble(source)
            assert_same_bits(self.down(d), expected)

    def test_to_host_follows_the_work_on_the_stream_that_it_is_given(self) -> None:
        self.need("in_place")
        stream = self.stream()
        for nbytes in (100, 200 << 10, 3 << 20):
            d = self.up(np.zeros(nbytes, np.uint8))
            self.synchronize()
            source = self.pinned(bits_of(nbytes, np.uint8, seed=7))
            self.up(source, out=d, stream=stream)
            assert_same_bits(self.down(d, stream=stream), source)

    def test_an_event_is_done_once_its_stream_has_been_synchronised(self) -> None:
        stream = self.stream()
        self.up(self.pinned(bits_of(1 << 20, np.uint8, seed=8)), stream=stream)
        event = stream.record()
        stream.synchronize()
        assert event.is_done
        assert stream.is_done

    def test_a_stream_is_done_no_sooner_than_its_events(self) -> None:
        stream = self.stream()
        source = self.pinned(bits_of(1 << 20, np.uint8, seed=13))
        for _ in range(20):
            self.up(source, stream=stream)
            event = stream.record()
            assert not stream.is_done or event.is_done
        stream.synchronize()

    def test_an_event_is_recorded_again_in_place(self) -> None:
        stream = self.stream()
        event = stream.record()
        assert stream.record(event) is event
        event.synchronize()
        assert event.is_done

    def test_an_event_never_recorded_is_done_and_waiting_for_it_does_nothing(self) -> None:
        event = xl.Event()
        assert event.is_done
        event.synchronize()
        self.stream().wait(event)

    def test_elapsed_ms_is_positive_and_needs_two_timed_recorded_events(self) -> None:
        stream = self.stream()
        start = stream.record()
        self.up(bits_of(1 << 20, np.uint8, seed=9), stream=stream)
        end = stream.record()
        assert end.elapsed_ms(start) > 0
        with pytest.raises(StreamError, match="timing=True"):
            end.elapsed_ms(xl.Event())
        with pytest.raises(StreamError, match="timing=True"):
            stream.record(xl.Event(timing=False)).elapsed_ms(start)

    def test_a_host_function_runs_behind_the_work_before_it_and_ahead_of_the_work_behind_it(self) -> None:
        stream, other = self.stream(), self.stream()
        source = self.pinned(bits_of(1 << 20, np.uint8, seed=14))
        seen: list[Any] = []
        self.up(source, stream=stream)
        before = stream.record()
        stream.call(seen.append, 1)
        stream.call(seen.append, 2)
        other.wait(stream.record(xl.Event(timing=False, blocking=True)))
        other.call(seen.append, 3)
        other.synchronize()
        assert before.is_done
        assert seen == [1, 2, 3]

    # --- the current stream

    def test_with_makes_a_stream_current_nests_and_restores_after_errors(self) -> None:
        before = xl.current_stream(self.target_device)
        one, two = self.stream(), self.stream()
        with one:
            assert xl.current_stream(self.target_device) == one
            with two, one, one:
                assert xl.current_stream(self.target_device) == one
            assert xl.current_stream(self.target_device) == one
            with pytest.raises(KeyError), two:
                raise KeyError
            assert xl.current_stream(self.target_device) == one
        assert xl.current_stream(self.target_device) == before

    def test_a_stream_stays_current_once_it_is_used(self) -> None:
        before, stream = xl.current_stream(self.target_device), self.stream()
        try:
            assert stream.use() == xl.current_stream(self.target_device) == stream
        finally:
            before.use()
        assert xl.current_stream(self.target_device) == before

    def test_the_current_stream_carries_what_is_given_no_stream(self) -> None:
        stream = self.stream()
        source = bits_of(300 << 10, np.uint8, seed=10)
        with stream:
            d = self.up(self.pinned(source))
            copied = self.up(d)
        stream.synchronize()
        assert_same_bits(self.down(copied), source)

    def test_the_librarys_own_operations_follow_the_current_stream(self) -> None:
        self.need("native_current_stream")
        self.need("namespace")
        xp = self.raw.namespace()
        stream = self.stream()
        source = np.arange(200_000, dtype=np.int32)
        with stream:
            d = self.up(self.pinned(source))
            total = xp.add(d, d)
            host = self.down(total)
        assert_same_bits(host, source + source)

    def test_the_current_stream_is_each_threads_own(self) -> None:
        self.need("streams")
        seen: dict[str, Any] = {}
        barrier = threading.Barrier(2)

        def work(name: str) -> None:
            stream = self.stream()
            with stream:
                barrier.wait()
                seen[name] = xl.current_stream(self.target_device) == stream
                barrier.wait()

        in_threads(work, ("one", "two"))
        assert seen == {"one": True, "two": True}

    def test_one_stream_is_current_in_two_threads_at_once(self) -> None:
        stream, before = self.stream(), xl.current_stream(self.target_device)
        barrier = threading.Barrier(2)
        wrong: list[Any] = []

        def work() -> None:
            mine = xl.current_stream(self.target_device)
            with stream:
                barrier.wait()
                if xl.current_stream(self.target_device) != stream:
                    wrong.append("inside")
                barrier.wait()
            if xl.current_stream(self.target_device) != mine:
                wrong.append("after")

        thread = threading.Thread(target=work)
        thread.start()
        work()
        thread.join()
        assert not wrong
        assert xl.current_stream(self.target_device) == before

    # --- from elsewhere

    def test_streams_are_adopted_by_protocol_and_by_address(self) -> None:
        stream = self.stream()
        assert xl.Stream.from_any(stream) is stream
        if not self.raw.capabilities.streams:
            with pytest.raises(StreamError, match="cannot be used"):
                xl.Stream.from_any(1234, self.target_device)
            return
        version, handle = stream.__cuda_stream__()
        assert version == 0
        for given in (handle, _Foreign(handle)):
            adopted = xl.Stream.from_any(given, self.target_device)
            assert adopted == stream
            assert hash(adopted) == hash(stream)
            source = bits_of(200 << 10, np.uint8, seed=11)
            d = self.up(source, stream=given)
            adopted.synchronize()
            assert_same_bits(self.down(d), source)

    def test_an_adopted_stream_can_be_current(self) -> None:
        self.need("foreign_streams")
        stream = self.stream()
        with xl.Stream.from_any(_Foreign(stream.handle), self.target_device):
            assert xl.current_stream(self.target_device) == stream

    def test_what_is_no_stream_is_refused(self) -> None:
        with pytest.raises(StreamError, match="no stream"):
            self.stream().wait("tomorrow")
        with pytest.raises(StreamError, match="no stream"):
            self.up(np.zeros(3), stream="fast")

    def test_a_stream_of_another_device_is_refused_before_anything_is_copied(self) -> None:
        other = self._another_device()
        out = self.up(np.zeros(3))
        for stream in [xl.Stream(other)]:
            with pytest.raises(StreamError, match="the stream is of"):
                self.up(np.ones(3), out=out, stream=stream)
            with pytest.raises(StreamError, match="the stream is of"):
                self.down(out, stream=stream)
        assert_same_bits(self.down(out), np.zeros(3))

    def _another_device(self) -> xl.Device:
        here = [each for each in registry.get(self.backend).devices() if each is not self.target_device]
        if not here and self.backend == "numpy":
            pytest.skip("numpy has one device, and no other backend is needed to run this suite")
        return here[0] if here else xl.Device("numpy:cpu")

    def test_priorities_are_taken_or_ignored(self) -> None:
        stream = xl.Stream(self.target_device, priority=-1)
        source = bits_of(100 << 10, np.uint8, seed=12)
        assert_same_bits(self.down(self.up(source, stream=stream), stream=stream), source)


class _Foreign:
    """Another library's stream, by the protocol."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)
