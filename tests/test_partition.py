"""How staged transfers are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xferlib._transfer import partition
from xferlib.testing import THRESHOLDS


@given(nbytes=st.integers(1, 1 << 34), limit=st.sampled_from([1 << 16, 512 << 10, 1 << 20, 4 << 20]))
def test_spans_cover_every_byte_once_and_fit_a_chunk(nbytes: int, limit: int) -> None:
    nbytes = min(nbytes, limit * 3000)
    spans = partition._spans(nbytes, limit)
    assert spans[0][0] == 0
    assert all(0 < size <= limit for _, size in spans)
    assert [offset for offset, _ in spans[1:]] == [offset + size for offset, size in spans[:-1]]
    assert sum(spans[-1]) == nbytes


def test_a_large_transfer_begins_and_ends_with_small_pieces() -> None:
    sizes = [size for _, size in partition._spans(256 << 20, 4 << 20)]
    assert sizes[0] == 256 << 10
    assert sizes[-1] == 1 << 20
    assert max(sizes) == 4 << 20
    assert sizes[:6] == sorted(sizes[:6])


@pytest.mark.parametrize("nbytes", [1, 1000, 1 << 20, 9 << 20, 100 << 20, 3 << 30])
def test_chunks_of_any_transfer_fit_the_ring(nbytes: int) -> None:
    assert 0 < partition.chunk_nbytes(nbytes) <= partition.PYTHON_PIECE_MOST <= THRESHOLDS.chunk_nbytes  # type: ignore[attr-defined]


@pytest.mark.parametrize("nbytes", [1, 1 << 20, 8 << 20, 1 << 30])
def test_more_bytes_never_wake_fewer_threads(nbytes: int) -> None:
    assert 0 <= partition.helpers(nbytes) <= partition.helpers(2 * nbytes)


def test_bytes_are_moved_as_they_are_only_where_the_dtype_and_the_order_agree() -> None:
    plain = partition.pieces(np.zeros(8, np.float32), np.dtype(np.float32))
    converted = partition.pieces(np.zeros(8, np.float32), np.dtype(np.float64))
    strided = partition.pieces(np.zeros(16, np.float32)[::2], np.dtype(np.float32))
    assert type(plain) is not type(converted)
    assert type(converted) is type(strided)
