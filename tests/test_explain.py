"""`explain` predicts what a transfer does, and reads the calibration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xferlib as xl
from xferlib._api import calibration


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
def test_the_cost_comes_from_the_calibration_kept_for_the_machine() -> None:
    x = np.zeros(1 << 20)
    assert xl.explain(x).expected_ms is None
    found = calibration.Calibration(
        pinned_up_gb_per_s=50.0, pinned_down_gb_per_s=50.0, staged_up_gb_per_s=8.388608, staged_down_gb_per_s=5.0,
        latency_up_us=10.0, latency_down_us=10.0,
    )  # fmt: skip
    calibration._save(calibration._key(xl.get_device()), found)
    assert xl.explain(x).expected_ms == pytest.approx(1.01)


@pytest.mark.usefixtures("on_fake")
def test_calibrating_measures_every_speed_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_memory_gb_per_s", lambda *_: 3.0)  # the fake device computes nothing
    found = xl.calibrate()
    assert min(found.pinned_up_gb_per_s, found.staged_down_gb_per_s, found.latency_up_us) > 0
    assert calibration.known(xl.get_device()) == found
    assert found.memory_gb_per_s == 3.0


def test_calibrating_measures_the_memory_where_there_are_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_WARM_S", 0.0)
    monkeypatch.setattr(calibration, "_NBYTES", 1 << 16)
    assert xl.calibrate("sim:sim:0").memory_gb_per_s > 0


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
