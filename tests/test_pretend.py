"""Programs for CuPy on a simulated device: what they compute, and what is found in them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import processes
from tests.kernels.cuda_cpu.running import needs_cc, needs_nvrtc

ROOT = Path(__file__).parents[1]


def run(tmp_path: Path, program: str, *command: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "test_program.py").write_text(program)
    given: dict[str, Any] = {"PYTHONPATH": processes.path_with(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return processes.run("-m", *command, cwd=tmp_path, after=(*processes.SIM, "pytest"), **given)


EACH_IS_REFUSED = """\
    try:
        call()
    except error as caught:
        assert str(caught)
    else:
        raise AssertionError(error)
print("all of it")
"""
"""The end of a program, behind ``for call, error in ...:``."""
PROGRAM = (
    """
import copy
import pickle
import sys

import cupy as cp
import cupyx
import numpy as np
from cupy.cuda import runtime

assert sys.argv[1:] == ["--flag"]
h = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
x = cp.asarray(h)

def same(found, expected, exact=True):
    assert isinstance(found, cp.ndarray), type(found)
    got = found.get()
    assert got.dtype == expected.dtype and got.shape == expected.shape, (got.dtype, expected.dtype, got.shape)
    assert np.array_equal(got, expected, equal_nan=True) if exact else np.allclose(got, expected)

# functions of the device, of the host, as methods and by NumPy's names
same(x * 2 - 1, h * 2 - 1)
same(2 ** x, 2 ** h, exact=False)
same(x.sum(axis=0, keepdims=True), h.sum(axis=0, keepdims=True), exact=False)
same(x.max(axis=1), h.max(axis=1))
same(cp.concatenate([x, x], axis=1), np.concatenate([h, h], axis=1))
same(np.concatenate([x, x]), np.concatenate([h, h]))
same(np.sin(x), np.sin(h), exact=False)
same(cp.median(x, axis=0), np.median(h, axis=0))
same(cp.where(x > 0, x, -1), np.where(h > 0, h, -1))
same(cp.einsum("ij,kj->ik", x, x), np.einsum("ij,kj->ik", h, h), exact=False)
same(cp.percentile(x, [25, 50]), np.percentile(h, [25, 50]).astype(np.float64), exact=False)
same(cp.linalg.norm(x, axis=1), np.linalg.norm(h, axis=1), exact=False)
same(cp.fft.rfft2(x).real, np.fft.rfft2(h).real, exact=False)
same(x.astype(np.int16), h.astype(np.int16))
assert [each.tolist() for each in cp.nonzero(x[0] > -1.9)] == [[1, 2, 3, 4, 5]]

# layouts, indices, assignments
same(x.T, h.T); same(x[:, ::2], h[:, ::2]); same(x[1], h[1]); same(x.reshape(6, -1), h.reshape(6, -1))
same(x[x > 0], h[h > 0]); same(x[[0, 2]], h[[0, 2]]); same(x.transpose(1, 0), h.transpose(1, 0))
y, g = x.copy(), h.copy()
y[1:3, ::2] = 7; g[1:3, ::2] = 7
y[y < 0] = 0; g[g < 0] = 0
y[0] += 1; g[0] += 1
y *= 2; g *= 2
y[:, 0] = cp.arange(4); g[:, 0] = np.arange(4)
same(y, g)
y[:] = h
same(y, h)
cupyx.scatter_add(y, ([0, 0], [1, 1]), 1)
np.add.at(h2 := h.copy(), ([0, 0], [1, 1]), 1)
same(y, h2)
same(copy.deepcopy(x), h); same(pickle.loads(pickle.dumps(x)), h)
assert cp.shares_memory(x, x[1:]) and not cp.shares_memory(x[:, ::2], x[:, 1::2]) and not cp.shares_memory(x, x.copy())
class Mesh(cp.ndarray):
    def __new__(cls, n):
        return cp.ndarray.__new__(cls, (n,), dtype=np.float32)
    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = [each.view(cp.ndarray) if isinstance(each, Mesh) else each for each in inputs]
        return super().__array_ufunc__(ufunc, method, *plain, **options).view(Mesh)
