"""`xferlib bench sweep`: its cases are what they say, repeatable, and checked before they are timed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.console import main
from xferlib._cli.bench.sweep import cases, command, networks
from xferlib.testing import assert_same_bits


@pytest.mark.parametrize(
    ("network", "tensors", "numbers"),
    [("ResNet-50", 161, 25_557_032), ("BERT-base", 197, 108_891_648), ("decoder of 1.1 billion", 201, 1_100_048_384)],
)
def test_networks_have_their_published_sizes(network: str, tensors: int, numbers: int) -> None:
    shapes = networks.NETWORKS[network]()
    assert (len(shapes), sum(map(math.prod, shapes))) == (tensors, numbers)


@pytest.mark.parametrize("number", range(60))
def test_a_case_is_the_same_at_each_draw_and_has_the_layout_that_it_names(number: int) -> None:
    case = cases.transfer_case(3, number, ("numpy", "torch"), 1 << 20)
    assert case == cases.transfer_case(3, number, ("numpy", "torch"), 1 << 20)
    assert case == command.named(case.name, ("numpy", "torch"), 1 << 20)
    array = case.host_array()
    assert array.shape == case.shape
    assert array.dtype == np.dtype(case.given).newbyteorder("S" if case.layout == "swapped" else "=")
    assert_same_bits(array, case.host_array())
    is_plain = case.layout in ("contiguous", "swapped")
    assert array.flags.c_contiguous == is_plain or case.layout == "permuted" or 2 in case.shape
    assert 2 << 10 <= case.nbytes <= 4 << 20


def test_a_sweep_checks_and_times_every_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sweep.json"
    arguments = ["bench", "sweep", "--seconds", "2", "--seed", "11", "--largest", "64KiB"]
    assert main([*arguments, "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "WRONG" not in out
    assert "behind by over 10 %" in out
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert found["machine"]["seed"] == 11
    assert {each["kind"] for each in found["cases"]} == {"transfer", "tree"}
    for each in found["cases"]:
        assert each["problem"] == ""
        for regime in ("hot", "cold"):
            assert any(name.startswith("xferlib") for name in each["seconds"][regime])
            assert not all(name.startswith("xferlib") for name in each["seconds"][regime])


def test_one_case_can_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sweep", "--case", "transfer:11:4", "--largest", "64KiB"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("transfer:11:4: ")
    assert "GB/s" in out
    assert main(["bench", "sweep", "--case", "everything"]) == 2
    assert "transfer:7:12" in capsys.readouterr().err


def test_wrong_bits_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    own = xl.to_device
    monkeypatch.setattr(xl, "to_device", lambda x, **options: own(np.zeros(x.shape, x.dtype), **options))
    status = main(["bench", "sweep", "--seconds", "0.5", "--seed", "11", "--largest", "8KiB", "--kind", "transfer"])
    assert status == 1
    assert "WRONG: the bits differ" in capsys.readouterr().out
