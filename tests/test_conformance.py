"""The conformance suite on every backend that this machine has."""

from __future__ import annotations

from typing import Any

import pytest

import xferlib as xl
from xferlib.testing import BackendConformance

_NEGATIVE_STEPS = {"numpy", "cupy"}
EXAMPLES = 30
"""Of each property, off real GPUs: with as many, tests/test_mutants.py finds each backend that is wrong on purpose."""


def _suites() -> dict[str, type]:
    """One class for each backend and kind of device; an absent backend is one skipped test with its reason."""
    found: dict[str, type] = {}
    for name, status in xl.available_backends().items():
        if not status.is_available:
            found[f"Test_{name}"] = _absent(name, status.reason)
        for device in status.devices:
            kind = xl.Device(device).kind
            members = {"backend": name, "device": device, "negative_steps": name in _NEGATIVE_STEPS}
            members |= {} if kind == "cuda" else {"max_examples": EXAMPLES}
            found.setdefault(f"Test_{name}_{kind}", type(f"Test_{name}_{kind}", (BackendConformance,), members))
    return found


def _absent(name: str, reason: str) -> type:
    def test_is_available(self: Any) -> None:
        pytest.skip(f"{name}: {reason}")

    return type(f"Test_{name}", (), {"test_is_available": test_is_available})


globals().update(_suites())


@pytest.mark.usefixtures("fake")
class TestFake(BackendConformance):
    backend = "fake"
    negative_steps = True
    max_examples = EXAMPLES


@pytest.mark.usefixtures("plugins")
class TestTiny(BackendConformance):
    backend = "tiny"
    negative_steps = True
    max_examples = EXAMPLES


@pytest.mark.usefixtures("plugins")
class TestBare(BackendConformance):
    backend = "bare"
    negative_steps = True
    max_examples = EXAMPLES
