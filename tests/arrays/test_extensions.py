"""`linalg` and `fft` of the namespaces that xferlib makes, beside NumPy's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.arrays.conftest import SPACES, Space, opened, same
from xferlib.errors import ArgumentError, LayoutError, UnsupportedError
from xferlib.testing import load_backend

FLOATS = ("float32", "float64", "complex64", "complex128", "int32")
SHAPES = ((3, 3), (2, 4, 4), (2, 3, 5), (5, 2))
DRAWN = ("bare", "sim", "vendor")
"""Backends that are there on every machine."""


@pytest.fixture(params=[*SPACES, "vendor"])
def space(request: pytest.FixtureRequest, plugins: object) -> Iterator[Space]:
    """The namespace over each library, a device's whose libraries are a double among them."""
    yield from opened(request.param)


@pytest.fixture
def able(space: Space) -> Space:
    """A namespace with factorisations and transforms: the host's, or those of a library for the device."""
    backend = load_backend(space.name)
    if "function_library" in backend.capabilities.why and backend.function_library is None:
        pytest.skip(backend.capabilities.why["function_library"])
    return space


def near(space: Space, found: Any, expected: Any) -> None:
    """Compare results with NumPy's: dtypes and shapes exactly, values closely."""
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, two in zip(found, expected, strict=True):
            near(space, one, two)
        return
    host, wanted = space.get(found), np.asarray(expected)
    assert (host.dtype, host.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind not in "fc":
        np.testing.assert_array_equal(host, wanted)
        return
    # A stable algorithm errs by the unit in the last place, times a small multiple of extent and condition number: at
    # most 6 and some hundreds here.
    bound = 4000 * float(np.finfo(wanted.dtype).eps)
    greatest = float(np.max(np.abs(wanted), initial=1, where=np.isfinite(wanted)))
    np.testing.assert_allclose(host, wanted, rtol=bound, atol=bound * greatest)


def check_factors(space: Space, name: str, x: Any, found: Any, expected: Any) -> None:
    """Compare factors, which libraries choose otherwise: their shapes and dtypes, their product, and their values."""
    made = [space.get(each) for each in found]
    assert [(each.dtype, each.shape) for each in made] == [(each.dtype, each.shape) for each in expected]
    adjoint = lambda a: np.conj(np.swapaxes(a, -1, -2))
    if name == "eigh":
        values, vectors = made
        product, orthonormal = (vectors * values[..., None, :]) @ adjoint(vectors), [vectors]
        np.testing.assert_allclose(values, expected[0], rtol=1e-5)
    elif name == "svd":
        left, values, right = made
        count = values.shape[-1]
        product = (left[..., :count] * values[..., None, :]) @ right[..., :count, :]
        orthonormal = [left, adjoint(right)]
        np.testing.assert_allclose(values, expected[1], rtol=1e-4, atol=1e-5)
    else:
        orthonormal, product = made[:1], made[0] @ made[1]
        np.testing.assert_array_equal(made[1], np.triu(made[1]))
    np.testing.assert_allclose(product, x, rtol=1e-4, atol=1e-4)
    for each in orthonormal:
        columns = adjoint(each) @ each
        np.testing.assert_allclose(columns, np.broadcast_to(np.eye(columns.shape[-1]), columns.shape), atol=1e-5)


def matrices(dtype: str, shape: tuple[int, ...], *, definite: bool = False) -> Any:
    random = np.random.default_rng(5)
    x = 1 + random.random(shape) * 5
    if dtype.startswith("complex"):
        x = x + 1j * random.random(shape)
    if definite:
        x = x + np.conj(np.swapaxes(x, -1, -2)) + 40 * np.eye(shape[-1])
    return x.astype(dtype)


def calls(name: str) -> list[dict[str, Any]]:
    """The options with which a function is called."""
    norms: dict[str, list[Any]] = {
        "matrix_norm": [1, -1, 2, -2, np.inf, -np.inf, "nuc", "fro"],
        "vector_norm": [0, 1, 2, 3, 0.5, -1, np.inf, -np.inf],
    }
    if name in norms:
        keeps = {"keepdims": True} if name == "matrix_norm" else {"axis": -1}
        return [{}, *({"ord": each, **keeps} for each in norms[name])]
    options: dict[str, list[dict[str, Any]]] = {
        "svd": [{}, {"full_matrices": False}], "qr": [{}, {"mode": "complete"}], "diagonal": [{}, {"offset": 1}],
        "trace": [{}, {"offset": -1}], "matrix_rank": [{}, {"rtol": 0.3}], "pinv": [{}, {"rtol": 0.3}],
        "cholesky": [{}, {"upper": True}],
    }  # fmt: skip
    return options.get(name, [{}])


RECTANGULAR = ("qr", "svd", "svdvals", "pinv", "matrix_rank")
PARTS = ("diagonal", "trace", "matrix_norm", "vector_norm")
SQUARE = ("det", "inv", "slogdet", "eigvalsh", "eigh", "cholesky")


@pytest.mark.parametrize("name", [*RECTANGULAR, *PARTS, *SQUARE])
def test_a_function_of_matrices(able: Space, name: str) -> None:
    space = able
    for dtype, shape in itertools.product(FLOATS, SHAPES):
        if name in SQUARE and shape[-1] != shape[-2]:
            continue
        x = matrices(dtype, shape, definite=name in SQUARE)
        for options in calls(name):
            expected = getattr(np.linalg, name)(x, **options)
            found = getattr(space.xp.linalg, name)(space.put(x), **options)
            if name in ("qr", "svd", "eigh"):
                check_factors(space, name, x, found, expected)
            else:
                near(space, found, expected)


@pytest.mark.parametrize("name", DRAWN)
@settings(max_examples=40)
@given(
    shape=st.tuples(st.integers(0, 3), st.integers(0, 6)),
    dtype=st.sampled_from([*FLOATS, "int64"]),
    seed=st.integers(0, 99),
)
def test_eigenvalues_of_any_square_matrices(
    plugins: object, name: str, shape: tuple[int, int], dtype: str, seed: int
) -> None:
    """Pairs of conjugate ones among them; float matrices have complex ones, too, where no imaginary part is left."""
    count, rows = shape
    random = np.random.default_rng(seed)
    x: Any = random.integers(-4, 5, (count, rows, rows)) + (1j * random.random() if dtype.startswith("complex") else 0)
    x = (np.triu(x) if seed % 4 == 0 else x).astype(dtype)
    kind = np.result_type(dtype, np.complex64)
    with xl.use_backend(name):
        space = Space(name, xl.get_array_module(xl.zeros(1)))
        xp = space.xp.linalg
        values, vectors = space.get(xp.eig(space.put(x)))
        alone = space.get(xp.eigvals(space.put(x)))
    assert (values.dtype, vectors.dtype, values.shape, vectors.shape) == (kind, kind, x.shape[:2], x.shape)
    # Of a matrix with equal eigenvalues the vectors, not the residuals, are far from exact; residuals are some units in
    # the last place of the matrix's norm, which is at most 6 x 6 here.
    bound = 36 * 100 * float(np.finfo(kind).eps)
    np.testing.assert_allclose(x @ vectors, vectors * values[:, None, :], atol=bound)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), np.ones(x.shape[:2]), rtol=1e-5)
    assert (alone.dtype, alone.shape) == (kind, values.shape)
    np.testing.assert_allclose(alone.sum(-1), np.trace(x, axis1=1, axis2=2), atol=bound)


