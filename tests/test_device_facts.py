"""A device's own facts: memory, names, and the attributes that the driver knows."""

from __future__ import annotations

import numpy as np
import pytest

import xferlib as xl
from xferlib.errors import ArgumentError, UnsupportedError


def test_memory_is_told_in_bytes(backend: str) -> None:
    device = xl.get_device()
    assert device.total_memory == device.properties.total_nbytes
    assert 0 <= device.free_memory <= device.total_memory


def test_an_array_on_the_simulator_takes_free_memory() -> None:
    device = xl.get_device("sim:0")
    before = device.free_memory
    held = xl.zeros(1 << 20, np.uint8, device=device)
    assert before - device.free_memory == held.nbytes


def test_two_devices_have_names_of_their_own() -> None:
    zero, one = xl.Device("sim:0"), xl.Device("sim:1")
    assert zero.uuid != one.uuid
    assert zero.pci_bus_id != one.pci_bus_id
    assert (xl.Device("cpu").uuid, xl.Device("numpy:cpu").pci_bus_id) == ("", "")


def test_names_are_told_where_the_device_has_any(backend: str) -> None:
    device = xl.get_device()
    assert device.uuid.startswith("GPU-") is (device.kind == "cuda")
    assert (len(device.pci_bus_id.split(":")) == 3) is (device.kind == "cuda" or backend == "sim")


def test_attributes_are_asked_by_name_in_any_spelling(backend: str) -> None:
    device = xl.get_device()
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


def test_an_attribute_that_is_no_name_is_refused(backend: str) -> None:
    with pytest.raises(ArgumentError, match="not a name"):
        xl.get_device().attribute(39)  # type: ignore[arg-type]
