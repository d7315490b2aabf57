"""The conformance suite on every backend that this machine has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import xferlib as xl
from tests import processes
from tests.sizes import IS_LONG, some
from xferlib import sim
from xferlib.testing import DTYPES, BackendConformance
from xferlib.testing.conformance import Processes

_NEGATIVE_STEPS = {"numpy", "cupy"}
EXAMPLES = 30
"""Of each property, off real GPUs: with as many, tests/test_mutants.py finds each backend that is wrong on purpose."""


class Conformance(BackendConformance):
    """The suite, whose programs begin where what the backend needs is imported, and do not wait long at their end for a
    thread that never comes back."""

    def run_python(self, program: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
        after = processes.IMPORTED.get(self.backend, processes.NUMPY)
        if not IS_LONG:
            program = f"from xferlib._runtime import process\nprocess._INSIDE_S = 0.2\n{program}"
        return processes.run("-c", program, environ=environ, after=after)

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _trim(cls) -> Iterator[None]:
        """Free what is kept to be used again: of each backend the slabs of sixteen threads, among much else."""
        yield
        xl.trim()


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
            found.setdefault(f"Test_{name}_{kind}", type(f"Test_{name}_{kind}", (Conformance,), members))
    return found


def _absent(name: str, reason: str) -> type:
    def test_is_available(self: Any) -> None:
        pytest.skip(f"{name}: {reason}")

    return type(f"Test_{name}", (), {"test_is_available": test_is_available})


globals().update(_suites())


@pytest.mark.usefixtures("fake")
class TestFake(Conformance):
    backend = "fake"
    negative_steps = True
    max_examples = EXAMPLES


@pytest.mark.usefixtures("plugins")
class TestTiny(Conformance):
    backend = "tiny"
    negative_steps = True
    max_examples = EXAMPLES


@pytest.mark.usefixtures("plugins")
class TestBare(Conformance):
    backend = "bare"
    negative_steps = True
    max_examples = EXAMPLES


class Scheduled(Conformance):
    """The suite on the simulator with its operations in another legal order; fresh processes do not know of it."""

    backend = "sim"
    max_examples = EXAMPLES // 3
    schedule = ""

    @pytest.fixture(autouse=True)
    def _schedule(self) -> Iterator[None]:
        with sim.check("raise", schedule=self.schedule, seed=1):
            yield

    @pytest.mark.parametrize("target", some(DTYPES, 4))
    def test_large_arrays_convert_as_small_ones_do(self, target: str) -> None:
        super().test_large_arrays_convert_as_small_ones_do(target)


for _name in [name for name in vars(Processes) if name.startswith("test_")]:
    setattr(Scheduled, _name, None)


class TestLastInFirstOut(Scheduled):
    schedule = "lifo"


class TestRandomOrder(Scheduled):
    schedule = "random"