@pytest.mark.parametrize("dtype", FLOATS)
def test_solutions_powers_and_products(able: Space, dtype: str) -> None:
    space = able
    xp, x, y = space.xp.linalg, matrices(dtype, (2, 4, 4), definite=True), matrices(dtype, (4, 3))
    for power in (0, 1, 2, 5):
        near(space, xp.matrix_power(space.put(x), power), np.linalg.matrix_power(x, power))
    near(space, xp.cross(space.put(y), space.put(y[:1] * 2 + 1)), np.linalg.cross(y, y[:1] * 2 + 1))
    near(space, xp.matmul(space.put(x), space.put(y)), np.matmul(x, y))
    near(space, xp.solve(space.put(x), space.put(y)), np.linalg.solve(x, y))
    near(space, xp.solve(space.put(x), space.put(y[:, 0])), np.linalg.solve(x, y[:, 0]))
    near(space, xp.solve(space.put(x[0]), space.put(y)), np.linalg.solve(x[0], y))
    near(space, xp.matrix_power(space.put(x), -2), np.linalg.matrix_power(x, -2))


def test_tolerances_may_be_arrays(able: Space) -> None:
    x, rtol = matrices("float64", (2, 4, 4)), np.array([0.01, 0.5])
    near(able, able.xp.linalg.pinv(able.put(x), rtol=able.put(rtol)), np.linalg.pinv(x, rtol=rtol))
    found = able.xp.linalg.matrix_rank(able.put(x), rtol=able.put(rtol))
    near(able, found, np.linalg.matrix_rank(x, rtol=rtol))


def test_singular_matrices_give_nan_as_on_a_gpu_and_the_others_their_results(able: Space) -> None:
    xp, x = able.xp.linalg, np.stack([np.eye(2), np.zeros((2, 2)), 2 * np.eye(2)])
    good = [0, 2]
    assert np.isnan(able.get(xp.inv(able.put(x[1])))).all()
    found = able.get(xp.inv(able.put(x)))
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[good], np.linalg.inv(x[good]))
    for right in (np.ones((3, 2, 4)), np.ones((2, 4)), np.ones(2)):
        found = able.get(xp.solve(able.put(x), able.put(right)))
        assert np.isnan(found[1]).all()
        many = right if right.ndim < 3 else right[good]
        np.testing.assert_array_equal(found[good], np.linalg.solve(x[good], many))
    lower = able.get(xp.cholesky(able.put(x - np.eye(2) / 2)))
    np.testing.assert_array_equal(np.isnan(lower).all((1, 2)), [False, True, False])


