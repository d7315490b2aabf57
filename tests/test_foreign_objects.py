"""Objects of libraries that are no backend, by CUDA's array interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.errors import XferError

HOST = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


class Described:
    """An array of another library: nothing of it but its description is known."""

    def __init__(self, array: Any, **changes: Any) -> None:
        info = xl.get_backend(array).view(array)
        self.kept = array
        self.__cuda_array_interface__ = {
            "shape": info.shape, "strides": info.strides, "typestr": info.dtype.str, "data": (info.pointer, False),
            "version": 3, "stream": 1, **changes,
        }  # fmt: skip


@pytest.fixture
def there(backend: str) -> Any:
    if xl.get_device().kind != "cuda" or backend == "fake":
        pytest.skip("CUDA's array interface describes memory of a GPU")
    return xl.to_device(HOST)


def test_an_array_lies_over_the_memory_of_the_object(there: Any) -> None:
    found = xl.asarray(Described(there))
    assert xl.get_backend(found) is xl.get_backend(there)
    assert xl.to_host(found).tolist() == HOST.tolist()
    found[...] = 7
    assert xl.to_host(there).tolist() == np.full_like(HOST, 7).tolist()


def test_strides_and_dtypes_are_as_described(there: Any) -> None:
    turned = xl.get_array_module(there).permute_dims(there, (2, 0, 1))
    assert xl.to_host(xl.asarray(Described(turned))).tolist() == HOST.transpose(2, 0, 1).tolist()
    assert xl.to_host(xl.asarray(Described(there), "float64")).dtype == np.float64
    assert xl.to_host(xl.asarray(Described(there, strides=None))).tolist() == HOST.tolist()


def test_the_namespace_takes_it_as_well(there: Any) -> None:
    found = xl.get_array_module(there).asarray(Described(there))
    assert xl.to_host(found + 1).tolist() == (HOST + 1).tolist()


def test_work_waits_for_the_stream_of_the_object(there: Any) -> None:
    with xl.Stream() as stream:
        twice = there * 2
    found = xl.asarray(Described(twice, stream=stream.handle))
    assert xl.to_host(found).tolist() == (HOST * 2).tolist()


def test_a_device_without_cuda_refuses_it(backend: str) -> None:
    if xl.get_device().kind == "cuda":
        pytest.skip("it has CUDA")
    with pytest.raises(XferError, match="Described"):
        xl.asarray(Described(xl.to_device(HOST)))