mesh = Mesh(3)
mesh[:] = 2
assert type(mesh + 1) is Mesh and type(mesh[1:]) is Mesh and (mesh * mesh).tolist() == [4, 4, 4]
assert type(mesh * mesh) is Mesh and type(-mesh) is Mesh and type(mesh.sum()) is cp.ndarray
assert float(x[0, 0]) == -2 and x[0, 1].item() == h[0, 1] and f"{x[0, 0]:.1f}" == "-2.0" and len(x) == 4
assert cp.get_array_module(x) is cp and cp.get_array_module(h) is np and isinstance(x, cp.ndarray)

# kernels
clean = cp.ElementwiseKernel("T x, T limit", "T y", "y = x > limit ? limit : x", "clean")
same(clean(x, 1), np.minimum(h, np.float32(1)))
wide = cp.zeros((3, 5), dtype=cp.float32)  # an output that is given takes part in broadcasting
clean(cp.arange(3, dtype=cp.float32)[:, None], cp.float32(1), wide)
same(wide, np.minimum(np.arange(3, dtype=np.float32)[:, None] + np.zeros((1, 5), np.float32), np.float32(1)))
summed = cp.zeros(2, dtype=cp.float32)  # in any order, as CuPy does it
add = cp.ElementwiseKernel("raw T x, int64 n", "raw T y", "atomicAdd(&y[i % 2], x[i]);", "add")
add(x, x.size, summed, size=x.size)
assert np.allclose(summed.get(), [h.ravel()[::2].sum(), h.ravel()[1::2].sum()])
cp.testing.assert_allclose(cp.testing.shaped_arange((2, 3)), np.arange(1, 7).reshape(2, 3))
cp.testing.assert_array_equal(cp.testing.shaped_random((2, 3), np), cp.testing.shaped_random((2, 3), cp))
assert cp.testing.shaped_reverse_arange((3,), cp, np.complex64).tolist() == [3 + 3j, 2 + 2j, 1 + 1j]
energy = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", "0", "energy")
same(energy(x, axis=1), (h * h).sum(axis=1), exact=False)

# streams, events, pinned memory
stream, done = cp.cuda.Stream(non_blocking=True), cp.cuda.Event()
pinned = np.frombuffer(cp.cuda.alloc_pinned_memory(h.nbytes), np.float32, h.size).reshape(h.shape)
pinned[...] = h
z = cp.empty_like(x)
z.set(pinned, stream=stream)
with stream:
    tripled = z * 3
    done.record(stream)
done.synchronize()
back = cp.asnumpy(tripled, stream=stream)
stream.synchronize()
assert np.array_equal(back, h * 3)
assert runtime.getDeviceCount() == 2 and cp.cuda.Device(1).id == 1
with cp.cuda.Device(1):
    assert cp.ones(2).device.id == 1
cp.random.seed(3)
numbers = np.random.RandomState(3)
same(cp.random.normal(size=3), numbers.normal(size=3))
same(cp.random.uniform(0, 1, 4, dtype=np.float32), numbers.uniform(0, 1, 4).astype(np.float32))

# what the real library refuses
for call, error in [
    (lambda: np.asarray(x), TypeError), (lambda: x + h, TypeError), (lambda: cp.no_such_name, AttributeError),
    (lambda: x[0].__setitem__(slice(0, 2), h[0, :2]), ValueError), (lambda: x.__setitem__(..., h), ValueError),
    (lambda: cp.asarray(["text"]), ValueError),
    (lambda: x.reshape(5, 5), ValueError), (lambda: cp.cuda.Device(7), RuntimeError),
    (lambda: clean(x, 1, x, x), TypeError), (lambda: add(x, x.size, summed, 2, size=x.size), TypeError),
]:
"""
    + EACH_IS_REFUSED
)


def test_a_program_computes_what_numpy_computes(tmp_path: Path) -> None:
    done = run(tmp_path, PROGRAM, "xferlib", "pretend", "cupy", "program.py", "--flag")
    assert done.stdout == "all of it\n", done.stdout + done.stderr


STRIDED = """
import cupy as cp
import numpy as np

