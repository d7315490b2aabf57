"""Raw modules of several pieces of device code, linked by nvJitLink."""

import pathlib
import pickle

import numpy as np
import pytest

from tests.kernels import targets
from xferlib.errors import ArgumentError, KernelCompileError, UnsupportedError
from xferlib.kernels import raw_module

MAIN = """
extern __device__ float changed(float v);
extern "C" __global__ void change(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = changed(x[i]);
}
"""
TWICE = "__device__ float changed(float v) { return FACTOR * v; }"
SQUARE = """
__device__ float changed(float v) { return v * v; }
extern "C" __global__ void fill(float *x, float value) { x[threadIdx.x] = value; }
"""


@pytest.fixture(params=["torch-cuda", "cupy", "pycuda"])
def target(request):
    return targets.target(request.param)


def _changed(target, module, x):
    there = target.put(x)
    module.get_function("change")(1, 32, (there, x.size))
    return target.get(there)


def test_a_function_of_another_source_is_called(target, tmp_path):
    x = np.arange(5, dtype=np.float32)
    assert _changed(target, raw_module(MAIN, link=[TWICE], options=["-DFACTOR=2.5f"]), x).tolist() == (x * 2.5).tolist()
    (tmp_path / "square.cu").write_text(SQUARE)
    module = raw_module(MAIN, link=(tmp_path / "square.cu",))
    (tmp_path / "square.cu").unlink()  # it was read
    assert _changed(target, module, x).tolist() == (x * x).tolist()
    again = pickle.loads(pickle.dumps(module))
    assert _changed(target, again, x).tolist() == (x * x).tolist()
    y = target.put(np.zeros(4, np.float32))
    module.get_function("fill")(1, 4, (y, 3))  # a kernel of the other source
    assert target.get(y).tolist() == [3] * 4


def test_a_piece_that_is_missing_is_named(target):
    with pytest.raises(KernelCompileError, match="Undefined reference to .*changed"):
        _changed(target, raw_module(MAIN, options=["-rdc=true"]), np.ones(3, np.float32))


def test_a_kernel_launches_kernels(target):
    source = """
extern "C" __global__ void part(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }
extern "C" __global__ void whole(float *x, int parts, int n) {
  if (threadIdx.x < parts) part<<<1, n>>>(x + n * threadIdx.x, n);
}
"""
    x = target.put(np.zeros(35, np.float32))
    try:
        raw_module(source, options=["-dc"]).get_function("whole")(1, 32, (x, 5, 7))
    except KernelCompileError as error:
        if "needs libcudadevrt.a" not in str(error):
            raise
        pytest.skip("CUDA's device runtime is not installed")
    assert target.get(x).tolist() == [1.0] * 35


def test_a_module_alone_may_be_relocatable(target):
    x = np.arange(3, dtype=np.float32)
    source = MAIN.replace("extern __device__ float changed(float v);", SQUARE)
    assert _changed(target, raw_module(source, options=["--relocatable-device-code=true"]), x).tolist() == [0, 1, 4]


def test_on_a_cpu_the_function_takes_the_kernels_place():
    module = raw_module(MAIN, link=[SQUARE])
    x = np.arange(4, dtype=np.float32)
    module.get_function("change", cpu=lambda x, n: np.square(x, out=x))(1, 32, (x, 4))
    assert x.tolist() == [0, 1, 4, 9]
    assert [each.name for each in module.get_function("fill").parameters] == ["x", "value"]
    with pytest.raises(UnsupportedError):
        module.get_function("fill")(1, 4, (x, 2.0))


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("text", "is not a list"),
        ([3], r"link\[0\]=3 is neither source nor the path"),
        ([pathlib.Path("part.txt")], "ends with one of .a, .c"),
        (["\0"], "is neither source"),
    ],
)
def test_what_cannot_be_linked_is_refused(link, words):
    with pytest.raises(ArgumentError, match=words):
        raw_module(MAIN, link=link)
    with pytest.raises(OSError, match="nowhere"):
        raw_module(MAIN, link=[pathlib.Path("nowhere.cubin")])


def test_machine_code_is_linked_beside_a_source(tmp_path):
    (tmp_path / "whole.cubin").write_bytes(b"\x7fELF")
    with pytest.raises(ArgumentError, match="give it in link=, beside the source"):
        raw_module(path=tmp_path / "whole.cubin", link=[TWICE])
