"""The calls of a device's libraries, held by doubles: layouts, batches, handles, errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.arrays.conftest import Space, same
from xferlib.backends.cuda.libraries import load_binding
from xferlib.errors import CaptureError, DeviceMemoryError, KernelError, LayoutError, UnsupportedError
from xferlib.testing import load_backend
from xferlib.testing.tools import in_threads


@pytest.fixture
def vendor(plugins: object) -> Iterator[Space]:
    backend: Any = load_backend("vendor")
    backend.cublas.calls.clear()
    backend.function_library.calls = 0
    with xl.use_backend("vendor"):
        yield Space("vendor", backend.namespace())


def cublas() -> Any:
    backend: Any = load_backend("vendor")
    return backend.cublas


def calls() -> list[str]:
    return [name for name, _ in cublas().calls]


def whole_numbers(shape: tuple[int, ...], dtype: str) -> Any:
    """Small ones, whose products and sums are exact in any order and dtype."""
    found = np.random.default_rng(len(shape)).integers(-4, 5, shape)
    return (found + (1j * found[::-1] if dtype.startswith("complex") else 0)).astype(dtype)


# --- products

KEYS = st.sampled_from([slice(None), slice(None, None, 2), slice(1, None), slice(None, None, -1), slice(0, 1)])


@st.composite
def operands(draw: st.DrawFn) -> tuple[Any, Any]:
    """How to make views from two stacks of matrices that fit."""
    dtype = draw(st.sampled_from(["float16", "float32", "float64", "complex64", "complex128"]))
    rows, inner, columns = (draw(st.integers(0, 5)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=3))
    found = []
    for shape in ((rows, inner), (inner, columns)):
        own = [extent if draw(st.booleans()) else 1 for extent in batch][draw(st.integers(0, len(batch))) :]
        views = [draw(KEYS) for _ in (*own, *shape)]
        order = draw(st.permutations(range(len(own) + 2)))
        spread = draw(st.sampled_from([(), (0,), (-1,), (-2,)]))
        found.append((dtype, (*own, *shape), views, order, spread))
    return found[0], found[1]


def viewed(dtype: str, shape: tuple[int, ...], views: list[slice], order: list[int], spread: tuple[int, ...]) -> Any:
    """A base array, and the function that makes from it a view of that shape with odd strides."""
    spread = tuple(axis for axis in spread if -len(shape) <= axis < len(shape))
    sizes = [1 if key == slice(0, 1) else 2 * extent + 1 for extent, key in zip(shape, views, strict=True)]
    for axis in spread:
        sizes[axis], views = 1, [slice(None) if at == axis % len(shape) else key for at, key in enumerate(views)]
    base = whole_numbers(tuple(sizes[axis] for axis in order), dtype)

    def view(x: Any, xp: Any) -> Any:
        x = xp.permute_dims(x, tuple(order.index(axis) for axis in range(len(order))))
        x = x[tuple(views)]
        cut = tuple(slice(0, extent) for extent in shape)
        x = x[cut]
        return xp.broadcast_to(x, tuple(b if a == 1 else min(a, b) for a, b in zip(x.shape, shape, strict=True)))

    return base, view


@settings(max_examples=150)
@given(drawn=operands())
def test_every_layout_gives_numpys_products(plugins: object, drawn: tuple[Any, Any]) -> None:
    with xl.use_backend("vendor"):
        xp = xl.get_array_module(xl.zeros(1))
        made, expected = [], []
        for each in drawn:
            base, view = viewed(*each)
            made.append(view(xl.to_device(base), xp))
            expected.append(view(base, np))
        same(xl.to_host(xp.matmul(*made)), np.matmul(*expected))


CASES: list[tuple[str, Callable[[Any, Any], Any], Callable[[Any], Any], int]] = [
    ("plain", lambda x, xp: x[0, 0], lambda x: x[1, 1], 1),
    ("transposed", lambda x, xp: x[0, 0].T, lambda x: x[1, 1], 1),
    ("both transposed", lambda x, xp: x[0, 0].T, lambda x: x[1, 1].T, 1),
    ("rows apart", lambda x, xp: x[0, 0, ::2], lambda x: x[1, 1, :, 1:4], 1),
    ("a vector", lambda x, xp: x[0, 0], lambda x: x[0, 1, :, 2], 1),
    ("one for a stack", lambda x, xp: x[0], lambda x: x[1, 1], 1),
    ("a stack for one", lambda x, xp: x[0, 1], lambda x: x, 1),
    ("two axes that are one", lambda x, xp: x, lambda x: x, 1),
    ("two axes that are none", lambda x, xp: x[:, :1], lambda x: x[:1], 2),
    ("a stack of rows", lambda x, xp: x[:, :, :1], lambda x: x[0, 0], 1),
    ("a stack turned around", lambda x, xp: xp.moveaxis(x, (0, 2), (2, 0)), lambda x: x[0, 1], 3),
]


@pytest.mark.parametrize(("left", "right", "count"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_views_are_multiplied_where_they_lie_in_few_calls(vendor: Space, left: Any, right: Any, count: int) -> None:
    x = whole_numbers((2, 3, 4, 4), "float32")
    d = vendor.put(x)
    one, two = left(d, vendor.xp), right(d)
    expected = np.matmul(left(x, np), right(x))
    with mock.patch.object(load_backend("vendor"), "empty", wraps=load_backend("vendor").empty) as empty:
        found = vendor.xp.matmul(one, two)
    empty.assert_called_once()  # for the result
    assert len(calls()) == count
    same(vendor.get(found), expected)


def test_products_of_no_elements_and_of_integers_are_not_the_librarys(vendor: Space) -> None:
    for one, two in (((2, 0), (0, 3)), ((0, 2), (2, 3)), ((4, 2, 0), (0, 3)), ((0, 2, 3), (3, 3))):
        a, b = np.ones(one, "float32"), np.ones(two, "float32")
        same(vendor.get(vendor.xp.matmul(vendor.put(a), vendor.put(b))), np.matmul(a, b))
    x = np.arange(6, dtype="int64").reshape(2, 3) + (1 << 60)
    same(vendor.get(vendor.xp.matmul(vendor.put(x), vendor.put(x.T))), np.matmul(x, x.T))
    assert not calls()


def test_tensordot_and_float16(vendor: Space) -> None:
    x, y = whole_numbers((3, 4, 5), "float16"), whole_numbers((5, 4, 2), "float16")
    found = vendor.get(vendor.xp.tensordot(vendor.put(x), vendor.put(y), axes=((2, 1), (0, 1))))
    same(found, np.tensordot(x, y, axes=((2, 1), (0, 1))))
    assert calls() == ["gemm"]


REPEATED: list[tuple[str, tuple[int, ...], tuple[int, ...], Callable[[Any, Any, Any], Any]]] = [
    ("matmul", (3, 4), (4, 5), lambda xp, x, y: xp.matmul(x, y)),
    ("operator", (2, 3, 4), (4, 5), lambda xp, x, y: x @ y),
    ("vectors", (4,), (4,), lambda xp, x, y: xp.matmul(x, y)),
    ("row", (4,), (2, 4, 3), lambda xp, x, y: xp.matmul(x, y)),
    ("column", (3, 4), (4,), lambda xp, x, y: xp.matmul(x, y)),
    ("tensordot", (3, 4, 5), (5, 4, 2), lambda xp, x, y: xp.tensordot(x, y, axes=((2,), (0,)))),
    ("all axes", (3, 4), (3, 4), lambda xp, x, y: xp.tensordot(x, y, axes=2)),
]


@pytest.mark.parametrize(("one", "two", "function"), [c[1:] for c in REPEATED], ids=[c[0] for c in REPEATED])
def test_a_repeated_product_asks_for_no_layout(
    vendor: Space, monkeypatch: pytest.MonkeyPatch, one: Any, two: Any, function: Any
) -> None:
    x, y = whole_numbers(one, "float32"), whole_numbers(two, "float32")
    first = function(vendor.xp, vendor.put(x), vendor.put(y))
    same(vendor.get(first), function(np, x, y))
    d, e = vendor.put(x + 1), vendor.put(y * 2)
    with monkeypatch.context() as patch:
        patch.setattr("xferlib._arrays.extensions.products", None)
        found = function(vendor.xp, d, e)
    same(vendor.get(found), function(np, x + 1, y * 2))
    same(vendor.get(first), function(np, x, y))
    assert calls() == calls()[:1] * 2


def test_products_of_other_layouts_dtypes_and_axes_are_told_apart(vendor: Space) -> None:
    for dtype in ("float32", "float64", "complex64"):
        x = whole_numbers((4, 4), dtype)
        d = vendor.put(x)
        for one, two, left, right in ((d, d, x, x), (d.T, d, x.T, x), (d, d[::2].T, x, x[::2].T), (d, d[0], x, x[0])):
            same(vendor.get(one @ two), left @ right)
        for axes in (1, 2, ((0,), (0,)), ([1], [0]), ((0, 1), (1, 0))):
            same(vendor.get(vendor.xp.tensordot(d, d, axes=axes)), np.tensordot(x, x, axes=axes))
        for axes in ([1], [0]), ([0], [1]):
            found = vendor.xp.tensordot(d, d, axes=map(iter, axes))
            same(vendor.get(found), np.tensordot(x, x, axes=axes))
    with pytest.raises(LayoutError, match="do not fit"):
        d @ d[:3]
    with pytest.raises(LayoutError, match="do not fit"):
        vendor.xp.tensordot(d, d[:3], axes=((0,), (0,)))


# --- factorisations


def test_the_sign_of_exchanged_rows(vendor: Space) -> None:
    x = np.stack([np.eye(3)[order] for order in ([0, 1, 2], [1, 0, 2], [1, 2, 0])]).astype("float32")
    same(vendor.get(vendor.xp.linalg.det(vendor.put(x))), np.linalg.det(x))
    same(vendor.get(vendor.xp.linalg.slogdet(vendor.put(x))), tuple(np.linalg.slogdet(x)))
    singular = np.zeros((2, 2))
    same(vendor.get(vendor.xp.linalg.det(vendor.put(singular))), np.zeros(()))
    same(vendor.get(vendor.xp.linalg.slogdet(vendor.put(singular))), tuple(np.linalg.slogdet(singular)))


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (2, 3, 0), (2, 0, 3)])
def test_matrices_without_elements(vendor: Space, shape: tuple[int, ...]) -> None:
    x, xp = np.ones(shape), vendor.xp.linalg
    d = vendor.put(x)
    same(vendor.get(xp.svd(d)), tuple(np.linalg.svd(x)))
    same(vendor.get(xp.qr(d, mode="complete")), tuple(np.linalg.qr(x, mode="complete")))
    if shape[-1] == shape[-2]:
        same(vendor.get(xp.det(d)), np.linalg.det(x))
        same(vendor.get(xp.inv(d)), np.linalg.inv(x))
        same(vendor.get(xp.solve(d, d)), np.linalg.solve(x, x))
    assert load_backend("vendor").function_library.calls == 0  # type: ignore[attr-defined, unused-ignore]


def test_operands_are_not_overwritten(vendor: Space) -> None:
    x = 5 * np.eye(3) + whole_numbers((2, 3, 3), "float64")
    d, xp = vendor.put(x), vendor.xp
    for name in ("inv", "svd", "qr", "eigh", "eig"):
        getattr(xp.linalg, name)(d)
    xp.linalg.solve(d, d), xp.fft.irfft(d)
    same(vendor.get(d), x)


# --- handles and errors


def test_threads_have_handles_of_their_own(vendor: Space) -> None:
    library = cublas()
    start = threading.Barrier(4, timeout=60)
    x = vendor.put(np.ones((2, 2)))

    def work(_: int) -> None:
        with xl.use_backend("vendor"):
            start.wait()
            for _ in range(20):
                vendor.xp.matmul(x, x)

    in_threads(work, range(4))
    assert library.calls == [("gemm", (0, 0, 2, 2, 2, 2, 2, 2))] * 80
    assert len(library.alive) <= 5


@pytest.mark.parametrize(("told", "kind"), [
    ("ALLOC_FAILED (3)", DeviceMemoryError), ("EXECUTION_FAILED (13)", KernelError),
])  # fmt: skip
def test_a_library_that_fails_is_an_error_and_works_again(
    vendor: Space, monkeypatch: pytest.MonkeyPatch, told: str, kind: Any
) -> None:
    x = vendor.put(np.eye(3))
    monkeypatch.setattr(cublas(), "fail", told)
    with pytest.raises(kind, match=r"cuBLAS failed with .*; "):
        vendor.xp.matmul(x, x)
    monkeypatch.undo()
    same(vendor.get(vendor.xp.matmul(x, x)), np.eye(3))


def test_a_library_that_is_not_there_names_the_extra(vendor: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise RuntimeError("libcublas.so was not found")

    backend: Any = load_backend("vendor")
    monkeypatch.setattr(cublas(), "create", missing)
    monkeypatch.setattr(backend.products, "_idle", {})
    with pytest.raises(UnsupportedError, match=r"cuBLAS .* pip install .+\[pycuda-math\]'"):
        vendor.xp.matmul(vendor.put(np.eye(3)), vendor.put(np.eye(3)))


def test_linear_algebra_is_refused_in_a_capture(vendor: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library waits for the device, and its memory is free again before the graph is launched."""
    x = vendor.put(np.eye(3))

    def refuse(call: str, stream: Any) -> None:
        raise CaptureError(call)

    monkeypatch.setattr("xferlib._core.streams.refuse", refuse)
    for call in (vendor.xp.linalg.inv, vendor.xp.fft.fft):
        with pytest.raises(CaptureError):
            call(x)


def test_without_the_bindings_there_are_no_libraries() -> None:
    def load(name: str) -> Any:
        raise ModuleNotFoundError(name)

    assert load_binding(load) is None


def test_every_call_is_made_inside_its_device(vendor: Space) -> None:
    """A handle belongs to the device that was current when it was made."""
    backend: Any = load_backend("vendor")
    x = vendor.put(np.eye(3))
    vendor.xp.matmul(x, x)
    assert {*backend.entered} == {xl.device_of(x)}


def test_products_and_factorisations_are_recorded(vendor: Space) -> None:
    x = vendor.put(np.eye(3))
    with xl.trace() as recording:
        vendor.xp.matmul(x, x)
        vendor.xp.linalg.inv(x)
    assert {"matmul", "linalg.inv"} <= {each.name for each in recording.operations}
