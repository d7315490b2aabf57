"""Raw kernels: the program of two dimensions on every CUDA library, checks, and what stands in on a CPU; linking."""

import pathlib
import pickle
import struct
from types import SimpleNamespace
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import xferlib as xl
from tests.kernels.bits import same_bits
from tests.needed import need
from xferlib.errors import (
    ArgumentError,
    KernelCompileError,
    KernelSyntaxError,
    KernelTypeError,
    LayoutError,
    UnsupportedError,
)
from xferlib.kernels import arguments as checks
from xferlib.kernels import elementwise, raw_module, reductions
from xferlib.kernels.cuda_signature import RawParameter
from xferlib.kernels.raw import make_repeat

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


def _inputs():
    rng = np.random.RandomState(123)
    return np.arange(10, dtype=np.float32).reshape(2, 5), (10 * rng.rand(2, 5)).astype(np.float32)


def test_repeated_calls_run_on_the_stream_that_each_is_given(gpu):
    source = """
extern "C" __global__ void chain(long long *x, int last, long long cycles) {
  for (long long start = clock64(); clock64() - start < cycles;) {}
  *x = *x * 10 + last;
}
"""
    kernel = raw_module(source).get_function("chain")
    x = gpu.put(np.zeros(1, np.int64))
    xl.synchronize(xl.device_of(x))
    streams = [xl.Stream(xl.device_of(x)), xl.Stream(xl.device_of(x))]
    for last in range(1, 9):  # each waits for the one before it, which takes its time
        stream, before = streams[last % 2], streams[(last + 1) % 2]
        stream.wait(before.record())
        kernel(1, 1, (x, last, 2_000_000), stream=stream)
        if last == 4:
            kernel(1, 1, (x, 9, 0), stream=stream.handle)
    streams[0].synchronize()
    assert gpu.get(x).tolist() == [123495678]


def test_two_dimensions(target):
    kernel = raw_module(SOURCE).get_function("add2d", cpu=_add)
    x, y = _inputs()
    z = target.put(np.zeros((2, 5), np.float32))
    kernel((1, 1), (16, 16), (target.put(x), target.put(y), z, 5, 2))
    assert same_bits(target.get(z), x + y)


def test_template_instance(launcher):
    module = raw_module(SOURCE, names=("scale<double>", "scale<float>"))
    x = launcher.put(np.arange(5.0))
    module.get_function("scale<double>", "double *x, double factor, long long n")(1, 32, (x, 2.5, 5))
    assert launcher.get(x).tolist() == [0, 2.5, 5, 7.5, 10]


def test_cuda_header(launcher):
    body = "{ *x = __hmul(*x, __float2half(0.5f)); }"
    source = '#include <cuda_fp16.h>\nextern "C" __global__ void half_of(half *x) ' + body
    x = launcher.put(np.full(1, 3, np.float16))
    raw_module(source).get_function("half_of")(1, 1, (x,))
    assert launcher.get(x).tolist() == [1.5]


def test_compiler_message_names_the_line(launcher):
    kernel = raw_module('extern "C" __global__ void k(float *x) {\n  x[0] = undefined_name;\n}').get_function("k")
    with pytest.raises(KernelCompileError, match=r"\(2\): error.*undefined_name"):
        kernel(1, 1, (launcher.put(np.zeros(1, np.float32)),))


def test_the_cpu_function_gets_converted_numbers():
    seen: list[Any] = []
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
        (lambda x: (x, x, "z", 5, 2), "'z' is str"),
        (lambda x: (x, x, -1, 5, 2), "'z' is -1"),
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


@pytest.mark.parametrize("number", [np.int64, np.uint8])
def test_extents_may_be_numbers_of_numpy(number):
    kernel = raw_module('extern "C" __global__ void k(int n) {}').get_function("k", cpu=lambda n: None)
    kernel(number(2), (number(8), 1), (1,))
    kernel(1, block=number(8), grid=(number(2), number(0)))


def test_the_cpu_function_is_one():
    with pytest.raises(ArgumentError, match="cpu=5 is not a function"):
        raw_module("__global__ void k(int n) {}").get_function("k", cpu=5)