def test_a_backend_whose_memory_the_host_cannot_read_refuses_by_name(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend: Any = load_backend(space.name)
    if space.name in DRAWN:  # as a GPU's arrays do
        monkeypatch.setattr(type(backend), "compute_on_host", lambda *_: False)
    monkeypatch.setattr(backend, "function_library", None)
    # Of shapes that no other test has: a known call is repeated as it was made.
    with pytest.raises(UnsupportedError, match=r"linalg\.inv: .*numpy\.linalg\.inv\(xferlib\.to_host\(x\)\)"):
        space.xp.linalg.inv(space.put(np.eye(19)))
    with pytest.raises(UnsupportedError, match=r"fft\.fft"):
        space.xp.fft.fft(space.put(np.ones(4099)))


WRONG: list[Callable[[Any, Any], Any]] = [
    lambda xp, x: xp.linalg.inv(x), lambda xp, x: xp.linalg.det(x[0]), lambda xp, x: xp.linalg.solve(x[:, :2], x[:1]),
    lambda xp, x: xp.linalg.cross(x[:, :2], x[:, :2]), lambda xp, x: xp.fft.fft(x, n=0),
    lambda xp, x: xp.fft.fft(x, axis=2),
    lambda xp, x: xp.fft.fftn(x, s=(2, 2), axes=(0,)), lambda xp, x: xp.fft.fftn(x, s=(2, 2, 2)),
    lambda xp, x: xp.fft.rfftn(x[:, :0]), lambda xp, x: xp.fft.ifftn(x, s=(3, 0)),
    lambda xp, x: xp.fft.ifftn(x, axes=(0, 0)), lambda xp, x: xp.fft.rfftn(x, axes=()),
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_shapes_that_do_not_fit_are_refused(space: Space, wrong: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(LayoutError):
        wrong(space.xp, space.put(np.ones((2, 3))))


def test_unknown_modes_are_refused(space: Space) -> None:
    x = space.put(np.eye(2))
    for call in (
        lambda: space.xp.linalg.qr(x, mode="raw"),
        lambda: space.xp.linalg.matrix_norm(x, ord=7),
        lambda: space.xp.fft.fft(x, norm="none"),
    ):
        with pytest.raises(ArgumentError):
            call()


TRANSFORMS = ("fft", "ifft", "irfft", "hfft", "rfft", "ihfft")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("name", DRAWN)
def test_a_transform_along_an_axis(plugins: object, name: str, data: st.DataObject) -> None:
    with xl.use_backend(name):
        space = Space(name, xl.get_array_module(xl.zeros(1)))
        call = data.draw(st.sampled_from(TRANSFORMS))
        dtype = data.draw(st.sampled_from(FLOATS))
        if call in ("rfft", "ihfft") and dtype.startswith("complex"):
            dtype = "float32"
        x = matrices(dtype, (3, 6, 5))
        options = {
            "n": data.draw(st.sampled_from([None, 2, 4, 9])),
            "axis": data.draw(st.integers(-3, 2)),
            "norm": data.draw(st.sampled_from(["backward", "ortho", "forward"])),
        }
        near(space, getattr(space.xp.fft, call)(space.put(x), **options), getattr(np.fft, call)(x, **options))


@pytest.mark.parametrize("call", ["fftn", "ifftn", "irfftn", "rfftn"])
@pytest.mark.parametrize(
    "options", [{}, {"axes": (0, 2)}, {"s": (4, 3), "axes": (1, 0)}, {"s": (4, -1), "axes": (1, 0)}]
)
def test_a_transform_over_several_axes(able: Space, call: str, options: dict[str, Any]) -> None:
    space = able
    for dtype in FLOATS if call != "rfftn" else ("float32", "int32"):
        x = matrices(dtype, (3, 6, 5))
        near(space, getattr(space.xp.fft, call)(space.put(x), **options), getattr(np.fft, call)(x, **options))


def test_transforms_of_no_elements_are_zeros(space: Space) -> None:
    """NumPy's are of memory that it has not filled, where an axis is padded: it may warn of what it finds there."""
    for call, options in (
        ("fft", {}),
        ("irfft", {"n": 3}),
        ("irfftn", {"s": (2, 3), "axes": (0, 1)}),
        ("fftn", {"s": (2, 3), "axes": (0, 1)}),
    ):
        for shape in ((0, 3), (3, 0)) if options else ((0, 3),):
            x = np.empty(shape, "float32")
            found = space.get(getattr(space.xp.fft, call)(space.put(x), **options))
            with np.errstate(all="ignore"):
                expected = getattr(np.fft, call)(x, **options)
            same(found, np.zeros(expected.shape, expected.dtype))


def test_frequencies_and_shifts(space: Space) -> None:
    xp, x = space.xp.fft, np.arange(105.0).reshape(3, 5, 7)
    near(space, xp.fftfreq(7, d=0.5), np.fft.fftfreq(7, 0.5))
    near(space, xp.rfftfreq(8), np.fft.rfftfreq(8))
    for axes in (None, 1, (0, 2)):
        near(space, xp.fftshift(space.put(x), axes=axes), np.fft.fftshift(x, axes=axes))
        near(space, xp.ifftshift(space.put(x), axes=axes), np.fft.ifftshift(x, axes=axes))