code = 'extern "C" __global__ void store(float *x, int step) { x[threadIdx.x * step] = threadIdx.x; }'
store = cp.RawKernel(code, "store")
columns, odd = cp.zeros((2, 3), dtype=cp.float32, order="F"), cp.zeros(8, dtype=cp.float32)
store((1,), (6,), (columns, np.int32(1)))
store((1,), (4,), (odd[1::2], np.int32(2)))
print(columns.tolist(), odd.tolist())
"""


@needs_nvrtc
@needs_cc
def test_raw_kernels_of_cupy_take_arrays_of_any_strides_by_their_address(tmp_path: Path) -> None:
    done = run(tmp_path, STRIDED, "xferlib", "pretend", "cupy", "program.py")
    assert done.stdout == "[[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]] [0.0, 0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 3.0]\n", done.stderr


SPARSE = """
import cupy as cp
import cupyx.scipy.sparse as sparse
import numpy as np
from cupyx.scipy.sparse.linalg import cg, spsolve

h = np.arange(12, dtype=np.float64).reshape(4, 3)
x = cp.asarray(h)
a = sparse.eye(4, format="csr") * 2 + sparse.csr_matrix(cp.eye(4))
a += sparse.eye(4, k=1)
host = a.get().toarray()
assert isinstance(a, sparse.csr_matrix) and not isinstance(a, sparse.coo_matrix) and a.shape == (4, 4)
for found, expected in [(a @ x, host @ h), (x.T @ a, h.T @ host), (a.dot(x), host @ h), (a.toarray(), host)]:
    assert isinstance(found, cp.ndarray) and np.allclose(found.get(), expected)
assert np.allclose(host @ spsolve(a, x[:, 0]).get(), h[:, 0])
found, info = cg(a.T @ a, x[:, 0], tol=1e-12, atol=None)
assert info == 0 and np.allclose(host.T @ host @ found.get(), h[:, 0])
print("all of it")
"""


def test_sparse_matrices_are_scipys(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    done = run(tmp_path, SPARSE, "xferlib", "pretend", "cupy", "program.py")
    assert done.stdout == "all of it\n", done.stdout + done.stderr


FAULTY = """
import cupy as cp
import numpy as np

def test_forgets_to_wait():
    stream = cp.cuda.Stream(non_blocking=True)
    host = np.frombuffer(cp.cuda.alloc_pinned_memory(4000), np.float32)
    with stream:
        y = cp.ones(1000, dtype=cp.float32) + 1
    y.get(out=host, stream=stream, blocking=False)
    assert host[0] == 2

def test_is_not_in_order():
    one, two = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    with one:
        y = cp.arange(3)
    with two:
        y + 1

def test_is_not_in_order_with_the_default_stream():
    stream = cp.cuda.Stream(non_blocking=True)
    y = cp.arange(3)
    with stream:
        y + 1

def test_mixes_devices():
    with cp.cuda.Device(1):
        y = cp.ones(3)
    cp.ones(3) + y

def test_waits():
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        y = cp.ones(1000) + 1
    stream.synchronize()
    assert y.sum() == 2000
"""


def test_the_plug_in_finds_a_missing_synchronisation(tmp_path: Path) -> None:
    command = ("pytest", "-p", "xferlib.testing.plugin", "-p", "no:cacheprovider", "--pretend=cupy")
    done = run(tmp_path, FAULTY, *command, "-q", "-c", os.devnull, "test_program.py")
    assert "4 failed, 1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    for said in (
        "host read before synchronisation",
        "remedy:     a.synchronize() before",  # the function has returned, and its names with it
        "two.wait_event(one.record()) before",
        "stream.wait_event(cupy.cuda.Stream.null.record()) before",
        "make both in one `with cupy.cuda.Device(1):`, or move one: `with cupy.cuda.Device(1): cupy.asarray(x)`",
    ):
        assert said in done.stdout, said
    assert "xferlib.current_stream" not in done.stdout
    assert "xferlib.Stream" not in done.stdout


def test_a_fault_of_a_program_is_its_end(tmp_path: Path) -> None:
    program = FAULTY.replace("def test_forgets_to_wait():", "if True:").partition("def test_is_not")[0]
    done = run(
        tmp_path,
        program.replace("assert host[0] == 2", "print(host[0])"),
        *["xferlib", "pretend", "cupy", "program.py"],
    )
    assert done.stdout == "nan\n"
    assert done.returncode == 2
    assert "host read before synchronisation, at program.py:" in done.stderr


VIEWS = """
import numpy as np
from hypothesis import given, settings, strategies as st

