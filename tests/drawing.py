"""Strategies for the operands of a namespace's functions: dtypes, shapes that broadcast, layouts, numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np

from tests.comparing import DTYPES

REAL_VALUES = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 7.0, 1e4, -1e4, 6e-8, np.inf, -np.inf, np.nan)
COMPLEX_VALUES = (1 + 1j, 0.5 - 1j, -2 + 3j, -1 - 0.5j)  # libraries differ in infinite ones
SMALL = ("pow", "bitwise_left_shift", "bitwise_right_shift", "reciprocal")
"""Functions that get small integers: powers overflow, shifts have as many bits, and 0 has no reciprocal."""
ADDED = ("sum", "prod", "cumulative_sum", "cumulative_prod", "matmul", "tensordot", "vecdot", "diff")
"""Functions whose floats are such that every order of additions and products gives the same bits."""
ALONG_ONE = ("cumulative_sum", "cumulative_prod", "diff", "flip", "sort", "argsort")
"""Functions along one axis."""
LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "whole": lambda xp, x: x,
    "every other": lambda xp, x: x[..., ::2] if x.ndim else x,
    "axes reversed": lambda xp, x: xp.permute_dims(x, tuple(range(x.ndim))[::-1]),
    "broadcast": lambda xp, x: xp.broadcast_to(x, (2, *x.shape)),
}


def elements(dtype: str, name: str) -> st.SearchStrategy[Any]:
    """Elements that a function of that name can compute with."""
    kind = np.dtype(dtype).kind
    if kind in "fc" and name in ADDED:
        return st.sampled_from((0.0, 1.0, -1.0, 2.0) if kind == "f" else (1j, 1 + 0j, -1 + 0j, 0j))
    if kind in "fc":
        return st.sampled_from(REAL_VALUES if kind == "f" else COMPLEX_VALUES)
    if kind == "b" or name in SMALL:
        return st.integers(int(name == "reciprocal"), 1 if kind == "b" else 7)
    return hnp.from_dtype(np.dtype(dtype))


@st.composite
def operands(draw: Any, name: str, count: int) -> tuple[list[Any], str]:
    """Arrays of shapes that broadcast, with the name of their layout; NumPy's and Python's numbers among them."""
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=3, max_side=4)).input_shapes
    given_: list[Any] = []
    for shape in shapes:
        dtype = draw(st.sampled_from(DTYPES))
        drawn = elements(dtype, name)
        kinds = ["array"] if not given_ else ["array", "array", "NumPy's number", "number"]
        kind = draw(st.sampled_from(kinds))
        if kind == "array":
            given_.append(draw(hnp.arrays(dtype, shape, elements=drawn)))
        else:
            number = draw(hnp.arrays(dtype, (), elements=drawn))[()]
            given_.append(number if kind == "NumPy's number" else number.item())
    if draw(st.booleans()):
        given_.reverse()
    return given_, draw(st.sampled_from(sorted(LAYOUTS) if count == 1 else ["whole", "every other"]))


@st.composite
def over_axes(draw: Any, name: str) -> tuple[Any, dict[str, Any], str]:
    """An array, options of a function over its axes, and the name of its layout; arrays without elements, too."""
    least = 2 if name in ("tril", "triu") else 1 if name in ALONG_ONE else 0
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(hnp.array_shapes(min_dims=least, max_dims=3, min_side=0, max_side=5))
    x = draw(hnp.arrays(dtype, shape, elements=elements(dtype, name)))
    layout = draw(st.sampled_from(sorted(LAYOUTS)))
    ndim = x.ndim + (layout == "broadcast")
    axis = st.integers(-ndim, ndim - 1) if ndim else st.none()
    options: dict[str, Any] = {}
    if name in ("tril", "triu"):
        options["k"] = draw(st.integers(-2, 2))
    elif name in ALONG_ONE:
        options = {"axis": draw(axis)} | ({"stable": True} if "sort" in name else {})
    elif not name.startswith(("unique", "nonzero")):
        axes = st.none() | axis
        if not name.startswith("arg") and ndim:
            axes |= st.lists(st.integers(0, ndim - 1), unique=True).map(tuple)
        options = {"axis": draw(axes), "keepdims": draw(st.booleans())}
    return x, options, layout


def vary_layout(call: Callable[..., Any], xp: Any, layout: str) -> Callable[..., Any]:
    """A call whose arrays get their layout after they have come to the device."""
    change = LAYOUTS[layout]
    return lambda *args, **options: call(*(change(xp, x) if hasattr(x, "__dlpack__") else x for x in args), **options)
