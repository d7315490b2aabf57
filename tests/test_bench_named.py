"""`python -m benchmarks named`: each named case is measured and printed, and the host's own part with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl

named = pytest.importorskip("benchmarks.named", reason="the benchmarks are not beside the tests")


def no_work(seconds: float) -> None:
    pass


def test_cases_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    assert named.main(["--backends", "numpy", "--match", "numpy: 2 MB", "--json", str(figures)]) == 0
    printed = capsys.readouterr().out
    found = [row["case"] for row in json.loads(figures.read_text())["rows"]]
    assert found[:2] == ["numpy: 2 MB up", "numpy: 2 MB down"]
    assert set(found[2:]) <= {"numpy: 2 MB down to pinned memory"}  # where a GPU pins memory
    assert re.search(r"numpy: 2 MB up +[\d.]+ \([\d.]+\) +[\d.]+ \([\d.]+\) +(numpy|torch), ", printed)


def test_cases_of_a_gpu_have_pinned_ends_and_the_bytes_of_their_sources() -> None:
    found = {name: (nbytes, case) for name, nbytes, case in named.cases("cupy", has_pinned=True)}
    assert found["link 30 MB down"][0] == found["30 MB up"][0] == 30_000_000
    assert found["link 30 MB down"][1].is_pinned
    assert found["as float16 up"][0] == 2 * found["as float16 up"][1].nbytes
    assert found["images up"][1].host_array().strides == (150528, 1, 672, 3)
    assert found["ResNet-50 up"][0] == 102_228_128
    assert not [
        name for name in dict.fromkeys(each[0] for each in named.cases("numpy", has_pinned=False)) if "link" in name
    ]


@pytest.mark.parametrize("is_fill", [True, False])
def test_the_host_alone_copies_every_array(monkeypatch: pytest.MonkeyPatch, *, is_fill: bool) -> None:
    sizes: set[int] = set()
    to_host: Callable[..., np.ndarray[Any, Any]] = xl.to_host

    def noted(x: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        sizes.add(out.size)
        assert np.array_equal(to_host(x, out=out), x)
        return out

    monkeypatch.setattr(xl, "to_host", noted)
    sources = [np.ones((3, 4), np.float32), np.ones(5, np.float32)]
    with xl.use_backend("numpy"):
        row = named.host_row("few", sources, no_work, is_fill=is_fill)
    assert row.nbytes == 68
    assert sizes == {12, 5}
    assert all(row.seconds[regime]["xferlib"][1] > 0 for regime in ("hot", "cold"))


def test_pinned_results_have_a_row_of_their_own() -> None:
    seconds = {"xferlib (cupy)": {"to_host": 2.0, "to_host(pinned=True)": 1.0}, "torch": {"cpu": 4.0}}
    found = named.CaseFigures(
        name="transfer:0:0", kind="transfer", text="", nbytes=8, group="", seconds={"hot": seconds, "cold": seconds},
        pinned={"xferlib (cupy)": ["to_host(pinned=True)"]},
    )  # fmt: skip
    ordinary, pinned = named.rows_of("8 B down", 8_000_000_000, found)
    assert ordinary.case == "8 B down"
    assert ordinary.gb_per_s("xferlib") == "4.0 (4.0)"
    assert ordinary.gb_per_s("peer") == "2.0 (2.0)"
    assert pinned.case == "8 B down to pinned memory"
    assert pinned.gb_per_s("xferlib") == "8.0 (8.0)"
    assert pinned.gb_per_s("peer") == "-"
