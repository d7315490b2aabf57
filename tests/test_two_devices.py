"""Copies between two devices, of every layout and dtype, with either device and stream current."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests import driver_double
from tests.processes import printed
from xferlib.errors import CaptureError, StreamError
from xferlib.testing.tools import assert_same_bits, in_threads

HOST = np.arange(24, dtype=np.float32).reshape(4, 6)
VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "steps": lambda x: x[:, ::2],
    "transposed": lambda x: x.transpose(1, 0),
    "part": lambda x: x[1:3, 2:5],
}


@pytest.fixture(params=["sim", "fake", "cupy", "torch", "pycuda"])
def places(request: pytest.FixtureRequest, plugins: Path) -> list[xl.Device]:
    """Two devices of a backend."""
    if request.param == "fake":
        request.getfixturevalue("fake")  # which refuses what a GPU would not forgive
    status = xl.available_backends()[request.param]
    found = [each for each in map(xl.Device, status.devices) if each.kind != "cpu"]
    if len(found) < 2:
        pytest.skip(f"{request.param} has no two devices here")
    return found[:2]


@pytest.mark.parametrize("view", VIEWS)
def test_a_copy_to_another_device_has_the_same_values(places: list[xl.Device], view: str) -> None:
    dtypes: tuple[Any, ...] = (None,) if places[0].backend == "fake" else (None, np.float64, np.int32)
    ways = [(0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1)]
    for dtype, (here, there, current) in itertools.product(dtypes, ways):
        expected = VIEWS[view](HOST).astype(dtype or np.float32, order="C")
        with places[current]:
            x = VIEWS[view](xl.to_device(HOST, device=places[here]))
            assert_same_bits(xl.to_host(xl.to_device(x, device=places[there], dtype=dtype)), expected)
            stream = xl.Stream(places[there])
            sent = xl.to_device(x, device=places[there], dtype=dtype, stream=stream)
            stream.synchronize()
            assert_same_bits(xl.to_host(sent), expected)
            out = xl.empty(expected.shape, expected.dtype, device=places[there])
            xl.to_device(x, dtype=dtype, out=out)
            assert_same_bits(xl.to_host(out), expected)
            arrived = xl.to_device_async(x, device=places[there], dtype=dtype).result()
            assert_same_bits(xl.to_host(arrived), expected)


def test_a_new_thread_copies_both_ways_and_keeps_its_current_device(places: list[xl.Device]) -> None:
    name, arrays = places[0].backend, [xl.to_device(HOST, device=each) for each in places]

    def run(_: int) -> None:
        for here, there in [(0, 1), (1, 0), (0, 0), (1, 1)]:
            current = xl.get_device(f"{name}:{places[0].kind}:{here}")
            with current:
                for x in (arrays[here], arrays[there]):
                    assert_same_bits(xl.to_host(xl.copy_to(x, places[there])), HOST)
                    assert_same_bits(xl.to_host(xl.to_device(x, out=xl.empty_like(arrays[there]))), HOST)
                assert xl.device_of(xl.empty((2,), "float32")) is current

    in_threads(run, (0,))


def test_a_capture_of_both_ends_streams_repeats_a_copy(places: list[xl.Device]) -> None:
    x, y = xl.to_device(HOST, device=places[0]), xl.empty(HOST.shape, HOST.dtype, device=places[1])
    here, there = map(xl.Stream, places)
    for place in places:
        place.synchronize()
    with here.capture() as graph:
        there.wait(here)
        with there:
            xl.to_device(x, out=y)
        here.wait(there)
    for number in range(3):
        with here:
            xl.to_device(HOST + number, out=x)
        graph.launch(here)
        here.synchronize()
        with there:
            assert_same_bits(xl.to_host(y), HOST + number)


_CUDA = """
import numpy as np, xferlib as xl
from xferlib._core.arrays import ArrayInfo, c_strides
from xferlib._core.device import Capabilities

asked, current = [], [0xC0]

class Event:
    made = 0
    def __init__(self, handle, *, timing=False, idle=None):
        self.handle, self.idle = handle, idle
    def __del__(self):
        if self.handle: self.idle.append(self.handle)

def create_event(timing, flags=0):
    Event.made += 1
    return 0, 100 + Event.made

def copy_behind(*given):
    asked.append(("copy", *given))
    return 0