def test_signatures():
    module = raw_module(SOURCE)
    with pytest.raises(KernelSyntaxError, match="no kernel 'missing'; its kernels are add2d, scale"):
        module.get_function("missing")
    with pytest.raises(KernelSyntaxError, match="names="):
        module.get_function("scale<float>", "float *x, float f, long long n")
    with pytest.raises(KernelSyntaxError, match="cannot be passed by value"):
        module.get_function("add2d", "texture v")
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


def test_repeated_calls_take_new_arrays_numbers_and_dtypes(launcher):
    source = """
extern "C" __global__ void fill(float *x, const double *y, int n, float a, double b, unsigned char c, bool d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = (float)(y[i] * b) + a + c + (d ? 1000 : 0);
}
"""
    kernel = raw_module(source).get_function("fill")
    for number in range(6):
        y = np.arange(5.0) + number
        for a, b in ((np.float32(number), 2.0), (float(number), np.float64(2)), (number, 2)):
            x = launcher.put(np.zeros(5, np.float32))
            kernel(1, 32, (x, launcher.put(y), 5, a, b, number, number % 2 == 0))
            assert launcher.get(x).tolist() == (2 * y + 2 * number + (1000 if number % 2 == 0 else 0)).tolist()
    x, y = launcher.put(np.zeros(5, np.float32)), launcher.put(np.ones(5))
    with pytest.raises(KernelTypeError, match="'c' is 256, out of range"):
        kernel(1, 32, (x, y, 5, 0.0, 2.0, 256, False))
    with pytest.raises(KernelTypeError, match="'x' has dtype float64"):
        kernel(1, 32, (y, y, 5, 0.0, 2.0, 1, False))
    with pytest.raises(KernelTypeError, match=r"takes 7 argument\(s\)"):
        kernel(1, 32, (x, y, 5, 0.0, 2.0, 1))
    with pytest.raises(KernelTypeError, match="grid"):
        kernel([1], 32, (x, y, 5, 0.0, 2.0, 1, False))
    assert launcher.get(x).tolist() == [0.0] * 5
    wide = launcher.put(np.zeros(9, np.float32))
    kernel(1, 32, (wide, launcher.put(np.ones(9)), 9, 0.0, 2.0, 1, False))
    assert launcher.get(wide).tolist() == [3.0] * 9


class _Library:
    """A backend on the host for checked calls: its arrays are NumPy's, and a launch reads the parameters."""

    follows_writes = False
    has_made_streams = False

    def __init__(self):
        self.launched, self.consumed_by = [], []

    def matcher(self, arrays):
        expected = [(each.dtype, each.shape) for each in arrays]
        return lambda *given: [(each.dtype, each.shape) for each in given] == expected

    def stream_handle(self, device):
        return 7

    def stream_current(self, device):
        return "stream"

    def note_use(self, array, stream):
        self.consumed_by.append((array, stream))

    def repeat_launch(self, kernel, grid, block, arrays, fields, *, device):
        """Launches as the native module does it."""

        def launch(args, handle):
            found = []
            for value, field in zip(args, fields, strict=True):
                if type(value) is not field.type or (field.code == "A" and not matches(value)):
                    return 1
                try:
                    is_array = field.code == "A"
                    found.append(
                        value.ctypes.data.to_bytes(8, "little") if is_array else struct.pack(field.code, value)
                    )
                except (struct.error, OverflowError):
                    return 1
            self.launched.append((handle, found))
            return 0

        matches = self.matcher(arrays)
        return launch, lambda result, args, handle: False


_DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
           "float64"]  # fmt: skip
_NUMBERS = st.one_of(
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.integers(-300, 300),
    st.floats(),
    st.floats(width=16),
    st.sampled_from(_DTYPES).flatmap(lambda name: hnp.from_dtype(np.dtype(name))),
)


def _plain(name):
    """Numbers of the kinds that are written without being converted by NumPy."""
    dtype = np.dtype(name)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return st.one_of(st.integers(int(info.min), int(info.max)), hnp.from_dtype(dtype))
    own = st.booleans() if dtype.kind == "b" else st.floats(width=min(8 * dtype.itemsize, 64))
    return st.one_of(own, st.integers(-300, 300), hnp.from_dtype(dtype))


