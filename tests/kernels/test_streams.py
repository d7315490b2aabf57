"""Kernels on streams: they follow the library's current one, and arrays may be dropped at once."""

import numpy as np
import pytest

import xferlib as xl
from tests.kernels import targets
from xferlib.kernels import elementwise, raw_module, reductions


@pytest.fixture(params=[name for name in targets.NAMES if name != "torch-cpu"])
def target(request):
    return targets.target(request.param)


def test_results_are_right_when_sources_die_while_the_kernel_waits(target):
    kernel = elementwise(lambda x, y: x * y + 1)
    device = xl.device_of(target.put(np.ones(1, np.float32)))
    stream = xl.Stream(device)
    size = 1 << 20
    results = []
    with stream:
        for turn in range(20):
            x = target.put(np.full(size, turn, np.float32))
            results.append(kernel(x, 2))
            del x
    for _ in range(20):  # on the default stream: would land in memory that is still being read
        target.put(np.zeros(size, np.float32))
    stream.synchronize()
    assert [float(target.get(each)[-1]) for each in results] == [2.0 * turn + 1 for turn in range(20)]


def test_reduction_and_raw_kernel_on_a_given_stream(target):
    x = target.put(np.arange(5, dtype=np.float32))
    stream = xl.Stream(xl.device_of(x))
    xl.get_device(x).synchronize()
    source = 'extern "C" __global__ void twice(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }'
    raw_module(source).get_function("twice")(1, 32, (x, 5), stream=stream)
    with stream:
        total = reductions.sum(x)
    stream.synchronize()
    assert float(target.get(total)) == 20


SPIN = """
extern "C" __global__ void spin(int *done, long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}"""


@pytest.mark.parametrize("use", ["kernel", "reduction", "raw"])
def test_an_array_of_a_stream_may_be_dropped_behind_the_default_stream(target, use):
    """Its memory goes back to its own stream, which must not hand it out before the default stream has read it."""
    if target.name.startswith("torch"):
        pytest.skip("torch asks its users to call record_stream")
    device = xl.device_of(target.put(np.ones(1, np.float32)))
    spin = raw_module(SPIN).get_function("spin")
    copy = raw_module('extern "C" __global__ void copy(const float *x, float *y) { y[0] = x[0]; }').get_function("copy")
    flag, result = target.put(np.zeros(1, np.int32)), target.put(np.zeros(1, np.float32))
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
    assert float(np.ravel(target.get(result))[0]) == (1 if use == "kernel" else 0)
    assert float(target.get(other)[0]) == 9
