"""The way of one array through the code: short, and without steps that only a recording needs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.entered import functions_of
from tests.processes import printed
from xferlib.errors import DeviceMemoryError
from xferlib.testing import assert_same_bits

HERE = "fake:sim:0"


def modules_of(call: Callable[[], Any]) -> list[str]:
    """The module of each function of the shared code that ``call`` enters when all that it keeps is found already.

    Once a second it looks for the cores of the process again: of several calls, that one is not the shortest. A
    simulator that another test has started listens to what the host reads and writes.
    """
    ways = [[module for module, name in functions_of(call) if name != "note_host_access"] for _ in range(3)]
    return min(([each for each in way if not each.startswith("xferlib.backends")] for way in ways), key=len)


@pytest.mark.parametrize(("layout", "most"), [(lambda a: a, 37), (lambda a: a[::2], 35)])
def test_a_large_copy_passes_few_functions(fake: Any, layout: Callable[[Any], Any], most: int) -> None:
    """In Python, as where it cannot be replayed: C enters none of them, see `test_front.py`."""
    x = layout(np.arange(1 << 22, dtype=np.float32).reshape(1 << 11, 1 << 11))
    xl.trim()  # a program with pinned memory asks its pool
    with xl.get_device(HERE):
        d = xl.to_device(x)
        modules = modules_of(lambda: xl.to_device(x))
        assert len(modules) <= most, " ".join(modules)
        assert sum(one != two for one, two in pairwise(modules)) <= 25
        assert {name.split(".")[1] for name in modules} <= {"_api", "_core", "_memory", "_runtime", "_transfer"}
    assert_same_bits(xl.to_host(d), x)


def test_a_large_copy_to_what_exists_and_back_passes_few_functions(fake: Any) -> None:
    x = np.arange(1 << 22, dtype=np.float32)
    xl.trim()
    with xl.get_device(HERE):
        d, back = xl.to_device(x), np.empty_like(x)
        for call, most in ((lambda: xl.to_device(x, out=d), 38), (lambda: xl.to_host(d, out=back), 37)):
            call()
            modules = modules_of(call)
            assert len(modules) <= most, " ".join(modules)
            assert sum(one != two for one, two in pairwise(modules)) <= 25, modules
    assert_same_bits(back, x)


@pytest.mark.parametrize(
    ("call", "most"),
    [
        (lambda x, y: xl.copy_to(x, y.device), 19),
        (lambda x, y: xl.copy_to(x, "sim:1"), 19),
        (lambda x, y: xl.to_device(x, device=y.device), 34),
        (lambda x, y: xl.to_device(x, out=y), 36),
        (lambda x, y: xl.copy_to(x, HERE), 16),
        (lambda x, y: xl.copy_to(x[::2], 1), 29),
    ],
)
def test_a_copy_between_devices_passes_few_functions(fake: Any, call: Callable[[Any, Any], Any], most: int) -> None:
    x, y = (xl.to_device(np.arange(1024, dtype=np.float32), device=f"fake:sim:{index}") for index in range(2))
    call(x, y)
    modules = [each for each in modules_of(lambda: call(x, y)) if not each.startswith("xferlib.sim")]  # of other tests
    assert len(modules) <= most, " ".join(modules)
    assert {name.split(".")[1] for name in modules} <= {"_api", "_core", "_memory", "_runtime", "_transfer"}


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
    assert printed("-c", _LATE).split() == ["Stream.synchronize", "to_device", "to_host"]
