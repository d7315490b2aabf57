"""The seam is as narrow as the docs say, and what is optional is optional."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.fake import FakeBackend
from xferlib.backends.base import Backend, FastPath, HostBackend
from xferlib.testing import assert_same_bits, load_backend
from xferlib.testing.strategies import bits_of

pytestmark = pytest.mark.usefixtures("plugins")


def test_the_seam_is_narrow() -> None:
    """A new device needs nineteen methods, a library on the CPU eight; all else has a default or is optional."""
    assert len(Backend.__abstractmethods__) == 19
    assert HostBackend.__abstractmethods__ == {"empty", "view", "host_view"}


def test_the_page_for_backends_names_the_methods_that_one_may_want() -> None:
    """All that must be written, and what a library can tell of its devices."""
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "add-a-backend.md").read_text(encoding="utf-8")
    facts = {name for name in vars(Backend) if name.startswith("device_")} - {"device_of"}  # of an array
    assert not {name for name in Backend.__abstractmethods__ | facts if f"`{name}`" not in page}


def test_a_backend_needs_no_more_than_the_seam_asks_for() -> None:
    """The fake accelerator is written as a stranger would: it has no method that the seam does not name."""
    required = Backend.__abstractmethods__
    optional = {*vars(Backend), *vars(FastPath)}
    own = {name for name, each in vars(FakeBackend).items() if callable(each) and not name.startswith("_")}
    assert own - {"array_class"} <= required | optional
    assert len(own & required) == len(required)


def test_each_cuda_library_has_the_methods_that_the_shared_class_leaves_to_it() -> None:
    """One that lacked them would go on: calls in C fail, and are done again, step by step."""
    files = (Path(xl.__file__).parent / "backends").rglob("*.py")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    classes = {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    methods = {
        name: {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        for name, node in classes.items()
    }
    left = {
        name
        for name, each in methods["CudaBackend"].items()
        if isinstance(each.body[-1], ast.Raise) and "NotImplementedError" in ast.dump(each.body[-1])
    }
    heirs = [name for name, node in classes.items() if any("CudaBackend" in ast.dump(base) for base in node.bases)]
    assert len(heirs) == 3
    assert "_empty" in left
    for name in heirs:
        assert left <= methods[name].keys(), name


def test_a_backend_without_the_fast_path_gives_the_same(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "fast", None)
    for nbytes in (12, 100_000, 5 << 20):
        x = bits_of(nbytes, np.uint8, seed=nbytes)
        d = xl.to_device(x, backend="fake")
        assert_same_bits(xl.to_host(d), x)
        xl.to_device(x[::-1].copy(), out=d)
        assert_same_bits(xl.to_host_async(d).result(), x[::-1])
        assert_same_bits(xl.to_host(xl.to_device_async(x, backend="fake").result()), x)
        (one,) = xl.prefetch([x], device="fake:sim:0")
        assert_same_bits(xl.to_host(one), x)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((3, 0), (0, 0)), ((0, 3), (0, 0)), ((2, 0, 3), (0, 0, 0)), ((2, 3), (0, 8))],
)
def test_an_array_may_be_written_unless_its_elements_share_memory(
    shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    sim = load_backend("sim")
    with xl.use_backend("sim"):
        x = xl.zeros(3)
        view = sim.strided_view(x, 0, shape, strides, x.dtype)
    assert sim.view(view).is_writable == (0 in shape)
