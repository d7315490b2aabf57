"""Devices as values: one object each, read from many spellings, current for a thread."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.pair import Left, Right
from xferlib.errors import (
    ArgumentError,
    BackendNotFoundError,
    BackendUnavailableError,
    ConfigError,
    DeviceNotFoundError,
    UnsupportedError,
    XferError,
)
from xferlib.testing import configured, fresh_registry

pytestmark = pytest.mark.usefixtures("fake")


@pytest.fixture(autouse=True)
def _as_before() -> Any:
    """The fake's current device, and the default backend, as they were; the environment's names neither."""
    with configured(backend=None, device=None):
        before = xl.get_device("fake")
        yield
        before.use()


def test_every_spelling_gives_the_same_object() -> None:
    device = xl.Device("fake:sim:1")
    with xl.use_backend("fake"):
        for spec in ("fake:sim:1", "sim:1", "1", 1, device):
            assert xl.get_device(spec) is device
        assert xl.get_device("fake") is xl.Device("fake:sim:0")
        assert xl.get_device("sim") is xl.Device("fake:sim:0")
        assert xl.get_device("cpu") is xl.Device("numpy:cpu")  # the fake has none


def test_a_device_survives_copying_and_pickling_as_itself_and_cannot_be_changed() -> None:
    device = xl.Device("fake:sim:1")
    assert copy.copy(device) is copy.deepcopy([device])[0] is pickle.loads(pickle.dumps(device)) is device
    assert {device: 1}[xl.Device("fake:sim:1")] == 1
    assert (str(device), repr(device)) == ("fake:sim:1", "Device('fake:sim:1')")
    assert device not in (xl.Device("fake:sim:0"), "fake:sim:1")
    with pytest.raises(AttributeError, match="'index' cannot be set"):
        device.index = 2


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("outside", ["numpy:cpu", "fake:sim:1"])
def test_a_block_of_a_cpu_changes_nothing(outside: str, backend: str) -> None:
    pytest.importorskip(backend)
    with xl.Device(outside):
        before = xl.get_device(), xl.get_backend(), type(xl.empty(3))
        with xl.Device(f"{backend}:cpu") as device:
            assert device is xl.Device(f"{backend}:cpu")
            assert (xl.get_device(), xl.get_backend(), type(xl.empty(3))) == before
        assert (xl.get_device(), xl.get_backend(), type(xl.empty(3))) == before


@pytest.mark.usefixtures("pair")
def test_a_block_holds_for_every_library_that_has_the_device() -> None:
    left, right = xl.get_backend(xl.zeros(3, backend="left")), xl.get_backend(xl.zeros(3, backend="right"))
    with xl.Device("left:sim:1"):
        assert [str(each.device_current()) for each in (left, right)] == ["left:sim:1", "right:sim:1"]
        assert xl.get_device("fake") is xl.Device("fake:sim:0")  # which are devices of their own
        with xl.Device("right:sim:0"):
            assert xl.get_backend() is right
            assert [str(each.device_current()) for each in (left, right)] == ["left:sim:0", "right:sim:0"]
        assert [str(each.device_current()) for each in (left, right)] == ["left:sim:1", "right:sim:1"]
    assert [str(each.device_current()) for each in (left, right)] == ["left:sim:0", "right:sim:0"]


class Third(Right):
    name = "third"


def test_a_library_that_is_met_within_blocks_is_on_their_device(pair: None) -> None:
    with fresh_registry(left=Left, third=Third):
        with xl.Device("left:sim:1"):
            with xl.Device("left:sim:0"), xl.Device("left:sim:1"):
                third = xl.get_backend(xl.zeros(3, backend="third"))
                assert str(third.device_current()) == "third:sim:1"
            assert str(third.device_current()) == "third:sim:1"
            with xl.Device("left:sim:0"):
                assert str(third.device_current()) == "third:sim:0"
        assert str(third.device_current()) == "third:sim:0"


@pytest.mark.usefixtures("pair")
def test_a_device_that_one_library_refuses_leaves_all_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = (xl.get_backend(xl.zeros(3, backend=name)) for name in ("left", "right"))

    def refuse(device: xl.Device) -> None:
        if device.index == 1:
            raise DeviceNotFoundError("lost")
        own(device)

    own = left.device_use
    monkeypatch.setattr(left, "device_use", refuse)
    with pytest.raises(DeviceNotFoundError, match="lost"):
        xl.Device("left:sim:1").__enter__()
    assert [str(each.device_current()) for each in (left, right)] == ["left:sim:0", "right:sim:0"]


def test_libraries_compute_on_the_device_of_the_block() -> None:
    found = {
        name: [each for each in status.devices if "cuda" in each] for name, status in xl.available_backends().items()
    }
    names = [name for name, devices in found.items() if len(devices) > 1]
    if len(names) < 2:
        pytest.skip("no two libraries see two GPUs here")
    for name in names:
        for index in (1, 0):
            with xl.Device(f"{name}:cuda:{index}"):
                for other in names:
                    assert xl.device_of(xl.zeros(3, backend=other) + 1) is xl.Device(f"{other}:cuda:{index}")


def test_use_holds_from_then_on_for_the_thread() -> None:
    xl.Device("fake:sim:1").use()
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(xl.get_device("fake")))
    thread.start()
    thread.join()
    assert xl.get_device() is xl.Device("fake:sim:1")
    assert seen == [xl.Device("fake:sim:0")]


def test_an_unreadable_device_is_refused() -> None:
    for spec in ("", "gpu:", ":0", "fake:sim:", "fake:sim:0:0", "cuda:99999", "cuda:-1", "0x1", "é:0"):
        with pytest.raises(DeviceNotFoundError, match="cannot be read|does not exist"), xl.use_backend("fake"):
            xl.Device(spec)


DEVICES = [
    None, "numpy", "torch", "sim", "fake", "cpu", "cuda", "cuda:0", "0", "1", "7", "sim:1", "sim:7", "sim:sim:1",
    "sim:1:1", "fake:1", "fake:sim:1", "torch:cpu", "torch:0", "numpy:cpu", "numpy:sim:0", "torch:cuda:63", "cupy",
    "pycuda", "Torch", "nope", "nope:cpu", ":", "cpu:", "-1", "sim:-1", "sim:sim:", "torch:torch", "numpy:numpy:0",
    "\u0661", "cuda:0:0", "os;rm", "1.0", "None",
]  # fmt: skip


@pytest.mark.parametrize("backend", [None, "numpy", "torch", "sim", "fake", "cupy", "nope"])
def test_each_pair_of_backend_and_device_by_setting_is_obeyed_or_a_typed_error(backend: str | None) -> None:
    """In a new thread each: that is where the device is looked at first."""
    calls = (xl.get_device, lambda: xl.device_of(xl.to_device([1.0])), lambda: xl.device_of(xl.zeros(2)))
    for spec in DEVICES:
        variables = {"XFERLIB_BACKEND": backend, "XFERLIB_DEVICE": spec}
        with configured({name: text for name, text in variables.items() if text is not None}):
            found = {_answer(call) for call in calls}
        assert len(found) == 1, (spec, found)
        device, first = found.pop(), (spec or "").partition(":")[0]
        named = first if first in ("numpy", "torch", "fake") or spec == "sim:sim:1" else None
        if isinstance(device, xl.Device):
            assert {backend, named} <= {None, device.backend}, spec
            assert not spec or not spec[-1].isdecimal() or device.index == int(spec[-1]), spec
        elif named is not None and backend in ("numpy", "torch", "sim", "fake") and backend != named:
            assert device is ConfigError, spec
        else:
            assert device in (BackendNotFoundError, BackendUnavailableError, ConfigError, DeviceNotFoundError), spec


def _answer(call: Callable[[], Any]) -> Any:
    """The device that a call uses in a new thread, or the class of its error."""
    with ThreadPoolExecutor(1) as new_thread:
        try:
            return new_thread.submit(call).result()
        except XferError as error:
            return type(error)


def test_settings_that_disagree_are_an_error_that_names_where_they_are_from() -> None:
    numpy, one = {"XFERLIB_BACKEND": "numpy"}, "fake:sim:1"
    for environ, settings, kind, said in (
        ({**numpy, "XFERLIB_DEVICE": one}, {}, ConfigError,
         "XFERLIB_DEVICE='fake:sim:1' names backend 'fake'.*XFERLIB_BACKEND='numpy'.*unset XFERLIB_DEVICE"),
        (numpy, {"device": one}, ConfigError,
         "configure: device='fake:sim:1' names backend 'fake'.*XFERLIB_BACKEND='numpy'.*device=None"),
        ({}, {"backend": "nope"}, BackendNotFoundError, "configure: backend='nope'.*backend=None"),
    ):  # fmt: skip
        for call in (xl.get_device, lambda: xl.zeros(3)):
            with configured(environ, **settings), pytest.raises(kind, match=said):
                call()


def test_a_kind_of_device_finds_the_backend_that_has_it() -> None:
    with xl.use_backend("numpy"):
        assert str(xl.get_device("sim")) == "sim:sim:0"
        assert str(xl.get_device("sim:1")) == "sim:sim:1"
    with xl.use_backend("sim"):
        assert str(xl.get_device("cpu")) == "numpy:cpu"


# --- facts of a device


def test_memory_is_told_in_bytes(backend: str) -> None:
    device = xl.get_device()
    assert device.total_memory == device.properties.total_nbytes
    assert 0 <= device.free_memory <= device.total_memory


def test_an_array_on_the_simulator_takes_free_memory() -> None:
    device = xl.get_device("sim:sim:0")
    before = device.free_memory
    held = xl.zeros(1 << 20, np.uint8, device=device)
    assert before - device.free_memory == held.nbytes


def test_names_are_told_where_the_device_has_any(backend: str) -> None:
    zero, one = xl.Device("sim:sim:0"), xl.Device("sim:sim:1")
    assert zero.uuid != one.uuid
    assert zero.pci_bus_id != one.pci_bus_id
    device = xl.get_device()
    assert device.uuid.startswith("GPU-") is (device.kind == "cuda")
    assert (len(device.pci_bus_id.split(":")) == 3) is (device.kind == "cuda" or backend == "sim")


def test_attributes_are_asked_by_name_in_any_spelling(backend: str) -> None:
    device = xl.get_device()
    with pytest.raises(ArgumentError, match="not a name"):
        device.attribute(39)  # type: ignore[arg-type]
    if device.kind == "cpu":
        with pytest.raises(UnsupportedError, match="knows nothing of a CPU"):
            device.attribute("warp_size")
        return
    if backend == "fake":
        with pytest.raises(UnsupportedError, match="device attributes"):
            device.attribute("warp_size")
        return
    for name in ("max_threads_per_block", "MAX_THREADS_PER_BLOCK", "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK"):
        assert device.attribute(name) == 1024
    for name in ("colour", "__class__", ""):
        with pytest.raises(ArgumentError, match="has no attribute"):
            device.attribute(name)
