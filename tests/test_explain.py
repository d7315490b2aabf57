"""`explain` predicts what a transfer does; what it costs is in `test_calibration.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xferlib as xl


@pytest.fixture
def on_fake(plugins: object, tmp_path: Path) -> object:
    before = xl.configure(cache_dir=tmp_path)
    with xl.use_backend("fake"):
        yield
    xl.configure(cache_dir=before.cache_dir)


@pytest.mark.usefixtures("on_fake")
def test_each_kind_of_memory_is_told_apart() -> None:
    big = np.zeros((1000, 1000), np.float32)
    expected = {
        "small": big[:10, :10],
        "staged": big,
        "permuted": big.T,
        "empty": big[:0],
        "pinned": xl.pinned_array(big),
    }
    assert {name: xl.explain(x).path for name, x in expected.items()} == {name: name for name in expected}
    assert [name for name, x in expected.items() if xl.explain(x).is_async] == ["pinned"]


@pytest.mark.usefixtures("on_fake")
def test_a_pageable_source_is_told_how_to_be_asynchronous() -> None:
    said = str(xl.explain(np.zeros(1 << 20)))
    assert "not asynchronous" in said
    assert "pinned_empty" in said
    assert "to_device_async" in said


@pytest.mark.usefixtures("on_fake")
def test_a_narrowing_conversion_counts_the_bytes_of_the_link() -> None:
    assert xl.explain(np.zeros(1 << 20), dtype="float32").nbytes == 4 << 20


@pytest.mark.usefixtures("on_fake")
@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (np.ma.masked_array([1.0, 2.0], [True, False]), None), ([300], "int8"), (np.zeros(2, complex), "float64"),
        ((np.zeros(2), np.zeros(2)), None), (np.array(["text"]), None), ({}, None),
    ],
)  # fmt: skip
def test_what_no_transfer_takes_is_refused_with_the_same_words(x: object, dtype: str | None) -> None:
    with pytest.raises((xl.errors.ArrayError, OverflowError)) as refused:
        xl.to_device(x, dtype=dtype)
    with pytest.raises(refused.type) as found:
        xl.explain(x, dtype=dtype)
    assert str(found.value) == str(refused.value)


def test_a_dtype_that_does_not_exist_is_refused_as_that_argument() -> None:
    with pytest.raises(
        xl.errors.UnsupportedDTypeError, match=r"^dtype: 'flot32' is not a dtype \(did you mean 'float32'\?\)"
    ):
        xl.explain(np.zeros(4), dtype="flot32")


@pytest.mark.usefixtures("on_fake")
def test_a_broken_calibration_file_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "calibration.json").write_text("{", encoding="utf-8")
    assert xl.explain(np.zeros(1 << 20)).expected_ms is None


def test_a_cpu_is_named_as_one() -> None:
    assert "CPU" in xl.explain(np.zeros(4), backend="numpy").reason


@pytest.mark.usefixtures("on_fake")
def test_strict_refuses_what_would_be_staged() -> None:
    before = xl.configure(strict=frozenset({"pageable"}))
    try:
        with pytest.raises(xl.errors.SlowPathError, match="pinned_empty"):
            xl.to_device(np.zeros(1 << 20))
        xl.to_device(xl.pinned_zeros(1 << 20))
    finally:
        xl.configure(strict=before.strict)
