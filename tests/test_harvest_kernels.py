"""The harvest of kernels: which calls count, and which of them are taken."""

import sys

from tools import harvest_kernels

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