_GIVEN = st.sampled_from(_DTYPES).flatmap(
    lambda name: st.tuples(st.just(name), _plain(name), st.one_of(_plain(name), _NUMBERS))
)


@given(st.lists(_GIVEN, max_size=6), st.data())
def test_a_repeated_call_passes_what_a_checked_one_does(numbers, data):
    def declared(name, value, *, is_pointer=False):
        dtype = np.dtype(name)
        try:
            return value if is_pointer else checks.convert_scalar("k", value, dtype, "a")
        except KernelTypeError:
            return None

    parameters = [RawParameter("x", np.dtype("float32"), is_pointer=True, is_const=False)]
    parameters += [RawParameter("a", np.dtype(name), is_pointer=False, is_const=True) for name, _, _ in numbers]
    assume(all(declared(name, first) is not None for name, first, _ in numbers))
    library = _Library()
    one, two, wide = np.zeros(3, np.float32), np.zeros(3, np.float32), np.zeros(3)
    args = [one, *(first for _, first, _ in numbers)]
    here, stream = object(), data.draw(st.sampled_from([None, 9]))
    given_stream = None if stream is None else SimpleNamespace(handle=stream, device=here)
    call = make_repeat("k", library, here, "kernel", (1, 1), parameters, args, [0])
    assert call is not None
    again = [second if data.draw(st.booleans()) else first for _, first, second in numbers]
    expected = [declared(name, value) for (name, _, _), value in zip(numbers, again, strict=True)]
    assert not call([wide, *again], given_stream)
    assert not call(args, SimpleNamespace(handle=9, device=object()))
    assert not library.launched
    if call([two, *again], given_stream):
        (launched,) = library.launched
        assert launched == (
            stream or 7,
            [two.ctypes.data.to_bytes(8, "little"), *(each.tobytes() for each in expected)],
        )
        assert library.consumed_by == [(two, given_stream or "stream")]
    else:  # and that happens only where the types differ, or the number is too large to be written as it is
        assert not library.launched
        same = [type(value) is type(first) for value, (_, first, _) in zip(again, numbers, strict=True)]
        assert not all(same) or any(each is None or not np.isfinite(each) for each in expected)


# --- the ways to call

_BY_NAME = {
    "ours": lambda k, x, y: k(1, 4, (x, y, 4)),
    "ours, all by name": lambda k, x, y: k(args=(x, y, 4), block=(4,), grid=1),
    "ours, some by name": lambda k, x, y: k(1, block=4, args=[x, y, 4]),
    "PyCUDA's": lambda k, x, y: k(x, y, np.int32(4), block=(4, 1, 1), grid=(1, 1)),
    "PyCUDA's, one block": lambda k, x, y: k(x, y, 4, block=(4, 1, 1)),
    "PyCUDA's, with all": lambda k, x, y: k(x, y, 4, block=(2, 1, 1), grid=(2, 1), shared=16, stream=None),
    "PyCUDA's, on a stream": lambda k, x, y: k(x, y, 4, block=(4, 1, 1), stream=xl.current_stream()),
}


