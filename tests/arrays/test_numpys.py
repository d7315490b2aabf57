"""NumPy's functions beyond the Array API: NumPy's values, dtypes and shapes, on each library."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import xferlib as xl

pytestmark = pytest.mark.parametrize("backend", ["sim", "torch", "pycuda"], indirect=True)
quickly = settings(
    max_examples=int(os.environ.get("N", 10)),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)

NUMBERS = [0.0, 1.0, 2.0, 3.0, 5.0, 8.0, -1.0, -4.0, 0.5, np.inf, -np.inf, np.nan, np.nan]
"""Their sums are exact in any order, in every dtype."""


def _arrays(kinds: str = "bifc", shapes: Any = None, least: int = 0) -> st.SearchStrategy[Any]:
    dtypes = {"b": ["?"], "i": ["i1", "u1", "i4", "i8", "u8"], "f": ["f4", "f8"], "c": ["c8", "c16"]}

    def draw(dtype: str, shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
        kind = np.dtype(dtype).kind
        numbers = NUMBERS if kind == "f" else [0.0, 1.0, 2.0, 3.0, 5.0]
        elements = st.sampled_from(numbers + [np.nan] * (kind == "c"))
        flat = st.lists(elements, min_size=math.prod(shape), max_size=math.prod(shape))
        return flat.map(lambda values: np.array(values, float).astype(dtype).reshape(shape))

    chosen = st.sampled_from([each for kind in kinds for each in dtypes[kind]])
    extents = shapes if shapes is not None else hnp.array_shapes(min_dims=0, max_dims=3, min_side=least, max_side=4)
    return st.tuples(chosen, extents).flatmap(lambda drawn: draw(*drawn))


def _finite(x: Any) -> Any:
    """Numbers whose products and sums are numbers."""
    return np.asarray(np.nan_to_num(x, posinf=4, neginf=-4))


@st.composite
def _with_axis(draw: Any, kinds: str = "bif", *, least: int = 0, one: bool = False) -> tuple[Any, dict[str, Any]]:
    x = draw(_arrays(kinds, least=least))
    axes: st.SearchStrategy[Any] = st.none()
    if x.ndim:
        single = st.integers(-x.ndim, x.ndim - 1)
        several = st.lists(st.integers(0, x.ndim - 1), unique=True, min_size=1).map(tuple)
        axes = st.one_of(axes, single) if one else st.one_of(axes, single, several)
    return x, {"axis": draw(axes)}


def _outcome(function: Callable[..., Any], args: Any, options: Any) -> Any:
    """The results as arrays of the host, or that there are none."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = function(*args, **options)
        except (TypeError, ValueError, IndexError, ZeroDivisionError):
            return None
    return [np.asarray(xl.to_host(each)) for each in (found if isinstance(found, (tuple, list)) else [found])]


def _up(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return xl.to_device(value)
    return type(value)(map(_up, value)) if isinstance(value, (list, tuple)) else value


def _check(
    name: str, *args: Any, ulp: int = 0, is_refused: bool = True, has_dtype: bool = True, **options: Any
) -> None:
    """One call, beside NumPy's.

    Args:
        name, args, options: The call.
        ulp: By how many units in the last place results may differ.
        is_refused: Whether what NumPy refuses is refused here.
        has_dtype: Whether results have NumPy's dtype.
    """
    xp: Any = xl.get_array_module(xl.zeros(1))
    expected = _outcome(getattr(np, name), args, options)
    found = _outcome(getattr(xp, name), [_up(each) for each in args], {key: _up(each) for key, each in options.items()})
    if expected is None or found is None:
        assert found is None or not is_refused or expected is not None, (name, args, options, found)
        assert found is not None or expected is None, (name, args, options, expected)
        return
    assert len(found) == len(expected)
    for one, two in zip(found, expected, strict=True):
        assert one.shape == two.shape, (name, args, options)
        assert one.dtype == two.dtype or not has_dtype, (name, args, options)
        if ulp and two.dtype.kind in "fc":
            np.testing.assert_allclose(one, two, rtol=ulp * np.finfo(two.dtype).eps, atol=0, equal_nan=True)
        else:
            np.testing.assert_array_equal(one, two, err_msg=f"{name}{args}{options}")


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanmin", "nanmax", "nanmedian", "median", "ptp"])
@quickly
@given(st.data())
def test_reductions_over_any_axes_are_numpys(backend: str, name: str, data: Any) -> None:
    kinds = "bif" + "c" * (name in ("nansum", "nanmean"))
    x, options = data.draw(_with_axis(kinds))
    keepdims = data.draw(st.booleans())
    # NumPy's `median` reshapes to nothing there.
    _check(
        name,
        x,
        keepdims=keepdims,
        is_refused=x.size > 0 or name != "median",
        ulp=1 if name in ("nanmean", "nanprod", "median") else 0,
        **options,
    )


@pytest.mark.parametrize("name", ["nanvar", "nanstd", "nancumsum", "nancumprod", "nanargmin", "nanargmax"])
@quickly
@given(st.data())
def test_functions_along_one_axis_are_numpys(backend: str, name: str, data: Any) -> None:
    x, options = data.draw(_with_axis("bif", one=True))
    if name.endswith(("var", "std")):
        options["ddof"] = data.draw(st.integers(0, 2))
    _check(name, x, ulp=8 if "ddof" in options else 1, is_refused="arg" not in name, **options)


@pytest.mark.parametrize("name", ["nancumsum", "nancumprod"])
@pytest.mark.parametrize("axis", [(), (0,), 2, 0.0])
def test_what_is_no_axis_is_refused(backend: str, name: str, axis: Any) -> None:
    _check(name, np.ones((2, 3)), axis=axis)


METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
]  # fmt: skip