if LIBRARY == "cupy":
    import cupy as library
    upload = library.asarray
else:
    from pycuda import gpuarray as library
    upload = library.to_gpu

STEPS = st.lists(st.one_of(
    st.tuples(st.just("transpose"), st.permutations(range(3))),
    st.tuples(st.just("reverse"), st.integers(0, 2)),
    st.tuples(st.just("part"), st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(1, 3))),
    st.tuples(st.sampled_from(["copy", "ravel", "negative", "double"]), st.none()),
), max_size=4)

def change(x, name, value):
    if name == "transpose":
        return x.transpose(value)
    if name == "reverse":
        return x[tuple(slice(None, None, -1) if axis == value else slice(None) for axis in range(3))]
    if name == "part":
        axis, start, step = value
        return x[tuple(slice(start, None, step) if each == axis else slice(None) for each in range(3))]
    if name == "ravel":
        return x.ravel().reshape(x.shape)
    return x.copy() if name == "copy" else -x if name == "negative" else x + x

@settings(max_examples=EXAMPLES, deadline=None, database=None)
@given(st.tuples(*[st.integers(1, 4)] * 3), st.sampled_from(["float32", "int16", "complex64"]), STEPS)
def test_views_have_numpys_elements(shape, dtype, steps):
    h = (np.arange(np.prod(shape)).reshape(shape) - 3).astype(dtype)
    x = upload(h)
    has_numpys_order = True
    for name, value in steps:
        h, x = change(h, name, value), change(x, name, value)
        assert (x.shape, x.dtype, x.size) == (h.shape, h.dtype, h.size)
        has_numpys_order &= name not in ("copy", "negative", "double")  # whose order each library chooses
        if has_numpys_order or name == "ravel":
            assert x.flags.c_contiguous == h.flags.c_contiguous
        assert np.array_equal(x.get(), h)
    y = x.copy()
    y[...] = 2
    assert np.array_equal(x.get(), h) and (y.get() == 2).all()
"""


@pytest.mark.parametrize("library", ["cupy", "pycuda"])
def test_views_have_numpys_elements(library: str, tmp_path: Path) -> None:
    command = ("pytest", "-p", "xferlib.testing.plugin", "-p", "no:cacheprovider", f"--pretend={library}", "-q")
    head = f"LIBRARY, EXAMPLES = {library!r}, {settings.default.max_examples}\n"
    done = run(tmp_path, head + VIEWS, *command, "-c", os.devnull, "test_program.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


PYCUDA = (
    """
import sys

import numpy as np
import pycuda.autoinit
import pycuda.driver as drv
from pycuda import cumath, gpuarray
from pycuda.elementwise import ElementwiseKernel
from pycuda.reduction import ReductionKernel
from pycuda.scan import ExclusiveScanKernel
from pycuda.tools import DeviceMemoryPool

h = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
x = gpuarray.to_gpu(h)

def same(found, expected, exact=True):
    got = found.get()
    assert got.dtype == expected.dtype and got.shape == expected.shape, (got.dtype, expected.dtype, got.shape)
    assert np.array_equal(got, expected) if exact else np.allclose(got, expected, rtol=1e-6)

# arrays
same(x * 2 - 1, h * 2 - 1); same(x.T, h.T); same(x[1:3], h[1:3]); same(-x, -h); same(abs(x), abs(h))
same(cumath.sin(x), np.sin(h), exact=False); same(x.astype(np.float64), h.astype(np.float64))
same(gpuarray.sum(x), np.sum(h), exact=False); same(gpuarray.dot(x, x), np.float32((h * h).sum()), exact=False)
same(gpuarray.max(x), h.max()); same(gpuarray.if_positive(x, x, x * 0), np.maximum(h, 0))
same(gpuarray.maximum(x, 1), np.maximum(h, 1)); same(x > 0, h > 0); same(gpuarray.where(x > 0, x, -x), abs(h))
same(gpuarray.arange(0, 5, dtype=np.int32), np.arange(5, dtype=np.int32)); same(x.mul_add(2, x, 3), h * 2 + h * 3)
same(gpuarray.to_gpu(np.asfortranarray(h)), h); assert gpuarray.zeros(3, np.int32).get().tolist() == [0, 0, 0]
pool = DeviceMemoryPool()
same(gpuarray.empty((2, 3), np.float32, allocator=pool.allocate).fill(4), np.full((2, 3), 4, np.float32))

