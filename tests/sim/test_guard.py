"""The page guard: NumPy caught at the line that touches memory of a copy in flight."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
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
    import subprocess

    code = """
import ctypes, xferlib as xl
from xferlib import sim
with xl.use_backend("sim"), sim.check(guard=True):
    ctypes.memset(8, 0, 1)
"""
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=root, check=False, timeout=60)
    assert done.returncode == -11
