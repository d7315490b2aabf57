"""The tools of the conformance suite do what they say, and its page lists what it checks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import find, given
from hypothesis import strategies as st

import xferlib as xl
from tests.needed import need
from tests.processes import printed
from xferlib.testing import (
    PATHS,
    BackendConformance,
    assert_allclose_ulp,
    assert_identical,
    assert_same_bits,
    configured,
    cores,
    forced,
    fresh_registry,
    in_flight_count,
    is_recording,
    load_backend,
    native,
    native_bits,
    pending_count,
    scribble,
    settle_all,
    staging_stats,
    strategies,
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


# --- assertions for programs


@pytest.mark.parametrize("backend", ["numpy", "sim", "torch"])
def test_arrays_of_any_backend_are_compared(backend: str) -> None:
    need(backend)
    x = np.array([[1.5, np.nan], [-0.0, np.inf]])
    d = xl.to_device(x, backend=backend)
    assert_identical(d, x, nan_payloads=True)
    assert_identical(x.astype(">f8"), d)
    assert_allclose_ulp(d, x, max_ulp=0)
    for check in (assert_identical, lambda a, b: assert_allclose_ulp(a, b, max_ulp=3)):
        with pytest.raises(AssertionError, match=r"1 of 4 .*\(0, 0\)"):
            check(d, np.array([[1.6, np.nan], [-0.0, np.inf]]))


def test_nans_are_identical_whatever_their_bits_unless_payloads_count() -> None:
    one, two = _nan(0x7FC00001), _nan(0xFFC00000)
    assert_identical(one, two)
    assert_identical(one + 1j * two, two + 1j * one)
    with pytest.raises(AssertionError, match="0100c07f"):
        assert_identical(one, two, nan_payloads=True)
    with pytest.raises(AssertionError, match="1 of 1"):
        assert_identical(one, np.zeros(1, "float32"))
    assert one.view("uint32") == 0x7FC00001  # what is compared stays as it is


@pytest.mark.parametrize(
    ("one", "two", "message"),
    [
        (np.zeros(3), np.zeros(4), r"shape \(3,\), expected \(4,\)"),
        (np.zeros(3, "f4"), np.zeros(3), "dtype float32, expected float64"),
        (np.zeros(0, "f4"), np.zeros(0), "dtype float32, expected float64"),
        (3, 4, "1 of 1"),
    ],
)
def test_shape_dtype_and_integers_must_be_equal(one: object, two: object, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_identical(one, two)
    with pytest.raises(AssertionError, match=message):
        assert_allclose_ulp(one, two, max_ulp=100)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@given(data=st.data())
def test_ulp_are_counted_as_steps_to_the_next_number(dtype: str, data: st.DataObject) -> None:
    real = np.zeros(1, dtype).real.dtype
    start = np.array(data.draw(st.floats(width=8 * real.itemsize, allow_nan=False, allow_infinity=False)), real)
    steps, found = data.draw(st.integers(0, 5)), start
    with np.errstate(over="ignore", under="ignore"):
        for _ in range(steps):
            found = np.nextafter(found, real.type(-np.inf))
    if not np.isfinite(found):
        return
    a, b = (np.array(x, dtype) for x in (found, start))
    assert_allclose_ulp(a, b, max_ulp=steps)
    if steps:
        with pytest.raises(AssertionError, match=rf"more than {steps - 1} ulp apart.*: {steps} ulp apart"):
            assert_allclose_ulp(b, a, max_ulp=steps - 1)


def test_ulp_of_zeros_infinities_and_nans() -> None:
    assert_allclose_ulp([0.0, np.inf, np.nan], [-0.0, np.inf, -np.nan], max_ulp=0)
    assert_allclose_ulp(np.zeros((0, 3)), np.zeros((0, 3)), max_ulp=0)
    most = np.finfo(float).max
    for one, two in ((np.inf, most), (np.inf, -np.inf), (np.nan, 1.0)):
        with pytest.raises(AssertionError, match="no finite number"):
            assert_allclose_ulp(one, two, max_ulp=1 << 63)
    with pytest.raises(AssertionError, match=f"{2 * (0x7FEFFFFFFFFFFFFF)} ulp"):
        assert_allclose_ulp(most, -most, max_ulp=1 << 63)


@pytest.mark.parametrize("max_ulp", [-1, 0.5, True, None, "2"])
def test_a_bound_that_is_none_is_refused(max_ulp: Any) -> None:
    with pytest.raises(xl.errors.ArgumentError, match="max_ulp"):
        assert_allclose_ulp(1.0, 1.0, max_ulp=max_ulp)


def test_what_are_no_numbers_are_refused() -> None:
    with pytest.raises(xl.errors.UnsupportedDTypeError, match="<U1"):
        assert_identical(["a"], ["a"])


@given(strategies.host_arrays(), st.data())
def test_values_laid_out_anew_are_the_same(values: Any, data: st.DataObject) -> None:
    found = data.draw(strategies.vary_layout(values))
    assert_identical(found, values, nan_payloads=True)
    if found.flags.writeable:
        found[...] = 1
        assert (found == 1).all()  # no element shares memory with another


def test_all_layouts_are_drawn() -> None:
    layouts = {
        "reversed": lambda x: x.strides[0] < 0,
        "transposed": lambda x: 0 < x.strides[0] < x.strides[1],
        "cropped": lambda x: x.strides[0] > 3 * x.strides[1] > 0,
        "byte-swapped": lambda x: not x.dtype.isnative,
        "misaligned": lambda x: not x.flags.aligned,
        "read-only": lambda x: not x.flags.writeable,
    }
    for kind in layouts.values():
        assert find(strategies.vary_layout(np.arange(6.0).reshape(2, 3)), kind).shape == (2, 3)


def test_the_assertions_need_neither_pytest_nor_hypothesis() -> None:
    script = """
import sys
sys.modules["pytest"] = sys.modules["hypothesis"] = None
from xferlib.testing import assert_identical, configured, scribble
import xferlib.testing
assert_identical([1], [1])
assert set(dir(xferlib.testing)) >= set(xferlib.testing.__all__)
"""
    printed("-c", script)


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
            load_backend("gone")
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
