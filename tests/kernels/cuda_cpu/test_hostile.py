"""Sources and PTX with mistakes of chance, some of those that `hostile` tries."""

from __future__ import annotations

import sys

import pytest

from tests.kernels.cuda_cpu import hostile
from tests.kernels.cuda_cpu.running import needs_cc, needs_nvrtc
from tests.sizes import sized

pytestmark = [needs_cc, needs_nvrtc, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


def test_each_text_gives_a_result_or_an_error_of_xferlibs(monkeypatch: pytest.MonkeyPatch) -> None:
    count = sized(200)
    trials = hostile.run(count, seed=1)
    assert [each.fault for each in trials if each.fault] == []
    assert len(trials) == count
    assert {"a result", "KernelCompileError"} <= {each.outcome for each in trials}
    monkeypatch.setattr(hostile, "LIMIT_S", 0)
    assert all(each.fault for each in trials)
