"""The page guard: NumPy caught at the line that touches memory of a copy in flight."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.processes import run
from xferlib import sim

pytestmark = [
    pytest.mark.usefixtures("xferlib_sim"),
    pytest.mark.skipif(sys.platform != "linux", reason="the page guard is for Linux"),
]
N = 1 << 15

TOUCHES: list[Callable[[Any], Any]] = [
    lambda a: a[N // 2], lambda a: a.sum(), lambda a: a.copy(), lambda a: np.sin(a), lambda a: a.tolist()[0],
    lambda a: memoryview(a)[N // 2], lambda a: a.view("u8")[N // 2], lambda a: bytes(a.data)[0],
    lambda a: np.add(a, 1, out=np.empty(N)), lambda a: float(a[100:][1000]), lambda a: np.concatenate([a, a]),
]  # fmt: skip
WRITES: list[Callable[[Any], Any]] = [
    lambda a: a.__setitem__(N // 2, 1.0), lambda a: a.fill(1.0), lambda a: np.copyto(a, 1.0),
    lambda a: memoryview(a).__setitem__(N // 2, 1.0), lambda a: np.add(a, 1, out=a), lambda a: a.sort(),  # type: ignore[call-overload]
]  # fmt: skip


def line_of(error: sim.RaceError) -> str:
    site = error.race.second.site
    assert site.file == __file__
    return Path(__file__).read_text(encoding="utf-8").splitlines()[site.line - 1]


@pytest.mark.parametrize("touch", TOUCHES + WRITES)
def test_a_target_touched_too_early_is_reported_with_the_line(touch: Callable[[Any], Any]) -> None:
    out = xl.pinned_empty(N)
    with pytest.raises(sim.RaceError) as raised, sim.check(guard=True):
        transfer = xl.to_host_async(xl.ones(N), out=out)
        touch(out)
        transfer.result()
    assert raised.value.race.hazard is sim.Hazard.HOST_READ
    assert "lambda a" in line_of(raised.value)


@pytest.mark.parametrize("touch", WRITES)
def test_a_source_written_too_early_is_reported_with_the_line(touch: Callable[[Any], Any]) -> None:
    source, stream = xl.pinned_array(np.arange(float(N))[::-1]), xl.Stream()
    with pytest.raises(sim.RaceError) as raised, sim.check(guard=True):
        kept = xl.to_device(source, stream=stream)
        touch(source)
        stream.synchronize()
    assert raised.value.race.hazard is sim.Hazard.HOST_WRITE
    assert "lambda a" in line_of(raised.value)
    del kept


@pytest.mark.parametrize("touch", TOUCHES)
def test_a_source_may_be_read(touch: Callable[[Any], Any]) -> None:
    source, stream = xl.pinned_zeros(N), xl.Stream()
    with sim.check(guard=True):
        kept = xl.to_device(source, stream=stream)
        touch(source)
        stream.synchronize()
    del kept


@pytest.mark.parametrize("count", [1, 7, 1000, 1025])
def test_arrays_smaller_than_a_page_are_guarded_and_a_write_is_reported_once(count: int) -> None:
    for access in ("read", "write"):
        host, stream = xl.pinned_zeros(count, "float32"), xl.Stream()
        with sim.check("log", guard=True) as checked:
            x = xl.to_device(host, stream=stream) if access == "write" else xl.zeros(count, "float32")
            if access == "write":
                host.fill(2)
                stream.synchronize()
            else:
                transfer = xl.to_host_async(x, out=host)
                host.max()
                transfer.result()
            stream.synchronize()
        assert [race.hazard for race in checked.races] == [
            sim.Hazard.HOST_WRITE if access == "write" else sim.Hazard.HOST_READ
        ]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_element_of_any_part_is_guarded_and_no_element_beside_it(data: st.DataObject) -> None:
    count = data.draw(st.one_of(st.integers(1, 40), st.integers(1000, 1050), st.integers(1, 9000)), label="count")
    begin = data.draw(st.one_of(st.just(0), st.integers(0, count - 1)), label="begin")
    end = data.draw(st.one_of(st.just(count), st.integers(begin + 1, count)), label="end")
    ends = st.sampled_from([0, begin - 1, begin, end - 1, end, count - 1])
    touched = data.draw(st.one_of(ends, st.integers(0, count - 1)), label="touched") % count
    is_target, stream = data.draw(st.booleans(), label="is target"), xl.Stream()
    host = xl.pinned_zeros(count, "float32")
    address, page = host.ctypes.data, mmap.PAGESIZE
    with sim.check("log", guard=True) as checked:
        if is_target:
            transfer = xl.to_host_async(xl.ones(end - begin, "float32"), out=host[begin:end])
            value = host[touched].copy()
            transfer.result()
        else:
            kept = xl.to_device(host[begin:end], stream=stream)
            host[touched] = 2
            stream.synchronize()
            del kept
    hazards = {each.hazard for each in checked.races}
    if not begin <= touched < end:
        assert not hazards
    elif -(-(address + 4 * begin) // page) * page <= address + 4 * touched < (address + 4 * end) // page * page or (
        not begin and end == count
    ):
        assert hazards == {sim.Hazard.HOST_READ if is_target else sim.Hazard.HOST_WRITE}
    elif is_target:  # a page that the part shares with the rest of its array: the value shows it, or the report
        assert np.isnan(value) or hazards == {sim.Hazard.HOST_READ}
    else:
        assert hazards & {sim.Hazard.HOST_WRITE, sim.Hazard.SOURCE_CHANGED}


def test_a_read_hides_no_later_write() -> None:
    host, stream = xl.pinned_zeros(N, "float32"), xl.Stream()
    x = xl.zeros(N, "float32")
    with sim.check("log", guard=True) as checked:
        transfer = xl.to_host_async(x, out=host, stream=stream)
        host.max()
        host.fill(2)
        transfer.result()
    assert {each.hazard for each in checked.races} == {sim.Hazard.HOST_READ, sim.Hazard.TARGET_CHANGED}


def test_a_thread_without_python_is_caught_and_goes_on() -> None:
    host, libc, thread = xl.pinned_empty(N), ctypes.CDLL(None), ctypes.c_uint64()
    function = ctypes.cast(libc.atoi, ctypes.c_void_p)
    with sim.check("log", guard=True) as checked:
        transfer = xl.to_host_async(xl.ones(N), out=host)
        assert not libc.pthread_create(ctypes.byref(thread), None, function, ctypes.c_void_p(host.ctypes.data + 8192))
        assert not libc.pthread_join(thread, None)
        transfer.result()
    assert [each.hazard for each in checked.races] == [sim.Hazard.HOST_READ]
    assert (host == 1).all()


def test_a_system_call_may_write_to_another_part_of_an_array(tmp_path: Path) -> None:
    path = tmp_path / "part"
    path.write_bytes(bytes(range(250)) * 4)
    host = xl.pinned_zeros(10_000, "uint8")
    with sim.check(guard=True), path.open("rb", buffering=0) as file:
        transfer = xl.to_host_async(xl.ones(9000, dtype="uint8"), out=host[:9000])
        assert file.readinto(host.data[9000:]) == 1000  # by one system call
        transfer.result()
    assert host[:9000].all()
    assert host[9001] == 1


def test_after_the_wait_everything_may_be_touched() -> None:
    out = xl.pinned_empty(N)
    with sim.check(guard=True) as checked:
        for _ in range(20):
            xl.to_host_async(xl.ones(N), out=out).result()
            assert out.sum() == N
            out.fill(0.0)
            np.testing.assert_array_equal(xl.to_host(xl.to_device(np.arange(float(N)))), np.arange(float(N)))
    assert checked.races == []


def test_a_foreign_fault_still_ends_the_process() -> None:
    code = """
import ctypes, xferlib as xl
from xferlib import sim
with xl.use_backend("sim"), sim.check(guard=True):
    ctypes.memset(8, 0, 1)
"""
    assert run("-c", code).returncode == -11
