"""Objects in words: `repr` neither raises, nor waits, nor asks a device; notebooks get pictures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.dom import minidom

import numpy as np
import pytest

import xferlib as xl
from tests.fake import FakeBackend
from xferlib import sim
from xferlib.testing import fresh_registry, load_backend

X = np.ones(1 << 15)
SOURCE = 'extern "C" __global__ void k(float *x)\n{ x[0] = 1; }'


@pytest.fixture
def on_sim() -> Iterator[None]:
    with xl.use_backend("sim"):
        yield


def begun(loader: xl.Prefetcher[Any]) -> xl.Prefetcher[Any]:
    next(loader)
    return loader


def closed(loader: xl.Prefetcher[Any]) -> xl.Prefetcher[Any]:
    loader.close()
    return loader


def recorded(**options: Any) -> xl.Event:
    return xl.Stream().record(xl.Event(**options))


def traced() -> xl.trace:
    with xl.trace() as found:
        xl.to_host(xl.to_device(X))
    return found


WORDS: list[tuple[Callable[[], Any], str]] = [
    (xl.Stream, r"<Stream \d+ on sim:sim:0>"),
    (xl.current_stream, "<Stream: the default stream of sim:sim:0>"),
    (lambda: xl.Stream("numpy:cpu"), "<Stream on numpy:cpu, where all work is in order>"),
    (xl.Event, "<Event not recorded>"),
    (lambda: xl.Event(timing=False, blocking=True), "<Event not recorded, without timing, blocking>"),
    (recorded, "<Event recorded on sim:sim:0>"),
    (xl.get_backend, "<Backend 'sim' on sim:sim:0, sim:sim:1>"),
    (lambda: xl.use_backend("sim"), "<use_backend 'sim'>"),
    (xl.get_device, r"Device\('sim:sim:0'\)"),
    (lambda: xl.to_device_async(X), "<Transfer of 262144 bytes to sim:sim:0, staged, in flight>"),
    (lambda: xl.to_host_async(xl.ones(2), out=xl.pinned_empty(2)), "<Transfer of 16 bytes from sim:sim:0, .*>"),
    (lambda: xl.to_device_async(X, backend="numpy"), "<Transfer of 262144 bytes to numpy:cpu, host, complete>"),
    (lambda: xl.prefetch([X, X]), "<Prefetcher over list, 0 batches taken>"),
    (lambda: begun(xl.prefetch(iter([X, X]))), "<Prefetcher over list_iterator, 1 batch taken>"),
    (lambda: closed(xl.prefetch([X])), "<Prefetcher over list, closed>"),
    (lambda: xl.raw_module(SOURCE), "<RawModule of 2 lines of CUDA source, not loaded>"),
    (lambda: xl.raw_module("__global__ void k(float *x) {}"), "<RawModule of 1 line of CUDA source, not loaded>"),
    (lambda: xl.explain(X), "to device: 262144 bytes, path 'staged', expected time unknown(.|\n)*"),
    (lambda: xl.raw_module(SOURCE).get_function("k"), r"<RawKernel k\(x\)>"),
    (lambda: xl.elementwise("T x", "T y", "y = x", name="same"), r"<ElementwiseKernel same\(x, y\)>"),
    (lambda: xl.pin(X), "<pin of 262144 bytes for sim, not page-locked>"),
    (xl.pinned_pool, r"<PinnedPool of sim: \d+ bytes, when full: stage>"),
    (xl.trace, "<xferlib.trace: not begun>"),
    (lambda: xl.trace().__enter__(), "<xferlib.trace: open>"),
    (traced, "<xferlib.trace: ended, not read yet>"),
    (lambda: (found := traced()).operations and found, r"<xferlib.trace: \d+ operations>"),
    (sim.check, "<sim.check, mode 'raise': 0 faults>"),
    (lambda: sim.timeline("h200").__enter__(), "<Timeline on machine 'h200': 0 operations in 0.000 ms>"),
]  # fmt: skip


@pytest.mark.usefixtures("on_sim")
@pytest.mark.parametrize(("make", "words"), WORDS, ids=[words for _, words in WORDS])
def test_objects_are_shown_in_words(make: Callable[[], Any], words: str) -> None:
    with sim.timeline():  # which a case may open anew
        thing = make()
        assert re.fullmatch(words, repr(thing)), repr(thing)
        if isinstance(thing, xl.trace) and "open" in words:
            thing.__exit__(None, None, None)
        xl.synchronize()


def test_no_repr_asks_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device whose every call would fail."""
    with fresh_registry(fake=FakeBackend), xl.use_backend("fake"):
        stream, event, up = xl.Stream(), recorded(), xl.to_device_async(X)
        down = xl.to_host_async(xl.ones(1 << 15), out=xl.pinned_empty(1 << 15))
        pool, backend, loader, found = xl.pinned_pool(), xl.get_backend(), xl.prefetch([X, X]), traced()
        things = [stream, xl.current_stream(), event, up, down, pool, backend, loader, found, xl.get_device()]
        raw: Any = load_backend("fake")

        def refuse(*args: object, **options: object) -> None:
            raise AssertionError("the device was asked")

        asked = [name for name in dir(raw) if re.match("event_|stream_|device_|copy|empty|pinned_alloc", name)]
        assert len(asked) > 15
        with monkeypatch.context() as patch:
            for name in asked:
                patch.setattr(raw, name, refuse)
            shown = [repr(each) for each in things]
        assert all(each.startswith("<") or "Device" in each for each in shown)
        assert "in flight" in shown[3]
        assert "in flight" in shown[4]
        loader.close()
        up.result()
        down.result()
        assert "complete" in repr(down)
        xl.synchronize()


