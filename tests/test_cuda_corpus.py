"""The tool that runs the device code of other projects on a CPU, and repeats its launches elsewhere."""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import processes
from tests.kernels.cuda_cpu.running import needs_cc, needs_nvrtc
from tools.cuda_corpus import __main__ as corpus
from tools.cuda_corpus import finding

SAMPLE = """
#include <stdio.h>
static void check(int status) { if (status) { printf("}"); exit(1); } }
namespace own {
template <typename T> __device__ T twice(T x) { return x + x; }
float on_the_host(float x) { return x; }
}
__global__ void scale(float *x, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = own::twice(x[i]) * factor;
}
int main(int count, char **values) { scale<<<1, 64>>>(0, 1.0f, 0); return 0; }
"""
PROGRAM = '''
NAME = "no __global__ function"
SOURCE = """
struct Pair { float *first, *second; };
template <typename T> __global__ void fill(T *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = %(VALUE)s; }
extern "C" __global__ void copy(Pair pair) { pair.second[threadIdx.x] = pair.first[threadIdx.x]; }
extern "C" __global__ void stop(int *x) { assert(x == 0); }
"""
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    sample, program = tmp_path / "peer" / "Samples" / "scale.cu", tmp_path / "peer" / "examples" / "fill.py"
    for file, text in ((sample, SAMPLE), (program, PROGRAM)):
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "peer"


def test_functions_of_the_host_are_cut() -> None:
    cut = finding.cut_host_functions(SAMPLE)
    assert cut.count("\n") == SAMPLE.count("\n")
    for name, is_kept in (("check", False), ("on_the_host", False), ("main", False), ("twice", True), ("scale", True)):
        assert (f" {name}(" in cut) is is_kept


@needs_cc
@needs_nvrtc
def test_kernels_run_with_arguments_without_a_fault(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)  # nvcc
    fork = lambda command, **_: processes.run(*command[1:], after=processes.SIM)
    monkeypatch.setattr(corpus, "subprocess", SimpleNamespace(run=fork, TimeoutExpired=TimeoutError))
    archive = tmp_path / "corpus.zip"
    entries = corpus.record_all([checkout], archive, tmp_path / "kept", workers=1)
    assert [(each["refusal"], set(each["loads"].values())) for each in entries] == [("", {""})] * 2
    kernels = {each["kernel"]: each for entry in entries for each in entry["kernels"]}
    assert kernels.keys() == {"_Z5scalePffi", "_Z4fillIfEvPT_i", "copy", "stop"}
    assert [name for name, each in kernels.items() if each["attempt"] < 0] == ["stop"]
    assert kernels["stop"]["report"].startswith("assertion: ")
    assert "4 kernels, 4 of covered instructions, 3 without a report" in corpus.tell(entries)

    results = corpus.replay_all(archive, "numpy", workers=1)
    assert "promised: {'equal': 3}" in corpus.tell_equal(entries, results)

    with zipfile.ZipFile(archive) as file:
        content = {name: file.read(name) for name in file.namelist()}
    for entry in entries:  # as if one bit of each array had been another one
        for kernel in entry["kernels"]:
            kernel["digests"] = [0 for _ in kernel["digests"]]
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in content.items():
            if name.count("/") == 2:
                changed = bytearray(zlib.decompress(text))
                changed[0] ^= 1
                text = zlib.compress(changed)
            file.writestr(name, json.dumps(entries) if name == "record.json" else text)
    told = corpus.tell_equal(entries, corpus.replay_all(archive, "numpy", workers=1))
    assert "promised: {'differs': 3}" in told
    assert '"count": 1' in told
    assert '"ulps": 1' in told
