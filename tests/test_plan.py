"""How many threads copy between host arrays."""

from __future__ import annotations

import pytest

from xferlib._transfer import plan
from xferlib.testing import THRESHOLDS


def test_a_piece_fits_a_chunk() -> None:
    assert 0 < plan.chunk_nbytes() <= THRESHOLDS.chunk_nbytes


@pytest.mark.parametrize("nbytes", [1, 1 << 20, 8 << 20, 1 << 30])
def test_more_bytes_never_wake_fewer_threads(nbytes: int) -> None:
    assert 0 <= plan.helpers(nbytes) <= plan.helpers(2 * nbytes)
