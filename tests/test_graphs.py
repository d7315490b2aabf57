"""Graphs: work captured on a stream, and launched again, with the same meaning on every backend."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.errors import CaptureError, LayoutError, XferWarning
from xferlib.testing import assert_same_bits
from xferlib.testing.tools import in_threads

step = xl.elementwise("float *x, float *y", "y[i] = 2 * y[i] + x[i]", name="step")
COUNT = 1000


def _fill(array: Any, value: float) -> None:
    xl.to_device(np.full(COUNT, value, "float32"), out=array)


def _device(value: float) -> Any:
    return xl.to_device(np.full(COUNT, value, "float32"))


def _host(array: Any, stream: xl.Stream | None = None) -> float:
    """The value of all elements."""
    found = xl.to_host(array, stream=stream)
    assert (found == found.flat[0]).all()
    return float(found.flat[0])


def _needs_kernels(backend: str) -> None:
    if backend == "fake":
        pytest.skip("the fake device computes nothing")


# --- copies


def test_copies_from_and_to_pinned_memory_are_repeated(backend: str) -> None:
    stream = xl.Stream()
    source, back = xl.pinned_empty(COUNT, "float32"), xl.pinned_empty(COUNT, "float32")
    source[:], back[:] = 1, -1
    first, second = _device(0), _device(0)
    xl.synchronize()
    with stream.capture() as graph:
        assert xl.to_device(source, out=first) is first
        xl.to_device(first, out=second)
        transfer = xl.to_host_async(second, out=back)
    xl.synchronize()
    assert (back == -1).all()
    assert _host(first) == 0
    for value in (3, 4, 5):
        source[:] = value
        graph.launch(stream)
        stream.synchronize()
        assert (back == value).all()
    assert transfer.result() is back


def test_a_graph_keeps_what_it_uses_and_may_die_while_its_launch_is_in_flight(backend: str) -> None:
    stream, back = xl.Stream(), xl.pinned_empty(COUNT, "float32")

    def captured() -> xl.Graph:
        source, between = xl.pinned_array(np.full(COUNT, 7, "float32")), _device(0)
        xl.synchronize()
        with stream.capture() as graph:
            xl.to_device(source, out=between)
            xl.to_host_async(between, out=back)
        return graph

    graph = captured()
    gc.collect()
    others = [(xl.pinned_array(np.zeros(COUNT, "float32")), _device(9)) for _ in range(4)]  # would take freed memory
    for _ in range(2):
        back[:] = -1
        graph.launch(stream)
        stream.synchronize()
        assert (back == 7).all()
    back[:] = -1
    graph.launch(stream)
    del graph, others
    gc.collect()
    stream.synchronize()
    assert (back == 7).all()


@pytest.mark.parametrize("follows", [False, True], ids=["an event a launch", "one event at the end"])
def test_what_a_graph_uses_lives_until_its_last_launch_is_done(
    fake: Any, monkeypatch: pytest.MonkeyPatch, *, follows: bool
) -> None:
    with xl.use_backend("fake"):
        stream, back = xl.Stream(), xl.pinned_empty(COUNT, "float32")
        source = _device(6)
        alive = weakref.ref(source)
        xl.synchronize()
        with stream.capture() as graph:
            xl.to_host_async(source, out=back)
        del source
        record, records = fake.event_record, itertools.count()
        monkeypatch.setattr(fake, "event_record", lambda *args, **kw: (next(records), record(*args, **kw))[1])
        monkeypatch.setattr(fake, "follows_launches", lambda stream: follows)
        for _ in range(3):
            graph.launch(stream)
        assert next(records) == (0 if follows else 3)
        del graph
        gc.collect()
        _begin_another_capture()
        assert alive() is not None
        stream.synchronize()
        _begin_another_capture()
        assert alive() is None
    assert (back == 6).all()


def _begin_another_capture() -> None:
    """Let the library look for graphs that are gone and done."""
    stream = xl.Stream()
    with stream.capture():
        stream.call(int)
    gc.collect()


def test_a_backward_pass_is_captured_with_the_memory_of_its_threads() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no cuda device")
    with xl.use_backend("torch"), xl.get_device("cuda:0"):
        weight = torch.randn(512, 512, device="cuda", requires_grad=True)
        x = torch.randn(64, 512, device="cuda")
        stream = xl.Stream()

        def gradient() -> Any:
            loss = ((x @ weight).tanh() @ weight.T).sin().sigmoid().square().sum()  # no infinities
            return torch.autograd.grad(loss, weight)[0]

        with stream:
            gradient()  # cuBLAS makes its memory before the capture
            stream.synchronize()
            with stream.capture() as graph:
                found = gradient()
            for seed in range(4):
                x.copy_(torch.randn(64, 512, generator=torch.Generator().manual_seed(seed)))
                others = [torch.full((512, 512), 3.0, device="cuda") for _ in range(16)]
                graph.launch(stream)
                expected = gradient()
                stream.synchronize()
                assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)
                assert all((each == 3).all() for each in others)  # no launch writes to memory of another array


# --- kernels


def test_kernels_run_at_each_launch_and_never_before(backend: str) -> None:
    _needs_kernels(backend)
    stream = xl.Stream()
    x, y = _device(1), _device(1)
    raw = xl.raw_module(
        'extern "C" __global__ void add(float *x, float by, int n) {'
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += by; }"
    ).get_function("add", cpu=lambda x, by, n: np.add(x, by, out=x))
    step(x, y)
    raw(4, 256, (y, 0.0, COUNT))
    xl.kernels.reductions.sum(y)
    xl.synchronize()
    with stream.capture() as graph:
        step(x, y)
        raw(4, 256, (y, 10.0, COUNT))
        total = xl.kernels.reductions.sum(y)
        new = xl.elementwise(lambda a, b: a - b)(y, x)
    assert _host(y) == 3
    expected = 3.0
    for _ in range(3):
        graph.launch()
        expected = 2 * expected + 1 + 10
        assert _host(y) == expected
        assert _host(total) == COUNT * expected
        assert _host(new) == expected - 1


def test_numbers_are_those_of_the_capture_and_launches_follow_one_another_on_any_stream(backend: str) -> None:
    _needs_kernels(backend)
    one, two = xl.Stream(), xl.Stream()
    scale = xl.elementwise("float *x, float by", "x[i] *= by")
    x, y, z = _device(1), _device(0), _device(1)
    step(x, y)
    scale(z, 1)
    xl.synchronize()
    with one.capture() as graph:
        step(x, y)
        for by in (2, 3):
            scale(z, by)
    with xl.trace() as trace:
        for stream in (one, two, one, two):
            graph.launch(stream)
        two.synchronize()
    assert (_host(y, two), _host(z, two)) == (31, 6**4)
    assert any("graph" in each.name or "step" in each.name for each in trace.operations)


def test_arrays_of_one_value_are_filled_at_each_launch(backend: str) -> None:
    stream, backs = xl.Stream(), [xl.pinned_empty(COUNT, "float32") for _ in range(3)]
    xl.synchronize()
    with stream.capture() as graph:
        given = [xl.zeros(COUNT, "float32"), xl.full(COUNT, 2.5, "float32"), xl.ones_like(xl.empty(COUNT, "float32"))]
        for array, back in zip(given, backs, strict=True):
            xl.to_host_async(array, out=back)
    del given
    for _ in range(2):
        for back in backs:
            back[:] = -1
        graph.launch(stream)
        stream.synchronize()
        assert [back.tolist() for back in backs] == [[value] * COUNT for value in (0, 2.5, 1)]


def test_an_array_of_one_value_that_dies_behind_the_join_is_still_filled(backend: str) -> None:
    _needs_kernels(backend)
    stream, side = xl.Stream(), xl.Stream()
    y = _device(3)
    xl.synchronize()
    with stream.capture() as graph:
        side.wait(stream)
        with side:
            dropped = xl.full(COUNT, 2.0, "float32")
        stream.wait(side)
        del dropped
        step(y, y)
    for _ in range(2):
        graph.launch(stream)
    assert _host(y, stream) == 27


def test_streams_that_wait_for_the_captured_one_belong_to_the_graph(backend: str) -> None:
    _needs_kernels(backend)
    stream, other = xl.Stream(), xl.Stream()
    x, y, z = _device(1), _device(0), _device(0)
    step(x, y)
    xl.synchronize()
    with stream.capture() as graph:
        step(x, y)
        other.wait(stream)
        with other:
            step(x, z)
        step(x, y)
        stream.wait(other)
        step(z, y)
    xl.synchronize()
    assert (_host(y), _host(z)) == (1, 0)
    graph.launch(stream)
    assert [_host(each, stream) for each in (y, z)] == [15, 1]
    other.synchronize()
    step(x, y)


@pytest.mark.parametrize("through", [False, True], ids=["one stream", "a stream behind it"])
def test_a_stream_that_is_not_waited_for_is_told_of(through: bool) -> None:
    with xl.use_backend("sim"):
        stream, other, third = xl.Stream(), xl.Stream(), xl.Stream()
        x, y = _device(1), _device(1)
        xl.synchronize()
        with pytest.raises(CaptureError, match=r"stream\.wait\(other\)"), stream.capture() as graph:
            other.wait(stream)
            with other:
                step(x, y)
            if through:
                stream.wait(other)
                third.wait(other)
                with third:
                    step(x, y)
        with pytest.raises(CaptureError, match="its block raised"):
            graph.launch()
        with stream.capture() as again:
            other.wait(stream)
            with other:
                step(x, y)
            third.wait(other)
            stream.wait(third)
        again.launch(stream)
        assert _host(y, stream) == 3


def test_host_functions_are_called_at_each_launch(backend: str) -> None:
    stream, before = xl.Stream(), xl.current_stream()
    calls: list[int] = []
    with stream.capture() as graph:
        assert xl.current_stream() == stream
        stream.call(calls.append, 1)
    assert xl.current_stream() == before
    assert "complete" in repr(graph)
    assert calls == []
    for _ in range(2):
        graph.launch(stream)
    stream.synchronize()
    assert calls == [1, 1]


# --- refusals


WAITS: dict[str, Callable[[xl.Stream, Any, Any], Any]] = {
    "stream": lambda stream, d, h: stream.synchronize(),
    "poll": lambda stream, d, h: stream.is_done,
    "device": lambda stream, d, h: xl.synchronize(),
    "event": lambda stream, d, h: stream.record().synchronize(),
    "event poll": lambda stream, d, h: stream.record().is_done,
    "host": lambda stream, d, h: xl.to_host(d),
    "host pinned": lambda stream, d, h: xl.to_host(d, out=h),
    "capture": lambda stream, d, h: stream.capture().__enter__(),
    "another capture": lambda stream, d, h: xl.Stream().capture().__enter__(),
    "tree": lambda stream, d, h: xl.tree.to_host((d, d)),
    "prefetch": lambda stream, d, h: next(iter(xl.prefetch([h, h]))),
    "map": lambda stream, d, h: xl.stream_map(lambda rows: rows, h, chunk_rows=100),
    "trace": lambda stream, d, h: xl.trace().__enter__(),
    "event before": lambda stream, d, h: stream.wait(xl.Stream().record()),
}


def test_calls_that_wait_are_refused_and_spoil_nothing(backend: str) -> None:
    stream, back, d = xl.Stream(), xl.pinned_empty(COUNT, "float32"), _device(4)
    xl.synchronize()
    for name, call in WAITS.items():
        back[:] = -1
        with stream.capture() as graph:
            xl.to_host_async(d, out=back)
            with pytest.raises(CaptureError) as caught:
                call(stream, d, back)
                pytest.fail(name)
            assert isinstance(caught.value, RuntimeError)  # as the errors of CuPy and torch are
        graph.launch(stream)
        stream.synchronize()
        assert (back == 4).all(), name


def test_copies_that_a_graph_cannot_hold_are_refused(backend: str) -> None:
    if not xl.get_backend().capabilities.streams:
        pytest.skip("on a CPU any two arrays will do")
    stream = xl.Stream()
    d, pinned = _device(4), xl.pinned_array(np.ones(COUNT, "float32"))
    xl.synchronize()
    with stream.capture() as graph:
        for source in (np.ones(COUNT, "float32"), pinned[::-1], xl.pinned_array(np.ones(COUNT))):
            with pytest.raises(CaptureError, match="capture"):
                xl.to_device(source, out=d, dtype="float32")
        with pytest.raises(CaptureError, match="pageable"):
            xl.to_host_async(d, out=np.empty(COUNT, "float32"))
        with pytest.raises(LayoutError, match="out="):
            xl.to_host_async(d)
        with pytest.raises(CaptureError, match="one capture"):
            xl.to_device(pinned, out=d, stream=xl.Stream())
        xl.to_device(pinned, out=d)
    graph.launch(stream)
    assert _host(d, stream) == 1


def test_default_streams_cannot_be_captured(backend: str) -> None:
    with pytest.raises(CaptureError, match="default stream"), xl.current_stream().capture():
        pass
    if xl.get_backend().capabilities.streams:
        with pytest.raises(CaptureError, match="default stream"), xl.Stream(non_blocking=False).capture():
            pass


def test_a_graph_is_launched_after_a_block_that_ended(backend: str) -> None:
    stream = xl.Stream()
    with stream.capture() as graph, pytest.raises(CaptureError, match="has not ended"):
        stream.call(int)
        graph.launch()
    with pytest.raises(ValueError, match="mine"), stream.capture() as failed:
        raise ValueError("mine")
    with pytest.raises(CaptureError, match="raised an error"):
        failed.launch()
    with stream.capture() as again, pytest.raises(CaptureError, match="captured"):
        stream.call(int)
        graph.launch(stream)
    again.launch(stream)
    stream.synchronize()
    event = stream.record()
    event.synchronize()


def test_a_graph_without_work_is_told_of(backend: str) -> None:
    stream, d = xl.Stream(), _device(1)
    xl.synchronize()
    with pytest.warns(XferWarning, match="recorded no work") as told, stream.capture() as graph:
        assert d is not None  # a program whose library works on a stream of its own
    assert told[0].filename == __file__
    graph.launch(stream)
    assert _host(d, stream) == 1


def test_an_event_of_a_capture_is_no_event_afterwards(backend: str) -> None:
    stream = xl.Stream()
    with stream.capture():
        stream.call(int)
        event = stream.record()
    for use in (event.synchronize, lambda: event.is_done, lambda: stream.wait(event)):
        with pytest.raises(CaptureError):
            use()
    stream.record(event).synchronize()


def test_other_threads_go_on_and_may_capture_at_the_same_time(backend: str) -> None:
    barrier, found = threading.Barrier(3, timeout=60), {}

    def work(value: int) -> None:
        with xl.use_backend(backend):
            stream, back, d = xl.Stream(), xl.pinned_empty(COUNT, "float32"), _device(value)
            xl.current_stream().synchronize()
            barrier.wait()
            if value == 3:  # this one does what a capture refuses, while the others capture
                barrier.wait()
                with stream:
                    found[value] = _host(_device(value))
                barrier.wait()
                return
            with stream.capture() as graph:
                barrier.wait()
                xl.to_host_async(d, out=back)
                barrier.wait()
            graph.launch(stream)
            stream.synchronize()
            found[value] = float(back.mean())

    in_threads(work, (1, 2, 3))
    assert found == {1: 1.0, 2: 2.0, 3: 3.0}


def test_an_array_that_dies_in_a_capture_is_freed_after_it(backend: str) -> None:
    stream = xl.Stream()
    with stream:
        dying, kept = _device(1), _device(5)
    stream.synchronize()
    back = xl.pinned_empty(COUNT, "float32")
    with stream.capture() as graph:
        del dying
        gc.collect()
        xl.to_host_async(kept, out=back)
    for _ in range(2):
        graph.launch(stream)
    stream.synchronize()
    assert (back == 5).all()


def test_pageable_memory_on_a_stream_that_another_librarys_graph_records_is_refused(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, device = np.arange(10.0), "fake:sim:0"
    d, stream = xl.to_device(x, device=device), xl.Stream(device)
    xl.synchronize(device)
    monkeypatch.setattr(fake, "stream_is_recorded", lambda each: each.handle == stream.handle)
    for call in (
        lambda: xl.to_device(x, stream=stream),
        lambda: xl.to_device(x[::-1], out=d, stream=stream),
        lambda: xl.to_host(d, stream=stream),
        lambda: xl.tree.to_device([x, x, x], device=device, stream=stream),
    ):
        with pytest.raises(CaptureError, match="a graph records a stream of fake:sim:0, and cannot copy pageable"):
            call()
    assert_same_bits(xl.to_host(d), x)


def test_a_recording_of_another_library_does_not_take_pageable_memory() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    x, t = np.arange(10.0, dtype=np.float32), torch.ones(10, device="cuda")
    for call in (lambda: xl.to_device(x, backend="torch"), lambda: xl.to_host(t)):
        call()  # which makes the pinned memory that a recording does not allow to be made
        torch.cuda.synchronize()
        with (
            pytest.raises(CaptureError, match="cannot copy pageable memory"),
            torch.cuda.graph(torch.cuda.CUDAGraph()),
        ):
            t.add(1)  # torch warns of a graph without operations
            call()
        torch.cuda.synchronize()
        assert_same_bits(xl.to_host(xl.to_device(x, backend="torch")), x)
