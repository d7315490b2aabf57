"""The fixtures of tests that run in every rank of a job: all ranks run the same tests, in the same order."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.distributed.launching import WITHOUT_TORCH

if WITHOUT_TORCH in os.environ:
    sys.modules["torch"] = None  # type: ignore[assignment]

from xferlib import distributed

settings.load_profile("repeatable")  # every rank draws the same examples


@pytest.fixture(scope="session")
def comm() -> Iterator[distributed.Communicator]:
    with distributed.init(timeout=60.0) as made:
        yield made
