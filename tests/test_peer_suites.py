"""The tool that runs the peers' tests on xferlib, on tests of this file's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.peer_suites import __main__ as suites
from tools.peer_suites import adapting, report

CUPY = """
import numpy
import pytest
import cupy
from cupy import testing
from cupy.cuda.texture import TextureObject


class TestKernels:
    @testing.for_all_dtypes(no_complex=True)
    @testing.numpy_cupy_array_equal()
    def test_sum(self, xp, dtype):
        return testing.shaped_arange((3, 4), xp, dtype) + xp.ones((4,), dtype)

    def test_kernel(self):
        kernel = cupy.ElementwiseKernel("T x", "T y", "y = x * 2")
        testing.assert_array_equal(kernel(cupy.arange(5)), numpy.arange(5) * 2)
        with pytest.raises(ValueError, match="another text"):
            kernel(cupy.arange(5), size=5)

    def test_texture(self):
        TextureObject(None, None)

    def test_wrong(self):
        assert cupy.arange(3).sum() == 4


@testing.parameterize(*testing.product({"n": [1, 2, 3]}))
class TestSets:
    def test_size(self):
        assert cupy.zeros(self.n).size == self.n
"""
PYCUDA = """
import numpy as np
from pycuda import gpuarray
from pycuda.elementwise import ElementwiseKernel
from pycuda.scan import ExclusiveScanKernel


def test_range():
    z = gpuarray.zeros(10, np.float32)
    ElementwiseKernel("float *z", "z[i] = 7")(z, range=slice(2, 8, 3))
    assert z.get().tolist() == [0, 0, 7, 0, 0, 7, 0, 0, 0, 0]


def test_scan():
    x = gpuarray.to_gpu(np.arange(5, dtype=np.int32))
    assert ExclusiveScanKernel(np.int32, "a+b", 0)(x).get().tolist() == [0, 0, 1, 3, 6]
"""


def test_outcomes_are_those_of_the_tests(tmp_path: Path) -> None:
    file = tmp_path / "tests" / "cupy_tests" / "core_tests" / "test_userkernel.py"
    file.parent.mkdir(parents=True)
    file.write_text(CUPY, encoding="utf-8")
    found = {name.rpartition("::")[2]: outcome for name, outcome in suites.run("cupy", tmp_path, "sim").items()}
    kinds = {name: kind for name, (kind, _) in found.items()}
    assert kinds == {
        "test_sum": "passed", "test_kernel": "passed", "test_size": "passed", "test_texture": "not applicable",
        "test_wrong": "failed",
    }  # fmt: skip
    assert "TextureObject" in found["test_texture"][1]


def test_pycudas_kernels(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_gpuarray.py").write_text(PYCUDA, encoding="utf-8")
    outcomes = suites.run("pycuda", tmp_path, "numpy")
    assert [kind for kind, _ in outcomes.values()] == ["passed", "passed"]
    counts = report.counted("pycuda", "numpy", outcomes)
    assert "| pycuda | numpy | 2 | 2 | 0 |" in report.page([counts])


def test_what_says_nothing_about_xferlib_is_not_applicable() -> None:
    outcomes = {
        "t.py::TestBasic::test_reject_byteswap": ("failed", "why"), "t.py::test_astype_type": ("passed", ""),
        "t.py::test_other": ("failed", "why"),
    }  # fmt: skip
    found = report.counted("cupy", "torch (CUDA)", outcomes)
    assert (found.passed, list(found.failed)) == (0, ["t.py::test_other"])
    assert sum(found.not_applicable.values()) == 2
    found = report.counted("cupy", "sim", outcomes)  # whose arrays are xferlib's
    assert found.passed == 1
    before = report.Counts("cupy", "sim", 3, {"t.py::TestBasic::test_reject_byteswap": "why"}, {})
    assert report.sorted_out(before).of == 3


def test_each_exception_has_a_reason() -> None:
    known = report.reasons()
    assert report.reason_of("test_stream.py::TestStream::test_mix_use_context[null]", known)
    assert not report.reason_of("test_nothing_of_the_kind", known)


def test_imports_and_names_in_texts_are_the_shims() -> None:
    source = """import cupy.cuda, os
def test():
    from cupy import (
        testing,
    )
    with mock.patch("cupy.cuda.compiler.cache"):
        assert "text" in str(error.value)
"""
    assert adapting.adapted(source, {"cupy"}).splitlines() == [
        "import peer_shim.cupy.cuda; import peer_shim.cupy as cupy; import os", "def test():",
        "    from peer_shim.cupy import testing", "", "",
        '    with mock.patch("peer_shim.cupy.cuda.compiler.cache"):', "        pass",
    ]  # fmt: skip


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="give a checkout of cupy"):
        suites.run("cupy", tmp_path, "numpy")


def test_the_page_is_written_from_the_noted_counts() -> None:
    assert report.PAGE.read_text(encoding="utf-8") == report.page(report.noted())


def test_what_is_noted_covers_the_peers_and_every_exception_has_a_reason() -> None:
    found, known = [report.sorted_out(each) for each in report.noted()], report.reasons()
    backends = {"numpy", "sim", "cupy", "pycuda"}
    assert {(each.peer, each.backend) for each in found} >= {
        (peer, backend) for peer in ("chainer", "cupy", "pycuda", "torch") for backend in backends
    }
    assert "to be looked at" not in report.page(found)
    assert [name for each in found for name in each.failed if not report.reason_of(name, known)] == []
    assert sum(each.passed for each in found) >= 0.985 * sum(each.of for each in found)


def test_noted_counts_take_the_place_of_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results.json")
    outcomes = {"t.py::test_a": ("passed", ""), "t.py::test_b": ("skipped", "slow")}
    report.note([report.counted("cupy", "sim", outcomes), report.counted("cupy", "numpy", outcomes)])
    report.note([report.counted("cupy", "sim", {"t.py::test_a": ("failed", "no")})])
    assert [(each.backend, each.passed, each.failed) for each in report.noted()] == [
        ("numpy", 1, {}), ("sim", 0, {"t.py::test_a": "no"}),
    ]  # fmt: skip