@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
@quickly
@given(st.data())
def test_quantiles_by_every_method_are_numpys(backend: str, name: str, data: Any) -> None:
    x, options = data.draw(_with_axis("if"))
    scale = 100 if "percent" in name else 1
    part = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.51, 0.75, 0.9, 1.0]).map(lambda each: each * scale)
    q = data.draw(st.one_of(part, st.lists(part, min_size=1, max_size=3), st.sampled_from([0, scale])))
    method = data.draw(st.sampled_from(METHODS))
    # NumPy's dtype depends on whether a row is all NaN.
    has_dtype = not (name.startswith("nan") and np.isnan(x).any())
    options |= {"method": method, "keepdims": data.draw(st.booleans())}
    is_refused = x.size > 0 or type(options["axis"]) is not tuple  # NumPy 2.4 fails to reshape several axes of nothing
    _check(name, x, q, has_dtype=has_dtype, is_refused=is_refused, **options)


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("q", [0, 1, 0.0, 0.5, [0, 1]])
def test_quantiles_beside_infinite_elements_are_numpys(backend: str, name: str, q: Any) -> None:
    for values in ([np.inf], [-np.inf, np.inf], [1, np.inf], [-np.inf, np.nan]):
        _check(name, np.array(values), q)


@quickly
@given(st.data())
def test_comparisons_within_a_tolerance_are_numpys(backend: str, data: Any) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=2, max_side=3))
    one = data.draw(_arrays(shapes=st.just(shape)))
    other = data.draw(st.one_of(_arrays(shapes=st.just(shape)), st.sampled_from([1, 2.0, np.inf])))
    options = {"rtol": data.draw(st.sampled_from([1e-5, 0.5])), "equal_nan": data.draw(st.booleans())}
    _check("isclose", one, other, **options)
    _check("allclose", one, other, **options)
    _check("array_equal", one, other if isinstance(other, np.ndarray) else one, equal_nan=options["equal_nan"])
    assert type(xl.get_array_module(xl.zeros(1)).allclose(xl.to_device(one), xl.to_device(one))) is bool


@quickly
@given(_arrays(), st.booleans(), st.sampled_from([None, 7.0]))
def test_nan_to_num_is_numpys(backend: str, x: Any, copy: bool, posinf: float | None) -> None:
    _check("nan_to_num", x, copy=True, nan=2.0, posinf=posinf)
    if not copy and not isinstance(x, np.generic):
        d = xl.to_device(x)
        assert xl.get_array_module(d).nan_to_num(d, copy=False) is d
        np.testing.assert_array_equal(xl.to_host(d), np.nan_to_num(x))


@pytest.mark.parametrize(
    "name", ["atleast_1d", "atleast_2d", "atleast_3d", "hstack", "vstack", "dstack", "column_stack"]
)
@quickly
@given(st.data())
def test_arrays_are_joined_as_numpys(backend: str, name: str, data: Any) -> None:
    given_ = data.draw(st.lists(_arrays(), min_size=1, max_size=3))
    if name.startswith("atleast_"):
        _check(name, *given_)
    else:
        _check(name, [given_[0] for _ in given_])


