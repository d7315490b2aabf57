"""The functions that the table of guarantees calls exact have NumPy's bits, of any dtype, shape and layout."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.arrays.conftest import SPACES
from tests.comparing import OF_ONE, OF_TWO, TABLE, difference, label, numpys, ours, promoted, report
from tests.drawing import operands, over_axes, vary_layout

OVER_AXES = (
    "all", "any", "argmax", "argmin", "count_nonzero", "max", "min", "sum", "prod", "cumulative_sum",
    "cumulative_prod", "sort", "argsort", "diff", "flip", "tril", "triu", "nonzero",
)  # fmt: skip
drawn = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def part(backend: str) -> str:
    """The backend's part of the table; every namespace over xferlib's kernels has the bits of the simulator's."""
    return f"torch, {xl.get_device(None).kind.upper()}" if backend == "torch" else "sim"


@pytest.mark.parametrize("backend", [*SPACES, "torch"], indirect=True)
@pytest.mark.parametrize("name", [*OF_TWO, *OF_ONE])
@drawn
@given(data=st.data())
def test_elements_are_numpys(part: str, name: str, data: Any) -> None:
    args, layout = data.draw(operands(name, 2 if name in OF_TWO else 1))
    xp = xl.get_array_module(xl.zeros(1))
    found = ours(vary_layout(getattr(xp, name), xp, layout), *args)
    expected = numpys(vary_layout(getattr(np, name), np, layout), *args)
    wrong = difference(TABLE[part], name, found, expected, refuses=promoted(*args))
    report([(f"{name}({', '.join(map(label, args))}), {layout}: {args}", wrong)])


@pytest.mark.parametrize("backend", [*SPACES, "torch"], indirect=True)
@pytest.mark.parametrize("name", OVER_AXES)
@drawn
@given(data=st.data())
def test_results_over_axes_are_numpys(part: str, name: str, data: Any) -> None:
    x, options, layout = data.draw(over_axes(name))
    if x.dtype.kind == "c" and ("max" in name or "min" in name or "sort" in name):
        return  # NumPy has an order for them; the table names the refusals
    xp = xl.get_array_module(xl.zeros(1))
    found = ours(vary_layout(getattr(xp, name), xp, layout), x, **options)
    expected = numpys(vary_layout(getattr(np, name), np, layout), x, **options)
    parts = [list(each) if isinstance(each, tuple) else [each] for each in (found, expected)]
    report([
        (f"{name}({label(x)}, {options}), {layout}: {x}", difference(TABLE[part], name, one, two, refuses=x.dtype.name))
        for one, two in itertools.zip_longest(*parts)
    ])  # fmt: skip
