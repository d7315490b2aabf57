"""Fixtures of the tests of kernels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import xferlib as xl
from tests.kernels import targets
from xferlib.kernels import cuda_engine


@pytest.fixture(scope="module")
def kernels_apart() -> Iterator[None]:
    """Keep the module's CUDA kernels, which run on the CPU, from other tests; on disk they have keys of their own."""
    kernels = dict(cuda_engine._kernels)
    yield
    cuda_engine._kernels.clear()
    cuda_engine._kernels.update(kernels)


@pytest.fixture(params=targets.NAMES)
def target(request: pytest.FixtureRequest) -> targets.Target:
    """Each library that is compared with NumPy."""
    return targets.target(request.param)


@pytest.fixture(params=[name for name in targets.NAMES if name != "torch-cpu"])
def gpu(request: pytest.FixtureRequest) -> targets.Target:
    """Each library on a GPU."""
    return targets.target(request.param)


@pytest.fixture(params=targets.ENGINES)
def engine(request: pytest.FixtureRequest) -> targets.Target:
    """Each library and NumPy itself: for tests whose reference is none of them.

    ``engine.get(kernel(*map(engine.put, operands)))`` is the result of a kernel there, as a NumPy array. Without a GPU
    none of them compiles CUDA: `tests.kernels.emulated.as_cuda` runs that source here.
    """
    return targets.target(request.param)


@pytest.fixture(params=dict.fromkeys(name.partition("-")[0] for name in targets.ENGINES))
def library(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each backend in turn as the default that runs raw kernels, or what stands in for them."""
    with xl.use_backend(request.param):
        yield request.param


@pytest.fixture(params=targets.ENGINES)
def launcher(request: pytest.FixtureRequest) -> targets.Target:
    """Each library that runs CUDA source: on a GPU, and where NVRTC is installed on a CPU."""
    found = targets.target(request.param)
    if request.param not in ("cupy", "pycuda", "torch-cuda"):
        targets.need_nvrtc()
    return found