@quickly
@given(st.data())
def test_shapes_are_numpys(backend: str, data: Any) -> None:
    x = data.draw(_arrays())
    axes = st.integers(-x.ndim - 1, x.ndim)
    _check("swapaxes", x, data.draw(axes), data.draw(axes))
    _check("rot90", x, data.draw(st.integers(-5, 5)), (data.draw(axes), data.draw(axes)))
    _check("transpose", x, data.draw(st.one_of(st.none(), st.permutations(range(x.ndim)))))
    for name in ("ravel", "fliplr", "flipud", "flatnonzero", "argwhere"):
        _check(name, x)
    _check("diag", x, data.draw(st.integers(-4, 4)))
    cuts = st.one_of(st.integers(0, 4), st.lists(st.integers(-5, 5), max_size=3))
    _check(data.draw(st.sampled_from(["split", "array_split"])), x, data.draw(cuts), data.draw(axes))


@quickly
@given(st.data())
def test_margins_are_numpys(backend: str, data: Any) -> None:
    x = data.draw(_arrays(shapes=hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4)))
    width = st.integers(0, 9)
    pair = st.tuples(width, width)
    widths = data.draw(st.one_of(width, pair, st.lists(pair, min_size=x.ndim, max_size=x.ndim)))
    mode = data.draw(st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap"]))
    options = {"constant_values": data.draw(st.sampled_from([0, 3, (1, 2)]))} if mode == "constant" else {}
    _check("pad", x, widths, mode, **options)


@quickly
@given(st.data())
def test_counts_are_numpys(backend: str, data: Any) -> None:
    x = data.draw(_arrays("if"))
    edges = st.lists(st.sampled_from([-4, -1, 0.0, 1, 2, 2.5, 3, 8, np.inf]), min_size=1, max_size=5).map(sorted)
    bins = data.draw(st.one_of(st.integers(1, 7), edges, edges.map(np.array)))
    # NumPy subtracts sums of weights, so that an infinite one gives NaN behind it.
    finite = _arrays("if", shapes=st.just(x.shape)).map(
        lambda each: np.asarray(np.nan_to_num(each, posinf=3, neginf=-1))
    )
    weights = data.draw(st.one_of(st.none(), finite))
    options = {"range": data.draw(st.sampled_from([None, (0, 4), (1.0, 1.0)]))} if isinstance(bins, int) else {}
    _check("histogram", x, bins, weights=weights, density=data.draw(st.booleans()), ulp=2, **options)
    numbers = np.nan_to_num(x.ravel(), posinf=3, neginf=-1).astype(data.draw(st.sampled_from(["i1", "u1", "i8", "f4"])))
    own = None if weights is None else weights.ravel()
    _check("bincount", numbers, weights=own, minlength=data.draw(st.integers(-1, 6)))
    _check(
        "digitize",
        x,
        np.array(data.draw(edges))[:: data.draw(st.sampled_from([1, -1]))],
        right=data.draw(st.booleans()),
    )


@quickly
@given(st.data())
def test_lines_between_points_are_numpys(backend: str, data: Any) -> None:
    count = data.draw(st.integers(0, 5))
    x, points = data.draw(_arrays("if")), sorted(data.draw(_arrays("f", shapes=st.just((count,)))).tolist())
    values = data.draw(_arrays("ifc", shapes=st.just((count,))))
    options = data.draw(st.sampled_from([{}, {"left": 7.0}, {"right": -7.0}, {"period": 3.0}]))
    is_ambiguous = "period" in options and len({each % 3 for each in points}) < count  # NumPy's sort is not stable
    if is_ambiguous or not np.isfinite(points).all():  # NumPy's results follow from where its last search ended
        points = [each / 2 for each in range(count)]
    is_refused = x.size + len(points) > 0  # no values between no points are none; NumPy 2.4 refuses that
    ulp = 4 if "period" in options else 0
    _check("interp", x, np.array(points, float), values, ulp=ulp, is_refused=is_refused, **options)


@pytest.mark.parametrize("period", [None, 3.0])
def test_no_values_between_no_points_are_none(backend: str, period: float | None) -> None:
    x, points = (xl.to_device(np.zeros(shape)) for shape in ((2, 0), (0,)))
    xp: Any = xl.get_array_module(x)
    found = xl.to_host(xp.interp(x, points, xp.astype(points, np.complex64), period=period))
    assert found.dtype == np.complex128
    assert found.shape == (2, 0)


PRODUCTS = [
    ("ij,jk->ik", 2), ("ij,jk", 2), ("ii->i", 1), ("ii", 1), ("ij->", 1), ("ij->ji", 1), ("i,j->ij", 2), ("i,i", 2),
    ("bij,bjk->bik", 2), ("...ij,...jk->...ik", 2), ("...i->...", 1), ("ij,kj,k->i", 3), ("iij,j->i", 2), ("i,i->i", 2),
    ("ab,b,cb->ac", 3), ("ji,...j", 2), (",i", 2), ("iji->j", 1), ("ij,jk->ijk", 2), ("ij,i->", 2), ("i,j->", 2),
]  # fmt: skip


@quickly
@given(st.data())
def test_sums_of_products_by_names_are_numpys(backend: str, data: Any) -> None:
    text, _ = data.draw(st.sampled_from(PRODUCTS))
    extents = {name: data.draw(st.integers(0, 3)) for name in "abcijkx"}
    kinds = data.draw(st.sampled_from(["b", "i", "f", "c"]))
    operands = []
    for names in text.partition("->")[0].split(","):
        extra = "x" * data.draw(st.integers(0, 1)) if "..." in names else ""
        shape = tuple(extents[name] for name in names.replace("...", extra))
        operands.append(_finite(data.draw(_arrays(kinds, shapes=st.just(shape)))))
    _check("einsum", text, *operands)


@quickly
@given(st.data())
def test_products_are_numpys(backend: str, data: Any) -> None:
    m, k = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 3))
    draw = lambda *shapes: _finite(data.draw(_arrays("if", shapes=st.sampled_from(shapes))))
    _check("dot", draw((), (k,), (m, k), (2, m, k)), draw((), (k,), (k, m), (2, k, m)))
    _check("inner", draw((), (k,), (m, k)), draw((), (k,), (2, k)))
    _check("vdot", draw((m, k), (m * k,)), draw((k, m), (k * m,)))
    _check("kron", draw((), (m,), (m, k)), draw((m,), (2, m), (1, 2, m)))
    y = draw((m,), (2, m), (m, 2))
    _check("trapezoid", y, axis=data.draw(st.integers(0, y.ndim - 1)), dx=0.5)
    _check("trapezoid", y, np.arange(float(y.shape[-1])) ** 2)


