"""`copy_to`: from device to device, of one library or two, directly or through the host, in the order of both ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.pair import RightArray
from xferlib.errors import DeviceNotFoundError, LayoutError, StreamError
from xferlib.testing import assert_same_bits, no_peers

HOST = np.arange(24, dtype=np.float32).reshape(4, 6)
LARGE = np.arange(3 * (5 << 20) // 4, dtype=np.uint32)  # 15 MiB: more than the staging buffers hold at once
SIM = ("sim:sim:0", "sim:sim:1")


def peers(backend: str, is_direct: bool) -> AbstractContextManager[None]:
    """Let devices reach each other, or not."""
    return nullcontext() if is_direct else no_peers(backend)


def moved(x: Any, device: Any, **options: Any) -> np.ndarray[Any, Any]:
    return xl.to_host(xl.copy_to(x, device, **options))


# --- which device


def test_a_bare_specification_is_of_the_arrays_own_backend() -> None:
    x = xl.to_device(HOST, device=SIM[0])
    with xl.use_backend("numpy"):
        for spec in (1, "1", "sim:1", "sim:sim:1", xl.Device(SIM[1])):
            assert xl.device_of(xl.copy_to(x, spec)) is xl.Device(SIM[1])
        assert xl.device_of(xl.copy_to(x, "cpu")) is xl.Device("numpy:cpu")
        assert xl.device_of(xl.copy_to(x, None)) is xl.Device(SIM[0])
        assert xl.get_backend().name == "numpy"


def test_a_backends_name_is_its_current_device_each_time(fake: Any) -> None:
    x = xl.to_device(HOST, device="fake:sim:0")
    for device in map(xl.Device, ("fake:sim:1", "fake:sim:0", "fake:sim:1")):
        with device:
            assert xl.device_of(xl.copy_to(x, "fake")) is device


def test_an_array_stands_for_its_device() -> None:
    x, y = (xl.to_device(HOST, device=device) for device in SIM)
    assert xl.device_of(xl.copy_to(x, y)) is xl.Device(SIM[1])
    assert xl.device_of(xl.copy_to(HOST, y)) is xl.Device(SIM[1])
    assert type(xl.copy_to(x, HOST)) is np.ndarray


def test_what_lies_there_is_copied_unless_that_is_not_needed() -> None:
    x = xl.to_device(HOST, device=SIM[0])
    assert xl.copy_to(x, SIM[0]) is not x
    assert xl.copy_to(x, SIM[0], copy=None) is x
    assert xl.copy_to(x, x, copy=False) is x
    with pytest.raises(LayoutError, match="the array is on sim:sim:0, not sim:sim:1"):
        xl.copy_to(x, 1, copy=False)


def test_wrong_arguments_are_refused() -> None:
    x = xl.to_device(HOST, device=SIM[0])
    with pytest.raises(DeviceNotFoundError, match="device='7' does not exist: sim sees sim:sim:0, sim:sim:1"):
        xl.copy_to(x, 7)
    with pytest.raises(StreamError, match="the stream is of sim:sim:0, but the array of sim:sim:1"):
        xl.copy_to(x, 1, stream=xl.Stream(SIM[0]))


# --- both ways, every layout


VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "steps": lambda x: x[:, ::2],
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1],
    "part": lambda x: x[1:3, 2:5],
    "empty": lambda x: x[:0],
    "one": lambda x: x[3, 5],
}


@pytest.mark.parametrize("is_direct", [True, False])
@pytest.mark.parametrize("dtype", [None, "float64", "float16"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_layout_and_dtype_arrives(view: str, dtype: str | None, is_direct: bool) -> None:
    x, expected = VIEWS[view](xl.to_device(HOST, device=SIM[0])), np.asarray(VIEWS[view](HOST))
    with peers("sim", is_direct):
        assert_same_bits(moved(x, 1, dtype=dtype), expected.astype(dtype or "float32", order="C"))


@pytest.mark.parametrize("schedule", ["lazy", "lifo", "eager", "random"])
def test_a_copy_through_the_host_is_ordered_whatever_the_schedule(schedule: str) -> None:
    with xl.sim.check(schedule=schedule, seed=3), no_peers("sim"):
        x = xl.to_device(LARGE, device=SIM[0])
        y = xl.copy_to(x, 1)
        with xl.Device(SIM[0]):
            x += 1
        with xl.Device(SIM[1]):
            y += 2
        assert_same_bits(xl.to_host(y), LARGE + 2)
        assert_same_bits(xl.to_host(xl.to_device(y, out=x)), LARGE + 2)


def test_a_copy_through_the_host_uses_both_links_at_once_and_a_direct_one_neither() -> None:
    lanes = {}
    for peer in (300e9, 0.0):
        x = xl.to_device(LARGE, device=SIM[0])
        with xl.sim.timeline(dataclasses.replace(xl.sim.H200, peer=peer)) as timeline:
            xl.copy_to(x, 1)
            xl.Device(SIM[1]).synchronize()
        lanes[peer] = {(each.lane.value, each.device) for each in timeline if each.nbytes}
    assert lanes == {300e9: {("peer", 1)}, 0.0: {("d2h", 0), ("h2d", 1)}}
    down, up = xl.sim.Lane.D2H, xl.sim.Lane.H2D
    assert timeline.busy_s(down, up) < 0.6 * (timeline.busy_s(down) + timeline.busy_s(up))


# --- order


@pytest.mark.parametrize("is_direct", [True, False])
def test_a_source_may_be_changed_where_it_is_and_the_target_used_where_that_is(is_direct: bool) -> None:
    with xl.sim.check(schedule="lifo"):
        x = xl.to_device(HOST, device=SIM[0])
        with peers("sim", is_direct):
            y = xl.copy_to(x, 1)
        with xl.Device(SIM[0]):
            x *= 0
        del x
        with xl.Device(SIM[1]):
            assert_same_bits(xl.to_host(y + 1), HOST + 1)


def test_to_device_keeps_the_same_promise() -> None:
    with xl.sim.check(schedule="lifo"):
        x, y = xl.to_device(HOST, device=SIM[0]), xl.empty(HOST.shape, HOST.dtype, device=SIM[1])
        xl.to_device(x, out=y)
        with xl.Device(SIM[0]):
            x *= 0
        assert_same_bits(xl.to_host(y), HOST)


def test_with_a_stream_the_source_waits_for_nothing_and_must_not_be_changed() -> None:
    with xl.sim.check("log") as check:
        x = xl.to_device(HOST, device=SIM[0])
        stream = xl.Stream(SIM[1])
        y = xl.copy_to(x, 1, stream=stream)
        with xl.Device(SIM[0]):
            x *= 0
        stream.synchronize()
        xl.to_host(y)
    assert [race.hazard for race in check.races] == [xl.sim.Hazard.WRITE_AFTER_READ]


def test_streams_that_differ_on_one_device_are_ordered_both_ways_too(pair: Any) -> None:
    x = xl.to_device(HOST, device="left:sim:0")
    y = xl.copy_to(x, "right:sim:0")
    xl.to_device(HOST * 0, out=x)
    assert_same_bits(xl.to_host(y), HOST)


def test_a_stream_of_its_own_frees_what_another_one_copies_only_then(fake: Any) -> None:
    """The next work of the stream that the memory belongs to may take it as soon as the array is dropped."""
    own = xl.Stream("fake:sim:0")
    for there in ("fake:sim:1", "fake:sim:0"):
        with own:
            x = xl.to_device(HOST, device="fake:sim:0")
        xl.current_stream("fake:sim:0").wait(own)
        y = xl.copy_to(x, there)
        del x
        with own:
            xl.to_device(HOST * 0, device="fake:sim:0")
            own.synchronize()
        assert_same_bits(xl.to_host(y), HOST)


# --- two libraries


@pytest.mark.parametrize("is_direct", [True, False])
@pytest.mark.parametrize("there", ["right:sim:0", "right:sim:1"])
def test_an_array_of_another_library_arrives_on_any_device(pair: Any, there: str, is_direct: bool) -> None:
    for host in (HOST, LARGE):
        x = xl.to_device(host, device="left:sim:0")
        with peers("right", is_direct):
            y = xl.copy_to(x, there)
        del x  # whose memory the next copies would take
        xl.to_device(host * 0, device="left:sim:0")
        assert isinstance(y, RightArray)
        assert_same_bits(xl.to_host(y), host)
        assert_same_bits(xl.to_host(xl.copy_to(y, "left:sim:1")), host)


def test_a_copy_over_another_librarys_array_takes_memory_by_that_librarys_stream(pair: Any) -> None:
    x: Any = xl.to_device(HOST.reshape(-1), device="left:sim:0")
    there = x.info._replace(pointer=x.pointer + 4, shape=(20,), device=xl.Device("right:sim:0"))
    y = RightArray(x.allocation, there)  # over the same memory
    stream = xl.Stream("right:sim:0")
    xl.to_device(x[:20], out=y, stream=stream)
    stream.synchronize()
    assert_same_bits(xl.to_host(y), HOST.reshape(-1)[:20])


@pytest.mark.parametrize("here", ["cupy", "torch", "pycuda"])
@pytest.mark.parametrize("there", ["cupy", "torch", "pycuda"])
def test_libraries_on_one_gpu_exchange_and_convert_arrays_on_any_stream(here: str, there: str) -> None:
    for name in (here, there):
        if not any("cuda" in each for each in xl.available_backends()[name].devices):
            pytest.skip(f"{name} has no GPU here")
    x = xl.to_device(HOST, device=f"{here}:cuda:0")
    for stream in (None, xl.Stream(f"{there}:cuda:0")):
        for dtype in (None, "float64"):
            y = xl.copy_to(x, f"{there}:cuda:0", dtype=dtype, stream=stream)
            if stream is not None:
                stream.synchronize()
            assert_same_bits(xl.to_host(y), HOST.astype(dtype or HOST.dtype))
    with xl.Stream(f"{here}:cuda:0") as own:  # which both libraries can still make current
        assert_same_bits(moved(x, f"{there}:cuda:0"), HOST)
        own.synchronize()


@pytest.mark.parametrize("here", ["cupy", "torch", "pycuda"])
@pytest.mark.parametrize("there", ["cupy", "torch", "pycuda"])
@pytest.mark.parametrize("is_direct", [True, False])
def test_libraries_on_two_gpus_exchange_arrays(here: str, there: str, is_direct: bool) -> None:
    for name in (here, there):
        status = xl.available_backends()[name]
        if len([each for each in status.devices if "cuda" in each]) < 2:
            pytest.skip(f"{name} has no two GPUs here")
    for host in (HOST, LARGE):
        x = xl.to_device(host, device=f"{here}:cuda:0")
        for stream in (None, xl.Stream(f"{there}:cuda:1")):
            with peers(there, is_direct):
                y = xl.copy_to(x, f"{there}:cuda:1", stream=stream)
            if stream is not None:
                stream.synchronize()
            assert_same_bits(xl.to_host(y), host)
            assert_same_bits(moved(y, f"{here}:cuda:0"), host)


# --- on one device


@pytest.mark.parametrize("parts", [(slice(1, None), slice(None, -1)), (slice(0, 50), slice(0, 100, 2))])
def test_a_copy_over_its_own_source_never_reads_what_it_writes(parts: tuple[slice, slice]) -> None:
    expected = np.arange(100.0)
    expected[parts[1]] = expected[parts[0]].copy()
    x = xl.to_device(np.arange(100.0), device=SIM[0])
    with xl.sim.timeline() as timeline:
        xl.to_device(x[parts[0]], out=x[parts[1]])
        xl.Device(SIM[0]).synchronize()
    assert_same_bits(xl.to_host(x), expected)
    assert len([each for each in timeline if each.nbytes]) == 2  # by way of other memory: a GPU's copy takes no overlap
