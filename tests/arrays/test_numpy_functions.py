"""NumPy's methods of arrays, and its names that a namespace has not: they work, or say what does."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.arrays.conftest import Space, same
from xferlib.errors import ArgumentError, UnsupportedArrayError, UnsupportedDTypeError

X = np.arange(12.0).reshape(3, 4)[::-1] - 5

METHODS: list[Callable[[Any], Any]] = [
    lambda x: x.argsort(), lambda x: x.argsort(0), lambda x: x.clip(-1, 3), lambda x: x.clip(max=2),
    lambda x: x.cumsum(), lambda x: x.cumsum(1), lambda x: x.cumprod(0), lambda x: x.flatten(),
    lambda x: x.T.flatten(), lambda x: x.nonzero(), lambda x: x.repeat(2), lambda x: x.repeat(3, axis=0),
    lambda x: (x / 2).round(), lambda x: x.swapaxes(0, -1), lambda x: x.itemsize, lambda x: x.nbytes,
    lambda x: x.repeat(repeats=2), lambda x: x.repeat(3, 0), lambda x: x.argsort(axis=1), lambda x: x.clip(),
    lambda x: x.clip(min=0, max=2), lambda x: x.swapaxes(1, 0), lambda x: x.dot(x.T),
    lambda x: x[0].dot(b=x[1]), lambda x: x.dot(2), lambda x: x[0].conj(), lambda x: x.cumsum(axis=1),
    lambda x: x.cumprod(axis=0), lambda x: x.flatten(), lambda x: x.round(decimals=0),
    lambda x: x.transpose(), lambda x: x.transpose((1, 0)), lambda x: x[None].transpose(2, 0, -2), lambda x: x.T,
    lambda x: x[:, None].mT, lambda x: divmod(x, 3),
    lambda x: divmod(7, x + 20), lambda x: x == None, lambda x: x != "text",  # noqa: E711
]  # fmt: skip


@pytest.mark.parametrize("method", range(len(METHODS)))
def test_the_methods_that_people_type_are_numpys(space: Space, method: int) -> None:
    found, expected = METHODS[method](space.put(X)), METHODS[method](X)
    if isinstance(found, (bool, int)):
        assert np.all(expected == found)
        return
    same(space.get(found), expected)


def test_take_and_fill(space: Space) -> None:
    d, chosen = space.put(X), np.array([2, 0])
    same(space.get(d.take(space.put(chosen))), X.take(chosen))
    same(space.get(d.take(space.put(chosen), axis=1)), X.take(chosen, axis=1))
    d[1].fill(np.float32(3))
    same(space.get(d)[1], np.full(4, 3.0))
    same(space.get(d)[::2], X[::2])


def test_a_product_in_place_fits_into_its_target(space: Space) -> None:
    d = space.put(np.eye(2))
    d @= space.put(np.full((2, 2), 1.5))
    same(space.get(d), np.full((2, 2), 1.5))
    whole = space.put(np.eye(2, dtype="int64"))
    with pytest.raises(TypeError, match="float64 does not fit into int64"):
        whole @= d
    same(space.get(whole), np.eye(2, dtype="int64"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: operator.ixor(x, 3), "bitwise_xor of float64 and int does not exist"),
        (lambda x: operator.ilshift(x, x), "bitwise_left_shift of float64 and float64 does not exist"),
        (lambda x: operator.isub(x > 0, x > 0), "subtract of bool and bool does not exist"),
        (lambda x: operator.imul(x, 1j), "complex128 does not fit into float64"),
    ],
)
def test_a_result_that_does_not_exist_or_fit_in_place_is_a_type_error(space: Space, change: Any, words: str) -> None:
    d = space.put(X)
    with pytest.raises(UnsupportedDTypeError, match=words):
        change(d)
    same(space.get(d), X)


def test_round_takes_no_decimals(space: Space) -> None:
    d = space.put(X / 4)
    same(space.get(d.round(0)), (X / 4).round())
    with pytest.raises(ArgumentError, match="decimals=1; only 0 is known"):
        d.round(1)


def functions(module: Any) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_") and callable(getattr(module, name))]


def advised(space: Space, holder: Any, name: str) -> str | None:
    """The function that the error for a missing name advises, which must be there."""
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as raised:
        getattr(holder, name)
    found = re.search(r"use get_array_module\(x\)\.([\w.]+)", str(raised.value))
    if found is None:
        return None
    assert operator.attrgetter(found[1])(space.xp) is not None
    return found[1]


def test_missing_names_name_what_there_is(space: Space) -> None:
    d, xp = space.put(X), space.xp
    found: dict[str, str | None] = {}
    for holder, module in ((xp, np), (xp.linalg, np.linalg), (xp.fft, np.fft), (d, np.ndarray)):
        missing = [name for name in functions(module) if not hasattr(holder, name)]
        found |= {name: advised(space, holder, name) for name in missing}
    assert len([each for each in found.values() if each]) > 20
    assert found["concatenate"] == "concat"
    assert found["norm"] == "linalg.vector_norm"
    assert found["trace"] == "linalg.trace"
    assert found["unwrap"] is None
    with pytest.raises(AttributeError, match=r"use numpy.unwrap with xferlib.to_host\(x\)"):
        _ = xp.unwrap
    with pytest.raises(AttributeError, match=r"xferlib.to_host\(x\)"):
        _ = d.partition


def test_advice_gives_the_same_numbers(space: Space) -> None:
    d, xp = space.put(X), space.xp
    for name, args in {
        "absolute": (), "amax": (), "arctan": (), "arctan2": (X,), "around": (), "power": (2.0,),
        "invert": (), "left_shift": (3,), "true_divide": (3.0,), "trace": (), "cumsum": (0,), "fabs": (),
    }.items():  # fmt: skip
        x = X.astype(np.int64) if name in ("invert", "left_shift") else X
        with pytest.raises(AttributeError) as raised:
            getattr(xp, name)
        instead = str(raised.value).partition("get_array_module(x).")[2]
        options = {"axis": args[0]} if name == "cumsum" else {}
        given = [space.put(each) if isinstance(each, np.ndarray) else each for each in args] if not options else []
        found = space.get(operator.attrgetter(instead)(xp)(space.put(x), *given, **options))
        expected = getattr(np, name)(x, *args)
        np.testing.assert_allclose(found, expected, rtol=1e-15)
    same(space.get(d), X)


def composed(space: Space, name: str) -> str:
    """The code that the error for a missing name says to write; an empty string if it says none."""
    with pytest.raises(AttributeError) as raised:
        getattr(space.xp, name)
    return str(raised.value).partition("; write ")[2].removesuffix(" of matrices")


def test_advice_of_several_calls_gives_numpys_result(space: Space, tmp_path: Path) -> None:
    """The code runs as it stands in the message, in a program of these names."""
    numpys: dict[str, Any] = {
        "copy": X, "deg2rad": np.deg2rad(X), "identity": np.identity(4), "ndim": X.ndim, "rad2deg": np.rad2deg(X),
        "shape": X.shape, "size": X.size,
    }  # fmt: skip
    x, path = space.put(X), tmp_path / "saved.npz"
    program = {"x": x, "xp": space.xp, "xferlib": xl, "n": 4, "path": path, "tree": {"x": x}, "seed": 3}
    xl.save(path, x)
    advised = {name: composed(space, name) for name in [*functions(np), "random"] if not hasattr(space.xp, name)}
    assert set(numpys) < {name for name, advice in advised.items() if advice}
    for name, advice in advised.items():
        for part in filter(None, advice.replace(", or ", " and ").split(" and ")):
            found = eval(part, program)
            if name in numpys:
                found = space.get(found) if hasattr(found, "shape") else found
                np.testing.assert_allclose(found, numpys[name], rtol=1e-15)


def test_unknown_names_are_pythons_error(space: Space) -> None:
    for holder in (space.put(X), space.xp, space.xp.linalg):
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'$"):
            _ = holder.nonsense
        assert not hasattr(holder, "__cuda_nonsense__")


def test_none_is_no_operand(space: Space) -> None:
    d = space.put(X)
    for call in (lambda: d + None, lambda: space.xp.equal(d, None), lambda: space.xp.maximum(None, d)):
        with pytest.raises(UnsupportedArrayError, match="is neither an array nor a number"):
            call()
