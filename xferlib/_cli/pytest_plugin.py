"""Fixtures for pytest: a test that runs on the simulated accelerator, and fails where a GPU would err."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xferlib.sim import check


@pytest.fixture
def xferlib_sim() -> Iterator[check]:
    """The test runs on backend ``sim``; a missing synchronisation fails it at the line that lacks it.

    ``XFERLIB_SIM_SCHEDULE=random`` makes every run take another order; the seed is in the failure.
    """
    import xferlib
    from xferlib import sim

    with xferlib.use_backend("sim"), sim.check() as checked:
        yield checked