# kernels: of the front end, and a loop, which it refuses
y = gpuarray.empty_like(x)
ElementwiseKernel("float a, float *x, float *y", "y[i] = a * x[i] + 1", "scale")(np.float32(3), x, y)
same(y, np.float32(3) * h + 1)
energy = ReductionKernel(np.float32, neutral="0", reduce_expr="a+b", map_expr="x[i]*x[i]", arguments="float *x")
same(energy(x), np.float32((h * h).sum()), exact=False)
counts = ExclusiveScanKernel(np.int32, "a+b", 0)(gpuarray.to_gpu(np.arange(5, dtype=np.int32)))
assert counts.get().tolist() == [0, 0, 1, 3, 6]

# memory, streams, events
address = drv.mem_alloc(h.nbytes)
drv.memcpy_htod(address, h)
back = np.empty_like(h)
drv.memcpy_dtoh(back, int(address))
assert np.array_equal(back, h)
assert np.array_equal(drv.from_device_like(drv.to_device(h), h), h)
drv.memset_d32(address, 7, h.size)
drv.memcpy_dtoh(back, address)
assert (back.view(np.uint32) == 7).all()
pinned, stream, start, end = drv.pagelocked_empty(h.shape, h.dtype), drv.Stream(), drv.Event(), drv.Event()
pinned[:] = h
start.record(stream)
drv.memcpy_htod_async(address, pinned, stream)
end.record(stream)
end.synchronize()
assert start.time_till(end) >= 0 and end.query() and stream.is_done()
drv.memcpy_dtoh(back, address)
assert np.array_equal(back, h)

# a stream is in order with the default one, and a kernel that reads `float *x` reads it
ElementwiseKernel("float *x, float *y", "y[i] = x[i]", "copy")(x, y, stream=stream)
same(y, h)
other, z = drv.Stream(drv.stream_flags.NON_BLOCKING), gpuarray.empty_like(x)
drv.Context.synchronize()
reader = ElementwiseKernel("float *x, float *y", "y[i] = x[i]", "copy")
reader(x, y, stream=stream); reader(x, z, stream=other)
drv.Context.synchronize()
same(z, h)

# devices and contexts
assert drv.Device.count() == 2 and drv.Device(1).compute_capability() == (9, 0)
context = drv.Device(1).make_context()
there = gpuarray.to_gpu(h)
assert drv.Context.get_device() == drv.Device(1) and np.array_equal(there.get(), h)
context.pop()
assert drv.Context.get_device() == pycuda.autoinit.device

# what the real library refuses, and what is missing here
for call, error in [
    (lambda: np.asarray(x), TypeError), (lambda: x.reshape(5, 5), ValueError), (lambda: drv.Device(7), Exception),
    (lambda: drv.memcpy_htod_async(address, h.T[:, ::2]), ValueError), (lambda: bool(x), ValueError),
    (lambda: drv.np_to_array, AttributeError), (lambda: stream.no_such_member, AttributeError),
    (lambda: x.bind_to_texref, AttributeError),
]:
"""
    + EACH_IS_REFUSED
)
SOURCE = """
import numpy as np
import pycuda.autoinit
import pycuda.driver as drv
from pycuda import gpuarray
from pycuda.compiler import SourceModule
from pycuda.elementwise import ElementwiseKernel

