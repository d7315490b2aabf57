"""`stream_map` over the ranks of real jobs of MPI and of torchrun."""

from __future__ import annotations

import pytest

from tests.distributed import launching


@pytest.mark.parametrize(("driver", "size"), [("single", 1), ("mpi", 3), ("torch", 2)])
def test_ranks_stream(driver: str, size: int) -> None:
    launching.passes_in_ranks(driver, size, "streaming.py")
