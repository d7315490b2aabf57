"""Kernels on streams: they follow the library's current one, and arrays may be dropped at once."""

import numpy as np
import pytest

import xferlib as xl
from tests.kernels import targets
from xferlib.kernels import elementwise, raw_module, reductions


@pytest.fixture(params=["torch-cuda", "cupy", "pycuda"])
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
