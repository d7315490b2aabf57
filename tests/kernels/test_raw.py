"""Raw kernels: the program of two dimensions on every CUDA library, checks, and what stands in on a CPU."""

import numpy as np
import pytest

import xferlib as xl
from tests.kernels import targets
from tests.kernels.bits import same_bits
from xferlib.errors import KernelCompileError, KernelSyntaxError, KernelTypeError, UnsupportedError
from xferlib.kernels import raw_module

SOURCE = """
extern "C" __global__ void add2d(const float *x, const float *y, float *z, int nx, int ny) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < nx && j < ny) z[j * nx + i] = x[j * nx + i] + y[j * nx + i];
}
template <typename T> __global__ void scale(T *x, T factor, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""


def _add(x, y, z, nx, ny):
    np.add(x, y, out=z)


@pytest.fixture(params=["torch-cpu", "torch-cuda", "cupy", "pycuda"])
def target(request):
    return targets.target(request.param)


def _inputs():
    rng = np.random.RandomState(123)
    return np.arange(10, dtype=np.float32).reshape(2, 5), (10 * rng.rand(2, 5)).astype(np.float32)


def test_two_dimensions(target):
    kernel = raw_module(SOURCE).get_function("add2d", cpu=_add)
    x, y = _inputs()
    z = target.put(np.zeros((2, 5), np.float32))
    kernel((1, 1), (16, 16), (target.put(x), target.put(y), z, 5, 2))
    assert same_bits(target.get(z), x + y)


def test_template_instance(target):
    if target.name == "torch-cpu":
        pytest.skip("needs a GPU")
    module = raw_module(SOURCE, names=("scale<double>", "scale<float>"))
    x = target.put(np.arange(5.0))
    module.get_function("scale<double>", "double *x, double factor, long long n")(1, 32, (x, 2.5, 5))
    assert target.get(x).tolist() == [0, 2.5, 5, 7.5, 10]


def test_cuda_header(target):
    if target.name == "torch-cpu":
        pytest.skip("needs a GPU")
    body = "{ *x = __hmul(*x, __float2half(0.5f)); }"
    source = '#include <cuda_fp16.h>\nextern "C" __global__ void half_of(half *x) ' + body
    x = target.put(np.full(1, 3, np.float16))
    raw_module(source).get_function("half_of")(1, 1, (x,))
    assert target.get(x).tolist() == [1.5]


def test_compiler_message_names_the_line(target):
    if target.name == "torch-cpu":
        pytest.skip("needs a GPU")
    kernel = raw_module('extern "C" __global__ void k(float *x) {\n  x[0] = undefined_name;\n}').get_function("k")
    with pytest.raises(KernelCompileError, match=r"\(2\): error.*undefined_name"):
        kernel(1, 1, (target.put(np.zeros(1, np.float32)),))


def test_without_a_cpu_function_the_error_says_so():
    x, y = _inputs()
    with pytest.raises(UnsupportedError, match="'add2d' is CUDA source and cannot run on numpy:cpu.*cpu="):
        raw_module(SOURCE).get_function("add2d")((1, 1), (16, 16), (x, y, x.copy(), 5, 2))


def test_the_cpu_function_gets_converted_numbers():
    seen = []
    kernel = raw_module("__global__ void k(double *x, unsigned char n, float f) {}").get_function(
        "k", cpu=lambda *args: seen.extend(args)
    )
    kernel(1, 1, (np.zeros(1), 7, 2))
    assert [type(each) for each in seen] == [np.ndarray, np.uint8, np.float32]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (lambda x: (x, x, x, 5), r"takes 5 argument\(s\) \(x, y, z, nx, ny\), 4 were given"),
        (lambda x: (x, x, x, 5.5, 2), "argument 'nx' is 5.5"),
        (lambda x: (x, x, x, 2**40, 2), "out of range for int32"),
        (lambda x: (x, x, x, x, 2), "'nx' is an array, and the parameter a number"),
        (lambda x: (x, 3.0, x, 5, 2), "'y' is float, and the parameter a pointer"),
        (lambda x: (x, x.astype(np.float64), x, 5, 2), "dtype float64, and the parameter points to float32"),
        (lambda x: (x, x, None, 5, 2), "'z' is NoneType"),
    ],
)
def test_arguments_are_checked(args, words):
    kernel = raw_module(SOURCE).get_function("add2d", cpu=_add)
    with pytest.raises(KernelTypeError, match=words):
        kernel((1, 1), (16, 16), args(np.zeros((2, 5), np.float32)))


@pytest.mark.parametrize("extents", [((1, 1, 1, 1), 1), (1.0, 1), (-1, 1), (1, 0), ((1, 70000), 1), (1, "a")])
def test_extents_are_checked(extents):
    kernel = raw_module("__global__ void k(int n) {}").get_function("k", cpu=lambda n: None)
    with pytest.raises(KernelTypeError, match="grid=|block="):
        kernel(*extents, (np.int32(1),))


def test_signatures():
    module = raw_module(SOURCE)
    with pytest.raises(KernelSyntaxError, match="give signature="):
        module.get_function("missing")
    with pytest.raises(KernelSyntaxError, match="names="):
        module.get_function("scale<float>", "float *x, float f, long long n")
    with pytest.raises(KernelSyntaxError, match="cannot be passed by value"):
        module.get_function("add2d", "float4 v")
    found = module.get_function("add2d").parameters
    assert [(each.name, str(each.dtype), each.is_const) for each in found] == [
        ("x", "float32", True), ("y", "float32", True), ("z", "float32", False), ("nx", "int32", False),
        ("ny", "int32", False),
    ]  # fmt: skip


def test_on_the_simulated_device_the_stand_in_is_an_operation():
    x, y = _inputs()
    kernel = raw_module(SOURCE).get_function("add2d", cpu=_add)
    with xl.use_backend("sim"):
        dx, dy = xl.to_device(x), xl.to_device(y)
        z, stream = xl.zeros_like(dx), xl.Stream()
        kernel(1, 1, (dx, dy, z, 5, 2))
        assert same_bits(xl.to_host(z), x + y)
        with pytest.raises(xl.sim.RaceError, match="add2d"):  # nothing makes that stream wait for the uploads
            kernel(1, 1, (xl.to_device(x), xl.to_device(y), z, 5, 2), stream=stream)
