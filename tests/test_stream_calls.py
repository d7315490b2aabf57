"""Host functions in the order of a stream, streams for good, their properties, adoption, and kinds of events."""

from __future__ import annotations

import copy
import itertools
import pickle
import sys
import threading
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests import processes
from xferlib.errors import ArgumentError, StreamError, StreamTypeError, UnsupportedError
from xferlib.testing import assert_same_bits, load_backend

# --- host functions


def test_host_functions_run_in_their_order_and_behind_the_work_before_them(backend: str) -> None:
    stream, other = xl.Stream(), xl.Stream()
    seen: list[Any] = []
    x = xl.pinned_array(np.arange(1000.0))
    arrived = xl.pinned_zeros(1000)
    with stream:
        transfer = xl.to_host_async(xl.to_device(x, stream=stream), stream=stream, out=arrived)
        stream.wait(transfer)
        stream.call(lambda *args: seen.append((args, arrived.copy())), 1, "two")
    for number in range(20):
        stream.call(seen.append, number)
    other.wait(stream.record())
    other.call(seen.append, "behind")
    other.synchronize()
    ((args, values), *others) = seen
    assert args == (1, "two")
    assert_same_bits(values, x)
    assert others == [*range(20), "behind"]
    transfer.result()


def test_an_error_in_a_host_function_is_told_as_one_of_a_thread(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    stream = xl.Stream()
    with pytest.raises(ArgumentError, match="cannot be called"):
        stream.call(3)  # type: ignore[arg-type]
    stream.call(lambda: 1 / 0)
    stream.call(told.append, "after")
    stream.synchronize()
    error, after = told
    assert error.exc_type is ZeroDivisionError
    assert after == "after"


def test_a_host_function_that_uses_the_device_is_reported_by_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    stream = xl.Stream("sim:0")
    stream.call(lambda: xl.zeros(3, device="sim:0"))
    stream.synchronize()
    (error,) = told
    assert isinstance(error.exc_value, xl.sim.SimError)
    assert "uses the device, which CUDA refuses" in str(error.exc_value)
    assert xl.to_host(xl.ones(3, device="sim:0")).tolist() == [1, 1, 1]


def test_a_host_function_that_changes_the_source_of_a_copy_is_a_race() -> None:
    """The copy may read it at any time from the call on: it is filled before that."""
    with xl.sim.check(schedule="lazy") as check:
        stream = xl.Stream("sim:0")
        source, d = xl.pinned_zeros(8, backend="sim"), xl.zeros(8, device="sim:0")
        xl.synchronize("sim:0")
        stream.call(source.fill, 7.0)
        xl.to_device(source, out=d, stream=stream)
        with pytest.raises(xl.sim.RaceError):
            stream.synchronize()
    assert check.races


class Called:
    """A stream that copies into pinned memory, calls a function, and copies into the memory again."""

    def __init__(self) -> None:
        self.stream, self.other = xl.Stream("sim:0"), xl.Stream("sim:0")
        self.ones, self.twos = xl.ones(8, device="sim:0"), xl.full(8, 2.0, device="sim:0")
        self.memory = xl.pinned_zeros(8, backend="sim")
        self.seen: list[Any] = []
        xl.synchronize("sim:0")

    def reads(self) -> None:
        xl.sim.reads(self.memory)
        self.seen.append(self.memory[0])

    def writes(self) -> None:
        xl.sim.writes(self.memory)
        self.memory.fill(3.0)

    def run(self, call: Any, again_on: Any, *, waits: bool) -> None:
        xl.to_host_async(self.ones, out=self.memory, stream=self.stream)
        arrived = self.stream.record()
        self.stream.call(call)
        if waits:
            arrived.synchronize()  # so that no operation but the function wants the values
        xl.to_host_async(self.twos, out=self.memory, stream=again_on)
        xl.synchronize("sim:0")
        xl.sim.reads(self.memory)
        self.seen.append(self.memory[0])


@pytest.mark.parametrize("call", ["reads", "writes"])
def test_a_host_function_touches_memory_in_its_turn_and_beside_a_copy_it_is_a_race(call: str) -> None:
    guards = (False, True) if sys.platform == "linux" else (False,)
    for schedule in ("lazy", "lifo", "eager"):
        for waits, guard in itertools.product((False, True), guards):
            with xl.sim.check("raise", schedule=schedule, guard=guard):
                called = Called()
                called.run(getattr(called, call), called.stream, waits=waits)
            assert called.seen == ([1.0, 2.0] if call == "reads" else [2.0])
        with xl.sim.check("log", schedule=schedule) as check:
            called = Called()
            called.run(getattr(called, call), called.other, waits=True)
        with xl.sim.check("log", schedule=schedule) as behind:
            called = Called()
            called.other.wait(called.stream)
            called.other.call(getattr(called, call))  # beside the copies on the stream
            called.run(lambda: None, called.stream, waits=True)
        for races in (check.races, behind.races):
            assert {races[0].first.what, races[0].second.what} & {"a read", "a write"}


def test_what_a_host_function_writes_may_be_read_after_a_wait_alone() -> None:
    for schedule, waits in itertools.product(("lazy", "eager"), (True, False)):
        with xl.sim.check("log", schedule=schedule) as check:
            called = Called()
            called.stream.call(called.writes)
            if waits:
                called.stream.synchronize()
            called.reads()
            called.stream.synchronize()
        assert bool(check.races) == (not waits)


def test_functions_still_on_their_way_are_called_before_the_program_ends(backend: str) -> None:
    """Those of a stream, and those of a graph that is gone."""
    if backend == "fake":
        pytest.skip("it is not there in another process")
    program = f"""
import xferlib as xl
stream = xl.Stream({str(xl.get_device())!r})
with stream.capture() as graph:
    stream.call(print, "of the graph")
for _ in range(3):
    graph.launch(stream)
del graph
stream.call(print, "called")
{"stream.synchronize()" if backend == "sim" else ""}
"""
    after = processes.TORCH if backend == "torch" else processes.NUMPY
    assert processes.printed("-c", program, after=after) == "of the graph\n" * 3 + "called\n"


# --- current for good


def test_use_is_for_one_thread_and_makes_the_streams_device_current_too(backend: str) -> None:
    before, device = xl.current_stream(), xl.get_device()
    seen: list[Any] = []

    def work() -> None:
        stream = xl.Stream(device).use()
        with before:
            seen.append(xl.current_stream(device) == before)
        seen.append(xl.current_stream(device) == stream or device.kind == "cpu")
        xl.Stream("sim:sim:1").use()
        with xl.use_backend("sim"):
            seen.append(xl.get_device())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True, True, xl.Device("sim:sim:1")]
    assert xl.current_stream() == before