module = SourceModule('''
#include <stdio.h>
#include <pycuda-complex.hpp>
__constant__ float scale[2];
__global__ void multiply(float *dest, float *a, float *b, int n)
{
    uint i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dest[i] = a[i] * b[i] * scale[1];
}
__global__ void conjugate(pycuda::complex<float> *z) { z[threadIdx.x] = conj(z[threadIdx.x]); }
''', options=["-O3"])
multiply = module.get_function("multiply")
scale, nbytes = module.get_global("scale")
drv.memcpy_htod(scale, np.array([0, 2], np.float32))
a, b = np.arange(100, dtype=np.float32), np.full(100, 3, np.float32)
dest = np.zeros_like(a)
multiply(drv.Out(dest), drv.In(a), drv.In(b), np.int32(100), block=(64, 1, 1), grid=(2, 1))
assert nbytes == 8 and np.array_equal(dest, a * 6)

# prepared, with addresses and arrays, timed, and on two streams that both read `float *a`
x, y, z = gpuarray.to_gpu(a), gpuarray.to_gpu(b), gpuarray.zeros(100, np.float32)
w = gpuarray.zeros_like(z)
multiply.prepare("PPPi")
multiply.prepared_call((2, 1), (64, 1, 1), z.gpudata, x.gpudata, int(y.gpudata), 100)
assert np.array_equal(z.get(), a * 6)
first, second = drv.Stream(), drv.Stream(1)
drv.Context.synchronize()
multiply.prepared_async_call((2, 1), (64, 1, 1), first, z.gpudata, x.gpudata, y.gpudata, 100)
multiply(w, x, y, np.int32(100), block=(64, 1, 1), grid=(2, 1), stream=second)
drv.Context.synchronize()
assert np.array_equal(w.get(), a * 6)
assert multiply(w, x, y, np.int32(100), block=(64, 1, 1), grid=(2, 1), time_kernel=True) >= 0
assert multiply.num_regs >= 0 and multiply.shared_size_bytes == 0

c = np.array([1 + 2j, 3 - 4j], np.complex64)
given = c.copy()
module.get_function("conjugate")(drv.InOut(given), block=(2, 1, 1))
assert np.array_equal(given, c.conj())
count = gpuarray.zeros(5, np.int32)
ElementwiseKernel("int *n_steps", "while (n_steps[i] < i) { n_steps[i] += 1; }", "steps")(count)
assert count.get().tolist() == [0, 1, 2, 3, 4]

for wrong in (100, np.int64(100), np.float32(100)):
    try:
        multiply(z, x, y, wrong, block=(64, 1, 1), grid=(2, 1))
    except TypeError as error:
        assert "#3" in str(error) or "'n'" in str(error)
    else:
        raise AssertionError(wrong)
try:
    multiply(z, x, y, np.int32(200), block=(128, 1, 1), grid=(2, 1))
except Exception as error:
    print(error)
"""
PYCUDA_FAULTY = """
import numpy as np
import pycuda.autoinit
import pycuda.driver as drv
from pycuda import gpuarray

def test_forgets_to_wait():
    stream, host = drv.Stream(), drv.pagelocked_zeros(1000, np.float32)
    x = gpuarray.zeros(1000, np.float32) + 1
    drv.memcpy_dtoh_async(host, x.gpudata, stream)
    assert host[0] == 1

def test_is_not_in_order():
    stream, x = drv.Stream(drv.stream_flags.NON_BLOCKING), gpuarray.zeros(1000, np.float32)
    drv.memcpy_htod_async(x.gpudata, drv.pagelocked_zeros(1000, np.float32), stream)
    assert (x + 1).get()[0] == 1

def test_reads_what_nothing_has_written():
    host = np.zeros((1, 512))  # float64
    memory = drv.mem_alloc(host.nbytes)
    drv.memcpy_htod(memory, host.astype(np.float32))
    drv.memcpy_dtoh(host, memory)

def test_waits():
    stream, host = drv.Stream(), drv.pagelocked_zeros(1000, np.float32)
    x = gpuarray.zeros(1000, np.float32) + 1
    drv.memcpy_dtoh_async(host, x.gpudata, stream)
    stream.synchronize()
    assert host[0] == 1
