"""The tools of the conformance suite do what they say, and its page lists what it checks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xferlib._transfer import partition, plan
from xferlib.testing import BackendConformance, assert_same_bits, forced, native_bits, scribble
from xferlib.testing.strategies import DTYPES, bits_of

ROOT = Path(__file__).parents[1]


def _nan(bits: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array([bits], np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("one", "two", "message"),
    [
        (np.zeros(3), np.zeros(4), r"shape \(3,\), expected \(4,\)"),
        (np.zeros(3), np.zeros((3, 1)), "shape"),
        (np.zeros(3, "f4"), np.zeros(3, "i4"), "dtype float32, expected int32"),
        (np.array([0.0]), np.array([-0.0]), "1 of 1 elements"),
        (_nan(0x7FC00001), _nan(0x7FC00000), "0100c07f"),
        (np.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 5]]), r"the first at \(1, 1\)"),
    ],
)
def test_what_differs_in_a_bit_is_told_apart(one: object, two: object, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_same_bits(one, two)


def test_byte_order_strides_and_equal_nans_do_not_count() -> None:
    x = np.array([[1.5, np.nan], [-0.0, np.inf]])
    assert_same_bits(x.astype(">f8"), x)
    assert_same_bits(np.asfortranarray(x), x)
    assert_same_bits(_nan(0x7F800001), _nan(0x7F800001))


@pytest.mark.parametrize("dtype", DTYPES)
def test_scribbling_changes_every_element_and_no_gap(dtype: str) -> None:
    parent = bits_of(96 * np.dtype(dtype).itemsize, dtype, seed=1).reshape(8, 12)
    before = native_bits(parent)
    scribble(parent[::2, ::-3])
    is_changed = (native_bits(parent) != before).any(axis=-1)
    expected = np.zeros((8, 12), bool)
    expected[::2, ::-3] = True
    assert_same_bits(is_changed, expected)


def test_forcing_ends_with_its_block_and_nests() -> None:
    usual = partition.chunk_nbytes(1 << 20)
    with forced(plan.Path.STAGED, chunk_nbytes=64):
        assert partition.chunk_nbytes(1 << 20) == 64
        with forced(None):
            assert plan._forced.get() is None
            assert partition.chunk_nbytes(1 << 20) == usual
        assert plan._forced.get() is plan.Path.STAGED
    assert partition.chunk_nbytes(1 << 20) == usual


def test_the_suite_has_tests_under_names_that_no_two_parts_share() -> None:
    names = [name for part in BackendConformance.__mro__ for name in vars(part) if name.startswith("test_")]
    assert len(names) > 80
    assert len(set(names)) == len(names)


@pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the documentation is not beside the tests")
def test_the_reference_page_lists_every_test() -> None:
    script = ROOT / "tools" / "make_conformance_page.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