def test_the_legacy_default_stream_can_be_made_current(backend: str) -> None:
    if not xl.get_backend().capabilities.streams or backend == "fake":
        pytest.skip("no streams, or none that CUDA made")
    default = xl.Stream.from_any(1)
    with xl.Stream():
        with default:
            sent = xl.to_device(np.arange(3))
            assert xl.to_host(sent).tolist() == [0, 1, 2]
        default.synchronize()
    assert default.is_done


# --- properties


def test_a_stream_tells_how_it_was_made(backend: str) -> None:
    has_any = xl.get_device().kind == "cuda" or backend in ("sim", "fake")
    for made in itertools.product((0, -1), (True, False)):
        stream = xl.Stream(priority=made[0], non_blocking=made[1])
        assert (stream.priority, stream.is_non_blocking) == (made if has_any else (0, False))
    assert (xl.current_stream().priority, xl.current_stream().is_non_blocking) == (0, False)
    assert xl.Stream(priority=np.int64(-1)).priority == xl.Stream(priority=-1).priority  # type: ignore[arg-type]
    for wrong in (True, 1.0, "1", None, np.bool(True)):
        with pytest.raises(ArgumentError, match="not an int"):
            xl.Stream(priority=wrong)  # type: ignore[arg-type]


# --- adoption


