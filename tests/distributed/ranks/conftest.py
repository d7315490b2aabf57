"""The fixtures of tests that run in every rank of a job: all ranks run the same tests, in the same order."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.sizes import IS_LONG

if "RANK" not in os.environ and not IS_LONG:  # not of torchrun: the import would take longer than all else in each rank
    sys.modules["torch"] = None  # type: ignore[assignment]

from xferlib import distributed

settings.load_profile("repeatable")  # every rank draws the same examples


@pytest.fixture(scope="session")
def comm() -> Iterator[distributed.Communicator]:
    with distributed.init(timeout=60.0) as made:
        yield made