@quickly
@given(st.data())
def test_weighted_means_are_numpys(backend: str, data: Any) -> None:
    x, options = data.draw(_with_axis("if", least=1))
    x = _finite(x)
    weights = data.draw(
        st.none() | _arrays("if", shapes=st.just(x.shape)).map(lambda w: np.asarray(np.abs(_finite(w)) + 1))
    )
    if type(options["axis"]) is int and weights is not None and data.draw(st.booleans()):
        weights = np.arange(1.0, x.shape[options["axis"]] + 1)
    _check(
        "average",
        x,
        weights=weights,
        returned=data.draw(st.booleans()),
        keepdims=data.draw(st.booleans()),
        ulp=1,
        **options,
    )


def test_what_waits_for_the_device_is_counted_by_line(backend: str) -> None:
    if backend != "sim":
        pytest.skip("the simulator counts")
    x = xl.to_device(np.array([2, 0, 1]))
    xp: Any = xl.get_array_module(x)
    with xl.sim.check(implicit="log") as block:
        xp.allclose(x, x)
        xp.bincount(x)
        xp.histogram(x)
        xp.histogram(x, 3, range=(0, 4))
        xp.nanmedian(x)
        xp.pad(x, 1)
    assert sorted(each.what for each in block.copies) == ["allclose()", "bincount()", "histogram()"]


def test_numpys_functions_compute_on_the_device_where_implicit_copies_are_allowed(backend: str) -> None:
    if backend != "sim":
        pytest.skip("tensors leave NumPy's functions to torch")
    x = np.arange(6.0).reshape(2, 3)
    d: Any = xl.to_device(x)
    calls: list[Callable[[Any], Any]] = [
        lambda a: np.sum(a, axis=0), lambda a: np.concatenate([a, a]), lambda a: np.median(a, axis=1),
        lambda a: np.linalg.det(a[:, :2]), lambda a: np.where(a > 2, a, 0),
    ]  # fmt: skip
    with xl.sim.check(implicit="allow"):
        for call in calls:
            assert type(call(d)) is xl.sim.SimArray
            np.testing.assert_allclose(xl.to_host(call(d)), call(x))
        with pytest.raises(xl.sim.ImplicitCopyError, match=r"numpy\.unwrap"):
            np.unwrap(d)
    for call in calls:
        with pytest.raises(xl.sim.ImplicitCopyError):
            call(d)