@pytest.mark.parametrize("call", _BY_NAME.values(), ids=_BY_NAME)
def test_a_kernel_is_called_in_our_way_and_in_pycudas(put, call):
    kernel = raw_module(_DOUBLING).get_function("doubling", cpu=_doubling)
    for values in ([1, 2, 3, 4], [5, 6, 7, 8]):  # the second call repeats the launch
        x, y = put(np.array(values, np.float32)), put(np.zeros(4, np.float32))
        call(kernel, x, y)
        assert xl.to_host(y).tolist() == [2 * each for each in values]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda k, x: k(x, x, 4), r"args=4 is not a tuple.*\(x, n\), or name block= and grid="),
        (lambda k, x: k(x, x, block=1), r"takes 3 argument\(s\) \(x, y, n\), 2 were given"),
        (lambda k, x: k(x, x, 4, grid=(1, 1)), "3 argument.* by position, and block, args needed"),
        (lambda k, x: k(), "0 argument.* and grid, block, args needed"),
        (lambda k, x: k(1, 1, (x, x, 4), 8), "4 argument.* by position"),
        (lambda k, x: k(1, 1, (x, x, 4), args=()), "3 argument.* and grid, block needed"),
        (lambda k, x: k(x, x, 4, block=1, shared=8, shared_nbytes=8), "say the same"),
        (lambda k, x: k(x, x, 4, block=(2048, 1, 1)), "more than 1024 threads"),
        (lambda k, x: k(x, x, 4, block=None), "block=None must be .* a tuple of them"),
        (lambda k, x: k(1, 1, {"x": x, "y": x, "n": 4}), "dict is not a tuple"),
        (lambda k, x: k(1, 1, "xyn"), "args='xyn' is not a tuple"),
        (lambda k, x: k(1, 1, {4, 5, 6}), "set is not a tuple"),
        (lambda k, x: k(x, x, 4, block=1, shared=-1), "shared_nbytes=-1"),
    ],
)
def test_a_half_right_call_of_a_kernel_says_what_is_missing(call, words):
    kernel = raw_module(_DOUBLING).get_function("doubling", cpu=_doubling)
    with pytest.raises(KernelTypeError, match=words):
        call(kernel, np.ones(4, np.float32))


@pytest.mark.parametrize(("word", "remedy"), [("shared_mem", "shared_nbytes="), ("time_kernel", "elapsed_ms")])
def test_a_keyword_of_another_librarys_kernel_is_told_ours(word, remedy):
    kernel = raw_module(_DOUBLING).get_function("doubling", cpu=_doubling)
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{word}'; .*{remedy}"):
        kernel(1, 1, (1, 2, 3), **{word: 1})


# --- what a launch would refuse, on every backend


@pytest.fixture
def put(library):
    """A function that makes a float32 array of a backend, on its default device."""
    return xl.to_device


def _doubling(x, y, n):
    np.multiply(x, 2, out=y)


_DOUBLING = """
extern "C" __global__ void doubling(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}"""


@pytest.fixture(params=[_doubling, None], ids=["with cpu=", "without"])
def doubling(request):
    return raw_module(_DOUBLING).get_function("doubling", cpu=request.param)


@pytest.mark.parametrize(
    ("grid", "block", "shared", "words"),
    [
        (1, 1025, 0, "1024 threads"), (1, (32, 33), 0, "1024 threads"), (1, (1, 1, 65), 0, "64 threads along z"),
        (2**31, 1, 0, "2\\*\\*31-1"), ((1, 65536), 1, 0, "65535"), ((1, 1, 65536), 1, 0, "65535"),
        (1, 32, -1, "shared_nbytes"), (1, 32, 1.5, "shared_nbytes"), (1, 32, True, "shared_nbytes"),
    ],
)  # fmt: skip
def test_limits_of_a_launch_hold_everywhere(put, doubling, grid, block, shared, words):
    x, y = put(np.ones(3, np.float32)), put(np.zeros(3, np.float32))
    with pytest.raises(KernelTypeError, match=words):
        doubling(grid, block, (x, y, 3), shared_nbytes=shared)
    assert xl.to_host(y).tolist() == [0, 0, 0]


def test_shared_memory_that_no_gpu_has_is_refused(put, doubling):
    x, y = put(np.ones(3, np.float32)), put(np.zeros(3, np.float32))
    with pytest.raises((KernelTypeError, xl.errors.XferError), match="shared"):
        doubling(1, 32, (x, y, 3), shared_nbytes=228 << 10)


