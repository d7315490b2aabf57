"""The backend as its users meet it, and xferlib's conformance suite."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest

import xferlib as xl
import xferlib.testing
from xferlib.errors import LayoutError, UnsupportedArrayError, XferError


class TestJax(xferlib.testing.BackendConformance):
    """Every rule of xferlib's semantics, but those that write an array in place or fork."""

    backend = "jax"

    def test_functions_of_the_namespace_can_be_pickled(self) -> None:
        try:
            pickle.dumps(jax.numpy.abs)
        except pickle.PicklingError as error:
            pytest.skip(f"this JAX cannot pickle its own functions: {error}")
        super().test_functions_of_the_namespace_can_be_pickled()


def test_arrays_of_jax_compute_where_they_are() -> None:
    x = xl.to_device(np.linspace(0, 1, 9, dtype=np.float32), backend="jax")
    assert isinstance(x, jax.Array)
    assert xl.device_of(x) is xl.Device("jax:cpu")
    np.testing.assert_array_equal(xl.to_host(xl.get_array_module(x).flip(x)), np.linspace(1, 0, 9, dtype=np.float32))


def test_double_precision_arrives_whole_without_the_option_of_jax() -> None:
    x = xl.to_device(np.array([1 / 3]), backend="jax")
    assert x.dtype == np.float64
    assert xl.to_host(x)[0] == 1 / 3


def test_arrays_that_jax_computed_are_taken_by_kernels_and_stay_as_they_are() -> None:
    x = jax.numpy.arange(6, dtype=np.float32) / 7
    before = np.array(x)
    kernel = xl.elementwise("T x", "T y", "y = sqrt(x) + 1")
    found = kernel(x)
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(xl.to_host(found), xl.to_host(kernel(before)))
    np.testing.assert_array_equal(np.array(x), before)


def test_nothing_writes_an_array_of_jax() -> None:
    x = jax.numpy.zeros(3)
    with pytest.raises(LayoutError, match="out is read-only"):
        xl.to_device(np.ones(3, np.float32), out=x)
    with pytest.raises(XferError, match="read-only"):
        xl.elementwise("float *x", "x[i] = 1")(x)
    np.testing.assert_array_equal(np.array(x), np.zeros(3))


def test_an_array_whose_memory_is_gone_is_refused() -> None:
    x = jax.numpy.ones(3)
    x.delete()
    with pytest.raises(UnsupportedArrayError, match="pass a live one"):
        xl.to_host(x)


def test_an_array_on_two_devices_is_refused() -> None:
    if jax.device_count() < 2:
        pytest.skip("JAX has one device; XLA_FLAGS=--xla_force_host_platform_device_count=2 gives the CPU two")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), "i")
    x = jax.device_put(np.ones(4), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i")))
    with pytest.raises(UnsupportedArrayError, match=r"jax\.device_put"):
        xl.to_host(x)
