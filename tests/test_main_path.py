"""The way of one array through the code: short, and without steps that only a recording needs."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.errors import DeviceMemoryError
from xferlib.testing import assert_same_bits

HERE = "fake:sim:0"
OTHERS = ("xferlib.backends", "xferlib.testing")


def modules_of(call: Callable[[], Any]) -> list[str]:
    """The module of each function of the shared code that ``call`` enters, in this thread."""
    seen: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        name = str(frame.f_globals.get("__name__"))
        if event == "call" and name.startswith("xferlib.") and not name.startswith(OTHERS):
            seen.append(name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


@pytest.fixture
def whole(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies in one step, as CUDA backends have them."""

    def send(src: Any, dst: Any, pointer: int, most: int) -> bool:
        if src.nbytes <= most:
            ctypes.memmove(pointer, src.ctypes.data, src.nbytes)
        return bool(src.nbytes <= most)

    def fetch(dst: Any, src: Any, pointer: int, most: int) -> bool:
        fake.stream_synchronize(fake.stream_current(src.device))
        if dst.nbytes <= most:
            ctypes.memmove(dst.ctypes.data, pointer, dst.nbytes)
        return bool(dst.nbytes <= most)

    monkeypatch.setattr(fake, "send_whole", send)
    monkeypatch.setattr(fake, "fetch_whole", fetch)


@pytest.mark.usefixtures("whole")
def test_a_small_copy_passes_few_functions() -> None:
    x = np.arange(100, dtype=np.float32)
    device = xl.get_device(HERE)
    d = xl.to_device(x, device=device)
    y = np.zeros_like(x)
    with device:
        for call, most in [
            (lambda: xl.to_device(x), 12),
            (lambda: xl.to_device(x, device=device), 11),
            (lambda: xl.to_device(x, out=d), 8),  # two of them the fake's
            (lambda: xl.to_host(d), 11),
            (lambda: xl.to_host(d, out=y), 8),
        ]:
            call()
            modules = modules_of(call)
            changes = sum(one != two for one, two in pairwise(modules))
            assert len(modules) <= most, modules
            assert changes <= 12
            assert {name.split(".")[1] for name in modules} <= {"_api", "_core", "_memory", "_runtime", "_transfer"}
    assert_same_bits(y, x)


def test_a_recording_takes_the_place_of_calls_and_gives_it_back(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own = xl.Stream.synchronize, xl.Transfer.result
    stream = xl.Stream(HERE)
    with xl.trace() as t:
        assert (xl.Stream.synchronize, xl.Transfer.result) != own
        stream.synchronize()
        transfer = xl.to_device_async(np.zeros(3), device=HERE)
        transfer.result(timeout=10)

        def refuse(*_: object, **__: object) -> None:
            raise DeviceMemoryError("none left")

        monkeypatch.setattr(fake, "empty", refuse)
        with pytest.raises(DeviceMemoryError):
            xl.to_device(np.zeros(3), device=HERE)
    assert (xl.Stream.synchronize, xl.Transfer.result) == own
    stream.synchronize()
    calls = [each.name for each in t.operations if each.kind == "call"]
    assert calls == ["Stream.synchronize", "to_device_async", "Transfer.result"]


_LATE = """
import xferlib as xl
with xl.trace() as t:
    with xl.use_backend("sim"):
        xl.Stream().synchronize()
        xl.to_host(xl.to_device([1.0, 2.0]))
print(*[each.name for each in t.operations if each.kind == "call"])
"""


def test_modules_that_are_imported_while_a_recording_is_open_are_recorded() -> None:
    done = subprocess.run([sys.executable, "-c", _LATE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Stream.synchronize", "to_device", "to_host"]