@pytest.mark.parametrize("view", [lambda x: x[::2], lambda x: x[:, 1], lambda x: x.T], ids=["step", "column", "turned"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_pointer_to_a_view_with_strides_is_refused(put, doubling, view, place):
    plain, strided = put(np.zeros(6, np.float32)), view(put(np.zeros((4, 3), np.float32)))
    if xl.get_backend(plain).name == "pycuda":
        pytest.skip("PyCUDA's own kernels do not know such views")
    args = [plain, plain]
    args[place] = strided
    with pytest.raises(LayoutError, match="a pointer knows no strides"):
        doubling(1, 32, (*args, 3))


def test_arguments_are_checked_before_the_source_is_compiled(put):
    kernel = raw_module("nonsense").get_function("doubling", "const float *x, float *y, int n")
    x, y = put(np.ones(3, np.float32)), put(np.zeros(3, np.float32))
    with pytest.raises(KernelTypeError, match="'n' is 2.5"):
        kernel(1, 32, (x, y, 2.5))


def test_a_read_only_array_is_refused_where_it_is_written(doubling):
    x = np.ones(3, np.float32)
    y = np.zeros(3, np.float32)
    y.flags.writeable = False
    with pytest.raises(LayoutError, match="read-only"):
        doubling(1, 32, (x, y, 3))


def test_an_array_that_is_not_aligned_is_refused(doubling):
    y = np.zeros(3, np.float32)
    x = np.frombuffer(bytearray(16), np.float32, count=3, offset=1)
    with pytest.raises(LayoutError, match="not a multiple of the 4 bytes"):
        doubling(1, 32, (x, y, 3))
    kernel = raw_module('extern "C" __global__ void k(complex<double> *x) {}').get_function("k", cpu=lambda x: None)
    pairs = np.zeros(9)
    start = pairs.ctypes.data % 16 // 8
    kernel(1, 1, (pairs[start : start + 4].view(complex),))
    with pytest.raises(LayoutError, match="not a multiple of the 16 bytes"):
        kernel(1, 1, (pairs[start + 1 : start + 5].view(complex),))


def test_a_stream_of_another_device_is_refused(doubling):
    x = np.ones(3, np.float32)
    with pytest.raises(xl.errors.XferError):
        doubling(1, 32, (x, x.copy(), 3), stream=xl.Stream("sim:0"))


@pytest.mark.parametrize("backend", ["numpy", "torch", "sim"])
def test_the_cpu_function_cannot_write_a_const_argument(backend):
    need(backend)
    seen: list[Any] = []
    look = lambda x, y, n: seen.extend([x.flags.writeable, y.flags.writeable])
    kernel = raw_module(_DOUBLING).get_function("doubling", cpu=look)
    device = "torch:cpu" if backend == "torch" else None
    with xl.use_backend(backend):
        x, y = (xl.to_device(np.ones(3, np.float32), device=device) for _ in range(2))
        kernel(1, 32, (x, y, 3))
        xl.synchronize(device)
    assert seen == [False, True]


# --- modules of several pieces of device code, linked by nvJitLink


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


def _changed(launcher, module, x):
    there = launcher.put(x)
    module.get_function("change")(1, 32, (there, x.size))
    return launcher.get(there)


def test_a_function_of_another_source_is_called(launcher, tmp_path):
    x = np.arange(5, dtype=np.float32)
    assert (
        _changed(launcher, raw_module(MAIN, link=[TWICE], options=["-DFACTOR=2.5f"]), x).tolist() == (x * 2.5).tolist()
    )
    (tmp_path / "square.cu").write_text(SQUARE)
    module = raw_module(MAIN, link=(tmp_path / "square.cu",))
    (tmp_path / "square.cu").unlink()  # it was read
    assert _changed(launcher, module, x).tolist() == (x * x).tolist()
    again = pickle.loads(pickle.dumps(module))
    assert _changed(launcher, again, x).tolist() == (x * x).tolist()
    y = launcher.put(np.zeros(4, np.float32))
    module.get_function("fill")(1, 4, (y, 3))  # a kernel of the other source
    assert launcher.get(y).tolist() == [3] * 4


def test_a_piece_that_is_missing_is_named(launcher):
    missing = "Undefined reference to .*changed|a call of .*changed.* not defined"
    with pytest.raises((KernelCompileError, UnsupportedError), match=missing):
        _changed(launcher, raw_module(MAIN, options=["-rdc=true"]), np.ones(3, np.float32))


def test_a_kernel_launches_kernels(gpu):
    source = """
extern "C" __global__ void part(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }
extern "C" __global__ void whole(float *x, int parts, int n) {
  if (threadIdx.x < parts) part<<<1, n>>>(x + n * threadIdx.x, n);
}
"""
    x = gpu.put(np.zeros(35, np.float32))
    try:
        raw_module(source, options=["-dc"]).get_function("whole")(1, 32, (x, 5, 7))
    except KernelCompileError as error:
        if "needs libcudadevrt.a" not in str(error):
            raise
        pytest.skip("CUDA's device runtime is not installed")
    assert gpu.get(x).tolist() == [1.0] * 35


def test_a_module_alone_may_be_relocatable(launcher):
    x = np.arange(3, dtype=np.float32)
    source = MAIN.replace("extern __device__ float changed(float v);", SQUARE)
    assert _changed(launcher, raw_module(source, options=["--relocatable-device-code=true"]), x).tolist() == [
        0,
        1,
        4,
    ]


def test_on_a_cpu_the_function_takes_the_kernels_place():
    module = raw_module(MAIN, link=[SQUARE])
    x = np.arange(4, dtype=np.float32)
    module.get_function("change", cpu=lambda x, n: np.square(x, out=x))(1, 32, (x, 4))
    assert x.tolist() == [0, 1, 4, 9]
    assert [each.name for each in module.get_function("fill").parameters] == ["x", "value"]


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


# --- kernels on streams: they follow the library's current one, and arrays may be dropped at once


def test_results_are_right_when_sources_die_while_the_kernel_waits(launcher):
    kernel = elementwise(lambda x, y: x * y + 1)
    device = xl.device_of(launcher.put(np.ones(1, np.float32)))
    stream = xl.Stream(device)
    size = 1 << 20
    results = []
    with stream:
        for turn in range(20):
            x = launcher.put(np.full(size, turn, np.float32))
            results.append(kernel(x, 2))
            del x
    for _ in range(20):  # on the default stream: would land in memory that is still being read
        launcher.put(np.zeros(size, np.float32))
    stream.synchronize()
    assert [float(launcher.get(each)[-1]) for each in results] == [2.0 * turn + 1 for turn in range(20)]


def test_reduction_and_raw_kernel_on_a_given_stream(launcher):
    x = launcher.put(np.arange(5, dtype=np.float32))
    stream = xl.Stream(xl.device_of(x))
    xl.get_device(x).synchronize()
    source = 'extern "C" __global__ void twice(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }'
    raw_module(source).get_function("twice")(1, 32, (x, 5), stream=stream)
    with stream:
        total = reductions.sum(x)
    stream.synchronize()
    assert float(launcher.get(total)) == 20


SPIN = """
extern "C" __global__ void spin(int *done, long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}"""


@pytest.mark.parametrize("use", ["kernel", "reduction", "raw"])
def test_an_array_of_a_stream_may_be_dropped_behind_the_default_stream(launcher, use):
    """Its memory goes back to its own stream, which must not hand it out before the default stream has read it."""
    if launcher.name.startswith("torch"):
        pytest.skip("torch asks its users to call record_stream")
    device = xl.device_of(launcher.put(np.ones(1, np.float32)))
    spin = raw_module(SPIN).get_function("spin")
    copy = raw_module('extern "C" __global__ void copy(const float *x, float *y) { y[0] = x[0]; }').get_function("copy")
    flag, result = launcher.put(np.zeros(1, np.int32)), launcher.put(np.zeros(1, np.float32))
    stream = xl.Stream(device)
    kernel = elementwise(lambda x: x + 1)
    with xl.use_backend(xl.get_backend(flag).name):
        with stream:
            x = xl.zeros(1 << 20, np.float32, device=device)
        stream.synchronize()
        for _ in range(2):  # the second call takes the short way
            spin(1, 1, (flag, 100_000_000))
            if use == "kernel":
                result = kernel(x)
            elif use == "reduction":
                result = reductions.max(x)
            else:
                copy(1, 1, (x, result))
        del x
        with stream:
            other = xl.full(1 << 20, 9, np.float32, device=device)
        xl.synchronize(device)
    assert float(np.ravel(launcher.get(result))[0]) == (1 if use == "kernel" else 0)
    assert float(launcher.get(other)[0]) == 9