def test_a_failed_transfer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with xl.use_backend("sim"), sim.faults("lost device", at=0), pytest.raises(xl.errors.XferError):
        transfer = xl.to_device_async(X)
        try:
            transfer.result()
        finally:
            assert "failed" in repr(transfer)


def test_a_backend_whose_devices_cannot_be_listed_has_a_repr() -> None:
    class Broken(FakeBackend):
        def devices(self) -> Any:
            raise RuntimeError("the library is not there")

    assert repr(object.__new__(Broken)) == "<Backend 'fake' on devices that cannot be listed>"


# --- in notebooks


@pytest.mark.usefixtures("on_sim")
def test_a_trace_is_its_timeline_in_a_notebook() -> None:
    with xl.trace() as found:
        assert found._repr_html_() is None  # not before its end
        x = xl.to_device(X)
        with xl.trace.range('<b onclick="alert()">forward & back</b>'):
            x += 1.0
        xl.synchronize()
    html = found._repr_html_()
    assert html is not None
    picture: Any = minidom.parseString(html)  # well-formed, so that nothing of a name is markup
    assert len(picture.getElementsByTagName("rect")) >= 3
    tips = [each.firstChild.data for each in picture.getElementsByTagName("title")]
    assert any(tip.startswith('<b onclick="alert()">forward & back</b>, ') for tip in tips)
    assert any(tip.startswith("256 KiB, ") for tip in tips)
    titles = [each.firstChild.data for each in picture.getElementsByTagName("text") if each.firstChild]
    assert {"H2D, default stream", "kernels, default stream"} <= set(titles)
    assert not picture.getElementsByTagName("b")
    assert html.count("% overlap") == 1
    assert {"call", "to the device", "kernel", "range"} <= set(titles)  # the legend
    times = [float(match[1]) for title in titles if (match := re.fullmatch(r"([\d.]+)( [µm]?s)?", title))]
    steps = {round((two - one) / (times[1] - times[0]), 6) for one, two in itertools.pairwise(times)}
    assert steps == {1.0}
    assert f"{times[1]:.0e}"[0] in "125"


def test_a_trace_without_operations_says_so_in_a_notebook() -> None:
    assert xl.trace()._repr_html_() is None
    with xl.trace() as found:
        pass
    assert "nothing was recorded" in str(found._repr_html_())


@pytest.mark.usefixtures("on_sim")
def test_a_trace_that_cannot_be_drawn_is_shown_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    found = traced()
    monkeypatch.setattr(xl.trace, "operations", property(lambda _: 1 / 0))
    assert found._repr_html_() is None
    assert repr(found) == "<xferlib.trace: ended, not read yet>"