"""


def test_a_program_for_pycuda_computes_what_numpy_computes(tmp_path: Path) -> None:
    done = run(tmp_path, PYCUDA, "xferlib", "pretend", "pycuda", "program.py")
    assert done.stdout == "all of it\n", done.stdout + done.stderr


@needs_nvrtc
@needs_cc
def test_pycudas_modules_of_cuda_source_run_and_are_checked(tmp_path: Path) -> None:
    done = run(tmp_path, SOURCE, "xferlib", "pretend", "pycuda", "program.py")
    assert "index 100 of 100 elements of float32" in done.stdout, done.stdout + done.stderr


def test_faults_of_a_program_for_pycuda_are_found(tmp_path: Path) -> None:
    command = ("pytest", "-p", "xferlib.testing.plugin", "-p", "no:cacheprovider", "--pretend=pycuda")
    done = run(tmp_path, PYCUDA_FAULTY, *command, "-q", "-c", os.devnull, "test_program.py")
    assert "3 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "remedy:     pycuda.driver.Context.synchronize() before" in done.stdout
    assert "xferlib.Stream" not in done.stdout


MISSING = """
for text in ("from cupyx import jit", "import cupyx.jit", "from cupy.cuda import nccl", "import cupy.cuda.nccl"):
    try:
        exec(text)
    except ModuleNotFoundError as error:
        assert "is not pretended; run the program on a GPU for it" in str(error), error
    else:
        raise AssertionError(text)
"""


def test_a_module_that_is_not_pretended_says_so_however_it_is_imported(tmp_path: Path) -> None:
    done = run(tmp_path, MISSING, "xferlib", "pretend", "cupy", "program.py")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("text", "message"), [("x = (\n", "'(' was never closed"), ("\x00", "null byte")])
def test_an_error_before_the_first_line_of_a_program_is_shown(text: str, message: str, tmp_path: Path) -> None:
    done = run(tmp_path, text, "xferlib", "pretend", "cupy", "program.py")
    assert done.returncode == 1
    assert message in done.stderr
    assert "runpy" not in done.stderr


@pytest.mark.parametrize("end", ["", "raise SystemExit\n", "import sys; sys.exit(0)\n"])
def test_arrays_that_die_with_the_program_are_free_of_faults(end: str, tmp_path: Path) -> None:
    """Their memory is that of another stream, while the default one still works on it."""
    program = """import cupy as cp
s = cp.cuda.Stream(non_blocking=True)
with s:
    y = cp.ones(1000, dtype=cp.float32) + 1
s.synchronize()
z = y * 2
"""
    done = run(tmp_path, program + end, "xferlib", "pretend", "cupy", "program.py")
    assert done.returncode == 0, done.stderr


def test_a_program_that_does_not_exist_is_refused_without_a_traceback(tmp_path: Path) -> None:
    done = run(tmp_path, "", "xferlib", "pretend", "cupy", "no_such_program.py")
    assert done.returncode != 0
    assert done.stderr.startswith("xferlib: pretend: there is no file 'no_such_program.py'; ")


FAILING = """import cupy

def ahead(x):
    kernel = cupy.ElementwiseKernel("raw T x", "T y", "y = x[i + 1]", "ahead")
    return kernel(x, size=3)

def plus(x):
    return cupy.ElementwiseKernel("float32 x", "float32 y", "y = x + 1", "plus")(x)

def negative(x):
    raise ValueError("negative")

"""


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        ("ahead", (5,)),  # the line of the call, where the host's wait found it
        ("plus", (8, 13)),
        ("negative", (11, 13)),
    ],
)
def test_an_error_of_a_program_shows_its_lines(tmp_path: Path, call: str, lines: tuple[int, ...]) -> None:
    program = f"{FAILING}print(cupy.asnumpy({call}(cupy.ones(3))))\n"
    done = run(tmp_path, program, "xferlib", "pretend", "cupy", "test_program.py")
    assert done.returncode == 1
    assert "xferlib/" not in done.stderr
    for line in lines:
        assert re.search(rf"test_program.py(\", line |:){line}\b", done.stderr), done.stderr


@pytest.mark.parametrize("library", ["cupi", "numpy"])
def test_a_library_that_cannot_be_pretended_is_refused(tmp_path: Path, library: str) -> None:
    done = run(tmp_path, "", "pytest", "-p", "xferlib.testing.plugin", f"--pretend={library}", "-c", os.devnull)
    assert done.returncode == 4
    assert f"'{library}' cannot be pretended; cupy and pycuda can" in done.stderr
