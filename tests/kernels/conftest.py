"""Fixtures of the tests of kernels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import xferlib as xl
from tests.needed import need
from xferlib.kernels import cuda_engine as engine
from xferlib.testing import configured


@pytest.fixture(scope="module")
def kernels_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the module's CUDA kernels, which run on the CPU, from other tests: in memory and on disk."""
    kernels = dict(engine._kernels)
    with configured(cache_dir=tmp_path_factory.mktemp("cache")):
        yield
    engine._kernels.clear()
    engine._kernels.update(kernels)


@pytest.fixture(params=["numpy", "torch", "sim", "cupy", "pycuda"])
def library(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each backend in turn as the default that runs raw kernels, or what stands in for them."""
    need(request.param)
    with xl.use_backend(request.param):
        yield request.param
