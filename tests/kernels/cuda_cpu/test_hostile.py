"""Sources and PTX with mistakes of chance, some of those that `hostile` tries."""

from __future__ import annotations

import sys

import pytest

from tests.kernels.cuda_cpu import hostile
from tests.kernels.cuda_cpu.running import needs_cc, needs_nvrtc

pytestmark = [needs_cc, needs_nvrtc, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


def test_each_text_gives_a_result_or_an_error_of_xferlibs() -> None:
    outcomes, wrong = hostile.run(40, seed=1)
    assert wrong == []
    assert sum(outcomes.values()) == 40
    assert {"a result", "KernelCompileError"} <= outcomes.keys()


def test_what_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "LIMIT_S", 0)
    _, wrong = hostile.run(1, seed=1)
    assert len(wrong) == 1
