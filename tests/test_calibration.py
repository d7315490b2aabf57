"""`calibrate` measures a machine, and `explain` tells the cost of a transfer there."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.testing import configured, cores

VALUES: list[Any] = ["fast", None, [], {}, True, float("nan"), float("inf"), -1.0, 0, 10**400, "1e9"]


def test_the_cost_is_the_latency_and_the_bytes_at_the_speed_of_the_path() -> None:
    found = xl.Calibration(
        pinned_up_gb_per_s=50.0, pinned_down_gb_per_s=40.0, staged_up_gb_per_s=8.0, staged_down_gb_per_s=5.0,
        latency_up_us=10.0, latency_down_us=20.0,
    )  # fmt: skip
    expected_ms = {("staged", True): 1.01, ("staged", False): 1.62, ("pinned", True): 0.17, ("pinned", False): 0.22}
    for (path, is_upload), expected in expected_ms.items():
        assert found.estimate_s(8_000_000, path, is_upload=is_upload) * 1e3 == pytest.approx(expected)


def test_calibrating_measures_every_speed_and_keeps_it_for_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xferlib._api.diagnose._WARM_S", 0.0)  # nothing warms up
    monkeypatch.setattr("xferlib._api.diagnose._NBYTES", 4 << 20)
    x = np.zeros(1 << 20)
    with xl.use_backend("sim"), configured(cache_dir=tmp_path):
        with cores(3):
            assert xl.explain(x).expected_ms is None
            found = xl.calibrate()
            assert min(asdict(found).values()) > 0
            estimate_s = found.estimate_s(x.nbytes, xl.explain(x).path, is_upload=True)
            assert xl.explain(x).expected_ms == pytest.approx(estimate_s * 1e3)
            assert xl.explain(x, device="sim:sim:1").expected_ms is None
        with cores(4):
            assert xl.explain(x).expected_ms is None
    path = tmp_path / "calibration.json"
    ((key, kept),) = json.loads(path.read_text(encoding="utf-8")).items()
    assert kept == asdict(found)
    with xl.use_backend("sim"), configured(cache_dir=tmp_path), cores(3):
        for value in VALUES:  # none of them makes sense, but for a latency of 0
            for name in ("staged_up_gb_per_s", "latency_up_us"):
                path.write_text(json.dumps({key: {**kept, name: value}}), encoding="utf-8")
                makes_sense = type(value) is int and value == 0 and name == "latency_up_us"
                assert (xl.explain(x).expected_ms is not None) == makes_sense
        path.unlink()
        os.mkfifo(path)
        assert xl.explain(x).expected_ms is None


DAMAGED = {
    "no file of text": b"\xff\xfe\x00", "no JSON": b"{", "a list": b"[]", "a number": b"3", "nested": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000, "long number": b"9" * 100_000, "huge": b" " * (3 << 20) + b"{}", "empty": b"",
}  # fmt: skip


@pytest.mark.parametrize("content", DAMAGED.values(), ids=list(DAMAGED))
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "calibration.json").write_bytes(content)
    with xl.use_backend("sim"), configured(cache_dir=tmp_path):
        assert xl.explain(np.zeros(9)).expected_ms is None
