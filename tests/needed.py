"""The backends that a test needs."""

from __future__ import annotations

import pytest

import xferlib as xl


def need(name: str) -> xl.BackendStatus:
    """The state of a backend that can run here; where it cannot, the test is skipped with the reason."""
    status = xl.available_backends()[name]
    if not status.is_available:
        pytest.skip(f"{name}: {status.reason}")
    return status
