"""Programs for CuPy on a simulated device: what they compute, and what is found in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATH = os.pathsep.join([str(ROOT), *filter(None, sys.path)])


def run(tmp_path: Path, program: str, *command: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "test_program.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": PATH, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )


PROGRAM = """
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
assert float(x[0, 0]) == -2 and x[0, 1].item() == h[0, 1] and f"{x[0, 0]:.1f}" == "-2.0" and len(x) == 4
assert cp.get_array_module(x) is cp and cp.get_array_module(h) is np and isinstance(x, cp.ndarray)

# kernels
clean = cp.ElementwiseKernel("T x, T limit", "T y", "y = x > limit ? limit : x", "clean")
same(clean(x, 1), np.minimum(h, np.float32(1)))
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
]:
    try:
        call()
    except error as caught:
        assert str(caught)
    else:
        raise AssertionError(error)
print("all of it")
"""


def test_a_program_computes_what_numpy_computes(tmp_path: Path) -> None:
    done = run(tmp_path, PROGRAM, "xferlib", "pretend", "cupy", "program.py", "--flag")
    assert done.stdout == "all of it\n", done.stdout + done.stderr


FAULTY = """
import cupy as cp
import numpy as np

def test_forgets_to_wait():
    stream = cp.cuda.Stream(non_blocking=True)
    host = np.frombuffer(cp.cuda.alloc_pinned_memory(4000), np.float32)
    x = cp.ones(1000, dtype=cp.float32)
    with stream:
        y = x + 1
    y.get(out=host, stream=stream, blocking=False)
    assert host[0] == 2

def test_waits():
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        y = cp.ones(1000) + 1
    stream.synchronize()
    assert y.sum() == 2000
"""


def test_the_plug_in_finds_a_missing_synchronisation(tmp_path: Path) -> None:
    command = ("pytest", "-p", "xferlib.testing.plugin", "-p", "no:cacheprovider", "--pretend=cupy")
    done = run(tmp_path, FAULTY, *command, "--xferlib-sim-strict", "-q", "-c", os.devnull, "test_program.py")
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "test_forgets_to_wait" in done.stdout


@pytest.mark.parametrize("library", ["cupi", "numpy"])
def test_a_library_that_cannot_be_pretended_is_refused(tmp_path: Path, library: str) -> None:
    done = run(tmp_path, "", "pytest", "-p", "xferlib.testing.plugin", f"--pretend={library}", "-c", os.devnull)
    assert done.returncode == 4
    assert f"'{library}' cannot be pretended; cupy and pycuda can" in done.stderr
