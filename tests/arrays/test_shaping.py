"""Views, indexing and assignment: the shapes, values and errors of NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import xferlib as xl
from tests.arrays.conftest import Space, same
from xferlib.errors import LayoutError, XferError

quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
X = np.arange(24.0).reshape(2, 3, 4)


SHAPED: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("permute_dims", (X, (2, 0, 1)), {}), ("matrix_transpose", (X,), {}), ("expand_dims", (X,), {"axis": 1}),
    ("expand_dims", (X,), {"axis": (0, -1)}), ("squeeze", (X[:, :1], 1), {}), ("flip", (X,), {}),
    ("flip", (X,), {"axis": (0, -1)}), ("flip", (np.array(3.0),), {}), ("moveaxis", (X, 0, -1), {}),
    ("broadcast_to", (X[0], (5, 3, 4)), {}), ("broadcast_arrays", (X, X[0], X[:1, :1]), {}),
    ("reshape", (X, (4, -1)), {}), ("reshape", (X[:, :, ::2], (-1,)), {}), ("reshape", (X, (2, 3, 4)), {"copy": True}),
    ("reshape", (np.zeros((0, 3)), (3, 0, 2)), {}), ("unstack", (X,), {"axis": 1}),
    ("astype", (X, np.dtype("int8")), {}), ("astype", (X, np.dtype("complex64")), {}),
    ("astype", (X, np.dtype("float64")), {"copy": False}),
]  # fmt: skip


def test_a_shape_is_numpys(space: Space) -> None:
    for name, args, options in SHAPED:
        space.check(name, *args, **options)


def test_a_view_shares_memory(space: Space) -> None:
    d = space.put(X)
    space.xp.permute_dims(d, (2, 1, 0))[...] = 0
    space.xp.reshape(d, (-1,), copy=False)[3] = 7.0
    d.T[0, 0, 0] = 5.0
    expected = np.zeros_like(X)
    expected[0, 0, 3], expected[0, 0, 0] = 7, 5
    same(space.get(d), expected)


def test_a_reshape_that_needs_a_copy_may_be_refused(space: Space) -> None:
    with pytest.raises(ValueError, match=r"[Uu]nable|copy"):
        space.xp.reshape(space.put(X)[:, ::2], -1, copy=False)
    with pytest.raises(ValueError, match="reshape"):
        space.xp.reshape(space.put(X), (5, 5))
    with pytest.raises(XferError, match="imaginary"):
        space.xp.astype(space.put(X + 1j), np.dtype("float32"))
    with pytest.raises(LayoutError, match="read-only|share"):
        space.xp.broadcast_to(space.put(X), (2, *X.shape))[0] = 1


@quiet
@given(data=st.data())
def test_a_basic_key_gives_a_view(space: Space, data: st.DataObject) -> None:
    shape = data.draw(npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    key = data.draw(npst.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    d = space.put(x)
    same(space.get(d[key]), x[key])
    x[key] = 3
    d[key] = 3
    same(space.get(d), x)
    part = np.asarray(x[key])
    value = np.arange(part.size, dtype="int16").reshape(part.shape)
    x[key] = value
    d[key] = space.put(value)
    same(space.get(d), x)


def arrays_of_indices(draw: Any, shape: tuple[int, ...], count: int) -> list[Any]:
    around = draw(npst.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    keys = []
    for extent in shape[:count]:
        own = around[draw(st.integers(0, len(around))) :]
        dtype = draw(st.sampled_from(["int8", "int64", "uint8"]))
        least = 0 if dtype == "uint8" else -extent
        keys.append(draw(npst.arrays(dtype, own, elements=st.integers(least, extent - 1))))
    return keys


@quiet
@given(data=st.data(), on_host=st.booleans())
def test_keys_of_arrays_integers_and_slices_mix(space: Space, data: st.DataObject, on_host: bool) -> None:
    shape = data.draw(npst.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    x = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    if data.draw(st.booleans()):
        x = x[::-1].T
    keys: list[Any] = []
    d_keys: list[Any] = []
    arrays = iter(arrays_of_indices(data.draw, x.shape, x.ndim))
    for axis, extent in enumerate(x.shape):
        index = next(arrays)
        kind = data.draw(st.sampled_from(["array", "slice", "int", "mask", "none"]))
        if kind == "none":
            keys.append(None)
            d_keys.append(None)
        if kind == "array" or (axis == x.ndim - 1 and not any(isinstance(k, np.ndarray) for k in keys)):
            keys.append(index)
            d_keys.append(index if on_host else space.put(index))
        elif kind == "mask":
            mask = np.zeros(extent, bool)
            mask[data.draw(st.integers(0, extent - 1))] = True
            keys.append(mask)
            d_keys.append(mask if on_host else space.put(mask))
        elif kind == "int":
            keys.append(data.draw(st.integers(-extent, extent - 1)))
            d_keys.append(keys[-1])
        else:
            keys.append(slice(None, None, data.draw(st.sampled_from([1, -1, 2]))))
            d_keys.append(keys[-1])
    d = space.put(np.ascontiguousarray(x))
    same(space.get(d[tuple(d_keys)]), x[tuple(keys)])
    x = x.copy()
    x[tuple(keys)] = 100
    d[tuple(d_keys)] = 100
    same(space.get(d), x)


@pytest.mark.parametrize("on_host", [True, False])
def test_masks(space: Space, on_host: bool) -> None:
    x = X.copy()
    d = space.put(x)
    send = (lambda key: key) if on_host else space.put
    for mask in (x > 5, x[:, :, 0] > 5, x < 0, x[:, 0, 0] > 5):
        same(space.get(d[send(mask)]), x[mask])
        x[mask] = -1
        d[send(mask)] = -1
        same(space.get(d), x)
    mask = X > 20
    x[mask] = np.arange(mask.sum())
    d[send(mask)] = space.put(np.arange(mask.sum()))
    same(space.get(d), x)
    d[send(mask), ...] = space.put(np.ones(mask.sum(), "int8"))
    x[mask] = 1
    same(space.get(d), x)
    for empty in (np.zeros(0, bool), np.zeros((0, 3), bool)):
        same(space.get(d[send(empty)]), x[empty])
        d[send(empty)] = 5
        same(space.get(d), x)
    same(space.get(d[True]), x[True])
    same(space.get(d[None, False]), x[None, False])
    same(space.get(d[..., np.array(True)]), x[..., np.array(True)])
    for whole, flag in itertools.product((np.array(3.0), np.arange(4.0)), (True, False)):  # of masks without axes
        d = space.put(whole.copy())
        d[send(np.array(flag))] = 7.0
        same(space.get(d), np.where(flag, 7.0, whole))


def test_a_list_that_holds_arrays_of_the_device_is_one_index() -> None:
    x: Any = np.arange(24).reshape(4, 6)
    rows: Any = np.array([2, 0])
    mask = x % 5 == 0
    with xl.use_backend("sim"):
        d, some, last = xl.to_device(x), xl.to_device(rows), xl.to_device(np.array(3))
        for key, wanted in (
            ([some], [rows]), ([some, rows], [rows, rows]), ([[some], [[1, 1]]], [[rows], [[1, 1]]]),
            ([last, 1, last], [3, 1, 3]), ((slice(None), [some]), (slice(None), [rows])),
            ([*map(xl.to_device, mask)], [*mask]),
        ):  # fmt: skip
            same(xl.to_host(d[key]), x[wanted])
            d[key] = x[wanted] = 7
            same(xl.to_host(d), x)
        for wrong in ([some, last], [some, None], [some, 2.5], [d[0], some]):
            with pytest.raises(IndexError):
                d[wrong]


def test_values_are_assigned_as_numpy_assigns_them(space: Space) -> None:
    x = np.zeros((3, 3), "int16")
    d = space.put(x)
    for key, value in (
        ((0,), 2.9), ((1, ...), np.float32(-2.9)), ((slice(None), 2), np.array([1, 2, 3])),
        ((slice(None, 2), slice(None, 2)), np.array([[1.5, 2.5]])), ((2,), np.array([[[4, 5, 6]]])),
        (([0, 2], [0, 1]), np.array([7, 8])), (([0, 1], slice(None)), np.array([7.5, 8, 9])),
    ):  # fmt: skip
        x[key] = value
        d[key] = space.put_all(value)
        same(space.get(d), x)
    x[1:] = x[:-1].copy()
    d[1:] = d[:-1]
    same(space.get(d), x)
    d[1] += 1
    x[1] += 1
    d[[0, 1]] *= 2
    x[[0, 1]] *= 2
    same(space.get(d), x)


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda d: d[3], IndexError),
        (lambda d: d[0, 0, 0, 0], IndexError),
        (lambda d: d[..., ...], IndexError),
        (lambda d: d["x"], (IndexError, TypeError)),
        (lambda d: d[1.5], (IndexError, TypeError)),
        (lambda d: d[[0, 5]], IndexError),
        (lambda d: d[[0.5]], IndexError),
        (lambda d: d[d], IndexError),
        (lambda d: d[[0], [0], [0], [0]], IndexError),
        (lambda d: d[np.ones((3, 3), bool)], IndexError),
        (lambda d: d.__setitem__(0, [1, 2]), TypeError),
        (lambda d: d.__setitem__(0, d), LayoutError),
        (lambda d: d.__setitem__([0, 1], d[0, 0, :3]), LayoutError),
        (lambda d: len(d[0, 0, 0]), TypeError),
    ],
)
def test_a_wrong_key_is_refused(space: Space, use: Any, kind: Any) -> None:
    with pytest.raises(kind):
        use(space.put(X))


METHODS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x.T, lambda x: x.mT, lambda x: x.reshape(4, 6), lambda x: x.reshape((-1,)), lambda x: x.T.ravel(),
    lambda x: x.T.copy(), lambda x: x.astype("int32"), lambda x: x.transpose(1, 2, 0), lambda x: x.transpose(),
    lambda x: x.sum(), lambda x: x.max(axis=1), lambda x: x.argmin(0), lambda x: x[0].dot(x[0, 0]),
)  # fmt: skip
METHODS_OF_A_HOST: tuple[Callable[[Any], Any], ...] = (
    lambda x: x.reshape(4, 6, order="F"), lambda x: x.reshape(-1, order="F"), lambda x: x.transpose(None),
    lambda x: x[:, :1].squeeze(), lambda x: x[:, :1].squeeze(1),
)  # fmt: skip


def test_methods(space: Space) -> None:
    d = space.put(X)
    for call in METHODS:
        same(space.get(call(d)), call(X))
    assert (len(d), d.ndim, d.size) == (2, 3, 24)
    if space.name == "sim":
        return  # the simulator refuses implicit copies to the host
    for call in METHODS_OF_A_HOST:
        same(space.get(call(d)), call(X))
    z = X + 2j
    c = space.put(z)
    for found, expected in ((c.real, z.real), (c.imag, z.imag), (c.conj(), z.conj()), (d.real, X), (d.imag, X.imag)):
        same(space.get(found), expected)
    c.imag[0] = 5
    z.imag[0] = 5
    same(space.get(c), z)
    assert {kind(d[0, 1, 2]) for kind in (float, int, complex)} == {d[0, 1, 2].item()} == {6}
    assert [10, 20][space.put(np.array(1))] == 20
    assert bool(d[0, 1, 2])
    assert d[0, 0].tolist() == [0, 1, 2, 3]
    assert [float(each) for each in d[0, 0]] == [0, 1, 2, 3]
    assert d.__array_namespace__() is space.xp
    with pytest.raises(BufferError):
        d.__dlpack__(dl_device=(10, 0))
    with pytest.raises(ValueError, match="xp.all"):
        bool(d)
    with pytest.raises(TypeError, match="to_host"):
        np.asarray(d)
