"""The namespace's kernels as CUDA source, run on a CPU: indexing, scans, order, sets, products."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.arrays.conftest import Space
from tests.kernels.emulated import Emulator
from xferlib.backends.base import (
    ArrayInfo,
    Capabilities,
    Device,
    HostBackend,
    RawStream,
    c_strides,
    make_device,
    make_namespace,
)
from xferlib.errors import UnsupportedError
from xferlib.kernels import reductions
from xferlib.kernels.reduction import ReductionKernel
from xferlib.testing import arrays as core_arrays
from xferlib.testing import fresh_registry, load_backend

X = (np.arange(24.0) * 7 % 11).reshape(2, 3, 4)


class DeviceArray:
    """An array in memory that the host only copies."""

    def __init__(self, memory: Any, pointer: int, shape: Any, strides: Any, dtype: np.dtype[Any]) -> None:
        self.memory, self.pointer = memory, pointer
        self.shape, self.strides, self.dtype = shape, strides, dtype


class SourceBackend(Emulator, HostBackend):
    """Host memory that counts as a CUDA device's, and kernels that are CUDA source."""

    name = "source"
    array_types = (f"{__name__}.DeviceArray",)
    capabilities = Capabilities(kernels=True, namespace=True, strided=True)

    def __init__(self) -> None:
        HostBackend.__init__(self)
        self.device = make_device(self.name, "cuda", 0)
        self._stream = RawStream(0, self.device)
        self._namespace = make_namespace(self, DeviceArray)

    def namespace(self) -> Any:
        return self._namespace

    def empty(self, shape: Any, dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> DeviceArray:
        memory = np.empty(int(np.prod(shape)) * dtype.itemsize + 16, np.uint8)
        pointer = -(-memory.ctypes.data // 16) * 16
        return DeviceArray(memory, pointer, shape, c_strides(shape, dtype.itemsize), dtype)

    def view(self, array: DeviceArray) -> ArrayInfo:
        return ArrayInfo(array.pointer, array.shape, array.strides, array.dtype, self.device, True)

    def inside(self, device: Device) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def host_view(self, array: Any) -> Any:
        raise UnsupportedError("memory of a device")

    def compute_on_host(self, *_: Any) -> bool:
        return False

    def strided_view(
        self, array: DeviceArray, offset: int, shape: Any, strides: Any, dtype: np.dtype[Any]
    ) -> DeviceArray:  # fmt: skip
        return DeviceArray(array.memory, array.pointer + offset, shape, strides, dtype)

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        ctypes.memmove(dst, src, nbytes)


@pytest.fixture(scope="module")
def source(plugins: object) -> Iterator[Space]:
    with fresh_registry(source=SourceBackend), xl.use_backend("source"):
        made: Any = load_backend("source")
        yield Space("source", made.namespace())
        assert not made.misaligned


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("add", (X, X[:, :1].astype("int16")), {}),
        ("flip", (X,), {}),
        ("astype", (X, np.dtype("uint8")), {}),
        ("reshape", (X[:, ::2], (-1,)), {}),
        ("sum", (X,), {"axis": (0, 2)}),
        ("argmax", (X,), {"axis": 1}),
        ("count_nonzero", (X,), {"axis": 0}),
        ("cumulative_sum", (X,), {"axis": 1, "include_initial": True}),
        ("cumulative_prod", (X[0].astype("int32"),), {"axis": -1}),
        ("sort", (X,), {"axis": 1}),
        ("sort", (X.ravel().astype("int8"),), {}),
        ("sort", (X.ravel() > 4,), {}),
        ("sort", (X.ravel() % 3 - 1j * X.ravel(),), {}),
        ("argsort", (np.where(X == 3, np.nan, X),), {"axis": -1}),
        ("searchsorted", (np.arange(9.0), X), {"side": "right"}),
        ("nonzero", (X > 4,), {}),
        ("isin", (X, np.array([1.0, 5.0])), {}),
        ("unique_all", (X,), {}),
        ("concat", ([X, X[:1].astype("float32")],), {}),
        ("repeat", (X[0, 0], np.array([1, 0, 2, 3])), {}),
        ("take", (X, np.array([2, -1])), {"axis": 1}),
        ("take_along_axis", (X, np.array([[[2], [1], [0]]])), {"axis": 2}),
        ("tril", (X,), {}),
        ("roll", (X, 5), {}),
        ("matmul", (X, X.mT.astype("float32")), {}),
        ("vecdot", (X, X[0]), {}),
        ("tensordot", (X, X), {"axes": ((2, 1), (2, 1))}),
    ],
)
def test_a_function(source: Space, name: str, args: Any, options: Any) -> None:
    source.check(name, *args, **options)


def test_a_call_is_bound_to_one_step_though_its_output_lies_where_the_last_one_died(
    source: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend: Any = load_backend("source")
    bound: list[Any] = []
    d = source.put(X)
    out = backend.empty(X.shape, X.dtype, device=backend.device, stream=backend.stream_current(backend.device))
    monkeypatch.setattr(backend, "empty", lambda *_, **__: out)
    monkeypatch.setattr(backend, "repeat_call", lambda *_, **options: bound.append(options["device"]))
    kernel = xl.elementwise(lambda x: x + 3)
    for _ in range(4):
        assert kernel(d) is out
    assert bound == [backend.device]


@pytest.mark.parametrize("name", ["sum", "var", "argmax"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
def test_the_second_call_of_a_reduction_is_bound_to_one_step_whose_outputs_have_their_dtype(
    source: Space, dtype: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend: Any = load_backend("source")
    bound: list[Any] = []
    d = source.put(X.astype(core_arrays.check_dtype(dtype)))
    monkeypatch.setattr(backend, "repeat_call", lambda *given, **_: bound.append(given[4]))
    # With a table of calls of its own: that of a ready-made one is full behind many tests, and keeps few new calls.
    reduce: Any = reductions._make_var(0) if name == "var" else ReductionKernel(getattr(reductions, name).definition)
    first, _ = reduce(d, axis=1), reduce(d, axis=1)
    (outputs,) = bound
    assert [each[:3] for each in outputs] == [(first.shape, first.dtype, None)]


def test_a_misaligned_array_is_copied_first(source: Space) -> None:
    backend: Any = load_backend("source")
    shifted = backend.strided_view(source.put(np.zeros(33, np.uint8)), 1, (4,), (8,), np.dtype("float64"))
    shifted[...] = source.put(X[0, 0])
    for found in (source.xp.cumulative_sum(shifted), source.xp.sort(shifted)):
        assert source.get(found).shape == (4,)
    source.check("sort", X[0, 0])
    np.testing.assert_array_equal(source.get(source.xp.sort(shifted)), np.sort(X[0, 0]))


def test_indexing(source: Space) -> None:
    x, d = X.copy(), source.put(X)
    i, j = np.array([[1], [0]]), np.array([0, -1], "int8")
    for key in ((i, slice(None), j), (slice(None), j), (i, j), (slice(1, None), ..., None), X > 5, (X[:, :, 0] > 3, 1)):
        theirs = source.put_all(key)
        np.testing.assert_array_equal(source.get(d[theirs]), x[key])
        x[key] += 1
        d[theirs] += 1
        np.testing.assert_array_equal(source.get(d), x)
    x[:, 1:] = x[:, :-1].copy()
    d[:, 1:] = d[:, :-1]
    np.testing.assert_array_equal(source.get(d), x)
