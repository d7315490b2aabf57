"""Fixtures: CUDA source on the simulator, every access checked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import xferlib as xl
from tests.kernels.targets import need_nvrtc
from xferlib.testing import configured


@pytest.fixture
def checked() -> Iterator[None]:
    """Kernels run checked on the simulator, the default backend."""
    need_nvrtc()
    with xl.use_backend("sim"), configured(kernel_check="1"):
        yield
