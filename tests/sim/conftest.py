"""Fixtures: the simulated accelerator, checked, for one test; and machines of a test's own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

import xferlib as xl
from xferlib.sim.detector import Mode
from xferlib.sim.machine import Machine
from xferlib.sim.schedules import Lazy, Schedule, Settings


@pytest.fixture
def on_sim() -> Iterator[object]:
    """The simulator is the default backend."""
    with xl.use_backend("sim") as backend:
        yield backend


@pytest.fixture
def make_machine() -> Callable[..., Machine]:
    """A machine apart from the backend's; its faults are collected."""

    def make(schedule: Schedule | None = None, **settings: object) -> Machine:
        return Machine(Settings(**{"mode": Mode.LOG, **settings}), schedule or Lazy())  # type: ignore[arg-type]

    return make


@pytest.fixture
def silence() -> Iterator[None]:
    """Reports are kept, and not written to the log."""
    logger = logging.getLogger("xferlib.sim")
    before, logger.disabled = logger.disabled, True
    yield
    logger.disabled = before