class _Speaks:
    """An object whose ``__cuda_stream__`` gives ``answer``, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __cuda_stream__(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


_RUBBISH: list[Any] = [
    None, (), (0,), (0, 1, 2), 7, "ab", (0, "7"), (0, None), (0, -1), (0, 1 << 64), (0, 1.5), (0, True), ("0", 7),
    (None, 7), (1, 7), [], {}, IndexError("no"), ValueError("no"), RuntimeError("no"), AttributeError("no"),
]  # fmt: skip
_STRANGE: list[Any] = [None, "stream", 1.5, True, -1, 1 << 64, object, [], np.zeros(3)]


def test_what_is_no_stream_is_a_type_error() -> None:
    for use in (lambda native: xl.Stream.from_any(native, "sim:0"), xl.Stream("sim:0").wait):
        for native in (*map(_Speaks, _RUBBISH), *_STRANGE):
            with pytest.raises(TypeError, match="not a stream") as caught:
                use(native)
                pytest.fail(repr(native))
            assert isinstance(caught.value, StreamTypeError)
            assert isinstance(caught.value, StreamError)


# --- kinds of events


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("timing", [False, True])
def test_events_of_every_kind_order_and_complete(backend: str, blocking: bool, timing: bool) -> None:
    stream, other = xl.Stream(), xl.Stream()
    event = xl.Event(timing=timing, blocking=blocking)
    assert event.is_done
    d = xl.zeros(100_000)
    xl.synchronize()
    for value in (1.0, 2.0):
        xl.to_device(xl.pinned_array(np.full(100_000, value)), out=d, stream=stream)
        stream.record(event)
        other.wait(event)
        assert_same_bits(xl.to_host(d, stream=other), np.full(100_000, value))
        event.synchronize()
        assert event.is_done
    if timing:
        later = stream.record(xl.Event(blocking=blocking))
        assert later.elapsed_ms(event) >= 0


def test_a_blocking_event_is_recorded_on_another_device() -> None:
    event = xl.Event(blocking=True)
    for name in ("sim:0", "sim:1", "cpu"):
        assert xl.Stream(name).record(event) is event
        event.synchronize()


def test_an_interprocess_event_has_no_timing_and_is_opened_elsewhere(backend: str) -> None:
    assert not xl.Event(interprocess=True).timing
    with pytest.raises(ArgumentError, match="no timing"):
        xl.Event(interprocess=True, timing=True)
    with pytest.raises(StreamError, match="interprocess=True"):
        xl.Stream().record().ipc_handle()
    with pytest.raises(StreamError, match="record it first"):
        xl.Event(interprocess=True).ipc_handle()
    device = xl.get_device()
    event = xl.Event(interprocess=True)
    if device.kind != "cuda":
        with pytest.raises(UnsupportedError):
            xl.Stream().record(event)
        with pytest.raises(UnsupportedError):
            xl.Event.from_ipc_handle(bytes(64))
        return
    handle = xl.Stream().record(event).ipc_handle()
    event.synchronize()
    program = f"""
import xferlib as xl
event = xl.Event.from_ipc_handle({handle!r}, {str(device)!r})
stream = xl.Stream({str(device)!r})
stream.wait(event)
stream.synchronize()
print(event.is_done)
"""
    assert processes.printed("-c", program) == "True\n"
    with pytest.raises(ArgumentError, match="names no event"):
        xl.Event.from_ipc_handle(b"short", device)


def test_the_backend_of_a_plain_library_calls_after_it_has_waited(fake: Any) -> None:
    """A backend needs no way of its own to call host functions."""
    kind = type(load_backend("fake"))
    stream = xl.Stream("fake:sim:0")
    seen: list[int] = []
    d = xl.to_device(xl.pinned_array(np.ones(100), backend="fake"), stream=stream)
    super(kind, fake).stream_call(stream._raw, lambda: seen.append(1))
    assert stream.is_done
    assert seen == [1]
    del d


# --- what belongs to a process


def test_what_stands_for_a_processs_own_stays_in_it(backend: str) -> None:
    stream = xl.Stream()
    with stream.capture() as graph:
        stream.call(int)
    transfer = xl.to_device_async(np.ones(3))
    made = (xl.to_host_async(xl.ones(3)), xl.prefetch([np.ones(3)]), xl.pinned_pool())
    for each in (stream, xl.Event(), stream.record(), graph, transfer, *made):
        with pytest.raises(StreamTypeError, match="cannot be pickled; "):
            pickle.dumps(each)
        assert copy.copy(each) is each
        assert copy.deepcopy({"one": [each]})["one"][0] is each
    assert xl.to_host(transfer.result()).tolist() == [1, 1, 1]
