"""The backends that a test needs."""

from __future__ import annotations

import importlib.util

import pytest

import xferlib as xl

ABSENT = tuple(name for name in ("torch", "cupy", "pycuda") if importlib.util.find_spec(name) is None)
"""The libraries that are not installed: their tests would be thousands of skips."""


def among(*backends: str) -> list[str]:
    """The backends for which tests are worth generating."""
    return [name for name in backends if name not in ABSENT]


def need(name: str) -> xl.BackendStatus:
    """The state of a backend that can run here; where it cannot, the test is skipped with the reason."""
    status = xl.available_backends()[name]
    if not status.is_available:
        pytest.skip(f"{name}: {status.reason}")
    return status


def place_of(rank: int, name: str) -> xl.Device:
    """The device of a backend that belongs to a rank: a communicator has one for each, if there are enough."""
    found = [xl.Device(each) for each in need(name).devices]
    places = [each for each in found if each.kind == found[0].kind]
    return places[rank % len(places)]


def need_cuda(name: str) -> None:
    """Skip the test where a backend has no CUDA device here."""
    status = xl.available_backends()[name]
    if not any(xl.Device(device).kind == "cuda" for device in status.devices):
        pytest.skip(f"{name} has no CUDA device here ({status})")
