"""The tools of the conformance suite do what they say, and its page lists what it checks."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.testing import (
    PATHS,
    BackendConformance,
    assert_same_bits,
    backend_named,
    configured,
    cores,
    forced,
    fresh_registry,
    in_flight_count,
    is_recording,
    native,
    native_bits,
    pending_count,
    scribble,
    settle_all,
    staging_stats,
)
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
def test_a_difference_of_one_bit_is_found(one: object, two: object, message: str) -> None:
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


X = np.arange(1 << 20, dtype=np.uint8)


def sent() -> tuple[str, int]:
    """The path of an upload, and how many copies it took."""
    with xl.trace() as found, configured(threads=1):
        transfer = xl.to_device_async(X, device="sim:0")
        assert_same_bits(xl.to_host(transfer.result()), X)
    return transfer.stats.path, len([each for each in found.operations if each.kind == "h2d"])


def test_forcing_ends_with_its_block_and_nests() -> None:
    with configured(native="off"):
        usual = sent()
        with forced("staged", chunk_nbytes=64 << 10):
            assert sent() == ("staged", 16)
            with forced(None):
                assert sent() == usual
            assert sent() == ("staged", 16)
        assert sent() == usual != ("staged", 16)


def test_forcing_is_of_one_thread_and_leaves_the_library_as_it_was() -> None:
    other = threading.Thread(target=lambda: found.append(sent()))
    found: list[tuple[str, int]] = []
    with configured(native="off"):
        usual = sent()
        with forced("staged", chunk_nbytes=64 << 10, helpers=0):
            other.start()
            other.join()
        assert found == [usual]
        assert sent() == usual


def test_a_path_that_does_not_exist_is_refused() -> None:
    assert "staged" in PATHS
    with pytest.raises(ValueError, match="by magic"), forced("by magic"):
        pass


def test_settings_and_the_default_backend_end_with_their_block() -> None:
    before, default = xl.configure(), xl.get_backend().name
    with configured({"XFERLIB_THREADS": "3"}, pinned_limit="1MiB") as given:
        assert (given.threads, given.pinned_limit) == (3, 1 << 20)
        assert xl.configure(threads=5) == given
        xl.use_backend("sim")
    assert xl.configure() == before
    assert xl.get_backend().name == default
    with pytest.raises(xl.errors.ConfigError, match="speed"), configured(speed=11):
        pass
    assert xl.configure() == before


def test_backends_come_and_go() -> None:
    def broken() -> Any:
        raise xl.errors.BackendUnavailableError("on purpose")

    before = set(xl.available_backends())
    with fresh_registry(gone=broken):
        assert "on purpose" in xl.available_backends()["gone"].reason
        with pytest.raises(xl.errors.BackendUnavailableError, match="on purpose"):
            backend_named("gone")
    assert set(xl.available_backends()) == before


@pytest.mark.usefixtures("fake")
def test_the_library_tells_what_it_holds() -> None:
    assert not is_recording()
    with xl.trace():
        assert is_recording()
    with cores(4), forced("staged"):
        transfers = [xl.to_device_async(X, device="fake:sim:0") for _ in range(4)]
        settle_all()
    assert pending_count() == 0
    assert bool(staging_stats("fake").nbytes) is native().is_on
    assert staging_stats("fake")[1:] == (0, 0)
    for transfer in transfers:
        transfer.result()
    source = xl.pinned_array(X, backend="sim")
    stream = xl.Stream("sim:0")
    xl.to_device(source, device="sim:0", stream=stream)
    assert in_flight_count() > 0
    stream.synchronize()


def test_the_suite_has_tests_under_names_that_no_two_parts_share() -> None:
    names = [name for part in BackendConformance.__mro__ for name in vars(part) if name.startswith("test_")]
    assert len(names) > 80
    assert len(set(names)) == len(names)


@pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the documentation is not beside the tests")
def test_the_reference_page_lists_every_test() -> None:
    script = ROOT / "tools" / "make_conformance_page.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