calls.CudaEvent, calls.create_event, calls.copy_behind = Event, create_event, copy_behind
calls.context_current = lambda: current[0]
calls.context_use = lambda context: current.__setitem__(0, context)
calls.event_query = lambda event: asked.append(("query", event)) or 0
bindings = sys.modules["cuda.bindings.driver"]
bindings.cuDevicePrimaryCtxRetain = lambda index: (0, 0xC0 + index)
bindings.cuDevicePrimaryCtxGetState = lambda index: (0, 0, 1)
from xferlib.backends.cuda.backend import CudaBackend
from xferlib.testing import fresh_registry

class Array:
    def __init__(self, info): self.info = info

class Library(CudaBackend):
    name = "library"
    array_types = ("__main__.Array",)
    capabilities = Capabilities(streams=True, why=dict.fromkeys(Capabilities.__dataclass_fields__, "none here"))
    def __init__(self): super().__init__(2)
    def device_current(self): return self._devices[current[0] - 0xC0]
    def device_use(self, device): asked.append(("use", device.index)) or calls.context_use(0xC0 + device.index)
    def stream_handle(self, device): return 0
    def reaches(self, device, other): return True
    def view(self, array): return array.info
    def _empty(self, shape, dtype, device):
        return Array(ArrayInfo(0x1000 * (1 + device.index), shape, c_strides(shape, 4), dtype, device, True))
    def subarray(self, *_): raise NotImplementedError

with fresh_registry(library=Library):
    x, y = (xl.empty(3, "float32", device=f"library:cuda:{index}") for index in range(2))
    for call, made in ((lambda: xl.copy_to(x, 1), [("use", 1), ("use", 0)]), (lambda: xl.to_device(x, out=y), [])):
        for _ in range(3):
            asked.clear()
            call()
        (_, dst, src, nbytes, behind, free, stream, copied, first, second, is_mutual), *rest = asked[len(made):]
        assert asked[:len(made)] == made, asked
        assert (dst, src, nbytes, first, second, is_mutual) == (0x2000, 0x1000, 12, 0xC0, 0xC1, True)
        assert free != copied and [each[0] for each in rest] == ["query"], rest
        assert current == [0xC0]
    assert Event.made <= 4, Event.made
"""


def test_a_copy_between_two_gpus_is_one_call_within_both_contexts() -> None:
    driver_double.run(_CUDA)


@pytest.mark.parametrize("captured", [0, 1])
def test_a_copy_from_or_to_a_stream_outside_of_the_capture_is_refused(places: list[xl.Device], captured: int) -> None:
    x = xl.to_device(HOST, device=places[0])
    y, z = (xl.to_device(HOST + number, device=places[captured]) for number in range(2))
    stream = xl.Stream(places[captured])
    places[captured].synchronize()
    with stream.capture() as graph:
        with pytest.raises(CaptureError, match=r"copy from .*:0 to .*:1: .* not of one capture.* or copy outside"):
            xl.copy_to(x, places[1])
        xl.to_device(y, out=z)
    graph.launch(stream)
    stream.synchronize()
    assert_same_bits(xl.to_host(z), HOST)


SECOND_FIRST = """
import sys
import numpy as np
import xferlib as xl

first, second = map(xl.Device, sys.argv[1:])
if first.backend == "torch":  # which goes back to the first device only when that has a context
    import torch
    torch.ones(8, device="cuda:1").add_(1)
host = np.arange(300_000, dtype=np.int32)
made = [
    xl.empty(5, device=second), xl.zeros(5, device=second), xl.to_device(host[:7], device=second),
    xl.to_device(host[::3], device=second), xl.to_device(host.reshape(600, 500).T, device=second),
    *xl.tree.to_device([host[:9], host], device=second), *xl.prefetch([host, host[:5]], device=second),
]
assert {xl.device_of(each) for each in made} == {second}, [str(xl.device_of(each)) for each in made]
assert (xl.to_host(made[3]) == host[::3]).all()
assert xl.device_of(xl.empty(5, device=first)) == first
"""


def test_a_program_may_begin_with_the_second_device(places: list[xl.Device]) -> None:
    if places[0].backend == "fake":
        pytest.skip("it is not there in another process")
    printed("-c", SECOND_FIRST, *map(str, places))


def test_events_of_two_devices_have_no_elapsed_time(places: list[xl.Device]) -> None:
    one, two = (xl.Stream(place).record() for place in places)
    with pytest.raises(StreamError, match="on one device"):
        two.elapsed_ms(one)
