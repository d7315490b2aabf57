"""The harvest of kernels: which calls count, and which of them are taken."""

import shutil
import sys

import pytest

from tools import harvest_kernels
from tools.kernel_harvest import comparing, cpp_program, finding, trying

SOURCE = """
import cupy
from chainer.backends import cuda
PREAMBLE = "__device__ double half_of(double v) { return v / 2; }"
cupy.ElementwiseKernel("T x", "T y", "y = half_of(x)", "named", preamble=PREAMBLE)
cuda.elementwise("T x", "T y", "y = x * " "2", "two_literals")
cuda.reduce("T x", "T y", "x", "a + b", "y = a", 0, "total")
cupy.ElementwiseKernel("T x", "T y", "y = no_such_function(x)", "refused")
cupy.ElementwiseKernel("T x", "T y", f"y = {x}", "not_static")
other.elementwise("T x", "T y", "y = x", "not Chainer's")
"""


def test_static_kernels_are_counted_and_refusals_have_their_reason(tmp_path, monkeypatch, capsys):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "module.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "argv", ["harvest_kernels", str(tmp_path / "project"), "--refused"])
    harvest_kernels.main()
    printed = capsys.readouterr().out
    assert "all: 3 of 4 taken" in printed
    assert "module.py:8: operation, line 1, column 5: unknown function 'no_such_function'" in printed


def _harvested(folder, source):
    (folder / "module.py").write_text(source)
    return [trying.trials(each) for each in finding.kernels_in(folder)]


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_kernels_are_compared_with_their_text_as_cpp(tmp_path, monkeypatch):
    source = """
import cupy
cupy.ElementwiseKernel("T x, raw T a, int32 k", "T y", "y = x / k + exp(a[i]); if (x < 0) continue; y += 1", "one")
cupy.ElementwiseKernel("T x", "raw T y", "y[i] = x % 7 ? -x : x << 1", "integers")
cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
"""
    kernels = _harvested(tmp_path, source)
    right, write = sum(map(len, kernels)), cpp_program.kernel

    def write_wrong(taken, number):
        text = write(taken, number)
        return text if number < right else text.replace("x / k", "x * k").replace("a + b", "b")

    monkeypatch.setattr(cpp_program, "kernel", write_wrong)
    *found, first, second, third = comparing.compare([*kernels, *kernels])
    assert len(found) == len(kernels)
    for each in found:
        assert each.agreed, each.reason
        assert not each.differed
        assert not each.beyond
    assert first.differed
    assert third.differed
    assert second.agreed
    assert not second.differed
