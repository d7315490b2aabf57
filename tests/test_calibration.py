"""`calibrate` measures a machine, and `explain` tells the cost of a transfer there."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import xferlib as xl
from xferlib.testing import configured, cores


def test_the_cost_is_the_latency_and_the_bytes_at_the_speed_of_the_path() -> None:
    found = xl.Calibration(
        pinned_up_gb_per_s=50.0, pinned_down_gb_per_s=40.0, staged_up_gb_per_s=8.0, staged_down_gb_per_s=5.0,
        latency_up_us=10.0, latency_down_us=20.0,
    )  # fmt: skip
    expected_ms = {("staged", True): 1.01, ("staged", False): 1.62, ("pinned", True): 0.17, ("pinned", False): 0.22}
    for (path, is_upload), expected in expected_ms.items():
        assert found.expected_s(8_000_000, path, is_upload=is_upload) * 1e3 == pytest.approx(expected)


DAMAGES = ("NaN", "1e999", "-1", "0", "1" + 400 * "0", '"fast"', "[]", "null", "true", 60_000 * "[", "\\")


def test_calibrating_measures_every_speed_and_keeps_it_for_the_machine(tmp_path: Path) -> None:
    x = np.zeros(1 << 20)
    with xl.use_backend("sim"), configured(cache_dir=tmp_path):
        with cores(3):
            assert xl.explain(x).expected_ms is None
            found = xl.calibrate()
            assert min(asdict(found).values()) > 0
            expected_s = found.expected_s(x.nbytes, xl.explain(x).path, is_upload=True)
            assert xl.explain(x).expected_ms == pytest.approx(expected_s * 1e3)
            assert xl.explain(x, device="sim:sim:1").expected_ms is None
        with cores(4):
            assert xl.explain(x).expected_ms is None
        path = tmp_path / "calibration.json"
        text = path.read_text(encoding="utf-8")
        (kept,) = json.loads(text).values()
        assert kept == asdict(found)
        for damage in DAMAGES:
            path.write_text(text.replace(json.dumps(found.staged_up_gb_per_s), damage), encoding="utf-8")
            with cores(3):
                assert xl.explain(x).expected_ms is None, damage[:20]
        path.write_bytes(b"\xff\0" * 1000)
        with cores(3):
            assert xl.explain(x).expected_ms is None
