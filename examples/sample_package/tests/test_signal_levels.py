"""Each test runs on every backend that the machine has; on `sim` it also looks for missing synchronisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import signal_levels
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib.testing import assert_allclose_ulp, assert_identical, strategies

SIGNALS = np.random.default_rng(0).normal(size=(5, 300))


def test_centred_signals_have_no_mean(xl_backend: Any, xp: Any) -> None:
    found = signal_levels.centred(xl.to_device(SIGNALS))
    assert xl.get_backend(found) is xl_backend
    assert float(xl.to_host(xp.max(xp.abs(xp.mean(found, axis=-1))))) < 1e-15
    # Libraries add in different orders, so that means of 300 numbers of about 1 differ by some 1e-16: less than one ulp
    # of numbers near 8.
    expected = SIGNALS - SIGNALS.mean(axis=-1, keepdims=True)
    assert_allclose_ulp(xl.to_host(found) + 8, expected + 8, max_ulp=1)


@pytest.mark.usefixtures("xl_backend")
def test_kernels_give_the_same_bits_everywhere() -> None:
    x = SIGNALS.astype("float32")
    expected = signal_levels.compressed(x, np.float32(1))  # by NumPy, on the host
    assert_identical(signal_levels.compressed(xl.to_device(x), np.float32(1)), expected)


# The backend is the same for all examples, so that a fixture for each of them is not needed.
@pytest.mark.usefixtures("xl_backend")
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_layout_will_do(data: st.DataObject) -> None:
    signals = data.draw(strategies.vary_layout(SIGNALS[:2, :7]))
    assert_identical(signal_levels.compressed(xl.to_device(signals), 1.0), signal_levels.compressed(signals, 1.0))


@pytest.mark.usefixtures("xl_backend")
def test_power_of_batches() -> None:
    batches = [np.full((64, 64), float(number)) for number in range(6)]
    assert_identical(signal_levels.total_power(batches, (64, 64)), np.full((64, 64), 55.0))


@pytest.mark.gpu
@pytest.mark.usefixtures("xl_backend")
def test_a_large_array_on_a_gpu() -> None:
    x = np.zeros(1 << 24, "float32")
    assert_identical(signal_levels.compressed(xl.to_device(x), np.float32(1)), x)


@pytest.mark.multi_gpu
def test_two_gpus_agree(xl_backend: Any) -> None:
    first, second = (
        signal_levels.compressed(xl.to_device(SIGNALS, device=device), 1.0) for device in xl_backend.devices()[:2]
    )
    assert_identical(first, second)
