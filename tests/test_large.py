"""Arrays of more elements than 32 bits count, on machines that have room for them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

import xferlib as xl
from xferlib.testing.strategies import bits_of

_HOST_NBYTES = 64 << 30
_DEVICE_NBYTES = 24 << 30
_COUNTS = (2**31 + 3, 2**32 + 5)


@pytest.fixture(params=["cupy", "torch", "pycuda"])
def place(request: pytest.FixtureRequest) -> Iterator[xl.Device]:
    status = xl.available_backends()[request.param]
    devices = [device for device in map(xl.Device, status.devices) if device.kind == "cuda"]
    if not devices:
        pytest.skip(f"{request.param} sees no CUDA device ({status})")
    if os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") < _HOST_NBYTES:
        pytest.skip("the host has less than 64 GiB of memory")
    if devices[0].properties.total_nbytes < _DEVICE_NBYTES:
        pytest.skip("the device has less than 24 GiB of memory")
    yield devices[0]
    xl.trim()


def _numbered(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Bytes whose pattern has no short period, so that a wrapped index shows."""
    block = bits_of((1 << 20) + 7, np.uint8, seed=1)
    return np.resize(block, count)


@pytest.mark.parametrize("count", _COUNTS)
def test_a_contiguous_array_of_more_than_32_bits_of_elements(place: xl.Device, count: int) -> None:
    source = _numbered(count)
    d = xl.to_device(source, device=place)
    assert np.array_equal(xl.to_host(d), source)


def test_a_strided_array_whose_offsets_pass_32_bits(place: xl.Device) -> None:
    source = _numbered(_COUNTS[1])[: 2**32].reshape(2**16, 2**16)
    d = xl.to_device(source[:, ::2], device=place)
    assert np.array_equal(xl.to_host(d), source[:, ::2])


def test_a_transposed_array_of_more_than_32_bits_of_elements(place: xl.Device) -> None:
    source = _numbered(_COUNTS[1])[: 46342 * 46342].reshape(46342, 46342)  # just over 2^31
    d = xl.to_device(source.T, device=place)
    assert np.array_equal(xl.to_host(d), source.T)
