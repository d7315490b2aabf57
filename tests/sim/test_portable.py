"""Portable mode: what is not the same on all backends is refused, and what the message says instead is the same."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import xferlib as xl
from tests.processes import printed
from xferlib import sim

ROOT = Path(__file__).resolve().parents[2]
Use = Callable[[Any, Any, Any], Any]


class Ism(NamedTuple):
    """A use of arrays as NumPy has them, and the portable one; of a float32 matrix ``x`` and an int64 one ``i``."""

    use: Use
    portable: Use
    says: str


ISMS = {
    "astype": Ism(lambda xp, x, i: x.astype("f8"), lambda xp, x, i: xp.astype(x, xp.float64), "xp.astype(x, dtype)"),
    "max": Ism(lambda xp, x, i: x.max(axis=0), lambda xp, x, i: xp.max(x, axis=0), "xp.max(x, axis=axis)"),
    "std": Ism(lambda xp, x, i: x.std(), lambda xp, x, i: xp.std(x), "xp.std(x, axis=axis, correction=0)"),
    "copy": Ism(lambda xp, x, i: x.copy(), lambda xp, x, i: xp.asarray(x, copy=True), "xp.asarray(x, copy=True)"),
    "copy.copy": Ism(
        lambda xp, x, i: _changed(copy.copy(x), x), lambda xp, x, i: _changed(xp.asarray(x, copy=True), x), "copy=True"
    ),
    "negative step": Ism(lambda xp, x, i: x[::-1], lambda xp, x, i: xp.flip(x, axis=0), "xp.flip(x, axis=axis)"),
    "dtype string": Ism(
        lambda xp, x, i: xp.asarray(x.dtype == "float32"), lambda xp, x, i: xp.asarray(x.dtype == xp.float32),
        "x.dtype == xp.float32",
    ),
    "dtype of NumPy": Ism(
        lambda xp, x, i: xp.asarray(x.dtype == np.float32), lambda xp, x, i: xp.asarray(x.dtype == xp.float32),
        "x.dtype == xp.float32",
    ),
    "dtype of NumPy on the left": Ism(
        lambda xp, x, i: xp.asarray(np.float32 == x.dtype), lambda xp, x, i: xp.asarray(x.dtype == xp.float32),
        "x.dtype == numpy.float32",
    ),
    "dtype of a host array": Ism(
        lambda xp, x, i: xl.to_device(np.zeros(3, dtype=x.dtype)), lambda xp, x, i: xp.zeros(3, dtype=x.dtype),
        "xl.to_host(x).dtype",
    ),
    "kind of dtypes": Ism(
        lambda xp, x, i: xp.asarray(np.issubdtype(x.dtype, np.floating)),
        lambda xp, x, i: xp.asarray(xp.isdtype(x.dtype, "real floating")), "xp.isdtype(x.dtype, kind)",
    ),
    "dtype kind": Ism(
        lambda xp, x, i: xp.asarray(x.dtype.kind == "f"),
        lambda xp, x, i: xp.asarray(xp.isdtype(x.dtype, "real floating")), "xp.isdtype(x.dtype, kind)",
    ),
    "scalar": Ism(lambda xp, x, i: x * np.float64(2), lambda xp, x, i: x * 2.0, "float(value)"),
    "scalar on the left": Ism(lambda xp, x, i: np.float64(2) * x, lambda xp, x, i: 2.0 * x, "float(value)"),
    "size": Ism(lambda xp, x, i: x * x.size, lambda xp, x, i: x * math.prod(x.shape), "math.prod(x.shape)"),
    "T": Ism(
        lambda xp, x, i: _T(xp.reshape(x, (2, 1, 3))),
        lambda xp, x, i: xp.permute_dims(xp.reshape(x, (2, 1, 3)), (2, 1, 0)), "xp.permute_dims(x, axes)",
    ),
    "integers and a float": Ism(
        lambda xp, x, i: i * 0.5, lambda xp, x, i: xp.astype(i, xp.float64) * 0.5, "xp.astype(x, dtype)"
    ),
    "integers and floats": Ism(
        lambda xp, x, i: i + x, lambda xp, x, i: xp.astype(i, x.dtype) + x, "xp.astype of one of them"
    ),
    "quotient": Ism(lambda xp, x, i: i / (i + 1), lambda xp, x, i: i // (i + 1), "x // y"),
    "no axes": Ism(
        lambda xp, x, i: x * xp.asarray(2.0), lambda xp, x, i: xp.astype(x, xp.float64) * xp.asarray(2.0),
        "xp.astype of one of them",
    ),
    "uint16": Ism(
        lambda xp, x, i: xp.astype(i, xp.uint16) + 1, lambda xp, x, i: xp.add(xp.astype(i, xp.uint16), 1),
        "xp.add(x, y)",
    ),
    "divmod": Ism(lambda xp, x, i: divmod(x, 2.0)[0], lambda xp, x, i: x // 2.0, "x // y, x % y"),
    "fill": Ism(lambda xp, x, i: _filled(x), lambda xp, x, i: _assigned(x), "x[...] = value"),
}  # fmt: skip


def _T(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch deprecates it
        return x.T


def _changed(other: Any, x: Any) -> Any:
    other[0, 0] = 7.0
    return x


def _filled(x: Any) -> Any:
    x.fill(2.0)
    return x


def _assigned(x: Any) -> Any:
    x[...] = 2.0
    return x


def _outcome(backend: str, use: Use) -> Any:
    with xl.use_backend(backend):
        x = xl.to_device(np.arange(1.0, 7.0, dtype="float32").reshape(2, 3))
        i = xl.to_device(np.arange(6).reshape(2, 3))
        try:
            found = xl.to_host(use(xl.get_array_module(x), x, i))
        except (TypeError, AttributeError, ValueError, RuntimeError, UserWarning) as error:
            return type(error)
        return found.dtype, found.shape, found.tobytes()


@pytest.mark.parametrize("name", ISMS)
def test_what_is_refused_differs_and_what_the_message_says_does_not(name: str) -> None:
    ism = ISMS[name]
    with sim.check(strict=False):
        assert _outcome("sim", ism.use) == _outcome("numpy", ism.use)
    with sim.check(strict=True):
        assert issubclass(_outcome("sim", ism.use), sim.NotPortableError)
        assert _outcome("sim", ism.portable) == _outcome("numpy", ism.portable)
        x: Any = xl.to_device(np.ones((2, 3), "float32"), backend="sim")
        i = xl.to_device(np.ones((2, 3), "int64"), backend="sim")
        with pytest.raises(sim.NotPortableError) as raised:
            ism.use(xl.get_array_module(x), x, i)
    assert ism.says in str(raised.value)
    assert "is not the same on all backends" in str(raised.value)


@pytest.mark.parametrize("name", ISMS)
def test_torch_is_why(name: str) -> None:
    pytest.importorskip("torch")
    ism = ISMS[name]
    assert _outcome("torch", ism.use) != _outcome("numpy", ism.use)
    assert _outcome("torch", ism.portable) == _outcome("numpy", ism.portable)


def _members() -> list[str]:
    from xferlib.sim import portable

    return sorted(portable._INSTEAD)


@pytest.fixture
def strict() -> Iterator[None]:
    with xl.use_backend("sim"), sim.check(strict=True):
        yield


@pytest.mark.parametrize("ask", [np.finfo, np.iinfo, np.dtype])
def test_numpy_learns_no_dtype_of_an_array(ask: Any, strict: None) -> None:
    with pytest.raises(sim.NotPortableError, match=r"x\.dtype as a dtype of NumPy"):
        ask(xl.zeros(3).dtype)


@pytest.mark.parametrize("other", ["auto", "a", "datetime64[s]", "", str])
def test_a_dtype_is_compared_with_what_names_none(other: Any, strict: None) -> None:
    assert xl.zeros(3).dtype != other


@pytest.mark.parametrize("name", _members())
def test_members_beyond_the_standard_are_not_there(name: str, strict: None) -> None:
    x: Any = xl.zeros((2, 3))
    assert not hasattr(x, name)
    assert name not in dir(x)
    with pytest.raises(sim.NotPortableError, match=rf"^x\.{name} is not the same on all backends"):
        getattr(x, name)


def test_every_member_is_of_the_standard_or_has_a_portable_spelling() -> None:
    """Lest a method that is added later escapes the mode."""
    standard = {"T", "device", "dtype", "mT", "ndim", "shape", "item", "itemsize", "nbytes", "tolist"}
    internal = {"allocation", "info", "is_whole", "kind", "memory", "offset", "spans"}
    found = {name for name in vars(sim.SimArray) if not name.startswith("_")}
    assert found - set(_members()) == standard | internal


def test_code_of_the_library_is_not_refused(strict: None) -> None:
    x: Any = xl.to_device(np.arange(6, dtype="float32").reshape(2, 3))
    xp = xl.get_array_module(x)
    assert xl.to_host(copy.deepcopy(x) + 1).tolist() == [[1, 2, 3], [4, 5, 6]]
    for function in (xp.sum, xp.mean, xp.std, xp.argsort, xp.flip, xp.max, xp.zeros_like, xp.linalg.svdvals):
        assert isinstance(function(x), sim.SimArray)
    assert {x.dtype: 1}[xp.zeros(1, dtype=x.dtype).dtype] == 1
    assert xp.result_type(x.dtype, xp.float64) == xp.float64
    assert xl.zeros(2, dtype=x.dtype).dtype == x.dtype
    assert xl.to_device(np.ones(3), dtype=x.dtype).dtype == xp.float32
    assert str(x.dtype) == "xp.float32"
    assert len([*xl.prefetch(np.ones((2, 3)) for _ in range(2))]) == 2


def test_reports_name_the_line_of_the_program(strict: None) -> None:
    one, two = xl.Stream(), xl.Stream()
    with one:
        x = xl.ones(4)
    with two, pytest.raises(sim.RaceError) as raised:
        x * 2.0
    assert raised.value.race.second.site.file == __file__
    assert raised.value.race.second.what == "multiply"


def test_the_mode_ends_with_its_block() -> None:
    members = dict(vars(sim.SimArray))
    for _ in range(2):
        with sim.check(strict=True):
            with sim.check(strict=False):
                assert dict(vars(sim.SimArray)) == members
            assert dict(vars(sim.SimArray)) != members
        assert dict(vars(sim.SimArray)) == members


AGAIN = """
import xferlib as xl
from xferlib.sim import SimArray, backend, portable

xl.zeros(3, backend="sim")
before = SimArray._namespace
backend.SimBackend()
assert SimArray._namespace is not before
assert portable.is_on() and "size" not in vars(SimArray)
portable.switch(False)
assert SimArray.__add__ is SimArray._namespace.add
assert "size" in vars(SimArray)
"""


def test_a_namespace_that_is_made_meanwhile_has_its_own_members() -> None:
    printed("-c", AGAIN, XFERLIB_SIM_STRICT="1")


PROGRAM = """
import xferlib as xl
x = xl.zeros(3, backend="sim")
try:
    print(x.size)
except xl.sim.NotPortableError as error:
    print("refused")
"""


def test_the_variable_turns_it_on() -> None:
    for value, expected in (("1", "refused"), ("0", "3"), ("auto", "3")):
        assert printed("-c", PROGRAM, XFERLIB_SIM_STRICT=value).strip() == expected
