"""Kernels are pickled by what they were made from, or by their name; copies are the kernel itself."""

import copy
import inspect
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xferlib as xl
from tests.kernels.bits import same_bits
from xferlib.kernels import reductions

ROOT = Path(__file__).parents[2]


@xl.elementwise
def softplus(x):
    """A kernel whose name is that of the function that it was made from."""
    return np.log1p(np.exp(-abs(x))) + np.maximum(x, 0)


def plain(x):
    return x * x


class Holder:
    @xl.elementwise
    def cube(x):
        return x * x * x  # type: ignore[operator]


def _add_one(x, n):
    x[:n] += 1


named = xl.elementwise(plain, math="fast")
snippet = xl.elementwise("T x", "T z", "z = twice(x)", preamble="__device__ double twice(double x) { return 2 * x; }")
pycuda_like = xl.elementwise("const float *x, float *z", "z[i] = x[i] + 1")
dot = xl.reduction("T x, T y", "T z", map_expr="x * y", reduce_expr="a + b", post_map_expr="z = a", identity="0")
module = xl.raw_module('extern "C" __global__ void add_one(float *x, int n) {}', options=("--std=c++17",))
add_one = module.get_function("add_one", cpu=_add_one)
without_cpu = module.get_function("add_one", "float *x, int n")

KERNELS = [softplus, named, Holder.cube, snippet, pycuda_like, dot, reductions.sum, reductions.var, module, add_one]


def results():
    """Results of the kernels."""
    x = np.linspace(-3, 3, 11, dtype=np.float32)
    z, counted = np.empty_like(x), x.copy()
    pycuda_like(x, z)
    add_one(1, 32, (counted, 5))
    return [softplus(x), named(x), Holder.cube(x), snippet(x), z, dot(x, x), reductions.sum(x), counted]


def results_of(kernels):
    """The same of kernels that came through a pickle."""
    one, two, three, four, five, six, seven, _, _, ten = kernels
    x = np.linspace(-3, 3, 11, dtype=np.float32)
    z, counted = np.empty_like(x), x.copy()
    five(x, z)
    ten(1, 32, (counted, 5))
    return [one(x), two(x), three(x), four(x), z, six(x, x), seven(x), counted]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_round_trip(protocol):
    softplus(np.ones(3)), dot(np.ones(3), np.ones(3))  # what they remember stays behind
    found = pickle.loads(pickle.dumps(KERNELS, protocol))
    assert all(same_bits(one, two) for one, two in zip(results_of(found), results(), strict=True))
    assert [repr(each) for each in found[:-2]] == [repr(each) for each in KERNELS[:-2]]
    assert (found[-2].source, found[-2]._options) == (module.source, module._options)
    assert pickle.loads(pickle.dumps(without_cpu, protocol)).parameters[0].name == "x"


def test_kernels_with_a_name_come_back_as_themselves():
    for kernel in (softplus, Holder.cube, reductions.sum, reductions.argmax, reductions.var):
        assert pickle.loads(pickle.dumps(kernel)) is kernel


@pytest.mark.parametrize("kernel", [*KERNELS, xl.elementwise(lambda x: x)])
def test_copies_are_the_kernel_itself(kernel):
    assert copy.copy(kernel) is kernel
    assert copy.deepcopy({"k": [kernel]})["k"][0] is kernel


def test_a_kernel_can_be_inspected():
    assert repr(snippet) == "<ElementwiseKernel kernel(x, z)>"
    assert list(inspect.signature(snippet).parameters) == ["args", "out", "size", "keywords"]


def test_a_kernel_and_its_module_stay_together():
    one, two = pickle.loads(pickle.dumps((module, add_one)))
    assert two._module is one


def test_a_new_process_gives_the_same_bits():
    """As with ``spawn``, the worker imports the module and unpickles."""
    kernels = pickle.dumps(KERNELS)
    script = (
        f"import pickle, sys; import {__name__} as t; kernels = pickle.loads(sys.stdin.buffer.read()); "
        "sys.stdout.buffer.write(pickle.dumps(t.results_of(kernels)))"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=kernels,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert not done.returncode, done.stderr.decode()
    assert all(same_bits(one, two) for one, two in zip(pickle.loads(done.stdout), results(), strict=True))


def _local():
    def inside(x):
        return x + 1

    return inside


@pytest.mark.parametrize(
    "kernel",
    [
        xl.elementwise(lambda x: x),
        xl.elementwise(_local()),
        module.get_function("add_one", cpu=lambda x, n: None),
    ],
)
def test_a_function_without_a_name_is_refused(kernel, monkeypatch):
    for name in [each for each in sys.modules if each.endswith(("cloudpickle", "dill"))]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(pickle.PicklingError, match=r"def at the top of a module, or pickle with cloudpickle"):
        pickle.dumps(kernel)


def test_a_library_that_pickles_by_value_is_let_through():
    cloudpickle = pytest.importorskip("cloudpickle")
    kernel = pickle.loads(cloudpickle.dumps(xl.elementwise(lambda x: x * 3)))
    assert kernel(np.ones(2)).tolist() == [3, 3]
