"""Copies to the host that no call asks for: refused, counted by line, or made."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from tests.processes import run
from xferlib import sim
from xferlib.errors import ArgumentError, LayoutError

ROOT = Path(__file__).resolve().parents[2]
X = np.array([3.5, -1.0, 0.0, 2.0])


pytestmark = pytest.mark.usefixtures("on_sim")


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "float(x)": lambda x: float(x[0]),
    "int(x)": lambda x: int(x[0]),
    "complex(x)": lambda x: complex(x[0]),
    "bool(x), as in `if x:`": lambda x: "large" if x[0] > 3 else "small",
    "using x as an index": lambda x: operator.index(x.argmax()),
    "x.item()": lambda x: x.item(1),
    "x.tolist()": lambda x: x.tolist(),
    "`value in x`": lambda x: (2.0 in x, 7.0 in x),
    "writing x in the form '.2f'": lambda x: f"{x[0]:.2f}",
    "converting to a NumPy array": lambda x: np.asarray(x, dtype="float32").tolist(),
    "pickling x": lambda x: xl.to_host(pickle.loads(pickle.dumps(x))).tolist(),
}
WAITS: dict[str, Callable[[Any, Any], Any]] = {
    "x[mask]": lambda xp, x: x[x > 0],
    "nonzero()": lambda xp, x: xp.nonzero(x)[0],
    "unique_values()": lambda xp, x: xp.unique_values(x),
    "repeat()": lambda xp, x: xp.repeat(x, xp.asarray([1, 0, 2, 1])),
}


@pytest.mark.parametrize("what", CONVERSIONS)
def test_a_conversion_is_refused_made_or_counted(what: str) -> None:
    use, x = CONVERSIONS[what], xl.to_device(X)
    for reaction in (None, "raise"):
        with sim.check(implicit=reaction), pytest.raises(sim.ImplicitCopyError) as raised:
            use(x)
        assert str(raised.value).startswith(f"{what} would copy ")
    with sim.check(implicit="allow") as block:
        assert use(x) == use(X)
    assert block.copies == []
    with sim.check(implicit="log") as block:
        for _ in range(3):
            use(x)
    (found,) = block.copies
    assert (found.what, found.times) == (what, 6 if what == "`value in x`" else 3)
    assert found.site.file == __file__
    assert found.nbytes in {3 * each for each in (1, 8, 32, 64)}


@pytest.mark.parametrize("what", WAITS)
def test_a_function_whose_result_has_a_shape_by_values_waits(what: str) -> None:
    use, x, xp = WAITS[what], xl.to_device(X), xl.get_array_module(xl.zeros(1))
    expected = use(np, X) if what != "repeat()" else np.repeat(X, [1, 0, 2, 1])
    for reaction in (None, "allow", "log"):
        with sim.check(implicit=reaction) as block:
            for _ in range(3):
                np.testing.assert_array_equal(xl.to_host(use(xp, x)), expected)
        assert [(each.what, each.times) for each in block.copies] == ([(what, 3)] if reaction == "log" else [])
    with sim.check(implicit="raise"), pytest.raises(sim.ImplicitCopyError) as raised:
        use(xp, x)
    assert str(raised.value).startswith(f"{what} waits for the device")


def test_what_does_not_wait_on_a_gpu_is_not_counted() -> None:
    with sim.check(implicit="raise"):
        x: Any = xl.to_device(X)
        xp = xl.get_array_module(x)
        x[x < 0] = 0.0
        y = xp.where(x > 1, x, 0.0) + x[xl.to_device(np.array([1, 0, 3, 2]))]
        x[xl.to_device(np.array([0, 1]))] = xp.sum(y)
        assert xl.to_host(sum(row * 2 for row in y)) == 2 * xl.to_host(y).sum()
        assert str(x).startswith("<SimArray")


def test_a_block_inside_another_one_has_its_own_reaction() -> None:
    x: Any = xl.to_device(X)
    with sim.check(implicit="log") as outer:
        float(x[0])
        with sim.check(implicit="raise"), pytest.raises(sim.ImplicitCopyError):
            float(x[0])
        with sim.check():
            float(x[0])
    assert [each.times for each in outer.copies] == [1, 1]  # two lines
    with pytest.raises(ArgumentError, match="implicit='no' is none of raise, log, allow"):
        sim.check(implicit="no")


PROGRAM = """
import numpy as np
import xferlib as xl

x = xl.to_device(np.arange(4.0), backend="sim")
for _ in range(5):
    while x[0] > 0:
        pass
y = x[x > 1]
"""


def test_a_table_of_lines_is_shown_at_the_end(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    for reaction in ("log", "allow"):
        done = run(str(program), XFERLIB_SIM_IMPLICIT=reaction)
        lines = [each.split() for each in done.stderr.splitlines()[1:]]
        if reaction == "allow":
            assert done.stderr == ""
        else:
            assert [each[0] for each in lines] == ["times", "5", "1"]
            assert [each[-3].rpartition(":")[2] for each in lines[1:]] == ["7", "9"]


UFUNCS = (
    "add",
    "arctan2",
    "exp",
    "floor_divide",
    "hypot",
    "isnan",
    "logical_and",
    "maximum",
    "negative",
    "power",
    "sqrt",
)


@pytest.mark.parametrize("name", UFUNCS)
def test_numpy_s_functions_of_elements_are_computed_on_the_device(name: str) -> None:
    rng = np.random.default_rng()
    ufunc: Any = getattr(np, name)
    given = [rng.uniform(0.5, 2, 5).astype("float32") for _ in range(ufunc.nin)]
    with sim.check(implicit="raise"):
        found = ufunc(*map(xl.to_device, given))
        assert isinstance(found, sim.SimArray)
        expected = ufunc(*given)
        np.testing.assert_allclose(xl.to_host(found), expected, rtol=1e-6)
        assert found.dtype == expected.dtype
        if ufunc.nin == 2:
            assert ufunc(xl.to_device(given[0]), 2).dtype == ufunc(given[0], 2).dtype


@given(
    st.sampled_from(["float32", "float64", "int16"]), st.sampled_from(["float32", "float64", "number"]),
    st.floats(-100, 100, width=16), st.floats(-100, 100, width=16), st.integers(0, 9), st.booleans(),
)  # fmt: skip
def test_arrays_without_axes_are_the_ends_of_a_range(
    one: str, two: str, start: float, stop: float, num: int, endpoint: bool
) -> None:
    first = np.asarray(start).astype(one)
    last: Any = stop if two == "number" else np.asarray(stop).astype(two)
    with sim.check(implicit="raise"):
        x = xl.to_device(first)
        xp = xl.get_array_module(x)
        found = xp.linspace(x, last if two == "number" else xl.to_device(last), num, endpoint=endpoint)
        expected = np.linspace(first, last, num, endpoint=endpoint)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(xl.to_host(found), expected)


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_an_array_without_axes_is_a_spacing(name: str, n: int) -> None:
    spacing = np.random.default_rng().uniform(0.1, 3)
    with sim.check(implicit="raise"):
        x = xl.to_device(np.asarray(spacing))
        found = getattr(xl.get_array_module(x).fft, name)(n, x)
        np.testing.assert_array_equal(xl.to_host(found), getattr(np.fft, name)(n, spacing))
        with pytest.raises(LayoutError, match=rf"{name}: an array of shape \(2,\) is not a number"):
            getattr(xl.get_array_module(x).fft, name)(n, xl.ones(2))
